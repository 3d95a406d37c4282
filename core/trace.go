package core

import (
	"fmt"
	"math"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
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
	j := newLaunchJob("", p, ex.device)
	if err := j.prepareArgs(ex, a); err != nil {
		j.release()
		return nil, err
	}
	if lane >= j.l.N {
		defer j.release()
		return nil, Errorf(Invalid, "%s: trace: lane is %d; the launch has %d lanes", j.what(), lane, j.l.N)
	}
	texts := p.lines()
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
	t := &traceJob{launch: j, unit: &backends.Unit{Source: p.verified}, lane: lane, tell: tell}
	var err error
	if t.before, err = ex.stream.submit(&phaseJob{to: &t.phase}, false); err != nil {
		j.release()
		return nil, err
	}
	return ex.stream.beside(t)
}

type traceJob struct {
	launch *launchJob
	unit   *backends.Unit
	lane   uint64
	tell   func(interp.Step)
	before *Event // the work before it; nil where that is done
	phase  int32  // of the stream then
}

func (t *traceJob) run(s *stream) error {
	j := t.launch
	if t.before != nil {
		if err := await(t.before, j.stop.Load); err != nil {
			return err
		}
	}
	phase := uint16(t.phase)
	if j.l.Phase != nil {
		j.l.Phase = &phase
		defer s.submit(&phaseJob{set: &phase}, false) // in order with launches; nothing to set if the stream is closed
	}
	err := interp.Trace(t.unit, &j.l, t.lane, t.tell)
	j.collect()
	// The interpreter's sites are instructions, whatever the device's are.
	return j.program.finish(j.what(), err, &Device{Info: backends.Info{RunsSource: true}})
}
func (t *traceJob) cancel() { t.launch.cancel() }
func (t *traceJob) done()   { t.launch.release() }

// lines returns the text of each instruction.
func (p *Program) lines() []string {
	src := p.Source()
	if len(src.Debug.Lines) != len(src.Insts) {
		// From the binary form: what the disassembler would write.
		again, err := isa.Assemble("", p.Disassemble())
		if err != nil || len(again.Insts) != len(src.Insts) {
			return make([]string, len(src.Insts))
		}
		src = again
	}
	texts := make([]string, len(src.Insts))
	for i, n := range src.Debug.Lines {
		if int(n) >= 1 && int(n) <= len(src.Debug.Text) {
			text, _, _ := strings.Cut(src.Debug.Text[n-1], ";")
			texts[i] = trimmed(text)
		}
	}
	return texts
}

// cellText writes a cell's value for people.
func cellText(t isa.Type, bits uint64) string {
	switch {
	case t == isa.Pred:
		return fmt.Sprint(bits != 0)
	case t.Float():
		return fmt.Sprintf("%v", math.Float64frombits(convert(isa.F64, t, bits)))
	case t.Signed():
		return fmt.Sprint(int64(convert(isa.I64, t, bits)))
	case t.Unsigned():
		return fmt.Sprint(bits)
	}
	return fmt.Sprintf("0x%x", bits)
}
