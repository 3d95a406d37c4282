package ir

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/progen"
)

// shapes make programs of about n instructions that stress different passes.
var shapes = []struct {
	name string
	make func(n int) string
}{
	{"chain", func(n int) string {
		var b strings.Builder
		b.WriteString("program chain\nslot a f32\nslot b f32\nslot c f32\n  ldg.f32 x, a[index]\n  ldg.f32 y, b[index]\n  mov.f32 t, x\n")
		for i := 0; i < n-5; i++ {
			op := []string{"add", "mul", "max", "sub"}[i%4]
			fmt.Fprintf(&b, "  %s.f32 t, t, %s\n", op, []string{"y", "x", "0x1.8p+1"}[i%3])
		}
		b.WriteString("  stg.f32 t, c[index]\n  exit\n")
		return b.String()
	}},
	{"wide", func(n int) string {
		var b strings.Builder
		b.WriteString("program wide\nslot a f32\nslot c u8\n  ldg.f32 x, a[index]\n")
		for i := 0; i < n/3; i++ {
			fmt.Fprintf(&b, "  mul.f32 t, x, %d.5\n  add.f32 t, t, x\n  stg.f32 t, c[%d]\n", i, 4*i)
		}
		b.WriteString("  exit\n")
		return b.String()
	}},
	{"guards", func(n int) string {
		var b strings.Builder
		b.WriteString("program guards\nslot a i32\nslot c i32\n  ldg.i32 x, a[index]\n  mov.i32 s, 0\n")
		for i := 0; i < n/3; i++ {
			fmt.Fprintf(&b, "  set.lt.i32 p, x, %d\n  bra out, p\n  add.i32 s, s, x\n", i)
		}
		b.WriteString("out:\n  stg.i32 s, c[index]\n  exit\n")
		return b.String()
	}},
	{"diamonds", func(n int) string {
		var b strings.Builder
		b.WriteString("program diamonds\nslot a i32\nslot c i32\n  ldg.i32 x, a[index]\n  mov.i32 s, 0\n  mov.i32 u, 1\n")
		for i := 0; i < n/5; i++ {
			fmt.Fprintf(&b, "  set.lt.i32 p, x, %[1]d\n  bra e%[1]d, p\n  add.i32 s, s, u\n  bra j%[1]d\ne%[1]d:\n  mul.i32 u, u, s\nj%[1]d:\n", i)
		}
		b.WriteString("  add.i32 s, s, u\n  stg.i32 s, c[index]\n  exit\n")
		return b.String()
	}},
	{"nest", func(n int) string { // ifs inside ifs, which leave values behind
		var b strings.Builder
		b.WriteString("program nest\nslot a i32\nslot c i32\n  ldg.i32 x, a[index]\n  mov.i32 s, 0\n")
		k := n / 4
		for i := 0; i < k; i++ {
			fmt.Fprintf(&b, "  set.lt.i32 p, x, %[1]d\n  bra e%[1]d, p\n  add.i32 s, s, x\n", i)
		}
		for i := k - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "  mul.i32 s, s, 3\ne%d:\n", i)
		}
		b.WriteString("  stg.i32 s, c[index]\n  exit\n")
		return b.String()
	}},
	{"loops", func(n int) string {
		var b strings.Builder
		b.WriteString("program loops\nslot a u32\nslot c u32\n  ldg.u32 x, a[index]\n  mov.u32 s, 0\n  mov.u32 t, 0\n")
		for i := 0; i < n/6; i++ {
			fmt.Fprintf(&b, "  loop 3, d%[1]d\n  add.u32 s, s, t\n  add.u32 t, t, x\n  set.lt.u32 p, s, 100\n  bra d%[1]d, p\n  xor.u32 s, s, %[1]d\nd%[1]d:\n", i)
		}
		b.WriteString("  stg.u32 s, c[index]\n  exit\n")
		return b.String()
	}},
}

func BenchmarkVerifyAndCanonical(b *testing.B) {
	for _, sh := range shapes {
		for _, n := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", sh.name, n), func(b *testing.B) {
				p, err := isa.Assemble("bench", sh.make(n))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					v, err := isa.Verify(p)
					if err != nil {
						b.Fatal(err)
					}
					if _, _, err := Canonical(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	for _, sh := range shapes {
		for _, n := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", sh.name, n), func(b *testing.B) {
				v := verified(b, sh.make(n))
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := Canonical(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	b.Run("random/100", func(b *testing.B) {
		v := verify(b, progen.New(isatest.FromSeed(7), progen.Config{Size: 70, Lanes: true}).Program)
		b.ReportMetric(float64(len(v.Program.Insts)), "insts")
		for b.Loop() {
			if _, _, err := Canonical(v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkBytes(b *testing.B) {
	f := canonical(b, verified(b, shapes[0].make(100)))
	for b.Loop() {
		f.Hash()
	}
}
