package tuned

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Norms, log_softmax, and gradients: a block holds a row of all arrays in registers, or
// of longer rows a chunk, and meets those that have the others. Memory is read once.

// rowwise plans a kernels.Rowwise, or leaves it to the library.
func rowwise(op *kernels.Op, l []kernels.Layout, axes int, d Device) (*kernels.Plan, error) {
	if !op.MakesElements() {
		if p, err := columnStats(op, l, axes, kernels.Accumulator(l[0].Type), d); p != nil || err != nil || op.Broadcasts() {
			return p, err
		}
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
	k := key{op.Name + " " + c.Form(), t, t, shape{lanes: r.lanes, elements: r.runs, rows: r.blocks, beside: r.beside, exact: r.exact}}
	v, err := program(k, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		if w.t == w.acc {
			r.scaled()
		}
		r.text(w)
	})
	if err != nil {
		return nil, err
	}
	p := &kernels.Plan{}
	slots := c.Slots
	var told []int
	if r.blocks > 1 {
		for range r.r.Stats {
			told = append(told, len(slots))
			slots = append(slots, between(p, kernels.Accumulator(t), c.Rows*r.blocks))
		}
	}
	s := step(v, c.Rows*r.blocks, slots, c.Cols)
	s.Params = append(append(s.Params, op.RowParams(t, c.Cols)...), c.Steps...)
	s.InPlace, s.Meeting = true, meeting(r.blocks, told...)
	p.Steps = []kernels.Step{s}
	return p, nil
}

// rowText writes the program of a Rowwise.
type rowText struct {
	op *kernels.Op
	r  *kernels.Rowwise
	c  *kernels.RowCall
	// A row is dealt out to so many blocks of so many lanes, of which each has so many
	// runs of elements side by side: a run of all lanes lies before the next, and chunks
	// of a block as many chunks apart as there are blocks, which combines those of a block
	// as the written order does. If it is exact, it has just as many.
	blocks, lanes, runs, beside int64
	exact                       bool
	over                        int    // labels so far
	stage                       string // stands in the names of what is loaded for it alone
	scale                       *scale
}

// scale says that an operand is used times another, which lies along the row, alone: so
// the product takes its place, and that other is read once.
type scale struct{ held, by int }

// scaled looks for one, and has the parts use the product.
func (r *rowText) scaled() {
	for i, o := range r.op.Operands {
		for k, by := range r.op.Operands {
			if !o.Reads || !by.Reads || r.r.Shares[i] != kernels.Whole || !r.c.Along[k] || r.scale != nil {
				continue
			}
			line := fmt.Sprintf("mul.{{.A}} z, %s, %s\n", o.Name, by.Name)
			left := func(part string) string { return strings.Replace(part+"\n", line, "", 1) }
			uses := func(part string) bool { return r.r.Uses(left(part), o.Name) }
			all := slices.Clone(r.r.Stats)
			if len(all) == 0 || uses(r.r.Each) || slices.ContainsFunc(all, func(s kernels.Stat) bool { return uses(s.Of) }) {
				continue
			}
			is := func(part string) string {
				return strings.Replace(part+"\n", line, fmt.Sprintf("mov.{{.A}} z, %s\n", o.Name), 1)
			}
			for n := range all {
				all[n].Of = is(all[n].Of)
			}
			r.r = &kernels.Rowwise{Shares: r.r.Shares, Stats: all, After: r.r.After, Each: is(r.r.Each)}
			r.scale = &scale{i, k}
		}
	}
}

// shape chooses how a row is dealt out; ok is false if it is too long. Where a lane has
// elements by pairs, fewer lanes have more each, so that less of the registers is for
// what all need; those of 16 bits lie in registers by pairs too, as they are loaded.
func (r *rowText) shape(acc isa.Type, d Device) (ok bool) {
	held, loads := int64(0), int64(0) // registers for a run of the row, and for what is loaded
	for i, o := range r.op.Operands {
		if o.Reads && r.r.Shares[i] == kernels.Whole {
			held += ceil(int64(acc.Size()), 4)
			loads += ceil(int64(r.c.Slots[i].Type.Size()), 4) // a program's, of which it has so many of each type
		}
	}
	cols := r.c.Cols
	r.blocks, r.lanes, r.beside = 1, warp, 1
	if cols%2 == 0 && acc.Size() <= 4 {
		r.beside = 2
	}
	if ceil(cols, warp)*held > warpRegisters {
		if d.Meet == 0 && ceil(cols, partials)*held > mostRegisters {
			r.beside = 1
		}
		r.lanes = partials / r.beside
	}
	r.runs = ceil(cols, r.run())
	if n := r.runs * held; n*r.beside > mostRegisters && d.Meet > 0 && cols > chunk {
		blocks, each, ok := meetingBlocks(cols, acc, d)
		r.blocks, r.runs = blocks, each*chunk/r.run()
		if !ok || r.runs*r.beside*loads > exactRegisters {
			return false
		}
	} else if n > exactRegisters || n > mostRegisters && cols%partials != 0 {
		return false
	}
	r.exact = r.blocks*r.runs*r.run() == cols
	return true
}

// run is how many elements lie between two of a lane's runs.
func (r *rowText) run() int64 { return r.lanes * r.beside }

// at is how many elements run u of the lane lies behind its first.
func (r *rowText) at(u int64) int64 {
	of := chunk / r.run() // runs of a chunk
	return u/of*r.blocks*chunk + u%of*r.run()
}

// aheadRegisters is how many registers may hold a row and what lies along it.
const aheadRegisters = 96

// ahead are the runs of what lies along a row that are loaded before its last numbers are
// found: all of them, if there is room. It takes registers from other blocks, of which the
// memory needs no more: an H200 does layer_norm of rows of 4,096 f32 at 0.985 of the copy's
// rate so, and else at 0.975. Elements of 16 bits are widened on their way, and lose by it.
func (r *rowText) ahead() int64 {
	words := int64(0)
	for i, o := range r.op.Operands {
		if o.Reads && (r.r.Shares[i] == kernels.Whole || r.c.Along[i] && r.r.Uses(r.r.Each, o.Name)) {
			words += r.runs * r.beside * int64(r.c.Slots[i].Type.Size())
		}
	}
	if words/4 <= aheadRegisters && r.c.Slots[0].Type.Size() >= 4 {
		return r.runs
	}
	return r.atOnce()
}

// atOnce are the runs for which what lies along a row is loaded together, lest each
// waits for memory by itself: eight registers of an operand.
func (r *rowText) atOnce() int64 {
	if r.beside*int64(r.c.Slots[0].Type.Size()) > 4 {
		return 4
	}
	return 8
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
	w.line("block %d\n  sreg q, lane.x\n  sreg b, block.x", r.lanes)
	if r.blocks > 1 {
		w.line("  div.u32 row, b, %d\n  rem.u32 part, b, %[1]d", r.blocks)
	} else {
		w.line("  mov.u32 row, b\n  mov.u32 part, 0")
	}
	r.places(w)
	r.arguments(w)
	for u := range r.runs {
		r.wholes(func(i int, name string) { r.loadRun(w, i, u) })
	}
	groups := r.groups()
	for k, together := range groups {
		if k == len(groups)-1 { // what comes last waits for nothing then
			r.along(w, 0, r.ahead(), r.r.Each)
		}
		r.stats(w, together)
	}
	if len(groups) == 0 {
		r.along(w, 0, r.ahead(), r.r.Each)
	}
	w.line("  %s", r.r.Text(r.r.After, w.acc))
	r.results(w)
	for from := int64(0); r.op.MakesElements() && from < r.runs; from += r.atOnce() {
		r.along(w, max(from+r.atOnce(), r.ahead()), from+2*r.atOnce(), r.r.Each) // a step ahead
		r.elements(w, r.r.Each, from, func(u int64) {
			if r.ragged(u) {
				r.beyond(w, u)
				w.line("  bra end, beyond") // nor are those after it there
			}
		}, func(u, v int64) {
			for i, o := range r.op.Operands {
				if o.Writes && r.r.Shares[i] == kernels.Whole {
					w.store(r.op.TypeOf(i, w.t), o.Name, o.Name+"["+r.place(w, i, u, v, "again")+"]")
				}
			}
		})
	}
	w.line("end:\n  exit")
}

// loadRun loads a run of operand i: where the row has ended, what stands at its end.
func (r *rowText) loadRun(w *writer, i int, u int64) {
	of, first := r.op.TypeOf(i, w.t), "first"
	if r.c.Along[i] {
		first = "again" + r.stage
	}
	for v := range r.beside {
		w.line("  ldg.%v %s, %s[%s]", of, r.register(i, u, v), r.op.Operands[i].Name, r.place(w, i, u, v, first))
	}
}

// register has the element at v of run u of operand i; of what lies along a row, those
// of some runs alone.
func (r *rowText) register(i int, u, v int64) string {
	name := r.op.Operands[i].Name
	if r.c.Along[i] {
		name, u = name+r.stage, u%max(2*r.atOnce(), r.ahead())
	}
	return fmt.Sprintf("%s_%d_%d", name, u, v)
}

// along loads what lies along a row and a part needs, runs from one on to another.
func (r *rowText) along(w *writer, from, to int64, part string) {
	for u := from; u < min(to, r.runs); u++ {
		for i, o := range r.op.Operands {
			if o.Reads && r.c.Along[i] && r.r.Uses(part, o.Name) {
				r.loadRun(w, i, u)
			}
		}
	}
}

// ragged reports whether not all lanes may have run u.
func (r *rowText) ragged(u int64) bool { return !r.exact && (r.blocks > 1 || u == r.runs-1) }

// beyond finds whether the row has ended before the lane's run u.
func (r *rowText) beyond(w *writer, u int64) {
	w.line("  set.le.u32 beyond, rest, %d", r.at(u))
}

// places finds where the lane's first element is, as bytes, of arrays by their
// elements' size: at_<size> in the array, side_<size> in the row, which begins at
// start_<size>. Of rows that end within a run, last is where their last is, and rest how
// many elements there are from the lane's first on.
func (r *rowText) places(w *writer) {
	w.line("  ldp.u64 cols, cols\n  set.eq.u64 none, cols, 0\n  cvt.u64.u32 start, row")
	w.line("  cvt.u64.u32 k, q\n  mul.u64 k, k, %d\n  cvt.u64.u32 side, part\n  mul.u64 side, side, %d\n  add.u64 side, side, k", r.beside, chunk)
	if r.exact { // all have as much, so that offsets are known to be multiples
		w.line("  mul.u64 start, start, %d", r.blocks*r.runs*r.run())
	} else {
		w.line("  mul.u32 first, q, %d\n  mul.u32 k, part, %d\n  add.u32 first, first, k", r.beside, chunk)
		w.line("  div.u64 spot, cols, %d\n  cvt.u32.u64 last, spot\n  sub.u32 last, last, 1\n  mul.u32 last, last, %[1]d", r.beside)
		w.line("  mul.u64 spot, spot, %d\n  mul.u64 start, start, spot", r.beside)
		w.line("  add.u32 rest, last, %d\n  max.u32 rest, rest, first\n  sub.u32 rest, rest, first", r.beside)
		// What is as much, unless there is none, is found anew from there in each part: else
		// the compiler keeps where each element was, beside the elements.
		w.line("  sel.u32 again, none, last, first\n  sel.u32 again_of, none, rest, first")
	}
	for _, size := range r.sizes(w) {
		w.line("  mul.u64 start_%d, start, %[1]d", size)
		if !r.ragged(0) {
			w.line("  mul.u64 side_%d, side, %[1]d\n  add.u64 at_%[1]d, start_%[1]d, side_%[1]d", size)
		}
	}
}

// sizes are those of the elements.
func (r *rowText) sizes(w *writer) []int {
	if w.t == w.acc {
		return []int{w.t.Size()}
	}
	return []int{w.t.Size(), w.acc.Size()}
}

// place is where the element at v of run u of operand i is, the lane's first being at first
// or again. If not all lanes may have the run, it is the row's last one where the row has
// ended: so no access leaves the array, as the sizes alone prove, and none waits for a branch.
func (r *rowText) place(w *writer, i int, u, v int64, first string) string {
	from, size := "at", int64(r.op.TypeOf(i, w.t).Size())
	if r.c.Along[i] {
		from = "side"
	}
	if !r.ragged(u) {
		return fmt.Sprintf("%s_%d + %d", from, size, (r.at(u)+v)*size)
	}
	w.line("  add.u32 k, %s, %d\n  min.u32 k, k, last\n  cvt.u64.u32 spot, k\n  mul.u64 spot, spot, %d", first, r.at(u), size)
	if !r.c.Along[i] {
		w.line("  add.u64 spot, spot, start_%d", size)
	}
	return fmt.Sprintf("spot + %d", v*size)
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

// element does a part of the element at v of run u.
func (r *rowText) element(w *writer, part string, u, v int64) {
	for i, o := range r.op.Operands {
		if !o.Reads || r.r.Shares[i] != kernels.Whole && !r.c.Along[i] || !r.r.Uses(part, o.Name) {
			continue
		}
		if r.op.TypeOf(i, w.t) != w.acc { // registers hold what was loaded, which is half as much
			w.line("  cvt.%v.%v %s, %s", w.acc, w.t, o.Name, r.register(i, u, v))
		} else {
			w.line("  mov.%v %s, %s", w.acc, o.Name, r.register(i, u, v))
		}
	}
	w.line("  %s", r.r.Text(part, w.acc))
}

// mostPowers is how many elements a lane has at most of which powers are made in two
// ways: more is too much code.
const mostPowers = 64

// elements does a part of each element of some runs from one on, and what follows:
// before a run, and after an element. Powers of e are made together.
func (r *rowText) elements(w *writer, part string, from int64, before func(u int64), after func(u, v int64)) {
	to := min(from+r.atOnce(), r.runs)
	first, of, last, ok := powers(part)
	if !ok || w.acc != isa.F32 || before != nil && r.ragged(to-1) || r.runs*r.beside > mostPowers {
		for u := from; u < to; u++ {
			if before != nil {
				before(u)
			}
			for v := range r.beside {
				r.element(w, part, u, v)
				after(u, v)
			}
		}
		return
	}
	for few := int64(4); from < to; from += few / r.beside {
		var z []string
		for u := from; u < min(from+few/r.beside, to); u++ {
			for v := range r.beside {
				z = append(z, fmt.Sprintf("power_%d", len(z)))
				r.element(w, fmt.Sprintf("%s\n  mov.%v %s, %s", first, w.acc, z[len(z)-1], of[1]), u, v)
			}
		}
		r.over++
		w.exps(z, "near", fmt.Sprint("_", r.over))
		for u := from; u < min(from+few/r.beside, to); u++ {
			for v := range r.beside {
				w.line("  mov.%v %s, %s", w.acc, of[0], z[(u-from)*r.beside+v])
				r.element(w, last, u, v)
				after(u, v)
			}
		}
	}
}

var exp = regexp.MustCompile(`(?m)^\s*exp\.\{\{\.A\}\} (\w+), (\w+)\n?`)

// powers cuts a part at the one power of e that it makes, to of[0] of of[1], if what
// follows needs nothing else of what goes before.
func powers(part string) (first string, of []string, last string, ok bool) {
	at := exp.FindAllStringSubmatchIndex(part, -1)
	if len(at) != 1 {
		return "", nil, "", false
	}
	m := at[0]
	first, of, last = part[:m[0]], []string{part[m[2]:m[3]], part[m[4]:m[5]]}, part[m[1]:]
	for _, set := range regexp.MustCompile(`(?m)^\s*\S+ (\w+),`).FindAllStringSubmatch(first, -1) {
		if set[1] != of[0] && (*kernels.Rowwise)(nil).Uses(last, set[1]) {
			return "", nil, "", false
		}
	}
	return first, of, last, true
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
	// Element i goes to partial i mod 256 of chunk i / 8192, of which a lane has some
	// side by side, and some a run apart.
	apart, inChunk := partials/r.run(), chunk/r.run()
	chunks := ceil(r.runs, inChunk)
	partial := func(s kernels.Stat, c, k, v int64) string { return fmt.Sprintf("%s_%d_%d_%d", s.Name, c, k, v) }
	r.stage = "_of"
	defer func() { r.stage = "" }()
	parts := ""
	for _, s := range together {
		parts += s.Of + "\n"
	}
	// What is made of elements here is made anew where it is needed again: beyond a branch,
	// which none takes, the compiler does not find it, and keeps the elements alone.
	for c := range chunks {
		for k := range min(apart, r.runs-c*inChunk) {
			for v := range r.beside {
				for _, s := range together {
					w.line("  mov.%v %s, %s", w.acc, partial(s, c, k, v), kernels.Identity(s.Combine, w.acc))
				}
			}
		}
	}
	r.over++
	over := r.over
	w.line("  bra over%d, none", over)
	scale := r.scale
	if r.scale = nil; scale != nil {
		parts += r.op.Operands[scale.by].Name
	}
	for from := int64(0); from < r.runs; from += r.atOnce() {
		r.along(w, from, from+r.atOnce(), parts)
		for u := from; scale != nil && u < min(from+r.atOnce(), r.runs); u++ {
			for v := range r.beside {
				w.line("  mul.%v %s, %[2]s, %s", w.acc, r.register(scale.held, u, v), r.register(scale.by, u, v))
			}
		}
		for _, s := range together {
			r.elements(w, s.Of, from, nil, func(u, v int64) {
				if r.ragged(u) {
					r.beyond(w, u)
					w.line("  sel.%v z, beyond, %s, z", w.acc, kernels.Identity(s.Combine, w.acc))
				}
				p := partial(s, u/inChunk, u%inChunk%apart, v)
				w.line("  %s.%v %s, %[3]s, z", s.Combine, w.acc, p)
			})
		}
	}
	w.line("over%d:", over)
	for _, s := range together {
		var of []string
		for c := range chunks {
			var side []string
			for v := range r.beside {
				var far []string
				for k := range min(apart, r.runs-c*inChunk) {
					far = append(far, partial(s, c, k, v))
				}
				p := w.tree(s.Combine, far)
				w.line("  block_reduce_%s.%v %s, %[3]s", s.Combine, w.acc, p)
				side = append(side, p)
			}
			of = append(of, w.tree(s.Combine, side))
		}
		w.line("  mov.%v z, %s", w.acc, w.tree(s.Combine, of))
		if r.blocks == 1 {
			w.line("  mov.%v acc, z", w.acc)
			r.done(w, s)
		} else {
			w.result(w.acc, s.Name+"_chunks")
		}
	}
	if r.blocks == 1 {
		return
	}
	w.line("  bar_sync 0")
	for _, s := range together {
		w.line("  mov.%v acc, %s", w.acc, w.ofBlocks(s.Name+"_chunks", s.Combine, r.blocks))
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
