package workers

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestBed has sleepers wake as often as they are woken, no more and no less, whether the wakes
// come one by one, many at once, or before they sleep, and has all leave a bed that is closed.
// Who has woken waits until all have: nobody wakes twice for another.
func TestBed(t *testing.T) {
	const sleepers = 3*4 + 1
	b := newBed()
	woken, up := make(chan struct{}, 1000), make(chan struct{})
	var all sync.WaitGroup
	start := func() {
		all.Go(func() {
			for b.sleep() {
				woken <- struct{}{}
				<-up
			}
		})
	}
	expect := func(n int) {
		t.Helper()
		for i := range n {
			select {
			case <-woken:
				if n > sleepers { // it takes some of them twice
					up <- struct{}{}
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%d of %d woke", i, n)
			}
		}
		select {
		case <-woken:
			t.Fatalf("more than %d woke", n)
		case <-time.After(5 * time.Millisecond):
		}
		for range n {
			if n <= sleepers {
				up <- struct{}{}
			}
		}
	}
	b.wake(1)
	if n := b.pending(); n != 1 {
		t.Errorf("%d are to wake", n)
	}
	start()
	expect(1)
	for range sleepers - 1 {
		start()
	}
	time.Sleep(10 * time.Millisecond) // they sleep, most likely
	for _, n := range []int{1, 2, sleepers, 1, 5 * sleepers} {
		b.wake(n)
		expect(n)
	}
	b.close()
	leave(t, &all)
}

// TestBedIsLeft has wakes and sleeps meet: none is lost.
func TestBedIsLeft(t *testing.T) {
	const sleepers, wakes = 3, 3000
	b := newBed()
	defer b.close()
	var woken atomic.Int32
	for range sleepers {
		go func() {
			for b.sleep() {
				woken.Add(1)
			}
		}()
	}
	for i := range wakes {
		b.wake(1)
		for deadline := time.Now().Add(10 * time.Second); i%7 == 0 && int(woken.Load()) <= i; time.Sleep(0) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d woke", woken.Load(), i+1)
			}
		}
	}
	for deadline := time.Now().Add(10 * time.Second); woken.Load() < wakes; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d woke", woken.Load(), wakes)
		}
	}
}

// TestBedClosesOnTheWay closes beds that sleepers come to and are woken in: all leave.
func TestBedClosesOnTheWay(t *testing.T) {
	for i := range brief.Or(2000, 500) {
		b := newBed()
		var all sync.WaitGroup
		var there atomic.Int32
		for range 3 {
			all.Go(func() {
				there.Add(1)
				for b.sleep() {
				}
			})
		}
		for there.Load() < int32(i%4) {
			Pause()
		}
		for range i % 7 {
			b.wake(1)
		}
		b.close()
		leave(t, &all)
	}
}

// leave waits until all that slept in a bed that is closed are up.
func leave(t *testing.T, all *sync.WaitGroup) {
	t.Helper()
	left := make(chan struct{})
	go func() {
		all.Wait()
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("some sleep on in a bed that is closed")
	}
}
