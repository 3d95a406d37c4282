package tuned_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Programs are found again by what they depend on: calls that need other ones have them, in
// whatever order they come.
func TestCallsOfOtherProgramsHaveThem(t *testing.T) {
	columns := func(t, out isa.Type, rows, cols int64) []kernels.Layout {
		return []kernels.Layout{{Type: t, Shape: []int64{cols, rows}, Stride: []int64{1, cols}}, kernels.Packed(out, cols)}
	}
	row := func(typ isa.Type, weight ...int64) (l []kernels.Layout) {
		for i, share := range kernels.LayerNorm.Rowwise().Shares {
			shape := [][]int64{{4, 1024}, weight, {4}}[share]
			l = append(l, kernels.Packed(kernels.LayerNorm.TypeOf(i, typ), shape...))
		}
		return l
	}
	rows := func(cols int64) []kernels.Layout {
		return []kernels.Layout{kernels.Packed(isa.F32, 4, cols), kernels.Packed(isa.F32, 4, cols)}
	}
	full, small := tuned.Device{Processors: 132, Meet: 8}, tuned.Device{Processors: 1}
	for name, c := range map[string]struct {
		op   *kernels.Op
		a, b []kernels.Layout
		d    tuned.Device
	}{
		"results":           {kernels.ReduceSum, columns(isa.BF16, isa.BF16, 2048, 64), columns(isa.BF16, isa.F32, 2048, 64), full},
		"four at once":      {kernels.ReduceSum, columns(isa.F32, isa.F32, 1280, 64), columns(isa.F32, isa.F32, 2048, 64), full},
		"rounds":            {kernels.ReduceSum, columns(isa.F32, isa.F32, 512, 256), columns(isa.F32, isa.F32, 768, 256), small},
		"along rows or not": {kernels.LayerNorm, row(isa.F32, 1024), row(isa.F32, 4, 1), full},
		"chunks of a block": {kernels.Softmax, rows(8 * kernels.ChunkElements), rows(16 * kernels.ChunkElements), full},
	} {
		t.Run(name, func(t *testing.T) {
			plan := func(l []kernels.Layout) *kernels.Plan {
				p, err := tuned.PlanShapes(c.op, l, 1, c.d)
				if c.op == kernels.Softmax {
					p, err = tuned.Plan(c.op, isa.F32, l[0].Shape, c.d)
				}
				require.NoError(t, err)
				require.NotNil(t, p)
				return p
			}
			a, b := plan(c.a), plan(c.b)
			last := func(p *kernels.Plan) any { return p.Steps[len(p.Steps)-1].Program }
			first := func(p *kernels.Plan) any { return p.Steps[0].Program }
			require.False(t, first(a) == first(b) && last(a) == last(b))
		})
	}
}

// What blocks that meet tell each other are the numbers between them, and nothing else.
func TestWhatIsToldLiesBetweenBlocks(t *testing.T) {
	for _, op := range []*kernels.Op{kernels.Softmax, kernels.ReduceSum, kernels.LogSoftmax, kernels.LayerNorm} {
		dims := []int64{3, 5 * kernels.ChunkElements}
		plan, err := tuned.Plan(op, isa.F32, dims, tuned.Device{Processors: 132, Meet: 8})
		require.NoError(t, err)
		require.Len(t, plan.Steps, 1)
		s := plan.Steps[0]
		require.Equal(t, 5, s.Meeting.Blocks, op.Name)
		for i, b := range s.Slots {
			require.Equal(t, b.Operand == kernels.Workspace, s.Meeting.Told>>i&1 != 0, "%s: slot %d", op.Name, i)
		}
	}
}
