package tuned

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// rowwise keeps a row by itself, as softmax does: a block finds its numbers one after
// the other, and then makes its elements.
func rowwise(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error) {
	if !op.MakesElements() && op.Broadcasts() {
		return columnStats(op, l, axes)
	}
	c := op.RowCallApart(l, axes)
	if c == nil || !keeps(c.Rows, c.Cols) && slices.Max(c.Apart) > 0 {
		return rowwiseColumns(op, l, axes)
	}
	if !keeps(c.Rows, c.Cols) {
		return blocks(op, l, axes, c.Rows, c.Cols)
	}
	r := rowText{op: op, r: op.Rowwise(), along: c.Along, apart: c.Apart, chunks: int((c.Cols + chunk - 1) / chunk)}
	p := &plan{}
	p.step(key{what: op.Name + " " + c.Form(), t: l[0].Type, n: int64(r.chunks)}, r.text, c.Rows*lanes, lanes, c.Slots, uint64(c.Cols))
	p.given(op, l[0].Type, c)
	for i := range p.Steps {
		p.Steps[i].Params = append(p.Steps[i].Params, c.Steps...)
		for _, more := range c.Apart {
			if more != 0 {
				p.Steps[i].Params = append(p.Steps[i].Params, kernels.Param{Value: uint64(more)})
			}
		}
	}
	return p.done()
}

// given appends to the parameters of all steps the operation's own.
func (p *plan) given(op *kernels.Op, t isa.Type, c *kernels.RowCall) {
	for i := range p.Steps {
		p.Steps[i].Params = append(p.Steps[i].Params, op.RowParams(t, c.Cols)...)
	}
}

// blocks has each row be a block's where the library has lanes side by side take many
// rows that are very short: a block's lanes are a vector here, and memory is read once.
func blocks(op *kernels.Op, l []kernels.Layout, axes int, rows, cols int64) (*kernels.Plan, error) {
	if rows < manyRows || rows >= 1<<31 || cols <= fewLanes || cols > veryShort {
		return nil, nil
	}
	return op.PlanBlocks(l, axes, fewLanes)
}

// keeps reports whether rows are for a block alone: longer than one element a lane,
// and short enough for the nearer caches. Few rows that are long are cut in chunks, by
// the library.
func keeps(rows, cols int64) bool {
	return rows >= 1 && cols > lanes && cols <= longest && (rows >= few || cols <= alone) && rows < 1<<31
}

// rowText writes the program of a Rowwise. along says which operands lie along a
// row, and are the same for all, apart whose rows don't lie back to back.
type rowText struct {
	op     *kernels.Op
	r      *kernels.Rowwise
	along  []bool
	apart  []int64
	chunks int
}

// head begins a program.
func (r *rowText) head(w *writer, what string) {
	w.line("program %s_%s", r.op.Name, what)
	for i, o := range r.op.Operands {
		w.line("slot %s %v", o.Name, r.op.TypeOf(i, w.t))
	}
}

// params declares those of the operation.
func (r *rowText) params(w *writer) {
	w.line("param count %v", w.acc)
	for _, s := range r.op.Scalars {
		w.line("param %s %v", s.Name, w.acc)
	}
}

// given loads the scalars, and what a row, whose number is in a register, has one of:
// step finds how many bytes there are between those of rows where they broadcast.
func (r *rowText) given(w *writer, row string, step func(i int) string) {
	w.line("  ldp.%v count, count", w.acc)
	for _, s := range r.op.Scalars {
		w.line("  ldp.%v %s, %[2]s", w.acc, s.Name)
	}
	r.alike(func(i int, name string) {
		if r.r.Shares[i] == kernels.Column {
			w.line("  mul.u64 to, %s, %s", row, step(i))
		} else {
			w.line("  mul.u64 to, %s, %d", row, w.acc.Size())
		}
		r.load(w, i, "to")
	})
}

func (r *rowText) text(w *writer) {
	r.head(w, "row")
	w.line("param cols u64")
	r.params(w)
	r.alike(func(i int, name string) {
		if r.r.Shares[i] == kernels.Column {
			w.line("param %sstep u64", name)
		}
	})
	r.shifted(func(i int, name string) { w.line("param %smore u64", name) })
	w.line("block %d", lanes)
	w.rowPlace(r.chunks, "cols")
	w.line("  mul.u64 side, lane, %d\n  cvt.u64.u32 number, row", w.t.Size())
	r.shifted(func(i int, name string) {
		w.line("  ldp.u64 more, %smore\n  mul.u64 %[1]sshift, number, more\n  mul.u64 %[1]sshift, %[1]sshift, %d", name, w.t.Size())
	})
	r.given(w, "number", func(i int) string {
		w.line("  ldp.u64 step, %sstep", r.op.Operands[i].Name)
		return "step"
	})
	for _, s := range r.r.Stats {
		r.begin(w)
		r.stat(w, s, w.chunks(s.Combine, r.chunks, func() { r.element(w, s.Of, func() { w.line("  %s", r.r.Text(s.Of, w.acc)) }) }))
	}
	if r.op.MakesElements() {
		w.line("  %s", r.r.Text(r.r.After, w.acc))
		r.begin(w)
		w.each("rounds", "left", func() {
			r.element(w, r.r.Each, func() {
				r.each(w)
			})
		})
	}
	w.line("%s", r.op.RowResults(w.acc.String(), fmt.Sprint(w.acc.Size())))
}

// stat makes a number of a row, of what its chunks have.
func (r *rowText) stat(w *writer, s kernels.Stat, sums []string) {
	w.tree(s.Combine, sums)
	w.line("  mov.%v acc, %s\n  mov.%[1]v z, acc", w.acc, sums[0])
	if s.Done != "" {
		w.line("  %s", r.r.Text(s.Done, w.acc))
	}
	w.line("  mov.%v %s, z", w.acc, s.Name)
}

// each makes an element of the outputs.
func (r *rowText) each(w *writer) {
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
}

// alike calls f for the operands that are read, and of which a row has one number.
func (r *rowText) alike(f func(i int, name string)) {
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Shares[i] != kernels.Whole && !r.along[i] {
			f(i, o.Name)
		}
	}
}

// shifted calls f for the operands whose rows don't lie back to back.
func (r *rowText) shifted(f func(i int, name string)) {
	for i, more := range r.apart {
		if more != 0 {
			f(i, r.op.Operands[i].Name)
		}
	}
}

// begin goes to the lane's first element.
func (r *rowText) begin(w *writer) { w.line("  mov.u64 at, base\n  mov.u64 aside, side") }

// element loads what a part reads of an element, does it, and goes on to the next
// but for the offset at.
func (r *rowText) element(w *writer, part string, do func()) {
	r.loads(w, part, "at", "aside")
	do()
	if r.reads(part, func(i int) bool { return r.along[i] }) {
		w.line("  add.u64 aside, aside, %d", lanes*w.t.Size())
	}
}

// loads loads what a part reads of an element, that is at an offset, and of what lies
// along a row at another.
func (r *rowText) loads(w *writer, part, at, aside string) {
	r.reads(part, func(i int) bool {
		if r.r.Shares[i] == kernels.Whole {
			address := at
			if r.apart != nil && r.apart[i] != 0 {
				address = "from"
				w.line("  add.u64 from, %s, %sshift", at, r.op.Operands[i].Name)
			}
			r.load(w, i, address)
		} else if r.along[i] {
			r.load(w, i, aside)
		}
		return false
	})
}

// reads reports whether f holds of one of the operands that a part reads.
func (r *rowText) reads(part string, f func(i int) bool) bool {
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Uses(part, o.Name) && f(i) {
			return true
		}
	}
	return false
}

func (r *rowText) load(w *writer, i int, address string) {
	name, t := r.op.Operands[i].Name, r.op.TypeOf(i, w.t)
	w.line("  ldg.%v %s, %[2]s[%s]", t, name, address)
	if t != w.acc {
		w.widen(name)
	}
}
