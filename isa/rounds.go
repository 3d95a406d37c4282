package isa

// This file makes the graph in which the postdominators say where lanes come
// together again that a branch has parted. It differs from the program's in two
// ways.
//
// Lanes that leave straight for EXIT arrive nowhere any more. So a branch loses
// its way to a quiet block if its other way goes to one that is not.
//
// And lanes wait for each other at the end of each round of a loop, as they do
// where ways meet: a barrier in a loop is met by all in one round. So a loop has
// a vertex for the end of a round, to which the back edges lead. From there the
// way goes to the next round, and to where the loop is left, since this round may
// turn out to be the last. What a lane passes by in this round is then not taken
// to be met in another. A loop that is not left, but for EXIT, leads to the end of
// all: it goes on for ever, and all that happens in it happens in its rounds.
// Where a way leaves loops within each other, the end of the inner one's round
// leads to that of the outer one's, which leads on.

// quietBlocks returns which blocks only lead straight to EXIT.
func (g *Graph) quietBlocks() []bool {
	quiet := make([]bool, len(g.Blocks))
	for b := len(g.Blocks) - 1; b >= 0; b-- {
		quiet[b] = !g.Blocks[b].hasEffect(Writes | State | Barrier)
		for _, s := range g.Blocks[b].Term.Successors() {
			quiet[b] = quiet[b] && s > b && quiet[s]
		}
	}
	return quiet
}

// nest is the nest of a graph's loops, by block.
type nest struct {
	around []int32 // header of the loop right around the block, that of its own if it is one; -1: none
	outer  []int32 // of a header: that of the next loop; -1: none
	depth  []int32 // of a header: number of loops around it; -1 of what is no header
	skip   []int32 // of a header: one of a loop farther out, or its own
}

// newNest finds the loops of g.
func newNest(g *Graph) *nest {
	n := len(g.Blocks)
	each := func(yield func(from, to int32)) {
		for b := range n {
			for _, s := range g.Blocks[b].Term.Successors() {
				yield(int32(b), int32(s))
			}
		}
	}
	order := make([]int32, n)
	for b := range order {
		order[b] = int32(b)
	}
	outer, header := loopNest(newAdjacency(n, reversed(each)), order, order)
	t := &nest{around: make([]int32, n), outer: outer, depth: make([]int32, n), skip: make([]int32, n)}
	for b := range int32(n) {
		t.around[b], t.depth[b], t.skip[b] = outer[b], -1, b
		if !header[b] {
			continue
		}
		t.around[b], t.depth[b] = b, 0
		// Skip links: Myers, "An applicative random-access stack" (1983).
		if o := outer[b]; o >= 0 {
			t.depth[b], t.skip[b] = t.depth[o]+1, o
			if s := t.skip[o]; t.depth[o]-t.depth[s] == t.depth[s]-t.depth[t.skip[s]] {
				t.skip[b] = t.skip[s]
			}
		}
	}
	return t
}

// left returns the header of the outermost loop that the way from one block to
// another leaves, or -1, and how many loops are around what it comes to.
func (t *nest) left(from, to int32) (loop, level int32) {
	into := t.around[to]
	if into == to && to > from { // enters the loop
		into = t.outer[to]
	}
	if into >= 0 {
		level = t.depth[into] + 1
	}
	if loop = t.around[from]; loop < 0 || t.depth[loop] < level {
		return -1, level
	}
	for t.depth[loop] > level {
		if s := t.skip[loop]; t.depth[s] >= level {
			loop = s
		} else {
			loop = t.outer[loop]
		}
	}
	return loop, level
}

// roundGraph returns the successors and predecessors in the graph of rounds. Its
// vertices are the blocks, the ends of rounds of loops, and last the end of all.
func roundGraph(g *Graph) (succ, pred adjacency) {
	n := int32(len(g.Blocks))
	quiet, loops := g.quietBlocks(), newNest(g)
	ways := func(b int32) []int {
		t := &g.Blocks[b].Term
		s := t.Successors()
		if t.Kind == TermBranch && quiet[s[0]] != quiet[s[1]] {
			if quiet[s[0]] {
				return s[1:]
			}
			return s[:1]
		}
		return s
	}
	vertex := make([]int32, n) // the end of a round, by header
	level := make([]int32, n)  // by header: how many loops are around the outermost place that a way from the loop leads to
	end := n
	for b := range n {
		if loops.depth[b] >= 0 {
			vertex[b], level[b] = end, loops.depth[b]+1
			end++
		}
	}
	for b := n - 1; b >= 0; b-- { // inner loops before outer ones
		l := loops.around[b]
		if l < 0 {
			continue
		}
		for _, to := range ways(b) {
			_, there := loops.left(b, int32(to))
			level[l] = min(level[l], there)
		}
		if o := loops.outer[l]; l == b && o >= 0 {
			level[o] = min(level[o], level[l])
		}
	}
	each := func(yield func(from, to int32)) {
		for b := range n {
			s := ways(b)
			for _, to := range s {
				at := int32(to)
				if at <= b {
					at = vertex[at]
				}
				yield(b, at)
				if l, _ := loops.left(b, int32(to)); l >= 0 {
					yield(vertex[l], at)
				}
			}
			if len(s) == 0 {
				yield(b, end)
			}
			if d := loops.depth[b]; d >= 0 {
				yield(vertex[b], b)
				switch {
				case level[b] > d:
					yield(vertex[b], end)
				case level[b] < d:
					yield(vertex[b], vertex[loops.outer[b]])
				}
			}
		}
	}
	return newAdjacency(int(end)+1, each), newAdjacency(int(end)+1, reversed(each))
}
