package core

import (
	"errors"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// fence is work that only waits for what is before it, and looks at what that left.
type fence struct {
	stream queue.Stream
	report bool   // errors that nobody has seen
	phase  *int32 // where the phase goes; may be nil
	state  atomic.Int32
}

// The states of work that its caller need not wait for.
const (
	waits     = iota
	busy      // with the caller's memory, before the device is
	looks     // at the caller's memory, after the device was
	abandoned // by the caller
)

func (f *fence) Run(t *queue.Target) (backends.Ticket, error) {
	if f.phase == nil || !t.Async {
		return t.Last, nil
	}
	t.Order.Lock()
	defer t.Order.Unlock()
	if err := t.Phase.Before(t.Line, false); err != nil {
		return 0, status.FromBackend("wait", err)
	}
	return t.Mark()
}

func (f *fence) Outcome(err error) error {
	if !f.state.CompareAndSwap(waits, looks) {
		return nil
	}
	if f.phase != nil {
		*f.phase = int32(atomic.LoadUint32(f.stream.Target().PhaseCell()))
	}
	if err != nil {
		return status.FromBackend("wait", err)
	}
	if !f.report {
		return nil
	}
	return f.stream.Errors()
}

func (f *fence) Cancel() bool { return f.state.CompareAndSwap(waits, abandoned) }
func (f *fence) Release()     {}

// Waits says that a fence is queue.Waiting.
func (f *fence) Waits() {}

// everything waits for events.
type everything struct {
	events []*Event
	errs   []error
	stop   atomic.Bool
}

func (e *everything) Run(*queue.Target) (backends.Ticket, error) {
	for _, ev := range e.events {
		err := queue.Await(ev, e.stop.Load)
		if e.stop.Load() && !ev.Done() {
			// Else its errors were taken and told to nobody. It ends at once.
			ev.Cancel()
			err = queue.Await(ev, func() bool { return false })
		}
		if err != nil {
			e.errs = append(e.errs, err)
		}
	}
	return 0, nil
}

func (e *everything) Outcome(err error) error {
	if len(e.errs) == 0 {
		return err
	}
	return errors.Join(e.errs...)
}

func (e *everything) Cancel() bool {
	e.stop.Store(true)
	return false
}
func (e *everything) Release() {}

// Waits says that it is queue.Waiting.
func (e *everything) Waits() {}
