package math_test

import (
	"math"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math/accuracy"
)

var (
	inf   = math.Inf(1)
	nan   = math.NaN()
	minus = math.Copysign(0, -1)
)

// specials are the values that C's Annex F demands, and others that are exact.
// All arguments are numbers of every float type.
var specials = []struct {
	op         isa.Op
	x, y, want float64
}{
	{isa.EXP, 0, 0, 1}, {isa.EXP, minus, 0, 1}, {isa.EXP, inf, 0, inf}, {isa.EXP, -inf, 0, 0}, {isa.EXP, nan, 0, nan},
	{isa.EXP, 1024, 0, inf}, {isa.EXP, -1024, 0, 0},
	{isa.EXP2, 0, 0, 1}, {isa.EXP2, minus, 0, 1}, {isa.EXP2, inf, 0, inf}, {isa.EXP2, -inf, 0, 0}, {isa.EXP2, nan, 0, nan},
	{isa.EXP2, 3, 0, 8}, {isa.EXP2, -14, 0, 0x1p-14}, {isa.EXP2, 15, 0, 32768}, {isa.EXP2, -24, 0, 0x1p-24}, {isa.EXP2, 2048, 0, inf}, {isa.EXP2, -2048, 0, 0},
	{isa.EXPM1, 0, 0, 0}, {isa.EXPM1, minus, 0, minus}, {isa.EXPM1, inf, 0, inf}, {isa.EXPM1, -inf, 0, -1}, {isa.EXPM1, nan, 0, nan},
	{isa.EXPM1, 1024, 0, inf}, {isa.EXPM1, -1024, 0, -1},
	{isa.LOG, 1, 0, 0}, {isa.LOG, 0, 0, -inf}, {isa.LOG, minus, 0, -inf}, {isa.LOG, inf, 0, inf}, {isa.LOG, -1, 0, nan}, {isa.LOG, -inf, 0, nan}, {isa.LOG, nan, 0, nan}, {isa.LOG, -0x1p-24, 0, nan},
	{isa.LOG2, 1, 0, 0}, {isa.LOG2, 0, 0, -inf}, {isa.LOG2, minus, 0, -inf}, {isa.LOG2, inf, 0, inf}, {isa.LOG2, -1, 0, nan}, {isa.LOG2, -inf, 0, nan}, {isa.LOG2, nan, 0, nan},
	{isa.LOG2, 8, 0, 3}, {isa.LOG2, 0x1p-14, 0, -14}, {isa.LOG2, 0x1p-24, 0, -24}, {isa.LOG2, 0.5, 0, -1},
	{isa.LOG10, 1, 0, 0}, {isa.LOG10, 0, 0, -inf}, {isa.LOG10, minus, 0, -inf}, {isa.LOG10, inf, 0, inf}, {isa.LOG10, -1, 0, nan}, {isa.LOG10, -inf, 0, nan}, {isa.LOG10, nan, 0, nan}, {isa.LOG10, 10, 0, 1}, {isa.LOG10, 100, 0, 2},
	{isa.LOG1P, 0, 0, 0}, {isa.LOG1P, minus, 0, minus}, {isa.LOG1P, -1, 0, -inf}, {isa.LOG1P, inf, 0, inf}, {isa.LOG1P, -2, 0, nan}, {isa.LOG1P, -inf, 0, nan}, {isa.LOG1P, nan, 0, nan},
	{isa.RSQRT, 0, 0, inf}, {isa.RSQRT, minus, 0, -inf}, {isa.RSQRT, inf, 0, 0}, {isa.RSQRT, -1, 0, nan}, {isa.RSQRT, -inf, 0, nan}, {isa.RSQRT, nan, 0, nan}, {isa.RSQRT, 4, 0, 0.5}, {isa.RSQRT, 0x1p-24, 0, 4096},
	{isa.SIN, 0, 0, 0}, {isa.SIN, minus, 0, minus}, {isa.SIN, inf, 0, nan}, {isa.SIN, -inf, 0, nan}, {isa.SIN, nan, 0, nan},
	{isa.COS, 0, 0, 1}, {isa.COS, minus, 0, 1}, {isa.COS, inf, 0, nan}, {isa.COS, -inf, 0, nan}, {isa.COS, nan, 0, nan},
	{isa.TAN, 0, 0, 0}, {isa.TAN, minus, 0, minus}, {isa.TAN, inf, 0, nan}, {isa.TAN, -inf, 0, nan}, {isa.TAN, nan, 0, nan},
	{isa.TANH, 0, 0, 0}, {isa.TANH, minus, 0, minus}, {isa.TANH, inf, 0, 1}, {isa.TANH, -inf, 0, -1}, {isa.TANH, nan, 0, nan}, {isa.TANH, 64, 0, 1},
	{isa.SIGMOID, 0, 0, 0.5}, {isa.SIGMOID, minus, 0, 0.5}, {isa.SIGMOID, inf, 0, 1}, {isa.SIGMOID, -inf, 0, 0}, {isa.SIGMOID, nan, 0, nan}, {isa.SIGMOID, 64, 0, 1},
	{isa.ERF, 0, 0, 0}, {isa.ERF, minus, 0, minus}, {isa.ERF, inf, 0, 1}, {isa.ERF, -inf, 0, -1}, {isa.ERF, nan, 0, nan}, {isa.ERF, 64, 0, 1}, {isa.ERF, -64, 0, -1},

	// 0 as base
	{isa.POW, 0, -3, inf}, {isa.POW, minus, -3, -inf}, {isa.POW, 0, -2, inf}, {isa.POW, minus, -2, inf}, {isa.POW, 0, -0.5, inf}, {isa.POW, minus, -0.5, inf},
	{isa.POW, 0, -inf, inf}, {isa.POW, minus, -inf, inf}, {isa.POW, 0, 3, 0}, {isa.POW, minus, 3, minus}, {isa.POW, 0, 2, 0}, {isa.POW, minus, 2, 0}, {isa.POW, minus, 0.5, 0}, {isa.POW, minus, inf, 0}, {isa.POW, 0, nan, nan},
	// ±1 as base, 0 as exponent
	{isa.POW, -1, inf, 1}, {isa.POW, -1, -inf, 1}, {isa.POW, 1, nan, 1}, {isa.POW, 1, inf, 1}, {isa.POW, 1, -inf, 1}, {isa.POW, -1, 3, -1}, {isa.POW, -1, 2, 1}, {isa.POW, -1, 0.5, nan}, {isa.POW, -1, nan, nan},
	{isa.POW, nan, 0, 1}, {isa.POW, nan, minus, 1}, {isa.POW, 0, 0, 1}, {isa.POW, inf, 0, 1}, {isa.POW, -inf, minus, 1}, {isa.POW, -2, 0, 1},
	{isa.POW, nan, 1, nan}, {isa.POW, nan, -3, nan}, {isa.POW, -2, 0.5, nan}, {isa.POW, -2, -2.5, nan}, {isa.POW, 2, nan, nan},
	// infinities
	{isa.POW, 0.5, -inf, inf}, {isa.POW, -0.5, -inf, inf}, {isa.POW, 2, -inf, 0}, {isa.POW, -2, -inf, 0}, {isa.POW, 0.5, inf, 0}, {isa.POW, -0.5, inf, 0}, {isa.POW, 2, inf, inf}, {isa.POW, -2, inf, inf},
	{isa.POW, -inf, -3, minus}, {isa.POW, -inf, -2, 0}, {isa.POW, -inf, -0.5, 0}, {isa.POW, -inf, 3, -inf}, {isa.POW, -inf, 2, inf}, {isa.POW, -inf, 0.5, inf}, {isa.POW, -inf, inf, inf}, {isa.POW, -inf, -inf, 0},
	{isa.POW, inf, -3, 0}, {isa.POW, inf, 0.5, inf}, {isa.POW, inf, inf, inf}, {isa.POW, inf, -inf, 0}, {isa.POW, inf, nan, nan}, {isa.POW, nan, inf, nan},
	// exact ones
	{isa.POW, 2, 10, 1024}, {isa.POW, -2, 3, -8}, {isa.POW, 3, 4, 81}, {isa.POW, 4, 0.5, 2}, {isa.POW, 2, -14, 0x1p-14}, {isa.POW, -2, -1, -0.5}, {isa.POW, 2, 2048, inf}, {isa.POW, -2, 2048, inf}, {isa.POW, 0.5, 2048, 0},

	{isa.REM, 5, 3, 2}, {isa.REM, -5, 3, -2}, {isa.REM, 5, -3, 2}, {isa.REM, -5, -3, -2}, {isa.REM, 6, 3, 0}, {isa.REM, -6, 3, minus}, {isa.REM, 6, -3, 0},
	{isa.REM, 0, 3, 0}, {isa.REM, minus, 3, minus}, {isa.REM, 1, 0, nan}, {isa.REM, 1, minus, nan}, {isa.REM, 0, 0, nan}, {isa.REM, inf, 3, nan}, {isa.REM, -inf, 3, nan}, {isa.REM, inf, inf, nan},
	{isa.REM, 5, inf, 5}, {isa.REM, -5, -inf, -5}, {isa.REM, minus, inf, minus}, {isa.REM, nan, 3, nan}, {isa.REM, 3, nan, nan}, {isa.REM, inf, nan, nan}, {isa.REM, nan, 0, nan},
	{isa.REM, 32768, 0x1p-24, 0}, {isa.REM, -32768, 0x1.8p-23, -0x1p-23}, {isa.REM, 0x1p-24, 32768, 0x1p-24}, {isa.REM, -3, 3, minus}, {isa.REM, 2, 3, 2},
}

func TestSpecialValues(t *testing.T) {
	evaluators := map[accuracy.Case]*accuracy.Evaluator{}
	for _, c := range accuracy.Cases() {
		e, err := accuracy.NewEvaluator(c.Op, c.Type, false)
		if err != nil {
			t.Fatal(err)
		}
		evaluators[c] = e
	}
	seen := map[isa.Op]bool{}
	for _, s := range specials {
		seen[s.op] = true
		for c, e := range evaluators {
			if c.Op != s.op {
				continue
			}
			got := e.Value(s.x, s.y)
			same := got == s.want && math.Signbit(got) == math.Signbit(s.want) || got != got && s.want != s.want
			if !same {
				t.Errorf("%s(%x, %x) = %x, want %x", c, s.x, s.y, got, s.want)
			}
		}
	}
	for c := range evaluators {
		if !seen[c.Op] {
			t.Errorf("no special values for %s", c.Op)
		}
	}
}

// TestWithinBounds measures the error on all arguments of 16 bits and on a
// sample of the others. The full measurement is recorded in
// docs/math-errors.md by the command in ulp.
func TestWithinBounds(t *testing.T) {
	for _, c := range accuracy.Cases() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			n, all := c.Full()
			switch {
			case c.Type == isa.F64:
				n = 40_000
			case !all || c.Type == isa.F32:
				n = 200_000
			}
			r, err := accuracy.Measure(c, n, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.N != n {
				t.Errorf("measured on %d arguments, want %d", r.N, n)
			}
			if !(r.Max >= 0 && r.Max <= c.Bound()) {
				x, y := r.Arguments()
				t.Errorf("error %.4f at %x, %x (result %x), bound %g", r.Max, x, y, r.ResultValue(), c.Bound())
			}
		})
	}
}
