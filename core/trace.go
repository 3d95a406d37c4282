package core

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
)

// Trace runs a launch on the interpreter, whatever the executor's backend, and
// tells line of each instruction that the lane with the given global number
// runs: its place, its text and its operands' values. The executor's memory
// must be the host's.
//
// The launch comes after the work queued before it, but what is queued later
// doesn't wait for it: line is called from another goroutine with no lock held,
// and may use the executor and see its memory as the lane left it. line is not
// called any more when the event is done.
func (ex *Executor) Trace(p *Program, a *LaunchArgs, lane uint64, line func(string)) (*Event, error) {
	if !ex.device.Info.HostVisible {
		return nil, Errorf(Unavailable, "trace: the interpreter cannot see memory of %s; use an executor on cpu", ex.device.Name)
	}
	room := new(prepared)
	b, _, err := ex.bind(room, a.call(p), nil)
	if err != nil {
		return nil, err
	}
	if n := b.Launch().N; lane >= n {
		defer b.Release()
		return nil, Errorf(Invalid, "%s: trace: lane is %d; the launch has %d lanes", b.What(), lane, n)
	}
	texts := p.p.Lines()
	src := p.Source()
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
	if t.before, err = ex.Phase(&t.phase); err != nil {
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
		defer func() { // in order with launches; nothing to set if the stream is closed
			_, _ = t.ex.stream.Submit(&setPhase{phase}, queue.How{})
		}()
	}
	return 0, interp.Trace(&backends.Unit{Source: t.program.Verified()}, l, t.lane, t.tell)
}

// Outcome tells of the interpreter, whose sites are instructions, whatever the
// device's are.
func (t *trace) Outcome(err error) error {
	what, slots := t.What(), t.Launch().Slots
	_ = t.Bound.Outcome(nil)
	return t.program.p.Outcome(what, err, true, slots)
}

// setPhase sets the stream's phase.
type setPhase struct{ to uint32 }

func (s *setPhase) Run(t *queue.Target) (backends.Ticket, error) {
	atomic.StoreUint32(t.Phase, s.to)
	return t.Last, nil
}
func (*setPhase) Outcome(err error) error { return err }
func (*setPhase) Cancel() bool            { return true }
func (*setPhase) Release()                {}

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
