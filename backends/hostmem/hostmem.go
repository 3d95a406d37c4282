// Package hostmem is memory of the host outside Go's heap, which the host
// backends hand out: numpy and C code look at it in place, and the collector
// neither moves nor scans it. It also turns addresses into Go values, in one
// place, for memory of whatever owner.
package hostmem

import (
	"fmt"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
)

// hugePage is the size from which a block is aligned to, and the system asked
// for, huge pages: fresh memory then costs a quarter as much to touch first.
const hugePage = 2 << 20

// Alloc returns the address of zeroed memory, aligned to a page, or to 2 MiB
// for blocks of that size and more. Zero bytes give a block of one page, so
// that every block has an address of its own. The error, if there is no
// memory, wraps backends.ErrOutOfMemory.
func Alloc(bytes int64) (uintptr, error) {
	if bytes < 0 || bytes > 1<<62 || int64(int(bytes)) != bytes {
		return 0, fmt.Errorf("allocate %d bytes: %w", bytes, backends.ErrOutOfMemory)
	}
	addr, err := allocate(mapped(bytes))
	if err != nil {
		return 0, fmt.Errorf("allocate %d bytes: %w (%v)", bytes, backends.ErrOutOfMemory, err)
	}
	return addr, nil
}

// Free gives back the memory that Alloc returned for the same number of bytes.
func Free(addr uintptr, bytes int64) error {
	if err := release(addr, mapped(bytes)); err != nil {
		return fmt.Errorf("free %d bytes at %#x: %w", bytes, addr, err)
	}
	return nil
}

// mapped rounds a block's size up to whole pages.
func mapped(bytes int64) uintptr {
	return (uintptr(max(bytes, 1)) + pageSize - 1) &^ (pageSize - 1)
}

// Pointer turns an address into a pointer. The memory there must not be of
// Go's heap, or something else must keep it alive.
func Pointer(addr uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// Bytes returns the n bytes of memory at addr.
func Bytes(addr uintptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(Pointer(addr)), n)
}
