package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"

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
	d := &dumper{f: f, work: m, labels: map[*Node]int{}}
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
	return d.b.String(), nil
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

type dumper struct {
	f      *Func
	work   *work.Meter
	b      strings.Builder
	list   []byte // room for one
	indent int
	labels map[*Node]int
}

// indents holds the indentation of a line. What nests deeper than it has room
// for stands no further to the right: else the text would grow with the square
// of the program.
const indents = "                                                                "

func (d *dumper) line(format string, args ...any) {
	d.work.Step(1)
	d.b.WriteString(indents[:min(2*d.indent, len(indents))])
	fmt.Fprintf(&d.b, format, args...)
	d.b.WriteByte('\n')
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

func (d *dumper) value(v *Value) string {
	if c, ok := v.Const(); ok {
		return formatCell(v.Type, c)
	}
	return "%" + strconv.Itoa(v.ID)
}

func (d *dumper) values(list []*Value) string {
	return d.join(list, func(b []byte, v *Value) []byte { return append(b, d.value(v)...) })
}

func (d *dumper) defs(list []*Value) string {
	return d.join(list, appendDef)
}

// appendDef writes where a value is defined.
func appendDef(b []byte, v *Value) []byte {
	b = strconv.AppendInt(append(b, '%'), int64(v.ID), 10)
	return append(append(b, ':'), v.Type.String()...)
}

// join writes values one after the other.
func (d *dumper) join(list []*Value, write func([]byte, *Value) []byte) string {
	d.work.Step(len(list))
	d.list = d.list[:0]
	for i, v := range list {
		if i > 0 {
			d.list = append(d.list, ", "...)
		}
		d.list = write(d.list, v)
	}
	return string(d.list)
}

func (d *dumper) label(n *Node) string {
	if n == nil {
		return "end"
	}
	if _, ok := d.labels[n]; !ok {
		d.labels[n] = len(d.labels)
	}
	return fmt.Sprintf("L%d", d.labels[n])
}

func (d *dumper) region(r *Region) {
	d.indent++
	for _, n := range r.Nodes {
		if n.Op != Const {
			d.node(n)
		}
	}
	if len(r.Yield) > 0 {
		d.line("yield %s", d.values(r.Yield))
	}
	d.indent--
}

func (d *dumper) node(n *Node) {
	lhs := ""
	if len(n.Results) > 0 {
		lhs = d.defs(n.Results) + " = "
	}
	switch n.Op {
	case If:
		d.line("%sif %s {", lhs, d.value(n.Args[0]))
		d.region(n.Regions[0])
		if e := n.Regions[1]; len(e.Nodes) > 0 || len(e.Yield) > 0 {
			d.line("} else {")
			d.region(e)
		}
		d.line("}")
	case Block:
		d.line("%sblock %s {", lhs, d.label(n))
		d.region(n.Regions[0])
		d.line("}")
	case Loop:
		inits, count := n.Args, ""
		if n.Counted {
			count = " " + d.value(n.Args[0]) + " times"
			inits = inits[1:]
		}
		ps := d.join(n.Regions[0].Params, func(b []byte, p *Value) []byte {
			return append(append(appendDef(b, p), " = "...), d.value(inits[p.Index])...)
		})
		d.line("%sloop %s%s (%s) {%s", lhs, d.label(n), count, ps, d.site(n))
		d.region(n.Regions[0])
		d.line("}")
	case Br:
		d.line("br %s(%s)", d.label(n.Target), d.values(n.Args))
	default:
		d.line("%s%s", lhs, d.inst(n))
	}
}

func (d *dumper) inst(n *Node) string {
	s := strings.ToLower(n.Op.String())
	if n.Cond != isa.NoCond {
		s += "." + n.Cond.String()
	}
	if n.Type != isa.NoType {
		s += "." + n.Type.String()
	}
	if n.From != isa.NoType {
		s += "." + n.From.String()
	}
	row, _ := isa.Lookup(n.Op.Inst())
	var ops []string
	args := n.Args[n.AddrArgs():]
	for _, o := range row.Operands {
		switch o.Kind {
		case isa.Src, isa.SrcReg, isa.PredSrc:
			ops = append(ops, d.value(args[0]))
			args = args[1:]
		case isa.Mem, isa.SharedMem, isa.AnyMem:
			ops = append(ops, d.mem(n))
		case isa.ParamRef:
			ops = append(ops, fmt.Sprintf("p%d", n.Imm))
		case isa.DataRef:
			ops = append(ops, fmt.Sprintf("d%d", n.Imm))
		case isa.SpecialRef:
			ops = append(ops, isa.Special(n.Imm).String())
		case isa.ScopeRef:
			ops = append(ops, isa.Scope(n.Imm).String())
		case isa.Imm:
			ops = append(ops, formatCell(operandType(o.Type, &isa.Inst{Form: n.Form}), n.Imm))
		}
	}
	if len(ops) > 0 {
		s += " " + strings.Join(ops, ", ")
	}
	return s + d.site(n)
}

func (d *dumper) mem(n *Node) string {
	base, args := fmt.Sprintf("s%d", n.Mem.Slot), n.Args
	switch n.Mem.Mode {
	case isa.AddrIndex:
		return base + "[index]"
	case isa.AddrShared:
		base = "shared"
	case isa.AddrIndirect:
		base = "@" + d.value(args[0])
		args = args[1:]
	}
	if !n.Mem.HasOff {
		return fmt.Sprintf("%s[%d]", base, n.Mem.Offset)
	}
	return fmt.Sprintf("%s[%s%+d]", base, d.value(args[0]), n.Mem.Offset)
}

func (d *dumper) site(n *Node) string {
	if n.Site < 0 {
		return ""
	}
	return fmt.Sprintf("  ; site %d", n.Site)
}
