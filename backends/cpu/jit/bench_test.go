package jit_test

import (
	"fmt"
	"testing"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// BenchmarkRun is a launch from the backend on, on one thread.
func BenchmarkRun(b *testing.B) {
	for _, op := range []string{"abs", "exp", "tanh", "sigmoid"} {
		text := fmt.Sprintf("program p\nslot x f32\nslot y f32\nldg.f32 v, x[index]\n%s.f32 v, v\nstg.f32 v, y[index]\nexit\n", op)
		for _, l := range []jit.Level{jit.AVX2, jit.AVX512} {
			for _, n := range []int{16, 1024, 32768, 1 << 20} {
				b.Run(fmt.Sprintf("%s/%v/%d", op, l, n), func(b *testing.B) {
					k := kernel(b, text, l)
					pool := workers.New(1)
					defer pool.Close()
					x, y := make([]float32, n), make([]float32, n)
					for i := range x {
						x[i] = float32(i%2000)/100 - 10
					}
					at := launch(n, nil, flat(b, isa.F32, x), flat(b, isa.F32, y))
					b.SetBytes(int64(8 * n))
					b.ReportAllocs()
					for b.Loop() {
						if err := k.Run(at, pool); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
