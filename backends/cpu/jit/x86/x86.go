// Package x86 encodes the x86-64 instructions that the CPU's code generator
// uses. forms.go is the table: one row per instruction and shape of operands.
// The test holds every row against GNU as.
//
// An Asm collects code. Emit encodes a row with operands; GPR instructions and
// jumps, whose shapes differ from each other, have methods of their own.
package x86

import "fmt"

// Reg is a register's number: 0–15 general, 0–31 vector, 0–7 mask. Which file
// it is in follows from where it stands.
type Reg int8

// The general registers.
const (
	RAX Reg = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
	None Reg = -1
)

// Mem is a memory operand: [Base + Index·Scale + Disp], or [the label + Disp]
// if Label is not 0. Index is a vector register for gathers and scatters.
type Mem struct {
	Base, Index Reg
	Scale       uint8 // 1, 2, 4, 8
	Disp        int32
	Label       Label
}

// At is the memory at a register and a displacement.
func At(base Reg, disp int32) Mem { return Mem{Base: base, Index: None, Disp: disp} }

// Label is a place in the code, to be known later. 0 is none.
type Label int

// Inst is what a row is encoded with. D is the destination, A the first
// source (in VEX.vvvv), B the last one, a register or, if IsMem, memory. Rows
// with fewer operands leave A out. In a row that stores, B is what is written.
type Inst struct {
	VL        int // bytes of the vectors: 16, 32, 64
	D, A, B   Reg
	IsMem     bool
	Mem       Mem
	Broadcast bool // memory holds one element for all
	K         Reg  // mask 1–7; 0: none
	Zero      bool // lanes that are masked off become 0
	Imm       uint8
	C         Reg // fourth register of VEX blends
}

// Asm collects code.
type Asm struct {
	Code []byte
	// Lines, if it is not nil, gets each instruction as text: for people to read.
	Lines *[]Line
	// Has is what the code's machine has beside AVX2. An error of Finish is what comes of an instruction that needs more.
	Has     Features
	refused error // by the first such
	places  []int // of labels, −1: not yet
	fixups  []fixup
}

type fixup struct {
	at, end int // of the 32-bit field, and of the instruction
	label   Label
	disp    int32
}

// NewLabel returns a label for a place that Bind tells later.
func (a *Asm) NewLabel() Label {
	a.places = append(a.places, -1)
	return Label(len(a.places))
}

// Bind puts a label here.
func (a *Asm) Bind(l Label) { a.places[l-1] = len(a.Code) }

// Place returns where a label was bound.
func (a *Asm) Place(l Label) int { return a.places[l-1] }

// Align fills with zeros to a multiple of n: for data behind the code.
func (a *Asm) Align(n int) {
	for len(a.Code)%n != 0 {
		a.Code = append(a.Code, 0)
	}
}

// Finish fills in the places of labels. The code can be run from any address
// that is a multiple of 64.
func (a *Asm) Finish() error {
	if a.refused != nil {
		return a.refused
	}
	for _, f := range a.fixups {
		p := a.places[f.label-1]
		if p < 0 {
			return fmt.Errorf("x86: label %d was not bound", f.label)
		}
		put32(a.Code[f.at:], int32(p-f.end)+f.disp)
	}
	a.fixups = a.fixups[:0]
	return nil
}

func put32(b []byte, v int32) {
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

func (a *Asm) bytes(b ...byte) { a.Code = append(a.Code, b...) }

func (a *Asm) imm32(v int32) { a.bytes(byte(v), byte(v>>8), byte(v>>16), byte(v>>24)) }

// Emit encodes f with operands. VEX is taken where the row has it and nothing
// asks for EVEX.
func (a *Asm) Emit(f *Form, in Inst) {
	if a.Lines != nil {
		*a.Lines = append(*a.Lines, Line{len(a.Code), f.Text(in)})
	}
	evex := f.evexNeeded(&in)
	needs := f.Needs
	if evex {
		needs |= AVX512
	}
	a.need(needs, f.Name)
	if evex {
		a.evex(f, &in)
	} else {
		a.vex(f, &in)
	}
}

// need refuses the code if its machine lacks what an instruction needs.
func (a *Asm) need(f Features, name string) {
	if lacks := f &^ a.Has; lacks != 0 && a.refused == nil {
		a.refused = fmt.Errorf("x86: %s is for machines with %v", name, lacks)
	}
}

func (f *Form) evexNeeded(in *Inst) bool {
	if f.Enc&VEX == 0 {
		return true
	}
	if f.Enc&EVEX == 0 {
		return false
	}
	if in.VL == 64 || in.K != 0 || in.Broadcast || in.IsMem && !f.VMem {
		return true
	}
	high := func(r Reg, kind byte) bool { return kind != 'r' && kind != 'R' && kind != 'k' && r >= 16 }
	if in.IsMem {
		return high(in.D, f.Ops[0]) || f.Layout == RVM && high(in.A, 'v')
	}
	n := len(f.Ops)
	return high(in.D, f.Ops[0]) || high(in.B, f.Ops[n-1]) || f.Layout == RVM && high(in.A, 'v')
}

// fields says which operand stands in ModRM.reg, in VEX.vvvv and in ModRM.rm.
func (f *Form) fields(in *Inst) (reg, v, rm Reg) {
	switch f.Layout {
	case RVM:
		return in.D, in.A, in.B
	case RM:
		return in.D, 0, in.B
	case MR: // D is read, B written
		return in.D, 0, in.B
	case MVR: // D is read by mask A to memory
		return in.D, in.A, in.B
	case RMV:
		return in.D, in.A, in.B
	}
	return Reg(f.Ext), in.D, in.B // VMI
}

func (a *Asm) vex(f *Form, in *Inst) {
	reg, v, rm := f.fields(in)
	var x, b byte
	if in.IsMem {
		if in.Mem.Index != None {
			x = byte(in.Mem.Index) >> 3 & 1
		}
		if in.Mem.Label == 0 {
			b = byte(in.Mem.Base) >> 3 & 1
		}
	} else {
		b = byte(rm) >> 3 & 1
	}
	r := byte(reg) >> 3 & 1
	l := byte(0)
	if in.VL == 32 && !f.L0 || f.L1 {
		l = 1
	}
	w := byte(0)
	if f.VW {
		w = 1
	}
	low := (^byte(v)&15)<<3 | l<<2 | f.PP
	if f.Layout == RM || f.Layout == MR {
		low |= 15 << 3
	}
	if x == 0 && b == 0 && w == 0 && f.Map == M0F {
		a.bytes(0xC5, (r^1)<<7|low)
	} else {
		a.bytes(0xC4, (r^1)<<7|(x^1)<<6|(b^1)<<5|f.Map, w<<7|low)
	}
	a.bytes(f.Op)
	tail := 0
	if f.Imm || f.Is4 {
		tail = 1
	}
	a.modrm(reg, rm, in, 1, tail)
	switch {
	case f.Is4:
		a.bytes(byte(in.C) << 4)
	case f.Imm:
		a.bytes(in.Imm)
	}
}

func (a *Asm) evex(f *Form, in *Inst) {
	reg, v, rm := f.fields(in)
	if f.Layout == RM || f.Layout == MR {
		v = 0
	}
	r, r2 := byte(reg)>>3&1, byte(reg)>>4&1
	var x, b byte
	v2 := byte(v) >> 4 & 1
	if in.IsMem {
		if in.Mem.Index != None {
			x = byte(in.Mem.Index) >> 3 & 1
			if f.VSIB {
				v2 = byte(in.Mem.Index) >> 4 & 1
			}
		}
		if in.Mem.Label == 0 {
			b = byte(in.Mem.Base) >> 3 & 1
		}
	} else {
		b, x = byte(rm)>>3&1, byte(rm)>>4&1
	}
	w, z, bc := byte(0), byte(0), byte(0)
	if f.EW {
		w = 1
	}
	if in.Zero {
		z = 1
	}
	if in.Broadcast {
		bc = 1
	}
	l := map[int]byte{16: 0, 32: 1, 64: 2}[in.VL]
	a.bytes(0x62,
		(r^1)<<7|(x^1)<<6|(b^1)<<5|(r2^1)<<4|f.Map,
		w<<7|(^byte(v)&15)<<3|1<<2|f.PP,
		z<<7|l<<5|bc<<4|(v2^1)<<3|byte(in.K))
	a.bytes(f.Op)
	tail := 0
	if f.Imm {
		tail = 1
	}
	a.modrm(reg, rm, in, f.scale(in), tail)
	if f.Imm {
		a.bytes(in.Imm)
	}
}

// scale is what an 8-bit displacement counts in EVEX: the bytes accessed.
func (f *Form) scale(in *Inst) int {
	if in.Broadcast {
		return int(f.Elem)
	}
	switch f.Tuple {
	case full:
		return in.VL
	case half:
		return in.VL / 2
	case quarter:
		return in.VL / 4
	case eighth:
		return in.VL / 8
	case one1:
		return 1
	case one2:
		return 2
	case one4:
		return 4
	case one8:
		return 8
	}
	return 16
}

// modrm writes ModRM, SIB and displacement. n is what an 8-bit displacement
// counts, tail the bytes of the instruction that follow.
func (a *Asm) modrm(reg, rm Reg, in *Inst, n, tail int) {
	g := byte(reg) & 7 << 3
	if !in.IsMem {
		a.bytes(0xC0 | g | byte(rm)&7)
		return
	}
	m := &in.Mem
	if m.Label != 0 {
		a.bytes(g | 5)
		at := len(a.Code)
		a.imm32(0)
		a.fixups = append(a.fixups, fixup{at, at + 4 + tail, m.Label, m.Disp})
		return
	}
	base := byte(m.Base) & 7
	mode := byte(2)
	switch d := int(m.Disp); {
	case d == 0 && base != 5:
		mode = 0
	case d%n == 0 && d/n >= -128 && d/n <= 127:
		mode = 1
	}
	if m.Index == None && base != 4 {
		a.bytes(mode<<6 | g | base)
	} else {
		index := byte(4)
		if m.Index != None {
			index = byte(m.Index) & 7
		}
		s := map[uint8]byte{0: 0, 1: 0, 2: 1, 4: 2, 8: 3}[m.Scale]
		a.bytes(mode<<6|g|4, s<<6|index<<3|base)
	}
	switch mode {
	case 1:
		a.bytes(byte(int(m.Disp) / n))
	case 2:
		a.imm32(m.Disp)
	}
}
