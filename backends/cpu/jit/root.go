package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Square roots of f32 are made of products too: 16 elements take some 7 cycles, where
// AVX-512's instruction takes 12, unless others fill these.
//
// The processor's y is 1/√x but for 2^-14 of it. With g = x·y and h = y/2, r = ½ − g·h
// is what the two lack, so that g + g·r and h + h·r are √x and half its reciprocal but
// for some roundings. Then d = x − g² is exact, and g + d·h, before it is rounded, is off
// √x by less than 2^-46 of it. There are 31 significands whose root comes closer than
// 2^-44 to the middle between two numbers; the test tries these with all that y may be.
//
// Of bf16, which is rounded from f32, the first of these steps is enough: x has 8 digits, and
// the square of a middle m between two roots, which has 9, has 17 or 18, the last of them 1.
// So the two differ by 2^-16 at least where x is from 1 to 4, and √x and m by 2^-18, while
// g + g·r is off √x by less than 2^-23. The test tries all x, with all that y may be.

// rootExponent bounds the numbers whose products neither overflow nor lose bits below
// the least. The roots of others are the processor's, and so are those of what has none.
const rootExponent = 96

// rootInsts is how many instructions more than one a root is.
const rootInsts = 12

// A root by the processor's instruction leaves all of it but the divider free, so beside
// enough else it costs nothing. These are how many instructions are enough for a root and for
// a quotient, measured where vectors are done as two (of 2^16 elements √(x² + y²) takes 0.90 of
// the time of products, with four or eight operations more 0.77 and 0.64, a step of Adam
// 0.86; √x alone 1.05, x / √(x² + y²) 1.14).
const (
	besideRoot     = 5
	besideQuotient = 8
)

// dividerIdle reports whether a program has so much else to do.
func (p *program) dividerIdle() bool {
	if !p.straight || p.bytes || p.meets {
		return false
	}
	left := 0
	for _, n := range p.fn.Body.Nodes {
		switch {
		case !n.Op.IsInst() || n.Op == ir.Op(isa.LDP):
		case n.Op == ir.Op(isa.SQRT):
			left -= besideRoot
		case n.Op == ir.Op(isa.DIV) && n.Type.Float():
			left -= besideQuotient
		default:
			left++
		}
	}
	return left >= 0
}

func squareRoot(g *gen, n *ir.Node) {
	size, x := g.regSize(n.Type), g.val(n.Args[0])
	if size != 4 || !g.t.evex || n.Type == isa.F32 && g.t.halves && g.shape.block == 0 && g.p.idle {
		g.result(n, g.op1(sqrtF.of(size), size, x))
		return
	}
	half := g.float(4, 0.5)
	y := g.op1(x86.RSqrtPS, 4, x)
	root, h := g.op2(x86.MulPS, 4, x, y), g.op2(x86.MulPS, 4, y, half)
	r := g.negatedFMA(4, root, h, half)
	root, h = g.fma(4, root, r, root), g.fma(4, h, r, h)
	if n.Type != isa.BF16 {
		root = g.fma(4, g.negatedFMA(4, root, root, x), h, root)
	}
	least := power(4, -rootExponent)
	above := g.op2(x86.SubD, 4, x, g.number(4, least))
	g.anew(root, x86.SqrtPS, 4, 0, x, g.cmpI(isa.U32, above, g.number(4, power(4, rootExponent)-least), isa.GE))
	g.result(n, root)
}
