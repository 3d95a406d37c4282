package tuned_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Softmax and places along columns have the bits of the library's plans: few rows and
// many, several matrices, tiles of columns and what is left of them.
func TestAlongColumns(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(15, 16))
	for _, c := range []struct {
		op                   *kernels.Op
		t                    isa.Type
		matrices, rows, cols int64
	}{
		{kernels.Softmax, isa.F32, 1, 2, 2},
		{kernels.Softmax, isa.F32, 2, 33, 70},
		{kernels.Softmax, isa.BF16, 1, 64, 20},
		{kernels.Softmax, isa.F64, 1, 5, 129},
		{kernels.Softmax, isa.F16, 2, 63, 64},
		{kernels.Softmax, isa.F32, 2, 300, 7},
		{kernels.Softmax, isa.BF16, 1, 8193, 3},
		{kernels.Argmax, isa.F32, 1, 2, 3},
		{kernels.Argmax, isa.F32, 3, 64, 150},
		{kernels.Argmin, isa.I8, 1, 70, 130},
		{kernels.Argmin, isa.BF16, 2, 100, 9},
		{kernels.Argmax, isa.U64, 1, 50, 20},
		{kernels.Argmax, isa.F32, 2, 4097, 3},
		{kernels.Argmin, isa.I16, 1, 9000, 5},
		{kernels.Argmax, isa.F32, 1, 40_001, 4},
		{kernels.Argmin, isa.F64, 3, 1100, 9},
		{kernels.Argmax, isa.BF16, 2, 3001, 13},
		{kernels.Argmin, isa.F64, 1, 4100, 64}, // in parts, of which a second step finds the place
	} {
		t.Run(fmt.Sprintf("%s/%v/%d×%d×%d", c.op.Name, c.t, c.matrices, c.rows, c.cols), func(t *testing.T) {
			in := kernels.Layout{Type: c.t, Shape: []int64{c.matrices, c.cols, c.rows}, Stride: []int64{c.rows * c.cols, 1, c.cols}}
			out, n := in, c.matrices*c.rows*c.cols
			if c.op != kernels.Softmax {
				out, n = kernels.Packed(isa.I64, c.matrices, c.cols), c.matrices*c.cols
			}
			l := []kernels.Layout{in, out}
			own, err := tuned.PlanShapes(c.op, l, 1, 2)
			require.NoError(t, err)
			require.NotNil(t, own)
			theirs, err := c.op.PlanShapes(l, 1)
			require.NoError(t, err)
			agree(t, own, theirs, columns(r, c.t, c.matrices, c.rows, c.cols), out.Type, c.matrices*c.rows*c.cols, n, c.op == kernels.Softmax)
		})
	}
}
