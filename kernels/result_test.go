package kernels

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// What an operation says that it makes it takes as its last operand.
func TestResultsAreWhatIsTaken(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	shape := func(rank int) []int64 {
		s := make([]int64, rank)
		for i := range s {
			s[i] = 1 + r.Int64N(4)
		}
		return s
	}
	for _, op := range All {
		if len(op.Operands) < 2 || op.Elementwise {
			continue
		}
		switch op {
		case NLL, NLLGradient, Embedding, EmbeddingGradient, CrossEntropy, CrossEntropyGradient: // whose operands have shapes of their own: gather_test.go
			continue
		}
		for of := isa.Type(1); of.Numeric(); of++ {
			if !op.Types.Has(of) {
				continue
			}
			for range 20 {
				l := []Layout{Packed(of, shape(2+r.IntN(2))...)}
				first := l[0].Shape
				for len(l) < len(op.Operands)-1 {
					next := append([]int64{}, first...)
					switch op {
					case Gemm:
						next[len(next)-2], next[len(next)-1] = first[len(first)-1], 1+r.Int64N(4)
					case Matvec:
						next = []int64{first[len(first)-1]}
					}
					l = append(l, Packed(of, next...))
				}
				axes := -1
				if op.Axes {
					axes = r.IntN(len(first)+2) - 1
				}
				lead := 0
				if axes >= 0 {
					lead = len(first) - axes
				}
				types, bools := make([]isa.Type, len(l)), make([]bool, len(l))
				for i := range l {
					if op.rowwise != nil { // a number for each row, in another type
						l[i].Type = op.TypeOf(i, of)
						if op.rowwise.Shares[i] == Row {
							l[i] = Packed(l[i].Type, first[:lead]...)
						}
					}
					types[i] = l[i].Type
				}
				made, isBool, err := op.ResultType(types, bools)
				require.NoError(t, err, op.Name)
				require.False(t, isBool)
				result, err := op.ResultShape(l, nil, axes)
				require.NoError(t, err, op.Name)
				require.NoError(t, op.CheckTypes(append(types, made)))
				_, err = op.PlanShapes(append(l, Packed(made, result...)), axes)
				require.NoError(t, err, "%s of %v, %d axes, to %v", op.Name, l, axes, result)
				if op.Reduces && axes < 0 {
					require.Empty(t, result, op.Name)
				}
				_, err = op.PlanShapes(append(l, Packed(made, append(result, 2)...)), axes)
				require.Error(t, err, "%s takes another shape", op.Name)
			}
		}
	}
}

func TestResultTypes(t *testing.T) {
	for _, c := range []struct {
		op     *Op
		types  []isa.Type
		bools  []bool
		want   isa.Type
		isBool bool
	}{
		{VectorAdd, []isa.Type{isa.F16, isa.F16}, []bool{false, false}, isa.F16, false},
		{VectorAdd, []isa.Type{0, isa.I8}, []bool{false, false}, isa.I8, false},
		{VectorAdd, []isa.Type{isa.U8, isa.U8}, []bool{true, false}, isa.U8, false},
		{Copy, []isa.Type{isa.U8}, []bool{true}, isa.U8, true},
		{ReduceSum, []isa.Type{isa.I8}, []bool{false}, isa.I64, false},
		{ReduceSum, []isa.Type{isa.U8}, []bool{false}, isa.U64, false},
		{ReduceSum, []isa.Type{isa.U8}, []bool{true}, isa.I64, false},
		{ReduceSum, []isa.Type{isa.BF16}, []bool{false}, isa.BF16, false},
		{ReduceMax, []isa.Type{isa.I8}, []bool{false}, isa.I8, false},
		{Gemm, []isa.Type{isa.I8, isa.I8}, []bool{false, false}, isa.I8, false},
		{Argmax, []isa.Type{isa.F64}, []bool{false}, isa.I64, false},
	} {
		got, isBool, err := c.op.ResultType(c.types, c.bools)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s of %v", c.op.Name, c.types)
		require.Equal(t, c.isBool, isBool)
	}
	_, _, err := Sigmoid.ResultType([]isa.Type{isa.I32}, []bool{false})
	require.ErrorContains(t, err, "sigmoid: dtype i32 is not supported")
	_, _, err = Matvec.ResultType([]isa.Type{isa.U8, isa.U8}, []bool{true, true})
	require.ErrorContains(t, err, "matvec: a has dtype bool, and matvec makes no bools")
	_, _, err = VectorAdd.ResultType([]isa.Type{isa.U8, 0}, []bool{true, false})
	require.ErrorContains(t, err, "vector_add: a has dtype bool, and vector_add makes no bools")
	_, _, err = VectorAdd.ResultType([]isa.Type{0, 0}, []bool{false, false})
	require.Error(t, err)
}

// What is made before the last operand is asked for in turn, in the type that rows are summed in.
func TestResultsOfSeveral(t *testing.T) {
	for _, typ := range []isa.Type{isa.F16, isa.F32, isa.F64} {
		x, w, acc := Packed(typ, 2, 3, 4), Packed(typ, 4), Accumulator(typ)
		l := []Layout{x, w, w}
		for k, want := range []Layout{Packed(acc, 2, 3), Packed(acc, 2, 3), x} {
			require.True(t, LayerNorm.Makes(3+k))
			types, bools := make([]isa.Type, len(l)), make([]bool, len(l))
			for i := range l {
				types[i] = l[i].Type
			}
			made, _, err := LayerNorm.ResultType(types, bools)
			require.NoError(t, err)
			shape, err := LayerNorm.ResultShape(l, nil, 1)
			require.NoError(t, err)
			require.Equal(t, want, Packed(made, shape...))
			shape, err = LayerNorm.ResultShape(l, []int64{6, 4}, -1)
			require.NoError(t, err)
			require.EqualValues(t, want.Elements(), func() int64 { p := Packed(made, shape...); return p.Elements() }())
			l = append(l, want)
		}
	}
	for _, c := range []struct {
		op    *Op
		makes []int
	}{{LayerNorm, []int{3, 4, 5}}, {NLL, []int{3, 4}}, {Gemm, []int{2}}, {Fill, nil}, {VectorAdd, []int{2}}} {
		var makes []int
		for k := range len(c.op.Operands) + 1 {
			if c.op.Makes(k) {
				makes = append(makes, k)
			}
		}
		require.Equal(t, c.makes, makes, c.op.Name)
		require.Equal(t, len(c.makes), c.op.Made())
	}
}
