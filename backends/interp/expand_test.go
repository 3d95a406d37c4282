package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

// TestExpansions runs every row that is defined by an expansion, in every
// type, and holds it to Go's math far more loosely than isa/math's own tests
// do: what is tested here is that the expansion gets its operands and that its
// result comes back.
func TestExpansions(t *testing.T) {
	oracle := map[isa.Op]func(x, y float64) float64{
		isa.EXP: func(x, _ float64) float64 { return math.Exp(x) }, isa.EXP2: func(x, _ float64) float64 { return math.Exp2(x) },
		isa.EXPM1: func(x, _ float64) float64 { return math.Expm1(x) }, isa.LOG: func(x, _ float64) float64 { return math.Log(x) },
		isa.LOG2: func(x, _ float64) float64 { return math.Log2(x) }, isa.LOG10: func(x, _ float64) float64 { return math.Log10(x) },
		isa.LOG1P: func(x, _ float64) float64 { return math.Log1p(x) }, isa.RSQRT: func(x, _ float64) float64 { return 1 / math.Sqrt(x) },
		isa.SIN: func(x, _ float64) float64 { return math.Sin(x) }, isa.COS: func(x, _ float64) float64 { return math.Cos(x) },
		isa.TAN: func(x, _ float64) float64 { return math.Tan(x) }, isa.TANH: func(x, _ float64) float64 { return math.Tanh(x) },
		isa.SIGMOID: func(x, _ float64) float64 { return 1 / (1 + math.Exp(-x)) }, isa.ERF: func(x, _ float64) float64 { return math.Erf(x) },
		isa.POW: math.Pow,
	}
	values := []float64{0.25, 1, 1.5, 2, 3.75, math.Inf(1), math.NaN()}
	const y = 1.75
	for op := isa.Op(1); op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Expand == 0 || row.Eval != nil {
			continue
		}
		f := oracle[op]
		if f == nil {
			t.Errorf("%v has no oracle here", op)
			continue
		}
		for _, ty := range row.Expand.List() {
			second := ""
			if len(row.Operands) == 3 {
				second = ", y"
			}
			r := setup(t, fmt.Sprintf(`
slot x f64
slot out f64
  ldg.f64 w, x[index]
  cvt.%[1]v.f64 v, w
  mov.%[1]v y, 0x1.cp+0
  %[2]s.%[1]v v, v%[3]s
  cvt.f64.%[1]v w, v
  stg.f64 w, out[index]
  exit`, ty, row.Mnemonic(), second), uint64(len(values)), 4)
			for i, x := range values {
				binary.LittleEndian.PutUint64(r.bytes(0)[8*i:], math.Float64bits(x))
			}
			r.ok()
			for i, x := range values {
				got, want := math.Float64frombits(binary.LittleEndian.Uint64(r.bytes(1)[8*i:])), f(x, y)
				bound := (math.Abs(want) + 1e-30) * math.Ldexp(4, -min(ty.MantissaBits(), 50))
				if !(math.Abs(got-want) <= bound || got == want || got != got && want != want) {
					t.Errorf("%v.%v(%v) = %v, want %v", op, ty, x, got, want)
				}
			}
		}
	}
}
