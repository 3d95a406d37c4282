package jit

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// Rows that lie evenly are counted from the one that a call begins with.
func TestRowsThatAreLeft(t *testing.T) {
	w := view{size: 4, rank: 3, shape: [isa.MaxRank]int64{4, 5, 64}, stride: [isa.MaxRank]int64{9000, 1000, 4}}
	for row, left := range []uint64{5, 4, 3, 2, 1, 5, 4, 3} {
		count, step := w.rows(uint64(64*row), 64)
		require.Equal(t, left, count)
		require.EqualValues(t, 1000, step)
	}
	w.rank, w.shape, w.stride = 1, [isa.MaxRank]int64{640}, [isa.MaxRank]int64{8}
	for row, left := range []uint64{10, 9, 8} {
		count, step := w.rows(uint64(64*row), 64)
		require.Equal(t, left, count)
		require.EqualValues(t, 512, step)
	}
}

// Pieces end where what is broadcast over them begins again, whatever its length: of pixels of three channels
// it was staged anew for each piece, which took ten times as long as with four.
func TestPiecesFitWhatRepeats(t *testing.T) {
	r := &run{k: &Kernel{p: &program{reads: 3, writes: 4}}}
	repeated := func(n int64) view {
		return view{size: 4, access: staged, rank: 2, shape: [isa.MaxRank]int64{1000, n}, stride: [isa.MaxRank]int64{0, 4}}
	}
	for n := int64(2); n < minRow; n++ {
		r.views = []view{repeated(n), {size: 4, rank: 1}, {size: 4, rank: 1}}
		got := r.even(stageLanes)
		require.Zero(t, got%uint64(n), "%d columns", n)
		require.Greater(t, got, uint64(stageLanes/2), "%d columns", n)
		require.LessOrEqual(t, got, uint64(stageLanes), "%d columns", n)
	}
	r.views = []view{repeated(3), repeated(4), {size: 4, rank: 1}}
	require.EqualValues(t, 960, r.even(stageLanes), "whole groups of both")
	r.views = []view{repeated(61), repeated(63), {size: 4, rank: 1}}
	require.EqualValues(t, 976, r.even(stageLanes), "no piece fits both")
	r.views = []view{{size: 4, access: staged, rank: 1, shape: [isa.MaxRank]int64{1000}, stride: [isa.MaxRank]int64{8}}, {}, {}}
	require.EqualValues(t, stageLanes, r.even(stageLanes), "nothing repeats itself")
}

// adder is c = a + b, element by element.
func adder(t *testing.T) *Kernel {
	return kernelOf(t, "program add\nslot a i32\nslot b i32\nslot c i32\nldg.i32 x, a[index]\nldg.i32 y, b[index]\nadd.i32 x, x, y\nstg.i32 x, c[index]\nexit\n")
}

func kernelOf(t *testing.T, text string) *Kernel {
	if err := Available(Detect()); err != nil {
		t.Skipf("%v", err)
	}
	f := canonical(t, text)
	k, err := Compile(nil, f, Detect(), nil)
	require.NoError(t, err)
	t.Cleanup(k.Release)
	return k
}

// Operands in all orders of axes, some of them broadcast or with gaps: each element
// is done once, and goes to its place.
func TestOrders(t *testing.T) {
	k := adder(t)
	r := rand.New(rand.NewPCG(8, 9))
	for round := range 200 {
		pool := workers.New(1 + round%3)
		rank := 1 + r.IntN(4)
		l := &backends.Launch{Rank: rank, N: 1, Block: [3]uint32{256, 1, 1}}
		for i := range rank {
			l.Shape[i] = 1 + r.Int64N([]int64{3, 20, 300}[r.IntN(3)])
			if l.N*uint64(l.Shape[i]) > 100_000 {
				l.Shape[i] = 2
			}
			l.N *= uint64(l.Shape[i])
		}
		l.Grid = [3]uint32{uint32(l.N+255) / 256, 1, 1}
		var memory [3][]int32
		for s := range memory {
			w := backends.View{Type: isa.I32, Rank: rank, Shape: l.Shape}
			n := int64(1 + r.IntN(2))
			for _, i := range r.Perm(rank) {
				if s < 2 && r.IntN(5) == 0 {
					continue // broadcast
				}
				w.Stride[i] = n
				n *= l.Shape[i]
			}
			memory[s] = make([]int32, n+1)
			for i := range memory[s] {
				memory[s][i] = r.Int32()
			}
			w.Addr = uintptr(unsafe.Pointer(&memory[s][0]))
			l.Slots = append(l.Slots, w)
		}
		want := append([]int32(nil), memory[2]...)
		var at func(i int, a, b, c int64)
		at = func(i int, a, b, c int64) {
			if i == rank {
				want[c] = memory[0][a] + memory[1][b]
				return
			}
			for x := range l.Shape[i] {
				at(i+1, a+x*l.Slots[0].Stride[i], b+x*l.Slots[1].Stride[i], c+x*l.Slots[2].Stride[i])
			}
		}
		at(0, 0, 0, 0)
		require.NoError(t, k.Run(l, pool))
		require.Equal(t, want, memory[2], "shape %v, strides %v %v %v", l.Shape, l.Slots[0].Stride, l.Slots[1].Stride, l.Slots[2].Stride)
		pool.Close()
	}
}

// Rows that are done in one call have the lanes' numbers and the numbers of their own
// that calls of their own would have: rows of channels, of images with gaps.
func TestRowsOfACall(t *testing.T) {
	const images, channels, row, gap = 3, 5, 70, 7
	k := kernelOf(t, "program rows\nslot a i32\nslot b i32\nslot c i32\nsreg g, global_lane\ncvt.i32.u64 g, g\nldg.i32 x, a[index]\nldg.i32 y, b[index]\nadd.i32 x, x, y\nadd.i32 x, x, g\nstg.i32 x, c[index]\nexit\n")
	a, b, c := make([]int32, images*(channels*row+gap)), make([]int32, channels), make([]int32, images*channels*row)
	for i := range a {
		a[i] = int32(i) << 8
	}
	for i := range b {
		b[i] = int32(i) << 24
	}
	l := &backends.Launch{Grid: [3]uint32{images * channels, 1, 1}, Block: [3]uint32{row, 1, 1}, Rank: 3, N: images * channels * row}
	l.Shape = [isa.MaxRank]int64{images, channels, row}
	for i, x := range [][]int32{a, b, c} {
		w := backends.View{Addr: uintptr(unsafe.Pointer(&x[0])), Type: isa.I32, Rank: 3, Shape: l.Shape}
		w.Stride = [3][isa.MaxRank]int64{{channels*row + gap, row, 1}, {0, 1, 0}, {channels * row, row, 1}}[i]
		l.Slots = append(l.Slots, w)
	}
	pool := workers.New(1)
	defer pool.Close()
	for range 2 {
		clear(c)
		require.NoError(t, k.Run(l, pool))
		for i, x := range c {
			image, channel := i/(channels*row), i/row%channels
			require.Equal(t, int32(i+image*gap)<<8+int32(channel)<<24+int32(i), x, "element %d", i)
		}
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

// A short row that is broadcast over many is staged once, where its period
// divides the pieces, and else anew.
func TestBroadcastRows(t *testing.T) {
	k := adder(t)
	for _, threads := range []int{1, 3} {
		pool := workers.New(threads)
		for cols := int64(2); cols < 12; cols++ {
			rows := int64(300000) / cols
			a, b, c := make([]int32, rows*cols), make([]int32, 64), make([]int32, rows*cols)
			for i := range a {
				a[i] = int32(i) * 16
			}
			for i := range b {
				b[i] = int32(i)
			}
			l := &backends.Launch{Grid: [3]uint32{uint32(rows), 1, 1}, Block: [3]uint32{uint32(cols), 1, 1}, Rank: 2, N: uint64(rows * cols)}
			l.Shape[0], l.Shape[1] = rows, cols
			for _, x := range [][]int32{a, b, c} {
				t.Cleanup(func() { runtime.KeepAlive(x) }) // and where it is
				w := backends.View{Addr: uintptr(unsafe.Pointer(&x[0])), Type: isa.I32, Rank: 2, Shape: l.Shape}
				w.Stride[0], w.Stride[1] = cols, 1
				if len(x) == 64 {
					w.Stride[0] = 0
				}
				l.Slots = append(l.Slots, w)
			}
			require.NoError(t, k.Run(l, pool))
			for i, x := range c {
				if want := int32(i)*16 + int32(int64(i)%cols); x != want {
					t.Fatalf("%d columns, element %d: %d, to be %d", cols, i, x, want)
				}
			}
		}
		pool.Close()
	}
}
