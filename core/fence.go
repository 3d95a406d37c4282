package core

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// caller is who waits for work that is queue.Waiting, and that touches his memory
// while he does. Whoever embeds it is told when he gives up.
type caller struct {
	state atomic.Int32
	gone  atomic.Bool // he wants to give up
}

// The states of a caller.
const (
	waits     = iota
	taken     // his memory is being touched: he cannot give up
	abandoned // he gave up: nothing of his is touched any more
)

// take says that his memory is touched from now on. It is false if he gave up.
func (c *caller) take() bool { return c.state.CompareAndSwap(waits, taken) }

// leave says that his memory is not touched for now. It is false if he gives up.
func (c *caller) leave() bool {
	c.state.Store(waits)
	return !c.gone.Load() || !c.Cancel()
}

// Cancel is queue.Work's: he gives up.
func (c *caller) Cancel() bool {
	c.gone.Store(true)
	return c.state.CompareAndSwap(waits, abandoned)
}

// Waits says that it is queue.Waiting.
func (c *caller) Waits() {}

// gathered is what work of an executor's own stream finds when it asks in its
// Outcome for the errors of all: what has passed on the streams of others, to be let
// go of in its Release.
type gathered []func()

// errors returns, and forgets, those of work on all streams whose outcome nobody
// has seen.
func (g *gathered) errors(ex *Executor) error {
	list, release := ex.streams()
	defer release()
	errs := []error{list[0].Errors()}
	for _, s := range list[1:] {
		letGo, err := s.Gather()
		if errs = append(errs, err); letGo != nil {
			*g = append(*g, letGo)
		}
	}
	return status.Join(errs...)
}

func (g *gathered) letGo() {
	for _, f := range *g {
		f()
	}
	*g = nil
}

// fence is work that only waits for what is before it, and looks at what that left.
type fence struct {
	caller
	errors func() error // those that nobody has seen; nil: they are left to others
	all    *Executor    // of which those of all streams are told; nil: errors'
	gathered
	phase *int32  // where the phase goes; may be nil
	cell  *uint32 // where it is
	// memory, counted as work, is what the host is going to use, behind all that
	// streams have queued on it.
	memory []*memory.Memory
}

func (f *fence) Run(t *queue.Target) (backends.Ticket, error) {
	if f.phase != nil {
		f.cell = t.PhaseCell()
	}
	if !t.Async || f.phase == nil && len(f.memory) == 0 {
		return t.Last, nil
	}
	t.Order.Lock()
	defer t.Order.Unlock()
	if f.phase != nil {
		if err := t.Phase.Before(t.Line, false); err != nil {
			return 0, status.FromBackend("wait", err)
		}
	}
	for _, m := range f.memory {
		if err := m.Before(t.Line, true); err != nil {
			return 0, status.FromBackend("wait", err)
		}
	}
	return t.Mark()
}

func (f *fence) Outcome(err error) error {
	if !f.take() {
		return nil
	}
	if err != nil {
		return status.FromBackend("wait", err)
	}
	if f.phase != nil {
		*f.phase = int32(atomic.LoadUint32(f.cell))
	}
	switch {
	case f.all != nil:
		return f.gathered.errors(f.all)
	case f.errors != nil:
		return f.errors()
	}
	return nil
}

func (f *fence) Release() {
	f.letGo()
	for _, m := range f.memory {
		m.End()
	}
}

// everything waits for events. What they tell is told: its caller, of whom it takes
// nothing, is taken from the beginning.
type everything struct {
	caller
	events []*Event
	errs   []error
}

func (e *everything) Run(*queue.Target) (backends.Ticket, error) {
	for _, ev := range e.events {
		err := queue.Await(ev, e.gone.Load)
		if e.gone.Load() && !ev.Done() {
			// Else its errors were taken and told to nobody. It ends at once.
			ev.Cancel()
			err = queue.Await(ev, func() bool { return false })
		}
		e.errs = append(e.errs, err)
	}
	return 0, nil
}

func (e *everything) Outcome(err error) error { return status.Join(append(e.errs, err)...) }
func (e *everything) Release()                {}
