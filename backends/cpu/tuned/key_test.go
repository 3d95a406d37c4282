package tuned_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// TestPlansDoNotDependOnEarlierOnes makes plans of many sizes, one after the other in
// both orders: their programs, which are kept for later plans, are those that each has
// when it is the first.
func TestPlansDoNotDependOnEarlierOnes(t *testing.T) {
	brief.Alone(t)
	type call struct {
		name string
		plan func() (*kernels.Plan, error)
	}
	var calls []call
	sizes := []int64{2, 16, 64, 65, 128, 256, 257, 512, 4096, 4097, 8192, 8193, 16384, 70000}
	for _, op := range kernels.All {
		for i, typ := range []isa.Type{isa.F32, isa.BF16, isa.I8} {
			if !op.Axes || !op.Types.Has(typ) || brief.On() && i == 1 {
				continue
			}
			out := typ
			if op.Operands[len(op.Operands)-1].Kind == kernels.Index {
				out = isa.I64
			}
			for _, n := range sizes {
				calls = append(calls, call{fmt.Sprintf("%s %v, %d × 3", op.Name, typ, n), func() (*kernels.Plan, error) {
					return tuned.Plan(op, typ, []int64{3, n}, 2)
				}})
				if len(op.Operands) != 2 {
					continue
				}
				for _, cols := range []int64{3, 20, 100} {
					x := kernels.Layout{Type: typ, Shape: []int64{cols, n}, Stride: []int64{1, cols}}
					y := kernels.Layout{Type: out, Shape: x.Shape, Stride: x.Stride}
					if op.Reduces || out != typ {
						y = kernels.Packed(out, cols)
					}
					calls = append(calls, call{fmt.Sprintf("%s %v, %d columns of %d", op.Name, typ, cols, n), func() (*kernels.Plan, error) {
						return tuned.PlanShapes(op, []kernels.Layout{x, y}, 1, 2)
					}})
				}
			}
		}
	}
	texts := func(c call) (list []string) {
		p, err := c.plan()
		require.NoError(t, err, c.name)
		for i := 0; p != nil && i < len(p.Steps); i++ {
			list = append(list, isa.Disassemble(p.Steps[i].Program.Program))
		}
		return list
	}
	alone := map[string][]string{}
	for _, c := range calls {
		tuned.ForgetPrograms()
		alone[c.name] = texts(c)
	}
	for range 2 {
		tuned.ForgetPrograms()
		for _, c := range calls {
			require.Equal(t, alone[c.name], texts(c), c.name)
		}
		slices.Reverse(calls)
	}
}
