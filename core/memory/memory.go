// Package memory is core's room for the memory of devices: counted Memory, the
// Pool that recycles it, and in which order streams may use it.
//
// Memory belongs to those who count themselves as its users: buffers, views
// exported to others, work that has not begun. Work that a device has queued is
// no user of pooled memory: the memory notes the work's ticket instead, and who
// uses the memory next, on another stream, waits for the ticket on the device.
// So a block that is freed can be used again at once. Memory of others has no
// next user that could wait; work stays its user until the ticket has passed.
package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
)

// Memory is a stretch of a device's memory.
type Memory struct {
	Refs
	Addr  uintptr
	Bytes int64

	pool    *Pool    // that the block goes back to; of foreign memory its device's
	block   block    // zero for foreign memory
	account *Account // that it counts against; nil: nobody's
	foreign bool
	forget  func() // the device, of foreign memory; may be nil
	deleter func() // of foreign memory; may be nil
	// borrow counts the work that uses foreign memory without a deleter, whose
	// owner cannot be told when that has ended; nil for other memory.
	borrow *borrow
	order  order
}

// Foreign makes memory that others own, with the caller as its user. When the
// last user is gone forget, and then deleter, is called once; either may be nil.
// forget is for the device, deleter for the owner: without it, others wait until
// the memory is Idle.
func (p *Pool) Foreign(addr uintptr, bytes int64, forget, deleter func()) *Memory {
	m := &Memory{Addr: addr, Bytes: bytes, pool: p, foreign: true, forget: forget, deleter: deleter}
	if deleter == nil {
		m.borrow = new(borrow)
	}
	m.n.Store(1)
	return m
}

// Disown forgets the deleter of memory whose owner keeps the duty.
func (m *Memory) Disown() { m.deleter = nil }

// Pool returns the pool of the device that the memory is on.
func (m *Memory) Pool() *Pool { return m.pool }

// IsForeign reports whether others own the memory.
func (m *Memory) IsForeign() bool { return m.foreign }

// Release takes a user away. The last one's may call a deleter, so no lock is held.
func (m *Memory) Release() {
	if !m.Drop() {
		return
	}
	if m.account != nil {
		m.account.used.Add(-m.block.size)
	}
	if m.foreign {
		if m.forget != nil {
			m.forget()
		}
		if m.deleter != nil {
			m.deleter()
		}
		return
	}
	m.block.uses = m.order.all()
	m.pool.give(m.block)
}

// Begin adds work that uses the memory, unless its last user is already gone.
func (m *Memory) Begin() bool {
	if !m.Acquire() {
		return false
	}
	if m.borrow != nil {
		m.borrow.add(1)
	}
	return true
}

// End takes work away that Begin added.
func (m *Memory) End() {
	if m.borrow != nil {
		m.borrow.add(-1)
	}
	m.Release()
}

// Idle returns a channel that is closed once no work uses the memory, or nil if
// none does or its owner is told by a deleter.
func (m *Memory) Idle() <-chan struct{} {
	if m.borrow == nil {
		return nil
	}
	return m.borrow.idle()
}

// borrow counts work, and lets others wait until there is none.
type borrow struct {
	mu   sync.Mutex
	work int
	none chan struct{} // closed when there is none; nil while nobody waits
}

func (b *borrow) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.work += n; b.work == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

func (b *borrow) idle() <-chan struct{} {
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

// Account is a bound on what somebody's memory may take together.
type Account struct{ quota, used atomic.Int64 }

// SetQuota bounds the bytes; 0 lifts the bound.
func (a *Account) SetQuota(bytes int64) { a.quota.Store(bytes) }

// Quota returns the bound; 0 is none.
func (a *Account) Quota() int64 { return a.quota.Load() }

// Used returns the bytes taken.
func (a *Account) Used() int64 { return a.used.Load() }

// Line is a stream as memory knows it: who waits for whom. It outlives the
// stream, all of whose tickets have passed when it is closed.
type Line struct {
	Stream backends.Stream
	mu     sync.RWMutex // held by those of other streams who look at the stream
	closed bool
}

// Close says that the stream's work is done, and that the stream goes: when
// Close returns, nobody looks at it, nor will.
func (l *Line) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

// Passed reports whether work with a ticket is done.
func (l *Line) Passed(t backends.Ticket) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.passed(t)
}

func (l *Line) passed(t backends.Ticket) bool { return l.closed || l.Stream.Passed() >= t }

// use is work on a stream that uses memory.
type use struct {
	line   *Line
	ticket backends.Ticket
}

// order is what a stretch of memory was last used for: the last write, and the
// reads after it, one a stream. Until there is a write, it is what earlier owners
// of the block have queued on it.
type order struct {
	mu     sync.Mutex
	former []use
	write  use
	reads  []use
}

// Before makes work that is queued on l from now on wait for what other streams
// have queued on the memory: their writes and, if the work writes, their reads.
// The caller has the stream's turn.
func (m *Memory) Before(l *Line, writes bool) error {
	o := &m.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := l.awaitAll(o.former); err != nil {
		return err
	}
	if err := l.await(o.write); err != nil || !writes {
		return err
	}
	return l.awaitAll(o.reads)
}

// Claimed reports whether work of the memory's own owner need not wait for that
// of earlier ones. If not, a stream has to wait (Before) before the memory is
// shown to anybody who knows of its owner's stream alone.
func (m *Memory) Claimed(l *Line) bool {
	o := &m.order
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range o.former {
		if u.line != l && !u.passed() {
			return false
		}
	}
	return true
}

// After notes work that Before made way for.
func (m *Memory) After(l *Line, t backends.Ticket, writes bool) {
	o := &m.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if writes {
		clear(o.reads)
		o.former, o.write, o.reads = nil, use{l, t}, o.reads[:0]
		return
	}
	for i := range o.reads {
		if o.reads[i].line == l {
			o.reads[i].ticket = t
			return
		}
	}
	// A stream more: those whose reads have passed are forgotten, since there may
	// be ever new ones.
	o.reads = append(slices.DeleteFunc(o.reads, use.passed), use{l, t})
}

func (u use) passed() bool { return u.line == nil || u.line.Passed(u.ticket) }

// pending appends those uses that have not passed to a list.
func pending(to []use, uses ...use) []use {
	for _, u := range uses {
		if !u.passed() {
			to = append(to, u)
		}
	}
	return to
}

func (l *Line) await(u use) error {
	if u.line == nil || u.line == l {
		return nil
	}
	u.line.mu.RLock()
	defer u.line.mu.RUnlock()
	if u.line.passed(u.ticket) {
		return nil
	}
	return l.Stream.Await(u.line.Stream, u.ticket)
}

func (l *Line) awaitAll(uses []use) error {
	for _, u := range uses {
		if err := l.await(u); err != nil {
			return err
		}
	}
	return nil
}

// all lists the uses that have not passed.
func (o *order) all() []use {
	o.mu.Lock()
	defer o.mu.Unlock()
	return pending(pending(pending(nil, o.former...), o.write), o.reads...)
}
