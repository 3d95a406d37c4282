package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// eachUnits runs f on an engine with each kind of units for bf16 that this machine has.
func eachUnits(t *testing.T, threads int, f func(t *testing.T, b *bench)) {
	withUnits(t, threads, []gemm.Units{gemm.Dots, gemm.Tiles}, f)
}

func withUnits(t *testing.T, threads int, units []gemm.Units, f func(t *testing.T, b *bench)) {
	for _, u := range units {
		t.Run(u.String(), func(t *testing.T) {
			if err := jit.Available(jit.AVX512); err != nil {
				t.Skip(err)
			}
			c, err := cpu.NewWith(threads, jit.AVX512, u)
			if err != nil {
				t.Skip(err)
			}
			b := newBench(t, c, jit.AVX512)
			f(t, b)
			b.reaches(t)
		})
	}
}

// half is the number of an element.
func half(m *matrix, row, col int64) float64 {
	n := len(m.l.Shape)
	at := m.at + 2*(row*m.l.Stride[n-2]+col*m.l.Stride[n-1])
	return float64(math.Float32frombits(uint32(m.memory[at])<<16 | uint32(m.memory[at+1])<<24))
}

// ulp is the distance of numbers of bf16 around x.
func ulp(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-8, -133))
}

// bounded demands that a product is within its bound of the exact one, and that nothing
// beside it was touched. Sums of products of 16 bits are exact in f64 as far as it matters.
// Of many elements some are looked at.
func (c productCase) bounded(t *testing.T, r *rand.Rand, b *bench) {
	t.Helper()
	var h host
	x, y := randomMatrix(r, &h, c.t, c.batch, c.m, c.k, c.howA, false), randomMatrix(r, &h, c.t, c.batch, c.k, c.n, c.howB, false)
	before := randomMatrix(r, &h, c.t, c.batch, c.m, c.n, c.howC, false)
	layouts := []kernels.Layout{x.l, y.l, before.l}
	scalars := []uint64{scalarCell(c.t, c.alpha), scalarCell(c.t, c.beta)}
	library, err := kernels.Gemm.PlanShapes(layouts, -1)
	require.NoError(t, err)
	whole, err := kernels.Gemm.Whole(layouts)
	require.NoError(t, err)
	batch := int64(1)
	for _, d := range c.batch {
		batch *= d
	}
	matrices := func(m *matrix, i int64) *matrix {
		own := *m
		if c.batch != nil {
			own.at += 2 * i * m.l.Stride[0]
		}
		return &own
	}
	for _, p := range []*kernels.Plan{whole, library} {
		got := before.clone(&h)
		b.plan(p, [][]byte{x.first(), y.first(), got.first()}, scalars)
		entered := before.clone(&h)
		b.entering = true
		b.plan(p, [][]byte{x.first(), y.first(), entered.first()}, scalars)
		b.entering = false
		require.NoError(t, sameElements(c.t, entered, got), "%v entered by its caller", c)
		want := got.clone(&h)
		copy(want.memory, before.memory)
		for q := range batch {
			x, y, was, got := matrices(x, q), matrices(y, q), matrices(before, q), matrices(got, q)
			every := max(1, c.m*c.n*c.k/2e5)
			for i := range c.m {
				for j := range c.n {
					n := len(got.l.Shape)
					at := got.at + 2*(i*got.l.Stride[n-2]+j*got.l.Stride[n-1])
					copy(want.memory[at:at+2], got.memory[at:])
					if r.Int64N(every) > 0 {
						continue
					}
					exact, size := 0.0, 0.0
					for q := range c.k {
						exact += half(x, i, q) * half(y, q, j)
						size += math.Abs(half(x, i, q) * half(y, q, j))
					}
					exact, size = exact*c.alpha, size*math.Abs(c.alpha)
					if c.beta != 0 {
						exact += c.beta * half(was, i, j)
						size += math.Abs(c.beta * half(was, i, j))
					}
					is, more := half(got, i, j), c.k
					if c.alpha != 1 || c.beta != 0 {
						more += 2
					}
					if off := math.Abs(is - exact); !(off <= float64(more)*0x1p-23*size+ulp(exact)) {
						t.Fatalf("%v: element %d, %d is %v, to be %v", c, i, j, is, exact)
					}
				}
			}
		}
		require.NoError(t, sameElements(c.t, got, want), c)
	}
}

// TestUnitsAreWithinTheBound has products of all shapes and layouts.
func TestUnitsAreWithinTheBound(t *testing.T) {
	brief.Alone(t)
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(21, 22))
		size := sizes(r, 80)
		for range brief.Or(600, 150) {
			c := productCase{t: isa.BF16, m: size(), n: size(), k: size(), howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(4),
				alpha: []float64{1, 1, 0, -2.5}[r.IntN(4)], beta: []float64{0, 0, 1, 0.75, math.Copysign(0, -1)}[r.IntN(5)]}
			if r.IntN(6) == 0 {
				c.batch = []int64{1 + r.Int64N(3)}
			}
			c.bounded(t, r, b)
		}
		require.NotZero(t, b.entered)
	})
}

// blockShapes are of products of 16 bits that are done in blocks.
var blockShapes = [][3]int64{
	{70, 300, 600},                                   // a panel's sums wait
	{800, 530, 1100},                                 // blocks each way
	{90, 1100, 900},                                  // B in parts, all of k
	{3, 1100, 700}, {32, 4200, 300}, {1, 3000, 1001}, // B is read once
	{1, 1, 9001}, {40, 20, 8700}, {2, 3000, 513}, // long sums, few rows
	{47, 1, 8700}, {2000, 4, 601}, {333, 7, 1030}, {16, 8, 65}, // few columns
}

// TestUnitsOnLargeProducts has those that are done in blocks, on two threads.
func TestUnitsOnLargeProducts(t *testing.T) {
	eachUnits(t, 2, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(23, 24))
		for i, s := range blockShapes {
			if brief.Skips(i, 3) {
				continue
			}
			for how := range 4 {
				if how > 1 && brief.On() {
					break
				}
				productCase{t: isa.BF16, m: s[0], n: s[1], k: s[2], howA: how & 1, howB: how >> 1, alpha: 1, beta: float64(how & 1)}.bounded(t, r, b)
			}
			productCase{t: isa.BF16, m: s[1], n: s[0], k: s[2], howA: 2, howB: 1, alpha: 1}.bounded(t, r, b)
		}
	})
}

// TestUnitsRowsAreTheSameInEveryBatch: k alone decides in which order products are added up.
func TestUnitsRowsAreTheSameInEveryBatch(t *testing.T) {
	brief.Alone(t)
	eachUnits(t, 2, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(25, 26))
		product := func(h *host, x, y *matrix, m, n int64) *matrix {
			c := &matrix{l: kernels.Packed(isa.BF16, m, n), memory: h.block(int(2 * m * n))}
			plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, c.l})
			require.NoError(t, err)
			b.plan(plan, [][]byte{x.first(), y.first(), c.first()}, []uint64{scalarCell(isa.BF16, 1), 0})
			return c
		}
		// part is some rows and columns of a matrix.
		part := func(m *matrix, row, rows, col, cols int64) *matrix {
			own := &matrix{memory: m.memory, at: m.at + 2*(row*m.l.Stride[0]+col*m.l.Stride[1])}
			own.l = kernels.Layout{Type: m.l.Type, Shape: []int64{rows, cols}, Stride: m.l.Stride}
			return own
		}
		for range brief.Or(12, 4) {
			for _, k := range []int64{1, 31, 65, 513, 1500} {
				var h host
				m, n := int64(200), int64(700)
				x, y := randomMatrix(r, &h, isa.BF16, nil, m, k, r.IntN(4), false), randomMatrix(r, &h, isa.BF16, nil, k, n, r.IntN(4), false)
				all := product(&h, x, y, m, n)
				for range 6 {
					rows, cols := 1+r.Int64N(40), 1+r.Int64N(80)
					switch r.IntN(4) {
					case 0, 1:
						rows = 1
					case 2:
						rows, cols = cols, 1+r.Int64N(9)
					}
					row, col := r.Int64N(m-rows), r.Int64N(n-cols)
					some := product(&h, part(x, row, rows, 0, k), part(y, 0, k, col, cols), rows, cols)
					for i := range rows {
						for j := range cols {
							require.Equal(t, half(all, row+i, col+j), half(some, i, j), "k %d, %d×%d at %d, %d", k, rows, cols, row, col)
						}
					}
				}
			}
		}
	})
}

// TestUnitsHaveTheirOrder compares with the order that docs/REDUCTIONS.md gives, whose sums
// are exact in f64 for these numbers, before they are rounded.
func TestUnitsHaveTheirOrder(t *testing.T) {
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(27, 28))
		tiles := strings.HasSuffix(t.Name(), gemm.Tiles.String())
		fma := func(a, b float64, c float32) float32 { return float32(a*b + float64(c)) }
		for _, k := range []int64{1, 2, 3, 33, 700} {
			var h host
			x, y := randomMatrix(r, &h, isa.BF16, nil, 1, k, 0, false), randomMatrix(r, &h, isa.BF16, nil, k, 40, r.IntN(2), false)
			for _, m := range []*matrix{x, y} {
				for at := m.at; at+2 <= int64(len(m.memory)); at += 2 {
					putFloat(m.memory[at:], isa.BF16, math.Ldexp(1+float64(r.IntN(128))/128, r.IntN(6))*float64(1-2*r.IntN(2)))
				}
			}
			c := &matrix{l: kernels.Packed(isa.BF16, 1, 40), memory: h.block(80)}
			plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, c.l})
			require.NoError(t, err)
			b.plan(plan, [][]byte{x.first(), y.first(), c.first()}, []uint64{scalarCell(isa.BF16, 1), 0})
			for j := range int64(40) {
				at := func(p int64) (float64, float64) {
					if p >= k {
						return 0, 0
					}
					return half(x, 0, p), half(y, p, j)
				}
				acc := float32(0)
				for p := int64(0); p < k; p += 32 {
					var chains [2]float32
					for q := int64(0); q < 32; q += 2 {
						a0, b0 := at(p + q)
						a1, b1 := at(p + q + 1)
						if tiles {
							chains[0], chains[1] = fma(a0, b0, chains[0]), fma(a1, b1, chains[1])
						} else {
							acc = fma(a0, b0, fma(a1, b1, acc))
						}
					}
					acc += chains[0] + chains[1]
				}
				bits := math.Float32bits(acc)
				require.Equal(t, (bits+0x7FFF+bits>>16&1)>>16<<16, math.Float32bits(float32(half(c, 0, j))), "k %d, element %d", k, j)
			}
		}
	})
}

// TestUnitsTakeSubnormalsForZero: those that are multiplied, not C's.
func TestUnitsTakeSubnormalsForZero(t *testing.T) {
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		for _, c := range []struct{ x, beta, was, want float64 }{
			{0x1p-127, 0, 0, 0}, {0x1p-126, 0, 0, 0x1p-26}, {0x1p-130, 1, 0x1p-130, 0x1p-130}, {math.Inf(1), 0, 0, math.Inf(1)}, {0, 0, math.NaN(), 0},
		} {
			const k = 16 // of fewer there are no units
			var h host
			row, column, to := h.block(2*k), h.block(2*k), h.block(2)
			clear(row)
			clear(column)
			putFloat(row, isa.BF16, c.x)
			putFloat(column, isa.BF16, 0x1p100)
			putFloat(to, isa.BF16, c.was)
			one := kernels.Packed(isa.BF16, 1, 1)
			plan, err := kernels.Gemm.Whole([]kernels.Layout{kernels.Packed(isa.BF16, 1, k), kernels.Packed(isa.BF16, k, 1), one})
			require.NoError(t, err)
			b.plan(plan, [][]byte{row, column, to}, []uint64{scalarCell(isa.BF16, 1), scalarCell(isa.BF16, c.beta)})
			require.Equal(t, c.want, half(&matrix{l: one, memory: to}, 0, 0), "%+v", c)
		}
	})
}

// TestUnitsFillUpWithZeros: of a step that is not whole, what underflowed to −0.0 has become +0.0
// by the zeros behind it, in products of few rows and columns and of many. (AMX adds two chains, of which one has none.)
func TestUnitsFillUpWithZeros(t *testing.T) {
	withUnits(t, 1, []gemm.Units{gemm.Dots}, func(t *testing.T, b *bench) {
		for k := int64(17); k < 64; k++ {
			for _, s := range [][2]int64{{1, 1}, {20, 1}, {20, 20}} {
				var h host
				m, n := s[0], s[1]
				a, y, c := h.block(int(2*m*k)), h.block(int(2*k*n)), h.block(int(2*m*n))
				clear(a)
				clear(y)
				for i := range m {
					putFloat(a[2*(i*k+k-1):], isa.BF16, -0x1p-100)
				}
				for j := range n {
					putFloat(y[2*((k-1)*n+j):], isa.BF16, 0x1p-100)
				}
				to := kernels.Packed(isa.BF16, m, n)
				plan, err := kernels.Gemm.Whole([]kernels.Layout{kernels.Packed(isa.BF16, m, k), kernels.Packed(isa.BF16, k, n), to})
				require.NoError(t, err)
				b.plan(plan, [][]byte{a, y, c}, []uint64{scalarCell(isa.BF16, 1), 0})
				for i := range m * n {
					last := k%32 == 31 // of a pair the first is added last
					require.Equal(t, last, c[2*i+1] == 0x80, "k %d of %d×%d, element %d", k, m, n, i)
				}
			}
		}
	})
}

// TestUnitsBesideTheCollector has products on several threads, whose state is the system's to
// keep, while the collector runs and signals come.
func TestUnitsBesideTheCollector(t *testing.T) {
	eachUnits(t, 2, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(29, 30))
		var h host
		x, y := randomMatrix(r, &h, isa.BF16, nil, 90, 600, 0, false), randomMatrix(r, &h, isa.BF16, nil, 600, 450, 1, false)
		layouts := []kernels.Layout{x.l, y.l, kernels.Packed(isa.BF16, 90, 450)}
		plan, err := kernels.Gemm.Whole(layouts)
		require.NoError(t, err)
		scalars := []uint64{scalarCell(isa.BF16, 1), 0}
		want := h.block(2 * 90 * 450)
		b.plan(plan, [][]byte{x.first(), y.first(), want}, scalars)
		var left sync.WaitGroup
		for range 4 {
			var own host
			got := own.block(len(want))
			left.Go(func() {
				for range brief.Or(120, 40) {
					clear(got)
					if err := b.launch(plan, [][]byte{x.first(), y.first(), got}, scalars); err != nil || !bytes.Equal(got, want) {
						t.Errorf("another product, %v", err)
						return
					}
					runtime.GC()
				}
			})
		}
		left.Wait()
	})
}

// TestUnitsAreCancelled: a product does not begin once it is cancelled.
func TestUnitsAreCancelled(t *testing.T) {
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		var h host
		l := kernels.Packed(isa.BF16, 64, 64)
		plan, err := kernels.Gemm.Whole([]kernels.Layout{l, l, l})
		require.NoError(t, err)
		b.stopped = true
		memory := h.block(3 * 8192)
		require.ErrorIs(t, b.launch(plan, [][]byte{memory, memory[8192:], memory[16384:]}, []uint64{scalarCell(isa.BF16, 1), 0}), backends.ErrCancelled)
	})
}

// TestUnitsLeaveNothingBehind: what a product has left in the memory that factors are packed
// into is no part of another, whose last step of k is not whole: nothing there is 0 · ∞.
func TestUnitsLeaveNothingBehind(t *testing.T) {
	brief.Alone(t)
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(31, 32))
		product := func(m, n, k int64, howA, howB int, x float64) *matrix {
			var h host
			factors := [2]*matrix{randomMatrix(r, &h, isa.BF16, nil, m, k, howA, false), randomMatrix(r, &h, isa.BF16, nil, k, n, howB, false)}
			for _, f := range factors {
				for at := f.at; at+2 <= int64(len(f.memory)); at += 2 {
					putFloat(f.memory[at:], isa.BF16, x)
				}
			}
			c := &matrix{l: kernels.Packed(isa.BF16, m, n), memory: h.block(int(2 * m * n))}
			plan, err := kernels.Gemm.Whole([]kernels.Layout{factors[0].l, factors[1].l, c.l})
			require.NoError(t, err)
			b.plan(plan, [][]byte{factors[0].first(), factors[1].first(), c.first()}, []uint64{scalarCell(isa.BF16, 1), 0})
			return c
		}
		for howA := range 4 {
			for howB := range 4 {
				for i, k := range []int64{31, 1, 5, 33, 70} {
					if brief.Skips(i, 3) {
						continue
					}
					for _, before := range []int{0, 1, 3} {
						m, n := 1+r.Int64N(40), 1+r.Int64N(80)
						product(64, 96, 128, before, before, math.Inf(1))
						c := product(m, n, k, howA, howB, 1)
						for i := range m {
							for j := range n {
								require.EqualValues(t, k, half(c, i, j), "%d×%d, k %d, layouts %d and %d after %d: element %d, %d", m, n, k, howA, howB, before, i, j)
							}
						}
					}
				}
			}
		}
	})
}

// TestUnitsRoundToEven: what follows the product is rounded once, and of two numbers as near to
// the even one.
func TestUnitsRoundToEven(t *testing.T) {
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		const unit = 0x1p-7 // of bf16 from 1 on
		for _, c := range []struct{ alpha, beta, x, was, want float64 }{
			{1 + unit/2, 0, 1, 0, 1}, {1 + 1.5*unit, 0, 1, 0, 1 + 2*unit}, {-1 - 1.5*unit, 0, 1, 0, -1 - 2*unit},
			{1 + 1.5*unit - 0x1p-23, 0, 1, 0, 1 + unit}, {1 + unit/2 + 0x1p-23, 0, 1, 0, 1 + unit}, {2 - unit/2, 0, 1, 0, 2},
			{1, 1 + unit/2, 0, 1, 1}, {1, 1 + 1.5*unit, 0, 1, 1 + 2*unit}, {-1, unit / 2, 1, -1, -1}, {-1, 1.5 * unit, 1, -1, -1 - 2*unit},
		} {
			for _, n := range []int64{1, 16, 40} {
				var h host
				x, y, z := h.block(2), h.block(int(2*n)), h.block(int(2*n))
				putFloat(x, isa.BF16, c.x)
				for i := range n {
					putFloat(y[2*i:], isa.BF16, 1)
					putFloat(z[2*i:], isa.BF16, c.was)
				}
				row := kernels.Packed(isa.BF16, 1, n)
				plan, err := kernels.Gemm.Whole([]kernels.Layout{kernels.Packed(isa.BF16, 1, 1), row, row})
				require.NoError(t, err)
				b.plan(plan, [][]byte{x, y, z}, []uint64{scalarCell(isa.BF16, c.alpha), scalarCell(isa.BF16, c.beta)})
				for j := range n {
					require.Equal(t, c.want, half(&matrix{l: row, memory: z}, 0, j), "%+v, element %d of %d", c, j, n)
				}
			}
		}
	})
}
