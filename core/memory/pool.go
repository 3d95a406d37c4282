package memory

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// The pool's size classes: eight between one power of two and the next, so
// that at most an eighth of a block is unused. Small blocks are cut from slabs.
const (
	// cacheFloor is what may always be cached; more only up to what was in use
	// at a time, which is what sizes that come again need.
	cacheFloor = 256 << 20
	minBlock   = 64      // bytes: a cache line, and the alignment of every block
	largeBlock = 1 << 20 // blocks from here on are the device's own, and can be given back to it one by one
	slabBytes  = 4 << 20
	classSteps = 8
)

// MaxBytes bounds what anybody may ask for, so that sums of sizes fit int64.
const MaxBytes = 1 << 56

// block is what the pool knows of Memory that it hands out.
type block struct {
	pool *Pool
	mem  backends.Memory
	slab *slab // that it was cut from; nil: it is the device's own
	size int64 // bytes of its size class
	// given tells in which order cached blocks came back.
	given uint64
	// fresh memory is zero as the device gave it.
	fresh   bool
	uses    []use    // of earlier owners, that may not have passed
	account *Account // that it counts against; nil: nobody's
}

// slab is memory of the device's from which small blocks are cut. When all of them
// are cached it can go back.
type slab struct {
	mem            backends.Memory
	used           bool // the device did not take it back: what is left of it is not known to be zero
	blocks, cached int
	unused         int // of those that are cached, while somebody counts them
}

// newMemory makes the Memory of a piece of the device's, which is zero as that gave it.
func (p *Pool) newMemory(m backends.Memory, size int64) *Memory {
	return &Memory{Addr: m.Addr, block: block{pool: p, mem: m, size: size, fresh: true}}
}

// free reports whether work on l may use the block at once, as far as is known.
func (b *block) free(l *Line) bool {
	for _, u := range b.uses {
		if u.line != l && !u.line.known(u.ticket) {
			return false
		}
	}
	return true
}

// Allocator is where a pool's memory comes from: a device's own memory, or the
// host's that the device reaches.
type Allocator struct {
	Alloc func(bytes int64) (backends.Memory, error)
	Free  func(backends.Memory) error
	Left  func() int64 // bytes that Alloc could still give, 0: not known; may be nil
	Of    string       // whose memory it is, for profiles
}

// Pool recycles a device's memory. Blocks of a size class wait in a free list
// for the next request of that class, each as the Memory that it was and will be
// again; the pages behind them stay mapped. No lock is held while the device is
// asked for anything.
type Pool struct {
	from Allocator

	mu    lock.Mutex[lock.Last]
	cache [classes][]*Memory // by place of the size class, in the order in which they came back
	given uint64
	slab  backends.Memory // what is left of the newest slab
	of    *slab           // which that is; nil: there is none
	stats Stats
	// moving is how many calls of the device are under way that may lower Reserved
	// when they are over, and moved how many are over that did. Whoever finds no
	// room meanwhile waits for them and looks again: changed is closed then; nil:
	// nobody waits.
	moving  int
	moved   uint64
	changed chan struct{}
	// patience is how long to wait for them, or for work on memory that could be
	// given back.
	patience time.Duration
}

// Stats says what a pool holds. All are bytes but the counts.
type Stats struct {
	InUse       int64 // in blocks handed out
	Cached      int64 // in blocks that wait to be used again
	Reserved    int64 // taken from the device: InUse, Cached and what is left of slabs
	Peak        int64 // the most that InUse was
	Limit       int64 // what Reserved may not exceed; 0: no limit
	Allocations int64 // blocks handed out since the start
	Reused      int64 // of these, blocks that were used before
}

// NewPool makes a pool of memory from a, of which it takes at most limit bytes; 0: no limit.
func NewPool(a Allocator, limit int64) *Pool {
	return &Pool{from: a, stats: Stats{Limit: limit}, patience: 5 * time.Second}
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

// classes bounds the places of size classes.
const classes = 58 * classSteps

// placeOf returns the place of a size class among all.
func placeOf(size int64) int {
	power := bits.Len64(uint64(size-1)) - 1 // 2^power < size
	step := max(power-(bits.Len(classSteps)-1), bits.Len(minBlock)-1)
	return power*classSteps + int((size-1-1<<power)>>step)
}

// Take returns memory of at least the given size, with the caller as its user;
// fresh tells that it is all zero. It counts against an account, which may be
// nil. Where there is no other, it is memory that work queued earlier still uses:
// then all work on it waits for that (Memory.Before), on l and elsewhere. Without
// a line, for the host, it is memory that no work uses.
func (p *Pool) Take(l *Line, bytes int64, a *Account) (m *Memory, fresh bool, err error) {
	return p.user(request{line: l}, bytes, a)
}

// AtHand is Take for the host of what is at hand, else status.ErrBusy.
func (p *Pool) AtHand(bytes int64, a *Account) (m *Memory, fresh bool, err error) {
	return p.user(request{try: true}, bytes, a)
}

// Fresh is Take of memory that is all zero and that no work uses.
func (p *Pool) Fresh(bytes int64, a *Account) (*Memory, error) {
	m, _, err := p.user(request{zero: true}, bytes, a)
	return m, err
}

// user takes memory for a user.
func (p *Pool) user(r request, bytes int64, a *Account) (m *Memory, fresh bool, err error) {
	if bytes > MaxBytes {
		return nil, false, p.short(bytes, a, status.Errorf(status.OutOfMemory, "%s is more than any device has", status.Size(bytes)))
	}
	r.size, r.bytes, r.account = classSize(bytes), bytes, a
	m, err = p.take(r)
	if err != nil {
		return nil, false, p.short(bytes, a, err)
	}
	m.Bytes, m.account = bytes, a
	m.n.Store(1)
	return m, m.fresh, nil
}

// short adds to an error that says there is no memory how short that is.
func (p *Pool) short(asked int64, a *Account, err error) error {
	e, ok := err.(*status.Error)
	if !ok || e.Code != status.OutOfMemory {
		return err
	}
	left := int64(0)
	if p.from.Left != nil {
		left = p.from.Left()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit := p.stats.Limit; limit > 0 && (left == 0 || limit-p.stats.Reserved < left) {
		left = limit - p.stats.Reserved
	}
	if a != nil && a.quota > 0 && (left == 0 || a.quota-a.used < left) {
		left = a.quota - a.used
	}
	told := *e
	told.Short = &status.Short{Asked: asked, Free: max(left, 0), Cached: p.stats.Cached}
	return &told
}

// request is what block somebody asks for.
type request struct {
	line *Line // whose work may use it at once, and can wait for others'; nil: the host's
	size int64 // a class's
	zero bool  // it is fresh
	try  bool  // it is at hand, else status.ErrBusy

	account *Account // that it counts against; nil: nobody's
	bytes   int64    // that are asked for
}

// take takes a block, of which nobody is a user.
func (p *Pool) take(r request) (*Memory, error) {
	if !r.try {
		p.mu.Lock()
	} else if !p.mu.TryLock() {
		return nil, status.ErrBusy
	}
	if err := r.account.add(&r); err != nil {
		p.mu.Unlock()
		return nil, err
	}
	m := p.cached(r, false)
	if m == nil && p.look(r.size) {
		m = p.cached(r, false)
	}
	if m == nil && r.size < largeBlock && !(r.zero && p.of != nil && p.of.used) {
		m = p.cut(r.size)
	}
	if m == nil && r.try {
		r.account.sub(r.size)
	}
	p.mu.Unlock()
	switch {
	case m != nil:
		return m, nil
	case r.try:
		return nil, status.ErrBusy
	}
	m, err := p.more(r)
	if err != nil {
		p.mu.Lock()
		r.account.sub(r.size)
		p.mu.Unlock()
	}
	return m, err
}

// more takes a block from the device. Where the limit or the device says no,
// cached blocks that nobody uses go back first; then a line gets one that it must
// wait for; at last, blocks go back when the work on them has passed.
func (p *Pool) more(r request) (*Memory, error) {
	size, bytes := r.size, r.size
	if size < largeBlock {
		bytes = slabBytes
	}
	p.mu.Lock()
	p.giveBack(p.surplus())
	p.mu.Unlock()
	end := time.Now().Add(p.patience)
	given, err := p.ask(bytes, end)
	if status.CodeOf(err) == status.OutOfMemory {
		p.trim(0)
		given, err = p.ask(bytes, end)
	}
	if status.CodeOf(err) == status.OutOfMemory {
		if m := p.recycled(r); m != nil {
			return m, nil
		}
		p.trim(p.patience)
		if m := p.recycled(r); m != nil { // came back meanwhile
			return m, nil
		}
		given, err = p.ask(bytes, end)
	}
	if status.CodeOf(err) == status.OutOfMemory && size < bytes { // no whole slab
		given, err = p.ask(size, end)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if size < largeBlock {
		p.newSlab(&slab{mem: given})
		return p.cut(size), nil
	}
	p.count(size)
	return p.newMemory(given, size), nil
}

// recycled takes a block from the cache, also one that the line must wait for.
func (p *Pool) recycled(r request) *Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cached(r, r.line != nil)
}

// Of the cached blocks of a class these are looked at for one that is free: so
// many of the newest, which the processor's caches may still hold, and as many of
// the oldest, whose work has passed first where streams are behind.
const lookAt = 8

// turn is the place of the i-th block that is looked at, in a list of n.
func turn(n, i int) int {
	if i < lookAt {
		return n - 1 - i
	}
	return i - lookAt
}

// cached takes a block from the cache: one that the line may use at once or, with
// any, one that it must wait for. Nil: there is none. The caller holds the lock.
func (p *Pool) cached(r request, any bool) *Memory {
	size, place := r.size, placeOf(r.size)
	list := p.cache[place]
	for i := 0; i < len(list) && (any || i < 2*lookAt); i++ {
		at := turn(len(list), i)
		m := list[at]
		if r.zero && !m.fresh || !any && !m.free(r.line) {
			continue
		}
		if i < lookAt {
			copy(list[at:], list[at+1:])
			list[len(list)-1] = nil
			p.cache[place] = list[:len(list)-1]
		} else { // near the other end
			copy(list[1:], list[:at])
			list[0] = nil
			p.cache[place] = list[1:]
		}
		p.uncached(m)
		p.stats.Reused++
		p.count(size)
		return m
	}
	return nil
}

// look looks what has passed of the work on cached blocks of a class, of those
// that come next in their turn, or with class 0 on all. It reports whether there
// was any. The caller holds the lock, but not while the device is asked.
func (p *Pool) look(class int64) bool {
	lists, most := p.cache[:], math.MaxInt
	if class != 0 {
		at := placeOf(class)
		lists, most = lists[at:at+1], 2*lookAt
	}
	var lines []*Line
	for _, list := range lists {
		for i := range min(most, len(list)) {
			for _, u := range list[turn(len(list), i)].uses {
				if !u.line.known(u.ticket) && !slices.Contains(lines, u.line) {
					lines = append(lines, u.line)
				}
			}
		}
	}
	if len(lines) == 0 {
		return false
	}
	p.mu.Unlock()
	for _, l := range lines {
		l.mu.RLock()
		l.look()
		l.mu.RUnlock()
	}
	p.mu.Lock()
	return true
}

func (p *Pool) count(size int64) {
	p.stats.Allocations++
	p.stats.InUse += size
	p.stats.Peak = max(p.stats.Peak, p.stats.InUse)
}

// cut takes a block from the slab; nil if that has no room. The caller holds the lock.
func (p *Pool) cut(size int64) *Memory {
	if p.slab.Bytes < size {
		return nil
	}
	p.count(size)
	return p.slice(size)
}

// slice cuts a block off the slab. The caller holds the lock.
func (p *Pool) slice(size int64) *Memory {
	m := p.newMemory(backends.Memory{Addr: p.slab.Addr, Bytes: size}, size)
	m.slab, m.fresh = p.of, !p.of.used
	p.of.blocks++
	p.slab.Addr += uintptr(size)
	p.slab.Bytes -= size
	return m
}

// newSlab starts a slab. What is left of the old one serves smaller requests
// later. The caller holds the lock.
func (p *Pool) newSlab(s *slab) {
	for p.slab.Bytes >= minBlock {
		rest := int64(minBlock)
		// A slab that another goroutine has just brought may be nearly whole, but
		// only what the device gave as such can go back to it.
		for next := classSize(rest + 1); next <= p.slab.Bytes && next < largeBlock; next = classSize(rest + 1) {
			rest = classSize(rest + 1)
		}
		p.keep(p.slice(rest))
	}
	p.slab, p.of = s.mem, s
}

// ask takes memory from the device within the limit. Up to a time it waits for
// memory on its way back. The caller does not hold the lock.
func (p *Pool) ask(bytes int64, end time.Time) (backends.Memory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if limit := p.stats.Limit; limit > 0 && p.stats.Reserved+bytes > limit {
			if p.wait(end) {
				continue
			}
			return backends.Memory{}, status.Errorf(status.OutOfMemory, "%s more would exceed the device's limit of %s, of which %s is taken",
				status.Size(bytes), status.Size(limit), status.Size(p.stats.Reserved))
		}
		p.stats.Reserved += bytes
		before := p.moved
		m, err := p.alloc(bytes)
		if err == nil {
			return m, nil
		}
		p.stats.Reserved -= bytes
		switch {
		case errors.Is(err, backends.ErrLost):
			return m, status.FromBackend("allocate", err)
		case p.moved == before && !p.wait(end):
			return m, status.Errorf(status.OutOfMemory, "the device has no %s left beside the %s taken: %w",
				status.Size(bytes), status.Size(p.stats.Reserved), err)
		}
	}
}

// wait waits for a call of the device that is under way, if there is one and it
// is over in time. The caller holds the lock, but not meanwhile.
func (p *Pool) wait(end time.Time) bool {
	if p.moving == 0 {
		return false
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case <-changed:
		return true
	case <-t.C:
		return false
	}
}

// alloc calls the device, without the lock that the caller holds.
func (p *Pool) alloc(bytes int64) (m backends.Memory, err error) {
	p.move(func() bool {
		span := profile.Begin()
		m, err = p.from.Alloc(bytes)
		span.End(profile.Event{Kind: profile.Memory, Name: "allocate", Of: p.from.Of, Bytes: bytes}, err)
		return false
	})
	return m, err
}

// move makes a call of the device without the lock that the caller holds, and
// tells those who wait for it. The call reports whether it gave memory back.
func (p *Pool) move(call func() (gave bool)) {
	p.moving++
	p.mu.Unlock()
	gave := false
	defer func() {
		p.mu.Lock()
		p.moving--
		if gave {
			p.moved++
		}
		if p.changed != nil {
			close(p.changed)
			p.changed = nil
		}
	}()
	gave = call()
}

// give puts a block back that nobody uses, which waits for nothing: that more is
// cached now than shall be is the next one's business who asks the device for
// memory. The block is no longer known to be zero.
func (p *Pool) give(m *Memory) {
	account := m.account
	m.fresh, m.account = false, nil
	p.mu.Lock()
	account.sub(m.size)
	p.stats.InUse -= m.size
	p.keep(m)
	p.mu.Unlock()
}

// keep caches a block. The caller holds the lock.
func (p *Pool) keep(m *Memory) {
	p.given++
	m.given = p.given
	at := placeOf(m.size)
	p.cache[at] = append(p.cache[at], m)
	p.stats.Cached += m.size
	if m.slab != nil {
		m.slab.cached++
	}
}

// uncached notes that a block is no longer cached. The caller holds the lock.
func (p *Pool) uncached(m *Memory) {
	p.stats.Cached -= m.size
	if m.slab != nil {
		m.slab.cached--
	}
}

// Stats returns what the pool holds.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// SetLimit bounds the bytes that the pool may take from the device; 0 lifts the
// bound. It is an error to ask for less than is in use.
func (p *Pool) SetLimit(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes < 0 {
		return status.Errorf(status.Invalid, "set_memory_limit: limit is %d bytes; expected 0 (none) or more", bytes)
	}
	if bytes > 0 && bytes < p.stats.InUse {
		return status.Errorf(status.Invalid, "set_memory_limit: limit of %s is below the %s in use", status.Size(bytes), status.Size(p.stats.InUse))
	}
	p.stats.Limit = bytes
	return nil
}
