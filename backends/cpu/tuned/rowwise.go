package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/kernels"
)

// rowwise keeps a row by itself, as softmax does: a block finds its numbers one after
// the other, and then makes its elements.
func rowwise(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error) {
	c := op.RowCall(l, axes)
	if c == nil || !keeps(c.Rows, c.Cols) {
		return nil, nil
	}
	r := rowText{op: op, r: op.Rowwise(), along: c.Along, chunks: int((c.Cols + chunk - 1) / chunk)}
	p := &plan{}
	p.step(key{what: op.Name + " " + c.Form(), t: l[0].Type, n: int64(r.chunks)}, r.text, c.Rows*lanes, lanes, c.Slots)
	if p.err == nil {
		p.Steps[0].Params = append(append([]kernels.Param{{Value: uint64(c.Cols)}}, op.RowParams(l[0].Type, c.Cols)...), c.Steps...)
	}
	return p.done()
}

// keeps reports whether rows are for a block alone: longer than one element a lane,
// and short enough for the nearer caches. Few rows that are long are cut in chunks, by
// the library.
func keeps(rows, cols int64) bool {
	return rows >= 1 && cols > lanes && cols <= longest && (rows >= few || cols <= alone) && rows < 1<<31
}

// rowText writes the program of a Rowwise. along says which operands lie along a
// row, and are the same for all.
type rowText struct {
	op     *kernels.Op
	r      *kernels.Rowwise
	along  []bool
	chunks int
}

func (r *rowText) text(w *writer) {
	w.line("program %s_row", r.op.Name)
	for i, o := range r.op.Operands {
		w.line("slot %s %v", o.Name, r.op.TypeOf(i, w.t))
	}
	w.line("param cols u64\nparam count %v", w.acc)
	for _, s := range r.op.Scalars {
		w.line("param %s %v", s.Name, w.acc)
	}
	r.alike(func(i int, name string) {
		if r.r.Shares[i] == kernels.Column {
			w.line("param %sstep u64", name)
		}
	})
	w.line("block %d", lanes)
	w.rowPlace(r.chunks)
	w.line("  mul.u64 side, lane, %d\n  ldp.%v count, count", w.t.Size(), w.acc)
	for _, s := range r.op.Scalars {
		w.line("  ldp.%v %s, %[2]s", w.acc, s.Name)
	}
	r.alike(func(i int, name string) { // what a row has one of
		w.line("  cvt.u64.u32 to, row")
		if r.r.Shares[i] == kernels.Column {
			w.line("  ldp.u64 each, %sstep\n  mul.u64 to, to, each", name)
		} else {
			w.line("  mul.u64 to, to, %d", w.acc.Size())
		}
		r.load(w, i, "to")
	})
	for _, s := range r.r.Stats {
		r.begin(w)
		sums := w.chunks(s.Combine, r.chunks, func() { r.element(w, s.Of, func() { w.line("  %s", r.r.Text(s.Of, w.acc)) }) })
		w.tree(s.Combine, sums)
		w.line("  mov.%v acc, %s\n  mov.%[1]v z, acc", w.acc, sums[0])
		if s.Done != "" {
			w.line("  %s", r.r.Text(s.Done, w.acc))
		}
		w.line("  mov.%v %s, z", w.acc, s.Name)
	}
	w.line("  %s", r.r.Text(r.r.After, w.acc))
	r.begin(w)
	w.each("rounds", "left", func() {
		r.element(w, r.r.Each, func() {
			w.line("  %s", r.r.Text(r.r.Each, w.acc))
			for i, o := range r.op.Operands {
				if !o.Writes || r.r.Shares[i] != kernels.Whole {
					continue
				}
				t, at := r.op.TypeOf(i, w.t), "at"
				if t != w.t {
					at = "wide"
					w.line("  mul.u64 wide, at, %d", t.Size()/w.t.Size())
				}
				w.storeAs(t, o.Name, fmt.Sprintf("%s[%s]", o.Name, at))
			}
		})
	})
	w.line("%s", r.op.RowResults(w.acc.String(), fmt.Sprint(w.acc.Size())))
}

// alike calls f for the operands that are read, and of which a row has one number.
func (r *rowText) alike(f func(i int, name string)) {
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Shares[i] != kernels.Whole && !r.along[i] {
			f(i, o.Name)
		}
	}
}

// begin goes to the lane's first element.
func (r *rowText) begin(w *writer) { w.line("  mov.u64 at, base\n  mov.u64 aside, side") }

// element loads what a part reads of an element, does it, and goes on to the next
// but for the offset at.
func (r *rowText) element(w *writer, part string, do func()) {
	aside := false
	for i, o := range r.op.Operands {
		switch {
		case !o.Reads || !r.r.Uses(part, o.Name):
		case r.r.Shares[i] == kernels.Whole:
			r.load(w, i, "at")
		case r.along[i]:
			r.load(w, i, "aside")
			aside = true
		}
	}
	do()
	if aside {
		w.line("  add.u64 aside, aside, %d", lanes*w.t.Size())
	}
}

func (r *rowText) load(w *writer, i int, address string) {
	name, t := r.op.Operands[i].Name, r.op.TypeOf(i, w.t)
	w.line("  ldg.%v %s, %[2]s[%s]", t, name, address)
	if t != w.acc {
		w.widen(name)
	}
}
