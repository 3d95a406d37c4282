package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Places along columns of which there are few: lanes that lie along memory go on into the
// next rows, so that a block has some rows side by side. Each lane finds the extreme of
// every so many-th row of its column, and in the end a lane for each column that of these.
const (
	placeBytes = 512     // of memory that lanes of a block fill
	roundsEach = 16      // of a lane, at least: fewer are not worth the second step
	partRows   = 1 << 14 // of a block, about
	mostPieces = 64      // parts of a column
)

// narrowPlaces appends the steps of columnPlaces, or none if they are not worth it.
func (p *plan) narrowPlaces(combine string, t, out isa.Type, matrices, rows, cols int64) bool {
	vectors := placeBytes / int64(max(t.Size(), 4)) // what lanes are a multiple of, if they can be
	groups := vectors
	for groups%2 == 0 && groups/2*cols%vectors == 0 {
		groups /= 2
	}
	if groups*cols > isa.MaxBlockLanes {
		groups = isa.MaxBlockLanes / cols
	}
	if cols >= vectors || rows < groups*roundsEach {
		return false
	}
	parts := min(max(rows/partRows, 1), mostPieces)
	x, y := operand(0, t), operand(1, isa.U32) // places as two halves where they are wider
	x.Shape, x.Stride = []int64{matrices * rows * cols}, []int64{1}
	y.Shape, y.Stride = []int64{matrices * cols * int64(out.Size()) / 4}, []int64{1}
	found := matrices * parts * groups * cols
	slots := []kernels.Binding{x, p.room(isa.U32, found), p.room(t, found)}
	p.step(key{what: "narrow places " + combine, t: t, n: cols}, func(w *writer) { w.narrowPlaces(combine, groups, cols) },
		found, groups*cols, slots, uint64(rows), uint64((rows+parts-1)/parts), uint64(parts))
	p.step(key{what: "narrow places joined " + combine, t: t, out: out, n: cols}, func(w *writer) { w.joinPlaces(combine, out, cols) },
		matrices*cols, cols, []kernels.Binding{slots[2], slots[1], y}, uint64(parts*groups))
	return true
}

// narrowPlaces finds the extreme of every groups-th row, and where it is. Rows that are
// left after the last round are one with some of those before, which changes nothing.
func (w *writer) narrowPlaces(combine string, groups, cols int64) {
	w.acc = w.t
	size := int64(w.t.Size())
	w.line("program narrow_places\nslot x %v\nslot places u32\nslot best %[1]v\nparam rows u64\nparam each u64     ; rows of a part, but the last\nparam parts u32\nblock %d", w.t, groups*cols)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 rows, rows\n  ldp.u64 each, each\n  ldp.u32 parts, parts")
	w.line("  rem.u32 part, b, parts\n  div.u32 matrix, b, parts\n  cvt.u64.u32 top, part\n  mul.u64 top, top, each\n  sub.u64 len, rows, top\n  min.u64 len, len, each")
	w.line("  cvt.u64.u32 m64, matrix\n  mad.u64 at, m64, rows, top\n  mul.u64 at, at, %d\n  cvt.u64.u32 lane, q\n  add.u64 at, at, lane\n  mul.u64 at, at, %d", cols, size)
	w.line("  cvt.u32.u64 n, len\n  div.u32 rounds, n, %d\n  mul.u32 whole, rounds, %[1]d\n  sub.u32 more, n, whole\n  sub.u32 again, %[1]d, more", groups)
	w.line("  mov.%v m, %s\n  mov.u32 w, 0\n  mov.u32 round, 0\n  loop rounds, down\n  ldg.%[1]v z, x[at]", w.t, kernels.Identity(combine, w.t))
	w.keep(combine, isa.U32, "round")
	w.line("  add.u32 round, round, 1\n  add.u64 at, at, %d\ndown:\n  cvt.u64.u32 back, again\n  mul.u64 back, back, %d\n  sub.u64 at, at, back\n  ldg.%v z, x[at]", groups*cols*size, cols*size, w.t)
	w.keep(combine, isa.U32, "rounds")
	w.line("  set.eq.u32 last, w, rounds\n  sel.u32 back, last, again, 0\n  div.u32 g, q, %d\n  mad.u32 w, w, %d, g\n  sub.u32 w, w, back\n  cvt.u32.u64 start, top\n  add.u32 w, w, start", cols, groups)
	w.line("  cvt.u64.u32 to, b\n  mul.u64 to, to, %d\n  add.u64 to, to, lane\n  mul.u64 k, to, 4\n  stg.u32 w, places[k]\n  mul.u64 k, to, %d\n  stg.%v m, best[k]\n  exit", groups*cols, size, w.t)
}

// joinPlaces finds the extreme of a column's extremes, and the least place of those that
// are as it is.
func (w *writer) joinPlaces(combine string, out isa.Type, cols int64) {
	size := int64(w.t.Size())
	w.line("program join_places\nslot best %v\nslot places u32\nslot y u32\nparam n u32\nblock %d", w.t, cols)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u32 n, n\n  cvt.u64.u32 lane, q\n  cvt.u64.u32 matrix, b\n  cvt.u64.u32 n64, n\n  mul.u64 first, matrix, n64\n  mul.u64 first, first, %d\n  add.u64 first, first, lane", cols)
	w.line("  mul.u64 at, first, %d\n  mov.%v m, %s\n  loop n, extreme\n  ldg.%[2]v z, best[at]\n  %[4]s.%[2]v m, m, z\n  add.u64 at, at, %[5]d\nextreme:", size, w.t, kernels.Identity(combine, w.t), combine, cols*size)
	w.line("  mul.u64 at, first, %d\n  mul.u64 from, first, 4\n  mov.u32 w, 0xffffffff\n  loop n, least\n  ldg.%v z, best[at]\n  ldg.u32 place, places[from]\n  set.eq.%[2]v found, z, m", size, w.t)
	if w.t.Float() {
		w.line("  set.ne.%v isnan, z, z\n  or.pred found, found, isnan", w.t)
	}
	w.line("  sel.u32 place, found, place, 0xffffffff\n  min.u32 w, w, place\n  add.u64 at, at, %d\n  add.u64 from, from, %d\nleast:", cols*size, cols*4)
	w.line("  mul.u64 to, matrix, %d\n  add.u64 to, to, lane", cols)
	w.foundTo(out)
	w.line("  exit")
}
