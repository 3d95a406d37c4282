// Package memory is core's room for the memory of devices: counted Memory, the
// Pool that recycles it, and in which order streams may use it.
//
// Memory belongs to those who count themselves as its users: buffers, views
// exported to others, work that has not begun. Work that a device has queued is
// no user of pooled memory: the memory notes the work's ticket instead, and who
// uses the memory next, on another stream, waits for the ticket on the device.
// So a block that is freed can be used again at once. Memory of others has no
// next user that could wait; work stays its user until the ticket has passed.
//
// memory.go counts users, order.go knows what streams have queued on memory and
// lets them wait for each other, loan.go has others queue without saying so, pool.go
// recycles blocks and trim.go gives them back, account.go bounds what somebody has of
// them and scratch.go lends them.
package memory

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/core/lock"
)

// Memory is a stretch of a device's memory. That of a pool goes back to it with
// its last user, and comes again from there as another's: who may count himself as
// a user too late asks after that whether what he saw it by still is.
type Memory struct {
	Refs
	Addr  uintptr
	Bytes int64

	block            // of a pool's
	foreign *foreign // nil: it is a pool's
	order   *order   // nil: no stream has queued anything on it yet
	lent    lent     // under the same lock as order
}

// foreign is what there is to know of memory that others own.
type foreign struct {
	forget  func() // the device; may be nil
	deleter func() // may be nil
	// work counts the work that uses memory without a deleter, whose owner cannot
	// be told when that has ended; nil for other memory.
	work *workCount
}

// Foreign makes memory that others own, with the caller as its user. When the
// last user is gone forget, and then deleter, is called once; either may be nil.
// forget is for the device, deleter for the owner: without it, others wait until
// the memory is Idle.
func Foreign(addr uintptr, bytes int64, forget, deleter func()) *Memory {
	made := new(struct { // one allocation
		Memory
		foreign
		order
	})
	m, f := &made.Memory, &made.foreign
	m.Addr, m.Bytes, m.foreign, m.order = addr, bytes, f, &made.order
	f.forget, f.deleter = forget, deleter
	if deleter == nil {
		f.work = new(workCount)
	}
	m.n.Store(1)
	return m
}

// Disown forgets the deleter of memory whose owner keeps the duty.
func (m *Memory) Disown() {
	if m.foreign != nil {
		m.foreign.deleter = nil
	}
}

// IsForeign reports whether others own the memory.
func (m *Memory) IsForeign() bool { return m.foreign != nil }

// Release takes a user away. The last one's may call a deleter, so no lock is held.
func (m *Memory) Release() {
	if !m.Drop() {
		return
	}
	if f := m.foreign; f != nil {
		if f.forget != nil {
			f.forget()
		}
		if f.deleter != nil {
			lock.None()
			f.deleter()
		}
		return
	}
	m.recall(nil)
	if m.uses != nil || m.order != nil {
		m.uses = m.pending()
		m.order.forget()
	}
	m.pool.give(m)
}

// Begin adds work that uses the memory, unless its last user is already gone.
func (m *Memory) Begin() bool {
	if !m.Acquire() {
		return false
	}
	if m.foreign != nil && m.foreign.work != nil {
		m.foreign.work.add(1)
	}
	return true
}

// End takes work away that Begin added.
func (m *Memory) End() {
	if m.foreign != nil && m.foreign.work != nil {
		m.foreign.work.add(-1)
	}
	m.Release()
}

// Idle returns a channel that is closed once no work uses the memory, or nil if
// none does or its owner is told by a deleter.
func (m *Memory) Idle() <-chan struct{} {
	if m.foreign == nil || m.foreign.work == nil {
		return nil
	}
	return m.foreign.work.idle()
}

// workCount counts work, and lets others wait until there is none.
type workCount struct {
	mu   lock.Mutex[lock.Last]
	work int
	none chan struct{} // closed when there is none; nil while nobody waits
}

func (b *workCount) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.work += n; b.work == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

func (b *workCount) idle() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.work == 0 {
		return nil
	}
	if b.none == nil {
		b.none = make(chan struct{})
	}
	return b.none
}

// Refs counts the users of something that ends with the last of them.
type Refs struct{ n atomic.Int64 }

// Start sets the number of users.
func (r *Refs) Start(n int64) { r.n.Store(n) }

// Users is the number of users.
func (r *Refs) Users() int64 { return r.n.Load() }

// Acquire adds a user, unless the last is already gone.
func (r *Refs) Acquire() bool {
	for {
		n := r.n.Load()
		if n == 0 {
			return false
		}
		if r.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Drop takes a user away and reports whether it was the last.
func (r *Refs) Drop() bool { return r.n.Add(-1) == 0 }
