package hostmem

import (
	"errors"
	"runtime"
	"testing"

	"github.com/hologram-project/hologram/backends"
)

func TestAlloc(t *testing.T) {
	for _, n := range []int64{0, 1, 64, 4095, 4096, 4097, hugePage - 1, hugePage, hugePage + 1, 5*hugePage + 3} {
		addr, err := Alloc(n)
		if err != nil {
			t.Fatalf("Alloc(%d): %v", n, err)
		}
		align := uintptr(64)
		if n >= hugePage && runtime.GOOS != "windows" {
			align = hugePage
		}
		if addr == 0 || addr%align != 0 {
			t.Errorf("Alloc(%d) = %#x, not aligned to %d", n, addr, align)
		}
		b := Bytes(addr, n)
		if int64(len(b)) != n {
			t.Fatalf("Bytes gives %d, want %d", len(b), n)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of %d is %d, want 0", i, n, b[i])
			}
			b[i] = byte(i)
		}
		runtime.GC()
		for i := range b {
			if b[i] != byte(i) {
				t.Fatalf("byte %d of %d was lost", i, n)
			}
		}
		if err := Free(addr, n); err != nil {
			t.Errorf("Free(%d bytes): %v", n, err)
		}
	}
}

// TestAllocTooMuch asks for what no machine has.
func TestAllocTooMuch(t *testing.T) {
	for _, n := range []int64{-1, 1 << 55, 1<<62 + 1, 1<<63 - 1} {
		if addr, err := Alloc(n); !errors.Is(err, backends.ErrOutOfMemory) || addr != 0 {
			t.Errorf("Alloc(%d) = %#x, %v, want out of memory", n, addr, err)
		}
	}
}

// TestFreeGivesBack allocates, in all, more than the 2^47 bytes that a process
// may map at once.
func TestFreeGivesBack(t *testing.T) {
	const size = 1 << 30
	for total := 0; total <= 1<<47; total += size {
		addr, err := Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		if err := Free(addr, size); err != nil {
			t.Fatal(err)
		}
	}
}
