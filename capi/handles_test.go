package main

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

type thing struct{ n int }

// Kinds of things, as which buffers and leases have handles.
const (
	thingBuffer = kind[thing](kindBuffer)
	thingLease  = kind[thing](kindLease)
	thingOther  = kind[thing](kindProgram)
)

func TestHandles(t *testing.T) {
	a := &thing{1}
	h, err := register(thingBuffer, a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lookup(h, thingBuffer, "f"); got != a || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := unregister(h, thingBuffer, "f"); got != a || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	other, err := register(thingOther, &thing{2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		h    handle
		text string
	}{
		{0, "f: the handle is null; expected a buffer"},
		{h, "is freed"},
		{other, "is a program; expected a buffer"},
		{h + 9<<indexBits, "was never given out"},
		{h + 1, "was never given out"},
		{1<<64 - 1, "was never given out"},
		{h ^ other, "was never given out"},
	} {
		if _, err := lookup(c.h, thingBuffer, "f"); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("0x%x: %v; expected %q", c.h, err, c.text)
		}
		if _, err := unregister(c.h, thingBuffer, "f"); err == nil {
			t.Errorf("0x%x: taken back", c.h)
		}
	}
	if got, err := unregister(other, thingOther, "f"); err != nil || got.n != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = lookup(other, thingBuffer, "f")
	require.ErrorContains(t, err, "is of a program that is freed; expected a buffer")
}

func TestHandlesInManyGoroutines(t *testing.T) {
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			var mine []handle
			for i := range 2000 {
				h, err := register(thingLease, &thing{g})
				if err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, h)
				if i%3 > 0 {
					if got, err := unregister(mine[0], thingLease, "f"); err != nil || got.n != g {
						t.Errorf("goroutine %d: got %v, %v", g, got, err)
					}
					mine = mine[1:]
				}
			}
			for _, h := range mine {
				if got, err := lookup(h, thingLease, "f"); err != nil || got.n != g {
					t.Errorf("goroutine %d: got %v, %v", g, got, err)
				}
				if _, err := unregister(h, thingLease, "f"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if left := all(thingLease); len(left) > 0 {
		t.Errorf("%d handles are left", len(left))
	}
}

// TestOneOfManyFrees has two threads free the same objects at once: one does it,
// the other is told that it is freed, and no place in the table is given to two
// objects.
func TestOneOfManyFrees(t *testing.T) {
	rounds := brief.Or(100000, 15000)
	handles := make([]handle, rounds)
	for i := range handles {
		h, err := register(thingBuffer, &thing{i})
		if err != nil {
			t.Fatal(err)
		}
		handles[i] = h
	}
	var arrived, both atomic.Int64
	freed := make([]atomic.Int32, rounds)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i, h := range handles {
				if i%64 == 0 { // side by side again, where there are processors
					arrived.Add(1)
					for spins := 0; arrived.Load() < int64(2*(i/64+1)) && spins < 100000; spins++ {
						if spins > 1000 {
							runtime.Gosched()
						}
					}
				}
				if got, err := unregister(h, thingBuffer, "free"); err != nil {
					if !strings.Contains(err.Error(), "is freed") {
						t.Error(err)
					}
				} else if got.n != i {
					t.Errorf("object %d instead of %d", got.n, i)
				} else if freed[i].Add(1) > 1 {
					both.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := both.Load(); n > 0 {
		t.Errorf("%d of %d objects were freed twice", n, rounds)
	}
	places := map[handle]bool{}
	for range rounds {
		h, err := register(thingBuffer, new(thing))
		if err != nil || places[h&(1<<indexBits-1)] {
			t.Fatal("two objects have one place", err)
		}
		places[h&(1<<indexBits-1)] = true
		defer func() { _, _ = unregister(h, thingBuffer, "free") }()
	}
}

// TestAHandleNamesOneObject looks handles up while their place is given to ever new
// objects: what is found is the handle's own, or nothing.
func TestAHandleNamesOneObject(t *testing.T) {
	type given struct {
		h handle
		n int
	}
	var last atomic.Pointer[given]
	var done atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for !done.Load() {
			if g := last.Load(); g != nil {
				if object := find(g.h, thingBuffer); object != nil && object.n != g.n {
					t.Errorf("handle 0x%x is of object %d; found %d", g.h, g.n, object.n)
					return
				}
			}
		}
	})
	for i := range 20000 {
		h, err := register(thingBuffer, &thing{i})
		require.NoError(t, err)
		last.Store(&given{h, i})
		if i%16 == 0 {
			runtime.Gosched()
		}
		got, err := unregister(h, thingBuffer, "f")
		require.NoError(t, err)
		require.Equal(t, i, got.n)
	}
	done.Store(true)
	group.Wait()
}

func TestAFullTableLeavesWrappedMemoryToItsOwner(t *testing.T) {
	ex, err := core.NewExecutor("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer ex.Close()
	told := 0
	memory := make([]float32, 4)
	b, err := ex.Wrap(uintptr(unsafe.Pointer(&memory[0])), isa.F32, []int64{4}, nil, false, func() { told++ })
	if err != nil {
		t.Fatal(err)
	}
	table.mu.Lock()
	used, free := table.used, table.free
	table.used, table.free = 1<<indexBits, nil
	table.mu.Unlock()
	defer func() {
		table.mu.Lock()
		table.used, table.free = used, append(table.free, free...)
		table.mu.Unlock()
	}()
	var out handle
	if status := adopt(kindBuffer, b, nil, &out, (*core.Buffer).Abandon); status == 0 || out != 0 {
		t.Errorf("status %d, handle %#x; expected an error and no handle", status, out)
	}
	if told != 0 || !b.Freed() {
		t.Errorf("the deleter was told %d times, freed: %v; expected 0 and true", told, b.Freed())
	}
}

// TestAnIndexIsGivenUpAfterItsLastGeneration, so that no handle is ever given out twice.
func TestAnIndexIsGivenUpAfterItsLastGeneration(t *testing.T) {
	first, err := register(thingLease, &thing{1})
	require.NoError(t, err)
	index := int(first & (1<<indexBits - 1))
	_, err = unregister(first, thingLease, "f")
	require.NoError(t, err)
	at(index).handle.Store((math.MaxUint32-1)<<indexBits | handle(index))
	last, err := register(thingLease, &thing{2}) // what was freed last is used first
	require.NoError(t, err)
	require.Equal(t, handle(kindLease)<<56|math.MaxUint32<<indexBits|handle(index), last)
	_, err = unregister(last, thingLease, "f")
	require.NoError(t, err)
	_, err = lookup(last, thingLease, "f")
	require.ErrorContains(t, err, "is freed")
	next, err := register(thingLease, &thing{3})
	require.NoError(t, err)
	require.NotEqual(t, index, int(next&(1<<indexBits-1)))
	_, err = unregister(next, thingLease, "f")
	require.NoError(t, err)
}
