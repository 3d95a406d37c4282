package strips

import (
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
)

// run is one launch of a kernel, shared by the workers that take part.
type run struct {
	k      *Kernel
	l      *backends.Launch
	slots  []slot
	lanes  uint64 // that run
	width  int    // most lanes of a strip
	strips int
	// A launch may be cut at the ends of rows, of views or of blocks: each has
	// row elements, in pieces strips of which all but the last have width lanes.
	row      uint64
	pieces   int
	perChunk int // strips

	phase    uint16
	phaseOut uint16

	stopped atomic.Bool // cancelled before all lanes were done

	mu      sync.Mutex
	faulted bool
	first   backends.ProgramFault
}

// Rows are worth strips of their own from so many elements on: those of views,
// and those of blocks, in a program that asks for the place in them. There the
// block's indices, and lane.y and lane.z, are the same for all lanes, and what
// is computed from them costs nothing per lane.
const minRow, minBlockRow = 64, 32

// prepare sets the run up for a launch.
func (r *run) prepare(l *backends.Launch) {
	r.l, r.faulted, r.row = l, false, 0
	r.stopped.Store(false)
	block := uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2])
	r.lanes = min(l.N, uint64(l.Grid[0])*uint64(l.Grid[1])*uint64(l.Grid[2])*block)
	for i := range r.slots {
		r.slots[i].bind(l, &l.Slots[i])
	}
	r.relate()
	r.width = r.k.width()
	switch {
	case r.k.blocks:
		r.width = int(block)
	case r.lanes < uint64(r.width):
		// One strip, as wide as a frame made for more, unless that is large.
		if (r.k.laneBytes+r.k.poolBytes)*r.width > scratchBytes {
			r.width = max(1, int(r.lanes))
		}
	case r.k.places && l.Block[0] >= minBlockRow:
		r.cut(uint64(l.Block[0]))
	default:
		r.cutRows()
	}
	switch {
	case r.row > 0:
		r.strips = int((r.lanes+r.row-1)/r.row) * r.pieces
	default:
		r.strips = int((r.lanes + uint64(r.width) - 1) / uint64(r.width))
	}
	if r.k.phase && l.Phase != nil {
		r.phase = uint16(*l.Phase % phases)
		r.phaseOut = r.phase
	}
}

// relate finds out which slots' memory is written, and which overlap.
func (r *run) relate() {
	for i := range r.slots {
		a := &r.slots[i]
		a.still, a.alone = !r.k.use[i].Writes, true
		lo, hi := a.extent()
		for j := range r.slots {
			if j == i || !r.k.use[i].Writes && !r.k.use[j].Writes {
				continue
			}
			if lo2, hi2 := r.slots[j].extent(); lo < hi2 && lo2 < hi {
				a.alone = false
				a.still = a.still && !r.k.use[j].Writes
			}
		}
	}
}

// cutRows lets strips end where the rows of strided views do, if the rows are
// long enough: then each view has one stride in a strip.
func (r *run) cutRows() {
	row := int64(0)
	for i := range r.slots {
		if sl := &r.slots[i]; r.k.use[i].Indexed && sl.layout == scattered {
			if n := sl.shape[sl.rank-1]; row == 0 || n < row {
				row = n
			}
		}
	}
	if row < minRow {
		return
	}
	for i := range r.slots {
		if sl := &r.slots[i]; sl.layout == scattered {
			sl.layout = strided
		}
	}
	r.cut(uint64(row))
}

// cut divides rows into pieces of about the same length.
func (r *run) cut(row uint64) {
	r.row = row
	w := uint64(r.width)
	pieces := (row + w - 1) / w
	w = min(w, ((row+pieces-1)/pieces+15)&^15)
	r.width, r.pieces = int(w), int((row+w-1)/w)
}

// bounds returns the first lane of a strip and the number of lanes.
func (r *run) bounds(strip int) (g uint64, n int) {
	end := r.lanes
	if r.row > 0 {
		first := uint64(strip/r.pieces) * r.row
		end = min(end, first+r.row)
		g = first + uint64(strip%r.pieces)*uint64(r.width)
	} else {
		g = uint64(strip) * uint64(r.width)
	}
	if g >= end {
		return g, 0
	}
	return g, int(min(uint64(r.width), end-g))
}

// alone runs the launch on the caller's thread.
func (r *run) alone() {
	defer fpenv.Leave(fpenv.Enter())
	f := r.k.frame(workers.Seat{}, r.width)
	f.enter(r)
	defer r.k.release(workers.Seat{}, f)
	f.runStrips(0, r.strips)
}

// Run takes part in a launch: it runs chunk after chunk. It is for the pool.
func (r *run) Run(j *workers.Job, at workers.Seat) {
	f := r.k.frame(at, r.width)
	f.enter(r)
	defer r.k.release(at, f)
	for i, ok := j.Next(&at); ok; i, ok = j.Next(&at) {
		f.runStrips(i*r.perChunk, min((i+1)*r.perChunk, r.strips))
	}
}

// runStrips runs the strips from first up to end.
func (f *frame) runStrips(first, end int) {
	for i := first; i < end; i++ {
		g, n := f.r.bounds(i)
		if n == 0 {
			continue
		}
		if f.poll() {
			return
		}
		if f.k.shared > 0 {
			clear(lanes[byte](f.shared, int(f.k.shared)))
		}
		f.strip(g, n)
	}
}

// special returns a special value that is the same in the whole launch.
func (r *run) special(s isa.Special) uint64 {
	switch {
	case s == isa.N:
		return r.l.N
	case s >= isa.GridDimX:
		return uint64(r.l.Grid[s-isa.GridDimX])
	}
	return uint64(r.l.Block[s-isa.BlockDimX])
}

// fault keeps a fault, the one of the lowest lane seen.
func (r *run) fault(k isa.FaultKind, site int, lane uint64, asked backends.Asked) {
	r.mu.Lock()
	if !r.faulted || lane < r.first.Lane {
		r.faulted, r.first = true, backends.ProgramFault{Kind: k, Site: site, Lane: lane, Asked: asked}
	}
	r.mu.Unlock()
}

// outcome returns the launch's, once all who took part are done.
func (r *run) outcome() error {
	if r.stopped.Load() {
		return backends.ErrCancelled
	}
	if r.k.phase && r.l.Phase != nil {
		*r.l.Phase = uint32(r.phaseOut)
	}
	if r.faulted {
		f := r.first
		return &f
	}
	return nil
}
