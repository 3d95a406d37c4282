package analysis

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// A state runs a tape for one launch. It keeps its memory for the next.
type state struct {
	t      *tape
	in     launch
	values []value
	terms  []term // of the values' forms and of facts
	atoms  []atom
	facts  []fact
	open   []int32    // for each open scope, how many facts there were
	back   []interval // by parameter of a loop (tapeParam.carry): what comes back to it
	carry  []carried
	rounds []interval // by loop
	proved bitset     // sites that cannot fault
	effort int        // visits left to searches
	again  bool
	work   *work.Meter // counts steps; nil in launches
	// While a pass rests on guesses: whether one proved wrong. See guess.
	guessing, wrong bool
	saved           bitset
}

// launch is what a state knows of a launch.
type launch struct {
	n           uint64
	params      []uint64 // nil: not known
	unknown     uint64   // bit i: parameter i is not known
	slots       []int64  // bytes that byte addresses reach; nil: not known
	grid, block interval3
}

type interval3 [3]interval

// value is a form, in terms, and the interval it stands in by the atoms'
// intervals alone.
type value struct {
	interval
	c     int64
	at    int32
	n     int32
	exact bool // the operation that made it did not wrap
	// whole: the value is its Affine; mod: it is modulo 2^64. See symbolic.
	whole, mod bool
}

type atom struct {
	interval
	fact int32 // the last fact about it that holds, −1: none
}

// fact is a form that is known to be ≥ 0. It hangs on its newest atom.
type fact struct {
	c    int64
	at   int32
	n    int32
	prev int32
}

// carried is what a pass learned of a loop's parameter, for the next.
type carried struct {
	back  interval // what came back
	exact bool     // what each round adds did not wrap
	known bool
	wild  bool // it is not affine, and what came back goes beyond what it starts from and 0
	tame  bool // so guess that it does not
	guess interval
}

// Bounds on the work of searches, in visits of a form.
const (
	searchEffort = 64
	openEffort   = 12
	totalEffort  = 1 << 14
	maxPasses    = 4
)

func newState(t *tape) *state {
	// Most values have one term, and each may be an atom, as a loop's round is; slices
	// that grow would take twice that.
	return &state{t: t, values: make([]value, len(t.values)),
		terms: make([]term, 0, len(t.values)+3*len(t.loops)), atoms: make([]atom, 0, isa.NumSpecials+len(t.values)+len(t.loops)),
		back: make([]interval, t.carry), carry: make([]carried, t.carry), rounds: make([]interval, len(t.loops))}
}

// run runs the tape. What holds after a pass holds; a further pass may find
// more where loops carry values, beginning with what came back in the last.
func (s *state) run() {
	clear(s.carry)
	s.proved.reset(len(s.t.f.Sites))
	s.effort = totalEffort
	for pass := 0; pass < maxPasses; pass++ {
		s.again = false
		s.pass()
		if !s.again {
			break
		}
	}
	s.guess()
}

// maxGuesses bounds the passes that rest on guesses.
const maxGuesses = 2

// guess tries whether parameters that the passes found to be anything stay
// between 0 and what they start from, as what is halved or shifted does. A pass
// assumes it, of all these parameters, and looks whether what comes back is
// within; then it is so, by induction over the rounds. Else nothing of that
// pass is kept.
func (s *state) guess() {
	wild := false
	for k := range s.carry {
		c := &s.carry[k]
		c.tame = c.wild
		wild = wild || c.wild
	}
	if !wild {
		return
	}
	s.saved.reset(len(s.t.f.Sites))
	copy(s.saved, s.proved)
	for range maxGuesses {
		s.guessing, s.wrong = true, false
		s.pass()
		s.guessing = false
		if !s.wrong {
			return
		}
		copy(s.proved, s.saved)
	}
	for k := range s.carry {
		s.carry[k].tame = false
	}
	s.pass()
}

func (s *state) pass() {
	s.terms, s.atoms, s.facts, s.open = s.terms[:0], s.atoms[:0], s.facts[:0], s.open[:0]
	for i := range s.values { // what joins a result before it has its value
		s.values[i].interval = interval{1, 0}
	}
	for i := range s.back {
		s.back[i] = interval{1, 0}
	}
	s.specials()
	for _, piece := range s.t.steps.pieces {
		s.work.Step(len(piece))
		s.read(piece)
	}
}

// read does steps of a pass.
func (s *state) read(piece []step) {
	for i := range piece {
		st := &piece[i]
		switch st.kind {
		case stepValue:
			s.compute(st)
			s.values[st.dst].whole, s.values[st.dst].mod = s.holdsAffine(st)
		case stepFact:
			s.compare(st)
		case stepOpen:
			s.open = append(s.open, int32(len(s.facts)))
		case stepClose:
			s.close()
		case stepLoop:
			s.enter(st)
		case stepNext:
			s.next(st)
		case stepEnd:
			s.leave(st)
		case stepJoin:
			s.values[st.dst].interval = s.values[st.dst].hull(s.interval(st.a))
		case stepMerge:
			s.opaque(st.dst, s.typed(st.dst, s.values[st.dst].interval))
			s.values[st.dst].whole, s.values[st.dst].mod = true, true
		case stepCheck:
			if !s.proved.has(st.node.Site) && s.safe(st) {
				s.proved.put(st.node.Site)
			}
		}
	}
}

func (s *state) close() {
	last := len(s.open) - 1
	for k := len(s.facts) - 1; k >= int(s.open[last]); k-- {
		f := &s.facts[k]
		s.atoms[s.terms[f.at+f.n-1].atom].fact = f.prev
	}
	s.facts = s.facts[:s.open[last]]
	s.open = s.open[:last]
}

// The first atoms are the special values.
func (s *state) specials() {
	last := interval{0, inf}
	if s.in.n <= inf {
		last.hi = max(0, int64(s.in.n)-1)
	}
	lanes := s.in.block[0].times(s.in.block[1]).times(s.in.block[2])
	blocks := last
	if lanes.lo > 1 {
		blocks.hi = last.hi / lanes.lo
	}
	for d := range 3 {
		most := interval{0, addUpper(s.in.block[d].hi, -1)}
		s.atom(most.meet(last))
	}
	rows := blocks
	for d := range 3 {
		most := interval{0, addUpper(s.in.grid[d].hi, -1)}
		s.atom(most.meet(rows))
		if w := s.in.grid[d]; w.point() && w.lo > 1 && rows.hi < inf {
			rows.hi /= w.lo
		}
	}
	for d := range 3 {
		s.atom(s.in.block[d])
	}
	for d := range 3 {
		s.atom(s.in.grid[d])
	}
	s.atom(last)
	if n := (interval{int64(s.in.n), int64(s.in.n)}); s.in.n < inf {
		s.atom(n)
	} else {
		s.atom(interval{0, inf})
	}
	s.placeFacts(last.hi)
}

// placeFacts adds that the number of a lane in the grid, which its indices make
// up, is at most last, and so is what any of the first of them make up.
func (s *state) placeFacts(last int64) {
	if last >= inf {
		return
	}
	f := form{c: last}
	width := int64(1)
	for d := range 6 {
		size := s.in.block[d%3]
		if d >= 3 {
			size = s.in.grid[d-3]
		}
		if !size.point() || width > last {
			return
		}
		if size.lo > 1 {
			f.terms[f.n] = term{int32(d), -width}
			f.n++
			s.know(&f)
		}
		var ok bool
		if width, ok = mul(width, max(1, size.lo)); !ok {
			return
		}
	}
}

// atom makes an atom.
func (s *state) atom(r interval) int32 {
	s.atoms = append(s.atoms, atom{r, -1})
	return int32(len(s.atoms) - 1)
}

// place returns the place of a value of the Func on the tape, −1 if it has none.
func (s *state) place(v *ir.Value) int32 {
	if i := s.t.index[v.ID]; i >= 0 {
		return i
	}
	return -1
}

// load returns the form of a value.
func (s *state) load(i int32) (f form) {
	v := &s.values[i]
	f.c, f.n = v.c, int(v.n)
	copy(f.terms[:], s.terms[v.at:v.at+v.n])
	return f
}

// naive returns the interval of a form by the intervals of its atoms.
func (s *state) naive(f *form) interval {
	r := interval{f.c, f.c}
	for _, t := range f.terms[:f.n] {
		r = r.plus(s.atoms[t.atom].scale(t.coef))
	}
	return r
}

// set gives value i the form f.
func (s *state) set(i int32, f *form, r interval) {
	if f.n == 0 {
		r = interval{f.c, f.c}
	}
	at := int32(len(s.terms))
	s.terms = append(s.terms, f.terms[:f.n]...)
	s.values[i] = value{interval: r, c: f.c, at: at, n: int32(f.n), exact: true}
}

// opaque makes value i an atom, or a number if r is one, and returns its form.
func (s *state) opaque(i int32, r interval) form {
	var f form
	if r.point() {
		f.c = r.lo
	} else {
		f.n = 1
		f.terms[0] = term{s.atom(r), 1}
	}
	s.set(i, &f, r)
	return f
}

// typed narrows r, which holds the values that value i may have if it is not
// empty, to the values of i's type.
func (s *state) typed(i int32, r interval) interval {
	to := rangeOf(s.t.values[i].Type)
	if r.empty() {
		return to
	}
	return r.meet(to)
}

// assign gives value i the number f if that is what its type holds, else what
// wrapping makes of it, which is not known but by rest.
func (s *state) assign(i int32, f *form, rest interval) {
	if !s.try(i, f) {
		s.opaque(i, s.typed(i, rest))
		s.values[i].exact = false
	}
}

// try gives value i the number f if that is what its type holds.
func (s *state) try(i int32, f *form) bool {
	t := s.t.values[i].Type
	r := s.naive(f)
	if !r.fits(t) {
		r = s.tight(f, rangeOf(t))
	}
	if r.fits(t) {
		s.set(i, f, r)
		return true
	}
	return false
}

// know adds a fact: f ≥ 0.
func (s *state) know(f *form) {
	if f.n == 0 {
		return
	}
	at := int32(len(s.terms))
	s.terms = append(s.terms, f.terms[:f.n]...)
	a := &s.atoms[f.newest()]
	s.facts = append(s.facts, fact{f.c, at, int32(f.n), a.fact})
	a.fact = int32(len(s.facts) - 1)
}

// atMost adds the fact x ≤ y + c.
func (s *state) atMost(x, y *form, c int64) {
	var f form
	if f.plus(y, -1, x) {
		var ok bool
		if f.c, ok = add(f.c, c); ok {
			s.know(&f)
		}
	}
}

// compare adds what the fact of a step says.
func (s *state) compare(st *step) {
	x, y := s.load(st.a), s.load(st.b)
	switch st.cond {
	case isa.LT:
		s.atMost(&x, &y, -1)
	case isa.LE:
		s.atMost(&x, &y, 0)
	case isa.GT:
		s.atMost(&y, &x, -1)
	case isa.GE:
		s.atMost(&y, &x, 0)
	case isa.EQ:
		s.atMost(&x, &y, 0)
		s.atMost(&y, &x, 0)
	case isa.NE: // tells something at the end of what is possible
		var d form
		if !d.plus(&x, -1, &y) {
			return
		}
		switch r := s.naive(&d); {
		case r.lo == 0:
			s.atMost(&y, &x, -1)
		case r.hi == 0:
			s.atMost(&x, &y, -1)
		}
	}
}

// interval returns the tightest interval of a value that is found.
func (s *state) interval(i int32) interval {
	v := &s.values[i]
	if v.n == 0 {
		return v.interval
	}
	f := s.load(i)
	return s.tight(&f, interval{inf, -inf}).meet(v.interval)
}

// enter gives the parameters of a loop their values in a round.
func (s *state) enter(st *step) {
	l := s.t.loops[st.loop]
	var rounds interval
	if l.count >= 0 {
		rounds = s.interval(l.count)
	} else {
		rounds = s.roundsOf(l)
	}
	s.rounds[st.loop] = rounds
	t := s.atom(interval{0, max(0, addUpper(rounds.hi, -1))})
	round := form{n: 1}
	round.terms[0] = term{t, 1}
	if l.count >= 0 {
		count := s.load(l.count)
		s.atMost(&round, &count, -1)
	}
	for k := range l.params {
		p := &l.params[k]
		c := &s.carry[p.carry]
		hull := s.typed(p.value, interval{1, 0})
		if c.known {
			init := s.interval(p.init)
			hull = hull.meet(init.hull(c.back))
			if c.tame {
				c.guess = init.hull(interval{})
				hull = hull.meet(c.guess)
			}
		}
		s.parameter(p, &round, hull)
		v := &s.values[p.value]
		v.whole, v.mod = true, true
		if p.merged {
			init := &s.values[p.init]
			by := &value{whole: true, mod: true}
			if p.step >= 0 {
				by = &s.values[p.step]
			}
			v.whole = v.exact && init.whole && by.whole
			v.mod = v.whole || s.t.values[p.value].Type.Bits() == 64 && init.mod && by.mod
		}
	}
}

// parameter gives a loop's parameter its value in a round. hull holds what it
// may be.
func (s *state) parameter(p *tapeParam, round *form, hull interval) {
	if f, ok := s.affine(p, round); ok {
		r := s.naive(&f)
		typ := s.t.values[p.value].Type
		if !r.fits(typ) {
			r = s.tight(&f, rangeOf(typ)).meet(r)
		}
		if r.fits(typ) || s.carry[p.carry].exact {
			s.set(p.value, &f, r.meet(hull))
			return
		}
	}
	s.opaque(p.value, hull)
	s.values[p.value].exact = false
}

// carryOver keeps for the next pass what came back to a parameter.
func (s *state) carryOver(p *tapeParam, back interval, uncounted bool) {
	c := &s.carry[p.carry]
	if s.guessing {
		// What a pass that may be wrong has learned is not kept.
		if c.tame && !back.empty() && (back.lo < c.guess.lo || back.hi > c.guess.hi) {
			c.tame, s.wrong = false, true
		}
		return
	}
	now := carried{back: back, known: true, exact: p.next >= 0 && s.values[p.next].exact}
	init := s.values[p.init].hull(interval{})
	now.wild = !s.values[p.value].exact && init.lo > -inf && init.hi < inf && (back.lo < init.lo || back.hi > init.hi)
	if now != *c && (uncounted || !s.values[p.value].exact) {
		s.again = true
	}
	*c = now
}

// holdsAffine returns whether the value of a step is its Affine, and whether
// it is modulo 2^64, for which 64-bit operations may wrap.
func (s *state) holdsAffine(st *step) (whole, mod bool) {
	v := &s.values[st.dst]
	if !st.merged { // a symbol is what it is, a constant perhaps 2^64 more
		return st.node.Op != ir.Const || v.exact, true
	}
	whole, mod = v.exact, true
	for _, i := range [...]int32{st.a, st.b, st.c} {
		if i >= 0 {
			x := &s.values[i]
			whole = whole && x.whole
			if s.t.values[i].Type.Bits() == 64 {
				mod = mod && x.mod
			} else {
				mod = mod && x.whole
			}
		}
	}
	if st.node.Op == ir.Op(isa.MIN) { // which is its operand only if it is
		mod = mod && v.exact
	}
	return whole, mod && (s.t.values[st.dst].Type.Bits() == 64 || whole)
}

// affine returns init + step · round.
func (s *state) affine(p *tapeParam, round *form) (f form, ok bool) {
	by, ok := s.stepOf(p)
	if !ok {
		return f, false
	}
	init := s.load(p.init)
	ok = f.plus(&init, by, round)
	return f, ok
}

// stepOf returns what each round adds to a parameter, if it is a number.
func (s *state) stepOf(p *tapeParam) (by int64, ok bool) {
	switch {
	case p.back != 0:
		return p.back, true
	case p.step < 0 || s.values[p.step].n > 0:
		return 0, false
	case p.minus:
		return -s.values[p.step].c, true
	}
	return s.values[p.step].c, true
}

// roundsOf bounds the rounds of a loop that is not counted by a parameter that
// goes one way and was seen to keep within bounds.
func (s *state) roundsOf(l *tapeLoop) interval {
	most := int64(inf)
	for k := range l.params {
		p := &l.params[k]
		c := &s.carry[p.carry]
		by, ok := s.stepOf(p)
		if !ok || !c.exact || c.back.empty() {
			continue
		}
		init := s.interval(p.init)
		// After r rounds that came back: init + r·by, within c.back.
		way := int64(inf) // how far it goes
		switch {
		case by > 0:
			way = addUpper(c.back.hi, -init.lo)
		case by < 0:
			way = addUpper(init.hi, -c.back.lo)
		}
		if way < inf {
			most = min(most, max(0, way)/max(by, -by)+1)
		}
	}
	return interval{0, most}
}

// next notes what comes back to a parameter.
func (s *state) next(st *step) {
	p := &s.t.loops[st.loop].params[st.dst]
	s.back[p.carry] = s.back[p.carry].hull(s.interval(st.a))
}

// leave gives a loop's results their values, and keeps what came back for the
// next pass.
func (s *state) leave(st *step) {
	l := s.t.loops[st.loop]
	for k := range l.params {
		p := &l.params[k]
		back := s.back[p.carry]
		s.carryOver(p, back, l.count < 0)
		if p.result < 0 {
			continue
		}
		count := s.load(l.count)
		if f, ok := s.affine(p, &count); ok && s.values[p.value].exact {
			s.assign(p.result, &f, interval{1, 0})
		} else {
			s.opaque(p.result, s.typed(p.result, s.interval(p.init).hull(back)))
		}
		s.values[p.result].whole, s.values[p.result].mod = true, true
	}
}
