package ptx

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Lanes that end before others come to a barrier. The verifier lets them: a way
// that leads straight to EXIT may part lanes. The canonical form need not say
// EXIT there: such lanes may go past the end of an If that holds the barrier, or
// leave a Block that does. Two things follow. Collectives have to find out who
// is there, where lanes may be missing (departures). And such lanes have to end
// at once: where ways meet again the machine may hold them back for neighbours
// of their warp, which wait for them at the barrier (splits).

// isBarrier reports whether n is a barrier or a collective.
func isBarrier(n *ir.Node) bool {
	if !n.Op.IsInst() {
		return false
	}
	_, ok := collectives[n.Op.Inst()]
	return ok || n.Op.Inst() == isa.BAR_SYNC
}

// findBarriers fills p.barriers, and reports whether r holds one.
func (p *Program) findBarriers(r *ir.Region) (found bool) {
	for _, n := range r.Nodes {
		has := isBarrier(n)
		for _, s := range n.Regions {
			has = p.findBarriers(s) || has
		}
		if has {
			p.barriers[n], found = true, true
		}
	}
	return found
}

// ahead reports whether one of the nodes is a barrier or holds one.
func (p *Program) ahead(nodes []*ir.Node) bool {
	for _, n := range nodes {
		if p.barriers[n] {
			return true
		}
	}
	return false
}

// departures reports whether lanes of the index space may be missing at a
// collective: it stands in an If, or in a construct that lanes may have left, or,
// with fuel, a round comes before it. (Lanes that end because the launch is
// cancelled don't count: what the others compute then is lost.)
func departures(f *ir.Func, fuel bool) (missing bool) {
	left := map[*ir.Node]bool{} // targets of Brs so far; nil: the body
	rounds := false
	var around []*ir.Node
	// leave notes the Brs of a region, for those that come again by a loop.
	var leave func(r *ir.Region)
	leave = func(r *ir.Region) {
		for _, n := range r.Nodes {
			if n.Op == ir.Br {
				left[n.Target] = true
			}
			for _, s := range n.Regions {
				leave(s)
			}
		}
	}
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		for _, n := range r.Nodes {
			switch {
			case n.Op == ir.Br:
				left[n.Target] = true
			case n.Op == ir.Loop:
				rounds = rounds || !n.Free
				leave(n.Regions[0])
			case n.Op.IsInst():
				if _, ok := collectives[n.Op.Inst()]; !ok {
					continue
				}
				missing = missing || left[nil] || fuel && rounds
				for _, a := range around {
					missing = missing || a.Op == ir.If || left[a]
				}
			}
			around = append(around, n)
			for _, s := range n.Regions {
				walk(s)
			}
			around = around[:len(around)-1]
		}
	}
	walk(f.Body)
	return missing
}

// splits finds out, before an If that may part lanes for good, whether it parts
// lanes of one warp, and returns the predicate; "" if it cannot come to that.
func (e *emitter) splits(n *ir.Node) string {
	if len(e.p.barriers) == 0 || e.p.vary.Vary(n.Args[0]) != analysis.PerLane {
		return ""
	}
	branches := false
	for _, r := range n.Regions {
		branches = branches || len(r.Nodes) > 0 && r.Nodes[len(r.Nodes)-1].Op == ir.Br
	}
	if !e.p.barriers[n] && !branches {
		return ""
	}
	here, there, p, q := e.temp(bankR), e.temp(bankR), e.temp(bankP), e.temp(bankP)
	e.line("activemask.b32 %s;", here)
	e.line("vote.sync.ballot.b32 %s, %s, %s;", there, e.name(n.Args[0]), here)
	e.line("setp.ne.b32 %s, %s, %s;", p, there, here)
	e.line("setp.ne.and.b32 %s, %s, 0, %s;", q, there, p)
	return q
}

// part ends the lanes that have come here if they were parted from others of
// the warp. To be written where those others may come to a barrier: lanes that
// are parted there for good end without doing more.
func (e *emitter) part(split string) { e.exit(split) }

// partBr is part for a Br to a Block: others, from whom lanes were parted at an
// If on the way, may come to a barrier before the Block's end.
func (e *emitter) partBr(target *ir.Node) {
	first := len(e.frames) - 1
	for first > 0 && e.frames[first].of != target {
		first--
	}
	w := way{p: e.p, after: map[*ir.Node]bool{target: false}}
	// rest: whether what follows the frame's construct leads to a barrier; fall:
	// whether the end of the frame's region does.
	fall := false
	for i := first; i < len(e.frames); i++ {
		f := &e.frames[i]
		if i > first {
			parent := &e.frames[i-1]
			rest := w.leads(parent.region.Nodes[parent.at+1:], fall)
			switch f.of.Op {
			case ir.Loop:
				fall = e.p.ahead(f.region.Nodes) || f.of.Counted && rest
				w.after[f.of] = fall
			case ir.Block:
				w.after[f.of], fall = rest, rest
			default:
				fall = rest
				for _, r := range f.of.Regions {
					if f.split != "" && r != f.region && w.leads(r.Nodes, rest) {
						e.part(f.split)
					}
				}
			}
		}
		// Others may have left for a Block on the way before.
		for _, n := range f.region.Nodes[:f.at] {
			if split := e.split[n]; split != "" && w.leaves(n) {
				e.part(split)
			}
		}
	}
}

// way answers whether ways on lead to a barrier.
type way struct {
	p *Program
	// after says it of the ends of the Blocks, and the next rounds of the Loops,
	// around the place at hand.
	after map[*ir.Node]bool
}

// leads reports whether a way through nodes, and what follows them if fall,
// leads to a barrier.
func (w *way) leads(nodes []*ir.Node, fall bool) bool {
	for _, n := range nodes {
		if w.p.barriers[n] || w.leaves(n) {
			return true
		}
		if n.Op == ir.Br || n.Op == ir.Loop && !n.Counted {
			return false
		}
	}
	return fall
}

// leaves reports whether n is, or holds, a Br to where a barrier follows.
func (w *way) leaves(n *ir.Node) bool {
	if n.Op == ir.Br {
		return w.after[n.Target]
	}
	for _, r := range n.Regions {
		for _, m := range r.Nodes {
			if w.leaves(m) {
				return true
			}
		}
	}
	return false
}
