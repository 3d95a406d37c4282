package jit

import (
	"math/bits"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Quotients of integers by a number that is the same in the whole launch are made of the
// high halves of products, in words of 16 or 32 bits (Granlund and Montgomery, "Division by
// invariant integers using multiplication", 1994, figures 4.1 and 5.2). With l the least
// such that the divisor's magnitude d is at most 2^l, the multiplier 2^(bits+l−1) / d of
// numbers with a sign, or 2^(bits+l) / d of those without, is one bit longer than a word:
// what is multiplied with lacks that bit, and x is added to the high half. Packed bytes are
// done as words, the even ones and the odd ones; without a sign they are no negative words.
//
// A divisor of 0 has the multiplier 0, and shifts that leave nothing: the quotient is 0.

// invariant is what is computed once of a divisor.
type invariant struct {
	factor vreg // what is multiplied with
	first  vreg // of words without sign: how far what lacks of x is shifted
	shift  vreg // how far the sum is
	sign   vreg // of those with one: all ones if the divisor is negative; 0: it is not
}

// multiplies says how divisors of a type are multiplied with: in words of so many bits, with or
// without a sign.
func (g *gen) multiplies(t isa.Type) (word int, signed bool) {
	word = max(8*g.regSize(t), 16)
	return word, t.Signed() || t.Bits() < word
}

// reciprocal computes an invariant's numbers of d, a magnitude.
func reciprocal(word int, signed bool, d uint64) (factor, first, shift uint64) {
	up := bits.Len64(d - 1)
	switch {
	case d == 0:
		return 0, uint64(word), uint64(word - 1)
	case signed:
		up = max(up, 1)
		return uint64(1)<<(word+up-1)/d + 1, 0, uint64(up - 1)
	}
	return (uint64(1)<<up-d)<<word/d + 1, uint64(min(up, 1)), uint64(max(up-1, 0))
}

// invariantBy is what divides by a constant.
func (g *gen) invariantBy(t isa.Type, cell uint64) (v invariant) {
	word, signed := g.multiplies(t)
	d := cell & t.Mask()
	negative := t.Signed() && d>>(t.Bits()-1) != 0
	if negative {
		d = -d & t.Mask()
	}
	factor, first, shift := reciprocal(word, signed, d)
	v.factor, v.first, v.shift = g.number(word/8, factor), g.number(word/8, first), g.number(word/8, shift)
	if negative {
		v.sign = g.number(word/8, ^uint64(0))
	}
	return v
}

// prepareInvariant computes it of y, which all lanes have, those too that do not run.
func (g *gen) prepareInvariant(t isa.Type, y vreg) (v invariant) {
	word, signed := g.multiplies(t)
	number := func(which int) vreg {
		d := g.newReg(classVec)
		vl, size := g.vl(word/8), g.regSize(t)
		g.pure(d, y, 0, 0, func(e *encoder, in *inst) {
			e.Emit(x86.MovDTo, x86.Inst{VL: 16, D: e.vec(in.a, 0, g.vl(size)), B: x86.RAX})
			e.reciprocal(word, signed, t.Signed(), 8*size, which)
			r := e.out(in.d, 0)
			e.spreadGPR(r, x86.RAX, 4, vl)
			e.done(in.d, r)
		})
		return d
	}
	v.factor, v.shift = number(0), number(2)
	if !signed {
		v.first = number(1)
	}
	if t.Signed() { // the sign of a word is that of the byte at its end
		v.sign = g.wordSigns(word, y)
	}
	return v
}

// reciprocal leaves one of what the function of that name gives, of EAX's low bits, in all
// words of EAX.
func (e *encoder) reciprocal(word int, signed, negates bool, size, which int) {
	kind := byte(5)
	if negates {
		kind = 7
	}
	if size < 32 {
		e.ShiftImm(4, x86.W32, x86.RAX, uint8(32-size))
		e.ShiftImm(kind, x86.W32, x86.RAX, uint8(32-size))
	}
	if negates {
		e.Mov(x86.W32, x86.RCX, x86.RAX)
		e.Un(x86.NEG, x86.W32, x86.RCX)
		e.Test(x86.W32, x86.RAX, x86.RAX)
		e.CMov(x86.S, x86.W32, x86.RAX, x86.RCX)
	}
	zero, done := e.NewLabel(), e.NewLabel()
	e.Mov(x86.W32, regT, x86.RAX) // d
	e.Test(x86.W32, regT, regT)
	e.Jcc(x86.E, zero)
	e.Lea(x86.RAX, x86.At(regT, -1))
	e.Cnt(x86.LZCNT, x86.W64, x86.RAX, x86.RAX)
	e.MovImm(x86.RCX, 64)
	e.Op(x86.SUB, x86.W64, x86.RCX, x86.RAX) // l
	least := func(r x86.Reg, n uint64) {     // r is at least n
		e.MovImm(x86.RDX, n)
		e.Op(x86.CMP, x86.W64, r, x86.RDX)
		e.CMov(x86.B, x86.W64, r, x86.RDX)
	}
	if signed {
		least(x86.RCX, 1)
	}
	power := func(r x86.Reg) { // RAX is 2^r
		e.MovImm(x86.RAX, 1<<64-1)
		e.BZHI(x86.W64, x86.RAX, x86.RAX, r)
		e.OpImm(x86.ADD, x86.W64, x86.RAX, 1)
	}
	switch which {
	case 0:
		if signed {
			e.OpImm(x86.ADD, x86.W64, x86.RCX, int32(word-1))
			power(x86.RCX)
		} else {
			power(x86.RCX)
			e.Op(x86.SUB, x86.W64, x86.RAX, regT)
			e.ShiftImm(4, x86.W64, x86.RAX, uint8(word))
		}
		e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
		e.Un(x86.DIV, x86.W64, regT)
		e.OpImm(x86.ADD, x86.W64, x86.RAX, 1)
	case 1: // 1, or 0 of 1
		e.Mov(x86.W64, x86.RAX, x86.RCX)
		e.MovImm(x86.RDX, 1)
		e.Op(x86.CMP, x86.W64, x86.RAX, x86.RDX)
		e.CMov(x86.A, x86.W64, x86.RAX, x86.RDX)
	case 2:
		least(x86.RCX, 1)
		e.Lea(x86.RAX, x86.At(x86.RCX, -1))
	}
	e.Jmp(done)
	e.Bind(zero)
	_, first, shift := reciprocal(word, signed, 0)
	e.MovImm(x86.RAX, [...]uint64{0, first, shift}[which])
	e.Bind(done)
	if word == 16 { // twice
		e.OpImm(x86.AND, x86.W32, x86.RAX, 0xffff)
		e.Mov(x86.W32, x86.RCX, x86.RAX)
		e.ShiftImm(4, x86.W32, x86.RCX, 16)
		e.Op(x86.OR, x86.W32, x86.RAX, x86.RCX)
	}
}

// wordSigns is all ones where a word of 16 or 32 bits is negative.
func (g *gen) wordSigns(word int, x vreg) vreg {
	if word == 16 {
		return g.op1Imm(x86.SraW, 2, x, 15)
	}
	return g.signs(4, x)
}

// invariantOf is what divides by a node's divisor; false if there is none.
func (g *gen) invariantOf(n *ir.Node) (invariant, bool) {
	if c, ok := n.Args[1].Const(); ok && g.regSize(n.Type) <= 2 {
		return g.invariantBy(n.Type, c), true
	}
	v := g.divisorOf(n.Args[1]).whole.by
	return v, v.factor != 0
}

// byInvariant is x / d.
func (g *gen) byInvariant(t isa.Type, x vreg, d invariant) vreg {
	size := g.regSize(t)
	word, signed := g.multiplies(t)
	q := vreg(0)
	switch {
	case size > 1:
		q = g.wordQuotient(word, size, signed, t.Signed(), x, d)
	case t.Signed():
		even := g.op1Imm(x86.SraW, 1, g.op1Imm(x86.SllW, 1, x, 8), 8)
		q = g.joinBytes(g.wordQuotient(word, 1, true, true, even, d), g.wordQuotient(word, 1, true, true, g.op1Imm(x86.SraW, 1, x, 8), d))
	default:
		even := g.and(1, x, g.number(2, 0xff))
		q = g.joinBytes(g.wordQuotient(word, 1, true, false, even, d), g.wordQuotient(word, 1, true, false, g.op1Imm(x86.SrlW, 1, x, 8), d))
	}
	if d.sign == 0 {
		return q
	}
	return g.op2(subI.of(size), size, g.xor(size, q, d.sign), d.sign)
}

// joinBytes puts the low bytes of words side by side.
func (g *gen) joinBytes(even, odd vreg) vreg {
	return g.andOr(1, even, g.number(2, 0xff), g.op1Imm(x86.SllW, 1, odd, 8))
}

// wordQuotient is x / |d| of words, in vectors as of elements of a size; negative: some may be.
func (g *gen) wordQuotient(word, size int, signed, negative bool, x vreg, d invariant) vreg {
	ops := map[int]struct{ add, sub, sra, srl *x86.Form }{
		16: {x86.AddW, x86.SubW, x86.SravW, x86.SrlvW}, 32: {x86.AddD, x86.SubD, x86.SravD, x86.SrlvD},
	}[word]
	high := g.highHalf(word, size, signed, x, d.factor)
	if !signed {
		rest := g.op2(ops.srl, size, g.op2(ops.sub, size, x, high), d.first)
		return g.op2(ops.srl, size, g.op2(ops.add, size, rest, high), d.shift)
	}
	q := g.op2(ops.sra, size, g.op2(ops.add, size, high, x), d.shift)
	if !negative {
		return q
	}
	return g.op2(ops.sub, size, q, g.wordSigns(word, x))
}

// highHalf is the high halves of words' products.
func (g *gen) highHalf(word, size int, signed bool, x, y vreg) vreg {
	f := map[bool]forms{false: {w: x86.MulHUW, d: x86.MulUDQ}, true: {w: x86.MulHW, d: x86.MulDQ}}[signed].of(word / 8)
	if word == 16 {
		return g.op2(f, size, x, y)
	}
	return g.highHalves(f, x, y, y)
}
