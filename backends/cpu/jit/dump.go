package jit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Stage is a form that a program has on its way to machine code.
type Stage string

// The stages.
const (
	StageExpanded     Stage = "expanded"     // the canonical form with expansions in place
	StageInstructions Stage = "instructions" // instructions on virtual registers, as rules write them
	StageTidy         Stage = "tidy"         // without copies, and what nothing reads
	StageSchedule     Stage = "schedule"     // in the order in which they could begin
	StageRegisters    Stage = "registers"    // with registers
	StageMachine      Stage = "machine"      // machine code
)

// Stages lists them in their order.
var Stages = []Stage{StageExpanded, StageInstructions, StageTidy, StageSchedule, StageRegisters, StageMachine}

// Dump returns a stage of a canonical function on its way to the code of a level,
// as text: that of launches whose slots are all contiguous, in blocks of 256 lanes
// if it runs by blocks. lines has the text of each instruction of the program as
// written, which stands behind what was made for it. The machine need not have the
// level. *backends.Unsupported says what cannot be compiled, and why.
func Dump(m *work.Meter, f *ir.Func, l Level, stage Stage, lines []string) (text string, err error) {
	defer work.Catch(&err)
	p, err := prepare(m, f)
	if err != nil {
		return "", err
	}
	if stage == StageExpanded {
		return p.fn.Text(m)
	}
	t, s := targetOf(l), shape{}
	if p.blocks != nil {
		s = p.blockShape(s, t, usualBlock, true)
	}
	d := &dump{stage: stage, lines: lines}
	if _, _, err := p.generateFor(m, t, s, d); err != nil {
		return "", err
	}
	head := fmt.Sprintf("; %s for %v, %d lanes in a group", Version, l, p.groupLanes(t, s))
	if s.block > 0 {
		head += fmt.Sprintf(", blocks of %d", s.block)
	}
	return head + "\n" + d.text.String(), nil
}

// dump writes a stage down. All methods of a nil one do nothing.
type dump struct {
	stage Stage
	lines []string // of the program as written
	text  strings.Builder
	said  []x86.Line
	marks []mark
}

// mark says for which instruction of the program the code is from a place on.
type mark struct {
	at  int
	src int32 // see inst
}

// textColumns is where what an instruction is for stands, as few are longer.
var textColumns = map[bool]int{false: 56, true: 90}

// line writes one, and what it is for.
func (d *dump) line(text string, src int32) {
	if src > 0 && int(src) <= len(d.lines) {
		text = fmt.Sprintf("%-*s ; %d: %s", textColumns[d.stage == StageMachine], text, src-1, d.lines[src-1])
	}
	d.text.WriteString(strings.TrimRight(text, " "))
	d.text.WriteByte('\n')
}

// unit writes instructions on registers, if it is their stage that is wanted.
func (d *dump) unit(stage Stage, u *unit) {
	if d == nil || d.stage != stage {
		return
	}
	for i := range u.code {
		in := &u.code[i]
		if in.label != 0 {
			d.line(in.label.String()+":", 0)
		} else if text := u.text(in); text != "" {
			d.line("  "+text, in.src)
		}
	}
}

// text is an instruction on registers: those it writes, what it does, those it reads.
// What has an emit function is called code: the machine code says what it does.
func (u *unit) text(in *inst) string {
	var b strings.Builder
	if in.d != 0 {
		fmt.Fprintf(&b, "%s = ", u.name(in.d))
	}
	switch {
	case in.fma != nil:
		b.WriteString(strings.Replace(in.fma.f231.Name, "231", "", 1))
	case in.f != nil:
		b.WriteString(in.f.Name)
	case in.d == 0 && in.a == 0 && in.inner && in.pure:
		return "" // left out
	default:
		b.WriteString("code")
	}
	if in.vl != 0 {
		fmt.Fprintf(&b, ".%d", in.vl)
	}
	var of []string
	for _, v := range [...]vreg{in.a, in.b, in.c} {
		if v != 0 {
			of = append(of, u.name(v))
		}
	}
	if in.mem != nil {
		of = append(of, u.place(in.mem))
	}
	if in.f != nil && in.f.Imm {
		of = append(of, fmt.Sprint(in.imm))
	}
	if len(of) > 0 {
		b.WriteString(" " + strings.Join(of, ", "))
	}
	if in.k != 0 {
		fmt.Fprintf(&b, " where %s", u.name(in.k))
		if in.zero {
			b.WriteString(" else 0")
		}
	}
	return b.String()
}

// name is a virtual register, and behind a colon where it is, once that is known.
func (u *unit) name(v vreg) string {
	x := &u.info[v]
	s := fmt.Sprintf("v%d", v)
	if x.constant {
		s = fmt.Sprintf("%#x", x.bits)
	}
	if x.end < 0 { // nothing is known yet
		return s
	}
	switch {
	case x.reg == x86.None && x.constant:
		return s + ":pool"
	case x.reg == x86.None:
		return fmt.Sprintf("%s:place%d", s, x.slot)
	case x.class == classMask:
		return fmt.Sprintf("%s:k%d", s, x.reg)
	case x.class == classGPR:
		return s + ":" + x86.W64.Name(x.reg)
	}
	return fmt.Sprintf("%s:vector%d", s, x.reg)
}

// place is memory: of a slot whose base is a virtual register, mostly.
func (u *unit) place(m *mref) string {
	s := m.label.String()
	switch {
	case m.label != 0:
	case m.base != 0:
		s = u.name(m.base)
	default:
		s = x86.W64.Name(m.fixed)
	}
	if m.indexed {
		s += fmt.Sprintf("+%s*%d", x86.W64.Name(regIndex), m.scale)
	}
	if m.disp != 0 {
		s += fmt.Sprintf("%+d", m.disp)
	}
	return "[" + s + "]"
}

// listen asks for the text of machine code, if that is wanted.
func (d *dump) listen(e *encoder) {
	if d != nil && d.stage == StageMachine {
		e.Lines = &d.said
	}
}

func (d *dump) mark(e *encoder, src int32) {
	if d != nil {
		d.marks = append(d.marks, mark{len(e.Code), src})
	}
}

// machine writes the code: offset, bytes, text; and the data behind its end.
func (d *dump) machine(e *encoder, end int) {
	if d == nil || d.stage != StageMachine {
		return
	}
	labels := e.Bound()
	at := func(from int) {
		for _, l := range labels[from] {
			d.line(l.String()+":", 0)
		}
	}
	next, src := 0, int32(0)
	for i, said := range d.said {
		for ; next < len(d.marks) && d.marks[next].at <= said.At; next++ {
			src = d.marks[next].src
		}
		to := end
		if i+1 < len(d.said) {
			to = d.said[i+1].At
		}
		at(said.At)
		d.line(fmt.Sprintf("%6x  %-32s  %s", said.At, fmt.Sprintf("% x", e.Code[said.At:to]), said.Text), src)
	}
	places := []int{end, len(e.Code)}
	for place := range labels {
		if place > end && place < len(e.Code) {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	for i, from := range places[:len(places)-1] {
		at(from)
		for ; from < places[i+1]; from += dataBytes {
			d.line(fmt.Sprintf("%6x  % x", from, e.Code[from:min(from+dataBytes, places[i+1])]), 0)
		}
	}
}

// dataBytes is how many bytes of data stand in a line.
const dataBytes = 16
