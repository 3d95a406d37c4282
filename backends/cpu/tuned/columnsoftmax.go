package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// mostKept is for how many exponentials there is room beside an output.
const mostKept = 1 << 24

// columnSoftmax has softmax along columns: these are reduced to their largest elements,
// and to the sums of exponentials, which are kept in the output, or beside it where that is
// narrower. Between these lanes are elements, so that nothing else depends on how many
// rows there are, or columns.
func columnSoftmax(t isa.Type, matrices, rows, cols int64) (*kernels.Plan, error) {
	elements, acc := matrices*rows*cols, kernels.Accumulator(t)
	if !columnsFit(matrices, rows, cols) || acc != t && elements > mostKept {
		return nil, nil
	}
	p := &plan{}
	x, y := operand(0, t), operand(1, t)
	m, s, e := p.room(acc, matrices*cols), p.room(acc, matrices*cols), y
	if acc != t {
		e = p.room(acc, elements)
	}
	flat := func(b kernels.Binding) kernels.Binding {
		b.Shape, b.Stride = []int64{elements}, []int64{1}
		return b
	}
	across := func(b kernels.Binding, row int64) kernels.Binding { // a matrix's rows lie so far apart
		b.Shape, b.Stride = []int64{matrices, rows, cols}, []int64{max(row*rows, cols), row, 1}
		return b
	}
	step := func(what string, write func(w *writer), slots ...kernels.Binding) {
		p.add(key{what: what, t: t}, write, kernels.Step{Slots: slots, Shape: []int64{matrices, rows, cols}})
	}
	p.columns("max", flat(x), m, acc, matrices, rows, cols)
	step("exponentials of columns", func(w *writer) {
		w.line("program exponentials\nslot x %v\nslot m %v\nslot e %[2]v\n  ldg.%[1]v z, x[index]", w.t, w.acc)
		w.widen("z")
		w.line("  ldg.%v m, m[index]\n  sub.%[1]v z, z, m\n  exp.%[1]v z, z\n  stg.%[1]v z, e[index]\n  exit", w.acc)
	}, across(x, cols), across(m, 0), across(e, cols))
	p.columns("add", flat(e), s, acc, matrices, rows, cols)
	step("quotients of columns", func(w *writer) {
		w.line("program quotients\nslot e %v\nslot s %[1]v\nslot y %v\n  ldg.%[1]v z, e[index]\n  ldg.%[1]v s, s[index]\n  div.%[1]v z, z, s", w.acc, w.t)
		w.storeAs(w.t, "z", "y[index]")
		w.line("  exit")
	}, across(e, cols), across(s, 0), across(y, cols))
	return p.done()
}
