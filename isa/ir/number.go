package ir

import "github.com/hologram-project/hologram/isa"

// number gives equal computations one value: a pure instruction or a load is
// replaced by an earlier equal one whose value is in scope. A load is equal
// only if nothing that it may see was written in between; that the slots of a
// launch do not overlap lets a store leave other slots' loads alone.
func number(f *Func) bool {
	summarize(f)
	n := &numberer{f: f, table: make(map[numberKey]*Value, 64), clock: 1}
	for _, v := range f.leaves {
		v.mark = n.clock
		n.clock++
	}
	n.region(f.Body)
	return n.changed
}

type numberKey struct {
	op   Op
	free bool
	form isa.Form
	imm  uint64
	mem  Mem
	seen uint32   // version of the memory read
	args [3]int32 // marks of the operands
}

type numberer struct {
	f       *Func
	table   map[numberKey]*Value
	added   []numberKey // to be taken back when their region ends
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
	base := len(n.added)
	n.define(r.Params)
	n.f.steps += len(r.Nodes)
	out := r.Nodes[:0]
	for _, nd := range r.Nodes {
		resolve(nd.Args)
		if len(nd.Regions) > 0 {
			n.construct(nd)
		} else if nd.numberable() {
			k := n.key(nd)
			if v, ok := n.table[k]; ok {
				nd.Results[0].repl = v
				n.changed = true
				continue
			}
			n.table[k] = nd.Results[0]
			n.added = append(n.added, k)
		} else {
			n.memory.write(nd.sum.writes)
		}
		n.define(nd.Results)
		out = append(out, nd)
	}
	clear(r.Nodes[len(out):])
	r.Nodes = out
	resolve(r.Yield)
	for _, k := range n.added[base:] {
		delete(n.table, k)
	}
	n.added = n.added[:base]
}

func (n *numberer) construct(nd *Node) {
	w := nd.sum.writes
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
// memory it reads.
func (n *Node) numberable() bool {
	return n.Op.IsInst() && n.effect()&^(isa.Pure|isa.Reads|isa.MayFault) == 0 && len(n.Results) == 1
}

func (n *numberer) key(nd *Node) numberKey {
	k := numberKey{op: nd.Op, free: nd.Free, form: nd.Form, imm: nd.Imm, mem: nd.Mem, seen: n.memory.of(&nd.Mem)}
	for i, a := range nd.Args {
		k.args[i] = a.mark
	}
	if row, _ := isa.Lookup(nd.Op.Inst()); commutes(nd, row) && k.args[0] > k.args[1] {
		k.args[0], k.args[1] = k.args[1], k.args[0]
	}
	return k
}

// commutes reports whether n's first two sources may be exchanged.
func commutes(n *Node, row *isa.Row) bool {
	return row.Commutes || n.Cond == isa.EQ || n.Cond == isa.NE
}
