package gemm

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/kernels"
)

// Sizes of blocks: a chunk of k, which the order of products gives; the bytes of
// a row of B's block, which with it fill a quarter of an L2, or an eighth where A is as
// small; the bytes of a block of A.
const (
	chunk     = kernels.ProductChunk
	rowBytes  = 1024
	fewBytes  = 512
	mostBytes = 8192
	maxFewA   = 2 * fewBytes * chunk
	maxHeld   = 1 << 20 // of a B that is packed once, for all of k
	maxNear   = 3 << 19 // of a B that two panels have in place, as an L2 holds it
	maxShared = 160 << 20
	maxA      = 2 << 20
	maxKept   = 36 << 20 // of a B that stays packed for other rows of A
	maxKeptA  = 1 << 20  // … of which then so many stay in the L2
	// Of a B that few panels pack as they load it.
	maxPackedFirst = 16 << 20
	// Of the vectors of a product whose rows are shorter: narrower ones take as long.
	leastBytes = 32
	// Products of few steps of k, and how tall their tiles are.
	shallow, shallowRows = 16, 6
	// Of deep products of f64: how many steps of k they have at least, so that 14 rows are 24 KB of an L1; rows
	// of a tile; and from so many such on.
	deepF64    = 220
	deepRows   = 8
	deepPanels = 7
	// Rows of B that are fetched ahead of those that the first panel packs.
	packAhead = 16
	// Of f32 by AVX-512: from so many panels on B is packed though it could be used in place.
	packPanels = 8
	// How long a panel takes at most for many to be done in a call.
	tallNanoseconds = 1000
	tallSums        = 16 << 10
	tallBytes       = 256 << 10 // of the result in a call, where several tiles are side by side …
	tallResult      = 2 << 20   // … and of all of it at most
)

// product is C = alpha · A · B + beta · C, of matrices of any strides.
type product struct {
	lib     *library
	t       number  // that it is computed in
	in, out element // of which t is the number, and so the size of those that lie as numbers
	m, n, k int64
	a, b, c uintptr
	// Bytes from row to row and from column to column.
	ars, acs, brs, bcs, crs, ccs int64
	aNext, bNext                 int64 // … and from matrix to matrix of a stack
	alpha, beta                  uint64
	scaled, reads                bool
	unit                         multiplier // of units; else vectors do
	chained                      bool       // an element is one chain along all of k; else the sum of those of chunks
}

// chains reports whether chunks of k go on from the sums of those before.
func (p *product) chains() bool { return p.chained && p.k > chunk }

// swapped is the transposed product, Cᵀ = Bᵀ · Aᵀ.
func (p product) swapped() product {
	p.m, p.n = p.n, p.m
	p.a, p.b = p.b, p.a
	p.ars, p.acs, p.brs, p.bcs = p.bcs, p.brs, p.acs, p.ars
	p.crs, p.ccs = p.ccs, p.crs
	p.aNext, p.bNext = p.bNext, p.aNext
	return p
}

// plain gives dimensions of one element the stride that suits best.
func (p *product) plain() {
	if p.n == 1 {
		p.bcs, p.ccs = p.in.size, p.out.size
	}
	if p.k == 1 {
		p.acs = p.in.size
	}
	if p.m == 1 && p.acs != p.in.size {
		p.ars = p.in.size
	}
}

// orient transposes the product where that is less work: B's rows are what
// vectors are loaded from.
func (p product) orient() product {
	if p.unit != noMultiplier {
		return p.orientUnits()
	}
	size := p.in.size
	q := p.swapped()
	p.plain()
	q.plain()
	lanes := int64(p.lib.m.lanes(p.t))
	// In elements moved: what has to be transposed, and the result; and in vectors
	// multiplied.
	cost := func(x *product) int64 {
		c := (x.n + lanes - 1) / lanes * x.m * x.k
		if x.bcs != size {
			c += 2 * x.n * x.k
		}
		if x.ars != size && x.acs != size {
			c += 8 * x.m * x.k
		}
		if x.ccs != x.out.size {
			c += 2 * x.m * x.n
		}
		return c
	}
	if few := p.takesFew(); few && p.m < p.n && (q.takesFew() || q.takesRows(q.m)) || !few && cost(&q) < cost(&p) {
		p = q
	}
	if !p.converts() {
		p.lib = p.lib.around(max(p.n*size, leastBytes))
	}
	return p
}

// worker is a thread's memory.
type worker struct {
	args
	tile    *tileArgs // of products by units
	p       *product
	own     product // of the launch it works on
	holds   *packed // the launch's block that is packed in the worker's room
	record  *backends.Record
	err     error
	stopped bool
	rooms   [rooms]backends.Memory
	written *sequenceOf // not nil: what is to be done is written down, not done
	short   bool        // … and is over before it pays to fetch anything ahead
}

// The rooms: packed A and B, sums, C as it was.
const (
	roomA = iota
	roomB
	roomSum
	roomC
	roomWide // of what is widened: on the way to these, A, B and the result
	roomWideA
	roomWideB
	roomWideC
	rooms
)

// room returns memory of at least so many bytes.
func (w *worker) room(which int, bytes int64) uintptr {
	r := &w.rooms[which]
	if w.written != nil {
		if r.Bytes < bytes {
			*r = backends.Memory{Addr: w.written.room(bytes), Bytes: bytes}
		}
		return r.Addr
	}
	if r.Bytes < bytes {
		if r.Bytes > 0 {
			_ = hostmem.Free(r.Addr, r.Bytes)
			*r = backends.Memory{}
		}
		addr, err := allocate(bytes)
		if err != nil {
			w.err = err
			return 0
		}
		*r = backends.Memory{Addr: addr, Bytes: bytes}
	}
	return r.Addr
}

// allocate is where rooms are from; tests have it fail.
var allocate = hostmem.Alloc

// free gives a worker's memory back.
func (w *worker) free() {
	for i := range w.rooms {
		if r := &w.rooms[i]; r.Bytes > 0 {
			_ = hostmem.Free(r.Addr, r.Bytes)
			*r = backends.Memory{}
		}
	}
}

// ends reports whether the worker has to stop.
func (w *worker) ends() bool {
	w.stopped = w.stopped || w.record.Stopped()
	return w.err != nil || w.stopped
}

func ceil(n, d int64) int64 { return (n + d - 1) / d }

// converts reports whether elements of A and B are not computed with as they lie.
func (p *product) converts() bool { return p.in.wide != asNumber }

// ofFloats reports whether all of it is floats as they lie.
func (p *product) ofFloats() bool {
	return p.t.float() && !p.converts() && p.out.wide == asNumber
}

// packsB reports whether B is not used in place for so many rows of the result.
func (p *product) packsB(rows int64) bool {
	size := p.t.size()
	if p.converts() || p.bcs != size {
		return true
	}
	panel := p.lib.m.tallest(p.t, int(min(ceil(p.n, int64(p.lib.m.lanes(p.t))), 2)))
	near := rows <= 2*panel && p.n*p.k*size <= maxNear
	splits := p.lib.m.evex && p.t == f32 && rows >= packPanels*panel // each vector would be loaded from two lines, again and again
	return !p.isOuter() && rows > panel && !near && (splits || min(p.k, chunk)*p.brs > 256<<10 || p.brs&4095 == 0)
}

// block computes rows i0 … i1 and columns j0 … j1 of the result. B is packed as block says, also for other tasks, if
// that is not nil.
func (w *worker) block(p *product, i0, i1, j0, j1 int64, block *packed) {
	if p.unit != noMultiplier {
		w.units(p, i0, i1, j0, j1)
		return
	}
	w.p, w.alpha, w.beta = p, p.alpha, p.beta
	size := p.t.size()
	if p.chains() {
		h := p.plan(i0, i1, j0, j1, block)
		w.blocks(&h, block)
		return
	}
	if (p.takesRows(i1) || p.takesFew() || p.packsRows(i1)) && j0 == 0 && j1 == p.n {
		w.rowsOf(p, i0, i1)
		return
	}
	if block == nil && p.isWidened() {
		w.widened(p, i0, i1, j0, j1)
		return
	}
	if p.isOuter() && (j1-j0)*size >= int64(p.lib.m.bytes) {
		w.outer(p, i0, i1, j0, j1)
		return
	}
	if p.dots() {
		w.dot(p, i0, i1, j0, j1)
		return
	}
	if block == nil && p.streams(i1-i0) {
		w.stream(p, i0, i1, j0, j1)
		return
	}
	h := p.plan(i0, i1, j0, j1, block)
	w.blocks(&h, block)
}

// place is where a matrix's part lies, and the bytes from row to row.
type place struct {
	addr uintptr
	step int64
}

// follow tells what is done with the sums of a chunk: those of the chunks before, at
// a place, are added, or what they begin from, and they go there; those of the last, with what follows the
// product, go where the result is wanted; C as it was is at a third place.
func (w *worker) follow(first, last bool, at, to, was place) {
	w.flags, w.d, w.dStep = 0, at.addr, uintptr(at.step)
	switch {
	case first:
	case w.p.chained:
		w.flags |= flagBegin
		w.t, w.tStep = at.addr, uintptr(at.step)
	default:
		w.flags |= flagAdd
		w.s, w.sStep = at.addr, uintptr(at.step)
	}
	if !last {
		return
	}
	w.d, w.dStep = to.addr, uintptr(to.step)
	if w.p.scaled {
		w.flags |= flagScale
	}
	if w.p.reads {
		w.flags |= flagBeta
		w.c, w.cStep = was.addr, uintptr(was.step)
	}
}

// tilesOf computes tiles side by side that are wide columns together. The last
// one may be narrower.
func (w *worker) tilesOf(kind codeKind, s tile, wide int64, packed bool) {
	lanes := int64(w.p.lib.m.lanes(s.t))
	across := int64(s.cols) * lanes
	w.aNext, w.dNext = 0, uintptr(across*s.t.size())
	if s.byColumns {
		w.dNext = uintptr(across) * w.dStep
	}
	if full := wide / across; full > 0 {
		w.tiles = full
		w.call(kind, s)
	}
	if rest := wide % across; rest > 0 {
		s.cols = int(ceil(rest, lanes))
		if packed {
			w.bStep = uintptr(s.cols * w.p.lib.m.bytes)
		}
		s.mask = w.setMask(rest)
		w.tiles = 1
		w.call(kind, s)
	}
}

// down computes so many tiles one below the other that are wide columns each, if need be of
// fewer vectors.
func (w *worker) down(s tile, wide int64, packed bool, tiles, aNext, dNext int64) {
	m := w.p.lib.m
	s.cols, s.mask = int(ceil(wide, int64(m.lanes(s.t)))), w.setMask(wide)
	if packed {
		w.bStep = uintptr(s.cols * m.bytes)
	}
	w.aNext, w.bNext, w.dNext, w.tiles = uintptr(aNext), 0, uintptr(dNext), tiles
	w.call(multiplies, s)
}

// setMask sets the mask of the last vector of so many numbers, and reports
// whether it is not whole.
func (w *worker) setMask(n int64) bool {
	m := w.p.lib.m
	n %= int64(m.lanes(w.p.t))
	if m.evex {
		w.mask[0] = 1<<n - 1
		return n > 0
	}
	w.setWords(n * w.p.t.size() / 4)
	return n > 0
}

// setWords sets so many words of AVX2's mask.
func (w *worker) setWords(n int64) {
	w.words = uint64(n)
	for i := range w.mask {
		w.mask[i] = 0
		if int64(i) < n {
			w.mask[i] = ^uint32(0)
		}
	}
}

// deliver writes sums to the rows i0 … i1 and columns j0 … j1 of the result.
func (w *worker) deliver(i0, i1, j0, j1, step int64) {
	p := w.p
	src, dst := w.rooms[roomSum].Addr, p.c+uintptr(i0*p.crs+j0*p.ccs)
	if p.out.wide != asNumber {
		w.narrow(dst, p.crs, p.ccs, src, step, i1-i0, j1-j0)
		return
	}
	w.move(dst, p.crs, p.ccs, src, p.t.size(), step, j1-j0, i1-i0)
}

// fetch gets C as it was, in the order of sums.
func (w *worker) fetch(i0, i1, j0, j1, step int64) {
	p := w.p
	dst, src := w.rooms[roomC].Addr, p.c+uintptr(i0*p.crs+j0*p.ccs)
	if p.out.wide != asNumber {
		w.widen(p.out, dst, step, src, p.ccs, p.crs, j1-j0, i1-i0)
		return
	}
	w.move(dst, step, p.t.size(), src, p.ccs, p.crs, j1-j0, i1-i0)
}
