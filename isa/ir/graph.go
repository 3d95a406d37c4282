package ir

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// flow is what structure needs to know about a control-flow graph: its edges
// after jump threading, the dominator tree and the nest of loops. Blocks keep
// their numbers, which are a reverse postorder: an edge to a number not above
// its own is a loop's back edge.
type flow struct {
	code [][]isa.Located // by block, without what is dead
	term []term
	// live marks the blocks that are left after threading.
	live []bool
	// preds lists, by block, where forward edges come from. The edge from a
	// latch to what follows its loop is not among them: structure lets the
	// counted loop fall out instead, as if its TermLoop led there.
	preds [][]int32
	// turn is, by block, the last instruction in the program as written that
	// starts a new round there, or -1.
	turn []int

	idom, jump, depth []int32

	// loop is the innermost loop of each block, by its header, or -1;
	// outer is, by header, the header of the next loop around it.
	loop, outer, level []int32
	back               []bool // by block: has an incoming back edge

	work *work.Meter
}

// term is the end of a block, led past empty blocks: the graph's, but for its
// kind and where it leads.
type term struct {
	*isa.Term
	Kind isa.TermKind
	To   [2]int
}

// src returns the instruction that block at begins with.
func (fl *flow) src(at int) int {
	if code := fl.code[at]; len(code) > 0 {
		return code[0].Src
	}
	return fl.term[at].Src
}

// analyse prepares g. It fails only on graphs that the verifier would refuse.
func analyse(m *work.Meter, g *isa.Graph, lv *liveness) (*flow, error) {
	n := len(g.Blocks)
	if n == 0 {
		return nil, fmt.Errorf("ir: the graph has no blocks")
	}
	fl := &flow{work: m, code: lv.code, term: make([]term, n)}
	fl.thread(g)
	fl.connect()
	if err := fl.dominators(); err != nil {
		return nil, err
	}
	fl.loops()
	return fl, nil
}

// thread leads edges past empty blocks that only jump on, so that where
// labels and calls were cut leaves no trace. Among barriers it keeps the headers
// of loops: two loops that became one would have lanes come to a barrier in
// different rounds, which the verifier has only seen not to be so for the two.
func (fl *flow) thread(g *isa.Graph) {
	n := len(g.Blocks)
	keep := make([]bool, n)
	if g.HasEffect(isa.Barrier) {
		for b := range n {
			for _, s := range g.Blocks[b].Term.Successors() {
				keep[s] = keep[s] || s <= b
			}
		}
	}
	target := make([]int, n)
	for i := range target {
		target[i] = -1
	}
	// resolve follows empty jumps from b, and remembers where each block on
	// the way leads. A cycle of empty blocks is an endless loop; it keeps the
	// block where it closes.
	var path []int
	const onPath = -2
	resolve := func(b int) int {
		path = path[:0]
		for {
			if target[b] >= 0 {
				b = target[b]
				break
			}
			blk := &g.Blocks[b]
			if target[b] == onPath || keep[b] || len(fl.code[b]) > 0 || blk.Term.Kind != isa.TermJump {
				break
			}
			target[b] = onPath
			path = append(path, b)
			b = blk.Term.To[0]
		}
		for _, p := range path {
			target[p] = b
		}
		target[b] = b
		return b
	}
	for i := range g.Blocks {
		at := &g.Blocks[i].Term
		t := term{at, at.Kind, at.To}
		switch t.Kind {
		case isa.TermJump:
			t.To[0] = resolve(t.To[0])
		case isa.TermBranch:
			t.To[0], t.To[1] = resolve(t.To[0]), resolve(t.To[1])
			if t.To[0] == t.To[1] {
				t.Kind = isa.TermJump
			}
		case isa.TermLoop, isa.TermLatch:
			// The header stays: it is the loop's own block.
			t.To[1] = resolve(t.To[1])
		}
		fl.term[i] = t
	}
}

// exits reports whether block b does nothing but end the lane.
func (fl *flow) exits(b int) bool {
	return len(fl.code[b]) == 0 && fl.term[b].Kind == isa.TermExit
}

// turns reports whether block b does nothing but end a counted loop's round.
func (fl *flow) turns(b int) bool {
	return len(fl.code[b]) == 0 && fl.term[b].Kind == isa.TermLatch
}

// edges returns the blocks that b leads to in the structured program.
func (fl *flow) edges(b int) []int {
	switch t := &fl.term[b]; t.Kind {
	case isa.TermExit:
		return nil
	case isa.TermJump, isa.TermLatch:
		return t.To[:1]
	default:
		return t.To[:]
	}
}

func (fl *flow) connect() {
	n := len(fl.term)
	fl.live = make([]bool, n)
	fl.back = make([]bool, n)
	fl.live[0] = true
	count := make([]int32, n)
	total := 0
	for b := range n {
		if !fl.live[b] {
			continue
		}
		for _, s := range fl.edges(b) {
			if s <= b {
				fl.back[s] = true
				continue
			}
			fl.live[s] = true
			count[s]++
			total++
		}
	}
	fl.preds = make([][]int32, n)
	pool := make([]int32, total)
	for b := range n {
		fl.preds[b], pool = pool[:0:count[b]], pool[count[b]:]
	}
	fl.turn = make([]int, n)
	for b := range n {
		fl.turn[b] = -1
	}
	for b := range n {
		if !fl.live[b] {
			continue
		}
		for _, s := range fl.edges(b) {
			if s > b {
				fl.preds[s] = append(fl.preds[s], int32(b))
			} else {
				fl.turn[s] = max(fl.turn[s], fl.term[b].Src)
			}
		}
	}
}

// dominators computes the tree in one pass over the forward edges, which is
// enough for a reducible graph. Skip links (Myers, "An applicative
// random-access stack") make a common ancestor cost log n.
func (fl *flow) dominators() error {
	n := len(fl.term)
	buf := make([]int32, 3*n)
	fl.idom, fl.jump, fl.depth = buf[:n], buf[n:2*n], buf[2*n:]
	for b := 1; b < n; b++ {
		if !fl.live[b] {
			continue
		}
		d := fl.preds[b][0]
		for _, p := range fl.preds[b][1:] {
			d = fl.common(d, p)
		}
		fl.idom[b] = d
		fl.depth[b] = fl.depth[d] + 1
		j := fl.jump[d]
		if fl.depth[d]-fl.depth[j] == fl.depth[j]-fl.depth[fl.jump[j]] {
			fl.jump[b] = fl.jump[j]
		} else {
			fl.jump[b] = d
		}
	}
	for b := range n {
		if !fl.live[b] {
			continue
		}
		for _, s := range fl.edges(b) {
			if s <= b && fl.common(int32(s), int32(b)) != int32(s) {
				return fmt.Errorf("ir: the edge from block %d to %d makes the control flow irreducible", b, s)
			}
		}
	}
	return nil
}

// common returns the nearest block that dominates both a and b.
func (fl *flow) common(a, b int32) int32 {
	if fl.depth[a] < fl.depth[b] {
		a, b = b, a
	}
	for fl.depth[a] > fl.depth[b] {
		fl.work.Step(1)
		if fl.depth[fl.jump[a]] >= fl.depth[b] {
			a = fl.jump[a]
		} else {
			a = fl.idom[a]
		}
	}
	for a != b {
		fl.work.Step(1)
		if fl.jump[a] != fl.jump[b] {
			a, b = fl.jump[a], fl.jump[b]
		} else {
			a, b = fl.idom[a], fl.idom[b]
		}
	}
	return a
}

// loops finds the natural loops, inner ones first: a loop is what reaches its
// header's back edges without passing the header. Blocks of a finished inner
// loop are stepped over as one.
func (fl *flow) loops() {
	n := len(fl.term)
	buf := make([]int32, 4*n)
	fl.loop, fl.outer, fl.level = buf[:n], buf[n:2*n], buf[2*n:3*n]
	top := buf[3*n:] // union-find: header of the outermost loop found so far
	for b := range n {
		fl.loop[b], fl.outer[b], top[b] = -1, -1, int32(b)
	}
	find := func(b int32) int32 {
		for top[b] != b {
			top[b] = top[top[b]]
			b = top[b]
		}
		return b
	}
	latches := make([][]int32, n)
	ended := make([][]int32, n) // by block: latches whose loop ends there
	for b := range n {
		if !fl.live[b] {
			continue
		}
		if t := &fl.term[b]; t.Kind == isa.TermLatch && t.To[1] > b {
			ended[t.To[1]] = append(ended[t.To[1]], int32(b))
		} else if t.Kind == isa.TermLatch {
			latches[t.To[1]] = append(latches[t.To[1]], int32(b))
		}
		for _, s := range fl.edges(b) {
			if s <= b {
				latches[s] = append(latches[s], int32(b))
			}
		}
	}
	var work []int32
	for h := int32(n) - 1; h >= 0; h-- {
		if !fl.back[h] {
			continue
		}
		fl.loop[h] = h
		work = append(work[:0], latches[h]...)
		for len(work) > 0 {
			b := find(work[len(work)-1])
			fl.work.Step(1)
			work = work[:len(work)-1]
			if b == h {
				continue
			}
			top[b] = h
			if fl.loop[b] == b {
				fl.outer[b] = h
			} else {
				fl.loop[b] = h
			}
			work = append(append(work, fl.preds[b]...), ended[b]...)
		}
	}
	for h := range n {
		if fl.back[h] && fl.outer[h] >= 0 {
			fl.level[h] = fl.level[fl.outer[h]] + 1
		}
	}
}

// placement says where the tree holds a block: inside the node that
// dominates it, or after the outermost loop that it has left.
type placement struct {
	inside, after [][]int32 // by block: the merge points it holds, ascending
	own           []bool    // by block: needs a Block of its own
}

func (fl *flow) place() placement {
	n := len(fl.term)
	p := placement{inside: make([][]int32, n), after: make([][]int32, n), own: make([]bool, n)}
	left := fl.loopsLeft()
	for b := 1; b < n; b++ {
		if !fl.live[b] || fl.exits(b) || fl.turns(b) {
			continue
		}
		switch {
		case left[b] >= 0:
			p.own[b] = true
			p.after[left[b]] = append(p.after[left[b]], int32(b))
		case len(fl.preds[b]) > 1:
			p.own[b] = true
			p.inside[fl.idom[b]] = append(p.inside[fl.idom[b]], int32(b))
		}
	}
	return p
}

// loopsLeft returns, by block, the header of the outermost loop that contains
// its dominator and not the block itself, or -1. The loops around a block are
// loops around its dominator, so that is the ancestor, at a known level, of
// the dominator's loop; one walk over the nest answers for all blocks.
func (fl *flow) loopsLeft() []int32 {
	n := len(fl.term)
	left := make([]int32, n)
	asks := make([][]int32, n)   // by loop: blocks whose dominator is in it
	nested := make([][]int32, n) // by loop
	var roots []int32
	for b := range int32(n) {
		left[b] = -1
		if !fl.live[b] {
			continue
		}
		if fl.back[b] {
			if o := fl.outer[b]; o >= 0 {
				nested[o] = append(nested[o], b)
			} else {
				roots = append(roots, b)
			}
		}
		if l := fl.loop[fl.idom[b]]; b > 0 && l >= 0 {
			asks[l] = append(asks[l], b)
		}
	}
	path := make([]int32, 0, 16)
	work := roots
	for len(work) > 0 {
		l := work[len(work)-1]
		work = work[:len(work)-1]
		path = append(path[:fl.level[l]], l)
		for _, b := range asks[l] {
			around := fl.loop[b]
			if around == b {
				around = fl.outer[b]
			}
			at := int32(0)
			if around >= 0 {
				at = fl.level[around] + 1
			}
			if at <= fl.level[l] {
				left[b] = path[at]
			}
		}
		work = append(work, nested[l]...)
	}
	return left
}
