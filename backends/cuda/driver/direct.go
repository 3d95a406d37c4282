package driver

import (
	"sync"
	"unsafe"
)

// frame holds a call's arguments outside the stack, so that a call allocates
// nothing. An argument that points into Go's heap is kept there by the caller.
type frame [11]uintptr

var frames = sync.Pool{New: func() any { return new(frame) }}

func (f *frame) call(at uintptr, n int) Result {
	r := invoke(at, f[:n]...)
	frames.Put(f)
	return r
}

func call1(at, a uintptr) Result {
	f := frames.Get().(*frame)
	f[0] = a
	return f.call(at, 1)
}

func call2(at, a, b uintptr) Result {
	f := frames.Get().(*frame)
	f[0], f[1] = a, b
	return f.call(at, 2)
}

func call3(at, a, b, c uintptr) Result {
	f := frames.Get().(*frame)
	f[0], f[1], f[2] = a, b, c
	return f.call(at, 3)
}

func call4(at, a, b, c, d uintptr) Result {
	f := frames.Get().(*frame)
	f[0], f[1], f[2], f[3] = a, b, c, d
	return f.call(at, 4)
}

// direct binds an entry point that launches and copies go through without
// reflection, which costs more than the call. It reports whether f is of a type
// that it knows: those of words alone. Pointers given to such calls are of
// memory that does not move: Go's heap, not a stack.
func direct(f any, at uintptr) bool {
	switch f := f.(type) {
	case *func(Context) Result:
		*f = func(c Context) Result { return call1(at, uintptr(c)) }
	case *func(*Context) Result:
		*f = func(c *Context) Result { return call1(at, uintptr(unsafe.Pointer(c))) }
	case *func(Stream) Result:
		*f = func(s Stream) Result { return call1(at, uintptr(s)) }
	case *func(Stream, *int32) Result:
		*f = func(s Stream, p *int32) Result { return call2(at, uintptr(s), uintptr(unsafe.Pointer(p))) }
	case *func(Exec, Node, *KernelNode) Result:
		*f = func(x Exec, n Node, k *KernelNode) Result {
			return call3(at, uintptr(x), uintptr(n), uintptr(unsafe.Pointer(k)))
		}
	case *func(Exec, Stream) Result:
		*f = func(x Exec, s Stream) Result { return call2(at, uintptr(x), uintptr(s)) }
	case *func(Event, Stream) Result:
		*f = func(e Event, s Stream) Result { return call2(at, uintptr(e), uintptr(s)) }
	case *func(Stream, Pointer, uint64, uint32) Result:
		*f = func(s Stream, p Pointer, v uint64, flags uint32) Result {
			return call4(at, uintptr(s), uintptr(p), uintptr(v), uintptr(flags))
		}
	case *func(Pointer, Pointer, uint64, Stream) Result:
		*f = func(dst, src Pointer, n uint64, s Stream) Result {
			return call4(at, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
		}
	case *func(Func, uint32, uint32, uint32, uint32, uint32, uint32, uint32, Stream, *unsafe.Pointer, *unsafe.Pointer) Result:
		*f = func(fn Func, gx, gy, gz, bx, by, bz, shared uint32, s Stream, params, extra *unsafe.Pointer) Result {
			a := frames.Get().(*frame)
			*a = frame{uintptr(fn), uintptr(gx), uintptr(gy), uintptr(gz), uintptr(bx), uintptr(by), uintptr(bz), uintptr(shared),
				uintptr(s), uintptr(unsafe.Pointer(params)), uintptr(unsafe.Pointer(extra))}
			return a.call(at, len(a))
		}
	default:
		return false
	}
	return true
}
