package queue

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/status"
)

// Event is work that goes on while its caller does something else.
type Event struct {
	finished chan struct{} // closed when the outcome is there
	err      error
	how      How
	waits    bool      // the work is Waiting
	beside   bool      // no other work waits for it
	stream   *Deferred // that has to be looked at for the event to finish; nil: it finishes by itself

	mu    lock.Mutex[lock.Event]
	work  Work // until it is over
	begun bool
	over  bool // finished is closed
}

func newEvent(w Work, how How) *Event {
	_, waits := w.(Waiting)
	return &Event{finished: make(chan struct{}), work: w, how: how, waits: waits}
}

// Wait returns the outcome, or backends.ErrPending after the given time.
func (e *Event) Wait(d time.Duration) error {
	if e.Done() {
		return e.err
	}
	if e.stream != nil {
		e.stream.help(e, d)
		if e.Done() {
			return e.err
		}
		return backends.ErrPending
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

// Leave waits until nothing that the caller of the work has lent is used any more.
// The work was cancelled. What runs beside a stream was lent nothing, and may be
// what calls this. So may a deleter, of memory that the work lets go of: the work
// has parted from the event then, after its last use of what it was lent.
func (e *Event) Leave() {
	for !e.beside && !e.parted() && errors.Is(e.Wait(LookTime), backends.ErrPending) {
	}
}

func (e *Event) parted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.work == nil
}

// Done reports whether the outcome is there.
func (e *Event) Done() bool {
	select {
	case <-e.finished:
		return true
	default:
		return false
	}
}

// Cancel asks the work to end soon, and no other. Its outcome then is of kind
// Cancelled, unless it was over before.
func (e *Event) Cancel() {
	e.mu.Lock()
	w, begun := e.work, e.begun
	if w == nil || e.over {
		e.mu.Unlock()
		return
	}
	if !begun {
		e.work = nil
		e.mu.Unlock()
		w.Release() // before anybody is told, who may do something else then with what it used
		e.finish(errNotBegun)
		return
	}
	if w.Cancel() {
		e.end(errAbandoned)
	}
	e.mu.Unlock()
}

// begin returns the work, or nil if that was cancelled.
func (e *Event) begin() Work {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
	return e.work
}

// leave parts the event and its work, which nobody cancels from now on. It comes
// before the work is released, since what it is made of may then be another's.
func (e *Event) leave() {
	e.mu.Lock()
	e.work = nil
	e.mu.Unlock()
}

// finish gives the outcome, unless the event was abandoned.
func (e *Event) finish(err error) {
	e.mu.Lock()
	e.end(err)
	e.mu.Unlock()
}

// end gives the outcome. The caller holds the lock.
func (e *Event) end(err error) {
	if !e.over {
		e.over, e.err = true, err
		close(e.finished)
	}
}

// errPanicked is the cause of the error of work that panicked.
var errPanicked = errors.New("panic")

// run runs work. A panic, which would end the process where the goroutine is the
// library's, is an error.
func run(w Work, t *Target) (ticket backends.Ticket, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = status.Errorf(status.Internal, "%w: %v\n%s", errPanicked, r, debug.Stack())
		}
	}()
	return w.Run(t)
}

// Await waits for an event until stop tells it to give up.
func Await(e *Event, stop func() bool) error {
	for {
		err := e.Wait(LookTime)
		if err != backends.ErrPending {
			return err
		}
		if stop() {
			return errAbandoned
		}
	}
}

// LookTime is how long one look at work that goes on takes.
const LookTime = 10 * time.Millisecond
