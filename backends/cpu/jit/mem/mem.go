// Package mem holds machine code that is made while the process runs.
//
// The code lies in one file in memory (memfd) that is mapped twice: one view
// can be written and not executed, the other executed and not written. No
// mapping ever changes its rights, so it works where the system forbids that
// (PR_SET_MDWE). Where the system allows no such file, or no executable view
// of it, New says so and there is no machine code.
package mem

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Code is an area of executable memory.
type Code struct {
	Entry  uintptr // address of the first byte, to be called
	offset int
	size   int
	arena  *Arena
}

// Arena is memory for code, of fixed size.
type Arena struct {
	mu    sync.Mutex
	write []byte
	exec  uintptr
	free  []span // by offset, no two adjacent
	used  int
}

type span struct{ offset, size int }

// granule is what areas are multiples of: a line of the cache.
const granule = 64

// ErrFull is returned when an arena has no room.
var ErrFull = errors.New("the memory for machine code is full")

// New makes an arena of the given size, in bytes, a multiple of a page.
func New(size int) (*Arena, error) {
	write, exec, err := mapTwice(size)
	if err != nil {
		return nil, fmt.Errorf("no memory for machine code: %w", err)
	}
	return &Arena{write: write, exec: exec, free: []span{{0, size}}}, nil
}

// Put copies code into the arena, ready to run.
func (a *Arena) Put(code []byte) (*Code, error) {
	size := (max(len(code), 1) + granule - 1) &^ (granule - 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.free {
		s := &a.free[i]
		if s.size < size {
			continue
		}
		c := &Code{Entry: a.exec + uintptr(s.offset), offset: s.offset, size: size, arena: a}
		s.offset += size
		s.size -= size
		if s.size == 0 {
			a.free = append(a.free[:i], a.free[i+1:]...)
		}
		a.used += size
		copy(a.write[c.offset:], code)
		return c, nil
	}
	return nil, ErrFull
}

// Used returns how many bytes are taken.
func (a *Arena) Used() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Release gives the area back. Nobody runs it any more. What is left there
// traps.
func (c *Code) Release() {
	a := c.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range c.size {
		a.write[c.offset+i] = 0xCC
	}
	a.used -= c.size
	i := 0
	for i < len(a.free) && a.free[i].offset < c.offset {
		i++
	}
	a.free = append(a.free, span{})
	copy(a.free[i+1:], a.free[i:])
	a.free[i] = span{c.offset, c.size}
	if i+1 < len(a.free) && a.free[i].offset+a.free[i].size == a.free[i+1].offset {
		a.free[i].size += a.free[i+1].size
		a.free = append(a.free[:i+1], a.free[i+2:]...)
	}
	if i > 0 && a.free[i-1].offset+a.free[i-1].size == a.free[i].offset {
		a.free[i-1].size += a.free[i].size
		a.free = append(a.free[:i], a.free[i+1:]...)
	}
}

// addressOf is the address of a mapping's first byte.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
