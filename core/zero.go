package core

import (
	"errors"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// zeroAtOnce is how many bytes a call that must not take long still zeroes.
const zeroAtOnce = 64 << 10

// memory makes m counted memory on the executor's account. Zeroed says whether
// it must be zero; on a device that works by itself it is for the executor's
// stream, in order, and for others, who wait for that. With try it is at hand,
// else status.ErrBusy.
func (ex *Executor) memory(m *memory.Memory, bytes int64, zeroed, try bool) error {
	if try && (ex.device.Info.Asynchronous || zeroed && bytes > zeroAtOnce) {
		return status.ErrBusy
	}
	pool := ex.device.pool
	if !ex.device.Info.Asynchronous {
		fresh, err := pool.Fill(m, nil, bytes, &ex.account, try)
		if err == nil && zeroed && !fresh {
			clear(hostmem.Bytes(m.Addr, m.Bytes))
		}
		return err
	}
	line := ex.stream.Line()
	if zeroed && line == nil {
		return pool.Fresh(m, bytes, &ex.account)
	}
	fresh, err := pool.Fill(m, line, bytes, &ex.account, false)
	if err != nil {
		return err
	}
	switch {
	case zeroed && !fresh:
		if err = ex.zero(m); errors.Is(err, errBehind) {
			m.Release()
			return pool.Fresh(m, bytes, &ex.account)
		}
	case line != nil && !m.Claimed(line):
		// Who synchronizes with the executor's stream alone may use the memory then.
		m.Acquire()
		if _, err = ex.stream.Submit(&claim{m, 0}, queue.How{}); err == queue.ErrCapturing { // begun since
			m.Release()
			_, err = pool.Fill(m, nil, bytes, &ex.account, false)
			return err
		}
	}
	if err != nil {
		m.Release()
	}
	return err
}

// zeroPatience is how long an allocation waits for its zeroing to be queued:
// others that queue on the stream at the same time take less.
const zeroPatience = 2 * time.Millisecond

// errBehind says that a stream has so much to do, or captures, that it cannot be
// made to zero memory now.
var errBehind = errors.New("the stream is behind")

// zero has the executor's stream zero memory. When it returns that is queued,
// so that others find it there; else nobody will do it.
func (ex *Executor) zero(m *memory.Memory) error {
	m.Acquire()
	ev, err := ex.stream.Submit(&claim{m, m.Bytes}, queue.How{})
	if ev == nil {
		if err == queue.ErrCapturing { // begun since
			err = errBehind
		}
		return err
	}
	err = ev.Wait(zeroPatience)
	for errors.Is(err, backends.ErrPending) {
		ev.Cancel()
		err = ev.Wait(zeroPatience) // where it had begun
	}
	if status.CodeOf(err) == Cancelled {
		return errBehind
	}
	return err
}

// claim is work that makes a stream wait for what earlier owners of memory have
// queued on it, and may zero it. It is a user of the memory until that is
// queued: who allocates may have given up before.
type claim struct {
	m    *memory.Memory
	zero int64 // bytes
}

func (c *claim) Run(t *queue.Target) (backends.Ticket, error) {
	defer c.letGo()
	t.Order.Lock()
	defer t.Order.Unlock()
	if err := c.m.Before(t.Line, true); err != nil {
		return 0, err
	}
	if c.zero == 0 {
		return t.Mark()
	}
	ticket, err := t.Line.Stream.Fill(c.m.Addr, 0, 1, c.zero)
	if err == nil {
		c.m.After(t.Line, ticket, true)
	}
	return ticket, err
}

func (c *claim) Outcome(err error) error {
	if c.zero > 0 {
		return status.FromBackend("zeroing of "+status.Size(c.zero), err)
	}
	return status.FromBackend("allocate", err)
}

func (*claim) Cancel() bool { return false }
func (c *claim) Release()   { c.letGo() }

func (c *claim) letGo() {
	if c.m != nil {
		c.m.Release()
		c.m = nil
	}
}
