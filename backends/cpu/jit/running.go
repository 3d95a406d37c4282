package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Scans of whole blocks go over the groups once. Where a program ends with scans and
// nothing beside them but straight instructions, as a cumulative sum does, each group goes
// all the way from its loads to its stores before the next one, so that nothing has to lie
// in the frame, and what comes from memory is waited for while others are added up.

// running is a scan on its way, or some of as many columns, whose elements lie side by side.
// What a step wants of before is in one group or in two, as these were a step before. The
// nearest stay in registers till then, of the others each step has as many in the frame as it goes
// back; in the last step, which would want half of all, they are taken from what became of them.
type running struct {
	*collective
	steps  []stepBack
	became func(q int) vreg // what a group is at last
}

// stepBack is a step of a scan, that goes back so many groups and lanes.
type stepBack struct {
	groups, lanes int
	last          bool
	ring          int32  // where in the frame they are, or
	before        []vreg // in which registers
}

// wanted is how many groups a step wants of before.
func (s *stepBack) wanted() int { return s.groups + min(s.lanes, 1) }

// newRunning prepares for scans of so many columns, which have so many registers.
func (g *gen) newRunning(c *collective, columns, registers int, became func(q int) vreg) *running {
	r := &running{collective: c, became: became}
	for w := 1; w < g.shape.block; w *= 2 {
		s := stepBack{groups: w * columns / g.lanes, lanes: w * columns % g.lanes}
		if s.last = 2*w >= g.shape.block && s.lanes == 0; !s.last {
			if registers -= s.wanted(); registers < 0 {
				s.ring = g.reserve(s.wanted() * g.vl(g.regSize(c.t)))
			}
		}
		r.steps = append(r.steps, s)
	}
	return r
}

// forScans is how many registers each of some scans has for groups before.
func (g *gen) forScans(count int) int {
	const others = 4 // what a scan is of, what it is added to, and what all of them want
	return (len(g.t.files[classVec]) - others) / count
}

// group is where a group lies in a scan's array.
func (g *gen) group(c *collective, q int) *mref {
	return &mref{fixed: regArgs, disp: c.at + int32(q*g.lanes*g.regSize(c.t))}
}

// behind is what lies so many lanes before a group x, behind left.
func (g *gen) behind(size int, x, left vreg, lanes int) vreg {
	if g.t.evex {
		return g.op2Imm(pair{x86.AlignD, x86.AlignQ}.of(size), size, x, left, uint8(g.lanes-lanes))
	}
	bytes := lanes * size
	if g.vl(size) == 16 {
		return g.op2Imm(x86.AlignB, size, x, left, uint8(16-bytes))
	}
	middle := g.op2Imm(x86.Perm2I128, size, left, x, 0x21) // left's upper half, x's lower
	switch {
	case bytes < 16:
		return g.op2Imm(x86.AlignB, size, x, middle, uint8(16-bytes))
	case bytes > 16:
		return g.op2Imm(x86.AlignB, size, middle, left, uint8(32-bytes))
	}
	return middle
}

// goOn returns what becomes of x, which group q is.
func (g *gen) goOn(r *running, q int, x vreg) vreg {
	size := g.regSize(r.t)
	for i := range r.steps {
		s, was := &r.steps[i], x
		at := func(q int) *mref {
			return &mref{fixed: regArgs, disp: s.ring + int32(q%s.wanted()*g.vl(size))}
		}
		before := func(back int) vreg {
			switch {
			case back == 0:
				return was
			case back > q:
				return r.none
			case s.last:
				return r.became(q - back)
			case s.ring != 0:
				return g.loadVector(size, at(q-back))
			}
			return s.before[q-back]
		}
		if q >= s.groups {
			left := before(s.groups)
			if s.lanes > 0 {
				left = g.behind(size, left, before(s.groups+1), s.lanes)
			}
			x = g.combine(r.op, r.t, left, x)
		}
		switch {
		case s.last:
		case s.ring != 0:
			g.storeVector(size, at(q), was)
		default:
			s.before = append(s.before, was)
		}
	}
	return x
}

// writtenAlong is how many groups of scans go along.
const writtenAlong = 512

// goesAlong returns how many segments from number i on are such a program, or its
// beginning up to a barrier; 0 if they are not.
func (g *gen) goesAlong(i int) int {
	segments := g.p.blocks.segments[i:]
	end := slices.IndexFunc(segments, func(s segment) bool { return s.meet == nil || !scans(s.meet.Op.Inst()) })
	if end == 0 || !g.shape.whole || g.alive != 0 || g.shape.block/g.lanes*end > writtenAlong {
		return 0
	}
	if m := segments[end].meet; m != nil && m.Op != ir.Op(isa.BAR_SYNC) {
		return 0
	}
	segments = segments[:end+1]
	var loads []*ir.Node // that come before lanes meet
	stored := uint64(0)
	for k := range segments {
		s, last := &segments[k], k == end
		if s.escapes || !last && g.p.blocks.last[s.meet.Result().ID] > i+end {
			return 0
		}
		for _, n := range s.nodes {
			switch {
			case n.Op == ir.Const:
			case !n.Op.IsInst():
				return 0
			case n.Mem.Mode == 0:
				if row, _ := isa.Lookup(n.Op.Inst()); row.Effect&^(isa.Pure|isa.Structural|isa.MayFault) != 0 {
					return 0
				}
			case !g.p.linearAccess(g.lin, n):
				return 0
			case n.Op == ir.Op(isa.LDG) && !last:
				loads = append(loads, n)
			case n.Op == ir.Op(isa.STG):
				if !last || !g.apartFrom(n, loads) {
					return 0
				}
				g.tooSoon(n, &stored)
			case n.Op != ir.Op(isa.LDG) || g.tooSoon(n, &stored):
				return 0
			}
		}
	}
	return end + 1
}

// apartFrom reports whether lanes store what no other lane loads, even if it is to the same
// memory. What all lanes load the first group does for them.
func (g *gen) apartFrom(store *ir.Node, loads []*ir.Node) bool {
	_, step := g.stepOf(store)
	for _, l := range loads {
		if _, s := g.stepOf(l); s == 0 {
			continue
		}
		between := max(store.Mem.Offset-l.Mem.Offset, l.Mem.Offset-store.Mem.Offset)
		if step <= 0 || !l.Mem.HasOff || g.moved(store) != g.moved(l) || store.Args[store.AddrArgs()-1] != l.Args[l.AddrArgs()-1] || between > step-int64(l.Type.Size()) {
			return false
		}
	}
	return true
}

// along writes them.
func (g *gen) along(i, count int) {
	segments := g.p.blocks.segments[i : i+count]
	for k := range segments {
		g.headsOf(&segments[k])
		g.shareOf(&segments[k])
	}
	if c := g.columnsOf(i, count); c != nil {
		g.alongColumns(i, count, c)
		return
	}
	groups := g.shape.block / g.lanes
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.Op(x86.XOR, x86.W32, regIndex, regIndex) })
	g.begin(groups)
	scans := make([]*running, len(segments))
	for u := range groups {
		for k := range segments {
			s := &segments[k]
			if u == 0 && k < count-1 {
				c := g.collective(s.meet)
				scans[k] = g.newRunning(c, 1, g.forScans(count-1), func(q int) vreg { return g.loadVector(g.regSize(c.t), g.group(c, q)) })
			}
			g.lo, g.hi, g.u, g.m = 0, groups, u, 0
			g.inputsOf(s)
			for _, n := range s.nodes {
				g.work.Step(16)
				if g.straightNode(n); g.err != nil {
					return
				}
				for _, v := range n.Results {
					if g.linear(v) == nil && g.shared[v.ID] == 0 && g.p.blocks.last[v.ID] >= i+count {
						g.storeArray(v, g.vals[u][v.ID])
					}
				}
			}
			if r := scans[k]; r != nil {
				x := g.goOn(r, u, g.val(s.meet.Args[0]))
				if u < groups/2 {
					g.storeVector(g.regSize(r.t), g.group(r.collective, u), x)
				}
				g.set(s.meet.Result(), g.results(r.collective, x))
			}
		}
	}
	g.u = 0
}
