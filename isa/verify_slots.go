package isa

import "math/bits"

// checkPools adds up the scratch that a lane needs.
func (v *verifier) checkPools() error {
	seen := map[int]bool{} // inlined copies of an instruction share its area
	for b := range v.out.Graph.Blocks {
		for i := range v.out.Graph.Blocks[b].Code {
			l := &v.out.Graph.Blocks[b].Code[i]
			if l.Op != POOL_ALLOC || seen[l.Src] {
				continue
			}
			seen[l.Src] = true
			if size := l.Args[1].Bits; size > uint64(MaxPoolBytes-v.out.PoolBytes) {
				return v.failf("pool", l.Src, "%d bytes more than the %d of the allocations before exceed the %d that a lane may have", size, v.out.PoolBytes, MaxPoolBytes)
			}
			v.out.PoolBytes += int(l.Args[1].Bits)
		}
	}
	return nil
}

// access calls slot for each slot that in may access in memory, with the
// address operand.
func access(in *Inst, slots int, slot func(s int, a *Arg)) {
	row, _ := Lookup(in.Op)
	for k := range row.Operands {
		switch row.Operands[k].Kind {
		case Mem, AnyMem:
			switch a := &in.Args[k]; a.Mode {
			case AddrShared:
			case AddrIndirect:
				for s := range slots {
					slot(s, a)
				}
			default:
				slot(int(a.Slot), a)
			}
		}
	}
}

// findSlotUse sets out.Slots.
func (v *verifier) findSlotUse() {
	g := &v.out.Graph
	n := len(v.p.Slots)
	use := make([]SlotUse, n)
	v.out.Slots = use
	stored := make([]uint64, len(g.Blocks)) // at entry: set of slots that may have been stored to; MaxSlots bits
	after := make([]uint64, n)              // set of slots stored to before a load of this one
	seen := make([]bool, len(g.Blocks))     // every block is looked at, whether or not a store precedes it
	propagate(v.work, len(g.Blocks), func(b int, touch func(int)) {
		before := stored[b]
		v.work.Step(len(g.Blocks[b].Code))
		for i := range g.Blocks[b].Code {
			in := g.Blocks[b].Code[i].Inst
			row, _ := Lookup(in.Op)
			if row.Effect&(Reads|Writes) == 0 {
				continue
			}
			var stores uint64
			access(in, n, func(s int, a *Arg) {
				u := &use[s]
				u.Indexed = u.Indexed || a.Mode == AddrIndex
				u.Flat = u.Flat || a.Mode == AddrFlat
				u.Bytes = u.Bytes || a.Mode != AddrIndex && a.Mode != AddrFlat
				if row.Effect&Reads != 0 {
					u.Reads = true
					after[s] |= before
				}
				if row.Effect&Writes != 0 {
					u.Writes = true
					stores |= 1 << s
				}
			})
			before |= stores
		}
		for _, s := range g.Blocks[b].Term.Successors() {
			if !seen[s] || before&^stored[s] != 0 {
				seen[s] = true
				stored[s] |= before
				touch(s)
			}
		}
	})
	for s := range use {
		for m := after[s] &^ (1 << s); m != 0; m &= m - 1 {
			use[s].LoadsAfterStoreTo = append(use[s].LoadsAfterStoreTo, bits.TrailingZeros64(m))
		}
	}
}
