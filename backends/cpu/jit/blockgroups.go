package jit

import "github.com/hologram-project/hologram/isa/ir"

// How many groups of a block do a segment together.

// alongBytes is how far along memory groups go together in programs that wait at barriers: those
// read rows side by side there, which are streams only if all of them go on at once.
const alongBytes = 128

// mostTogether is how many vectors groups that do a light loop together keep, whether there are registers for
// them or not: 256 partials of f64 with AVX2.
const mostTogether = 64

// unrollingOf is how many groups of a segment are done together: what loops carry
// stays in registers, and short stretches overlap. Loops are best done by all groups of
// a usual block together, so that they go through memory in its own order: what does not
// fit the caches came at half the speed, or less, by stretches of some groups.
func (g *gen) unrollingOf(s *segment) int {
	if s.escapes || g.alive != 0 {
		return 1
	}
	w := g.p.blocks.weigh(s)
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
	// All of a block where only some sums find no register: they stay in the frame, a load and a store more for
	// each of their elements, and memory is read in its own order. A sum of 2^23 f64 takes a third of the time,
	// and with AVX2 one of 4,096 rows of 4,096 f32 0.4. With an exponential between them, as in
	// a softmax, rows in the caches took 1.1 of it, and those beyond 0.6 to 0.9: see shape.far.
	if all := g.shape.block / g.lanes; w.together(all) && g.shape.whole && !g.p.blocks.waits && (g.shape.far || !g.p.blocks.mixed) {
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

// together says to do a segment by all groups of a block at once: a light loop, or what is loaded for the block to combine.
func (w weight) together(groups int) bool {
	return w.light() && groups*w.kept <= mostTogether || !w.loops && w.insts <= 4 && 2*groups <= mostTogether
}

// mixes reports whether a segment has a loop of few instructions, and another one of more.
func (b *blocks) mixes() bool {
	light, more := false, false
	for i := range b.segments {
		w := b.weigh(&b.segments[i])
		light, more = light || w.light(), more || w.loops && !w.light()
	}
	return light && more
}

// mixedBytes are about what the nearer caches hold, or know the pages of.
const mixedBytes = 5 << 20

// goesFar reports whether a launch of blocks that mix loops goes through more than that.
func (r *run) goesFar() bool {
	return r.width > 0 && r.k.p.blocks.mixed && r.memory() > mixedBytes
}

func (b *blocks) weigh(s *segment) (w weight) {
	known := func(v *ir.Value) bool { return b.lin[v.ID].known }
	var look func(nodes []*ir.Node) int
	look = func(nodes []*ir.Node) (count int) {
		for _, n := range nodes {
			if n.Op.IsInst() && (len(n.Results) != 1 || !known(n.Result())) {
				count++
			}
			inside := 0
			for _, r := range n.Regions {
				inside += look(r.Nodes)
			}
			if n.Op == ir.Loop {
				kept := 0
				for _, v := range n.Regions[0].Params {
					if !known(v) {
						kept++
					}
				}
				w.loops = true
				w.kept = max(w.kept, kept)
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
