package jit

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// hoist computes what is the same in all lanes of the launch once.
func (g *gen) hoist(n *ir.Node) {
	if !n.Op.IsInst() || len(n.Results) != 1 || n.CanFault() || g.shared[n.Result().ID] != 0 {
		return
	}
	if g.p.a.Vary(n.Result()) != analysis.PerLaunch {
		g.hoistSingle(n)
		return
	}
	if h := g.headOf(n); h != nil {
		for _, a := range n.Args { // what may fault waits for its block, and what is made of it
			if _, ok := a.Const(); !ok && !g.early[a.Node] {
				return
			}
		}
		g.earlyHead(n)
		if h.vec {
			g.shared[n.Result().ID] = g.materialize(n.Result())
		}
		return
	}
	g.share(n)
}

// hoistSingle does the same with elements that stand for all lanes, as the numbers of a
// row do, and with what is computed of them. Where memory is reached by bytes it might
// be written meanwhile.
func (g *gen) hoistSingle(n *ir.Node) {
	switch {
	case g.shape.single == 0 || g.shape.block > 0 || g.p.bytes:
	case n.Op == ir.Op(isa.LDG) && g.shape.single>>n.Mem.Slot&1 != 0:
		g.compute(n)
	case len(n.Args) > 0:
		g.share(n)
	}
}

// share computes a node that has no effect once, where what it is computed of has
// been: not for each group.
func (g *gen) share(n *ir.Node) {
	if !pure(n) {
		return
	}
	for _, a := range n.Args {
		if _, ok := a.Const(); !ok && g.shared[a.ID] == 0 {
			return
		}
	}
	g.compute(n)
}

// compute computes a node once.
func (g *gen) compute(n *ir.Node) {
	was, vals := g.from(n), g.vals
	g.vals = [][]vreg{g.shared}
	rules[n.Op.Inst()](g, n)
	g.prepareDivisor(n.Result())
	g.prepareFactor(n.Result())
	g.vals, g.src = vals, was
}
