package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Integers of 8 and 16 bits, and the types that products of them may have.
var shortIntegers = []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16}

// eachInteger runs f on an engine with each kind of units that multiply integers, beside one
// of a level without any.
func eachInteger(t *testing.T, threads int, l jit.Level, f func(t *testing.T, oracle, b *bench)) {
	withUnits(t, threads, []gemm.Units{gemm.Words, gemm.Tiles}, func(t *testing.T, b *bench) {
		f(t, newBench(t, on(t, l, 1), l), b)
	})
}

// TestUnitsMultiplyIntegers has products of all shapes, layouts and types, whose integers are
// the largest and smallest often enough for sums to wrap.
func TestUnitsMultiplyIntegers(t *testing.T) {
	brief.Alone(t)
	eachInteger(t, 1, jit.None, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(33, 34))
		size := sizes(r, 80)
		for i := range brief.Or(600, 120) {
			typ := shortIntegers[i%4]
			c := productCase{t: typ, out: widerThan(typ, i/4), m: size(), n: size(), k: size(), howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(4),
				alpha: []float64{1, 1, 0, 3}[r.IntN(4)], beta: []float64{0, 0, 1, 5}[r.IntN(4)], special: r.IntN(3) == 0}
			if r.IntN(6) == 0 {
				c.batch = []int64{1 + r.Int64N(3)}
			}
			c.check(t, r, oracle, b)
		}
	})
}

// TestUnitsOnLargeIntegers has those that are done in blocks, on two threads, beside vectors,
// which TestProductsOfOtherTypes compares with strips.
func TestUnitsOnLargeIntegers(t *testing.T) {
	eachInteger(t, 2, jit.AVX512, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(35, 36))
		for i, s := range blockShapes {
			s[2] = 2*s[2] + 1 // of 8 bits a step has twice as many
			if brief.Skips(i, 4) {
				continue
			}
			for how := range 4 {
				if how > 0 && brief.On() {
					break
				}
				typ := shortIntegers[(i+how)%4]
				productCase{t: typ, out: []isa.Type{typ, isa.I32}[how&1], m: s[0], n: s[1], k: s[2], howA: how & 1, howB: how >> 1, alpha: 1, beta: float64(how & 1)}.check(t, r, oracle, b)
			}
			productCase{t: isa.I8, out: isa.I32, m: s[1], n: s[0], k: s[2], howA: 2, howB: 1, alpha: 1}.check(t, r, oracle, b)
		}
	})
}

// TestUnitsMultiplyBytesOfAllRests has all rests of k, in all layouts, also behind parts whose sums wait.
func TestUnitsMultiplyBytesOfAllRests(t *testing.T) {
	eachInteger(t, 1, jit.AVX512, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(37, 38))
		for i, k := range []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 61, 62, 63, 64, 65, 66, 67, 127, 130, 516, 1030} {
			for how := range 8 {
				c := (i + how) % 2
				shape := [][2]int64{{15, 33}, {31, 3}, {1, 40}, {17, 70}, {3, 31}}[(i+how/2)%5]
				productCase{t: []isa.Type{isa.I8, isa.U8}[c], out: []isa.Type{isa.I32, isa.U32}[c], m: shape[0], n: shape[1], k: k,
					howA: how & 1, howB: how >> 1 & 1, howC: how >> 2, alpha: 1, beta: float64(i & 1)}.check(t, r, oracle, b)
			}
		}
	})
}

// TestUnitsMultiplyRowsByAColumn has rows along k by one column, of which both lie in all ways and the rests
// of rows and of k differ, and so many rows that calls go from tile to tile, and past one call's.
func TestUnitsMultiplyRowsByAColumn(t *testing.T) {
	eachInteger(t, 2, jit.AVX512, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(41, 42))
		for i, k := range []int64{16, 17, 31, 63, 64, 65, 100, 128, 516, 1030, 4099, 33000} {
			for how := range 16 {
				typ := shortIntegers[(i+how)%4]
				out := []isa.Type{typ, isa.I32}[how>>1&1]
				m := []int64{1, 7, 16, 33, 50, 259, 1100}[(3*i+how)%7]
				if m*k > 1<<20 {
					m = 21
				}
				c := productCase{t: typ, out: out, m: m, n: 1, k: k, howA: []int{0, 2}[how&1], howB: how >> 2, howC: how >> 1 & 3,
					alpha: []float64{1, 3}[i&1], beta: float64(how >> 3)}
				if how == 5 && m < 50 {
					c.batch = []int64{3}
				}
				c.check(t, r, oracle, b)
				if how&1 == 0 { // and a row by columns
					c.m, c.n, c.howA, c.howB = 1, m, c.howB, 1
					c.check(t, r, oracle, b)
				}
			}
		}
	})
}

// TestUnitsMultiplyLongRowsByAColumn has rows so long that a call has few of their tiles, or but one, and that are at
// and past the most steps of k that it goes through, by columns that lie in a row and apart.
func TestUnitsMultiplyLongRowsByAColumn(t *testing.T) {
	eachInteger(t, 2, jit.AVX512, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(43, 44))
		for _, typ := range shortIntegers {
			most := 8192 * 64 / int64(typ.Size())
			for _, c := range []productCase{{m: 70, k: most/3 + 5}, {m: 18, k: most - 1}, {m: 3, k: most}, {m: 17, k: most + 1}} {
				c.t, c.out, c.n, c.howB, c.alpha, c.beta = typ, typ, 1, int(c.m&1), 1, float64(c.k&1)
				c.check(t, r, oracle, b)
			}
		}
	})
}

// TestUnitsMultiplyExtremes has matrices of which each is full of one byte.
func TestUnitsMultiplyExtremes(t *testing.T) {
	eachInteger(t, 1, jit.AVX512, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(39, 40))
		for i := range 32 {
			typ, out := isa.I8, isa.I32
			if i&1 != 0 {
				typ, out = isa.U8, isa.U32
			}
			size := [][2]int64{{17, 40}, {40, 3}}[i>>1&1]
			var h host
			x, y := randomMatrix(r, &h, typ, nil, size[0], 131, 0, false), randomMatrix(r, &h, typ, nil, 131, size[1], i>>2&1, false)
			for j, m := range []*matrix{x, y} {
				for at := range m.memory {
					m.memory[at] = []byte{0x80, 0xFF, 0x7F, 0x80}[(i>>3+j*(i>>2))&3]
				}
			}
			want := randomMatrix(r, &h, out, nil, size[0], size[1], 0, false)
			got := want.clone(&h)
			plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, want.l})
			require.NoError(t, err)
			scalars := []uint64{scalarCell(out, 1), 0}
			oracle.plan(plan, [][]byte{x.first(), y.first(), want.first()}, scalars)
			b.plan(plan, [][]byte{x.first(), y.first(), got.first()}, scalars)
			require.NoError(t, sameElements(out, got, want), i)
		}
	})
}
