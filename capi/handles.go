package main

import (
	"math"
	"sync/atomic"

	"github.com/hologram-project/hologram/core"
	"github.com/hologram-project/hologram/core/lock"
)

// A handle is what callers have of an object: its kind in the top 8 bits, then
// 32 bits of generation, then 24 bits of index into a table. An index that is
// used again gets another generation, and none is after its last, so a stale handle
// is told from a fresh one, and a number that nobody gave out matches no entry.
type handle = uint64

// kind is the kind of object that a handle names.
type kind uint8

const (
	kindExecutor kind = iota + 1
	kindBuffer
	kindProgram
	kindEvent
	kindLease
)

var kindNames = [...]string{"null", "executor", "buffer", "program", "event", "lease"}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "no kind of object"
}

const (
	indexBits = 24
	chunkBits = 10
	chunkSize = 1 << chunkBits
	maxChunks = 1 << (indexBits - chunkBits)
)

// entry is an object and the handle it was given out with.
type entry struct {
	handle handle
	object any
}

type chunk [chunkSize]struct {
	live       atomic.Pointer[entry]
	generation atomic.Uint32
}

// table holds the objects. Looking up takes no lock.
var table struct {
	chunks [maxChunks]atomic.Pointer[chunk]
	mu     lock.Mutex[lock.Last]
	used   int      // indices given out so far
	free   []uint32 // of these, the ones that can be used again
}

// register gives an object a handle.
func register(k kind, object any) (handle, error) {
	table.mu.Lock()
	defer table.mu.Unlock()
	var index int
	switch {
	case len(table.free) > 0:
		index = int(table.free[len(table.free)-1])
		table.free = table.free[:len(table.free)-1]
	case table.used < 1<<indexBits:
		index = table.used
		if index%chunkSize == 0 {
			table.chunks[index/chunkSize].Store(new(chunk))
		}
		table.used++
	default:
		return 0, core.Errorf(core.OutOfMemory, "%d handles are taken; that is the most there can be", table.used)
	}
	slot := &table.chunks[index/chunkSize].Load()[index%chunkSize]
	h := handle(k)<<56 | handle(slot.generation.Add(1))<<indexBits | handle(index)
	slot.live.Store(&entry{h, object})
	return h, nil
}

// find returns the object of a handle.
func find(h handle) *entry {
	index := int(h & (1<<indexBits - 1))
	if c := table.chunks[index/chunkSize].Load(); c != nil {
		if e := c[index%chunkSize].live.Load(); e != nil && e.handle == h {
			return e
		}
	}
	return nil
}

// lookup returns the object of a handle, which must be a T.
func lookup[T any](h handle, k kind, what string) (T, error) {
	if e := find(h); e != nil {
		if object, ok := e.object.(T); ok {
			return object, nil
		}
	}
	var none T
	return none, badHandle(h, k, what)
}

// badHandle says what is wrong with a handle.
func badHandle(h handle, k kind, what string) error {
	given := kind(h >> 56)
	index := int(h & (1<<indexBits - 1))
	generation := uint32(h >> indexBits)
	why := "was never given out"
	switch c := table.chunks[index/chunkSize].Load(); {
	case h == 0:
		return core.Errorf(core.BadHandle, "%s: the handle is null; expected %v", what, article(k))
	case find(h) != nil:
		return core.Errorf(core.BadHandle, "%s: handle 0x%x is %v; expected %v", what, h, article(given), article(k))
	case c != nil && given >= kindExecutor && given <= kindLease && generation != 0 && generation <= c[index%chunkSize].generation.Load():
		why = "is freed"
	}
	if why == "is freed" && given != k {
		return core.Errorf(core.BadHandle, "%s: handle 0x%x is of %s that is freed; expected %v", what, h, article(given), article(k))
	}
	return core.Errorf(core.BadHandle, "%s: %v handle 0x%x %s", what, k, h, why)
}

func article(k kind) string {
	if k == kindExecutor || k == kindEvent {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// unregister takes a handle back and returns its object.
func unregister[T any](h handle, k kind, what string) (T, error) {
	object, err := lookup[T](h, k, what)
	if err != nil {
		return object, err
	}
	index := int(h & (1<<indexBits - 1))
	slot := &table.chunks[index/chunkSize].Load()[index%chunkSize]
	if e := slot.live.Load(); e == nil || e.handle != h || !slot.live.CompareAndSwap(e, nil) {
		return object, badHandle(h, k, what) // another thread was faster
	}
	if slot.generation.Load() < math.MaxUint32 {
		table.mu.Lock()
		table.free = append(table.free, uint32(index))
		table.mu.Unlock()
	}
	return object, nil
}

// all returns the handles of a kind that are alive.
func all(k kind) []handle {
	table.mu.Lock()
	used := table.used
	table.mu.Unlock()
	var list []handle
	for index := range used {
		if e := table.chunks[index/chunkSize].Load()[index%chunkSize].live.Load(); e != nil && kind(e.handle>>56) == k {
			list = append(list, e.handle)
		}
	}
	return list
}
