package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Quotients and remainders of integers, which vectors have no instruction for, are found
// with those of f64, in elements of 64 bits: all numbers of 32 bits are f64s, in the even
// and then the odd half of such an element, and of 64 bits those below a bound, to which
// a group is held. Groups beyond it are divided a lane at a time. Constants of up to 32 bits
// are divided by with products of integers (invariant.go).
//
// With x and y below 2^53, x / y is no nearer to the integer above it than 1 / y, which is
// more than it is rounded by: cut off, the rounded quotient is the integers'. A divisor
// that all lanes share is multiplied with instead, by its reciprocal less 2^-51 of it. That
// is too little however it and the product are rounded, so the product cut off is not too
// large, and with x below 2^50 it is too small by at most 1, which x − q·y tells.
//
// Of 32 bits the reciprocal has 2^-50 more: the product is then not too small, and exceeds
// x / y by less than x / y · 2^-49, which with x below 2^32 is less than the 1 / y that the next
// integer is away. Integers of 8 and 16 bits are f32s, whose reciprocal has 2^-21 more; with
// their signs, since what is cut off is rounded toward 0.

const (
	wholeBits  = 52 // of numbers that are divided
	sharedBits = 50 // and of those that are multiplied with a reciprocal
)

// whole is a divisor without its sign, as f64.
type whole struct {
	y, inverse vreg      // inverse is 0 where lanes have their own
	narrow     vreg      // of 8 and 16 bits, which have nothing else: the reciprocal as f32, with the sign
	zero       vreg      // a mask: where the divisor is 0, for which the reciprocals of up to 32 bits are 0
	limit      vreg      // of 64 bits: numbers from here on are divided a lane at a time
	by         invariant // of one that the launch shares, of 32 bits or packed, which has nothing else but zero
}

// What a reciprocal is multiplied with: see above.
const (
	lessOf64 = 1 - 0x1p-51
	moreOf32 = 1 + 0x1p-50
	moreOf16 = 1 + 0x1p-21
)

// magic has integers below 2^52 as the lowest bits of a float's digits.
const magic = 0x433 << 52

// toWhole makes f64s of elements of 64 bits that are below 2^52, and fromWhole goes back.
// size is that of the lanes' elements, of which there may be two in one of these.
func (g *gen) toWhole(size int, x vreg) vreg {
	m := g.number(8, magic)
	return g.op2(x86.SubPD, size, g.op2(g.logic(x86.Or, x86.OrQ, x86.OrQ, 8), size, x, m), m)
}

func (g *gen) fromWhole(size int, x vreg) vreg {
	m := g.number(8, magic)
	return g.op2(g.logic(x86.Xor, x86.XorQ, x86.XorQ, 8), size, g.op2(x86.AddPD, size, x, m), m)
}

// lowWords is the even 32-bit elements, each extended to 64 bits.
func (g *gen) lowWords(x vreg) vreg {
	return g.op2(g.logic(x86.And, x86.AndQ, x86.AndQ, 8), 4, x, g.number(8, 1<<32-1))
}

// magnitude is |x|, of the least number as an unsigned one.
func (g *gen) magnitude(size int, x vreg) vreg {
	if size <= 4 || g.t.evex {
		return g.op1(absI.of(size), size, x)
	}
	s := g.signs(size, x)
	return g.op2(x86.SubQ, 8, g.xor(8, x, s), s)
}

// signs is all ones where x is negative.
func (g *gen) signs(size int, x vreg) vreg {
	if size == 8 && !g.t.evex {
		return g.op2(x86.CmpGtQ, 8, g.number(8, 0), x)
	}
	return g.op1Imm(sraI.of(size), size, x, uint8(8*size-1))
}

// prepareWhole computes once what all quotients by y, an integer that lanes share, want;
// launch says that all lanes of the launch do.
func (g *gen) prepareWhole(t isa.Type, y vreg, launch bool) (d divisor) {
	size := g.regSize(t)
	d.whole.zero = g.equal(size, y, g.number(size, 0))
	if launch && size == t.Size() && size <= 4 {
		d.whole.by = g.prepareInvariant(t, y)
		return d
	}
	if t.Size() <= 2 {
		one := g.op2(x86.DivPS, 4, g.float(4, 1), g.op1(x86.DQ2PS, 4, y))
		d.whole.narrow = g.sel(4, d.whole.zero, g.number(4, 0), g.op2(x86.MulPS, 4, one, g.float(4, moreOf16)))
		return d
	}
	if t.Signed() {
		y = g.magnitude(size, y)
	}
	more := moreOf32
	if size == 4 {
		d.whole.y = g.toWhole(4, g.lowWords(y))
	} else {
		more = lessOf64
		d.whole.y = g.toWhole(8, y)
		below := g.op2(x86.SubQ, 8, y, g.number(8, 1)) // of 0 the largest
		outside := g.cmpI(isa.U64, below, g.number(8, 1<<sharedBits-1), isa.GE)
		d.whole.limit = g.sel(8, outside, g.number(8, 0), g.number(8, 1<<sharedBits))
	}
	one := g.op2(x86.DivPD, size, g.float(8, 1), d.whole.y)
	d.whole.inverse = g.op2(x86.MulPD, size, one, g.float(8, more))
	if size == 4 {
		d.whole.inverse = g.zeroWhere(d.whole.zero, d.whole.inverse)
	}
	return d
}

// zeroWhere is elements of 64 bits, zero if p holds, which is the same in all lanes: as a mask it serves for
// elements of any size.
func (g *gen) zeroWhere(p, x vreg) vreg {
	if g.t.evex {
		return g.sel(8, p, g.number(8, 0), x)
	}
	return g.op2(x86.AndNot, 8, p, x)
}

// wholeOf is the divisor of a node, of which y is the magnitude in the group at hand.
func (g *gen) wholeOf(n *ir.Node, y vreg) whole {
	size, v := g.regSize(n.Type), n.Args[1]
	if c, ok := v.Const(); ok {
		c = registerForm(n.Type, c)
		if n.Type.Signed() && int64(c) < 0 {
			c = -c
		}
		if f := float64(c); c > 0 && f < 1<<sharedBits {
			return whole{y: g.float(8, f), inverse: g.float(8, 1/f*lessOf64), limit: g.number(8, 1<<sharedBits)}
		}
	}
	if w := g.divisorOf(v).whole; w.y != 0 {
		return w
	}
	w := whole{}
	if size == 8 {
		w.y = g.toWhole(8, y)
	}
	return w
}

// halves computes fn of f64s that are x and y, of 32-bit elements the even ones and then
// the odd ones, and joins the integers that it gives.
func (g *gen) halves(size int, x, y vreg, w whole, fn func(x vreg, w whole) vreg) vreg {
	if size == 8 {
		return fn(g.toWhole(8, x), w)
	}
	half := func(x, y vreg) vreg {
		of := w
		if w.y == 0 {
			of.y = g.toWhole(4, y)
		}
		return fn(g.toWhole(4, x), of)
	}
	high := func(x vreg) vreg { return g.op1Imm(x86.SrlQ, 4, x, 32) }
	even := half(g.lowWords(x), g.lowWords(y))
	odd := half(high(x), high(y))
	if w.inverse == 0 { // y may be 0, and so this anything
		even = g.lowWords(even)
	}
	return g.or(4, even, g.op1Imm(x86.SllQ, 4, odd, 32))
}

// wholeQuotient is DIV, or REM, of integers without sign, as f64s of which it makes an integer.
func (g *gen) wholeQuotient(size int, rem bool, x vreg, w whole) vreg {
	if w.inverse == 0 {
		q := g.cut(size, g.op2(x86.DivPD, size, x, w.y))
		if rem {
			q = g.negatedDouble(size, q, w.y, x)
		}
		return g.fromWhole(size, q)
	}
	q := g.cut(size, g.op2(x86.MulPD, size, x, w.inverse))
	if size == 4 {
		if rem {
			q = g.negatedDouble(size, q, w.y, x)
		}
		return g.fromWhole(size, q)
	}
	over := g.op2(x86.SubPD, size, g.negatedDouble(size, q, w.y, x), w.y) // the remainder of q + 1
	negative := g.op1Imm(x86.SrlQ, size, over, 63)
	if !rem {
		return g.op2(x86.SubQ, size, g.fromWhole(size, g.op2(x86.AddPD, size, q, g.float(8, 1))), negative)
	}
	back := g.op2(g.logic(x86.And, x86.AndQ, x86.AndQ, 8), size, w.y, g.op2(x86.SubQ, size, g.number(8, 0), negative))
	return g.fromWhole(size, g.op2(x86.AddPD, size, over, back))
}

// cut rounds f64s toward 0.
func (g *gen) cut(size int, x vreg) vreg {
	f := x86.RoundPD
	if g.t.evex {
		f = x86.RndScalePD
	}
	return g.op1Imm(f, size, x, 3|8)
}

// negatedDouble is c − a · b of f64s.
func (g *gen) negatedDouble(size int, a, b, c vreg) vreg {
	d := g.newReg(classVec)
	g.add(inst{fma: &negatedPD, vl: g.vl(size), d: d, a: a, b: b, c: c})
	return d
}

// divideWhole is DIV and REM of integers.
func (g *gen) divideWhole(n *ir.Node) {
	a, size, t := g.args(n), g.regSize(n.Type), n.Type
	c, constant := n.Args[1].Const()
	shared := g.divisorOf(n.Args[1]).whole
	zero := shared.zero
	if zero == 0 && (!constant || n.CanFault()) {
		zero = g.equal(size, a[1], g.number(size, 0))
	}
	if n.CanFault() {
		g.fault(n, isa.FaultDivide, zero, 0, t)
	}
	if constant && c == 0 {
		g.set(n.Result(), g.number(size, 0))
		return
	}
	rem, x, y := n.Op == ir.Op(isa.REM), a[0], a[1]
	orZero := func(r vreg) vreg {
		if shared.zero != 0 && !rem { // by a reciprocal of 0
			return r
		}
		return g.sel(size, zero, g.number(size, 0), r)
	}
	if by, ok := g.invariantOf(n); ok {
		r := g.byInvariant(t, x, by)
		if rem {
			r = g.op2(subI.of(size), size, x, g.product(t, r, y))
			if !constant {
				r = orZero(r)
			}
		}
		g.result(n, r)
		return
	}
	if shared.narrow != 0 {
		r := g.op1(x86.TPS2DQ, 4, g.op2(x86.MulPS, 4, g.op1(x86.DQ2PS, 4, x), shared.narrow))
		if rem {
			r = g.op2(x86.SubD, 4, x, g.op2(x86.MulLD, 4, r, y))
		}
		g.result(n, orZero(r))
		return
	}
	var sign vreg
	if t.Signed() {
		x, y = g.magnitude(size, x), g.magnitude(size, y)
		if sign = a[0]; !rem {
			sign = g.xor(size, sign, a[1])
		}
		sign = g.signs(size, sign)
	}
	w := g.wholeOf(n, y)
	r := g.halves(size, x, y, w, func(x vreg, w whole) vreg { return g.wholeQuotient(size, rem, x, w) })
	if sign != 0 {
		r = g.op2(subI.of(size), size, g.xor(size, r, sign), sign)
	}
	switch {
	case size == 4:
		r = orZero(r)
	case size == 8:
		var outside vreg
		if w.limit != 0 {
			outside = g.cmpI(isa.U64, x, w.limit, isa.GE)
		} else {
			below := g.op2(x86.SubQ, 8, y, g.number(8, 1))
			outside = g.cmpI(isa.U64, g.or(8, x, below), g.number(8, 1<<wholeBits-1), isa.GE)
		}
		g.lanewiseWhere(outside, r, a[0], a[1], func(e *encoder) { e.divide(x86.W64, t.Signed(), rem) })
	}
	g.result(n, r)
}

// divide divides RAX by regT, or makes the remainder, as the ISA has it.
func (e *encoder) divide(w x86.Width, signed, rem bool) {
	done, one, zero := e.NewLabel(), e.NewLabel(), e.NewLabel()
	if signed { // MIN / −1 would trap
		e.OpImm(x86.CMP, w, regT, -1)
		e.Jcc(x86.E, one)
	}
	e.Test(w, regT, regT)
	e.Jcc(x86.E, zero)
	if signed {
		e.SignRAX(w)
		e.Un(x86.IDIV, w, regT)
	} else {
		e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
		e.Un(x86.DIV, w, regT)
	}
	if rem {
		e.Mov(w, x86.RAX, x86.RDX)
	}
	e.Jmp(done)
	e.Bind(one)
	if signed && !rem {
		e.Un(x86.NEG, w, x86.RAX)
		e.Jmp(done)
	}
	e.Bind(zero)
	e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
	e.Bind(done)
}
