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
	r := newRig(t)
	types := [][2]isa.Type{{isa.F32, isa.F32}, {isa.BF16, isa.BF16}, {isa.F64, isa.F64}, {isa.I8, isa.I64}, {isa.U16, isa.U16}, {isa.F16, isa.F32}}
	number := 0
	for _, shape := range [][]int64{{33, 32}, {40, 100}, {256, 64}, {600, 33}, {1024, 40}, {3, 300, 35}, {8192, 32}, {8193, 32}, {16384, 33}, {2, 20000, 32}} {
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
					plan, err := tuned.PlanShapes(op, l, 1, tuned.Device{Processors: 132})
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
