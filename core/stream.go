package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
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
	last   *Event // the newest work that has a goroutine, while it is under way
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
}

// maxInflight bounds the launches queued on a device, and so the memory that
// they hold.
const maxInflight = 1024

// job is a piece of work for a stream.
type job interface {
	// run does the work, or queues it on the device.
	run(s *stream) error
	// cancel asks the job, which may be running, to end soon.
	cancel()
	// done lets go of what the job holds. It comes after run, or instead of it.
	done()
}

// Event is work that goes on while its caller does something else.
type Event struct {
	finished  chan struct{}
	err       error
	mu        sync.Mutex
	job       job // while it may be cancelled
	stream    *stream
	cancelled bool
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
	e.mu.Lock()
	e.cancelled = true
	if e.job != nil {
		e.job.cancel()
	}
	e.mu.Unlock()
	e.stream.cancelQueued()
}

// submit runs a job now or, if it may take long or others are before it, later.
// Exactly one of the event and the outcome is given.
func (s *stream) submit(j job, long bool) (*Event, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		j.done()
		return nil, Errorf(BadHandle, "executor is freed")
	}
	if s.last == nil && !long {
		defer s.mu.Unlock()
		return nil, s.perform(j)
	}
	ev := &Event{finished: make(chan struct{}), job: j, stream: s}
	prev := s.last
	s.last = ev
	s.mu.Unlock()
	go s.later(prev, ev)
	return ev, nil
}

func (s *stream) later(prev, ev *Event) {
	if prev != nil {
		<-prev.finished
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
	s.mu.Lock()
	if s.last == ev {
		s.last = nil
	}
	s.mu.Unlock()
	ev.err = err
	close(ev.finished)
}

// perform runs a job and lets go of it, whatever happens.
func (s *stream) perform(j job) error {
	defer j.done()
	return j.run(s)
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
	s.reap(false)
	s.flight.Lock()
	s.queued = append(s.queued, &inflight{e, j})
	full := len(s.queued) >= maxInflight
	s.flight.Unlock()
	if full {
		s.reap(true)
	}
}

// reap looks which queued launches are done, in order, and keeps their errors;
// it waits for all of them if all is set.
func (s *stream) reap(all bool) {
	for {
		s.flight.Lock()
		if len(s.queued) == 0 {
			s.flight.Unlock()
			return
		}
		head := s.queued[0]
		s.flight.Unlock()
		wait := time.Duration(0)
		if all {
			wait = time.Second
		}
		err := head.event.Wait(wait)
		if errors.Is(err, backends.ErrPending) {
			if all {
				continue
			}
			return
		}
		s.flight.Lock()
		if len(s.queued) > 0 && s.queued[0] == head {
			s.queued = s.queued[1:]
			if err != nil {
				s.deferred = append(s.deferred, head.job.outcome(err))
			}
			head.job.collect()
			head.job.release()
		}
		s.flight.Unlock()
	}
}

// cancelQueued asks every queued launch to end soon.
func (s *stream) cancelQueued() {
	s.flight.Lock()
	defer s.flight.Unlock()
	for _, q := range s.queued {
		q.job.stop.Store(true)
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
	more.Msg += fmt.Sprintf(" (of %d launches after it, %d failed too)", len(list)-1, len(list)-1)
	return &more
}

// settle waits for queued launches and keeps their errors for later.
func (s *stream) settle() { s.reap(true) }

// after makes work on s wait for what another stream has queued on m, and notes
// that s uses it now.
func (s *stream) after(m *memory) {
	if !s.device.async {
		return
	}
	if other := m.user.Swap(s); other != nil && other != s {
		other.settle()
	}
}

// Synchronize waits for all work of the executor and returns the first error of
// those launches whose outcome nobody has seen.
func (ex *Executor) Synchronize() (*Event, error) {
	return ex.stream.submit(&syncJob{}, ex.device.async)
}

type syncJob struct{}

func (*syncJob) run(s *stream) error {
	s.reap(true)
	return s.takeDeferred()
}
func (*syncJob) cancel() {}
func (*syncJob) done()   {}

// copyJob copies between a buffer and the host, or between devices.
type copyJob struct {
	dst, src         uintptr
	bytes            int64
	dstHost, srcHost bool
	mem              [2]*memory // pinned; may be nil
	report           bool       // errors of earlier launches
	keep             any        // host memory of Go's
}

func (c *copyJob) run(s *stream) error {
	for _, m := range c.mem {
		if m != nil && m.device == s.device {
			s.after(m)
		}
	}
	if c.bytes > 0 {
		ev, err := s.s.Copy(c.dst, c.src, c.bytes, c.dstHost, c.srcHost)
		if err == nil && ev != nil {
			for err = backends.ErrPending; errors.Is(err, backends.ErrPending); {
				err = ev.Wait(time.Second)
			}
		}
		if err != nil {
			return fromBackend("copy of "+sizeText(c.bytes), err)
		}
	}
	if c.report && s.device.async {
		s.reap(true)
		return s.takeDeferred()
	}
	return nil
}

func (*copyJob) cancel() {}

func (c *copyJob) done() {
	for _, m := range c.mem {
		if m != nil {
			m.end()
		}
	}
}

// copyNow copies and waits.
func (s *stream) copyNow(dst, src uintptr, bytes int64, dstHost, srcHost bool) error {
	return s.do(&copyJob{dst: dst, src: src, bytes: bytes, dstHost: dstHost, srcHost: srcHost})
}

// phaseJob reads the phase, which launches before it may still change.
type phaseJob struct{ phase uint16 }

func (j *phaseJob) run(s *stream) error {
	s.reap(true)
	j.phase = s.phase
	return nil
}
func (*phaseJob) cancel() {}
func (*phaseJob) done()   {}

func (s *stream) phaseNow() uint16 {
	var j phaseJob
	s.do(&j) // fails on a closed stream alone, whose phase is 0
	return j.phase
}

// close waits for all work and ends the stream. It returns the errors of
// launches whose outcome nobody has seen.
func (s *stream) close() error {
	s.mu.Lock()
	s.closed = true
	last := s.last
	s.mu.Unlock()
	if last != nil {
		<-last.finished
	}
	s.reap(true)
	if err := s.takeDeferred(); err != nil {
		s.s.Close()
		return err
	}
	return errors.Join(s.s.Synchronize(context.Background()), s.s.Close())
}
