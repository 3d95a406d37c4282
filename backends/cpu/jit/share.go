package jit

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
)

// Put makes code ready to run, beside that of the kernels, for packages that
// make machine code of their own.
func Put(code []byte) (*mem.Code, error) {
	arena, err := theArena()
	if err != nil {
		return nil, unsupported("machine code", err.Error())
	}
	return arena.Put(code)
}

// Enter runs machine code as C's fn(args), on the goroutine's own stack, of which
// it may use 100 bytes. The collector waits for it, so it is for some 50 µs
// of work at most. args and what it leads to lie outside of stacks.
func Enter(code *mem.Code, args unsafe.Pointer) { enter(code.Entry, uintptr(args)) }
