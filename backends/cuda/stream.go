package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// stream is a queue of the driver's. The driver writes the tickets that have
// passed to words of host memory: one is told by who queues, and by who asks outside
// of turns; one by C's calls alone, so that neither goes back.
//
// It does so where somebody asks for one (want), and every writeEvery works:
// such a write takes a microsecond of the host's and one of the device's, and
// most tickets nobody asks for. On a stream that others may end it does so after
// each work.
type stream struct {
	device *device
	handle driver.Stream
	owned  bool // made here, not wrapped
	stays  bool // nobody else ends it: owned, or a default stream
	notes  *notes

	told   atomic.Uint64 // the last that the driver was told to write
	wanted atomic.Uint64 // the last that was asked for

	timing atomic.Pointer[timing] // of the next work; nil: nobody asks
	clock  clock

	mu      sync.Mutex // of queueing
	closed  bool
	pushed  bool               // a call is under way that has pushed the context
	graph   *graph             // being captured
	capture atomic.Bool        // graph is not nil
	joined  bool               // what comes is recorded in the graph of the stream's owner
	timed   *timing            // of the work at hand
	sub     *driver.Submission // the launch at hand
	form    form               // and its kernel's
	depends bool               // and whether the launch is dependent
	singles [singles]single    // for launches that are repeated
	refused bool               // the driver made no such graph
	block   []byte             // and its launch block
	packed  []byte             // that of a launch of the batch at hand
	left    []int              // of a batch, those launches that are not queued yet
	env     ptx.Environment    // what that begins with
	space   ptx.Space          // and its index space
	grids   []grid             // and its parts
	params  [2]unsafe.Pointer
	folds   [2]uint64
	current driver.Context // for calls that need a place for one
	status  int32          // likewise
}

const writeEvery = 16

// notes is memory beside a launch's slots, of a stream or of a graph.
type notes struct {
	device *device
	memory backends.Memory
	host   *hostNotes
	shared driver.Pointer // deviceNotes
	told   uint64         // of those of a closed stream: the last ticket that the device was given to write
}

// hostNotes is notes in the host's memory.
type hostNotes struct {
	tickets driver.Tickets
	record  backends.Record // of launches that brought none
	phase   uint32
}

// Notes in the device's memory: the lock, the phase that a launch's lanes start
// with, and its residues, which are 0 between launches.
const (
	lockAt      = 0
	phaseAt     = 8
	residueAt   = 16
	deviceNotes = residueAt + 8*isa.NumClasses
)

func (d *device) newNotes() (*notes, error) {
	m, err := d.AllocHost(int64(unsafe.Sizeof(hostNotes{})))
	if err != nil {
		return nil, err
	}
	n := &notes{device: d, memory: m, host: (*hostNotes)(hostmem.Pointer(m.Addr))}
	m, err = d.Alloc(deviceNotes)
	if err != nil {
		return nil, errors.Join(err, n.free())
	}
	n.shared = driver.Pointer(m.Addr)
	return n, nil
}

// streamNotes are those of a stream that is closed, or new ones. The tickets of
// the stream that gets them go on where those of the last ended: others, whose
// waits for that the device has still to come to, read the word that it is told by. Notes whose
// word the device has still to write, when C's calls had told that all passed, are left: a later
// ticket would become an earlier one.
func (d *device) streamNotes() (*notes, error) {
	d.mu.Lock()
	for i, n := range slices.Backward(d.spare) {
		if atomic.LoadUint64(&n.host.tickets.Passed) >= n.told {
			d.spare = slices.Delete(d.spare, i, i+1)
			d.mu.Unlock()
			n.host.record, n.host.phase = backends.Record{}, 0
			return n, nil
		}
	}
	d.mu.Unlock()
	return d.newNotes()
}

// begins is said of a stream that is open from now on; it counts tickets on from
// where the notes say.
func (s *stream) begins(n *notes) {
	s.device.mu.Lock()
	s.device.streams[s] = struct{}{}
	s.device.mu.Unlock()
	s.notes = n
	n.host.tickets.Begin()
	s.told.Store(s.last())
}

// last is the last ticket given, by C's calls too: see driver.Entry. Who has the
// stream's turn gives the next.
func (s *stream) last() uint64 { return atomic.LoadUint64(&s.notes.host.tickets.Last) }

func (s *stream) gave(t uint64) { atomic.StoreUint64(&s.notes.host.tickets.Last, t) }

// Given is backends.Shared's.
func (s *stream) Given() backends.Ticket { return backends.Ticket(s.last()) }

func (n *notes) free() error {
	var err error
	if n.shared != 0 {
		err = n.device.Free(backends.Memory{Addr: uintptr(n.shared)})
	}
	return errors.Join(err, n.device.FreeHost(n.memory))
}

func (d *device) NewStream() (backends.Stream, error) {
	s := &stream{device: d, owned: true, stays: true, sub: d.api.NewSubmission()}
	err := d.do(call{"cuStreamCreate", func() driver.Result { return d.api.StreamCreate(&s.handle, driver.StreamNonBlocking) }})
	var n *notes
	if err == nil {
		n, err = d.streamNotes()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: new stream: %w", d.classified(err)), s.free())
	}
	s.begins(n)
	return s, nil
}

// WrapStream makes a stream of a CUstream that others own, numbered as DLPack
// does: 1 is the legacy default stream, others are CUstreams as they are. 0,
// which may mean two streams, and 2, the default stream of whichever thread
// calls, are refused.
func (d *device) WrapStream(native uintptr) (backends.Stream, error) {
	switch native {
	case 0:
		return nil, errors.New("cuda: wrap stream 0: it is not said which default stream is meant; the legacy one is 1")
	case 2:
		return nil, errors.New("cuda: wrap stream 2: each thread has another per-thread default stream; give a stream that is not a thread's")
	case ^uintptr(0):
		return nil, errors.New("cuda: wrap stream -1: that means no stream")
	}
	s := &stream{device: d, handle: driver.Stream(native), stays: native == driver.StreamLegacy, sub: d.api.NewSubmission()}
	n, err := d.streamNotes()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: wrap stream %#x: %w", native, d.classified(err)), s.free())
	}
	s.begins(n)
	return s, nil
}

// free gives back what the stream has of the driver's.
func (s *stream) free() error {
	err := s.freeSingles(func(*single) bool { return true })
	s.device.api.FreeSubmission(s.sub)
	s.sub = nil
	s.clock.stop(s.device)
	if s.notes != nil {
		s.device.mu.Lock()
		delete(s.device.streams, s)
		s.notes.told = s.told.Load()
		s.device.spare = append(s.device.spare, s.notes)
		s.device.mu.Unlock()
	}
	if !s.owned || s.handle == 0 {
		return err
	}
	return errors.Join(err, s.device.do(call{"cuStreamDestroy", func() driver.Result { return s.device.api.StreamDestroy(s.handle) }}))
}

// passedAt is the address of the word with the last ticket that has passed.
func (s *stream) passedAt() driver.Pointer {
	return driver.Pointer(s.notes.memory.Addr + unsafe.Offsetof(hostNotes{}.tickets) + unsafe.Offsetof(driver.Tickets{}.Passed))
}

// begin starts calls that queue one work, in the device's context; end must
// follow unless it fails.
func (s *stream) begin(what string) error {
	s.mu.Lock()
	return s.open(what)
}

// open is begin with the lock, which it gives back if it fails.
func (s *stream) open(what string) error {
	err := s.usable()
	if err == nil {
		if s.pushed, err = s.device.enter(&s.current); err == nil {
			if err = s.foreign(what); err == nil {
				return nil
			}
			err = errors.Join(err, s.device.leave(s.pushed, &s.current))
		}
	}
	s.mu.Unlock()
	return fmt.Errorf("cuda: %s: %w", what, s.device.classified(err))
}

func (s *stream) usable() error {
	if s.closed {
		return errors.New("the stream is closed")
	}
	return nil
}

// foreign refuses a stream that others capture: its owner, or who has the number of ours.
func (s *stream) foreign(what string) error {
	if s.graph != nil || s.joined {
		return nil
	}
	api := s.device.api
	r := api.StreamIsCapturing(s.handle, &s.status)
	if r == driver.CaptureImplicit || r == driver.Success && s.status != 0 {
		return backends.Captured("cuda", what)
	}
	return api.Check("cuStreamIsCapturing", r)
}

// next is the next work's ticket, 0 if it is captured, and whether the driver is
// to write it with the work.
func (s *stream) next() (t uint64, tell bool) {
	if s.graph != nil || s.joined {
		return 0, false
	}
	t = s.last() + 1
	told := s.told.Load()
	return t, !s.stays || s.wanted.Load() > told || t-told >= writeEvery
}

// end gives what was queued a ticket, or 0 if it is captured.
func (s *stream) end(what string, err error) (backends.Ticket, error) {
	t := uint64(0)
	if err == nil {
		var tell bool
		if t, tell = s.next(); t > 0 {
			s.gave(t)
		}
		s.after(backends.Ticket(t))
		if tell {
			err = s.tell()
		}
	}
	if err != nil {
		s.settle()
	}
	if left := s.device.leave(s.pushed, &s.current); left != nil {
		err = errors.Join(err, left)
	}
	s.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("cuda: %s: %w", what, s.device.classified(err))
	}
	return backends.Ticket(t), nil
}

// settle waits for what was queued before something of the same work failed: who is told
// of a failure takes it that nothing of it uses memory.
func (s *stream) settle() {
	if s.graph != nil || s.joined {
		return
	}
	_ = s.device.within(func() error {
		if err := s.foreign("a failure"); err != nil {
			return err
		}
		return s.device.api.Check("cuStreamSynchronize", s.device.api.StreamSync(s.handle))
	})
}

// tell has the driver write the last ticket when all before it is done.
func (s *stream) tell() error {
	api, t := s.device.api, s.last()
	if err := api.Check("cuStreamWriteValue64", api.StreamWriteValue(s.handle, s.passedAt(), t, 0)); err != nil {
		return err
	}
	s.told.Store(t)
	return nil
}

// want sees to it that a ticket will be written. It does not wait for others
// that queue: they see what is wanted, or the next call does. That the driver
// refuses shows where its stream is asked.
func (s *stream) want(t uint64) {
	if s.told.Load() >= t {
		return
	}
	for w := s.wanted.Load(); w < t && !s.wanted.CompareAndSwap(w, t); {
		w = s.wanted.Load()
	}
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.closed || s.told.Load() >= t {
		return
	}
	_ = s.tellNow()
}

// tellNow is tell outside calls that queue, on whatever thread: somebody's capture
// of another stream must not break by it. The caller holds the lock.
func (s *stream) tellNow() error {
	return s.device.within(func() error {
		if s.joined { // it would be told at replays
			return backends.Captured("cuda", "a ticket")
		}
		if err := s.foreign("a ticket"); err != nil {
			return err
		}
		return s.tell()
	})
}

// Copy queues a copy: addresses tell the driver whose memory they are in.
func (s *stream) Copy(dst, src uintptr, bytes int64) (backends.Ticket, error) {
	if bytes < 0 {
		return 0, fmt.Errorf("cuda: copy of %d bytes", bytes)
	}
	if err := s.begin("copy"); err != nil {
		return 0, err
	}
	s.before()
	var err error
	if api := s.device.api; bytes > 0 {
		err = api.Check("cuMemcpyAsync", api.Copy(driver.Pointer(dst), driver.Pointer(src), uint64(bytes), s.handle))
	}
	return s.end("copy", err)
}

// Fill queues a fill.
func (s *stream) Fill(dst uintptr, cell uint64, size int, count int64) (backends.Ticket, error) {
	if count < 0 || size != 1 && size != 2 && size != 4 && size != 8 {
		return 0, fmt.Errorf("cuda: fill of %d elements of %d bytes", count, size)
	}
	if err := s.begin("fill"); err != nil {
		return 0, err
	}
	s.before()
	var err error
	if count > 0 {
		err = s.fill(driver.Pointer(dst), cell, size, uint64(count))
	}
	return s.end("fill", err)
}

func (s *stream) fill(p driver.Pointer, cell uint64, size int, n uint64) error {
	api := s.device.api
	low, high := uint32(cell), uint32(cell>>32)
	switch {
	case size == 1:
		return api.Check("cuMemsetD8Async", api.Set8(p, uint8(cell), n, s.handle))
	case size == 2:
		return api.Check("cuMemsetD16Async", api.Set16(p, uint16(cell), n, s.handle))
	case size == 4:
		return api.Check("cuMemsetD32Async", api.Set32(p, low, n, s.handle))
	case low == high:
		return api.Check("cuMemsetD32Async", api.Set32(p, low, 2*n, s.handle))
	}
	// The low words, then the high ones, as columns of a matrix.
	if err := api.Check("cuMemsetD2D32Async", api.Set32Rows(p, 8, low, 1, n, s.handle)); err != nil {
		return err
	}
	return api.Check("cuMemsetD2D32Async", api.Set32Rows(p+4, 8, high, 1, n, s.handle))
}

// Await makes what is queued from now on wait for another stream's ticket.
func (s *stream) Await(other backends.Stream, t backends.Ticket) error {
	o, ok := other.(*stream)
	if !ok || o.device != s.device {
		return errors.New("cuda: await: the stream is of another device")
	}
	if s.capture.Load() {
		return errCapturing("await")
	}
	if t == 0 || o.passed() >= t {
		return nil
	}
	if err := o.written(uint64(t)); err != nil {
		return fmt.Errorf("cuda: await: %w", s.device.classified(err))
	}
	if err := s.begin("await"); err != nil {
		return err
	}
	api := s.device.api
	err := error(nil)
	if s.joined {
		err = backends.Captured("cuda", "await")
	} else {
		err = api.Check("cuStreamWaitValue64", api.StreamWaitValue(s.handle, o.passedAt(), uint64(t), driver.WaitAtLeast))
	}
	err = errors.Join(err, s.device.leave(s.pushed, &s.current))
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("cuda: await: %w", s.device.classified(err))
	}
	return nil
}

// written has the driver told of a ticket: who waits for it on the device would
// otherwise wait for ever.
func (s *stream) written(t uint64) error {
	if s.told.Load() >= t {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.told.Load() >= t {
		return nil // a closed stream's work has passed
	}
	return s.tellNow()
}

func (s *stream) passed() backends.Ticket {
	t := &s.notes.host.tickets
	return backends.Ticket(max(atomic.LoadUint64(&t.Passed), atomic.LoadUint64(&t.Entered)))
}

// Passed is the last ticket that has passed. On a lost device all have; which were
// written before, Wait still tells from the others.
func (s *stream) Passed() backends.Ticket {
	t, last := s.passed(), s.last()
	if s.device.lost.Load() {
		return backends.Ticket(last)
	}
	if uint64(t) < last && s.told.Load() < last {
		s.want(last)
		t = s.passed()
	}
	return t
}

// How Wait passes the time: it looks again and again for a while, then sleeps in
// between, for a small part of the time that it has waited, and asks the driver for
// failures. A sleep takes some µs longer than it is told, so short waits, in
// which that would show, have none.
const (
	spin     = time.Millisecond
	shortNap = 20 * time.Microsecond
	longNap  = 500 * time.Microsecond
	// With a sixteenth, and sleeps that were 60 µs too long, copies of 5 ms took 4 % longer.
	waitedPart = 128
)

// Wait waits for a ticket.
func (s *stream) Wait(t backends.Ticket, d time.Duration) error {
	if s.capture.Load() {
		return errCapturing("wait")
	}
	if s.passed() >= t {
		return nil
	}
	start := time.Now()
	for {
		s.want(uint64(t))
		if s.passed() >= t {
			return nil
		}
		since := time.Since(start)
		if since > spin || since >= d {
			if err := s.query(); err != nil {
				return err
			}
			if s.passed() >= t {
				return nil
			}
		}
		if since >= d {
			return backends.ErrPending
		}
		if since > spin {
			nap(min(max(since/waitedPart, shortNap), longNap, d-since))
		} else {
			runtime.Gosched()
		}
	}
}

// query asks the driver whether the stream has failed. On a stream that
// captures nobody may ask; and for the time of a capture of whichever stream, by
// torch as it is by default, a thread that asks of any breaks it, unless it has
// said that it knows what it does (within). A stream of others may have been ended
// by them, with its work under way: the driver crashes then if it is asked of it. What
// it tells of the device it tells whichever stream is asked.
func (s *stream) query() error {
	api := s.device.api
	handle := s.handle
	if !s.stays {
		handle = s.device.zero
	}
	result, capturing := driver.Success, new(int32)
	err := s.device.within(func() error {
		if s.stays {
			result = api.StreamIsCapturing(handle, capturing)
		}
		if result == driver.Success && *capturing == 0 {
			result = api.StreamQuery(handle)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cuda: wait: %w", s.device.classified(err))
	}
	switch result {
	case driver.Success, driver.NotReady, driver.CaptureUnsupported, driver.CaptureImplicit:
		return nil
	}
	// Nothing that was queued fails but by losing the device.
	s.device.lost.Store(true)
	return fmt.Errorf("cuda: %w: %w", backends.ErrLost, s.device.api.Check("cuStreamQuery", result))
}

// Close ends the stream. One of others goes on.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("cuda: close: the stream is closed already")
	}
	if s.graph != nil {
		return errCapturing("close")
	}
	s.closed = true
	return s.free()
}
