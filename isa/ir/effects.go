package ir

import "github.com/hologram-project/hologram/isa"

// places is a set of things that a node may touch: slots, one bit each, and
// what is beside the slots.
type places struct {
	slots uint64
	other uint8
}

// What a lane touches beside slots.
const (
	placeShared uint8 = 1 << iota
	placePhase
	placePool // the lane's scratch areas
	// placeResidue is only ever added to, and read after the launch. So it
	// makes a node necessary and leaves its order free.
	placeResidue
	// placeEnd is whether the lane is still running. What may end it or lead
	// past what follows writes it; what would be missed reads it.
	placeEnd
	// placeIndexed is every slot accessed as slot[index]: a launch may bind two
	// of them to the identical view if no load of the one follows a store to
	// the other. So a load must not move behind a later store; anything else
	// may change places, which is why order treats it apart.
	placeIndexed
)

const allSlots = ^uint64(0)

func (p places) none() bool         { return p.slots == 0 && p.other == 0 }
func (p places) or(q places) places { return places{p.slots | q.slots, p.other | q.other} }

// ordered is what of other makes nodes keep their order by the rule of effects.
const ordered = ^(placeResidue | placeIndexed)

// effects is what a node does beside giving results. Two nodes of which one
// writes what the other reads or writes keep their order.
type effects struct{ reads, writes places }

func (e effects) or(f effects) effects {
	return effects{e.reads.or(f.reads), e.writes.or(f.writes)}
}

// own returns the effects of n without those of its regions, from the table.
func (n *Node) own() effects {
	var e effects
	switch n.Op {
	case Const, If, Block:
		return e
	case Br:
		e.writes.other |= placeEnd
		return e
	case Loop:
		// A lane may run out of fuel in it.
		if !n.Free {
			e.writes.other |= placeEnd
		}
		return e
	}
	row, _ := isa.Lookup(n.Op.Inst())
	if row.Effect == isa.Pure {
		return e
	}
	var at places
	switch n.Mem.Mode {
	case isa.AddrShared:
		at.other = placeShared
	case isa.AddrIndirect:
		at.slots = allSlots
	case isa.AddrIndex, isa.AddrByte:
		at.slots = 1 << n.Mem.Slot
	}
	if n.Mem.Mode == isa.AddrIndex {
		at.other = placeIndexed
	}
	if row.Effect&isa.Reads != 0 {
		e.reads = at
	}
	if row.Effect&isa.Writes != 0 {
		e.writes = at
		e.reads.other |= placeEnd
	}
	if row.Effect&isa.State != 0 {
		e.reads.other |= placeEnd
		switch n.Op.Inst() {
		case isa.PHASE_GET, isa.PHASE_ADV:
			e.writes.other |= placePhase
		case isa.RES_ACCUM:
			e.writes.other |= placeResidue
		case isa.MEM_FENCE:
			e.writes.slots, e.writes.other = allSlots, e.writes.other|placeShared
		default:
			e.writes.other |= placePool
		}
	}
	if row.Effect&isa.Barrier != 0 {
		e.writes.slots, e.writes.other = allSlots, e.writes.other|placeShared
		e.reads.other |= placeEnd
	}
	if n.CanFault() {
		e.reads.other |= placeEnd
	}
	return e
}

// rooted reports whether a node with these effects must run even if its
// results are not used.
func (e effects) rooted() bool { return !e.writes.none() || e.reads.other&placeEnd != 0 }

// effects returns what n and its regions do, which for a construct is what the
// last summarize found.
func (n *Node) effects() effects {
	if len(n.Regions) > 0 {
		return n.sum
	}
	return n.own()
}

// summarize sets sum in every construct: its own effects and those of its
// regions. A Br only counts where it leaves the construct.
func summarize(f *Func) { summarizeRegion(f.Body, 1) }

// summarizeRegion returns the effects of r, whose nodes are at the given depth,
// and the least depth of a construct that a Br in it leads to.
func summarizeRegion(r *Region, depth int32) (effects, int32) {
	var all effects
	lowest := depth
	for _, n := range r.Nodes {
		n.mark = depth
		e := n.own()
		if n.Op == Br {
			to := int32(0)
			if n.Target != nil {
				to = n.Target.mark
			}
			lowest = min(lowest, to)
			continue
		}
		low := depth
		for _, s := range n.Regions {
			se, sl := summarizeRegion(s, depth+1)
			e = e.or(se)
			low = min(low, sl)
		}
		if low < depth {
			e.writes.other |= placeEnd
		}
		lowest = min(lowest, low)
		if len(n.Regions) > 0 {
			if n.links == nil {
				n.links = &links{}
			}
			n.sum = e
		}
		all = all.or(e)
	}
	return all, lowest
}
