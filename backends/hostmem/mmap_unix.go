//go:build unix

package hostmem

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var pageSize = uintptr(os.Getpagesize())

func allocate(size uintptr) (uintptr, error) {
	if size < hugePage {
		return anonymous(size)
	}
	// Map more, and give back what lies before and after the aligned block.
	addr, err := anonymous(size + hugePage)
	if err != nil {
		return 0, err
	}
	start := (addr + hugePage - 1) &^ (hugePage - 1)
	for _, spare := range [][2]uintptr{{addr, start}, {start + size, addr + size + hugePage}} {
		if spare[0] == spare[1] {
			continue
		}
		if err := release(spare[0], spare[1]-spare[0]); err != nil {
			return 0, err
		}
	}
	adviseHuge(unsafe.Slice((*byte)(Pointer(start)), size))
	return start, nil
}

func anonymous(size uintptr) (uintptr, error) {
	p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return uintptr(p), err
}

func release(addr, size uintptr) error { return unix.MunmapPtr(Pointer(addr), size) }
