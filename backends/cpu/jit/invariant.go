package jit

import (
	"math/bits"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Quotients of integers by a number that is the same in the whole launch, or a constant, are
// made of the high halves of products, in words of 16 or 32 bits (Granlund and Montgomery, "Division by
// invariant integers using multiplication", 1994, figures 4.1 and 5.2). With l the least
// such that the divisor's magnitude d is at most 2^l, the multiplier 2^(bits+l−1) / d of
// numbers with a sign, or 2^(bits+l) / d of those without, is one bit longer than a word:
// what is multiplied with lacks that bit, and x is added to the high half. Packed bytes are
// done as words, the even ones and the odd ones; without a sign they are no negative words.
//
// A divisor of 0 has the multiplier 0, and shifts that leave nothing: the quotient is 0.
//
// Of a constant more is known. Powers of two are shifts alone. Numbers that are shorter than
// words take a multiplier that has one bit less and is rounded up, so nothing is added: with e
// what it has too much of, times d, less than d ≤ 2^l, x·e is below the power of two that is
// divided by, if x is below 2^(bits−1), or |x| at most 2^(bits−2).

// invariant is what is computed once of a divisor.
type invariant struct {
	signed bool     // what words are multiplied as
	factor vreg     // what is multiplied with; 0: a power of two is shifted by
	lacks  bool     // factor lacks a bit
	first  distance // of words without sign: how far what lacks of x is shifted
	shift  distance // how far the sum is
	sign   vreg     // of those with one: all ones if the divisor is negative; 0: it is not
}

// distance is how far words are shifted: by a vector's, or, without one, by so many bits. AVX2, which has no
// words of 16 bits shifted by those of a vector, takes all distances as one number, in the vector's low end.
type distance struct {
	by   vreg
	bits int
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

// invariantBy is what divides by a constant, which is not 0.
func (g *gen) invariantBy(t isa.Type, cell uint64) (v invariant) {
	word, signed := g.multiplies(t)
	v.signed = signed
	d := cell & t.Mask()
	negative := t.Signed() && d>>(t.Bits()-1) != 0
	if negative {
		d = -d & t.Mask()
	}
	up := bits.Len64(d - 1)
	factor := uint64(0)
	rounded := func(e int) uint64 { return (uint64(1)<<e-1)/d + 1 }
	switch {
	case d == 1<<up:
		v.shift.bits = up
	case t.Bits() < word && !t.Signed():
		v.signed = false
		factor, v.shift.bits = rounded(word+up-1), up-1
	case t.Bits() < word:
		factor, v.shift.bits = rounded(word+up-2), up-2
	default:
		v.lacks = true
		var first, last uint64
		factor, first, last = reciprocal(word, signed, d)
		v.first.bits, v.shift.bits = int(first), int(last)
	}
	if factor != 0 {
		v.factor = g.number(word/8, factor)
	}
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
		spread := g.t.evex || which == 0
		vl, size := g.vl(word/8), g.regSize(t)
		g.pure(d, y, 0, 0, func(e *encoder, in *inst) {
			e.Emit(x86.MovDTo, x86.Inst{VL: 16, D: e.vec(in.a, 0, g.vl(size)), B: x86.RAX})
			e.reciprocal(word, signed, t.Signed(), 8*size, which, spread)
			r := e.out(in.d, 0)
			if spread {
				e.spreadGPR(r, x86.RAX, 4, vl)
			} else {
				e.Emit(x86.MovDFrom, x86.Inst{VL: 16, D: r, B: x86.RAX})
			}
			e.done(in.d, r)
		})
		return d
	}
	v.signed, v.lacks = signed, true
	v.factor, v.shift.by = number(0), number(2)
	if !signed {
		v.first.by = number(1)
	}
	if t.Signed() { // the sign of a word is that of the byte at its end
		v.sign = g.wordSigns(word, y)
	}
	return v
}

// reciprocal leaves one of what the function of that name gives, of EAX's low bits, in EAX; in all
// words of it if it is spread.
func (e *encoder) reciprocal(word int, signed, negates bool, size, which int, spread bool) {
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
	if word == 16 && spread { // twice
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
	if c, ok := n.Args[1].Const(); ok && c&n.Type.Mask() != 0 && g.regSize(n.Type) <= 4 {
		return g.invariantBy(n.Type, c), true
	}
	v := g.divisorOf(n.Args[1]).whole.by
	return v, v.factor != 0
}

// byInvariant is x / d.
func (g *gen) byInvariant(t isa.Type, x vreg, d invariant) vreg {
	size := g.regSize(t)
	word, _ := g.multiplies(t)
	quotient := func(x vreg) vreg { return g.wordQuotient(word, size, t.Signed(), x, d) }
	q := vreg(0)
	switch {
	case size > 1:
		q = quotient(x)
	case t.Signed():
		even := g.op1Imm(x86.SraW, 1, g.op1Imm(x86.SllW, 1, x, 8), 8)
		q = g.joinBytes(quotient(even), quotient(g.op1Imm(x86.SraW, 1, x, 8)))
	default:
		even := g.and(1, x, g.number(2, 0xff))
		q = g.joinBytes(quotient(even), quotient(g.op1Imm(x86.SrlW, 1, x, 8)))
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
func (g *gen) wordQuotient(word, size int, negative bool, x vreg, d invariant) vreg {
	ops := map[int]struct{ add, sub, sra, srl, srav, srlv *x86.Form }{
		16: {x86.AddW, x86.SubW, x86.SraW, x86.SrlW, x86.SravW, x86.SrlvW}, 32: {x86.AddD, x86.SubD, x86.SraD, x86.SrlD, x86.SravD, x86.SrlvD},
	}[word]
	switch {
	case g.t.evex:
	case word == 16:
		ops.srav, ops.srlv = x86.SraWBy, x86.SrlWBy
	default:
		ops.srav, ops.srlv = x86.SraDBy, x86.SrlDBy
	}
	shifted := func(imm, v *x86.Form, x vreg, s distance) vreg {
		switch {
		case s.by != 0:
			return g.op2(v, size, x, s.by)
		case s.bits == 0:
			return x
		}
		return g.op1Imm(imm, size, x, uint8(s.bits))
	}
	logical := func(x vreg, s distance) vreg { return shifted(ops.srl, ops.srlv, x, s) }
	arithmetic := func(x vreg, s distance) vreg { return shifted(ops.sra, ops.srav, x, s) }
	switch {
	case d.factor == 0 && (!negative || d.shift.bits == 0):
		return logical(x, d.shift)
	case d.factor == 0: // negative ones are made larger by d − 1
		more := logical(g.wordSigns(word, x), distance{bits: word - d.shift.bits})
		return arithmetic(g.op2(ops.add, size, x, more), d.shift)
	}
	high := g.highHalf(word, size, d.signed, x, d.factor)
	switch {
	case !d.signed && !d.lacks:
		return logical(high, d.shift)
	case !d.signed:
		rest := logical(g.op2(ops.sub, size, x, high), d.first)
		return logical(g.op2(ops.add, size, rest, high), d.shift)
	case d.lacks:
		high = g.op2(ops.add, size, high, x)
	}
	q := arithmetic(high, d.shift)
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
