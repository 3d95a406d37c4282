package jit_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Roots are those of IEEE 754: of every significand and both parities of the exponent,
// and of what lies where products would overflow, lose bits or have no root.
func TestRoots(t *testing.T) {
	brief.Alone(t)
	const text = "program p\nslot x f32\nslot y f32\nldg.f32 v, x[index]\nsqrt.f32 v, v\nstg.f32 v, y[index]\nexit\n"
	pool := workers.New(1)
	defer pool.Close()
	var x []float32
	for bits := math.Float32bits(1); bits < math.Float32bits(4); bits += uint32(brief.Or(1, 17)) {
		x = append(x, math.Float32frombits(bits))
	}
	for e := -149; e < 128; e++ { // neighbours of powers of two, among numbers of other groups and of their own
		p := math.Float32bits(float32(math.Ldexp(1, e)))
		for d := range uint32(5) {
			x = append(x, math.Float32frombits(p+d-2), -math.Float32frombits(p+d-2), float32(math.Ldexp(1.1, e)))
		}
	}
	inf := float32(math.Inf(1))
	x = append(x, 0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), math.MaxFloat32, -1)
	for _, l := range []jit.Level{jit.AVX2, jit.AVX512, jit.AVX512 | jit.Few} {
		t.Run(fmt.Sprint(l), func(t *testing.T) {
			y := make([]float32, len(x))
			require.NoError(t, kernel(t, text, l).Run(launch(len(x), nil, flat(t, isa.F32, x), flat(t, isa.F32, y)), pool))
			for i := range x {
				want := float32(math.Sqrt(float64(x[i])))
				if math.Float32bits(y[i]) != math.Float32bits(want) && (want == want || y[i] == y[i]) {
					t.Fatalf("√%x is %x, expected %x", x[i], y[i], want)
				}
			}
		})
	}
}

// Those of bf16, all of them.
func TestRootsOfBF16(t *testing.T) {
	const text = "program p\nslot x bf16\nslot y bf16\nldg.bf16 v, x[index]\nsqrt.bf16 v, v\nstg.bf16 v, y[index]\nexit\n"
	pool := workers.New(1)
	defer pool.Close()
	x := make([]uint16, 1<<16)
	for i := range x {
		x[i] = uint16(i)
	}
	for _, l := range []jit.Level{jit.AVX2, jit.AVX512, jit.AVX512 | jit.Few} {
		y := make([]uint16, len(x))
		require.NoError(t, kernel(t, text, l).Run(launch(len(x), nil, flat(t, isa.BF16, x), flat(t, isa.BF16, y)), pool))
		for i := range x {
			root := float32(math.Sqrt(float64(math.Float32frombits(uint32(i) << 16))))
			b := math.Float32bits(root)
			got := math.Float32frombits(uint32(y[i]) << 16)
			if want := uint16((b + 0x7fff + b>>16&1) >> 16); y[i] != want && (root == root || got == got) {
				t.Fatalf("%v: √%#x is %#x, expected %#x", l, i, y[i], want)
			}
		}
	}
}

// What a processor gives as 1/√x is defined but for 2^-14 of it. By root.go's argument all
// that is so near gives the rounded root of all x but those whose root lies next to the
// middle of two numbers: of these every y is tried.
func TestRootsOfAnyEstimate(t *testing.T) {
	brief.Alone(t)
	hard := 0
	for bits := math.Float32bits(1); bits < math.Float32bits(4); bits++ {
		x := math.Float32frombits(bits)
		n := uint64(float64(x) * (1 << 48)) // so that numbers are even roots of n, and the middles odd
		odd := uint64(math.Sqrt(float64(n))) | 1
		if near(n, odd-2) || near(n, odd) || near(n, odd+2) {
			hard++
			everyEstimate(t, x)
		}
	}
	require.Equal(t, 31, hard)
}

// near reports whether √n is closer to m than 2^-44 of it.
func near(n, m uint64) bool {
	return math.Abs(float64(int64(n-m*m)))/2/float64(m)/float64(m) < 0x1p-44
}

// Of bf16, a step less gives the rounded root from all that is so near, of every x.
func TestRootsOfBF16OfAnyEstimate(t *testing.T) {
	brief.Alone(t)
	round := func(v float32) uint32 {
		b := math.Float32bits(v)
		return (b + 0x7fff + b>>16&1) >> 16
	}
	for bits := uint32(0x3f80); bits < 0x4080; bits++ { // from 1 to 4
		x := math.Float32frombits(bits << 16)
		want, inverse := round(float32(math.Sqrt(float64(x)))), 1/math.Sqrt(float64(x))
		for y := float32(inverse * (1 - 0x1p-14)); float64(y) <= inverse*(1+0x1p-14); y = math.Nextafter32(y, 2) {
			g, h := x*y, y/2
			if got := fma(g, fma(-g, h, 0.5), g); round(got) != want {
				t.Fatalf("√%x from %x is %x, expected to be rounded to %#x", x, y, got, want)
			}
		}
	}
}

func everyEstimate(t *testing.T, x float32) {
	want, inverse := float32(math.Sqrt(float64(x))), 1/math.Sqrt(float64(x))
	tried := 0
	for y := float32(inverse * (1 - 0x1p-14)); float64(y) <= inverse*(1+0x1p-14); y = math.Nextafter32(y, 2) {
		tried++
		g, h := x*y, y/2
		r := fma(-g, h, 0.5)
		g, h = fma(g, r, g), fma(h, r, h)
		if got := fma(fma(-g, g, x), h, g); got != want {
			t.Fatalf("√%x from %x is %x, expected %x", x, y, got, want)
		}
	}
	require.Greater(t, tried, 1000)
}

// fma is a · b + c, rounded once.
func fma(a, b, c float32) float32 {
	z := func(v float32) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(float64(v)) }
	f, _ := new(big.Float).SetPrec(200).Add(new(big.Float).SetPrec(200).Mul(z(a), z(b)), z(c)).Float32()
	return f
}
