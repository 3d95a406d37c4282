package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// BenchmarkContraction: a user's product, plain and with what follows it.
func BenchmarkContraction(b *testing.B) {
	l := jit.Detect()
	if l == jit.None {
		b.Skip("no machine code here")
	}
	for _, ty := range []isa.Type{isa.F32, isa.F64} {
		for _, c := range []struct {
			name  string
			parts []string
		}{{"plain", []string{byDivision, growing, indexed}}, {"relu", []string{byDivision, growing, relu, indexed}},
			{"gelu", []string{byDivision, growing, gelu, indexed}}, {"stored", []string{byLanes, growing, relu, stored}}, {"blocks", []string{byBlocks, growing, relu, stored}}} {
			for _, threads := range []int{1, 2} {
				for _, n := range []int64{64, 256, 512, 1024} {
					b.Run(fmt.Sprintf("%v/%s/threads=%d/n=%d", ty, c.name, threads, n), func(b *testing.B) {
						cp, err := cpu.NewFor(threads, l)
						require.NoError(b, err)
						v := verify(b, contractionText(ty, c.parts...))
						d, _ := cp.Open(0)
						f, _, err := ir.Canonical(v)
						require.NoError(b, err)
						k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
						require.NoError(b, err)
						defer k.Release()
						s, _ := d.NewStream()
						size := uint64(ty.Size())
						m := uint64(n)
						x := &backends.Launch{Params: []uint64{m, m, m, m * size, size, m * size, size}, Rank: 1, N: uint64(n * n),
							Grid: [3]uint32{uint32(n * n / 64), 1, 1}, Block: [3]uint32{64, 1, 1}, Record: new(backends.Record)}
						if c.name == "blocks" {
							x.Grid, x.Block = [3]uint32{uint32(n / 16), uint32(n / 4), 1}, [3]uint32{16, 4, 1}
						}
						x.Shape[0] = n * n
						r := rand.New(rand.NewPCG(1, 2))
						h := new(host)
						for range 4 {
							slot := h.block(int(n * n * int64(size)))
							copy(slot, floats(r, ty, n*n, false))
							w := backends.View{Addr: addr(slot), Bytes: int64(len(slot)), Type: ty, Rank: 1, Shape: x.Shape}
							w.Stride[0] = 1
							x.Slots = append(x.Slots, w)
						}
						best := time.Hour
						for b.Loop() {
							began := time.Now()
							_, err := s.Launch(k, x)
							best = min(best, time.Since(began))
							if err != nil {
								b.Fatal(err)
							}
						}
						runtime.KeepAlive(h)
						b.ReportMetric(min(float64(cpu.ContractedByRows(k)), 1), "by-rows")
						b.ReportMetric(float64(best.Nanoseconds())/1e3, "best-µs")
						b.ReportMetric(2*float64(n*n*n)/float64(best.Nanoseconds()), "best-Gflop/s")
					})
				}
			}
		}
	}
}
