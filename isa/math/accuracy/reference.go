package accuracy

import (
	"math"
	"math/big"
	"sync"

	"github.com/hologram-project/hologram/isa"
)

// reference64 returns the function in float64, of the elements of x (and y), for
// comparison with types of 32 bits and fewer. Go's own functions err by about one unit in the last place
// of a float64, which is 2^-29 of one of a float32. Where they are less exact
// there is something else here: near 1 for LOG2 and LOG10, and POW.
func reference64(op isa.Op) func(r, x, y []float64) {
	one := func(f func(float64) float64) func(r, x, y []float64) {
		return func(r, x, _ []float64) {
			for i, v := range x {
				r[i] = f(v)
			}
		}
	}
	two := func(f func(x, y float64) float64) func(r, x, y []float64) {
		return func(r, x, y []float64) {
			for i, v := range x {
				r[i] = f(v, y[i])
			}
		}
	}
	switch op {
	case isa.EXP:
		return one(math.Exp)
	case isa.EXP2:
		return one(math.Exp2)
	case isa.EXPM1:
		return one(math.Expm1)
	case isa.LOG:
		return one(math.Log)
	case isa.LOG2:
		return one(func(x float64) float64 {
			if x > 0.5 && x < 2 {
				return math.Log1p(x-1) * math.Log2E
			}
			return math.Log2(x)
		})
	case isa.LOG10:
		return one(func(x float64) float64 {
			if x > 0.5 && x < 2 {
				return math.Log1p(x-1) * math.Log10E
			}
			return math.Log10(x)
		})
	case isa.LOG1P:
		return one(math.Log1p)
	case isa.RSQRT:
		return one(func(x float64) float64 { return 1 / math.Sqrt(x) })
	case isa.SIN:
		return one(math.Sin)
	case isa.COS:
		return one(math.Cos)
	case isa.TAN:
		return one(math.Tan)
	case isa.TANH:
		return one(math.Tanh)
	case isa.SIGMOID:
		return one(func(x float64) float64 {
			if x < 0 {
				e := math.Exp(x)
				return e / (1 + e)
			}
			return 1 / (1 + math.Exp(-x))
		})
	case isa.ERF:
		return one(math.Erf)
	case isa.POW:
		return two(func(x, y float64) float64 {
			v := math.Pow(x, y)
			if x == 0 || y == 0 || v == 0 || math.Abs(v) == 1 || v != v || math.IsInf(v, 0) || math.IsInf(y, 0) {
				return v
			}
			// y ln|x| is below 104 or so for what f32 can hold, so its rounding
			// error costs some 2^-46 of the result.
			return math.Copysign(math.Exp(y*math.Log(math.Abs(x))), v)
		})
	case isa.REM:
		return two(math.Mod)
	}
	return nil
}

// exact is a reference value: v·2^k, or v.hi itself, to be met exactly, if
// special.
type exact struct {
	v       dd
	k       int
	special bool
}

// referenceDD returns the function in double-double arithmetic, with a
// relative error of 2^-90 or less.
func referenceDD(op isa.Op) func(x, y float64) exact {
	f := reference64(op)
	return func(x, y float64) exact {
		var r [1]float64
		f(r[:], []float64{x}, []float64{y})
		s := r[0]
		if s != s || x == 0 || math.IsInf(x, 0) || op == isa.REM || (op == isa.POW && (y == 0 || x == 1 || math.IsInf(y, 0))) {
			return exact{v: dd{s, 0}, special: true}
		}
		v, k := finite(op, x, y)
		if v.hi == 0 {
			return exact{v: v, special: true}
		}
		_, e := math.Frexp(v.hi)
		return exact{v: v.scale(-e), k: k + e}
	}
}

// power returns e^a as v·2^k.
func power(a dd) (v dd, k int) {
	if math.Abs(a.hi) > 1e5 {
		return one, int(math.Copysign(1e5, a.hi))
	}
	k, p := a.expm1Reduced()
	return one.add(p), k
}

// finite computes the function for finite x ≠ 0 within its domain.
func finite(op isa.Op, x, y float64) (v dd, k int) {
	a := dd{x, 0}
	if math.Abs(x) < 0x1p-200 {
		switch op {
		case isa.EXPM1, isa.LOG1P, isa.SIN, isa.TAN, isa.TANH:
			return a, 0
		case isa.ERF:
			return a.scale(400).mul(twoOverSqrtPi), -400
		}
	}
	switch op {
	case isa.EXP:
		return power(a)
	case isa.EXP2:
		n := math.RoundToEven(x)
		if math.Abs(n) > 1e5 {
			return one, int(math.Copysign(1e5, n))
		}
		v, k = power(ln2.times(x - n))
		return v, k + int(n)
	case isa.EXPM1:
		if x > 800 {
			return power(a)
		}
		if x < -200 {
			return one.neg(), 0
		}
		k, p := a.expm1Reduced()
		if k == 0 {
			return p, 0
		}
		if k > 200 {
			return one.add(p), k
		}
		return one.add(p).scale(k).sub(one), 0
	case isa.LOG:
		return logDD(x), 0
	case isa.LOG2:
		return logDD(x).div(ln2), 0
	case isa.LOG10:
		return logDD(x).div(ln10), 0
	case isa.LOG1P:
		if x == -1 {
			return dd{math.Inf(-1), 0}, 0
		}
		return log1pDD(a), 0
	case isa.RSQRT:
		m, e := math.Frexp(x)
		if e&1 != 0 {
			m, e = 2*m, e-1
		}
		return one.div(dd{m, 0}.sqrt()), -e / 2
	case isa.SIN, isa.COS, isa.TAN:
		q, r := reducePi(x)
		s, c := sinCosTaylor(r)
		switch {
		case op == isa.TAN && q&1 == 0:
			return s.div(c), 0
		case op == isa.TAN:
			return c.div(s).neg(), 0
		case op == isa.COS:
			q++
		}
		if q&1 != 0 {
			s = c
		}
		if q&2 != 0 {
			s = s.neg()
		}
		return s, 0
	case isa.TANH:
		k, p := dd{2 * min(math.Abs(x), 100), 0}.expm1Reduced()
		if k != 0 {
			p = one.add(p).scale(k).sub(one)
		}
		v = p.div(p.add(dd{2, 0}))
	case isa.SIGMOID:
		e, k := power(dd{-math.Abs(x), 0})
		d := one
		if k > -300 {
			d = one.add(e.scale(k))
		}
		if x < 0 {
			return e.div(d), k
		}
		return one.div(d), 0
	case isa.ERF:
		v = one // within 2^-63 from 6.5 on
		if math.Abs(x) < 6.5 {
			v = erfDD(math.Abs(x))
		}
	case isa.POW:
		l := logDD(math.Abs(x))
		if math.Abs(y*l.hi) > 1e5 {
			v, k = one, int(math.Copysign(1e5, y*l.hi))
		} else {
			v, k = power(l.times(y))
		}
		if x < 0 && math.Abs(math.Mod(y, 2)) == 1 {
			v = v.neg()
		}
		return v, k
	}
	if x < 0 {
		v = v.neg()
	}
	return v, 0
}

// fractionBits is the precision of an argument's fraction of a quadrant. A
// float64 comes no nearer to a multiple of π/2 than some 2^-62.
const fractionBits = 256

const piBits = 1024 + fractionBits + 64

// twoOverPi returns ⌊2^piBits · 2/π⌋, from Machin's π = 16 atan 1/5 − 4 atan 1/239.
var twoOverPi = sync.OnceValue(func() *big.Int {
	const guard = 64
	unit := new(big.Int).Lsh(big.NewInt(1), piBits+guard)
	atan := func(n int64) *big.Int {
		total, term := new(big.Int), new(big.Int).Div(unit, big.NewInt(n))
		for i := int64(1); term.Sign() != 0; i += 2 {
			t := new(big.Int).Div(term, big.NewInt(i))
			if i&2 != 0 {
				t.Neg(t)
			}
			total.Add(total, t)
			term.Div(term, big.NewInt(n*n))
		}
		return total
	}
	pi := new(big.Int).Sub(new(big.Int).Mul(big.NewInt(16), atan(5)), new(big.Int).Mul(big.NewInt(4), atan(239)))
	two := new(big.Int).Lsh(unit, piBits+1)
	return two.Div(two, pi)
})

// reducePi returns q mod 4 and r with x = q π/2 + r, |r| ≤ π/4.
func reducePi(x float64) (q int, r dd) {
	if math.Abs(x) < 0.78 {
		return 0, dd{x, 0}
	}
	m, e := math.Frexp(math.Abs(x))
	n := new(big.Int).SetInt64(int64(m * 0x1p53)) // |x| = n·2^(e−53)
	f := new(big.Int).Rsh(twoOverPi(), uint(piBits-fractionBits-(e-53)))
	f.Mul(f, n)
	var mask, half big.Int
	mask.Lsh(big.NewInt(1), fractionBits+2).Sub(&mask, big.NewInt(1))
	half.Lsh(big.NewInt(1), fractionBits-1)
	f.And(f, &mask)
	t := new(big.Int).Add(f, &half)
	q = int(t.Rsh(t, fractionBits).Int64()) & 3
	f.Sub(f, t.Lsh(t, fractionBits))
	sign := f.Sign()
	f.Abs(f)
	bits := f.BitLen()
	hi := t.Rsh(f, uint(bits-53)).Int64()
	lo := f.Rsh(f, uint(bits-106)).Int64() & (1<<53 - 1)
	r = quickSum(math.Ldexp(float64(hi), bits-53-fractionBits), math.Ldexp(float64(lo), bits-106-fractionBits)).mul(halfPi)
	if sign < 0 {
		r = r.neg()
	}
	if x < 0 {
		return -q & 3, r.neg()
	}
	return q, r
}
