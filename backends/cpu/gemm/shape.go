package gemm

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends/cpu/workers"
)

// shape is how a block is cut into tiles, and what of it is packed (doc.go).
type shape struct {
	rows, width   int64 // of a tile: rows, and vectors …
	across        int64 // … which are so many columns
	perBlock      int64 // columns of a block of B
	chunks, deep  int64 // of k, and the longest one
	along         bool  // whether panels of A lie as rows do
	packA, packB  bool
	held          bool  // B is packed once, for all of k
	bTile, bBlock int64 // bytes of packed B: of a tile, of a block
}

// shape says how so many rows and columns of the result are done.
func (p *product) shape(high, wide int64) (h shape) {
	m, size := p.lib.m, p.t.size()
	vector, lanes := int64(m.bytes), int64(m.lanes(p.t))
	cols := ceil(wide, lanes)
	converts := p.converts()
	h.along = p.acs == size || converts || p.ars != size
	h.rows = p.rowsOfTile(high, cols)
	h.width = min(int64(m.widest(p.t, int(h.rows))), cols)
	if p.byColumns() {
		h.width = min(h.width, m.widestByColumns(p.t, h.rows))
	}
	h.across = h.width * lanes
	h.chunks, h.deep = max(1, ceil(p.k, chunk)), min(p.k, chunk)
	few := high*h.deep*size <= maxFewA && p.n*p.k*size <= maxPackedFirst // from memory longer rows come faster
	perRow := int64(rowBytes)
	if few {
		perRow = fewBytes
	}
	perRow = min(perRow*chunk/max(1, h.deep), mostBytes) // where k is small, C is what moves, best by long rows
	if !p.t.float() {
		perRow /= 4 // a call takes about as long
	}
	tiles, most := ceil(wide, h.across), max(1, perRow/(h.width*vector))
	blocks := ceil(tiles, most)
	if !few && blocks > 1 && (blocks-1)*(most+1) >= tiles { // or all of A would be read for the last few columns
		blocks--
	}
	h.perBlock = ceil(tiles, blocks) * h.across
	h.packA = converts || p.acs != size && p.ars != size
	if !h.packA && ceil(wide, h.across) > 2 {
		if h.along {
			low := p.ars & 4095
			h.packA = h.rows > 10 && (low < 64 || low > 4096-64)
		} else {
			low := p.acs & 4095 // columns are in so many pages that each tile needs them all anew
			h.packA = h.deep*p.acs > 512<<10 || p.acs > 1024 && (low < 64 || low > 4096-64)
		}
	}
	h.packB = p.packsB(high)
	h.held = h.packB && wide <= h.perBlock && h.chunks*h.deep*ceil(wide, h.across)*h.width*vector <= maxHeld
	h.bTile = h.deep*h.width*vector + 64
	h.bBlock = ceil(min(h.perBlock, wide), h.across) * h.bTile
	return h
}

// rowsOfTile is how many rows a tile of so many vectors has, or more: as many as registers
// allow, dealt out evenly.
func (p *product) rowsOfTile(high, cols int64) int64 {
	tallest := p.lib.m.tallest(p.t, int(min(cols, 2)))
	if cols == 1 && p.acs == p.t.size() && !p.converts() {
		if low := p.ars & 2047; low < 64 || low > 2048-64 { // lines of all rows compete for the same places of the L1
			tallest = min(tallest, 10)
		}
	}
	if p.isDeep(high, cols) {
		tallest = deepRows
	}
	if p.k <= shallow { // to begin and end a tile takes longer than what is between
		tallest = min(tallest, shallowRows)
	}
	return ceil(high, ceil(high, tallest))
}

// isDeep reports whether an L1 would not hold what the tallest tiles need of A's rows beside B's, while so many
// of them meet what is packed of B that it pays to have it hold them: then tiles are less tall, and wider.
func (p *product) isDeep(high, cols int64) bool {
	return p.lib.m.evex && p.t == f64 && p.k >= deepF64 && high >= deepPanels*deepRows && (cols == 3 || cols > 4)
}

// leaves reports whether sums wait elsewhere than where the result goes.
func (p *product) leaves() bool {
	return p.ccs != p.out.size || p.out.wide != asNumber
}

// unitOfRows is what rows of tasks have multiples of: where sums leave, whole squares.
func (p *product) unitOfRows() int64 {
	if p.leaves() && !p.byColumns() {
		return square(p.t)
	}
	return 1
}

// packed is a block of B that is packed once for many tasks. Threads that share it pack each chunk of k in pieces, of
// so many steps of k, whoever needs it while some are left; or each thread has all of it in memory of its own.
type packed struct {
	shape
	at        uintptr // 0: in each thread's own
	pieceDeep int64
	pieces    int32 // of a chunk
	chunks    []packing
}

// packing says how many pieces of a chunk somebody has begun, and how many are packed.
type packing struct{ begun, done atomic.Int32 }

// pieceUnit is what pieces have multiples of: a line of the cache, where B lies along k.
const pieceUnit = 16

// cut has chunks packed in so many pieces, or fewer.
func (b *packed) cut(pieces int64) {
	b.pieceDeep = max(1, ceil(ceil(b.deep, max(1, pieces)), pieceUnit)) * pieceUnit
	b.pieces = int32(max(1, ceil(b.deep, b.pieceDeep)))
}

// packs packs a piece of a chunk, if there is one that nobody has begun.
func (b *packed) packs(pc int64, pack func(pc, from, deep int64)) bool {
	c := &b.chunks[pc]
	if c.begun.Load() >= b.pieces { // to count on where nothing is left would take the line from others
		return false
	}
	i := c.begun.Add(1) - 1
	if i >= b.pieces {
		return false
	}
	defer c.done.Add(1)
	pack(pc, int64(i)*b.pieceDeep, b.pieceDeep)
	return true
}

// need returns when a chunk is packed. While others pack its last pieces, those of the chunks
// behind it are packed.
func (b *packed) need(pc int64, pack func(pc, from, deep int64)) {
	isPacked := func() bool { return b.chunks[pc].done.Load() == b.pieces }
	for at := pc; at < int64(len(b.chunks)) && !isPacked(); {
		if !b.packs(at, pack) {
			at++
		}
	}
	for looks := 1; !isPacked(); looks++ {
		if looks%(1<<14) == 0 { // seldom: the goroutine is bound to its thread, which others have to wake
			runtime.Gosched()
		}
		workers.Pause()
	}
}

// share cuts the result into tasks, a stretch of them for each thread, for which blocks of B are packed once: one
// that is done with its own stretch helps with another's, so that none waits long for one that came late, or is
// slower. Where that takes less than to have threads meet, each packs for itself what its tasks need (apart); else all
// share what is packed. Of a B that is too large it leaves columns for later (advance). It reports whether
// B can be packed so.
func (r *launch) share(threads, want int64) bool {
	p := &r.first
	h := p.shape(p.m, p.n)
	tile := h.across
	if bytes := ceil(p.n, tile) * tile * p.k * p.t.size(); bytes > maxShared {
		n := ceil(ceil(p.n, ceil(bytes, maxShared)), tile) * tile
		if n >= p.n || n*p.k*p.t.size() > 2*maxShared { // sums so long that a tile's columns take too much
			return false
		}
		r.later, p.n = p.n-n, n
		h = p.shape(p.m, p.n)
	}
	unit, panel := p.unitOfRows(), h.rows
	if unit > 1 { // several of which make a panel
		panel = 3 * unit
	}
	if r.apart(&h, threads, panel, unit) {
		return true
	}
	blocks := max(1, min(threads, p.n/(2*tile))) // none narrower than two tiles: more threads then share one
	blocks *= ceil(ceil(p.n, blocks), h.perBlock)
	r.wide = min(ceil(ceil(p.n, blocks), tile)*tile, h.perBlock)
	down := max(1, min(want, threads*tasksOfSharer)/ceil(p.n, r.wide))
	r.high = max(p.m/down/panel, 1) * panel
	h = p.heldShape(r.high, r.wide)
	across := ceil(p.n, r.wide)
	bytes := h.chunks * h.bBlock
	holder := takeHolder(across * bytes)
	at := holder.room(roomB, across*bytes)
	if holder.err != nil { // each thread then packs its own, which is less
		giveHolder(holder)
		r.high, r.wide = p.m, p.n
		return false
	}
	r.holder = holder
	r.across, r.down, r.bands = across, ceil(p.m, r.high), 1
	r.blocks(h)
	if n := across * h.chunks; int64(cap(r.states)) < n {
		r.states = make([]packing, n)
	}
	for i := range r.packed {
		first := int64(i) * h.chunks
		b := &r.packed[i]
		b.at, b.chunks = at+uintptr(int64(i)*bytes), r.states[first:first+h.chunks:first+h.chunks]
		b.cut(ceil(threads, across)) // who share it
		for pc := range b.chunks {
			b.chunks[pc].begun.Store(0)
			b.chunks[pc].done.Store(0)
		}
	}
	return true
}

// heldShape is how blocks of B are packed for tasks of so many rows and columns, all of k at once.
func (p *product) heldShape(high, wide int64) shape {
	h := p.shape(p.m, wide)
	h.rows = min(h.rows, p.rowsOfTile(min(high, p.m), ceil(wide, int64(p.lib.m.lanes(p.t)))))
	h.held = true
	return h
}

// blocks has tasks find a packed block of such a shape for each of their columns.
func (r *launch) blocks(h shape) {
	if int64(cap(r.packed)) < r.across {
		r.packed = make([]packed, r.across)
	}
	r.packed = r.packed[:r.across]
	for i := range r.packed {
		r.packed[i] = packed{shape: h}
	}
}

// longShare is what a thread does of products, in nanoseconds, that are cut finely, whatever it
// costs: then who is slow holds up nobody.
const longShare = 500e3

// What tasks take beside their steps, in nanoseconds, where each thread packs what it needs: to take and to plan one;
// a row of it, whose ends are parts of lines; a tile's step, as if it were of so many rows and vectors more; a byte that is
// packed, as it lies or transposed; and what part of a task some begin late. In a row of the result in which two threads
// write, what has the border between their columns goes to and fro, and so do lines around it that are fetched ahead; unless
// rows and borders are at lines of the cache, of which few are. Chosen so that of 3,000 cuts of 13 products which 2, 4, 8
// and 16 threads of a Xeon with a mesh did, those that are taken are near the quickest.
const (
	taskNanoseconds      = 350
	rowNanoseconds       = 8
	rowsOfStep           = 3
	vectorsOfStep        = 0.6
	packNanoseconds      = 0.02
	transposeNanoseconds = 0.05
	lateTasks            = 0.18
	borderNanoseconds    = 45
)

// cut is how a product is cut.
type cut struct {
	wide, high, bands int64 // columns and rows of a task; bands of rows, whose tasks follow each other
}

// cutOf is how the product before was cut, whose sizes and strides these are, for so many threads:
// to find it takes longer than the smallest of these products.
type cutOf struct {
	sizes     [10]int64
	byColumns bool // tiles are then less wide, or not, of the same sizes: it depends on what follows the sums
	cut
}

// apart cuts the result into tasks for which each thread packs B by itself, a block at a time: a small product as is
// done soonest, in bands of rows, of which one or several threads have all columns. Of a larger one each has a band,
// if that takes less than to meet at the borders of columns. It reports whether it did.
func (r *launch) apart(h *shape, threads, panel, unit int64) bool {
	p := &r.first
	found := cut{min(p.n, h.perBlock), max(p.m/(threads*tasksOfSharer)/panel, 1) * panel, threads}
	few := p.m*p.k*p.t.size() <= maxFewA // whoever has columns has them with all rows
	if few || p.tileNanoseconds(p.m, p.n) < float64(threads)*longShare {
		found = r.soonest(h, threads, unit)
	} else if packs := float64(p.n*p.k*p.t.size()) * p.packNanoseconds(); p.ccs != p.out.size || packs > borderNanoseconds*float64(p.m) || p.m < threads*panel {
		return false
	}
	r.cut(found)
	r.blocks(p.heldShape(r.high, r.wide))
	return true
}

// cut has tasks be as c says.
func (r *launch) cut(c cut) {
	p := &r.first
	r.wide, r.high = c.wide, c.high
	r.across, r.down = ceil(p.n, r.wide), ceil(p.m, r.high)
	r.bands = min(c.bands, r.down)
}

// packNanoseconds is what a byte of B takes that is packed.
func (p *product) packNanoseconds() float64 {
	if p.bcs == p.t.size() {
		return packNanoseconds
	}
	return transposeNanoseconds
}

// soonest finds the columns and rows of tasks, and the bands, with which so many threads are done soonest: where there
// are few tasks, all threads have as much to do only if it is not cut into what would be best for each.
func (r *launch) soonest(h *shape, threads, unit int64) cut {
	p := &r.first
	sizes := [...]int64{p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.crs, p.ccs, threads}
	byColumns := p.byColumns()
	if r.before.sizes != sizes || r.before.byColumns != byColumns {
		r.before = cutOf{sizes, byColumns, p.soonest(h, threads, unit)}
	}
	return r.before.cut
}

func (p *product) soonest(h *shape, threads, unit int64) (found cut) {
	lanes := h.across / h.width
	most, pack, best := max(h.perBlock, h.across), 0., math.Inf(1)
	if h.packB {
		pack = p.packNanoseconds() * float64(p.k*p.t.size())
	}
	for parts := ceil(p.n, most); ; parts += (parts + 3) / 4 {
		wide := ceil(ceil(p.n, parts), lanes) * lanes
		across := ceil(p.n, wide)
		cols := wide / lanes
		for bands := int64(1); ; bands = min(2*bands, threads) {
			for each := int64(1); each <= tasksOfSharer; each += (each + 3) / 4 {
				high := ceil(ceil(p.m, bands*each), unit) * unit
				down := ceil(p.m, high)
				if each > 1 && high <= unit {
					break
				}
				high = min(high, p.m)
				rows := p.rowsOfTile(high, cols)
				tiles := ceil(cols, min(int64(p.lib.m.widest(p.t, int(rows))), cols))
				task := taskNanoseconds + rowNanoseconds*float64(high) + float64(ceil(high, rows))*p.tileNanoseconds(rows, min(wide, p.n))*(1+rowsOfStep/float64(rows)+vectorsOfStep*float64(tiles)/float64(cols))
				tasks := across * down
				rounds := float64(ceil(tasks, threads))
				blocks := min(across, max(1, ceil(tasks*bands, threads*down))) // that a thread packs
				ns := (rounds+lateTasks)*task + float64(blocks*min(wide, p.n))*pack
				switch {
				case p.ccs != p.out.size: // by columns: then it is rows that meet
					if float64(down*blocks) > rounds {
						ns += borderNanoseconds * float64(blocks*min(wide, p.n))
					}
				case bands < threads && across > 1:
					ns += borderNanoseconds * min(float64(p.m)/float64(bands), rounds*float64(high))
				}
				if ns < best {
					best, found = ns, cut{wide, high, bands}
				}
			}
			if bands == threads {
				break
			}
		}
		if cols == 1 || across > tasksOfThread*threads {
			return found
		}
	}
}

// advance goes on to the columns that were left for later. It reports whether there are any.
func (r *launch) advance() bool {
	r.giveBack()
	p := &r.first
	if r.later == 0 {
		return false
	}
	p.b += uintptr(p.n * p.bcs)
	p.c += uintptr(p.n * p.ccs)
	p.n, r.later = r.later, 0
	return true
}

// giveBack ends what share began.
func (r *launch) giveBack() {
	if r.packed = r.packed[:0]; r.holder != nil {
		giveHolder(r.holder)
		r.holder = nil
	}
}

// holders have the memory of what threads share, which is kept for so many other launches, but
// no more than keptShared of it.
var holders struct {
	mu   sync.Mutex
	free [8]*worker
}

const keptShared = maxShared + maxShared/4 // with what keeps tiles apart

// takeHolder takes one that has so many bytes, if there is one: of others memory is made anew.
func takeHolder(bytes int64) *worker {
	holders.mu.Lock()
	defer holders.mu.Unlock()
	found := -1
	for i, w := range holders.free {
		if w != nil && (found < 0 || w.rooms[roomB].Bytes >= bytes) {
			if found = i; w.rooms[roomB].Bytes >= bytes {
				break
			}
		}
	}
	if found < 0 {
		return &worker{}
	}
	w := holders.free[found]
	holders.free[found] = nil
	return w
}

func giveHolder(w *worker) {
	w.err = nil
	holders.mu.Lock()
	place, kept := -1, w.rooms[roomB].Bytes
	for i, other := range holders.free {
		if other == nil {
			place = i
		} else {
			kept += other.rooms[roomB].Bytes
		}
	}
	keeps := place >= 0 && kept <= keptShared
	if keeps {
		holders.free[place] = w
	}
	holders.mu.Unlock()
	if !keeps {
		w.free()
	}
}
