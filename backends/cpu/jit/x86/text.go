package x86

import (
	"fmt"
	"strings"
)

// Line is an instruction as text, in the syntax of GNU as without prefixes for
// registers ("intel noprefix"), and where its code begins.
type Line struct {
	At   int
	Text string
}

var (
	names64 = []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
	names32 = []string{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"}
	names16 = []string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w"}
	names8  = []string{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"}
)

// Name returns the name of a general register's part.
func (w Width) Name(r Reg) string {
	switch w {
	case W8:
		return names8[r]
	case W16:
		return names16[r]
	case W32:
		return names32[r]
	}
	return names64[r]
}

// Vector returns the name of a vector register of so many bytes; less than 16 count as 16.
func Vector(bytes int, r Reg) string {
	return fmt.Sprintf("%cmm%d", map[int]byte{16: 'x', 32: 'y', 64: 'z'}[max(bytes, 16)], r)
}

// String returns a label's name.
func (l Label) String() string { return fmt.Sprintf("L%d", int(l)) }

// Bound returns the labels by where they are bound.
func (a *Asm) Bound() map[int][]Label {
	at := map[int][]Label{}
	for i, place := range a.places {
		if place >= 0 {
			at[place] = append(at[place], Label(i+1))
		}
	}
	return at
}

var sizes = map[int]string{1: "byte", 2: "word", 4: "dword", 8: "qword", 16: "xmmword", 32: "ymmword", 64: "zmmword"}

// text returns a place in memory of so many bytes, whose index, if vector is not 0,
// is a vector of so many.
func (m *Mem) text(bytes, vector int) string {
	var b strings.Builder
	if bytes > 0 { // else the instruction says it
		fmt.Fprintf(&b, "%s ptr ", sizes[bytes])
	}
	b.WriteByte('[')
	switch {
	case m.Label != 0:
		b.WriteString(m.Label.String())
	default:
		b.WriteString(names64[m.Base])
		if m.Index != None {
			index := ""
			if vector != 0 {
				index = Vector(vector, m.Index)
			} else {
				index = names64[m.Index]
			}
			fmt.Fprintf(&b, "+%s*%d", index, max(m.Scale, 1))
		}
	}
	if m.Disp != 0 {
		fmt.Fprintf(&b, "%+d", m.Disp)
	}
	b.WriteByte(']')
	return b.String()
}

// operandBytes returns how long the vector is that a letter of Ops stands for; of a
// mask or a general register, what memory in its place holds.
func operandBytes(kind byte, vl int) int {
	switch kind {
	case 'v':
		return vl
	case 'h':
		return vl / 2
	case 'q':
		return vl / 4
	case 'o':
		return vl / 8
	case 'k':
		return 2
	case 'r':
		return 4
	case 'R':
		return 8
	}
	return 16
}

func (f *Form) register(kind byte, vl int, r Reg) string {
	switch kind {
	case 'k':
		return fmt.Sprintf("k%d", r)
	case 't':
		return fmt.Sprintf("tmm%d", r)
	case 'r':
		return W32.Name(r)
	case 'R':
		return W64.Name(r)
	}
	return Vector(operandBytes(kind, vl), r)
}

// Text returns an instruction of the row as text.
func (f *Form) Text(in Inst) string {
	last := len(f.Ops) - 1
	if f.Is4 {
		last--
	}
	place, middle := last, 1 // of B and A in Ops
	if f.Layout == RMV {
		place, middle = 1, last
	}
	d, a := f.register(f.Ops[0], in.VL, in.D), ""
	if f.Layout == RVM || f.Layout == MVR || f.Layout == RMV {
		a = f.register(f.Ops[middle], in.VL, in.A)
	}
	b := ""
	if in.IsMem {
		b = f.memory(&in, f.Ops[place])
	} else {
		b = f.register(f.Ops[place], in.VL, in.B)
	}
	texts := []string{d, a, b}
	switch f.Layout {
	case MR:
		texts = []string{b, d}
	case MVR:
		texts = []string{b, a, d}
	case RMV:
		texts = []string{d, b, a}
	case RM, VMI:
		texts = []string{d, b}
	}
	if in.K != 0 {
		texts[0] += fmt.Sprintf("{k%d}", in.K)
		if in.Zero {
			texts[0] += "{z}"
		}
	}
	if f.Is4 {
		texts = append(texts, Vector(in.VL, in.C))
	}
	if f.Imm {
		texts = append(texts, fmt.Sprint(in.Imm))
	}
	return f.Name + " " + strings.Join(texts, ", ")
}

// memory returns B as text, where it is memory and a letter of Ops stands for it.
func (f *Form) memory(in *Inst, kind byte) string {
	if in.Broadcast {
		count := in.VL / int(f.Elem)
		if f.Tuple == half {
			count /= 2
		}
		return fmt.Sprintf("%s{1to%d}", in.Mem.text(int(f.Elem), 0), count)
	}
	if f.VSIB {
		index := in.VL
		if kind == 'h' {
			index /= 2
		}
		return in.Mem.text(map[tuple]int{one4: 4, one8: 8}[f.Tuple], max(index, 16))
	}
	if f.Index {
		return in.Mem.text(0, 0)
	}
	n := operandBytes(kind, in.VL)
	switch f.Tuple {
	case full, half, quarter, eighth:
	default:
		n = f.scale(in)
	}
	return in.Mem.text(n, 0)
}

// part is an operand of an instruction on general registers.
type part struct {
	w      Width // of a register, or of what lies in memory
	r      Reg
	vector bool // r is one
	tile   bool
	memory bool
	m      Mem
	number bool
	v      int64
	label  Label
}

func reg(w Width, r Reg) part     { return part{w: w, r: r} }
func xmm(r Reg) part              { return part{r: r, vector: true} }
func memory(w Width, m *Mem) part { return part{w: w, memory: true, m: *m} }
func number(v int64) part         { return part{number: true, v: v} }

func (p *part) text() string {
	switch {
	case p.label != 0:
		return p.label.String()
	case p.number:
		return fmt.Sprint(p.v)
	case p.memory:
		return p.m.text(int(p.w), 0)
	case p.vector:
		return Vector(16, p.r)
	case p.tile:
		return fmt.Sprintf("tmm%d", p.r)
	}
	return p.w.Name(p.r)
}

// note adds an instruction that begins here to the lines, if they are wanted.
func (a *Asm) note(name string, parts ...part) {
	if a.Lines == nil {
		return
	}
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].text()
	}
	*a.Lines = append(*a.Lines, Line{len(a.Code), strings.TrimSpace(name + " " + strings.Join(texts, ", "))})
}

func (a *Asm) noteLoad(w Width, d Reg, m *Mem) {
	if w < W32 {
		a.note("movzx", reg(W32, d), memory(w, m))
	} else {
		a.note("mov", reg(w, d), memory(w, m))
	}
}

func (a *Asm) noteSigned(w Width, d Reg, m *Mem) {
	if w < W32 {
		a.note("movsx", reg(W32, d), memory(w, m))
	} else {
		a.note("movsxd", reg(W64, d), memory(W32, m))
	}
}

func (a *Asm) noteNumber(d Reg, v uint64) {
	if v>>32 == 0 {
		a.note("mov", reg(W32, d), number(int64(v)))
	} else {
		a.note("movabs", reg(W64, d), number(int64(v)))
	}
}

func (a *Asm) noteSign(w Width) {
	if w == W64 {
		a.note("cqo")
	} else {
		a.note("cdq")
	}
}

var (
	aluNames   = [...]string{ADD: "add", OR: "or", AND: "and", SUB: "sub", XOR: "xor", CMP: "cmp"}
	condNames  = [...]string{O: "o", B: "b", AE: "ae", E: "e", NE: "ne", BE: "be", A: "a", S: "s", NS: "ns", L: "l", GE: "ge", LE: "le", G: "g"}
	unaryNames = [...]string{NOT: "not", NEG: "neg", MUL: "mul", IMUL: "imul", DIV: "div", IDIV: "idiv"}
	shiftNames = [...]string{4: "shl", 5: "shr", 7: "sar"}
	countNames = map[Count]string{POPCNT: "popcnt", TZCNT: "tzcnt", LZCNT: "lzcnt"}
)

// of returns s for singles, d for doubles.
func of(double bool) string {
	if double {
		return "d"
	}
	return "s"
}
