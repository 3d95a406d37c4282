package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Operations on shapes and strides give what they give on packed copies: the
// order looks at sizes alone.

// layout makes strides for a shape: dimensions in any order in memory, with gaps
// or without.
func layout(r *rand.Rand, t isa.Type, gaps bool, shape ...int64) kernels.Layout {
	l := kernels.Layout{Type: t, Shape: shape, Stride: make([]int64, len(shape))}
	order := r.Perm(len(shape))
	stride := int64(1)
	for _, i := range order {
		if gaps {
			stride *= 1 + r.Int64N(3)
		}
		if l.Stride[i] = stride; gaps && r.IntN(3) == 0 {
			l.Stride[i] = -stride
		}
		stride *= max(1, shape[i])
	}
	return l
}

// first is where the first element is in the memory of a layout, which goes backwards from it
// as well.
func first(l *kernels.Layout) (at int64) {
	for i, d := range l.Shape {
		at -= min(0, l.Stride[i]) * max(0, d-1)
	}
	return at
}

// places are where the elements of a layout are in memory, in row-major order.
func places(l *kernels.Layout) []int64 {
	at := []int64{first(l)}
	for i, d := range l.Shape {
		next := make([]int64, 0, len(at)*int(d))
		for _, a := range at {
			for k := range d {
				next = append(next, a+k*l.Stride[i])
			}
		}
		at = next
	}
	return at
}

// strided is an operand in memory, with its elements, in row-major order, as
// cells and as numbers.
type strided struct {
	kernels.Layout
	memory, cells []uint64
	values        []value
}

func draw(r *rand.Rand, l kernels.Layout) *strided {
	s := &strided{Layout: l}
	at := places(&l)
	s.memory = make([]uint64, slices.Max(append(at, 0))+1)
	for i := range s.memory {
		if l.Type.Float() {
			c, _ := random(r, l.Type, 1, false)
			s.memory[i] = c[0]
		} else {
			s.memory[i] = r.Uint64() & l.Type.Mask()
		}
	}
	for _, a := range at {
		s.cells = append(s.cells, s.memory[a])
		if l.Type.Float() {
			s.values = append(s.values, number(l.Type, s.memory[a]))
		}
	}
	return s
}

// shaped runs an operation on operands with shapes, and returns their memory as it is then.
// What is not the result's is as it was.
func shaped(t *testing.T, op *kernels.Op, axes int, operands []*strided, scalars ...uint64) [][]uint64 {
	t.Helper()
	var layouts []kernels.Layout
	var types []isa.Type
	var memory []operand
	for _, o := range operands {
		layouts, types = append(layouts, o.Layout), append(types, o.Type)
		memory = append(memory, operand{o.memory, first(&o.Layout)})
	}
	require.NoError(t, op.CheckTypes(types))
	plan, err := op.PlanShapes(layouts, axes)
	require.NoError(t, err)
	after := execute(t, plan, types, memory, scalars...)
	for i, o := range operands {
		written := map[int64]bool{}
		for _, at := range places(&o.Layout) {
			written[at] = op.Operands[i].Writes
		}
		for at, c := range after[i] {
			if !written[int64(at)] && c != o.memory[at] {
				require.Failf(t, "memory that is not the result's was written", "%s, operand %d, element %d of its memory", op.Name, i, at)
			}
		}
	}
	return after
}

// on is shaped, and returns the elements of the last operand.
func on(t *testing.T, op *kernels.Op, axes int, operands []*strided, scalars ...uint64) []uint64 {
	t.Helper()
	after := shaped(t, op, axes, operands, scalars...)
	last := operands[len(operands)-1]
	at := places(&last.Layout)
	got := make([]uint64, 0, len(at))
	for _, a := range at {
		got = append(got, after[len(after)-1][a])
	}
	return got
}

// rowsOfShapes are shapes, and how many of the last dimensions make a row: few
// and many rows, short and long, dimensions that merge and that don't.
var rowsOfShapes = []struct {
	shape []int64
	axes  int
}{
	{[]int64{3, 5}, 1}, {[]int64{70, 1}, 1}, {[]int64{70, 4}, 1}, {[]int64{300, 16}, 1}, {[]int64{65, 17}, 1}, {[]int64{64, 33}, 1}, {[]int64{5, 13, 100}, 1},
	{[]int64{66, 300}, 1}, {[]int64{4, 20, 3}, 2}, {[]int64{70, 3, 2}, 2}, {[]int64{2, 3, 4, 5}, 2}, {[]int64{9, 8, 4}, 1}, {[]int64{40}, 1}, {[]int64{40}, 0},
	{[]int64{2, 9000}, 1}, {[]int64{64, 8200}, 1}, {[]int64{0, 3}, 1}, {[]int64{300, 2}, 0},
}

func TestReductionsOfShapes(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(6, 1))
	for i, c := range rowsOfShapes {
		for k, typ := range []isa.Type{isa.F32, isa.BF16, isa.I8, isa.F64} {
			if brief.Skips(i+k, 2) {
				continue
			}
			rows, lead := int64(1), len(c.shape)-c.axes
			for _, d := range c.shape[:lead] {
				rows *= d
			}
			cols := int64(1)
			for _, d := range c.shape[lead:] {
				cols *= d
			}
			large := rows*cols > 100_000
			for _, gaps := range []bool{false, true} {
				if large && (typ != isa.F32 || !gaps || brief.On()) || brief.On() && (!gaps || rows*cols > 10_000 && typ == isa.F64) {
					continue
				}
				in := draw(r, layout(r, typ, gaps, c.shape...))
				what := fmt.Sprintf("%v %v of strides %v, %d axes", typ, c.shape, in.Stride, c.axes)
				sum := typ
				if gaps && typ != isa.F64 {
					sum = map[isa.Type]isa.Type{isa.F32: isa.F64, isa.BF16: isa.F32, isa.I8: isa.I64}[typ]
				}
				total := on(t, kernels.ReduceSum, c.axes, []*strided{in, draw(r, layout(r, sum, gaps, c.shape[:lead]...))})
				if large {
					for i := range rows {
						requireCell(t, sum, arithmetic{sum}.sum(in.values[i*cols:(i+1)*cols]), total[i], "sum of %s, row %d", what, i)
					}
					continue
				}
				most := on(t, kernels.ReduceMax, c.axes, []*strided{in, draw(r, layout(r, typ, gaps, c.shape[:lead]...))})
				where := on(t, kernels.Argmin, c.axes, []*strided{in, draw(r, layout(r, isa.I64, gaps, c.shape[:lead]...))})
				for i := range int(rows) {
					row := in.cells[i*int(cols) : (i+1)*int(cols)]
					if typ == isa.I8 {
						want, high, low := int64(0), int8(math.MinInt8), 0
						for k, c := range row {
							want += int64(int8(c))
							high = max(high, int8(c))
							if int8(c) < int8(row[low]) {
								low = k
							}
						}
						require.Equal(t, uint64(want)&sum.Mask(), total[i], "sum of %s", what)
						require.Equal(t, uint64(high)&0xff, most[i], "max of %s", what)
						require.EqualValues(t, low, where[i], "argmin of %s", what)
						continue
					}
					v := in.values[i*int(cols) : (i+1)*int(cols)]
					requireCell(t, sum, arithmetic{kernels.Accumulator(sum)}.sum(v), total[i], "sum of %s, row %d", what, i)
					requireCell(t, typ, slices.Max(v), most[i], "max of %s, row %d", what, i)
					require.EqualValues(t, slices.Index(v, slices.Min(v)), where[i], "argmin of %s, row %d", what, i)
				}
			}
		}
	}
}

// Rows that lie across memory, as many as a lane each pays for, and so long that their
// sums go through several chunks: one row beside the other, with a gap between their
// elements, and below each other.
func TestSumsOfManyLongRows(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(27, 1))
	const cols = kernels.ChunkElements + 300
	for _, l := range []kernels.Layout{
		{Type: isa.F32, Shape: []int64{64, cols}, Stride: []int64{1, 64}},
		{Type: isa.F32, Shape: []int64{2, 33, cols}, Stride: []int64{40 * cols, 1, 40}},
	} {
		in, lead := draw(r, l), len(l.Shape)-1
		total := on(t, kernels.ReduceSum, 1, []*strided{in, draw(r, kernels.Packed(isa.F32, l.Shape[:lead]...))})
		for i := range total {
			requireCell(t, isa.F32, arithmetic{isa.F32}.sum(in.values[i*cols:(i+1)*cols]), total[i], "row %d of %v, strides %v", i, l.Shape, l.Stride)
		}
	}
}

// Of NaNs and of equal elements the first is found, −0 and +0 being equal.
func TestPlaces(t *testing.T) {
	nan, minus := math.NaN(), math.Copysign(0, -1)
	for _, c := range []struct {
		row       []value
		low, high int
	}{
		{[]value{1, 3, 3, 1}, 0, 1}, {[]value{1, nan, 5, nan}, 1, 1}, {[]value{0, minus}, 0, 0}, {[]value{minus, 0, -1}, 2, 0},
		{[]value{math.Inf(1), math.Inf(1)}, 0, 0}, {[]value{math.Inf(-1), 2, math.Inf(-1)}, 0, 1},
	} {
		for _, typ := range floats {
			for _, rows := range []int{1, 100} {
				in := &strided{Layout: kernels.Packed(typ, int64(rows), int64(len(c.row)))}
				for range rows {
					for _, v := range c.row {
						in.memory = append(in.memory, cell(typ, v))
					}
				}
				for op, want := range map[*kernels.Op]int{kernels.Argmin: c.low, kernels.Argmax: c.high} {
					got := on(t, op, 1, []*strided{in, {Layout: kernels.Packed(isa.I64, int64(rows)), memory: make([]uint64, rows)}})
					for _, at := range got {
						require.EqualValues(t, want, at, "%s of %v in %v", op.Name, c.row, typ)
					}
				}
			}
		}
	}
}

func TestSoftmaxOfShapes(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(6, 2))
	for _, c := range rowsOfShapes {
		lead := len(c.shape) - c.axes
		rows := kernels.Layout{Shape: c.shape[:lead]}
		row := kernels.Layout{Shape: c.shape[lead:]}
		n := int(row.Elements())
		if rows.Elements()*row.Elements() > 100_000 {
			continue
		}
		for _, gaps := range []bool{false, true} {
			if brief.On() && !gaps {
				continue
			}
			in := draw(r, layout(r, isa.F32, gaps, c.shape...))
			got := on(t, kernels.Softmax, c.axes, []*strided{in, draw(r, layout(r, isa.F32, gaps, c.shape...))})
			want := call(t, kernels.Softmax, isa.F32, []int64{1, int64(n)}, [][]uint64{in.cells[:min(n, len(in.cells))], make([]uint64, n)})[1]
			if rows.Elements() > 0 {
				require.Equal(t, want, got[:n], "softmax of %v, strides %v", c.shape, in.Stride)
			}
			packed := kernels.Packed(isa.F32, c.shape...)
			same := on(t, kernels.Softmax, c.axes, []*strided{{Layout: packed, memory: in.cells}, {Layout: packed, memory: make([]uint64, len(in.cells))}})
			require.Equal(t, same, got, "softmax of %v, strides %v", c.shape, in.Stride)
		}
	}
}

func TestLossesOfShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	pred, target := draw(r, layout(r, isa.F32, true, 3, 100, 2)), draw(r, layout(r, isa.F32, true, 3, 100, 2))
	out := &strided{Layout: kernels.Packed(isa.F32), memory: make([]uint64, 1)}
	out.Shape, out.Stride = []int64{1}, []int64{1}
	got := on(t, kernels.MSELoss, 0, []*strided{pred, target, out})
	want := call(t, kernels.MSELoss, isa.F32, []int64{600}, [][]uint64{pred.cells, target.cells, {0}})[2]
	require.Equal(t, want, got)
}

func TestProductsOfShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	ar := arithmetic{isa.F32}
	for _, c := range []struct{ a, b, stack []int64 }{
		{nil, nil, nil}, {[]int64{3}, []int64{3}, []int64{3}}, {[]int64{4}, nil, []int64{4}}, {nil, []int64{2}, []int64{2}},
		{[]int64{2, 1}, []int64{3}, []int64{2, 3}}, {[]int64{2, 3}, []int64{2, 3}, []int64{2, 3}}, {[]int64{0}, []int64{1}, []int64{0}},
	} {
		for _, size := range [][3]int64{{3, 4, 5}, {1, 7, 600}, {2, 1, 3}, {2, 2, 0}} {
			m, n, k := size[0], size[1], size[2]
			gaps := r.IntN(2) == 0
			a := draw(r, layout(r, isa.F32, gaps, slices.Concat(c.a, []int64{m, k})...))
			b := draw(r, layout(r, isa.F32, gaps, slices.Concat(c.b, []int64{k, n})...))
			out := draw(r, layout(r, isa.F32, gaps, slices.Concat(c.stack, []int64{m, n})...))
			old := out.values
			got := on(t, kernels.Gemm, 0, []*strided{a, b, out}, cell(isa.F32, 0.5), cell(isa.F32, 2))
			var vector []uint64
			if n == 1 {
				column := func(s *strided) *strided { // without the dimension of size 1
					v := *s
					v.Shape, v.Stride = s.Shape[:len(s.Shape)-1], s.Stride[:len(s.Stride)-1]
					return &v
				}
				vector = on(t, kernels.Matvec, 0, []*strided{a, column(b), column(out)}, cell(isa.F32, 0.5), cell(isa.F32, 2))
				require.Equal(t, got, vector)
			}
			stack := kernels.Packed(isa.F32, c.stack...)
			for q, index := range places(&stack) {
				// The place of matrix q in a stack that broadcasts.
				of := func(shape []int64) int64 {
					at, step, rest := int64(0), int64(1), index
					for i := len(c.stack) - 1; i >= 0; i-- {
						here := rest % c.stack[i]
						rest /= c.stack[i]
						if j := i - len(c.stack) + len(shape); j >= 0 && shape[j] > 1 {
							at += here * step
							step *= shape[j]
						}
					}
					return at
				}
				av, bv := a.values[of(c.a)*m*k:], b.values[of(c.b)*k*n:]
				for i := range m {
					for j := range n {
						row, col := make([]value, k), make([]value, k)
						for p := range k {
							row[p], col[p] = av[i*k+p], bv[p*n+j]
						}
						at := (int64(q)*m+i)*n + j
						want := ar.fma(2, old[at], ar.mul(0.5, ar.product(row, col)))
						requireCell(t, isa.F32, want, got[at], "%v · %v in stacks %v, %v: matrix %d [%d, %d]", a.Shape, b.Shape, c.a, c.b, q, i, j)
					}
				}
			}
		}
	}
}

// What has strides that go backwards is packed first, by a program that follows
// them.
func TestBackwards(t *testing.T) {
	l := kernels.Layout{Type: isa.F32, Shape: []int64{2, 3}, Stride: []int64{3, -1}}
	plan, err := kernels.ReduceSum.PlanShapes([]kernels.Layout{l, kernels.Packed(isa.F32, 2)}, 1)
	require.NoError(t, err)
	require.Equal(t, kernels.Copy.Name, plan.Steps[0].Program.Program.Name)
	require.Equal(t, l.Stride, plan.Steps[0].Slots[0].Stride)
}

func TestShapesAreRefused(t *testing.T) {
	f := func(shape ...int64) kernels.Layout { return kernels.Packed(isa.F32, shape...) }
	for _, c := range []struct {
		op   *kernels.Op
		l    []kernels.Layout
		axes int
		want string
	}{
		{kernels.ReduceSum, []kernels.Layout{f(3, 4), f(4)}, 1, "output has shape (4,); the result has (3,)"},
		{kernels.ReduceSum, []kernels.Layout{f(3, 4), f(3)}, 3, "3 dimensions of input, which has 2"},
		{kernels.ReduceMax, []kernels.Layout{f(3, 0), f(3)}, 1, "no elements"},
		{kernels.Softmax, []kernels.Layout{f(3, 4), f(12)}, 1, "input has shape (3, 4), and output has (12,)"},
		{kernels.MSELoss, []kernels.Layout{f(3), f(4), f(1)}, 0, "pred has shape (3,), and target has (4,)"},
		{kernels.MSELoss, []kernels.Layout{f(3), f(3), f(2)}, 0, "the result is one number"},
		{kernels.Gemm, []kernels.Layout{f(3, 4), f(5, 6), f(3, 6)}, 0, "there is no product of (3, 4) and (5, 6): the first has 4 in its last dimension, and meets 5 of the second"},
		{kernels.Gemm, []kernels.Layout{f(3, 4), f(4), f(4)}, 0, "c has shape (4,); the result has (3,)"},
		{kernels.Gemm, []kernels.Layout{f(3, 4), f(4), f(3, 1)}, 0, "c has shape (3, 1); the result has (3,)"},
		{kernels.Gemm, []kernels.Layout{f(4), f(2, 4, 5), f(5)}, 0, "c has shape (5,); the result has (2, 5)"},
		{kernels.Gemm, []kernels.Layout{f(4), f(4), f(2)}, 0, "c has shape (2,); the result has ()"},
		{kernels.Gemm, []kernels.Layout{f(4), f(4), f(1, 1)}, 0, "c has shape (1, 1); the result has ()"},
		{kernels.Gemm, []kernels.Layout{f(4), f(3), f(1)}, 0, "there is no product of (4,) and (3,)"},
		{kernels.Gemm, []kernels.Layout{f(4), f(3, 4), f(3)}, 0, "there is no product of (4,) and (3, 4)"},
		{kernels.Gemm, []kernels.Layout{f(), f(3, 4), f(4)}, 0, "a has shape (); expected a vector"},
		{kernels.Gemm, []kernels.Layout{f(3, 4), f(4, 5), f(15)}, 0, "c has shape (15,); expected a matrix"},
		{kernels.Gemm, []kernels.Layout{f(2, 3, 4), f(3, 4, 5), f(2, 3, 5)}, 0, "(2,) and (3,) do not broadcast"},
		{kernels.Gemm, []kernels.Layout{f(2, 3, 4), f(4, 5), f(3, 5)}, 0, "the result is a stack of shape (2,)"},
		{kernels.Matvec, []kernels.Layout{f(4), f(4), f(1)}, 0, "a has shape (4,); expected 2 dimensions"},
		{kernels.Matvec, []kernels.Layout{f(2, 3), f(2), f(2)}, 0, "there is no product of (2, 3) and (2,)"},
		{kernels.Matvec, []kernels.Layout{f(2, 3), f(3), f(4)}, 0, "a product of (2, 3) and (3,) is no (4,)"},
		{kernels.Matvec, []kernels.Layout{f(2, 3), f(3, 1), f(3, 2)}, 0, "there is no product of (2, 3) and (3, 1)"},
		{kernels.Matvec, []kernels.Layout{f(5, 2, 3), f(4, 3), f(4, 2)}, 0, "stacks of shapes (5,) and (4,) do not broadcast"},
	} {
		_, err := c.op.PlanShapes(c.l, c.axes)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.op.Name+": ") && !strings.HasPrefix(err.Error(), c.op.Name+" ") {
			t.Errorf("%s: %v, want one with %q", c.op.Name, err, c.want)
		}
	}
	for _, c := range []struct {
		op    *kernels.Op
		types []isa.Type
		want  string
	}{
		{kernels.ReduceSum, []isa.Type{isa.I32, isa.I16}, "the same or a wider one"},
		{kernels.ReduceSum, []isa.Type{isa.F32, isa.I64}, "the same or a wider one"},
		{kernels.ReduceSum, []isa.Type{isa.I32, isa.U64}, ""},
		{kernels.ReduceMax, []isa.Type{isa.F32, isa.F64}, "all operands must have the same"},
		{kernels.Argmax, []isa.Type{isa.F32, isa.F32}, "output has dtype f32; expected i64"},
		{kernels.Argmax, []isa.Type{isa.U8, isa.I64}, ""},
		{kernels.Gemm, []isa.Type{isa.I8, isa.I8, isa.I32}, ""},
		{kernels.Gemm, []isa.Type{isa.I8, isa.I32, isa.I32}, "gemm: b has dtype i32, and a has i8: all operands must have the same"},
		{kernels.Gemm, []isa.Type{isa.I8, isa.I8, isa.F32}, "gemm: c has dtype f32, and a has i8: of integers a product's type is the same or a wider one"},
		{kernels.Matvec, []isa.Type{isa.F32, isa.F32, isa.F64}, "matvec: y has dtype f64, and a has f32: all operands must have the same"},
	} {
		err := c.op.CheckTypes(c.types)
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// TestWholeProductsHaveNoParts compares the plans for devices that few lanes keep
// busy with the others.
func TestWholeProductsHaveNoParts(t *testing.T) {
	l := []kernels.Layout{kernels.Packed(isa.F32, 4, 2000), kernels.Packed(isa.F32, 2000, 5), kernels.Packed(isa.F32, 4, 5)}
	parts, err := kernels.Gemm.PlanShapes(l, -1)
	require.NoError(t, err)
	require.Len(t, parts.Steps, 2)
	whole, err := kernels.Gemm.Whole(l)
	require.NoError(t, err)
	require.Len(t, whole.Steps, 1)
	require.Zero(t, whole.Workspace)
	require.Equal(t, &kernels.Product{T: isa.F32, Acc: isa.F32, Out: isa.F32, Scaled: true, Most: 512 * 512}, kernels.ProductOf(whole.Steps[0].Program))
	require.Equal(t, &kernels.Product{T: isa.F32, Acc: isa.F32, Out: isa.F32, Split: true, Most: 512}, kernels.ProductOf(parts.Steps[0].Program))
	require.Nil(t, kernels.ProductOf(parts.Steps[1].Program))

	none, err := kernels.Softmax.Whole(l[:2])
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = kernels.Matvec.Whole(l)
	require.ErrorContains(t, err, "matvec")
	l[0].Shape = []int64{1 << 32, 1}
	_, err = kernels.Gemm.Whole(l)
	require.ErrorContains(t, err, "at most 2^31")
}
