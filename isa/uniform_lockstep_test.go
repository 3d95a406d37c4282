package isa

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// This file runs the graphs of verified programs for several lanes in step, as
// engines do: the lane that is behind goes first, and when it comes to a barrier,
// all lanes that have not ended must stand there, in the same rounds of the same
// loops. It shares nothing with the verifier's reasoning about postdominators.

// lockstep is a graph to be run.
type lockstep struct {
	g      *Graph
	inside [][]int // by block: headers of the loops around it, outermost first, its own as well
	over   []bool  // blocks that only lead straight to EXIT
}

func newLockstep(g *Graph) *lockstep {
	n := len(g.Blocks)
	s := &lockstep{g: g, inside: make([][]int, n), over: make([]bool, n)}
	for h := range n {
		in := make([]bool, n)
		var work []int
		for b := range n {
			if slices.Contains(g.Blocks[b].Term.Successors(), h) && b >= h {
				work = append(work, b)
			}
		}
		if len(work) == 0 {
			continue
		}
		in[h] = true
		for len(work) > 0 {
			c := work[len(work)-1]
			work = work[:len(work)-1]
			if in[c] {
				continue
			}
			in[c] = true
			for b := range n {
				if slices.Contains(g.Blocks[b].Term.Successors(), c) {
					work = append(work, b)
				}
			}
		}
		for b := range n {
			if in[b] {
				s.inside[b] = append(s.inside[b], h)
			}
		}
	}
	for b := n - 1; b >= 0; b-- {
		s.over[b] = !g.Blocks[b].hasEffect(Writes | State | Barrier)
		for _, to := range g.Blocks[b].Term.Successors() {
			s.over[b] = s.over[b] && to > b && s.over[to]
		}
	}
	return s
}

// stepLane is a lane on its way. Its key says how far it has come: for each
// loop around it the header and the round, then the block.
type stepLane struct {
	at  int
	key []int
}

// goTo moves the lane to a block.
func (s *lockstep) goTo(l *stepLane, to int) {
	var key []int
	same := true
	for k, h := range s.inside[to] {
		round := 0
		if same = same && 2*k+1 < len(l.key) && l.key[2*k] == h; same {
			if round = l.key[2*k+1]; to == h {
				round++
			}
		}
		key = append(key, h, round)
	}
	l.at, l.key = to, append(key, to)
}

// reach tells which blocks a way leads to from block b.
func (s *lockstep) reach(b int) []bool {
	seen := make([]bool, len(s.g.Blocks))
	for work := []int{b}; len(work) > 0; {
		c := work[len(work)-1]
		work = work[:len(work)-1]
		for _, to := range s.g.Blocks[c].Term.Successors() {
			if !seen[to] {
				seen[to] = true
				work = append(work, to)
			}
		}
	}
	return seen
}

// run runs the lanes for some steps. way does a block for a lane and tells which
// of its successors follows, or false if that is not known any more, which ends
// the run. The result is "" or what is wrong.
func (s *lockstep) run(lanes, steps int, way func(lane, block int) (int, bool)) string {
	all := make([]stepLane, lanes)
	for i := range all {
		s.goTo(&all[i], 0)
	}
	ended := func(l *stepLane) bool { return s.over[l.at] }
	barrier := func(b int) bool { return s.g.Blocks[b].hasEffect(Barrier) }
	known := true
	step := func(i int) {
		l := &all[i]
		var k int
		if k, known = way(i, l.at); !known {
			return
		}
		if to := s.g.Blocks[l.at].Term.Successors(); len(to) > 0 {
			s.goTo(l, to[k])
			return
		}
		l.at, l.key = -1, nil
	}
	live := func() (left []int) {
		for i := range all {
			if all[i].at >= 0 && !ended(&all[i]) {
				left = append(left, i)
			}
		}
		return left
	}
	for range steps {
		left := live()
		if len(left) == 0 {
			return ""
		}
		behind := left[0]
		for _, i := range left {
			if slices.Compare(all[i].key, all[behind].key) < 0 {
				behind = i
			}
		}
		if !barrier(all[behind].at) {
			if step(behind); !known {
				return ""
			}
			continue
		}
		for _, i := range left {
			if !slices.Equal(all[i].key, all[behind].key) {
				return fmt.Sprintf("lane %d is at a barrier in %v, lane %d at %v", behind, all[behind].key, i, all[i].key)
			}
		}
		for _, i := range left {
			if step(i); !known {
				return ""
			}
		}
	}
	// Who waits must be able to hope: the others come there, or end.
	left := live()
	for _, i := range left {
		for _, j := range left {
			if from := s.reach(all[j].at); barrier(all[i].at) && all[i].at != all[j].at && !from[all[i].at] && !s.leaves(all[j].at, from) {
				return fmt.Sprintf("lane %d waits at a barrier in %v, lane %d never ends in %v", i, all[i].key, j, all[j].key)
			}
		}
	}
	return ""
}

func (s *lockstep) leaves(b int, from []bool) bool {
	for c := range s.g.Blocks {
		if (from[c] || c == b) && s.g.Blocks[c].Term.Kind == TermExit {
			return true
		}
	}
	return false
}

// meetingProgram makes a small program of jumps, barriers, exits and branches,
// whose conditions are a parameter (one each, p1 … p3) or what is loaded, p0.
func meetingProgram(r *rand.Rand) *Program {
	n := 3 + r.IntN(9)
	var lines []string
	for k := range 3 {
		lines = append(lines, fmt.Sprintf("ldp.u32 a, k%d\nset.eq.u32 p%d, a, 1", k, k+1))
	}
	for at := range n {
		to := fmt.Sprintf("l%d", r.IntN(n+1))
		text := ""
		switch r.IntN(13) {
		case 0, 1, 2, 3:
			text = "ldg.u32 a, s[index]\nset.eq.u32 p0, a, 1\nbra " + to + ", p0"
		case 4, 5:
			text = fmt.Sprintf("bra %s, p%d", to, 1+r.IntN(3))
		case 6, 7:
			text = "bra " + to
		case 8, 9, 10:
			text = "bar_sync 0"
		case 11:
			text = "mem_fence block"
		case 12:
			text = "exit"
		}
		lines = append(lines, fmt.Sprintf("l%d: %s", at, text))
	}
	last := fmt.Sprintf("l%d: ", n)
	if r.IntN(3) == 0 {
		last += "mem_fence block\n"
	}
	text := "program t\nslot s u32\nparam k0 u32\nparam k1 u32\nparam k2 u32\n"
	for _, l := range append(lines, last+"exit") {
		text += l + "\n"
	}
	p, err := Assemble("t", text)
	if err != nil {
		panic(err)
	}
	return p
}

// TestLanesArriveTogether runs all ways of two lanes through random verified
// programs, for some branches: lanes that have not ended are at one barrier.
func TestLanesArriveTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	accepted, refused, loops, ways := 0, 0, 0, 0
	const tape = 5
	for range brief.Or(1500, 200) {
		p := meetingProgram(r)
		v, err := Verify(p)
		if err != nil {
			if e := err.(*VerifyError); e.Rule == "uniform" {
				refused++
			}
			continue
		}
		if !v.HasBarrier || len(v.Graph.Blocks) == 1 {
			continue
		}
		accepted++
		s := newLockstep(&v.Graph)
		for b := range s.inside {
			if len(s.inside[b]) > 0 && v.Graph.Blocks[b].hasEffect(Barrier) {
				loops++
				break
			}
		}
		// Each way once: what a run chose, and after it the last choice that was false is true.
		var choices []bool
		for again := true; again; {
			made := 0
			choose := func() bool {
				if made == len(choices) {
					choices = append(choices, false)
				}
				made++
				return choices[made-1]
			}
			var used [2]int
			params := map[uint8]bool{}
			problem := s.run(2, 60, func(lane, block int) (int, bool) {
				term := &v.Graph.Blocks[block].Term
				if term.Kind != TermBranch {
					return 0, true
				}
				var taken bool
				if p := &term.Pred; p.Reg > 0 {
					known := false
					if taken, known = params[p.Reg]; !known {
						taken = choose()
						params[p.Reg] = taken
					}
				} else {
					if used[lane] == tape {
						return 0, false
					}
					taken = choose()
					used[lane]++
				}
				if taken != term.Pred.Not {
					return 0, true
				}
				return 1, true
			})
			if problem != "" {
				t.Fatalf("%s\n%v\n%v", problem, Disassemble(p), dump(&v.Graph))
			}
			for len(choices) > 0 && choices[len(choices)-1] {
				choices = choices[:len(choices)-1]
			}
			if again = len(choices) > 0; again {
				choices[len(choices)-1] = true
			}
			ways++
		}
	}
	t.Logf("%d programs accepted, %d with a barrier in a loop, %d refused; %d ways", accepted, loops, refused, ways)
	if n := brief.Or(1500, 200); accepted < n/20 || loops < n/100 || refused < n/20 {
		t.Error("too few programs of some kind")
	}
}
