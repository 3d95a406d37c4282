package core

import (
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// Buffer is a view of counted memory: a dtype, a shape and strides. Several may
// see the same memory, which stays until the last of them, and the last view
// exported from them, is gone.
type Buffer struct {
	ex       *Executor
	mem      *memory
	view     backends.View
	n        int64 // elements
	packed   bool  // contiguous, row-major
	readOnly bool
	class    int // of a boundary buffer, else −1
	freed    atomic.Bool
}

// maxBytes bounds what anybody may ask for, so that sums of sizes fit int64.
const maxBytes = 1 << 56

// Allocate makes a buffer of n elements. Without zeroed it may hold whatever
// the memory held before.
func (ex *Executor) Allocate(n int64, t isa.Type, zeroed bool) (*Buffer, error) {
	if !t.Numeric() {
		return nil, Errorf(BadType, "allocate: dtype code %d names no type", t)
	}
	if n <= 0 {
		return nil, Errorf(Invalid, "allocate: size is %d; expected a positive number of elements", n)
	}
	if n > maxBytes/int64(t.Size()) {
		return nil, Errorf(OutOfMemory, "allocate: %d elements of %v are more than any device holds", n, t)
	}
	m, err := ex.memory(n*int64(t.Size()), zeroed)
	if err != nil {
		return nil, within("allocate", err)
	}
	v := backends.View{Addr: m.addr, Type: t, Rank: 1}
	v.Shape[0], v.Stride[0] = n, 1
	return ex.adopt(m, v)
}

// AllocateBoundary makes a buffer of width·height elements on the executor's
// boundary pool, from the start of a class on: element 0 is Φ(class, 0, 0).
// Buffers of one class share its 12,288 bytes, as Φ-addresses do, and no buffer
// reaches beyond its class. width is at most 48, height at most 256.
func (ex *Executor) AllocateBoundary(class, width, height int64, t isa.Type) (*Buffer, error) {
	const what = "allocate_boundary"
	switch {
	case !t.Numeric():
		return nil, Errorf(BadType, what+": dtype code %d names no type", t)
	case class < 0 || class >= isa.NumClasses:
		return nil, Errorf(Invalid, what+": class_index is %d; expected 0 … %d", class, isa.NumClasses-1)
	case width <= 0 || width > isa.PagesPerClass:
		return nil, Errorf(Invalid, what+": width is %d; expected 1 … %d", width, isa.PagesPerClass)
	case height <= 0 || height > isa.PageBytes:
		return nil, Errorf(Invalid, what+": height is %d; expected 1 … %d", height, isa.PageBytes)
	}
	n := width * height
	if bytes := n * int64(t.Size()); bytes > isa.ClassBytes {
		return nil, Errorf(Invalid, what+": %d × %d elements of %v are %d bytes; a class has %d", width, height, t, bytes, isa.ClassBytes)
	}
	pool, err := ex.boundaryPool()
	if err != nil {
		return nil, within(what, err)
	}
	v := backends.View{Addr: pool.addr + uintptr(class*isa.ClassBytes), Type: t, Rank: 1}
	v.Shape[0], v.Stride[0] = n, 1
	b, err := ex.adopt(pool, v)
	if err == nil {
		b.class = int(class)
	}
	return b, err
}

// boundaryPool returns the executor's boundary pool, with the caller counted.
func (ex *Executor) boundaryPool() (*memory, error) {
	ex.mu.Lock()
	pool, closed := ex.boundary, ex.closed
	if pool != nil {
		pool.acquire()
	}
	ex.mu.Unlock()
	if pool != nil {
		return pool, nil
	}
	if closed {
		return nil, Errorf(BadHandle, "executor is freed")
	}
	fresh, err := ex.memory(isa.BoundaryBytes, true)
	if err != nil {
		return nil, err
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	switch {
	case ex.closed:
		fresh.release()
		return nil, Errorf(BadHandle, "executor is freed")
	case ex.boundary != nil: // another goroutine was faster
		fresh.release()
	default:
		ex.boundary = fresh
	}
	ex.boundary.acquire()
	return ex.boundary, nil
}

// Wrap makes a buffer of memory that others own, in place: on a device that the
// host sees, the host's memory; else the device's. stride is in elements; nil
// is row-major. deleter, which may be nil, is called once, from any goroutine,
// when nobody uses the memory any more; it may use executors, but must not wait
// for their work. If Wrap fails it isn't called. Without one, freeing the buffer
// waits for the work that uses the memory.
func (ex *Executor) Wrap(addr uintptr, t isa.Type, shape, stride []int64, readOnly bool, deleter func()) (*Buffer, error) {
	v, err := viewOf("wrap", addr, t, shape, stride)
	if err != nil {
		return nil, err
	}
	lo, hi, _ := extent(v)
	if addr == 0 && hi > lo {
		return nil, Errorf(Invalid, "wrap: the address is null")
	}
	if addr%uintptr(t.Size()) != 0 {
		return nil, Errorf(Invalid, "wrap: address 0x%x is not a multiple of %d, the size of %v; make an aligned copy", addr, t.Size(), t)
	}
	m := &memory{addr: addr + uintptr(lo), bytes: hi - lo, device: ex.device, foreign: true}
	m.n.Store(1)
	b, err := ex.adopt(m, *v)
	if err != nil {
		return nil, err
	}
	b.readOnly = readOnly
	if m.deleter = deleter; deleter == nil {
		m.borrow = new(borrow)
	}
	return b, nil
}

// viewOf checks a layout.
func viewOf(what string, addr uintptr, t isa.Type, shape, stride []int64) (*backends.View, error) {
	if !t.Numeric() {
		return nil, Errorf(BadType, "%s: dtype code %d names no type", what, t)
	}
	if len(shape) > isa.MaxRank {
		return nil, Errorf(Invalid, "%s: shape %s has %d dimensions; at most %d", what, shapeText(shape), len(shape), isa.MaxRank)
	}
	for _, d := range shape {
		if d < 0 {
			return nil, Errorf(Invalid, "%s: shape %s has a negative dimension", what, shapeText(shape))
		}
	}
	if _, ok := elements(shape, maxBytes/8); !ok {
		return nil, Errorf(Invalid, "%s: shape %s has more elements than any memory", what, shapeText(shape))
	}
	v := &backends.View{Addr: addr, Type: t, Rank: len(shape)}
	copy(v.Shape[:], shape)
	if stride == nil {
		packed(v)
	} else if len(stride) != len(shape) {
		return nil, Errorf(Invalid, "%s: %d strides for %d dimensions", what, len(stride), len(shape))
	}
	copy(v.Stride[:], stride)
	if lo, hi, ok := extent(v); !ok || addr != 0 && (int64(addr)+lo < 0 || int64(addr)+hi < 0) {
		return nil, Errorf(Invalid, "%s: shape %s with strides %s reaches beyond any memory", what, shapeText(shape), shapeText(stride))
	}
	return v, nil
}

// adopt makes the buffer that holds the caller's count of m.
func (ex *Executor) adopt(m *memory, v backends.View) (*Buffer, error) {
	b := &Buffer{ex: ex, mem: m, view: v, n: numel(&v), packed: isContiguous(&v), class: -1}
	b.view.Bytes = 0
	if b.packed {
		packed(&b.view)
	}
	ex.mu.Lock()
	if ex.closed {
		ex.mu.Unlock()
		m.release()
		return nil, Errorf(BadHandle, "executor is freed")
	}
	ex.buffers[b] = struct{}{}
	ex.mu.Unlock()
	return b, nil
}

// View makes another buffer that sees part of b's memory: from element offset
// on, with the given shape and strides in elements (nil: row-major). It must
// stay within what b's memory holds.
func (b *Buffer) View(offset int64, shape, stride []int64) (*Buffer, error) {
	if err := b.pin("view"); err != nil {
		return nil, err
	}
	size := int64(b.view.Type.Size())
	if offset > maxBytes/size || offset < -maxBytes/size {
		b.mem.release()
		return nil, Errorf(Invalid, "view: offset %d is outside the buffer's memory", offset)
	}
	v, err := viewOf("view", b.view.Addr+uintptr(offset*size), b.view.Type, shape, stride)
	if err != nil {
		b.mem.release()
		return nil, err
	}
	lo, hi, _ := extent(v)
	from := int64(v.Addr) - int64(b.mem.addr)
	if hi > lo && (from+lo < 0 || from+hi > b.mem.bytes) {
		b.mem.release()
		return nil, Errorf(Invalid, "view: offset %d, shape %s, strides %s reach outside the buffer's %d bytes",
			offset, shapeText(shape), shapeText(v.Stride[:v.Rank]), b.mem.bytes)
	}
	made, err := b.ex.adopt(b.mem, *v)
	if err != nil {
		return nil, err
	}
	made.readOnly, made.class = b.readOnly, b.class
	return made, nil
}

// pin counts a user of the buffer's memory, unless the buffer is freed.
func (b *Buffer) pin(what string) error {
	if b.freed.Load() || !b.mem.acquire() {
		return Errorf(BadHandle, "%s: the buffer is freed", what)
	}
	return nil
}

// use counts work that uses the buffer's memory, unless the buffer is freed.
func (b *Buffer) use(what string) error {
	if !b.mem.begin() {
		return Errorf(BadHandle, "%s: the buffer is freed", what)
	}
	// Looked at after counting: who frees the buffer looks at the count after that.
	if b.freed.Load() {
		b.mem.end()
		return Errorf(BadHandle, "%s: the buffer is freed", what)
	}
	return nil
}

// Free lets go of the buffer's memory, which lives on while exported views or
// launches under way use it. Freeing again does nothing. If the memory is
// foreign and has no deleter, its owner may let go of it when Free returns, so
// Free waits until no work on any executor uses it.
func (b *Buffer) Free() {
	b.ex.mu.Lock()
	delete(b.ex.buffers, b)
	b.ex.mu.Unlock()
	b.drop()
}

// settleEvery is how often a wait for a device's work looks what is done.
const settleEvery = 10 * time.Millisecond

func (b *Buffer) drop() {
	if b.freed.Swap(true) {
		return
	}
	if b.mem.borrow != nil {
		for idle := b.mem.borrow.idle(); idle != nil; idle = b.mem.borrow.idle() {
			if user := b.mem.user.Load(); user != nil {
				user.settle() // which counts out what the device has done
			}
			select {
			case <-idle:
			case <-time.After(settleEvery):
			}
		}
	}
	b.mem.release()
}

// Freed reports whether the buffer was freed.
func (b *Buffer) Freed() bool { return b.freed.Load() }

// Executor returns the executor that made the buffer.
func (b *Buffer) Executor() *Executor { return b.ex }

// Layout returns where element 0 is, the dtype, shape and strides. Bytes is 0
// unless the buffer is contiguous.
func (b *Buffer) Layout() backends.View { return b.view }

// Len returns the number of elements.
func (b *Buffer) Len() int64 { return b.n }

// Contiguous reports whether the elements lie one after the other, row-major.
func (b *Buffer) Contiguous() bool { return b.packed }

// ReadOnly reports whether the buffer is refused as an output.
func (b *Buffer) ReadOnly() bool { return b.readOnly }

// Class returns the class of a boundary buffer, −1 for others.
func (b *Buffer) Class() int { return b.class }

// Lease keeps a buffer's memory alive for a view that others have of it.
type Lease struct{ mem *memory }

// Lease counts another user of the buffer's memory.
func (b *Buffer) Lease() (*Lease, error) {
	if err := b.pin("export"); err != nil {
		return nil, err
	}
	return &Lease{b.mem}, nil
}

// Release ends the lease. It is called once.
func (l *Lease) Release() { l.mem.release() }

// Read copies bytes of a contiguous buffer, from byte offset on, to the host.
// It waits for the work queued before, and returns the errors of that which
// nobody has seen. dst stays as it is until the event is done.
func (b *Buffer) Read(dst uintptr, offset, bytes int64) (*Event, error) {
	if err := b.window("read", offset, bytes); err != nil {
		return nil, err
	}
	s := b.ex.stream
	return s.copy(&copyJob{dst: dst, src: b.view.Addr + uintptr(offset), bytes: bytes, dstHost: true,
		mem: [2]*memory{b.mem}, report: true})
}

// Write copies bytes from the host to a contiguous buffer, from byte offset on.
// src stays as it is until the event is done.
func (b *Buffer) Write(src uintptr, offset, bytes int64) (*Event, error) {
	if b.readOnly {
		return nil, Errorf(Invalid, "write: the buffer is read-only")
	}
	if err := b.window("write", offset, bytes); err != nil {
		return nil, err
	}
	s := b.ex.stream
	return s.copy(&copyJob{dst: b.view.Addr + uintptr(offset), src: src, bytes: bytes, srcHost: true,
		mem: [2]*memory{b.mem}})
}

// window checks a range of bytes and counts the work that uses it.
func (b *Buffer) window(what string, offset, bytes int64) error {
	if !b.packed {
		return Errorf(Invalid, "%s: the buffer is a strided view; copy it to a contiguous one first", what)
	}
	if offset < 0 || bytes < 0 || bytes > b.view.Bytes || offset > b.view.Bytes-bytes {
		return Errorf(Invalid, "%s: %d bytes at offset %d are outside the buffer's %d bytes", what, bytes, offset, b.view.Bytes)
	}
	return b.use(what)
}

// CopyFrom copies all elements of src, which has as many and the same dtype. It
// may be on another device.
func (b *Buffer) CopyFrom(src *Buffer) (*Event, error) {
	switch {
	case b.readOnly:
		return nil, Errorf(Invalid, "copy: the destination is read-only")
	case b.view.Type != src.view.Type:
		return nil, Errorf(BadType, "copy: the destination has dtype %v, the source %v", b.view.Type, src.view.Type)
	case b.n != src.n:
		return nil, Errorf(Invalid, "copy: the destination has %d elements, the source %d: sizes must be equal", b.n, src.n)
	}
	if b.ex.device == src.ex.device {
		if sameView(&b.view, &src.view) {
			return nil, nil
		}
		return b.ex.Op("copy", []*Buffer{src, b}, nil, nil)
	}
	if !b.packed || !src.packed {
		return nil, Errorf(Invalid, "copy: a strided view cannot be copied from %s to %s; copy it to a contiguous buffer first",
			src.ex.device.Name, b.ex.device.Name)
	}
	if err := src.use("copy"); err != nil {
		return nil, err
	}
	if err := b.use("copy"); err != nil {
		src.mem.end()
		return nil, err
	}
	// The other stream's part is queued there first and waits for nothing that
	// is queued later, so two copies in opposite directions cannot wait for
	// each other.
	from := src.ex.stream
	j := &copyJob{dst: b.view.Addr, src: src.view.Addr, bytes: b.view.Bytes, srcHost: true, mem: [2]*memory{b.mem, src.mem}}
	var first job = &barrierJob{}
	if !src.ex.device.Info.HostVisible {
		staging := make([]byte, max(1, b.view.Bytes))
		src.mem.begin() // which src holds
		j.src, j.keep = addressOf(staging), staging
		first = &copyJob{dst: j.src, src: src.view.Addr, bytes: j.bytes, dstHost: true, mem: [2]*memory{src.mem}, keep: staging}
	}
	var err error
	if j.before, err = from.submit(first, from.device.async); err != nil {
		j.done()
		return nil, err
	}
	return b.ex.stream.copy(j)
}

// Fill sets every element.
func (b *Buffer) Fill(value Scalar) (*Event, error) {
	return b.ex.Op("fill", []*Buffer{b}, []Scalar{value}, nil)
}

// within puts what was called before an error's message.
func within(what string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	named := *e
	named.Msg = what + ": " + e.Msg
	return &named
}
