package hostmem

import (
	"os"

	"golang.org/x/sys/windows"
)

var pageSize = uintptr(os.Getpagesize())

func allocate(size uintptr) (uintptr, error) {
	return windows.VirtualAlloc(0, size, windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
}

func release(addr, _ uintptr) error { return windows.VirtualFree(addr, 0, windows.MEM_RELEASE) }
