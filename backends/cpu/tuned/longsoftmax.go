package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// longSoftmax has softmax of rows that no near cache holds, or that are few: as the library
// has it, but that the exponentials are kept where they were summed, in the output, or beside
// it where that is narrower, and not computed again for the quotients.
func longSoftmax(t isa.Type, r walk) (*kernels.Plan, error) {
	elements, acc := r.rows*r.cols, kernels.Accumulator(t)
	if acc != t && elements > mostKept || r.rows*(r.cols/chunk+1) >= 1<<31 {
		return nil, nil
	}
	p := &plan{}
	x, y := r.operand(t), operand(1, t)
	flat := func(b kernels.Binding) kernels.Binding {
		b.Shape, b.Stride = []int64{elements}, []int64{1}
		return b
	}
	across := func(b kernels.Binding, pitch, step int64) kernels.Binding {
		b.Shape, b.Stride = []int64{r.rows, r.cols}, []int64{pitch, step}
		return b
	}
	m, s, e := p.room(acc, r.rows), p.room(acc, r.rows), flat(y)
	if acc != t {
		e = p.room(acc, elements)
	}
	p.rows("max", x, m, acc, r)
	between, chunks := p.parts(key{what: "exponentials of parts", t: t, out: acc}, func(w *writer, n int) { w.exponentials(n) }, r, x, m, e)
	p.rows("add", between, s, acc, walk{r.rows, chunks, chunks, 1})
	p.add(key{what: "quotients of rows", t: t}, func(w *writer) {
		w.line("program quotients\nslot e %v\nslot s %[1]v\nslot y %v\n  ldg.%[1]v z, e[index]\n  ldg.%[1]v s, s[index]\n  div.%[1]v z, z, s", w.acc, w.t)
		w.storeAs(w.t, "z", "y[index]")
		w.line("  exit")
	}, kernels.Step{Slots: []kernels.Binding{across(e, r.cols, 1), across(s, 1, 0), across(y, r.cols, 1)}, Shape: []int64{r.rows, r.cols}})
	return p.done()
}

// exponentials sums those of so many chunks of a row, and keeps them.
func (w *writer) exponentials(n int) {
	w.line("program exponentials_of_part\nslot x %v\nslot y %v\nslot m %[2]v\nslot e %[2]v", w.t, w.acc)
	w.partPlace(n)
	w.line("  mul.u64 of, row, %d\n  ldg.%v m, m[of]", w.acc.Size(), w.acc)
	kept := "at"
	w.partTo(w.chunks("add", n, func() {
		w.load("x")
		if w.t != w.acc {
			w.line("  mul.u64 wide, at, %d", w.acc.Size()/w.t.Size())
			kept = "wide"
		}
		w.line("  sub.%v z, z, m\n  exp.%[1]v z, z\n  stg.%[1]v z, e[%s]", w.acc, kept)
	}))
}
