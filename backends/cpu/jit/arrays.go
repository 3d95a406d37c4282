package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Arrays of the frame, with an element for each lane of a block.

// maskScale is how many bytes a lane's predicate takes in arrays.
func (g *gen) maskScale() int {
	if g.t.evex {
		return 1
	}
	return g.maskSize()
}

// array is the place of the group's elements in an array of the frame.
func (g *gen) array(at int32, scale int) *mref {
	return &mref{fixed: regArgs, indexed: true, scale: uint8(scale), disp: at + int32(g.u*g.lanes*scale)}
}

// arrayOf is where a value lies for later segments.
func (g *gen) arrayOf(v *ir.Value) *mref {
	scale := g.maskScale()
	if v.Type != isa.Pred {
		scale = g.regSize(v.Type)
	}
	at, ok := g.arrays[v]
	if !ok {
		if n := len(g.spare[scale]); n > 0 {
			at, g.spare[scale] = g.spare[scale][n-1], g.spare[scale][:n-1]
		} else {
			at = g.reserve(g.shape.block * scale)
		}
		g.arrays[v] = at
		g.lying = append(g.lying, v)
	}
	return g.array(at, scale)
}

// clearArrays makes room of the arrays of what no segment from number i on uses. So a sum that
// is added to in segment after segment stays where it is, in the nearest cache, where otherwise
// each would have an array of its own.
func (g *gen) clearArrays(i int) {
	g.lying = slices.DeleteFunc(g.lying, func(v *ir.Value) bool {
		over := g.p.blocks.last[v.ID] < i
		if over {
			scale := int(g.arrayOf(v).scale)
			g.spare[scale] = append(g.spare[scale], g.arrays[v])
		}
		return over
	})
}

func (g *gen) loadArray(v *ir.Value) vreg {
	m := g.arrayOf(v)
	if v.Type == isa.Pred {
		return g.loadMaskAt(m)
	}
	return g.loadVector(g.regSize(v.Type), m)
}

func (g *gen) loadVector(size int, m *mref) vreg {
	d := g.newReg(classVec)
	g.add(inst{f: loadV.of(size), vl: g.vl(size), d: d, mem: m})
	return d
}

func (g *gen) storeArray(v *ir.Value, r vreg) {
	m := g.arrayOf(v)
	if v.Type == isa.Pred {
		g.storeMaskAt(m, r)
		return
	}
	g.storeVector(g.regSize(v.Type), m, r)
}

func (g *gen) storeVector(size int, m *mref, v vreg) {
	g.store(inst{f: storeV.of(size), vl: g.vl(size), mem: m}, v)
}

func (g *gen) loadMask(at int32) vreg     { return g.loadMaskAt(g.array(at, g.maskScale())) }
func (g *gen) storeMask(at int32, v vreg) { g.storeMaskAt(g.array(at, g.maskScale()), v) }

func (g *gen) loadMaskAt(m *mref) vreg {
	d := g.newReg(g.maskClass())
	if g.t.evex {
		g.add(inst{f: x86.KMovQ, vl: 16, d: d, mem: m})
	} else {
		g.add(inst{f: x86.MovUPS, vl: g.t.bytes, d: d, mem: m})
	}
	return d
}

func (g *gen) storeMaskAt(m *mref, v vreg) {
	if !g.t.evex {
		g.store(inst{f: x86.StoreUPS, vl: g.t.bytes, mem: m}, v)
		return
	}
	g.add(inst{b: v, mem: m, emit: func(e *encoder, in *inst) {
		e.Emit(x86.KStoreQ, x86.Inst{VL: 16, D: e.mask(in.b, maskTemp0), IsMem: true, Mem: e.memory(in.mem, x86.RAX)})
	}})
}
