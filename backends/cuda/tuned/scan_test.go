package tuned_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Cumulative sums of rows that a block holds are the library's to the bit, also in place.
func TestScansHaveTheLibrarysBits(t *testing.T) {
	r := newRig(t)
	for k, typ := range kernels.Cumsum.Types.List() {
		for i, d := range [][]int64{{1, 512}, {3, 768}, {2, 4096}, {5, 2048}, {1, 8192}} {
			if brief.Skips(i+k, 3) {
				continue
			}
			t.Run(fmt.Sprintf("%v %v", typ, d), func(t *testing.T) {
				r.TB = t
				plan, err := tuned.Plan(kernels.Cumsum, typ, d, tuned.Device{Processors: 132})
				require.NoError(t, err)
				if d[1] == 8192 && typ.Size() == 8 {
					require.Nil(t, plan, "there are registers for half as many")
					return
				}
				require.Len(t, plan.Steps, 1)
				library, err := kernels.Cumsum.Plan(typ, d)
				require.NoError(t, err)
				input := elements(typ, d[0], d[1])
				want := oneNaN(r.run(library, input, int64(len(input)), false, false), typ)
				for _, inPlace := range []bool{false, true} {
					require.Equal(t, want, oneNaN(r.run(plan, input, int64(len(input)), true, inPlace), typ))
				}
				shapes, err := tuned.PlanShapes(kernels.Cumsum, []kernels.Layout{kernels.Packed(typ, 1, d[0], d[1]), kernels.Packed(typ, 1, d[0], d[1])}, 1, tuned.Device{Processors: 132})
				require.NoError(t, err)
				require.Equal(t, plan.Steps[0].Program, shapes.Steps[0].Program)
			})
		}
	}
	for _, d := range [][]int64{{3, 256}, {3, 700}, {1, 33 * 256}, {0, 512}} {
		plan, err := tuned.Plan(kernels.Cumsum, kernels.Cumsum.Types.List()[0], d, tuned.Device{Processors: 132})
		require.NoError(t, err)
		require.Nil(t, plan, "%v is the library's", d)
	}
}
