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

// running is a scan on its way. What is less than a group before is taken from the group
// and the one before it, as they were a step before; whole groups from those that a step
// wants yet, which stay in registers, and in the last step, which would want half of all,
// from what became of them.
type running struct {
	*collective
	groups  int
	inGroup map[int]vreg // by step: the group before
	wholes  map[int][]vreg
	own     []vreg // by group: what the array doesn't have
}

func newRunning(c *collective, groups int) *running {
	return &running{collective: c, groups: groups, inGroup: map[int]vreg{}, wholes: map[int][]vreg{}, own: make([]vreg, groups)}
}

// group is where a group lies in a scan's array.
func (g *gen) group(c *collective, q int) *mref {
	return &mref{fixed: regArgs, disp: c.at + int32(q*g.lanes*g.regSize(c.t))}
}

// goOn returns what becomes of x, which group q is.
func (g *gen) goOn(r *running, q int, x vreg) vreg {
	size := g.regSize(r.t)
	for w := 1; w < g.lanes; w *= 2 {
		left := r.inGroup[w]
		if q == 0 {
			left = r.none
		}
		r.inGroup[w] = x
		x = g.combine(r.op, r.t, g.op2Imm(pair{x86.AlignD, x86.AlignQ}.of(size), size, x, left, uint8(g.lanes-w)), x)
	}
	for w := 1; w < r.groups; w *= 2 {
		last := 2*w >= r.groups
		if !last {
			r.wholes[w] = append(r.wholes[w], x)
		}
		switch {
		case q < w:
		case !last:
			x = g.combine(r.op, r.t, r.wholes[w][q-w], x)
		case r.own[q-w] != 0:
			x = g.combine(r.op, r.t, r.own[q-w], x)
		default:
			x = g.combine(r.op, r.t, g.loadVector(size, g.group(r.collective, q-w)), x)
		}
	}
	return x
}

// writtenAlong is how many groups of scans go along.
const writtenAlong = 128

// goesAlong returns how many segments from number i on are such a program, or its
// beginning up to a barrier; 0 if they are not.
func (g *gen) goesAlong(i int) int {
	segments := g.p.blocks.segments[i:]
	end := slices.IndexFunc(segments, func(s segment) bool { return s.meet == nil || !scans(s.meet.Op.Inst()) })
	if end == 0 || !g.t.evex || !g.shape.whole || g.alive != 0 || g.shape.block/g.lanes*end > writtenAlong {
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
	groups := g.shape.block / g.lanes
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.Op(x86.XOR, x86.W32, regIndex, regIndex) })
	g.begin(groups)
	scans := make([]*running, len(segments))
	for u := range groups {
		for k := range segments {
			s := &segments[k]
			if u == 0 {
				g.headsOf(s)
				g.shareOf(s)
				g.sidesOf(s.nodes)
				if k < count-1 {
					scans[k] = newRunning(g.collective(s.meet), groups)
				}
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
