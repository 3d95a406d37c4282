package isa

import (
	"fmt"
	"strings"
)

// Disassemble writes p in text form, so that Assemble gives back an equal
// program. Of a program that Check refuses it writes what can be written.
func Disassemble(p *Program) string {
	var b strings.Builder
	if p.Name != "" {
		fmt.Fprintf(&b, "program %s\n", p.Name)
	}
	for _, s := range p.Slots {
		fmt.Fprintf(&b, "slot %s %v\n", s.Name, s.Type)
	}
	for _, s := range p.Params {
		fmt.Fprintf(&b, "param %s %v\n", s.Name, s.Type)
	}
	if p.Shared != 0 {
		fmt.Fprintf(&b, "shared %d\n", p.Shared)
	}
	if p.Block != [3]uint32{} {
		fmt.Fprintf(&b, "block %d %d %d\n", p.Block[0], p.Block[1], p.Block[2])
	}
	for _, d := range p.Data {
		writeData(&b, d)
	}
	regs, preds := namedRegisters{names: p.Debug.Regs[:], free: FirstPreset}, namedRegisters{names: p.Debug.Preds[:], free: NumPredicates}
	p.eachRegister(regs.see, preds.see)
	for _, n := range regs.outOfOrder() {
		fmt.Fprintf(&b, "reg %s r%d\n", p.Debug.Regs[n], n)
	}
	for _, n := range preds.outOfOrder() {
		fmt.Fprintf(&b, "pred %s p%d\n", p.Debug.Preds[n], n)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	at := make(map[int][]string)
	for _, l := range p.Labels {
		at[l.At] = append(at[l.At], l.Name)
	}
	for i := 0; i <= len(p.Insts); i++ {
		for _, name := range at[i] {
			fmt.Fprintf(&b, "%s:\n", name)
		}
		if i < len(p.Insts) {
			fmt.Fprintf(&b, "  %s\n", p.Text(i))
		}
	}
	return b.String()
}

// dataLine is about how long a line of a table gets.
const dataLine = 100

func writeData(b *strings.Builder, d Data) {
	fmt.Fprintf(b, "data %s %v {", d.Name, d.Type)
	line := dataLine // the values start on a new line
	values := d.Values
	if !d.Type.Numeric() {
		values = nil
	}
	for i, v := range values {
		s := FormatImmediate(d.Type, v)
		if line+len(s) > dataLine {
			b.WriteString("\n  ")
			line = 0
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(s)
		line += len(s) + 2
		if i < len(values)-1 {
			b.WriteByte(',')
		}
	}
	if len(values) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
}

// eachRegister calls reg and pred for the registers and predicates that the
// instructions name, in the order of the text.
func (p *Program) eachRegister(reg, pred func(n uint8)) {
	for i := range p.Insts {
		for _, arg := range p.Insts[i].Args {
			switch arg.Kind {
			case ArgReg:
				reg(arg.Reg)
			case ArgPred:
				pred(arg.Reg)
			case ArgAddr:
				if arg.Mode == AddrIndirect {
					reg(arg.Handle)
				}
				if arg.hasOffset() && arg.HasReg {
					reg(arg.Reg)
				}
			}
		}
	}
}

// hasOffset reports whether the address has an offset, and perhaps a register for it.
func (a *Arg) hasOffset() bool {
	return a.Mode == AddrByte || a.Mode == AddrIndirect || a.Mode == AddrShared || a.Mode == AddrFlat
}

// namedRegisters finds the names that need a directive, because the assembler
// would give them another number.
type namedRegisters struct {
	names []string
	free  int
	seen  [NumRegisters]bool
	order []int // the named ones, by first appearance
}

func (r *namedRegisters) see(n uint8) {
	if int(n) < len(r.names) && !r.seen[n] {
		r.seen[n] = true
		if r.names[n] != "" {
			r.order = append(r.order, int(n))
		}
	}
}

// outOfOrder returns those registers, ascending.
func (r *namedRegisters) outOfOrder() []int {
	fixed := make([]bool, len(r.names)) // by a directive
	for n, name := range r.names {
		fixed[n] = name != "" && (!r.seen[n] || n >= r.free)
	}
	// A directive keeps its number from the other names, so each one found is
	// followed by another look.
	for {
		n := r.firstOutOfOrder(fixed)
		if n < 0 {
			break
		}
		fixed[n] = true
	}
	var list []int
	for n, f := range fixed {
		if f {
			list = append(list, n)
		}
	}
	return list
}

func (r *namedRegisters) firstOutOfOrder(fixed []bool) int {
	next := 0
	for _, n := range r.order {
		if fixed[n] {
			continue
		}
		for next < len(r.names) && (fixed[next] || r.seen[next] && r.names[next] == "") {
			next++
		}
		if n != next {
			return n
		}
		next++
	}
	return -1
}

// Text writes instruction i in text form, as Disassemble does.
func (p *Program) Text(i int) string {
	in := &p.Insts[i]
	row, ok := Lookup(in.Op)
	if !ok {
		return fmt.Sprintf("; invalid instruction %d", in.Op)
	}
	var b strings.Builder
	b.WriteString(row.Typed(in.Form))
	for i, o := range row.Operands {
		arg := in.Args[i]
		if arg.Kind == ArgNone {
			continue
		}
		element := i > 0 && row.Operands[i-1].Kind == DataRef
		switch {
		case element:
			b.WriteByte('[')
		case i == 0:
			b.WriteByte(' ')
		default:
			b.WriteString(", ")
		}
		b.WriteString(p.argText(o, in.Form, arg))
		if element {
			b.WriteByte(']')
		}
	}
	return b.String()
}

// argText writes an argument that stands in the place of o.
func (p *Program) argText(o Operand, f Form, arg Arg) string {
	switch arg.Kind {
	case ArgReg:
		return p.RegName(arg.Reg)
	case ArgPred:
		if arg.Not {
			return "!" + p.PredName(arg.Reg)
		}
		return p.PredName(arg.Reg)
	case ArgImm:
		if t := o.Holds(f); t.Valid() {
			return FormatImmediate(t, arg.Bits)
		}
	case ArgLabel:
		if arg.Bits < uint64(len(p.Labels)) {
			return p.Labels[arg.Bits].Name
		}
	case ArgParam:
		if arg.Bits < uint64(len(p.Params)) {
			return p.Params[arg.Bits].Name
		}
	case ArgData:
		if arg.Bits < uint64(len(p.Data)) {
			return p.Data[arg.Bits].Name
		}
	case ArgName:
		if names := o.Names(); arg.Bits < uint64(len(names)) {
			return names[arg.Bits]
		}
	case ArgAddr:
		return p.addrText(&arg)
	}
	return fmt.Sprintf("<invalid %d>", arg.Bits)
}

// RegName returns what the program calls register n.
func (p *Program) RegName(n uint8) string {
	if name := p.Debug.Regs[n]; name != "" {
		return name
	}
	return fmt.Sprintf("r%d", n)
}

// PredName returns what the program calls predicate n.
func (p *Program) PredName(n uint8) string {
	if n < NumPredicates && p.Debug.Preds[n] != "" {
		return p.Debug.Preds[n]
	}
	return fmt.Sprintf("p%d", n)
}

func (p *Program) addrText(a *Arg) string {
	base := ""
	switch a.Mode {
	case AddrIndex, AddrByte, AddrFlat:
		base = fmt.Sprintf("<invalid slot %d>", a.Slot)
		if int(a.Slot) < len(p.Slots) {
			base = p.Slots[a.Slot].Name
		}
	case AddrIndirect:
		base = "@" + p.RegName(a.Handle)
	case AddrShared:
		base = "shared"
	case AddrPhi:
		class, page, byte_ := a.Phi()
		return fmt.Sprintf("phi(%d, %d, %d)", class, page, byte_)
	default:
		return "<invalid address>"
	}
	word := ""
	if a.Mode == AddrFlat {
		word = flatWord + " "
	}
	switch {
	case a.Mode == AddrIndex:
		return base + "[index]"
	case !a.HasReg:
		return fmt.Sprintf("%s[%s%d]", base, word, a.Offset())
	case a.Offset() > 0:
		return fmt.Sprintf("%s[%s%s + %d]", base, word, p.RegName(a.Reg), a.Offset())
	case a.Offset() < 0:
		return fmt.Sprintf("%s[%s%s - %d]", base, word, p.RegName(a.Reg), -uint64(a.Offset()))
	}
	return fmt.Sprintf("%s[%s%s]", base, word, p.RegName(a.Reg))
}
