package tuned_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Places of extremes are the library's in rows of which most is NaN, of any sign and payload, or
// infinite, or equal: what is looked for as if there were no NaN is found again where there is.
func TestPlacesAmongNaNs(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	of := func(bits ...uint32) func() uint32 { return func() uint32 { return bits[r.IntN(len(bits))] } }
	small := func() uint32 { return math.Float32bits(float32(r.IntN(5) - 2)) }
	kinds := []func() uint32{
		of(0xff800000), of(0x7f800000), of(0x7fc00000), of(0, 1<<31), of(0x7f800000, 0xff800000), of(0xff800000, 0xffffffff, 0x7f800001), of(0x7f7fffff, 0xff7fffff), small,
	}
	nans := []uint32{0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc00000, 0xffc00000}
	for _, cols := range []int64{257, 300, 512, 1000, 4096, 8193, 40_000} {
		const rows = 48
		x := words(rows * cols * 4)
		for row := range int64(rows) {
			kind := kinds[row%int64(len(kinds))]
			for i := range cols {
				put(x, isa.F32, row*cols+i, uint64(kind()))
			}
			for range []int{0, 1, 2, 5}[row/8%4] { // few NaNs
				put(x, isa.F32, row*cols+r.Int64N(cols), uint64(nans[r.IntN(len(nans))]))
			}
			if row >= 32 { // an infinity
				put(x, isa.F32, row*cols+r.Int64N(cols), uint64(of(0x7f800000, 0xff800000)()))
			}
		}
		for _, op := range []*kernels.Op{kernels.Argmax, kernels.Argmin} {
			own, err := tuned.Plan(op, isa.F32, []int64{rows, cols}, 2)
			require.NoError(t, err)
			theirs, err := op.Plan(isa.F32, []int64{rows, cols})
			require.NoError(t, err)
			agree(t, own, theirs, x, isa.I64, rows*cols, rows, false)
		}
	}
}
