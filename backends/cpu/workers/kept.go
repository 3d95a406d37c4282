package workers

import "sync/atomic"

// keptPlaces is how many threads find what is kept without meeting others.
const keptPlaces = 64

// Kept keeps something of a kind for each thread, from one task to its next. All that take
// part in a launch come for theirs at once: who waited for a lock would be woken, which takes
// longer than most launches. The zero value keeps nothing yet.
type Kept[T any] struct {
	places atomic.Pointer[[keptPlaces]keptPlace[T]]
}

type keptPlace[T any] struct {
	of atomic.Pointer[T]
	_  [56]byte // a line of a cache for each
}

func (k *Kept[T]) at(s Seat) *atomic.Pointer[T] {
	all := k.places.Load()
	if all == nil {
		k.places.CompareAndSwap(nil, new([keptPlaces]keptPlace[T]))
		all = k.places.Load()
	}
	return &all[s.number%keptPlaces].of
}

// Take returns what the thread of a seat gave last, and nil if there is none, or another
// thread has it.
func (k *Kept[T]) Take(s Seat) *T { return k.at(s).Swap(nil) }

// Give keeps something for the thread's next task. It returns what that leaves no place for.
func (k *Kept[T]) Give(s Seat, x *T) *T { return k.at(s).Swap(x) }

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
