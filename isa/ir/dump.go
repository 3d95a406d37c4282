package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

var constructNames = [...]string{"const", "if", "loop", "block", "br"}

// String returns the operation's name: an instruction's in upper case, a
// construct's in lower case.
func (op Op) String() string {
	if op.IsInst() {
		return op.Inst().String()
	}
	if i := int(op - Const); i < len(constructNames) {
		return constructNames[i]
	}
	return "INVALID"
}

// String returns f as text for people: values are %0, %1 …, constants stand
// where they are used, slots and parameters go by number.
func (f *Func) String() string {
	s, _ := f.Text(nil) // nothing stops it
	return s
}

// Text is String, counted and stopped by m; the error is then m's.
func (f *Func) Text(m *work.Meter) (text string, err error) {
	defer work.Catch(&err)
	d := &dumper{f: f, work: m, counting: true}
	d.all()
	d.counting, d.b = false, make([]byte, 0, d.size)
	d.all()
	return unsafe.String(unsafe.SliceData(d.b), len(d.b)), nil // nobody else has it
}

// all writes the text.
func (d *dumper) all() {
	f := d.f
	d.labels = map[*Node]int{}
	for i, t := range f.SlotTypes {
		d.line("slot s%d %v%s", i, t, slotNote(f.Slots, i))
	}
	own := len(f.ParamTypes) - len(f.Given)
	for i, t := range f.ParamTypes {
		if i < own {
			d.line("param p%d %v", i, t)
		} else {
			d.line("given p%d %v ; %v", i, t, f.Given[i-own])
		}
	}
	for i, t := range f.Data {
		d.line("data d%d %v[%d]", i, t.Type, len(t.Values))
	}
	if f.Shared > 0 {
		d.line("shared %d", f.Shared)
	}
	if f.Block != [3]uint32{} {
		d.line("block %d %d %d", f.Block[0], f.Block[1], f.Block[2])
	}
	d.region(f.Body)
}

func slotNote(slots []isa.SlotUse, i int) string {
	if i >= len(slots) {
		return ""
	}
	s := ""
	if slots[i].Reads {
		s += " in"
	}
	if slots[i].Writes {
		s += " out"
	}
	return s
}

// dumper writes a Func's text twice: first to know its size, of which large
// programs have several times their own, then for good.
type dumper struct {
	f        *Func
	work     *work.Meter
	b        []byte
	counting bool // what is in b is counted in size, a line at a time
	size     int
	indent   int
	labels   map[*Node]int
}

// indents holds the indentation of a line. What nests deeper than it has room
// for stands no further to the right: else the text would grow with the square
// of the program.
const indents = "                                                                "

func (d *dumper) begin() {
	d.work.Step(1)
	d.b = append(d.b, indents[:min(2*d.indent, len(indents))]...)
}

func (d *dumper) put(s string) { d.b = append(d.b, s...) }

func (d *dumper) end() {
	d.b = append(d.b, '\n')
	if d.counting {
		d.size += len(d.b)
		d.b = d.b[:0]
	}
}

func (d *dumper) line(format string, args ...any) {
	d.begin()
	d.b = fmt.Appendf(d.b, format, args...)
	d.end()
}

// formatCell writes a constant of type t: integers in decimal, floats in hex.
func formatCell(t isa.Type, cell uint64) string {
	switch {
	case t == isa.Pred:
		return strconv.FormatBool(cell != 0)
	case t.Signed():
		shift := 64 - t.Bits()
		return strconv.FormatInt(int64(cell<<shift)>>shift, 10)
	case t == isa.F32:
		return formatFloat(float64(math.Float32frombits(uint32(cell))), cell)
	case t == isa.F64:
		return formatFloat(math.Float64frombits(cell), cell)
	case t.Float():
		return fmt.Sprintf("%#0*x", 2+t.Size()*2, cell)
	}
	return strconv.FormatUint(cell, 10)
}

func formatFloat(x float64, cell uint64) string {
	if x != x {
		return fmt.Sprintf("nan(%#x)", cell)
	}
	if s := strconv.FormatFloat(x, 'g', -1, 64); len(s) <= 8 {
		if x == math.Trunc(x) && !strings.ContainsAny(s, "e.I") {
			s += ".0"
		}
		return s
	}
	return strconv.FormatFloat(x, 'x', -1, 64)
}

func (d *dumper) value(v *Value) {
	if c, ok := v.Const(); ok {
		d.put(formatCell(v.Type, c))
		return
	}
	d.number("%", int64(v.ID))
}

// number writes what stands before a number, and the number.
func (d *dumper) number(before string, n int64) {
	d.b = strconv.AppendInt(append(d.b, before...), n, 10)
}

func (d *dumper) values(list []*Value) {
	d.join(list, d.value)
}

// def writes where a value is defined.
func (d *dumper) def(v *Value) {
	d.number("%", int64(v.ID))
	d.put(":")
	d.put(v.Type.String())
}

// join writes values one after the other.
func (d *dumper) join(list []*Value, write func(*Value)) {
	d.work.Step(len(list))
	for i, v := range list {
		if i > 0 {
			d.put(", ")
		}
		write(v)
	}
}

func (d *dumper) label(n *Node) {
	if n == nil {
		d.put("end")
		return
	}
	if _, ok := d.labels[n]; !ok {
		d.labels[n] = len(d.labels)
	}
	d.number("L", int64(d.labels[n]))
}

func (d *dumper) region(r *Region) {
	d.indent++
	for _, n := range r.Nodes {
		if n.Op != Const {
			d.node(n)
		}
	}
	if len(r.Yield) > 0 {
		d.begin()
		d.put("yield ")
		d.values(r.Yield)
		d.end()
	}
	d.indent--
}

func (d *dumper) node(n *Node) {
	d.begin()
	if len(n.Results) > 0 {
		d.join(n.Results, d.def)
		d.put(" = ")
	}
	switch n.Op {
	case If:
		d.put("if ")
		d.value(n.Args[0])
		d.open(n.Regions[0])
		if e := n.Regions[1]; len(e.Nodes) > 0 || len(e.Yield) > 0 {
			d.begin()
			d.put("} else")
			d.open(e)
		}
		d.line("}")
	case Block:
		d.put("block ")
		d.label(n)
		d.open(n.Regions[0])
		d.line("}")
	case Loop:
		d.put("loop ")
		d.label(n)
		inits := n.Args
		if n.Counted {
			d.put(" ")
			d.value(n.Args[0])
			d.put(" times")
			inits = inits[1:]
		}
		d.put(" (")
		d.join(n.Regions[0].Params, func(p *Value) {
			d.def(p)
			d.put(" = ")
			d.value(inits[p.Index])
		})
		d.put(") {")
		d.site(n)
		d.end()
		d.region(n.Regions[0])
		d.line("}")
	case Br:
		d.put("br ")
		d.label(n.Target)
		d.put("(")
		d.values(n.Args)
		d.put(")")
		d.end()
	default:
		d.inst(n)
		d.site(n)
		d.end()
	}
}

// open ends a line with a brace and writes a region's.
func (d *dumper) open(r *Region) {
	d.put(" {")
	d.end()
	d.region(r)
}

func (d *dumper) inst(n *Node) {
	row, _ := isa.Lookup(n.Op.Inst())
	for _, c := range []byte(row.Name) {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		d.b = append(d.b, c)
	}
	if n.Cond != isa.NoCond {
		d.put(".")
		d.put(n.Cond.String())
	}
	if n.Type != isa.NoType {
		d.put(".")
		d.put(n.Type.String())
	}
	if n.From != isa.NoType {
		d.put(".")
		d.put(n.From.String())
	}
	args := n.Args[n.AddrArgs():]
	before := " "
	for i := range row.Operands {
		o := &row.Operands[i]
		switch o.Kind {
		case isa.Src, isa.SrcReg, isa.PredSrc, isa.Mem, isa.SharedMem, isa.AnyMem, isa.ParamRef, isa.DataRef, isa.SpecialRef, isa.ScopeRef, isa.Imm:
			d.put(before)
			before = ", "
		}
		switch o.Kind {
		case isa.Src, isa.SrcReg, isa.PredSrc:
			d.value(args[0])
			args = args[1:]
		case isa.Mem, isa.SharedMem, isa.AnyMem:
			d.mem(n)
		case isa.ParamRef:
			d.number("p", int64(n.Imm))
		case isa.DataRef:
			d.number("d", int64(n.Imm))
		case isa.SpecialRef:
			d.put(isa.Special(n.Imm).String())
		case isa.ScopeRef:
			d.put(isa.Scope(n.Imm).String())
		case isa.Imm:
			d.put(formatCell(operandType(o.Type, &isa.Inst{Form: n.Form}), n.Imm))
		}
	}
}

func (d *dumper) mem(n *Node) {
	args := n.Args
	switch n.Mem.Mode {
	case isa.AddrShared:
		d.put("shared")
	case isa.AddrIndirect:
		d.put("@")
		d.value(args[0])
		args = args[1:]
	default:
		d.number("s", int64(n.Mem.Slot))
	}
	switch {
	case n.Mem.Mode == isa.AddrIndex:
		d.put("[index]")
		return
	case n.Mem.HasOff:
		d.put("[")
		d.value(args[0])
		if n.Mem.Offset >= 0 {
			d.put("+")
		}
		d.number("", n.Mem.Offset)
	default:
		d.number("[", n.Mem.Offset)
	}
	d.put("]")
}

func (d *dumper) site(n *Node) {
	if n.Site >= 0 {
		d.number("  ; site ", int64(n.Site))
	}
}
