package cuda_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Products by code of our own have the interpreter's bits, in tiles of all sizes,
// with edges, tails of k, several chunks and parts of them, alpha and beta.
func TestProducts(t *testing.T) {
	device(t)
	for _, typ := range []isa.Type{isa.F32, isa.F64} {
		for i, d := range [][]int64{
			{8, 8, 1}, {33, 40, 17}, {100, 100, 100}, {64, 96, 512}, {65, 130, 513}, {40, 36, 1600}, {31, 8, 2049},
			{700, 1030, 9}, {1100, 513, 16}, {2050, 1040, 7}, {3000, 2900, 3}, {1281, 2307, 2},
		} {
			for flags := range int64(4) {
				for _, few := range []int64{0, 1 << 40} {
					if few > 0 && d[2] <= kernels.ProductChunk || i > 6 && flags != int64(i%4) {
						continue
					}
					t.Run(fmt.Sprintf("%v %v %02b few %d", typ, d, flags, few), func(t *testing.T) {
						stored := func(rows, cols, flag int64) kernels.Layout {
							l := kernels.Packed(typ, rows, cols)
							if flag == 1 {
								l.Stride = []int64{1, rows}
							}
							return l
						}
						plan, err := kernels.PlanProduct(kernels.Gemm, []kernels.Layout{stored(d[0], d[2], flags&1), stored(d[2], d[1], flags>>1), stored(d[0], d[1], 0)}, few, kernels.ProductChunk)
						require.NoError(t, err)
						step := plan.Steps[0]
						require.NotNil(t, kernels.ProductOf(step.Program))
						r := &run{program: step.Program, grid: step.Grid, block: step.Block, shape: step.Shape}
						for _, p := range step.Params {
							v := p.Value
							if p.Scalar {
								v = isa.Convert(typ, isa.F64, math.Float64bits([]float64{[]float64{1, -0.75}[i%2], []float64{0, 1.5, -1}[i%3]}[v]))
							}
							r.params = append(r.params, v)
						}
						random := rand.New(rand.NewPCG(uint64(i), uint64(flags)))
						for slot, n := range []int64{d[0] * d[2], d[2] * d[1], d[0] * d[1]} {
							if slot == 2 && step.Slots[2].Operand == kernels.Workspace {
								n = step.Slots[2].Shape[0]
							}
							b := make([]byte, n*int64(typ.Size()))
							for e := range n {
								var c [8]byte
								v := random.NormFloat64()
								if random.IntN(50) == 0 {
									v = []float64{0, math.Copysign(0, -1), 1e-30, -1e-30, 1e30}[random.IntN(5)]
								}
								binary.LittleEndian.PutUint64(c[:], isa.Convert(typ, isa.F64, math.Float64bits(v)))
								copy(b[e*int64(typ.Size()):], c[:typ.Size()])
							}
							r.slots = append(r.slots, slotData{bytes: b})
						}
						r.compare(t)
					})
				}
			}
		}
	}
}
