package cpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// host is memory that a test's launches see; views into it are addresses,
// which the collector doesn't follow.
type host struct{ blocks [][]byte }

func (h *host) block(n int) []byte {
	b := make([]uint64, n/8+1)
	h.blocks = append(h.blocks, unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), 8*len(b)))
	return h.blocks[len(h.blocks)-1][:n]
}

func addr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func verify(t testing.TB, text string) *isa.Verified {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err, text)
	v, err := isa.Verify(p)
	require.NoError(t, err, text)
	return v
}

// patience is how long a launch may take that should take far below a
// millisecond; it keeps a test of a wrong program from running on.
const patience = 10 * time.Second

// outcome is what a launch left behind.
type outcome struct {
	slots   [][]byte
	residue [isa.NumClasses]uint64
	phase   uint32
	err     error
	inst    int // that faulted
}

// shape is a launch's grid, block, index space and fuel.
type shape struct {
	grid, block [3]uint32
	dims        []int64
	fuel        uint64
}

func linear(n, block int64) shape {
	return shape{grid: [3]uint32{uint32((n + block - 1) / block), 1, 1}, block: [3]uint32{uint32(block), 1, 1}, dims: []int64{n}}
}

func (s shape) n() int64 {
	n := int64(1)
	for _, d := range s.dims {
		n *= d
	}
	return n
}

// run launches v on a backend, with contents for its slots and strides for
// those that are not contiguous.
func run(t testing.TB, b backends.Backend, v *isa.Verified, sh shape, contents [][]byte, strides map[int][]int64, params []uint64) outcome {
	t.Helper()
	return runIn(t, new(host).block, b, v, sh, contents, strides, params)
}

// runIn is run in memory that room makes.
func runIn(t testing.TB, room func(n int) []byte, b backends.Backend, v *isa.Verified, sh shape, contents [][]byte, strides map[int][]int64, params []uint64) outcome {
	t.Helper()
	m := newReady(t, b, v)
	defer m.k.Release()
	return m.run(t, room, sh, contents, strides, params)
}

// ready is a program that a backend has compiled, to be run several times.
type ready struct {
	v    *isa.Verified
	d    backends.Device
	k    backends.Kernel
	s    backends.Stream
	srcs []int
	f    *ir.Func
}

// newReady compiles v, with the canonical form's options; its kernel is the caller's to release.
func newReady(t testing.TB, b backends.Backend, v *isa.Verified, opts ...ir.Option) *ready {
	t.Helper()
	d, err := b.Open(0)
	require.NoError(t, err)
	f, srcs, err := ir.Canonical(v, opts...)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	return &ready{v, d, k, s, srcs, f}
}

// run launches it as run does, in memory that room makes.
func (m *ready) run(t testing.TB, room func(n int) []byte, sh shape, contents [][]byte, strides map[int][]int64, params []uint64) outcome {
	t.Helper()
	var o outcome
	o.phase = 700
	l := &backends.Launch{Params: params, Grid: sh.grid, Block: sh.block, Rank: len(sh.dims), N: uint64(sh.n()),
		Fuel: sh.fuel, Record: new(backends.Record), Phase: &o.phase}
	copy(l.Shape[:], sh.dims)
	for i, c := range contents {
		size := len(c)
		if _, ok := strides[i]; !ok { // an oracle views as much as the index space has, also of what is read by bytes alone
			size = max(size, int(l.N)*m.v.Program.Slots[i].Type.Size())
		}
		slot := room(size)[:len(c)]
		copy(slot, c)
		o.slots = append(o.slots, slot)
		w := backends.View{Addr: addr(slot), Bytes: int64(len(slot)), Type: m.v.Program.Slots[i].Type, Rank: l.Rank, Shape: l.Shape}
		if st, ok := strides[i]; ok {
			copy(w.Stride[:], st)
			if w.Bytes = 0; !slices.ContainsFunc(st, func(n int64) bool { return n != 0 }) { // one element, as core says of [flat …]
				w.Bytes = int64(w.Type.Size())
			}
		} else {
			for k, n := l.Rank-1, int64(1); k >= 0; k-- {
				w.Stride[k] = n
				n *= l.Shape[k]
			}
		}
		l.Slots = append(l.Slots, w)
		l.Flats = append(l.Flats, backends.Flat{Step: 1, Count: int64(len(slot) / w.Type.Size()), Limit: 1 << 57})
	}
	if len(m.f.Given) > 0 && !m.d.Info().RunsSource {
		l.Params = slices.Clone(l.Params)
		l.Give(m.f)
	}
	timer := time.AfterFunc(patience, l.Record.Stop)
	_, err := m.s.Launch(m.k, l)
	timer.Stop()
	o.residue = l.Record.Residue
	o.err, o.inst = err, -1
	var pf *backends.ProgramFault
	if errors.As(err, &pf) {
		o.inst = pf.Site
		if !m.d.Info().RunsSource {
			o.inst = m.srcs[pf.Site]
		}
	}
	return o
}

// same reports the first difference between two outcomes, with NaNs alike.
func same(v *isa.Verified, a, b outcome) error {
	if errors.Is(a.err, backends.ErrCancelled) || errors.Is(b.err, backends.ErrCancelled) {
		return fmt.Errorf("outcome %v, to be %v", a.err, b.err)
	}
	for i := range a.slots {
		if bytes.Equal(a.slots[i], b.slots[i]) {
			continue
		}
		ty := v.Program.Slots[i].Type
		for k := 0; k+ty.Size() <= len(a.slots[i]); k += ty.Size() {
			x, y := cellAt(ty, a.slots[i][k:]), cellAt(ty, b.slots[i][k:])
			if x != y && !(nan(ty, x) && nan(ty, y)) {
				return fmt.Errorf("slot %s, element %d: %#x is not %#x", v.Program.Slots[i].Name, k/ty.Size(), x, y)
			}
		}
	}
	switch {
	case a.residue != b.residue:
		return fmt.Errorf("residue %v is not %v", a.residue, b.residue)
	case a.phase != b.phase:
		return fmt.Errorf("phase %d is not %d", a.phase, b.phase)
	case (a.err == nil) != (b.err == nil):
		return fmt.Errorf("outcome %v is not %v", a.err, b.err)
	}
	return sameFault(v, a, b)
}

// sameFault compares what is told of a fault: it is one of the lowest lane, and, where it is
// the same instruction's, asked for the same. Which of a lane's faults it is, is open, since
// loads move, and so is who runs out of fuel first. An offset of 64 bits without a sign may
// be more than the oracle tells.
func sameFault(v *isa.Verified, a, b outcome) error {
	var x, y *backends.ProgramFault
	switch f, g := errors.As(a.err, &x), errors.As(b.err, &y); {
	case f != g:
		return fmt.Errorf("outcome %v is not %v", a.err, b.err)
	case !f, x.Kind == isa.FaultFuel || y.Kind == isa.FaultFuel:
		return nil
	}
	known := y.Asked.Known > 0 || y.Kind != isa.FaultAccess
	if x.Lane != y.Lane || a.inst == b.inst && (x.Kind != y.Kind || known && x.Asked != y.Asked) {
		return fmt.Errorf("%v, by instruction %d, asked for %+v; to be %v, by %d, %+v", x, a.inst, x.Asked, y, b.inst, y.Asked)
	}
	if a.inst >= 0 {
		if row, _ := isa.Lookup(v.Program.Insts[a.inst].Op); row.Effect&isa.MayFault == 0 {
			return fmt.Errorf("%v by instruction %d, which cannot", x, a.inst)
		}
	}
	return nil
}

func cellAt(t isa.Type, b []byte) uint64 {
	var c [8]byte
	copy(c[:], b[:t.Size()])
	return binary.LittleEndian.Uint64(c[:])
}

func nan(t isa.Type, c uint64) bool {
	if !t.Float() {
		return false
	}
	e := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
	return c&e == e && c&(1<<t.MantissaBits()-1) != 0
}

// fill has random bytes.
func fill(r *rand.Rand, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, r.Uint64())
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// randomContents fills n elements of each slot.
func randomContents(r *rand.Rand, v *isa.Verified, n int64) [][]byte {
	var out [][]byte
	for _, s := range v.Program.Slots {
		b := make([]byte, n*int64(s.Type.Size()))
		fill(r, b)
		out = append(out, b)
	}
	return out
}
