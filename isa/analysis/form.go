package analysis

// A form is a number c + Σ coefficient · atom, where atoms are numbers that
// nothing finer is known of than an interval and facts: the place of a lane,
// the round of a loop, the result of a division. Forms are mathematical
// integers; what wraps is an atom of its own.
type form struct {
	c     int64
	n     int
	terms [maxTerms]term // by ascending atom, no coefficient 0
}

type term struct {
	atom int32
	coef int64
}

// maxTerms bounds the work on a form. What has more is made an atom.
const maxTerms = 10

// plus sets f to x + k·y; false if that has too many terms or too large ones.
func (f *form) plus(x *form, k int64, y *form) bool {
	var out form
	p, ok := mul(y.c, k)
	if !ok {
		return false
	}
	if out.c, ok = add(x.c, p); !ok {
		return false
	}
	i, j := 0, 0
	for i < x.n || j < y.n {
		var t term
		switch {
		case j == y.n || i < x.n && x.terms[i].atom < y.terms[j].atom:
			t = x.terms[i]
			i++
		default:
			t.atom = y.terms[j].atom
			if t.coef, ok = mul(y.terms[j].coef, k); !ok {
				return false
			}
			if i < x.n && x.terms[i].atom == t.atom {
				if t.coef, ok = add(t.coef, x.terms[i].coef); !ok {
					return false
				}
				i++
			}
			j++
		}
		if t.coef == 0 {
			continue
		}
		if out.n == maxTerms {
			return false
		}
		out.terms[out.n] = t
		out.n++
	}
	*f = out
	return true
}

// scale multiplies f by k; false if that is too large.
func (f *form) scale(k int64) bool {
	var zero form
	return f.plus(&zero, k, f)
}

// newest is f's atom that was made last, which the others may bound.
func (f *form) newest() int32 { return f.terms[f.n-1].atom }

// other returns the coefficients in f and in terms of the newest atom in both
// that has opposite signs there; 0 if there is none.
func (f *form) other(terms []term) (c, h int64) {
	i, j := f.n-1, len(terms)-1
	for i >= 0 && j >= 0 {
		switch x, y := f.terms[i], terms[j]; {
		case x.atom > y.atom:
			i--
		case x.atom < y.atom:
			j--
		case (x.coef > 0) != (y.coef > 0):
			return x.coef, y.coef
		default:
			i--
			j--
		}
	}
	return 0, 0
}

// drop returns f without its last term.
func (f *form) drop() form {
	g := *f
	g.n--
	return g
}
