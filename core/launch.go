package core

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// LaunchArgs is what a program is launched with.
type LaunchArgs struct {
	// Slots has a buffer for each slot; nil for the boundary slot means the
	// executor's boundary pool.
	Slots []*Buffer
	// Params has a number for each parameter; type 0: none given.
	Params []Scalar
	// Grid and Block are counts in x, y, z. A zero Block is the program's own
	// or (256, 1, 1); a zero Grid covers the index space.
	Grid, Block [3]uint32
	// Shape is the index space. One number counts elements of contiguous slots
	// of any shape, from the first on. Nil: the shape that the slots accessed
	// by index broadcast to, or, if there are none, all lanes of the grid.
	Shape []int64
	// Fuel is the steps that a lane may take; 0: no limit.
	Fuel uint64
	// Residue receives what RES_ACCUM adds up; it may be nil.
	Residue *[isa.NumClasses]uint64
}

// role is how a launch uses a slot.
type role struct {
	name     string
	readOnly bool
}

// launchJob is one launch of one kernel. It is taken from a pool, so that a
// launch allocates nothing, and goes back there when it is over.
type launchJob struct {
	l       backends.Launch
	op      string // the operation, or empty for a program's own launch
	program *Program
	kernel  *kernel
	device  *Device
	roles   []role
	pins    []*memory
	stop    atomic.Bool
	users   atomic.Int32 // the caller of submit, and the queue of launches in flight
	sums    [isa.NumClasses]uint64
	residue *[isa.NumClasses]uint64
}

var launchJobs = sync.Pool{New: func() any { return new(launchJob) }}

func newLaunchJob(op string, p *Program, d *Device) *launchJob {
	j := launchJobs.Get().(*launchJob)
	j.op, j.program, j.device = op, p, d
	j.users.Store(1)
	j.l.Cancel = &j.stop
	return j
}

// release lets go of everything and gives the job back to the pool, when its
// last user says so.
func (j *launchJob) release() {
	if j.users.Add(-1) > 0 {
		return
	}
	for i, m := range j.pins {
		m.end()
		j.pins[i] = nil
	}
	if j.kernel != nil {
		j.kernel.release()
	}
	j.pins, j.roles, j.l.Slots, j.l.Params = j.pins[:0], j.roles[:0], j.l.Slots[:0], j.l.Params[:0]
	j.kernel, j.program, j.device, j.residue = nil, nil, nil, nil
	j.l.Residue, j.l.Phase, j.l.Workspace, j.l.Fuel = nil, nil, 0, 0
	j.stop.Store(false)
	launchJobs.Put(j)
}

// what names the launch in errors.
func (j *launchJob) what() string {
	if j.op != "" {
		return j.op
	}
	return "launch " + quote(j.program.Source().Name)
}

// slot names a slot in errors.
func (j *launchJob) slot(i int) string {
	if j.op != "" {
		return j.op + ": " + j.roles[i].name
	}
	return j.what() + ": slot " + j.roles[i].name
}

// bind adds a view of memory that the caller has pinned for the job.
func (j *launchJob) bind(v *backends.View, name string, readOnly bool) {
	j.l.Slots = append(j.l.Slots, *v)
	j.roles = append(j.roles, role{name, readOnly})
}

// bindBuffer pins a buffer and binds its view to the next slot.
func (j *launchJob) bindBuffer(b *Buffer, name string) error {
	if err := b.use(name); err != nil {
		return within(j.what(), err)
	}
	j.pins = append(j.pins, b.mem)
	if b.mem.device != j.device {
		return Errorf(Invalid, "%s: %s: the buffer is on %s, the executor on %s", j.what(), name, b.mem.device.Name, j.device.Name)
	}
	j.bind(&b.view, name, b.readOnly)
	return nil
}

// Launch runs a program. Exactly one of the event and the outcome is given: an
// event if the launch takes long; on an asynchronous device none, and errors
// come with the next call that waits.
func (ex *Executor) Launch(p *Program, a *LaunchArgs) (*Event, error) {
	j := newLaunchJob("", p, ex.device)
	if err := j.prepareArgs(ex, a); err != nil {
		j.release()
		return nil, err
	}
	var long bool
	if !ex.device.async {
		long = p.cost.of(j.l.N, j.l.Params, 0) > ex.device.patience()
	} else if j.residue != nil {
		long = true // to wait for the sums
	}
	return ex.stream.submit(j, long)
}

// patience is how many instructions a launch may run on the caller's thread:
// a few milliseconds' worth.
func (d *Device) patience() float64 {
	if d.Info.RunsSource {
		return 1 << 17
	}
	return 1 << 22
}

func (j *launchJob) prepareArgs(ex *Executor, a *LaunchArgs) error {
	src := j.program.Source()
	if len(a.Slots) != len(src.Slots) {
		return Errorf(Invalid, "%s: %d slots given; the program has %d: %s", j.what(), len(a.Slots), len(src.Slots), slotNames(src))
	}
	if len(a.Params) != len(src.Params) {
		return Errorf(Invalid, "%s: %d parameters given; the program has %d", j.what(), len(a.Params), len(src.Params))
	}
	for i, s := range src.Slots {
		b := a.Slots[i]
		if b == nil && i == j.program.boundary {
			pool, err := ex.boundaryPool()
			if err != nil {
				return within(j.what(), err)
			}
			j.pins = append(j.pins, pool)
			v := backends.View{Addr: pool.addr, Type: isa.U8, Rank: 1, Bytes: isa.BoundaryBytes}
			v.Shape[0], v.Stride[0] = isa.BoundaryBytes, 1
			j.bind(&v, s.Name, false)
			continue
		}
		if b == nil {
			return Errorf(Invalid, "%s: slot %s (%v) is not bound", j.what(), s.Name, s.Type)
		}
		if err := j.bindBuffer(b, "slot "+s.Name); err != nil {
			return err
		}
		j.roles[i].name = s.Name
		if err := j.checkType(i, s.Type); err != nil {
			return err
		}
		if i == j.program.boundary && b.view.Bytes != isa.BoundaryBytes {
			return Errorf(Invalid, "%s has %d bytes; a boundary pool has %d", j.slot(i), b.view.Bytes, isa.BoundaryBytes)
		}
	}
	for i, s := range src.Params {
		if a.Params[i].Type == isa.NoType {
			return Errorf(Invalid, "%s: parameter %s (%v) is not given", j.what(), s.Name, s.Type)
		}
		cell, err := a.Params[i].Cell(s.Type)
		if err != nil {
			return within(j.what()+": parameter "+s.Name, err)
		}
		j.l.Params = append(j.l.Params, cell)
	}
	j.l.Fuel = a.Fuel
	j.residue = a.Residue
	return j.prepare(ex, a.Shape, a.Grid, a.Block)
}

// checkType demands that slot i is bound to its own type. Raw memory, which is
// a u8 slot accessed by bytes alone, may be bound to any.
func (j *launchJob) checkType(i int, want isa.Type) error {
	got := j.l.Slots[i].Type
	if got == want {
		return nil
	}
	use := &j.program.verified.Slots[i]
	if want == isa.U8 && !use.Indexed {
		v := &j.l.Slots[i]
		v.Type = isa.U8
		if v.Bytes > 0 { // else it is strided, which is refused later, or empty
			v.Rank, v.Shape, v.Stride = 1, [isa.MaxRank]int64{v.Bytes}, [isa.MaxRank]int64{1}
		}
		return nil
	}
	return Errorf(BadType, "%s: dtype is %v; expected %v", j.slot(i), got, want)
}

// prepare checks everything else and completes the launch: kernel, index space,
// grid, workspace. Slots and parameters are bound.
func (j *launchJob) prepare(ex *Executor, shape []int64, grid, block [3]uint32) error {
	for i := range j.l.Slots {
		use := &j.program.verified.Slots[i]
		if use.Writes && j.roles[i].readOnly {
			return Errorf(Invalid, "%s is written, and the array bound to it is read-only", j.slot(i))
		}
		if use.Bytes && !isContiguous(&j.l.Slots[i]) {
			return Errorf(Invalid, "%s is addressed by bytes, which demands a contiguous array; it has shape %s and strides %s",
				j.slot(i), shapeText(j.l.Slots[i].Shape[:j.l.Slots[i].Rank]), shapeText(j.l.Slots[i].Stride[:j.l.Slots[i].Rank]))
		}
	}
	if err := j.checkOverlap(); err != nil {
		return err
	}
	if err := j.chooseBlock(block); err != nil {
		return err
	}
	if err := j.chooseSpace(shape, grid); err != nil {
		return err
	}
	k, err := j.program.kernelOn(j.device)
	if err != nil {
		return err
	}
	j.kernel = k
	if need := k.Workspace(j.l.N); need > 0 {
		m, err := ex.memory(need, false)
		if err != nil {
			return within(j.what()+": workspace", err)
		}
		j.pins = append(j.pins, m)
		j.l.Workspace = m.addr
	}
	if j.program.residue {
		j.sums = [isa.NumClasses]uint64{}
		j.l.Residue = &j.sums
	} else {
		j.residue = nil
	}
	if j.program.phase {
		j.l.Phase = &ex.stream.phase
	}
	return nil
}

// checkOverlap refuses written slots that share memory with another slot, but
// for the identical view of a slot that is only read, by index alone.
func (j *launchJob) checkOverlap() error {
	uses := j.program.verified.Slots
	views := j.l.Slots
	for w := range views {
		if !uses[w].Writes {
			continue
		}
		if uses[w].Indexed && selfOverlaps(&views[w]) {
			return Errorf(Invalid, "%s is written, and elements of the array bound to it share memory", j.slot(w))
		}
		for o := range views {
			if o == w || uses[o].Writes && o < w || !uses[o].Reads && !uses[o].Writes || !overlap(&views[w], &views[o]) {
				continue
			}
			if !uses[o].Writes && !uses[w].Bytes && !uses[o].Bytes && sameView(&views[w], &views[o]) && !storesFirst(&uses[o], w) {
				continue
			}
			why := "only the identical array may be both, and only where both are accessed by [index]"
			switch {
			case uses[o].Writes:
				why = "two outputs must not share memory"
			case storesFirst(&uses[o], w):
				why = "the program may load " + j.roles[o].name + " again after it stored to " + j.roles[w].name
			}
			return Errorf(Invalid, "%s overlaps %s in memory: %s", j.slot(w), j.roles[o].name, why)
		}
	}
	return nil
}

func storesFirst(use *isa.SlotUse, w int) bool {
	for _, s := range use.LoadsAfterStoreTo {
		if s == w {
			return true
		}
	}
	return false
}

// chooseBlock settles the shape of a block.
func (j *launchJob) chooseBlock(block [3]uint32) error {
	demanded := j.program.Source().Block
	if block == [3]uint32{} {
		block = demanded
	}
	if block == [3]uint32{} {
		block = [3]uint32{256, 1, 1}
	}
	if demanded != ([3]uint32{}) && block != demanded {
		return Errorf(Invalid, "%s: block %s; the program demands %s", j.what(), gridText(block), gridText(demanded))
	}
	lanes := uint64(1)
	for _, d := range block {
		if lanes *= uint64(d); lanes > isa.MaxBlockLanes || d == 0 {
			return Errorf(Invalid, "%s: block %s; expected 1 … %d lanes", j.what(), gridText(block), isa.MaxBlockLanes)
		}
	}
	j.l.Block = block
	return nil
}

func gridText(g [3]uint32) string {
	return "(" + itoa(int(g[0])) + ", " + itoa(int(g[1])) + ", " + itoa(int(g[2])) + ")"
}

// chooseSpace settles index space and grid, and broadcasts the views to it.
func (j *launchJob) chooseSpace(shape []int64, grid [3]uint32) error {
	block := uint64(j.l.Block[0]) * uint64(j.l.Block[1]) * uint64(j.l.Block[2])
	lanes := uint64(0) // of the grid; 0: not given
	if grid != [3]uint32{} {
		lanes = block
		for _, d := range grid {
			if d == 0 || lanes > 1<<62/uint64(d) {
				return Errorf(Invalid, "%s: grid %s; expected 1 … 2^62 lanes in all", j.what(), gridText(grid))
			}
			lanes *= uint64(d)
		}
	}
	if err := j.indexSpace(shape, lanes); err != nil {
		return err
	}
	switch {
	case lanes == 0:
		blocks := (j.l.N + block - 1) / block
		if blocks > 1<<32-1 {
			return Errorf(Invalid, "%s: %d elements need %d blocks of %d lanes; at most 2^32 − 1", j.what(), j.l.N, blocks, block)
		}
		j.l.Grid = [3]uint32{uint32(max(1, blocks)), 1, 1}
	case j.l.N > lanes:
		return Errorf(Invalid, "%s: grid %s of blocks %s has %d lanes, fewer than the %d elements of the index space",
			j.what(), gridText(grid), gridText(j.l.Block), lanes, j.l.N)
	default:
		j.l.Grid = grid
	}
	return nil
}

// indexSpace sets the launch's shape and brings every view to it.
func (j *launchJob) indexSpace(shape []int64, lanes uint64) error {
	uses := j.program.verified.Slots
	var space [isa.MaxRank]int64
	rank := len(shape)
	for _, d := range shape {
		if d < 0 {
			return Errorf(Invalid, "%s: index space %s has a negative dimension", j.what(), shapeText(shape))
		}
	}
	if rank > isa.MaxRank {
		return Errorf(Invalid, "%s: index space %s has more than %d dimensions", j.what(), shapeText(shape), isa.MaxRank)
	}
	copy(space[:], shape)
	switch {
	case rank == 1:
		rank = j.flatten(&space)
	case shape == nil:
		rank = 0
		indexed := false
		for i := range j.l.Slots {
			if !uses[i].Indexed {
				continue
			}
			indexed = true
			v := &j.l.Slots[i]
			if rank = mergeShapes(&space, rank, v.Shape[:v.Rank]); rank < 0 {
				return Errorf(Invalid, "%s: shape %s does not broadcast with the slots before it; give n or shape",
					j.slot(i), shapeText(v.Shape[:v.Rank]))
			}
		}
		if !indexed {
			if lanes == 0 {
				return Errorf(Invalid, "%s: give n, shape or grid: no slot is accessed by [index], so nothing says how many lanes there are", j.what())
			}
			space[0], rank = int64(lanes), 1
		}
	}
	n, ok := elements(space[:rank], 1<<62)
	if !ok {
		return Errorf(Invalid, "%s: index space %s has more than 2^62 elements", j.what(), shapeText(space[:rank]))
	}
	for i := range j.l.Slots {
		if err := j.toSpace(i, space[:rank], n); err != nil {
			return err
		}
	}
	if rank != 1 {
		rank = collapse(j.l.Slots, &space, rank)
	}
	j.l.Rank, j.l.Shape, j.l.N = rank, space, uint64(n)
	return nil
}

// flatten lets the number n count the elements of strided slots too: if one of
// them has just n elements, its shape is the index space.
func (j *launchJob) flatten(space *[isa.MaxRank]int64) int {
	for i := range j.l.Slots {
		v := &j.l.Slots[i]
		if j.program.verified.Slots[i].Indexed && v.Rank > 1 && !isContiguous(v) && numel(v) == space[0] {
			copy(space[:], v.Shape[:v.Rank])
			return v.Rank
		}
	}
	return 1
}

// toSpace brings slot i's view to the index space.
func (j *launchJob) toSpace(i int, space []int64, n int64) error {
	v := &j.l.Slots[i]
	use := &j.program.verified.Slots[i]
	if !use.Indexed {
		// Only bytes are addressed: the elements' place plays no part.
		v.Rank = len(space)
		v.Shape, v.Stride = [isa.MaxRank]int64{}, [isa.MaxRank]int64{}
		copy(v.Shape[:], space)
		return nil
	}
	bytes := v.Bytes
	if len(space) == 1 && v.Rank == 1 && v.Shape[0] >= n && (v.Shape[0] != 1 || n == 1) {
		v.Shape[0] = n // the first n elements
	} else if len(space) == 1 && v.Rank > 1 && isContiguous(v) && numel(v) >= n {
		stride := v.Stride[v.Rank-1]
		if v.Shape[v.Rank-1] == 1 {
			stride = 1
		}
		v.Rank = 1
		v.Shape, v.Stride = [isa.MaxRank]int64{n}, [isa.MaxRank]int64{stride}
	} else if !broadcastTo(v, space) {
		if !isContiguous(v) || numel(v) != n {
			return j.misfit(i, space, n)
		}
		v.Rank = len(space)
		copy(v.Shape[:], space)
		packed(v)
	}
	if use.Writes {
		for k, d := range space {
			if d > 1 && v.Stride[k] == 0 {
				return Errorf(Invalid, "%s is written, so it is not broadcast: it must have the index space's shape %s",
					j.slot(i), shapeText(space))
			}
		}
	}
	v.Bytes = bytes
	if !use.Bytes {
		v.Bytes = 0
		if isContiguous(v) {
			v.Bytes = n * int64(v.Type.Size())
		}
	}
	return nil
}

func (j *launchJob) misfit(i int, space []int64, n int64) error {
	v := &j.l.Slots[i]
	if len(space) == 1 && v.Rank == 1 {
		return Errorf(Invalid, "%s has %d elements, fewer than n = %d", j.slot(i), v.Shape[0], n)
	}
	verb := "broadcast to"
	if j.program.verified.Slots[i].Writes {
		verb = "fit"
	}
	return Errorf(Invalid, "%s: shape %s does not %s the index space %s", j.slot(i), shapeText(v.Shape[:v.Rank]), verb, shapeText(space))
}

// run queues the launch, or runs it to its end.
func (j *launchJob) run(s *stream) error {
	if j.l.N == 0 {
		j.collect()
		return nil
	}
	if s.device.async {
		if s.inFlight() >= maxInflight && !s.reap(maxInflight/2, j.stop.Load) {
			return errCancelledWaiting
		}
		for _, m := range j.pins {
			if err := s.after(m, j.stop.Load); err != nil {
				return err
			}
		}
	}
	ev, err := s.s.Launch(j.kernel.Kernel, &j.l)
	if ev == nil {
		j.collect()
		if err != nil {
			return j.outcome(err)
		}
		return nil
	}
	j.users.Add(1)
	wait := j.residue != nil
	s.enqueued(ev, j)
	if wait {
		s.reap(0, nil) // its end comes soon once it is cancelled
		return s.takeDeferred()
	}
	return nil
}

// blocks reports whether run would have to wait: for the work of another stream
// on the launch's memory, or for a place in the device's queue.
func (j *launchJob) blocks(s *stream) bool {
	if s.inFlight() >= maxInflight {
		return true
	}
	for _, m := range j.pins {
		if s.foreign(m) {
			return true
		}
	}
	return false
}

// collect gives the caller what RES_ACCUM added up, when the launch is over.
func (j *launchJob) collect() {
	if j.residue != nil {
		*j.residue = j.sums
	}
}

func (j *launchJob) outcome(err error) error {
	return j.program.finish(j.what(), err, j.device)
}

func (j *launchJob) cancel() { j.stop.Store(true) }

func (j *launchJob) done() { j.release() }

func slotNames(p *isa.Program) string {
	names := make([]string, len(p.Slots))
	for i, s := range p.Slots {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

func quote(s string) string { return strconv.Quote(s) }

func itoa(i int) string { return strconv.Itoa(i) }

func trimmed(s string) string { return strings.TrimSpace(s) }
