package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// softmax reads each element once where a block can hold a row, or several that
// meet; of longer rows a block has a chunk.
func softmax(t isa.Type, rows, cols int64, d Device) (*kernels.Plan, error) {
	if cols > 2*chunk && d.Meet { // two a block holds
		if p, ok, err := meetingSoftmax(t, rows, cols); ok || err != nil {
			return p, err
		}
	}
	s, ok := shapeFor(kernels.Accumulator(t), rows, cols, d.Processors, 16, exactRegisters)
	if !ok {
		return spreadSoftmax(t, rows, cols)
	}
	blocks := ceil(rows, s.rows)
	if blocks > maxBlocks {
		return nil, nil
	}
	v, err := program(key{"softmax", t, t, s}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program softmax_tile\nslot x %v\nslot y %v", t, t)
		w.tile(s)
		for r := range s.rows {
			w.mask("x", r, s, "-inf")
			w.combine("x", "max", r, s, name("m", r, 0))
		}
		for r := range s.rows {
			for j := range s.elements {
				w.exponential(name("x", r, j), name("m", r, 0))
			}
			w.mask("x", r, s, "-0.0")
			w.combine("x", "add", r, s, name("s", r, 0))
		}
		for r := range s.rows {
			w.reciprocal(name("s", r, 0))
			var z []string
			for j := range s.elements {
				z = append(z, name("x", r, j))
			}
			w.divide(z, name("s", r, 0), fmt.Sprint(r))
		}
		w.storeRows(s)
		w.line("  exit")
	})
	if err != nil {
		return nil, err
	}
	one := step(v, blocks, []kernels.Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}}, s.params(rows, cols)...)
	one.InPlace = true
	return &kernels.Plan{Steps: []kernels.Step{one}}, nil
}

// Quotients of many numbers by one. With y = RN(1/s), q = RN(z y), and twice
//
//	r = z − q s, exactly by an FMA;  q = RN(q + r y)
//
// q is RN(z/s): the first correction leaves less than an ulp's error, and from
// there the second is right (P. Markstein, IBM J. Res. Dev. 34 (1990) 111), unless
// the bits of s's fraction are all ones, or z is so small that r is not exact.
// Either way the machine divides. It takes 0 ≤ z ≤ 1 ≤ s ≤ 2^21, or NaN.

// smallest is the exponent, as f32 has it, of the smallest z of the short way, but
// for 0: r is a multiple of z 2^−48, at least of 2^−144.
const smallest = 127 - 96

// reciprocal makes s_y, s_n and s_odd, for divide.
func (w *writer) reciprocal(s string) {
	if w.acc != isa.F32 {
		return
	}
	w.line("  div.f32 %s_y, 1.0, %[1]s\n  neg.f32 %[1]s_n, %[1]s", s)
	w.line("  bitcast.u32.f32 %s_odd, %[1]s\n  and.u32 %[1]s_odd, %[1]s_odd, 0x7fffff", s)
}

// divide divides by s, of which reciprocal has been told.
func (w *writer) divide(z []string, s, label string) {
	divide := func() {
		for _, z := range z {
			w.line("  div.%v %s, %[2]s, %s", w.acc, z, s)
		}
	}
	if w.acc != isa.F32 {
		divide()
		return
	}
	for i, z := range z { // as integers, less 1, so that 0 is the largest
		w.line("  bitcast.u32.f32 bits, %s\n  sub.u32 bits, bits, 1", z)
		if i == 0 {
			w.line("  mov.u32 least, bits")
		} else {
			w.line("  min.u32 least, least, bits")
		}
	}
	w.line("  set.lt.u32 tiny, least, 0x%x\n  bra divide%s, tiny", smallest<<23-1, label)
	w.line("  set.eq.u32 odd, %s_odd, 0x7fffff\n  bra divide%s, odd", s, label)
	for _, z := range z {
		w.line("  mul.f32 d, %s, %s_y", z, s)
		w.line("  fma.f32 e, d, %s_n, %s\n  fma.f32 d, e, %[1]s_y, d", s, z)
		w.line("  fma.f32 e, d, %s_n, %s\n  fma.f32 %[2]s, e, %[1]s_y, d", s, z)
	}
	w.line("  bra divided%s\ndivide%[1]s:", label)
	divide()
	w.line("divided%s:", label)
}

// exponential makes x e^(x − m).
func (w *writer) exponential(x, m string) {
	w.line("  sub.%v %s, %[2]s, %s\n  exp.%[1]v %[2]s, %[2]s", w.acc, x, m)
}
