package tuned

import (
	"fmt"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Sums along columns of which there are few: lanes that lie along memory would fill no
// vector, so they go down the columns, as many as a chunk has rows, and each lane has an
// element of every column.
const (
	narrowColumns = 4
	narrowBytes   = 16 // of a matrix's row
)

// narrowSums appends the steps of columnSums for such columns.
func (p *plan) narrowSums(x, y kernels.Binding, matrices, rows, cols int64) {
	chunks := (rows + kernels.ScanChunk - 1) / kernels.ScanChunk
	whole := chunks - 1 // chunks before the last
	lanes := min(int64(1)<<bits.Len64(uint64(rows-1)), kernels.ScanChunk)
	launch := func(what string, write func(w *writer), first int64, slots ...kernels.Binding) {
		k := key{what: what, t: slots[0].Type, out: y.Type, n: lanes<<8 | cols, exact: len(slots) > 2}
		p.step(k, write, matrices*(chunks-first)*lanes, lanes, slots, uint64(rows), uint64(first), uint64(chunks-first), uint64(whole))
	}
	scan := func(totals bool) func(w *writer) {
		return func(w *writer) { w.narrowScan(y.Type, lanes, cols, totals) }
	}
	if whole == 0 {
		launch("narrow scan", scan(false), 0, x, y)
		return
	}
	totals := p.room(y.Type, matrices*whole*cols)
	launch("narrow scan", scan(true), 0, x, y, totals)
	before := totals
	if whole > 1 {
		before = p.room(y.Type, matrices*whole*cols)
		p.columnSums(totals, before, matrices, whole, cols)
	}
	launch("narrow join", func(w *writer) { w.narrowJoin(y.Type, lanes, cols) }, 1, before, y)
}

// narrowPlace is where a lane is: its row of its matrix begins at element at, and
// what belongs to its chunk, in a matrix of one row for each, at of. left rows are there
// for the block's lanes.
func (w *writer) narrowPlace(lanes, cols int64) {
	w.line("param rows u64\nparam first u32    ; chunk\nparam chunks u32\nparam whole u32     ; chunks with totals in a matrix\nblock %d", lanes)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 rows, rows\n  ldp.u32 first, first\n  ldp.u32 chunks, chunks\n  ldp.u32 whole, whole")
	w.line("  rem.u32 chunk, b, chunks\n  div.u32 matrix, b, chunks\n  add.u32 chunk, chunk, first\n  set.lt.u32 sums, chunk, whole")
	w.line("  cvt.u64.u32 chunk, chunk\n  cvt.u64.u32 matrix, matrix\n  cvt.u64.u32 whole, whole\n  cvt.u64.u32 lane, q")
	w.line("  mul.u64 top, chunk, %d\n  sub.u64 len, rows, top\n  min.u64 len, len, %[1]d\n  cvt.u32.u64 left, len", kernels.ScanChunk)
	w.line("  mad.u64 at, matrix, rows, top\n  add.u64 at, at, lane\n  mul.u64 at, at, %d\n  mad.u64 of, matrix, whole, chunk\n  mul.u64 of, of, %[1]d", cols)
}

// offset makes a byte offset, which constants can be added to, of a number of elements.
func (w *writer) offset(to, elements string, t isa.Type) {
	w.line("  mul.u64 %s, %s, %d\n  cvt.i64.u64 %[1]s, %[1]s", to, elements, t.Size())
}

// narrowScan finds the sums in a chunk, and its totals if asked for.
func (w *writer) narrowScan(acc isa.Type, lanes, cols int64, totals bool) {
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
	w.inside(lanes, func() {
		for j := range cols {
			w.line("  ldg.%v z%d, x[from + %d]", w.t, j, j*int64(w.t.Size()))
			w.widen(fmt.Sprintf("z%d", j))
		}
	})
	for j := range cols {
		w.line("  block_scan_add.%v z%d, z%[2]d", acc, j)
	}
	w.inside(lanes, func() { w.narrowStore(acc, cols) })
	if totals {
		w.line("  not.pred sums, sums\n  bra end, sums\n  set.ne.u32 other, q, %d\n  bra end, other", lanes-1)
		w.offset("of", "of", acc)
		for j := range cols {
			w.line("  stg.%v z%d, totals[of + %d]", acc, j, j*int64(acc.Size()))
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
func (w *writer) narrowJoin(acc isa.Type, lanes, cols int64) {
	w.acc = acc
	w.line("program narrow_join\nslot before %v\nslot y %[1]v", acc)
	w.narrowPlace(lanes, cols)
	w.line("  sub.u64 of, of, %d", cols)
	w.offset("of", "of", acc)
	w.offset("to", "at", acc)
	for j := range cols {
		w.line("  ldg.%v b%d, before[of + %d]", acc, j, j*int64(acc.Size()))
	}
	w.inside(lanes, func() {
		for j := range cols { // all, before any is stored among them
			w.line("  ldg.%v z%d, y[to + %d]\n  add.%[1]v z%[2]d, b%[2]d, z%[2]d", acc, j, j*int64(acc.Size()))
		}
		w.narrowStore(acc, cols)
	})
	w.line("  exit")
}
