package interp

import (
	"fmt"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// Step is an instruction that a lane ran.
type Step struct {
	Inst   int     // index in Program.Insts
	Values []Value // of its operands, in the order of the row; those left out and labels are left out
}

// Value is what an operand held: sources when they were read, destinations
// after they were written. Of an address, Bits is the byte offset (i64) in
// the slot, from the view's first element, or in shared memory.
type Value struct {
	Operand int // index in the row's Operands
	Type    isa.Type
	Bits    uint64
}

// Trace runs a launch as the backend does and calls step for each instruction
// that the lane with the given global number runs, in order. The error is the
// launch's, *backends.ProgramFault included; a lane that does not run is an error.
func Trace(u *backends.Unit, l *backends.Launch, lane uint64, step func(Step)) error {
	if lane >= l.N {
		return fmt.Errorf("interp: trace lane %d: the launch runs lanes 0 to %d", lane, int64(l.N)-1)
	}
	c, err := compile(u.Source)
	if err != nil {
		return err
	}
	return launch(c, l, &watch{lane: lane, tell: step})
}

// Faults runs a launch as the backend does and tells of each fault of each lane,
// of which the launch's error, which it returns, is one. A launch that other
// engines run may report any of them.
func Faults(u *backends.Unit, l *backends.Launch, tell func(backends.ProgramFault)) error {
	c, err := compile(u.Source)
	if err != nil {
		return err
	}
	return launch(c, l, &watch{fault: tell})
}

// watch is whom to tell of a lane's steps, or of all lanes' faults.
type watch struct {
	lane  uint64
	tell  func(Step)
	fault func(backends.ProgramFault)
}

// before records the sources of the instruction that l is about to run.
func (w *watch) before(m *machine, l *lane, in *isa.Inst) {
	if w.tell == nil || w.lane != l.global {
		return
	}
	l.step = &Step{Inst: l.pc}
	row, _ := isa.Lookup(in.Op)
	for i, o := range row.Operands {
		a := &in.Args[i]
		v := Value{Operand: i, Type: operandType(in, o)}
		switch a.Kind {
		case isa.ArgReg:
			v.Type, v.Bits = l.types[a.Reg], l.regs[a.Reg]
		case isa.ArgPred, isa.ArgImm:
			v.Bits = l.read(a)
			if v.Type == isa.TypeAnyInt {
				v.Type = isa.I64
			}
		case isa.ArgAddr:
			v.Type, v.Bits = isa.I64, uint64(m.distance(l, a, in.Type))
		default:
			continue
		}
		l.step.Values = append(l.step.Values, v)
	}
}

// distance returns the byte offset that an address means.
func (m *machine) distance(l *lane, a *isa.Arg, t isa.Type) int64 {
	if a.Mode != isa.AddrIndex {
		off, _ := l.offset(a)
		return off
	}
	return m.slots[a.Slot].distance(l, m.launch.Rank, t)
}

// after adds what the instruction wrote and tells of the step.
func (w *watch) after(l *lane, in *isa.Inst) {
	if t := resultType(in); t != isa.NoType {
		l.step.Values[0].Type, l.step.Values[0].Bits = t, l.read(&in.Args[0])
	}
	s := *l.step
	l.step = nil
	w.tell(s)
}
