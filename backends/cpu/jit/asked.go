package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A function begins by asking whether its argument is an ordinary one: a logarithm, by its bits, whether it
// lies from the least normal number to the largest, which takes a sum and a comparison with a constant.
// AVX-512 asks that of a float at once, where the bits that are asked for are all those of some kinds.

// asked is what a comparison finds out.
type asked struct {
	x     *ir.Value // which
	kinds uint8     // is one of these, as VFPCLASS counts them
}

// Kinds of floats.
const (
	nan       = 1<<0 | 1<<7 // quiet or not: no stretch of bits has those of both signs and not the others
	plusZero  = 1 << 1
	minusZero = 1 << 2
	plusInf   = 1 << 3
	minusInf  = 1 << 4
	subnormal = 1 << 5
	negative  = 1 << 6 // and finite, but for -0
)

// byBits are the kinds in the order of their bits.
var byBits = [...]uint8{
	plusZero, subnormal, 0, plusInf, nan,
	minusZero, subnormal | negative, negative, minusInf, nan,
}

// kindsOf returns the kinds that make up the floats of so many bytes for whose bits holds does, if there are
// such. Changes are all bits that it may hold of and not of those before, or the other way around.
func kindsOf(size int, holds func(bits uint64) bool, changes ...uint64) (kinds uint8, ok bool) {
	mantissa, sign := 23, uint64(1)<<(8*size-1)
	if size == 8 {
		mantissa = 52
	}
	inf := sign - 1<<mantissa
	var first []uint64 // of each kind
	for _, half := range []uint64{0, sign} {
		first = append(first, half, half+1, half+1<<mantissa, half+inf, half+inf+1)
	}
	for _, c := range changes {
		if holds(c) != holds(c-1) && !slices.Contains(first, c&(sign|(sign-1))) {
			return 0, false
		}
	}
	for i, k := range byBits {
		if holds(first[i]) && k != subnormal|negative {
			kinds |= k
		}
	}
	for i, k := range byBits {
		if holds(first[i]) != (kinds&k != 0) {
			return 0, false
		}
	}
	return kinds, true
}

// findAsked finds comparisons of a constant with the bits of a float to which another is added, what is
// true of one stretch of them, as long as that is still there: see findTests.
func (p *program) findAsked(r *ir.Region) {
	bits, sums := map[*ir.Value]*ir.Value{}, map[*ir.Value]*ir.Node{}
	for _, n := range r.Nodes {
		for _, s := range n.Regions {
			p.findAsked(s)
		}
		switch {
		case !n.Op.IsInst() && n.Op != ir.Const:
			clear(bits)
			clear(sums)
		case n.Type != isa.U32 && n.Type != isa.U64:
		case n.Op == ir.Op(isa.BITCAST) && n.Args[0].Type.Float() && n.Args[0].Type.Size() == n.Type.Size():
			bits[n.Result()] = n.Args[0]
		case n.Op == ir.Op(isa.ADD):
			sums[n.Result()] = n
		case n.Op == ir.Op(isa.SET):
			if k, ok := asks(n, bits, sums); ok {
				p.asked[n] = k
			}
		}
	}
}

func asks(n *ir.Node, bits map[*ir.Value]*ir.Value, sums map[*ir.Value]*ir.Node) (k asked, ok bool) {
	for i, a := range n.Args {
		bound, constant := n.Args[1-i].Const()
		sum := sums[a]
		if !constant || sum == nil {
			continue
		}
		for j, b := range sum.Args {
			more, constant := sum.Args[1-j].Const()
			if k.x = bits[b]; k.x == nil || !constant {
				continue
			}
			c := n.Cond.Signed() // others are rewritten to these two, or tell a number from all others
			if c != isa.LT && c != isa.LE {
				return k, false
			}
			holds := func(x uint64) bool {
				a, b := (x+more)&n.Type.Mask(), bound
				if i == 1 {
					a, b = b, a
				}
				return a < b || c == isa.LE && a == b
			}
			// A sum is less than those before where it is 0 again, and passes the bound at that or behind it.
			k.kinds, ok = kindsOf(n.Type.Size(), holds, -more, bound-more, bound-more+1)
			return k, ok
		}
	}
	return k, false
}

// isOf is whether x is of such kinds.
func (g *gen) isOf(k asked, x vreg) vreg {
	size := k.x.Type.Size()
	in := inst{f: pair{x86.ClassPS, x86.ClassPD}.of(size), vl: g.vl(size), d: g.newReg(classMask), b: x, imm: k.kinds}
	if g.partial(size) { // what is behind the lanes is none
		in.k = g.full
	}
	g.add(in)
	return in.d
}
