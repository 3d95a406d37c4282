package cpu_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
)

// TestTogether compares many random programs with the interpreter on all engines at once: to write a
// program, to verify it, to bring it into canonical form and to interpret it takes as long as two
// engines take for it. Of faults that differ between engines, which they may, the instruction is compared for
// one engine by turns, and the rest for all.
//
//	go test ./backends/cpu -run 'TestTogether/(random|affine|limits)' -args -programs 1000000
func TestTogether(t *testing.T) {
	if n, _ := conformance.Seeds(0); n == 0 {
		t.Skip("-programs is missing: TestConformance has each engine alone")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a sixth of the time goes into collecting what programs leave, else a third
	all := new(together)
	for _, l := range levels[:min(4, len(levels))] {
		if b, err := cpu.NewFor(2, l); err == nil { // as many as this machine has
			all.of, all.levels = append(all.of, b), append(all.levels, l)
		}
	}
	open := func() backends.Backend { return all }
	conformance.Run(t, open)
	t.Run("limits, random", func(t *testing.T) { randomLimits(t, open) })
}

// together is a backend that runs each launch on all of some and demands that they leave the same.
type together struct {
	of     []backends.Backend
	levels []jit.Level
}

func (b *together) Name() string                      { return "cpu" }
func (b *together) Devices() ([]backends.Info, error) { return b.of[0].Devices() }

func (b *together) Open(i int) (backends.Device, error) {
	d := &togetherDevice{levels: b.levels}
	for _, one := range b.of {
		opened, err := one.Open(i)
		if err != nil {
			return nil, err
		}
		d.of = append(d.of, opened)
	}
	d.Device = d.of[0]
	return d, nil
}

// togetherDevice has the first one's memory.
type togetherDevice struct {
	backends.Device
	of     []backends.Device
	levels []jit.Level
	mu     sync.Mutex
	memory []backends.Memory
}

func (d *togetherDevice) Alloc(n int64) (backends.Memory, error) {
	m, err := d.Device.Alloc(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory = append(d.memory, m)
	return m, err
}

func (d *togetherDevice) Free(m backends.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory = slices.DeleteFunc(d.memory, func(n backends.Memory) bool { return n.Addr == m.Addr })
	return d.Device.Free(m)
}

func (d *togetherDevice) Compile(u *backends.Unit, v backends.Variant) (backends.Kernel, error) {
	k := &togetherKernel{unit: u}
	for _, one := range d.of {
		made, err := one.Compile(u, v)
		if err != nil {
			k.Release()
			return nil, err
		}
		k.of = append(k.of, made)
	}
	k.Kernel = k.of[0]
	return k, nil
}

func (d *togetherDevice) NewStream() (backends.Stream, error) {
	s := &togetherStream{d: d}
	for _, one := range d.of {
		made, err := one.NewStream()
		if err != nil {
			return nil, err
		}
		s.of = append(s.of, made)
	}
	s.Stream = s.of[0]
	return s, nil
}

func (d *togetherDevice) Close() error {
	var all error
	for _, one := range d.of {
		all = errors.Join(all, one.Close())
	}
	return all
}

type togetherKernel struct {
	backends.Kernel
	unit *backends.Unit
	of   []backends.Kernel
}

func (k *togetherKernel) Release() {
	for _, one := range k.of {
		one.Release()
	}
}

func (k *togetherKernel) Workspace(l *backends.Launch) (n int64) {
	for _, one := range k.of {
		n = max(n, one.Workspace(l))
	}
	return n
}

type togetherStream struct {
	backends.Stream
	d        *togetherDevice
	of       []backends.Stream
	launches int
}

func (s *togetherStream) Close() error {
	var all error
	for _, one := range s.of {
		all = errors.Join(all, one.Close())
	}
	return all
}

// Launch runs it on each engine, on another one last every time, whose outcome it returns.
func (s *togetherStream) Launch(k backends.Kernel, l *backends.Launch) (t backends.Ticket, err error) {
	s.launches++
	places := s.places(l)
	before, first := save(places, l), (*state)(nil)
	var faults []backends.ProgramFault
	var found *backends.ProgramFault
	for i := range s.of {
		if i > 0 {
			before.restore(places, l)
		}
		which := (i + s.launches) % len(s.of)
		t, err = s.of[which].Launch(k.(*togetherKernel).of[which], l)
		if found = nil; errors.As(err, &found) {
			faults = append(faults, *found)
		} else if err != nil {
			return t, err
		}
		after := save(places, l)
		if first == nil {
			first = after
		} else if err := first.differs(after, places, l); err != nil {
			return t, fmt.Errorf("%v leaves something else than %v: %w", s.d.levels[which], s.d.levels[s.launches%len(s.of)], err)
		}
	}
	if len(faults) > 0 && len(faults) < len(s.of) {
		return t, fmt.Errorf("of %d engines %d had a fault: %v", len(s.of), len(faults), faults)
	}
	if faults = slices.Compact(faults); len(faults) > 1 {
		last := save(places, l)
		for _, f := range faults {
			before.restore(places, l) // or it would begin with what the run before left
			if !seen(k.(*togetherKernel).unit, l, f) {
				return t, fmt.Errorf("fault %v, which asked for %+v, is none of interp's", &f, f.Asked)
			}
		}
		last.restore(places, l)
	}
	return t, err
}

// places are the memory that a launch's slots lie in: what the device made with what is around them, else the slot.
func (s *togetherStream) places(l *backends.Launch) (all []place) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	done := map[uintptr]bool{}
	for _, v := range l.Slots {
		m := backends.Memory{Addr: v.Addr, Bytes: v.Bytes}
		for _, made := range s.d.memory {
			if v.Addr >= made.Addr && v.Addr < made.Addr+uintptr(made.Bytes) {
				m = made
			}
		}
		if m.Bytes > 0 && !done[m.Addr] {
			done[m.Addr] = true
			all = append(all, place{hostmem.Bytes(m.Addr, m.Bytes), v.Type, int(v.Addr-m.Addr) % v.Type.Size()})
		}
	}
	return all
}

// place is memory with elements of a type, from some byte on.
type place struct {
	memory []byte
	typ    isa.Type
	from   int
}

// state is what a launch works on.
type state struct {
	memory [][]byte
	record backends.Record
	phase  uint32
}

func save(places []place, l *backends.Launch) *state {
	s := &state{record: *l.Record, phase: *l.Phase}
	for _, p := range places {
		s.memory = append(s.memory, bytes.Clone(p.memory))
	}
	return s
}

func (s *state) restore(places []place, l *backends.Launch) {
	*l.Record, *l.Phase = s.record, s.phase
	for i, p := range places {
		copy(p.memory, s.memory[i])
	}
}

// differs compares what two engines left, NaNs being alike.
func (s *state) differs(other *state, places []place, l *backends.Launch) error {
	for i, p := range places {
		a, b, size := s.memory[i], other.memory[i], p.typ.Size()
		if bytes.Equal(a, b) {
			continue
		}
		for at := range a {
			if a[at] == b[at] {
				continue
			}
			if from := at - (at-p.from+size)%size; from < 0 || from+size > len(a) || !nan(p.typ, cellAt(p.typ, a[from:])) || !nan(p.typ, cellAt(p.typ, b[from:])) {
				return fmt.Errorf("byte %d of the memory of %v has %#x, not %#x", at, p.typ, b[at], a[at])
			}
		}
	}
	if s.phase != other.phase || s.record.Residue != other.record.Residue {
		return fmt.Errorf("phase %d and residues %v, not %d and %v", other.phase, other.record.Residue, s.phase, s.record.Residue)
	}
	return nil
}

// seen reports whether the interpreter has such a fault, of whatever instruction: which it was an engine tells by
// a number that the unit alone does not explain.
func seen(u *backends.Unit, l *backends.Launch, fault backends.ProgramFault) (found bool) {
	_ = interp.Faults(u, l, func(f backends.ProgramFault) {
		same := f.Kind == fault.Kind && f.Lane == fault.Lane
		if f.Asked.Known != 0 && fault.Asked.Known != 0 {
			same = same && f.Asked == fault.Asked
		}
		found = found || same
	})
	return found
}
