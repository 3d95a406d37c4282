package isa

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Builder makes a Program from Go. Its handles are typed, so that much of what
// could be wrong does not compile; the rest is collected and comes from Build,
// with the file and line of the call that was wrong.
//
//	b := isa.NewBuilder("mul_add_relu")
//	x, y := b.Slot("x", isa.F32), b.Slot("y", isa.F32)
//	v, w := b.Reg("v"), b.Reg()
//	b.Op(isa.LDG, isa.F32, v, x.Index())
//	b.Op(isa.MUL, isa.F32, w, v, v)
//	b.Op(isa.ADD, isa.F32, w, w, v)
//	b.Op(isa.MAX, isa.F32, w, w, isa.Float(0))
//	b.Op(isa.STG, isa.F32, w, y.Index())
//	b.Op(isa.EXIT, isa.NoType)
//	p, err := b.Build()
//
// A Builder is for one goroutine. After Build it is not used further.
type Builder struct {
	p      Program
	errs   []error
	placed []bool          // by label
	labels map[string]bool // their names
	freed  []uint8
	next   int // the first register never given out
	preds  int // likewise
}

// NewBuilder starts a program.
func NewBuilder(name string) *Builder {
	return &Builder{p: Program{Name: name}, labels: map[string]bool{}}
}

// BuildError is a wrong call to a Builder.
type BuildError struct {
	File string // of the call
	Line int
	Msg  string
}

// Error returns "file:line: message".
func (e *BuildError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// fail records an error at the innermost caller outside the builder.
func (b *Builder) fail(format string, args ...any) {
	if len(b.errs) >= MaxErrors {
		return
	}
	e := &BuildError{Msg: fmt.Sprintf(format, args...)}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		e.File, e.Line = f.File, f.Line
		if !more || !strings.Contains(f.Function, "/isa.(*Builder).") {
			break
		}
	}
	b.errs = append(b.errs, e)
}

// Build returns the program, which is well formed as Check says. The error
// joins the first MaxErrors errors of type *BuildError, or is what Check found.
func (b *Builder) Build() (*Program, error) {
	for i, placed := range b.placed {
		if !placed {
			b.fail("label %s is not placed", b.p.Labels[i].Name)
		}
	}
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	own := b.p
	p := own.labelsInOrder()
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}

// Slot declares a slot of element type t.
func (b *Builder) Slot(name string, t Type) SlotHandle {
	b.p.Slots = append(b.p.Slots, Slot{name, t})
	return SlotHandle{b, len(b.p.Slots) - 1}
}

// Param declares a parameter.
func (b *Builder) Param(name string, t Type) ParamHandle {
	b.p.Params = append(b.p.Params, Param{name, t})
	return ParamHandle{b, len(b.p.Params) - 1}
}

// Data declares a constant table of cells: see Cell.
func (b *Builder) Data(name string, t Type, values []uint64) TableHandle {
	b.p.Data = append(b.p.Data, Data{name, t, slices.Clone(values)})
	return TableHandle{b, len(b.p.Data) - 1}
}

// Shared sets the size of a block's shared memory in bytes.
func (b *Builder) Shared(bytes uint32) { b.p.Shared = bytes }

// Block demands a block shape.
func (b *Builder) Block(x, y, z uint32) { b.p.Block = [3]uint32{x, y, z} }

// Reg gives out a register, with a name if one is given.
func (b *Builder) Reg(name ...string) Register {
	if len(name) == 0 && len(b.freed) > 0 {
		r := b.freed[len(b.freed)-1]
		b.freed = b.freed[:len(b.freed)-1]
		return Register{b, r}
	}
	r := b.Regs(1)[0]
	if len(name) > 0 {
		b.p.Debug.Regs[r.n] = name[0]
	}
	return r
}

// Regs gives out n registers with consecutive numbers, as REDUCE_ADD wants them.
func (b *Builder) Regs(n int) []Register {
	if n < 0 || n > FirstPreset-b.next {
		b.fail("%d more registers; %d of %d are left", n, FirstPreset-b.next, FirstPreset)
		return make([]Register, max(n, 0))
	}
	regs := make([]Register, n)
	for i := range regs {
		regs[i] = Register{b, uint8(b.next)}
		b.next++
	}
	return regs
}

// Free gives a register without a name back: Reg may give it out again.
func (b *Builder) Free(r Register) {
	if r.b != b || int(r.n) >= b.next || slices.Contains(b.freed, r.n) {
		b.fail("free of a register that this builder has not given out")
		return
	}
	if b.p.Debug.Regs[r.n] == "" {
		b.freed = append(b.freed, r.n)
	}
}

// Preset returns the register that holds LaneX, BlockX, BlockDimX or
// GlobalLane when a lane starts.
func (b *Builder) Preset(s Special) Register {
	for i, p := range PresetRegisters {
		if p == s {
			return Register{b, uint8(FirstPreset + i)}
		}
	}
	b.fail("no register is set to %v; SREG reads it", s)
	return Register{b, FirstPreset}
}

// Pred gives out a predicate, with a name if one is given.
func (b *Builder) Pred(name ...string) Predicate {
	if b.preds == NumPredicates {
		b.fail("one more predicate; all %d are taken", NumPredicates)
		return Predicate{b: b}
	}
	p := Predicate{b: b, n: uint8(b.preds)}
	if len(name) > 0 {
		b.p.Debug.Preds[p.n] = name[0]
	}
	b.preds++
	return p
}

// Label makes a label, to be placed by Place. With no name, or one that is
// taken, it gets a name of its own.
func (b *Builder) Label(name string) LabelHandle {
	base := cmp.Or(name, "L")
	for i := len(b.p.Labels); name == "" || b.labels[name]; i++ {
		name = fmt.Sprintf("%s.%d", base, i)
	}
	b.labels[name] = true
	b.p.Labels = append(b.p.Labels, Label{Name: name})
	b.placed = append(b.placed, false)
	return LabelHandle{b, len(b.p.Labels) - 1}
}

// Place puts a label before the next instruction.
func (b *Builder) Place(l LabelHandle) {
	if l.b != b || b.placed[l.n] {
		b.fail("the label is another builder's or already placed")
		return
	}
	b.placed[l.n] = true
	b.p.Labels[l.n].At = len(b.p.Insts)
}

// Op adds an instruction of type t (NoType where it has none). Optional
// operands at the end may be left out.
func (b *Builder) Op(op Op, t Type, args ...BuilderArg) { b.OpForm(op, Form{Type: t}, args...) }

// Set adds a comparison.
func (b *Builder) Set(c Cond, t Type, dst Predicate, x, y BuilderArg) {
	b.OpForm(SET, Form{Type: t, Cond: c}, dst, x, y)
}

// Cvt adds a conversion.
func (b *Builder) Cvt(to, from Type, dst Register, src BuilderArg) {
	b.OpForm(CVT, Form{Type: to, From: from}, dst, src)
}

// Bitcast adds a reinterpretation of bits.
func (b *Builder) Bitcast(to, from Type, dst Register, src BuilderArg) {
	b.OpForm(BITCAST, Form{Type: to, From: from}, dst, src)
}

// Loop adds a LOOP that runs what body adds count times; count is a Register
// of type u32 or Int.
func (b *Builder) Loop(count BuilderArg, body func()) {
	end := b.Label("")
	b.Op(LOOP, NoType, count, end)
	body()
	b.Place(end)
}

// If adds what then adds, to be run where p holds, and what otherwise adds,
// which may be nil, to be run where it does not.
func (b *Builder) If(p Predicate, then, otherwise func()) {
	end := b.Label("")
	if otherwise == nil {
		b.Op(BRA, NoType, end, p.Not())
		then()
		b.Place(end)
		return
	}
	other := b.Label("")
	b.Op(BRA, NoType, other, p.Not())
	then()
	b.Op(BRA, NoType, end)
	b.Place(other)
	otherwise()
	b.Place(end)
}

// OpForm adds an instruction of form f.
func (b *Builder) OpForm(op Op, f Form, args ...BuilderArg) {
	row, ok := Lookup(op)
	if !ok {
		b.fail("there is no operation %d", op)
		return
	}
	if e := row.checkForm(f); e != nil {
		b.fail("%s; %s", e.msg, e.hint)
		return
	}
	in := Inst{Op: op, Form: f}
	if len(args) > len(row.Operands) {
		b.fail("%s takes %s, %d are given: %s", row.Typed(f), countOperands(len(row.Operands)), len(args), row.Signature())
		return
	}
	for i, o := range row.Operands {
		if i >= len(args) {
			if !o.Optional {
				b.fail("%s lacks its operand %s: %s", row.Typed(f), o.Name, row.Signature())
				return
			}
			continue
		}
		var why string
		if args[i] == nil {
			why = "nil"
		} else {
			in.Args[i], why = args[i].argument(b, o, f)
		}
		if why == "" && !o.Accepts(in.Args[i].Kind, f) {
			why = in.Args[i].Kind.String()
		}
		if why != "" {
			b.fail("operand %s of %s is %s; expected %s", o.Name, row.Typed(f), why, expected(o, f))
			return
		}
	}
	b.p.Insts = append(b.p.Insts, in)
}

// expected lists what may stand in the place of o.
func expected(o Operand, f Form) string {
	var kinds []string
	for k := ArgReg; k <= ArgAddr; k++ {
		if !o.Accepts(k, f) {
			continue
		}
		s := k.String()
		if t := o.Holds(f); k == ArgImm && t.Integer() {
			s += fmt.Sprintf(" (%s)", integerRange(t))
		} else if k == ArgImm {
			s += " " + t.String()
		} else if k == ArgAddr {
			s += ": " + addressForms(o)
		}
		kinds = append(kinds, s)
	}
	return strings.Join(kinds, " or ")
}
