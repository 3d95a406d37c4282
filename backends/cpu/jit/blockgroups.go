package jit

import (
	"slices"

	"github.com/hologram-project/hologram/isa/ir"
)

// How many groups of a block do a segment together.

// alongBytes is how far along memory groups go together in programs that wait at barriers: those
// read rows side by side there, which are streams only if all of them go on at once.
const alongBytes = 128

// unrollingOf is how many groups of a segment are done together: what loops carry
// stays in registers, and short stretches overlap. Loops are best done by all groups of
// a usual block together, so that they go through memory in its own order: what does not
// fit the caches came at half the speed, or less, by stretches of some groups.
func (g *gen) unrollingOf(s *segment) int {
	if s.escapes || g.alive != 0 {
		return 1
	}
	w := g.weigh(s)
	registers := len(g.t.files[classVec])
	most := 1
	switch many := registers >= manyVectors; {
	case w.insts <= 4, w.light(), w.loops && w.insts <= 60 && many:
		most = 16
	case w.insts <= 12:
		most = 8
	case w.insts <= 24, w.insts <= 60 && many:
		most = 4
	case w.insts <= 60:
		most = 2
	}
	if w.total > 160 {
		most = min(most, 4)
	}
	if g.p.blocks.waits {
		most = min(most, alongBytes/g.t.bytes)
	}
	for most > 1 && most*w.kept > registers*2/3 {
		most /= 2
	}
	// Twice as many where that is all of the block: the few sums that find no register stay in the
	// frame, and a sum of 2^23 f64 takes a third of the time. With an exponential between them, as in
	// a softmax, rows in the caches took 1.1 of it.
	if all := 2 * most; w.light() && w.kept == 1 && most == 16 && g.shape.whole && all*g.lanes == g.shape.block && g.allLight() {
		most = all
	}
	return most
}

// weight is what a segment, or a round of its longest loop, has to do.
type weight struct {
	insts, total int
	kept         int // values that a loop carries
	loops        bool
}

// light is a loop of few instructions.
func (w weight) light() bool { return w.loops && w.insts <= 12 }

// allLight reports whether no segment has a loop that is not.
func (g *gen) allLight() bool {
	return !slices.ContainsFunc(g.p.blocks.segments, func(s segment) bool {
		w := g.weigh(&s)
		return w.loops && !w.light()
	})
}

func (g *gen) weigh(s *segment) (w weight) {
	var look func(nodes []*ir.Node) int
	look = func(nodes []*ir.Node) (count int) {
		for _, n := range nodes {
			if n.Op.IsInst() && g.headOf(n) == nil {
				count++
			}
			inside := 0
			for _, r := range n.Regions {
				inside += look(r.Nodes)
			}
			if n.Op == ir.Loop {
				w.loops = true
				w.kept = max(w.kept, len(g.carried(n).params))
				w.insts = max(w.insts, inside)
			}
			count += inside
		}
		return count
	}
	if w.total = look(s.nodes); w.insts == 0 {
		w.insts = w.total
	}
	return w
}
