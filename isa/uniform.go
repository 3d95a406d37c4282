package isa

import (
	"fmt"

	"github.com/hologram-project/hologram/isa/work"
)

// This file checks that barriers stand under uniform control: a value is
// divergent if it may differ between the lanes of a block, a block is
// divergent if a branch on such a value decides whether, or how often, a lane
// comes there. Both only ever grow, until nothing changes.
//
// Which blocks a branch decides about are those between it and its immediate
// postdominator, in the graph of rounds.go. They are found as the closure of
// control dependence (Ferrante, Ottenstein, Warren, "The program dependence
// graph and its use in optimization", 1987): a block depends on a branch if it
// postdominates one of the branch's ways, but not the branch.

// regSet is a set of registers and predicates.
type regSet [(numRegs + 63) / 64]uint64

func (s *regSet) has(r int) bool { return s[r/64]>>(r%64)&1 != 0 }

func (s *regSet) put(r int, in bool) {
	s[r/64] &^= 1 << (r % 64)
	if in {
		s[r/64] |= 1 << (r % 64)
	}
}

// join adds the members of t, and reports a change.
func (s *regSet) join(t *regSet) bool {
	changed := false
	for i, w := range t {
		changed = changed || w&^s[i] != 0
		s[i] |= w
	}
	return changed
}

// presetVaries tells of each preset register whether it differs between lanes.
func presetVaries() (s regSet) {
	for i, special := range PresetRegisters {
		s.put(FirstPreset+i, special.varies())
	}
	return s
}

// varies reports whether s may differ between the lanes of a block.
func (s Special) varies() bool {
	return s <= LaneZ || s == GlobalLane || s == RowIndex || s == ColumnIndex || s >= Index0 && s <= Index7
}

// varies reports whether the result of in may differ between the lanes of a
// block that arrive at it together, if operands tells that one of its operands
// may.
func varies(in *Inst, operands bool) bool {
	row, _ := Lookup(in.Op)
	switch {
	case in.Op == SREG:
		return Special(in.Args[1].Bits).varies()
	case row.Effect&Barrier != 0:
		switch in.Op {
		case BLOCK_REDUCE_ADD, BLOCK_REDUCE_MIN, BLOCK_REDUCE_MAX, BLOCK_REDUCE_MUL:
			return false
		}
		return true
	case row.Effect&(Reads|State) != 0:
		return true
	}
	return operands
}

// uniformity finds what is divergent.
type uniformity struct {
	g     *Graph
	ways  adjacency // the graph of rounds
	post  *domTree  // its postdominators
	entry []regSet
	cause []int32 // by vertex: the block of the divergent branch that decides about it, -1 if none
	split []bool  // blocks whose end is known to divide the lanes
	above []int32 // links to postdominators that lead past those already divergent
}

// checkUniform demands that barriers and collectives are in blocks that are
// not divergent.
func (v *verifier) checkUniform() error {
	g := &v.out.Graph
	v.out.HasBarrier = g.HasEffect(Barrier)
	if !v.out.HasBarrier {
		return nil
	}
	u := newUniformity(g)
	u.run(v.work)
	first, cause := len(v.p.Insts), 0
	for b := range g.Blocks {
		if u.cause[b] < 0 {
			continue
		}
		for i := range g.Blocks[b].Code {
			l := &g.Blocks[b].Code[i]
			if row, _ := Lookup(l.Op); row.Effect&Barrier != 0 && l.Src < first {
				first, cause = l.Src, g.Blocks[u.cause[b]].Term.Src
			}
		}
	}
	if first == len(v.p.Insts) {
		return nil
	}
	return v.fail("uniform", first, fmt.Sprintf("not all lanes of a block arrive here together: %s at %s may differ between them",
		map[bool]string{true: "the count of the loop", false: "the branch"}[v.p.Insts[cause].Op == LOOP], v.where(cause)),
		"move it out of the branch or loop, or make the condition the same for all lanes: from parameters, block numbers, block_reduce")
}

// HasEffect reports whether an instruction of the graph has one of the effects.
func (g *Graph) HasEffect(e Effect) bool {
	for b := range g.Blocks {
		if g.Blocks[b].hasEffect(e) {
			return true
		}
	}
	return false
}

func (b *Block) hasEffect(e Effect) bool {
	for i := range b.Code {
		if row, _ := Lookup(b.Code[i].Op); row.Effect&e != 0 {
			return true
		}
	}
	return false
}

func newUniformity(g *Graph) *uniformity {
	ways, back := roundGraph(g)
	n := int32(len(ways.start) - 2)
	u := &uniformity{g: g, ways: ways, post: dominators(back, ways, n-1), entry: make([]regSet, len(g.Blocks)),
		cause: make([]int32, n), split: make([]bool, len(g.Blocks)), above: make([]int32, n)}
	for v := range n {
		u.cause[v], u.above[v] = -1, v
	}
	u.entry[0] = presetVaries()
	return u
}

func (u *uniformity) run(m *work.Meter) {
	propagate(m, len(u.g.Blocks), func(b int, touch func(int)) {
		live := u.entry[b]
		blk := &u.g.Blocks[b]
		m.Step(len(blk.Code))
		for i := range blk.Code {
			in := blk.Code[i].Inst
			r, _, ok := defines(in)
			if !ok {
				continue
			}
			operands := false
			uses(in, func(_, reg int, _ Type) { operands = operands || live.has(reg) })
			live.put(r, u.cause[b] >= 0 || varies(in, operands))
		}
		splits := false
		switch t := &blk.Term; {
		case t.Kind == TermBranch:
			splits = live.has(firstPred + int(t.Pred.Reg))
		case t.Kind == TermLoop && t.Count.Kind == ArgReg:
			splits = live.has(int(t.Count.Reg))
		}
		if splits && !u.split[b] {
			u.split[b] = true
			// The latch of a LOOP is inside what the LOOP decides about, so
			// that what it decides about is as well.
			u.diverge(int32(b), touch)
		}
		for _, s := range blk.Term.Successors() {
			if u.entry[s].join(&live) {
				touch(s)
			}
		}
	})
}

// diverge marks the vertices that the end of block cause decides about.
func (u *uniformity) diverge(cause int32, touch func(int)) {
	work := []int32{cause}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		limit := u.post.idom[b]
		for _, s := range u.ways.of(b) {
			for m := u.unmarked(s); u.post.depth[m] > u.post.depth[limit]; m = u.unmarked(m) {
				u.cause[m] = cause
				u.above[m] = u.post.idom[m]
				work = append(work, m)
				if int(m) < len(u.g.Blocks) {
					touch(int(m))
				}
			}
		}
	}
}

// unmarked returns the nearest of vertex b and its postdominators that is not divergent.
func (u *uniformity) unmarked(b int32) int32 {
	for u.above[b] != b {
		u.above[b] = u.above[u.above[b]]
		b = u.above[b]
	}
	return b
}
