package core

import (
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
)

// memory is a stretch of a device's memory, counted by those who use it:
// buffers, views exported to others, and launches under way. The last to let
// go gives it back.
type memory struct {
	refs
	addr    uintptr
	bytes   int64
	device  *Device
	owner   *Executor // whose quota it counts against; nil: nobody's
	block   block     // from the device's pool; zero for foreign memory
	foreign bool
	deleter func() // of foreign memory; may be nil
	// borrow counts the work that uses foreign memory without a deleter, whose
	// owner cannot be told when that has ended; nil for other memory.
	borrow *borrow
	// user is the stream that last queued work on it, on an asynchronous device.
	user atomic.Pointer[stream]
}

// release takes a user away.
func (m *memory) release() {
	if !m.drop() {
		return
	}
	if m.owner != nil {
		m.owner.used.Add(-m.block.size)
	}
	if m.foreign {
		if m.deleter != nil {
			m.deleter()
		}
		return
	}
	m.device.pool.give(m.block)
}

// begin adds work that uses the memory, unless its last user is already gone.
func (m *memory) begin() bool {
	if !m.acquire() {
		return false
	}
	if m.borrow != nil {
		m.borrow.add(1)
	}
	return true
}

// end takes work away that begin, or acquire, added.
func (m *memory) end() {
	if m.borrow != nil {
		m.borrow.add(-1)
	}
	m.release()
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

// idle returns a channel that is closed once there is no work, or nil if there is none.
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

// refs counts the users of something that ends with the last of them.
type refs struct{ n atomic.Int64 }

// acquire adds a user, unless the last is already gone.
func (r *refs) acquire() bool {
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

// drop takes a user away and reports whether it was the last.
func (r *refs) drop() bool { return r.n.Add(-1) == 0 }

// block is a piece of device memory that the pool hands out.
type block struct {
	mem  backends.Memory
	size int64 // bytes of its size class
	// given tells in which order cached blocks came back.
	given uint64
	// fresh memory is zero as the backend gave it.
	fresh bool
}
