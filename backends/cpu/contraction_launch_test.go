package cpu_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// matricesFor is a launch of a product of m × k and k × n, rows side by side.
func matricesFor(r *rand.Rand, t isa.Type, m, n, k int64) (sh shape, contents [][]byte, params []uint64) {
	size := int64(t.Size())
	contents = [][]byte{floats(r, t, m*k, false), floats(r, t, k*n, false), floats(r, t, m*n, false), floats(r, t, m*n, false)}
	return linear(m*n, 64), contents, []uint64{uint64(m), uint64(n), uint64(k), uint64(k * size), uint64(size), uint64(n * size), uint64(size)}
}

// TestContractionsThatAreLaunchedOtherwise: whatever a launch says, the outcome is the oracle's, faults and their places
// included, and gemm has no part in what it cannot do.
func TestContractionsThatAreLaunchedOtherwise(t *testing.T) {
	brief.Alone(t)
	const m, n, k = 33, 40, 70
	type launch struct {
		sh       shape
		contents [][]byte
		params   []uint64
	}
	for _, c := range []struct {
		name   string
		parts  []string
		change func(*launch)
		taken  bool
		faults bool
	}{
		{"as it should be", []string{byDivision, growing, relu, indexed}, func(*launch) {}, true, false},
		{"a lacks an element", []string{byDivision, growing, indexed}, func(l *launch) { l.contents[0] = l.contents[0][:len(l.contents[0])-4] }, false, true},
		{"b lacks a byte", []string{byDivision, growing, indexed}, func(l *launch) { l.contents[1] = l.contents[1][:len(l.contents[1])-1] }, false, true},
		{"a has an element alone", []string{byDivision, growing, indexed}, func(l *launch) { l.contents[0] = l.contents[0][:4] }, false, true},
		{"more lanes than rows", []string{byDivision, growing, indexed}, func(l *launch) {
			l.sh = linear((m+1)*n, 64)
			l.contents[2] = make([]byte, 4*(m+1)*n)
			l.contents[3] = make([]byte, 4*(m+1)*n)
		}, false, true},
		{"fewer lanes, in the midst of a row", []string{byDivision, growing, twice, indexed}, func(l *launch) {
			l.sh = linear((m-1)*n+7, 64)
			l.contents[2] = make([]byte, 4*((m-1)*n+7))
			l.contents[3] = make([]byte, 4*((m-1)*n+7))
		}, true, false},
		{"a row of no elements", []string{byDivision, growing, indexed}, func(l *launch) { l.params[1] = 0 }, false, true},
		{"columns in front of each other", []string{byDivision, growing, indexed}, func(l *launch) { l.params[6] = 1<<64 - 4 }, false, true},
		{"strides that wrap", []string{byDivision, growing, indexed}, func(l *launch) { l.params[3] = 1 << 62 }, false, true},
		{"one row again and again", []string{byDivision, growing, indexed}, func(l *launch) { l.params[3] = 0 }, true, false},
		{"columns that overlap, between elements", []string{byDivision, growing, indexed}, func(l *launch) { l.params[6] = 1 }, true, false},
		{"with enough fuel", []string{byDivision, growing, indexed}, func(l *launch) { l.sh.fuel = 1000 }, false, false},
		{"with too little fuel", []string{byDivision, growing, indexed}, func(l *launch) { l.sh.fuel = 10 }, false, true},
		{"a fault behind the loop", []string{byDivision, growing, relu, indexed}, func(l *launch) { l.contents[3] = l.contents[3][:4*(n-3)] }, true, true},
		{"a fault before the loop", []string{byDivision, "ldg.T z, d[16000]\nmul.u64 o, g, SIZE\nstg.T z, c[o]\n", growing, "add.T acc, acc, z\n", indexed}, func(*launch) {}, true, true},
		{"a slot by its number", []string{byDivision, growing, "mov.i32 h, 3\nldg.T z, @h[4]\nadd.T acc, acc, z\n", indexed}, func(*launch) {}, false, false},
		{"a slot by the number behind the last", []string{byDivision, growing, "mov.i32 h, 4\nldg.T z, @h[4]\nadd.T acc, acc, z\n", indexed}, func(*launch) {}, false, true},
		{"guarded by blocks", []string{byBlocks, growing, relu, stored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 1}, block: [3]uint32{16, 4, 1}, dims: []int64{5 * 9 * 64}}
		}, true, false},
		{"batches of which the last is shorter, in a way not proved", []string{byBlocks, "sreg bz, block.z\ncvt.u64.u32 bz64, bz\nmul.u64 t, bz64, h\nadd.u64 t, t, i\nset.ge.u64 p, t, 79\nbra end, p\n", byBatches, relu, batchStored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 3}, block: [3]uint32{16, 4, 1}, dims: []int64{3 * 5 * 9 * 64}}
			r := rand.New(rand.NewPCG(5, 7))
			l.contents[0], l.contents[1], l.contents[2] = floats(r, isa.F32, (2*m+13)*k, false), floats(r, isa.F32, 3*n*k, false), floats(r, isa.F32, 3*m*n, false)
		}, false, false},
		{"batches of which the last lacks an element", []string{byBlocks, byBatches, relu, batchStored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 3}, block: [3]uint32{16, 4, 1}, dims: []int64{3 * 5 * 9 * 64}}
			r := rand.New(rand.NewPCG(5, 7))
			l.contents[0], l.contents[1], l.contents[2] = floats(r, isa.F32, 3*m*k-1, false), floats(r, isa.F32, 3*n*k, false), floats(r, isa.F32, 3*m*n, false)
		}, false, true},
		{"batches one in front of the other", []string{byBlocks, strings.Replace(byBatches, "add.u64 oa, oa, za", "mul.u64 x, ar, h\nadd.u64 x, x, x\nadd.u64 oa, oa, x\nsub.u64 oa, oa, za", 1), relu, batchStored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 3}, block: [3]uint32{16, 4, 1}, dims: []int64{3 * 5 * 9 * 64}}
			r := rand.New(rand.NewPCG(5, 7))
			l.contents[0], l.contents[1], l.contents[2] = floats(r, isa.F32, 3*m*k, false), floats(r, isa.F32, 3*n*k, false), floats(r, isa.F32, 3*m*n, false)
		}, false, false},
		{"columns that go with y and z", []string{byBlocks, strings.Replace(byBatches, "add.u64 ob, ob, zb", "add.u64 ob, ob, zb\nmul.u64 x, i, 4\nadd.u64 ob, ob, x", 1), relu, batchStored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 3}, block: [3]uint32{16, 4, 1}, dims: []int64{3 * 5 * 9 * 64}}
			r := rand.New(rand.NewPCG(5, 7))
			l.contents[0], l.contents[1], l.contents[2] = floats(r, isa.F32, 3*m*k, false), floats(r, isa.F32, 3*n*k+m, false), floats(r, isa.F32, 3*m*n, false)
		}, false, false},
		{"guarded by blocks, and stray", []string{byBlocks, growing, relu, stored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 1}, block: [3]uint32{16, 4, 1}, dims: []int64{5 * 9 * 64}}
			l.params[0]++
		}, false, true},
		{"blocks of rows with gaps between", []string{strings.Replace(byBlocks, "mad.u32 i, by, dy", "mad.u32 i, by, 8", 1), growing, relu, stored}, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 5, 1}, block: [3]uint32{16, 4, 1}, dims: []int64{5 * 5 * 64}}
		}, false, false},
		{"offsets that wrap", []string{byDivision, strings.Replace(growing, "mul.u64 oa, i, ar",
			"cvt.u32.u64 i32, i\ncvt.u32.u64 r32, ar\nmul.u32 i32, i32, r32\nmul.u32 i32, i32, r32\ncvt.u64.u32 oa, i32", 1), indexed},
			func(l *launch) {
				l.params[2], l.params[3] = 1000, 1<<16
				l.contents[1] = floats(rand.New(rand.NewPCG(5, 5)), isa.F32, 1000*n, false)
			}, false, false},
		{"a matrix by itself", []string{byDivision, strings.ReplaceAll(growing, "b[ob]", "a[ob]"), indexed}, func(l *launch) {
			l.params[2], l.params[3] = m, 4*m // a is m × m
			l.params[1], l.params[5] = m, 4*m
			l.sh = linear(m*m, 64)
			l.contents[2], l.contents[3] = l.contents[2][:4*m*m], l.contents[3][:4*m*m]
		}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verify(t, contractionText(isa.F32, c.parts...))
			var l launch
			l.sh, l.contents, l.params = matricesFor(rand.New(rand.NewPCG(3, 4)), isa.F32, m, n, k)
			c.change(&l)
			want := run(t, interp.New(), v, l.sh, l.contents, nil, l.params)
			require.Equal(t, c.faults, want.err != nil, "%v", want.err)
			for _, threads := range []int{1, 2} {
				x := newReady(t, machine(t, threads), v)
				got := x.run(t, new(host).block, l.sh, l.contents, nil, l.params)
				require.NoError(t, same(v, got, want))
				require.Equal(t, c.taken, cpu.Contracted(x.k) > 0)
				// Memory that is no multiple of an element's size behind another.
				got = x.run(t, func(n int) []byte { return new(host).block(n + 3)[3:] }, l.sh, l.contents, nil, l.params)
				require.NoError(t, same(v, got, want))
				x.k.Release()
			}
		})
	}
}

// TestRandomContractions: of any sizes and strides.
func TestRandomContractions(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(5, 6))
	taken := 0
	rounds := 60
	if brief.On() {
		rounds = 20
	}
	for range rounds {
		ty := []isa.Type{isa.F32, isa.F64}[r.IntN(2)]
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		v := verify(t, contractionText(ty, pick(byDivision, byLanes), pick(growing, anew, flat), pick("", relu, scaled, gelu, twice, gelu+twice), pick(indexed, stored)))
		m, n, k := 1+r.Int64N(40), 1+r.Int64N(40), r.Int64N(1100)
		size := int64(ty.Size())
		sh, _, params := matricesFor(r, ty, m, n, k)
		strides := func(rows, cols int64) (row, col int64) {
			col = 1 + r.Int64N(2)
			row = cols*col + r.Int64N(3)
			if r.IntN(2) == 0 {
				row, col = col, rows*col
			}
			return row * size, col * size
		}
		ar, ac := strides(m, k)
		br, bc := strides(k, n)
		params = append(params[:3], uint64(ar), uint64(ac), uint64(br), uint64(bc))
		contents := [][]byte{floats(r, ty, ((m-1)*ar+max(k-1, 0)*ac)/size+1, r.IntN(3) == 0), floats(r, ty, (max(k-1, 0)*br+(n-1)*bc)/size+1, false),
			floats(r, ty, m*n, false), floats(r, ty, m*n, false)}
		want := run(t, interp.New(), v, sh, contents, nil, params)
		x := newReady(t, machine(t, 1+r.IntN(2)), v)
		got := x.run(t, new(host).block, sh, contents, nil, params)
		require.NoError(t, same(v, got, want), "%v %d %d %d", v.Program, m, n, k)
		if cpu.Contracted(x.k) > 0 {
			taken++
		}
		x.k.Release()
	}
	require.Greater(t, taken, rounds/2)
}

// TestContractionsEnd: who cancels has no product.
func TestContractionsEnd(t *testing.T) {
	v := verify(t, contractionText(isa.F32, byDivision, growing, indexed))
	sh, contents, params := matricesFor(rand.New(rand.NewPCG(7, 8)), isa.F32, 64, 64, 64)
	m := newReady(t, machine(t, 1), v)
	defer m.k.Release()
	l := &backends.Launch{Params: params, Grid: sh.grid, Block: sh.block, Rank: 1, N: uint64(sh.n()), Record: new(backends.Record)}
	l.Shape[0] = sh.n()
	for _, c := range contents {
		w := backends.View{Addr: addr(c), Bytes: int64(len(c)), Type: isa.F32, Rank: 1, Shape: l.Shape}
		w.Stride[0] = 1
		l.Slots = append(l.Slots, w)
	}
	before := slices.Clone(contents[2])
	l.Record.Stop()
	_, err := m.s.Launch(m.k, l)
	require.True(t, errors.Is(err, backends.ErrCancelled), "%v", err)
	require.Equal(t, before, contents[2])

	// What lies in a factor's place is not multiplied before it is written.
	l.Record = new(backends.Record)
	l.Slots[2].Addr = l.Slots[0].Addr
	_, err = m.s.Launch(m.k, l)
	require.NoError(t, err)
	require.EqualValues(t, 1, cpu.Contracted(m.k)) // the first
	require.Positive(t, m.d.(backends.Trimmer).Trim())
}

// TestContractionsSideBySide: callers that launch the same kernel at once have each its own product.
func TestContractionsSideBySide(t *testing.T) {
	v := verify(t, contractionText(isa.F32, byDivision, growing, relu, indexed))
	m := newReady(t, machine(t, 4), v)
	defer m.k.Release()
	var all sync.WaitGroup
	for i := range uint64(4) {
		sh, contents, params := matricesFor(rand.New(rand.NewPCG(9, i)), isa.F32, 40, 50, 60)
		want := run(t, on(t, jit.None, 1), v, sh, contents, nil, params)
		all.Go(func() {
			for range 5 {
				assert.NoError(t, same(v, m.run(t, new(host).block, sh, contents, nil, params), want))
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 20, cpu.Contracted(m.k))
}
