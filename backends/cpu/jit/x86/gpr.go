package x86

// Width is the size of a general register's part, in bytes.
type Width uint8

// The widths.
const (
	W8  Width = 1
	W16 Width = 2
	W32 Width = 4
	W64 Width = 8
)

// ALU is an operation of two operands that sets flags.
type ALU byte

// The operations, by their number in the opcode.
const (
	ADD ALU = 0
	OR  ALU = 1
	AND ALU = 4
	SUB ALU = 5
	XOR ALU = 6
	CMP ALU = 7
)

// Cond is a condition of jumps and conditional moves.
type Cond byte

// The conditions, by their number in the opcode.
const (
	O  Cond = 0 // overflow
	B  Cond = 2 // below, unsigned
	AE Cond = 3
	E  Cond = 4
	NE Cond = 5
	BE Cond = 6
	A  Cond = 7
	S  Cond = 8
	NS Cond = 9
	L  Cond = 12
	GE Cond = 13
	LE Cond = 14
	G  Cond = 15
)

// legacy writes prefixes, opcode and ModRM of an instruction on general
// registers. rm is a register or, if m is not nil, memory.
func (a *Asm) legacy(w Width, prefix byte, op []byte, reg, rm Reg, m *Mem, tail int) {
	if w == W16 {
		a.bytes(0x66)
	}
	if prefix != 0 {
		a.bytes(prefix)
	}
	rex := byte(0)
	if w == W64 {
		rex = 8
	}
	rex |= byte(reg) >> 3 & 1 << 2
	in := Inst{B: rm}
	if m != nil {
		in.IsMem, in.Mem = true, *m
		if m.Label == 0 {
			rex |= byte(m.Base) >> 3 & 1
			if m.Index != None {
				rex |= byte(m.Index) >> 3 & 1 << 1
			}
		}
	} else {
		rex |= byte(rm) >> 3 & 1
	}
	low := func(r Reg) bool { return r >= RSP && r <= RDI } // SPL … DIL need a REX
	if rex != 0 || w == W8 && (low(reg) || m == nil && low(rm)) {
		a.bytes(0x40 | rex)
	}
	a.bytes(op...)
	a.modrm(reg, rm, &in, 1, tail)
}

// Mov copies a register.
func (a *Asm) Mov(w Width, d, s Reg) {
	a.note("mov", reg(w, d), reg(w, s))
	a.legacy(w, 0, []byte{0x89}, s, d, nil, 0)
}

// Load loads a register: of 8 and 16 bits extended to 32 by zeros.
func (a *Asm) Load(w Width, d Reg, m Mem) {
	a.noteLoad(w, d, &m)
	switch w {
	case W8:
		a.legacy(W32, 0, []byte{0x0F, 0xB6}, d, 0, &m, 0)
	case W16:
		a.legacy(W32, 0, []byte{0x0F, 0xB7}, d, 0, &m, 0)
	default:
		a.legacy(w, 0, []byte{0x8B}, d, 0, &m, 0)
	}
}

// LoadSigned loads 8 or 16 bits, extended to 32 by the sign, or 32 extended to 64.
func (a *Asm) LoadSigned(w Width, d Reg, m Mem) {
	a.noteSigned(w, d, &m)
	switch w {
	case W8:
		a.legacy(W32, 0, []byte{0x0F, 0xBE}, d, 0, &m, 0)
	case W16:
		a.legacy(W32, 0, []byte{0x0F, 0xBF}, d, 0, &m, 0)
	default:
		a.legacy(W64, 0, []byte{0x63}, d, 0, &m, 0)
	}
}

// Store stores a register's low part.
func (a *Asm) Store(w Width, m Mem, s Reg) {
	a.note("mov", memory(w, &m), reg(w, s))
	op := byte(0x89)
	if w == W8 {
		op = 0x88
	}
	a.legacy(w, 0, []byte{op}, s, 0, &m, 0)
}

// StoreImm stores a 32-bit number, extended by its sign where w is W64.
func (a *Asm) StoreImm(w Width, m Mem, v int32) {
	a.note("mov", memory(w, &m), number(int64(v)))
	a.legacy(w, 0, []byte{0xC7}, 0, 0, &m, 4)
	a.imm32(v)
}

// MovImm sets a register to a number of 32 bits, extended by zeros, or of 64.
func (a *Asm) MovImm(d Reg, v uint64) {
	a.noteNumber(d, v)
	if v>>32 == 0 {
		if d >= R8 {
			a.bytes(0x41)
		}
		a.bytes(0xB8 | byte(d)&7)
		a.imm32(int32(uint32(v)))
		return
	}
	a.bytes(0x48|byte(d)>>3&1, 0xB8|byte(d)&7)
	a.imm32(int32(uint32(v)))
	a.imm32(int32(uint32(v >> 32)))
}

// Op is d ← d op s.
func (a *Asm) Op(op ALU, w Width, d, s Reg) {
	a.note(aluNames[op], reg(w, d), reg(w, s))
	a.legacy(w, 0, []byte{byte(op)<<3 | 1}, s, d, nil, 0)
}

// OpMem is d ← d op memory.
func (a *Asm) OpMem(op ALU, w Width, d Reg, m Mem) {
	a.note(aluNames[op], reg(w, d), memory(w, &m))
	a.legacy(w, 0, []byte{byte(op)<<3 | 3}, d, 0, &m, 0)
}

// OpImm is d ← d op a number.
func (a *Asm) OpImm(op ALU, w Width, d Reg, v int32) {
	a.note(aluNames[op], reg(w, d), number(int64(v)))
	if v >= -128 && v <= 127 {
		a.legacy(w, 0, []byte{0x83}, Reg(op), d, nil, 1)
		a.bytes(byte(v))
		return
	}
	if d == RAX {
		if w == W64 {
			a.bytes(0x48)
		}
		a.bytes(byte(op)<<3 | 5)
	} else {
		a.legacy(w, 0, []byte{0x81}, Reg(op), d, nil, 4)
	}
	a.imm32(v)
}

// OpMemImm is memory ← memory op a number of 8 bits.
func (a *Asm) OpMemImm(op ALU, w Width, m Mem, v int8) {
	a.note(aluNames[op], memory(w, &m), number(int64(v)))
	a.legacy(w, 0, []byte{0x83}, Reg(op), 0, &m, 1)
	a.bytes(byte(v))
}

// OpTo is memory ← memory op s.
func (a *Asm) OpTo(op ALU, w Width, m Mem, s Reg) {
	a.note(aluNames[op], memory(w, &m), reg(w, s))
	a.legacy(w, 0, []byte{byte(op)<<3 | 1}, s, 0, &m, 0)
}

// Lock has the next instruction, which reads and writes memory, do so atomically.
func (a *Asm) Lock() {
	a.note("lock")
	a.bytes(0xF0)
}

// XAdd is memory ← memory + s, and s ← what was there.
func (a *Asm) XAdd(w Width, m Mem, s Reg) {
	a.note("xadd", memory(w, &m), reg(w, s))
	a.legacy(w, 0, []byte{0x0F, 0xC1}, s, 0, &m, 0)
}

// XChg exchanges memory and s, always atomically.
func (a *Asm) XChg(w Width, m Mem, s Reg) {
	a.note("xchg", memory(w, &m), reg(w, s))
	a.legacy(w, 0, []byte{0x87}, s, 0, &m, 0)
}

// CmpXChg is memory ← s if it is RAX, else RAX ← what is there; the flags are those of comparing the two.
func (a *Asm) CmpXChg(w Width, m Mem, s Reg) {
	a.note("cmpxchg", memory(w, &m), reg(w, s))
	a.legacy(w, 0, []byte{0x0F, 0xB1}, s, 0, &m, 0)
}

// Test compares d & s with 0.
func (a *Asm) Test(w Width, d, s Reg) {
	a.note("test", reg(w, d), reg(w, s))
	a.legacy(w, 0, []byte{0x85}, s, d, nil, 0)
}

// Lea is d ← the address of m.
func (a *Asm) Lea(d Reg, m Mem) {
	a.note("lea", reg(W64, d), memory(W64, &m))
	a.legacy(W64, 0, []byte{0x8D}, d, 0, &m, 0)
}

// IMul is d ← d · s.
func (a *Asm) IMul(w Width, d, s Reg) {
	a.note("imul", reg(w, d), reg(w, s))
	a.legacy(w, 0, []byte{0x0F, 0xAF}, d, s, nil, 0)
}

// Unary is one of NOT, NEG and, on RDX:RAX, MUL, IMUL, DIV, IDIV.
type Unary byte

// The operations, by their number in the opcode.
const (
	NOT  Unary = 2
	NEG  Unary = 3
	MUL  Unary = 4
	IMUL Unary = 5
	DIV  Unary = 6
	IDIV Unary = 7
)

// Un is a Unary.
func (a *Asm) Un(op Unary, w Width, r Reg) {
	a.note(unaryNames[op], reg(w, r))
	a.legacy(w, 0, []byte{0xF7}, Reg(op), r, nil, 0)
}

// SignRAX extends RAX by its sign to RDX.
func (a *Asm) SignRAX(w Width) {
	a.noteSign(w)
	if w == W64 {
		a.bytes(0x48)
	}
	a.bytes(0x99)
}

// ShiftImm shifts by a number: 4 left, 5 right, 7 right by the sign.
func (a *Asm) ShiftImm(kind byte, w Width, d Reg, n uint8) {
	a.note(shiftNames[kind], reg(w, d), number(int64(n)))
	if n == 1 {
		a.legacy(w, 0, []byte{0xD1}, Reg(kind), d, nil, 0)
		return
	}
	a.legacy(w, 0, []byte{0xC1}, Reg(kind), d, nil, 1)
	a.bytes(n)
}

// Count is POPCNT, TZCNT or LZCNT.
type Count byte

// The counts, by their opcode.
const (
	POPCNT Count = 0xB8
	TZCNT  Count = 0xBC
	LZCNT  Count = 0xBD
)

// Cnt is a Count.
func (a *Asm) Cnt(op Count, w Width, d, s Reg) {
	a.note(countNames[op], reg(w, d), reg(w, s))
	a.legacy(w, 0xF3, []byte{0x0F, byte(op)}, d, s, nil, 0)
}

// CMov is d ← s if c.
func (a *Asm) CMov(c Cond, w Width, d, s Reg) {
	a.note("cmov"+condNames[c], reg(w, d), reg(w, s))
	a.legacy(w, 0, []byte{0x0F, 0x40 | byte(c)}, d, s, nil, 0)
}

// BZHI is d ← s with the bits from n's low byte up cleared.
func (a *Asm) BZHI(w Width, d, s, n Reg) {
	a.note("bzhi", reg(w, d), reg(w, s), reg(w, n))
	f := bzhi32
	if w == W64 {
		f = bzhi64
	}
	a.vex(f, &Inst{VL: 16, D: d, A: n, B: s})
}

var (
	bzhi32 = &Form{Name: "bzhi", PP: np, Map: M0F38, Op: 0xF5, Layout: RMV, Ops: "rrr"}
	bzhi64 = &Form{Name: "bzhi", PP: np, Map: M0F38, Op: 0xF5, Layout: RMV, Ops: "RRR", VW: true}
)

// CvtToFloat converts a signed integer in a general register to a scalar.
func (a *Asm) CvtToFloat(from Width, double bool, d, s Reg) {
	a.note("cvtsi2s"+of(double), xmm(d), reg(from, s))
	a.legacy(from, scalar(double), []byte{0x0F, 0x2A}, d, s, nil, 0)
}

// CvtToInt truncates a scalar to a signed integer.
func (a *Asm) CvtToInt(to Width, double bool, d, s Reg) {
	a.note("cvtts"+of(double)+"2si", reg(to, d), xmm(s))
	a.legacy(to, scalar(double), []byte{0x0F, 0x2C}, d, s, nil, 0)
}

func scalar(double bool) byte {
	if double {
		return 0xF2
	}
	return 0xF3
}

// Jmp jumps to a label.
func (a *Asm) Jmp(l Label) {
	a.note("jmp", part{label: l})
	a.bytes(0xE9)
	a.jump(l)
}

// Jcc jumps to a label if c.
func (a *Asm) Jcc(c Cond, l Label) {
	a.note("j"+condNames[c], part{label: l})
	a.bytes(0x0F, 0x80|byte(c))
	a.jump(l)
}

func (a *Asm) jump(l Label) {
	at := len(a.Code)
	a.imm32(0)
	a.fixups = append(a.fixups, fixup{at, at + 4, l, 0})
}

// Push pushes a register.
func (a *Asm) Push(r Reg) {
	a.note("push", reg(W64, r))
	if r >= R8 {
		a.bytes(0x41)
	}
	a.bytes(0x50 | byte(r)&7)
}

// Pop pops a register.
func (a *Asm) Pop(r Reg) {
	a.note("pop", reg(W64, r))
	if r >= R8 {
		a.bytes(0x41)
	}
	a.bytes(0x58 | byte(r)&7)
}

// Call calls the function whose address is in memory.
func (a *Asm) Call(m Mem) {
	a.note("call", memory(W64, &m))
	a.legacy(W32, 0, []byte{0xFF}, 2, 0, &m, 0)
}

// Ret returns.
func (a *Asm) Ret() {
	a.note("ret")
	a.bytes(0xC3)
}

// VZeroUpper clears the vectors' upper halves, as code that uses SSE wants.
func (a *Asm) VZeroUpper() {
	a.note("vzeroupper")
	a.bytes(0xC5, 0xF8, 0x77)
}

// Prefetch is PREFETCHT0.
func (a *Asm) Prefetch(m Mem) {
	a.note("prefetcht0", memory(W8, &m))
	a.legacy(W32, 0, []byte{0x0F, 0x18}, 1, 0, &m, 0)
}

// PrefetchL2 is PREFETCHT1.
func (a *Asm) PrefetchL2(m Mem) {
	a.note("prefetcht1", memory(W8, &m))
	a.legacy(W32, 0, []byte{0x0F, 0x18}, 2, 0, &m, 0)
}

// PrefetchW is PREFETCHW.
func (a *Asm) PrefetchW(m Mem) {
	a.note("prefetchw", memory(W8, &m))
	a.legacy(W32, 0, []byte{0x0F, 0x0D}, 1, 0, &m, 0)
}

// SFence orders non-temporal stores before what follows.
func (a *Asm) SFence() {
	a.note("sfence")
	a.bytes(0x0F, 0xAE, 0xF8)
}
