package tuned

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// Norms, log_softmax, and gradients: a block holds a row of all arrays in registers, or
// of longer rows a chunk, and meets those that have the others. Memory is read once.

// rowwise plans a kernels.Rowwise, or leaves it to the library.
func rowwise(op *kernels.Op, l []kernels.Layout, axes int, d Device) (*kernels.Plan, error) {
	if !op.MakesElements() {
		return columnStats(op, l, axes)
	}
	c := op.RowCall(l, axes)
	if c == nil || c.Rows < 1 || c.Cols < 1 {
		return nil, nil
	}
	t := l[0].Type
	r := rowText{op: op, r: op.Rowwise(), c: c}
	ok := r.shape(kernels.Accumulator(t), d)
	if !ok || c.Rows*r.blocks > maxBlocks {
		return nil, nil
	}
	k := key{op.Name + " " + c.Form(), t, t, shape{lanes: r.lanes, elements: r.elements, rows: r.blocks, exact: r.exact}}
	v, err := program(k, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		r.text(w)
	})
	if err != nil {
		return nil, err
	}
	p := &kernels.Plan{}
	slots := c.Slots
	if r.blocks > 1 {
		f, _, err := ir.Canonical(v)
		if err != nil {
			return nil, err
		}
		meetings.Store(f.Hash(), int(r.blocks))
		for range r.r.Stats {
			slots = append(slots, between(p, kernels.Accumulator(t), c.Rows*r.blocks))
		}
	}
	s := step(v, c.Rows*r.blocks, slots, c.Cols)
	s.Params = append(append(s.Params, op.RowParams(t, c.Cols)...), c.Steps...)
	s.InPlace = true
	p.Steps = []kernels.Step{s}
	return p, nil
}

// rowText writes the program of a Rowwise.
type rowText struct {
	op *kernels.Op
	r  *kernels.Rowwise
	c  *kernels.RowCall
	// A row is dealt out to so many blocks of so many lanes with so many elements,
	// lanes apart. If it is exact, it has just as many.
	blocks, lanes, elements int64
	exact                   bool
	over                    int // labels so far
}

// shape chooses how a row is dealt out; ok is false if it is too long.
func (r *rowText) shape(acc isa.Type, d Device) (ok bool) {
	held := int64(0) // registers for an element of the row
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Shares[i] == kernels.Whole {
			held += ceil(int64(acc.Size()), 4)
		}
	}
	cols := r.c.Cols
	r.blocks, r.lanes = 1, warp
	if ceil(cols, warp)*held > warpRegisters {
		r.lanes = partials
	}
	r.elements = ceil(cols, r.lanes)
	if n := r.elements * held; n > mostRegisters && d.Meet && cols > chunk {
		r.blocks, r.lanes, r.elements = ceil(cols, chunk), partials, each
		if r.blocks > mostMeet || each*held > exactRegisters {
			return false
		}
	} else if n > exactRegisters || n > mostRegisters && cols%partials != 0 {
		return false
	}
	r.exact = r.blocks*r.lanes*r.elements == cols
	return true
}

func (r *rowText) text(w *writer) {
	w.line("program %s_row", r.op.Name)
	for i, o := range r.op.Operands {
		w.line("slot %s %v", o.Name, r.op.TypeOf(i, w.t))
	}
	if r.blocks > 1 {
		for _, s := range r.r.Stats {
			w.line("slot %s_chunks %v", s.Name, w.acc)
		}
	}
	w.line("param cols u64\nparam count %v", w.acc)
	for _, s := range r.op.Scalars {
		w.line("param %s %v", s.Name, w.acc)
	}
	r.alike(func(i int, name string) {
		if r.r.Shares[i] == kernels.Column {
			w.line("param %s_step u64", name)
		}
	})
	w.line("block %d\n  sreg q, lane.x\n  sreg b, block.x\n  mov.u32 chunks, %d", r.lanes, r.blocks)
	if r.blocks > 1 {
		w.line("  div.u32 row, b, chunks\n  rem.u32 part, b, chunks")
	} else {
		w.line("  mov.u32 row, b\n  mov.u32 part, 0")
	}
	r.places(w)
	r.arguments(w)
	for u := range r.elements {
		r.wholes(func(i int, name string) {
			of := r.op.TypeOf(i, w.t)
			if r.ragged(u) {
				w.line("  mov.%v %s_%d, 0.0", of, name, u)
			}
			r.there(w, u, func() { w.line("  ldg.%v %s_%d, %s[%s]", of, name, u, name, r.place(w, i, u)) })
		})
	}
	for _, together := range r.groups() {
		r.stats(w, together)
	}
	w.line("  %s", r.r.Text(r.r.After, w.acc))
	r.results(w)
	for u := range r.elements {
		if r.ragged(u) {
			r.beyond(w, u)
			w.line("  bra end, beyond") // nor are those after it there
		}
		r.element(w, r.r.Each, u)
		for i, o := range r.op.Operands {
			if !o.Writes || r.r.Shares[i] != kernels.Whole {
				continue
			}
			w.store(r.op.TypeOf(i, w.t), o.Name, o.Name+"["+r.place(w, i, u)+"]")
		}
	}
	w.line("end:\n  exit")
}

// ragged reports whether not all lanes may have element u.
func (r *rowText) ragged(u int64) bool { return !r.exact && (r.blocks > 1 || u == r.elements-1) }

// beyond finds whether the row has ended before the lane's element u.
func (r *rowText) beyond(w *writer, u int64) {
	w.line("  add.u32 k, q, %d\n  set.ge.u32 beyond, k, left", u*r.lanes)
}

// there does something where the row has an element u.
func (r *rowText) there(w *writer, u int64, do func()) {
	if !r.ragged(u) {
		do()
		return
	}
	r.beyond(w, u)
	r.over++
	over := r.over
	w.line("  bra over%d, beyond", over)
	do()
	w.line("over%d:", over)
}

// places finds where the lane's first element is, as bytes, of arrays by their
// elements' size: at_<size> in the array, side_<size> in the row.
func (r *rowText) places(w *writer) {
	w.line("  cvt.u64.u32 lane, q\n  cvt.u64.u32 start, row\n  cvt.u64.u32 side, part\n  mul.u64 side, side, %d", r.lanes*r.elements)
	if r.exact { // all have as much, so that offsets are known to be multiples
		w.line("  mul.u64 start, start, %d", r.blocks*r.lanes*r.elements)
	} else {
		w.line("  ldp.u64 cols, cols\n  mul.u64 start, start, cols\n  sub.u64 most, cols, side\n  min.u64 most, most, %d\n  cvt.u32.u64 left, most", r.lanes*r.elements)
	}
	w.line("  add.u64 side, side, lane")
	for _, size := range r.sizes(w) {
		w.line("  mul.u64 start_%d, start, %[1]d\n  mul.u64 side_%[1]d, side, %[1]d\n  add.u64 at_%[1]d, start_%[1]d, side_%[1]d", size)
	}
}

// sizes are those of the elements.
func (r *rowText) sizes(w *writer) []int {
	if w.t == w.acc {
		return []int{w.t.Size()}
	}
	return []int{w.t.Size(), w.acc.Size()}
}

// place is where element u of operand i is.
func (r *rowText) place(w *writer, i int, u int64) string {
	from, size := "at", r.op.TypeOf(i, w.t).Size()
	if r.c.Along[i] {
		from = "side"
	}
	return fmt.Sprintf("%s_%d + %d", from, size, u*r.lanes*int64(size))
}

// arguments loads the scalars, and what a row has one of.
func (r *rowText) arguments(w *writer) {
	w.line("  ldp.%v count, count", w.acc)
	for _, s := range r.op.Scalars {
		w.line("  ldp.%v %s, %[2]s", w.acc, s.Name)
	}
	r.alike(func(i int, name string) {
		w.line("  cvt.u64.u32 to, row")
		if r.r.Shares[i] == kernels.Column {
			w.line("  ldp.u64 by, %s_step\n  mul.u64 to, to, by", name)
		} else {
			w.line("  mul.u64 to, to, %d", w.acc.Size())
		}
		r.load(w, i, "to")
	})
}

// alike calls f for the operands that are read, and of which a row has one number.
func (r *rowText) alike(f func(i int, name string)) {
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Shares[i] != kernels.Whole && !r.c.Along[i] {
			f(i, o.Name)
		}
	}
}

// wholes calls f for the operands that the block holds.
func (r *rowText) wholes(f func(i int, name string)) {
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Shares[i] == kernels.Whole {
			f(i, o.Name)
		}
	}
}

// load loads an element of operand i to the register of its name.
func (r *rowText) load(w *writer, i int, address string) {
	name, t := r.op.Operands[i].Name, r.op.TypeOf(i, w.t)
	w.line("  ldg.%v %s, %s[%s]", t, name, name, address)
	if t != w.acc {
		w.widen(name)
	}
}

// element does a part of element u.
func (r *rowText) element(w *writer, part string, u int64) {
	for i, o := range r.op.Operands {
		switch {
		case !o.Reads || !r.r.Uses(part, o.Name):
		case r.r.Shares[i] == kernels.Whole:
			if r.op.TypeOf(i, w.t) != w.acc { // registers hold what was loaded, which is half as much
				w.line("  cvt.%v.%v %s, %s_%d", w.acc, w.t, o.Name, o.Name, u)
			} else {
				w.line("  mov.%v %s, %s_%d", w.acc, o.Name, o.Name, u)
			}
		case r.c.Along[i]:
			r.load(w, i, r.place(w, i, u))
		}
	}
	w.line("  %s", r.r.Text(part, w.acc))
}

// groups are the row's numbers, those together that need none of each other.
func (r *rowText) groups() (groups [][]kernels.Stat) {
	for _, s := range r.r.Stats {
		n := len(groups) - 1
		apart := n < 0 || slices.ContainsFunc(groups[n], func(before kernels.Stat) bool {
			return r.r.Uses(s.Of+" "+s.Done, before.Name)
		})
		if apart {
			groups = append(groups, nil)
			n++
		}
		groups[n] = append(groups[n], s)
	}
	return groups
}

// stats finds numbers of the row, in all lanes. Blocks that have parts of it meet once.
func (r *rowText) stats(w *writer, together []kernels.Stat) {
	for _, s := range together {
		made := func(u int64) string {
			if r.ragged(u) {
				w.line("  mov.%v z, %s", w.acc, identity(s.Combine, w.acc))
			}
			r.there(w, u, func() { r.element(w, s.Of, u) })
			return "z"
		}
		if r.blocks == 1 {
			w.combineOf(s.Combine, shape{lanes: r.lanes, elements: r.elements}, "acc", made)
			r.done(w, s)
			continue
		}
		for u := range r.elements {
			z := made(u)
			if u == 0 {
				w.line("  mov.%v acc, %s", w.acc, z)
			} else {
				w.line("  %s.%v acc, acc, %s", s.Combine, w.acc, z)
			}
		}
		w.line("  block_reduce_%s.%v z, acc", s.Combine, w.acc)
		w.result(w.acc, s.Name+"_chunks")
	}
	if r.blocks == 1 {
		return
	}
	w.line("  bar_sync 0")
	for _, s := range together {
		w.ofChunks(s.Name+"_chunks", s.Combine, "acc")
		r.done(w, s)
	}
}

// done makes a number of what the row's elements were combined to.
func (r *rowText) done(w *writer, s kernels.Stat) {
	w.line("  mov.%v z, acc", w.acc)
	if s.Done != "" {
		w.line("  %s", r.r.Text(s.Done, w.acc))
	}
	w.line("  mov.%v %s, z", w.acc, s.Name)
}

// results has lane 0 of the row's first block store the numbers that are operands.
func (r *rowText) results(w *writer) {
	begun := false
	for i, o := range r.op.Operands {
		if !o.Writes || r.r.Shares[i] != kernels.Row {
			continue
		}
		if !begun {
			w.line("  or.u32 other, q, part\n  set.ne.u32 other, other, 0\n  bra told, other\n  cvt.u64.u32 to, row\n  mul.u64 to, to, %d", w.acc.Size())
			begun = true
		}
		w.line("  stg.%v %s, %s[to]", w.acc, o.Name, o.Name)
	}
	if begun {
		w.line("told:")
	}
}
