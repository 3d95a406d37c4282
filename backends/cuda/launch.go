package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
)

// Launch queues k.
func (s *stream) Launch(kn backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	k, ok := kn.(*kernel)
	if !ok || k.device != s.device {
		return 0, errors.New("cuda: launch: the kernel is of another device")
	}
	if err := k.check(l); err != nil {
		return 0, err
	}
	s.mu.Lock()
	panicked, opened := true, false
	defer func() {
		if panicked { // core asks the stream then what it has queued
			if opened {
				_ = s.device.leave(s.pushed, &s.current)
			}
			s.mu.Unlock()
		}
	}()
	err := s.usable()
	if err == nil {
		err = s.pack(k, l)
	}
	whole := err == nil && len(s.grids) == 1 && !k.program.Phase && !k.program.Residue && s.timing.Load() == nil
	t := uint64(0)
	switch {
	case err == nil && whole:
		t, err = s.submit()
	case err == nil:
		if err = s.open("launch"); err != nil { // which gave the lock back
			panicked = false
			return 0, err
		}
		opened = true
		s.before()
		err = s.parts(k)
		panicked = false
		return s.end("launch", err)
	}
	panicked = false
	s.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("cuda: launch: %w", s.device.classified(err))
	}
	return backends.Ticket(t), nil
}

// submit queues the launch at hand, which is one kernel, in one call. It returns
// the ticket.
func (s *stream) submit() (uint64, error) {
	sub := s.sub
	sub.Grid, sub.Word, sub.Others, sub.Exec, sub.Dependent = s.grids[0].size, 0, 0, 0, 0
	live := s.graph == nil && !s.joined
	if live {
		sub.Others = 1
	}
	switch {
	case !live:
	case s.depends:
		sub.Dependent = 1
	case s.form.Meeting == 0 && s.form.Batch == 0:
		sub.Exec, sub.Node = s.repeated()
	}
	t, tell := s.next()
	if tell {
		sub.Word, sub.Value = s.passedAt(), t
	}
	result := s.device.api.Submit(sub)
	switch {
	case sub.Captured != 0:
		return 0, backends.Captured("cuda", "launch")
	case result != driver.Success:
		if live && (sub.Failed == driver.FailedWrite || sub.Failed == driver.FailedPop) {
			s.settle()
		}
		return 0, s.device.api.Check(sub.Failed.String(), result)
	case tell:
		s.told.Store(t)
	}
	if t > 0 {
		s.gave(t)
	}
	return t, nil
}

// Launches that reach so many bytes, and whose lanes take so many steps, take the device longer
// than to queue them takes the host. They are dependent: their blocks may start while those of
// what is before them end, which on an H200 saves 1.2 µs of each. What is shorter goes by a
// graph, which saves the host's time.
const (
	dependentBytes = 32 << 20
	dependentSteps = 1 << 22
)

// dependent reports whether a launch is dependent.
func (k *kernel) dependent(f form, l *backends.Launch) bool {
	if !f.Waits {
		return false
	}
	if read, written := k.reaches(l); read+written < k.device.dependent {
		return false
	}
	steps, bounded := k.cost.Of(l.N, l.Params)
	return !bounded || k.device.dependent == 0 || steps >= dependentSteps
}

// Launches of lanes that do several elements, or of blocks' collectives, that reach so many times the bytes of dependent
// ones, a share of them read and a share written, read what lasts in the L2 cache: by
// which on an H200 softmax and layer_norm of 32768×4096 f32 take 3 to 4 % less time, maps 1 %.
// Blocks that meet gain nothing: they wait for each other more than for memory. And what is
// less than a few times that cache would rather find itself there again.
const (
	lastingTimes = 8
	lastingShare = 8
)

// lasts reports whether what a launch reads lasts.
func (k *kernel) lasts(l *backends.Launch) bool {
	read, written := k.reaches(l)
	all := read + written
	return all/lastingTimes >= k.device.dependent && read >= all/lastingShare && written >= all/lastingShare
}

// reaches is how many bytes a launch may read and write, those of an operand that is both being
// counted twice.
func (k *kernel) reaches(l *backends.Launch) (read, written int64) {
	for i := range l.Slots {
		if k.slots[i].Reads {
			read += l.Slots[i].Bytes
		}
		if k.slots[i].Writes {
			written += l.Slots[i].Bytes
		}
	}
	return read, written
}

// tailShare is which part of the cache holds what lasts: of 50 MB nothing was seen to stay
// behind blocks that took back 16 MB.
const tailShare = 3

// tail is the first of a launch's blocks that take back what makes reads last: together they
// read as much of it as the cache holds.
func (s *stream) tail(k *kernel, l *backends.Launch) uint32 {
	if len(s.grids) != 1 || s.grids[0].size[1]*s.grids[0].size[2] != 1 {
		return math.MaxUint32 // shares aren't in the order of these blocks
	}
	read, _ := k.reaches(l)
	blocks := int64(s.grids[0].size[0])
	share := max(1, read/blocks)
	return uint32(max(0, blocks-1-int64(k.device.cacheBytes)/tailShare/share))
}

// pack makes a launch ready to be queued: its variant, launch block and grids.
func (s *stream) pack(k *kernel, l *backends.Launch) error {
	k.program.Layout.Fuse(l, &s.space)
	f := k.form(l, &s.space)
	if f.Batch > 0 {
		return errors.New("launch: it is one of a batch, and comes alone")
	}
	v, err := k.variant(f)
	if err != nil {
		return err
	}
	lanes, shared := s.deal(k, l, f)
	if len(s.grids) > mostGrids {
		return fmt.Errorf("launch: grid %v is more than %d launches of %d × %d blocks; let lanes do more each", l.Grid, mostGrids, maxGridY, maxGridY)
	}
	if err := k.allowShared(v, int(shared)); err != nil {
		return err
	}
	s.surround(l)
	if f.Lasts {
		s.env.Tail = s.tail(k, l)
	}
	s.block = s.device.api.Parameter(s.sub, k.program.Layout.Bytes)
	k.program.Layout.Pack(s.block, l, &s.space, &s.env)
	s.sub.Context, s.sub.Stream, s.sub.Func = s.device.context, s.handle, v.fn
	s.sub.Block, s.sub.Shared, s.form, s.depends = [3]uint32{lanes, 1, 1}, shared, f, k.dependent(f, l)
	return nil
}

// surround sets what a launch needs beside its slots.
func (s *stream) surround(l *backends.Launch) {
	n := s.notes
	if s.graph != nil {
		n = s.graph.notes
	}
	record, phase := l.Record, l.Phase
	if record == nil {
		record = &n.host.record
	}
	if phase == nil {
		phase = &n.host.phase
	}
	s.env = ptx.Environment{
		Record: uint64(uintptr(unsafe.Pointer(record))), Lock: uint64(n.shared) + lockAt, Residue: uint64(n.shared) + residueAt,
		PhaseIn: uint64(n.shared) + phaseAt, PhaseOut: uint64(uintptr(unsafe.Pointer(phase))),
	}
}

// deal deals a launch's work out to blocks. It returns how many lanes a block has,
// and how much shared memory.
func (s *stream) deal(k *kernel, l *backends.Launch, f form) (lanes, shared uint32) {
	if f.product.Is() {
		g := f.product.Geometry(l)
		s.grids = append(s.grids[:0], grid{size: g.Grid})
		return uint32(f.product.Threads()), uint32(g.Shared)
	}
	lanes = uint32(lanesOf(l.Block))
	if k.program.AnyBlock {
		lanes = ownLanes
	}
	elements := lanes // of a block
	if f.Vector > 0 {
		lanes, elements = ptx.VectorLanes, uint32(f.Elements())
	}
	s.grids = grids(s.grids[:0], l, k.program.AnyBlock, elements)
	shared = uint32(k.program.SharedBytes(int(lanes)))
	if told := f.ToldBytes(); told > 0 {
		shared = (shared+15)&^15 + uint32(told)
	}
	return lanes, shared
}

// parts queues the launch at hand, between begin and end: the parts of its grid,
// and what belongs to its phase and residues.
func (s *stream) parts(k *kernel) error {
	api, sub := s.device.api, s.sub
	if s.joined && (k.program.Phase || k.program.Residue) {
		return &backends.Unsupported{Backend: "cuda", What: "a program with phase or residues in a graph of others", Why: "the stream has them"}
	}
	if k.program.Phase { // the first lane to end writes where others would still read
		err := api.Check("cuMemcpyAsync", api.Copy(driver.Pointer(s.env.PhaseIn), driver.Pointer(s.env.PhaseOut), 4, s.handle))
		if err != nil {
			return err
		}
	}
	for i := range s.grids {
		g := &s.grids[i]
		if i > 0 {
			ptx.SetOrigin(s.block, g.origin)
		}
		result := api.Launch(sub.Func, g.size[0], g.size[1], g.size[2], sub.Block[0], 1, 1, sub.Shared, s.handle, sub.Params(), nil)
		if err := api.Check("cuLaunchKernel", result); err != nil {
			return err
		}
	}
	if k.program.Residue {
		s.folds = [2]uint64{s.env.Residue, s.env.Record}
		s.params = [2]unsafe.Pointer{unsafe.Pointer(&s.folds[0]), unsafe.Pointer(&s.folds[1])}
		result := api.Launch(s.device.fold.fn, 1, 1, 1, isa.NumClasses, 1, 1, 0, s.handle, &s.params[0], nil)
		return api.Check("cuLaunchKernel", result)
	}
	return nil
}
