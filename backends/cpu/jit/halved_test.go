package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// What does little but move memory has short vectors; what computes, or has elements of
// several sizes, has not.
func TestWhatMovesMemory(t *testing.T) {
	for _, c := range []struct {
		op    *kernels.Op
		t     isa.Type
		moves bool
	}{
		{kernels.VectorAdd, isa.F32, true}, {kernels.VectorAdd, isa.I8, true}, {kernels.Copy, isa.F64, true}, {kernels.Copy, isa.BF16, true},
		{kernels.VectorMad, isa.F32, true}, {kernels.Fill, isa.I16, false}, {kernels.VectorMul, isa.I8, false}, {kernels.VectorMul, isa.I16, true}, {kernels.VectorAdd, isa.BF16, false}, {kernels.Tanh, isa.F32, false},
		{kernels.Where, isa.F32, false}, {kernels.VectorEqual, isa.F32, false},
	} {
		v, err := c.op.Program(c.t)
		require.NoError(t, err)
		fn, _, err := ir.Canonical(v)
		require.NoError(t, err)
		p, err := prepare(nil, fn)
		require.NoError(t, err)
		require.Equal(t, c.moves, p.moves, "%s of %v", c.op.Name, c.t)
	}
}
