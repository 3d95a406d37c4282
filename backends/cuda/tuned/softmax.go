package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// softmax reads each element once where a block can hold a row, or several that
// meet; of longer rows a block has a chunk.
func softmax(t isa.Type, rows, cols int64, d Device) (*kernels.Plan, error) {
	if cols > 2*chunk { // two a block holds
		if p, ok, err := meetingSoftmax(t, rows, cols, d); ok || err != nil {
			return p, err
		}
	}
	together := int64(16)
	if cols <= warp {
		together = 8 // rows: each takes a predicate, of which a program has 16
	}
	s, ok := shapeFor(kernels.Accumulator(t), rows, cols, d.Processors, together, exactRegisters)
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
		for r := range s.rows { // an element seen twice changes nothing
			w.combine("x", "max", r, s, name("m", r, 0))
		}
		for r := range s.rows {
			w.exponentials(tileRow(r, s), name("m", r, 0), fmt.Sprint(r))
			w.mask("x", r, s, "-0.0")
			w.combine("x", "add", r, s, name("s", r, 0))
		}
		for r := range s.rows {
			w.reciprocal(name("s", r, 0))
			w.divide(tileRow(r, s), name("s", r, 0), fmt.Sprint(r))
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

// tileRow are the registers of a lane's elements of row r.
func tileRow(r int64, s shape) (x []string) {
	for j := range s.elements {
		x = append(x, name("x", r, j))
	}
	return x
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

// divide divides by s, of which reciprocal has been told, what exponentials has made,
// which has said whether some may be tiny.
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
	w.line("  mov.u32 least, 0xffffffff\n  bra counted%s, near%[1]s", label)
	for _, z := range z { // as integers, less 1, so that 0 is the largest
		w.line("  bitcast.u32.f32 bits, %s\n  sub.u32 bits, bits, 1\n  min.u32 least, least, bits", z)
	}
	w.line("counted%s:", label)
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

// exponentials makes e^(x − m) of each x, and notes for divide whether all are near.
func (w *writer) exponentials(x []string, m, label string) {
	for _, x := range x {
		w.line("  sub.%v %s, %[2]s, %s", w.acc, x, m)
	}
	w.exps(x, "near"+label, label)
}
