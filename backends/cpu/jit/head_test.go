package jit

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// grid is memory from the first byte of a line on, of which views are parts.
func grid[T any](n int) []T {
	var t T
	size := int(unsafe.Sizeof(t))
	all := make([]T, n+2*cacheLine)
	skip := (cacheLine - int(uintptr(unsafe.Pointer(unsafe.SliceData(all))))%cacheLine) % cacheLine / size
	return all[skip : skip+n]
}

// Results that begin anywhere in a line are those of results that begin with one, and what
// lies around them stays: parts of grids and of rows, past the caches and not, of one
// output and of several that lie alike, or do not. Branches that all lanes come out of make no
// difference.
func TestHeads(t *testing.T) {
	brief.Alone(t)
	if err := Available(AVX512); err != nil {
		t.Skipf("AVX-512 is missing: %v", err)
	}
	t.Run("u32", func(t *testing.T) { testHeads[uint32](t, isa.U32, false) })
	t.Run("u64", func(t *testing.T) { testHeads[uint64](t, isa.U64, false) })
	t.Run("branch", func(t *testing.T) { testHeads[uint32](t, isa.U32, true) })
	t.Run("u16", func(t *testing.T) { testHeads[uint16](t, isa.U16, false) }) // packed
	t.Run("u8", func(t *testing.T) { testHeads[uint8](t, isa.U8, false) })
	t.Run("u8 branch", func(t *testing.T) { testHeads[uint8](t, isa.U8, true) }) // and not: a line is several groups
}

func testHeads[T uint8 | uint16 | uint32 | uint64](t *testing.T, ty isa.Type, branch bool) {
	pool := workers.New(2)
	defer pool.Close()
	more, first := "", func(x, y T) T { return x + y }
	if branch {
		more = "set.lt.%[1]v c0, x, y\nbra past, c0\nmul.%[1]v z, z, y\npast:\n"
		first = func(x, y T) T {
			if x < y {
				return x + y
			}
			return (x + y) * y
		}
	}
	k := kernelOf(t, fmt.Sprintf("program p\nslot a %[1]v\nslot b %[1]v\nslot c %[1]v\nslot d %[1]v\nldg.%[1]v x, a[index]\nldg.%[1]v y, b[index]\nadd.%[1]v z, x, y\n"+more+"stg.%[1]v z, c[index]\nsub.%[1]v z, x, y\nstg.%[1]v z, d[index]\nexit\n", ty))
	seen := map[shape]bool{}
	for _, c := range []struct{ rows, cols, side int }{ // of a grid with so many columns in memory
		{1, headLanes, headLanes + 40}, {1, headLanes + 7, headLanes + 40}, {300, 130, 160}, {300, 128, 160}, {250, 1000, 1024}, {250, 1000, 1013},
		{2200, 1024, 1040}, {3000, 1500, 1504}, // past the caches where elements have 8 bytes, or 4; narrower ones: TestNarrowPastCaches
	} {
		a, b := grid[T](c.rows*c.side+64), grid[T](c.rows*c.side+64)
		for i := range a {
			a[i], b[i] = T(i*i+7), T(3*i+1)
		}
		x, y := grid[T](len(a)), grid[T](len(a))
		wantX, wantY := slices.Clone(x), slices.Clone(y)
		for _, at := range [][2]int{{0, 0}, {1, 1}, {15, 15}, {0, 1}, {5, 13}, {16, 0}} {
			clear(x)
			clear(y)
			clear(wantX)
			clear(wantY)
			for i := range c.rows {
				for j := range c.cols {
					s := i*c.side + j
					wantX[at[0]+s], wantY[at[1]+s] = first(a[3+s], b[s]), a[3+s]-b[s]
				}
			}
			view := func(m []T) backends.View {
				v := backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(m))), Type: ty, Rank: 2, Bytes: int64(len(m) * ty.Size())}
				v.Shape[0], v.Shape[1], v.Stride[0], v.Stride[1] = int64(c.rows), int64(c.cols), int64(c.side), 1
				return v
			}
			n := c.rows * c.cols
			l := &backends.Launch{Slots: []backends.View{view(a[3:]), view(b), view(x[at[0]:]), view(y[at[1]:])}, N: uint64(n),
				Grid: [3]uint32{uint32(n+255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 2, Record: new(backends.Record)}
			l.Shape[0], l.Shape[1] = int64(c.rows), int64(c.cols)
			require.NoError(t, k.Run(l, pool))
			require.True(t, slices.Equal(wantX, x) && slices.Equal(wantY, y), "%v at %v", c, at)
		}
		runtime.KeepAlive([][]T{a, b, x, y})
	}
	for _, v := range *k.variants.Load() {
		seen[shape{head: v.shape.head, stream: v.shape.stream}] = true
	}
	want := map[shape]bool{{}: true, {head: true}: true}
	if ty.Size() >= 4 {
		want[shape{head: true, stream: true}] = true
	}
	if ty == isa.U64 {
		want[shape{stream: true}] = true
	}
	require.Equal(t, want, seen)
}

// Launches past the caches, and from a line on, are of programs in which all lanes come to
// every store by index, whatever they did before.
func TestWhatAllLanesStore(t *testing.T) {
	const store = "  stg.f32 y, out[index]\n"
	for _, c := range []struct {
		name, text string
		all        bool
	}{
		{"nothing else", store, true},
		{"a branch", "  bra past, p\n  loop n, add\n  add.f32 y, y, x\nadd:\npast:\n" + store, true},
		{"a loop", "  loop n, add\n  add.f32 y, y, x\nadd:\n" + store, true},
		{"a loop that lanes leave", "  loop n, add\n  add.f32 y, y, x\n  set.gt.f32 q, y, x\n  bra out, q\nadd:\nout:\n" + store, true},
		{"a loop in one, both left", "  loop n, add\n  loop 3, in\n  fma.f32 y, y, y, x\n  set.gt.f32 q, y, x\n  bra out, q\nin:\nadd:\nout:\n" + store, true},
		{"several stores", store + "  bra past, p\n  loop n, add\n  add.f32 y, y, x\nadd:\npast:\n  stg.f32 y, a[index]\n", true},
		{"a store in a branch", "  bra past, p\n" + store + "past:\n", false},
		{"in one of a loop", "  loop n, add\n  add.f32 y, y, x\n  set.gt.f32 q, y, x\n  bra past, q\n" + store + "past:\nadd:\n", false},
		{"in a loop", "  loop n, add\n  add.f32 y, y, x\n" + store + "add:\n", false},
		{"behind lanes that leave the program", "  bra on, p\n  exit\non:\n" + store, false},
		{"behind a loop in which they do", "  loop n, add\n  add.f32 y, y, x\n  set.gt.f32 q, y, x\n  bra on, q\n  exit\non:\nadd:\n" + store, false},
		{"before them", store + "  bra on, p\n  exit\non:\n  stg.f32 y, a[index]\n", false},
	} {
		p, err := prepare(nil, canonical(t, "program p\nslot a f32\nslot out f32\nparam n u32\n  ldg.f32 x, a[index]\n  ldp.u32 n, n\n  set.lt.f32 p, x, 0x1p+0\n  mov.f32 y, x\n"+c.text+"  exit\n"))
		require.NoError(t, err, c.name)
		require.Equal(t, c.all, p.level, c.name)
	}
}
