package jit

import (
	"maps"
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa/ir"
)

// slotRegs is what a loop that accesses a slot keeps of it in registers. With rounds that read it
// from the frame, a word each, a sum of 2^20 f32 took AMD's Zen 4 1.2 of the time, one of 2^23 1.6
// and softmax 1.7 (bench operations), as if the prefetchers took the word for a stream.
type slotRegs struct{ base, reach vreg }

// keepSlots keeps what is known of slots that a loop's rounds access by linear offsets, unless
// there are loops in it, which do that. It returns what there were before.
func (g *gen) keepSlots(r *ir.Region) map[int]slotRegs {
	before := g.kept
	if g.lin == nil || holdsLoop(r) {
		return before
	}
	g.kept = map[int]slotRegs{}
	maps.Copy(g.kept, before)
	g.keepSlotsOf(r)
	return before
}

// keepSlot keeps what is known of the slot that a segment accesses, if that is but one and all groups of a
// block do the segment together: also what comes before loops and behind them reads no words of the frame
// then (sums of 8,192 rows of 520 f32 took 1.1 of the time).
func (g *gen) keepSlot(r *ir.Region, groups int) map[int]slotRegs {
	before := g.kept
	if g.shape.whole && groups*g.lanes == g.shape.block {
		g.kept = map[int]slotRegs{}
		if g.keepSlotsOf(r); len(g.kept) > 1 {
			g.kept = before
		}
	}
	return before
}

func holdsLoop(r *ir.Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool {
		return n.Op == ir.Loop || slices.ContainsFunc(n.Regions, holdsLoop)
	})
}

func (g *gen) keepSlotsOf(r *ir.Region) {
	for _, n := range r.Nodes {
		if _, known := g.kept[n.Mem.Slot]; !known && n.Op.IsInst() && g.p.linearAccess(g.lin, n) {
			if _, step := g.stepOf(n); step != 0 {
				at := g.p.lay.slots + int32(slotBytes*n.Mem.Slot)
				g.kept[n.Mem.Slot] = slotRegs{g.word(at + slotBase), g.word(at + slotReach)}
			}
		}
		for _, s := range n.Regions {
			g.keepSlotsOf(s)
		}
	}
}

// word is a register with a word of the frame.
func (g *gen) word(at int32) vreg {
	d := g.newReg(classGPR)
	g.pure(d, 0, 0, 0, func(e *encoder, in *inst) {
		if r := e.info[in.d].reg; r != x86.None { // else it is where it was
			e.Load(x86.W64, r, x86.At(regArgs, at))
		}
	})
	return d
}

// placeInSlot makes d what lies so many bytes behind a register's number in a slot whose base is in c, if that has a
// register, and at a place of the frame.
func (e *encoder) placeInSlot(in *inst, from x86.Reg, offset, base int32) {
	r := e.outGPR(in.d, x86.RAX)
	if in.c != 0 && e.info[in.c].reg != x86.None {
		e.Lea(r, x86.Mem{Base: from, Index: e.info[in.c].reg, Scale: 1, Disp: offset})
	} else {
		e.Lea(r, x86.At(from, offset))
		e.OpMem(x86.ADD, x86.W64, r, x86.At(regArgs, base))
	}
	e.doneGPR(in.d, r)
}

// opSlot computes with a register and a word that is in another, if that has one, and at a place of the frame.
func (e *encoder) opSlot(op x86.ALU, r x86.Reg, v vreg, at int32) {
	if v != 0 && e.info[v].reg != x86.None {
		e.Op(op, x86.W64, r, e.info[v].reg)
	} else {
		e.OpMem(op, x86.W64, r, x86.At(regArgs, at))
	}
}
