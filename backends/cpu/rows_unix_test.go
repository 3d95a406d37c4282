//go:build unix

package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// productsOnTheBrink has products of shapes m, n, k whose matrices end, or begin, where nobody may
// touch what is beside them, A and B as they stand and transposed, and in more ways the result too.
func productsOnTheBrink(t *testing.T, b *bench, r *rand.Rand, typ isa.Type, ways int, shapes [][3]int64) {
	for _, s := range shapes {
		for how := range ways {
			x, y, z := kernels.Packed(typ, s[0], s[2]), kernels.Packed(typ, s[2], s[1]), kernels.Packed(typ, s[0], s[1])
			if how&1 != 0 {
				y.Stride[0], y.Stride[1] = 1, s[2]
			}
			if how&4 != 0 {
				x.Stride[0], x.Stride[1] = 1, s[0]
			}
			if how&8 != 0 {
				z.Stride[0], z.Stride[1] = 1, s[0]
			}
			plan, err := kernels.Gemm.Whole([]kernels.Layout{x, y, z})
			require.NoError(t, err)
			onTheBrink(t, b, r, plan, typ, how&2 != 0, fmt.Sprint(typ, s, how), s[0]*s[2], s[2]*s[1], s[0]*s[1])
		}
	}
}

// TestFewRowsAtTheEndOfMemory: rows that are missing in a vector, and what is fetched ahead, are not there.
func TestFewRowsAtTheEndOfMemory(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		r := rand.New(rand.NewPCG(45, 46))
		for _, typ := range []isa.Type{isa.F32, isa.F64} {
			productsOnTheBrink(t, b, r, typ, 8, [][3]int64{{1, 3, 300}, {3, 1, 513}, {5, 2, 1030}, {7, 6, 1024}, {6, 3, 2049}, {9, 1, 1100},
				{24, 2, 1024}, {1, 300, 1030}, {1500, 3, 2}, {3, 1501, 5}})
		}
	})
}

// TestUnitsAtTheEndOfMemory: nor are the rows, columns and steps of k that a tile lacks.
func TestUnitsAtTheEndOfMemory(t *testing.T) {
	eachUnits(t, 1, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(47, 48))
		productsOnTheBrink(t, b, r, isa.BF16, 8, [][3]int64{{17, 1, 64}, {45, 3, 700}, {30, 7, 33}, {1, 1000, 600}, {9, 35, 100}, {33, 50, 31}})
	})
}

// TestLinesAtTheEndOfMemory: nor are steps of k that rows along it lack, or a column of integers, also where its
// elements lie apart and are packed first.
func TestLinesAtTheEndOfMemory(t *testing.T) {
	withUnits(t, 1, []gemm.Units{gemm.Words, gemm.Tiles}, func(t *testing.T, b *bench) {
		r := rand.New(rand.NewPCG(51, 52))
		for i, s := range [][2]int64{{70, 65}, {150, 31}, {80, 64}, {35, 700}, {5, 16500}, {129, 33}} { // 16500: more than is packed in a call
			for how := range 4 {
				typ := shortIntegers[(i+how)%4]
				m, k, apart := s[0], s[1], []int64{1, 3}[how>>1]
				x, y, z := kernels.Packed(typ, m, k), kernels.Packed(typ, k, 1), kernels.Packed(typ, m, 1)
				y.Stride[0] = apart
				plan, err := kernels.Gemm.Whole([]kernels.Layout{x, y, z})
				require.NoError(t, err)
				onTheBrink(t, b, r, plan, typ, how&1 != 0, fmt.Sprint(typ, s, how), m*k, (k-1)*apart+1, m)
			}
		}
	})
}

// TestTilesAtTheEndOfMemory: nor are those of a panel of columns that is packed, of a square that is
// transposed on the way, or of a result that lies by columns.
func TestTilesAtTheEndOfMemory(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		r := rand.New(rand.NewPCG(49, 50))
		productsOnTheBrink(t, b, r, isa.F32, 16, [][3]int64{{1027, 70, 20}, {17, 35, 33}, {30, 71, 18}, {5, 33, 40}})
		productsOnTheBrink(t, b, r, isa.F64, 16, [][3]int64{{513, 52, 20}, {9, 19, 33}, {29, 39, 17}, {3, 34, 40}})
	})
}
