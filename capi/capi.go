// Command capi is the C ABI of Hologram, built with -buildmode=c-shared.
//
// The functions exported here have names that start with go_; genheader makes
// of each a C function with a name that starts with hologram_, which looks
// first whether the process is a fork's child (where Go's scheduler has no
// threads and a call would hang), and hologram.h, which declares them. A
// pointer parameter whose name ends in _out receives a result; what others lead
// to is only read.
//
// Every function returns a status; its error's text is kept for the thread. A
// panic becomes the status HOLOGRAM_INTERNAL.
package main

// #cgo CFLAGS: -O3 -fvisibility=hidden
// #include "support.h"
import "C"

import (
	"errors"
	"math"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

//go:generate go run ./genheader

// abiVersion changes whenever a caller compiled against an older hologram.h would break.
const abiVersion = 2

// grace is how long a call waits for work before it returns HOLOGRAM_PENDING.
const grace = 5 * time.Millisecond

func main() {}

// fail keeps an error's text for the thread and returns its status.
func fail(err error) C.int32_t {
	if err == nil {
		return C.HOLOGRAM_OK
	}
	text := err.Error()
	C.hologram_support_error((*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
	var e *core.Error
	if errors.As(err, &e) && e.Fault != nil {
		C.hologram_support_fault(C.int32_t(e.Fault.Kind), C.int32_t(e.Fault.Inst), C.int32_t(e.Fault.Line), C.uint64_t(e.Fault.Lane))
	}
	code := core.CodeOf(err)
	if short := core.ShortOf(err); code == core.OutOfMemory && short != nil {
		C.hologram_support_shortage(C.int64_t(short.Asked), C.int64_t(short.Free), C.int64_t(short.Cached))
	}
	return C.int32_t(code)
}

// guard turns a panic into a status. It is deferred by every export.
func guard(status *C.int32_t) {
	if r := recover(); r != nil {
		*status = fail(core.Errorf(core.Internal, "panic: %v\n%s", r, debug.Stack()))
	}
}

// interrupted is what core asks while the caller waits for a program to be made:
// hologram_set_interrupt's function, on the caller's thread.
func interrupted() error {
	if C.hologram_support_interrupted() != 0 {
		return errInterrupted
	}
	return nil
}

var errInterrupted = core.Errorf(core.Cancelled, "interrupted")

// settle returns the outcome of work, or HOLOGRAM_PENDING with its event if it
// takes long.
func settle(ev *core.Event, err error, event_out *C.hologram_event) C.int32_t {
	if ev == nil {
		return fail(err)
	}
	if err := core.Wait(ev, grace); core.CodeOf(err) != core.Pending {
		return fail(err)
	}
	h, err := register(kindEvent, ev)
	if err != nil {
		return fail(core.Wait(ev, math.MaxInt64)) // nobody could wait for it
	}
	*event_out = C.hologram_event(h)
	return C.HOLOGRAM_PENDING
}

// answer fills a caller's structure, which has the size that its first field
// tells: at least that of version 2 of the ABI, in which it is all of T.
func answer[T any](what, name string, out *T, made T) C.int32_t {
	size := (*C.uint32_t)(unsafe.Pointer(out))
	if uintptr(*size) < unsafe.Sizeof(made) {
		return fail(core.Errorf(core.Invalid, "%s: %s->size is %d; expected %d or more", what, name, *size, unsafe.Sizeof(made)))
	}
	*out = made
	*size = C.uint32_t(unsafe.Sizeof(made))
	return C.HOLOGRAM_OK
}

// adopt gives a fresh object a handle.
func adopt[T any, H ~uint64](k kind[T], object *T, err error, out *H, undo func(*T)) C.int32_t {
	if err != nil {
		return fail(err)
	}
	h, err := register(k, object)
	if err != nil {
		undo(object)
		return fail(err)
	}
	*out = H(h)
	return C.HOLOGRAM_OK
}

// null says that a pointer which must not be NULL is.
func null(what, name string) C.int32_t {
	return fail(core.Errorf(core.Invalid, "%s: %s is NULL", what, name))
}

// onlyFlags refuses flags that mean nothing: a later library may give them a meaning.
func onlyFlags(what string, given, meant C.int32_t) error {
	if given&^meant != 0 {
		return core.Errorf(core.Invalid, "%s: flags is %d; expected none but those of %d", what, given, meant)
	}
	return nil
}

// known reports whether a dtype's code names a type.
func known(dtype C.int32_t) bool { return dtype > 0 && dtype < 256 && core.Type(dtype).Numeric() }

// typeOf checks a dtype's code.
func typeOf(what string, dtype C.int32_t) (core.Type, error) {
	if known(dtype) {
		return core.Type(dtype), nil
	}
	return 0, core.Errorf(core.BadType, "%s: dtype %d names no type; they are 1 (i8) … 12 (f64)", what, dtype)
}

// items is a C array as a slice; it may be nil if there are none.
func items[T any](what, name string, p *T, n C.int32_t) ([]T, error) {
	switch {
	case n < 0 || n > 1<<16:
		return nil, core.Errorf(core.Invalid, "%s: the number of %s is %d", what, name, n)
	case n == 0:
		return nil, nil
	case p == nil:
		return nil, core.Errorf(core.Invalid, "%s: %s is NULL, and there are to be %d", what, name, n)
	}
	return unsafe.Slice(p, int(n)), nil
}

// put copies text into a C array of characters, cut to fit, with a final NUL.
func put(to []C.char, text string) {
	n := copy(unsafe.Slice((*byte)(unsafe.Pointer(&to[0])), len(to)-1), text)
	to[n] = 0
}

// give copies data to where a caller has capacity bytes, and tells its size.
func give(data string, out *C.char, capacity C.size_t, size *C.size_t) C.int32_t {
	if size != nil {
		*size = C.size_t(len(data))
	}
	if out != nil && capacity > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(out)), int(min(capacity, C.size_t(len(data))))), data)
	}
	return C.HOLOGRAM_OK
}

// takeBytes is what a caller's pointer and size lead to, copied.
func takeBytes(what, name string, p *C.char, n C.size_t) ([]byte, error) {
	switch {
	case n > 1<<30:
		return nil, core.Errorf(core.Invalid, "%s: %s has %d bytes; at most 2^30", what, name, uint64(n))
	case p == nil && n > 0:
		return nil, core.Errorf(core.Invalid, "%s: %s is NULL", what, name)
	}
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))...), nil
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}
