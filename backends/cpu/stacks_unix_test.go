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

// TestStacksAtTheEndOfMemory has stacks whose last matrix ends, or first one begins, where
// nobody may touch what is beside it.
func TestStacksAtTheEndOfMemory(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		r := rand.New(rand.NewPCG(33, 34))
		for _, typ := range []isa.Type{isa.F32, isa.F64, isa.F16, isa.I8} {
			for _, s := range [][4]int64{{11, 1, 1, 19}, {1, 1, 1, 64}, {17, 1, 1, 75}, {5, 3, 3, 3}, {7, 13, 1, 17}, {7, 1, 13, 17}, {9, 16, 1, 8}, {4, 5, 17, 9}, {6, 2, 33, 0}} {
				x, y, z := kernels.Packed(typ, s[0], s[1], s[3]), kernels.Packed(typ, s[0], s[3], s[2]), kernels.Packed(typ, s[0], s[1], s[2])
				plan, err := kernels.Gemm.Whole([]kernels.Layout{x, y, z})
				require.NoError(t, err)
				for _, before := range []bool{false, true} {
					onTheBrink(t, b, r, plan, typ, before, fmt.Sprint(typ, s, before), s[0]*s[1]*s[3], s[0]*s[3]*s[2], s[0]*s[1]*s[2])
				}
			}
		}
	})
}

// onTheBrink runs a plan on operands of so many elements that end, or begin, where nobody may
// touch what is beside them, and on the same ones elsewhere: both give the same bits.
func onTheBrink(t *testing.T, b *bench, r *rand.Rand, plan *kernels.Plan, typ isa.Type, before bool, what string, elements ...int64) {
	var h host
	room := brink(t, before)
	var at, beside [][]byte
	for _, n := range elements {
		n *= int64(typ.Size())
		at, beside = append(at, room(int(n))), append(beside, h.block(int(n)))
		fill(r, at[len(at)-1])
		copy(beside[len(beside)-1], at[len(at)-1])
	}
	scalars := []uint64{scalarCell(typ, 2), scalarCell(typ, 1)}
	b.plan(plan, at, scalars)
	b.plan(plan, beside, scalars)
	require.Equal(t, beside[2], at[2], what)
}
