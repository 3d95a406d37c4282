package core

import (
	"container/list"
	"sync"

	"github.com/hologram-project/hologram/backends"
)

// kernelLimit is how many compiled kernels a device's cache keeps.
const kernelLimit = 1024

// kernelKey is everything that changes the code made of a program: what it
// computes, who makes the code and in which order reductions run. A launch's
// fuel and sizes are no part of it, since Compile does not see them.
type kernelKey struct {
	hash    [32]byte // canonical, or of the source for a backend that runs that
	codegen string
	order   int
}

// kernel is a compiled program, counted by the cache, by the programs that
// launched it and by launches under way.
type kernel struct {
	backends.Kernel
	refs
}

func (k *kernel) release() {
	if k.drop() {
		k.Kernel.Release()
	}
}

// KernelStats says how a device's cache of compiled kernels does.
type KernelStats struct {
	Entries, Limit          int
	Hits, Misses, Evictions int64
}

// kernelCache keeps the kernels that were used last.
type kernelCache struct {
	mu      sync.Mutex
	limit   int
	entries map[kernelKey]*list.Element
	recent  *list.List // of cached, the last used first
	stats   KernelStats
}

type cached struct {
	key kernelKey
	k   *kernel
}

func newKernelCache(limit int) *kernelCache {
	return &kernelCache{limit: limit, entries: map[kernelKey]*list.Element{}, recent: list.New()}
}

// get returns the kernel of key, which make compiles if the cache has none. The
// caller is counted, and releases it.
func (c *kernelCache) get(key kernelKey, make func() (backends.Kernel, error)) (*kernel, error) {
	if k := c.find(key); k != nil {
		return k, nil
	}
	compiled, err := make()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok { // another goroutine was faster
		k := e.Value.(cached).k
		k.n.Add(1)
		defer compiled.Release()
		return k, nil
	}
	k := &kernel{Kernel: compiled}
	k.n.Store(2)
	c.entries[key] = c.recent.PushFront(cached{key, k})
	for c.recent.Len() > c.limit {
		c.drop(c.recent.Back())
		c.stats.Evictions++
	}
	return k, nil
}

func (c *kernelCache) find(key kernelKey) *kernel {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	c.recent.MoveToFront(e)
	k := e.Value.(cached).k
	k.n.Add(1)
	return k
}

func (c *kernelCache) drop(e *list.Element) {
	entry := c.recent.Remove(e).(cached)
	delete(c.entries, entry.key)
	entry.k.release()
}

// clear empties the cache. Kernels in use live on.
func (c *kernelCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.recent.Len() > 0 {
		c.drop(c.recent.Back())
	}
}

func (c *kernelCache) statistics() KernelStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Limit = c.recent.Len(), c.limit
	return s
}
