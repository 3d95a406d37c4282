package kernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// fitting are operands of all sizes that differ, which an operation takes.
func fitting(t *testing.T, op *Op, of isa.Type) ([]Layout, int) {
	t.Helper()
	dims := make([]int64, len(op.Dims))
	for i, name := range op.Dims {
		if !strings.HasPrefix(name, "trans") {
			dims[i] = int64(3 + 2*i)
		}
	}
	l, axes, err := op.layouts(of, dims)
	require.NoError(t, err)
	_, err = op.PlanShapes(l, axes)
	require.NoError(t, err, op.Name)
	return l, axes
}

// TestEveryOperandsShapeIsLookedAt makes one dimension of one operand larger, or
// gives it one more: but where that says how many rows are summed, or which there
// are to choose from, no other operand goes with it.
func TestEveryOperandsShapeIsLookedAt(t *testing.T) {
	var taken []string
	for _, op := range All {
		if op.Elementwise {
			continue
		}
		l, axes := fitting(t, op, op.Types.List()[0])
		try := func(i int, what string, shape []int64) {
			other := slices.Clone(l)
			other[i] = Packed(l[i].Type, shape...)
			if _, err := op.PlanShapes(other, axes); err == nil {
				taken = append(taken, fmt.Sprintf("%s: %s %s", op.Name, op.Operands[i].Name, what))
			}
		}
		for i := range l {
			shape := l[i].Shape
			for d := range shape {
				larger := slices.Clone(shape)
				larger[d]++
				try(i, fmt.Sprintf("[%d]+1", d), larger)
			}
			try(i, "2×", append([]int64{2}, shape...))
			if len(shape) > 0 {
				try(i, "flat", shape[1:])
			}
		}
	}
	require.Equal(t, `reduce_sum: input [1]+1
reduce_min: input [1]+1
reduce_max: input [1]+1
mse_loss: output flat
cross_entropy_loss: output flat
binary_cross_entropy_loss: output flat
argmin: input [1]+1
argmax: input [1]+1
reduce_prod: input [1]+1
layer_norm: weight flat
layer_norm: bias flat
layer_norm_gradient: weight flat
rms_norm: weight flat
rms_norm_gradient: weight flat
nll: weight flat
nll_gradient: gradient flat
nll_gradient: weight flat
nll_gradient: total flat
embedding: table [0]+1
layer_norm_input_gradient: weight flat
layer_norm_parameter_gradients: mean flat
layer_norm_parameter_gradients: scale flat
cross_entropy_gradient: gradient flat
cross_entropy_gradient: weight flat
cross_entropy_gradient: total flat
cross_entropy_gradient: most flat
cross_entropy_gradient: log flat
log_sum_exp: input [1]+1
cross_entropy: weight flat
cross_entropy: most flat
cross_entropy: log flat`, strings.Join(taken, "\n"))
}

// TestEveryOperandsTypeIsLookedAt lists which types each operand may have beside
// the elements'.
func TestEveryOperandsTypeIsLookedAt(t *testing.T) {
	var taken []string
	for _, op := range All {
		if op.Elementwise || !op.Types.Has(isa.F16) {
			continue
		}
		l, axes := fitting(t, op, isa.F16)
		subject := op.Subject()
		for i := range l {
			var types []string
			for _, of := range isa.NumericTypes {
				if i == subject {
					break
				}
				other, all := slices.Clone(l), make([]isa.Type, len(l))
				other[i].Type = of
				for k := range other {
					all[k] = other[k].Type
				}
				err := op.CheckTypes(all)
				if err == nil {
					_, err = op.PlanShapes(other, axes)
				}
				if err == nil {
					types = append(types, of.String())
				}
			}
			if len(types) > 0 && (len(types) > 1 || types[0] != "f16") {
				taken = append(taken, fmt.Sprintf("%s: %s %s", op.Name, op.Operands[i].Name, strings.Join(types, " ")))
			}
		}
	}
	require.Equal(t, `reduce_sum: output f16 f32 f64
argmin: output i64
argmax: output i64
reduce_prod: output f16 f32 f64
cumsum: output f16 f32 f64
layer_norm: mean f32
layer_norm: variance f32
layer_norm_gradient: mean f32
layer_norm_gradient: variance f32
layer_norm_gradient: product f32
rms_norm: squares f32
rms_norm_gradient: squares f32
rms_norm_gradient: product f32
nll: target i64
nll: weights f32
nll: output f16 f32
nll_gradient: target i64
nll_gradient: total f16 f32 f64
embedding: index i64
embedding_gradient: order i64
embedding_gradient: starts i64
embedding_gradient: ends i64
layer_norm_input_gradient: mean f32
layer_norm_input_gradient: variance f32
layer_norm_parameter_gradients: mean f32
layer_norm_parameter_gradients: scale f32
layer_norm_parameter_gradients: by_weight f32
layer_norm_parameter_gradients: by_bias f32
cross_entropy_gradient: target i64
cross_entropy_gradient: total f16 f32 f64
cross_entropy_gradient: most f32
cross_entropy_gradient: log f32
log_sum_exp: most f32
log_sum_exp: log f32
cross_entropy: target i64
cross_entropy: most f32
cross_entropy: log f32
cross_entropy: weights f32
cross_entropy: output f16 f32`, strings.Join(taken, "\n"))
}

// TestResultsOfSizes: what an operation makes for sizes has as many elements as they
// say, of arrays that have enough; and so it is with the first n of arrays.
func TestResultsOfSizes(t *testing.T) {
	for _, op := range All {
		if op.Elementwise {
			continue
		}
		of := op.Types.List()[0]
		l, _ := fitting(t, op, of)
		last := len(l) - 1
		var dims []int64
		for i, name := range op.Dims {
			if strings.HasPrefix(name, "trans") {
				dims = append(dims, 0)
			} else {
				dims = append(dims, int64(3+2*i))
			}
		}
		shape, err := op.ResultShape(l[:last], dims, -1)
		require.NoError(t, err, op.Name)
		require.Equal(t, l[last].Shape, shape, op.Name)
		for i := range l[:last] {
			has := l[i].Elements()
			other := slices.Clone(l[:last])
			for more, n := range []int64{has - 1, has, has + 1} {
				other[i] = Packed(l[i].Type, n)
				_, err := op.ResultShape(other, dims, -1)
				if more > 0 {
					require.NoError(t, err, "%s: %s", op.Name, op.Operands[i].Name)
					continue
				}
				require.EqualError(t, err, fmt.Sprintf("%s: %s has %d elements; %s need %d", op.Name, op.Operands[i].Name, n, named(op, dims), has))
			}
		}
		_, err = op.ResultShape(l[:last], append(dims, 1), -1)
		require.ErrorContains(t, err, fmt.Sprintf("got %d numbers", len(dims)+1))
	}
	six, four, number := Packed(isa.F32, 2, 3), Packed(isa.F32, 4), Layout{}
	for _, c := range []struct {
		l    []Layout
		dims []int64
		want any
	}{
		{[]Layout{six, four}, []int64{4}, []int64{4}}, {[]Layout{six, four}, []int64{0}, []int64{0}},
		{[]Layout{six, four}, []int64{5}, "vector_add: n = 5 exceeds the 4 elements of b"},
		{[]Layout{six, number}, []int64{6}, []int64{6}}, {[]Layout{six, number}, []int64{7}, "vector_add: n = 7 exceeds the 6 elements of a"},
		{[]Layout{six, four}, []int64{-1}, "vector_add: n = -1 is negative"}, {[]Layout{six, four}, []int64{4, 4}, "vector_add takes one size, n, got 2 numbers"},
		{[]Layout{six, Packed(isa.F32, 3)}, nil, []int64{2, 3}}, {[]Layout{number, four}, nil, []int64{4}}, {[]Layout{six, Packed(isa.F32, 4, 1, 1)}, nil, []int64{4, 2, 3}},
		{[]Layout{six, four}, nil, "vector_add: the shapes do not broadcast together: a (2, 3), b (4,)"},
	} {
		shape, err := VectorAdd.ResultShape(c.l, c.dims, -1)
		if text, ok := c.want.(string); ok {
			require.EqualError(t, err, text)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, shape)
	}
}

// named lists sizes as errors do.
func named(op *Op, dims []int64) string {
	var list []string
	for i, d := range dims {
		list = append(list, fmt.Sprintf("%s = %d", op.Dims[i], d))
	}
	return strings.Join(list, ", ")
}
