package tuned_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Softmax's own division rounds rightly: of any numbers, and of those whose
// quotients are nearly, or all but, half-way between two floats.
func TestQuotients(t *testing.T) {
	brief.Alone(t)
	const n = 1 << 22
	r := newRig(t)
	v, err := tuned.Quotients()
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	k, err := r.d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
	require.NoError(t, err)
	defer k.Release()
	l := &backends.Launch{Rank: 1, N: n, Shape: [isa.MaxRank]int64{n}, Grid: [3]uint32{n / 256, 1, 1}, Block: [3]uint32{256, 1, 1}}
	var data [3][]float32
	for i := range data {
		m, err := r.d.Alloc(4 * n)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.d.Free(m)) }()
		data[i] = unsafe.Slice((*float32)(hostmem.Pointer(m.Addr)), n)
		l.Slots = append(l.Slots, backends.View{Addr: m.Addr, Bytes: 4 * n, Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
	}
	random := rand.New(rand.NewPCG(7, 8))
	next := func(v float32, by int) float32 { return math.Float32frombits(uint32(int(math.Float32bits(v)) + by)) }
	for round := range 3 {
		s, z, y := data[0], data[1], data[2]
		for i := range s {
			s[i] = math.Float32frombits(127<<23 + random.Uint32N(21<<23))
			q := math.Float32frombits(random.Uint32N(127 << 23))
			switch i % 16 {
			case 0:
				s[i] = next(float32(int(2)<<random.IntN(20)), -1) // all ones
			case 1:
				s[i] = float32(int(1) << random.IntN(21))
			case 2:
				q = 0
			}
			if round > 0 { // the quotient is near q, or q and half an ulp
				exact := float64(q)
				if round == 2 {
					exact = (float64(q) + float64(next(q, 1))) / 2
				}
				q = next(float32(exact*float64(s[i])), random.IntN(3)-1)
			}
			z[i] = q
			if !(q >= 0 && q <= 1) {
				z[i] = 1
			}
		}
		_, err = r.s.Launch(k, l)
		require.NoError(t, err)
		for i := range y {
			if want := float32(float64(z[i]) / float64(s[i])); math.Float32bits(y[i]) != math.Float32bits(want) {
				t.Fatalf("%x / %x = %x, want %x", z[i], s[i], y[i], want)
			}
		}
	}
}

// The short way to powers of e has the bits of the long one, and is taken of the numbers
// that it is for: of floats of all sizes there, near the last of them, and of others.
func TestExps(t *testing.T) {
	brief.Alone(t)
	const n = 1 << 22
	r := newRig(t)
	v, err := tuned.Exps()
	require.NoError(t, err)
	exp, err := kernels.VectorExp.Program(isa.F32)
	require.NoError(t, err)
	l := &backends.Launch{Rank: 1, N: n, Shape: [isa.MaxRank]int64{n}, Grid: [3]uint32{n / 256, 1, 1}, Block: [3]uint32{256, 1, 1}}
	var data [3][]float32
	var views [3]backends.View
	for i := range data {
		m, err := r.d.Alloc(4 * n)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.d.Free(m)) }()
		data[i] = unsafe.Slice((*float32)(hostmem.Pointer(m.Addr)), n)
		views[i] = backends.View{Addr: m.Addr, Bytes: 4 * n, Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}}
	}
	random := rand.New(rand.NewPCG(9, 10))
	for i := range data[0] {
		z := float32(random.Float64()*140 - 70)
		switch i % 8 {
		case 0:
			z = math.Float32frombits(random.Uint32()) // any
		case 1:
			z = float32(float64(random.IntN(192)-96) / 2 * math.Ln2) // where k is, or turns
		case 2:
			z = math.Float32frombits(math.Float32bits(66)+random.Uint32N(8)-4) * float32(random.IntN(2)*2-1)
		}
		data[0][i] = z
	}
	for i, v := range []*isa.Verified{exp, v} {
		f, _, err := ir.Canonical(v)
		require.NoError(t, err)
		k, err := r.d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
		require.NoError(t, err)
		defer k.Release()
		l.Slots = []backends.View{views[0], views[1+i]}
		_, err = r.s.Launch(k, l)
		require.NoError(t, err)
	}
	for i, want := range data[1] {
		if got := data[2][i]; math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
			t.Fatalf("e^%x = %x, want %x", data[0][i], got, want)
		}
	}
}
