package cuda

import (
	"errors"
	"fmt"
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

// stream is a queue of the driver's. After each work the driver writes its
// ticket to a word of host memory.
type stream struct {
	device *device
	handle driver.Stream
	owned  bool            // made here, not wrapped
	notes  backends.Memory // hostNotes
	host   *hostNotes
	shared driver.Pointer // deviceNotes

	mu     sync.Mutex // of queueing
	closed bool
	last   uint64 // ticket given
	block  []byte // the launch block at hand
	params *[2]unsafe.Pointer
	folds  *[2]uint64
}

// hostNotes is a stream's memory on the host.
type hostNotes struct {
	passed uint64          // the last ticket that has passed
	record backends.Record // of launches that brought none
	phase  uint32
}

// A stream's memory on the device: the lock, the phase that a launch's lanes
// start with, and its residues, which are 0 between launches.
const (
	lockAt      = 0
	phaseAt     = 8
	residueAt   = 16
	deviceNotes = residueAt + 8*isa.NumClasses
)

func (d *device) NewStream() (backends.Stream, error) {
	s := &stream{device: d, owned: true}
	err := d.do(call{"cuStreamCreate", func() driver.Result { return d.api.StreamCreate(&s.handle, driver.StreamNonBlocking) }})
	if err == nil {
		err = s.init()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: new stream: %w", classified(err)), s.free())
	}
	return s, nil
}

// WrapStream makes a stream of a CUstream that others own.
func (d *device) WrapStream(native uintptr) (backends.Stream, error) {
	s := &stream{device: d, handle: driver.Stream(native)}
	if err := s.init(); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: wrap stream %#x: %w", native, classified(err)), s.free())
	}
	return s, nil
}

// init gives the stream its memory. The host waits: what is queued on it by
// others does not matter.
func (s *stream) init() error {
	s.params, s.folds = new([2]unsafe.Pointer), new([2]uint64)
	var err error
	if s.notes, err = s.device.AllocHost(int64(unsafe.Sizeof(hostNotes{}))); err != nil {
		return err
	}
	s.host = (*hostNotes)(hostmem.Pointer(s.notes.Addr))
	m, err := s.device.Alloc(deviceNotes)
	s.shared = driver.Pointer(m.Addr)
	return err
}

// free gives back what the stream has of the driver's.
func (s *stream) free() error {
	var errs []error
	if s.shared != 0 {
		errs = append(errs, s.device.Free(backends.Memory{Addr: uintptr(s.shared)}))
	}
	if s.host != nil {
		errs = append(errs, s.device.FreeHost(s.notes))
	}
	if s.owned && s.handle != 0 {
		errs = append(errs, s.device.do(call{"cuStreamDestroy", func() driver.Result { return s.device.api.StreamDestroy(s.handle) }}))
	}
	return errors.Join(errs...)
}

// passedAt is the address of the word with the last ticket that has passed.
func (s *stream) passedAt() driver.Pointer {
	return driver.Pointer(s.notes.Addr + unsafe.Offsetof(hostNotes{}.passed))
}

// enqueue makes calls that queue one work, in the device's context, and gives
// it a ticket.
func (s *stream) enqueue(what string, queue func() error) (backends.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, fmt.Errorf("cuda: %s: the stream is closed", what)
	}
	api := s.device.api
	err := s.device.within(func() error {
		if !s.owned {
			var capturing int32
			if err := api.Check("cuStreamIsCapturing", api.StreamIsCapturing(s.handle, &capturing)); err != nil {
				return err
			}
			if capturing != 0 {
				return &backends.Unsupported{Backend: "cuda", What: what + " on a stream of others", Why: "its owner is capturing it"}
			}
		}
		if err := queue(); err != nil {
			return err
		}
		s.last++
		return api.Check("cuStreamWriteValue64", api.StreamWriteValue(s.handle, s.passedAt(), s.last, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("cuda: %s: %w", what, classified(err))
	}
	return backends.Ticket(s.last), nil
}

// Launch queues k.
func (s *stream) Launch(kn backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	k, ok := kn.(*kernel)
	if !ok || k.device != s.device {
		return 0, errors.New("cuda: launch: the kernel is of another device")
	}
	if err := k.check(l); err != nil {
		return 0, err
	}
	space := k.program.Layout.Fuse(l)
	v, err := k.variant(k.options(l, &space))
	if err != nil {
		return 0, err
	}
	lanes := uint32(lanesOf(l.Block))
	if k.program.AnyBlock {
		lanes = ownLanes
	}
	shared := k.program.SharedBytes(int(lanes))
	if err := k.allowShared(v, shared); err != nil {
		return 0, err
	}
	return s.enqueue("launch", func() error { return s.launch(k, v, l, &space, lanes, uint32(shared)) })
}

func (s *stream) launch(k *kernel, v *variant, l *backends.Launch, space *ptx.Space, lanes, shared uint32) error {
	api := s.device.api
	record, phase := l.Record, l.Phase
	if record == nil {
		record = &s.host.record
	}
	if phase == nil {
		phase = &s.host.phase
	}
	env := ptx.Environment{
		Record: uint64(uintptr(unsafe.Pointer(record))), Lock: uint64(s.shared) + lockAt, Residue: uint64(s.shared) + residueAt,
		PhaseIn: uint64(s.shared) + phaseAt, PhaseOut: uint64(uintptr(unsafe.Pointer(phase))),
	}
	if n := k.program.Layout.Bytes; len(s.block) < n {
		s.block = make([]byte, n)
	}
	k.program.Layout.Pack(s.block, l, space, &env)
	if k.program.Phase { // the first lane to end writes where others would still read
		if err := api.Check("cuMemcpyAsync", api.Copy(driver.Pointer(env.PhaseIn), driver.Pointer(env.PhaseOut), 4, s.handle)); err != nil {
			return err
		}
	}
	s.params[0] = unsafe.Pointer(&s.block[0])
	for _, g := range grids(l, k.program.AnyBlock, lanes) {
		ptx.SetOrigin(s.block, g.origin)
		result := api.Launch(v.fn, g.size[0], g.size[1], g.size[2], lanes, 1, 1, shared, s.handle, &s.params[0], nil)
		if err := api.Check("cuLaunchKernel", result); err != nil {
			return err
		}
	}
	if k.program.Residue {
		*s.folds = [2]uint64{env.Residue, env.Record}
		*s.params = [2]unsafe.Pointer{unsafe.Pointer(&s.folds[0]), unsafe.Pointer(&s.folds[1])}
		result := api.Launch(s.device.fold.fn, 1, 1, 1, isa.NumClasses, 1, 1, 0, s.handle, &s.params[0], nil)
		return api.Check("cuLaunchKernel", result)
	}
	return nil
}

// Copy queues a copy: addresses tell the driver whose memory they are in.
func (s *stream) Copy(dst, src uintptr, bytes int64) (backends.Ticket, error) {
	if bytes < 0 {
		return 0, fmt.Errorf("cuda: copy of %d bytes", bytes)
	}
	return s.enqueue("copy", func() error {
		if bytes == 0 {
			return nil
		}
		api := s.device.api
		return api.Check("cuMemcpyAsync", api.Copy(driver.Pointer(dst), driver.Pointer(src), uint64(bytes), s.handle))
	})
}

// Fill queues a fill.
func (s *stream) Fill(dst uintptr, cell uint64, size int, count int64) (backends.Ticket, error) {
	if count < 0 || size != 1 && size != 2 && size != 4 && size != 8 {
		return 0, fmt.Errorf("cuda: fill of %d elements of %d bytes", count, size)
	}
	return s.enqueue("fill", func() error {
		if count == 0 {
			return nil
		}
		api, p, n := s.device.api, driver.Pointer(dst), uint64(count)
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
	})
}

// Await makes what is queued from now on wait for another stream's ticket.
func (s *stream) Await(other backends.Stream, t backends.Ticket) error {
	o, ok := other.(*stream)
	if !ok || o.device != s.device {
		return errors.New("cuda: await: the stream is of another device")
	}
	if t == 0 || o.Passed() >= t {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("cuda: await: the stream is closed")
	}
	err := s.device.do(call{"cuStreamWaitValue64", func() driver.Result {
		return s.device.api.StreamWaitValue(s.handle, o.passedAt(), uint64(t), driver.WaitAtLeast)
	}})
	if err != nil {
		return fmt.Errorf("cuda: await: %w", classified(err))
	}
	return nil
}

// Passed is the last ticket that has passed.
func (s *stream) Passed() backends.Ticket { return backends.Ticket(atomic.LoadUint64(&s.host.passed)) }

// How Wait passes the time: it looks again and again for a while, then sleeps in
// between, a little longer each time, and asks the driver for failures.
const (
	spin     = 30 * time.Microsecond
	shortNap = 20 * time.Microsecond
	longNap  = 500 * time.Microsecond
)

// Wait waits for a ticket.
func (s *stream) Wait(t backends.Ticket, d time.Duration) error {
	if s.Passed() >= t {
		return nil
	}
	start, nap := time.Now(), shortNap
	for {
		if s.Passed() >= t {
			return nil
		}
		passed := time.Since(start)
		if passed > spin || passed >= d {
			var result driver.Result
			if err := s.device.within(func() error {
				result = s.device.api.StreamQuery(s.handle)
				return nil
			}); err != nil {
				return fmt.Errorf("cuda: wait: %w", classified(err))
			}
			if result != driver.Success && result != driver.NotReady {
				// Nothing that was queued fails but by losing the device.
				return fmt.Errorf("cuda: %w: %w", backends.ErrLost, s.device.api.Check("cuStreamQuery", result))
			}
			if s.Passed() >= t {
				return nil
			}
		}
		if passed >= d {
			return backends.ErrPending
		}
		if passed > spin {
			time.Sleep(min(nap, d-passed))
			nap = min(2*nap, longNap)
		}
	}
}

// Close ends the stream. One of others goes on.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("cuda: close: the stream is closed already")
	}
	s.closed = true
	return s.free()
}
