package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Sums along columns of which there are few: lanes that lie along memory would fill no
// vector, so they go down the columns, as many as a chunk has rows, and each lane has an
// element of every column. Machine code scans all of them as they lie in memory, where elements and
// sums have one type, of 32 bits or more: others are converted. What is before a chunk is kept as
// often as lanes along memory want it, which add it to the chunk's sums: they collect nothing.
const (
	narrowColumns = 8
	narrowBytes   = 64 // of a matrix's row
)

// narrow reports whether there are so few columns of sums of type t.
func narrow(t isa.Type, cols int64) bool {
	return cols <= narrowColumns && cols*int64(t.Size()) <= narrowBytes
}

// narrow appends the steps of columnSums for such columns: chunks that have all rows are scanned so.
func (s *columnScans) narrow(x, y kernels.Binding) {
	whole := s.whole()
	launch := func(what string, write func(w *writer), block, first, chunks int64, slots ...kernels.Binding) {
		k := key{what: what, t: y.Type, n: s.cols, exact: len(slots) > 2}
		s.step(k, write, s.matrices*chunks*block, block, slots, uint64(s.rows), uint64(first), uint64(chunks), uint64(whole))
	}
	scan := func(first, chunks int64, slots ...kernels.Binding) {
		launch("narrow scan", func(w *writer) { w.narrowScan(s.cols, len(slots) > 2) }, kernels.ScanChunk, first, chunks, slots...)
	}
	if s.last() == kernels.ScanChunk {
		scan(whole, 1, x, y)
	} else {
		s.scan(whole, 1, s.last(), x, y)
	}
	if whole == 0 {
		return
	}
	room := s.matrices * whole * joined(s.cols)
	totals := s.room(y.Type, room)
	scan(0, whole, x, y, totals)
	before := totals
	if whole > 1 {
		before = s.room(y.Type, room)
		s.columnSums(totals, before, s.matrices, whole, joined(s.cols))
	}
	launch("narrow join", func(w *writer) { w.narrowJoin(s.cols) }, joinLanes, 1, whole, before, y)
}

// joinLanes add to a chunk's sums, as many as are a vector of f32.
const joinLanes = 16

// joined is how many elements side by side they add to in a round: so many that these are rows, too.
func joined(cols int64) int64 {
	n := int64(joinLanes)
	for n%cols > 0 {
		n += joinLanes
	}
	return n
}

// narrowPlace is where a lane is: its row of its matrix begins at element at, and
// what belongs to its chunk, in a matrix of one row for each, at of. left rows are there
// for the block's lanes.
func (w *writer) narrowPlace(lanes, cols int64) {
	w.line("param rows u64\nparam first u32    ; chunk\nparam chunks u32\nparam whole u32     ; chunks with totals in a matrix\nblock %d", lanes)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 rows, rows\n  ldp.u32 first, first\n  ldp.u32 chunks, chunks\n  ldp.u32 whole, whole")
	w.line("  rem.u32 chunk, b, chunks\n  div.u32 matrix, b, chunks\n  add.u32 chunk, chunk, first")
	w.line("  cvt.u64.u32 chunk, chunk\n  cvt.u64.u32 matrix, matrix\n  cvt.u64.u32 whole, whole\n  cvt.u64.u32 lane, q")
	w.line("  mul.u64 top, chunk, %d\n  sub.u64 len, rows, top\n  min.u64 len, len, %[1]d\n  cvt.u32.u64 left, len", kernels.ScanChunk)
	w.line("  mad.u64 at, matrix, rows, top\n  add.u64 at, at, lane\n  mul.u64 at, at, %d\n  mad.u64 of, matrix, whole, chunk\n  mul.u64 of, of, %[1]d", cols)
}

// offset makes a byte offset, which constants can be added to, of a number of elements.
func (w *writer) offset(to, elements string, t isa.Type) {
	w.line("  mul.u64 %s, %s, %d\n  cvt.i64.u64 %[1]s, %[1]s", to, elements, t.Size())
}

// narrowScan finds the sums in a whole chunk, and its totals if asked for.
func (w *writer) narrowScan(cols int64, totals bool) {
	size := int64(w.t.Size())
	w.line("program narrow_scan\nslot x %v\nslot y %[1]v", w.t)
	if totals {
		w.line("slot totals %v", w.t)
	}
	w.narrowPlace(kernels.ScanChunk, cols)
	w.offset("at", "at", w.t)
	for j := range cols {
		w.line("  ldg.%v z%d, x[at + %d]", w.t, j, j*size)
	}
	for j := range cols {
		w.line("  block_scan_add.%v z%d, z%[2]d", w.t, j)
	}
	for j := range cols {
		w.line("  stg.%v z%d, y[at + %d]", w.t, j, j*size)
	}
	if totals {
		w.line("  bar_sync 0\n  set.ge.u32 other, q, %d\n  bra end, other", cols)
		w.line("  mul.u64 last, lane, %d\n  cvt.i64.u64 last, last\n  sub.i64 last, at, last\n  mul.u64 of, of, %d\n  add.u64 of, of, lane", (cols-1)*size, joined(cols)/cols)
		w.offset("of", "of", w.t)
		w.line("  ldg.%v z, y[last + %d]", w.t, (kernels.ScanChunk-1)*cols*size)
		for j := int64(0); j < joined(cols); j += cols {
			w.line("  stg.%v z, totals[of + %d]", w.t, j*size)
		}
		w.line("end:")
	}
	w.line("  exit")
}

// narrowJoin adds to the sums in a chunk what is before it.
func (w *writer) narrowJoin(cols int64) {
	size, each := int64(w.t.Size()), joined(cols)
	w.line("program narrow_join\nslot before %v\nslot y %[1]v", w.t)
	w.narrowPlace(joinLanes, cols)
	w.line("  mad.u64 at, matrix, rows, top\n  mad.u64 at, at, %d, lane\n  sub.u64 of, chunk, 1\n  mad.u64 of, matrix, whole, of\n  mad.u64 of, of, %d, lane", cols, each)
	w.offset("at", "at", w.t)
	w.offset("of", "of", w.t)
	for i := int64(0); i < each; i += joinLanes {
		w.line("  ldg.%v b%d, before[of + %d]", w.t, i, i*size)
	}
	add := func(i int64) {
		w.line("  ldg.%v z, y[at + %d]\n  add.%[1]v z, b%[3]d, z\n  stg.%[1]v z, y[at + %[2]d]", w.t, i*size, i)
	}
	w.line("  mul.u32 n, left, %d\n  div.u32 rounds, n, %d\n  rem.u32 rest, n, %[2]d\n  loop rounds, joined", cols, each)
	for i := int64(0); i < each; i += joinLanes {
		add(i)
	}
	w.line("  add.i64 at, at, %d\njoined:", each*size)
	for i := int64(0); i < each; i += joinLanes { // lanes agree on whether there is a rest at all
		w.line("  min.u32 here, rest, %d\n  sub.u32 rest, rest, here\n  set.eq.u32 p, here, 0\n  bra end, p\n  set.ge.u32 p, q, here\n  bra over%d, p", joinLanes, i)
		add(i)
		w.line("over%d:", i)
	}
	w.line("end:\n  exit")
}
