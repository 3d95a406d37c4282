package jit

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// What is staged is what lies at each element's place, whatever the strides,
// and goes back there.
func TestStage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	memory := make([]uint16, 1<<14)
	for i := range memory {
		memory[i] = uint16(i)
	}
	middle := uintptr(unsafe.Pointer(&memory[1<<13]))
	for range 2000 {
		w := view{base: middle, size: 2, rank: 1 + r.IntN(4)}
		n := 1
		for i := range w.rank {
			w.shape[i] = int64(1 + r.IntN(6))
			w.stride[i] = int64(2 * (r.IntN(401) - 200))
			n *= int(w.shape[i])
		}
		g := r.IntN(n)
		n = 1 + r.IntN(n-g)
		buf := make([]uint16, n)
		w.stage(unsafe.Pointer(&buf[0]), uint64(g), n, false)
		for i, v := range buf {
			at := w.offset(uint64(g + i))
			require.Equal(t, memory[1<<13+at/2], v, "%+v, element %d", w, g+i)
			buf[i] = uint16(1<<13 + at/2)
		}
		w.stage(unsafe.Pointer(&buf[0]), uint64(g), n, true) // the same again
	}
	for i, v := range memory {
		require.Equal(t, uint16(i), v)
	}
}

// A short row that is broadcast over many is staged once, where its period
// divides the pieces, and else anew.
func TestBroadcastRows(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("%v", err)
	}
	p, err := isa.Assemble("add", "program add\nslot a i32\nslot b i32\nslot c i32\nldg.i32 x, a[index]\nldg.i32 y, b[index]\nadd.i32 x, x, y\nstg.i32 x, c[index]\nexit\n")
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	k, err := Compile(nil, f, Detect(), nil)
	require.NoError(t, err)
	defer k.Release()
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
