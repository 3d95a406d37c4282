// Package strips is the portable engine of the CPU backend. It compiles a
// canonical function to a tree of steps. A step does one primitive for all
// lanes of a strip, some hundreds of lanes of which the registers fit the
// nearest cache, by one plain loop; where lanes diverge, masks say which of
// them run. A program with shared memory, barriers or collectives runs a whole
// block as a strip: its lanes go in lockstep, which makes barriers free. The
// others run in strips that take no notice of blocks.
//
// The engine shares no evaluator with package isa or the interpreter, whose
// second opinion it is.
//
// # Files
//
//	strips.go       kernels, and launches cut into chunks
//	compile.go      canonical functions become steps; instruction.go: instructions do;
//	                places.go: registers share places
//	rules.go        which loop computes which primitive; loops.go, loops_cvt.go, loops_fma.go and
//	                loops_half.go have the loops, simd_*.go those that are written by hand
//	step.go         steps, and those that compute
//	control.go      branches and loops, by masks; mask.go: sets of lanes
//	register.go     how a register holds its lanes: one value, a line, or each its own
//	memory.go       byte addresses become pointers, and are checked; slot.go: slot[index];
//	                atomics.go: atomic operations
//	collective.go   what a block's lanes come to together
//	state.go        special values, the class graph, and the state of lanes, launches and streams
//	run.go          launches, in strips; frame.go: a worker's memory
package strips

import (
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// Kernel is a compiled program.
type Kernel struct {
	body      *region
	regs      []regPlace
	laneBytes int // of the registers
	exits     int
	use       []isa.SlotUse
	constants []constantReg
	params    []paramReg
	specials  []specialReg
	foreign   []int32 // registers that may hold memory of slots
	areas     []scratch
	poolBytes int // of a lane
	shared    uint32
	cost      float64 // steps a lane takes, roughly

	blocks      bool // a strip is a block
	places      bool // reads lane or block indices
	halves      bool // computes with 16-bit floats
	collectives bool
	residue     bool
	phase       bool

	frames workers.Kept[frame]
	mu     sync.Mutex
	runs   []*run
}

// Bounds on a strip's lanes, and on the memory of its registers.
const (
	minWidth      = 128
	maxWidth      = isa.MaxBlockLanes
	registerBytes = 24 << 10
	scratchBytes  = 1 << 20
)

// width is the number of lanes of a strip where blocks don't matter: a power
// of two, so that strips lie in one row of the matrices that are as wide.
func (k *Kernel) width() int {
	w := registerBytes / max(k.laneBytes, 1)
	if n := k.poolBytes + len(k.areas); n > 0 {
		w = min(w, scratchBytes/n)
	}
	width := minWidth
	for width < maxWidth && 2*width <= w {
		width *= 2
	}
	return width
}

// frame takes the thread's frame for strips of the given width, or makes one.
func (k *Kernel) frame(at workers.Seat, width int) *frame {
	if f := k.frames.Take(at); f != nil && f.width >= width {
		return f
	}
	return newFrame(k, (width+63)&^63)
}

// release makes the frame forget its launch, and keeps it for another.
func (k *Kernel) release(at workers.Seat, f *frame) {
	f.leave()
	k.frames.Give(at, f)
}

// takeRun takes a free run, or makes one.
func (k *Kernel) takeRun() *run {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.runs); n > 0 {
		r := k.runs[n-1]
		k.runs = k.runs[:n-1]
		return r
	}
	return &run{k: k, slots: make([]slot, len(k.use))}
}

// Release frees the memory that the kernel kept for further launches.
func (k *Kernel) Release() {
	k.frames.Clear()
	k.mu.Lock()
	k.runs = nil
	k.mu.Unlock()
}

// giveBack makes the run forget its launch, and keeps it for another.
func (k *Kernel) giveBack(r *run) {
	r.l = nil
	for i := range r.slots {
		r.slots[i].base = nil
	}
	k.mu.Lock()
	k.runs = append(k.runs, r)
	k.mu.Unlock()
}

// Run runs a launch to its end, on the caller's thread and, if there is enough
// to do, on workers. The error is a *backends.ProgramFault, ErrCancelled (if
// lanes were left out or cut short) or nil.
func (k *Kernel) Run(l *backends.Launch, pool *workers.Pool) error {
	r := k.takeRun()
	defer k.giveBack(r)
	r.prepare(l)
	chunks := 1
	work := k.cost * float64(r.lanes) * stepNanoseconds
	if threads, chunk := pool.Share(work); threads > 1 {
		chunks = min(r.strips, threads*chunksPerThread, int(min(work/chunk, 1<<20))+1)
	}
	r.perChunk = (r.strips + chunks - 1) / max(chunks, 1)
	if chunks <= 1 {
		r.alone()
	} else {
		pool.Run((r.strips+r.perChunk-1)/r.perChunk, r)
	}
	return r.outcome()
}

// How work is divided. A step takes about a third of a nanosecond a lane; a chunk
// should be small enough that all finish at about the same time.
const (
	stepNanoseconds = 0.3
	chunksPerThread = 8
)

// Estimate is about what so many instructions of lanes take, in nanoseconds.
func (*Kernel) Estimate(_ uint64, steps float64) float64 { return steps * stepNanoseconds }
