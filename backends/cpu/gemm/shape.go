package gemm

import (
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
	// As tall as registers allow, rows dealt out evenly.
	tallest := m.tallest(p.t, int(min(cols, 2)))
	converts := p.converts()
	h.along = p.acs == size && !converts || converts || p.ars != size
	if !converts && h.along && p.acs == size && cols == 1 {
		if low := p.ars & 2047; low < 64 || low > 2048-64 { // lines of all rows compete for the same places of the L1
			tallest = min(tallest, 10)
		}
	}
	if p.k <= shallow { // to begin and end a tile takes longer than what is between
		tallest = min(tallest, shallowRows)
	}
	h.rows = ceil(high, ceil(high, tallest))
	h.width = min(int64(m.widest(p.t, int(h.rows))), cols)
	h.across = h.width * lanes
	h.chunks, h.deep = max(1, ceil(p.k, chunk)), min(p.k, chunk)
	perRow := int64(rowBytes)
	if high*h.deep*size <= maxFewA {
		perRow = fewBytes
	}
	perRow = min(perRow*chunk/max(1, h.deep), mostBytes) // where k is small, C is what moves, best by long rows
	if !p.t.float() {
		perRow /= 4 // a call takes about as long
	}
	h.perBlock = max(1, perRow/(h.width*vector)) * h.across
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

// leaves reports whether sums wait elsewhere than where the result goes.
func (p *product) leaves() bool {
	return p.ccs != p.t.size() || p.out.size != p.t.size() || p.out.convert != nil
}

// packed is a block of B that threads share: who needs it first packs it.
type packed struct {
	shape
	at    uintptr
	state atomic.Int32
}

const (
	packing = iota + 1
	isPacked
)

// once packs the block, or waits until another thread, which has begun, has packed it. What is
// nil is nobody else's.
func (b *packed) once(pack func()) {
	switch {
	case b == nil:
		pack()
	case b.state.CompareAndSwap(0, packing):
		defer b.state.Store(isPacked)
		pack()
	default:
		for looks := 1; b.state.Load() != isPacked; looks++ {
			if looks%(1<<14) == 0 { // seldom: the goroutine is bound to its thread, which others have to wake
				runtime.Gosched()
			}
			workers.Pause()
		}
	}
}

// share cuts the result into tasks that share packed blocks of B, a stretch of tasks for each
// thread: one that is done with its own helps with another's, so that none waits long for one
// that came late, or is slower. It reports whether B can be packed so.
func (r *launch) share(threads, want int64) bool {
	p := &r.first
	tile := 2 * int64(p.lib.m.lanes(p.t))
	blocks := max(1, min(threads, p.n/(2*tile))) // none narrower than two tiles: more threads then share one
	each := ceil(p.n, blocks)
	blocks *= ceil(each, p.shape(p.m, each).perBlock)
	wide := ceil(ceil(p.n, blocks), tile) * tile
	h := p.shape(p.m, wide)
	bytes := h.chunks * h.bBlock
	across := ceil(p.n, wide)
	if !h.held || across*bytes > maxShared {
		return false
	}
	unit := h.rows
	for p.leaves() && unit%square(p.t) != 0 { // in whole squares
		unit += h.rows
	}
	down := max(1, min(want, threads*tasksOfSharer)/across)
	holder := takeHolder(across * bytes)
	at := holder.room(roomB, across*bytes)
	if holder.err != nil { // each thread then packs its own, which is less
		giveHolder(holder)
		return false
	}
	r.holder = holder
	r.wide, r.across = wide, across
	r.high = max(p.m/down/unit, 1) * unit
	r.down = ceil(p.m, r.high)
	if int64(cap(r.packed)) < across {
		r.packed = make([]packed, across)
	}
	r.packed = r.packed[:across]
	for i := range r.packed {
		b := &r.packed[i]
		b.shape, b.at = h, at+uintptr(int64(i)*bytes)
		b.state.Store(0)
	}
	return true
}

// giveBack ends what share began.
func (r *launch) giveBack() {
	if r.holder != nil {
		giveHolder(r.holder)
		r.holder, r.packed = nil, r.packed[:0]
	}
}

// holders have the memory of what threads share, which is kept for so many other launches, but
// no more than keptShared of it: nothing gives it back while it is kept.
var holders struct {
	mu   sync.Mutex
	free [8]*worker
}

const keptShared = 2 * maxShared

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
