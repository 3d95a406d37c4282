package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestProductsOfFewRows has results of up to seven rows, or columns, by up to six, whose rows
// lie side by side in vectors that they do not fill, and whose chunks go two by two or one by
// one; and those of more rows, some of which are done twice.
func TestProductsOfFewRows(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(35, 36))
		depths := []int64{255, 256, 257, 300, 511, 512, 513, 530, 1023, 1024, 1025, 1040, 1535, 1536, 1700, 2048, 2049, 3080}
		for i := range brief.Or(360, 36) {
			c := productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], m: 1 + r.Int64N(9), n: 1 + r.Int64N(7), k: depths[i/2%len(depths)],
				howA: 2 * r.IntN(2), howB: 1, howC: r.IntN(4), alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75, 1}[r.IntN(3)], special: r.IntN(3) == 0}
			if r.IntN(8) == 0 {
				c.batch = []int64{1 + r.Int64N(3)}
			}
			c.check(t, r, oracle, b)
		}
	})
}

// TestRowsAPageApart has rows that compete for an L1's places: of a page, a half, a quarter,
// nearly so, and more, by columns that lie as far apart; of which fewer go side by side, and
// one group's chunks two by two.
func TestRowsAPageApart(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(37, 38))
		for i, k := range []int64{256, 512, 1024, 1025, 1536, 2047, 2048, 2560, 3072} {
			for j, typ := range []isa.Type{isa.F32, isa.F64} {
				for _, m := range []int64{8, 23, 24, 45, 70} {
					if brief.Skips(i+j+int(m), 5) {
						continue
					}
					productCase{t: typ, m: m, n: 1 + r.Int64N(6), k: k, howB: 1, howC: r.IntN(4), alpha: []float64{1, -2.5}[r.IntN(2)],
						beta: []float64{0, 0.75}[r.IntN(2)], special: r.IntN(3) == 0}.check(t, r, oracle, b)
				}
			}
		}
		productCase{t: isa.F32, m: 300, n: 1, k: 1024, howB: 1, alpha: 1}.check(t, r, oracle, b) // more than an L2 holds
		productCase{t: isa.F64, m: 2, n: 170, k: 1030, howB: 1, alpha: 1, beta: 1}.check(t, r, oracle, b)
	})
}

// TestColumnsAreCollected has few columns that do not lie as sums of rows need them, of
// results whose columns lie side by side.
func TestColumnsAreCollected(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(39, 40))
		for i := range brief.Or(80, 12) {
			c := productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], m: 1 + r.Int64N(7), n: 1 + r.Int64N(120), k: []int64{3, 4, 7, 8, 9, 27, 100, 512, 530, 1100}[i/2%10],
				howA: []int{1, 3, 5}[r.IntN(3)], howB: 1, howC: []int{0, 2}[r.IntN(2)], alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75}[r.IntN(2)], special: r.IntN(3) == 0}
			c.check(t, r, oracle, b)
		}
		productCase{t: isa.F32, m: 5, n: 3000, k: 40, howA: 1, howB: 1, alpha: 1}.check(t, r, oracle, b) // on two threads
	})
}

// TestTallProducts has many panels of a short tile, of which a call does many, and of types
// and layouts that it does not do so.
func TestTallProducts(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(41, 42))
		for i := range brief.Or(160, 20) {
			c := productCase{t: []isa.Type{isa.F32, isa.F64, isa.F32, isa.F64, isa.I32, isa.F16}[i%6], m: 1 + r.Int64N(900), n: 1 + r.Int64N(36), k: r.Int64N(24),
				howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(4), alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75, math.Copysign(0, -1)}[r.IntN(3)], special: r.IntN(3) == 0}
			if r.IntN(2) == 0 {
				c.m, c.n = c.n, c.m
			}
			c.check(t, r, oracle, b)
		}
		productCase{t: isa.F32, m: 9001, n: 3, k: 2, howA: 1, howB: 1, alpha: 1, beta: 1}.check(t, r, oracle, b)
		productCase{t: isa.F32, m: 3, n: 9001, k: 20, howC: 1, alpha: 1}.check(t, r, oracle, b)
	})
}

// TestStreamedProducts has few rows of a matrix that comes from afar, whose next rows are
// fetched, through some chunks and strips of columns, the last of them short.
func TestStreamedProducts(t *testing.T) {
	brief.Alone(t)
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(43, 44))
		for i, m := range []int64{1, 3, 4, 14} {
			c := productCase{t: isa.F32, m: m, n: 1501, k: 701, howA: i & 1, howC: i >> 1, alpha: 1, beta: float64(i & 1), special: i == 1}
			c.check(t, r, oracle, b)
			c.t, c.n, c.k, c.howB = isa.F64, 701, 603, 2
			c.check(t, r, oracle, b)
		}
	})
}
