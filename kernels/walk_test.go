package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Read where they lie, elements give the bits that copies give.
func TestWalks(t *testing.T) {
	brief.Alone(t)
	defer kernels.SetPacks(func(_, _ int64) bool { return false })()
	if !brief.On() {
		t.Run("reductions", TestReductionsOfShapes)
		t.Run("softmax", TestSoftmaxOfShapes)
		t.Run("losses", TestLossesOfShapes)
		t.Run("rows", func(t *testing.T) { rowsBitForBit(t, 1) })
	}

	// Dimensions in which nothing moves, and some that go backwards, on all of which rows end.
	r := rand.New(rand.NewPCG(14, 1))
	for n := range 12 {
		if brief.Skips(n, 6) {
			continue
		}
		shape := make([]int64, 1+r.IntN(5))
		for i := range shape {
			shape[i] = 1 + r.Int64N(7)
		}
		if r.IntN(3) == 0 {
			shape[r.IntN(len(shape))] *= 100
		}
		elements := func() int64 { l := kernels.Packed(isa.F32, shape...); return l.Elements() }
		for i := 0; elements() > 3000; i = (i + 1) % len(shape) { // the interpreter computes each
			shape[i] = (shape[i] + 1) / 2
		}
		if n == 0 { // more than a chunk, and than one level
			shape = []int64{5, 3, 601}
		}
		axes := r.IntN(len(shape) + 1)
		broadcast := func(typ isa.Type) *strided {
			l := layout(r, typ, r.IntN(2) == 0, shape...)
			for i := range shape {
				if r.IntN(2) == 0 {
					l.Stride[i] = 0
				}
			}
			return draw(r, l)
		}
		packed := func(s *strided) *strided {
			return &strided{Layout: kernels.Packed(s.Type, shape...), memory: s.cells}
		}
		out := func(typ isa.Type, shape ...int64) *strided { return draw(r, kernels.Packed(typ, shape...)) }
		for _, typ := range []isa.Type{isa.F32, isa.BF16, isa.F64, isa.I16} {
			what := fmt.Sprintf("%v %v, %d axes", typ, shape, axes)
			in := broadcast(typ)
			lead := len(shape) - axes
			for op, of := range map[*kernels.Op]isa.Type{kernels.ReduceSum: typ, kernels.ReduceMax: typ, kernels.Argmin: isa.I64} {
				require.Equal(t, on(t, op, axes, []*strided{packed(in), out(of, shape[:lead]...)}),
					on(t, op, axes, []*strided{in, out(of, shape[:lead]...)}), "%s of %s, strides %v", op.Name, what, in.Stride)
			}
			if !typ.Float() {
				continue
			}
			target := broadcast(typ)
			require.Equal(t, on(t, kernels.MSELoss, 0, []*strided{packed(in), packed(target), out(typ, 1)}),
				on(t, kernels.MSELoss, 0, []*strided{in, target, out(typ, 1)}), "mse_loss of %s, strides %v and %v", what, in.Stride, target.Stride)
		}
	}
}

// What makes little of much that is broadcast needs little memory.
func TestWhatIsBroadcastIsNotCopied(t *testing.T) {
	const rows, cols = 1 << 18, 1 << 14
	whole := func(typ isa.Type, rs, cs int64) kernels.Layout {
		return kernels.Layout{Type: typ, Shape: []int64{rows, cols}, Stride: []int64{rs, cs}}
	}
	one := kernels.Packed(isa.F32, 1)
	for _, strides := range [][2]int64{{0, 0}, {1, 0}, {0, 1}, {0, -1}, {-1, 0}, {0, 3}} {
		in := whole(isa.F32, strides[0], strides[1])
		for _, c := range []struct {
			op   *kernels.Op
			axes int
			l    []kernels.Layout
		}{
			{kernels.ReduceSum, 2, []kernels.Layout{in, one}}, {kernels.ReduceProd, 2, []kernels.Layout{in, one}},
			{kernels.ReduceMin, 2, []kernels.Layout{in, one}}, {kernels.ReduceMax, 2, []kernels.Layout{in, one}},
			{kernels.ReduceSum, 2, []kernels.Layout{whole(isa.I8, strides[0], strides[1]), kernels.Packed(isa.I64, 1)}},
			{kernels.Argmax, 2, []kernels.Layout{in, kernels.Packed(isa.I64, 1)}},
			{kernels.MSELoss, 0, []kernels.Layout{in, whole(isa.F32, 1, 0), one}}, {kernels.CrossEntropyLoss, 0, []kernels.Layout{in, in, one}},
			{kernels.LogSumExp, 2, []kernels.Layout{in, one, one}},
			{kernels.LogSumExp, 1, []kernels.Layout{in, kernels.Packed(isa.F32, rows), kernels.Packed(isa.F32, rows)}},
			{kernels.LayerNormParameterGradients, 2, []kernels.Layout{in, in, whole(isa.F32, 0, 1), whole(isa.F32, 1, 0), one, one}},
		} {
			l := slices.Clone(c.l)
			plan, err := c.op.PlanShapes(l, c.axes)
			require.NoError(t, err, c.op.Name)
			require.Less(t, plan.Workspace, int64(1<<29), "%s, %d axes, strides %v", c.op.Name, c.axes, strides) // of 1<<34
		}
	}
}
