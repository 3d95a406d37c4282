package product_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cuda/product"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// shape is a product: sizes, whether the operands are stored transposed, how many
// elements lie between rows beside their own, a stack, and where operands begin.
type shape struct {
	m, n, k        int64
	transA, transB bool
	gap            int64
	stack          int64 // 0: no stack
	apart          int64 // more elements between its matrices
	off            int   // bytes that A lies beyond a multiple of 16
	offC           int   // and C
	split          bool  // k is, into chunks
	alpha, beta    float64
}

// accumulator is the type of sums, alpha and beta.
func accumulator(t isa.Type) isa.Type {
	if t.Size() == 2 {
		return isa.F32
	}
	return t
}

// launches returns the launches of a product by the library's plan, and the arrays
// that they see.
func launches(t testing.TB, typ isa.Type, s shape) (*kernels.Plan, []*backends.Launch, [][]byte) {
	size := int64(typ.Size())
	matrix := func(rows, cols int64, trans bool) kernels.Layout {
		shape, stride := []int64{rows, cols}, []int64{cols + s.gap, 1}
		if trans {
			stride = []int64{1, rows + s.gap}
		}
		if s.stack > 0 {
			shape, stride = append([]int64{s.stack}, shape...), append([]int64{(rows+s.gap)*(cols+s.gap) + 4 + s.apart}, stride...)
		}
		return kernels.Layout{Type: typ, Shape: shape, Stride: stride}
	}
	c := []int64{s.m, s.n}
	if s.stack > 0 {
		c = append([]int64{s.stack}, c...)
	}
	layouts := []kernels.Layout{matrix(s.m, s.k, s.transA), matrix(s.k, s.n, s.transB), kernels.Packed(typ, c...)}
	few := int64(0)
	if s.split {
		few = 1 << 40
	}
	plan, err := kernels.PlanProduct(kernels.Gemm, layouts, few, kernels.ProductChunk)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(uint64(s.m), uint64(s.n+s.k)))
	arrays := make([][]byte, 4)
	for i, l := range layouts {
		n := int64(1)
		for d := range l.Shape {
			n += (l.Shape[d] - 1) * l.Stride[d]
		}
		for range n {
			v := random.NormFloat64()
			switch random.IntN(40) {
			case 0:
				v = math.Copysign(0, -1)
			case 1:
				v *= 1e-25
			}
			if random.IntN(4000) == 0 {
				v = math.Inf(1)
			}
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], isa.Convert(typ, isa.F64, math.Float64bits(v)))
			arrays[i] = append(arrays[i], b[:size]...)
		}
	}
	arrays[3] = make([]byte, plan.Workspace)
	for i := range arrays { // at a multiple of 16, but for A and C
		room := make([]byte, len(arrays[i])+32)
		at := -int(uintptr(unsafe.Pointer(unsafe.SliceData(room)))) & 15
		at += map[int]int{0: s.off, 2: s.offC}[i]
		arrays[i] = append(room[at:at], arrays[i]...)
	}
	var all []*backends.Launch
	for _, step := range plan.Steps {
		l := &backends.Launch{Grid: step.Grid, Block: step.Block, Rank: len(step.Shape), N: 1, Record: &backends.Record{}}
		copy(l.Shape[:], step.Shape)
		for _, n := range step.Shape {
			l.N *= uint64(n)
		}
		for _, p := range step.Params {
			v := p.Value
			if p.Scalar {
				v = isa.Convert(accumulator(typ), isa.F64, math.Float64bits([]float64{s.alpha, s.beta}[v]))
			}
			l.Params = append(l.Params, v)
		}
		for _, b := range step.Slots {
			array := arrays[3]
			if b.Operand >= 0 {
				array = arrays[b.Operand]
			}
			addr := uintptr(unsafe.Pointer(unsafe.SliceData(array))) + uintptr(b.Offset)
			n := b.Shape[0]
			l.Slots = append(l.Slots, backends.View{Addr: addr, Bytes: n * int64(b.Type.Size()), Type: b.Type, Rank: 1, Shape: [isa.MaxRank]int64{n}, Stride: [isa.MaxRank]int64{1}})
		}
		all = append(all, l)
	}
	return plan, all, arrays
}

// kernelOf is the program's function and how its launch block is laid out.
func kernelOf(t testing.TB, v *isa.Verified) (*ir.Func, *ptx.Layout) {
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	p, err := ptx.Compile(f)
	require.NoError(t, err)
	return f, &p.Layout
}

// play runs a launch on the machine, in a form.
func play(t testing.TB, v *isa.Verified, l *backends.Launch, f product.Form) error {
	_, layout := kernelOf(t, v)
	g := f.Geometry(l)
	m := newMachine(product.Text(f, layout))
	m.grid, m.launch = g.Grid, make([]byte, layout.Bytes)
	env := &ptx.Environment{Record: uint64(uintptr(unsafe.Pointer(l.Record)))}
	space := &ptx.Space{}
	layout.Fuse(l, space)
	layout.Pack(m.launch, l, space, env)
	for _, s := range l.Slots {
		m.global[uint64(s.Addr)] = hostmem.Bytes(s.Addr, s.Bytes)
	}
	m.global[env.Record] = unsafe.Slice((*byte)(unsafe.Pointer(l.Record)), unsafe.Sizeof(*l.Record))
	return m.run(f.Threads(), g.Shared)
}

// judge runs a launch on the CPU.
func judge(t testing.TB, v *isa.Verified, l *backends.Launch) {
	d, err := cpu.New(0).Open(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
	require.NoError(t, err)
	defer k.Release()
	_, err = s.Launch(k, l)
	require.NoError(t, err)
}

var h200 = product.Device{Processors: 132, Shared: 227 << 10, Compute: 90}

var shapes = []shape{
	{m: 8, n: 8, k: 1, alpha: 1},
	{m: 33, n: 40, k: 17, alpha: 1},
	{m: 40, n: 33, k: 16, transA: true, alpha: 1, beta: -0.5},
	{m: 31, n: 35, k: 31, transB: true, alpha: 0.75},
	{m: 36, n: 64, k: 24, transA: true, transB: true, alpha: 1, beta: 2},
	{m: 32, n: 32, k: 16, alpha: 1, gap: 4},
	{m: 32, n: 36, k: 20, alpha: 1, gap: 3, off: 8},
	{m: 12, n: 20, k: 1030, alpha: 1},
	{m: 9, n: 12, k: 1024, transB: true, alpha: -2, beta: 1},
	{m: 16, n: 12, k: 1100, transA: true, alpha: 1, split: true},
	{m: 10, n: 9, k: 20, alpha: 1, stack: 3},
	{m: 20, n: 12, k: 1600, alpha: 1},
	{m: 8, n: 16, k: 600, transB: true, alpha: 1, beta: 1, stack: 2, gap: 4},
	{m: 8, n: 16, k: 1537, alpha: 1, beta: 1, split: true},
	{m: 130, n: 140, k: 19, alpha: 1},
	{m: 136, n: 132, k: 8, transA: true, alpha: 1},
	{m: 129, n: 257, k: 5, transB: true, alpha: 1},
	{m: 1030, n: 40, k: 3, alpha: 1},
	{m: 128, n: 128, k: 52, transB: true, alpha: 1},
	{m: 128, n: 256, k: 100, transB: true, alpha: 1},
	{m: 64, n: 128, k: 1060, transB: true, alpha: 1, split: true},
	{m: 16, n: 32, k: 24, alpha: 1, stack: 3, apart: 1},
	{m: 16, n: 32, k: 24, transA: true, transB: true, alpha: 1, stack: 2, apart: 1},
	{m: 128, n: 128, k: 32, transB: true, alpha: 1, stack: 2, apart: 3},
	{m: 16, n: 32, k: 24, alpha: 1, stack: 2, apart: 4},
	{m: 33, n: 33, k: 16, alpha: 1, gap: 3},
	{m: 40, n: 32, k: 16, transA: true, alpha: 1, off: 8},
	{m: 32, n: 32, k: 16, alpha: 1, beta: 1, offC: 8},
}

// The code has the bits of the program that it stands in for, in every shape of
// blocks, walk and layout, with all that it does with shared memory in order.
func TestProductsHaveTheProgramsBits(t *testing.T) {
	brief.Alone(t)
	forms := map[product.Form]bool{}
	for _, typ := range []isa.Type{isa.F32, isa.F64} {
		for number, s := range shapes {
			if brief.On() && (s.k > 600 || typ == isa.F64 && number%3 > 0) {
				continue
			}
			plan, all, arrays := launches(t, typ, s)
			for i, l := range all {
				v := plan.Steps[i].Program
				p := kernels.ProductOf(v)
				if p == nil {
					require.Positive(t, i, "the first step is no product")
					continue // adds up the parts
				}
				form, ok := product.Match(*p, l, h200)
				require.True(t, ok, "%v %+v", typ, s)
				out := arrays[2]
				if p.Split {
					out = arrays[3]
				}
				before := append([]byte(nil), out...)
				judge(t, v, l)
				want := append([]byte(nil), out...)
				for tile := range product.TilesOf(typ) {
					f := form.InTile(tile)
					if f != form && (brief.On() || (number+tile)%3 != 0) { // of the others some
						continue
					}
					t.Run(fmt.Sprintf("%v %+v tile %d", typ, s, tile), func(t *testing.T) {
						forms[f] = true
						copy(out, before)
						require.NoError(t, play(t, v, l, f))
						size := typ.Size()
						for at := 0; at < len(want); at += size {
							g, w := cell(out[at:at+size]), cell(want[at:at+size])
							if g != w && !(isNaN(typ, g) && isNaN(typ, w)) {
								t.Fatalf("element %d: %#x, the program has %#x", at/size, g, w)
							}
						}
					})
				}
				copy(out, want)
			}
		}
	}
	t.Logf("%d forms", len(forms))
}

func cell(b []byte) uint64 {
	var c [8]byte
	copy(c[:], b)
	return binary.LittleEndian.Uint64(c[:])
}

func isNaN(t isa.Type, cell uint64) bool {
	return math.IsNaN(math.Float64frombits(isa.Convert(isa.F64, t, cell)))
}

// What the library would not launch, and what is not worth it, is left to the
// program: too few rows, fuel, blocks that miss elements, accesses beyond slots or
// at odd addresses, and sums that are no chains of 512.
func TestMatchLeavesTheRest(t *testing.T) {
	plan, all, _ := launches(t, isa.F32, shape{m: 40, n: 48, k: 700, alpha: 1, stack: 2})
	base, sums := all[0], *kernels.ProductOf(plan.Steps[0].Program)
	_, ok := product.Match(sums, base, h200)
	require.True(t, ok)
	for name, change := range map[string]func(l *backends.Launch, p *kernels.Product){
		"fuel":                 func(l *backends.Launch, _ *kernels.Product) { l.Fuel = 1 },
		"few rows":             func(l *backends.Launch, _ *kernels.Product) { l.Params[0] = 7 },
		"few columns":          func(l *backends.Launch, _ *kernels.Product) { l.Params[1] = 7 },
		"no products":          func(l *backends.Launch, _ *kernels.Product) { l.Params[2] = 0 },
		"more rows than lanes": func(l *backends.Launch, _ *kernels.Product) { l.Params[0] += 8 },
		"fewer lanes":          func(l *backends.Launch, _ *kernels.Product) { l.N-- },
		"another width":        func(l *backends.Launch, _ *kernels.Product) { l.Params[7]++ },
		"k beyond A":           func(l *backends.Launch, _ *kernels.Product) { l.Params[2]++ },
		"rows of A apart":      func(l *backends.Launch, _ *kernels.Product) { l.Params[3] += 4 },
		"backward":             func(l *backends.Launch, _ *kernels.Product) { l.Params[4] = ^uint64(3) },
		"odd":                  func(l *backends.Launch, _ *kernels.Product) { l.Params[5] -= 2 },
		"matrices of B apart":  func(l *backends.Launch, _ *kernels.Product) { l.Params[10] += 4 },
		"a later matrix":       func(l *backends.Launch, _ *kernels.Product) { l.Params[8] = 1 },
		"a short C":            func(l *backends.Launch, _ *kernels.Product) { l.Slots[2].Bytes -= 4 },
		"a missing parameter":  func(l *backends.Launch, _ *kernels.Product) { l.Params = l.Params[1:] },
		"a missing slot":       func(l *backends.Launch, _ *kernels.Product) { l.Slots = l.Slots[1:] },
		"one long chain":       func(_ *backends.Launch, p *kernels.Product) { p.Most = 512 },
		"another program":      func(_ *backends.Launch, p *kernels.Product) { p.Split, p.Scaled = true, false },
	} {
		l, p := *base, sums
		l.Params, l.Slots = slices.Clone(base.Params), slices.Clone(base.Slots)
		change(&l, &p)
		_, ok := product.Match(p, &l, h200)
		require.False(t, ok, name)
	}
	for _, typ := range []isa.Type{isa.I32, isa.BF16, isa.F16, isa.F64} {
		for _, change := range []func(p *kernels.Product){
			func(p *kernels.Product) { p.T = typ }, func(p *kernels.Product) { p.Acc = typ }, func(p *kernels.Product) { p.Out = typ },
		} {
			p := sums
			change(&p)
			_, ok := product.Match(p, base, h200)
			require.False(t, ok)
		}
	}
}

// A cancelled product ends between chunks, says so, and stores nothing.
func TestCancelledProduct(t *testing.T) {
	defer product.PollAfter(2)()
	plan, all, arrays := launches(t, isa.F32, shape{m: 9, n: 12, k: 2000, alpha: 1})
	l := all[0]
	f, ok := product.Match(*kernels.ProductOf(plan.Steps[0].Program), l, h200)
	require.True(t, ok)
	l.Record.Stop()
	before := slices.Clone(arrays[2])
	require.NoError(t, play(t, plan.Steps[0].Program, l, f))
	require.ErrorIs(t, l.Record.Outcome(), backends.ErrCancelled)
	require.Equal(t, before, arrays[2])
}
