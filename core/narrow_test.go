package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Sums may be of the elements' type or of a wider one. A call by sizes takes those
// that an operation has in one type alone for no others: as wide ones, they would lie
// half beyond their memory.
func TestNarrowSumsBySizes(t *testing.T) {
	sizes := map[int][]int64{1: {6}, 2: {3, 6}, 3: {3, 6, 0}, 5: {3, 4, 6, 0, 0}}
	onEach(t, func(t *testing.T, ex *Executor) {
		calls := 0
		for _, op := range kernels.All {
			if op.Elementwise || !op.Types.Has(isa.F16) {
				continue
			}
			dims := sizes[len(op.Dims)]
			usual, _, err := op.Layouts(isa.F16, dims)
			require.NoError(t, err, op.Name)
			extents, err := op.Extent(isa.F16, dims)
			require.NoError(t, err, op.Name)
			c := &Call{Op: op, Dims: dims}
			wide := false
			for i, o := range op.Operands {
				of := isa.F16
				switch o.Kind {
				case kernels.Index:
					of = isa.I64
				case kernels.Mask:
					of = isa.U8
				}
				wide = wide || usual[i].Type != of
				b, err := ex.Allocate(extents[i], of, true)
				require.NoError(t, err)
				c.Operands = append(c.Operands, Operand{Buffer: b})
			}
			for range op.Scalars {
				c.Scalars = append(c.Scalars, Float(1))
			}
			if !wide {
				continue
			}
			_, err = ex.Call(c)
			if op.Rowwise() != nil {
				calls++
				require.ErrorContains(t, err, "has dtype f16; expected f32", op.Name)
			} else if err != nil { // or the operation has them in both
				require.ErrorContains(t, err, "expected f32", op.Name)
			}
		}
		require.Positive(t, calls)
	})
}
