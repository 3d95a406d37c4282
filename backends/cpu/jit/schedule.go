package jit

import (
	"slices"
	"strings"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// A processor looks ahead for instructions that wait for none, but it holds only some
// hundred of those that wait. So the instructions of a straight stretch are put in the
// order in which they could begin (list scheduling): of those whose operands are there,
// that comes first behind which the longest way to the end is. No more values are kept
// at once than in the order as it was, for constants want registers too: gelu took 1.1 of
// the time where this was not so. What can't be ordered with as few stays as it is.

// maxStretch bounds the work on one stretch; longer ones are done in parts.
const maxStretch = 1024

// schedule orders each stretch. Loops count instructions, so that these stay in it.
func (u *unit) schedule(t *target) {
	n := len(u.info)
	counts := make([]int32, 4*n)
	s := &scheduler{unit: u, t: t, seen: counts[:n], writer: counts[n : 2*n], readers: counts[2*n : 3*n], left: counts[3*n:]}
	u.intervals()
	s.lives()
	for first := 0; first < len(u.code); {
		last := first
		for last < len(u.code) && last-first < maxStretch && !u.code[last].apart() {
			last++
		}
		if last-first >= shortStretch {
			s.stretch(int32(first), u.code[first:last])
		}
		first = max(last, first+1)
	}
	for v := range u.info { // for those who number instructions anew
		u.info[v].start, u.info[v].end, u.info[v].weight = 0, -1, 0
	}
}

// shortStretch is what a processor sees through by itself.
const shortStretch = 24

// apart reports whether an instruction may be come to, or left for another than the next.
func (in *inst) apart() bool { return in.label != 0 || in.emit != nil && !in.inner }

// scheduler orders stretches. What is by vreg serves one after the other.
type scheduler struct {
	*unit
	t       *target
	seen    []int32 // in the stretch
	writer  []int32 // of what is there, or -1
	readers []int32 // of it, the first of a list in reads, or -1
	left    []int32 // of seen, what is yet to come in the walk
	reads   []link
	edges   []edge
	uses    []use

	ends  []vreg              // in the order in which they end
	there [][numClasses]int32 // by instruction: how many begin before it and end in it or later

	code  []inst
	nodes []node
	order []int32
	ready []int32
	spare []inst
	room  [numClasses]int // registers that values of the stretch may take,
	held  [numClasses]int // among them those that are there before and end in it
	last  int32           // instruction of the stretch
	first int32
}

// node is an instruction of the stretch.
type node struct {
	after  int32 // the first of a list in edges, or -1
	before int32 // how many are to come first that have not
	cycles int32
	begin  int32 // when its operands are there
	way    int32 // cycles from its beginning to the end of the stretch
	vector bool  // it takes one of the units for vectors
	values []use
}

// edge goes to what comes after an instruction, and link to one that reads a vreg; next is
// where the list goes on, or -1.
type edge struct{ to, cycles, next int32 }
type link struct{ at, next int32 }

// use is how often an instruction has to do with a vreg that begins or ends in the stretch,
// and how often the stretch has.
type use struct {
	v            vreg
	times, seen  int32
	class        class
	begins, ends bool
}

func (s *scheduler) stretch(first int32, code []inst) {
	s.code, s.nodes = code, slices.Grow(s.nodes[:0], len(code))[:len(code)]
	s.relate()
	s.measure(first)
	s.values()
	s.order = s.order[:0]
	for i := range code {
		s.order = append(s.order, int32(i))
	}
	before := s.most(s.order)
	s.room[classVec] = min(s.room[classVec], before[classVec])
	s.sort()
	for c, n := range s.most(s.order) {
		if n > max(s.room[c], before[c]) {
			return
		}
	}
	s.spare = append(s.spare[:0], code...)
	for i, k := range s.order {
		code[i] = s.spare[k]
	}
}

// relate finds out what comes before what.
func (s *scheduler) relate() {
	s.reads, s.edges = s.reads[:0], s.edges[:0]
	for i := range s.code {
		in := &s.code[i]
		s.nodes[i] = node{after: -1, cycles: in.cycles(), vector: in.emit == nil && in.f != x86.MovUPS && in.f != x86.LoadUPD}
		in.visit(func(v vreg, _ bool) { s.seen[v], s.writer[v], s.readers[v] = 0, -1, -1 })
	}
	effect, looks := int32(-1), []int32(nil) // the last effect on memory, and the looks at it since
	for i := range s.code {
		in, at := &s.code[i], int32(i)
		in.visit(func(v vreg, write bool) {
			s.seen[v]++
			if !write {
				if w := s.writer[v]; w >= 0 {
					s.edge(w, at, s.nodes[w].cycles)
				}
				s.reads = append(s.reads, link{at, s.readers[v]})
				s.readers[v] = int32(len(s.reads) - 1)
				return
			}
			s.edge(s.writer[v], at, 0)
			for r := s.readers[v]; r >= 0; r = s.reads[r].next {
				s.edge(s.reads[r].at, at, 0)
			}
			s.writer[v], s.readers[v] = at, -1
		})
		switch {
		case in.emit != nil && !in.pure || in.d == 0 && in.mem != nil:
			s.edge(effect, at, 0)
			for _, l := range looks {
				s.edge(l, at, 0)
			}
			effect, looks = at, looks[:0]
		case in.emit != nil || in.mem != nil:
			s.edge(effect, at, 0)
			looks = append(looks, at)
		}
	}
	for i := len(s.nodes) - 1; i >= 0; i-- {
		n := &s.nodes[i]
		n.way = n.cycles
		for k := n.after; k >= 0; k = s.edges[k].next {
			e := &s.edges[k]
			n.way = max(n.way, e.cycles+s.nodes[e.to].way)
		}
	}
}

// edge has one instruction come some cycles after another, if there is one.
func (s *scheduler) edge(from, to, cycles int32) {
	if from >= 0 && from != to {
		s.edges = append(s.edges, edge{to, cycles, s.nodes[from].after})
		s.nodes[from].after = int32(len(s.edges) - 1)
		s.nodes[to].before++
	}
}

// lives counts the vregs that are there where an instruction begins.
func (s *scheduler) lives() {
	s.there = make([][numClasses]int32, len(s.unit.code)+1)
	for v := 1; v < len(s.info); v++ {
		x := &s.info[v]
		if x.end < 0 || x.constant {
			continue
		}
		s.ends = append(s.ends, vreg(v))
		if first, last := x.start/2+1, x.end/2; first <= last {
			s.there[first][x.class]++
			s.there[last+1][x.class]--
		}
	}
	for i := 1; i < len(s.there); i++ {
		for c := range s.there[i] {
			s.there[i][c] += s.there[i-1][c]
		}
	}
	slices.SortFunc(s.ends, func(v, w vreg) int { return int(s.info[v].end - s.info[w].end) })
}

// measure finds out how many registers there are beside those that others hold meanwhile.
func (s *scheduler) measure(first int32) {
	s.first, s.last, s.held = first, first+int32(len(s.code))-1, [numClasses]int{}
	for ; len(s.ends) > 0 && s.info[s.ends[0]].end <= 2*s.last+1; s.ends = s.ends[1:] {
		if begins, ends := s.within(s.ends[0]); !begins && ends && s.info[s.ends[0]].end >= 2*s.first {
			s.held[s.info[s.ends[0]].class]++
		}
	}
	for c := range s.room { // what is there before and stays
		s.room[c] = len(s.t.files[c]) - int(s.there[first][c]) + s.held[c]
	}
}

// within reports whether the life of a vreg begins in the stretch, and whether it ends there.
func (s *scheduler) within(v vreg) (begins, ends bool) {
	x := &s.info[v]
	return x.start >= 2*s.first, x.end <= 2*s.last+1
}

// values notes which vregs begin or end with each instruction, or may, and how often they
// are used there.
func (s *scheduler) values() {
	s.uses = s.uses[:0]
	for i := range s.code {
		first := len(s.uses)
		s.code[i].visit(func(v vreg, _ bool) {
			begins, ends := s.within(v)
			if !begins && !ends || s.info[v].constant {
				return
			}
			for k := first; k < len(s.uses); k++ {
				if s.uses[k].v == v {
					s.uses[k].times++
					return
				}
			}
			s.uses = append(s.uses, use{v, 1, s.seen[v], s.info[v].class, begins, ends})
		})
		s.nodes[i].values = s.uses[first:]
	}
}

// walk counts registers while instructions are taken in some order.
type walk struct {
	left []int32 // by vreg: how often one of the stretch is yet to come
	live [numClasses]int
}

// walk begins one, which ends where the next begins.
func (s *scheduler) walk() *walk {
	for i := range s.uses {
		s.left[s.uses[i].v] = s.uses[i].seen
	}
	return &walk{left: s.left, live: s.held}
}

// change is by how many registers more an instruction leaves in use.
func (s *scheduler) change(w *walk, n *node) (more [numClasses]int) {
	for i := range n.values {
		x := &n.values[i]
		left := w.left[x.v]
		if x.begins && left == x.seen {
			more[x.class]++
		}
		if x.ends && left == x.times {
			more[x.class]--
		}
	}
	return more
}

func (s *scheduler) take(w *walk, n *node) {
	more := s.change(w, n)
	for c := range more {
		w.live[c] += more[c]
	}
	for i := range n.values {
		w.left[n.values[i].v] -= n.values[i].times
	}
}

// most is how many registers an order takes.
func (s *scheduler) most(order []int32) (most [numClasses]int) {
	w := s.walk()
	for _, i := range order {
		s.take(w, &s.nodes[i])
		for c := range most {
			most[c] = max(most[c], w.live[c])
		}
	}
	return most
}

// sort finds the order in which a processor would take instructions that sees all of them.
func (s *scheduler) sort() {
	units := 3
	if s.t.evex {
		units = 2
	}
	w := s.walk()
	ready, order := s.ready[:0], s.order[:0]
	for i := range s.nodes {
		if s.nodes[i].before == 0 {
			ready = append(ready, int32(i))
		}
	}
	now, taken := int32(0), 0
	for len(ready) > 0 {
		best, soon, least := -1, -1, 0
		for k, i := range ready {
			n := &s.nodes[i]
			if i < ready[least] {
				least = k
			}
			if !s.fits(w, n) {
				continue
			}
			if soon < 0 || n.begin < s.nodes[ready[soon]].begin {
				soon = k
			}
			if n.begin > now || n.vector && taken >= units {
				continue
			}
			if best < 0 || s.before(i, ready[best]) {
				best = k
			}
		}
		switch {
		case best >= 0:
		case soon < 0: // none fits: on in the order as it was
			best = least
		default:
			now, taken = max(now+1, s.nodes[ready[soon]].begin), 0
			continue
		}
		i := ready[best]
		ready[best] = ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		n := &s.nodes[i]
		if n.vector {
			taken++
		}
		s.take(w, n)
		order = append(order, i)
		for k := n.after; k >= 0; k = s.edges[k].next {
			e := &s.edges[k]
			to := &s.nodes[e.to]
			to.begin = max(to.begin, max(now, n.begin)+e.cycles)
			if to.before--; to.before == 0 {
				ready = append(ready, e.to)
			}
		}
	}
	s.ready, s.order = ready, order
}

// before reports whether a is to be taken before b, both being ready.
func (s *scheduler) before(a, b int32) bool {
	if x, y := s.nodes[a].way, s.nodes[b].way; x != y {
		return x > y
	}
	return a < b
}

// fits reports whether there are registers for an instruction.
func (s *scheduler) fits(w *walk, n *node) bool {
	more := s.change(w, n)
	for c := range more {
		if more[c] > 0 && w.live[c]+more[c] > s.room[c] {
			return false
		}
	}
	return true
}

// cycles is what passes until an instruction's result is there, as processors since 2017
// have it, or nearly.
func (in *inst) cycles() int32 {
	switch {
	case in.fma == &andOrD || in.fma == &andOrQ || in.fma == &andXorD || in.fma == &andXorQ:
		return 1
	case in.fma != nil:
		return 4
	case in.f == nil:
		return 5
	}
	name := in.f.Name
	latency := int32(4) // of arithmetic with floats, and conversions
	switch {
	case in.f.Ops[0] == 'k', strings.HasPrefix(name, "vpmov"), strings.HasPrefix(name, "vperm"):
		latency = 3
	case strings.HasPrefix(name, "vdiv"), strings.HasPrefix(name, "vsqrt"):
		latency = 16
	case strings.HasPrefix(name, "vrndscale"), strings.HasPrefix(name, "vround"), strings.HasPrefix(name, "vpmul"):
		latency = 8
	case strings.HasPrefix(name, "vp"), strings.HasPrefix(name, "vblend"), strings.HasPrefix(name, "vmov"):
		latency = 1
	}
	if in.mem != nil {
		latency += 6
	}
	return latency
}
