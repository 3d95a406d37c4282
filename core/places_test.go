package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestPlacesThatAreNoneAreNamed: where the host sees the numbers an error tells which
// one is none, and what it may be; elsewhere of the stray access alone.
func TestPlacesThatAreNoneAreNamed(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for _, c := range []struct {
			op      *kernels.Op
			cols    int64
			indices []uint32 // halves of i64
			want    string
		}{
			{kernels.NLL, 4, []uint32{0, 0, 3, 0, 4, 0}, "nll: target[2] is 4; expected 0 to 3; the launch ran"},
			{kernels.NLL, 4, []uint32{0, 0, 0xffffffff, 0xffffffff, 9, 0}, "nll: target[1] is -1; expected 0 to 3; the launch ran"},
			{kernels.CrossEntropy, 4, []uint32{0, 0, 3, 0, 4, 0}, "cross_entropy: target[2] is 4; expected 0 to 3; the launch ran"},
			{kernels.NLLGradient, 4, []uint32{0, 0, 3, 0, 0, 1}, "nll_gradient: target[2] is 4294967296; expected 0 to 3; the launch ran"},
			{kernels.CrossEntropyGradient, 4, []uint32{7, 0, 3, 0, 3, 0}, "cross_entropy_gradient: target[0] is 7; expected 0 to 3; the launch ran"},
			{kernels.Embedding, 4, []uint32{0, 0, 2, 0, 3, 0}, "embedding: index[2] is 3; expected 0 to 2; the launch ran"},
			{kernels.Embedding, 40, []uint32{0, 0, 2, 0, 3, 0}, "embedding: index[2] is 3; expected 0 to 2; the launch ran"}, // a block's on the CPU
		} {
			call := &Call{Op: c.op, Dims: []int64{3, c.cols}}
			for _, o := range c.op.Operands {
				typ := isa.F32
				if o.Kind == kernels.Index {
					typ = isa.I64
				}
				n, err := ex.Allocate(3*c.cols, typ, true)
				require.NoError(t, err)
				if o.Kind == kernels.Index {
					n, err = ex.Allocate(3, typ, true)
					require.NoError(t, err)
					data := hostBytes(24)
					for i, half := range c.indices {
						for k := range 4 {
							data[4*i+k] = byte(half >> (8 * k))
						}
					}
					require.NoError(t, wait(n.Write(addressOf(data), 0, 24)))
				}
				call.Operands = append(call.Operands, Operand{Buffer: n})
			}
			for range c.op.Scalars {
				call.Scalars = append(call.Scalars, Float(-100))
			}
			err := wait(ex.Call(call))
			if err == nil {
				err = wait(ex.Synchronize())
			}
			require.Equal(t, Faulted, CodeOf(err))
			if ex.device.Info.Asynchronous {
				require.ErrorContains(t, err, "stray access in lane ")
			} else {
				require.ErrorContains(t, err, c.want)
			}
		}
	})
}

// TestDivisorsThatAreZeroAreNamed: an integer division by zero is told by operand and
// element, on every backend.
func TestDivisorsThatAreZeroAreNamed(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for want, shape := range map[string][]int64{
			"vector_div: integer division by zero: b is 0 at element [5] of the shape (6,); the launch ran":      {6},
			"vector_div: integer division by zero: b is 0 at element [1, 2] of the shape (2, 3); the launch ran": {2, 3},
		} {
			call := &Call{Op: kernels.VectorDiv}
			for range call.Op.Operands {
				n, err := ex.Allocate(6, isa.I32, true)
				require.NoError(t, err)
				data := hostBytes(24)
				for i := range 5 {
					data[4*i] = 3
				}
				require.NoError(t, wait(n.Write(addressOf(data), 0, 24)))
				view, err := n.View(0, shape, nil)
				require.NoError(t, err)
				call.Operands = append(call.Operands, Operand{Buffer: view})
			}
			err := wait(ex.Call(call))
			if err == nil {
				err = wait(ex.Synchronize())
			}
			require.Equal(t, Faulted, CodeOf(err))
			require.ErrorContains(t, err, want)
		}
	})
}
