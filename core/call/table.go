package call

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// Table finds prepared calls by their signatures. It grows where a call would take the place
// of another, since an optimiser's step has one for each shape of a parameter and needs all at
// once; but it is bounded: then such a call does. Finding takes no lock.
type Table struct {
	device *Device
	sets   atomic.Pointer[[]set]
	most   int                   // sets
	mu     lock.Mutex[lock.Last] // of putting in
	closed bool
}

const ways = 4

type set struct {
	ways [ways]atomic.Pointer[Prepared]
	next int
}

// fewest is how many calls a table is made for.
const fewest = 64

// NewTable makes a table for calls on a device, at most about so many.
func NewTable(d *Device, most int) *Table {
	t := &Table{device: d, most: 1}
	for t.most*ways < most {
		t.most *= 2
	}
	sets := make([]set, min(fewest/ways, t.most))
	t.sets.Store(&sets)
	return t
}

// setOf is where calls of a hash are.
func setOf(sets []set, hash uint64) *set { return &sets[hash%uint64(len(sets))] }

// put puts a call in, of which the table counts as a user. It returns the one that has to
// go, which the caller releases.
func (t *Table) put(p *Prepared) (gone *Prepared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return p
	}
	sets := *t.sets.Load()
	for !setOf(sets, p.hash).takes(p) {
		if len(sets) == t.most {
			s := setOf(sets, p.hash)
			gone = s.ways[s.next].Swap(p)
			s.next = (s.next + 1) % ways
			break
		}
		sets = grown(sets)
	}
	t.sets.Store(&sets)
	return gone
}

// takes puts a call in where there is room.
func (s *set) takes(p *Prepared) bool {
	for i := range s.ways {
		if s.ways[i].CompareAndSwap(nil, p) {
			return true
		}
	}
	return false
}

// grown is twice as many sets, with the same calls: each set's are dealt out to two.
func grown(from []set) []set {
	to := make([]set, 2*len(from))
	for i := range from {
		for k := range from[i].ways {
			if p := from[i].ways[k].Load(); p != nil {
				setOf(to, p.hash).takes(p)
			}
		}
	}
	return to
}

// Get returns the prepared call of a request, which is made if it is not there.
// With try it is not made: status.ErrBusy. The caller is counted as a user.
func (t *Table) Get(r *Request, try bool) (*Prepared, error) {
	var room [64]uint64
	key := r.key(room[:0])
	threads := t.device.threads.Load()
	if r.Op != nil && !r.Op.Elementwise { // by whose number a device may plan
		key[0] |= uint64(uint16(threads)) << keyThreads
	}
	hash := hashOf(key)
	s := setOf(*t.sets.Load(), hash)
	for i := range s.ways {
		if p := s.ways[i].Load(); p != nil && p.hash == hash && equal(p.key, key) && p.Acquire() {
			return p, nil
		}
	}
	if try {
		return nil, status.ErrBusy
	}
	if r.May != nil {
		if err := r.May(); err != nil {
			return nil, err
		}
	}
	span := profile.Begin()
	p, err := Prepare(t.device, r)
	span.End(profile.Event{Kind: profile.Compile, Name: "prepare", Of: r.What()}, err)
	if err != nil {
		return nil, err
	}
	p.hash, p.key = hash, append([]uint64(nil), key...)
	p.Acquire()
	gone := p
	if threads != changing && t.device.threads.Load() == threads { // else it may be a plan for another number
		gone = t.put(p)
	}
	if gone != nil {
		gone.Release()
	}
	return p, nil
}

// changing is a number of threads that nothing is kept for.
const changing = -1

// Replan has plans made for so many threads, which set tells the device, from now on: calls
// that were prepared for another number are found by that alone.
func (d *Device) Replan(n int, set func(n int)) {
	d.threads.Store(changing)
	set(n)
	d.threads.Store(int32(n))
}

// Close forgets all calls, and keeps none from now on. Those under way end as
// they would.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	sets := *t.sets.Load()
	none := make([]set, 1)
	t.sets.Store(&none)
	t.mu.Unlock()
	for i := range sets {
		for k := range sets[i].ways {
			if p := sets[i].ways[k].Swap(nil); p != nil {
				p.Release()
			}
		}
	}
}

// keyThreads is where a key's first word has the number of threads.
const keyThreads = 48

// key appends the request's signature: all of it that Prepare looks at, but for
// the program, whose table this is, and the device's number of threads.
func (r *Request) key(to []uint64) []uint64 {
	head := uint64(len(r.Operands)) | uint64(len(r.Dims))<<8
	if r.Dims != nil {
		head |= 1 << 16
	}
	if r.Fuel {
		head |= 1 << 17
	}
	if r.Op != nil {
		head |= uint64(r.Op.Number()+1) << 32
	}
	to = append(to, head)
	for i := range r.Operands {
		o := &r.Operands[i]
		v := &o.View
		word := uint64(v.Type) | uint64(v.Rank)<<8
		if o.Packed {
			word |= 1 << 16
		}
		if o.ReadOnly {
			word |= 1 << 17
		}
		if o.Bool {
			word |= 1 << 18
		}
		if o.Number {
			word |= 1 << 19
		}
		to = append(to, word)
		for _, d := range v.Shape[:v.Rank] {
			to = append(to, uint64(d))
		}
		if !o.Packed {
			for _, d := range v.Stride[:v.Rank] {
				to = append(to, uint64(d))
			}
		}
	}
	for _, d := range r.Dims {
		to = append(to, uint64(d))
	}
	if r.Op == nil {
		for i := range 3 {
			to = append(to, uint64(r.Grid[i])|uint64(r.Block[i])<<32)
		}
	}
	return to
}

// hashOf mixes words: a multiplication each, as wyhash and its kin do.
func hashOf(words []uint64) uint64 {
	h := uint64(len(words))
	for _, w := range words {
		h = (h ^ w) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h ^ h>>32
}

func equal(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
