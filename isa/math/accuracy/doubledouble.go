package accuracy

import "math"

// dd is the unevaluated sum of two float64, |lo| ≤ ulp(hi)/2: some 106 bits.
// The operations follow Dekker and Knuth, with FMA for exact products; each
// has a relative error of a few 2^-104.
type dd struct{ hi, lo float64 }

func quickSum(a, b float64) dd { // |a| ≥ |b| or a = 0
	s := a + b
	return dd{s, b - (s - a)}
}

func sum(a, b float64) dd {
	s := a + b
	t := s - a
	return dd{s, (a - (s - t)) + (b - t)}
}

func (x dd) add(y dd) dd {
	s, t := sum(x.hi, y.hi), sum(x.lo, y.lo)
	s = quickSum(s.hi, s.lo+t.hi)
	return quickSum(s.hi, s.lo+t.lo)
}

func (x dd) neg() dd { return dd{-x.hi, -x.lo} }

func (x dd) sub(y dd) dd { return x.add(y.neg()) }

func (x dd) mul(y dd) dd {
	p := x.hi * y.hi
	e := math.FMA(x.hi, y.hi, -p)
	e = math.FMA(x.hi, y.lo, e)
	e = math.FMA(x.lo, y.hi, e)
	return quickSum(p, e)
}

func (x dd) div(y dd) dd {
	q := x.hi / y.hi
	r := x.sub(y.times(q))
	q2 := r.hi / y.hi
	r = r.sub(y.times(q2))
	s := quickSum(q, q2)
	return s.add(dd{r.hi / y.hi, 0})
}

func (x dd) times(f float64) dd { return x.mul(dd{f, 0}) }

// scale returns x·2^k.
func (x dd) scale(k int) dd { return dd{math.Ldexp(x.hi, k), math.Ldexp(x.lo, k)} }

func (x dd) sqrt() dd {
	s := math.Sqrt(x.hi)
	r := x.sub(dd{s, 0}.mul(dd{s, 0}))
	return quickSum(s, r.hi/(2*s))
}

// Constants to 106 bits and ln 2 to 159.
var (
	ln2           = dd{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	ln2Third      = 0x1.7b57a079a1934p-111
	ln10          = dd{0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53}
	halfPi        = dd{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}
	twoOverSqrtPi = dd{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56}
	one           = dd{1, 0}
)

// expm1Reduced returns k and p with e^x = 2^k (1 + p), |p| < 0.42. The relative
// error of p is some 2^-98. The Taylor series of e^(r/256) − 1 is squared
// eight times in the form (1 + p)² − 1 = 2p + p².
func (x dd) expm1Reduced() (k int, p dd) {
	n := math.RoundToEven(x.hi / ln2.hi)
	r := x.sub(ln2.times(n)).sub(dd{n * ln2Third, 0})
	r = r.scale(-8)
	p = dd{1. / 10, 0}
	for i := 9.0; i > 0; i-- { // r(1 + r/2(1 + r/3(…)))
		p = one.add(r.mul(p)).div(dd{i, 0})
	}
	p = p.mul(r)
	for range 8 {
		p = p.times(2).add(p.mul(p))
	}
	return int(n), p
}

// log1pDD returns ln(1 + f) for f > −1. The relative error is some 2^-96: near 1 by
// the series in f/(2 + f), else by a step of Newton's from the float64's
// logarithm.
func log1pDD(f dd) dd {
	if math.Abs(f.hi) < 0x1p-6 {
		s := f.div(dd{2, 0}.add(f))
		z := s.mul(s)
		p := dd{1. / 19, 0}
		for i := 17.0; i > 0; i -= 2 {
			p = z.mul(p).add(one.div(dd{i, 0}))
		}
		return s.mul(p).times(2)
	}
	x := one.add(f)
	m, e := math.Frexp(x.hi)
	if m < math.Sqrt2/2 {
		e--
	}
	x = x.scale(-e)
	y := math.Log(x.hi)
	k, p := dd{-y, 0}.expm1Reduced()
	z := x.mul(one.add(p)).scale(k).sub(one) // x e^-y − 1, tiny
	l := z.sub(z.mul(z).scale(-1))
	return ln2.times(float64(e)).add(dd{y, 0}.add(l))
}

// logDD returns ln x for 0 < x < ∞.
func logDD(x float64) dd {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	l := log1pDD(dd{m - 1, 0})
	if e == 0 {
		return l
	}
	return ln2.times(float64(e)).add(dd{float64(e) * ln2Third, 0}).add(l)
}

// sinCosTaylor returns the sine and cosine of |r| ≤ π/4, to some 2^-102.
func sinCosTaylor(r dd) (s, c dd) {
	z := r.mul(r).neg()
	s, c = one, one
	for i := 27.0; i > 1; i -= 2 {
		s = one.add(s.mul(z).div(dd{i * (i - 1), 0}))
		c = one.add(c.mul(z).div(dd{(i - 1) * (i - 2), 0}))
	}
	return s.mul(r), c
}

// erfDD returns erf x for 0 ≤ x ≤ 6.5 by 2/√π e^(−x²) Σ 2^n x^(2n+1) / (2n+1)!!,
// all of whose terms are positive.
func erfDD(x float64) dd {
	a := dd{x, 0}
	z := a.mul(a)
	term, total := a, a
	z2 := z.times(2)
	for i := 3.0; term.hi > total.hi*0x1p-110; i += 2 {
		term = term.mul(z2).div(dd{i, 0})
		total = total.add(term)
	}
	k, p := z.neg().expm1Reduced()
	return total.mul(one.add(p)).scale(k).mul(twoOverSqrtPi)
}
