package ptx

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// multiple returns a power of two, up to 16, of which an integer is known to be
// a multiple.
func (p *Program) multiple(v *ir.Value) int {
	if c, ok := v.Const(); ok {
		return 1 << min(bits.TrailingZeros64(c), 4)
	}
	return 1 << min(p.aligned[v], 4)
}

// alignments finds the number of low bits known to be zero of every integer. It
// begins by taking all for 0 and goes through the tree, lowering, until nothing
// changes; so it finds what loops keep up.
func alignments(f *ir.Func) map[*ir.Value]int {
	known := map[*ir.Value]int{} // missing: 0 in every bit, so far
	zeros := func(v *ir.Value) int {
		if z, ok := known[v]; ok {
			return z
		}
		if c, ok := v.Const(); ok {
			return bits.TrailingZeros64(c)
		}
		return 64
	}
	changed := false
	lower := func(v *ir.Value, z int) {
		if zeros(v) > z {
			known[v], changed = z, true
		}
	}
	lowerAll := func(to, from []*ir.Value) {
		for i, v := range from {
			lower(to[i], zeros(v))
		}
	}
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		for _, n := range r.Nodes {
			switch n.Op {
			case ir.Const:
			case ir.If, ir.Block:
				for _, s := range n.Regions {
					walk(s)
					if !s.Ends() {
						lowerAll(n.Results, s.Yield)
					}
				}
			case ir.Loop:
				inits, body := n.Args, n.Regions[0]
				if n.Counted {
					inits = inits[1:]
				}
				lowerAll(body.Params, inits)
				walk(body)
				if !body.Ends() {
					lowerAll(body.Params, body.Yield)
				}
				lowerAll(n.Results, body.Params[:len(n.Results)])
			case ir.Br:
				switch {
				case n.Target == nil:
				case n.Target.Op == ir.Loop:
					lowerAll(n.Target.Regions[0].Params, n.Args)
				default:
					lowerAll(n.Target.Results, n.Args)
				}
			default:
				for _, v := range n.Results {
					lower(v, resultZeros(n, zeros))
				}
			}
		}
	}
	for again := true; again; again = changed {
		changed = false
		walk(f.Body)
	}
	return known
}

// resultZeros is what an instruction's operands say about its result.
func resultZeros(n *ir.Node, zeros func(*ir.Value) int) int {
	a := n.Args
	if !n.Type.Integer() {
		return 0
	}
	switch n.Op.Inst() {
	case isa.ADD, isa.SUB, isa.OR, isa.XOR, isa.MIN, isa.MAX:
		return min(zeros(a[0]), zeros(a[1]))
	case isa.MUL:
		return min(zeros(a[0])+zeros(a[1]), 64)
	case isa.AND:
		return max(zeros(a[0]), zeros(a[1]))
	case isa.NEG:
		return zeros(a[0])
	case isa.SEL:
		return min(zeros(a[1]), zeros(a[2]))
	case isa.SHL:
		if c, ok := a[1].Const(); ok {
			return min(zeros(a[0])+int(c%uint64(n.Type.Bits())), 64)
		}
		return zeros(a[0])
	case isa.CVT:
		if n.From.Integer() {
			return zeros(a[0])
		}
	}
	return 0
}
