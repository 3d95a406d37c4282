package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// TestStacksHaveTheWrittenOrder compares stacks of small products with strips: of none, one,
// and more matrices than are done together; that lie in all ways, apart or one for all; of
// all types.
func TestStacksHaveTheWrittenOrder(t *testing.T) {
	brief.Alone(t)
	for _, threads := range []int{1, 3} {
		eachWidth(t, threads, func(t *testing.T, oracle, b *bench) {
			r := rand.New(rand.NewPCG(25, uint64(threads)))
			types := append([]isa.Type{isa.F32, isa.F64, isa.F32, isa.F64}, kernels.Gemm.Types.List()...)
			for i := range brief.Or(500, 60) {
				typ := types[i%len(types)]
				c := productCase{t: typ, out: typ, m: 1 + r.Int64N(9), n: 1 + r.Int64N(9), k: 1 + r.Int64N(9), howA: r.IntN(6), howB: r.IntN(6), howC: r.IntN(6),
					alpha: float64(r.IntN(3)), beta: []float64{0, 0, 1, 2, math.Copysign(0, -1)}[r.IntN(5)], special: r.IntN(3) == 0}
				c.batch = [][]int64{{0}, {1}, {2}, {3, 2}, {5}, {37}, {300}, {2, 90}}[r.IntN(8)]
				if r.IntN(3) == 0 {
					c.alone = 1 + r.IntN(2)
				}
				for _, size := range []*int64{&c.m, &c.n, &c.k} {
					switch r.IntN(8) {
					case 0: // more than a tile
						*size = 10 + r.Int64N(60)
					case 1:
						*size = []int64{0, 1, 8, 16, 32}[r.IntN(5)]
					}
				}
				if i%8 == 0 {
					c.out = widerThan(typ, i/8)
				}
				c.check(t, r, oracle, b)
			}
		})
	}
}

// TestStacksOfVectors has matrices times vectors, from either side, whose rows are done by
// vectors, and those that are left.
func TestStacksOfVectors(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(27, 28))
		for i := range brief.Or(60, 12) {
			c := productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], batch: []int64{1 + r.Int64N(40)}, m: 1 + r.Int64N(45), n: 1, k: []int64{0, 1, 7, 8, 16, 33, 70, 512}[i/2%8],
				howA: []int{0, 2, 4}[r.IntN(3)], howB: r.IntN(6), howC: r.IntN(2), alone: r.IntN(3), alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75}[r.IntN(2)], special: r.IntN(3) == 0}
			if r.IntN(2) == 0 { // the same transposed
				c.m, c.n, c.howA, c.howB, c.alone = c.n, c.m, c.howB, []int{1, 5}[r.IntN(2)], c.alone>>1|c.alone&1<<1
			}
			c.check(t, r, oracle, b)
		}
	})
}

// TestStacksOfDots has rows times columns, whose sums are made side by side.
func TestStacksOfDots(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(29, 30))
		for i := range brief.Or(60, 12) {
			productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], batch: []int64{[]int64{1, 3, 8, 17, 40, 333}[r.IntN(6)]}, m: 1, n: 1, k: []int64{7, 8, 15, 16, 17, 64, 75, 512}[i/2%8],
				howA: r.IntN(6), howB: []int{0, 1, 1, 2, 3, 5}[r.IntN(6)], alone: r.IntN(3), alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75}[r.IntN(2)], special: r.IntN(3) == 0}.check(t, r, oracle, b)
		}
	})
}

// A stack does not begin once it is cancelled.
func TestStackIsCancelled(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		x := kernels.Packed(isa.F32, 100, 4, 4)
		plan, err := kernels.Gemm.Whole([]kernels.Layout{x, x, x})
		require.NoError(t, err)
		var h host
		memory := h.block(4 * 100 * 16)
		b.stopped = true
		require.ErrorIs(t, b.launch(plan, [][]byte{memory, memory, h.block(len(memory))}, []uint64{scalarCell(isa.F32, 1), 0}), backends.ErrCancelled)
	})
}

// TestStacksOfManyMatrices has more than a launch takes: the next one goes on where
// the first ended.
func TestStacksOfManyMatrices(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, _, b *bench) {
		const size = 1<<16 + 1
		var h host
		x, y, z := h.block(4*size), h.block(4*size), h.block(4*size)
		number := func(i int) float64 { return float64(i % 2039) }
		for i := range size {
			putFloat(x[4*i:], isa.F32, number(i))
			putFloat(y[4*i:], isa.F32, 3)
		}
		l := kernels.Packed(isa.F32, size, 1, 1)
		plan, err := kernels.Gemm.Whole([]kernels.Layout{l, l, l})
		require.NoError(t, err)
		b.plan(plan, [][]byte{x, y, z}, []uint64{scalarCell(isa.F32, 1), 0})
		for i := range size {
			if got := cellAt(isa.F32, z[4*i:]); got != uint64(math.Float32bits(float32(3*number(i)))) {
				t.Fatalf("matrix %d: %#x", i, got)
			}
		}
	})
}

// TestStackIsCancelledMidway stops a stack of many small matrices that runs: it ends before its
// last ones, and what is launched next is right.
func TestStackIsCancelledMidway(t *testing.T) {
	for _, threads := range []int{1, 2} {
		eachWidth(t, threads, func(t *testing.T, oracle, b *bench) {
			const matrices, side, deep = 60_000, 8, 512 // some 50 ms on a thread
			r := rand.New(rand.NewPCG(47, 48))
			var h host
			x, y := randomMatrix(r, &h, isa.F32, nil, side, deep, 0, false), randomMatrix(r, &h, isa.F32, nil, deep, side, 0, false)
			scalars := []uint64{scalarCell(isa.F32, 1), 0}
			one := h.block(4 * side * side)
			plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, kernels.Packed(isa.F32, side, side)})
			require.NoError(t, err)
			oracle.plan(plan, [][]byte{x.first(), y.first(), one}, scalars)

			again := kernels.Layout{Type: isa.F32, Shape: []int64{matrices, side, deep}, Stride: []int64{0, deep, 1}}
			plan, err = kernels.Gemm.Whole([]kernels.Layout{again, y.l, kernels.Packed(isa.F32, matrices, side, side)})
			require.NoError(t, err)
			z := h.block(matrices * len(one))
			operands := [][]byte{x.first(), y.first(), z}
			unwritten := bytes.Repeat([]byte{0xee}, len(one))
			midway := false
			for try := 0; try < 20 && !midway; try++ { // unless the timer comes late, on a machine that is busy
				for at := 0; at < len(z); at += len(one) {
					copy(z[at:], unwritten)
				}
				b.stopAfter = time.Duration(1+try) * time.Millisecond
				err := b.launch(plan, operands, scalars)
				b.stopAfter = 0
				if err == nil {
					continue
				}
				require.ErrorIs(t, err, backends.ErrCancelled)
				midway = bytes.Equal(z[:len(one)], one) && bytes.Equal(z[len(z)-len(one):], unwritten)
			}
			require.True(t, midway, "no launch was cancelled midway")
			b.plan(plan, operands, scalars)
			for at := 0; at < len(z); at += len(one) {
				require.Equal(t, one, z[at:at+len(one)], at/len(one))
			}
		})
	}
}
