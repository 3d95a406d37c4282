package core

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// Executor is a user of a device: a stream of work, buffers and a quota.
type Executor struct {
	device  *Device
	stream  queue.Stream
	native  uintptr        // the number of stream, for others; 0: it has none
	phase   *memory.Memory // one cell for all streams
	account memory.Account

	mu          lock.Mutex[lock.Executor]
	buffers     *Buffer // a list
	boundary    *memory.Memory
	foreign     map[uintptr]*foreignStream  // by their number
	streamsMade map[uintptr]backends.Stream // by NewStream, by their number
	calls       uint64                      // so far, on any of them
	leaving     sync.WaitGroup              // for those being forgotten
	closed      bool

	// cancels counts Cancel and Close, for calls whose programs are being made.
	cancels atomic.Uint64
}

// NewExecutor opens an executor on the device that a name means; see DeviceFor.
func NewExecutor(backend string) (*Executor, error) {
	d, err := DeviceFor(backend)
	if err != nil {
		return nil, err
	}
	return d.NewExecutor()
}

// NewExecutor opens an executor on the device.
func (d *Device) NewExecutor() (*Executor, error) {
	reserved()
	s, err := d.dev.NewStream()
	if err != nil {
		return nil, d.loss.Tell(status.FromBackend("executor on "+d.Name, err))
	}
	phase, _, err := d.host.Take(nil, 4, nil)
	if err != nil {
		return nil, errors.Join(d.loss.Tell(status.Within("executor", err)), s.Close())
	}
	ex := &Executor{device: d, native: native(s), foreign: map[uintptr]*foreignStream{}, streamsMade: map[uintptr]backends.Stream{}, phase: phase}
	ex.stream = ex.newQueue(s)
	*ex.stream.Target().PhaseCell() = 0
	return ex, nil
}

// newQueue makes the queue of a stream. All of an executor's have one phase.
func (ex *Executor) newQueue(s backends.Stream) queue.Stream {
	t := queue.Target{Line: &memory.Line{Stream: s}, Phase: ex.phase, Order: &ex.device.order, Guests: &ex.device.guests, Loss: &ex.device.loss, Track: profile.NewTrack(ex.device.Name)}
	if ex.device.Info.Asynchronous {
		return queue.NewDeferred(t)
	}
	return queue.NewInline(t)
}

// Device returns the executor's device.
func (ex *Executor) Device() *Device { return ex.device }

// streams lists the executor's own stream and those of others that it used,
// until release is called.
func (ex *Executor) streams() (list []queue.Stream, release func()) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	for _, f := range ex.foreign {
		f.use()
	}
	list = ex.list()
	return list, func() {
		for _, s := range list[1:] {
			ex.done(s.(*foreignStream))
		}
	}
}

// list is streams for who holds the lock.
func (ex *Executor) list() []queue.Stream {
	list := []queue.Stream{ex.stream}
	for _, s := range ex.foreign {
		list = append(list, s)
	}
	return list
}

// SetQuota bounds the bytes that the executor's buffers may take; 0 lifts the bound.
func (ex *Executor) SetQuota(bytes int64) error {
	if bytes < 0 {
		return Errorf(Invalid, "quota is %d bytes; expected 0 (none) or more", bytes)
	}
	ex.device.pool.SetQuota(&ex.account, bytes)
	return nil
}

// Used returns the bytes of device memory that the executor's buffers take,
// those that only exported views keep included.
func (ex *Executor) Used() int64 {
	used, _ := ex.device.pool.Account(&ex.account)
	return used
}

// Quota returns the executor's bound in bytes; 0 is none.
func (ex *Executor) Quota() int64 {
	_, quota := ex.device.pool.Account(&ex.account)
	return quota
}

// Phase puts the phase of the executor, 0 … 767, where to points, after the
// launches before it that change it.
func (ex *Executor) Phase(to *int32) (*Event, error) {
	return ex.stream.Submit(&fence{phase: to}, queue.How{Outcome: true})
}

// Synchronize waits for all work of the executor and returns the errors of those
// launches whose outcome nobody has seen. Cancelling it ends the wait, and not
// the work.
func (ex *Executor) Synchronize() (*Event, error) {
	list, release := ex.streams()
	defer release()
	if len(list) == 1 {
		return ex.stream.Submit(&fence{errors: ex.stream.Errors}, queue.How{Outcome: true})
	}
	all := &everything{}
	all.take()
	for _, s := range list {
		ev, err := s.Submit(&fence{errors: s.Errors}, queue.How{Outcome: true})
		if ev != nil {
			all.events = append(all.events, ev)
		} else if err != nil {
			all.errs = append(all.errs, err)
		}
	}
	ev, err := ex.stream.Beside(all)
	if err != nil { // it is being closed, and tells the errors itself
		for _, ev := range all.events {
			ev.Cancel()
		}
	}
	return ev, err
}

// gone reports whether the executor is closed, or is being.
func (ex *Executor) gone() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.closed
}

// Cancel asks all work of the executor to end soon, calls that wait for their
// programs to be made included. That a launch was cancelled
// by it is told to who waits for that launch, and to nobody else.
func (ex *Executor) Cancel() {
	ex.cancels.Add(1)
	list, release := ex.streams()
	defer release()
	for _, s := range list {
		s.Cancel()
	}
}

// BeginCapture records what is called from now on instead of running it; calls for
// streams of others are refused. Memory of others is used until the graph is
// released: freeing it waits for that, if it was wrapped without a deleter.
func (ex *Executor) BeginCapture() error { return ex.stream.BeginCapture() }

// EndCapture returns what was recorded since BeginCapture. It can be replayed on
// this executor, and owns the memory that it uses.
func (ex *Executor) EndCapture() (*Graph, error) { return ex.stream.EndCapture() }

// Replay runs captured work once more. What went wrong in it is known when the
// event is done.
func (ex *Executor) Replay(g *Graph) (*Event, error) {
	span := profile.Begin()
	ev, err := g.Replay(ex.stream)
	span.End(profile.Event{Kind: profile.Call, Name: "replay"}, err)
	return ev, err
}

// closeGrace is how long Close lets a device go on with launches that it has
// queued, of which the callers were told that all is well.
const closeGrace = 5 * time.Second

// Close ends the executor and frees its buffers. Work under way that somebody
// waits for, or could, is cancelled; launches that an asynchronous device has
// queued may end as they would, but are cancelled too after some seconds. It
// returns the errors of those whose outcome nobody has seen. Closing again does
// nothing.
func (ex *Executor) Close() error { return ex.close(closeGrace) }

func (ex *Executor) close(grace time.Duration) error {
	ex.mu.Lock()
	if ex.closed {
		ex.mu.Unlock()
		return nil
	}
	ex.closed = true
	list, made := ex.list(), ex.streamsMade // now, since none comes once closed is set
	var buffers []*Buffer
	for b := ex.buffers; b != nil; {
		next := b.next
		buffers, b.prev, b.next = append(buffers, b), nil, nil
		b = next
	}
	boundary := ex.boundary
	ex.buffers, ex.boundary = nil, nil
	ex.mu.Unlock()
	ex.cancels.Add(1) // after closed, which who sees this looks at
	ex.leaving.Wait()
	var errs []error
	for _, s := range list {
		errs = append(errs, s.Close(grace))
	}
	for _, s := range made { // of which none ends any more
		errs = append(errs, status.FromBackend("stream", s.Close()))
	}
	for _, b := range buffers {
		b.drop()
	}
	if boundary != nil {
		boundary.Release()
	}
	ex.phase.Release()
	return status.Join(errs...)
}
