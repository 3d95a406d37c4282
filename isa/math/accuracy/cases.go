package accuracy

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// Case is a function in one type.
type Case struct {
	Op   isa.Op
	Type isa.Type
}

// Cases lists every row and type that expands, in the order of the table.
func Cases() []Case {
	var l []Case
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		for _, t := range []isa.Type{isa.F32, isa.F64, isa.F16, isa.BF16} {
			if row.Expand.Has(t) {
				l = append(l, Case{op, t})
			}
		}
	}
	return l
}

// String returns the case's name, such as "exp.f32".
func (c Case) String() string { return strings.ToLower(c.Op.String()) + "." + c.Type.String() }

// Bound returns the largest error the case may have, in units in the last
// place: the row's, but 1 for f16 and bf16, and 0 for the exact remainder.
func (c Case) Bound() float64 {
	row, _ := isa.Lookup(c.Op)
	if c.Type.Size() == 2 && row.ULP > 1 {
		return 1
	}
	return float64(row.ULP)
}

// Binary reports whether the function has two arguments.
func (c Case) Binary() bool { return c.Op == isa.POW || c.Op == isa.REM }

// Full returns the number of arguments of a full measurement, and whether
// those are all there are.
func (c Case) Full() (n uint64, all bool) {
	switch {
	case !c.Binary() && c.Type.Size() < 8:
		return 1 << c.Type.Bits(), true
	case c.Op == isa.POW && c.Type == isa.F32:
		return 1e9, false
	case c.Binary() && c.Type.Size() < 8:
		return 1e8, false
	}
	return 1e7, false
}

// special are values that every sample contains, in both signs and all pairs.
var special = []float64{
	0, 1, 0.5, 2, 3, math.Inf(1), math.NaN(),
	0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp-1023, math.MaxFloat64, // f64's ends
	0x1p-149, 0x1p-126, 0x1.fffffcp-127, 0x1.fffffep127, // f32's
	0x1p-133, 0x1.fep127, 0x1p-24, 0x1p-14, 0x1.ff8p-15, 65504, // bf16's, f16's
	0x1.0000000000001p0, 0x1.fffffffffffffp-1, 0x1.000002p0, 0x1.fffffep-1, 0x1.004p0, 0x1.ffcp-1, 0x1.02p0, 0x1.fep-1,
	88.72283, 88.72284, 103.97, 103.98, 87.33, 709.782712893384, 709.7827128933841, 745.1332191019411, 745.1332191019412, 708.3964, // ends of exp
	127.99999, 128, 149, 149.5, 150, 126, 1023.9999999999999, 1024, 1074, 1075, 1022.5, 11.09, 15.99, 16, 17.33, 24, 25,
	9.01, 18.71, 3.92, 5.92, 6.01, // where tanh and erf reach 1
	1.5707964, 3.1415927, 6.2831855, math.Pi / 2, math.Pi, 0x1.6ac5b262ca1ffp+849, 0x1.d5a40ap+74, 16367173 * 0x1p+72, 1e22, // near multiples of π/2
	0x1p23, 0x1p24, 0x1.000002p24, 8388607.5, 0x1p52, 0x1p53, 4503599627370495.5, 9007199254740991, // integers, odd and even, and not
	0x1p-25, 0x1p-54, 0x1p-30, 0x1p15, 0x1p17, 0x1p30, // limits of the expansions' own cases
}

// arguments returns a source of arguments as cells, the same ones for the same
// rng: the special values first, then by turns bits drawn uniformly and values
// from where the function is interesting.
func (c Case) arguments(rng *rand.Rand) func() (x, y uint64) {
	t, i := c.Type, 0
	signed := func(k int) float64 {
		if k&1 != 0 {
			return -special[k>>1]
		}
		return special[k>>1]
	}
	n := 2 * len(special)
	uniform := func() float64 { return 2*rng.Float64() - 1 }
	return func() (uint64, uint64) {
		k := i
		i++
		if !c.Binary() {
			if k < n {
				return fromFloat(t, signed(k)), 0
			}
			var v float64
			switch k & 7 {
			case 0, 1, 2:
				return rng.Uint64() & t.Mask(), 0
			case 3: // over the range of exponentials
				v = uniform() * 750
			case 4:
				v = uniform() * 20
			case 5: // around 1
				v = 1 + uniform()*math.Exp2(-float64(rng.IntN(30)))
			case 6: // all magnitudes near 1
				v = math.Copysign(math.Exp(uniform()*40), uniform())
			default: // beside a multiple of π/2
				v = math.Round(uniform()*float64(uint64(1)<<rng.IntN(40))) * (math.Pi / 2)
				v *= 1 + float64(rng.IntN(5)-2)*0x1p-52
			}
			return fromFloat(t, v), 0
		}
		if k < n*n {
			return fromFloat(t, signed(k%n)), fromFloat(t, signed(k/n))
		}
		if k&7 == 0 {
			return rng.Uint64() & t.Mask(), rng.Uint64() & t.Mask()
		}
		xc := rng.Uint64() & t.Mask() >> 1
		switch k % 3 {
		case 0:
			xc = fromFloat(t, 1+uniform()*0.04)
		case 1:
			xc = fromFloat(t, math.Exp(uniform()))
		}
		x := toFloat(t, xc)
		if c.Op == isa.REM {
			// quotients of all sizes
			return xc, fromFloat(t, x*math.Exp2(uniform()*40))
		}
		// a result over all of the format
		emax := float64(int(1)<<(t.ExponentBits()-1)) + float64(t.MantissaBits())
		y := uniform() * emax / math.Log2(x)
		if k%5 == 0 {
			y = math.Round(y)
			x *= float64(1 - 2*(k/5&1))
		}
		return fromFloat(t, x), fromFloat(t, y)
	}
}

// toFloat returns the value of a cell of a float type, exactly.
func toFloat(t isa.Type, c uint64) float64 {
	switch t {
	case isa.F64:
		return math.Float64frombits(c)
	case isa.F32:
		return float64(math.Float32frombits(uint32(c)))
	case isa.BF16:
		return float64(math.Float32frombits(uint32(c) << 16))
	}
	sign := 1.0
	if c>>15 != 0 {
		sign = -1
	}
	e, m := int(c>>10&31), float64(c&1023)
	switch {
	case e == 31 && m != 0:
		return math.NaN()
	case e == 31:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(m, -24)
	}
	return sign * math.Ldexp(1024+m, e-25)
}

// fromFloat returns a cell of a float type near v. It serves to choose
// arguments: how it rounds does not matter.
func fromFloat(t isa.Type, v float64) uint64 {
	switch t {
	case isa.F64:
		return math.Float64bits(v)
	case isa.F32:
		return uint64(math.Float32bits(float32(v)))
	case isa.BF16:
		c := math.Float32bits(float32(v)) >> 16
		if v != v {
			c |= 0x40
		}
		return uint64(c)
	}
	a, sign := math.Abs(v), uint64(0)
	if math.Signbit(v) {
		sign = 1 << 15
	}
	switch {
	case v != v:
		return 0x7e00
	case a >= 65520:
		return sign | 0x7c00
	case a < 0x1p-14:
		return sign | uint64(math.Round(a*0x1p24))
	}
	m, e := math.Frexp(a) // m in [1/2, 1)
	return sign | uint64(e+14)<<10 + uint64(m*2048) - 1024
}
