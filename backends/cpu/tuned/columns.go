package tuned

import (
	"cmp"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Columns of a packed matrix are reduced side by side: lanes lie along memory. Of
// the 256 partials of a chunk a lane has some, far apart, and does with them the
// halvings of the written order that concern them alone; the rest, groups of them,
// is a shorter matrix. Since the matrix is packed, its columns and those groups are
// one run of lanes: lane f has partials f / cols + k·groups of column f mod cols,
// and their elements lie k·groups·cols behind its own.
const (
	fewRows    = 64      // at most so many are a lane's at once
	columnEach = 4       // partials of a lane where there are more: 16 stretches of memory in a chunk of 1024 rows; and
	narrowEach = 8       // of narrow elements in matrices of as many columns as
	narrow     = 16      // this, which have lanes enough
	tileBytes  = 512     // of a row's stretch that the lanes of a block do together
	maxWide    = 1 << 23 // columns: lanes of a level, and elements that are left, are counted in 32 bits
)

// columns reduces the columns of rows × cols matrices of type t to type out.
func columns(combine string, t, out isa.Type, matrices, rows, cols int64) (*kernels.Plan, error) {
	if blocks := matrices * (rows/chunk + 1) * (cols/columnEach*2 + 1); cols >= maxWide || blocks >= 1<<31 {
		return nil, nil
	}
	p := &plan{}
	x, y := operand(0, t), operand(1, out)
	x.Shape, x.Stride = []int64{matrices * rows * cols}, []int64{1}
	y.Shape, y.Stride = []int64{matrices * cols}, []int64{1}
	p.columns(combine, x, y, kernels.Accumulator(out), matrices, rows, cols)
	return p.done()
}

func (p *plan) columns(combine string, x, y kernels.Binding, acc isa.Type, matrices, rows, cols int64) {
	w := columnLevel{combine: combine, x: x.Type, out: y.Type, acc: acc, rows: rows}
	if rows <= fewRows {
		p.columnStep(w, x, y, matrices, 1, 1, cols)
		return
	}
	w.rows, w.each = 0, columnEach
	if cols >= narrow && x.Type.Size() < 4 {
		w.each = narrowEach
	}
	chunks := (rows + chunk - 1) / chunk
	w.partials = min(int64(1)<<bits.Len64(uint64(rows-1)), lanes)
	w.exact, w.once = rows%w.partials == 0, rows == w.partials
	groups := w.partials / w.each
	w.out = acc
	parts := p.room(acc, matrices*chunks*groups*cols)
	p.columnStep(w, x, parts, matrices, chunks, groups, cols, uint64(rows))
	if chunks == 1 {
		p.columns(combine, parts, y, acc, matrices, groups, cols)
		return
	}
	sums := p.room(acc, matrices*chunks*cols)
	p.columns(combine, parts, sums, acc, matrices*chunks, groups, cols)
	p.columns(combine, sums, y, acc, matrices, chunks, cols)
}

// columnStep appends the launches of a level: of whole tiles, and of what is left.
func (p *plan) columnStep(w columnLevel, x, y kernels.Binding, matrices, chunks, groups, cols int64, rows ...uint64) {
	k := key{what: "columns " + w.combine + w.acc.String(), t: w.x, out: w.out, n: w.rows<<32 | w.partials<<16 | w.each, exact: w.exact, once: w.once}
	step := func(first, tiles, lanes int64) {
		params := append([]uint64{uint64(cols), uint64(groups * cols), uint64(first), uint64(tiles), uint64(chunks)}, rows...)
		p.step(k, w.text, matrices*chunks*tiles*lanes, lanes, []kernels.Binding{x, y}, params...)
	}
	wide, tile := groups*cols, tileBytes/int64(w.x.Size())
	if wide >= tile {
		step(0, wide/tile, tile)
	}
	if wide%tile > 0 {
		step(wide/tile*tile, 1, wide%tile)
	}
}

// columnLevel is a program that reduces columns of type x to type out.
type columnLevel struct {
	combine     string
	x, out, acc isa.Type
	rows        int64  // of few; 0: there are more, and
	partials    int64  // a chunk has so many partials,
	each        int64  // and a lane of them
	slot        string // of the elements; "": x
	exact, once bool   // each partial gets as many elements, or just one
}

func (c columnLevel) text(w *writer) {
	few, size := c.rows > 0, c.x.Size()
	w.acc = c.acc
	w.line("program reduce_%s_columns\nslot x %v\nslot y %v", c.combine, c.x, c.out)
	w.line("param cols u64\nparam wide u64    ; lanes that a chunk needs\nparam first u32   ; lane\nparam tiles u32\nparam chunks u32")
	if !few {
		w.line("param rows u64")
	}
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  sreg dx, block_dim.x\n  ldp.u64 cols, cols\n  ldp.u64 wide, wide\n  ldp.u32 first, first\n  ldp.u32 tiles, tiles\n  ldp.u32 chunks, chunks")
	w.line("  rem.u32 tile, b, tiles\n  div.u32 b, b, tiles\n  cvt.u64.u32 block, b\n  mad.u32 f, tile, dx, first\n  cvt.u64.u32 f64, f\n  cvt.u64.u32 lane, q\n  add.u64 f64, f64, lane")
	if few {
		w.line("  mul.u64 at, block, cols\n  mul.u64 at, at, %d\n  add.u64 at, at, f64", c.rows)
	} else {
		w.line("  ldp.u64 rows, rows\n  rem.u32 chunk, b, chunks\n  div.u32 matrix, b, chunks\n  cvt.u64.u32 start, chunk\n  mul.u64 start, start, %d", chunk)
		w.line("  sub.u64 len, rows, start\n  min.u64 len, len, %d\n  cvt.u64.u32 m, matrix\n  mul.u64 m, m, rows\n  add.u64 m, m, start\n  mul.u64 at, m, cols\n  add.u64 at, at, f64", chunk)
		w.line("  shr.u64 full, len, %d\n  cvt.u32.u64 rounds, full\n  mul.u64 full, full, %d\n  sub.u64 left, len, full\n  mul.u64 left, left, cols\n  cvt.u32.u64 left, left",
			bits.Len64(uint64(c.partials))-1, c.partials)
		w.line("  set.eq.u32 none, left, 0\n  mul.u64 round, cols, %d", c.partials*int64(size))
		w.line("  cvt.u32.u64 wide32, wide")
	}
	w.line("  mul.u64 at, at, %d\n  mul.u64 jump, wide, %[1]d", size)
	n := c.rows
	if !few {
		n = c.each
	}
	w.halve(c.combine, n, 1, 0, func(i int64) { c.partial(w, i) })
	w.line("  mul.u64 to, block, wide\n  add.u64 to, to, f64\n  mul.u64 to, to, %d", c.out.Size())
	w.storeAs(c.out, "z0", "y[to]")
	w.line("  exit")
}

// halve leaves in zi what is in partial i when width partials are left of n: of those
// apart by half as much, one before the other, so that few wait for others. partial
// makes one of them.
func (w *writer) halve(combine string, n, width, i int64, partial func(i int64)) {
	if width >= n {
		partial(i)
		return
	}
	w.halve(combine, n, 2*width, i, partial)
	if i+width < n {
		w.halve(combine, n, 2*width, i+width, partial)
		w.line("  %s.%v z%d, z%[3]d, z%d", combine, w.acc, i, i+width)
	}
}

// partial reduces the elements of a lane's partial number i.
func (c columnLevel) partial(w *writer, i int64) {
	load := func() {
		w.line("  ldg.%v z, %s[off]", c.x, cmp.Or(c.slot, "x"))
		if c.x != w.acc {
			w.line("  cvt.%v.%v z, z", w.acc, c.x)
		}
	}
	w.line("  mul.u64 off, jump, %d\n  add.u64 off, off, at", i)
	if c.rows > 0 || c.once {
		load()
		w.line("  mov.%v z%d, z", w.acc, i)
		return
	}
	w.labels++
	n := w.labels
	w.line("  mov.%v z%d, %s\n  loop rounds, round%d", w.acc, i, kernels.Identity(c.combine, w.acc), n)
	load()
	w.line("  %s.%v z%d, z%[3]d, z\n  add.u64 off, off, round\nround%d:", c.combine, w.acc, i, n)
	if c.exact {
		return
	}
	// Those of the block's lanes that are left, of which each knows by its number.
	w.line("  bra over%d, none\n  mad.u32 g, wide32, %d, f\n  max.u32 more, left, g\n  sub.u32 more, more, g\n  set.ge.u32 p, q, more\n  bra over%[1]d, p", n, i)
	load()
	w.line("  %s.%v z%d, z%[3]d, z\nover%d:", c.combine, w.acc, i, n)
}
