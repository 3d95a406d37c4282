package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// sameAs runs the case as one launch on two benches, and compares.
func (c productCase) sameAs(t *testing.T, r *rand.Rand, one, many *bench) {
	t.Helper()
	c.out = c.t
	var h host
	a, b := randomMatrix(r, &h, c.t, nil, c.m, c.k, c.howA, c.special), randomMatrix(r, &h, c.t, nil, c.k, c.n, c.howB, c.special)
	want := randomMatrix(r, &h, c.t, nil, c.m, c.n, c.howC, c.special)
	got := want.clone(&h)
	p, err := kernels.Gemm.Whole([]kernels.Layout{a.l, b.l, want.l})
	require.NoError(t, err)
	scalars := []uint64{scalarCell(c.t, c.alpha), scalarCell(c.t, c.beta)}
	one.plan(p, [][]byte{a.first(), b.first(), want.first()}, scalars)
	many.plan(p, [][]byte{a.first(), b.first(), got.first()}, scalars)
	if err := sameElements(c.t, got, want); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
}

// TestProductsAreDividedAnyhow: however many threads share a product, and however it is cut for
// them, its bits are those of one thread, which other tests hold against the written order.
func TestProductsAreDividedAnyhow(t *testing.T) {
	for _, threads := range []int{2, 5, 16} {
		eachWidth(t, threads, func(t *testing.T, _, b *bench) {
			one := newBench(t, on(t, b.level, 1), b.level)
			r := rand.New(rand.NewPCG(uint64(threads), 25))
			for range brief.Or(150, 15) {
				c := productCase{t: []isa.Type{isa.F32, isa.F64, isa.F16, isa.I32}[r.IntN(4)], m: 1 + r.Int64N(300), n: 1 + r.Int64N(500), k: 1 + r.Int64N(1400),
					howA: r.IntN(2), howB: r.IntN(2), howC: r.IntN(2), alpha: []float64{1, -2}[r.IntN(2)], beta: float64(r.IntN(2)), special: r.IntN(4) == 0}
				c.sameAs(t, r, one, b)
			}
		})
	}
}

// TestProductsShareLargeMatrices: threads pack for each other what no cache holds, all blocks of it.
// (Of which some columns come later, when it is more than they may hold: gemm's TestColumnsForLater.)
func TestProductsShareLargeMatrices(t *testing.T) {
	level := jit.Detect()
	b := newBench(t, on(t, level, 4), level)
	r := rand.New(rand.NewPCG(26, 27))
	productCase{t: isa.F64, m: 40, n: 2101, k: 5000, alpha: 1, beta: 1}.sameAs(t, r, newBench(t, on(t, level, 1), level), b)
	b.reaches(t)
}
