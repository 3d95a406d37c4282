package ptx

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Collectives of one kind that need none of each other's results are done together,
// between the same barriers. The canonical order has what each needs just before it; here
// it goes before the first of them.

// mostTogether is how much scratch collectives take that are done together: of blocks of 256
// lanes sixteen of f32. Of more, blocks would find less room; and no block of any device
// has more than leastShared, with the program's own.
const (
	mostTogether = 16 << 10
	leastShared  = 64 << 10
)

// mostScans is mostTogether of scans: of blocks of 256 lanes 32 of f32, scanApart elements apart
// from each other. The more, the fewer shuffles they take (scanTogether), so that they are worth
// the room; but where a run has more than scansAtOnce, and its blocks so many registers that two
// are at work at once at most, what the room takes from the L1 cache is worth more.
const (
	mostScans   = 32 * (256 + scanApart) * 4
	scanApart   = warp / 2
	scansAtOnce = 48
)

// Blocks that do so many scans together have registers for what they scan and for what is
// beside it: as many blocks are at work at once as a multiprocessor has registers for, but no
// more than mostAtOnce are asked for, since a program may hold more beside than was seen.
const (
	manyScans  = 16
	registers  = 64 << 10
	mostAtOnce = 3
)

// besideScans is how many registers a lane has beside what it scans, as ptxas was seen to need.
func (e *emitter) besideScans() int {
	switch {
	case e.p.element > 4:
		return 56
	case slices.ContainsFunc(e.fn.SlotTypes, func(t isa.Type) bool { return t.Size() < 4 }):
		return 43
	}
	return 35
}

// mostOfScan is how many elements of scans a lane has in registers at once.
const mostOfScan = 32

// together is how many of a run of collectives blocks of a number of lanes do together.
func (p *Program) together(run, lanes int) int {
	if lanes <= warp || lanes%warp != 0 {
		return 1
	}
	most, each := mostTogether, lanes
	if p.shares() {
		most, each = mostScans, lanes+scanApart
	}
	return max(1, min(run, p.run, min(most, leastShared-scratchAt-p.shared)/(each*p.element)))
}

// shares reports whether warps may have parts for several scans at once.
func (p *Program) shares() bool { return p.scans && p.run <= scansAtOnce }

// mostRun is how many collectives are looked at for being done together.
const mostRun = 64

// follows are the collectives that begin with a node, of one kind and none of another's result:
// where the blocks' lanes are known they are done together.
func follows(r *ir.Region, i int) []*ir.Node {
	run := r.Nodes[i:min(i+mostRun, len(r.Nodes))]
	for k, m := range run {
		if m.Op != run[0].Op || m.Form != run[0].Form || slices.Contains(run[:k], m.Args[0].Node) {
			return run[:k]
		}
	}
	return run
}

// mostBetween is how far from a collective others are looked for.
const mostBetween = 1024

// regrouped is a region whose collectives that can be done together follow each other.
func regrouped(r *ir.Region) *ir.Region {
	var nodes []*ir.Node // nil: as they are
	moved := make([]bool, len(r.Nodes))
	for i, n := range r.Nodes {
		if moved[i] {
			continue
		}
		if run, before := others(r.Nodes[i:]); len(run) > 1 {
			if nodes == nil {
				nodes = append(make([]*ir.Node, 0, len(r.Nodes)), r.Nodes[:i]...)
			}
			for _, k := range slices.Concat(before, run) {
				nodes, moved[i+k] = append(nodes, r.Nodes[i+k]), true
			}
			continue
		}
		if nodes != nil {
			nodes = append(nodes, n)
		}
	}
	if nodes == nil {
		return r
	}
	g := *r
	g.Nodes = nodes
	return &g
}

// others are the places of collectives that can be done together with the first node, and
// of what they need that stands behind it.
func others(nodes []*ir.Node) (run, before []int) {
	if _, ok := collectives[nodes[0].Op.Inst()]; !ok || !nodes[0].Op.IsInst() {
		return nil, nil
	}
	run = []int{0}
	behind, of := map[*ir.Node]int{}, map[*ir.Node]bool{nodes[0]: true} // what may go before, and the results and what is made of them
	for k := 1; k < min(len(nodes), mostBetween) && len(run) < mostRun; k++ {
		n := nodes[k]
		needs := slices.ContainsFunc(n.Args, func(a *ir.Value) bool { return of[a.Node] })
		switch {
		case !needs && n.Op == nodes[0].Op && n.Form == nodes[0].Form:
			run, of[n] = append(run, k), true
		case !free(n):
			k = len(nodes)
		case needs:
			of[n] = true
		default:
			behind[n] = k
		}
	}
	needed := map[int]bool{}
	var need func(n *ir.Node)
	need = func(n *ir.Node) {
		for _, a := range n.Args {
			if k, ok := behind[a.Node]; ok && !needed[k] {
				needed[k] = true
				before = append(before, k)
				need(a.Node)
			}
		}
	}
	for _, k := range run {
		need(nodes[k])
	}
	slices.Sort(before)
	return run, before
}

// free reports whether a node may go anywhere behind what it needs.
func free(n *ir.Node) bool {
	if n.Op == ir.Const {
		return true
	}
	if !n.Op.IsInst() || n.CanFault() {
		return false
	}
	row, _ := isa.Lookup(n.Op.Inst())
	return row.Effect&^isa.MayFault == isa.Pure
}
