package isa

import "fmt"

// This file finds the flow of the program as written: which LOOP each
// instruction is in, where control goes from each, and so the routines that
// are the program's start and what CALLs reach. inline.go copies them into one
// graph.

// Ends of nodes that inlining turns into jumps.
const (
	termCall TermKind = 0x80 + iota // to next[0], if the callee returns
	termRet
)

// node is straight-line code [from, to) and its end. In a routine next holds
// indices among its nodes, in the inlined graph those of the graph.
type node struct {
	from, to int32
	kind     TermKind
	next     [2]int32
	src      int32 // instruction of the end, -1 for a fall-through
	header   bool  // header of a counted loop
	callee   *routine
	entry    int32 // of its routine, set in the graph
}

// successors returns where n leads within its routine or graph.
func (n *node) successors() []int32 {
	switch n.kind {
	case TermExit, termRet:
		return nil
	case TermJump, termCall:
		if n.next[0] < 0 {
			return nil
		}
		return n.next[:1]
	}
	return n.next[:2]
}

// routine is the code reached from one entry, not following calls.
type routine struct {
	entry   int
	open    bool // being explored
	nodes   []node
	size    int  // instructions, those of callees included for each call; at most MaxInlined+1
	total   int  // nodes, likewise
	returns bool // a RET is reached
	calls   int  // depth of calls below
}

// placeKind is what a place in a program is: code, or one of the two places
// that a LOOP adds to it.
type placeKind uint8

const (
	placeCode   placeKind = iota // before instruction at
	placeHeader                  // start of a round of LOOP at
	placeLatch                   // end of a round of LOOP at
)

type place struct {
	kind placeKind
	at   int32
}

// explorer finds routines.
type explorer struct {
	v        *verifier
	loopOf   []int32 // by position: the innermost LOOP whose body holds it, or -1
	leads    []bool  // by position: control may come there other than from the instruction before
	routines map[int]*routine
	seen     int // instructions in all routines
}

// labelAt returns the position of the label that operand k of instruction i names.
func (v *verifier) labelAt(i, k int) int {
	in := &v.p.Insts[i]
	return v.p.Labels[in.Args[k].Bits].At
}

// loopEnd returns the position after the body of the LOOP at i.
func (v *verifier) loopEnd(i int32) int { return v.labelAt(int(i), 1) }

// newExplorer finds the bodies of loops and where blocks start.
func (v *verifier) newExplorer() (*explorer, error) {
	insts := v.p.Insts
	x := &explorer{v: v, loopOf: make([]int32, len(insts)+1), leads: make([]bool, len(insts)+2), routines: map[int]*routine{}}
	var open []int32 // the loops around the position
	for i := range x.loopOf {
		for len(open) > 0 && v.loopEnd(open[len(open)-1]) <= i {
			open = open[:len(open)-1]
		}
		x.loopOf[i] = -1
		if len(open) > 0 {
			x.loopOf[i] = open[len(open)-1]
		}
		if i == len(insts) {
			break
		}
		row, _ := Lookup(insts[i].Op)
		if row.Effect&Control != 0 {
			x.leads[i+1] = true
		}
		switch insts[i].Op {
		case BRA, CALL:
			x.leads[v.labelAt(i, 0)] = true
		case LOOP:
			end := v.loopEnd(int32(i))
			x.leads[end] = true
			if end <= i {
				return nil, v.failf("loop", i, "the end of the loop is not after it")
			}
			if around := x.loopOf[i]; around >= 0 && end > v.loopEnd(around) {
				return nil, v.failf("loop", i, "the body reaches past the end of the loop around it, at %s", v.where(int(around)))
			}
			if len(open) == MaxLoopDepth {
				return nil, v.failf("nest", i, "the loop is inside %d others, at most %d may nest", len(open), MaxLoopDepth)
			}
			open = append(open, int32(i))
		}
	}
	return x, nil
}

// follow returns where control arrives that goes from instruction i, inside
// loop (or -1), to position to: there, or at the latch of a loop that ends there.
func (x *explorer) follow(i int, loop int32, to int) (place, error) {
	for loop >= 0 && (to <= int(loop) || to > x.v.loopEnd(loop)) {
		loop = x.loopOf[loop]
	}
	switch {
	case loop >= 0 && to == x.v.loopEnd(loop):
		return place{placeLatch, loop}, nil
	case to == len(x.v.p.Insts):
		return place{}, x.v.fail("end", i, "control runs past the last instruction", "end the program with exit")
	case x.loopOf[to] != loop:
		return place{}, x.v.fail("enter", i, fmt.Sprintf("leads into the body of the loop at %s from outside", x.v.where(int(x.loopOf[to]))),
			"a loop is entered by its LOOP instruction alone")
	}
	return place{placeCode, int32(to)}, nil
}

// explore returns the routine at entry; depth counts the calls that lead
// there, the last being instruction call.
func (x *explorer) explore(entry, call, depth int) (*routine, error) {
	if r := x.routines[entry]; r != nil {
		if r.open {
			return nil, x.v.failf("recursion", call, "the code called is the one that calls, or leads to it")
		}
		return r, nil
	}
	if depth > MaxCallDepth {
		return nil, x.tooDeep(call)
	}
	r := &routine{entry: entry, open: true}
	x.routines[entry] = r
	numbers := map[place]int32{}
	var work []place // by number
	number := func(p place) int32 {
		n, ok := numbers[p]
		if !ok {
			n = int32(len(work))
			numbers[p] = n
			work = append(work, p)
		}
		return n
	}
	start, err := x.follow(call, -1, entry)
	if err != nil {
		return nil, err
	}
	number(start)
	for k := 0; k < len(work); k++ {
		x.v.work.Step(1)
		var n node
		var next [2]place
		switch p := work[k]; p.kind {
		case placeHeader:
			n = node{from: p.at, to: p.at, kind: TermJump, src: -1, header: true}
			next[0], err = x.follow(int(p.at), p.at, int(p.at)+1)
		case placeLatch:
			n = node{from: p.at, to: p.at, kind: TermLatch, src: p.at}
			next[0] = place{placeHeader, p.at}
			next[1], err = x.follow(int(p.at), x.loopOf[p.at], x.v.loopEnd(p.at))
		default:
			n, next, err = x.block(r, int(p.at), depth)
		}
		if err != nil {
			return nil, err
		}
		for s := range n.successors() {
			n.next[s] = number(next[s])
		}
		r.nodes = append(r.nodes, n)
	}
	r.open = false
	r.total += len(r.nodes)
	return r, nil
}

// block makes the node of r that starts at instruction at, and tells where it leads.
func (x *explorer) block(r *routine, at, depth int) (n node, next [2]place, err error) {
	insts := x.v.p.Insts
	last := at
	for !x.leads[last+1] && last+1 < len(insts) {
		last++
	}
	x.seen += last + 1 - at
	x.v.work.Step(last + 1 - at)
	r.size += last + 1 - at
	if x.seen > MaxInlined {
		return n, next, x.tooLong(last)
	}
	in := &insts[last]
	loop := x.loopOf[last]
	n = node{from: int32(at), to: int32(last), src: int32(last)}
	switch in.Op {
	case EXIT:
		n.kind = TermExit
	case RET:
		if depth == 0 {
			return n, next, x.v.fail("ret", last, "is reached without a call", "end the program with exit; put called code after it")
		}
		n.kind = termRet
		r.returns = true
	case CALL:
		if n.callee, err = x.call(r, last, depth); err != nil {
			return n, next, err
		}
		n.kind = termCall
		if !n.callee.returns {
			n.next[0] = -1
			return n, next, nil
		}
		next[0], err = x.follow(last, loop, last+1)
	case LOOP:
		n.kind = TermLoop
		next[0] = place{placeHeader, int32(last)}
		next[1], err = x.follow(last, loop, x.v.loopEnd(int32(last)))
	case BRA:
		n.kind = TermJump
		if next[0], err = x.follow(last, loop, x.v.labelAt(last, 0)); err != nil {
			return n, next, err
		}
		if in.Args[1].Kind != ArgNone {
			n.kind = TermBranch
			next[1], err = x.follow(last, loop, last+1)
		}
	default:
		n.kind, n.to, n.src = TermJump, int32(last+1), -1
		next[0], err = x.follow(last, loop, last+1)
	}
	return n, next, err
}

// call explores what the CALL at i in r calls, and adds it to r's measures.
func (x *explorer) call(r *routine, i, depth int) (*routine, error) {
	callee, err := x.explore(x.v.labelAt(i, 0), i, depth+1)
	if err != nil {
		return nil, err
	}
	if r.calls = max(r.calls, callee.calls+1); depth+r.calls > MaxCallDepth {
		return nil, x.tooDeep(i)
	}
	r.total += callee.total // bounded as size is: a node has an instruction or stands beside a LOOP
	if r.size += callee.size; r.size > MaxInlined {
		return nil, x.tooLong(i)
	}
	return callee, nil
}

func (x *explorer) tooDeep(i int) error {
	return x.v.failf("depth", i, "calls nest more than %d deep", MaxCallDepth)
}

func (x *explorer) tooLong(i int) error {
	return x.v.failf("inline", i, "with its calls inlined the program has more than %d instructions", MaxInlined)
}
