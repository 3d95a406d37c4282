package workers

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestKept: a thread finds what it gave, others do not; nothing is in two hands, and nothing
// is lost.
func TestKept(t *testing.T) {
	var k Kept[int]
	if k.Take(Seat{}) != nil || k.Clear() != nil {
		t.Error("there is something at first")
	}
	one, two, three := new(int), new(int), new(int)
	mine, other := Seat{number: 1}, Seat{number: 2}
	if k.Give(mine, one) != nil || k.Take(other) != nil || k.Take(mine) != one || k.Take(mine) != nil {
		t.Error("a thread does not find its own")
	}
	if k.Give(mine, one) != nil || k.Give(other, two) != nil || k.Give(Seat{number: 1 + keptPlaces}, three) != one {
		t.Error("what has no place is not given back")
	}
	if all := k.Clear(); len(all) != 2 || all[0] != three || all[1] != two || k.Clear() != nil {
		t.Errorf("Clear returns %v", all)
	}
}

// TestKeptByCallers: several callers at once, whose seats are the same, each find something
// again, whatever workers keep; only what very many give has no place.
func TestKeptByCallers(t *testing.T) {
	var k Kept[int]
	worker := Seat{number: 1}
	k.Give(worker, new(int))
	const callers = 1 + keptByOthers
	for range callers {
		if k.Give(Seat{}, new(int)) != nil {
			t.Fatal("what a caller gives has no place")
		}
	}
	if k.Give(Seat{}, new(int)) == nil {
		t.Error("there is a place for whatever is given")
	}
	for range callers {
		if k.Take(Seat{}) == nil {
			t.Error("a caller finds nothing")
		}
	}
	if k.Take(Seat{}) != nil || k.Take(worker) == nil {
		t.Error("a caller takes what is a worker's")
	}
}

// TestKeptByMany has threads of the same places take and give at the same time.
func TestKeptByMany(t *testing.T) {
	var k Kept[atomic.Int32]
	var made atomic.Int32
	var threads sync.WaitGroup
	left := make(chan int, 8)
	for n := range 8 {
		threads.Add(1)
		go func() {
			defer threads.Done()
			given := 0
			for range 2000 {
				s := Seat{number: n % 3}
				x := k.Take(s)
				if x == nil {
					x = new(atomic.Int32)
					made.Add(1)
				}
				if x.Add(1) != 1 {
					t.Error("two threads have it")
				}
				x.Add(-1)
				if k.Give(s, x) != nil {
					given++
				}
			}
			left <- given
		}()
	}
	threads.Wait()
	close(left)
	all := len(k.Clear())
	for n := range left {
		all += n
	}
	if all != int(made.Load()) {
		t.Errorf("%d were made, %d are there", made.Load(), all)
	}
}
