package gemm

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
)

// lineOf is a product of rows along k by one column.
func lineOf(u multiplier, m, k int64) product {
	size := u.size()
	return product{lib: wide(), t: i32, unit: u, in: element{size: size}, out: element{size: 4}, m: m, n: 1, k: k,
		ars: k * size, acs: size, brs: size, bcs: size, crs: 4, ccs: 4}
}

// TestIsLines: rows along k by one column of integers are done so, unless one row takes longer than a call may.
func TestIsLines(t *testing.T) {
	for name, c := range map[string]struct {
		u    multiplier
		k    int64
		set  func(p *product)
		want bool
	}{
		"i8":             {u: dotsI8, k: 4096, want: true},
		"u8":             {u: dotsU8, k: 4096, want: true},
		"i16":            {u: dotsI16, k: 4096, want: true},
		"bf16":           {u: dotsBF16, k: 4096},
		"tiles":          {u: tilesI8, k: 4096},
		"numbers":        {u: noMultiplier, k: 4096},
		"long bytes":     {u: dotsI8, k: 64 * lineSteps, want: true},
		"too long bytes": {u: dotsI8, k: 64*lineSteps + 1},
		"long words":     {u: dotsI16, k: 32 * lineSteps, want: true},
		"too long words": {u: dotsI16, k: 32*lineSteps + 1},
		"two columns":    {u: dotsI8, k: 4096, set: func(p *product) { p.n = 2 }},
		"elements apart": {u: dotsI8, k: 4096, set: func(p *product) { p.acs = 2 }},
		"rows apart":     {u: dotsI8, k: 4096, set: func(p *product) { p.ars += 100 }, want: true},
		"B apart":        {u: dotsI8, k: 4096, set: func(p *product) { p.brs = 3 }, want: true},
	} {
		p := lineOf(c.u, 100, c.k)
		if c.set != nil {
			c.set(&p)
		}
		require.Equal(t, c.want, p.isLines(), name)
	}
}

// TestCallsOfLines: calls have all rows once, and no more of them than a call may take; nothing that a product before
// left in the arguments moves B or the sums from tile to tile, or has anything fetched.
func TestCallsOfLines(t *testing.T) {
	if err := jit.Available(jit.AVX512); err != nil {
		t.Skipf("AVX-512 is missing, for which alone such calls are made: %v", err)
	}
	for _, u := range []multiplier{dotsI8, dotsU8, dotsI16} {
		for i, s := range [][2]int64{{1, 16}, {15, 65}, {16, 64}, {500, 63}, {33, 4099}, {2000, 33000}, {40, u.stepWide() * lineSteps}} {
			p := lineOf(u, s[0], s[1])
			apart := i&1 != 0 // elements of the result
			if apart {
				p.crs = 8
			}
			w := &worker{p: &p, record: &backends.Record{}, written: &sequenceOf{}, tile: &tileArgs{aNext: 64, bNext: 64, sNext: 64, cNext: 64, next: 64}}
			w.lines(&p, 0, p.m)
			require.NoError(t, w.err)
			row := int64(0)
			for _, call := range w.written.calls {
				a := (*tileArgs)(unsafe.Pointer(unsafe.SliceData(call.args)))
				require.Equal(t, [3]uintptr{}, [3]uintptr{a.bNext, a.sNext, a.next})
				require.Equal(t, [2]uintptr{uintptr(row * p.ars), uintptr(row * p.crs)}, [2]uintptr{a.a, a.c})
				require.True(t, a.tiles == 1 || a.tiles > 1 && a.tiles*a.steps <= lineSteps, "%v: %d tiles of %d steps", s, a.tiles, a.steps)
				high := min(p.m-row, tileRows)
				if apart {
					require.Equal(t, []uint64{uint64(high), 1}, []uint64{uint64(a.lines[0]), a.mask})
				} else { // a tile's are a line
					require.Equal(t, []uint64{1, 1<<high - 1}, []uint64{uint64(a.lines[0]), a.mask})
				}
				row += a.tiles * high
			}
			require.Equal(t, p.m, row)
		}
	}
}

// TestLinesAreCancelled: rows are not begun once a launch is cancelled.
func TestLinesAreCancelled(t *testing.T) {
	p := lineOf(dotsI8, 100, 64)
	w := &worker{p: &p, record: &backends.Record{}, written: &sequenceOf{}, tile: &tileArgs{}}
	w.record.Stop()
	w.lines(&p, 0, p.m)
	require.True(t, w.stopped)
	require.Empty(t, w.written.calls)
}
