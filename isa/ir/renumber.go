package ir

import "github.com/hologram-project/hologram/isa"

// renumber finishes a Func: leaves go to the start of Body in the order in
// which they are used, values, sites, scratch areas and tables are numbered in
// order, what is declared and not used goes, and Slots is made to say how the
// nodes use the slots. (Slots and parameters stay, used or not: a launch gives
// all of them.)
func renumber(f *Func) {
	r := &renumberer{f: f, allocs: map[uint64]uint64{}, tables: usedTables{from: f.Data}}
	leaves := f.leaves.list // none if it was numbered before: they are in Body
	f.leaves = leafTable{}
	r.used = make([]*Node, 0, len(leaves))
	for _, v := range leaves {
		v.mark = 0
	}
	r.leaves(f.Body)
	if len(r.used) > 0 {
		f.numberGiven(r.used)
		f.Body.Nodes = append(r.used, f.Body.Nodes...)
	}
	f.Sites = nil
	r.region(f.Body)
	f.NumValues = r.next
	f.Data, f.tables = r.tables.to, nil
	if !r.shared {
		f.Shared = 0
	}
	f.useSlots()
}

type renumberer struct {
	f      *Func
	used   []*Node
	next   int
	allocs map[uint64]uint64
	tables usedTables
	shared bool // something accesses shared memory
}

// leaves collects the leaves that r uses and Body does not hold yet.
func (r *renumberer) leaves(reg *Region) {
	use := func(list []*Value) {
		for _, v := range list {
			if v.Node != nil && v.mark == 0 && v.Node.isLeaf() {
				v.mark = 1
				r.used = append(r.used, v.Node)
			}
		}
	}
	for _, n := range reg.Nodes {
		if n.isLeaf() {
			n.Results[0].mark = 1
			continue
		}
		use(n.Args)
		for _, sub := range n.Regions {
			r.leaves(sub)
		}
	}
	use(reg.Yield)
}

func (r *renumberer) number(list []*Value) {
	for i, v := range list {
		v.ID, v.Index = r.next, uint16(i)
		r.next++
	}
}

func (r *renumberer) region(reg *Region) {
	r.number(reg.Params)
	for _, n := range reg.Nodes {
		n.Site, n.links = -1, nil
		if n.IsSite() {
			n.Site = len(r.f.Sites)
			r.f.Sites = append(r.f.Sites, n)
		}
		if n.Mem.Mode == isa.AddrShared {
			r.shared = true
		}
		switch n.Op {
		case Op(isa.LDC):
			n.Imm = r.tables.number(n.Imm)
		case Op(isa.POOL_ALLOC):
			old := n.Imm >> 32
			ord, ok := r.allocs[old]
			if !ok {
				ord = uint64(len(r.allocs))
				r.allocs[old] = ord
			}
			n.Imm = ord<<32 | n.Imm&(1<<32-1)
		}
		for _, sub := range n.Regions {
			r.region(sub)
		}
		r.number(n.Results)
	}
}

// useSlots recomputes f.Slots.
func (f *Func) useSlots() {
	n := len(f.SlotTypes)
	u := &slotUser{slots: make([]isa.SlotUse, n), after: make([]uint64, n), left: map[*Node]uint64{}}
	u.region(f.Body)
	for s := range u.slots {
		for t := range n {
			if t != s && u.after[s]&(1<<t) != 0 {
				u.slots[s].LoadsAfterStoreTo = append(u.slots[s].LoadsAfterStoreTo, t)
			}
		}
	}
	f.Slots = u.slots
}

// slotUser gathers how slots are used. stored is the set of slots that may
// have been stored to on the way here, 0 where no way leads; left, by
// construct, those at the Brs to it; after, by slot, those before a load of it.
type slotUser struct {
	slots  []isa.SlotUse
	stored uint64
	left   map[*Node]uint64
	after  []uint64
}

func (u *slotUser) region(r *Region) {
	for _, n := range r.Nodes {
		u.access(n)
		switch n.Op {
		case Br:
			u.left[n.Target] |= u.stored
		case Loop:
			// A later round's loads come after an earlier one's stores.
			u.stored |= n.Regions[0].stores()
		}
		before, end := u.stored, uint64(0)
		for _, sub := range n.Regions {
			u.stored = before
			u.region(sub)
			end |= u.stored
		}
		switch n.Op {
		case Br:
			u.stored = 0 // nothing follows
		case If:
			u.stored = end
		case Block:
			u.stored = end | u.left[n]
		case Loop:
			u.stored = before // no round, or what stores() has counted
			if !n.Counted {
				u.stored = 0
			}
		}
	}
}

// access notes what n itself does to slots.
func (u *slotUser) access(n *Node) {
	if n.Mem.Mode == 0 {
		return
	}
	e := n.own()
	for s := range u.slots {
		bit := uint64(1) << s
		if e.reads.slots&bit != 0 {
			u.slots[s].Reads = true
			u.after[s] |= u.stored
		}
		if e.writes.slots&bit != 0 {
			u.slots[s].Writes = true
			u.stored |= bit
		}
		if (e.reads.slots|e.writes.slots)&bit != 0 {
			if n.Mem.Mode == isa.AddrIndex {
				u.slots[s].Indexed = true
			} else {
				u.slots[s].Bytes = true
			}
		}
	}
}

// stores returns the slots that r may store to.
func (r *Region) stores() uint64 {
	var m uint64
	for _, n := range r.Nodes {
		if n.Mem.Mode != 0 {
			m |= n.own().writes.slots
		}
		for _, sub := range n.Regions {
			m |= sub.stores()
		}
	}
	return m
}
