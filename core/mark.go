package core

import (
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// Mark is a place in the order of a stream, which the device notes when it comes to
// it: others wait for it, and ask how long it is behind another.
type Mark struct {
	ex     *Executor
	event  *Event // until the device has come to it; nil: it had, or never will
	err    error  // why it never will
	once   sync.Once
	placed chan struct{} // closed when the place is queued, or will not be

	// token is no memory: the work on it is what is before the place, so that who
	// waits for the place waits as for memory's last use.
	token *memory.Memory
	clock backends.Timing // nil: the device has none
	at    time.Time       // on a device that works while called
}

// Record makes a mark behind what was queued so far on the executor's own stream, or
// for native, which is not 0, on that stream of others.
func (ex *Executor) Record(native uintptr) (*Mark, error) {
	m := &Mark{ex: ex, placed: make(chan struct{}), token: memory.Foreign(0, 0, nil, func() {})}
	m.token.Acquire()
	m.event, m.err = ex.submitTo(native, &placing{mark: m}, queue.How{Outcome: true})
	if m.err != nil {
		m.token.Release()
		return nil, m.err
	}
	return m, nil
}

// Wait returns nil when the device has come to the mark, and an error of kind Pending
// if it has not after d.
func (m *Mark) Wait(d time.Duration) error {
	if m.event == nil {
		return m.err
	}
	return m.event.Wait(d)
}

// Since tells how long the mark is behind an earlier one of the same device. The
// device has come to both.
func (m *Mark) Since(earlier *Mark) (time.Duration, error) {
	if m.ex.device != earlier.ex.device {
		return 0, Errorf(Invalid, "elapsed: the events are on %s and %s, whose clocks differ", earlier.ex.device.Name, m.ex.device.Name)
	}
	for _, one := range []*Mark{earlier, m} {
		if err := one.Wait(0); status.CodeOf(err) == status.Pending {
			return 0, Errorf(Invalid, "elapsed: the device has not come to both events yet; synchronize before")
		} else if err != nil {
			return 0, status.Within("elapsed", err)
		}
	}
	if !m.ex.device.Info.Asynchronous {
		return m.at.Sub(earlier.at), nil
	}
	c, ok := m.clock.(backends.Comparer)
	if !ok || earlier.clock == nil {
		return 0, Errorf(Unavailable, "elapsed: %s does not tell times", m.ex.device.Name)
	}
	d, err := c.Since(earlier.clock)
	return d, status.FromBackend("elapsed", err)
}

// Free lets go of the mark. What waits for it goes on waiting.
func (m *Mark) Free() {
	select {
	case <-m.placed:
		m.free()
	default:
		go m.free()
	}
}

func (m *Mark) free() {
	<-m.placed
	if m.clock != nil {
		m.clock.Release()
	}
	m.token.Release()
}

// placing queues a mark.
type placing struct {
	caller
	mark *Mark
}

func (p *placing) Run(t *queue.Target) (backends.Ticket, error) {
	m := p.mark
	defer m.place()
	if !t.Async {
		m.at = time.Now()
		return t.Last, nil
	}
	t.Order.Lock()
	defer t.Order.Unlock()
	if timer, ok := t.Line.Stream.(backends.Timer); ok {
		m.clock = timer.Time()
	}
	ticket, err := t.Mark()
	if err == nil {
		m.token.After(t.Line, ticket, true)
	}
	return ticket, err
}

func (m *Mark) place() { m.once.Do(func() { close(m.placed) }) }

// Cancel leaves it: a mark that is placed is come to.
func (p *placing) Cancel() bool { return false }

func (p *placing) Outcome(err error) error { return status.FromBackend("event", err) }

func (p *placing) Release() {
	p.mark.place()
	p.mark.token.Release()
}

// Await has the executor's own stream, or for native, which is not 0, that stream of
// others, wait for a mark of the same device before it does what is queued from now on.
func (ex *Executor) Await(m *Mark, native uintptr) (*Event, error) {
	if m.ex.device != ex.device {
		return nil, Errorf(Invalid, "wait: the event is on %s, the executor on %s: wait for it by its synchronize", m.ex.device.Name, ex.device.Name)
	}
	if !m.token.Acquire() {
		return nil, Errorf(BadHandle, "wait: the event is freed")
	}
	long := true
	select {
	case <-m.placed:
		long = false
	default:
	}
	return ex.submitTo(native, &following{mark: m}, queue.How{Long: long})
}

// following lets a stream wait for a mark.
type following struct {
	caller
	mark *Mark
}

func (f *following) Run(t *queue.Target) (backends.Ticket, error) {
	for placed := false; !placed; {
		select {
		case <-f.mark.placed:
			placed = true
		case <-time.After(queue.LookTime):
			if f.gone.Load() {
				return 0, Errorf(Cancelled, "wait: cancelled while it waited for the event")
			}
		}
	}
	if !t.Async {
		return t.Last, nil
	}
	t.Order.Lock()
	defer t.Order.Unlock()
	return t.Last, f.mark.token.Before(t.Line, false)
}

func (f *following) Outcome(err error) error { return status.FromBackend("wait", err) }
func (f *following) Release()                { f.mark.token.Release() }

// Ready has a stream of others, or the executor's own if native is 0, wait for all that
// other streams have queued on the buffer's memory before it does what comes from now on.
func (b *Buffer) Ready(native uintptr) (*Event, error) {
	if err := b.use("ready"); err != nil {
		return nil, err
	}
	ex := b.ex
	if !ex.device.Info.Asynchronous {
		b.mem.End()
		return nil, nil
	}
	if line := ex.lineOf(native); line != nil {
		ex.device.order.Lock()
		claimed := b.mem.Claimed(line)
		ex.device.order.Unlock()
		if claimed {
			b.mem.End()
			return nil, nil
		}
	}
	return ex.submitTo(native, &fence{memory: []*memory.Memory{b.mem}}, queue.How{})
}
