package core

import (
	"fmt"
	"math"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
)

// Trace runs a launch, whose operands are buffers, on the interpreter, whatever
// the executor's backend, and tells line of each instruction that the lane with
// the given global number runs: its place, its text and its operands' values.
// The executor's memory must be the host's.
//
// The launch comes after the work queued before it, on whichever stream uses its
// memory, but what is queued later doesn't wait for it: line is called from another goroutine with no lock held,
// and may use the executor and see its memory as the lane left it. line is not
// called any more when the event is done.
func (ex *Executor) Trace(c *Call, lane uint64, line func(string)) (*Event, error) {
	if !ex.device.Info.HostVisible {
		return nil, Errorf(Unavailable, "trace: the interpreter cannot see memory of %s; use an executor on cpu", ex.device.Name)
	}
	p := c.Program
	src := p.Source()
	for i := range min(len(c.Operands), len(src.Slots)) {
		if o := &c.Operands[i]; o.Buffer == nil && !o.Unbound {
			r := &call.Request{Program: p.p}
			return nil, Errorf(Invalid, "%s: %s: a trace takes buffers; wrap the memory of others", r.What(), r.Name(i))
		}
	}
	d := ex.draft(c)
	b, _, err := ex.bind(d, c, nil)
	d.release()
	if err != nil {
		return nil, err
	}
	if n := b.Launch().N; lane >= n {
		defer b.Release()
		return nil, Errorf(Invalid, "%s: trace: lane is %d; the launch has %d lanes", b.What(), lane, n)
	}
	texts := p.p.Lines()
	tell := func(s interp.Step) {
		var b strings.Builder
		fmt.Fprintf(&b, "%4d  %-40s", s.Inst, texts[s.Inst])
		row, _ := isa.Lookup(src.Insts[s.Inst].Op)
		for _, v := range s.Values {
			fmt.Fprintf(&b, "  %s=%s", row.Operands[v.Operand].Name, cellText(v.Type, v.Bits))
		}
		line(strings.TrimRight(b.String(), " "))
	}
	t := &trace{Bound: b, ex: ex, program: p, lane: lane, tell: tell}
	// The fence may outlast the Bound, which then may be another call's.
	before := &fence{phase: &t.phase, memory: b.Memory()}
	for _, m := range before.memory {
		m.Begin()
	}
	if t.before, err = ex.stream.Submit(before, queue.How{Outcome: true}); err != nil {
		b.Release()
		return nil, err
	}
	return ex.stream.Beside(t)
}

// trace is a launch on the interpreter. What it holds, and is told, is its
// Bound's business.
type trace struct {
	*call.Bound
	ex      *Executor
	program *Program
	lane    uint64
	tell    func(interp.Step)
	before  *Event // the work before it; nil where that is done
	phase   int32  // of the stream then
}

func (t *trace) Run(target *queue.Target) (backends.Ticket, error) {
	l := t.Launch()
	if t.before != nil {
		if err := queue.Await(t.before, l.Record.Stopped); err != nil {
			return 0, err
		}
	}
	phase := uint32(t.phase)
	if t.program.p.Phase {
		l.Phase = &phase
		defer t.setPhase(&phase)
	}
	return 0, interp.Trace(&backends.Unit{Source: t.program.Verified()}, l, t.lane, t.tell)
}

// Outcome tells of the interpreter, whose sites are instructions, whatever the
// device's are.
func (t *trace) Outcome(err error) error {
	what, l := t.What(), t.Launch()
	_ = t.Bound.Outcome(nil)
	return t.program.p.Outcome(what, "", err, true, l)
}

// setPhase sets the executor's phase, in order with launches. If the executor is
// closed there is none: where that memory has gone to another, the stream refuses.
func (t *trace) setPhase(to *uint32) {
	from, _, err := t.ex.device.host.Take(nil, 4, nil)
	if err != nil {
		return // no four bytes
	}
	*(*uint32)(hostmem.Pointer(from.Addr)) = *to
	if !t.ex.phase.Begin() {
		from.Release()
		return
	}
	_, _ = t.ex.stream.Submit(&transfer{ex: t.ex, mem: t.ex.phase, at: t.ex.phase.Addr, host: from.Addr, bytes: 4, keep: from}, queue.How{})
}

// cellText writes a cell's value for people.
func cellText(t isa.Type, bits uint64) string {
	switch {
	case t == isa.Pred:
		return fmt.Sprint(bits != 0)
	case t.Float():
		return fmt.Sprintf("%v", math.Float64frombits(isa.Convert(isa.F64, t, bits)))
	case t.Signed():
		return fmt.Sprint(int64(isa.Convert(isa.I64, t, bits)))
	case t.Unsigned():
		return fmt.Sprint(bits)
	}
	return fmt.Sprintf("0x%x", bits)
}
