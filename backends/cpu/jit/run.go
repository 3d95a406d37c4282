package jit

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
)

// run is one launch of a kernel, shared by the workers that take part.
type run struct {
	k       *Kernel
	l       *backends.Launch
	v       *variant
	views   []view
	lanes   uint64
	width   uint64 // lanes of a block, if the code is for blocks
	row     uint64 // lanes of a row, at whose end strides change; 0: no rows
	tile    uint64 // rows of which pieces are done in turn; 0: one row after the other
	piece   uint64 // lanes that one call does, at most
	chunk   uint64 // lanes that are taken at once
	long    bool   // a call may take long
	own     *frame // of the caller's thread
	staging bool
	stopped atomic.Bool

	mu      sync.Mutex
	faulted bool
	first   backends.ProgramFault
}

// Machine code that runs on a goroutine holds up the collector, which waits for
// it: so calls are cut to take some 50 µs. What cannot be cut, since a lane may
// loop for longer, is called as C code is, which the collector does not wait
// for; that costs 50 ns a call. Such a call is cut as well, since only loops that
// are not proved short look whether the launch is cancelled.
const (
	callNanoseconds = 50e3
	chunksPerThread = 8
	stageLanes      = 1024           // of a piece that is staged
	stageRoom       = stageLanes + 8 // of 8 bytes, for one: a comb writes whole vectors
	endlessLanes    = 1024           // of a piece whose time nothing bounds
	tileLanes       = 256            // of a piece of a row, and
	tileRows        = 16             // rows, where memory runs across them: they share what was loaded
	minRow          = 64             // lanes of rows that are worth calls of their own
	align           = 64             // lanes that pieces and chunks are multiples of
)

// Run runs a launch to its end, on the caller's thread and, if there is enough
// to do, on workers. The error is a *backends.ProgramFault, ErrCancelled or nil.
func (k *Kernel) Run(l *backends.Launch, pool *workers.Pool) error {
	r := k.takeRun()
	defer k.giveBack(r)
	if !r.prepare(l, minRow) {
		return k.other.Run(l, pool)
	}
	if r.lanes == 0 {
		return nil
	}
	laneNs := r.estimate()
	r.piece = r.lanes
	r.long = laneNs*float64(k.lanes()) > callNanoseconds
	switch n := callNanoseconds / laneNs; {
	case math.IsInf(laneNs, 1):
		r.piece = min(r.piece, endlessLanes)
	case n < float64(r.piece):
		r.piece = max(uint64(n)&^(align-1), align)
	}
	if r.staging {
		r.piece = min(r.piece, stageLanes)
		if r.row == 0 && r.width == 0 && r.piece < r.lanes {
			r.piece = r.even(r.piece)
		}
	}
	unit := uint64(align)
	if r.tile > 0 {
		unit = r.tile * r.row
		r.piece = min(r.piece, tileLanes)
	}
	if r.width > 0 {
		unit = r.width
		r.piece = max(r.piece/unit*unit, unit)
		r.long = laneNs*float64(unit) > callNanoseconds
	}
	chunks := uint64(1)
	work := laneNs * float64(r.lanes)
	if threads, chunk := pool.Share(work); threads > 1 {
		chunks = uint64(min(float64(threads*chunksPerThread), work/chunk+1))
	}
	r.chunk = (r.lanes/chunks + unit) / unit * unit
	if r.lanes <= r.chunk {
		r.alone()
	} else {
		pool.Run(int((r.lanes+r.chunk-1)/r.chunk), r)
	}
	switch {
	case r.stopped.Load():
		return backends.ErrCancelled
	case r.faulted:
		f := r.first
		return &f
	}
	return nil
}

// Estimate is about what so many lanes and instructions of lanes take, in nanoseconds, if
// caches have the elements that lanes go to by index.
func (k *Kernel) Estimate(lanes uint64, steps float64) float64 {
	ns, bytes := k.stepNanoseconds(k.p.blocks != nil), 0
	for i, t := range k.p.fn.SlotTypes {
		if (k.p.reads|k.p.writes)>>i&1 != 0 {
			bytes += t.Size()
		}
	}
	return ns*steps + nearNanoseconds*float64(bytes)*float64(lanes)
}

// stepNanoseconds is what an instruction of a lane takes, by blocks or not.
func (k *Kernel) stepNanoseconds(blocks bool) float64 {
	ns := groupNanoseconds / float64(k.lanes())
	if k.p.bytes && !blocks {
		ns *= slowFactor
	}
	return ns
}

func (k *Kernel) lanes() int {
	s := shape{}
	if k.p.blocks != nil {
		s.block = 1
	}
	return k.p.groupLanes(k.t, s)
}

// What a lane takes, in nanoseconds: an instruction of a group of lanes, a byte
// of memory in the nearer caches and beyond, and a lane where lanes are done one
// by one. Measured on a core with AVX-512 at 2.5 GHz.
const (
	groupNanoseconds = 0.12
	nearNanoseconds  = 0.01
	farNanoseconds   = 0.05
	farBytes         = 2 << 20
	slowFactor       = 16
	loadSteps        = 4 // in a loop over elements: the load, what is done with it, the next address, the end
)

// estimate gives the time that a lane takes, +Inf if nothing bounds it.
func (r *run) estimate() float64 {
	ns, bytes := r.costs()
	if bytes*float64(r.lanes) > farBytes {
		return ns + farNanoseconds*bytes
	}
	return ns + nearNanoseconds*bytes
}

// costs gives the time that a lane computes, +Inf if nothing bounds it, and the bytes that it moves.
func (r *run) costs() (ns, bytes float64) {
	steps, bounded := r.k.cost.Of(r.lanes, r.l.Params)
	if !bounded {
		return math.Inf(1), 0
	}
	for i := range r.views {
		each := float64(r.views[i].size)
		if r.k.p.bytes { // a lane may go over many elements
			all := float64(max(r.l.Slots[i].Bytes, 0))
			each = max(each, min(all, each*steps/loadSteps)/float64(r.lanes))
		}
		bytes += each
	}
	return steps / float64(r.lanes) * r.k.stepNanoseconds(r.width > 0), bytes
}

// prepare sets the run up for a launch, in which rows of at least so many lanes may be
// calls of their own; false if it has to be declined.
func (r *run) prepare(l *backends.Launch, least uint64) bool {
	k := r.k
	r.l, r.faulted, r.row, r.tile, r.staging = l, false, 0, 0, false
	r.stopped.Store(false)
	block := uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2])
	r.lanes = min(l.N, uint64(l.Grid[0])*uint64(l.Grid[1])*uint64(l.Grid[2])*block)
	if r.lanes == 0 {
		return true
	}
	if l.Fuel > 0 && k.p.loops {
		return false
	}
	r.width = 0
	switch row := l.Block[1] == 1 && l.Block[2] == 1; {
	case k.p.blocks != nil && row:
		r.width = block
	case k.p.meets:
		return false
	}
	indexed := k.p.reads | k.p.writes
	var room [isa.MaxRank]uint8
	order := k.p.orderOf(l, room[:0])
	for i := range r.views {
		w := &r.views[i]
		w.bind(l, &l.Slots[i], order)
		if r.width > 0 && w.access == staged && w.rank == 2 && w.shape[1] == int64(r.width) && w.stride[1] == w.size {
			w.access = spacedBlocks
		}
		if indexed>>i&1 != 0 && w.access == staged {
			if n, _ := w.inner(); r.row == 0 || uint64(n) < r.row {
				r.row = uint64(n)
			}
		}
	}
	if r.row < least || r.width > 0 {
		r.row = 0
	}
	var s shape
	if r.width > 0 {
		s = k.p.blockShape(s, k.t, int(block), r.lanes%block == 0)
	}
	for i := range r.views {
		w := &r.views[i]
		if indexed>>i&1 == 0 {
			continue
		}
		if r.row > 0 && w.access == staged {
			switch _, st := w.inner(); st {
			case 0:
				w.access = single
			case w.size:
				w.access = contiguous
			}
		}
		written := k.p.writes>>i&1 != 0
		switch {
		case w.access == single && written:
			return false
		case w.access == single:
			s.single |= 1 << i
		case w.access == staged && k.p.masked>>i&1 != 0:
			return false // what no lane stores would be written back
		case w.access == staged:
			r.staging = true
			if _, st := w.inner(); r.row > 0 && abs(st) >= cacheLine {
				r.tile = tileRows
			}
		}
	}
	s.head = r.begins()
	s.stream = r.streams(s.head)
	s.halved = !s.stream && r.shortens()
	s.pages, s.far = r.asksPages(), r.goesFar()
	s.near = s.pages && r.memory() <= farPages
	v, err := k.variantFor(s)
	r.v = v
	return err == nil
}

const cacheLine = 64

// streamBytes is the size of a launch's memory from which on what it writes goes
// past the caches, which it would only flush; twice that of one that reads nothing.
const streamBytes = 64 << 20

// streams reports whether the launch is that large and its outputs lie as
// stores past the caches want them, maybe from the first line on.
func (r *run) streams(head bool) bool {
	p := r.k.p
	if !p.level || r.row > 0 && !r.k.t.evex || r.staging || p.writes == 0 || r.width > 0 {
		return false
	}
	total, most := uint64(0), uint64(streamBytes)
	if p.reads == 0 { // it flushes nothing that it reads, and half of what it writes may stay
		most *= 2
	}
	for i := range r.views {
		w := &r.views[i]
		total += r.lanes * uint64(w.size)
		if p.writes>>i&1 == 0 {
			continue
		}
		switch {
		case head && !w.alike(&r.views[p.head()]):
			return false
		case !head && (w.base%uintptr(r.k.t.bytes) != 0 || r.row > 0 && !r.inLines(w)):
			return false
		}
	}
	return total >= most
}

// alone runs the launch on the caller's thread.
func (r *run) alone() {
	defer fpenv.Leave(fpenv.Enter())
	if r.own == nil {
		r.own = r.newFrame()
	}
	r.own.enter(r)
	r.own.lanes(0, r.lanes)
	r.own.leave()
}

// Run takes part in a launch: it runs chunk after chunk. It is for the pool.
func (r *run) Run(j *workers.Job, at workers.Seat) {
	f := r.k.frames.Take(at)
	if f == nil {
		f = r.newFrame()
	}
	f.enter(r)
	defer func() {
		f.leave()
		r.k.frames.Give(at, f)
	}()
	for i, ok := j.Next(&at); ok; i, ok = j.Next(&at) {
		f.lanes(uint64(i)*r.chunk, min(uint64(i+1)*r.chunk, r.lanes))
	}
}

func (r *run) fault(kind isa.FaultKind, site int, lane uint64, asked backends.Asked) {
	r.mu.Lock()
	if !r.faulted || lane < r.first.Lane {
		r.faulted, r.first = true, backends.ProgramFault{Kind: kind, Site: site, Lane: lane, Asked: asked}
	}
	r.mu.Unlock()
}

// frame is a worker's memory: the arguments of machine code, its scratch, and
// room for staging.
type frame struct {
	r      *run
	memory []byte
	args   unsafe.Pointer // in memory, a multiple of 64
	bytes  int
	stages []unsafe.Pointer // by slot
	staged []uint64         // by slot: where in its period a view lies staged that repeats itself, plus one; 0: nowhere
	room   []uint64
	combs  []comber // by slot
}

// never is what machine code looks at in launches that nobody can cancel.
var never uint32

func (f *frame) at(off int32) unsafe.Pointer { return unsafe.Add(f.args, off) }

func (f *frame) u64(off int32) *uint64 { return (*uint64)(f.at(off)) }
func (f *frame) u32(off int32) *uint32 { return (*uint32)(f.at(off)) }

func (r *run) newFrame() *frame {
	return &frame{stages: make([]unsafe.Pointer, len(r.views)), staged: make([]uint64, len(r.views))}
}

// enter fills in what all calls of a run have.
func (f *frame) enter(r *run) {
	p := r.k.p
	if need := int(r.v.lay.bytes); f.bytes < need {
		f.memory = make([]byte, need+64)
		at := unsafe.Pointer(unsafe.SliceData(f.memory))
		f.args = unsafe.Add(at, (64-uintptr(at)%64)%64)
		f.bytes = need
	}
	if r.staging && f.room == nil {
		f.room = make([]uint64, len(r.views)*stageRoom+8)
		f.combs = make([]comber, len(r.views))
		at := unsafe.Pointer(unsafe.SliceData(f.room))
		at = unsafe.Add(at, (64-uintptr(at)%64)%64)
		for i := range f.stages {
			f.stages[i] = unsafe.Add(at, i*stageRoom*8)
		}
	}
	f.r = r
	clear(f.staged)
	l := r.l
	cancel := &never
	if l.Record != nil {
		cancel = &l.Record.Cancel
	}
	*(*uintptr)(f.at(argCancel)) = uintptr(unsafe.Pointer(cancel))
	*f.u32(argEnded), *f.u32(argKind), *f.u64(argLane) = 0, 0, math.MaxUint64
	*(*uintptr)(f.at(argLock)) = uintptr(unsafe.Pointer(&r.k.odd))
	for i := range l.Params {
		cell := l.Params[i]
		if t := p.fn.ParamTypes[i]; !half(t) || !r.v.halves {
			cell = registerForm(t, cell)
		}
		*f.u64(r.v.lay.params + int32(8*i)) = cell
	}
	if p.bytes {
		for i := range l.Slots {
			at := r.v.lay.slots + int32(slotBytes*i)
			*f.u64(at + slotBase) = uint64(l.Slots[i].Addr)
			*f.u64(at + slotReach) = uint64(max(l.Slots[i].Bytes, 0))
		}
	}
	if !p.places {
		return
	}
	*f.u64(argN) = l.N
	over := uint64(1)
	for i, m := range [...]uint32{l.Block[0], l.Block[1], l.Block[2], l.Grid[0], l.Grid[1], l.Grid[2]} {
		at := argPlace + int32(16*i)
		*f.u64(at), *f.u64(at + 8) = over, uint64(m)
		over *= uint64(m)
		if i < 3 {
			*f.u32(argBlock + int32(4*i)) = m
		} else {
			*f.u32(argGrid + int32(4*(i-3))) = m
		}
	}
}

// leave tells the run what went wrong.
func (f *frame) leave() {
	if kind := *f.u32(argKind); kind != 0 {
		asked := backends.Asked{Known: *f.u32(argKnown)}
		if asked.Known != 0 {
			asked.Slot, asked.At = *f.u32(argSlot), int64(*f.u64(argAt))
		}
		f.r.fault(isa.FaultKind(kind), int(int32(*f.u32(argSite))), *f.u64(argLane), asked)
	}
	f.r = nil
}

// takeRun takes a free run, or makes one; the one given back last without a lock.
func (k *Kernel) takeRun() *run {
	if r := k.spare.Swap(nil); r != nil {
		return r
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.runs); n > 0 {
		r := k.runs[n-1]
		k.runs = k.runs[:n-1]
		return r
	}
	slots := len(k.p.fn.Slots)
	if k.p.shared >= 0 {
		slots--
	}
	return &run{k: k, views: make([]view, slots)}
}

func (k *Kernel) giveBack(r *run) {
	r.l, r.v = nil, nil
	if r = k.spare.Swap(r); r == nil {
		return
	}
	k.mu.Lock()
	k.runs = append(k.runs, r)
	k.mu.Unlock()
}

// lanes runs lanes g to end, in pieces.
func (f *frame) lanes(g, end uint64) {
	r := f.r
	if r.tile > 0 {
		f.tiles(g, end)
		return
	}
	for g < end {
		if r.l.Record.Stopped() {
			r.stopped.Store(true)
			return
		}
		n, rows := min(end-g, r.piece), uint64(1)
		if r.row > 0 {
			if at := g % r.row; at > 0 || n < r.row || r.staging {
				n = min(n, r.row-at)
			} else {
				rows, n = r.rows(g, n/r.row), r.row
			}
		}
		f.call(g, n, rows)
		if *f.u32(argEnded) != 0 {
			r.stopped.Store(true)
			return
		}
		g += n * rows
	}
}

// rows is how many rows, up to most of them, lie evenly in all views from lane g on.
func (r *run) rows(g, most uint64) uint64 {
	indexed := r.k.p.reads | r.k.p.writes
	for i := range r.views {
		if indexed>>i&1 != 0 {
			count, _ := r.views[i].rows(g, r.row)
			most = min(most, count)
		}
	}
	return most
}

// tiles runs whole rows, from lane g to end, some of them side by side.
func (f *frame) tiles(g, end uint64) {
	r := f.r
	for ; g < end; g += r.tile * r.row {
		below := min(end, g+r.tile*r.row)
		for at := uint64(0); at < r.row; at += r.piece {
			if r.l.Record.Stopped() {
				r.stopped.Store(true)
				return
			}
			for row := g; row < below; row += r.row {
				f.call(row+at, min(r.piece, r.row-at), 1)
				if *f.u32(argEnded) != 0 {
					r.stopped.Store(true)
					return
				}
			}
		}
	}
}

// stage makes n elements from g on of slot i contiguous.
func (f *frame) stage(i int, g uint64, n int) {
	w := &f.r.views[i]
	if period := w.period(); period > 0 && f.r.k.p.writes>>i&1 == 0 {
		phase := g%period + 1
		if f.staged[i] == phase {
			return // as long as any piece
		}
		f.staged[i] = 0
		if uint64(n) == f.r.piece {
			f.staged[i] = phase
		}
	}
	w.stage(f.combs[i].combFor(f.r.k.t, w), f.stages[i], g, n, false)
}

// aim puts where n lanes from g on are, and how many, into the frame; of several rows of
// so many the first.
func (f *frame) aim(g, n, rows uint64) {
	r := f.r
	p := r.k.p
	indexed := p.reads | p.writes
	for i := range r.views {
		if indexed>>i&1 == 0 {
			continue
		}
		w := &r.views[i]
		addr := w.base
		switch {
		case w.access == staged:
			if p.reads>>i&1 != 0 {
				f.stage(i, g, int(n))
			}
			addr = uintptr(f.stages[i])
		case w.access == spacedBlocks, r.row > 0 && w.rank > 0:
			addr += uintptr(w.offset(g))
		case w.access == contiguous:
			addr += uintptr(int64(g) * w.size)
		}
		at := r.v.lay.slots + int32(slotBytes*i)
		*f.u64(at + slotIndex) = uint64(addr)
		*f.u64(at + slotStep) = uint64(w.size) * r.width
		switch {
		case w.access == spacedBlocks:
			*f.u64(at + slotStep) = uint64(w.stride[0])
		case rows > 1:
			_, step := w.rows(g, n)
			*f.u64(at + slotStep) = uint64(step)
		}
	}
	*f.u64(argFirst), *f.u64(argCount), *f.u64(argRows) = g, n, rows
	if r.width > 0 {
		*f.u64(argWidth), *f.u64(argBlockNo) = r.width, g/r.width
	}
}

// call runs n lanes from g on, or several rows of so many.
func (f *frame) call(g, n, rows uint64) {
	r := f.r
	f.aim(g, n, rows)
	if r.long {
		purego.SyscallN(r.v.code.Entry, uintptr(f.args))
	} else {
		enter(r.v.code.Entry, uintptr(f.args))
	}
	runtime.KeepAlive(f)
	for i := range r.views {
		if r.views[i].access == staged && r.k.p.writes>>i&1 != 0 {
			r.views[i].stage(nil, f.stages[i], g, int(n), true)
		}
	}
}
