package tuned

import (
	"fmt"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

const (
	veryShort   = 32 // elements of rows that the library takes side by side, where it is left to it
	fewLanes    = 4  // of a block that is not worth it where there are many
	vectorBytes = 64
	freeBytes   = 256 // of what a block's lanes combine in any order in a round
)

// laneReduced is up to how many elements a row is one lane's, where there are many: of longer
// ones lanes beside each other take less time than one that gathers.
func laneReduced(t isa.Type) int64 {
	return map[int]int64{8: 7, 4: 12, 2: 20, 1: 24}[t.Size()]
}

// walk is how rows lie: so many, of so many elements, which are step apart. Rows begin
// pitch elements apart.
type walk struct{ rows, cols, pitch, step int64 }

func (r walk) packed() bool { return r.pitch == r.cols && r.step == 1 }

// operand is a call's input, from its first element to its last.
func (r walk) operand(t isa.Type) kernels.Binding {
	x := operand(0, t)
	x.Shape, x.Stride = []int64{(r.rows-1)*r.pitch + (r.cols-1)*r.step + 1}, []int64{1}
	return x
}

// reduction reduces each row to one element of type out.
func reduction(combine string, t, out isa.Type, r walk) (*kernels.Plan, error) {
	rows, cols := r.rows, r.cols
	short := cols <= laneReduced(t) && rows >= manyRows && r.packed()
	if rows < 1 || cols < 1 || rows*(cols/chunk+1) >= 1<<31 || cols < fewLanes && rows >= manyRows && !short {
		return nil, nil
	}
	x, y := r.operand(t), operand(1, out)
	y.Shape, y.Stride = []int64{rows}, []int64{1}
	p, acc := &plan{}, kernels.Accumulator(out)
	if short {
		p.step(key{what: "lane's row " + combine + acc.String(), t: t, out: out, n: cols}, func(w *writer) { w.acc = acc; w.laneRow(combine, out, cols) },
			rows, manyLanes, []kernels.Binding{x, y})
	} else {
		p.rows(combine, x, y, acc, r)
	}
	return p.done()
}

// dealt is how a block deals out a row: to so many lanes, and which elements are combined to one
// result before these are.
type dealt struct{ lanes, unit int64 }

// inOrder is how sums of floats are written.
var inOrder = dealt{lanes, chunk}

// dealtIn is that, or for what has the same bits in any order no units within a block, and so
// few lanes that what each keeps is in registers, with vectors of 32 bytes too, and that few are
// left when a row ends, for which each vector has a mask of its own.
func dealtIn(combine string, acc isa.Type, r walk) dealt {
	if r.step != 1 || acc.Float() && combine != "min" && combine != "max" {
		return inOrder
	}
	return dealt{int64(freeBytes / acc.Size()), longest}
}

// rows appends the steps that reduce each row of x to an element of y: a block has a
// row, or some units of one, whose results are rows again.
func (p *plan) rows(combine string, x, y kernels.Binding, acc isa.Type, r walk) {
	rows, cols := r.rows, r.cols
	k := key{what: "row " + combine + acc.String(), t: x.Type, out: y.Type, step: r.step}
	slots := []kernels.Binding{x, y}
	if width := int64(1) << (bits.Len64(uint64(cols)) - 1); cols <= lanes && width < cols && width*int64(x.Type.Size()) >= vectorBytes {
		k.what, k.n = "folded "+k.what, cols
		p.step(k, func(w *writer) { w.acc = acc; w.foldedRow(combine, y.Type, width, cols-width) }, rows*width, width, slots, uint64(r.pitch))
		return
	}
	if cols <= lanes {
		p.shortRows(k, func(w *writer, address string) { w.acc = acc; w.shortRow(combine, y.Type, address) }, r, slots)
		return
	}
	k.dealt = dealtIn(combine, acc, r)
	if cols <= longest {
		k.n = (cols + k.unit - 1) / k.unit
		k.full = k.dealt == inOrder && cols-(k.n-1)*k.unit >= k.lanes
		p.step(k, func(w *writer) { w.acc = acc; w.row(combine, y.Type, int(k.n)) }, rows*k.lanes, k.lanes, slots, uint64(cols), uint64(r.pitch))
		return
	}
	k.what, k.out = "part "+combine+acc.String(), acc
	between, units := p.parts(k, func(w *writer, n int) { w.acc = acc; w.part(combine, n) }, r, x)
	p.rows(combine, between, y, acc, walk{rows, units, units, 1})
}

// parts appends the steps that reduce each unit of long rows to an element of type k.out, by
// a program for parts of so many units. Its slots are x, what it returns, and more.
func (p *plan) parts(k key, write func(w *writer, n int), r walk, x kernels.Binding, more ...kernels.Binding) (between kernels.Binding, units int64) {
	rows, cols := r.rows, r.cols
	units = (cols + k.unit - 1) / k.unit
	between = p.room(k.out, rows*units)
	part := func(first, parts, n int64) {
		k.n = n
		p.step(k, func(w *writer) { write(w, int(n)) }, rows*parts*k.lanes, k.lanes, append([]kernels.Binding{x, between}, more...),
			uint64(cols), uint64(r.pitch), uint64(first), uint64(parts), uint64(units))
	}
	whole := cols / longest
	if whole > 0 {
		part(0, whole, longest/k.unit)
	}
	if rest := cols % longest; rest > 0 {
		part(whole*longest, 1, (rest+k.unit-1)/k.unit)
	}
	return between, units
}

// shortRows appends a step in which each lane has an element of a row, at an address.
// Rows that lie one behind the other are walked through by index.
func (p *plan) shortRows(k key, write func(w *writer, address string), r walk, slots []kernels.Binding) {
	if r.packed() {
		p.step(k, func(w *writer) { write(w, "index") }, r.rows*r.cols, r.cols, slots)
		return
	}
	k.shifted = true
	p.step(k, func(w *writer) { write(w, "at") }, r.rows*r.cols, r.cols, slots, uint64(r.pitch))
}

// shortPlace finds where a lane's element is in a row of which each lane has one, for
// its address, if that isn't the index.
func (w *writer) shortPlace(address string) {
	if address == "index" {
		w.line("  sreg q, lane.x\n  sreg row, block.x")
		return
	}
	w.line("param pitch u64\n  sreg q, lane.x\n  sreg row, block.x\n  ldp.u64 pitch, pitch")
	w.line("  cvt.u64.u32 at, row\n  mul.u64 at, at, pitch\n  cvt.u64.u32 lane, q\n  mad.u64 at, lane, %d, at\n  mul.u64 at, at, %d", w.step, w.t.Size())
}

// laneRow reduces the n elements of a lane's row, as a block would.
func (w *writer) laneRow(combine string, out isa.Type, n int64) {
	var z []string
	w.line("program reduce_%s_lane\nslot x %v\nslot y %v", combine, w.t, out)
	w.laneElements(n, func(i int64, address string) {
		z = append(z, fmt.Sprintf("z%d", i))
		w.line("  ldg.%v %s, x[%s]", w.t, z[i], address)
		w.widen(z[i])
	})
	w.tree(combine, z)
	w.storeAs(out, z[0], "y[index]")
	w.line("  exit")
}

// laneElements calls do for each of the n elements of a lane's row, with its address.
func (w *writer) laneElements(n int64, do func(i int64, address string)) {
	size := int64(w.t.Size())
	w.line("  sreg lane, global_lane\n  mul.u64 lane, lane, %d\n  cvt.i64.u64 at, lane", n*size)
	for i := range n {
		do(i, fmt.Sprintf("at + %d", i*size))
	}
}

// shortRow reduces a row of which each lane has an element.
func (w *writer) shortRow(combine string, out isa.Type, address string) {
	w.line("program reduce_%s_short\nslot x %v\nslot y %v", combine, w.t, out)
	w.shortPlace(address)
	w.line("  ldg.%v z, x[%s]", w.t, address)
	w.widen("z")
	w.line("  block_reduce_%s.%v z, z", combine, w.acc)
	w.first("row", out)
}

// foldedRow reduces a row of which each of width lanes has an element, and the first ones have
// one more, so far behind it that these two are combined first. Since width is a power of two,
// and fills a vector, what follows stays in registers: blocks of other widths halve an array.
func (w *writer) foldedRow(combine string, out isa.Type, width, more int64) {
	w.line("program reduce_%s_folded\nslot x %v\nslot y %v", combine, w.t, out)
	w.shortPlace("at")
	w.line("  ldg.%v z, x[at]", w.t)
	w.widen("z")
	w.line("  set.ge.u32 p, q, %d\n  bra over, p\n  add.u64 at, at, %d\n  ldg.%v more, x[at]", more, width*w.step*int64(w.t.Size()), w.t)
	w.widen("more")
	w.line("  %s.%v z, z, more\nover:\n  block_reduce_%[1]s.%[2]v z, z", combine, w.acc)
	w.first("row", out)
}

// row reduces a row of so many units.
func (w *writer) row(combine string, out isa.Type, units int) {
	w.line("program reduce_%s_row\nslot x %v\nslot y %v\nparam cols u64\nparam pitch u64\nblock %d", combine, w.t, out, w.block)
	w.line("  ldp.u64 pitch, pitch")
	w.rowPlace(units, "pitch")
	w.line("  mov.u64 at, base")
	sums := w.chunks(combine, units, func() { w.load("x") })
	w.tree(combine, sums)
	w.line("  mov.%v z, %s", w.acc, sums[0])
	w.first("row", out)
}

// part reduces so many units of a row.
func (w *writer) part(combine string, n int) {
	w.line("program reduce_%s_part\nslot x %v\nslot y %v", combine, w.t, w.acc)
	w.partPlace(n)
	w.partTo(w.chunks(combine, n, func() { w.load("x") }))
}

// partPlace finds where so many units of a row begin for each lane, from element first on;
// a row has several such parts, and units in all.
func (w *writer) partPlace(n int) {
	w.line("param cols u64\nparam pitch u64\nparam first u64\nparam parts u32\nparam units u64\nblock %d", w.block)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 cols, cols\n  ldp.u64 pitch, pitch\n  ldp.u64 first, first\n  ldp.u32 parts, parts\n  ldp.u64 units, units")
	w.line("  div.u32 r, b, parts\n  rem.u32 part, b, parts\n  cvt.u64.u32 row, r\n  cvt.u64.u32 start, part\n  mul.u64 start, start, %d\n  add.u64 start, start, first", longest)
	w.line("  mul.u64 to, row, units\n  shr.u64 of, start, %d\n  add.u64 to, to, of\n  mul.u64 to, to, %d", bits.TrailingZeros64(uint64(w.unit)), w.acc.Size())
	w.line("  sub.u64 len, cols, start\n  min.u64 len, len, %d\n  mul.u64 at, row, pitch\n  cvt.u64.u32 lane, q\n  add.u64 lane, lane, start\n  mad.u64 at, lane, %d, at\n  mul.u64 at, at, %d", longest, w.step, w.t.Size())
	w.line("  cvt.u32.u64 n, len")
	w.counts(n)
}

// partTo stores what the units of a part have come to, and ends.
func (w *writer) partTo(sums []string) {
	w.line("  set.ne.u32 other, q, 0\n  bra end, other")
	for i, s := range sums {
		w.line("  stg.%v %s, y[to + %d]", w.acc, s, i*w.acc.Size())
	}
	w.line("end:\n  exit")
}

// counts finds how many rounds of elements all lanes have in the last of a block's so many
// units, of n elements in all, and how many lanes have one more. There are no more rounds than
// a unit has: that is said, for who is in a longer loop asks in each round whether to go on.
func (w *writer) counts(units int) {
	w.line("  shr.u32 rounds, n, %d\n  and.u32 left, n, %d\n  sub.u32 last, rounds, %d\n  min.u32 last, last, %d",
		bits.TrailingZeros64(uint64(w.block)), w.block-1, int64(units)*w.unit/w.block-w.rounds(), w.rounds())
}

// rounds is how many rounds of a unit's elements its loop has at most.
func (w *writer) rounds() int64 {
	if w.full {
		return w.unit/w.block - 1
	}
	return w.unit / w.block
}

// rowPlace finds where the block's row begins for each lane, and its counts. How many
// elements there are from row to row is in a register.
func (w *writer) rowPlace(units int, pitch string) {
	w.line("  sreg q, lane.x\n  sreg row, block.x\n  ldp.u64 cols, cols")
	w.line("  cvt.u64.u32 base, row\n  mul.u64 base, base, %s\n  cvt.u64.u32 lane, q\n  mad.u64 base, lane, %d, base\n  mul.u64 base, base, %d", pitch, w.step, w.t.Size())
	w.line("  cvt.u32.u64 n, cols")
	w.counts(units)
}

// chunks combines what element leaves in z for each element of the row, unit by
// unit, to registers that it returns.
func (w *writer) chunks(combine string, units int, element func()) (results []string) {
	for c := range units {
		s := fmt.Sprintf("s%d", c)
		results = append(results, s)
		w.line("  mov.%v %s, %s", w.acc, s, kernels.Identity(combine, w.acc))
		rounds, left := fmt.Sprint(w.rounds()), ""
		if c == units-1 {
			rounds, left = "last", "left"
		}
		if w.full { // the first elements are what sums begin with
			element()
			w.line("  mov.%v %s, z\n  add.u64 at, at, %d", w.acc, s, w.block*w.step*int64(w.t.Size()))
		}
		w.each(rounds, left, func() {
			element()
			w.line("  %s.%v %s, %[3]s, z", combine, w.acc, s)
		})
		w.line("  block_reduce_%s.%v %s, %[3]s", combine, w.acc, s)
	}
	return results
}

// first has lane 0 store z as the element of slot y that a register names.
func (w *writer) first(index string, out isa.Type) {
	w.line("  set.ne.u32 other, q, 0\n  bra end, other\n  cvt.u64.u32 to, %s\n  mul.u64 to, to, %d", index, out.Size())
	w.storeAs(out, "z", "y[to]")
	w.line("end:\n  exit")
}
