package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// extremum is MIN and MAX. x86's give the second operand where one is a NaN or
// both are zeros.
func extremum(g *gen, n *ir.Node) {
	isMax := n.Op == ir.Op(isa.MAX)
	if n.Type.Float() {
		g.set(n.Result(), g.floatExtremum(n, isMax, g.regSize(n.Type)))
		return
	}
	a := g.args(n)
	g.set(n.Result(), g.extreme(n.Type, isMax, a[0], a[1]))
}

// extreme is the larger or the smaller of two vectors.
func (g *gen) extreme(t isa.Type, isMax bool, a, b vreg) vreg {
	size := g.regSize(t)
	if t.Float() {
		return g.floatExtreme(isMax, size, a, b)
	}
	if size <= 4 || g.t.evex {
		f := map[[2]bool]forms{{false, false}: minU, {false, true}: minS, {true, false}: maxU, {true, true}: maxS}[[2]bool{isMax, t.Signed()}]
		return g.op2(f.of(size), size, a, b)
	}
	if isMax {
		return g.sel(8, g.ordered(t, a, b), a, b)
	}
	return g.sel(8, g.ordered(t, a, b), b, a)
}

// ordered is a > b of 64-bit integers on AVX2.
func (g *gen) ordered(t isa.Type, a, b vreg) vreg {
	if t.Unsigned() {
		s := g.signBit(8)
		a, b = g.xor(8, a, s), g.xor(8, b, s)
	}
	return g.op2(x86.CmpGtQ, 8, a, b)
}

func (g *gen) floatExtremum(n *ir.Node, isMax bool, size int) vreg {
	f := minF
	if isMax {
		f = maxF
	}
	op := f.of(size)
	sign := uint64(1) << (8*size - 1)
	for i, v := range n.Args[:2] {
		cell, ok := v.Const()
		if !ok {
			continue
		}
		c := registerForm(n.Type, cell)
		if c&(sign-1) > infinity(size) {
			continue // a NaN
		}
		x := g.val(n.Args[1-i])
		switch r := g.op2(op, size, g.val(v), x); { // with the other second its NaN comes through, and its zero
		case c&^sign != 0, c == 0 && !isMax, c == sign && isMax:
			return r
		case isMax: // of a zero and +0 it is +0
			return g.op2(addF.of(size), size, r, g.val(v))
		}
	}
	a := g.args(n)
	return g.floatExtreme(isMax, size, a[0], a[1])
}

func (g *gen) floatExtreme(isMax bool, size int, a, b vreg) vreg {
	f := minF
	if isMax {
		f = maxF
	}
	op := f.of(size)
	if g.t.evex {
		nan := g.unordered(size, a, b) // before r, which may take the place of an operand
		r := g.range2(isMax, size, a, b)
		g.blendSize(size, r, g.quietNaN(size), nan)
		return r
	}
	x, y := g.op2(op, size, a, b), g.op2(op, size, b, a)
	if !isMax {
		return g.or(size, x, y) // −0 wins, and a NaN stays one
	}
	// Where they differ one is a NaN, or they are zeros: then this is −0, and what comes of it +0.
	differ := g.xor(size, x, y)
	return g.op2(subF.of(size), size, g.or(size, x, differ), differ)
}

// unordered is where one of two floats is a NaN.
func (g *gen) unordered(size int, a, b vreg) vreg { return g.cmpF(size, a, b, 3) }

// range2 is the extreme of two floats by AVX-512, where one is a NaN the other.
func (g *gen) range2(isMax bool, size int, a, b vreg) vreg {
	imm := uint8(4) // the smaller, with the sign of the comparison
	if isMax {
		imm = 5
	}
	return g.op2Imm(pair{x86.RangePS, x86.RangePD}.of(size), size, a, b, imm)
}

// quietNaN is a NaN in all lanes: not all ones, which rounding to bf16 would carry to 0,
// see roundHalf.
func (g *gen) quietNaN(size int) vreg {
	if size == 8 {
		return g.number(8, 0x7ff8<<48)
	}
	return g.number(4, 0x7fc00000)
}

// infinity is the bits of +∞ of a float that has the given size in registers.
func infinity(size int) uint64 {
	if size == 8 {
		return 0x7ff << 52
	}
	return 0xff << 23
}
