package core

import "unsafe"

// bytesAt returns the n bytes of host memory from addr on. The memory is
// outside Go's heap, or held by the caller meanwhile.
func bytesAt(addr uintptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	// The address is of memory that Go does not manage, which vet cannot know.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}

// addressOf returns the address of b's first byte; b must not be empty.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
