package workers

import "sync/atomic"

const (
	keptPlaces   = 64 // of so many threads, which do not meet there
	keptByOthers = 8  // callers, who all have the same number, find something in so many places more
)

// Kept keeps something of a kind for each thread, from one task to its next. All that take
// part in a launch come for theirs at once: who waited for a lock would be woken, which takes
// longer than most launches. The zero value keeps nothing yet.
type Kept[T any] struct {
	places atomic.Pointer[keptAll[T]]
}

type keptAll[T any] [keptPlaces + keptByOthers]keptPlace[T]

type keptPlace[T any] struct {
	of atomic.Pointer[T]
	_  [56]byte // a line of a cache for each
}

// at returns a seat's places, its own first.
func (k *Kept[T]) at(s Seat) (*atomic.Pointer[T], []keptPlace[T]) {
	all := k.places.Load()
	if all == nil {
		k.places.CompareAndSwap(nil, new(keptAll[T]))
		all = k.places.Load()
	}
	more := all[keptPlaces:]
	if s.number > 0 {
		more = nil
	}
	return &all[s.number%keptPlaces].of, more
}

// Take returns what the thread of a seat gave last, or for a caller another one, and nil if
// there is none, or another thread has it.
func (k *Kept[T]) Take(s Seat) *T {
	own, more := k.at(s)
	x := own.Swap(nil)
	for i := 0; x == nil && i < len(more); i++ {
		if more[i].of.Load() != nil {
			x = more[i].of.Swap(nil)
		}
	}
	return x
}

// Give keeps something for the thread's next task. It returns what that leaves no place for.
func (k *Kept[T]) Give(s Seat, x *T) *T {
	own, more := k.at(s)
	if x = own.Swap(x); x == nil {
		return nil
	}
	for i := range more {
		if more[i].of.CompareAndSwap(nil, x) {
			return nil
		}
	}
	return x
}

// Clear returns all that is kept, and keeps it no longer.
func (k *Kept[T]) Clear() (all []*T) {
	if places := k.places.Load(); places != nil {
		for i := range places {
			if x := places[i].of.Swap(nil); x != nil {
				all = append(all, x)
			}
		}
	}
	return all
}
