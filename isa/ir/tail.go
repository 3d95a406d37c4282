package ir

// tail turns jumps into falling through. A Br that stands where the region
// leads to its target anyway becomes the region's yield; a Block that no Br is
// left to dissolves, and a Block's nodes before the first that may leave it
// move out in front of it. So a diamond becomes an If with results.
//
// Of an If of which a region ends, the other region moves behind it: a chain
// of guards becomes a list, not a nest.
func tail(f *Func) bool {
	t := &tailer{}
	t.count(f.Body)
	t.region(f.Body, nil, true)
	return t.changed
}

type tailer struct {
	changed bool
	// at is, while a Block's region is worked on, the place in it that has
	// been reached; first is that of the first node with a Br to the Block.
	at, first map[*Node]int
}

// count counts the Brs to each construct.
func (t *tailer) count(r *Region) {
	for _, n := range r.Nodes {
		n.mark = 0
		if n.Op == Br && n.Target != nil {
			n.Target.mark++
		}
		for _, sub := range n.Regions {
			t.count(sub)
		}
	}
}

// region works on r. If leads, its end leads to target with what it yields.
func (t *tailer) region(r *Region, target *Node, leads bool) {
	nodes := r.Nodes
	out := make([]*Node, 0, len(nodes))
	for i, n := range nodes {
		resolve(n.Args)
		if target != nil && target.Op == Block && r == target.Regions[0] {
			t.setAt(target, len(out))
		}
		last := i == len(nodes)-1
		switch n.Op {
		case Br:
			if leads && n.Target == target {
				r.Yield = n.Args
				if target != nil {
					target.mark--
				}
				t.changed = true
				break
			}
			t.leave(n)
			out = append(out, n)
		case Loop:
			t.region(n.Regions[0], n, true)
			out = append(out, n)
		case Block:
			out = t.block(n, r, out)
		case If:
			out = t.branch(n, r, out, target, leads && last)
		default:
			out = append(out, n)
		}
		if !last && ends(out) {
			t.changed = true
			break
		}
	}
	r.Nodes = out
	if r.Ends() {
		r.Yield = nil
	}
	resolve(r.Yield)
}

func (t *tailer) setAt(b *Node, at int) {
	if t.at == nil {
		t.at, t.first = map[*Node]int{}, map[*Node]int{}
	}
	t.at[b] = at
}

// leave notes a Br that stays.
func (t *tailer) leave(br *Node) {
	if b := br.Target; b != nil && b.Op == Block {
		if _, ok := t.first[b]; !ok {
			t.first[b] = t.at[b]
		}
	}
}

// block works on a Block and appends what is left of it to out, r's new list.
func (t *tailer) block(n *Node, r *Region, out []*Node) []*Node {
	body := n.Regions[0]
	t.setAt(n, 0)
	t.region(body, n, true)
	if n.mark > 0 {
		if k := t.first[n]; k > 0 {
			t.changed = true
			out = append(out, body.Nodes[:k]...)
			body.Nodes = body.Nodes[k:]
		}
		return append(out, n)
	}
	t.changed = true
	for i, y := range body.Yield {
		n.Results[i].repl = y
	}
	return append(out, body.Nodes...)
}

// branch works on an If and appends it to out, r's new list. If tail, it is
// r's last node and the end of r leads to target.
func (t *tailer) branch(n *Node, r *Region, out []*Node, target *Node, tail bool) []*Node {
	a, b := n.Regions[0], n.Regions[1]
	fellA, fellB := !a.Ends(), !b.Ends()
	t.region(a, target, tail && !fellA)
	t.region(b, target, tail && !fellB)
	fallsA, fallsB := !a.Ends(), !b.Ends()
	if fallsA && fallsB {
		if fellA && fellB {
			return append(out, n)
		}
		// The regions that fell before now yield what r yields.
		for i, s := range n.Regions {
			if fell := [2]bool{fellA, fellB}[i]; fell {
				s.Yield = yieldThrough(r.Yield, n, s)
			}
		}
		n.Results = nil
		r.Yield = nil
		for _, y := range a.Yield {
			r.Yield = append(r.Yield, n.addResult(y.Type))
		}
		return append(out, n)
	}
	// One region moves behind the If: the one that falls; if both end, the
	// second, unless only the first has a nest of its own.
	moved := b
	if fallsA || !fallsB && a.nests() && !b.nests() {
		moved = a
	}
	fell := fellA
	if moved == b {
		fell = fellB
	}
	if len(moved.Nodes) > 0 || len(n.Results) > 0 || len(moved.Yield) > 0 {
		t.changed = true
	}
	switch {
	case moved.Ends():
		r.Yield = nil
	case fell:
		for i, y := range moved.Yield {
			n.Results[i].repl = y
		}
		if tail {
			resolve(r.Yield)
		}
	default:
		r.Yield = moved.Yield
	}
	n.Results = nil
	out = append(append(out, n), moved.Nodes...)
	moved.Nodes, moved.Yield = nil, nil
	return out
}

// yieldThrough returns what r's yield is where If n falls through region s.
func yieldThrough(yield []*Value, n *Node, s *Region) []*Value {
	through := make([]*Value, len(yield))
	for i, y := range yield {
		y = y.find()
		if y.Node == n {
			y = s.Yield[y.Index]
		}
		through[i] = y
	}
	return through
}

func (r *Region) nests() bool {
	for _, n := range r.Nodes {
		if len(n.Regions) > 0 {
			return true
		}
	}
	return false
}
