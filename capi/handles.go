package main

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/core"
	"github.com/hologram-project/hologram/core/lock"
)

// A handle is what callers have of an object: its kind in the top 8 bits, then
// 32 bits of generation, then 24 bits of index into a table. An index that is
// used again gets another generation, and none is after its last, so a stale handle
// is told from a fresh one, and a number that nobody gave out matches no place.
type handle = uint64

// kind is the kind of object that a handle names, a *T.
type kind[T any] anyKind

const (
	kindExecutor kind[core.Executor] = 1
	kindBuffer   kind[core.Buffer]   = 2
	kindProgram  kind[core.Program]  = 3
	kindEvent    kind[core.Event]    = 4
	kindLease    kind[core.Lease]    = 5
	kindProfile  kind[core.Profile]  = 6
	kindTensor   kind[core.Lease]    = 7 // of a DLPack tensor, whose deleter alone frees it
	kindMark     kind[core.Mark]     = 8
)

// anyKind is a kind whose objects' type does not matter.
type anyKind uint8

var kindNames = [...]string{"null", "executor", "buffer", "program", "event", "lease", "profile", "tensor", "mark"}

func (k anyKind) named() bool { return k > 0 && int(k) < len(kindNames) }

func (k anyKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "no kind of object"
}

const (
	kindShift = 56
	indexBits = 24
	chunkBits = 10
	chunkSize = 1 << chunkBits
	maxChunks = 1 << (indexBits - chunkBits)
)

func kindOf(h handle) anyKind      { return anyKind(h >> kindShift) }
func generationOf(h handle) uint32 { return uint32(h >> indexBits) }
func indexOf(h handle) int         { return int(h & (1<<indexBits - 1)) }

// place is where an object is while it has a handle. After that, the handle is the
// last that was given out here, without its kind. No handle comes twice, so an
// object that was found between two looks at the same handle is what that names.
type place struct {
	handle atomic.Uint64
	object unsafe.Pointer // to what handle's kind says; atomic
}

type chunk [chunkSize]place

// table holds the objects. Looking up takes no lock.
var table struct {
	chunks [maxChunks]atomic.Pointer[chunk]
	mu     lock.Mutex[lock.Last]
	used   int      // indices given out so far
	free   []uint32 // of these, the ones that can be used again
}

// at returns the place of an index, or nil.
func at(index int) *place {
	if c := table.chunks[index/chunkSize].Load(); c != nil {
		return &c[index%chunkSize]
	}
	return nil
}

// register gives an object a handle.
func register[T any](k kind[T], object *T) (handle, error) {
	var index int
	table.mu.Lock()
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
		table.mu.Unlock()
		return 0, core.Errorf(core.OutOfMemory, "%d handles are taken; that is the most there can be", 1<<indexBits)
	}
	table.mu.Unlock()
	p := at(index)
	h := handle(k)<<kindShift | handle(generationOf(p.handle.Load())+1)<<indexBits | handle(index)
	atomic.StorePointer(&p.object, unsafe.Pointer(object))
	p.handle.Store(h)
	return h, nil
}

// find returns the object of a handle, or nil if it names none of the kind.
func find[T any](h handle, k kind[T]) *T {
	if kindOf(h) != anyKind(k) {
		return nil
	}
	p := at(indexOf(h))
	if p == nil || p.handle.Load() != h {
		return nil
	}
	object := atomic.LoadPointer(&p.object)
	if p.handle.Load() != h {
		return nil
	}
	return (*T)(object)
}

// lookup is find where there must be one.
func lookup[T any](h handle, k kind[T], what string) (*T, error) {
	if object := find(h, k); object != nil {
		return object, nil
	}
	return nil, badHandle(h, anyKind(k), what)
}

// badHandle says what is wrong with a handle.
func badHandle(h handle, k anyKind, what string) error {
	given, why := kindOf(h), "was never given out"
	switch p := at(indexOf(h)); {
	case h == 0:
		return core.Errorf(core.BadHandle, "%s: the handle is null; expected %v", what, article(k))
	case p == nil || !given.named() || generationOf(h) == 0:
	default:
		last := p.handle.Load()
		if last == h && given != k {
			return core.Errorf(core.BadHandle, "%s: handle 0x%x is %v; expected %v", what, h, article(given), article(k))
		}
		if generationOf(h) <= generationOf(last) {
			why = "is freed"
		}
	}
	if why == "is freed" && given != k {
		return core.Errorf(core.BadHandle, "%s: handle 0x%x is of %s that is freed; expected %v", what, h, article(given), article(k))
	}
	return core.Errorf(core.BadHandle, "%s: %v handle 0x%x %s", what, k, h, why)
}

func article(k anyKind) string {
	if k == anyKind(kindExecutor) || k == anyKind(kindEvent) {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// unregister takes a handle back and returns its object.
func unregister[T any](h handle, k kind[T], what string) (*T, error) {
	object, err := lookup(h, k, what)
	if err != nil {
		return nil, err
	}
	p := at(indexOf(h))
	if !p.handle.CompareAndSwap(h, h&(1<<kindShift-1)) {
		return nil, badHandle(h, anyKind(k), what) // another thread was faster
	}
	atomic.StorePointer(&p.object, nil)
	if generationOf(h) < math.MaxUint32 {
		table.mu.Lock()
		table.free = append(table.free, uint32(indexOf(h)))
		table.mu.Unlock()
	}
	return object, nil
}

// all returns the handles of a kind that are alive.
func all[T any](k kind[T]) []handle {
	table.mu.Lock()
	used := table.used
	table.mu.Unlock()
	var list []handle
	for index := range used {
		if h := at(index).handle.Load(); kindOf(h) == anyKind(k) {
			list = append(list, h)
		}
	}
	return list
}
