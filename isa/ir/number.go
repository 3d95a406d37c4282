package ir

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// number gives equal computations one value: a pure instruction or a load is
// replaced by an earlier equal one whose value is in scope. A load is equal
// only if nothing that it may see was written in between; that the slots of a
// launch do not overlap lets a store leave other slots' loads alone. What has a
// site keeps it: an expanded program's equal operations may have become equal
// with the expansions, and sites are counted.
func number(f *Func) bool {
	summarize(f)
	n := &numberer{f: f, clock: 1}
	n.table.init(f.nodes)
	for _, v := range f.leaves.list {
		v.mark = n.clock
		n.clock++
	}
	n.region(f.Body)
	return n.changed
}

// numberTable finds the computations in scope by their hash. Those of a region
// are taken back, the last first, when it ends.
type numberTable struct {
	heads   []int32 // by hash: the last entry, plus one
	entries []numberEntry
}

type numberEntry struct {
	hash uint64
	node *Node
	seen uint32 // version of the memory read
	next int32  // the entry before with the same head, plus one
}

// init makes room for n entries, about.
func (t *numberTable) init(n int) {
	size := 64
	for size < n {
		size *= 2
	}
	t.heads = make([]int32, size)
	t.entries = make([]numberEntry, 0, n)
}

// find returns an entry's node that computes what nd does, or nil.
func (t *numberTable) find(hash uint64, nd *Node, seen uint32) *Node {
	for i := t.heads[hash&uint64(len(t.heads)-1)]; i > 0; i = t.entries[i-1].next {
		if e := &t.entries[i-1]; e.hash == hash && e.seen == seen && sameComputation(e.node, nd) {
			return e.node
		}
	}
	return nil
}

func (t *numberTable) add(hash uint64, nd *Node, seen uint32) {
	head := &t.heads[hash&uint64(len(t.heads)-1)]
	t.entries = append(t.entries, numberEntry{hash, nd, seen, *head})
	*head = int32(len(t.entries))
}

// shrink takes back all entries from number n on.
func (t *numberTable) shrink(n int) {
	for i := len(t.entries) - 1; i >= n; i-- {
		e := &t.entries[i]
		t.heads[e.hash&uint64(len(t.heads)-1)] = e.next
		e.node = nil
	}
	t.entries = t.entries[:n]
}

// numberHash hashes what nd computes; seen is the version of the memory it
// reads. Operands go by their mark.
func numberHash(nd *Node, seen uint32) uint64 {
	h := mix(formHash(nd), nd.Imm)
	if nd.Mem.Mode != 0 {
		h = mix(h, uint64(nd.Mem.Mode)<<32|uint64(nd.Mem.Slot))
		h = mix(h, uint64(nd.Mem.Offset))
		h = mix(h, uint64(seen))
	}
	args := nd.Args
	if len(args) > 1 && nd.commutes() {
		a, b := uint64(args[0].mark), uint64(args[1].mark)
		h = mix(mix(h, min(a, b)), max(a, b))
		args = args[2:]
	}
	for _, a := range args {
		h = mix(h, uint64(a.mark))
	}
	return h
}

// sameComputation reports whether two nodes that read the same version of
// memory compute the same.
func sameComputation(a, b *Node) bool {
	if a.Op != b.Op || a.Form != b.Form || a.Free != b.Free || a.Imm != b.Imm || a.Mem != b.Mem || len(a.Args) != len(b.Args) {
		return false
	}
	if slices.Equal(a.Args, b.Args) {
		return true
	}
	return len(a.Args) > 1 && a.commutes() && a.Args[0] == b.Args[1] && a.Args[1] == b.Args[0] && slices.Equal(a.Args[2:], b.Args[2:])
}

type numberer struct {
	f       *Func
	table   numberTable
	clock   int32
	changed bool
	memory  versions
}

// versions counts what is written: for each slot, for shared memory, and for
// any slot at all. Equal versions mean that nothing was written in between.
type versions struct {
	slot        [isa.MaxSlots]uint32
	shared, any uint32
	last        uint32
}

func (m *versions) write(p places) {
	if p.slots != 0 {
		m.last++
		m.any = m.last
		for s := range m.slot {
			if p.slots&(1<<s) != 0 {
				m.slot[s] = m.last
			}
		}
	}
	if p.other&placeShared != 0 {
		m.last++
		m.shared = m.last
	}
}

func (m *versions) of(mem *Mem) uint32 {
	switch mem.Mode {
	case isa.AddrIndex, isa.AddrByte:
		return m.slot[mem.Slot]
	case isa.AddrShared:
		return m.shared
	case isa.AddrIndirect:
		return m.any
	}
	return 0
}

func (n *numberer) define(list []*Value) {
	for _, v := range list {
		v.mark = n.clock
		n.clock++
	}
}

func (n *numberer) region(r *Region) {
	base := len(n.table.entries)
	n.define(r.Params)
	n.f.work.Step(1 + len(r.Nodes))
	out := r.Nodes[:0]
	for _, nd := range r.Nodes {
		resolve(nd.Args)
		if len(nd.Regions) > 0 {
			n.construct(nd)
		} else if nd.numberable() {
			seen := n.memory.of(&nd.Mem)
			hash := numberHash(nd, seen)
			if m := n.table.find(hash, nd, seen); m != nil {
				nd.Results[0].repl = m.Results[0]
				n.changed = true
				continue
			}
			n.table.add(hash, nd, seen)
		} else {
			n.memory.write(nd.effects().writes)
		}
		n.define(nd.Results)
		out = append(out, nd)
	}
	clear(r.Nodes[len(out):])
	r.Nodes = out
	resolve(r.Yield)
	n.table.shrink(base)
}

func (n *numberer) construct(nd *Node) {
	w := nd.effects().writes
	writes := w.slots != 0 || w.other&placeShared != 0
	switch {
	case !writes:
		for _, s := range nd.Regions {
			n.region(s)
		}
		return
	case nd.Op == Loop: // a round sees what earlier rounds wrote
		n.memory.write(w)
		n.region(nd.Regions[0])
	case nd.Op == If:
		before := n.memory
		n.region(nd.Regions[0])
		before.last = n.memory.last
		n.memory = before
		n.region(nd.Regions[1])
	default:
		n.region(nd.Regions[0])
	}
	n.memory.write(w)
}

// numberable reports whether n's result is a function of its operands and the
// memory it reads, and n not one of the sites that are numbered already.
func (n *Node) numberable() bool {
	return n.Site < 0 && n.Op.IsInst() && n.effect()&^(isa.Pure|isa.Reads|isa.MayFault) == 0 && len(n.Results) == 1
}

// commutes reports whether an instruction's first two sources may be exchanged.
func (n *Node) commutes() bool {
	row, _ := isa.Lookup(n.Op.Inst())
	return row.Commutes || n.Cond == isa.EQ || n.Cond == isa.NE
}
