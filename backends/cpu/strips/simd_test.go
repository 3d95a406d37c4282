package strips

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// someF32 is a float32 of any bits, often one that is special or near another.
func someF32(r *rand.Rand) float32 {
	switch r.IntN(4) {
	case 0:
		e := edges(isa.F32)
		return math.Float32frombits(uint32(e[r.IntN(len(e))]))
	case 1:
		return float32(r.IntN(64)-32) / 8
	}
	return math.Float32frombits(r.Uint32())
}

// exactFMA rounds a·b + c once, by way of math/big.
func exactFMA(a, b, c float32) float32 {
	fa, fb, fc := float64(a), float64(b), float64(c)
	if p := fa * fb; math.IsInf(fa, 0) || math.IsInf(fb, 0) || math.IsInf(fc, 0) || p != p || fc != fc || p == 0 {
		// Exact or special: an infinity, a NaN, or a zero product, where the
		// sum is c or a zero whose sign float64 gets right.
		return float32(p + fc)
	}
	x := new(big.Float).SetPrec(700).SetFloat64(fa)
	x.Mul(x, new(big.Float).SetFloat64(fb))
	x.Add(x, new(big.Float).SetPrec(700).SetFloat64(fc))
	if x.Sign() == 0 {
		return 0 // of opposite signs, to nearest
	}
	f, _ := x.Float32()
	return f
}

// TestFMA compares the pure Go FMA with exact arithmetic, at random and where
// double rounding would show: sums half way between two float32.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 60000 {
		a, b, c := someF32(r), someF32(r), someF32(r)
		if i%3 == 0 {
			// c is so far from a·b that the product decides a tie only.
			a = math.Float32frombits(r.Uint32()&0x7fffff | uint32(100+r.IntN(20))<<23)
			b = math.Float32frombits(r.Uint32()&0x7fffff&^(1<<r.IntN(23)-1) | uint32(100+r.IntN(20))<<23)
			c = math.Float32frombits(r.Uint32()&0x7fffff&^(1<<r.IntN(23)-1) | uint32(96+r.IntN(60))<<23 | r.Uint32()&(1<<31))
		}
		got, want := fmaF32(a, b, c), exactFMA(a, b, c)
		if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
			t.Fatalf("fma(%x, %x, %x) = %x, not %x", a, b, c, got, want)
		}
	}
}

// TestVectorLoops compares each hand-written loop with its twin, for all
// lengths about a vector's and at odd addresses, and sees that it writes
// nothing beyond.
func TestVectorLoops(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(7, 8))
	type pair struct {
		name       string
		fast, twin loop3
		size       int
	}
	two := func(l loop2) loop3 { return func(d, a, b, _ unsafe.Pointer, n int) { l(d, a, b, n) } }
	loops := []pair{
		{"add", two(addF32), two(add[float32]), 4}, {"sub", two(subF32), two(sub[float32]), 4},
		{"mul", two(mulF32), two(mul[float32]), 4}, {"div", two(divF32), two(divFloat[float32]), 4},
		{"max", two(maxF32), two(maximum[float32]), 4}, {"min", two(minF32), two(minimum[float32]), 4},
		{"fma", fmaF32Lanes, fma32, 4}, {"fma of one a", fmaF32A, fma32a, 4},
		{"fma of one c", fmaF32C, fma32c, 4}, {"fma f64", fmaF64Lanes, fma64, 8},
	}
	for _, l := range loops {
		for n := range 150 {
			var in [3][]byte
			for i := range in {
				in[i] = make([]byte, 8*150+16)
				for k := 0; k+l.size <= len(in[i]); k += l.size {
					bits := uint64(math.Float32bits(someF32(r)))
					if l.size == 8 {
						bits = r.Uint64()
					}
					storeCell(l.size, unsafe.Pointer(&in[i][k]), bits)
				}
			}
			fast, twin := make([]byte, 8*150+16), make([]byte, 8*150+16)
			at := func(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[n%3*l.size]) }
			l.fast(at(fast), at(in[0]), at(in[1]), at(in[2]), n)
			l.twin(at(twin), at(in[0]), at(in[1]), at(in[2]), n)
			ty := isa.F32
			if l.size == 8 {
				ty = isa.F64
			}
			for k := 0; k+l.size <= len(fast); k += l.size {
				x, y := loadCell(l.size, unsafe.Pointer(&fast[k])), loadCell(l.size, unsafe.Pointer(&twin[k]))
				if !sameCell(ty, x, y) {
					t.Fatalf("%s, %d lanes, byte %d: %#x, the twin has %#x", l.name, n, k, x, y)
				}
			}
		}
	}
}
