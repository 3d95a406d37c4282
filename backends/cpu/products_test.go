package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// bench runs plans on a backend.
type bench struct {
	t       testing.TB
	d       backends.Device
	s       backends.Stream
	kernels map[*isa.Verified]backends.Kernel
	level   jit.Level
	// stopAfter is when launches are cancelled; 0: never. stopped: before they begin.
	stopAfter time.Duration
	stopped   bool
	// entering: launches are entered by their callers where they can be, of which entered
	// counts those.
	entering bool
	entered  int
}

func newBench(t testing.TB, b *cpu.Backend, l jit.Level) *bench {
	d, err := b.Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	return &bench{t: t, d: d, s: s, kernels: map[*isa.Verified]backends.Kernel{}, level: l}
}

func (b *bench) kernel(v *isa.Verified) backends.Kernel {
	k := b.kernels[v]
	if k == nil {
		f, _, err := ir.Canonical(v)
		require.NoError(b.t, err)
		k, err = b.d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
		require.NoError(b.t, err)
		b.kernels[v] = k
	}
	return k
}

// plan runs a plan on operands, of which each is given by its first element in
// memory.
func (b *bench) plan(p *kernels.Plan, operands [][]byte, scalars []uint64) {
	b.t.Helper()
	require.NoError(b.t, b.launch(p, operands, scalars))
}

func (b *bench) launch(p *kernels.Plan, operands [][]byte, scalars []uint64) error {
	space := make([]byte, p.Workspace+64)
	for i := range p.Steps {
		st := &p.Steps[i]
		l := &backends.Launch{Grid: st.Grid, Block: st.Block, Rank: len(st.Shape), N: 1, Record: new(backends.Record)}
		copy(l.Shape[:], st.Shape)
		for _, d := range st.Shape {
			l.N *= uint64(d)
		}
		if l.Grid[0] == 0 { // core chooses
			l.Block = [3]uint32{256, 1, 1}
			l.Grid = [3]uint32{uint32((l.N + 255) / 256), 1, 1}
		}
		for k := range st.Slots {
			bind := &st.Slots[k]
			memory := space
			if bind.Operand != kernels.Workspace {
				memory = operands[bind.Operand]
			}
			v := backends.View{Addr: addr(memory) + uintptr(bind.Offset), Type: bind.Type, Rank: len(bind.Shape)}
			copy(v.Shape[:], bind.Shape)
			copy(v.Stride[:], bind.Stride)
			if len(bind.Shape) == 1 && bind.Stride[0] == 1 {
				v.Bytes = bind.Shape[0] * int64(bind.Type.Size())
			}
			l.Slots = append(l.Slots, v)
		}
		for _, x := range st.Params {
			if x.Scalar {
				x.Value = scalars[x.Value]
			}
			l.Params = append(l.Params, x.Value)
		}
		if l.N > 0 {
			k := b.kernel(st.Program)
			if b.entering && enter(k, l) {
				b.entered++
				continue
			}
			if b.stopped {
				l.Record.Stop()
			}
			if b.stopAfter > 0 {
				defer time.AfterFunc(b.stopAfter, l.Record.Stop).Stop()
			}
			if _, err := b.s.Launch(k, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// product is a product to be run on two backends.
type productCase struct {
	t, out      isa.Type // out: 0 is t
	batch       []int64
	m, n, k     int64
	howA, howB  int
	howC        int
	alone       int // bits: of A, of B, there is one for the whole batch
	alpha, beta float64
	special     bool
}

func (c productCase) String() string {
	return fmt.Sprintf("%v in %v batch %v %d×%d×%d layouts %d %d %d alone %d alpha %v beta %v", c.t, c.out, c.batch, c.m, c.n, c.k, c.howA, c.howB, c.howC, c.alone, c.alpha, c.beta)
}

// sizes gives sizes below most, none, one and few of them often.
func sizes(r *rand.Rand, most int64) func() int64 {
	return func() int64 {
		switch r.IntN(8) {
		case 0:
			return r.Int64N(3)
		case 1:
			return 1 + r.Int64N(9)
		}
		return r.Int64N(most)
	}
}

// check runs the case by strips, as the library plans it, and on the bench by
// both plans, by the stream and entered by their caller.
func (c productCase) check(t *testing.T, r *rand.Rand, oracle, b *bench) {
	t.Helper()
	if c.out == 0 {
		c.out = c.t
	}
	var h host
	batches := [2][]int64{c.batch, c.batch}
	for i := range batches {
		if c.alone>>i&1 != 0 {
			batches[i] = nil
		}
	}
	a, bb := randomMatrix(r, &h, c.t, batches[0], c.m, c.k, c.howA, c.special), randomMatrix(r, &h, c.t, batches[1], c.k, c.n, c.howB, c.special)
	want := randomMatrix(r, &h, c.out, c.batch, c.m, c.n, c.howC, c.special)
	layouts := []kernels.Layout{a.l, bb.l, want.l}
	scalars := []uint64{scalarCell(c.out, c.alpha), scalarCell(c.out, c.beta)}
	library, err := kernels.Gemm.PlanShapes(layouts, -1)
	require.NoError(t, err)
	whole, err := kernels.Gemm.Whole(layouts)
	require.NoError(t, err)
	before := want.clone(&h)
	oracle.plan(library, [][]byte{a.first(), bb.first(), want.first()}, scalars)
	for i, p := range []*kernels.Plan{whole, library, whole, library} {
		got := before.clone(&h)
		b.entering = i >= 2
		b.plan(p, [][]byte{a.first(), bb.first(), got.first()}, scalars)
		b.entering = false
		if err := sameElements(c.out, got, want); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
	}
}

// reaches demands that the products of the bench ran on their own engine.
func (b *bench) reaches(t *testing.T) {
	t.Helper()
	n := 0
	for v, k := range b.kernels {
		if kernels.ProductOf(v) == nil {
			continue
		}
		n++
		typ, acc := kernels.ProductOf(v).T, kernels.ProductOf(v).Acc
		other := acc.Integer() && acc.Size() == 8 && (typ.Size() < 8 || b.level == jit.AVX2) // which AVX2 cannot multiply
		if e := cpu.EngineOf(k); !strings.HasPrefix(e, "gemm/") && !other {
			t.Errorf("a product of %v in %v ran on %s", typ, acc, e)
		}
		if cpu.Declined(k) {
			t.Errorf("launches of %+v were declined", *kernels.ProductOf(v))
		}
	}
	if n == 0 {
		t.Error("no product ran")
	}
}

// eachWidth runs f on an engine of each width, beside strips.
func eachWidth(t *testing.T, threads int, f func(t *testing.T, oracle, b *bench)) {
	for _, l := range levels {
		if l == jit.None || l&jit.Few != 0 {
			continue
		}
		t.Run(l.String(), func(t *testing.T) {
			b := newBench(t, on(t, l, threads), l)
			f(t, newBench(t, on(t, jit.None, 1), jit.None), b)
			b.reaches(t)
		})
	}
}

// TestProductsHaveTheWrittenOrder compares with strips, for products of all
// shapes, layouts and numbers.
func TestProductsHaveTheWrittenOrder(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(1, 2))
		size := sizes(r, 72)
		for i := range brief.Or(300, 150) {
			c := productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], m: size(), n: size(), k: size(), howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(4),
				alpha: []float64{1, 0, -2.5}[r.IntN(3)], beta: []float64{0, 1, 0.75, math.Copysign(0, -1)}[r.IntN(4)], special: r.IntN(3) == 0}
			if r.IntN(6) == 0 {
				c.k = []int64{511, 512, 513, 1024, 1025, 1700}[r.IntN(6)]
			}
			if r.IntN(6) == 0 {
				c.batch = []int64{r.Int64N(4), 1 + r.Int64N(2)}
			}
			c.check(t, r, oracle, b)
		}
		require.Greater(t, b.entered, brief.Or(300, 150))
	})
}

// TestLargerProducts has blocks, more than one of each kind.
func TestLargerProducts(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(3, 4))
		for i, s := range [][3]int64{{30, 1100, 530}, {1300, 20, 520}, {64, 64, 1024}, {40, 40, 1024}, {270, 100, 520}, {40, 520, 1030}, {1, 1, 263000}, {1, 1024, 1024}, {1024, 1, 1024}, {3, 700, 1024}, {700, 3, 1024}, {17, 600, 700}} {
			for how := range 16 {
				if brief.On() && (how != i || i%5 != 4) || s[0]*s[1]*s[2] > 1<<23 && (how+i)%7 != 0 {
					continue
				}
				for j, typ := range []isa.Type{isa.F32, isa.F64} {
					if (how+i)%8 != j && s[0]*s[1]*s[2] > 1<<23 || (how+how/2+how/4+how/8+i)%2 != j && s[0]*s[2]+s[2]*s[1] > 200_000 {
						continue // of the large each layout with one type
					}
					productCase{t: typ, m: s[0], n: s[1], k: s[2], howA: how & 1, howB: how >> 1 & 1, howC: how >> 3 & 1, alpha: 1, beta: float64(how >> 2 & 1)}.check(t, r, oracle, b)
				}
			}
		}
	})
}

// TestProductsOfThreads has blocks that are packed by one thread for all, whose tasks are in
// whole squares or not, the last of them short.
func TestProductsOfThreads(t *testing.T) {
	eachWidth(t, 3, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(23, 24))
		for i, s := range [][3]int64{{170, 300, 530}, {301, 217, 300}, {301, 70, 513}} { // the last with a block for all
			for j, typ := range []isa.Type{isa.F32, isa.F64, isa.F16, isa.I32} {
				for how := range 8 {
					if how%4 == (i+j)%4 && !brief.Skips(how+j, 6) {
						productCase{t: typ, m: s[0], n: s[1], k: s[2], howA: how >> 2 & 1, howB: 1, howC: how & 1, alpha: 1, beta: float64(how >> 1 & 1)}.check(t, r, oracle, b)
					}
				}
			}
		}
	})
}

// TestOuterProducts has columns times rows: rows of few vectors, of more bytes than are done one
// below the other, and beginning anywhere in a line; sums that were −0; a result that is read.
func TestOuterProducts(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(45, 46))
		for i := range brief.Or(60, 16) {
			typ := []isa.Type{isa.F32, isa.F64}[i&1]
			lanes := int64(64 / typ.Size())
			n := []int64{2*lanes - 1, 2 * lanes, 4*lanes - 1, 4 * lanes, 4*lanes + 1, 5*lanes + 7, 9 * lanes, 64*lanes + 3, 128 * lanes, 2*128*lanes - 1, 2 * 128 * lanes, 2*128*lanes + 1, 5*128*lanes + 9}[i/2%13]
			productCase{t: typ, m: []int64{1, 2, 7, 33}[r.IntN(4)], n: n, k: 1, howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(4),
				alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 1, 0.75, math.Copysign(0, -1)}[r.IntN(4)], special: r.IntN(2) == 0}.check(t, r, oracle, b)
		}
		productCase{t: isa.F32, m: 700, n: 1301, k: 1, alpha: 1, beta: 0.75}.check(t, r, oracle, b) // on two threads
	})
}

// TestProductsOfOneThread has a B that stays packed for several blocks of rows of A.
func TestProductsOfOneThread(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(43, 44))
		for how := range 8 {
			typ := []isa.Type{isa.F32, isa.F64}[(how^how>>1^how>>2)&1]
			productCase{t: typ, m: 530, n: 300, k: 520, howA: how & 1, howB: how >> 1 & 1, alpha: 1, beta: float64(how >> 2 & 1)}.check(t, r, oracle, b)
		}
	})
}

// TestProductsOfFewColumns has those that are done by rows, whose last rows are
// done with some before them, those of few rows of a large matrix, and those of few
// elements that are long sums.
func TestProductsOfFewColumns(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(13, 14))
		for i := range brief.Or(120, 20) {
			c := productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], m: 1 + r.Int64N(45), n: 1 + r.Int64N(8), k: []int64{0, 1, 5, 8, 17, 64, 511, 513, 1100}[r.IntN(9)],
				howA: 2 * r.IntN(2), howB: 1, howC: r.IntN(4), alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75}[r.IntN(2)], special: r.IntN(3) == 0}
			if r.IntN(3) == 0 { // the same transposed
				c.m, c.n, c.howA, c.howB = c.n, c.m, 0, 1
			}
			c.check(t, r, oracle, b)
		}
		for i := range brief.Or(60, 16) { // long sums
			c := productCase{t: []isa.Type{isa.F32, isa.F64}[i&1], m: 1 + r.Int64N(9), n: 1 + r.Int64N(7), k: []int64{1024, 1025, 3000, 4095, 4096, 7 * 512, 9000, 17*512 + 3}[i/2%8],
				howA: 2 * r.IntN(2), howB: 1, howC: r.IntN(4), alpha: []float64{1, -2.5}[r.IntN(2)], beta: []float64{0, 0.75}[r.IntN(2)], special: r.IntN(3) == 0}
			c.check(t, r, oracle, b)
		}
		for i, c := range []productCase{
			{t: isa.F32, m: 613, n: 3, k: 640, howB: 1, beta: 0.75}, {t: isa.F64, m: 3, n: 613, k: 640, howB: 1}, // on two threads
			{t: isa.F32, m: 13, n: 600, k: 700, beta: 1}, {t: isa.F64, m: 14, n: 300, k: 520, howA: 1}, {t: isa.F32, m: 6, n: 1000, k: 530, howA: 1},
		} {
			if c.alpha = 1; !brief.Skips(i, 5) {
				c.check(t, r, oracle, b)
			}
		}
	})
}

// TestSumsOfUnderflow has sums of negative products that are too small for the type:
// they are −0, as no sum is that +0 is added to.
func TestSumsOfUnderflow(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, size := range [][3]int64{{1, 1, 1024}, {1, 1, 1500}, {1, 1, 40}, {3, 2, 4096}, {9, 3, 600}, {20, 20, 1100}, {1, 100, 600}, {12, 300, 700}} {
			var h host
			x, y := randomMatrix(r, &h, isa.F32, nil, size[0], size[2], 0, false), randomMatrix(r, &h, isa.F32, nil, size[2], size[1], 1, false)
			for _, m := range []*matrix{x, y} {
				for at := m.at; at+4 <= int64(len(m.memory)); at += 4 {
					putFloat(m.memory[at:], isa.F32, map[bool]float64{true: -1e-30, false: 1e-30}[m == x])
				}
			}
			want := randomMatrix(r, &h, isa.F32, nil, size[0], size[1], 0, false)
			got := want.clone(&h)
			plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, want.l})
			require.NoError(t, err)
			scalars := []uint64{scalarCell(isa.F32, 1), 0}
			oracle.plan(plan, [][]byte{x.first(), y.first(), want.first()}, scalars)
			b.plan(plan, [][]byte{x.first(), y.first(), got.first()}, scalars)
			require.NoError(t, sameElements(isa.F32, got, want), size)
			require.Equal(t, uint64(1)<<31, cellAt(isa.F32, want.first()), size)
		}
	})
}

// TestWhatIsThereIsNotRead has results on memory full of NaN, which stays unread where
// beta is 0, be it −0.
func TestWhatIsThereIsNotRead(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(17, 18))
		for _, typ := range []isa.Type{isa.F32, isa.F64, isa.F16, isa.BF16} {
			for _, size := range [][3]int64{{3, 4, 5}, {40, 70, 30}, {20, 3, 700}, {2, 2, 1100}, {30, 40, 600}, {5, 5, 0}, {5, 200, 1}} {
				for _, beta := range []float64{0, math.Copysign(0, -1)} {
					var h host
					x, y := randomMatrix(r, &h, typ, nil, size[0], size[2], 0, false), randomMatrix(r, &h, typ, nil, size[2], size[1], 1, false)
					c := randomMatrix(r, &h, typ, nil, size[0], size[1], 0, false)
					for i := range c.memory {
						c.memory[i] = 0xff
					}
					plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, c.l})
					require.NoError(t, err)
					for _, on := range []*bench{oracle, b} {
						got := c.clone(&h)
						on.plan(plan, [][]byte{x.first(), y.first(), got.first()}, []uint64{scalarCell(typ, 1), scalarCell(typ, beta)})
						for i := range size[0] * size[1] {
							require.False(t, nan(typ, cellAt(typ, got.first()[i*int64(typ.Size()):])), "%v %v beta %v: element %d", typ, size, beta, i)
						}
					}
				}
			}
		}
	})
}

// TestProductsOfPages has rows and columns that lie a multiple of a page apart,
// which are packed.
func TestProductsOfPages(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(11, 12))
		for how := range brief.Or(4, 1) {
			productCase{t: isa.F32, m: 1024, n: 100, k: 40, howA: how & 1, howB: how >> 1, alpha: 1}.check(t, r, oracle, b)
			productCase{t: isa.F64, m: 512, n: 100, k: 40, howA: how & 1, howB: how >> 1, alpha: 1}.check(t, r, oracle, b)
			productCase{t: isa.F32, m: 40, n: 140, k: 1024, howA: how & 1, howB: how >> 1, alpha: 1, beta: 1}.check(t, r, oracle, b)
			productCase{t: isa.F32, m: 50, n: 1024, k: 70, howA: how & 1, howB: how >> 1, alpha: 1}.check(t, r, oracle, b)
			productCase{t: isa.F32, m: 40, n: 7, k: 512, howA: how & 1, howB: how >> 1, alpha: 1, beta: 0.75}.check(t, r, oracle, b)
			productCase{t: isa.F64, m: 3, n: 70, k: 256, howA: how & 1, howB: how >> 1, alpha: -2.5}.check(t, r, oracle, b)
			productCase{t: isa.F32, m: 11, n: 70, k: 1024, howA: how & 1, howB: how >> 1, alpha: 1}.check(t, r, oracle, b) // of which some are entered
		}
		productCase{t: isa.F64, m: 512, n: 40, k: 20, howA: 1, alpha: 1}.check(t, r, oracle, b)       // entered, its columns packed
		productCase{t: isa.F32, m: 74*14 + 1, n: 70, k: 20, howA: 1, alpha: 1}.check(t, r, oracle, b) // and the last panel has one row
		if !brief.On() {                                                                              // columns of one tile that go through all of k, which meet A once
			productCase{t: isa.I32, m: 1024, n: 197, k: 513, howA: 1, alpha: 1, beta: 1}.check(t, r, oracle, b)
		}
		for _, k := range []int64{20, 600} { // B's rows, of a vector: tiles are as tall as can be
			productCase{t: isa.F32, m: 112, n: 15, k: k, howB: 6, alpha: 1}.check(t, r, oracle, b)
			productCase{t: isa.F64, m: 112, n: 8, k: k, howB: 6, howC: 3, alpha: 1, beta: 0.75}.check(t, r, oracle, b)
		}
	})
}

// TestResultsByColumns has products that are done as the transposed ones, A and B being so: tiles of squares that
// are whole and that are not, of one row and of one column, whose results lie by columns, and are read or not.
func TestResultsByColumns(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(51, 52))
		for i, s := range [][3]int64{{9, 31, 16}, {33, 183, 190}, {50, 29, 64}, {17, 16, 33}, {41, 57, 520}, {96, 24, 120}} {
			for j, typ := range []isa.Type{isa.F32, isa.F64, isa.I32, isa.I64} {
				productCase{t: typ, m: s[0], n: s[1], k: s[2], howA: 1, howB: 1, alpha: 1, beta: float64((i + j) & 1)}.check(t, r, oracle, b)
			}
		}
		for i, typ := range []isa.Type{isa.F32, isa.F64, isa.I32} { // short panels of several tiles, many of them in a call
			productCase{t: typ, m: 210, n: 700, k: 3, howA: 1, howB: 1, alpha: 1, beta: float64(i & 1)}.check(t, r, oracle, b)
			productCase{t: typ, m: 700, n: 210, k: 3, howA: 1, howB: 1, alpha: 1, beta: float64(i & 1)}.check(t, r, oracle, b)
		}
		for i, s := range [][3]int64{{200, 17, 60}, {100, 9, 60}} { // rows of B, pages apart, are columns that are packed
			productCase{t: []isa.Type{isa.F32, isa.F64}[i], m: s[0], n: s[1], k: s[2], howA: 1, howB: 6, alpha: 1, beta: 1}.check(t, r, oracle, b)
		}
	})
}

// TestProductsOfOtherTypes has what is converted on the way.
func TestProductsOfOtherTypes(t *testing.T) {
	brief.Alone(t)
	eachWidth(t, 1, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, typ := range kernels.Gemm.Types.List() {
			for i := range brief.Or(40, 10) {
				c := productCase{t: typ, out: widerThan(typ, i), m: r.Int64N(40), n: r.Int64N(40), k: r.Int64N(60), howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(2),
					alpha: float64(r.IntN(3)), beta: float64(r.IntN(3)), special: r.IntN(3) == 0}
				if r.IntN(5) == 0 {
					c.k = 500 + r.Int64N(600)
				}
				c.check(t, r, oracle, b)
			}
			// Results of half a number's width that lie a number apart, as columns of numbers would:
			productCase{t: typ, m: 20, n: 37, k: 3000, howC: 7, alpha: 1}.check(t, r, oracle, b)
			productCase{t: typ, m: 37, n: 20, k: 3000, howA: 1, howB: 1, howC: 7, alpha: 1}.check(t, r, oracle, b)
			for how := range 2 { // rows, and columns, that vectors of are widened
				productCase{t: typ, m: 20, n: 1, k: 530, howA: how, alpha: 1}.check(t, r, oracle, b)
				productCase{t: typ, m: 3, n: 37, k: 70, howB: how, alpha: 1}.check(t, r, oracle, b)
			}
		}
	})
}

// widerThan is a type in which a product of elements of type t may be: often t.
func widerThan(t isa.Type, i int) isa.Type {
	outs := []isa.Type{t, t}
	for _, out := range kernels.Gemm.Types.List() {
		if kernels.Wider.Takes(t, out) {
			outs = append(outs, out)
		}
	}
	return outs[i%len(outs)]
}

// spaceOf is a step's grid, block and index space.
func spaceOf(st kernels.Step) shape { return shape{grid: st.Grid, block: st.Block, dims: st.Shape} }

// TestProductIsCancelled stops a product that takes seconds.
func TestProductIsCancelled(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, _, b *bench) {
		const n = 6000
		plan, err := kernels.Gemm.Whole([]kernels.Layout{kernels.Packed(isa.F32, n, n), kernels.Packed(isa.F32, n, n), kernels.Packed(isa.F32, n, n)})
		require.NoError(t, err)
		var h host
		memory := h.block(4 * n * n)
		b.stopAfter = 20 * time.Millisecond
		require.ErrorIs(t, b.launch(plan, [][]byte{memory, memory, h.block(4 * n * n)}, []uint64{scalarCell(isa.F32, 1), 0}), backends.ErrCancelled)
	})
}

// TestEachWayIsCancelled: however a product is done, it does not begin once it is cancelled.
func TestEachWayIsCancelled(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		for name, s := range map[string][3]int64{"rows": {64, 1, 600}, "sums": {1, 1, 4096}, "stream": {1, 1024, 600}, "blocks": {40, 40, 40}, "outer": {40, 100, 1}, "large": {90, 300, 600}} {
			for _, typ := range []isa.Type{isa.F32, isa.BF16, isa.I8} {
				x, y := kernels.Packed(typ, s[0], s[2]), kernels.Packed(typ, s[2], s[1])
				if s[1] == 1 { // a column of B lies side by side
					y.Stride[0] = 1
				}
				plan, err := kernels.Gemm.Whole([]kernels.Layout{x, y, kernels.Packed(typ, s[0], s[1])})
				require.NoError(t, err)
				var h host
				size := int64(typ.Size())
				c := h.block(int(size * s[0] * s[1]))
				for i := range c {
					c[i] = 77
				}
				was := bytes.Clone(c)
				b.stopped = true
				require.ErrorIs(t, b.launch(plan, [][]byte{h.block(int(size * s[0] * s[2])), h.block(int(size * s[2] * s[1])), c}, []uint64{scalarCell(typ, 1), 0}), backends.ErrCancelled, name)
				require.Equal(t, was, c, "%s of %v", name, typ)
			}
		}
	})
}

// TestProductsBesideTheCollector has products on several threads while the
// collector runs again and again.
func TestProductsBesideTheCollector(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(9, 10))
		var h host
		x, y := randomMatrix(r, &h, isa.F32, nil, 90, 600, 0, false), randomMatrix(r, &h, isa.F32, nil, 600, 150, 1, false)
		want := randomMatrix(r, &h, isa.F32, nil, 90, 150, 0, false)
		plan, err := kernels.Gemm.Whole([]kernels.Layout{x.l, y.l, want.l})
		require.NoError(t, err)
		scalars := []uint64{scalarCell(isa.F32, 1), scalarCell(isa.F32, 1)}
		before := want.clone(&h)
		oracle.plan(plan, [][]byte{x.first(), y.first(), want.first()}, scalars)
		b.kernel(plan.Steps[0].Program)
		var left sync.WaitGroup
		for range 4 {
			var own host
			got := before.clone(&own)
			left.Go(func() {
				for range brief.Or(300, 40) {
					copy(got.memory, before.memory)
					if err := b.launch(plan, [][]byte{x.first(), y.first(), got.first()}, scalars); err != nil {
						t.Error(err)
					}
					if err := sameElements(isa.F32, got, want); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		}()
		left.Wait()
		close(stop)
		<-ended
	})
}
