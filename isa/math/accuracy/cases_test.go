package accuracy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

// TestCells checks the values of all cells of 16 bits, and a sample of f32,
// against the table's conversion to f64, and that they come back.
func TestCells(t *testing.T) {
	cvt, _ := isa.Lookup(isa.CVT)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, ty := range []isa.Type{isa.F16, isa.BF16, isa.F32} {
		for i := range uint64(1 << 16) {
			c := i
			if ty == isa.F32 {
				c = rng.Uint64() & ty.Mask()
			}
			want, _ := cvt.Eval(isa.Form{Type: isa.F64, From: ty}, c, 0, 0)
			got := toFloat(ty, c)
			if math.IsNaN(math.Float64frombits(want)) {
				if back := fromFloat(ty, math.NaN()); got == got || !isNaN(ty, back) {
					t.Fatalf("%s %#x is %x, back %#x, want NaN", ty, c, got, back)
				}
				continue
			}
			if math.Float64bits(got) != want {
				t.Fatalf("%s %#x is %x, want %x", ty, c, got, math.Float64frombits(want))
			}
			if back := fromFloat(ty, got); back != c {
				t.Fatalf("%s %#x comes back as %#x", ty, c, back)
			}
		}
	}
}

// TestErrors checks the definition of an error by cases that can be told at
// sight. The evaluator takes no part.
func TestErrors(t *testing.T) {
	exp32, exp64 := Case{isa.EXP, isa.F32}, Case{isa.EXP, isa.F64}
	inf32, nan32 := uint64(0x7f800000), uint64(0x7fc00000)
	for _, c := range []struct {
		c      Case
		got, x uint64
		lo, hi float64
	}{
		{exp32, 0x3f800000, 0, 0, 0},                              // e^0 = 1
		{exp32, 0x3f800001, 0, 1, 1},                              // the next number
		{exp32, 0x3f7fffff, 0, 0.5, 0.5},                          // the one before, in a finer binade
		{exp32, nan32, 0, math.Inf(1), math.Inf(1)},               // a NaN where there is a value
		{exp32, nan32, nan32, 0, 0},                               // and where there is none
		{exp32, 0x3f800000, nan32, math.Inf(1), math.Inf(1)},      // a value where there is none
		{exp32, inf32, 0x42c80000, 0, 0},                          // e^100 is beyond f32
		{exp32, 0x7f7fffff, 0x42c80000, 1, 1},                     // its largest number is one off
		{exp32, 0, 0xc3480000, 0, 1e-30},                          // e^-200 is next to nothing
		{exp32, 1, 0xc3480000, 1, 1},                              // the smallest number is one off
		{exp32, 0x80000000, 0xff800000, math.Inf(1), math.Inf(1)}, // e^-inf is +0
		{exp64, 0x3ff0000000000000, 0, 0, 0},
		{exp64, 0x3ff0000000000001, 0x3690000000000000, 1, 1}, // e^(2^-150)
		{exp64, 0x3fefffffffffffff, 0x3690000000000000, 0.5, 0.5000001},
		{exp64, 0x7ff0000000000000, 0x4090000000000000, 0, 0}, // e^1024
		{exp64, 0x7fefffffffffffff, 0x4090000000000000, 1, 1},
		{exp64, 0xfff0000000000000, 0x4090000000000000, math.Inf(1), math.Inf(1)},
		{exp64, 0, 0xc090000000000000, 0, 1e-30}, // e^-1024
		{exp64, 1, 0xc090000000000000, 1, 1},
		{exp64, 0x7ff8000000000001, 0x7ff8000000000001, 0, 0},
		{exp64, 0x3ff0000000000000, 0x7ff8000000000001, math.Inf(1), math.Inf(1)},
	} {
		var err [1]float64
		if c.c.Type == isa.F32 {
			compare64(c.c, floats)(err[:], []uint32{uint32(c.got)}, []uint32{uint32(c.x)}, []uint32{0})
		} else {
			compareDD(c.c)(err[:], []uint64{c.got}, []uint64{c.x}, []uint64{0})
		}
		if !(err[0] >= c.lo && err[0] <= c.hi) {
			t.Errorf("%s: %#x as the result of %#x errs by %g, want %g … %g", c.c, c.got, c.x, err[0], c.lo, c.hi)
		}
	}
}
