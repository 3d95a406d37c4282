package jit

import (
	"math/bits"
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A store that crosses the lines of a cache takes as long as two, and one past the caches
// has to lie in a line. Where a large launch's results don't begin with a line, as those of
// a grid's inner part, or a row's does not, code does the lanes up to the next line first,
// with the mask that the last ones have.

// Launches of fewer lanes, or of shorter rows, gain nothing that another variant is worth.
const (
	headLanes = 1 << 15
	headRow   = 128
)

// begins reports whether lanes up to a line are done first.
func (r *run) begins() bool {
	p := r.k.p
	if !r.k.t.evex || !p.level || r.staging || r.width > 0 || p.writes == 0 || r.lanes < headLanes || r.row > 0 && r.row < headRow {
		return false
	}
	w := &r.views[p.head()]
	return w.access == contiguous && w.whole() && !r.inLines(w)
}

// allStore reports whether all lanes come to every store by index: none stands in a branch or
// a loop, and of those no lane leaves the program.
func (p *program) allStore() bool {
	return !slices.ContainsFunc(p.fn.Body.Nodes, func(n *ir.Node) bool {
		return p.escapes[n] || n.Op == ir.Br || slices.ContainsFunc(n.Regions, stores)
	})
}

// stores reports whether a region stores by index.
func stores(r *ir.Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool {
		return n.Op == ir.Op(isa.STG) && n.Mem.Mode == isa.AddrIndex || slices.ContainsFunc(n.Regions, stores)
	})
}

// inLines reports whether a view's elements begin with a line wherever a call's do: all
// rows, and pieces of them.
func (r *run) inLines(w *view) bool {
	return w.inLines() && (r.row == 0 || r.row*uint64(w.size)%cacheLine == 0)
}

// head is the slot whose elements tell where lines begin.
func (p *program) head() int { return bits.TrailingZeros64(p.writes) }

// inLines reports whether a view's rows all begin with a line.
func (w *view) inLines() bool {
	for i := range w.rank - 1 {
		if w.stride[i]%cacheLine != 0 {
			return false
		}
	}
	return w.base%cacheLine == 0
}

// whole reports whether elements lie at multiples of their size.
func (w *view) whole() bool {
	for i := range w.rank {
		if w.stride[i]%w.size != 0 {
			return false
		}
	}
	return w.base%uintptr(w.size) == 0
}

// alike reports whether elements lie at the same places of lines as another view's.
func (w *view) alike(o *view) bool {
	if w.size != o.size || w.rank != o.rank || w.base%cacheLine != o.base%cacheLine {
		return false
	}
	for i := range w.rank {
		if w.shape[i] != o.shape[i] || (w.stride[i]-o.stride[i])%cacheLine != 0 {
			return false
		}
	}
	return true
}

// toLine makes the lanes up to a line the ones to do, and goes to the code for what is left
// over; where there are none, or no more, it goes on.
func (g *gen) toLine(rest x86.Label) {
	slot := g.p.head()
	shift := uint8(bits.TrailingZeros(uint(g.p.fn.SlotTypes[slot].Size())))
	on := g.asm.NewLabel()
	g.special(0, g.bases[slot], 0, 0, func(e *encoder, in *inst) {
		if b := e.gpr(in.a, x86.RAX); b != x86.RAX {
			e.Mov(x86.W64, x86.RAX, b)
		}
		e.Un(x86.NEG, x86.W64, x86.RAX)
		e.OpImm(x86.AND, x86.W64, x86.RAX, cacheLine-1)
		e.ShiftImm(5, x86.W64, x86.RAX, shift)
		e.Jcc(x86.E, on)
		e.Op(x86.CMP, x86.W64, x86.RAX, regCount)
		e.Jcc(x86.AE, on)
		e.Mov(x86.W64, regCount, x86.RAX)
		e.Jmp(rest)
	})
	g.bind(on)
}

// fromLine goes on with all lanes, if those were done that lie before a line.
func (g *gen) fromLine(again x86.Label) {
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Mov(x86.W64, regIndex, regCount)
		e.Load(x86.W64, regCount, x86.At(regArgs, argCount))
		e.Op(x86.CMP, x86.W64, regIndex, regCount)
		e.Jcc(x86.B, again)
	})
}
