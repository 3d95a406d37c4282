package analysis

// tight bounds f by the atoms' intervals and by facts. It looks no further
// once the bounds are within want; an interval from inf to −inf asks for the
// best that it can find.
func (s *state) tight(f *form, want interval) interval {
	var minus, zero form
	r := s.naive(f)
	r.hi = s.most(f, r.hi, want.hi)
	if minus.plus(&zero, -1, f) {
		r.lo = -s.most(&minus, -r.lo, -want.lo)
	}
	return r
}

// most returns an upper bound of f, below best if there is one.
func (s *state) most(f *form, best, want int64) int64 {
	if best <= want {
		return best
	}
	effort := searchEffort
	if want == -inf { // there is no end to what is wanted
		effort = openEffort
	}
	d := descent{s: s, want: want, best: best, visits: min(effort, s.effort)}
	s.effort -= d.visits
	d.visit(f, 1)
	s.effort += d.visits
	return d.best
}

// descent looks for an upper bound of a form as one eliminates variables: the
// newest atom is bounded by one of the facts about it, a multiple of which is
// added so that it cancels, or by its interval, and then the next. What
// promises most is tried first.
type descent struct {
	s          *state
	want, best int64
	visits     int
}

// way is a form that bounds by times the one to be bounded.
type way struct {
	form
	by int64
	hi int64 // by the atoms' intervals, divided by by
}

// Bounds on a step of a descent: the facts about an atom that are looked at,
// the ways from there, and what a form is multiplied by so that an atom cancels.
const (
	maxFacts   = 8
	maxWays    = 4
	maxDivisor = 1 << 20
)

// visit bounds f / by.
func (d *descent) visit(f *form, by int64) {
	if d.visits <= 0 || d.best <= d.want {
		return
	}
	d.visits--
	if hi := d.s.naive(f).hi; hi < inf {
		d.best = min(d.best, floor(hi, by))
	}
	if f.n == 0 || d.best <= d.want {
		return
	}
	var ways [maxWays]way
	n := 0
	t := f.terms[f.n-1]
	a := &d.s.atoms[t.atom]
	end := a.hi
	if t.coef < 0 {
		end = a.lo
	}
	if end < inf && end > -inf {
		w := way{form: f.drop(), by: by}
		if p, ok := mul(t.coef, end); ok {
			if w.c, ok = add(w.c, p); ok {
				n = d.propose(&ways, n, &w)
			}
		}
	}
	for k, seen := a.fact, 0; k >= 0 && seen < maxFacts; seen++ {
		fact := &d.s.facts[k]
		if w, ok := d.cancel(f, by, fact); ok {
			n = d.propose(&ways, n, &w)
		}
		k = fact.prev
	}
	for i := range n {
		d.visit(&ways[i].form, ways[i].by)
	}
}

// propose puts w among the ways, sorted by what they promise, and drops the
// least if there is no room.
func (d *descent) propose(ways *[maxWays]way, n int, w *way) int {
	w.hi = d.s.naive(&w.form).hi
	if w.hi < inf {
		w.hi = floor(w.hi, w.by)
	}
	if n == maxWays {
		if ways[n-1].hi <= w.hi {
			return n
		}
		n--
	}
	i := n
	for ; i > 0 && ways[i-1].hi > w.hi; i-- {
		ways[i] = ways[i-1]
	}
	ways[i] = *w
	return n + 1
}

// cancel adds a fact to f / by so often that f's newest atom cancels, or, where
// the fact bounds that from the other side, another of the fact's atoms.
func (d *descent) cancel(f *form, by int64, fact *fact) (w way, ok bool) {
	terms := d.s.terms[fact.at : fact.at+fact.n]
	c, h := f.terms[f.n-1].coef, terms[len(terms)-1].coef
	if (h > 0) == (c > 0) {
		if c, h = f.other(terms[:len(terms)-1]); c == 0 {
			return w, false
		}
	}
	g := form{c: fact.c, n: len(terms)}
	copy(g.terms[:], terms)
	w.form, w.by = *f, by
	times := -(c / h)
	if c%h != 0 {
		div := int64(magnitude(h))
		if div > maxDivisor/by || !w.scale(div) {
			return w, false
		}
		times, w.by = int64(magnitude(c)), by*div
	}
	return w, w.plus(&w.form, times, &g)
}

// floor returns ⌊a / by⌋.
func floor(a, by int64) int64 {
	q := a / by
	if a%by < 0 {
		q--
	}
	return q
}
