package isa

import (
	"math"
	"math/bits"
)

// Floats. Every type widens exactly to f64, so a result is computed there and
// rounded to its type. For ADD, SUB, MUL, DIV and SQRT that is as good as one
// rounding, since f64 has more than twice the digits and two more (Figueroa,
// "When is double rounding innocuous?", 1995): 53 ≥ 2·24 + 2. So it is, too,
// for the f32 arithmetic by which the 16-bit types are defined. FMA needs care.

// CanonicalNaN is the NaN that every operation of a float type gives: quiet,
// positive, without payload.
func CanonicalNaN(t Type) uint64 { return infinity(t) | 1<<(t.MantissaBits()-1) }

// infinity is the cell of +∞.
func infinity(t Type) uint64 { return t.Mask() >> 1 &^ (1<<t.MantissaBits() - 1) }

func isNaN(t Type, a uint64) bool { return t.Float() && a&^signBit(t) > infinity(t) }

// value is the number a float cell stands for.
func value(t Type, a uint64) float64 {
	switch t {
	case F64:
		return math.Float64frombits(a)
	case F32:
		return float64(math.Float32frombits(uint32(a)))
	case BF16:
		return float64(math.Float32frombits(uint32(a) << 16))
	}
	return math.Float64frombits(convertFloat(F64, t, a))
}

// rounded makes a cell of a float result, rounding it to nearest even.
func rounded(t Type, x float64) (uint64, FaultKind) {
	switch {
	case x != x:
		return CanonicalNaN(t), NoFault
	case t == F64:
		return math.Float64bits(x), NoFault
	case t == F32:
		return uint64(math.Float32bits(float32(x))), NoFault
	}
	return convertFloat(t, F64, math.Float64bits(x)), NoFault
}

// unpack writes a finite float cell as (−1)^neg · m · 2^e.
func unpack(t Type, a uint64) (neg bool, m uint64, e int) {
	mb := t.MantissaBits()
	exp := int(a &^ signBit(t) >> mb)
	m = a & (1<<mb - 1)
	if exp == 0 {
		exp = 1 // subnormal: the smallest exponent, no hidden bit
	} else {
		m |= 1 << mb
	}
	return a&signBit(t) != 0, m, exp - bias(t) - mb
}

func bias(t Type) int { return 1<<(t.ExponentBits()-1) - 1 }

// pack rounds (−1)^neg · m · 2^e once, to nearest even, to a cell of float type t.
func pack(t Type, neg bool, m uint64, e int) uint64 {
	var cell uint64
	if m != 0 {
		mb := t.MantissaBits()
		// The result's unit in the last place is 2^(exp−mb): by m's leading
		// bit, or the subnormals' unit below the smallest normal number.
		exp := max(e+bits.Len64(m)-1, 1-bias(t))
		var q uint64
		if drop := exp - mb - e; drop <= 0 {
			q = m << -drop
		} else if drop <= 64 {
			q = m >> drop
			if rest := m << (64 - drop); rest > 1<<63 || rest == 1<<63 && q&1 == 1 {
				q++
			}
		}
		// q's hidden bit, if any, and a carry out of rounding add to the exponent field.
		cell = min(uint64(exp+bias(t)-1)<<mb+q, infinity(t))
	}
	if neg {
		cell |= signBit(t)
	}
	return cell
}

// convertFloat rounds a float cell to another float type.
func convertFloat(to, from Type, a uint64) uint64 {
	sign := a & signBit(from)
	switch a ^ sign {
	default:
		if isNaN(from, a) {
			return CanonicalNaN(to)
		}
	case infinity(from):
		if sign != 0 {
			return infinity(to) | signBit(to)
		}
		return infinity(to)
	}
	neg, m, e := unpack(from, a)
	return pack(to, neg, m, e)
}

func evalCvt(f Form, a, b, c uint64) (uint64, FaultKind) {
	to, from := f.Type, f.From
	switch {
	case to.Float() && from.Float():
		return convertFloat(to, from, a), NoFault
	case to.Float() && from.Signed() && signed(from, a) < 0:
		return pack(to, true, uint64(-signed(from, a)), 0), NoFault
	case to.Float():
		return pack(to, false, a, 0), NoFault
	case from.Float():
		return floatToInt(to, value(from, a)), NoFault
	case from.Signed():
		return integer(to, uint64(signed(from, a)))
	}
	return integer(to, a)
}

// floatToInt truncates toward zero and saturates; NaN gives 0.
func floatToInt(t Type, x float64) uint64 {
	digits := t.Bits()
	if t.Signed() {
		digits--
	}
	limit := math.Ldexp(1, digits) // one above the largest value
	switch {
	case x != x:
		return 0
	case x >= limit:
		return 1<<digits - 1
	case t.Unsigned():
		return uint64(math.Max(x, 0))
	case x < -limit:
		return signBit(t)
	}
	return uint64(int64(x)) & t.Mask()
}

func evalFma(f Form, a, b, c uint64) (uint64, FaultKind) {
	x, y, z := value(f.Type, a), value(f.Type, b), value(f.Type, c)
	if f.Type == F64 {
		return rounded(F64, math.FMA(x, y, z))
	}
	return rounded(f.Type, float64(fma32(x, y, z)))
}

// fma32 returns x·y + z rounded once to f32, of values that f32 holds.
//
// The product is exact in f64. The sum is rounded to odd there: where it is
// not exact, the result is the neighbour with an odd last bit. An odd last bit
// says "something follows" to the next rounding, so rounding to f32, with 29
// bits fewer, is the same as rounding the exact sum (Boldo and Melquiond,
// "Emulation of a FMA and correctly rounded sums", 2008).
func fma32(x, y, z float64) float32 {
	p := float64(x * y)
	s := float64(p + z)
	// Knuth's TwoSum: err is exactly the sum less s.
	zz := float64(s - p)
	err := float64(p-float64(s-zz)) + float64(z-zz)
	u := math.Float64bits(s)
	if u&1 == 0 && (err < 0 || err > 0) { // not where s is infinite: err is a NaN then
		if (err > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}

func evalSqrt(f Form, a, b, c uint64) (uint64, FaultKind) {
	return rounded(f.Type, math.Sqrt(value(f.Type, a)))
}

func evalFloor(f Form, a, b, c uint64) (uint64, FaultKind) {
	return rounded(f.Type, math.Floor(value(f.Type, a)))
}

func evalCeil(f Form, a, b, c uint64) (uint64, FaultKind) {
	return rounded(f.Type, math.Ceil(value(f.Type, a)))
}

func evalRound(f Form, a, b, c uint64) (uint64, FaultKind) {
	return rounded(f.Type, math.RoundToEven(value(f.Type, a)))
}

func evalTrunc(f Form, a, b, c uint64) (uint64, FaultKind) {
	return rounded(f.Type, math.Trunc(value(f.Type, a)))
}

// remainder is C's fmod, which is exact.
func remainder(t Type, a, b uint64) (uint64, FaultKind) {
	return rounded(t, math.Mod(value(t, a), value(t, b)))
}

func floatLess(x, y float64) bool {
	return x < y || x == y && math.Signbit(x) && !math.Signbit(y)
}
