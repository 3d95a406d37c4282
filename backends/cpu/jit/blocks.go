package jit

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Programs whose lanes meet, or whose addresses step along the lanes, run block
// after block. Such a block is a row of lanes. The nodes of the body are cut
// where lanes meet: all groups of a block do a segment, then what makes them
// meet is done for the block, and the next segment begins. What a segment leaves
// for later ones lies in arrays, one element for each lane; heads, and what is
// the same in all lanes because they met, stay in registers.

// meets are the instructions at which lanes of a block meet.
var meets = map[isa.Op]bool{
	isa.BAR_SYNC:         true,
	isa.BLOCK_REDUCE_ADD: true, isa.BLOCK_REDUCE_MIN: true, isa.BLOCK_REDUCE_MAX: true, isa.BLOCK_REDUCE_MUL: true,
	isa.BLOCK_SCAN_ADD: true, isa.BLOCK_SCAN_MIN: true, isa.BLOCK_SCAN_MAX: true, isa.BLOCK_SCAN_MUL: true,
}

// blocks is how a program runs by blocks.
type blocks struct {
	lin      []linear
	segments []segment
	last     []int // by value: the last of later segments that use it, or 0
	scans    int
	wide     bool
	waits    bool // at barriers
	mixed    bool // see mixes
	packing  packing
}

// segment is a stretch of the body, and what its end is: where lanes meet, or nil.
type segment struct {
	nodes   []*ir.Node
	meet    *ir.Node
	uses    map[*ir.Value]bool // of the body's, that nodes and meet use
	inputs  []*ir.Value        // those of earlier segments, in order
	escapes bool               // lanes may leave in it
	first   bool               // only lane 0 does anything
}

// firstOnly reports whether the last segment is something that lane 0 does alone,
// as where it stores what the lanes have come to.
func (s *segment) firstOnly(lin []linear) bool {
	var test *ir.Node
	for _, n := range s.nodes {
		switch {
		case n.Op == ir.Const:
		case test == nil && n.Op == ir.Op(isa.SET) && lane0(n):
			test = n
		case n.Op.IsInst() && len(n.Results) == 1 && (lin[n.Results[0].ID].known || pure(n)):
		case test != nil && n.Op == ir.If && n.Args[0] == test.Result():
			for i, r := range n.Regions {
				away := (i == 0) == (test.Cond == isa.NE)
				if away && len(r.Nodes) > 0 && r.Nodes[0].Op != ir.Br {
					return false
				}
			}
			return n == s.nodes[len(s.nodes)-1]
		default:
			return false
		}
	}
	return false
}

// pure reports whether nobody notices that a node is left out for lanes that make
// nothing of its result.
func pure(n *ir.Node) bool {
	row, _ := isa.Lookup(n.Op.Inst())
	return row.Effect&^(isa.Pure|isa.MayFault) == 0 && !n.CanFault()
}

// lane0 reports whether a SET tells lane 0 from the others.
func lane0(n *ir.Node) bool {
	if n.Cond != isa.NE && n.Cond != isa.EQ {
		return false
	}
	for i, v := range n.Args {
		c, ok := n.Args[1-i].Const()
		if ok && c == 0 && v.Node != nil && v.Node.Op == ir.Op(isa.SREG) && isa.Special(v.Node.Imm) == isa.LaneX {
			return true
		}
	}
	return false
}

// byBlocks finds out whether and how the program runs by blocks.
func (p *program) byBlocks() error {
	if !p.meets && !p.bytes {
		return nil
	}
	if err := p.meetInside(p.fn.Body, true); err != nil {
		return err
	}
	b := &blocks{lin: p.linears()}
	even, all := p.accesses(b.lin, p.fn.Body)
	if p.bytes && !p.meets {
		switch c, atomics := &p.a.Class, len(p.unread) > 0; {
		case (c.Elementwise || atomics) && !even:
			return nil
		case !c.Elementwise && (c.Kind == analysis.Product || !all && !atomics):
			return unsupported("a "+c.Kind.String(), "its byte addresses are not made vector accesses yet")
		}
	}
	for n, short := range p.shortcut { // what a head is made of is no vector, as who uses it would have to find it
		if short && n.Op == ir.Op(isa.AND) && b.lin[n.Result().ID].known {
			p.shortcut[n] = false
		}
	}
	b.segments = []segment{{uses: map[*ir.Value]bool{}}}
	uses := countUses(p.fn.Body, map[*ir.Value]int{})
	for _, n := range soon(p.fn.Body.Nodes, uses, p.shortcut) {
		s := &b.segments[len(b.segments)-1]
		if n.Op.IsInst() && meets[n.Op.Inst()] {
			s.meet = n
			b.waits = b.waits || n.Op == ir.Op(isa.BAR_SYNC)
			if scans(n.Op.Inst()) {
				b.scans++
			}
			for _, a := range n.Args {
				s.uses[a] = true
			}
			b.segments = append(b.segments, segment{uses: map[*ir.Value]bool{}})
			continue
		}
		s.nodes = append(s.nodes, n)
		s.escapes = s.escapes || p.escapes[n] || n.Op == ir.Br
		s.use(n)
	}
	if b.scans > maxScans {
		return unsupported("a program of this size", fmt.Sprintf("it has more than %d scans", maxScans))
	}
	for _, s := range b.segments {
		p.findConditions(b.lin, s.nodes, uses)
	}
	s := &b.segments[len(b.segments)-1]
	s.first = s.firstOnly(b.lin)
	b.cross(p.fn.NumValues)
	b.wide, b.packing, b.mixed = b.widest(p, p.fn.Body), b.packs(p), b.mixes()
	p.blocks = b
	return nil
}

// cross notes what each segment uses of earlier ones.
func (b *blocks) cross(values int) {
	made := make([]int, values) // in which order, from 1 on
	b.last = make([]int, values)
	number := 0
	for i := range b.segments {
		s := &b.segments[i]
		for v := range s.uses {
			if _, constant := v.Const(); made[v.ID] > 0 && !constant {
				s.inputs = append(s.inputs, v)
				b.last[v.ID] = i
			}
		}
		slices.SortFunc(s.inputs, func(v, w *ir.Value) int { return made[v.ID] - made[w.ID] })
		for _, n := range append(slices.Clip(s.nodes), s.meet) {
			if n != nil {
				for _, v := range n.Results {
					number++
					made[v.ID] = number
				}
			}
		}
	}
}

func (s *segment) use(n *ir.Node) {
	for _, a := range n.Args {
		s.uses[a] = true
	}
	for _, r := range n.Regions {
		for _, n := range r.Nodes {
			s.use(n)
		}
		for _, y := range r.Yield {
			s.uses[y] = true
		}
	}
}

// meetInside refuses lanes that meet within a construct.
func (p *program) meetInside(r *ir.Region, body bool) error {
	for _, n := range r.Nodes {
		if !body && n.Op.IsInst() && meets[n.Op.Inst()] {
			return unsupported(instName(n), "the lanes of a block meet within a branch or a loop")
		}
		for _, s := range n.Regions {
			if err := p.meetInside(s, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// accesses reports whether an access goes by a linear offset, and whether all do.
func (p *program) accesses(lin []linear, r *ir.Region) (some, all bool) {
	all = true
	for _, n := range r.Nodes {
		if n.Mem.Mode != 0 && n.Mem.Mode != isa.AddrIndex {
			even := p.linearAccess(lin, n)
			some, all = some || even, all && even
		}
		for _, s := range n.Regions {
			a, b := p.accesses(lin, s)
			some, all = some || a, all && b
		}
	}
	return some, all
}

// widest reports whether vectors of 64-bit elements occur.
func (b *blocks) widest(p *program, r *ir.Region) bool {
	wide := func(v *ir.Value) bool {
		_, constant := v.Const()
		return !constant && v.Type.Numeric() && v.Type.Size() == 8 && (!b.lin[v.ID].known || b.lin[v.ID].vec)
	}
	for _, v := range r.Params {
		if wide(v) {
			return true
		}
	}
	for _, n := range r.Nodes {
		for _, v := range n.Results {
			if wide(v) {
				return true
			}
		}
		if n.Op.IsInst() && (len(n.Results) == 0 || !b.lin[n.Results[0].ID].known) && !p.scalar(b.lin, n) {
			for _, v := range n.Args[n.AddrArgs():] { // an address is a head, or wide itself
				if _, constant := v.Const(); constant && v.Type.Numeric() && v.Type.Size() == 8 {
					return true
				}
			}
		}
		for _, s := range n.Regions {
			if b.widest(p, s) {
				return true
			}
		}
	}
	return false
}

// groupLanes is how many lanes a group has in the code of a shape.
func (p *program) groupLanes(t *target, s shape) int {
	wide := p.wide
	if s.block > 0 {
		wide = p.blocks.wide
	}
	switch k := p.packingOf(s); {
	case t.packs(k):
		return t.bytes / k.widest
	case wide:
		return t.bytes / 8
	}
	return t.bytes / 4
}

func (p *program) packingOf(s shape) packing {
	if s.block > 0 {
		return p.blocks.packing
	}
	if s.single != 0 && len(p.divisors) > 0 {
		return p.packs(s.single)
	}
	return p.packing
}

// blockShape makes a shape one for blocks of so many lanes; whole says that there
// are no others.
func (p *program) blockShape(s shape, t *target, lanes int, whole bool) shape {
	s.block = p.groupLanes(t, shape{block: 1})
	for s.block < lanes {
		s.block *= 2
	}
	s.whole = whole && lanes == s.block
	return s
}

// forBlocks prepares the generator for a shape with blocks.
func (g *gen) forBlocks() {
	g.lin = g.p.blocks.lin
	g.heads = make([]vreg, g.p.fn.NumValues)
	g.steps = map[numberKey]x86.Label{}
	g.places, g.begins, g.flags = map[*ir.Node]vreg{}, map[*ir.Node]vreg{}, map[*ir.Node]int32{}
	g.combs = map[[2]int]*comb{}
	g.sides, g.weaves = map[*ir.Node]*sides{}, map[[2]int]*weave{}
	g.early = map[*ir.Node]bool{}
	g.arrays, g.spare = map[*ir.Value]int32{}, map[int][]int32{}
}

// reserve finds room for bytes in the frame.
func (g *gen) reserve(bytes int) int32 {
	at := g.p.lay.spill + g.room
	g.room += int32(bytes+63)&^63 + 64 // and 64 more, so that arrays lie apart modulo 4096
	return at
}

// blockLoop lays out the loop over blocks.
func (g *gen) blockLoop() {
	next := g.asm.NewLabel()
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.Store(x86.W64, x86.At(regArgs, argLeft), regCount) })
	first := g.here()
	g.bind(next)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Load(x86.W64, regCount, x86.At(regArgs, argLeft))
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argWidth))
		e.Op(x86.CMP, x86.W64, regCount, x86.RAX)
		e.CMov(x86.A, x86.W64, regCount, x86.RAX)
	})
	if g.p.shared >= 0 {
		g.clearShared()
	}
	for i := 0; i < len(g.p.blocks.segments) && g.err == nil; {
		if n := g.goesAlong(i); n > 0 {
			g.along(i, n)
			i += n
		} else {
			g.segment(i)
			i++
		}
	}
	if g.err != nil {
		return
	}
	for i, base := range g.bases {
		if !g.p.fn.Slots[i].Indexed || g.shape.single>>i&1 != 0 {
			continue
		}
		step := g.p.lay.slots + int32(slotBytes*i) + slotStep
		g.add(inst{d: base, merge: true, emit: func(e *encoder, in *inst) {
			r := e.gpr(in.d, regT)
			e.OpMem(x86.ADD, x86.W64, r, x86.At(regArgs, step))
			e.doneGPR(in.d, r)
		}})
	}
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argWidth))
		e.OpTo(x86.ADD, x86.W64, x86.At(regArgs, argFirst), x86.RAX)
		e.OpMemImm(x86.ADD, x86.W64, x86.At(regArgs, argBlockNo), 1)
		e.OpTo(x86.SUB, x86.W64, x86.At(regArgs, argLeft), regCount)
		e.Jcc(x86.NE, next)
	})
	g.loop(first)
}

// segment writes segment i, and what its end makes the lanes do.
func (g *gen) segment(i int) {
	s := &g.p.blocks.segments[i]
	g.headsOf(s)
	g.shareOf(s)
	c, alive := g.collective(s.meet), g.alive
	if len(s.nodes) > 0 || c != nil {
		g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.Op(x86.XOR, x86.W32, regIndex, regIndex) })
	}
	switch {
	case len(s.nodes) == 0 && c == nil:
	case s.first && alive == 0:
		m := vreg(0)
		if !g.shape.whole {
			m = g.tailMask()
		}
		g.segmentGroups(i, c, alive, 1, m)
	default:
		unroll := g.unrollingOf(s)
		if c != nil {
			c.kept = g.shape.whole && !c.scans && !s.escapes && alive == 0 && unroll*g.lanes >= g.shape.block
		}
		body := func(groups int, m vreg) { g.segmentGroups(i, c, alive, groups, m) }
		stray, done, ahead := g.asm.NewLabel(), g.asm.NewLabel(), false
		if g.p.blocks.waits && g.shape.whole && c == nil && alive == 0 && !s.escapes {
			if g.shape.pages {
				g.next = g.rowsNext(i)
			}
			ahead = g.placesAhead(s, stray)
		}
		g.blockGroups(unroll, body)
		if ahead {
			g.jump(done)
			g.bind(stray)
			g.way(func() {
				g.ahead, g.next = nil, nil
				g.blockGroups(1, body)
			})
			g.bind(done)
		}
		g.next = nil
	}
	switch {
	case c == nil || g.err != nil: // then the operands aren't there either
	case c.scans:
		g.fill(c)
		g.scan(c)
	default:
		g.fill(c)
		g.reduce(c)
	}
}

// headsOf computes the heads of a segment that nothing in it has to come before: of a
// lane's faults the first counts.
func (g *gen) headsOf(s *segment) {
	late, faulted := map[*ir.Value]bool{}, false
	for _, n := range s.nodes {
		if n.Op == ir.Const {
			continue
		}
		h := g.headOf(n)
		if h == nil {
			faulted = faulted || !n.Op.IsInst() || n.CanFault()
			for _, v := range n.Results {
				late[v] = true
			}
			continue
		}
		if g.early[n] {
			continue
		}
		late[n.Result()] = faulted && n.CanFault()
		for _, a := range n.Args {
			if late[a] {
				late[n.Result()] = true
			}
		}
		if !late[n.Result()] {
			g.earlyHead(n)
		}
	}
}

// shareOf computes what a segment makes of numbers that all lanes have met for, as a
// row's sum divided by its length, once for the block.
func (g *gen) shareOf(s *segment) {
	g.u, g.lo, g.hi, g.m = 0, 0, 1, 0
	for _, n := range s.nodes {
		if n.Op.IsInst() && len(n.Results) == 1 && n.Result().Type != isa.Pred && g.headOf(n) == nil && g.shared[n.Result().ID] == 0 && g.same(n.Result()) {
			g.share(n)
		}
	}
}

// blockGroups lays out the loops over the groups of a block.
func (g *gen) blockGroups(unroll int, body func(groups int, m vreg)) {
	if !g.shape.whole {
		g.groups(unroll, body)
		return
	}
	count := g.shape.block / g.lanes
	unroll = min(unroll, count)
	if count == unroll {
		body(unroll, 0)
		return
	}
	again, step, all := g.asm.NewLabel(), int32(unroll*g.lanes), int32(g.shape.block)
	first := g.here()
	g.bind(again)
	body(unroll, 0)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.OpImm(x86.ADD, x86.W64, regIndex, step)
		e.OpImm(x86.CMP, x86.W64, regIndex, all)
		e.Jcc(x86.B, again)
	})
	g.loop(first)
}

// inputsOf has what a segment uses of earlier ones, for the group at hand.
func (g *gen) inputsOf(s *segment) {
	for _, v := range s.inputs {
		switch {
		case g.shared[v.ID] != 0 || g.vals[g.u][v.ID] != 0:
		case g.linear(v) == nil:
			g.set(v, g.loadArray(v))
			g.prepareDivisor(v)
		case g.lin[v.ID].vec:
			g.set(v, g.materialize(v))
		}
	}
}

// segmentGroups writes a segment for some groups, of which m masks the lanes
// that there are, and the array alive, if there is one, those that have not left.
func (g *gen) segmentGroups(i int, c *collective, alive int32, groups int, m vreg) {
	b := g.p.blocks
	s := &b.segments[i]
	g.begin(groups)
	g.lo, g.hi, g.u, g.m = 0, groups, 0, m
	end := g.asm.NewLabel()
	if alive != 0 {
		g.m = g.loadMask(alive)
	}
	for g.u = range groups {
		g.inputsOf(s)
	}
	g.u = 0
	r := &ir.Region{Nodes: s.nodes}
	own := g.ownMask(r) // also where no lane is left
	if alive != 0 {
		g.jumpNone(g.m, end)
	}
	kept := g.keepSlot(r, groups)
	g.nodes(r, own, end)
	g.kept = kept
	if alive != 0 || s.escapes { // else what is loaded goes on to be what the block combines
		g.bind(end)
	}
	if g.err != nil {
		return
	}
	if s.escapes && i+1 < len(b.segments) {
		if g.alive == 0 {
			g.alive = g.reserve(g.shape.block * g.maskScale())
		}
		m := g.m
		if m == 0 {
			m = g.full
		}
		g.storeMask(g.alive, m)
	}
	g.clearArrays(i + 1) // the groups have loaded theirs
	for g.u = range groups {
		g.askRows(g.next)
		for _, n := range s.nodes {
			for _, v := range n.Results {
				if g.linear(v) == nil && g.shared[v.ID] == 0 && b.last[v.ID] > i {
					g.storeArray(v, g.vals[g.u][v.ID])
				}
			}
		}
		if c != nil {
			g.operandOf(c)
		}
	}
	g.u = 0
}
