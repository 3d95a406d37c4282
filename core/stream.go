package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// stream runs an executor's work in order. Short work runs on the caller's
// goroutine while the stream is idle; long work, and what comes after it, gets
// a goroutine, and the caller an Event to wait for.
//
// On an asynchronous device a launch is queued and stays in flight until its
// own event tells the outcome. Errors of such launches are kept, and reported
// by the next call that waits for the stream, with the launch they belong to.
type stream struct {
	device *Device
	s      backends.Stream

	mu     sync.Mutex
	last   *Event              // the newest work that has a goroutine, while it is under way
	events map[*Event]struct{} // all such work, and that which runs beside the stream
	closed bool
	phase  uint16 // launches read and write it, in order

	flight   sync.Mutex
	queued   []*inflight
	deferred []error
}

// inflight is a launch that the device has queued.
type inflight struct {
	event backends.Event
	job   *launchJob
	// unwanted: who waited for the stream gave up, and knows that this launch
	// was cancelled with it.
	unwanted bool
}

// maxInflight bounds the launches queued on a device, and so the memory that
// they hold. Devices have queues at least as long.
const maxInflight = 128

// job is a piece of work for a stream.
type job interface {
	// run does the work, or queues it on the device.
	run(s *stream) error
	// cancel asks the job, which may be running, to end soon.
	cancel()
	// done lets go of what the job holds. It comes after run, or instead of it,
	// and with no lock held, since owners of foreign memory are told.
	done()
}

// blocker is a job of which run may have to wait for other work.
type blocker interface {
	blocks(s *stream) bool
}

// Event is work that goes on while its caller does something else.
type Event struct {
	finished  chan struct{} // closed when the outcome is there
	passed    chan struct{} // closed when what comes after it may begin
	stop      chan struct{} // closed when the work is cancelled
	err       error
	mu        sync.Mutex
	job       job // while it may be cancelled
	stream    *stream
	cancelled bool
	aside     bool // runs beside the stream
}

// Wait returns the outcome, or an error of kind Pending after the given time.
func (e *Event) Wait(d time.Duration) error {
	select {
	case <-e.finished:
		return e.err
	default:
	}
	if d <= 0 {
		return backends.ErrPending
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-e.finished:
		return e.err
	case <-t.C:
		return backends.ErrPending
	}
}

// Cancel asks the work to end soon. Its outcome then is of kind Cancelled,
// unless it was done before. What was queued before it on the same stream of
// an asynchronous device ends too, since this work waits for that.
func (e *Event) Cancel() {
	e.cancel()
	e.stream.cancelQueued(true)
}

// cancel cancels this work alone.
func (e *Event) cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.cancelled {
		e.cancelled = true
		close(e.stop)
	}
	if e.job != nil {
		e.job.cancel()
	}
}

// submit runs a job now or, if it may take long or others are before it, later.
// Exactly one of the event and the outcome is given.
func (s *stream) submit(j job, long bool) (*Event, error) {
	if !long && s.device.async {
		if b, ok := j.(blocker); ok {
			long = b.blocks(s)
		}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		j.done()
		return nil, Errorf(BadHandle, "executor is freed")
	}
	if s.last == nil && !long {
		defer j.done() // when the lock is free again, whatever happens
		defer s.mu.Unlock()
		return nil, j.run(s)
	}
	ev := s.event(j)
	prev := s.last
	s.last = ev
	s.mu.Unlock()
	go s.later(prev, ev)
	return ev, nil
}

// beside runs a job on a goroutine that no other work waits for.
func (s *stream) beside(j job) (*Event, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		j.done()
		return nil, Errorf(BadHandle, "executor is freed")
	}
	ev := s.event(j)
	ev.aside = true
	s.mu.Unlock()
	go s.later(nil, ev)
	return ev, nil
}

// event makes a job's event. The caller holds the lock.
func (s *stream) event(j job) *Event {
	ev := &Event{finished: make(chan struct{}), passed: make(chan struct{}), stop: make(chan struct{}), job: j, stream: s}
	if s.events == nil {
		s.events = map[*Event]struct{}{}
	}
	s.events[ev] = struct{}{}
	return ev
}

// later runs ev's job when prev has passed. If it is cancelled before, its
// outcome is there at once, but what comes after it waits for prev all the same.
func (s *stream) later(prev, ev *Event) {
	if prev != nil {
		select {
		case <-prev.passed:
		case <-ev.stop:
		}
	}
	ev.mu.Lock()
	j, cancelled := ev.job, ev.cancelled
	ev.mu.Unlock()
	var err error
	if cancelled {
		err = Errorf(Cancelled, "cancelled before it began")
	} else {
		err = s.guarded(j)
	}
	ev.mu.Lock()
	ev.job = nil
	ev.mu.Unlock()
	j.done()
	ev.err = err
	if prev == nil || passed(prev) {
		s.pass(ev)
		close(ev.finished)
		return
	}
	close(ev.finished)
	<-prev.passed
	s.pass(ev)
}

func passed(e *Event) bool {
	select {
	case <-e.passed:
		return true
	default:
		return false
	}
}

// pass lets begin what comes after ev.
func (s *stream) pass(ev *Event) {
	s.mu.Lock()
	if s.last == ev {
		s.last = nil
	}
	delete(s.events, ev)
	s.mu.Unlock()
	close(ev.passed)
}

// guarded runs a job on a goroutine of its own, where a panic would end the process.
func (s *stream) guarded(j job) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Errorf(Internal, "panic: %v\n%s", r, debug.Stack())
		}
	}()
	return j.run(s)
}

// do submits a job and waits for it.
func (s *stream) do(j job) error {
	ev, err := s.submit(j, false)
	if ev == nil {
		return err
	}
	<-ev.finished
	return ev.err
}

// enqueued notes a launch that the device has queued.
func (s *stream) enqueued(e backends.Event, j *launchJob) {
	s.flight.Lock()
	s.queued = append(s.queued, &inflight{event: e, job: j})
	s.flight.Unlock()
}

// look is how long one look at work on a device takes.
const look = 10 * time.Millisecond

// reap looks which queued launches are done, in order, and keeps their errors.
// It waits until at most the given number are left, or stop, which may be nil,
// tells it to give up; it reports which.
func (s *stream) reap(left int, stop func() bool) bool {
	for {
		s.flight.Lock()
		n := len(s.queued)
		if n == 0 {
			s.flight.Unlock()
			return true
		}
		head := s.queued[0]
		s.flight.Unlock()
		wait := time.Duration(0)
		if n > left {
			if wait = look; stop != nil && stop() {
				wait = 0
			}
		}
		err := head.event.Wait(wait)
		if errors.Is(err, backends.ErrPending) {
			if n <= left {
				return true
			}
			if wait == 0 {
				return false
			}
			continue
		}
		s.flight.Lock()
		mine := len(s.queued) > 0 && s.queued[0] == head
		if mine {
			s.queued = s.queued[1:]
			if err != nil && !(head.unwanted && errors.Is(err, backends.ErrCancelled)) {
				s.deferred = append(s.deferred, head.job.outcome(err))
			}
			head.job.collect()
		}
		s.flight.Unlock()
		if mine {
			head.job.release()
		}
	}
}

// inFlight returns the number of launches in flight.
func (s *stream) inFlight() int {
	s.reap(maxInflight, nil)
	s.flight.Lock()
	defer s.flight.Unlock()
	return len(s.queued)
}

// cancelQueued asks every queued launch to end soon. unwanted says that nobody
// need be told of it later.
func (s *stream) cancelQueued(unwanted bool) {
	s.flight.Lock()
	defer s.flight.Unlock()
	for _, q := range s.queued {
		q.job.stop.Store(true)
		q.unwanted = q.unwanted || unwanted
	}
}

// takeDeferred returns the first of the errors kept, and forgets them all.
func (s *stream) takeDeferred() error {
	s.flight.Lock()
	defer s.flight.Unlock()
	list := s.deferred
	s.deferred = nil
	if len(list) < 2 {
		return errors.Join(list...)
	}
	var first *Error
	if !errors.As(list[0], &first) {
		return list[0]
	}
	more := *first
	more.Msg += fmt.Sprintf(" (%d launches after it failed too)", len(list)-1)
	return &more
}

// settle waits for queued launches and keeps their errors for later.
func (s *stream) settle() { s.reap(0, nil) }

// after makes work on s wait for what another stream has queued on m, and notes
// that s uses it now. Where stop tells it to give up it returns an error.
func (s *stream) after(m *memory, stop func() bool) error {
	if !s.device.async {
		return nil
	}
	if other := m.user.Load(); other != nil && other != s && !other.reap(0, stop) {
		return errCancelledWaiting
	}
	m.user.Store(s)
	return nil
}

// foreign reports whether work on s would have to wait for another stream's on m.
func (s *stream) foreign(m *memory) bool {
	other := m.user.Load()
	return other != nil && other != s && other.inFlight() > 0
}

var errCancelledWaiting = Errorf(Cancelled, "cancelled while it waited for other work")

// Synchronize waits for all work of the executor and returns the first error of
// those launches whose outcome nobody has seen.
func (ex *Executor) Synchronize() (*Event, error) {
	return ex.stream.submit(&syncJob{}, ex.device.async)
}

// syncJob, as all that waits for its own stream alone, need not be told to stop:
// Event.Cancel ends what it waits for. It only says that it was cancelled.
type syncJob struct{ cancelled atomic.Bool }

func (j *syncJob) run(s *stream) error {
	s.settle()
	if err := s.takeDeferred(); err != nil || !j.cancelled.Load() {
		return err
	}
	return errCancelledWaiting
}
func (j *syncJob) cancel() { j.cancelled.Store(true) }
func (*syncJob) done()     {}

// barrierJob waits for all work before it, whose errors are others' to see.
type barrierJob struct{}

func (*barrierJob) run(s *stream) error {
	s.settle()
	return nil
}
func (*barrierJob) cancel() {}
func (*barrierJob) done()   {}

// phaseJob reads the phase, which launches before it may still change, and then
// sets it if set is given.
type phaseJob struct {
	to  *int32
	set *uint16
}

func (j *phaseJob) run(s *stream) error {
	s.settle()
	if j.to != nil {
		*j.to = int32(s.phase)
	}
	if j.set != nil {
		s.phase = *j.set
	}
	return nil
}
func (*phaseJob) cancel() {}
func (*phaseJob) done()   {}

// closeGrace is how long close lets a device go on with launches that it has
// queued, of which the callers were told that all is well.
const closeGrace = 5 * time.Second

// close ends the stream. Work that somebody could still wait for, or that has
// not begun, is cancelled; launches that the device has queued may end as they
// would, but are cancelled too if they take longer than the grace. It returns
// the errors of launches whose outcome nobody has seen.
func (s *stream) close(grace time.Duration) error {
	s.mu.Lock()
	s.closed = true
	var under []*Event
	for ev := range s.events {
		under = append(under, ev)
	}
	s.mu.Unlock()
	for _, ev := range under {
		ev.cancel()
	}
	end := time.Now().Add(grace)
	if !s.reap(0, func() bool { return time.Now().After(end) }) {
		s.cancelQueued(false)
	}
	for _, ev := range under {
		if !ev.aside { // a trace may be what closes the executor
			<-ev.passed
		}
	}
	s.settle()
	if err := s.takeDeferred(); err != nil {
		s.s.Close()
		return err
	}
	return errors.Join(s.s.Synchronize(context.Background()), s.s.Close())
}
