package core

import (
	"math"

	"errors"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// Allocate makes a buffer of n elements. Without zeroed it may hold whatever
// the memory held before.
func (ex *Executor) Allocate(n int64, t isa.Type, zeroed bool) (*Buffer, error) {
	return ex.allocate(n, t, zeroed, false)
}

// TryAllocate is Allocate where that takes no more than some microseconds, else
// status.ErrBusy.
func (ex *Executor) TryAllocate(n int64, t isa.Type, zeroed bool) (*Buffer, error) {
	return ex.allocate(n, t, zeroed, true)
}

func (ex *Executor) allocate(n int64, t isa.Type, zeroed, try bool) (*Buffer, error) {
	if !t.Numeric() {
		return nil, Errorf(BadType, "allocate: dtype code %d names no type", t)
	}
	if n <= 0 {
		return nil, Errorf(Invalid, "allocate: size is %d; expected a positive number of elements", n)
	}
	if n > memory.MaxBytes/int64(t.Size()) {
		err := Errorf(OutOfMemory, "allocate: %d elements of %v are more than any device holds", n, t)
		stats := ex.device.pool.Stats()
		err.Short = &Short{Asked: math.MaxInt64, Free: max(0, stats.Limit-stats.Reserved), Cached: stats.Cached}
		if n <= math.MaxInt64/int64(t.Size()) {
			err.Short.Asked = n * int64(t.Size())
		}
		return nil, err
	}
	m, err := ex.memory(n*int64(t.Size()), zeroed, try)
	if err != nil {
		return nil, ex.device.loss.Tell(status.Within("allocate", err))
	}
	b := &Buffer{ex: ex, mem: m, addr: m.Addr, n: n, dtype: t, packed: true, class: -1}
	if err := ex.enlist(b); err != nil {
		m.Release()
		return nil, err
	}
	return b, nil
}

// AllocateBoundary makes a buffer of width·height elements on the executor's
// boundary pool, from the start of a class on: element 0 is Φ(class, 0, 0).
// Buffers of one class share its 12,288 bytes, as Φ-addresses do, and no buffer
// reaches beyond its class. width is at most 48, height at most 256.
func (ex *Executor) AllocateBoundary(class, width, height int64, t isa.Type) (*Buffer, error) {
	const what = "allocate_boundary"
	switch {
	case !t.Numeric():
		return nil, Errorf(BadType, what+": dtype code %d names no type", t)
	case class < 0 || class >= isa.NumClasses:
		return nil, Errorf(Invalid, what+": class_index is %d; expected 0 … %d", class, isa.NumClasses-1)
	case width <= 0 || width > isa.PagesPerClass:
		return nil, Errorf(Invalid, what+": width is %d; expected 1 … %d", width, isa.PagesPerClass)
	case height <= 0 || height > isa.PageBytes:
		return nil, Errorf(Invalid, what+": height is %d; expected 1 … %d", height, isa.PageBytes)
	}
	n := width * height
	if bytes := n * int64(t.Size()); bytes > isa.ClassBytes {
		return nil, Errorf(Invalid, what+": %d × %d elements of %v are %d bytes; a class has %d", width, height, t, bytes, isa.ClassBytes)
	}
	pool, err := ex.boundaryPool(false)
	if err != nil {
		return nil, status.Within(what, err)
	}
	b := &Buffer{ex: ex, mem: pool, addr: pool.Addr + uintptr(class*isa.ClassBytes), n: n, dtype: t, packed: true, class: int16(class)}
	if err := ex.enlist(b); err != nil {
		pool.Release()
		return nil, err
	}
	return b, nil
}

// boundaryPool returns the executor's boundary pool, with the caller counted.
// With try it is not made: status.ErrBusy.
func (ex *Executor) boundaryPool(try bool) (*memory.Memory, error) {
	ex.mu.Lock()
	pool, closed := ex.boundary, ex.closed
	if pool != nil {
		pool.Acquire()
	}
	ex.mu.Unlock()
	if pool != nil {
		return pool, nil
	}
	if closed {
		return nil, queue.ErrFreed
	}
	if try {
		return nil, status.ErrBusy
	}
	fresh, err := ex.memory(isa.BoundaryBytes, true, false)
	if err != nil {
		return nil, err
	}
	ex.mu.Lock()
	pool, closed = ex.boundary, ex.closed
	if pool == nil && !closed {
		ex.boundary, pool, fresh = fresh, fresh, nil
	}
	if pool != nil {
		pool.Acquire()
	}
	ex.mu.Unlock()
	if fresh != nil { // it is closed, or another goroutine was faster
		fresh.Release()
	}
	if closed {
		return nil, queue.ErrFreed
	}
	return pool, nil
}

// zeroAtOnce is how many bytes a call that must not take long still zeroes.
const zeroAtOnce = 64 << 10

// memory takes memory on the executor's account. Zeroed says whether it must be
// zero; on a device that works by itself it is for the executor's stream, in
// order, and for others, who wait for that. With try it is at hand, else
// status.ErrBusy.
func (ex *Executor) memory(bytes int64, zeroed, try bool) (m *memory.Memory, err error) {
	if try && (ex.device.Info.Asynchronous || zeroed && bytes > zeroAtOnce) {
		return nil, status.ErrBusy
	}
	pool, fresh := ex.device.pool, false
	if !ex.device.Info.Asynchronous {
		if try {
			m, fresh, err = pool.AtHand(bytes, &ex.account)
		} else {
			m, fresh, err = pool.Take(nil, bytes, &ex.account)
		}
		if err == nil && zeroed && !fresh {
			clear(hostmem.Bytes(m.Addr, m.Bytes))
		}
		return m, err
	}
	line := ex.stream.Line()
	if zeroed && line == nil {
		return pool.Fresh(bytes, &ex.account)
	}
	m, fresh, err = pool.Take(line, bytes, &ex.account)
	if err != nil {
		return nil, err
	}
	switch {
	case zeroed && !fresh:
		if err = ex.zero(m); errors.Is(err, errBehind) {
			m.Release()
			return pool.Fresh(bytes, &ex.account)
		}
	case line != nil && !m.Claimed(line):
		// Who synchronizes with the executor's stream alone may use the memory then.
		m.Acquire()
		if _, err = ex.stream.Submit(&claim{m, 0}, queue.How{}); err == queue.ErrCapturing { // begun since
			m.Release()
			m, _, err = pool.Take(nil, bytes, &ex.account)
			return m, err
		}
	}
	if err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
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
	ticket, err := t.Fill("zero", c.m.Addr, 0, 1, c.zero)
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
