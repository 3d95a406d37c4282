package jit

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A processor that does vectors of 64 bytes as two halves (Zen 4) gains by them that there
// are fewer instructions. Programs that do little but move what lies beyond the nearest cache
// wait for memory, and there its loads and stores of 64 bytes are the slower ones: sums of
// arrays of 4 MB take 0.91 of the time with vectors of 32. Where a store is followed by loads
// of other arrays at places that differ by a little more than a multiple of 4 KB, which look
// like the store's, it is 0.8, with C's loops too.

// nearBytes is the size of the nearest cache: launches with more memory have short vectors.
const nearBytes = 32 << 10

// halved is a target with vectors of half the length.
func (t *target) halved() *target {
	h := *t
	h.bytes /= 2
	return &h
}

// targetFor is the target of the code for a shape.
func (t *target) targetFor(s shape) *target {
	if s.halved {
		return t.halved()
	}
	return t
}

// several are instructions that a processor has none for, of integers at least, or slow ones.
var several = map[isa.Op]bool{isa.DIV: true, isa.REM: true, isa.SQRT: true, isa.MULHI: true, isa.POPC: true, isa.CLZ: true, isa.CTZ: true}

// moving reports whether a program does little but move memory: with all elements of one
// size, in vectors as in memory, and no more instructions than accesses.
func (p *program) moving() bool {
	if !p.straight || p.places || p.bytes || p.meets || p.reads == 0 {
		return false
	}
	indexed := func(n *ir.Node) bool { return n.Op.IsInst() && n.Mem.Mode == isa.AddrIndex }
	first := slices.IndexFunc(p.fn.Body.Nodes, indexed)
	if first < 0 {
		return false
	}
	accesses, others, size := 0, 0, p.fn.Body.Nodes[first].Type.Size()
	for _, n := range p.fn.Body.Nodes {
		switch {
		case !n.Op.IsInst():
			continue
		case indexed(n):
			accesses++
		case n.Op != ir.Op(isa.LDP): // which is done once
			others++
		}
		if op := n.Op.Inst(); several[op] && !(op == isa.DIV && n.Type.Float()) {
			return false
		}
		for _, v := range n.Results {
			if v.Type.Numeric() && v.Type.Size() != size {
				return false
			}
		}
		if n.Type.Size() != size || size < 4 && !(p.packing.possible && p.packing.uniform && p.packing.packs(n.Type)) {
			return false
		}
	}
	return others <= accesses
}

// shortens reports whether a launch's vectors are to be short.
func (r *run) shortens() bool {
	if !r.k.t.halves || !r.k.p.moves || r.width > 0 {
		return false
	}
	total := uint64(0)
	for i := range r.views {
		if (r.k.p.reads|r.k.p.writes)>>i&1 != 0 && r.views[i].access != single {
			total += r.lanes * uint64(r.views[i].size)
		}
	}
	return total > nearBytes
}
