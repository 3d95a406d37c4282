package core

import (
	"errors"
	"math/bits"
	"sync"

	"github.com/hologram-project/hologram/backends"
)

// The pool's size classes: eight between one power of two and the next, so
// that at most an eighth of a block is unused. Small blocks are cut from slabs.
const (
	// cacheFloor is what may always be cached; more only up to what was in use
	// at a time, which is what sizes that come again need.
	cacheFloor = 256 << 20
	minBlock   = 64      // bytes: a cache line, and the alignment of every block
	largeBlock = 1 << 20 // blocks from here on are the backend's own, and can be given back to it
	slabBytes  = 4 << 20
	classSteps = 8
)

// pool recycles a device's memory. Blocks of a size class wait in a free list
// for the next request of that class; the pages behind them stay mapped.
type pool struct {
	device backends.Device
	mu     sync.Mutex
	free   map[int64][]block // by size class, in the order in which they came back
	given  uint64            // blocks that came back so far
	slab   backends.Memory   // what is left of the newest slab
	slabs  []backends.Memory
	stats  MemoryStats
}

// MemoryStats says what a device's pool holds. All are bytes but the counts.
type MemoryStats struct {
	InUse       int64 // in blocks handed out
	Cached      int64 // in blocks that wait to be used again
	Reserved    int64 // taken from the backend: InUse, Cached and what is left of slabs
	Peak        int64 // the most that InUse was
	Limit       int64 // what Reserved may not exceed; 0: no limit
	Allocations int64 // blocks handed out since the start
	Reused      int64 // of these, blocks that were used before
}

// classSize rounds a number of bytes up to its size class.
func classSize(bytes int64) int64 {
	if bytes <= minBlock {
		return minBlock
	}
	step := int64(1) << max(0, bits.Len64(uint64(bytes-1))-1-bits.Len(classSteps-1))
	step = max(step, minBlock)
	return (bytes + step - 1) / step * step
}

// take returns a block of at least the given size.
func (p *pool) take(bytes int64) (block, error) {
	if bytes > 1<<56 {
		return block{}, Errorf(OutOfMemory, "%s is more than any device has", sizeText(bytes))
	}
	size := classSize(bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.free[size]; len(list) > 0 {
		b := list[len(list)-1]
		p.free[size] = list[:len(list)-1]
		p.stats.Cached -= size
		p.stats.Reused++
		p.count(size)
		return b, nil
	}
	b, err := p.fresh(size)
	if err != nil {
		return block{}, err
	}
	p.count(size)
	return b, nil
}

func (p *pool) count(size int64) {
	p.stats.Allocations++
	p.stats.InUse += size
	p.stats.Peak = max(p.stats.Peak, p.stats.InUse)
}

// fresh makes a block of a size class, from a slab or from the backend.
func (p *pool) fresh(size int64) (block, error) {
	if size >= largeBlock {
		m, err := p.reserve(size)
		return block{mem: m, size: size, fresh: true}, err
	}
	if p.slab.Bytes < size {
		// What is left of the old slab serves smaller requests later.
		for p.slab.Bytes >= minBlock {
			rest := int64(minBlock)
			for classSize(rest+1) <= p.slab.Bytes {
				rest = classSize(rest + 1)
			}
			p.give1(block{mem: backends.Memory{Addr: p.slab.Addr, Bytes: rest}, size: rest, fresh: true})
			p.slab.Addr += uintptr(rest)
			p.slab.Bytes -= rest
		}
		m, err := p.reserve(slabBytes)
		if err != nil {
			return block{}, err
		}
		p.slab = m
		p.slabs = append(p.slabs, m)
	}
	b := block{mem: backends.Memory{Addr: p.slab.Addr, Bytes: size}, size: size, fresh: true}
	p.slab.Addr += uintptr(size)
	p.slab.Bytes -= size
	return b, nil
}

// reserve takes memory from the backend. Where the limit or the backend says
// no, cached blocks go back first.
func (p *pool) reserve(bytes int64) (backends.Memory, error) {
	if p.stats.Limit > 0 && p.stats.Reserved+bytes > p.stats.Limit {
		p.trim()
		if p.stats.Reserved+bytes > p.stats.Limit {
			return backends.Memory{}, Errorf(OutOfMemory, "%s more would exceed the device's limit of %s, of which %s is taken",
				sizeText(bytes), sizeText(p.stats.Limit), sizeText(p.stats.Reserved))
		}
	}
	m, err := p.device.Alloc(bytes)
	if errors.Is(err, backends.ErrOutOfMemory) && p.trim() > 0 {
		m, err = p.device.Alloc(bytes)
	}
	if err != nil {
		return m, Errorf(OutOfMemory, "the device has no %s left beside the %s taken: %w",
			sizeText(bytes), sizeText(p.stats.Reserved), err)
	}
	p.stats.Reserved += bytes
	return m, nil
}

// give puts a block back. It is no longer known to be zero.
func (p *pool) give(b block) {
	b.fresh = false
	p.mu.Lock()
	p.stats.InUse -= b.size
	p.give1(b)
	p.bound()
	p.mu.Unlock()
}

func (p *pool) give1(b block) {
	p.given++
	b.given = p.given
	p.free[b.size] = append(p.free[b.size], b)
	p.stats.Cached += b.size
}

// bound gives large cached blocks back to the backend while there is more than
// the pool may cache, those first that have waited longest.
func (p *pool) bound() {
	for p.stats.Cached > max(cacheFloor, p.stats.Peak) {
		oldest := int64(0)
		for size, list := range p.free {
			if size >= largeBlock && len(list) > 0 && (oldest == 0 || list[0].given < p.free[oldest][0].given) {
				oldest = size
			}
		}
		if oldest == 0 || p.giveBack(oldest, 1) == 0 {
			return
		}
	}
}

// giveBack gives up to n large blocks of a size class back to the backend, the
// oldest first, and returns their bytes. What the backend doesn't take stays.
func (p *pool) giveBack(size int64, n int) int64 {
	freed := int64(0)
	list := p.free[size]
	kept := list[:0]
	for i, b := range list {
		if i < n && p.device.Free(b.mem) == nil {
			freed += size
		} else {
			kept = append(kept, b)
		}
	}
	clear(list[len(kept):])
	if p.free[size] = kept; len(kept) == 0 {
		delete(p.free, size)
	}
	p.stats.Cached -= freed
	p.stats.Reserved -= freed
	return freed
}

// trim gives the large cached blocks back to the backend, and returns their bytes.
func (p *pool) trim() int64 {
	freed := int64(0)
	for size, list := range p.free {
		if size >= largeBlock {
			freed += p.giveBack(size, len(list))
		}
	}
	return freed
}
