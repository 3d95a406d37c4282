package call

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// Table finds prepared calls by their signatures. It is bounded: a call that is
// put in takes the place of one that was put in earlier. Finding takes no lock.
type Table struct {
	device *Device
	sets   []set
	closed atomic.Bool
}

const ways = 4

type set struct {
	ways [ways]atomic.Pointer[Prepared]
	next atomic.Uint32
}

// NewTable makes a table for about the given number of calls on a device.
func NewTable(d *Device, calls int) *Table {
	n := 1
	for n*ways < calls {
		n *= 2
	}
	return &Table{device: d, sets: make([]set, n)}
}

// Get returns the prepared call of a request, which is made if it is not there.
// With try it is not made: status.ErrBusy. The caller is counted as a user.
func (t *Table) Get(r *Request, try bool) (*Prepared, error) {
	var room [64]uint64
	key := r.key(room[:0])
	hash := hashOf(key)
	s := &t.sets[hash%uint64(len(t.sets))]
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
	if old := s.ways[s.next.Add(1)%ways].Swap(p); old != nil {
		old.Release()
	}
	if t.closed.Load() { // looked at after it was put in: Close looks for calls after closing
		t.clear()
	}
	return p, nil
}

// Close forgets all calls, and keeps none from now on. Those under way end as
// they would.
func (t *Table) Close() {
	t.closed.Store(true)
	t.clear()
}

func (t *Table) clear() {
	for i := range t.sets {
		for k := range t.sets[i].ways {
			if p := t.sets[i].ways[k].Swap(nil); p != nil {
				p.Release()
			}
		}
	}
}

// key appends the request's signature: all of it that Prepare looks at, but for
// the program, whose table this is.
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
