package jit

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
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

// sumOfSix adds six numbers up.
func sumOfSix(t *testing.T) *ir.Func {
	t.Helper()
	f := canonical(t, "program p\nslot a u8\nslot b u8\nslot c u8\nslot d u8\nslot e u8\nslot f u8\nslot out u8\n"+
		"ldg.u8 s, a[index]\nldg.u8 x, b[index]\nadd.u8 s, s, x\nldg.u8 x, c[index]\nadd.u8 s, s, x\nldg.u8 x, d[index]\nadd.u8 s, s, x\n"+
		"ldg.u8 x, e[index]\nadd.u8 s, s, x\nldg.u8 x, f[index]\nadd.u8 s, s, x\nstg.u8 s, out[index]\nexit\n")
	return f
}

// six is a launch of it; singles says which slots are one element.
func six(memory, out []byte, singles int) *backends.Launch {
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
	return l
}

// Where memory for code is full, or there is none, programs are left to another engine, and
// launches of further shapes to what runs those that are declined.
func TestNoRoomForCode(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("AVX2, or memory for machine code, is missing here: %v", err)
	}
	whole := theArena
	defer func() { theArena = whole }()
	small, err := mem.New(1 << 14)
	require.NoError(t, err)
	theArena = func() (*mem.Arena, error) { return small, nil }
	other := &substitute{}
	k, err := Compile(nil, sumOfSix(t), Detect(), func() (Program, error) { return other, nil })
	require.NoError(t, err)
	for size := 1 << 14; size > 0; size /= 2 {
		for err = nil; err == nil; _, err = small.Put(make([]byte, size)) {
		}
		require.ErrorIs(t, err, mem.ErrFull)
	}
	pool := workers.New(1)
	defer pool.Close()
	memory, out := []byte{1, 2, 4, 8, 16, 32, 64}, make([]byte, 5)
	t.Cleanup(func() { runtime.KeepAlive([][]byte{memory, out}) }) // and where they are
	require.NoError(t, k.Run(six(memory, out, 0), pool))
	require.Zero(t, other.runs)
	require.NoError(t, k.Run(six(memory, out, 3), pool))
	require.Equal(t, 1, other.runs)
	refused := func(err error, why string) {
		t.Helper()
		var u *backends.Unsupported
		require.ErrorAs(t, err, &u)
		require.Contains(t, u.Why, why)
	}
	_, err = Compile(nil, sumOfSix(t), Detect(), nil)
	refused(err, "the memory for machine code is full")
	theArena = func() (*mem.Arena, error) { return nil, errors.New("forbidden") }
	_, err = Compile(nil, sumOfSix(t), Detect(), nil)
	refused(err, "forbidden")
	_, err = Put([]byte{0xC3})
	refused(err, "forbidden")
	refused(Available(Detect()+1), "the processor has no")
	refused(Available(None), "the processor has no")
}

// A kernel keeps the code of 32 shapes; launches of others are declined, those of the
// first are not, and when it goes all its code does.
func TestVariantsAreBounded(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("AVX2, or memory for machine code, is missing here: %v", err)
	}
	arena, err := theArena()
	require.NoError(t, err)
	before := arena.Used()
	f := sumOfSix(t)
	other := &substitute{}
	k, err := Compile(nil, f, Detect(), func() (Program, error) { return other, nil })
	require.NoError(t, err)
	pool := workers.New(1)
	defer pool.Close()
	memory, out := []byte{1, 2, 4, 8, 16, 32, 64}, make([]byte, 5)
	t.Cleanup(func() { runtime.KeepAlive([][]byte{memory, out}) }) // and where they are
	for round := range 2 {
		for singles := range 64 {
			clear(out)
			require.NoError(t, k.Run(six(memory, out, singles), pool))
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

// What is counted of making a kernel is all parts of it, so that whoever stops it stops any of them.
func TestAllOfCompilingIsCounted(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("AVX2, or memory for machine code, is missing here: %v", err)
	}
	f := sumOfSix(t)
	steps := func(do func(m *work.Meter) error) int64 {
		m := work.New(func() error { return nil })
		require.NoError(t, do(m))
		return m.Steps()
	}
	var p *program
	parts := steps(func(m *work.Meter) (err error) { p, err = prepare(m, f); return err })
	parts += steps(func(m *work.Meter) error { _, err := analysis.NewCostMetered(m, f); return err })
	parts += steps(func(m *work.Meter) error { _, _, err := p.generate(m, targetOf(Detect()), shape{}); return err })
	all := steps(func(m *work.Meter) error {
		k, err := Compile(m, f, Detect(), nil)
		if err == nil {
			k.Release()
		}
		return err
	})
	require.GreaterOrEqual(t, all, parts)
}

// Launches that are made in ever new ways for speed alone leave room for what others need, and where
// there is none for such a way any more, run by the code that they need.
func TestVariantsForSpeedLeaveRoom(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("AVX2, or memory for machine code, is missing here: %v", err)
	}
	other := &substitute{}
	k, err := Compile(nil, sumOfSix(t), Detect(), func() (Program, error) { return other, nil })
	require.NoError(t, err)
	defer k.Release()
	faster := func(singles, way int) shape {
		bit := func(i int) bool { return way>>i&1 != 0 }
		return shape{single: uint64(singles), stream: bit(0), pages: bit(1), near: bit(2), far: bit(3), head: bit(4)}
	}
	for way := range 64 {
		v, err := k.variantFor(faster(0, way%32))
		require.NoError(t, err)
		require.Zero(t, v.shape.single)
	}
	require.Len(t, *k.variants.Load(), maxFaster)
	for singles := range 9 { // the first is there
		v, err := k.variantFor(faster(singles, 31))
		require.NoError(t, err)
		if want := faster(singles, 0); singles > 0 {
			require.Equal(t, want, v.shape)
		}
	}
	require.Len(t, *k.variants.Load(), maxVariants)
	_, err = k.variantFor(faster(9, 31))
	require.ErrorIs(t, err, errVariants)
	v, err := k.variantFor(faster(3, 17))
	require.NoError(t, err)
	require.Equal(t, faster(3, 0), v.shape)
}

// The code that launches need is for their slots and their blocks, however fast it is to be: of other slots or blocks it
// would be another's.
func TestShapesThatAreNeeded(t *testing.T) {
	for _, needed := range []shape{{}, {single: 5}, {block: 64}, {block: 64, whole: true}, {single: 2, block: 8, whole: true}} {
		for way := range 64 {
			bit := func(i int) bool { return way>>i&1 != 0 }
			s := needed
			s.stream, s.halved, s.pages, s.near, s.far, s.head = bit(0), bit(1), bit(2), bit(3), bit(4), bit(5)
			require.Equal(t, needed, s.needed())
		}
	}
}

// Of the lanes that workers have seen fail, the lowest is told.
func TestLowestLaneIsTold(t *testing.T) {
	r := &run{}
	for _, lane := range []uint64{500, 70, 900, 80} {
		r.fault(isa.FaultDivide, int(lane)+1, lane, backends.Asked{})
	}
	require.Equal(t, backends.ProgramFault{Kind: isa.FaultDivide, Site: 71, Lane: 70}, r.first)
}
