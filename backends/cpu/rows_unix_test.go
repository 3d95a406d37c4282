//go:build unix

package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestFewRowsAtTheEndOfMemory has matrices that end, or begin, where nobody may touch what is
// beside them: rows that are missing in a vector, and what is fetched ahead, are not there.
func TestFewRowsAtTheEndOfMemory(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		r := rand.New(rand.NewPCG(45, 46))
		for _, typ := range []isa.Type{isa.F32, isa.F64} {
			for _, s := range [][3]int64{{1, 3, 300}, {3, 1, 513}, {5, 2, 1030}, {7, 6, 1024}, {6, 3, 2049}, {9, 1, 1100}, {24, 2, 1024}, {1, 300, 1030}, {1500, 3, 2}, {3, 1501, 5}} {
				for how := range 4 {
					x, y := kernels.Packed(typ, s[0], s[2]), kernels.Packed(typ, s[2], s[1])
					if how&1 != 0 {
						y = kernels.Packed(typ, s[1], s[2])
						y.Shape[0], y.Shape[1] = y.Shape[1], y.Shape[0]
						y.Stride[0], y.Stride[1] = y.Stride[1], y.Stride[0]
					}
					plan, err := kernels.Gemm.Whole([]kernels.Layout{x, y, kernels.Packed(typ, s[0], s[1])})
					require.NoError(t, err)
					onTheBrink(t, b, r, plan, typ, how&2 != 0, fmt.Sprint(typ, s, how), s[0]*s[2], s[2]*s[1], s[0]*s[1])
				}
			}
		}
	})
}
