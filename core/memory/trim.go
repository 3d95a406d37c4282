package memory

import (
	"slices"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/profile"
)

// surplus takes large blocks out of the cache while there is more than the pool
// may cache, those first that have waited longest. The caller holds the lock, but
// not while the device is asked.
func (p *Pool) surplus() []*Memory {
	if p.stats.Cached <= max(cacheFloor, p.stats.Peak) {
		return nil
	}
	p.look(0)
	var out []*Memory
	for p.stats.Cached > max(cacheFloor, p.stats.Peak) {
		oldest := -1
		for at := placeOf(largeBlock); at < classes; at++ {
			if list := p.cache[at]; len(list) > 0 && list[0].free(nil) && (oldest < 0 || list[0].given < p.cache[oldest][0].given) {
				oldest = at
			}
		}
		if oldest < 0 {
			break
		}
		out = append(out, p.drop(oldest, 0))
	}
	return out
}

// drop takes a block out of the cache, by its class's place and its own. The
// caller holds the lock.
func (p *Pool) drop(at, i int) *Memory {
	list := p.cache[at]
	m := list[i]
	copy(list[i:], list[i+1:])
	list[len(list)-1] = nil
	if p.cache[at] = list[:len(list)-1]; len(list) == 1 {
		p.cache[at] = nil // may have been long
	}
	p.uncached(m)
	return m
}

// giveBack gives blocks back to the device and returns their bytes. What the
// device doesn't take is cached again. The caller holds the lock since it took
// them out of the cache, but not while the device is called.
func (p *Pool) giveBack(blocks []*Memory) int64 {
	freed := int64(0)
	for _, m := range blocks {
		var err error
		p.move(func() bool {
			span := profile.Begin()
			err = p.from.Free(m.mem)
			span.End(profile.Event{Kind: profile.Memory, Name: "free", Of: p.from.Of, Bytes: m.size}, err)
			return err == nil
		})
		switch {
		case err == nil:
			p.stats.Reserved -= m.size
			freed += m.size
		case m.slab != nil:
			p.newSlab(&slab{mem: m.mem, used: true})
		default:
			p.keep(m)
		}
	}
	return freed
}

// trimPause is how long it waits between two looks.
const trimPause = 50 * time.Microsecond

// Trim gives the large cached blocks back to the device, and the slabs of which
// nothing is used, and returns their bytes. Where work on them has not passed it waits, for some seconds at most.
func (p *Pool) Trim() int64 { return p.trim(p.patience) }

func (p *Pool) trim(patience time.Duration) int64 {
	end := time.Now().Add(patience)
	freed := int64(0)
	for upTo := uint64(0); ; time.Sleep(trimPause) {
		p.mu.Lock()
		if upTo == 0 {
			upTo = p.given // what comes back from now on is left
		}
		p.look(0)
		ready, busy := p.unused(upTo)
		slabs, slabsBusy := p.unusedSlabs(upTo)
		busy = busy || slabsBusy
		freed += p.giveBack(append(ready, slabs...))
		p.mu.Unlock()
		if !busy || !time.Now().Before(end) {
			return freed
		}
	}
}

// unused takes the large blocks out of the cache that came back by a certain time
// and that no work uses. It reports whether there are others that work still
// uses: they stay, for who can wait for it on the device. The caller holds the lock.
func (p *Pool) unused(upTo uint64) (out []*Memory, busy bool) {
	for at := placeOf(largeBlock); at < classes; at++ {
		list := p.cache[at]
		for i := len(list) - 1; i >= 0; i-- {
			switch b := list[i]; {
			case b.given > upTo:
			case b.free(nil):
				out = append(out, p.drop(at, i))
				list = p.cache[at]
			default:
				busy = true
			}
		}
	}
	return out, busy
}

// unusedSlabs is unused of slabs: it takes all blocks of those out of the cache, and
// what is left of the newest.
func (p *Pool) unusedSlabs(upTo uint64) (out []*Memory, busy bool) {
	small := p.cache[:placeOf(largeBlock)]
	var seen []*slab
	for _, list := range small {
		for _, m := range list {
			s := m.slab
			if s.cached < s.blocks || m.given > upTo {
				continue
			}
			if !m.free(nil) {
				busy = true
				continue
			}
			if s.unused++; s.unused == 1 {
				seen = append(seen, s)
			}
			if s.unused < s.blocks {
				continue
			}
			out = append(out, &Memory{block: block{pool: p, mem: s.mem, slab: s, size: s.mem.Bytes}})
			if s == p.of {
				p.slab, p.of = backends.Memory{}, nil
			}
		}
	}
	if len(out) > 0 {
		for at, list := range small {
			p.cache[at] = slices.DeleteFunc(list, func(m *Memory) bool {
				if m.slab.unused < m.slab.blocks {
					return false
				}
				p.stats.Cached -= m.size
				return true
			})
		}
	}
	for _, s := range seen {
		s.unused = 0
	}
	return out, busy
}
