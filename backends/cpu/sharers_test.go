package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestRandomProductsOfManyThreads has products that share packed blocks among more threads than
// there are columns, chunks or rows for, of all types and layouts.
func TestRandomProductsOfManyThreads(t *testing.T) {
	brief.Alone(t)
	for _, threads := range []int{2, 5, 16, 64} {
		eachWidth(t, threads, func(t *testing.T, oracle, b *bench) {
			count, first := conformance.Seeds(brief.Or(30, 8))
			for i := first; i < first+uint64(count); i++ {
				r := rand.New(rand.NewPCG(i, 43))
				typ := []isa.Type{isa.F32, isa.F64, isa.F16, isa.BF16, isa.I32, isa.I64, isa.I8, isa.U16}[r.IntN(8)]
				dim := func() int64 {
					if r.IntN(5) == 0 {
						return 1 + r.Int64N(3)
					}
					return 1 + r.Int64N(40<<r.IntN(5))
				}
				c := productCase{t: typ, out: widerThan(typ, r.IntN(4)), m: dim(), n: dim(), k: dim(), howA: r.IntN(4), howB: r.IntN(4), howC: r.IntN(4),
					alpha: float64(r.IntN(3)), beta: float64(r.IntN(3)), special: r.IntN(3) == 0}
				switch r.IntN(4) {
				case 0:
					c.k = []int64{0, 1, 511, 512, 513, 1024, 1025, 1700}[r.IntN(8)]
				case 1:
					c.k = 1030
				}
				for c.m*c.n*c.k > 1<<24 {
					c.m, c.n = c.m/2+1, c.n/2+1
				}
				c.check(t, r, oracle, b)
			}
		})
	}
}
