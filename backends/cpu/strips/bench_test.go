package strips

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

func addTree() *ir.Func {
	t := newTree(isa.F32, isa.F32, isa.F32)
	t.store(2, t.bin(isa.ADD, t.load(0), t.load(1)))
	return t.f
}

func canonical(t testing.TB, text string) *ir.Func {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	return f
}

func benchmark(b *testing.B, f *ir.Func, n, slots, threads int) {
	k := mustCompile(b, f)
	kept = nil
	l := flat(n, 256)
	for range slots {
		l.Slots = append(l.Slots, view(isa.F32, make([]float32, n)))
	}
	pool := workers.New(threads)
	b.SetBytes(int64(4 * n * slots))
	b.ReportAllocs()
	for b.Loop() {
		if err := k.Run(l, pool); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdd1K(b *testing.B)   { benchmark(b, addTree(), 1024, 3, 2) }
func BenchmarkAdd64K(b *testing.B)  { benchmark(b, addTree(), 1<<16, 3, 1) }
func BenchmarkAdd16M(b *testing.B)  { benchmark(b, addTree(), 1<<24, 3, 1) }
func BenchmarkAdd16M2(b *testing.B) { benchmark(b, addTree(), 1<<24, 3, 2) }

func BenchmarkChain(b *testing.B) {
	benchmark(b, canonical(b, `
program chain
slot x f32
slot y f32
slot o f32
  ldg.f32 x, x[index]
  ldg.f32 y, y[index]
  fma.f32 t, x, y, x
  mul.f32 t, t, 0x1p-1
  sub.f32 t, t, y
  max.f32 t, t, 0x0p+0
  stg.f32 t, o[index]
  exit`), 1<<16, 3, 1)
}

func BenchmarkExp(b *testing.B) {
	benchmark(b, canonical(b, `
program e
slot x f32
slot o f32
  ldg.f32 x, x[index]
  exp.f32 x, x
  stg.f32 x, o[index]
  exit`), 1<<16, 2, 1)
}

func BenchmarkGemm(b *testing.B) {
	benchmark(b, canonical(b, `
program gemm
slot a f32
slot b f32
slot c f32
  sreg g, global_lane
  div.u64 row, g, 256
  rem.u64 col, g, 256
  mul.u64 ao, row, 1024
  mul.u64 bo, col, 4
  mov.f32 s, 0x0p+0
  loop 256, end
  ldg.f32 x, a[ao]
  ldg.f32 y, b[bo]
  fma.f32 s, x, y, s
  add.u64 ao, ao, 4
  add.u64 bo, bo, 1024
end:
  stg.f32 s, c[index]
  exit`), 1<<16, 3, 1)
}
