package jit

import "github.com/hologram-project/hologram/isa/ir"

// The canonical form has what cannot be noticed right before its first use, and so behind
// all loops that come before that: of four sums that loops make, the four would be kept
// to the end, each for all groups, to be added up there. So what makes one value of
// several that nothing else uses, or of the only one it needs, is done as soon as they are
// there: also before a place where lanes meet, behind which all would have to be kept.

// soon returns nodes of one region in such an order; uses has how often each value is used. Those that stay are
// made by who uses them, from what they are made of, and so have to be no farther away.
func soon(nodes []*ir.Node, uses map[*ir.Value]int, stay map[*ir.Node]bool) []*ir.Node {
	place := map[*ir.Node]int{} // of those in nodes: behind which of them they come, themselves if they stay
	behind := make([][]*ir.Node, len(nodes))
	for i, n := range nodes {
		last, ends := -1, 0
		for _, a := range n.Args {
			if k, ok := place[a.Node]; ok && a.Node.Op != ir.Const {
				last = max(last, k)
				if uses[a] == 1 {
					ends++
				}
			}
		}
		place[n] = i
		if !stay[n] && (ends > 1 || ends == 1 && len(n.Args) == 1) && n.Op.IsInst() && len(n.Results) == 1 && n.Mem.Mode == 0 && pure(n) {
			place[n] = last
			behind[last] = append(behind[last], n)
		}
	}
	out := make([]*ir.Node, 0, len(nodes))
	for i, n := range nodes {
		if place[n] == i {
			out = append(out, n)
		}
		out = append(out, behind[i]...)
	}
	return out
}

// countUses counts how often each value is used.
func countUses(r *ir.Region, uses map[*ir.Value]int) map[*ir.Value]int {
	for _, n := range r.Nodes {
		for _, a := range n.Args {
			uses[a]++
		}
		for _, s := range n.Regions {
			countUses(s, uses)
		}
	}
	for _, v := range r.Yield {
		uses[v]++
	}
	return uses
}
