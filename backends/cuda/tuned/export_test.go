package tuned

import "github.com/hologram-project/hologram/isa"

// Quotients is a program that divides as softmax does: y = z/s.
func Quotients() (*isa.Verified, error) {
	return program("quotients", func(w *writer) {
		w.t, w.acc = isa.F32, isa.F32
		w.line("program quotients\nslot s f32\nslot z f32\nslot y f32\n  ldg.f32 s, s[index]\n  ldg.f32 z, z[index]")
		w.line("  set.lt.f32 near, z, z")
		w.reciprocal("s")
		w.divide([]string{"z"}, "s", "")
		w.line("  stg.f32 z, y[index]\n  exit")
	})
}

// Exps is a program that makes powers of e as softmax does: y = e^z.
func Exps() (*isa.Verified, error) {
	return program("exps", func(w *writer) {
		w.t, w.acc = isa.F32, isa.F32
		w.line("program exps\nslot z f32\nslot y f32\n  ldg.f32 z, z[index]")
		w.exps([]string{"z"}, "near", "")
		w.line("  stg.f32 z, y[index]\n  exit")
	})
}
