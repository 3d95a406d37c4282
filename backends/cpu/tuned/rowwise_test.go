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
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Rows that a block has by itself have the bits of the library's plan, as the
// interpreter computes them: with operands along rows, one for each, and one for all.
func TestRowwise(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(5, 9))
	types := []isa.Type{isa.F32, isa.F16, isa.BF16, isa.F64}
	number := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil || !op.MakesElements() && op.Broadcasts() { // the library's
			continue
		}
		for i, cols := range []int64{257, 600, 8193, 5, 10, 17, 32} { // those that are very short where there are many
			number++
			ty, rows := types[(number+i)%4], int64(5)
			if i == 2 {
				ty, rows = isa.F32, 1
			}
			if cols <= 32 {
				rows = 59 + cols
			}
			t.Run(fmt.Sprintf("%s/%v/%d", op.Name, ty, cols), func(t *testing.T) { rowwiseAgrees(t, r, op, ty, rows, cols, number%4) })
		}
	}
}

func rowwiseAgrees(t *testing.T, r *rand.Rand, op *kernels.Op, ty isa.Type, rows, cols int64, form int) {
	t.Helper()
	var l []kernels.Layout
	for i, share := range op.Rowwise().Shares {
		shape := [][]int64{{rows, cols}, [][]int64{{cols}, {rows, 1}, {1}, {1, cols}}[form], {rows}}[share]
		l = append(l, kernels.Packed(op.TypeOf(i, ty), shape...))
	}
	own := rowwiseBits(t, r, op, l)
	require.Len(t, own.Steps, 1)
	if len(l) == 2 { // by sizes too
		again, err := tuned.Plan(op, ty, []int64{rows, cols}, 2)
		require.NoError(t, err)
		require.Equal(t, own.Steps[0].Program, again.Steps[0].Program)
	}
}

// rowwiseBits compares a call's own plan, which it returns, with the library's.
func rowwiseBits(t *testing.T, r *rand.Rand, op *kernels.Op, l []kernels.Layout) *kernels.Plan {
	t.Helper()
	var theirs, ours [][]uint64
	var n []int64
	cols := l[0].Shape[len(l[0].Shape)-1]
	for _, of := range l {
		all := int64(1) // from the first to the last
		for i, d := range of.Shape {
			all += (d - 1) * of.Stride[i]
		}
		x := matrix(r, of.Type, all/cols+1, cols)[:all*int64(of.Type.Size())/8+8]
		theirs, ours, n = append(theirs, x), append(ours, append([]uint64{}, x...)), append(n, all)
	}
	own, err := tuned.PlanShapes(op, l, 1, 2)
	require.NoError(t, err)
	require.NotNil(t, own)
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
	return own
}

// So do rows with others' elements between them, in any of the arrays that are read.
func TestRowwiseApart(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	types := []isa.Type{isa.F32, isa.F16, isa.BF16, isa.F64}
	number := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil || !op.MakesElements() && op.Broadcasts() { // the library's
			continue
		}
		for which, o := range op.Operands {
			if op.Rowwise().Shares[which] != kernels.Whole || !o.Reads || o.Writes {
				continue
			}
			for _, c := range []struct{ rows, length, pitch int64 }{{5, 257, 300}, {4, 512, 1024}, {7, 1025, 1026}} {
				if number++; brief.Skips(number, 5) {
					continue
				}
				ty := types[number%4]
				t.Run(fmt.Sprintf("%s/%s/%v/%v", op.Name, o.Name, ty, c), func(t *testing.T) {
					var l []kernels.Layout
					for i, share := range op.Rowwise().Shares {
						of := op.TypeOf(i, ty)
						switch share {
						case kernels.Whole:
							l = append(l, kernels.Packed(of, c.rows, c.length))
						case kernels.Column:
							l = append(l, kernels.Packed(of, c.length))
						case kernels.Row:
							l = append(l, kernels.Packed(of, c.rows))
						}
					}
					l[which].Stride = []int64{c.pitch, 1}
					rowwiseBits(t, r, op, l)
				})
			}
		}
	}
	require.Greater(t, number, 20)
}

// Rows that are written with others' elements between them go where they belong, and leave
// these as they are, if they are not left to the library.
func TestRowwiseWrittenApart(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	types := []isa.Type{isa.F32, isa.F16, isa.BF16, isa.F64}
	number := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil || !op.MakesElements() {
			continue
		}
		for which, o := range op.Operands {
			if op.Rowwise().Shares[which] != kernels.Whole || !o.Writes {
				continue
			}
			number++
			ty, rows, length := types[number%4], int64(5), int64(257)
			t.Run(fmt.Sprintf("%s/%s/%v", op.Name, o.Name, ty), func(t *testing.T) {
				var l []kernels.Layout
				for i, share := range op.Rowwise().Shares {
					shape := map[kernels.Share][]int64{kernels.Whole: {rows, length}, kernels.Column: {length}, kernels.Row: {rows}}[share]
					l = append(l, kernels.Packed(op.TypeOf(i, ty), shape...))
				}
				l[which].Stride = []int64{300, 1}
				plan, err := tuned.PlanShapes(op, l, 1, 2)
				require.NoError(t, err)
				if plan != nil {
					rowwiseBits(t, r, op, l)
				}
			})
		}
	}
	require.Greater(t, number, 5)
}

// So do rows that are the columns of matrices, of all lengths that are dealt out
// differently: kept in registers, with some partials that have no element, or one more.
func TestRowwiseOfColumns(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(7, 9))
	types := []isa.Type{isa.F32, isa.F16, isa.BF16, isa.F64}
	number := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil {
			continue
		}
		for i, c := range []struct{ matrices, length, columns int64 }{
			{1, 2, 37}, {3, 32, 16}, {1, 33, 21}, {2, 95, 8}, {1, 255, 16}, {1, 256, 16}, {1, 300, 19}, {1, 767, 8}, {1, 8192 + 70, 8},
		} {
			number++
			ty, form := types[(number+i)%4], number%4
			if brief.On() && c.length > 767 || brief.Skips(number, 5) {
				continue
			}
			if c.length > 8192 {
				if number%3 > 0 {
					continue
				}
				ty = isa.F64
			}
			t.Run(fmt.Sprintf("%s/%v/%v/%d", op.Name, ty, c, form), func(t *testing.T) {
				var l []kernels.Layout
				for i, share := range op.Rowwise().Shares {
					of := op.TypeOf(i, ty)
					switch share {
					case kernels.Whole:
						l = append(l, columnsOf(of, c.matrices, c.length, c.columns))
					case kernels.Column:
						l = append(l, kernels.Packed(of, [][]int64{{c.length}, {c.matrices, c.columns, 1}, {1}, {1, 1, c.length}}[form]...))
					case kernels.Row:
						l = append(l, kernels.Packed(of, c.matrices, c.columns))
					}
				}
				rowwiseBits(t, r, op, l)
			})
		}
	}
}

// columnsOf has as rows, in its last dimension, the columns of packed matrices.
func columnsOf(t isa.Type, matrices, length, columns int64) kernels.Layout {
	return kernels.Layout{Type: t, Shape: []int64{matrices, columns, length}, Stride: []int64{length * columns, 1, columns}}
}

// What does not fit a block alone, or does not lie so, is left to the library.
func TestRowwiseLeft(t *testing.T) {
	f := func(shape ...int64) kernels.Layout { return kernels.Packed(isa.F32, shape...) }
	strided := kernels.Layout{Type: isa.F32, Shape: []int64{9, 300}, Stride: []int64{1, 10}}
	for _, l := range [][]kernels.Layout{{f(9, 256), f(9, 256)}, {f(9, 70000), f(9, 70000)}, {f(3, 40000), f(3, 40000)}, {strided, f(9, 300)}} {
		plan, err := tuned.PlanShapes(kernels.LogSoftmax, l, 1, 2)
		require.NoError(t, err)
		require.Nil(t, plan)
	}
	columns := func(length, n int64) []kernels.Layout {
		return []kernels.Layout{columnsOf(isa.F32, 1, length, n), columnsOf(isa.F32, 1, length, n)}
	}
	for _, l := range [][]kernels.Layout{columns(300, 7), columns(70000, 16), columns(257, 129), columns(40, 1<<18)} {
		plan, err := tuned.PlanShapes(kernels.LogSoftmax, l, 1, 2)
		require.NoError(t, err)
		require.Nil(t, plan)
	}
	each := f(9, 300) // a weight for each element of each row
	plan, err := tuned.PlanShapes(kernels.LayerNorm, []kernels.Layout{f(9, 300), each, each, f(9), f(9), f(9, 300)}, 1, 2)
	require.NoError(t, err)
	require.Nil(t, plan)
}
