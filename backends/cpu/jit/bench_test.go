package jit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
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

// hundred is a program of a hundred instructions, with constants of its own.
func hundred(seed int) string {
	var b strings.Builder
	b.WriteString("program p\nslot x f32\nslot y f32\nslot z f32\nldg.f32 a, x[index]\nldg.f32 b, y[index]\n")
	for i := range 32 {
		fmt.Fprintf(&b, "mul.f32 t, a, %d.%d5\nadd.f32 a, t, b\nmax.f32 b, b, t\n", 1+i, seed)
	}
	b.WriteString("stg.f32 b, z[index]\nexit\n")
	return b.String()
}

// BenchmarkCompiling is what becomes of a program of a hundred instructions, stage by stage.
func BenchmarkCompiling(b *testing.B) {
	texts := make([]string, 64)
	programs, verified, functions := make([]*isa.Program, len(texts)), make([]*isa.Verified, len(texts)), make([]*ir.Func, len(texts))
	stages := []struct {
		name string
		do   func(i int) (err error)
	}{
		{"assembled", func(i int) (err error) { programs[i], err = isa.Assemble("test.atlas", texts[i]); return }},
		{"verified", func(i int) (err error) { verified[i], err = isa.Verify(programs[i]); return }},
		{"canonical", func(i int) (err error) { functions[i], _, err = ir.Canonical(verified[i]); return }},
		{"machine code", func(i int) error {
			k, err := jit.Compile(nil, functions[i], jit.AVX512, nil)
			if err == nil {
				k.Release()
			}
			return err
		}},
	}
	if err := jit.Available(jit.AVX512); err != nil {
		b.Skip(err)
	}
	for _, stage := range stages {
		for i := range texts {
			texts[i] = hundred(i)
			require.NoError(b, stage.do(i))
		}
		b.Run(stage.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := stage.do(i % len(texts)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
