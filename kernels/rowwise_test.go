package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

var rsqrt = kernels.Elementwise("rsqrt", isa.SetFloat, "", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  rsqrt.{{.T}} x, x
  stg.{{.T}} x, c[index]
  exit
`)

// rowReference computes what an operation makes of one row, as its documentation
// says: x has a row of each operand that is read.
type rowReference func(t *testing.T, ar arithmetic, x [][]value, eps value) [][]value

func each(n int, f func(i int) value) []value {
	out := make([]value, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func (t arithmetic) meanOf(n int, f func(i int) value) value {
	return t.div(t.sum(each(n, f)), value(n))
}

var rowReferences map[*kernels.Op]rowReference

func init() { // which refers to itself
	rowReferences = map[*kernels.Op]rowReference{
		kernels.LogSoftmax: func(t *testing.T, ar arithmetic, x [][]value, _ value) [][]value {
			if len(x[0]) == 0 {
				return [][]value{{}}
			}
			most := slices.Max(x[0])
			powers := function(t, ar, kernels.VectorExp, each(len(x[0]), func(i int) value { return ar.sub(x[0][i], most) }))
			log := function(t, ar, kernels.VectorLog, []value{ar.sum(powers)})[0]
			return [][]value{each(len(x[0]), func(i int) value { return ar.sub(ar.sub(x[0][i], most), log) })}
		},
		kernels.LogSumExp: func(t *testing.T, ar arithmetic, x [][]value, _ value) [][]value {
			most := value(math.Inf(-1))
			for _, v := range x[0] {
				most = max(most, v)
			}
			powers := function(t, ar, kernels.VectorExp, each(len(x[0]), func(i int) value { return ar.sub(x[0][i], most) }))
			return [][]value{{most}, function(t, ar, kernels.VectorLog, []value{ar.sum(powers)})}
		},
		kernels.LogSoftmaxGradient: func(t *testing.T, ar arithmetic, x [][]value, _ value) [][]value {
			g, powers, total := x[0], function(t, ar, kernels.VectorExp, x[1]), ar.sum(x[0])
			return [][]value{each(len(g), func(i int) value { return ar.sub(g[i], ar.mul(powers[i], total)) })}
		},
		kernels.SoftmaxGradient: func(_ *testing.T, ar arithmetic, x [][]value, _ value) [][]value {
			g, y := x[0], x[1]
			total := ar.sum(each(len(g), func(i int) value { return ar.mul(g[i], y[i]) }))
			return [][]value{each(len(g), func(i int) value { return ar.mul(ar.sub(g[i], total), y[i]) })}
		},
		kernels.LayerNorm: func(t *testing.T, ar arithmetic, x [][]value, eps value) [][]value {
			in, w, b := x[0], x[1], x[2]
			mean := ar.meanOf(len(in), func(i int) value { return in[i] })
			variance := ar.meanOf(len(in), func(i int) value { return ar.mul(ar.sub(in[i], mean), ar.sub(in[i], mean)) })
			scale := function(t, ar, rsqrt, []value{ar.add(variance, eps)})[0]
			return [][]value{{mean}, {variance}, each(len(in), func(i int) value {
				return ar.add(ar.mul(ar.mul(ar.sub(in[i], mean), scale), w[i]), b[i])
			})}
		},
		kernels.LayerNormGradient: func(t *testing.T, ar arithmetic, x [][]value, eps value) [][]value {
			g, in, w, mean, variance := x[0], x[1], x[2], x[3][0], x[4][0]
			scale := function(t, ar, rsqrt, []value{ar.add(variance, eps)})[0]
			shift := ar.meanOf(len(g), func(i int) value { return ar.mul(g[i], w[i]) })
			slope := ar.meanOf(len(g), func(i int) value { return ar.mul(ar.mul(g[i], w[i]), ar.sub(in[i], mean)) })
			pull := ar.mul(ar.mul(scale, scale), slope)
			return [][]value{
				each(len(g), func(i int) value { return ar.mul(g[i], ar.mul(ar.sub(in[i], mean), scale)) }),
				each(len(g), func(i int) value {
					return ar.mul(ar.sub(ar.sub(ar.mul(g[i], w[i]), shift), ar.mul(ar.sub(in[i], mean), pull)), scale)
				}),
			}
		},
		kernels.LayerNormInputGradient: func(t *testing.T, ar arithmetic, x [][]value, eps value) [][]value {
			return rowReferences[kernels.LayerNormGradient](t, ar, x, eps)[1:]
		},
		kernels.LayerNormParameterGradients: func(_ *testing.T, ar arithmetic, x [][]value, _ value) [][]value {
			g, in, mean, scale := x[0], x[1], x[2], x[3]
			return [][]value{
				{ar.sum(each(len(g), func(i int) value { return ar.mul(g[i], ar.mul(ar.sub(in[i], mean[i]), scale[i])) }))},
				{ar.sum(g)},
			}
		},
		kernels.RMSNorm: func(t *testing.T, ar arithmetic, x [][]value, eps value) [][]value {
			in, w := x[0], x[1]
			squares := ar.meanOf(len(in), func(i int) value { return ar.mul(in[i], in[i]) })
			scale := function(t, ar, rsqrt, []value{ar.add(squares, eps)})[0]
			return [][]value{{squares}, each(len(in), func(i int) value { return ar.mul(ar.mul(in[i], scale), w[i]) })}
		},
		kernels.RMSNormGradient: func(t *testing.T, ar arithmetic, x [][]value, eps value) [][]value {
			g, in, w := x[0], x[1], x[2]
			scale := function(t, ar, rsqrt, []value{ar.add(x[3][0], eps)})[0]
			slope := ar.meanOf(len(g), func(i int) value { return ar.mul(ar.mul(g[i], w[i]), in[i]) })
			pull := ar.mul(ar.mul(scale, scale), slope)
			return [][]value{
				each(len(g), func(i int) value { return ar.mul(g[i], ar.mul(in[i], scale)) }),
				each(len(g), func(i int) value { return ar.mul(ar.sub(ar.mul(g[i], w[i]), ar.mul(in[i], pull)), scale) }),
			}
		},
	}
}

// Operations on rows have the bits that their documentation says: of short rows and
// long ones, few and many, in place and strided, with operands that broadcast along
// rows, along columns and along both.
func TestRowsBitForBit(t *testing.T) {
	brief.Alone(t)
	rowsBitForBit(t, 0)
}

// rowsBitForBit has all forms of f32, and of each other type those of one parity, in turn.
func rowsBitForBit(t *testing.T, parity int) {
	r := rand.New(rand.NewPCG(9, 1))
	n := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil {
			continue
		}
		require.NotNil(t, rowReferences[op], op.Name)
		for i, c := range []struct {
			shape []int64
			axes  int
		}{
			{[]int64{3, 5}, 1}, {[]int64{1, 1}, 1}, {[]int64{2, 256}, 1}, {[]int64{2, 257}, 1}, {[]int64{70, 7}, 1}, {[]int64{66, 40}, 1},
			{[]int64{4, 3, 2}, 2}, {[]int64{65, 3, 20}, 2}, {[]int64{6}, 1}, {[]int64{2, 2, 3}, 1}, {[]int64{0, 4}, 1}, {[]int64{4, 0}, 1}, {[]int64{2, 0, 3}, 2}, {[]int64{2, 3, 0}, 1}, {[]int64{0}, 1},
		} {
			for k, typ := range []isa.Type{isa.F32, isa.BF16, isa.F64} {
				for form := range 4 {
					if n++; brief.Skips(n, 11) || typ != isa.F32 && (i+k+form)%2 != parity { // other ones of each operation
						continue
					}
					rowsAgree(t, r, op, typ, c.shape, c.axes, form)
				}
			}
		}
	}
	rowsAgree(t, r, kernels.LayerNorm, isa.F32, []int64{1, 8200}, 1, 0)
}

func rowsAgree(t *testing.T, r *rand.Rand, op *kernels.Op, typ isa.Type, shape []int64, axes, form int) {
	t.Helper()
	const eps = 0x1p-10
	lead := len(shape) - axes
	ar := arithmetic{kernels.Accumulator(typ)}
	operands := make([]*strided, len(op.Operands))
	var layouts []kernels.Layout
	for i := range operands {
		of := shape
		switch op.Rowwise().Shares[i] {
		case kernels.Row:
			if of = shape[:lead]; form%2 == 1 {
				of = append(slices.Clone(of), slices.Repeat([]int64{1}, axes)...)
			}
		case kernels.Column:
			switch form {
			case 0:
				of = shape[lead:]
			case 1:
				of = nil
			case 2:
				of = append(slices.Clone(shape[:lead]), slices.Repeat([]int64{1}, axes)...)
			}
		}
		operands[i] = draw(r, layout(r, op.TypeOf(i, typ), form > 1, of...))
		if op.Rowwise().Shares[i] == kernels.Row && op.Operands[i].Reads { // a variance, or a mean
			for k, c := range operands[i].memory {
				operands[i].memory[k] = cell(ar.Type, max(number(ar.Type, c), -number(ar.Type, c)))
			}
			operands[i] = &strided{Layout: operands[i].Layout, memory: operands[i].memory}
		}
		layouts = append(layouts, operands[i].Layout)
	}
	after := shaped(t, op, axes, operands, cell(ar.Type, eps))
	wide, err := op.RowArrays(layouts, axes)
	require.NoError(t, err)
	rows, cols := int64(1), int64(1)
	for i, d := range shape {
		if i < lead {
			rows *= d
		} else {
			cols *= d
		}
	}
	if rows == 0 {
		return
	}
	for row := int64(0); row < rows; row += max(1, rows-1) { // the first and the last
		var x [][]value
		var got [][]uint64
		var of []isa.Type
		for i, o := range op.Operands {
			at := places(&wide[i])
			if op.Rowwise().Shares[i] == kernels.Row {
				at = at[row : row+1]
			} else {
				at = at[row*cols : (row+1)*cols]
			}
			var cells []uint64
			var values []value
			for _, a := range at {
				c := after[i][a]
				cells, values = append(cells, c), append(values, number(operands[i].Type, c))
			}
			if o.Reads {
				x = append(x, values)
			} else {
				got, of = append(got, cells), append(of, operands[i].Type)
			}
		}
		want := rowReferences[op](t, ar, x, eps)
		require.Len(t, got, len(want))
		for k := range want {
			require.Len(t, got[k], len(want[k]))
			for i, v := range want[k] {
				requireCell(t, of[k], v, got[k][i], "%s of %v %v, %d axes, form %d: result %d, row %d [%d]", op.Name, typ, shape, axes, form, k, row, i)
			}
		}
	}
}

// What does not fit is refused in words.
func TestRowsAreRefused(t *testing.T) {
	f := func(shape ...int64) kernels.Layout { return kernels.Packed(isa.F32, shape...) }
	for _, c := range []struct {
		l    []kernels.Layout
		axes int
		want string
	}{
		{[]kernels.Layout{f(3, 4), f(4), f(1), f(3), f(3), f(4, 3)}, 1, "layer_norm: input has shape (3, 4), and output has (4, 3); expected the same"},
		{[]kernels.Layout{f(3, 4), f(3), f(1), f(3), f(3), f(3, 4)}, 1, "layer_norm: weight has shape (3,), which does not broadcast to (3, 4)"},
		{[]kernels.Layout{f(3, 4), f(2, 3, 4), f(1), f(3), f(3), f(3, 4)}, 1, "layer_norm: weight has shape (2, 3, 4), which does not broadcast"},
		{[]kernels.Layout{f(3, 4), f(4), f(4), f(4), f(3), f(3, 4)}, 1, "layer_norm: mean has shape (4,); expected (3,), a number for each row"},
		{[]kernels.Layout{f(3, 4), f(4), f(4), kernels.Packed(isa.F64, 3), f(3), f(3, 4)}, 1, "layer_norm: mean has dtype f64; expected f32, in which rows are summed"},
	} {
		_, err := kernels.LayerNorm.PlanShapes(c.l, c.axes)
		require.ErrorContains(t, err, c.want, fmt.Sprint(c.l))
	}
}
