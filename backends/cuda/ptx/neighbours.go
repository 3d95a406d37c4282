package ptx

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Neighbours: what a lane loads from, or stores to, places side by side in a slot,
// by byte addresses, is one access of up to 16 bytes, if nothing comes between that
// may touch the slot, the address is known to be a multiple of so many bytes, and no
// access is stray. It takes variants of which both is said: Proved and Aligned.

// widest is how many bytes an access has at most, and far within how many nodes
// neighbours are looked for.
const (
	widest = 16
	far    = 4096
)

// place is where an access goes: the same distance from the same offset in one slot.
type place struct {
	slot int
	off  *ir.Value // nil: none
	disp int64
}

// placeOf is the place of a load or store by byte address, of which wide ones can be
// made; ok is false for other nodes.
func placeOf(n *ir.Node) (p place, ok bool) {
	if !n.Op.IsInst() || n.Op.Inst() != isa.LDG && n.Op.Inst() != isa.STG || n.Mem.Mode != isa.AddrByte {
		return p, false
	}
	p = place{slot: n.Mem.Slot, disp: n.Mem.Offset}
	if n.Mem.HasOff {
		p.off = whole(n.Args[0], n.Mem.Offset)
		if m := p.off.Node; m != nil && m.Op == ir.Op(isa.CVT) && m.From == isa.U64 { // the bound is left out where it says nothing
			p.off = m.Args[0]
		}
	}
	return p, p.disp >= 0
}

// neighbours returns the accesses that node i of a region makes one with, lowest
// first, of which i is the first that is come to; nil if it stays alone.
func (p *Program) neighbours(r *ir.Region, i int) []*ir.Node {
	first := r.Nodes[i]
	at, ok := placeOf(first)
	if !ok {
		return nil
	}
	size := int64(first.Type.Size())
	found := map[int64]*ir.Node{at.disp: first}
	for _, n := range r.Nodes[i+1 : min(i+far, len(r.Nodes))] {
		if n.Op == ir.Const {
			continue
		}
		if !n.Op.IsInst() {
			break
		}
		to, ok := placeOf(n)
		if ok && n.Op == first.Op && n.Type == first.Type && to.slot == at.slot && to.off == at.off {
			if _, again := found[to.disp]; !again {
				found[to.disp] = n
				continue
			}
		}
		if !passes(n, first) {
			break
		}
	}
	natural := int64(widest)
	if at.off != nil {
		natural = int64(p.multiple(at.off))
	}
	for width := natural; width > size && width >= 4; width /= 2 {
		from := at.disp &^ (width - 1)
		var all []*ir.Node
		for d := from; d < from+width && found[d] != nil; d += size {
			all = append(all, found[d])
		}
		if int64(len(all))*size == width {
			return all
		}
	}
	return nil
}

// passes reports whether an access by bytes may change places with n: n touches no
// memory, or another slot, as the canonical order of programs has it, or both load.
func passes(n, access *ir.Node) bool {
	row, _ := isa.Lookup(n.Op.Inst())
	load, store := n.Op.Inst() == isa.LDG, n.Op.Inst() == isa.STG
	switch {
	case row.Effect&^(isa.Pure|isa.MayFault) == 0, load && access.Op == n.Op:
		return true
	case !load && !store:
		return false
	}
	return (n.Mem.Mode == isa.AddrByte || n.Mem.Mode == isa.AddrIndex) && n.Mem.Slot != access.Mem.Slot
}

// hasNeighbours reports whether there are any in a region or those within.
func (p *Program) hasNeighbours(r *ir.Region) bool {
	for i, n := range r.Nodes {
		if p.neighbours(r, i) != nil || slices.ContainsFunc(n.Regions, p.hasNeighbours) {
			return true
		}
	}
	return false
}

// withNeighbours writes node i of a region with its neighbours, loads where the
// first is, stores where the last is, and reports whether it has any.
func (e *emitter) withNeighbours(r *ir.Region, i int) bool {
	n := r.Nodes[i]
	if !e.opt.Aligned || !e.opt.Proved {
		return false
	}
	if at, ok := placeOf(n); ok && e.opt.told(at.slot) {
		return false
	}
	all, known := e.joins[n]
	if !known {
		if all = e.p.neighbours(r, i); all == nil {
			return false
		}
		last := n
		for _, m := range r.Nodes[i:] {
			if slices.Contains(all, m) {
				last = m
			}
		}
		for _, m := range all {
			e.joins[m] = nil // written with another
		}
		if n.Op.Inst() == isa.STG {
			e.joins[last] = all
			return true
		}
		e.loadNeighbours(n, all)
	} else if all != nil {
		e.storeNeighbours(n, all)
	}
	return true
}

// join is where neighbours are, by the address of n, one of them. It also says how
// many elements a word of 32 bits has, 0 if words are elements.
func (e *emitter) join(n *ir.Node, all []*ir.Node) (s spot, elements int) {
	for _, m := range all {
		e.comment("%s", describe(m))
	}
	s = e.locate(n)
	s.disp += all[0].Mem.Offset - n.Mem.Offset
	if size := n.Type.Size(); size < 4 {
		elements = 4 / size
	}
	return s, elements
}

func (e *emitter) loadNeighbours(n *ir.Node, all []*ir.Node) {
	s, elements := e.join(n, all)
	var to []string
	if elements == 0 {
		for _, m := range all {
			to = append(to, e.name(m.Result()))
		}
		e.line("ld.global%s%s.%s %s, %s%s;", e.hint(&s), vectorOf(len(to)), memType(n.Type), braces(to), s.at(0), e.policy(&s))
		return
	}
	for range len(all) / elements {
		to = append(to, e.temp(bankR))
	}
	e.line("ld.global%s%s.b32 %s, %s%s;", e.hint(&s), vectorOf(len(to)), braces(to), s.at(0), e.policy(&s))
	for k, m := range all {
		e.take(n.Type, e.name(m.Result()), to[k/elements], k%elements*n.Type.Bits())
	}
}

func (e *emitter) storeNeighbours(n *ir.Node, all []*ir.Node) {
	s, elements := e.join(n, all)
	var from []string
	value := func(k int) *ir.Value { return all[k].Args[all[k].AddrArgs()] }
	for k := range all {
		from = append(from, e.register(n.Type, e.arg(value(k))))
	}
	if elements == 0 {
		e.line("st.global%s.%s %s, %s;", vectorOf(len(from)), storeType(n.Type), s.at(0), braces(from))
		return
	}
	if elements == 4 {
		from = e.joined(from, "0x0040")
	}
	var words []string
	for k := 0; k < len(from); k += 2 {
		words = append(words, e.temp(bankR))
		if low, ok := e.rounded(value(k)); ok && elements == 2 {
			if high, ok := e.rounded(value(k + 1)); ok {
				e.roundTwo(n.Type, words[k/2], low, high)
				continue
			}
		}
		e.line("prmt.b32 %s, %s, %s, 0x5410;", words[k/2], from[k], from[k+1])
	}
	e.line("st.global%s.b32 %s, %s;", vectorOf(len(words)), s.at(0), braces(words))
}
