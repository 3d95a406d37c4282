package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Numbers of 64 bits that the whole launch shares, where lanes have none: an f32
// program's parameters of f64, the bound of a loop that is clamped as i64. They are
// computed once, in groups of as few lanes as have room for them, and what is made
// of them for lanes, such as an f32 or a predicate, is spread to all lanes. So they
// leave groups as large as what lanes do themselves allows.

// findApart finds the nodes that compute such numbers, and clears wide if no others
// have anything of 64 bits.
func (p *program) findApart() {
	if !p.wide || p.bytes || p.meets {
		return
	}
	found := map[*ir.Node]bool{}
	if !p.apartIn(p.fn.Body, found) {
		return
	}
	p.apart, p.wide = found, false
}

// apartIn adds the nodes of a region that are the same for the launch. It returns
// whether nothing else has 64 bits.
func (p *program) apartIn(r *ir.Region, found map[*ir.Node]bool) bool {
	if slices.ContainsFunc(r.Params, long) || slices.ContainsFunc(r.Yield, long) {
		return false
	}
	for _, n := range r.Nodes {
		switch {
		case n.Op == ir.Const:
		case p.sharedBy(n, found):
			found[n] = true
		case slices.ContainsFunc(n.Args, long) || slices.ContainsFunc(n.Results, long):
			return false
		}
		for _, s := range n.Regions {
			if !p.apartIn(s, found) {
				return false
			}
		}
	}
	return true
}

// sharedBy reports whether a node computes a number of parameters and constants alone,
// for which found has what it takes.
func (p *program) sharedBy(n *ir.Node, found map[*ir.Node]bool) bool {
	if !n.Op.IsInst() || len(n.Results) != 1 || !pure(n) || n.Op != ir.Op(isa.LDP) && len(n.Args) == 0 {
		return false
	}
	if _, special := p.specials[n]; special || p.shortcut[n] {
		return false
	}
	return !slices.ContainsFunc(n.Args, func(v *ir.Value) bool {
		_, constant := v.Const()
		return !constant && !found[v.Node]
	})
}

// long reports whether a value takes 64 bits.
func long(v *ir.Value) bool { return v.Type.Numeric() && v.Type.Size() == 8 }

// narrow are the lanes and what depends on them, of groups for numbers of 64 bits.
type narrow struct {
	lanes  int
	consts map[numberKey]vreg
	full   vreg
}

// narrow makes groups of as few lanes as have room for 64 bits each.
func (g *gen) narrow() *narrow {
	lanes := g.lanes
	g.lanes = g.t.bytes / 8
	in := &narrow{g.lanes, map[numberKey]vreg{}, g.allLanes()}
	g.lanes = lanes
	return in
}

// computeApart computes, in a region and those within, what the launch shares.
func (g *gen) computeApart(r *ir.Region, in *narrow) {
	for _, n := range r.Nodes {
		if g.p.apart[n] {
			g.work.Step(16)
			if slices.ContainsFunc(n.Args, long) || long(n.Result()) {
				g.computeLong(n, in)
			} else {
				g.compute(n)
			}
		}
		for _, s := range n.Regions {
			g.computeApart(s, in)
		}
	}
}

// computeLong computes a number of 64 bits, or something of such.
func (g *gen) computeLong(n *ir.Node, in *narrow) {
	wide := narrow{g.lanes, g.consts, g.full}
	g.lanes, g.consts, g.full = in.lanes, in.consts, in.full
	was, v := g.from(n), n.Result()
	g.vals = [][]vreg{g.shared}
	rules[n.Op.Inst()](g, n)
	if long(v) {
		g.prepareDivisor(v)
	}
	g.lanes, g.consts, g.full = wide.lanes, wide.consts, wide.full
	if !long(v) {
		g.set(v, g.spread(v, g.vals[0][v.ID]))
		g.prepareDivisor(v)
	}
	g.vals, g.src = nil, was
}

// spread gives all lanes what the first has.
func (g *gen) spread(v *ir.Value, r vreg) vreg {
	switch {
	case v.Type != isa.Pred:
		return g.op1(toAll.of(g.regSize(v.Type)), g.regSize(v.Type), r)
	case !g.t.evex: // in which all bits are the same, whatever the lanes
		return r
	}
	d, all := g.newReg(classMask), uint64(1)<<g.lanes-1
	g.pure(d, r, 0, 0, func(e *encoder, in *inst) {
		k := e.outMask(in.d)
		e.Emit(x86.KToQ, x86.Inst{VL: 16, D: x86.RAX, B: e.mask(in.a, maskTemp0)})
		e.OpImm(x86.AND, x86.W64, x86.RAX, 1)
		e.Un(x86.NEG, x86.W64, x86.RAX)
		e.MovImm(x86.RCX, all)
		e.Op(x86.AND, x86.W64, x86.RAX, x86.RCX)
		e.Emit(x86.KFromQ, x86.Inst{VL: 16, D: k, B: x86.RAX})
		e.doneMask(in.d, k)
	})
	return d
}
