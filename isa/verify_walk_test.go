package isa

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// The tests of this file run programs as written, by a program counter and
// stacks of calls and loops, and compare what happens with what the verifier
// says. Of data they know the types of registers alone; which way a branch
// goes and how often a loop runs is chosen.

// randomPrograms is how many random programs the tests of each kind make.
func randomPrograms() int { return brief.Or(30_000, 2000) }

// flowProgram makes a small program of branches, loops, calls and code on the
// registers r0 … r2 and p0, and a label at every place.
func flowProgram(r *rand.Rand) *Program {
	n := 3 + r.IntN(12)
	p := &Program{Insts: make([]Inst, n+1)}
	for at := range n + 2 {
		p.Labels = append(p.Labels, Label{fmt.Sprintf("l%d", at), at})
	}
	label := func(from int) Arg { return Arg{Kind: ArgLabel, Bits: uint64(from + r.IntN(n+1-from))} }
	reg := func() Arg { return Arg{Kind: ArgReg, Reg: uint8(r.IntN(3))} }
	typ := func() Type { return []Type{I32, I32, F32}[r.IntN(3)] }
	p.Insts[0] = Inst{Op: MOV, Form: Form{Type: Pred}, Args: [MaxOperands]Arg{{Kind: ArgPred}, {Kind: ArgImm}}}
	p.Insts[n] = Inst{Op: EXIT}
	if r.IntN(6) == 0 {
		p.Insts[n] = Inst{Op: MEM_FENCE, Args: [MaxOperands]Arg{{Kind: ArgName}}}
	}
	for i := 1; i < n; i++ {
		in := &p.Insts[i]
		switch r.IntN(16) {
		case 0, 1, 2:
			*in = Inst{Op: MOV, Form: Form{Type: typ()}, Args: [MaxOperands]Arg{reg(), {Kind: ArgImm}}}
		case 3:
			*in = Inst{Op: ADD, Form: Form{Type: typ()}, Args: [MaxOperands]Arg{reg(), reg(), {Kind: ArgImm}}}
		case 4, 5, 6, 7:
			*in = Inst{Op: BRA, Args: [MaxOperands]Arg{label(0), {Kind: ArgPred}}}
		case 8, 9:
			*in = Inst{Op: BRA, Args: [MaxOperands]Arg{label(0)}}
		case 10, 11:
			*in = Inst{Op: LOOP, Args: [MaxOperands]Arg{{Kind: ArgImm, Bits: uint64(r.IntN(3))}, label(i + 1)}}
		case 12, 13:
			*in = Inst{Op: CALL, Args: [MaxOperands]Arg{label(0)}}
		case 14:
			*in = Inst{Op: RET}
		case 15:
			*in = Inst{Op: EXIT}
		}
	}
	return p
}

// lane is a place in a run of a program: before instruction pc, or, if latch,
// at the end of a round of the innermost loop.
type lane struct {
	pc    int
	latch bool
	loops []loopState
	calls []callState
	types [4]Type // of r0 … r2 and p0
}

type loopState struct {
	at   int
	left uint64
}

type callState struct {
	call  int
	loops int // that were running then
}

func (l *lane) clone() lane {
	c := *l
	c.loops, c.calls = slices.Clone(l.loops), slices.Clone(l.calls)
	return c
}

// goTo moves the lane to position to: loops it leaves end, and where one that
// it is in ends there, it is at its latch.
func (l *lane) goTo(p *Program, to int) {
	base := 0
	if n := len(l.calls); n > 0 {
		base = l.calls[n-1].loops
	}
	l.pc, l.latch = to, false
	for len(l.loops) > base {
		at := l.loops[len(l.loops)-1].at
		end := p.Labels[p.Insts[at].Args[1].Bits].At
		if at < to && to <= end {
			l.latch = to == end
			return
		}
		l.loops = l.loops[:len(l.loops)-1]
	}
}

// next tells what a lane may do: it calls each way with the lane after it, and
// returns the rule broken, if any, and the instruction. way is 1 for a branch taken and a round begun.
func (l *lane) next(p *Program, each func(way int, after lane)) (rule string, inst int) {
	if l.latch {
		top := len(l.loops) - 1
		at := l.loops[top].at
		again, leave := l.clone(), l.clone()
		again.loops[top].left--
		again.goTo(p, at+1)
		each(1, again)
		leave.loops = leave.loops[:top]
		leave.goTo(p, l.pc)
		each(0, leave)
		return "", at
	}
	i := l.pc
	if i == len(p.Insts) {
		return "end", i
	}
	in := &p.Insts[i]
	to := func(at, way int) {
		after := l.clone()
		after.goTo(p, at)
		each(way, after)
	}
	read := func(r int, t Type) string {
		switch l.types[r] {
		case t:
			return ""
		case NoType:
			return "init"
		}
		return "regtype"
	}
	switch in.Op {
	case MOV, ADD:
		dst := int(in.Args[0].Reg)
		if in.Type == Pred {
			dst = 3
		}
		if in.Op == ADD {
			rule = read(int(in.Args[1].Reg), in.Type)
		}
		after := l.clone()
		after.types[dst] = in.Type
		after.goTo(p, i+1)
		each(0, after)
	case BRA:
		if in.Args[1].Kind == ArgPred {
			rule = read(3, Pred)
			to(i+1, 0)
		}
		to(p.Labels[in.Args[0].Bits].At, 1)
	case LOOP:
		to(p.Labels[in.Args[1].Bits].At, 0)
		after := l.clone()
		after.loops = append(after.loops, loopState{i, in.Args[0].Bits})
		after.goTo(p, i+1)
		each(1, after)
	case MEM_FENCE:
		to(i+1, 0)
	case CALL:
		after := l.clone()
		after.calls = append(after.calls, callState{i, len(l.loops)})
		after.goTo(p, p.Labels[in.Args[0].Bits].At)
		each(1, after)
	case RET:
		n := len(l.calls) - 1
		if n < 0 {
			return "ret", i
		}
		after := l.clone()
		after.loops, after.calls = after.loops[:l.calls[n].loops], after.calls[:n]
		after.goTo(p, l.calls[n].call+1)
		each(0, after)
	}
	return rule, i
}

// around returns the LOOPs whose bodies hold position at.
func around(p *Program, at int) (list []int) {
	for i, in := range p.Insts {
		if in.Op == LOOP && i < at && at < p.Labels[in.Args[1].Bits].At {
			list = append(list, i)
		}
	}
	return list
}

// broken is a rule broken at an instruction.
type broken struct {
	rule string
	inst int
}

// allRuns follows every way through p, counts apart, and returns the rules
// found broken. It gives up, ok false, when calls nest more than 5 deep.
func allRuns(p *Program) (found map[broken]bool, ok bool) {
	found = map[broken]bool{}
	seen := map[string]bool{}
	work := []lane{{}}
	for len(work) > 0 {
		l := work[len(work)-1]
		work = work[:len(work)-1]
		if len(l.calls) > 5 {
			return found, false
		}
		rule, inst := l.next(p, func(_ int, after lane) {
			for k := range after.loops {
				after.loops[k].left = 0
			}
			if key := fmt.Sprint(after); !seen[key] {
				seen[key] = true
				work = append(work, after)
			}
		})
		if rule != "" {
			found[broken{rule, inst}] = true
		}
		base := 0
		if n := len(l.calls); n > 0 {
			base = l.calls[n-1].loops
		}
		if want := around(p, l.pc); !l.latch && len(want) != len(l.loops)-base {
			found[broken{"enter", l.pc}] = true
		}
	}
	return found, true
}

// TestVerdict compares the verdict on random programs with what happens when
// every way through them is followed.
func TestVerdict(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(1, 2))
	rules := map[string]int{}
	n := randomPrograms()
	for range n {
		p := flowProgram(r)
		v, err := Verify(p)
		if err == nil {
			rules["none"]++
			if err := checkVerified(v); err != nil {
				t.Fatalf("%v\n%v", err, Disassemble(p))
			}
			found, ok := allRuns(p)
			if !ok || len(found) > 0 {
				t.Fatalf("verified, but breaks %v\n%v", found, Disassemble(p))
			}
			continue
		}
		var e *VerifyError
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		rules[e.Rule]++
		switch e.Rule {
		case "init", "regtype", "ret", "end", "enter", "recursion":
		default:
			continue
		}
		found, ok := allRuns(p)
		if !ok || e.Rule == "recursion" {
			if e.Rule == "recursion" && ok {
				t.Fatalf("%v, but calls end\n%v", err, Disassemble(p))
			}
			continue
		}
		right := false
		for b := range found {
			switch e.Rule {
			case "init", "regtype":
				// A register that one path leaves unwritten and others write
				// with several types breaks both.
				right = right || b.inst == e.Inst && (b.rule == "init" || b.rule == "regtype")
			default:
				right = right || b.rule == e.Rule
			}
		}
		if !right {
			t.Fatalf("%v, but running it breaks %v\n%v", err, found, Disassemble(p))
		}
	}
	for _, rule := range []string{"none", "init", "regtype", "ret", "end", "enter", "recursion", "reducible", "loop"} {
		if rules[rule] < n/1000 {
			t.Errorf("only %d programs with rule %s", rules[rule], rule)
		}
	}
	t.Log(rules)
}

// choices decides ways by instruction and how often it was asked there.
type choices struct {
	seed  uint64
	asked map[int]uint64
}

func (c *choices) choose(inst int) bool {
	c.asked[inst]++
	return rand.NewPCG(c.seed+uint64(inst), c.asked[inst]).Uint64()%3 == 0
}

const (
	traceLength = 300
	backEdge    = -1 // in a trace: a unit of fuel for going back
	roundStart  = -2 // in a trace: a round of a counted loop begins
)

// traceSource lists the code instructions that p as written runs, and where
// fuel is paid according to back.
func traceSource(p *Program, back map[RoutineInst]BackEdge, seed uint64) (trace []int) {
	c := &choices{seed, map[int]uint64{}}
	l := lane{}
	for steps := 0; len(trace) < traceLength && steps < 10*traceLength; steps++ {
		var ways [2]lane
		given := 0
		way := -1
		_, inst := l.next(p, func(w int, after lane) {
			ways[w] = after
			given++
			way = w
		})
		if given == 0 {
			return trace // EXIT
		}
		op := p.Insts[inst].Op
		charged := BackOnward
		switch {
		case op == LOOP:
			left := p.Insts[inst].Args[0].Bits
			if l.latch {
				left = l.loops[len(l.loops)-1].left - 1
			}
			if way = 0; left > 0 {
				way, charged = 1, 0
				trace = append(trace, roundStart)
			}
		case op == BRA:
			if given == 2 {
				if way = 0; c.choose(inst) {
					way = 1
				}
			}
			if way == 1 {
				charged = BackTaken
			}
		case op == CALL:
			charged = 0
		case op == RET:
			inst = l.calls[len(l.calls)-1].call
		default:
			trace = append(trace, inst)
		}
		entry := 0 // of the routine that inst goes on in
		calls := l.calls
		if op == RET {
			calls = ways[way].calls
		}
		if n := len(calls); n > 0 {
			entry = p.Labels[p.Insts[calls[n-1].call].Args[0].Bits].At
		}
		if back[RoutineInst{entry, inst}]&charged != 0 {
			trace = append(trace, backEdge)
		}
		l = ways[way]
	}
	return trace
}

// traceGraph does the same with the graph.
func traceGraph(g *Graph, seed uint64) (trace []int) {
	c := &choices{seed, map[int]uint64{}}
	left := map[int]uint64{} // rounds by header
	b := 0
	for steps := 0; len(trace) < traceLength && steps < 10*traceLength; steps++ {
		for _, l := range g.Blocks[b].Code {
			trace = append(trace, l.Src)
		}
		t := &g.Blocks[b].Term
		to := t.To[0]
		switch t.Kind {
		case TermExit:
			return trace
		case TermBranch:
			if !c.choose(t.Src) {
				to = t.To[1]
			}
		case TermLoop, TermLatch:
			if t.Kind == TermLoop {
				left[to] = t.Count.Bits
			} else {
				left[to]--
			}
			if left[to] == 0 {
				to = t.To[1]
			} else {
				trace = append(trace, roundStart)
			}
		}
		if to <= b && (t.Kind != TermLatch || to != t.To[0]) {
			trace = append(trace, backEdge)
		}
		b = to
	}
	return trace
}

// TestGraphRunsAlike compares what the graph runs with what the program as
// written runs, instruction by instruction, fuel included.
func TestGraphRunsAlike(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(3, 4))
	kinds := map[TermKind]int{}
	backs := 0
	n := randomPrograms()
	for range n {
		p := flowProgram(r)
		v, err := Verify(p)
		if err != nil {
			continue
		}
		for _, b := range v.Graph.Blocks {
			kinds[b.Term.Kind]++
		}
		for _, b := range v.BackEdges {
			backs += int(b)
		}
		for seed := range uint64(3) {
			want, got := traceSource(p, v.BackEdges, seed), traceGraph(&v.Graph, seed)
			want, got = want[:min(len(want), traceLength)], got[:min(len(got), traceLength)]
			if !slices.Equal(want, got) {
				t.Fatalf("the program runs %v\nthe graph %v\n%v\n%v", want, got, Disassemble(p), dump(&v.Graph))
			}
		}
	}
	for k := TermExit; k <= TermLatch; k++ {
		if kinds[k] < n/100 {
			t.Errorf("only %d blocks end in %d", kinds[k], k)
		}
	}
	if backs < n/100 {
		t.Errorf("only %d back edges", backs)
	}
	t.Log(kinds, backs)
}
