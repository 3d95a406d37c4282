package memory

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
)

// Line is a stream as memory knows it: who waits for whom. It outlives the
// stream, all of whose tickets have passed when it is closed.
type Line struct {
	Stream backends.Stream
	mu     lock.RWMutex[lock.Line] // held by those of other streams who look at the stream
	seen   atomic.Uint64           // the last ticket that was found to have passed; gone: it is closed
}

// gone is the last ticket of a stream that is closed.
const gone = math.MaxUint64

// Close says that the stream's work is done, and that the stream goes: when
// Close returns, nobody looks at it, nor will.
func (l *Line) Close() {
	l.mu.Lock()
	l.seen.Store(gone)
	l.mu.Unlock()
}

// Passed reports whether work with a ticket is done.
func (l *Line) Passed(t backends.Ticket) bool {
	if l.known(t) {
		return true
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.passed(t)
}

// Closed reports whether the stream is.
func (l *Line) Closed() bool { return l.known(gone) }

// Given is the last ticket that the stream gave, of those on which code is entered
// by others: 0, which has passed, of others and of one that is closed.
func (l *Line) Given() backends.Ticket {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s, ok := l.Stream.(backends.Shared); ok && !l.Closed() {
		return s.Given()
	}
	return 0
}

// known is Passed from memory, for those who hold a lock: a device that is asked
// may wait.
func (l *Line) known(t backends.Ticket) bool { return backends.Ticket(l.seen.Load()) >= t }

func (l *Line) passed(t backends.Ticket) bool {
	if !l.known(t) {
		l.look()
	}
	return l.known(t)
}

// look asks the device what has passed. The caller holds the lock.
func (l *Line) look() {
	if !l.Closed() {
		l.seen.Store(uint64(l.Stream.Passed()))
	}
}

// use is work on a stream that uses memory.
type use struct {
	line   *Line
	ticket backends.Ticket
}

// order is what a stretch of memory was last used for: the last write, and the
// reads after it, one a stream. Until there is a write, it is behind what earlier
// owners of the block have queued on it, its uses. It has no lock: who looks or
// notes holds the device's (queue.Target.Order), or is the only user of the memory.
type order struct {
	write use
	reads []use
}

// forget forgets all uses.
func (o *order) forget() {
	if o != nil {
		clear(o.reads)
		o.write, o.reads = use{}, o.reads[:0]
	}
}

// Before makes work that is queued on l from now on wait for what other streams
// have queued on the memory: their writes and, if the work writes, their reads.
// The caller has the stream's turn, and the device's lock until After.
func (m *Memory) Before(l *Line, writes bool) error {
	m.recall(l)
	o := m.order
	if err := l.awaitAll(m.uses); err != nil || o == nil {
		return err
	}
	if err := l.await(o.write); err != nil || !writes {
		return err
	}
	return l.awaitAll(o.reads)
}

// Claimed reports whether no stream but l has work queued on the memory that has
// not passed. If one has, l has to wait (Before) ahead of showing the memory to
// anybody who knows of l alone.
func (m *Memory) Claimed(l *Line) bool {
	m.recall(l)
	o := m.order
	others := func(u use) bool { return u.line != l && !u.passed() }
	return !slices.ContainsFunc(m.uses, others) && (o == nil || !others(o.write) && !slices.ContainsFunc(o.reads, others))
}

// After notes work that Before made way for.
func (m *Memory) After(l *Line, t backends.Ticket, writes bool) {
	if m.order == nil {
		m.order = new(order)
	}
	o := m.order
	if writes {
		o.forget()
		m.uses, o.write = nil, use{l, t}
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

// pending lists the uses of the memory that have not passed.
func (m *Memory) pending() []use {
	list := pending(nil, m.uses...)
	if o := m.order; o != nil {
		list = pending(pending(list, o.write), o.reads...)
	}
	return list
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
