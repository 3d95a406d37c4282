package tuned

import (
	"fmt"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// placeBlock is how many elements of a row a block looks for a place in, narrow ones by at most 256
// rounds, see countType.
const placeBlock = 4 * chunk

// lanePlaced is laneReduced for those that look for a place, unless a row is whole vectors.
func lanePlaced(t isa.Type) int64 {
	if t.Size() < 4 {
		return 16
	}
	return 24
}

// place finds the place of each row's extreme element in one pass: a lane keeps the
// extreme of its own elements, the first of equal ones or the first NaN, and in
// which round it was. A long row is a block's by parts, of which a second step does
// the same.
func place(combine string, t, out isa.Type, r walk) (*kernels.Plan, error) {
	rows, cols := r.rows, r.cols
	parts := (cols + placeBlock - 1) / placeBlock
	short := cols <= lanePlaced(t) && cols*int64(t.Size())%vectorBytes != 0 && rows >= manyRows && r.packed()
	if rows < 1 || cols < 1 || rows*parts >= 1<<31 || cols >= 1<<31 || cols < fewLanes && rows >= manyRows && !short || out.Size() < 4 {
		return nil, nil
	}
	if rows >= few && cols <= longest {
		parts = 1
	}
	p := &plan{}
	// Places are below 2^32. As two halves they keep the program to 32 bits.
	x, y := r.operand(t), operand(1, isa.U32)
	y.Shape, y.Stride = []int64{rows * int64(out.Size()) / 4}, []int64{1}
	step := func(k key, n, pitch int64, write func(w *writer), slots ...kernels.Binding) {
		k.what = "place of " + combine
		block := placeLanes(t)
		p.step(k, write, n*block, block, slots, uint64(cols), uint64(parts), uint64(pitch))
	}
	if short {
		p.step(key{what: "lane's place of " + combine, t: t, out: out, n: cols}, func(w *writer) { w.lanePlace(combine, out, cols) },
			rows, manyLanes, []kernels.Binding{x, y})
		return p.done()
	}
	if cols <= lanes {
		p.shortRows(key{what: "short place of " + combine, t: t, out: out, step: r.step}, func(w *writer, address string) { w.placeInShort(combine, out, address) },
			r, []kernels.Binding{x, y})
		return p.done()
	}
	if parts == 1 {
		step(key{t: t, out: out, step: r.step}, rows, r.pitch, func(w *writer) { w.place(combine, out, false, false) }, x, y)
		return p.done()
	}
	values, found := p.room(t, rows*parts), p.room(isa.U32, rows*parts)
	step(key{t: t, out: isa.U32, n: 1, step: r.step}, rows*parts, r.pitch, func(w *writer) { w.place(combine, isa.U32, true, false) }, x, found, values)
	step(key{t: t, out: out, n: 2}, rows, parts, func(w *writer) { w.place(combine, out, false, true) }, values, y, found)
	return p.done()
}

// placeLanes is how many lanes look for a place in a row: as many as combine in any order, since
// an extreme and its place are two such. Narrow integers stay packed, and are counted in types as
// narrow.
func placeLanes(t isa.Type) int64 {
	size := t.Size()
	if t.Float() {
		size = max(size, 4)
	}
	return int64(freeBytes / size)
}

// lanePlace finds the place in the n elements of a lane's row.
func (w *writer) lanePlace(combine string, out isa.Type, n int64) {
	w.acc = w.t
	w.line("program lane_place_of_%s\nslot x %v\nslot y u32\n  mov.u32 w, 0", combine, w.t)
	w.laneElements(n, func(i int64, address string) {
		if i == 0 {
			w.line("  ldg.%v m, x[%s]", w.t, address)
			return
		}
		w.line("  ldg.%v z, x[%s]", w.t, address)
		w.keep(combine, isa.U32, fmt.Sprint(i))
	})
	w.line("  sreg to, global_lane")
	w.foundTo(out)
	w.line("  exit")
}

// placeInShort is for rows of which each lane has an element.
func (w *writer) placeInShort(combine string, out isa.Type, address string) {
	w.acc = w.t
	w.line("program short_place_of_%s\nslot x %v\nslot y u32", combine, w.t)
	w.shortPlace(address)
	w.line("  ldg.%v m, x[%s]", w.t, address)
	w.extreme(combine)
	w.least("w", w.counted("q"))
	w.line("  set.ne.u32 other, q, 0\n  bra end, other")
	w.foundAt("row", out)
	w.line("end:\n  exit")
}

// extreme finds which lanes have the extreme of all in m, or NaN.
func (w *writer) extreme(combine string) {
	w.line("  block_reduce_%s.%v best, m\n  set.eq.%[2]v found, m, best", combine, w.t)
	if w.t.Float() {
		w.line("  set.ne.%v isnan, m, m\n  or.pred found, found, isnan", w.t)
	}
}

// keep keeps the extreme of m and z in m, and in w, of type t, its place, where z's is
// in a register; of equal ones the first, or the first NaN.
func (w *writer) keep(combine string, t isa.Type, place string) {
	w.line("  set.%s.%v keep, z, m", map[string]string{"max": "le", "min": "ge"}[combine], w.t) // not, if one is NaN
	if w.t.Float() {
		w.line("  set.ne.%v isnan, m, m\n  or.pred keep, keep, isnan", w.t)
	}
	if w.t.Integer() && w.t.Size() < 8 { // waits for no comparison; AVX2 has none of 64 bits
		w.line("  %s.%v m, m, z\n  sel.%v w, keep, w, %s", combine, w.t, t, place)
		return
	}
	w.line("  sel.%v m, keep, m, z\n  sel.%v w, keep, w, %s", w.t, t, place)
}

// countType is one in which lanes of a block and their rounds can be counted: one as
// wide as narrow integers are, so that these stay packed in registers. In 8 bits that is
// up to 256 rounds of 256 lanes, 65,536 elements: neither placeBlock nor longest may be more.
func (w *writer) countType() isa.Type {
	switch {
	case w.t.Integer() && w.t.Size() == 1:
		return isa.U8
	case w.t.Integer() && w.t.Size() == 2:
		return isa.U16
	}
	return isa.U32
}

// counted brings a u32 into that type.
func (w *writer) counted(r string) string {
	if c := w.countType(); c != isa.U32 {
		w.line("  cvt.%v.u32 counted, %s", c, r)
		return "counted"
	}
	return r
}

// least leaves in a u32 the least of what from has in the lanes that are found.
func (w *writer) least(to, from string) {
	c := w.countType()
	w.line("  sel.%v least, found, %s, 0x%x\n  block_reduce_min.%[1]v least, least", c, from, c.Mask())
	if c != isa.U32 {
		w.line("  cvt.u32.%v %s, least", c, to)
	} else {
		w.line("  mov.u32 %s, least", to)
	}
}

// foundAt stores w as the element of slot y that a register names, by halves.
func (w *writer) foundAt(index string, out isa.Type) {
	w.line("  cvt.u64.u32 to, %s", index)
	w.foundTo(out)
}

func (w *writer) foundTo(out isa.Type) {
	w.line("  mul.u64 k, to, %d\n  cvt.i64.u64 k, k\n  stg.u32 w, y[k]", out.Size())
	if out.Size() == 8 {
		w.line("  stg.u32 0, y[k + 4]")
	}
}

// places has each lane find the extreme of its elements, in m, and in which round it is.
func (w *writer) places(combine string) {
	c := w.countType()
	w.line("  mov.%v m, %s\n  mov.%v w, 0\n  mov.%[3]v round, 0", w.t, kernels.Identity(combine, w.t), c)
	w.each("rounds", "left", func() {
		w.line("  ldg.%v z, x[at]", w.t)
		w.keep(combine, c, "round")
		w.line("  add.%v round, round, 1", c)
	})
}

// placesOfNumbers is places and extreme of f32 and f64: as if there were no NaN, which what there is of bits
// but the sign tells in the end, and then once more if there is. With NaNs each element would
// wait for two comparisons of the one before: rows of 1,024 would take 1.2 to 1.3 of the time. Rounds are
// counted in numbers as wide as elements, for which masks are as these's.
func (w *writer) placesOfNumbers(combine string) {
	t, i, c, inf := w.t, isa.I32, isa.U32, uint64(0x7f800000)
	if t == isa.F64 {
		i, c, inf = isa.I64, isa.U64, 0x7ff0000000000000
	}
	w.line("  mov.u64 start_at, at\n  mov.%v most, 0\n  mov.%v m, %s\n  mov.%v at_round, 0\n  mov.%[4]v round, 0", i, t, kernels.Identity(combine, t), c)
	w.each("rounds", "left", func() {
		w.line("  ldg.%v z, x[at]\n  set.%s.%[1]v beyond, z, m\n  sel.%[1]v m, beyond, z, m\n  sel.%[3]v at_round, beyond, round, at_round", t, map[string]string{"max": "gt", "min": "lt"}[combine], c)
		w.line("  bitcast.%v.%v bits, z\n  and.%[1]v bits, bits, 0x%[3]x\n  max.%[1]v most, most, bits\n  add.%[4]v round, round, 1", i, t, i.Mask()>>1, c)
	})
	if c == isa.U64 {
		w.line("  cvt.u32.u64 w, at_round")
	} else {
		w.line("  mov.u32 w, at_round")
	}
	w.line("  set.gt.%v isnan, most, 0x%x\n  sel.%v m, isnan, nan, m\n  block_reduce_%s.%[3]v best, m\n  set.eq.%[3]v number, best, best\n  bra known, number\n  mov.u64 at, start_at", i, inf, t, combine)
	w.places(combine)
	w.line("known:\n  set.eq.%v found, m, best\n  set.ne.%[1]v isnan, m, m\n  or.pred found, found, isnan", t)
}

// place writes the program: on parts of rows, which leaves the extremes in a slot
// of its own too, or on what there is of each part, with its place in a slot.
func (w *writer) place(combine string, out isa.Type, parts, joins bool) {
	w.acc, w.block = w.t, placeLanes(w.t)
	w.line("program place_of_%s\nslot x %v\nslot y u32", combine, w.t)
	if parts || joins {
		w.line("slot more %v", map[bool]isa.Type{true: w.t, false: isa.U32}[parts])
	}
	w.line("param cols u64\nparam parts u32\nparam pitch u64\nblock %d\n  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 cols, cols\n  ldp.u32 parts, parts\n  ldp.u64 pitch, pitch", w.block)
	w.line("  cvt.u64.u32 lane, q\n  cvt.u64.u32 row, b\n  mov.u64 first, 0\n  mov.u64 len, cols")
	switch {
	case parts:
		w.line("  div.u32 r, b, parts\n  rem.u32 part, b, parts\n  cvt.u64.u32 row, r\n  cvt.u64.u32 first, part\n  mul.u64 first, first, %d", placeBlock)
		w.line("  sub.u64 len, cols, first\n  min.u64 len, len, %d", placeBlock)
	case joins:
		w.line("  cvt.u64.u32 cols, parts\n  mov.u64 len, cols")
	}
	w.line("  mul.u64 at, row, pitch\n  add.u64 lane, lane, first\n  mad.u64 at, lane, %d, at\n  mul.u64 at, at, %d", w.step, w.t.Size())
	c := w.countType()
	w.line("  cvt.u32.u64 n, len\n  shr.u32 rounds, n, %d\n  and.u32 left, n, %d\n  cvt.u32.u64 start, first", bits.TrailingZeros64(uint64(w.block)), w.block-1)
	if w.t == isa.F32 || w.t == isa.F64 {
		w.placesOfNumbers(combine)
	} else {
		w.places(combine)
		w.extreme(combine)
	}
	if parts || joins { // a lane may have no element, but what changes nothing, which may be the extreme
		w.line("  set.lt.u32 some, q, n\n  and.pred found, found, some")
	}
	if c == isa.U32 {
		w.line("  mul.u32 w, w, %d\n  add.u32 w, w, q", w.block)
		w.least("w", "w")
	} else { // which round, then which lane: what it takes to tell both is wider
		w.least("of", "w")
		w.line("  set.eq.%v same, w, least\n  and.pred found, found, same", c)
		w.least("w", w.counted("q"))
		w.line("  mad.u32 w, of, %d, w", w.block)
	}
	w.line("  add.u32 w, w, start\n  set.ne.u32 other, q, 0\n  bra end, other")
	if joins {
		w.line("  mul.u64 of, row, cols\n  cvt.u64.u32 wide, w\n  add.u64 of, of, wide\n  mul.u64 of, of, 4\n  ldg.u32 w, more[of]")
	}
	w.foundAt("b", out)
	if parts {
		w.line("  mul.u64 k, to, %d\n  stg.%v best, more[k]", w.t.Size(), w.t)
	}
	w.line("end:\n  exit")
}
