package tuned

import (
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// pastCaches is from how many bytes of exponentials on these are made in memory's order, and summed
// by a pass of their own: stored past the caches, of 2^26 f64 they take 57 ms rather than 100, while
// of f32 they take as long, and what a cache holds, 0.9 of it, where they are summed as they are made.
var pastCaches = int64(64 << 20)

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
	each := func(what string, from, of, to kernels.Binding, write func(w *writer)) {
		p.add(key{what: what, t: from.Type, out: to.Type}, func(w *writer) {
			w.acc = acc
			w.line("program %s\nslot x %v\nslot m %v\nslot y %v\n  ldg.%[2]v z, x[index]\n  ldg.%[3]v m, m[index]", strings.ReplaceAll(what, " ", "_"), from.Type, acc, to.Type)
			write(w)
			w.storeAs(to.Type, "z", "y[index]")
			w.line("  exit")
		}, kernels.Step{Slots: []kernels.Binding{across(from, r.cols, 1), across(of, 1, 0), across(to, r.cols, 1)}, Shape: []int64{r.rows, r.cols}})
	}
	if elements*int64(acc.Size()) < pastCaches {
		between, chunks := p.parts(key{what: "exponentials of parts", t: t, out: acc, dealt: inOrder}, func(w *writer, n int) { w.exponentials(n) }, r, x, m, e)
		p.rows("add", between, s, acc, walk{r.rows, chunks, chunks, 1})
	} else {
		each("exponentials of rows", x, m, e, func(w *writer) {
			w.widen("z")
			w.line("  sub.%v z, z, m\n  exp.%[1]v z, z", acc)
		})
		p.rows("add", e, s, acc, r)
	}
	each("quotients of rows", e, s, y, func(w *writer) { w.line("  div.%v z, z, m", acc) })
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
