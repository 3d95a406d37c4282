package tuned_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Rows that a block keeps by itself have the bits of the library's plan, as the
// interpreter computes them: with operands along rows, one for each, and one for all.
func TestRowwise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	types := []isa.Type{isa.F32, isa.F16, isa.BF16, isa.F64}
	number := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil {
			continue
		}
		for i, cols := range []int64{257, 600, 8193} {
			number++
			ty, rows := types[(number+i)%4], int64(5)
			if i == 2 {
				ty, rows = isa.F32, 1
			}
			t.Run(fmt.Sprintf("%s/%v/%d", op.Name, ty, cols), func(t *testing.T) { rowwiseAgrees(t, r, op, ty, rows, cols, number%4) })
		}
	}
}

func rowwiseAgrees(t *testing.T, r *rand.Rand, op *kernels.Op, ty isa.Type, rows, cols int64, form int) {
	t.Helper()
	var l []kernels.Layout
	var theirs, ours [][]uint64
	var n []int64
	for i, share := range op.Rowwise().Shares {
		shape := [][]int64{{rows, cols}, [][]int64{{cols}, {rows, 1}, {1}, {1, cols}}[form], {rows}}[share]
		of := kernels.Packed(op.TypeOf(i, ty), shape...)
		x := matrix(r, of.Type, rows, cols)[:of.Elements()*int64(of.Type.Size())/8+8]
		l, theirs, ours, n = append(l, of), append(theirs, x), append(ours, append([]uint64{}, x...)), append(n, of.Elements())
	}
	own, err := tuned.PlanShapes(op, l, 1)
	require.NoError(t, err)
	require.NotNil(t, own)
	require.Len(t, own.Steps, 1)
	library, err := op.PlanShapes(l, 1)
	require.NoError(t, err)
	execute(t, interp.New(), library, theirs, n...)
	execute(t, cpu.New(2), own, ours, n...)
	for i, o := range op.Operands {
		for k := range n[i] {
			a, b := cell(theirs[i], l[i].Type, k), cell(ours[i], l[i].Type, k)
			x, y := isa.Convert(isa.F64, l[i].Type, a), isa.Convert(isa.F64, l[i].Type, b)
			if f, g := math.Float64frombits(x), math.Float64frombits(y); a != b && (f == f || g == g) {
				t.Fatalf("%s, element %d: %v, to be %v", o.Name, k, g, f)
			}
		}
	}
	if len(l) == 2 { // by sizes too
		again, err := tuned.Plan(op, ty, []int64{rows, cols})
		require.NoError(t, err)
		require.Equal(t, own.Steps[0].Program, again.Steps[0].Program)
	}
}

// What does not fit a block alone, or does not lie so, is left to the library.
func TestRowwiseLeft(t *testing.T) {
	f := func(shape ...int64) kernels.Layout { return kernels.Packed(isa.F32, shape...) }
	strided := kernels.Layout{Type: isa.F32, Shape: []int64{9, 300}, Stride: []int64{1, 9}}
	for _, l := range [][]kernels.Layout{{f(9, 256), f(9, 256)}, {f(9, 70000), f(9, 70000)}, {f(3, 40000), f(3, 40000)}, {strided, f(9, 300)}} {
		plan, err := tuned.PlanShapes(kernels.LogSoftmax, l, 1)
		require.NoError(t, err)
		require.Nil(t, plan)
	}
	each := f(9, 300) // a weight for each element of each row
	plan, err := tuned.PlanShapes(kernels.LayerNorm, []kernels.Layout{f(9, 300), each, each, f(9), f(9), f(9, 300)}, 1)
	require.NoError(t, err)
	require.Nil(t, plan)
}
