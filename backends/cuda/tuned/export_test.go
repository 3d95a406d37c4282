package tuned

import "github.com/hologram-project/hologram/isa"

// Quotients is a program that divides as softmax does: y = z/s.
func Quotients() (*isa.Verified, error) {
	return program("quotients", func(w *writer) {
		w.t, w.acc = isa.F32, isa.F32
		w.line("program quotients\nslot s f32\nslot z f32\nslot y f32\n  ldg.f32 s, s[index]\n  ldg.f32 z, z[index]")
		w.reciprocal("s")
		w.divide([]string{"z"}, "s", "")
		w.line("  stg.f32 z, y[index]\n  exit")
	})
}
