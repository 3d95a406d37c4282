package tuned

import (
	"fmt"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Sums along columns of which there are few: lanes that lie along memory would fill no
// vector, so they go down the columns, as many as a chunk has rows, and each lane has an
// element of every column. What is before a chunk is kept as often as lanes along memory want
// it, which add it to the chunk's sums: they collect nothing.
const (
	narrowColumns = 4
	narrowBytes   = 32 // of a matrix's row
)

// narrowSums appends the steps of columnSums for such columns.
func (p *plan) narrowSums(x, y kernels.Binding, matrices, rows, cols int64) {
	whole := (rows - 1) / kernels.ScanChunk // chunks before the last
	last := rows - whole*kernels.ScanChunk
	launch := func(what string, write func(w *writer), block, first, chunks int64, slots ...kernels.Binding) {
		k := key{what: what, t: slots[0].Type, out: y.Type, n: block<<8 | cols, exact: len(slots) > 2, once: first == whole && last < block}
		p.step(k, write, matrices*chunks*block, block, slots, uint64(rows), uint64(first), uint64(chunks), uint64(whole))
	}
	joined := joinLanes(cols)
	scan := func(lanes int64, all, totals bool) func(w *writer) {
		return func(w *writer) { w.narrowScan(y.Type, lanes, cols, all, totals) }
	}
	lanes := int64(1) << bits.Len64(uint64(last-1))
	launch("narrow scan", scan(lanes, lanes == last, false), lanes, whole, 1, x, y)
	if whole == 0 {
		return
	}
	totals := p.room(y.Type, matrices*whole*joined)
	launch("narrow scan", scan(kernels.ScanChunk, true, true), kernels.ScanChunk, 0, whole, x, y, totals)
	before := totals
	if whole > 1 {
		before = p.room(y.Type, matrices*whole*joined)
		p.columnSums(totals, before, matrices, whole, joined)
	}
	launch("narrow join", func(w *writer) { w.narrowJoin(y.Type, cols) }, joined, 1, whole, before, y)
}

// joinLanes is how many lanes add to a chunk's sums: a vector of f32, or as many as have
// whole rows.
func joinLanes(cols int64) int64 {
	if cols == 3 {
		return 48
	}
	return 16
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

// narrowScan finds the sums in a chunk, and its totals if asked for.
func (w *writer) narrowScan(acc isa.Type, lanes, cols int64, all, totals bool) {
	w.acc = acc
	w.line("program narrow_scan\nslot x %v\nslot y %v", w.t, acc)
	if totals {
		w.line("slot totals %v", acc)
	}
	w.narrowPlace(lanes, cols)
	w.offset("from", "at", w.t)
	w.offset("to", "at", acc)
	for j := range cols {
		w.line("  mov.%v z%d, %s", acc, j, kernels.Identity("add", acc))
	}
	w.inside(all, func() {
		for j := range cols {
			w.line("  ldg.%v z%d, x[from + %d]", w.t, j, j*int64(w.t.Size()))
			w.widen(fmt.Sprintf("z%d", j))
		}
	})
	for j := range cols {
		w.line("  block_scan_add.%v z%d, z%[2]d", acc, j)
	}
	w.inside(all, func() { w.narrowStore(acc, cols) })
	if totals {
		w.line("  bar_sync 0\n  set.ge.u32 other, q, %d\n  bra end, other", cols)
		w.line("  mul.u64 back, lane, %d\n  sub.u64 last, at, back\n  mul.u64 of, of, %d\n  add.u64 of, of, lane", cols-1, joinLanes(cols)/cols)
		w.offset("last", "last", acc)
		w.offset("of", "of", acc)
		w.line("  ldg.%v z, y[last + %d]", acc, (lanes-1)*cols*int64(acc.Size()))
		for j := int64(0); j < joinLanes(cols); j += cols {
			w.line("  stg.%v z, totals[of + %d]", acc, j*int64(acc.Size()))
		}
		w.line("end:")
	}
	w.line("  exit")
}

func (w *writer) narrowStore(acc isa.Type, cols int64) {
	for j := range cols {
		w.line("  stg.%v z%d, y[to + %d]", acc, j, j*int64(acc.Size()))
	}
}

// narrowJoin adds to the sums in a chunk what is before it.
func (w *writer) narrowJoin(acc isa.Type, cols int64) {
	w.acc, w.block = acc, joinLanes(cols)
	w.line("program narrow_join\nslot before %v\nslot y %[1]v", acc)
	w.narrowPlace(w.block, cols)
	w.line("  mad.u64 at, matrix, rows, top\n  mad.u64 at, at, %d, lane\n  mul.u64 at, at, %d", cols, acc.Size())
	w.line("  sub.u64 of, chunk, 1\n  mad.u64 of, matrix, whole, of\n  mul.u64 of, of, %d\n  add.u64 of, of, lane", w.block)
	w.line("  mul.u64 of, of, %d\n  ldg.%v b, before[of]\n  mul.u32 n, left, %d\n  div.u32 rounds, n, %d\n  rem.u32 rest, n, %[4]d", acc.Size(), acc, cols, w.block)
	w.each("rounds", "rest", func() {
		w.line("  ldg.%v z, y[at]\n  add.%[1]v z, b, z\n  stg.%[1]v z, y[at]", acc)
	})
	w.line("  exit")
}
