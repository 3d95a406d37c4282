package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// BenchmarkCalls calls operations on one element, and add on 1,024. On a GPU that
// is the host's time alone, of calls that find room in what is under way.
func BenchmarkCalls(b *testing.B) {
	for _, name := range []string{"cpu", "cuda"} {
		ex, err := NewExecutor(name)
		if name == "cuda" && err != nil {
			b.Logf("no GPU: %v", err)
			continue
		}
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) { benchmarkCalls(b, ex) })
		require.NoError(b, ex.Close())
	}
}

func benchmarkCalls(b *testing.B, ex *Executor) {
	buffer := func(n int64) Operand {
		x, err := ex.Allocate(n, isa.F32, true)
		require.NoError(b, err)
		return Operand{Buffer: x}
	}
	x, y, one, out := buffer(1024), buffer(1024), buffer(1), buffer(4)
	for _, c := range []struct {
		name string
		call Call
	}{
		{"add of 1024", Call{Op: kernels.VectorAdd, Operands: []Operand{x, x, y}}},
		{"add", Call{Op: kernels.VectorAdd, Operands: []Operand{one, one, out}, Dims: []int64{1}}},
		{"reduce_sum", Call{Op: kernels.ReduceSum, Operands: []Operand{one, out}, Dims: []int64{1, 1}}},
		{"softmax", Call{Op: kernels.Softmax, Operands: []Operand{one, out}, Dims: []int64{1, 1}}},
		{"mse_loss", Call{Op: kernels.MSELoss, Operands: []Operand{one, one, out}, Dims: []int64{1}}},
		{"gemm", Call{Op: kernels.Gemm, Operands: []Operand{one, one, out}, Scalars: []Scalar{Float(1), Float(0)}, Dims: []int64{1, 1, 1, 0, 0}}},
	} {
		for _, try := range []bool{false, true} {
			name := c.name
			if try {
				name += ", try"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				c.call.Try = false
				_, err := ex.Call(&c.call)
				require.NoError(b, err)
				c.call.Try = try
				for i := 0; b.Loop(); i++ {
					if i%128 == 0 && ex.device.Info.Asynchronous {
						b.StopTimer()
						done, err := ex.Synchronize()
						require.NoError(b, err)
						require.NoError(b, done.Wait(time.Minute))
						b.StartTimer()
					}
					if _, err := ex.Call(&c.call); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	b.Run("allocate and free", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x, err := ex.Allocate(1024, isa.F32, false)
			if err != nil {
				b.Fatal(err)
			}
			x.Free()
		}
	})
}
