package main

import (
	"strings"
	"sync"
	"testing"
	"unsafe"

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
	// Only one of those who take a handle back at once gets its object.
	h, err := register(kindLease, &thing{})
	if err != nil {
		t.Fatal(err)
	}
	var winners sync.Map
	for g := range 8 {
		group.Go(func() {
			if _, err := unregister[*thing](h, kindLease, "f"); err == nil {
				winners.Store(g, true)
			}
		})
	}
	group.Wait()
	n := 0
	winners.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d goroutines took one handle back", n)
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
