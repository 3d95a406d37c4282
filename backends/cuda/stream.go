package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
)

// stream is a queue of the driver's.
type stream struct {
	device *device
	handle driver.Stream
	shared driver.Pointer // claim (u64) and lock (u32), see ptx.Layout

	mu       sync.Mutex
	closed   bool
	launches uint64 // so far
	idle     []*report
	pending  []*event // whose outcome nobody has asked for yet
	block    []byte   // the launch block at hand
	params   *[1]unsafe.Pointer
}

// claimAt and lockAt are where they lie in stream.shared.
const (
	claimAt     = 0
	lockAt      = 8
	sharedBytes = 16
)

func (d *device) NewStream() (backends.Stream, error) {
	s := &stream{device: d, params: new([1]unsafe.Pointer)}
	err := d.do(
		call{"cuStreamCreate", func() driver.Result { return d.api.StreamCreate(&s.handle, driver.StreamNonBlocking) }},
		call{"cuMemAlloc", func() driver.Result { return d.api.MemAlloc(&s.shared, sharedBytes) }},
		call{"cuMemsetD8Async", func() driver.Result { return d.api.Set8(s.shared, 0, sharedBytes, s.handle) }},
		call{"cuStreamSynchronize", func() driver.Result { return d.api.StreamSync(s.handle) }},
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: new stream: %w", classified(err)), s.free())
	}
	return s, nil
}

// free gives back what the stream has of the driver's.
func (s *stream) free() error {
	api := s.device.api
	var errs []error
	for _, r := range s.idle {
		errs = append(errs, s.freeReport(r))
	}
	s.idle = nil
	if s.shared != 0 {
		errs = append(errs, s.device.do(call{"cuMemFree", func() driver.Result { return api.MemFree(s.shared) }}))
	}
	if s.handle != 0 {
		errs = append(errs, s.device.do(call{"cuStreamDestroy", func() driver.Result { return api.StreamDestroy(s.handle) }}))
	}
	return errors.Join(errs...)
}

var errStreamClosed = errors.New("cuda: the stream is closed")

// takeReport returns a report for a launch or copy. The caller holds the lock.
func (s *stream) takeReport() (*report, error) {
	if n := len(s.idle); n > 0 {
		r := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return r, nil
	}
	return s.newReport()
}

// Launch queues k.
func (s *stream) Launch(kn backends.Kernel, l *backends.Launch) (backends.Event, error) {
	k, ok := kn.(*kernel)
	if !ok || k.device != s.device {
		return nil, errors.New("cuda: launch: the kernel is of another device")
	}
	if err := k.check(l); err != nil {
		return nil, err
	}
	space := k.program.Layout.Fuse(l)
	v, err := k.variant(k.options(l, &space))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStreamClosed
	}
	if k.program.Phase && l.Phase != nil {
		// The phase comes from the launches before.
		if err := s.settleAll(); err != nil {
			return nil, err
		}
	}
	r, err := s.takeReport()
	if err != nil {
		return nil, err
	}
	s.launches++
	e := &event{stream: s, report: r, launch: l, kernel: k, number: s.launches}
	if err := s.queue(e, v, &space); err != nil {
		s.idle = append(s.idle, r)
		return nil, fmt.Errorf("cuda: launch: %w", classified(err))
	}
	s.pending = append(s.pending, e)
	return e, nil
}

// queue gives a launch to the driver. The caller holds the lock.
func (s *stream) queue(e *event, v *variant, space *ptx.Space) error {
	api, k, l, r := s.device.api, e.kernel, e.launch, e.report
	env := ptx.Environment{
		Record: uint64(r.at), Cancel: uint64(r.at) + uint64(cancelAt),
		Claim: uint64(s.shared) + claimAt, Lock: uint64(s.shared) + lockAt,
		Residue: uint64(r.device), Number: e.number,
	}
	r.host.cancel = 0
	if l.Phase != nil {
		env.Phase = *l.Phase
	}
	r.host.record.Phase = uint32(env.Phase)
	if n := k.program.Layout.Bytes; len(s.block) < n {
		s.block = make([]byte, n)
	}
	k.program.Layout.Pack(s.block, l, space, &env)
	lanes := uint32(lanesOf(l.Block))
	if k.program.AnyBlock {
		lanes = ownLanes
	}
	shared := k.program.SharedBytes(int(lanes))
	if err := k.allowShared(v, shared); err != nil {
		return err
	}
	return s.device.within(func() error {
		if k.program.Residue {
			if err := api.Check("cuMemsetD8Async", api.Set8(r.device, 0, residueBytes, s.handle)); err != nil {
				return err
			}
		}
		s.params[0] = unsafe.Pointer(&s.block[0])
		for _, g := range grids(l, k.program.AnyBlock, lanes) {
			ptx.SetOrigin(s.block, g.origin)
			result := api.Launch(v.fn, g.size[0], g.size[1], g.size[2], lanes, 1, 1, uint32(shared), s.handle, &s.params[0], nil)
			if err := api.Check("cuLaunchKernel", result); err != nil {
				return err
			}
		}
		if k.program.Residue {
			result := api.CopyToHost(uintptr(unsafe.Pointer(&r.host.residue)), r.device, residueBytes, s.handle)
			if err := api.Check("cuMemcpyDtoHAsync", result); err != nil {
				return err
			}
		}
		return api.Check("cuEventRecord", api.EventRecord(r.event, s.handle))
	})
}

// grid is one launch of the driver's.
type grid struct{ origin, size [3]uint32 }

// The driver's limits on a grid.
const (
	maxGridX = 1<<31 - 1
	maxGridY = 1<<16 - 1
)

// grids divides a launch's grid as the driver's limits want it, leaving out
// blocks of which no lane runs.
func grids(l *backends.Launch, anyBlock bool, lanes uint32) []grid {
	needed := (ptx.Lanes(l) + uint64(lanes) - 1) / uint64(lanes)
	if needed == 0 {
		return nil
	}
	if anyBlock {
		x := min(needed, maxGridX)
		return []grid{{size: [3]uint32{uint32(x), uint32((needed + x - 1) / x), 1}}}
	}
	// Rows and planes that are needed, then pieces of each axis.
	size := l.Grid
	plane := uint64(size[0]) * uint64(size[1])
	size[2] = uint32(min(uint64(size[2]), (needed+plane-1)/plane))
	if size[2] == 1 {
		size[1] = uint32(min(uint64(size[1]), (needed+uint64(size[0])-1)/uint64(size[0])))
	}
	if size[1] == 1 && size[2] == 1 {
		size[0] = uint32(min(uint64(size[0]), needed))
	}
	var all []grid
	for z := uint64(0); z < uint64(size[2]); z += maxGridY {
		for y := uint64(0); y < uint64(size[1]); y += maxGridY {
			for x := uint64(0); x < uint64(size[0]); x += maxGridX {
				all = append(all, grid{
					origin: [3]uint32{uint32(x), uint32(y), uint32(z)},
					size: [3]uint32{uint32(min(uint64(size[0])-x, maxGridX)), uint32(min(uint64(size[1])-y, maxGridY)),
						uint32(min(uint64(size[2])-z, maxGridY))},
				})
			}
		}
	}
	return all
}

// Copy queues a copy.
func (s *stream) Copy(dst, src uintptr, bytes int64, dstHost, srcHost bool) (backends.Event, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("cuda: copy of %d bytes", bytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStreamClosed
	}
	if bytes == 0 {
		return nil, nil
	}
	r, err := s.takeReport()
	if err != nil {
		return nil, err
	}
	api, n := s.device.api, uint64(bytes)
	e := &event{stream: s, report: r}
	err = s.device.do(
		call{"cuMemcpyAsync", func() driver.Result {
			switch {
			case dstHost && srcHost:
				copy(unsafe.Slice((*byte)(hostPointer(dst)), bytes), unsafe.Slice((*byte)(hostPointer(src)), bytes))
				return driver.Success
			case dstHost:
				return api.CopyToHost(dst, driver.Pointer(src), n, s.handle)
			case srcHost:
				return api.CopyToDevice(driver.Pointer(dst), src, n, s.handle)
			}
			return api.CopyOnDevice(driver.Pointer(dst), driver.Pointer(src), n, s.handle)
		}},
		call{"cuEventRecord", func() driver.Result { return api.EventRecord(r.event, s.handle) }},
	)
	if err != nil {
		s.idle = append(s.idle, r)
		return nil, fmt.Errorf("cuda: copy: %w", err)
	}
	s.pending = append(s.pending, e)
	return e, nil
}

// hostPointer makes a pointer of a host address, in a way that vet lets pass.
func hostPointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// Synchronize waits for all queued work.
func (s *stream) Synchronize(ctx context.Context) error {
	s.mu.Lock()
	pending := append([]*event(nil), s.pending...)
	s.mu.Unlock()
	for _, e := range pending {
		for errors.Is(e.Wait(waitSlice), backends.ErrPending) {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

const waitSlice = 5 * time.Millisecond

// settleAll waits for all queued work. The caller holds the lock.
func (s *stream) settleAll() error {
	for len(s.pending) > 0 {
		if !s.pending[0].settle() {
			time.Sleep(shortNap)
		}
	}
	return nil
}

// Close waits for what is queued and gives the stream back.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	s.closed = true
	return errors.Join(s.settleAll(), s.free())
}

// event is queued work and, when it is done, its outcome.
type event struct {
	stream *stream
	report *report
	launch *backends.Launch // nil: a copy
	kernel *kernel
	number uint64

	// under the stream's lock
	done bool
	err  error
}

// How Wait passes the time: it asks the driver at once and again for a while,
// then sleeps in between, a little longer each time.
const (
	spin     = 30 * time.Microsecond
	shortNap = 20 * time.Microsecond
	longNap  = 500 * time.Microsecond
)

// Wait returns the outcome, or backends.ErrPending after the given time.
func (e *event) Wait(d time.Duration) error {
	start, nap := time.Now(), shortNap
	for {
		e.stream.mu.Lock()
		done := e.settle()
		err := e.err
		e.stream.mu.Unlock()
		if done {
			return err
		}
		passed := time.Since(start)
		if passed >= d {
			return backends.ErrPending
		}
		if passed > spin {
			time.Sleep(min(nap, d-passed))
			nap = min(2*nap, longNap)
		}
	}
}

// settle asks the driver whether the work is done, and if so finds the outcome.
// The caller holds the stream's lock.
func (e *event) settle() bool {
	if e.done {
		return true
	}
	s, l := e.stream, e.launch
	var result driver.Result
	err := s.device.within(func() error {
		result = s.device.api.EventQuery(e.report.event)
		return nil
	})
	cancelled := l != nil && l.Cancel != nil && l.Cancel.Load()
	switch {
	case err == nil && result == driver.NotReady:
		if cancelled {
			e.report.stop()
		}
		return false
	case err == nil:
		err = s.device.api.Check("cuEventQuery", result)
	}
	e.done = true
	for i, p := range s.pending {
		if p == e {
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			break
		}
	}
	switch {
	case err != nil:
		e.err = fmt.Errorf("cuda: launch or copy: %w", err)
	case cancelled:
		e.err = backends.ErrCancelled
	case l != nil:
		e.outcome()
	}
	s.idle = append(s.idle, e.report)
	e.report, e.launch, e.kernel = nil, nil, nil
	return true
}

// outcome reads what a launch that ran to its end reports.
func (e *event) outcome() {
	r, l := e.report.host, e.launch
	if e.kernel.program.Residue && l.Residue != nil {
		for i := range isa.NumClasses {
			l.Residue[i] += r.residue[i]
		}
	}
	if e.kernel.program.Phase && l.Phase != nil {
		*l.Phase = uint16(r.record.Phase)
	}
	if f := r.record.Fault(e.number); f != nil {
		e.err = f
	}
}
