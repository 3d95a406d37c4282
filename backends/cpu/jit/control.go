package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Control. gen.m is the mask of the lanes that run, and code runs only while
// there is one: what may have sent all lanes away is followed by a jump to the
// region's end. Lanes that leave by a Br are out of the mask and wait in the
// exit of its target. What is the same in all lanes that come to a place is
// written to all lanes, so that any lane tells it, whichever run; the rest is
// blended.

// exit is where the Brs to a construct lead.
type exit struct {
	values []*ir.Value // results of a block, parameters of a loop
	regs   []vreg      // where they go
	lanes  vreg        // the lanes that came; 0: nobody asks
}

// comesTo has the Brs to a construct lead to an exit.
func (g *gen) comesTo(n *ir.Node, x *exit) {
	for _, v := range x.values {
		d := g.newValue(v)
		g.clear(v, d)
		x.regs = append(x.regs, d)
	}
	g.exits[n] = x
}

// leaving fills escapes and rounds.
func (p *program) leaving(r *ir.Region, around []*ir.Node) {
	for _, n := range r.Nodes {
		if n.Op == ir.Br {
			for i := len(around) - 1; i >= 0 && around[i] != n.Target; i-- {
				p.escapes[around[i]] = true
			}
			if n.Target != nil && n.Target.Op == ir.Loop {
				p.rounds[n.Target] = true
			}
		}
		for _, s := range n.Regions {
			p.leaving(s, append(around, n))
		}
	}
}

// region writes the nodes of a region, each for all groups. Where no lane is
// left it goes to end, which is bound behind what the region yields.
func (g *gen) region(r *ir.Region, end x86.Label) { g.nodes(r, g.ownMask(r), end) }

// ownMask makes the mask of lanes that run a region's own, if some may leave it: it holds the
// mask at the region's end, however one comes there.
func (g *gen) ownMask(r *ir.Region) (own vreg) {
	mine := g.mine
	g.mine = 0
	if slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool { return g.p.escapes[n] }) {
		if own = mine; own == 0 {
			own = g.copyMask(g.m)
		}
		g.m = own
	}
	return own
}

func (g *gen) nodes(r *ir.Region, own vreg, end x86.Label) {
	done := 0
	for i, n := range r.Nodes {
		if i < done || n.Op == ir.Const || n.Op.IsInst() && len(n.Results) == 1 && g.shared[n.Result().ID] != 0 {
			continue
		}
		g.work.Step(16) // a node is some instructions, each looked at some times
		switch {
		case g.lin == nil || !n.Op.IsInst():
			g.all(n)
		default:
			done = i + g.straight(r.Nodes[i:])
		}
		if g.err != nil {
			return
		}
		if g.p.escapes[n] && !(i == len(r.Nodes)-1 && r.Ends()) {
			g.assignMask(own, g.m)
			g.m = own
			if i < len(r.Nodes)-1 || len(r.Yield) > 0 {
				g.jumpNone(own, end)
			}
		}
	}
}

// asks reports whether code that a region writes has gone to its end if the last of the nodes
// that lanes leave by left none.
func (g *gen) asks(r *ir.Region) bool {
	return len(r.Yield) > 0 || len(r.Nodes) == 0 || !g.p.escapes[r.Nodes[len(r.Nodes)-1]]
}

// all writes a node for all groups.
func (g *gen) all(n *ir.Node) {
	lo, hi := g.lo, g.hi
	if hi-lo > 1 && g.together(n) {
		g.u = lo
		if n.Op == ir.If {
			g.jointIf(n)
		} else {
			g.jointLoop(n)
		}
		return
	}
	if g.late(n) {
		return
	}
	if counts, limit, ok := g.firstsOf(n); ok {
		g.firsts(n, counts, limit)
		return
	}
	for u := lo; u < hi; u++ {
		g.u = u
		if !n.Op.IsInst() {
			g.lo, g.hi = u, u+1
		}
		g.node(n)
	}
	g.u, g.lo, g.hi = lo, lo, hi
}

func (g *gen) node(n *ir.Node) {
	was := g.from(n)
	defer func() { g.src = was }()
	switch n.Op {
	case ir.If:
		g.ifNode(n)
	case ir.Loop:
		g.loopNode(n)
	case ir.Block:
		g.blockNode(n)
	case ir.Br:
		g.brNode(n)
	default:
		rules[n.Op.Inst()](g, n)
		if len(n.Results) == 1 {
			g.prepareDivisor(n.Result())
		}
	}
}

// same reports whether a value is the same in all lanes that hold it.
func (g *gen) same(v *ir.Value) bool {
	vary := g.p.a.Vary(v)
	return vary == analysis.PerLaunch || vary == analysis.PerBlock && g.shape.block > 0
}

// newValue returns a register for a value.
func (g *gen) newValue(v *ir.Value) vreg {
	if v.Type == isa.Pred {
		return g.newReg(g.maskClass())
	}
	return g.newReg(classVec)
}

// assign writes src to the lanes of m of v's register d; to all if v is the
// same in all.
func (g *gen) assign(v *ir.Value, d, src, m vreg) {
	if g.same(v) {
		m = 0
	}
	g.blend(v.Type, d, src, m)
}

// clear makes a register hold zeros, so that it is written on every way.
func (g *gen) clear(v *ir.Value, d vreg) {
	if v.Type == isa.Pred {
		g.assignMask(d, g.noLanes())
		return
	}
	g.blend(v.Type, d, g.number(g.regSize(v.Type), 0), 0)
}

// yields writes what a region yields, at its end, to registers.
func (g *gen) yields(from, values []*ir.Value, to []vreg, m vreg) {
	for i, src := range g.copies(from, to) {
		g.assign(values[i], to[i], src, m)
	}
}

// copies are the registers of values, or copies where these are to be written.
func (g *gen) copies(values []*ir.Value, to []vreg) []vreg {
	out := make([]vreg, len(values))
	written := make(map[vreg]int, len(to))
	for i, d := range to {
		written[d] = i
	}
	for i, v := range values {
		out[i] = g.val(v)
		if at, ok := written[out[i]]; ok && at != i {
			c := g.newValue(v)
			g.blend(v.Type, c, out[i], 0)
			out[i] = c
		}
	}
	return out
}

// cheap is how many instructions are done for nothing rather than jumped over.
const cheap = 12

func short(r *ir.Region) bool {
	count := 0
	for _, n := range r.Nodes {
		if !n.Op.IsInst() && n.Op != ir.Const && n.Op != ir.Br {
			return false
		}
		if n.Op.IsInst() && n.CanFault() {
			return false
		}
		count++
	}
	return count <= cheap
}

// readyWay is the way of a branch that does nothing but yield, beside one that is jumped over
// where no lane takes it, or -1: what it yields is there before the jump, so that such groups
// have nothing more to do.
func readyWay(n *ir.Node) int {
	i := slices.IndexFunc(n.Regions, func(r *ir.Region) bool { return len(r.Nodes) == 0 })
	if i >= 0 && short(n.Regions[1-i]) {
		return -1
	}
	return i
}

func (g *gen) ifNode(n *ir.Node) {
	m, escapes, uniform, p := g.m, g.p.escapes[n], g.same(n.Args[0]), vreg(0)
	if !uniform {
		p = g.val(n.Args[0])
	}
	results, placed := g.resultsOf(n)
	ready := -1
	if !escapes && !uniform {
		ready = readyWay(n)
	}
	var yielded []vreg
	if ready >= 0 {
		yielded = g.copies(n.Regions[ready].Yield, results)
	}
	for i, v := range n.Results {
		switch {
		case placed[i]:
		case ready >= 0:
			g.blend(v.Type, results[i], yielded[i], 0)
		default:
			g.clear(v, results[i])
		}
	}
	var left vreg
	stay := -1 // the way that does nothing, whose lanes are all that are left
	for i, r := range n.Regions {
		if escapes && !uniform && len(r.Nodes) == 0 && n.Regions[1-i].Ends() {
			stay = i
		}
	}
	if escapes && stay < 0 {
		left = g.newReg(g.maskClass())
		g.assignMask(left, g.noLanes())
	}
	for i, r := range n.Regions {
		if i == ready || !escapes && g.idle(n, i, placed) {
			continue
		}
		skip, end := g.asm.NewLabel(), g.asm.NewLabel()
		switch {
		case uniform && i == 0:
			g.m = m
			g.branch(n.Args[0], false, skip)
		case uniform:
			g.m = m
			g.branch(n.Args[0], true, skip)
		default:
			if i == 0 {
				g.m = g.maskAnd(m, p)
			} else {
				g.m = g.maskWithout(m, p)
			}
			if !short(r) || escapes && !r.Ends() && i != stay {
				g.jumpNone(g.m, skip)
			}
		}
		was := g.rare
		g.rare = was || ready >= 0 && g.p.level
		g.region(r, end)
		if !r.Ends() {
			for j, src := range g.copies(r.Yield, results) {
				by := g.m
				if i == 0 && !escapes && ready < 0 && !placed[j] { // in the second region the first one's lanes stay
					by = 0
				}
				g.assign(n.Results[j], results[j], src, by)
			}
		}
		g.rare = was
		g.bind(end)
		switch {
		case i == stay:
			left = g.m
		case escapes && !r.Ends():
			g.mergeMask(left, g.m)
		}
		g.bind(skip)
	}
	g.m = m
	if escapes {
		g.m = left
	}
}

func (g *gen) blockNode(n *ir.Node) {
	x := &exit{values: n.Results}
	if g.p.escapes[n] {
		x.lanes = g.newReg(g.maskClass())
		g.assignMask(x.lanes, g.noLanes())
	}
	g.comesTo(n, x)
	before := g.m
	r, end := n.Regions[0], g.asm.NewLabel()
	g.region(r, end)
	if !r.Ends() {
		g.yields(r.Yield, n.Results, x.regs, g.m)
	}
	g.bind(end)
	if !r.Ends() && x.lanes != 0 {
		g.mergeMask(x.lanes, g.m)
	}
	for i, v := range n.Results {
		g.set(v, x.regs[i])
	}
	g.m = before // all come out, but for those that go farther
	if g.p.escapes[n] {
		g.m = x.lanes
	}
}

func (g *gen) brNode(n *ir.Node) {
	if n.Target == nil {
		return
	}
	x := g.exits[n.Target]
	for i, src := range g.copies(n.Args, x.regs) {
		g.assign(x.values[i], x.regs[i], src, g.m)
	}
	if x.lanes != 0 {
		g.mergeMask(x.lanes, g.m)
	}
}

// rounds is a loop while it is written. All lanes that are in it are in the same round.
type rounds struct {
	carried
	params, results []vreg // results keep what lanes have whose rounds are over while others go on
	uniform         bool   // all have as many rounds
	parts           bool   // some leave it before others
	m               vreg   // the lanes that are in it
	next            exit   // to the next round
	// direct: a round ends for all lanes at once, and those that leave it leave the loop, so one mask
	// tells who is there, and the last who leave go straight out.
	direct bool
}

// enterLoop makes what a loop needs before its first round.
func (g *gen) enterLoop(n *ir.Node) *rounds {
	r := n.Regions[0]
	l := &rounds{carried: g.carried(n), uniform: !n.Counted || g.same(n.Args[0])}
	l.params = make([]vreg, len(l.carried.params))
	for i, v := range l.carried.params {
		l.params[i] = g.newValue(v)
		g.blend(v.Type, l.params[i], g.val(l.inits[i]), 0)
		g.set(v, l.params[i])
	}
	l.results = l.params
	if !l.uniform {
		l.results = make([]vreg, len(l.params))
		for i, v := range l.carried.params {
			l.results[i] = g.newValue(v)
			g.blend(v.Type, l.results[i], l.params[i], 0)
		}
	}
	l.parts, l.m = g.p.escapes[n] || !l.uniform, g.m
	l.next.values = l.carried.params
	l.direct = l.parts && l.uniform && !g.p.rounds[n] && !r.Ends() && g.asks(r)
	return l
}

func (g *gen) loopNode(n *ir.Node) {
	r, before := n.Regions[0], g.m
	var count, counter, round, over vreg // over: lanes that have done their rounds
	if n.Counted && !g.same(n.Args[0]) {
		count = g.val(n.Args[0])
	}
	l := g.enterLoop(n)
	if !l.uniform {
		round = g.newReg(classVec)
		g.blend(isa.U32, round, g.number(4, 0), 0)
	}
	if l.parts {
		l.m = g.copyMask(g.m)
	}
	if g.p.rounds[n] {
		l.next.lanes = g.newReg(g.maskClass())
		g.comesTo(n, &l.next)
	}
	head, end, out := g.asm.NewLabel(), g.asm.NewLabel(), g.asm.NewLabel()
	g.startHeads(l.carried)
	if n.Counted && l.uniform {
		counter = g.counter(n, out)
	}
	if !l.uniform {
		over = g.newReg(g.maskClass())
		g.assignMask(over, g.noLanes())
	}
	kept := g.keepSlots(r)
	first := g.here()
	g.bind(head)
	g.roundHeads(l.carried)
	if !l.uniform {
		goes := g.maskAnd(l.m, g.cmpI(isa.U32, round, count, isa.LT))
		g.mergeMask(over, g.maskWithout(l.m, goes))
		g.assignMask(l.m, goes)
		g.jumpNone(l.m, out)
	}
	if l.next.lanes != 0 {
		g.assignMask(l.next.lanes, g.noLanes())
	}
	if g.m = l.m; l.direct {
		g.mine = l.m
	}
	g.region(r, end)
	g.endRound(l, r.Ends(), end, out)
	if g.p.polls[n] {
		g.poll()
	}
	g.nextHeads(l.carried)
	switch {
	case counter != 0:
		g.countDown(counter, head)
	default:
		if !l.uniform {
			g.add(inst{f: x86.AddD, vl: g.vl(4), d: round, a: round, b: g.number(4, 1)})
		}
		g.jump(head)
	}
	g.loop(first)
	if l.direct {
		g.bind(end)
	}
	g.bind(out)
	g.kept = kept
	switch {
	case !g.p.escapes[n]:
		g.m = before
	case l.uniform:
		g.m = l.m
	default:
		g.m = over
	}
	for i, v := range l.carried.results {
		g.succeed(v, l.results[i])
	}
	g.endHeads(n)
}

// endRound hands what a round has come to on to the next, and the lanes that go there; ends says that all of them left by Brs.
func (g *gen) endRound(l *rounds, ends bool, end, out x86.Label) {
	next := &l.next
	if next.lanes == 0 && !ends {
		g.yieldRound(l.carried, l.params, l.results, l.uniform)
	} else if !ends {
		g.yields(l.yields, l.carried.params, next.regs, g.m)
	}
	if l.direct {
		return
	}
	g.bind(end)
	stay := g.m
	switch {
	case next.lanes != 0:
		if !ends {
			g.mergeMask(next.lanes, g.m)
		}
		stay = next.lanes
	case ends && l.parts: // every lane left
		stay = g.noLanes()
	}
	if l.parts {
		g.assignMask(l.m, stay)
		g.jumpNone(l.m, out)
	}
	for i, d := range next.regs {
		v := next.values[i]
		if !l.uniform {
			g.blend(v.Type, l.results[i], d, l.m)
		}
		g.blend(v.Type, l.params[i], d, 0)
	}
}

// yieldRound makes what a round yields the parameters of the next.
func (g *gen) yieldRound(c carried, params, results []vreg, uniform bool) {
	src := g.copies(c.yields, params)
	for i, v := range c.params {
		if !uniform {
			g.blend(v.Type, results[i], src[i], g.m)
		}
		g.blend(v.Type, params[i], src[i], 0)
	}
}

// scalar is a general register with what is the same in all lanes of a vector.
func (g *gen) scalar(v vreg) vreg {
	d := g.newReg(classGPR)
	g.special(d, v, 0, 0, func(e *encoder, in *inst) {
		s := e.vec(in.a, 0, 16)
		r := e.outGPR(in.d, x86.RAX)
		e.Emit(x86.MovDTo, x86.Inst{VL: 16, D: s, B: r})
		e.doneGPR(in.d, r)
	})
	return d
}

// poll ends the launch if it is cancelled.
func (g *gen) poll() {
	if g.cancel == 0 {
		g.cancel = g.asm.NewLabel()
	}
	to := g.cancel
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argCancel))
		e.OpMemImm(x86.CMP, x86.W32, x86.At(x86.RAX, 0), 0)
		e.Jcc(x86.NE, to)
	})
}
