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

	// What is summed is joined with what is before it while it is in a cache: rows, or
	// stretches of a long one, of so many bytes, but for a bounded number of launches. By one
	// thread that is the nearer cache; several have enough to share in each launch.
	aloneBytes = 512 << 10
	joinBytes  = 8 << 20
	aloneParts = 256
	joinParts  = 64
)

// cumsum has the library's steps, in blocks no larger than a row needs; sums in a
// chunk go where those in the row will be, if that keeps them as they are.
func cumsum(t, out isa.Type, rows, cols int64, threads int) (*kernels.Plan, error) {
	chunks := (cols + kernels.ScanChunk - 1) / kernels.ScanChunk
	if rows < 1 || cols < 1 || rows*chunks >= 1<<31 {
		return nil, nil
	}
	p := &plan{}
	x, y := operand(0, t), operand(1, out)
	if cols <= laneRow && rows >= manyRows && t == out {
		p.step(key{what: "short scan", t: t, n: cols}, func(w *writer) { w.shortScan(cols) }, rows, manyLanes, []kernels.Binding{x, y})
	} else {
		p.scans(x, y, rows, cols, threads)
	}
	return p.done()
}

// scans appends the steps that write the sums in the rows of x to y.
func (p *plan) scans(x, y kernels.Binding, rows, cols int64, threads int) {
	acc := kernels.Accumulator(y.Type)
	s := &rowScan{plan: p, rows: rows, cols: cols, x: x, own: y, y: y}
	if s.whole() == 0 {
		s.scan(0, 1)
		return
	}
	if y.Type != acc {
		s.own = p.room(acc, rows*cols)
	}
	s.totals()
	bytes, parts := int64(joinBytes), int64(joinParts)
	if threads == 1 {
		bytes, parts = aloneBytes, aloneParts
	}
	part := max(bytes/int64(acc.Size()), (rows*cols+parts-1)/parts)
	if each := part / cols; each > 0 {
		for s.row = 0; s.row < rows; s.row += s.rows {
			s.rows = min(each, rows-s.row)
			s.part(0, s.whole()+1)
		}
		return
	}
	// A stretch begins with a chunk of totals.
	stretch := (part + kernels.ScanChunk*kernels.ScanChunk - 1) / (kernels.ScanChunk * kernels.ScanChunk) * kernels.ScanChunk
	for s.rows = 1; s.row < rows; s.row++ {
		for first := int64(0); first <= s.whole(); first += stretch {
			s.part(first, min(stretch, s.whole()+1-first))
		}
	}
}

// rowScan is the sums in some rows of cols elements, from row number row on. If of is not
// 0, x has the sums in the chunks of rows of so many elements, and what is summed is the
// last of each chunk.
type rowScan struct {
	*plan
	row, rows, cols, of int64

	x, own, y kernels.Binding // own has the sums in chunks
	before    *rowScan        // of the totals of chunks
}

// whole is how many chunks a row has before its last.
func (s *rowScan) whole() int64 { return (s.cols - 1) / kernels.ScanChunk }

// totals makes room for the sums of chunks' totals. Those in chunks stay as they are, as
// each stretch of a row finds what is before it anew, from all that have been till then.
func (s *rowScan) totals() {
	if s.whole() == 0 {
		return
	}
	own := s.room(s.own.Type, s.rows*s.whole())
	s.before = &rowScan{plan: s.plan, rows: s.rows, cols: s.whole(), of: s.cols, x: s.own, own: own, y: own}
	if s.before.whole() > 0 {
		s.before.y = s.room(s.own.Type, s.rows*s.whole())
	}
	s.before.totals()
}

// part finds the sums in so many chunks of the rows, of which those before are there.
func (s *rowScan) part(first, chunks int64) {
	s.scan(first, chunks)
	if b := s.before; b != nil {
		b.row, b.rows = s.row, s.rows
		if last := min(first+chunks, s.whole()); last > first {
			from := first / kernels.ScanChunk
			b.part(from, (last+kernels.ScanChunk-1)/kernels.ScanChunk-from)
		}
		s.join(first, chunks)
	}
}

// launch appends a step on some chunks of each row: on those that have all elements, and
// on the others.
func (s *rowScan) launch(what string, out isa.Type, first, chunks int64, write func(w *writer, lanes int64, all bool), slots ...kernels.Binding) {
	step := func(first, chunks, n int64) {
		lanes := int64(1) << bits.Len64(uint64(n-1))
		k := key{what: what, t: slots[0].Type, out: out, n: lanes, exact: n == lanes, shifted: s.of > 0}
		s.step(k, func(w *writer) { write(w, lanes, n == lanes) }, s.rows*chunks*lanes, lanes, slots,
			uint64(s.cols), uint64(s.of), uint64(s.row), uint64(first), uint64(chunks))
	}
	last := s.cols - s.whole()*kernels.ScanChunk
	if chunks == 0 {
		return
	}
	if first+chunks <= s.whole() || last == kernels.ScanChunk {
		step(first, chunks, kernels.ScanChunk)
		return
	}
	if chunks > 1 {
		step(first, chunks-1, kernels.ScanChunk)
	}
	step(s.whole(), 1, last)
}

// scan finds the sums in chunks.
func (s *rowScan) scan(first, chunks int64) {
	s.launch("scan", s.own.Type, first, chunks, func(w *writer, lanes int64, all bool) {
		w.scan(s.own.Type, lanes, all, s.of > 0)
	}, s.x, s.own)
}

// join adds what is before chunks to their sums, and stores those in y.
func (s *rowScan) join(first, chunks int64) {
	slots := []kernels.Binding{s.before.y, s.own, s.y}
	if s.own.Operand == s.y.Operand && s.own.Offset == s.y.Offset { // nothing is before a first chunk
		if slots = slots[:2]; first == 0 {
			first, chunks = 1, chunks-1
		}
	}
	s.launch("join", s.y.Type, first, chunks, func(w *writer, lanes int64, all bool) {
		w.join(s.y.Type, lanes, all, len(slots) > 2)
	}, slots...)
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
func (w *writer) chunkPlace(lanes int64) {
	w.line("param cols u64\nparam of u64\nparam row u64      ; the first,\nparam first u64    ; and of each the first chunk\nparam chunks u32   ; of so many\nblock %d", lanes)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 cols, cols\n  ldp.u64 top, row\n  ldp.u64 first, first\n  ldp.u32 chunks, chunks")
	w.line("  div.u32 row, b, chunks\n  rem.u32 chunk, b, chunks\n  cvt.u64.u32 row, row\n  add.u64 row, row, top\n  cvt.u64.u32 chunk, chunk\n  add.u64 chunk, chunk, first\n  cvt.u64.u32 lane, q")
	w.line("  mul.u64 start, chunk, %d\n  sub.u64 len, cols, start\n  cvt.u32.u64 left, len\n  mul.u64 at, row, cols\n  add.u64 at, at, start\n  add.u64 at, at, lane", kernels.ScanChunk)
}

// inside writes body for the lanes that have an element, all of them or those below left.
func (w *writer) inside(all bool, body func()) {
	if all {
		body()
		return
	}
	w.labels++
	n := w.labels
	w.line("  set.ge.u32 p, q, left\n  bra over%d, p", n)
	body()
	w.line("over%d:", n)
}

// scan finds the sums in a chunk of a row; of totals, if x has the chunks they are of.
func (w *writer) scan(out isa.Type, lanes int64, all, totals bool) {
	w.acc = kernels.Accumulator(out)
	w.line("program scan\nslot x %v\nslot y %v", w.t, out)
	w.chunkPlace(lanes)
	if totals {
		w.line("  ldp.u64 of, of\n  add.u64 from, start, lane\n  mul.u64 from, from, %d\n  add.u64 from, from, %d\n  mul.u64 of, of, row\n  add.u64 from, from, of\n  mul.u64 from, from, %d",
			kernels.ScanChunk, kernels.ScanChunk-1, w.t.Size())
	} else {
		w.line("  mul.u64 from, at, %d", w.t.Size())
	}
	w.line("  mul.u64 to, at, %d", out.Size())
	if !all {
		w.line("  mov.%v z, %s", w.acc, kernels.Identity("add", w.acc))
	}
	w.inside(all, func() {
		w.line("  ldg.%v z, x[from]", w.t)
		w.widen("z")
	})
	w.line("  block_scan_add.%v z, z", w.acc)
	w.inside(all, func() { w.storeAs(out, "z", "y[to]") })
	w.line("  exit")
}

// join adds the sum before a chunk to its own sums, in place or, where first chunks are
// among them, into y.
func (w *writer) join(out isa.Type, lanes int64, all, aside bool) {
	to := "own"
	w.acc = w.t
	w.line("program scan_join\nslot before %v\nslot own %[1]v", w.acc)
	if aside {
		to = "y"
		w.line("slot y %v", out)
	}
	w.chunkPlace(lanes)
	w.line("  mul.u64 from, at, %d\n  mul.u64 to, at, %d\n  sub.u64 whole, cols, 1\n  div.u64 whole, whole, %d\n  mad.u64 of, row, whole, chunk", w.acc.Size(), out.Size(), kernels.ScanChunk)
	if aside {
		w.line("  set.eq.u64 none, chunk, 0\n  min.u64 back, chunk, 1\n  sub.u64 of, of, back\n  mul.u64 of, of, %d\n  ldg.%v b, before[of]", w.acc.Size(), w.acc)
	} else {
		w.line("  sub.u64 of, of, 1\n  mul.u64 of, of, %d\n  ldg.%v b, before[of]", w.acc.Size(), w.acc)
	}
	w.inside(all, func() {
		w.line("  ldg.%v z, own[from]\n  add.%[1]v sum, b, z", w.acc)
		if aside {
			w.line("  sel.%v sum, none, z, sum", w.acc)
		}
		w.storeAs(out, "sum", to+"[to]")
	})
	w.line("  exit")
}
