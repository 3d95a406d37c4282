package tuned

import "github.com/hologram-project/hologram/isa"

// Powers of e that a lane has several of: where no exponent is far from 0, the bounds
// and the scaling in two steps of isa/math's expansion do nothing, and what is left of
// it takes half the instructions. The bits are the same.

// nearest is how far from 0 an exponent is at most for the short way: e^±nearest are
// normal numbers, and not smaller than divide's smallest.
const nearest = 66

// exps makes e^z of each z, and finds whether all exponents were near.
func (w *writer) exps(z []string, near, label string) {
	if w.acc != isa.F32 {
		for _, z := range z {
			w.line("  exp.%v %s, %[2]s", w.acc, z)
		}
		return
	}
	for i, z := range z {
		w.line("  abs.f32 t, %s", z)
		if i > 0 {
			w.line("  max.f32 t, t, far")
		}
		w.line("  mov.f32 far, t")
	}
	w.line("  set.le.f32 %s, far, %d.0\n  bra short%s, %[1]s", near, nearest, label)
	for _, z := range z {
		w.line("  exp.f32 %s, %[1]s", z)
	}
	w.line("  bra done%s\nshort%[1]s:", label)
	for _, z := range z {
		w.short(z)
	}
	w.line("done%s:", label)
}

// short is isa/math/exp.f32.atlas without what a near exponent does not need: k stands
// in t's low bits, and goes to the exponent of p at once.
func (w *writer) short(z string) {
	w.line("  fma.f32 t, %s, 0x1.715476p+0, 0x1.8p+23\n  sub.f32 k, t, 0x1.8p+23", z)
	w.line("  fma.f32 r, k, -0x1.62e4p-1, %s\n  fma.f32 r, k, -0x1.7f7d1cp-20, r\n  fma.f32 p, 0x1.684fcp-10, r, 0x1.123beep-7", z)
	for _, c := range []string{"0x1.555b9ap-5", "0x1.55548ep-3", "0x1.fffff8p-2", "0x1p+0", "0x1p+0"} {
		w.line("  fma.f32 p, p, r, %s", c)
	}
	w.line("  bitcast.u32.f32 i, t\n  shl.u32 i, i, 23\n  bitcast.u32.f32 s, p\n  add.u32 s, s, i\n  bitcast.f32.u32 %s, s", z)
}
