package kernels_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// gelu is the exact value to 1 part in 2^40, to where e^−2u leaves float64.
func gelu(x value) value {
	if x < -40 {
		return math.Copysign(0, -1)
	}
	return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// precision is that of geluBig's numbers, in bits.
const precision = 160

func bigOf(text string) *big.Float {
	f, _, err := big.ParseFloat(text, 10, precision, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return f
}

func newBig() *big.Float { return new(big.Float).SetPrec(precision) }

var (
	bigLn2  = bigOf("0.693147180559945309417232121458176568075500134360255254120680")
	bigPi   = bigOf("3.14159265358979323846264338327950288419716939937510582097494")
	bigTwoU = newBig().Mul(bigOf("2"), newBig().Sqrt(newBig().Quo(bigOf("2"), bigPi)))
	bigCube = bigOf("0.044715")
)

// geluBig is x/(1 + e^−2u) in numbers of 160 bits, for |x| < 40.
func geluBig(x value) *big.Float {
	at := newBig().SetFloat64(x)
	u := newBig().Mul(at, at)
	u.Mul(u, bigCube).Add(u, bigOf("1")).Mul(u, at).Mul(u, bigTwoU).Neg(u)
	quotient, _ := newBig().Quo(u, bigLn2).Float64()
	k := math.RoundToEven(quotient)
	r := newBig().Sub(u, newBig().Mul(bigLn2, newBig().SetFloat64(k)))
	sum := bigOf("1")
	for i := 40; i > 0; i-- { // Horner's form of Taylor's series, |r| ≤ ½ ln 2
		sum.Mul(sum, r).Quo(sum, newBig().SetInt64(int64(i))).Add(sum, bigOf("1"))
	}
	sum.SetMantExp(sum, int(k))
	return newBig().Quo(at, sum.Add(sum, bigOf("1")))
}

// errorOf is |got − want| in units of the last place that want has in a type
// whose significand has the given digits and whose least exponent is given.
func errorOf(got value, want *big.Float, digits, least int) float64 {
	unit := max(want.MantExp(nil)-digits, least)
	d := newBig().Sub(newBig().SetFloat64(got), want)
	f, _ := d.SetMantExp(d, -unit).Float64()
	return math.Abs(f)
}

// TestGelu holds gelu to its bound: on all f16 and bf16, and in f32 and f64 on
// numbers of all magnitudes, more where the result leaves the type's range.
func TestGelu(t *testing.T) {
	all := func(isa.Type) (in []uint64) {
		for c := uint64(0); c < 1<<16; c += uint64(brief.Or(1, 13)) {
			in = append(in, c)
		}
		return in
	}
	drawn := func(count int, lowest, highest value) func(isa.Type) []uint64 {
		return func(typ isa.Type) (in []uint64) {
			rng := rand.New(rand.NewPCG(1, 2))
			for range brief.Or(count, count/10) {
				in = append(in, cell(typ, lowest*rng.Float64()), cell(typ, lowest*(1-rng.Float64()/8)), cell(typ, highest*rng.Float64()),
					cell(typ, math.Ldexp(rng.Float64()-0.5, -rng.IntN(150))), rng.Uint64()&typ.Mask())
			}
			return in
		}
	}
	for _, c := range []struct {
		typ           isa.Type
		digits, least int // of the significand; of the least exponent
		in            func(isa.Type) []uint64
		bound         float64
	}{
		{isa.F16, 11, -24, all, 0.54},
		{isa.BF16, 8, -133, all, 0.51},
		{isa.F32, 24, -149, drawn(20000, -10.8, 6), 3},
		{isa.F64, 53, -1074, drawn(2000, -21.6, 8), 3},
	} {
		in := c.in(c.typ)
		out := call(t, kernels.Gelu, c.typ, nil, [][]uint64{in, make([]uint64, len(in))})[1]
		worst, at := 0.0, 0.0
		for i, o := range out {
			x, got := number(c.typ, in[i]), number(c.typ, o)
			var exact *big.Float
			if c.typ == isa.F64 && math.Abs(x) < 40 && x != 0 {
				exact = geluBig(x)
			} else if want := gelu(x); want == 0 || want != want || math.IsInf(want, 0) {
				requireCell(t, c.typ, want, o, "gelu(%v) in %v", x, c.typ)
				continue
			} else {
				exact = newBig().SetFloat64(want)
			}
			require.Equal(t, math.Signbit(x), math.Signbit(got), "gelu(%v) in %v is %v", x, c.typ, got)
			if err := errorOf(got, exact, c.digits, c.least); err > worst {
				worst, at = err, x
			}
		}
		t.Logf("%v: at most %.4f ULP, at %x", c.typ, worst, at)
		require.LessOrEqual(t, worst, c.bound, "%v at %x", c.typ, at)
	}
}

// TestGeluAtTheEnds looks at what no bound says.
func TestGeluAtTheEnds(t *testing.T) {
	for _, typ := range floats {
		var in []uint64
		ends := []value{math.Inf(-1), -60000, -33, math.Copysign(0, -1), 0, 60000, math.MaxFloat64, math.Inf(1), math.NaN()}
		for _, x := range ends {
			in = append(in, cell(typ, x))
		}
		out := call(t, kernels.Gelu, typ, nil, [][]uint64{in, make([]uint64, len(in))})[1]
		for i, x := range ends {
			x = number(typ, in[i])
			requireCell(t, typ, gelu(x), out[i], "gelu(%v) in %v", ends[i], typ)
		}
	}
}
