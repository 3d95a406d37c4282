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
	d := descent{s: s, want: want, best: best, visits: min(searchEffort, s.effort)}
	s.effort -= d.visits
	d.visit(f, 1)
	s.effort += d.visits
	return d.best
}

// descent looks for an upper bound of a form as one eliminates variables: the
// newest atom is bounded by one of the facts about it, a multiple of which is
// added so that it cancels, or by its interval, and then the next.
type descent struct {
	s          *state
	want, best int64
	visits     int
}

// maxDivisor bounds what a form is multiplied by so that an atom cancels.
const maxDivisor = 1 << 20

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
	t := f.terms[f.n-1]
	a := &d.s.atoms[t.atom]
	for k := a.fact; k >= 0 && d.visits > 0; {
		fact := &d.s.facts[k]
		k = fact.prev
		h := d.s.terms[fact.at+fact.n-1].coef
		if (h > 0) == (t.coef > 0) {
			d.visits-- // a long list of these costs as well
			continue
		}
		g := form{c: fact.c, n: int(fact.n)}
		copy(g.terms[:], d.s.terms[fact.at:fact.at+fact.n])
		times, div := t.coef/-h, int64(1)
		if t.coef%h != 0 {
			div = h
			times = t.coef
			if div < 0 {
				div = -div
			}
			if times < 0 {
				times = -times
			}
		}
		if div > maxDivisor/by {
			continue
		}
		x := *f
		if (div == 1 || x.scale(div)) && x.plus(&x, times, &g) {
			d.visit(&x, by*div)
		}
	}
	end := a.hi
	if t.coef < 0 {
		end = a.lo
	}
	if end >= inf || end <= -inf {
		return
	}
	x := f.drop()
	if p, ok := mul(t.coef, end); ok {
		if x.c, ok = add(x.c, p); ok {
			d.visit(&x, by)
		}
	}
}

// floor returns ⌊a / by⌋.
func floor(a, by int64) int64 {
	q := a / by
	if a%by < 0 {
		q--
	}
	return q
}
