package jit

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// substitute runs declined launches, and counts.
type substitute struct{ runs, released int }

func (s *substitute) Run(*backends.Launch, *workers.Pool) error { s.runs++; return nil }
func (s *substitute) Release()                                  { s.released++ }

// What runs declined launches is made when the first comes, again where that failed, and
// released once.
func TestDeclinedLaunches(t *testing.T) {
	s, made, why := &substitute{}, 0, errors.New("no room")
	d := NewDeclined("a launch of another's", func() (Program, error) {
		if made++; made == 1 {
			return nil, why
		}
		return s, nil
	})
	d.Release()
	require.False(t, d.Any())
	err := d.Run(nil, nil)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, "a launch of another's: no room")
	require.False(t, d.Any())
	for range 3 {
		require.NoError(t, d.Run(nil, nil))
		require.True(t, d.Any())
	}
	d.Release()
	d.Release()
	require.False(t, d.Any())
	require.Equal(t, []int{2, 3, 1}, []int{made, s.runs, s.released})
}

// A kernel keeps the code of 32 shapes; launches of others are declined, those of the
// first are not, and when it goes all its code does.
func TestVariantsAreBounded(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("%v", err)
	}
	arena, err := theArena()
	require.NoError(t, err)
	before := arena.Used()
	const text = "program p\nslot a u8\nslot b u8\nslot c u8\nslot d u8\nslot e u8\nslot f u8\nslot out u8\n" +
		"ldg.u8 s, a[index]\nldg.u8 x, b[index]\nadd.u8 s, s, x\nldg.u8 x, c[index]\nadd.u8 s, s, x\nldg.u8 x, d[index]\nadd.u8 s, s, x\n" +
		"ldg.u8 x, e[index]\nadd.u8 s, s, x\nldg.u8 x, f[index]\nadd.u8 s, s, x\nstg.u8 s, out[index]\nexit\n"
	p, err := isa.Assemble("p", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	other := &substitute{}
	k, err := Compile(nil, f, Detect(), func() (Program, error) { return other, nil })
	require.NoError(t, err)
	pool := workers.New(1)
	defer pool.Close()
	memory, out := []byte{1, 2, 4, 8, 16, 32, 64}, make([]byte, 5)
	for round := range 2 {
		for singles := range 64 {
			l := &backends.Launch{Rank: 1, N: 5, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{5, 1, 1}}
			l.Shape[0] = 5
			for i := range 7 {
				w := backends.View{Type: isa.U8, Rank: 1, Shape: l.Shape, Addr: uintptr(unsafe.Pointer(&memory[min(i, 2)]))}
				if w.Stride[0] = 1; singles>>i&1 != 0 {
					w.Stride[0] = 0
				}
				if i == 6 {
					w.Addr = uintptr(unsafe.Pointer(&out[0]))
				}
				l.Slots = append(l.Slots, w)
			}
			clear(out)
			require.NoError(t, k.Run(l, pool))
			want := make([]byte, 5)
			for lane := range want {
				for i := range 6 {
					at := min(i, 2) + lane
					if singles>>i&1 != 0 {
						at = min(i, 2)
					}
					want[lane] += memory[at]
				}
			}
			if singles < maxVariants {
				require.Equal(t, want, out, "round %d, shape %b", round, singles)
			}
			require.Equal(t, round*(64-maxVariants)+max(0, singles+1-maxVariants), other.runs)
		}
	}
	require.Equal(t, 32, maxVariants)
	require.Greater(t, arena.Used(), before)
	k.Release()
	require.Equal(t, before, arena.Used())
	require.Equal(t, 1, other.released)
}
