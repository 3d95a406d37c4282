package ir

// tail turns jumps into falling through. A Br that stands where the region
// leads to its target anyway becomes the region's yield; a Block that no Br is
// left to dissolves, and a Block's nodes before the first that may leave it
// move out in front of it. So a diamond becomes an If with results.
//
// Of an If of which a region ends, the other region moves behind it: a chain
// of guards becomes a list, not a nest.
func tail(f *Func) bool {
	t := &tailer{f: f}
	t.count(f.Body)
	t.region(f.Body, nil, true)
	return t.changed
}

type tailer struct {
	f       *Func
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
	plain := 0 // instructions at the front stay where they are
	for plain < len(nodes) && nodes[plain].Op.IsInst() {
		plain++
	}
	out := nodes[:0:plain] // the rest may move into an If
	for i, n := range nodes {
		t.f.work.Step(1)
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
			var took bool
			if out, took = t.branch(n, r, out, nodes[i+1:], target, leads); took {
				last = true
			}
		default:
			out = append(out, n)
		}
		if last || ends(out) {
			t.changed = t.changed || !last
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
		k := t.first[n]
		// What Blocks within moved out to the front of body came after that was
		// noted. Instructions can't leave n, so they go on at once, not by one
		// Block a round.
		for body.Nodes[k].Op.IsInst() {
			k++
		}
		if k > 0 {
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

// branch works on an If and appends it to out, r's new list. It reports
// whether it has dealt with the rest of r as well.
func (t *tailer) branch(n *Node, r *Region, out []*Node, rest []*Node, target *Node, leads bool) ([]*Node, bool) {
	a, b := n.Regions[0], n.Regions[1]
	if leads && len(n.Results) == 0 {
		if a.Ends() && len(b.Nodes) == 0 {
			return t.guard(n, a, b, r, out, rest, target)
		}
		if b.Ends() && len(a.Nodes) == 0 {
			return t.guard(n, b, a, r, out, rest, target)
		}
	}
	tail := leads && len(rest) == 0
	fellA, fellB := !a.Ends(), !b.Ends()
	t.region(a, target, tail && !fellA)
	t.region(b, target, tail && !fellB)
	fallsA, fallsB := !a.Ends(), !b.Ends()
	if fallsA && fallsB {
		if fellA && fellB {
			return append(out, n), false
		}
		// The regions that fell before now yield what r yields.
		for i, s := range n.Regions {
			if fell := [2]bool{fellA, fellB}[i]; fell {
				s.Yield = yieldThrough(r.Yield, n, s)
			}
		}
		t.join(n, r)
		return append(out, n), false
	}
	// One region moves behind the If: the one that falls; if both end, the
	// second, and the rest is never reached.
	moved, fell := b, fellB
	if fallsA {
		moved, fell = a, fellA
	}
	if len(moved.Nodes) > 0 || len(n.Results) > 0 || len(moved.Yield) > 0 {
		t.changed = true
	}
	switch {
	case moved.Ends():
	case fell:
		for i, y := range moved.Yield {
			n.Results[i].repl = y
		}
	default:
		r.Yield = moved.Yield
	}
	n.Results = nil
	out = append(append(out, n), moved.Nodes...)
	moved.Nodes, moved.Yield = nil, nil
	return out, false
}

// guard works on an If of which region g ends and o is empty. If g leads to
// where r leads, the rest of r becomes the other side, o.
func (t *tailer) guard(n *Node, g, o, r *Region, out []*Node, rest []*Node, target *Node) ([]*Node, bool) {
	t.region(g, target, true)
	if g.Ends() {
		// Of two sides that end, one with a nest stands behind, not within.
		last := ends(rest)
		if last {
			end := rest[len(rest)-1]
			last = end.Op == Loop || end.Target != target
		}
		if !last || !nests(g.Nodes) || nests(rest) {
			return append(out, n), false
		}
		o.Nodes = rest
		t.region(o, target, true)
		out = append(append(out, n), g.Nodes...)
		g.Nodes, r.Yield = nil, nil
		t.changed = true
		return out, true
	}
	o.Nodes, o.Yield = rest, r.Yield
	t.region(o, target, true)
	t.changed = true
	if !o.Ends() {
		t.join(n, r)
		return append(out, n), true
	}
	out = append(append(out, n), g.Nodes...)
	r.Yield = g.Yield
	g.Nodes, g.Yield = nil, nil
	return out, true
}

// join makes what both regions of n yield its results, and these what r
// yields.
func (t *tailer) join(n *Node, r *Region) {
	n.Results = nil
	r.Yield = nil
	for _, y := range n.Regions[0].Yield {
		r.Yield = append(r.Yield, n.addResult(y.Type))
	}
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

func nests(nodes []*Node) bool {
	for _, n := range nodes {
		if len(n.Regions) > 0 {
			return true
		}
	}
	return false
}
