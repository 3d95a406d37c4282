package tuned

import (
	"math/bits"

	"golang.org/x/sys/cpu"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Columns of a packed matrix are reduced side by side: lanes lie along memory. Of
// the 256 partials of a chunk a lane has some, far apart, and does with them the
// halvings of the written order that concern them alone; the rest, groups of them,
// is a shorter matrix. Since the matrix is packed, its columns and those groups are
// one run of lanes: lane f has partials f / cols + k·groups of column f mod cols,
// and their elements lie k·groups·cols behind its own. Where a chunk's rows are no
// multiple of its partials, some of these have one element more: lanes that have as
// many of those are launched together, so that all lanes of a block do the same.
const (
	fewRows     = 16      // at most so many are a lane's at once
	columnEach  = 8       // partials of a lane where there are more: 32 stretches of memory in a chunk of 1024 rows; and
	leastEach   = 4       // of columns that leave fewer lanes than
	columnBytes = 512     // fill these
	fewRounds   = 2       // elements of each partial, at most, that take no loop
	tileBytes   = 4096    // of a row's stretch that the lanes of a block do, at most
	readRows    = 4       // rows are read side by side where partials of all lanes have a tile, and
	mostLoads   = 128     // elements, at most, are a lane's, or it has fewer partials
	freeRows    = 64      // where the order is free a lane has the elements of so many rows, neighbours, if
	freeMemory  = 1 << 25 // no more bytes are read
	setRows     = 11      // rows whole pages apart, at most, of which the nearest cache keeps enough
	maxWide     = 1 << 23 // columns: lanes of a level, and elements that are left, are counted in 32 bits
)

// nearMemory is how many bytes an array has, at most, that the second cache holds: of longer ones whose
// columns are few a lane has fewer partials, down to one, so that they too are read by tiles.
var nearMemory = int64(1 << 20)

// wholeLines says that vectors are as long as lines of the caches. Where they are half of one, and a lane has more rows
// than a set has lines for, which rows whole pages apart share, what is left of each line is pushed out by the
// next ones: a tile of one row after the other takes 0.6 of the time there (sums of 16 rows of 2^16 f32 and u8, AMD's first
// generation; of 12 rows 1.0 and 0.76, of 9, and of f64 with its tiles of 8 KB, 1.1 to 1.4).
var wholeLines = cpu.X86.HasAVX512F

// askedMemory is about how many bytes go through without asking for what comes next: past that half a tile will do.
var askedMemory = int64(1 << 24)

// columns reduces the columns of rows × cols matrices of type t to type out.
func columns(combine string, t, out isa.Type, matrices, rows, cols int64) (*kernels.Plan, error) {
	if !columnsFit(matrices, rows, cols) {
		return nil, nil
	}
	p := &plan{}
	x, y := operand(0, t), operand(1, out)
	x.Shape, x.Stride = []int64{matrices * rows * cols}, []int64{1}
	y.Shape, y.Stride = []int64{matrices * cols}, []int64{1}
	p.columns(combine, x, y, kernels.Accumulator(out), matrices, rows, cols)
	return p.done()
}

// columnsFit reports whether what is counted of them has room.
func columnsFit(matrices, rows, cols int64) bool {
	return cols < maxWide && matrices*(rows/chunk+1)*(cols+1) < 1<<31
}

func (p *plan) columns(combine string, x, y kernels.Binding, acc isa.Type, matrices, rows, cols int64) {
	w := columnLevel{combine: combine, x: x.Type, out: y.Type, acc: acc}
	l := columnLanes{matrices: matrices, rows: rows, cols: cols, wide: cols, lanes: cols, chunks: 1, all: 1, length: chunk}
	if rows <= fewRows {
		w.straight, w.more = true, rows
		if rows > setRows && !wholeLines && w.x.Size() < 8 && l.rowBytes(w.x)%tileBytes == 0 {
			w.partials, w.each, w.rounds, w.more, w.far = rows, rows, 1, 0, true
		}
		p.columnStep(w, x, y, l)
		return
	}
	if w.free() && l.rowBytes(w.x)%tileBytes == 0 && matrices*rows*l.rowBytes(w.x) <= freeMemory {
		p.freeColumns(w, x, y, l)
		return
	}
	w.partials, w.each = min(int64(1)<<bits.Len64(uint64(rows-1)), lanes), columnEach
	size, rounds := int64(x.Type.Size()), min(rows, chunk)/w.partials
	stretch := func() int64 { return w.partials / w.each * cols * size }
	tile := min(tileBytes, isa.MaxBlockLanes*size)
	bytes, row := matrices*rows*cols*size, w.partials*cols*size
	past := rounds > fewRounds && (bytes > nearMemory && row >= tileBytes || bytes > askedMemory && row >= tileBytes/2)
	long := stretch() >= tileBytes || past
	switch {
	case long:
		for w.each > 1 && stretch() < tile || rounds*w.each > mostLoads {
			w.each /= 2
		}
	case stretch() < columnBytes:
		w.each = leastEach
	}
	chunks, groups := (rows+chunk-1)/chunk, w.partials/w.each
	w.out, l.wide, l.all = acc, groups*cols, chunks
	parts := p.room(acc, matrices*chunks*groups*cols)
	part := func(first, chunks, length int64) {
		l, left := l, length%w.partials
		l.chunk, l.chunks, w.rounds = first, chunks, length/w.partials
		w.far = long && w.rounds > fewRounds
		w.straight = w.far || w.rounds <= fewRounds
		w.more, l.first, l.lanes = left/groups+1, 0, left%groups*cols
		p.columnStep(w, x, parts, l)
		w.more, l.first, l.lanes = left/groups, l.lanes, l.wide-l.lanes
		p.columnStep(w, x, parts, l)
	}
	if rows >= chunk {
		part(0, rows/chunk, chunk)
	}
	if rows%chunk > 0 {
		part(rows/chunk, 1, rows%chunk)
	}
	if chunks == 1 {
		p.columns(combine, parts, y, acc, matrices, groups, cols)
		return
	}
	sums := p.room(acc, matrices*chunks*cols)
	p.columns(combine, parts, sums, acc, matrices*chunks, groups, cols)
	p.columns(combine, sums, y, acc, matrices, chunks, cols)
}

// free reports whether any order of the elements has the same bits.
func (c columnLevel) free() bool {
	return c.combine == "min" || c.combine == "max" || !c.acc.Float()
}

// freeColumns appends the steps where the order is free and rows lie whole pages apart. A lane's rows are then
// neighbours: rows of the written order, 256 of these apart, share the sets of the second cache too.
func (p *plan) freeColumns(w columnLevel, x, y kernels.Binding, l columnLanes) {
	to, left := y, l.rows%freeRows
	l.length, l.all = freeRows, (l.rows+freeRows-1)/freeRows
	if l.all > 1 {
		w.out, to = w.acc, p.room(w.acc, l.matrices*l.all*l.cols)
	}
	w.partials, w.each, w.straight, w.far = 1, 1, true, true
	if l.chunks, w.rounds = l.rows/freeRows, freeRows; l.chunks > 0 {
		p.columnStep(w, x, to, l)
	}
	if l.chunk, l.chunks, w.rounds = l.chunks, 1, left; left > 0 {
		p.columnStep(w, x, to, l)
	}
	if l.all > 1 {
		p.columns(w.combine, to, y, w.acc, l.matrices, l.all, l.cols)
	}
}

// columnLanes are lanes that do the same.
type columnLanes struct {
	matrices, rows, cols int64
	wide                 int64 // lanes that a chunk has, and of these
	first, lanes         int64
	chunk, chunks        int64 // the chunks that are done, of
	all                  int64 // in a matrix
	length               int64 // rows of each, but the last
}

// rowBytes is how long a row of the matrices is.
func (l columnLanes) rowBytes(t isa.Type) int64 { return l.cols * int64(t.Size()) }

// columnStep appends the launches of lanes: of whole tiles, and of what is left.
func (p *plan) columnStep(w columnLevel, x, y kernels.Binding, l columnLanes) {
	rounds, more := uint64(w.rounds), uint64(w.more)
	if w.exact = w.more == 0; w.far || !w.straight { // the program's parameters
		w.more = 0
	}
	if !w.straight {
		w.rounds = 0
	}
	k := key{what: "columns " + w.combine + w.acc.String(), t: w.x, out: w.out,
		n: w.rounds<<48 | w.more<<32 | w.partials<<16 | w.each, exact: w.exact, once: w.straight}
	step := func(first, tiles, lanes int64) {
		params := []uint64{uint64(l.cols), uint64(l.rows), uint64(l.wide), uint64(first), uint64(tiles), uint64(l.chunk), uint64(l.chunks), uint64(l.all), uint64(l.length), rounds, more}
		p.step(k, w.text, l.matrices*l.chunks*tiles*lanes, lanes, []kernels.Binding{x, y}, params...)
	}
	tile := min(tileBytes/int64(w.x.Size()), isa.MaxBlockLanes)
	if l.lanes >= tile {
		step(l.first, l.lanes/tile, tile)
	}
	if rest := l.lanes % tile; rest > 0 {
		step(l.first+l.lanes-rest, 1, rest)
	}
}

// columnLevel is a program that reduces columns of type x to type out.
type columnLevel struct {
	combine     string
	x, out, acc isa.Type
	partials    int64 // a chunk has so many partials,
	each        int64 // and a lane of them
	straight    bool  // without loops:
	rounds      int64 // each has so many elements,
	more        int64 // and the first ones have one more
	far         bool  // which are many, and lie far apart: only the launch knows what more is
	exact       bool  // none has
}

func (c columnLevel) text(w *writer) {
	size := c.x.Size()
	w.acc = c.acc
	w.line("program reduce_%s_columns\nslot x %v\nslot y %v", c.combine, c.x, c.out)
	w.line("param cols u64\nparam rows u64\nparam wide u64    ; lanes that a chunk needs\nparam first u32   ; lane\nparam tiles u32\nparam from u32    ; chunk\nparam chunks u32\nparam all u32     ; in a matrix\nparam length u64  ; rows of each\nparam rounds u32\nparam more u32    ; partials with one element more")
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  sreg dx, block_dim.x\n  ldp.u64 cols, cols\n  ldp.u64 rows, rows\n  ldp.u64 wide, wide\n  ldp.u32 first, first\n  ldp.u32 tiles, tiles\n  ldp.u32 from, from\n  ldp.u32 chunks, chunks\n  ldp.u32 all, all\n  ldp.u64 length, length")
	w.line("  rem.u32 tile, b, tiles\n  div.u32 b, b, tiles\n  rem.u32 chunk, b, chunks\n  div.u32 matrix, b, chunks\n  add.u32 chunk, chunk, from")
	w.line("  mad.u32 f, tile, dx, first\n  cvt.u64.u32 f, f\n  cvt.u64.u32 lane, q\n  add.u64 f, f, lane")
	w.line("  cvt.u64.u32 start, chunk\n  mul.u64 start, start, length\n  cvt.u64.u32 m, matrix\n  mad.u64 at, m, rows, start\n  mul.u64 at, at, cols\n  add.u64 at, at, f\n  mul.u64 at, at, %d\n  mul.u64 jump, wide, %[1]d", size)
	w.line("  mad.u32 block, matrix, all, chunk\n  cvt.u64.u32 to, block\n  mad.u64 to, to, wide, f\n  mul.u64 to, to, %d", c.out.Size())
	w.line("  ldp.u32 rounds, rounds\n  ldp.u32 more, more\n  mul.u64 round, cols, %d", c.partials*int64(size))
	n := c.each
	if c.straight && c.rounds == 0 { // of partials that have elements
		n = c.more
	}
	if n > 0 {
		w.halve(c.combine, n, func(i int64) {
			if i > 0 && c.far {
				w.line("  bar_sync 0")
			}
			c.partial(w, i)
		})
	} else {
		w.line("  mov.%v z0, %s", w.acc, kernels.Identity(c.combine, w.acc))
	}
	w.storeAs(c.out, "z0", "y[to]")
	w.line("  exit")
}

// halve leaves in zi what n partials come to, each of which partial makes.
func (w *writer) halve(combine string, n int64, partial func(i int64)) {
	halved(n, 1, 0, partial, func(i, j int64) { w.line("  %s.%v z%d, z%[3]d, z%d", combine, w.acc, i, j) })
}

// halved leaves in partial i what is there when width partials are left of n: of those apart by half
// as much, one before the other, so that few wait for others. make makes one of them, and
// combine adds one to another.
func halved(n, width, i int64, make func(i int64), combine func(i, j int64)) {
	if width >= n {
		make(i)
		return
	}
	halved(n, 2*width, i, make, combine)
	if i+width < n {
		halved(n, 2*width, i+width, make, combine)
		combine(i, i+width)
	}
}

// partial reduces the elements of a lane's partial number i. Where they lie far apart, all lanes
// of the block wait for each other before they go on to other rows: so a few rows are read side
// by side, each from the begin of its stretch to the end, as prefetchers follow them. They are
// no more than a set of the caches has lines, as rows that are a power of two apart share one.
func (c columnLevel) partial(w *writer, i int64) {
	load := func() {
		w.line("  ldg.%v z, x[off]", c.x)
		if c.x != w.acc {
			w.line("  cvt.%v.%v z, z", w.acc, c.x)
		}
	}
	w.line("  mul.u64 off, jump, %d\n  add.u64 off, off, at", i)
	if c.straight {
		load()
		w.line("  mov.%v z%d, z", w.acc, i)
		for k := int64(1); k < c.rounds || k == c.rounds && i < c.more; k++ {
			if k%readRows == 0 {
				w.line("  bar_sync 0")
			}
			w.line("  add.u64 off, off, round")
			load()
			w.line("  %s.%v z%d, z%[3]d, z", c.combine, w.acc, i)
		}
		if !c.far || c.exact {
			return
		}
		w.line("  add.u64 off, off, round")
	}
	w.labels++
	n := w.labels
	if !c.straight {
		w.line("  mov.%v z%d, %s\n  loop rounds, round%d", w.acc, i, kernels.Identity(c.combine, w.acc), n)
		load()
		w.line("  %s.%v z%d, z%[3]d, z\n  add.u64 off, off, round\nround%d:", c.combine, w.acc, i, n)
	}
	if c.exact {
		return
	}
	w.line("  set.le.u32 p, more, %d\n  bra over%d, p", i, n)
	load()
	w.line("  %s.%v z%d, z%[3]d, z\nover%d:", c.combine, w.acc, i, n)
}
