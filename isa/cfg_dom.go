package isa

// adjacency holds for each vertex of a graph the vertices it is joined to, in one
// list: those of v are list[start[v]:start[v+1]].
type adjacency struct{ start, list []int32 }

func (e adjacency) of(v int32) []int32 { return e.list[e.start[v]:e.start[v+1]] }

// newAdjacency makes the lists of a graph of n vertices from the pairs that each
// yields, called twice.
func newAdjacency(n int, each func(yield func(from, to int32))) adjacency {
	e := adjacency{start: make([]int32, n+2)}
	each(func(from, _ int32) { e.start[from+2]++ })
	for v := range n {
		e.start[v+2] += e.start[v+1]
	}
	e.list = make([]int32, e.start[n+1])
	// start[v+1] is where v's next entry goes, and ends up as v's end.
	each(func(from, to int32) {
		e.list[e.start[from+1]] = to
		e.start[from+1]++
	})
	return e
}

// reversed yields the pairs of each the other way round.
func reversed(each func(yield func(from, to int32))) func(yield func(from, to int32)) {
	return func(yield func(from, to int32)) {
		each(func(from, to int32) { yield(to, from) })
	}
}

// depthFirst walks the graph from root and returns the vertices reached in
// preorder, with the parent of each in the walk, and in reverse postorder.
// Successors are walked last to first, so that in reverse postorder what the
// first leads to comes first.
func depthFirst(succ adjacency, root int32) (pre, parent, reversePost []int32) {
	n := len(succ.start) - 2
	parent = make([]int32, n)
	left := make([]int32, n) // successors still to walk, plus one; 0: not reached
	visit := func(v, from int32) {
		parent[v] = from
		left[v] = int32(len(succ.of(v))) + 1
		pre = append(pre, v)
	}
	visit(root, -1)
	stack := []int32{root}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		if left[v] > 1 {
			left[v]--
			if s := succ.of(v)[left[v]-1]; left[s] == 0 {
				visit(s, v)
				stack = append(stack, s)
			}
			continue
		}
		reversePost = append(reversePost, v)
		stack = stack[:len(stack)-1]
	}
	for i, j := 0, len(reversePost)-1; i < j; i, j = i+1, j-1 {
		reversePost[i], reversePost[j] = reversePost[j], reversePost[i]
	}
	return pre, parent, reversePost
}

// domTree is a dominator tree. Vertices that the root does not reach have
// idom -1, as has the root.
type domTree struct {
	idom  []int32
	depth []int32 // 0 at the root
	in    []int32 // first and
	out   []int32 // last number in a walk of the tree; of a vertex in its subtree they lie between
}

// dominates reports whether every path from the root to b passes a. Both must
// be reachable.
func (t *domTree) dominates(a, b int32) bool { return t.in[a] <= t.in[b] && t.out[b] <= t.out[a] }

// dominators computes the dominator tree as Lengauer and Tarjan do ("A fast
// algorithm for finding dominators in a flowgraph", 1979, the simple version
// with path compression): O(m log n), whatever the graph.
func dominators(succ, pred adjacency, root int32) *domTree {
	n := len(succ.start) - 2
	vertex, up, _ := depthFirst(succ, root)
	number := make([]int32, n) // of a vertex in vertex, -1 if not reached
	for v := range number {
		number[v] = -1
	}
	for i, v := range vertex {
		number[v] = int32(i)
	}
	// From here on vertices go by their number.
	reached := len(vertex)
	parent := make([]int32, reached)
	semi := make([]int32, reached)
	label := make([]int32, reached)
	ancestor := make([]int32, reached)
	idom := make([]int32, reached)
	bucket := make([]int32, reached) // a list: first of those with this semidominator
	next := make([]int32, reached)   // and the following
	for i, v := range vertex {
		semi[i], label[i], ancestor[i], bucket[i] = int32(i), int32(i), -1, -1
		if i > 0 {
			parent[i] = number[up[v]]
		}
	}
	var path []int32
	eval := func(v int32) int32 {
		if ancestor[v] < 0 {
			return v
		}
		path = path[:0]
		for u := v; ancestor[ancestor[u]] >= 0; u = ancestor[u] {
			path = append(path, u)
		}
		for i := len(path) - 1; i >= 0; i-- {
			u := path[i]
			a := ancestor[u]
			if semi[label[a]] < semi[label[u]] {
				label[u] = label[a]
			}
			ancestor[u] = ancestor[a]
		}
		return label[v]
	}
	for w := int32(reached) - 1; w > 0; w-- {
		for _, p := range pred.of(vertex[w]) {
			if number[p] >= 0 {
				semi[w] = min(semi[w], semi[eval(number[p])])
			}
		}
		next[w] = bucket[semi[w]]
		bucket[semi[w]] = w
		ancestor[w] = parent[w]
		for v := bucket[parent[w]]; v >= 0; v = next[v] {
			idom[v] = parent[w]
			if u := eval(v); semi[u] < semi[v] {
				idom[v] = u
			}
		}
		bucket[parent[w]] = -1
	}
	t := &domTree{idom: make([]int32, n), depth: make([]int32, n), in: make([]int32, n), out: make([]int32, n)}
	for v := range t.idom {
		t.idom[v] = -1
	}
	for w := 1; w < reached; w++ {
		if idom[w] != semi[w] {
			idom[w] = idom[idom[w]]
		}
		v, d := vertex[w], vertex[idom[w]]
		t.idom[v] = d
		t.depth[v] = t.depth[d] + 1
	}
	t.numberTree(vertex)
	return t
}

// numberTree sets in and out; vertex lists the vertices, dominators first.
func (t *domTree) numberTree(vertex []int32) {
	size := make([]int32, len(t.idom))
	for i := len(vertex) - 1; i >= 0; i-- {
		v := vertex[i]
		size[v]++
		if d := t.idom[v]; d >= 0 {
			size[d] += size[v]
		}
	}
	taken := make([]int32, len(t.idom)) // numbers given below a vertex
	for _, v := range vertex {
		if d := t.idom[v]; d >= 0 {
			t.in[v] = t.in[d] + 1 + taken[d]
			taken[d] += size[v]
		}
		t.out[v] = t.in[v] + size[v] - 1
	}
}

// loopNest finds the loops of a reducible graph: header tells which vertices
// are headers, inside is by vertex the header of the loop right around it, for
// a header of the next loop, -1 for none. order is a reverse postorder of the
// vertices and rank its inverse.
func loopNest(pred adjacency, order, rank []int32) (inside []int32, header []bool) {
	n := len(rank)
	inside = make([]int32, n)
	merged := make([]int32, n) // a forest: the root is the outermost loop found around a vertex
	seen := make([]int32, n)   // header last collected for, plus one
	for v := range n {
		inside[v], merged[v] = -1, int32(v)
	}
	find := func(v int32) int32 {
		for merged[v] != v {
			merged[v] = merged[merged[v]]
			v = merged[v]
		}
		return v
	}
	header = make([]bool, n)
	var body []int32
	for i := len(order) - 1; i >= 0; i-- {
		h := order[i]
		body = body[:0]
		collect := func(u int32) {
			if u = find(u); u != h && seen[u] != h+1 {
				seen[u] = h + 1
				body = append(body, u)
			}
		}
		for _, u := range pred.of(h) {
			if rank[u] >= rank[h] {
				header[h] = true
				collect(u)
			}
		}
		for k := 0; k < len(body); k++ {
			u := body[k]
			inside[u], merged[u] = h, h
			for _, w := range pred.of(u) {
				if rank[w] >= 0 && rank[w] < rank[u] {
					collect(w)
				}
			}
		}
	}
	return inside, header
}

// loopDepth returns the depth of the loop nest around each header: 1 for an
// outermost loop, 0 for what is no header. Its arguments are those of loopNest.
func loopDepth(pred adjacency, order, rank []int32) []int32 {
	inside, header := loopNest(pred, order, rank)
	depth := make([]int32, len(rank))
	around := make([]int32, len(rank))
	for _, v := range order {
		if h := inside[v]; h >= 0 {
			around[v] = around[h]
		}
		if header[v] {
			around[v]++
			depth[v] = around[v]
		}
	}
	return depth
}
