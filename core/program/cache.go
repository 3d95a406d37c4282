package program

import (
	"container/list"
	"errors"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// cacheLimit is how many compiled kernels a device's cache keeps.
const cacheLimit = 1024

// Kernel is a compiled program, counted by the cache and by the prepared calls
// that launch it.
type Kernel struct {
	backends.Kernel
	memory.Refs
	special backends.Specializer // nil: it has all code
}

// Release takes a user away.
func (k *Kernel) Release() {
	if k.Drop() {
		k.Kernel.Release()
	}
}

// Special reports whether launches of some kinds need code of their own.
func (k *Kernel) Special() bool { return k.special != nil }

// Specialize makes the code that a launch needs, if it is not there. With try
// that is status.ErrBusy.
func (k *Kernel) Specialize(l *backends.Launch, try bool) error {
	defer fpenv.Leave(fpenv.Enter()) // as where kernels are compiled
	err := k.special.Specialize(l, try)
	if try && errors.Is(err, backends.ErrPending) {
		return status.ErrBusy
	}
	return err
}

// Stats says how a device's cache of compiled kernels does.
type Stats struct {
	Entries, Limit          int
	Hits, Misses, Evictions int64
}

// Cache keeps the kernels of a device that were used last. Each is compiled
// once, however many callers wait for it.
type Cache struct {
	Device backends.Device
	Info   backends.Info

	mu      sync.Mutex
	limit   int
	entries map[backends.Key]*list.Element
	recent  *list.List // of *entry, the last used first
	stats   Stats
}

type entry struct {
	key  backends.Key
	done chan struct{} // closed when k or err is there
	k    *Kernel
	err  error
}

// NewCache makes the cache of a device.
func NewCache(d backends.Device) *Cache {
	return &Cache{Device: d, Info: d.Info(), limit: cacheLimit, entries: map[backends.Key]*list.Element{}, recent: list.New()}
}

// get returns the kernel of a unit's variant. The caller is counted, and
// releases it.
func (c *Cache) get(u *backends.Unit, v backends.Variant) (*Kernel, error) {
	v = v.And(c.Info.Variants)
	key := backends.KeyOf(u, v, &c.Info)
	for {
		c.mu.Lock()
		found, ok := c.entries[key]
		if !ok {
			break
		}
		c.stats.Hits++
		c.recent.MoveToFront(found)
		e := found.Value.(*entry)
		c.mu.Unlock()
		<-e.done
		if e.err != nil {
			return nil, e.err
		}
		if e.k.Acquire() { // else it was evicted meanwhile
			return e.k, nil
		}
	}
	c.stats.Misses++
	e := &entry{key: key, done: make(chan struct{})}
	c.entries[key] = c.recent.PushFront(e)
	c.mu.Unlock()
	c.compile(e, u, v)
	return e.k, e.err
}

// compile fills an entry that others may wait for, whatever happens.
func (c *Cache) compile(e *entry, u *backends.Unit, v backends.Variant) {
	e.err = errPanicked
	defer func() {
		c.mu.Lock()
		var old []*Kernel
		if e.err != nil {
			c.remove(c.entries[e.key])
		}
		for last := c.recent.Back(); c.recent.Len() > c.limit && last != nil; {
			oldest := last
			last = last.Prev()
			if k := oldest.Value.(*entry).k; k != nil { // else it is being compiled
				c.remove(oldest)
				c.stats.Evictions++
				old = append(old, k)
			}
		}
		c.mu.Unlock()
		close(e.done)
		for _, k := range old {
			k.Release()
		}
	}()
	state := fpenv.Enter() // constants are folded where expansions are lowered
	made, err := c.Device.Compile(u, v)
	fpenv.Leave(state)
	if e.err = err; err == nil {
		k := &Kernel{Kernel: made}
		k.special, _ = made.(backends.Specializer)
		k.Start(2) // the cache and the caller
		c.mu.Lock()
		e.k = k
		c.mu.Unlock()
	}
}

func (c *Cache) remove(at *list.Element) {
	delete(c.entries, c.recent.Remove(at).(*entry).key)
}

// Clear empties the cache. Kernels in use live on.
func (c *Cache) Clear() {
	c.mu.Lock()
	var old []*Kernel
	for at := c.recent.Front(); at != nil; {
		next := at.Next()
		if k := at.Value.(*entry).k; k != nil {
			c.remove(at)
			old = append(old, k)
		}
		at = next
	}
	c.mu.Unlock()
	for _, k := range old {
		k.Release()
	}
}

// Stats returns what the cache holds.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Limit = c.recent.Len(), c.limit
	return s
}
