package isa

import "fmt"

// checkVerified checks what graph.go promises of a graph.
func checkVerified(v *Verified) error {
	g := &v.Graph
	n := len(g.Blocks)
	if n == 0 {
		return fmt.Errorf("no blocks")
	}
	for at, ways := range v.BackEdges {
		if min(at.Entry, at.Inst) < 0 || max(at.Entry, at.Inst) >= len(v.Program.Insts) || ways == 0 || ways > BackTaken|BackOnward {
			return fmt.Errorf("back edge %v %v", at, ways)
		}
	}
	if len(v.Slots) != len(v.Program.Slots) {
		return fmt.Errorf("%d slots", len(v.Slots))
	}
	pred := make([][]int, n)
	for b := range g.Blocks {
		t := &g.Blocks[b].Term
		for _, s := range t.Successors() {
			if s <= 0 || s >= n {
				return fmt.Errorf("block %d leads to %d of %d", b, s, n)
			}
			pred[s] = append(pred[s], b)
		}
		for _, l := range g.Blocks[b].Code {
			if row, ok := Lookup(l.Op); !ok || row.Effect&Control != 0 {
				return fmt.Errorf("block %d holds %v", b, l.Op)
			}
			if l.Inst != &v.Program.Insts[l.Src] {
				return fmt.Errorf("block %d: not instruction %d of the program", b, l.Src)
			}
		}
	}
	latches := map[int]int{}
	starts := map[int]int{} // by header
	for b := range g.Blocks {
		switch t := &g.Blocks[b].Term; t.Kind {
		case TermLoop:
			if _, ok := starts[t.To[0]]; ok {
				return fmt.Errorf("header %d of two loops", t.To[0])
			}
			starts[t.To[0]] = b
		case TermLatch:
			if _, ok := latches[t.To[0]]; ok {
				return fmt.Errorf("two latches lead to %d", t.To[0])
			}
			latches[t.To[0]] = b
		case TermBranch:
			if t.To[0] == t.To[1] {
				return fmt.Errorf("block %d: both ways lead to %d", b, t.To[0])
			}
			if t.Pred.Kind != ArgPred {
				return fmt.Errorf("block %d branches on %v", b, t.Pred.Kind)
			}
		case TermJump:
			if to := t.To[0]; len(pred[to]) == 1 && starts[to] == 0 {
				// A header is known by now: its LOOP comes before it.
				return fmt.Errorf("blocks %d and %d are one", b, to)
			}
		case TermExit:
		default:
			return fmt.Errorf("block %d ends in %d", b, t.Kind)
		}
	}
	for h, b := range latches {
		start, ok := starts[h]
		if !ok {
			return fmt.Errorf("latch %d of no loop", b)
		}
		if x, y := g.Blocks[start].Term.To[1], g.Blocks[b].Term.To[1]; x != y {
			return fmt.Errorf("loop ends at %d, its latch at %d", x, y)
		}
	}
	for h := range starts {
		for _, p := range pred[h] {
			if l, ok := latches[h]; p != starts[h] && !(ok && p == l) {
				return fmt.Errorf("header %d is reached from %d", h, p)
			}
		}
	}
	dom := slowDominators(n, pred)
	for b := range g.Blocks {
		if b > 0 && len(pred[b]) == 0 {
			return fmt.Errorf("block %d is not reached", b)
		}
		forward := b == 0
		for _, p := range pred[b] {
			forward = forward || p < b
			if p >= b && !dom[p][b] {
				return fmt.Errorf("edge %d to %d goes back to what does not dominate", p, b)
			}
		}
		if !forward {
			return fmt.Errorf("block %d is reached from later ones only", b)
		}
	}
	return nil
}

// slowDominators gives the set of dominators of each block, by iteration; only
// for graphs of moderate size, else every block is said to dominate all.
func slowDominators(n int, pred [][]int) []map[int]bool {
	dom := make([]map[int]bool, n)
	all := map[int]bool{}
	for b := range n {
		all[b] = true
	}
	for b := range dom {
		dom[b] = all
	}
	if n > 200 {
		return dom
	}
	dom[0] = map[int]bool{0: true}
	for changed := true; changed; {
		changed = false
		for b := 1; b < n; b++ {
			d := map[int]bool{b: true}
			for x := range all {
				in := len(pred[b]) > 0
				for _, p := range pred[b] {
					in = in && dom[p][x]
				}
				if in {
					d[x] = true
				}
			}
			if len(d) != len(dom[b]) {
				dom[b], changed = d, true
			}
		}
	}
	return dom
}
