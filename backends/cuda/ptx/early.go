package ptx

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Early loads. The canonical order has each load just before what needs it. The
// driver's compiler moves loads ahead, but none before a store, since both may touch the
// same memory for all it knows: where loads and stores take turns, each load would be
// waited for. So those that may pass stores do it here.

// How many bytes of a lane's are loaded ahead of stores: so many at first, and as many
// more as have been stored, of which registers are free again.
const (
	firstAhead = 64
	mostAhead  = 192
)

// early is a region with loads ahead of stores, where no access is stray.
func (e *emitter) early(r *ir.Region) *ir.Region {
	if !e.opt.Proved || !e.opt.Aligned {
		return r
	}
	// from is the first place to which a load can go.
	defined, from := map[*ir.Node]int{}, make([]int, len(r.Nodes))
	fence, stored, moves := 0, map[int]int{}, false
	var loads []int
	for i, n := range r.Nodes {
		defined[n] = i
		p, ok := placeOf(n)
		switch {
		case n.Op == ir.Const:
		case !n.Op.IsInst():
			fence = i + 1
		case ok && n.Op.Inst() == isa.STG:
			stored[p.slot] = i + 1
		case ok && !e.opt.told(p.slot):
			from[i] = max(fence, stored[p.slot])
			for _, a := range n.Args {
				if at, here := defined[a.Node]; here {
					from[i] = max(from[i], at+1)
				}
			}
			loads = append(loads, i)
			moves = moves || len(stored) > 0
		default:
			if row, _ := isa.Lookup(n.Op.Inst()); row.Effect&^(isa.Pure|isa.MayFault) != 0 {
				fence = i + 1
			}
		}
	}
	if !moves {
		return r
	}
	next, ahead, budget := 0, 0, firstAhead
	gone := make([]bool, len(r.Nodes))
	nodes := make([]*ir.Node, 0, len(r.Nodes))
	for i, n := range r.Nodes {
		if gone[i] {
			ahead -= n.Type.Size()
			continue
		}
		for next < len(loads) && loads[next] <= i {
			next++
		}
		if n.Op.IsInst() && n.Op.Inst() == isa.STG {
			for ; next < len(loads) && ahead < budget && from[loads[next]] <= i; next++ {
				m := r.Nodes[loads[next]]
				nodes, gone[loads[next]] = append(nodes, m), true
				ahead += m.Type.Size()
			}
			budget = min(budget+n.Type.Size(), mostAhead)
		}
		nodes = append(nodes, n)
	}
	moved := *r
	moved.Nodes = nodes
	return &moved
}
