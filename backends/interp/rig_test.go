package interp

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// verified assembles and verifies a program.
func verified(t testing.TB, text string) *isa.Verified {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	return v
}

// rig is a launch whose slots lie in memory of the device, with guards around them.
type rig struct {
	t   testing.TB
	v   *isa.Verified
	l   backends.Launch
	mem []backends.Memory
}

const guard = 64

// setup binds each slot to n elements, in an index space of n elements, in
// blocks of the given size.
func setup(t testing.TB, text string, n uint64, block uint32, elements ...int) *rig {
	t.Helper()
	r := &rig{t: t, v: verified(t, text)}
	r.l = backends.Launch{
		Grid: [3]uint32{uint32((n + uint64(block) - 1) / uint64(block)), 1, 1}, Block: [3]uint32{block, 1, 1},
		Rank: 1, Shape: [isa.MaxRank]int64{int64(n)}, N: n,
	}
	d, err := New().Open(0)
	require.NoError(t, err)
	for i, s := range r.v.Program.Slots {
		count := int64(n)
		if i < len(elements) {
			count = int64(elements[i])
		}
		size := count * int64(s.Type.Size())
		m, err := d.Alloc(size + 2*guard)
		require.NoError(t, err)
		t.Cleanup(func() {
			if err := d.Free(m); err != nil {
				t.Error(err)
			}
		})
		b := hostmem.Bytes(m.Addr, m.Bytes)
		for k := range guard {
			b[k], b[len(b)-1-k] = 0xa5, 0xa5
		}
		r.mem = append(r.mem, m)
		view := backends.View{Addr: m.Addr + guard, Bytes: size, Type: s.Type, Rank: 1}
		view.Shape[0], view.Stride[0] = int64(n), 1
		r.l.Slots = append(r.l.Slots, view)
	}
	return r
}

func (r *rig) bytes(slot int) []byte {
	b := hostmem.Bytes(r.mem[slot].Addr, r.mem[slot].Bytes)
	return b[guard : len(b)-guard]
}

func (r *rig) setF32(slot int, v ...float32) {
	for i, x := range v {
		binary.LittleEndian.PutUint32(r.bytes(slot)[4*i:], math.Float32bits(x))
	}
}

func (r *rig) setU32(slot int, v ...uint32) {
	for i, x := range v {
		binary.LittleEndian.PutUint32(r.bytes(slot)[4*i:], x)
	}
}

func (r *rig) f32(slot int) (v []float32) {
	for _, x := range r.u32(slot) {
		v = append(v, math.Float32frombits(x))
	}
	return v
}

func (r *rig) u32(slot int) (v []uint32) {
	for b := r.bytes(slot); len(b) >= 4; b = b[4:] {
		v = append(v, binary.LittleEndian.Uint32(b))
	}
	return v
}

// run launches through the backend and checks the guards.
func (r *rig) run() error {
	r.t.Helper()
	d, _ := New().Open(0)
	k, err := d.Compile(&backends.Unit{Source: r.v}, backends.Variant{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer k.Release()
	s, err := d.NewStream()
	if err != nil {
		r.t.Fatal(err)
	}
	r.l.Flats = make([]backends.Flat, len(r.l.Slots))
	for i := range r.l.Slots {
		r.l.Flats[i], _ = backends.FlatOf(&r.l.Slots[i])
	}
	_, err = s.Launch(k, &r.l)
	for i, m := range r.mem {
		b := hostmem.Bytes(m.Addr, m.Bytes)
		for k := range guard {
			if b[k] != 0xa5 || b[len(b)-1-k] != 0xa5 {
				r.t.Fatalf("a guard of slot %d was overwritten", i)
			}
		}
	}
	return err
}

func (r *rig) ok() *rig {
	r.t.Helper()
	if err := r.run(); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// fails demands a fault, and returns it.
func (r *rig) fails(kind isa.FaultKind, site int, lane uint64) *backends.ProgramFault {
	r.t.Helper()
	var f *backends.ProgramFault
	if err := r.run(); !errors.As(err, &f) || f.Kind != kind || f.Site != site || f.Lane != lane {
		r.t.Fatalf("got %v, want %v at site %d in lane %d", err, kind, site, lane)
	}
	return f
}

func check[T comparable](t testing.TB, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
