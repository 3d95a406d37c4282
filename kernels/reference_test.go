package kernels_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// The operations that add up have one value for each input, bit for bit. Here
// it is computed anew from docs/REDUCTIONS.md: in Go's own float32 and float64,
// with an FMA that rounds once, and EXP and LOG as the ISA has them.

// value is a number of a type, or an integer; -0 and NaN included.
type value = float64

// cell and number convert between values and cells of type t.
func cell(t isa.Type, v value) uint64 {
	switch t {
	case isa.F64:
		return math.Float64bits(v)
	case isa.F32:
		return uint64(math.Float32bits(float32(v)))
	}
	return convert(t, isa.F32, uint64(math.Float32bits(float32(v))))
}

func number(t isa.Type, c uint64) value {
	switch t {
	case isa.F64:
		return math.Float64frombits(c)
	case isa.F32:
		return value(math.Float32frombits(uint32(c)))
	}
	return value(math.Float32frombits(uint32(convert(isa.F32, t, c))))
}

func convert(to, from isa.Type, c uint64) uint64 {
	row, _ := isa.Lookup(isa.CVT)
	r, _ := row.Eval(isa.Form{Type: to, From: from}, c, 0, 0)
	return r
}

// arithmetic in type t, f32 or f64.
type arithmetic struct{ isa.Type }

func (t arithmetic) round(v value) value {
	if t.Type == isa.F32 {
		return value(float32(v))
	}
	return v
}

// Sums, products and quotients of two float32 are rounded twice to no harm by
// way of float64.
func (t arithmetic) add(a, b value) value { return t.round(a + b) }
func (t arithmetic) sub(a, b value) value { return t.round(a - b) }
func (t arithmetic) mul(a, b value) value { return t.round(a * b) }
func (t arithmetic) div(a, b value) value { return t.round(a / b) }

func (t arithmetic) fma(a, b, c value) value {
	if t.Type == isa.F64 {
		return math.FMA(a, b, c)
	}
	p := a * b // exact, or not finite
	if math.IsInf(p, 0) || p != p || math.IsInf(c, 0) || c != c || p == 0 || c == 0 || p == -c {
		return value(float32(p + c))
	}
	exact := new(big.Float).SetPrec(2000).SetFloat64(p)
	exact.Add(exact, new(big.Float).SetFloat64(c))
	r, _ := exact.Float32()
	return value(r)
}

// sum adds a row up.
func (t arithmetic) sum(x []value) value {
	if len(x) == 0 {
		return 0
	}
	var results []value
	for len(x) > 0 {
		chunk := x[:min(len(x), 8192)]
		x = x[len(chunk):]
		var s [256]value
		for i := range s {
			s[i] = math.Copysign(0, -1)
		}
		for i, v := range chunk {
			s[i%256] = t.add(s[i%256], v)
		}
		for w := 128; w > 0; w /= 2 {
			for q := range w {
				s[q] = t.add(s[q], s[q+w])
			}
		}
		results = append(results, s[0])
	}
	if len(results) == 1 {
		return results[0]
	}
	return t.sum(results)
}

// product is one element of a matrix product.
func (t arithmetic) product(a, b []value) value {
	var results []value
	for at := 0; at == 0 || at < len(a); at += 512 {
		acc := value(0)
		for i := at; i < min(at+512, len(a)); i++ {
			acc = t.fma(a[i], b[i], acc)
		}
		results = append(results, acc)
	}
	for len(results) > 1 {
		var sums []value
		for at := 0; at < len(results); at += 512 {
			acc := results[at]
			for _, v := range results[at+1 : min(at+512, len(results))] {
				acc = t.add(acc, v)
			}
			sums = append(sums, acc)
		}
		results = sums
	}
	return results[0]
}

// call runs an operation on the interpreter. operands hold cells of type t; it
// returns them as they are afterwards.
func call(t *testing.T, op *kernels.Op, typ isa.Type, dims []int64, operands [][]uint64, scalars ...uint64) [][]uint64 {
	t.Helper()
	var p *kernels.Plan
	if op.Elementwise {
		v, err := op.Program(typ)
		require.NoError(t, err)
		s := kernels.Step{Program: v, Shape: []int64{int64(len(operands[0]))}}
		for i := range operands {
			s.Slots = append(s.Slots, kernels.Binding{Operand: i, Type: typ})
		}
		p = &kernels.Plan{Steps: []kernels.Step{s}}
	} else {
		var err error
		p, err = op.Plan(typ, dims)
		require.NoError(t, err)
	}
	return execute(t, p, []isa.Type{typ}, flat(operands), scalars...)
}

// operand is memory, as cells, and which of them is the first element: others may lie before it.
type operand struct {
	cells []uint64
	first int64
}

// flat are operands that begin with their first element.
func flat(cells [][]uint64) (operands []operand) {
	for _, c := range cells {
		operands = append(operands, operand{cells: c})
	}
	return operands
}

// execute runs a plan on the interpreter. operands hold cells of the types, of
// which the last is that of all that follow.
func execute(t *testing.T, p *kernels.Plan, types []isa.Type, operands []operand, scalars ...uint64) [][]uint64 {
	t.Helper()
	sizeOf := func(i int) int { return types[min(i, len(types)-1)].Size() }
	d, err := interp.New().Open(0)
	require.NoError(t, err)
	stream, err := d.NewStream()
	require.NoError(t, err)
	alloc := func(bytes int64) backends.Memory {
		m, err := d.Alloc(max(bytes, 1))
		require.NoError(t, err)
		return m
	}
	memory := make([]backends.Memory, len(operands))
	begins := slices.Clone(memory)
	for i, o := range operands {
		size := sizeOf(i)
		memory[i] = alloc(int64(len(o.cells) * size))
		begins[i].Addr = memory[i].Addr + uintptr(o.first*int64(size))
		b := hostmem.Bytes(memory[i].Addr, memory[i].Bytes)
		for k, c := range o.cells {
			for j := range size {
				b[k*size+j] = byte(c >> (8 * j))
			}
		}
	}
	workspace := alloc(p.Workspace)
	for _, s := range p.Steps {
		k, err := d.Compile(&backends.Unit{Source: s.Program}, backends.Variant{})
		require.NoError(t, err)
		require.NoError(t, run(stream, k, &s, begins, workspace, operands, scalars))
		k.Release()
	}
	out := make([][]uint64, len(operands))
	for i, o := range operands {
		size := sizeOf(i)
		b := hostmem.Bytes(memory[i].Addr, memory[i].Bytes)
		for k := range o.cells {
			c := uint64(0)
			for j := range size {
				c |= uint64(b[k*size+j]) << (8 * j)
			}
			out[i] = append(out[i], c)
		}
		require.NoError(t, d.Free(memory[i]))
	}
	require.NoError(t, d.Free(workspace))
	return out
}

// run launches one step.
func run(stream backends.Stream, k backends.Kernel, s *kernels.Step, memory []backends.Memory, workspace backends.Memory, operands []operand, scalars []uint64) error {
	l := &backends.Launch{Grid: s.Grid, Block: s.Block, Rank: len(s.Shape), N: 1, Record: new(backends.Record)}
	copy(l.Shape[:], s.Shape)
	for _, n := range s.Shape {
		l.N *= uint64(n)
	}
	if l.Block[0] == 0 {
		l.Block = [3]uint32{256, 1, 1}
		l.Grid = [3]uint32{uint32(l.N+255) / 256, 1, 1}
	}
	for _, p := range s.Params {
		if p.Scalar {
			l.Params = append(l.Params, scalars[p.Value])
		} else {
			l.Params = append(l.Params, p.Value)
		}
	}
	for i, b := range s.Slots {
		m, elements := workspace, int64(0)
		if b.Operand != kernels.Workspace {
			m, elements = memory[b.Operand], int64(len(operands[b.Operand].cells))
		}
		v := backends.View{Addr: m.Addr + uintptr(b.Offset), Type: b.Type}
		shape, stride := b.Shape, b.Stride
		if shape == nil {
			shape, stride = []int64{elements}, []int64{1}
		}
		bytes := int64(1)
		for _, n := range shape {
			bytes *= n
		}
		if s.Program.Slots[i].Bytes {
			v.Bytes = bytes * int64(b.Type.Size())
		}
		v.Rank = len(shape)
		copy(v.Shape[:], shape)
		copy(v.Stride[:], stride)
		l.Slots = append(l.Slots, v)
	}
	if _, err := stream.Launch(k, l); err != nil {
		return err
	}
	return l.Record.Outcome()
}

// random values of type t: ordinary ones, some of very different size, a few
// special ones.
func random(r *rand.Rand, t isa.Type, n int, special bool) (cells []uint64, values []value) {
	for range n {
		v := r.NormFloat64()
		switch r.IntN(20) {
		case 0:
			v *= 0x1p-9
		case 1:
			v *= 0x1p+9
		case 2:
			v = value(r.IntN(5) - 2)
		case 3:
			if special {
				v = []value{math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-140, 0x1p-24}[r.IntN(7)]
			}
		}
		c := cell(t, v)
		cells, values = append(cells, c), append(values, number(t, c))
	}
	return cells, values
}

func requireCell(t *testing.T, typ isa.Type, want value, got uint64, what string, args ...any) {
	t.Helper()
	c := cell(typ, want)
	if want != want {
		require.True(t, number(typ, got) != number(typ, got), "%s: %#x, want NaN", fmt.Sprintf(what, args...), got)
		return
	}
	require.Equal(t, fmt.Sprintf("%#x", c), fmt.Sprintf("%#x", got), fmt.Sprintf(what, args...))
}

var floats = []isa.Type{isa.F16, isa.BF16, isa.F32, isa.F64}

// With beta = 0 C is not read: what stands there, NaN say, leaves no trace.
func TestProductsBitForBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, typ := range floats {
		ar := arithmetic{kernels.Accumulator(typ)}
		for _, dims := range [][3]int{{3, 4, 37}, {1, 5, 1}, {2, 2, 0}, {4, 1, 300}, {1, 300, 3}, {2, 1, 512}, {2, 3, 513}, {1, 2, 1025}} {
			for trans := range 4 {
				for i, scale := range [][2]value{{1, 0}, {1, 1}, {0.75, -1.25}, {0.1, 0}, {math.Copysign(0, -1), 0}, {1, math.Copysign(0, -1)}} {
					if brief.Skips(i+trans, 4) {
						continue
					}
					m, n, k := dims[0], dims[1], dims[2]
					special := r.IntN(3) == 0
					a, av := random(r, typ, m*k, special)
					b, bv := random(r, typ, k*n, special)
					c, cv := random(r, typ, m*n, special)
					if scale[1] == 0 {
						for i := range c {
							c[i] = cell(typ, math.NaN())
						}
					}
					alpha, beta := ar.round(scale[0]), ar.round(scale[1])
					transA, transB := trans&1, trans>>1
					got := call(t, kernels.Gemm, typ, []int64{int64(m), int64(n), int64(k), int64(transA), int64(transB)},
						[][]uint64{a, b, c}, cell(ar.Type, alpha), cell(ar.Type, beta))[2]
					column := n == 1 && transB == 0
					var y []uint64
					if column {
						y = call(t, kernels.Matvec, typ, []int64{int64(m), int64(k), int64(transA)},
							[][]uint64{a, b, c}, cell(ar.Type, alpha), cell(ar.Type, beta))[2]
					}
					for i := range m {
						for j := range n {
							row, col := make([]value, k), make([]value, k)
							for p := range k {
								row[p], col[p] = av[i*k+p], bv[p*n+j]
								if transA == 1 {
									row[p] = av[p*m+i]
								}
								if transB == 1 {
									col[p] = bv[j*k+p]
								}
							}
							want := ar.mul(alpha, ar.product(row, col))
							if beta != 0 {
								want = ar.fma(beta, cv[i*n+j], want)
							}
							requireCell(t, typ, want, got[i*n+j], "gemm %v %v, trans %d, %v: [%d, %d]", typ, dims, trans, scale, i, j)
							if column {
								requireCell(t, typ, want, y[i], "matvec %v %v, trans %d, %v: [%d]", typ, dims, trans, scale, i)
							}
						}
					}
				}
			}
		}
	}
}

// TestLongProducts goes over the borders of groups of chunks, with the lanes
// splitting k and not.
func TestLongProducts(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(2, 2))
	for _, few := range []int64{1 << 14, 0} {
		if brief.On() && few == 0 {
			continue
		}
		restore := kernels.SetFewLanes(few)
		for _, k := range []int{512 * 512, 512*512 + 1, 513*512 + 7} {
			for _, typ := range []isa.Type{isa.F32, isa.BF16, isa.I8} {
				if k != 513*512+7 && (typ != isa.F32 || brief.On()) {
					continue
				}
				a, av := random(r, typ, k, false)
				b, bv := random(r, typ, k, false)
				if typ == isa.I8 {
					sum := uint64(0)
					for i := range k {
						a[i], b[i] = r.Uint64()&0xff, r.Uint64()&0xff
						sum += a[i] * b[i]
					}
					got := call(t, kernels.Gemm, typ, []int64{1, 1, int64(k), 0, 0}, [][]uint64{a, b, {1}}, 3, 5)[2][0]
					require.Equal(t, (3*sum+5)&0xff, got)
					continue
				}
				ar := arithmetic{kernels.Accumulator(typ)}
				got := call(t, kernels.Gemm, typ, []int64{1, 1, int64(k), 0, 0}, [][]uint64{a, b, {cell(typ, 0.5)}},
					cell(ar.Type, 0.75), cell(ar.Type, 0.1))[2][0]
				want := ar.fma(ar.round(0.1), 0.5, ar.mul(0.75, ar.product(av, bv)))
				requireCell(t, typ, want, got, "%v, k = %d, few lanes: %d", typ, k, few)
			}
		}
		restore()
	}
}

// TestBatchesAgree holds that k alone decides an order: a row of a product is
// the same whatever stands beside it.
func TestBatchesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	defer kernels.SetFewLanes(100)()
	const n, k = 9, 700
	b, _ := random(r, isa.F32, n*k, false)
	a, _ := random(r, isa.F32, 30*k, false)
	one, zero := cell(isa.F32, 1), uint64(0)
	var first []uint64
	for _, m := range []int{1, 2, 30} { // the last doesn't split k
		c := call(t, kernels.Gemm, isa.F32, []int64{int64(m), n, k, 0, 0}, [][]uint64{a[:m*k], b, make([]uint64, m*n)}, one, zero)[2][:n]
		if first == nil {
			first = c
		}
		require.Equal(t, first, c, "m = %d", m)
	}
}

func TestIntegerProductsWrap(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	const m, n, k = 3, 4, 29
	for _, typ := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64, isa.U64} {
		draw := func(n int) (c []uint64) {
			for range n {
				c = append(c, r.Uint64()&typ.Mask())
			}
			return c
		}
		a, b, c := draw(m*k), draw(k*n), draw(m*n)
		alpha, beta := r.Uint64()&typ.Mask(), r.Uint64()&typ.Mask()|1
		got := call(t, kernels.Gemm, typ, []int64{m, n, k, 0, 0}, [][]uint64{a, b, c}, alpha, beta)[2]
		for i := range m {
			for j := range n {
				acc := uint64(0)
				for p := range k {
					acc += a[i*k+p] * b[p*n+j]
				}
				require.Equal(t, (alpha*acc+beta*c[i*n+j])&typ.Mask(), got[i*n+j], "%v [%d, %d]", typ, i, j)
			}
		}
	}
}

// lengths go over the borders of rows of partials and of chunks.
var lengths = []int{1, 2, 255, 256, 257, 5000, 8191, 8192, 8193, 20000}

func TestSumsBitForBit(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(3, 1))
	for _, typ := range floats {
		ar := arithmetic{kernels.Accumulator(typ)}
		for _, n := range lengths {
			const rows = 2
			x, v := random(r, typ, rows*n, n == 257)
			got := call(t, kernels.ReduceSum, typ, []int64{rows, int64(n)}, [][]uint64{x, make([]uint64, rows)})[1]
			for i := range rows {
				requireCell(t, typ, ar.sum(v[i*n:(i+1)*n]), got[i], "sum of %d %v, row %d", n, typ, i)
			}
		}
		// A sum of −0 is −0, of any number of them; of nothing it is +0.
		for _, n := range []int{0, 1, 100, 256, 300, 8193} {
			x := make([]uint64, n)
			for i := range x {
				x[i] = cell(typ, math.Copysign(0, -1))
			}
			want := math.Copysign(0, -1)
			if n == 0 {
				want = 0
			}
			got := call(t, kernels.ReduceSum, typ, []int64{1, int64(n)}, [][]uint64{x, {cell(typ, 7)}})[1]
			requireCell(t, typ, want, got[0], "sum of %d times -0 in %v", n, typ)
		}
	}
}

func TestSoftmaxBitForBit(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(4, 1))
	for _, typ := range floats {
		ar := arithmetic{kernels.Accumulator(typ)}
		for _, n := range []int{1, 3, 256, 300, 8200} {
			const rows = 2
			x, v := random(r, typ, rows*n, false)
			got := call(t, kernels.Softmax, typ, []int64{rows, int64(n)}, [][]uint64{x, make([]uint64, rows*n)})[1]
			for i := range rows {
				row := v[i*n : (i+1)*n]
				most := math.Inf(-1)
				for _, y := range row {
					most = max(most, y)
				}
				e := make([]value, n)
				for j, y := range row {
					e[j] = ar.sub(y, most)
				}
				e = function(t, ar, kernels.VectorExp, e)
				s := ar.sum(e)
				for j := range row {
					requireCell(t, typ, ar.div(e[j], s), got[i*n+j], "softmax of %d %v: [%d, %d]", n, typ, i, j)
				}
			}
		}
	}
}

// function applies an elementwise operation in ar's type, bit for bit the ISA's.
func function(t *testing.T, ar arithmetic, op *kernels.Op, x []value) []value {
	cells := make([]uint64, len(x))
	for i, v := range x {
		cells[i] = cell(ar.Type, v)
	}
	out := call(t, op, ar.Type, nil, [][]uint64{cells, make([]uint64, len(x))})[1]
	y := make([]value, len(x))
	for i, c := range out {
		y[i] = number(ar.Type, c)
	}
	return y
}

// log1p is not an operation of the library.
var log1p = kernels.Elementwise("log1p", isa.SetFloat, "", `
slot x {{.T}}
slot y {{.T}}
  ldg.{{.T}} x, x[index]
  log1p.{{.T}} x, x
  stg.{{.T}} x, y[index]
  exit
`)

func TestLossesBitForBit(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(5, 1))
	for _, typ := range floats {
		ar := arithmetic{kernels.Accumulator(typ)}
		for _, n := range []int{1, 2, 256, 300, 8193} {
			var pred, target []uint64
			var p, q []value
			for range n {
				x, y := 0.05+0.9*r.Float64(), 0.05+0.9*r.Float64()
				// A saturated prediction is not held against a target of weight 0.
				switch r.IntN(10) {
				case 0:
					x, y = 0, 0
				case 1:
					x, y = 1, 1
				case 2:
					y = math.Copysign(0, -1)
				}
				c, d := cell(typ, x), cell(typ, y)
				pred, target = append(pred, c), append(target, d)
				p, q = append(p, number(typ, c)), append(q, number(typ, d))
			}
			squares, entropy, binary := make([]value, n), make([]value, n), make([]value, n)
			logs, rest := function(t, ar, kernels.VectorLog, p), make([]value, n)
			for i := range n {
				rest[i] = -p[i]
			}
			rest = function(t, ar, log1p, rest)
			weigh := func(w, x value) value {
				if w == 0 {
					return w
				}
				return ar.mul(w, x)
			}
			for i := range n {
				d := ar.sub(p[i], q[i])
				squares[i] = ar.mul(d, d)
				entropy[i] = weigh(q[i], logs[i])
				binary[i] = ar.add(entropy[i], weigh(ar.sub(1, q[i]), rest[i]))
			}
			count := ar.round(value(n))
			loss := func(op *kernels.Op) uint64 {
				return call(t, op, typ, []int64{int64(n)}, [][]uint64{pred, target, {0}})[2][0]
			}
			requireCell(t, typ, ar.div(ar.sum(squares), count), loss(kernels.MSELoss), "mse_loss of %d %v", n, typ)
			requireCell(t, typ, -ar.div(ar.sum(entropy), count), loss(kernels.CrossEntropyLoss), "cross_entropy_loss of %d %v", n, typ)
			requireCell(t, typ, -ar.div(ar.sum(binary), count), loss(kernels.BinaryCrossEntropyLoss), "binary_cross_entropy_loss of %d %v", n, typ)
		}
	}
}
