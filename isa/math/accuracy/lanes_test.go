package accuracy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestLoopsAgreeWithTheTable runs every expansion by the loops and by the
// table's own evaluators: the errors measured are those of the programs only
// if both agree in every bit.
func TestLoopsAgreeWithTheTable(t *testing.T) {
	brief.Alone(t)
	for _, c := range Cases() {
		t.Run(c.String(), func(t *testing.T) {
			fast, err := NewEvaluator(c.Op, c.Type, false)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := NewEvaluator(c.Op, c.Type, true)
			if err != nil {
				t.Fatal(err)
			}
			switch c.Type.Size() {
			case 2:
				agree[uint16](t, c, fast, plain)
			case 4:
				agree[uint32](t, c, fast, plain)
			case 8:
				agree[uint64](t, c, fast, plain)
			}
		})
	}
}

func agree[T cell](t *testing.T, c Case, fast, plain *Evaluator) {
	const n = 4000
	x, y := make([]T, n), make([]T, n)
	rng := rand.New(rand.NewPCG(1, 2))
	args := c.arguments(rng)
	for i := range x {
		a, b := args()
		x[i], y[i] = T(a), T(b)
	}
	got, want := make([]T, n), make([]T, n)
	Run(fast, got, x, y)
	Run(plain, want, x, y)
	for i := range x {
		if got[i] != want[i] && !(isNaN(c.Type, uint64(got[i])) && isNaN(c.Type, uint64(want[i]))) {
			t.Fatalf("x %#x, y %#x: the loops give %#x, the table %#x", x[i], y[i], got[i], want[i])
		}
	}
}

func isNaN(t isa.Type, c uint64) bool { return math.IsNaN(toFloat(t, c)) }

// TestFMA32 checks the f32 FMA where it is delicate: sums that f64 rounds to
// the middle between two f32, from either side, and subnormal results.
func TestFMA32(t *testing.T) {
	f := math.Float32frombits
	for _, c := range []struct{ a, b, c, want float32 }{
		{1 + 0x1p-12, 1 + 0x1p-12, 0x1p-60, 1 + 0x1p-11 + 0x1p-23},          // 1 + 2^-11 + 2^-24 + 2^-60: above the middle
		{1 + 0x1p-12, 1 + 0x1p-12, -0x1p-60, 1 + 0x1p-11},                   // just below it
		{1 + 0x1p-12, 1 + 0x1p-12, 0, 1 + 0x1p-11},                          // the middle, to even
		{0x1p-75, 0x1p-75, 0, 0},                                            // 2^-150, the middle of 0 and the smallest
		{0x1p-75, 0x1p-75, 0x1p-149, f(2)},                                  // 1.5 of it, to even
		{0x1p-75, 0x1.000002p-75, 0, f(1)},                                  // above the middle
		{-0x1p-75, 0x1.fffffep-76, 0, float32(math.Copysign(0, -1))},        // below it
		{0x1p-75, 0x1.000002p-75, -0x1p-149, float32(math.Copysign(0, -1))}, // −2^-150 and a bit
		{0x1p127, 2, -0x1p127, 0x1p127},                                     // no overflow on the way
	} {
		var d [1]float32
		fma32(d[:], []float32{c.a}, []float32{c.b}, []float32{c.c})
		if math.Float32bits(d[0]) != math.Float32bits(c.want) {
			t.Errorf("fma(%x, %x, %x) = %x, want %x", c.a, c.b, c.c, d[0], c.want)
		}
	}
	if !hasFMA {
		t.Skip("no vector FMA to compare with")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var v [4]vector
	d, a, b, c := as[float32](&v[0]), as[float32](&v[1]), as[float32](&v[2]), as[float32](&v[3])
	want := make([]float32, width)
	for range 2000 {
		for i := range width {
			a[i], b[i], c[i] = f(rng.Uint32()), f(rng.Uint32()), f(rng.Uint32())
			if i&1 == 0 { // a sum near the product's size, so that they cancel or double
				c[i] = a[i] * b[i] * float32(rng.IntN(9)-4)
			}
		}
		fmaVector(&d[0], &a[0], &b[0], &c[0], width)
		fma32(want, a, b, c)
		for i := range width {
			if math.Float32bits(d[i]) != math.Float32bits(want[i]) && (d[i] == d[i] || want[i] == want[i]) {
				t.Fatalf("fma(%x, %x, %x): %x in vectors, %x alone", a[i], b[i], c[i], d[i], want[i])
			}
		}
	}
}

// TestDetours: what only some arguments come to, in branches or loops, others do not, whatever
// stands beside them. Both ways to run expansions share what goes around it, so the numbers tell.
func TestDetours(t *testing.T) {
	for _, c := range []struct {
		op   isa.Op
		of   func(x, y float64) float64
		x, y []float64
	}{
		{isa.SIN, func(x, _ float64) float64 { return math.Sin(x) }, []float64{1, 0x1p100, -3, 0x1p40, 0.5, math.Inf(1), 0x1p31}, nil},
		{isa.COS, func(x, _ float64) float64 { return math.Cos(x) }, []float64{0x1p100, 1, 0x1p40, -3, 0.5, 0x1p31}, nil},
		{isa.TAN, func(x, _ float64) float64 { return math.Tan(x) }, []float64{1, 0x1p100, -3, 0x1p40, 0.5, 0x1p31}, nil},
		{isa.POW, math.Pow, []float64{1.5, 0, 2, 0x1p-130, 3, 2, -2}, []float64{2, 0, -140, 0.5, 4, 200, 3}},
		{isa.REM, math.Mod, []float64{5, 0x1p120, 1, 1e30}, []float64{3, 7, 2, 0.75}},
	} {
		y := c.y
		if y == nil {
			y = make([]float64, len(c.x))
		}
		for _, ty := range []isa.Type{isa.F32, isa.F64} {
			for _, plain := range []bool{false, true} {
				e, err := NewEvaluator(c.op, ty, plain)
				if err != nil {
					t.Fatal(err)
				}
				for i, got := range valuesOf(e, ty, c.x, y) {
					want := toFloat(ty, isa.Convert(ty, isa.F64, math.Float64bits(c.of(toFloat(ty, cellOf(ty, c.x[i])), toFloat(ty, cellOf(ty, y[i]))))))
					if got != want && !(math.Abs(got-want) <= 1e-6*math.Abs(want)) && !(got != got && want != want) {
						t.Errorf("%v.%v, plain %v: of %v and %v it is %v, to be %v", c.op, ty, plain, c.x[i], y[i], got, want)
					}
				}
			}
		}
	}
}

func cellOf(ty isa.Type, x float64) uint64 { return isa.Convert(ty, isa.F64, math.Float64bits(x)) }

// valuesOf runs an evaluator.
func valuesOf(e *Evaluator, ty isa.Type, x, y []float64) []float64 {
	if ty == isa.F64 {
		return runOf[uint64](e, ty, x, y)
	}
	return runOf[uint32](e, ty, x, y)
}

func runOf[T cell](e *Evaluator, ty isa.Type, x, y []float64) []float64 {
	a, b, out := make([]T, len(x)), make([]T, len(x)), make([]T, len(x))
	for i := range x {
		a[i], b[i] = T(cellOf(ty, x[i])), T(cellOf(ty, y[i]))
	}
	Run(e, out, a, b)
	values := make([]float64, len(x))
	for i, v := range out {
		values[i] = toFloat(ty, uint64(v))
	}
	return values
}
