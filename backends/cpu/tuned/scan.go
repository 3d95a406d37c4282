package tuned

import (
	"fmt"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

const (
	laneRow   = 16  // elements of rows that are a lane's each, where there are
	manyRows  = 64  // so many
	manyLanes = 256 // of a block of such lanes
)

// cumsum has the library's steps, in blocks no larger than a row needs; sums in a
// chunk go where those in the row will be, if that keeps them as they are.
func cumsum(t, out isa.Type, rows, cols int64) (*kernels.Plan, error) {
	chunks := (cols + kernels.ScanChunk - 1) / kernels.ScanChunk
	if rows < 1 || cols < 1 || rows*chunks >= 1<<31 {
		return nil, nil
	}
	p := &plan{}
	x, y := operand(0, t), operand(1, out)
	if cols <= laneRow && rows >= manyRows && t == out {
		p.step(key{what: "short scan", t: t, n: cols}, func(w *writer) { w.shortScan(cols) }, rows, manyLanes, []kernels.Binding{x, y})
	} else {
		p.scan(x, y, kernels.Accumulator(out), rows, cols, 0)
	}
	return p.done()
}

// scan appends the steps that write the sums in the rows of x to y. If of is not 0, x
// has the sums in the chunks of rows of so many elements: what is summed is the last of
// each chunk but a row's last one, and the sums are those before each chunk but the
// first, where rows of y have an element for each.
func (p *plan) scan(x, y kernels.Binding, acc isa.Type, rows, cols, of int64) {
	totals := of > 0
	chunks := (cols + kernels.ScanChunk - 1) / kernels.ScanChunk
	lanes := min(int64(1)<<bits.Len64(uint64(cols-1)), kernels.ScanChunk)
	step := func(what string, out isa.Type, flag bool, write func(w *writer), slots ...kernels.Binding) {
		p.step(key{what: what, t: slots[0].Type, out: out, n: lanes, shifted: flag}, write, rows*chunks*lanes, lanes, slots, uint64(cols), uint64(chunks), uint64(of))
	}
	if chunks == 1 {
		what := map[bool]string{false: "scan", true: "scan totals"}[totals]
		step(what, y.Type, totals, func(w *writer) { w.scan(y.Type, lanes, totals, totals) }, x, y)
		return
	}
	own := y
	if y.Type != acc || totals {
		own = p.room(acc, rows*cols)
	}
	what := map[bool]string{false: "scan chunks", true: "scan chunks of totals"}[totals]
	step(what, acc, false, func(w *writer) { w.scan(acc, lanes, totals, false) }, x, own)
	before := p.room(acc, rows*chunks)
	p.scan(own, before, acc, rows, chunks-1, cols)
	if y.Type == acc && !totals {
		step("join in place", acc, false, func(w *writer) { w.join(acc, "own", false) }, before, y)
	} else {
		step("join", y.Type, totals, func(w *writer) { w.join(y.Type, "y", totals) }, before, own, y)
	}
}

// shortScan adds up the n elements of a lane's row, as a block would.
func (w *writer) shortScan(n int64) {
	var at []string
	w.line("program short_scan\nslot x %v\nslot y %[1]v", w.t)
	w.laneElements(n, func(i int64, address string) {
		at = append(at, address)
		w.line("  ldg.%v z%d, x[%s]", w.t, i, address)
		w.widen(fmt.Sprintf("z%d", i))
	})
	for d := int64(1); d < n; d *= 2 {
		for i := n - 1; i >= d; i-- {
			w.line("  add.%v z%d, z%d, z%[2]d", w.acc, i, i-d)
		}
	}
	for i := range n {
		w.storeAs(w.t, fmt.Sprintf("z%d", i), fmt.Sprintf("y[%s]", at[i]))
	}
	w.line("  exit")
}

// chunkPlace is where a block's lanes are: in chunk number chunk of row number row,
// lane's element at number at of all. left elements are there for them.
func (w *writer) chunkPlace() {
	w.line("param cols u64\nparam chunks u32\nparam of u64\n  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 cols, cols\n  ldp.u32 chunks, chunks")
	w.line("  div.u32 row, b, chunks\n  rem.u32 chunk, b, chunks\n  cvt.u64.u32 row, row\n  cvt.u64.u32 first, chunk\n  cvt.u64.u32 lane, q")
	w.line("  mul.u64 first, first, %d\n  sub.u64 len, cols, first\n  min.u64 len, len, %[1]d\n  cvt.u32.u64 left, len", kernels.ScanChunk)
	w.line("  mul.u64 at, row, cols\n  add.u64 at, at, first\n  add.u64 at, at, lane")
}

// inside writes body for the lanes that have an element; without masks where all do.
func (w *writer) inside(lanes int64, body func()) {
	w.labels++
	n := w.labels
	w.line("  set.lt.u32 some, left, %d\n  bra some%d, some", lanes, n)
	body()
	w.line("  bra over%d\nsome%[1]d:\n  set.ge.u32 p, q, left\n  bra over%[1]d, p", n)
	body()
	w.line("over%d:", n)
}

// scan finds the sums in a chunk of a row; of totals, if x has the chunks they are of;
// shifted, for the chunks that come after them.
func (w *writer) scan(out isa.Type, lanes int64, totals, shifted bool) {
	w.acc = kernels.Accumulator(out)
	w.line("program scan\nslot x %v\nslot y %v\nblock %d", w.t, out, lanes)
	w.chunkPlace()
	if totals {
		w.line("  ldp.u64 of, of\n  add.u64 from, first, lane\n  mul.u64 from, from, %d\n  add.u64 from, from, %d\n  mul.u64 of, of, row\n  add.u64 from, from, of\n  mul.u64 from, from, %d",
			kernels.ScanChunk, kernels.ScanChunk-1, w.t.Size())
	} else {
		w.line("  mul.u64 from, at, %d", w.t.Size())
	}
	w.shift(shifted)
	w.line("  mul.u64 to, at, %d\n  mov.%v z, %s", out.Size(), w.acc, kernels.Identity("add", w.acc))
	w.inside(lanes, func() {
		w.line("  ldg.%v z, x[from]", w.t)
		if w.t != w.acc {
			w.line("  cvt.%v.%v z, z", w.acc, w.t)
		}
	})
	w.line("  block_scan_add.%v z, z", w.acc)
	w.inside(lanes, func() { w.storeAs(out, "z", "y[to]") })
	w.line("  exit")
}

// shift leads at to the chunk after an element's, in a row with an element more.
func (w *writer) shift(shifted bool) {
	if shifted {
		w.line("  add.u64 at, at, row\n  add.u64 at, at, 1")
	}
}

// join adds the sum before a chunk to its own sums, and stores the result in slot to.
func (w *writer) join(out isa.Type, to string, shifted bool) {
	w.line("program scan_join\nslot before %v\nslot own %[1]v", w.acc)
	if to != "own" {
		w.line("slot %s %v", to, out)
	}
	w.line("block %d", kernels.ScanChunk)
	w.chunkPlace()
	w.line("  mul.u64 from, at, %d", w.acc.Size())
	w.shift(shifted)
	w.line("  mul.u64 to, at, %d\n  cvt.u64.u32 of, b\n  mul.u64 of, of, %d\n  ldg.%v y, before[of]\n  set.eq.u32 whole, chunk, 0", out.Size(), w.acc.Size(), w.acc)
	w.inside(kernels.ScanChunk, func() {
		w.line("  ldg.%v z, own[from]\n  add.%[1]v sum, y, z\n  sel.%[1]v z, whole, z, sum", w.acc)
		w.storeAs(out, "z", to+"[to]")
	})
	w.line("  exit")
}
