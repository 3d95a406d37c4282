package asynctest

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/strips"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// kernel is a compiled unit. The backend's lock guards what changes.
type kernel struct {
	device  *device
	code    *strips.Kernel
	ir      *ir.Func
	cost    *analysis.Cost
	variant backends.Variant // as far as the device heeds it

	pending int // launches not done
	graphs  int // captured launches
	gone    bool
	made    map[special]bool
}

// special is a kind of launches that has code of its own.
type special struct {
	fuel, aligned bool
	batch         int
}

// Specialize is backends.Specializer's.
func (k *kernel) Specialize(l *backends.Launch, try bool) error {
	b := k.device.backend
	b.mu.Lock()
	defer b.unlock()
	s := specialOf(l)
	switch {
	case k.gone:
		return b.breach("the kernel is released")
	case k.made[s] || !b.options.Specialize:
		return nil
	case try:
		return backends.ErrPending
	}
	b.counts.Specials++
	k.device.stall(b.options.LoadStalls)
	if b.options.Load > 0 {
		b.mu.Unlock()
		time.Sleep(b.options.Load)
		b.mu.Lock()
	}
	if k.gone {
		return b.breach("the kernel is released while code is made for it")
	}
	k.made[s] = true
	return nil
}

func specialOf(l *backends.Launch) special {
	s := special{l.Fuel > 0, true, l.Batch}
	for i := range l.Slots {
		s.aligned = s.aligned && l.Slots[i].Addr%16 == 0
	}
	return s
}

func (d *device) Compile(u *backends.Unit, v backends.Variant) (backends.Kernel, error) {
	b := d.backend
	b.mu.Lock()
	err := d.usable("compile")
	b.counts.Compiles++
	b.unlock()
	if err != nil {
		return nil, err
	}
	code, err := strips.CompileMetered(u.Work, u.IR)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.counts.Kernels++
	b.unlock()
	return &kernel{device: d, code: code, ir: u.IR, cost: analysis.NewCost(u.IR), variant: v.And(b.options.Variants), made: map[special]bool{}}, nil
}

// Cost takes an instruction for a third of a nanosecond, as strips do.
func (k *kernel) Cost(l *backends.Launch) float64 {
	insts, bounded := k.cost.Of(l.N, l.Params)
	if !bounded {
		return math.Inf(1)
	}
	return insts / 3
}

func (k *kernel) Workspace(*backends.Launch) int64 { return k.device.backend.options.Workspace }

func (k *kernel) Release() {
	b := k.device.backend
	b.mu.Lock()
	defer b.unlock()
	switch {
	case k.gone:
		_ = b.breach("a kernel is released twice")
		return
	case k.pending+k.graphs > 0:
		_ = b.breach("a kernel is released of which %d launches are to be done and %d are captured", k.pending, k.graphs)
	}
	k.gone = true
	b.counts.Kernels--
	if k.pending == 0 {
		k.code.Release()
	}
}

// Launch queues a launch. It is described by what l says now; l's Record and
// Phase are looked at when its time comes.
func (s *stream) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	return s.launch(k, l, false)
}

// launch is Launch, or that of a launch of a batch.
func (s *stream) launch(k backends.Kernel, l *backends.Launch, batched bool) (backends.Ticket, error) {
	return s.submit(kindLaunch, func() (*task, error) {
		kn, ok := k.(*kernel)
		if !ok || kn.device != s.device {
			return nil, errors.New("the kernel is of another device")
		}
		if kn.gone {
			return nil, s.device.backend.breach("the kernel is released")
		}
		if (l.Batch > 0) != batched {
			return nil, s.device.backend.breach("a launch says that it is one of %d queued together", l.Batch)
		}
		if err := kn.check(l); err != nil {
			return nil, err
		}
		here := *l
		here.Slots = append([]backends.View(nil), l.Slots...)
		here.Params = append([]uint64(nil), l.Params...)
		t := &task{kernel: kn, detail: fmt.Sprintf("%d lanes", l.N), cancelled: here.Record.Stopped}
		if err := kn.bind(t, &here); err != nil {
			return nil, err
		}
		if here.Record == nil {
			here.Record = new(backends.Record) // so that the engine can be stopped
		}
		t.stop = here.Record.Stop
		t.do = func() error { return kn.run(&here) }
		return t, nil
	})
}

// check finds what core must have seen to, or what the kernel's variant rules out.
func (k *kernel) check(l *backends.Launch) error {
	if len(l.Slots) != len(k.ir.Slots) || len(l.Params) != len(k.ir.ParamTypes) {
		return fmt.Errorf("%d slots and %d parameters given, the program has %d and %d",
			len(l.Slots), len(l.Params), len(k.ir.Slots), len(k.ir.ParamTypes))
	}
	for i, most := range k.device.backend.options.MaxGrid {
		if most > 0 && l.Grid[i] > most {
			return fmt.Errorf("grid %v: at most %v", l.Grid, k.device.backend.options.MaxGrid)
		}
	}
	b := k.device.backend
	if k.variant.NoFuel && l.Fuel != 0 {
		return b.breach("a kernel for launches without fuel gets %d steps", l.Fuel)
	}
	if s := specialOf(l); b.options.Specialize && l.N > 0 && !k.made[s] {
		return b.breach("a launch needs code that was not made before it: %+v", s)
	}
	for i := range l.Slots {
		v := &l.Slots[i]
		if v.Addr%uintptr(max(v.Type.Size(), 1)) != 0 {
			return fmt.Errorf("slot %d: address %#x is no multiple of the %d bytes of %v", i, v.Addr, v.Type.Size(), v.Type)
		}
		if k.variant.Packed && k.ir.Slots[i].Indexed && !packed(l, v) {
			return b.breach("a kernel for packed slots gets slot %d with strides %v over %v", i, v.Stride[:l.Rank], l.Shape[:l.Rank])
		}
	}
	return nil
}

// packed reports whether a view is contiguous over the index space, or stands
// for one element.
func packed(l *backends.Launch, v *backends.View) bool {
	contiguous, one := true, true
	step := int64(1)
	for d := l.Rank - 1; d >= 0; d-- {
		if l.Shape[d] != 1 {
			contiguous = contiguous && v.Stride[d] == step
			one = one && v.Stride[d] == 0
		}
		step *= l.Shape[d]
	}
	return contiguous || one
}

// bind finds the memory of everything that l names, notes how it is used, and
// changes addresses to real ones. The caller holds the lock.
func (k *kernel) bind(t *task, l *backends.Launch) error {
	for i := range l.Slots {
		v := &l.Slots[i]
		lo, hi := extent(v, l.N == 0)
		if v.Addr == 0 || lo == hi {
			continue
		}
		b, err := k.device.find(v.Addr+uintptr(lo), hi-lo)
		if err != nil {
			return fmt.Errorf("slot %d: %w", i, err)
		}
		if b.owner == ofHost {
			return fmt.Errorf("slot %d: %v are AllocHost's; expected the device's memory", i, b)
		}
		u := usedBytes(b, v.Addr+uintptr(lo), hi-lo, k.ir.Slots[i].Writes)
		if u.write || k.ir.Slots[i].Reads {
			t.uses = append(t.uses, u)
		}
		v.Addr = b.at(v.Addr)
	}
	if need := k.Workspace(l); need > 0 {
		b, err := k.device.find(l.Workspace, need)
		if err != nil || b.owner == ofHost || l.Workspace%64 != 0 {
			return fmt.Errorf("workspace: there are no %d bytes of the device's memory, aligned to 64, at %#x", need, l.Workspace)
		}
		t.uses = append(t.uses, usedBytes(b, l.Workspace, need, true))
		l.Workspace = b.at(l.Workspace)
	}
	if l.Record != nil {
		if err := k.bindHost(t, "Record", unsafe.Pointer(l.Record), int64(unsafe.Sizeof(*l.Record))); err != nil {
			return err
		}
	}
	if l.Phase != nil {
		return k.bindHost(t, "Phase", unsafe.Pointer(l.Phase), 4)
	}
	return nil
}

func (k *kernel) bindHost(t *task, what string, p unsafe.Pointer, n int64) error {
	b := k.device.blocks.find(uintptr(p), n)
	if b == nil || b.owner != ofHost {
		return fmt.Errorf("%s: %p is not in memory of the device's AllocHost", what, p)
	}
	t.uses = append(t.uses, usedBytes(b, uintptr(p), n, true))
	return nil
}

// extent returns which bytes a view reaches, from its address.
func extent(v *backends.View, noLanes bool) (lo, hi int64) {
	size := int64(v.Type.Size())
	if !noLanes {
		hi = size
		for d := range v.Rank {
			if v.Shape[d] == 0 {
				return 0, v.Bytes
			}
			reach := (v.Shape[d] - 1) * v.Stride[d] * size
			lo, hi = lo+min(reach, 0), hi+max(reach, 0)
		}
	}
	return lo, max(hi, v.Bytes)
}

// run runs a launch whose addresses are real. What the program did wrong goes
// to the record alone.
func (k *kernel) run(l *backends.Launch) error {
	mem := hostmem.Bytes(l.Workspace, k.Workspace(l))
	for i := range mem {
		mem[i] = poison
	}
	err := k.code.Run(l, k.device.pool)
	var fault *backends.ProgramFault
	switch {
	case errors.As(err, &fault):
		if k.variant.Proved && fault.Kind == isa.FaultAccess && k.toSlot(fault.Site) {
			b := k.device.backend
			b.mu.Lock()
			_ = b.breach("a kernel whose accesses were proved strays: %v", fault)
			b.unlock()
		}
	case err != nil && !errors.Is(err, backends.ErrCancelled):
		return err
	}
	l.Record.Note(err)
	return nil
}

// toSlot reports whether the instruction of a site accesses a slot.
func (k *kernel) toSlot(site int) bool {
	n := k.ir.Sites[site]
	if !n.Op.IsInst() || n.Mem.Mode == isa.AddrShared {
		return false
	}
	op := n.Op.Inst()
	return op == isa.LDG || op == isa.STG || op >= isa.ATOM_ADD && op <= isa.ATOM_CAS
}
