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
)

type thing struct{ n int }

func TestHandles(t *testing.T) {
	a := &thing{1}
	h, err := register(kindBuffer, a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lookup[*thing](h, kindBuffer, "f"); got != a || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := unregister[*thing](h, kindBuffer, "f"); got != a || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	other, err := register(kindProgram, &thing{2})
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
		if _, err := lookup[*strings.Builder](c.h, kindBuffer, "f"); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("0x%x: %v; expected %q", c.h, err, c.text)
		}
		if _, err := unregister[*strings.Builder](c.h, kindBuffer, "f"); err == nil {
			t.Errorf("0x%x: taken back", c.h)
		}
	}
	if got, err := unregister[*thing](other, kindProgram, "f"); err != nil || got.n != 2 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestHandlesInManyGoroutines(t *testing.T) {
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			var mine []handle
			for i := range 2000 {
				h, err := register(kindLease, &thing{g})
				if err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, h)
				if i%3 > 0 {
					if got, err := unregister[*thing](mine[0], kindLease, "f"); err != nil || got.n != g {
						t.Errorf("goroutine %d: got %v, %v", g, got, err)
					}
					mine = mine[1:]
				}
			}
			for _, h := range mine {
				if got, err := lookup[*thing](h, kindLease, "f"); err != nil || got.n != g {
					t.Errorf("goroutine %d: got %v, %v", g, got, err)
				}
				if _, err := unregister[*thing](h, kindLease, "f"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if left := all(kindLease); len(left) > 0 {
		t.Errorf("%d handles are left", len(left))
	}
}

// TestOneOfManyFrees has two threads free the same objects at once: one does it,
// the other is told that it is freed, and no place in the table is given to two
// objects.
func TestOneOfManyFrees(t *testing.T) {
	const rounds = 100000
	handles := make([]handle, rounds)
	for i := range handles {
		h, err := register(kindBuffer, &thing{i})
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
				if got, err := unregister[*thing](h, kindBuffer, "free"); err != nil {
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
		h, err := register(kindBuffer, new(thing))
		if err != nil || places[h&(1<<indexBits-1)] {
			t.Fatal("two objects have one place", err)
		}
		places[h&(1<<indexBits-1)] = true
		defer func() { _, _ = unregister[*thing](h, kindBuffer, "free") }()
	}
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
	first, err := register(kindLease, &thing{1})
	require.NoError(t, err)
	index := int(first & (1<<indexBits - 1))
	table.chunks[index/chunkSize].Load()[index%chunkSize].generation.Store(math.MaxUint32 - 1)
	_, err = unregister[*thing](first, kindLease, "f")
	require.NoError(t, err)
	last, err := register(kindLease, &thing{2}) // what was freed last is used first
	require.NoError(t, err)
	require.Equal(t, handle(kindLease)<<56|math.MaxUint32<<indexBits|handle(index), last)
	_, err = unregister[*thing](last, kindLease, "f")
	require.NoError(t, err)
	_, err = lookup[*thing](last, kindLease, "f")
	require.ErrorContains(t, err, "is freed")
	next, err := register(kindLease, &thing{3})
	require.NoError(t, err)
	require.NotEqual(t, index, int(next&(1<<indexBits-1)))
	_, err = unregister[*thing](next, kindLease, "f")
	require.NoError(t, err)
}
