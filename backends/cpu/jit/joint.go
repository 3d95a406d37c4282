package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Control that some groups of a block go through together, and what loops do
// with heads.

// together reports whether all lanes of a block take the same ways through a
// construct, and all come out of it.
func (g *gen) together(n *ir.Node) bool {
	switch n.Op {
	case ir.If:
		return g.same(n.Args[0]) && !g.p.escapes[n]
	case ir.Loop:
		return n.Counted && g.same(n.Args[0]) && !g.p.escapes[n] && !g.p.rounds[n]
	}
	return false
}

// straight writes the instructions that a list of nodes begins with: group after
// group, so that what one computes for another soon frees its register, or, of long
// stretches, the groups interleaved (see unrolling). It returns how many nodes they are.
func (g *gen) straight(nodes []*ir.Node) (count int) {
	stored := uint64(0)
	for count < len(nodes) && (nodes[count].Op.IsInst() || nodes[count].Op == ir.Const) && !g.tooSoon(nodes[count], &stored) {
		count++
	}
	nodes = nodes[:count]
	g.sidesOf(nodes)
	if count > longStretch && len(g.t.files[classVec]) >= manyVectors {
		for from := g.lo; from < g.hi; from += interleaved {
			for _, n := range nodes {
				for g.u = from; g.u < min(from+interleaved, g.hi); g.u++ {
					g.straightNode(n)
				}
			}
		}
	} else {
		for g.u = g.lo; g.u < g.hi; g.u++ {
			for _, n := range nodes {
				g.straightNode(n)
			}
		}
	}
	g.u = g.lo
	return count
}

// tooSoon reports whether a load can't be part of a stretch that has stored to some slots: the
// first group loads for all what lies backwards or far apart (see address), which the others
// may have yet to store. Else it notes what n stores to.
func (g *gen) tooSoon(n *ir.Node, stored *uint64) bool {
	switch n.Op {
	case ir.Op(isa.STG):
		*stored |= 1 << n.Mem.Slot
	case ir.Op(isa.LDG):
		if *stored>>n.Mem.Slot&1 != 0 && g.p.linearAccess(g.lin, n) {
			size := g.moved(n).Size()
			_, step := g.stepOf(n)
			return step != 0 && step != int64(size) && !spaced(step, size)
		}
	}
	return false
}

// longStretch is how many instructions of a group a processor still looks beyond.
const longStretch = 20

// interleaved is how many groups of long stretches registers have room for at a time.
const interleaved = 4

// straightNode writes an instruction for the group at hand.
func (g *gen) straightNode(n *ir.Node) {
	if n.Op == ir.Const || len(n.Results) == 1 && g.shared[n.Result().ID] != 0 || g.late(n) {
		return
	}
	h := g.headOf(n)
	if h == nil {
		if g.u > g.lo && len(n.Results) == 1 && pure(n) && g.same(n.Result()) { // the first group's serves all
			g.set(n.Result(), g.vals[g.lo][n.Result().ID])
			g.prepareDivisor(n.Result())
		} else {
			g.node(n)
		}
		return
	}
	if g.u == g.lo && !g.early[n] {
		g.headNode(n)
	}
	if h.vec {
		g.set(n.Result(), g.materialize(n.Result()))
	}
}

// eachGroup does f for the groups at hand.
func (g *gen) eachGroup(f func()) {
	for g.u = g.lo; g.u < g.hi; g.u++ {
		f()
	}
	g.u = g.lo
}

func (g *gen) jointIf(n *ir.Node) {
	results, placed := make([][]vreg, g.hi), []bool(nil)
	g.eachGroup(func() {
		results[g.u], placed = g.resultsOf(n) // alike in all groups
	})
	other, over := g.asm.NewLabel(), g.asm.NewLabel()
	way := func(r *ir.Region) {
		end := g.asm.NewLabel()
		g.region(r, end)
		g.eachGroup(func() { g.yields(r.Yield, n.Results, results[g.u], 0) })
		g.bind(end)
	}
	switch { // one way or the other, since lanes agree
	case g.idle(n, 1, placed):
		g.branch(n.Args[0], false, over)
		way(n.Regions[0])
	case g.idle(n, 0, placed):
		g.branch(n.Args[0], true, over)
		way(n.Regions[1])
	default:
		g.branch(n.Args[0], false, other)
		way(n.Regions[0])
		g.jump(over)
		g.bind(other)
		way(n.Regions[1])
	}
	g.bind(over)
}

// carried is what a loop hands from round to round as vectors, and as heads.
type carried struct {
	inits, params, yields, results                 []*ir.Value
	headInits, headParams, headYields, headResults []*ir.Value
}

func (g *gen) carried(n *ir.Node) (c carried) {
	r, first := n.Regions[0], 0
	if n.Counted {
		first = 1
	}
	for i, v := range r.Params {
		inits, params, yields, results := &c.inits, &c.params, &c.yields, &c.results
		if g.linear(v) != nil {
			inits, params, yields, results = &c.headInits, &c.headParams, &c.headYields, &c.headResults
		}
		*inits, *params = append(*inits, n.Args[first+i]), append(*params, v)
		if i < len(r.Yield) {
			*yields = append(*yields, r.Yield[i])
		}
		if i < len(n.Results) {
			*results = append(*results, n.Results[i])
		}
	}
	return c
}

func (g *gen) startHeads(c carried) {
	for i, v := range c.headParams {
		g.copyHead(g.head(v), c.headInits[i])
	}
}

// roundHeads makes the vectors that a round wants of parameters.
func (g *gen) roundHeads(c carried) {
	for _, v := range c.headParams {
		if g.lin[v.ID].vec {
			g.materializeAll(v)
		}
	}
}

// materializeAll makes a value's vectors for all groups.
func (g *gen) materializeAll(v *ir.Value) {
	g.eachGroup(func() {
		if g.lin[v.ID].step == 0 && g.u > g.lo { // the same in all groups
			g.set(v, g.vals[g.lo][v.ID])
		} else {
			g.set(v, g.materialize(v))
		}
	})
}

func (g *gen) nextHeads(c carried) {
	next := make([]vreg, len(c.headParams))
	for i, v := range c.headYields {
		if v == c.headParams[i] {
			continue
		}
		if v.Param != nil { // another parameter, maybe of this loop
			next[i] = g.newReg(classGPR)
			g.copyHead(next[i], v)
		}
	}
	for i, v := range c.headYields {
		d := g.head(c.headParams[i])
		switch {
		case v == c.headParams[i]:
		case next[i] != 0:
			g.changed(d, operand{reg: next[i]}, nil)
		default:
			g.copyHead(d, v)
		}
	}
}

// endHeads gives what a loop leaves behind its heads.
func (g *gen) endHeads(n *ir.Node) {
	for i, v := range n.Results {
		if h := g.linear(v); h != nil {
			g.copyHead(g.head(v), n.Regions[0].Params[i])
			if h.vec {
				g.materializeAll(v)
			}
		}
	}
}

// counter is a register that counts a loop's rounds down; where there are none it
// leads out.
func (g *gen) counter(n *ir.Node, out x86.Label) vreg {
	var c vreg
	if v := n.Args[0]; g.linear(v) != nil {
		c = g.newReg(classGPR)
		g.copyHead(c, v)
	} else {
		c = g.scalar(g.val(v))
	}
	g.special(0, c, 0, 0, func(e *encoder, in *inst) {
		c := e.gpr(in.a, x86.RAX)
		e.Test(x86.W32, c, c)
		e.Jcc(x86.E, out)
	})
	return c
}

// countDown goes on with another round, if there is one.
func (g *gen) countDown(counter vreg, head x86.Label) {
	g.add(inst{d: counter, merge: true, emit: func(e *encoder, in *inst) {
		c := e.gpr(in.d, x86.RAX)
		e.OpImm(x86.SUB, x86.W32, c, 1)
		e.doneGPR(in.d, c) // a store leaves the flags
		e.Jcc(x86.NE, head)
	}})
}

// jointLoop is a loop that all groups do together, round by round.
func (g *gen) jointLoop(n *ir.Node) {
	r, c := n.Regions[0], g.carried(n)
	params := make([][]vreg, g.hi)
	g.eachGroup(func() {
		for i, v := range c.params {
			d := g.newValue(v)
			g.blend(v.Type, d, g.val(c.inits[i]), 0)
			params[g.u] = append(params[g.u], d)
		}
	})
	g.eachGroup(func() {
		for i, v := range c.params {
			g.set(v, params[g.u][i])
		}
	})
	head, end, out := g.asm.NewLabel(), g.asm.NewLabel(), g.asm.NewLabel()
	g.startHeads(c)
	counter := g.counter(n, out)
	kept := g.keepSlots(r)
	first := g.here()
	g.bind(head)
	g.roundHeads(c)
	g.region(r, end)
	g.eachGroup(func() { g.yieldRound(c, params[g.u], params[g.u], true) })
	g.bind(end)
	if g.p.polls[n] {
		g.poll()
	}
	g.nextHeads(c)
	g.countDown(counter, head)
	g.loop(first)
	g.bind(out)
	g.kept = kept
	g.eachGroup(func() {
		for i, v := range c.results {
			g.succeed(v, params[g.u][i])
		}
	})
	g.endHeads(n)
}
