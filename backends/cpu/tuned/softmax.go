package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// mostParts is how many launches a call has for exponentials that are kept beside its output.
const mostParts = 64

// keptElements is for how many exponentials there is room beside an output.
var keptElements = int64(1 << 19)

// softmax keeps a row by itself: its largest element, then the exponentials, which
// are stored and summed in the written order, then the quotients. An output of 16-bit
// floats cannot keep the exponentials, which have room of their own: for so many rows
// as nearer caches hold, but for a bounded number of launches.
func softmax(t isa.Type, r walk) (*kernels.Plan, error) {
	rows, cols := r.rows, r.cols
	switch {
	case keeps(rows, cols):
	case !r.packed():
		return nil, nil
	case rows >= 1 && cols > alone:
		return longSoftmax(t, r)
	default:
		l, axes, err := kernels.Softmax.Layouts(t, []int64{rows, cols})
		if err != nil {
			return nil, nil
		}
		return blocks(kernels.Softmax, l, axes, rows, cols)
	}
	chunks := (cols + chunk - 1) / chunk
	p := &plan{}
	x, y := r.operand(t), operand(1, t)
	y.Shape, y.Stride = []int64{rows * cols}, []int64{1}
	slots, together := []kernels.Binding{x, y}, rows
	if acc := kernels.Accumulator(t); acc != t {
		together = min(rows, max(keptElements/cols, (rows+mostParts-1)/mostParts))
		slots = append(slots, p.room(acc, together*cols))
	}
	for first := int64(0); first < rows; first += together {
		k := key{what: "softmax", t: t, n: chunks, shifted: !r.packed()}
		p.step(k, func(w *writer) { w.softmax(int(chunks), k.shifted) },
			min(together, rows-first)*lanes, lanes, slots, uint64(cols), uint64(first), uint64(r.pitch-cols))
	}
	return p.done()
}

// softmax writes the program; in one that is shifted there are more elements between
// the input's rows than between the output's.
func (w *writer) softmax(chunks int, shifted bool) {
	kept, ratio := "y[at]", 1 // where exponentials are, and how much wider they are
	w.line("program softmax_row\nslot x %v\nslot y %[1]v", w.t)
	if w.t != w.acc {
		kept, ratio = "e[wide]", w.acc.Size()/w.t.Size()
		w.line("slot e %v", w.acc)
	}
	place := func() {
		if ratio > 1 {
			w.line("  sub.u64 wide, at, before\n  mul.u64 wide, wide, %d", ratio)
		}
	}
	w.line("param cols u64\nparam first u64     ; row\nparam more u64      ; elements between rows of x\nblock %d", lanes)
	w.rowPlace(chunks, "cols")
	load := func() { w.load("x") }
	if shifted {
		w.line("  ldp.u64 number, first\n  ldp.u64 more, more\n  cvt.u64.u32 shift, row\n  add.u64 shift, shift, number\n  mul.u64 shift, shift, more\n  mul.u64 shift, shift, %d", w.t.Size())
		load = func() {
			w.line("  add.u64 from, at, shift\n  ldg.%v z, x[from]", w.t)
			w.widen("z")
		}
	}
	w.line("  ldp.u64 first, first\n  mul.u64 before, first, cols\n  mul.u64 before, before, %d\n  add.u64 base, base, before", w.t.Size())
	w.line("  mov.u64 at, base\n  mov.%v m, -inf", w.acc)
	w.each("rounds", "left", func() {
		load()
		w.line("  max.%v m, m, z", w.acc)
	})
	w.line("  block_reduce_max.%v m, m\n  mov.u64 at, base", w.acc)

	sums := w.chunks("add", chunks, func() {
		load()
		place()
		w.line("  sub.%v z, z, m\n  exp.%[1]v z, z\n  stg.%[1]v z, %s", w.acc, kept)
	})
	w.tree("add", sums)

	w.line("  mov.u64 at, base")
	w.each("rounds", "left", func() {
		place()
		w.line("  ldg.%v z, %s\n  div.%[1]v z, z, s0", w.acc, kept)
		w.store()
	})
	w.line("  exit")
}
