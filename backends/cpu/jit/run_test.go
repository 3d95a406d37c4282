package jit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Launches large enough to be written past the caches, which takes places as aligned as
// a vector, at such places and at halves and quarters of one, by one thread and several,
// leave what is beside their arrays alone.
func TestLarge(t *testing.T) {
	if brief.On() {
		t.Skip("takes 150 MB; left out by -short")
	}
	n := 9 << 20
	x, y := make([]float32, n+64), make([]float32, n+64)
	for i := range x {
		x[i] = float32(i % 1009)
	}
	for _, l := range []jit.Level{jit.AVX2, jit.AVX512} {
		k := kernel(t, square, l)
		for at, threads := range []int{1, 3} {
			pool := workers.New(threads)
			for _, off := range [][]int{{0, 4, 32}, {1, 8, 17}}[at] {
				clear(y)
				m := n - 5
				require.NoError(t, k.Run(launch(m, nil, flat(t, isa.F32, x[off:off+m]), flat(t, isa.F32, y[off:off+m])), pool))
				for i, v := range y {
					want := float32(0)
					if i >= off && i < off+m {
						want = x[i] * x[i]
					}
					if v != want {
						t.Fatalf("%v, %d threads, from %d: element %d is %v, to be %v", l, threads, off, i, v, want)
					}
				}
			}
			pool.Close()
		}
	}
}

// A loop that nothing bounds ends soon after it is cancelled, and so do loops whose rounds
// are known to be many.
func TestCancel(t *testing.T) {
	for _, l := range []jit.Level{jit.AVX2, jit.AVX512} {
		for _, loop := range []string{
			"again:\n  add.f32 v, v, 0x1p+0\n  bra again",
			"  loop 300000000, end\n  add.f32 v, v, 0x1p+0\nend:\n  stg.f32 v, x[index]\n  exit",
		} {
			k := kernel(t, "program forever\nslot x f32\n  ldg.f32 v, x[index]\n"+loop, l)
			pool := workers.New(2)
			for _, n := range []int{1, 100000} {
				at := launch(n, nil, flat(t, isa.F32, make([]float32, n)))
				time.AfterFunc(10*time.Millisecond, at.Record.Stop)
				require.ErrorIs(t, k.Run(at, pool), backends.ErrCancelled)
			}
			pool.Close()
		}
	}
}

// Rows done side by side end when the launch is cancelled, before or in its last call.
func TestCancelRows(t *testing.T) {
	k := kernel(t, square, jit.Detect())
	endless := kernel(t, "program endless\nslot x f32\nslot y f32\n  ldg.f32 v, x[index]\nagain:\n  add.f32 v, v, 0x1p+0\n  set.gt.f32 p, v, 0x0p+0\n  bra again, p\n  stg.f32 v, y[index]\n  exit", jit.Detect())
	pool := workers.New(2)
	defer pool.Close()
	for _, dims := range [][2]int64{{300, 400}, {40, 400}, {16, 200}} { // by several threads, by one, and in one piece
		x, y := make([]float32, dims[0]*dims[1]), make([]float32, dims[0]*dims[1])
		for i := range x {
			x[i] = 1
		}
		l := launch(len(x), nil, flat(t, isa.F32, x), flat(t, isa.F32, y))
		l.Rank = 2
		l.Shape[0], l.Shape[1] = dims[0], dims[1]
		for i := range l.Slots {
			v := &l.Slots[i]
			v.Rank, v.Shape = 2, l.Shape
			v.Stride[0], v.Stride[1] = dims[1], 1
		}
		v := &l.Slots[0]
		v.Stride[0], v.Stride[1] = 1, dims[0] // a column of memory
		l.Record.Stop()
		require.ErrorIs(t, k.Run(l, pool), backends.ErrCancelled)
		require.NotContains(t, y, float32(1))
		l.Record = new(backends.Record)
		time.AfterFunc(5*time.Millisecond, l.Record.Stop)
		require.ErrorIs(t, endless.Run(l, pool), backends.ErrCancelled)
	}
}

// What cannot be compiled is refused by name, with the reason.
func TestDeclined(t *testing.T) {
	p, err := isa.Assemble("p", "program p\nslot x u8\ncls_get c\nstg.u8 c, x[index]\nexit\n")
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	_, err = jit.Compile(nil, f, jit.Detect(), nil)
	var u *backends.Unsupported
	require.True(t, errors.As(err, &u), "%v", err)
	if jit.Available(jit.Detect()) == nil {
		require.Equal(t, "CLS_GET", u.What)
		require.NotEmpty(t, u.Why)
	}
}

// What is but copied keeps its bits, those of NaNs too.
func TestCopyKeepsBits(t *testing.T) {
	const text = "program copy\nslot x f16\nslot y f16\nldg.f16 v, x[index]\nstg.f16 v, y[index]\nexit\n"
	for _, l := range []jit.Level{jit.AVX2, jit.AVX512} {
		k := kernel(t, text, l)
		pool := workers.New(1)
		n := 1<<16 - 3
		x, y := make([]uint16, n), make([]uint16, n)
		for i := range x {
			x[i] = uint16(i)
		}
		require.NoError(t, k.Run(launch(n, nil, flat(t, isa.F16, x), flat(t, isa.F16, y)), pool))
		require.Equal(t, x, y, "%v", l)
		pool.Close()
	}
}
