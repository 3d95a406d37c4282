package isa

// This file makes the graph out of the routines: each call is replaced by a
// copy of the code called, then what is not reached is dropped, empty blocks
// are cut out and straight lines merged.

// buildGraph checks the rules of control and registers and sets out.Graph and
// out.BackEdges.
func (v *verifier) buildGraph() error {
	if len(v.p.Insts) == 0 {
		return v.fail("end", -1, "the program has no instructions", "end the program with exit")
	}
	x, err := v.newExplorer()
	if err != nil {
		return err
	}
	start, err := x.explore(0, 0, 0)
	if err != nil {
		return err
	}
	// The entry is a node of its own, so that nothing leads to it.
	g := &inliner{v: v, nodes: make([]node, 1, 1+start.total)}
	g.nodes[0] = node{kind: TermJump, next: [2]int32{1, 0}, src: -1}
	g.copy(start, -1)
	if err := g.checkLoops(); err != nil {
		return err
	}
	if err := g.checkRegisters(); err != nil {
		return err
	}
	g.cutEmpty()
	g.merge()
	return nil
}

// inliner holds the graph while it is made.
type inliner struct {
	v     *verifier
	nodes []node
	order []int32 // the reachable nodes in reverse postorder
	rank  []int32 // place in order, -1 for what is not reached
	pred  adjacency
	keep  []bool // header of an uncounted loop, the goal of back edges
}

// copy appends a copy of r that returns to node back, and returns the number
// of its first node. It nests as deep as calls do, at most MaxCallDepth.
func (g *inliner) copy(r *routine, back int32) int32 {
	base := int32(len(g.nodes))
	g.v.work.Step(len(r.nodes))
	for _, n := range r.nodes {
		n.entry = int32(r.entry)
		for i, s := range n.successors() {
			n.next[i] = s + base
		}
		g.nodes = append(g.nodes, n)
	}
	for i := range r.nodes {
		switch n := g.nodes[base+int32(i)]; n.kind {
		case termRet:
			n.kind, n.next[0] = TermJump, back
			g.nodes[base+int32(i)] = n
		case termCall:
			n.next[0] = g.copy(n.callee, n.next[0])
			n.kind, n.callee = TermJump, nil
			g.nodes[base+int32(i)] = n
		}
	}
	return base
}

// each yields the edges between nodes.
func (g *inliner) each(yield func(from, to int32)) {
	for i := range g.nodes {
		for _, s := range g.nodes[i].successors() {
			yield(int32(i), s)
		}
	}
}

// walk sets order, rank and pred for the nodes as they are.
func (g *inliner) walk() (succ adjacency) {
	g.v.work.Step(len(g.nodes))
	succ = newAdjacency(len(g.nodes), g.each)
	_, _, g.order = depthFirst(succ, 0)
	g.rank = make([]int32, len(g.nodes))
	for i := range g.rank {
		g.rank[i] = -1
	}
	for i, n := range g.order {
		g.rank[n] = int32(i)
	}
	g.pred = newAdjacency(len(g.nodes), reversed(func(yield func(from, to int32)) {
		for _, n := range g.order {
			for _, s := range g.nodes[n].successors() {
				yield(n, s)
			}
		}
	}))
	return succ
}

// checkLoops demands that the graph is reducible, that is, that an edge
// against the reverse postorder leads to a dominator of where it starts, and
// that loops do not nest too deep.
func (g *inliner) checkLoops() error {
	succ := g.walk()
	dom := dominators(succ, g.pred, 0)
	g.keep = make([]bool, len(g.nodes))
	g.v.out.BackEdges = map[RoutineInst]BackEdge{}
	for _, u := range g.order {
		n := &g.nodes[u]
		for k, s := range n.successors() {
			if g.rank[s] > g.rank[u] {
				continue
			}
			if !dom.dominates(s, u) {
				return g.v.fail("reducible", g.at(n), "goes back into a loop that can also be entered elsewhere, at "+g.v.where(int(g.nodes[s].from)),
					"let every way into the loop lead to one place")
			}
			if !g.nodes[s].header {
				g.keep[s] = true
				at, way := g.way(n, k)
				g.v.out.BackEdges[at] |= way
			}
		}
	}
	depth := loopDepth(g.pred, g.order, g.rank)
	for _, u := range g.order {
		if depth[u] > MaxLoopDepth {
			return g.v.failf("nest", int(g.nodes[u].from), "the loop is inside %d others, those of callers included, at most %d may nest", depth[u]-1, MaxLoopDepth)
		}
	}
	return nil
}

// way returns the instruction and the way out of it that successor k of n is.
// Copies of a routine agree on which of these are back edges: each is entered
// at its start alone, so whether one of its nodes dominates another, or a RET
// that comes back to it, shows in the copy and what it calls.
func (g *inliner) way(n *node, k int) (at RoutineInst, way BackEdge) {
	at, way = RoutineInst{int(n.entry), g.at(n)}, BackOnward
	switch g.v.p.Insts[at.Inst].Op {
	case BRA:
		if k == 0 {
			way = BackTaken
		}
	case RET:
		// It goes on after its CALL, in the caller, to the instruction there.
		// (Where a round of a LOOP ends there, to the latch, by no back edge.)
		to := &g.nodes[n.next[0]]
		at = RoutineInst{int(to.entry), int(to.from) - 1}
	}
	return at, way
}

// at returns the instruction at the end of n.
func (g *inliner) at(n *node) int {
	if n.src >= 0 {
		return int(n.src)
	}
	return int(max(n.to-1, n.from))
}

// cutEmpty leads edges past nodes that hold nothing and only jump on. A loop's
// header stays, so that its back edges still lead to where it is entered.
func (g *inliner) cutEmpty() {
	goal := make([]int32, len(g.nodes))
	// Edges to later nodes in reverse postorder are settled first; one to an
	// earlier node leads to a header, which stays.
	for i := len(g.order) - 1; i >= 0; i-- {
		u := g.order[i]
		goal[u] = u
		n := &g.nodes[u]
		for k, s := range n.successors() {
			if g.rank[s] > g.rank[u] {
				n.next[k] = goal[s]
			}
		}
		if n.kind == TermBranch && n.next[0] == n.next[1] {
			n.kind, n.src = TermJump, -1
		}
		if u != 0 && n.kind == TermJump && n.from == n.to && !n.header && !g.keep[u] {
			goal[u] = n.next[0]
		}
	}
}

// merge joins nodes that follow each other in a straight line and writes the
// graph's blocks, in reverse postorder.
func (g *inliner) merge() {
	g.walk()
	number := make([]int, len(g.nodes)) // block that a node starts
	joins := func(n *node) bool {       // whether what n leads to continues its block
		return n.kind == TermJump && len(g.pred.of(n.next[0])) == 1 && !g.nodes[n.next[0]].header
	}
	inner := make([]bool, len(g.nodes))
	code, blocks := 0, 0
	for _, u := range g.order {
		n := &g.nodes[u]
		code += int(n.to - n.from)
		if joins(n) {
			inner[n.next[0]] = true
		}
	}
	for _, u := range g.order {
		if !inner[u] {
			number[u] = blocks
			blocks++
		}
	}
	all := make([]Located, 0, code)
	out := make([]Block, 0, blocks)
	for _, u := range g.order {
		if inner[u] {
			continue
		}
		g.v.work.Step(1)
		first := len(all)
		n := &g.nodes[u]
		for {
			for i := n.from; i < n.to; i++ {
				all = append(all, Located{&g.v.p.Insts[i], int(i)})
			}
			if !joins(n) {
				break
			}
			n = &g.nodes[n.next[0]]
		}
		t := Term{Kind: n.kind, Src: int(n.src)}
		for k, s := range n.successors() {
			t.To[k] = number[s]
		}
		switch n.kind {
		case TermBranch:
			t.Pred = g.v.p.Insts[n.src].Args[1]
		case TermLoop:
			t.Count = g.v.p.Insts[n.src].Args[0]
		}
		out = append(out, Block{Code: all[first:len(all):len(all)], Term: t})
	}
	g.v.out.Graph = Graph{Blocks: out}
}
