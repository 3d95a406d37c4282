package tuned_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Columns are reduced with the library's bits: few rows and many, whole chunks and
// not, of one matrix and several.
func TestColumnsHaveTheLibrarysBits(t *testing.T) {
	brief.Alone(t)
	r := newRig(t)
	types := [][2]isa.Type{{isa.F32, isa.F32}, {isa.BF16, isa.BF16}, {isa.F64, isa.F64}, {isa.I8, isa.I64}, {isa.U16, isa.U16}, {isa.F16, isa.F32}}
	number := 0
	for _, shape := range [][]int64{{33, 32}, {40, 100}, {256, 64}, {600, 33}, {1024, 40}, {3, 300, 35}, {512, 1024}, {8192, 32}, {8193, 32}, {16384, 33}, {2, 20000, 32}} {
		for _, op := range []*kernels.Op{kernels.ReduceSum, kernels.ReduceMin, kernels.ReduceMax} {
			for k := range 2 {
				number++
				if n := shape[len(shape)-2]; brief.On() && (n > 9000 || n > 1000 && k > 0) {
					continue
				}
				in, out := types[number%len(types)][0], types[number%len(types)][1]
				if op != kernels.ReduceSum {
					out = in
				}
				t.Run(fmt.Sprintf("%s %v %v", op.Name, in, shape), func(t *testing.T) {
					r.TB = t
					rows, cols := shape[len(shape)-2], shape[len(shape)-1]
					matrices := int64(1)
					if len(shape) == 3 {
						matrices = shape[0]
					}
					// The columns are rows whose elements lie cols apart.
					l := []kernels.Layout{
						{Type: in, Shape: []int64{matrices, cols, rows}, Stride: []int64{rows * cols, 1, cols}},
						kernels.Packed(out, matrices, cols),
					}
					// Of a small device a lane has several partials of short columns.
					plan, err := tuned.PlanShapes(op, l, 1, tuned.Device{Processors: map[bool]int64{true: 1, false: 132}[k == 0]})
					require.NoError(t, err)
					require.NotNil(t, plan)
					library, err := op.PlanShapes(l, 1)
					require.NoError(t, err)
					x := elements(in, matrices*rows, cols)
					theirs := [][]byte{append([]byte(nil), x...), make([]byte, matrices*cols*int64(out.Size()))}
					ours := [][]byte{append([]byte(nil), x...), make([]byte, len(theirs[1]))}
					r.runAll(library, theirs, false)
					r.runAll(plan, ours, rows <= kernels.ChunkElements || rows%kernels.ChunkElements == 0)
					require.Equal(t, oneNaN(theirs[1], out), oneNaN(ours[1], out))
				})
			}
		}
	}
}

// What has numbers of columns alone has the library's bits: of rows that partials share
// evenly and not, of one chunk and several, and of columns that lie side by side in
// groups and not. Of what does not lie so the library is left to it.
func TestNumbersOfColumnsHaveTheLibrarysBits(t *testing.T) {
	brief.Alone(t)
	r := newRig(t)
	op := kernels.LayerNormParameterGradients
	types := []isa.Type{isa.F32, isa.BF16, isa.F64, isa.F16}
	for i, d := range [][]int64{{33, 4}, {40, 100}, {256, 33}, {600, 130}, {1024, 256}, {768, 600}, {256, 5000}, {2048, 7}, {8192, 36}, {8193, 8}, {17000, 5}, {60_000, 2}} {
		ty := types[i%4]
		if brief.On() && d[0] > 9000 {
			continue
		}
		t.Run(fmt.Sprintf("%v %v", ty, d), func(t *testing.T) {
			r.TB = t
			rows, cols := d[0], d[1]
			acc := kernels.Accumulator(ty)
			whole := kernels.Layout{Type: ty, Shape: []int64{cols, rows}, Stride: []int64{1, cols}}
			row, column := kernels.Packed(acc, rows), kernels.Packed(acc, cols)
			l := []kernels.Layout{whole, whole, row, row, column, column}
			var theirs, ours [][]byte
			for k := range l {
				n := int64(1)
				for _, s := range l[k].Shape {
					n *= s
				}
				b := elements(l[k].Type, n/l[k].Shape[0], l[k].Shape[0])
				theirs, ours = append(theirs, b), append(ours, append([]byte(nil), b...))
			}
			plan, err := tuned.PlanShapes(op, l, 1, tuned.Device{Processors: 1})
			require.NoError(t, err)
			require.NotNil(t, plan)
			library, err := op.PlanShapes(l, 1)
			require.NoError(t, err)
			r.runAll(library, theirs, false)
			r.runAll(plan, ours, rows <= kernels.ChunkElements)
			for k := 4; k < 6; k++ {
				require.Equal(t, oneNaN(theirs[k], acc), oneNaN(ours[k], acc), op.Operands[k].Name)
			}
			l[0] = kernels.Packed(ty, cols, rows)
			plan, err = tuned.PlanShapes(op, l, 1, tuned.Device{Processors: 132})
			require.NoError(t, err)
			require.Nil(t, plan)
		})
	}
}
