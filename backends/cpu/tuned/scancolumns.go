package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Sums along the columns of a packed matrix. Lanes lie along memory, and each has a
// chunk of a column by itself. In the written order s[q] takes in turn what is 1, 2,
// 4 … 128 before it. The first four distances are done in registers, stretch by
// stretch of 16 rows, of which the next one wants what the last rows had before each
// distance. The others are 1, 2, 4 and 8 stretches: of the rows that have one place in
// their stretches, which are 16 at most.
const (
	stretch   = 16
	scanBytes = 256 // of a row that the lanes of a block do together
)

// columnSums writes the sums in the columns of rows × cols matrices of type t to such
// matrices of type out, which rounds those that are kept in a wider one.
func columnSums(t, out isa.Type, matrices, rows, cols int64) (*kernels.Plan, error) {
	if blocks := matrices * (rows/kernels.ScanChunk + 1) * (cols/(scanBytes/8) + 2); rows < 2 || cols >= maxWide || blocks >= 1<<31 {
		return nil, nil
	}
	p := &plan{}
	x, y := operand(0, t), operand(1, out)
	x.Shape, x.Stride = []int64{matrices * rows * cols}, []int64{1}
	y.Shape, y.Stride = x.Shape, x.Stride
	sums, n, acc := y, matrices*rows*cols, kernels.Accumulator(out)
	few := narrow(acc, cols)
	if few && acc.Integer() && acc.Size() < 4 { // which wrap the same later
		acc = isa.I32
	}
	if acc != out {
		sums = p.room(acc, n)
	}
	if few && t != acc { // those are scanned as they lie
		p.convert(x, sums, n)
		x = sums
	}
	p.columnSums(x, sums, matrices, rows, cols)
	if acc != out {
		p.convert(sums, y, n)
	}
	return p.done()
}

// convert appends a step that makes n elements ones of another type.
func (p *plan) convert(x, y kernels.Binding, n int64) {
	p.steps(key{what: "converted", t: x.Type, out: y.Type}, n, func(w *writer) {
		w.line("program converted\nslot x %v\nslot y %v\n  ldg.%[1]v z, x[index]\n  cvt.%[2]v.%[1]v z, z\n  stg.%[2]v z, y[index]\n  exit", w.t, y.Type)
	}, x, y)
}

func (p *plan) columnSums(x, y kernels.Binding, matrices, rows, cols int64) {
	s := &columnScans{plan: p, matrices: matrices, rows: rows, cols: cols}
	whole := s.whole()
	switch {
	case narrow(y.Type, cols) && rows >= kernels.ScanChunk:
		s.narrow(x, y)
		return
	case whole == 0:
		s.scan(0, 1, rows, x, y)
		return
	}
	totals := p.room(y.Type, matrices*whole*cols)
	s.scan(0, whole, kernels.ScanChunk, x, y, totals)
	s.scan(whole, 1, s.last(), x, y)
	before := totals
	if whole > 1 {
		before = p.room(y.Type, matrices*whole*cols)
		p.columnSums(totals, before, matrices, whole, cols)
	}
	if whole > 1 {
		s.join(1, whole-1, kernels.ScanChunk, before, y)
	}
	s.join(whole, 1, s.last(), before, y)
}

// columnScans are launches on some chunks of n rows of matrices.
type columnScans struct {
	*plan
	matrices, rows, cols int64
}

func (s *columnScans) whole() int64 { return (s.rows - 1) / kernels.ScanChunk } // chunks before the last
func (s *columnScans) last() int64  { return s.rows - s.whole()*kernels.ScanChunk }

func (s *columnScans) launch(what string, write func(w *writer), first, chunks, n int64, slots ...kernels.Binding) {
	out := slots[1].Type
	k := key{what: what, t: slots[0].Type, out: out, n: n, exact: len(slots) > 2}
	part := func(from, tiles, lanes int64) {
		s.step(k, write, s.matrices*chunks*tiles*lanes, lanes, slots,
			uint64(s.cols), uint64(s.rows), uint64(first), uint64(chunks), uint64(s.whole()), uint64(from), uint64(tiles))
	}
	tile := int64(scanBytes / out.Size())
	if s.cols >= tile {
		part(0, s.cols/tile, tile)
	}
	if rest := s.cols % tile; rest > 0 {
		part(s.cols-rest, 1, rest)
	}
}

// scan finds the sums in chunks, and their totals if there is room for these.
func (s *columnScans) scan(first, chunks, n int64, slots ...kernels.Binding) {
	s.launch("column scan", func(w *writer) { w.columnScan(slots[1].Type, n, len(slots) > 2) }, first, chunks, n, slots...)
}

// join adds to the sums in chunks what is before them.
func (s *columnScans) join(first, chunks, n int64, before, y kernels.Binding) {
	s.launch("column join", func(w *writer) { w.columnJoin(y.Type, n) }, first, chunks, n, before, y)
}

// columnPlace is where a lane is: at, in elements, where its chunk of its column
// begins; and of, what belongs to the chunk in a matrix of one row for each.
func (w *writer) columnPlace() {
	w.line("param cols u64\nparam rows u64\nparam first u32    ; chunk\nparam chunks u32\nparam whole u32     ; chunks with totals in a matrix\nparam from u32     ; column\nparam tiles u32")
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  sreg dx, block_dim.x\n  ldp.u64 cols, cols\n  ldp.u64 rows, rows\n  ldp.u32 first, first\n  ldp.u32 chunks, chunks\n  ldp.u32 whole, whole\n  ldp.u32 from, from\n  ldp.u32 tiles, tiles")
	w.line("  rem.u32 tile, b, tiles\n  div.u32 b, b, tiles\n  rem.u32 chunk, b, chunks\n  div.u32 matrix, b, chunks\n  add.u32 chunk, chunk, first\n  mad.u32 col, tile, dx, from")
	w.line("  cvt.u64.u32 col, col\n  cvt.u64.u32 lane, q\n  add.u64 col, col, lane\n  cvt.u64.u32 chunk, chunk\n  cvt.u64.u32 matrix, matrix\n  cvt.u64.u32 whole, whole")
	w.line("  mul.u64 at, chunk, %d\n  mad.u64 at, matrix, rows, at\n  mul.u64 at, at, cols\n  add.u64 at, at, col", kernels.ScanChunk)
	w.line("  mad.u64 of, matrix, whole, chunk\n  mul.u64 of, of, cols\n  add.u64 of, of, col")
}

// columnScan finds the sums in a chunk of n rows, and its total if asked for.
func (w *writer) columnScan(acc isa.Type, n int64, totals bool) {
	w.acc = acc
	size := acc.Size()
	w.line("program column_scan\nslot x %v\nslot y %v", w.t, acc)
	if totals {
		w.line("slot totals %v", acc)
	}
	w.columnPlace()
	w.line("  mul.u64 from, at, %d\n  mul.u64 to, at, %d\n  mul.u64 down, cols, %[1]d\n  mul.u64 pitch, cols, %[2]d\n  mov.u64 top, to", w.t.Size(), size)
	keep := func(number func(k, i int64) string) { // what the next stretch wants
		for k := range int64(4) {
			for d := int64(1); d <= 1<<k; d++ {
				w.line("  mov.%v %s, %s", acc, step(k, -d), number(k, d))
			}
		}
	}
	none := kernels.Identity("add", acc)
	if n > stretch {
		keep(func(k, d int64) string { return none })
		w.line("  loop %d, within", n/stretch)
		w.stretchSums(stretch, true)
		keep(func(k, d int64) string { return step(k, stretch-d) })
		w.line("within:")
	}
	if n%stretch > 0 || n == stretch {
		w.stretchSums((n-1)%stretch+1, n > stretch)
	}
	if n <= stretch {
		w.line("  exit")
		return
	}
	w.line("  mul.u64 jump, pitch, %d\n  mul.u64 of, of, %d", stretch, size)
	w.acrossStretches(n/stretch+1, n%stretch, false)
	w.acrossStretches(n/stretch, stretch-n%stretch, totals)
	w.line("  exit")
}

// step is what row i of a stretch has before distance 2^k is taken; below 0 it is a
// row of the stretch before.
func step(k, i int64) string {
	if i < 0 {
		return fmt.Sprintf("h%d_%d", k, -i)
	}
	return fmt.Sprintf("s%d_%d", k, i)
}

// stretchSums takes the distances within a stretch of n rows.
func (w *writer) stretchSums(n int64, before bool) {
	for i := range n {
		w.line("  ldg.%v %s, x[from]", w.t, step(0, i))
		if w.t != w.acc {
			w.line("  cvt.%v.%v %s, %[3]s", w.acc, w.t, step(0, i))
		}
		for k := range int64(4) {
			if i < 1<<k && !before {
				w.line("  mov.%v %s, %s", w.acc, step(k+1, i), step(k, i))
			} else {
				w.line("  add.%v %s, %s, %s", w.acc, step(k+1, i), step(k, i-1<<k), step(k, i))
			}
		}
		w.line("  stg.%v %s, y[to]\n  add.u64 from, from, down\n  add.u64 to, to, pitch", w.acc, step(4, i))
	}
}

// acrossStretches takes the others, for the rows that have one place in n stretches,
// for so many places.
func (w *writer) acrossStretches(n, places int64, totals bool) {
	if places == 0 || n == 1 && !totals {
		return
	}
	w.labels++
	w.line("  loop %d, across%d\n  mov.u64 to, top", places, w.labels)
	for i := range n {
		w.line("  ldg.%v z%d, y[to]\n  add.u64 to, to, jump", w.acc, i)
	}
	for d := int64(1); d < n; d *= 2 {
		for i := n - 1; i >= d; i-- {
			w.line("  add.%v z%d, z%d, z%[2]d", w.acc, i, i-d)
		}
	}
	w.line("  mov.u64 to, top")
	for i := int64(1); i < n; i++ {
		w.line("  add.u64 to, to, jump\n  stg.%v z%d, y[to]", w.acc, i)
	}
	if totals { // the last row's stays
		w.line("  stg.%v z%d, totals[of]", w.acc, n-1)
	}
	w.line("  add.u64 top, top, pitch\nacross%d:", w.labels)
}

// columnJoin adds to the sums in a chunk what is before it.
func (w *writer) columnJoin(acc isa.Type, n int64) {
	w.line("program column_join\nslot before %v\nslot y %[1]v", acc)
	w.columnPlace()
	w.line("  sub.u64 of, of, cols\n  mul.u64 of, of, %d\n  mul.u64 at, at, %[1]d\n  mul.u64 pitch, cols, %[1]d\n  ldg.%v b, before[of]", acc.Size(), acc)
	w.line("  loop %d, joined\n  ldg.%v z, y[at]\n  add.%[2]v z, b, z\n  stg.%[2]v z, y[at]\n  add.u64 at, at, pitch\njoined:\n  exit", n, acc)
}
