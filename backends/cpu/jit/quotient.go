package jit

import (
	"math"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Quotients by a number that is the same in all lanes, as by a row's sum, are made of
// products: 16 elements take some 5 cycles, where AVX-512's division takes 16.
//
// With h the rounded reciprocal of y, and l what that lacks, q = x·h + x·l is less than
// a unit in the last place off x / y; then x − q·y is exact, and q + (x − q·y)·h is the
// rounded quotient (Markstein, "Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990, theorem on division). That wants numbers whose products
// neither overflow nor lose bits below the least: y and all x of a group have to be
// within bounds, or the group is divided. NaNs, infinities and zeros are not.

// divisor is what is computed once of a divisor.
type divisor struct {
	high, low vreg  // the reciprocal, in two parts
	span      vreg  // what |x| is above the least by, less one, in bits; 0: divide always
	whole     whole // of integers, all there is
}

// bounds are the exponents of what is multiplied: of dividends, and of divisors.
func bounds(size int) (dividend, divisor int) {
	if size == 8 {
		return 500, 300
	}
	return 60, 40
}

// power is the bits of 2^e.
func power(size, e int) uint64 {
	if size == 8 {
		return math.Float64bits(math.Ldexp(1, e))
	}
	return uint64(math.Float32bits(float32(math.Ldexp(1, e))))
}

// findDivisors finds the values that something is divided by.
func (p *program) findDivisors(r *ir.Region) {
	for _, n := range r.Nodes {
		if n.Op == ir.Op(isa.DIV) || n.Op == ir.Op(isa.REM) {
			if _, constant := n.Args[1].Const(); !constant {
				p.divisors[n.Args[1]] = true
			}
		}
		for _, s := range n.Regions {
			p.findDivisors(s)
		}
	}
}

// outside reports, as a mask, where |x| is not from 2^−e up, by no more than span says.
func (g *gen) outside(size, e int, x, span vreg) vreg {
	above := g.op2(subI.of(size), size, g.andNot(size, g.signBit(size), x), g.number(size, power(size, -e)))
	return g.cmpI(unsignedOf[size], above, span, isa.GE)
}

// divided is a value that is divided by, in a group; -1: it is shared by all.
type divided struct {
	v *ir.Value
	u int
}

// prepareDivisor computes what quotients by v want, at the place where v is computed
// for the group at hand. Of groups that code is written for together the first one's
// serves all.
func (g *gen) prepareDivisor(v *ir.Value) {
	if !g.t.evex && !v.Type.Integer() || !g.p.divisors[v] || !g.same(v) && g.shared[v.ID] == 0 {
		return
	}
	u := g.u
	if g.shared[v.ID] != 0 {
		u = -1
	} else if g.u > g.lo {
		g.divisors[divided{v, u}] = g.divisors[divided{v, g.lo}]
		return
	}
	if v.Type.Integer() {
		g.divisors[divided{v, u}] = g.prepareWhole(v.Type, g.val(v), u == -1)
		return
	}
	size, y := g.regSize(v.Type), g.val(v)
	x, b := bounds(size)
	one := g.float(size, 1)
	d := divisor{high: g.op2(divF.of(size), size, one, y)}
	d.low = g.op2(mulF.of(size), size, d.high, g.negatedFMA(size, d.high, y, one))
	whole := g.number(size, power(size, b)-power(size, -b))
	d.span = g.sel(size, g.outside(size, b, y, whole), g.number(size, 0), g.number(size, power(size, x)-power(size, -x)))
	g.divisors[divided{v, u}] = d
}

// negatedFMA is c − a · b.
func (g *gen) negatedFMA(size int, a, b, c vreg) vreg {
	d := g.newReg(classVec)
	g.add(inst{fma: [...]*fmaForms{&negatedPS, &negatedPD}[size/4-1], vl: g.vl(size), d: d, a: a, b: b, c: c})
	return d
}

// divisorOf is what was prepared of v for the group at hand.
func (g *gen) divisorOf(v *ir.Value) divisor {
	if g.shared[v.ID] != 0 {
		return g.divisors[divided{v, -1}]
	}
	return g.divisors[divided{v, g.u}]
}

// quotient divides the group's x by v: by products, if v was prepared.
func (g *gen) quotient(x vreg, v *ir.Value) vreg {
	size, y := g.regSize(v.Type), g.val(v)
	d := g.divisorOf(v)
	if d.high == 0 {
		return g.op2(divF.of(size), size, x, y)
	}
	e, _ := bounds(size)
	q := g.fma(size, x, d.high, g.op2(mulF.of(size), size, x, d.low))
	r := g.fma(size, g.negatedFMA(size, q, y, x), d.high, q)
	g.anew(r, divF.of(size), size, x, y, g.outside(size, e, x, d.span))
	return r
}

// anew computes d = f(a, b) once more, as the processor does, if m has a lane.
func (g *gen) anew(d vreg, f *x86.Form, size int, a, b, m vreg) {
	vl := g.vl(size)
	g.add(inst{d: d, merge: true, a: a, b: b, k: m, inner: true, pure: true, emit: func(e *encoder, in *inst) {
		over := e.NewLabel()
		e.testAny(in.k)
		e.Jcc(x86.E, over)
		x := x86.Inst{VL: vl, D: e.out(in.d, 0), B: e.vec(in.b, 0, vl)}
		if in.a != 0 {
			x.A = e.vec(in.a, 1, vl)
		}
		e.Emit(f, x)
		e.done(in.d, x.D)
		e.Bind(over)
	}})
}
