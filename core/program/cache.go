package program

import (
	"container/list"
	"errors"
	"math"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa/work"
)

// cacheLimit is how many compiled kernels a device's cache keeps.
const cacheLimit = 1024

// Kernel is a compiled program, counted by the cache and by the prepared calls
// that launch it.
type Kernel struct {
	backends.Kernel
	memory.Refs
	special backends.Specializer // nil: it has all code

	mu    lock.Mutex[lock.Last]
	under *making[bool] // code that is being made for a launch, and whether it was there before; nil: none is
}

// Release takes a user away.
func (k *Kernel) Release() {
	if k.Drop() {
		k.Kernel.Release()
	}
}

// Special reports whether launches of some kinds need code of their own.
func (k *Kernel) Special() bool { return k.special != nil }

// Specialize has the code made that a launch of what needs, if it is not there.
// With try that is status.ErrBusy. A device's compiler and loader may take long,
// and wait for work that never ends, heeding nobody: so that goes on on a
// goroutine of its own, one a kernel, which keeps what it makes whoever has left.
// The caller has a count of the kernel.
func (k *Kernel) Specialize(what string, l *backends.Launch, try bool, stop Stop) error {
	for {
		if err := k.specialized(l); !errors.Is(err, backends.ErrPending) {
			return err
		}
		if try {
			return status.ErrBusy
		}
		g, mine := k.specialize(what, l)
		if there, err := g.wait(stop); !there {
			return err
		}
		if mine {
			if g.value {
				profile.Note(profile.Event{Kind: profile.Cache, Name: "kept on disk", Of: what})
			}
			return g.err
		} // else it may have been made for launches of another kind
	}
}

// specialized returns backends.ErrPending if code is missing.
func (k *Kernel) specialized(l *backends.Launch) error {
	defer fpenv.Leave(fpenv.Enter()) // as where kernels are compiled
	return k.special.Specialize(l, true)
}

// specialize begins to make code for a launch, unless the kernel's is being made
// already for what may be another.
func (k *Kernel) specialize(what string, l *backends.Launch) (g *making[bool], mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.under != nil {
		return k.under, false
	}
	own := *l // who waits may leave, and use l for something else
	own.Slots, own.Params, own.Record, own.Phase = slices.Clone(l.Slots), slices.Clone(l.Params), nil, nil
	k.Acquire()
	k.under = begin("load", what, func(*work.Meter) (bool, error) {
		defer k.Release()
		defer func() { // also where the compiler panics
			k.mu.Lock()
			k.under = nil
			k.mu.Unlock()
		}()
		err := k.special.Specialize(&own, false)
		keeper, ok := k.special.(backends.Keeper)
		return ok && err == nil && keeper.Kept(), err
	})
	return k.under, true
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

	mu      lock.Mutex[lock.Last]
	limit   int
	entries map[backends.Key]*list.Element
	recent  *list.List // of *entry, the last used first
	stats   Stats
}

// entry is a kernel, or its making.
type entry struct {
	*making[*Kernel]
	key    backends.Key
	kernel *Kernel // guarded by the cache's lock; nil while it is made
}

// NewCache makes the cache of a device.
func NewCache(d backends.Device) *Cache {
	return &Cache{Device: d, Info: d.Info(), limit: cacheLimit, entries: map[backends.Key]*list.Element{}, recent: list.New()}
}

// get returns the kernel of a unit's variant. The caller is counted, and
// releases it.
func (c *Cache) get(what string, u *backends.Unit, v backends.Variant, stop Stop) (*Kernel, error) {
	v = v.And(c.Info.Variants)
	key := backends.KeyOf(u, v, &c.Info)
	for {
		e, found := c.entry(what, key, u, v)
		if !found {
			c.start(e, u)
		}
		if there, err := e.wait(stop); !there {
			c.leave(e)
			return nil, err
		}
		if e.err != nil {
			return nil, e.err
		}
		if found {
			profile.Note(profile.Event{Kind: profile.Cache, Name: "compiled before", Of: what})
		}
		if e.value.Acquire() { // else it was evicted meanwhile
			return e.value, nil
		}
	}
}

// entry returns the entry of a key, for one more to wait for. If there is none,
// it is new, and its kernel is to be made.
func (c *Cache) entry(what string, key backends.Key, u *backends.Unit, v backends.Variant) (e *entry, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.entries[key]; ok {
		c.stats.Hits++
		c.recent.MoveToFront(at)
		e = at.Value.(*entry)
		e.waiting++
		return e, true
	}
	c.stats.Misses++
	e = &entry{key: key}
	c.entries[key] = c.recent.PushFront(e)
	unit := *u
	e.making = plan("compile", what, func(m *work.Meter) (*Kernel, error) {
		unit.Work = m
		made, err := c.Device.Compile(&unit, v)
		if err != nil {
			return nil, err
		}
		k := &Kernel{Kernel: made}
		k.special, _ = made.(backends.Specializer)
		k.Start(1) // the cache
		return k, nil
	})
	e.keep = func(k *Kernel, err error) (*Kernel, error) { // also where the compiler panics
		if !c.put(e, k) {
			return nil, errLeft
		}
		return k, err
	}
	return e, false
}

// start starts making the kernel of a new entry. A compiler that heeds nobody gets a
// goroutine of its own in any case.
func (c *Cache) start(e *entry, u *backends.Unit) {
	insts := math.MaxInt
	if c.Info.Heeds {
		insts = len(u.Source.Program.Insts)
	}
	e.start(insts)
}

// leave ends the wait of one for an entry that is not there yet. If it was the
// last, the next who asks begins anew.
func (c *Cache) leave(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.waiting--; e.waiting == 0 && e.kernel == nil {
		e.left.Store(true)
		c.remove(e)
	}
}

// put puts a kernel into its entry, and lets those go for which there is no
// room. Without a kernel there is no entry either. It reports false, and lets go
// of the kernel, if nobody waits for it any more.
func (c *Cache) put(e *entry, k *Kernel) bool {
	c.mu.Lock()
	var old []*Kernel
	left := e.left.Load()
	switch {
	case k == nil:
		c.remove(e)
	case left:
		old = append(old, k)
	default:
		e.kernel = k
	}
	for last := c.recent.Back(); c.recent.Len() > c.limit && last != nil; {
		oldest := last.Value.(*entry)
		last = last.Prev()
		if oldest.kernel != nil { // else it is being made
			c.remove(oldest)
			c.stats.Evictions++
			old = append(old, oldest.kernel)
		}
	}
	c.mu.Unlock()
	for _, k := range old {
		k.Release()
	}
	return !left
}

// remove takes an entry out, if it is there.
func (c *Cache) remove(e *entry) {
	if at := c.entries[e.key]; at != nil && at.Value == any(e) {
		delete(c.entries, e.key)
		c.recent.Remove(at)
	}
}

// Clear empties the cache. Kernels in use live on.
func (c *Cache) Clear() {
	c.mu.Lock()
	var old []*Kernel
	for at := c.recent.Front(); at != nil; {
		next := at.Next()
		if e := at.Value.(*entry); e.kernel != nil {
			c.remove(e)
			old = append(old, e.kernel)
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
