// Package tuned has the CPU's own plans for operations of the library: Atlas
// programs in the written orders, shaped so that a row stays in the caches while
// it is worked on. They run on any backend, with the library's bits. Where a call
// has none, the library's plan is as good.
package tuned

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Plan returns a plan for an operation by so many threads, or nil where the library's own is as good.
func Plan(op *kernels.Op, t isa.Type, dims []int64, threads int) (*kernels.Plan, error) {
	if gathers[op] != nil {
		l, _, err := op.Layouts(t, dims)
		if err != nil {
			return nil, nil
		}
		return gathering(op, l)
	}
	if !op.Axes {
		return nil, nil
	}
	// The library refuses bad sizes in words.
	if _, err := op.Extent(t, dims); err != nil {
		return nil, nil
	}
	out := t
	if places[op] != "" {
		out = isa.I64
	}
	return along(op, t, out, walk{dims[0], dims[1], dims[1], 1}, threads)
}

// along returns a plan for an operation on rows.
func along(op *kernels.Op, t, out isa.Type, r walk, threads int) (*kernels.Plan, error) {
	rows, cols := r.rows, r.cols
	switch {
	case places[op] != "":
		return place(places[op], t, out, r)
	case combines[op] != "":
		return reduction(combines[op], t, out, r)
	case op == kernels.Softmax && r.step == 1 && r.pitch >= cols:
		return softmax(t, r)
	case !r.packed():
		return nil, nil
	case op.Rowwise() != nil:
		l, axes, err := op.Layouts(t, []int64{rows, cols})
		if err != nil {
			return nil, nil
		}
		return rowwise(op, l, axes)
	case op == kernels.Cumsum:
		return cumsum(t, out, rows, cols, threads)
	}
	return nil, nil
}

// PlanShapes returns a plan for operands with shapes, the rows of which are the last
// axes dimensions of the first, below 0 all, or nil where the library's own is as good.
func PlanShapes(op *kernels.Op, l []kernels.Layout, axes, threads int) (*kernels.Plan, error) {
	if gathers[op] != nil {
		return gathering(op, l)
	}
	if !op.Axes || len(l) != 2 && op.Rowwise() == nil || l[0].Elements() == 0 {
		return nil, nil
	}
	if axes < 0 {
		axes = len(l[0].Shape)
	}
	if op.Rowwise() != nil {
		return rowwise(op, l, axes)
	}
	lead := len(l[0].Shape) - axes
	if op == kernels.Cumsum && slices.Equal(l[0].Shape, l[1].Shape) {
		m, rows, cols, ok := l[0].Columns(lead)
		if out, _, _, same := l[1].Columns(lead); ok && same && m == out {
			return columnSums(l[0].Type, l[1].Type, m, rows, cols)
		}
	}
	if op == kernels.Softmax && slices.Equal(l[0].Shape, l[1].Shape) {
		m, rows, cols, ok := l[0].Columns(lead)
		if out, _, _, same := l[1].Columns(lead); ok && same && m == out {
			return columnSoftmax(l[0].Type, m, rows, cols)
		}
	}
	if !op.Reduces && op != kernels.Cumsum && op != kernels.Softmax || !l[1].Packed() {
		return nil, nil
	}
	if rows, cols, pitch, step, ok := l[0].Rows(lead); ok && step > 0 && (step == 1 || rows == 1 || step < pitch) {
		return along(op, l[0].Type, l[1].Type, walk{rows, cols, pitch, step}, threads)
	}
	if m, rows, cols, ok := l[0].Columns(lead); ok && combines[op] != "" {
		return columns(combines[op], l[0].Type, l[1].Type, m, rows, cols)
	} else if ok && places[op] != "" {
		return columnPlaces(places[op], l[0].Type, l[1].Type, m, rows, cols)
	}
	return nil, nil
}

// combines are the reductions, by what they repeat.
var combines = map[*kernels.Op]string{
	kernels.ReduceSum: "add", kernels.ReduceProd: "mul", kernels.ReduceMin: "min", kernels.ReduceMax: "max",
}

// places are what finds where a row's reduction is.
var places = map[*kernels.Op]string{kernels.Argmin: "min", kernels.Argmax: "max"}

const (
	chunk   = kernels.ChunkElements
	lanes   = kernels.Partials
	longest = 8 * chunk
	alone   = 4 * chunk // elements of a row that is not worth several threads
	few     = 4         // rows

	mostParts = 64 // launches of a call for exponentials that are kept beside its output
)

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

// writer writes a program on elements of type t, computed with in type acc.
type writer struct {
	strings.Builder
	t, acc isa.Type
	block  int64 // lanes to which a row is dealt out
	unit   int64 // elements of a row that are combined to one result before these are
	step   int64 // elements between those of a row
	labels int
	full   bool // all lanes have an element of each unit, so that none begins with the identity
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// each writes body for the lane's elements of some rounds of all lanes, and for the lanes
// below left once more; left may be "", for none. The offset goes on in at.
func (w *writer) each(rounds, left string, body func()) {
	w.labels++
	n := w.labels
	w.line("  loop %s, done%d", rounds, n)
	body()
	w.line("  add.u64 at, at, %d\ndone%d:", w.block*w.step*int64(w.t.Size()), n)
	if left == "" {
		return
	}
	// Lanes agree on whether there is a rest at all.
	w.line("  set.eq.u32 p, %s, 0\n  bra over%d, p\n  set.ge.u32 p, q, %[1]s\n  bra over%[2]d, p", left, n)
	body()
	w.line("over%d:", n)
}

func (w *writer) load(slot string) {
	w.line("  ldg.%v z, %s[at]", w.t, slot)
	w.widen("z")
}

// widen makes an element that was loaded one of the type computed in.
func (w *writer) widen(r string) {
	if w.t != w.acc {
		w.line("  cvt.%v.%v %s, %[3]s", w.acc, w.t, r)
	}
}

func (w *writer) store() { w.storeAs(w.t, "z", "y[at]") }

// storeAs stores a number of the type computed in as one of type t.
func (w *writer) storeAs(t isa.Type, r, to string) {
	if t != w.acc {
		w.line("  cvt.%v.%v stored, %s", t, w.acc, r)
		r = "stored"
	}
	w.line("  stg.%v %s, %s", t, r, to)
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

// tree combines by halvings: r[i] and r[i+w], into r[0].
func (w *writer) tree(combine string, r []string) {
	n := 1
	for n < len(r) {
		n *= 2
	}
	for n /= 2; n > 0; n /= 2 {
		for i := 0; i < n && i+n < len(r); i++ {
			w.line("  %s.%v %s, %[3]s, %s", combine, w.acc, r[i], r[i+n])
		}
		r = r[:min(n, len(r))]
	}
}
