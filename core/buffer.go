package core

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// Buffer is a view of counted memory: a dtype, a shape and strides. Several may
// see the same memory, which stays until the last of them, and the last view
// exported from them, is gone.
type Buffer struct {
	ex    *Executor
	mem   *memory.Memory // another's, once the buffer is freed: see begin
	addr  uintptr        // of element 0
	n     int64          // elements
	shape *shape         // nil: n elements in a row, as in most
	// within has elements between which lies what is somebody else's: views keep to
	// them. Nil: the memory is all the buffer's own.
	within *backends.View
	// The executor's buffers are a list, under its lock.
	prev, next *Buffer
	dtype      isa.Type
	packed     bool // contiguous, row-major
	readOnly   bool
	class      int16 // of a boundary buffer, else −1
	freed      atomic.Bool
}

// shape is that of a buffer which is no row, and its strides.
type shape struct {
	rank         int
	size, stride [isa.MaxRank]int64
}

// Wrap makes a buffer of memory that others own, in place: on a device that the
// host sees, the host's memory; else the device's. stride is in elements; nil
// is row-major. deleter, which may be nil, is called once, from any goroutine,
// when nobody uses the memory any more; it may use executors, but must not wait
// for their work. If Wrap fails it isn't called. Without one, freeing the buffer
// waits for the work that uses the memory.
func (ex *Executor) Wrap(addr uintptr, t isa.Type, shape, stride []int64, readOnly bool, deleter func()) (*Buffer, error) {
	v, err := call.ViewOf("wrap", addr, t, shape, stride)
	if err != nil {
		return nil, err
	}
	lo, hi, _ := call.Extent(v)
	if addr == 0 && hi > lo {
		return nil, Errorf(Invalid, "wrap: the address is null")
	}
	if addr%uintptr(t.Size()) != 0 {
		return nil, Errorf(Invalid, "wrap: address 0x%x is not a multiple of %d, the size of %v; make an aligned copy", addr, t.Size(), t)
	}
	m, err := ex.device.foreign(addr+uintptr(lo), hi-lo, deleter)
	if err != nil {
		return nil, status.Within("wrap", err)
	}
	b := newBuffer(ex, m, v)
	b.readOnly = readOnly
	if err := ex.enlist(b); err != nil {
		m.Disown()
		m.Release()
		return nil, err
	}
	return b, nil
}

// newBuffer makes a buffer that holds the caller's count of m.
func newBuffer(ex *Executor, m *memory.Memory, v *backends.View) *Buffer {
	b := &Buffer{ex: ex, mem: m, addr: v.Addr, n: call.Numel(v), dtype: v.Type, packed: call.Contiguous(v), class: -1}
	if b.packed {
		call.Pack(v)
	}
	if v.Rank != 1 || v.Stride[0] != 1 {
		b.shape = &shape{v.Rank, v.Shape, v.Stride}
	}
	return b
}

// enlist puts a buffer on the executor's list.
func (ex *Executor) enlist(b *Buffer) error {
	ex.mu.Lock()
	if ex.closed {
		ex.mu.Unlock()
		return queue.ErrFreed
	}
	if b.next = ex.buffers; b.next != nil {
		b.next.prev = b
	}
	ex.buffers = b
	ex.mu.Unlock()
	return nil
}

// View makes another buffer that sees part of b's memory: from element offset
// on, with the given shape and strides in elements (nil: row-major). It must
// stay within what b's memory holds, or a boundary buffer's class.
func (b *Buffer) View(offset int64, shape, stride []int64) (*Buffer, error) {
	if err := b.pin("view"); err != nil {
		return nil, err
	}
	size := int64(b.dtype.Size())
	if offset > memory.MaxBytes/size || offset < -memory.MaxBytes/size {
		b.mem.Release()
		return nil, Errorf(Invalid, "view: offset %d is outside the buffer's memory", offset)
	}
	v, err := call.ViewOf("view", b.addr+uintptr(offset*size), b.dtype, shape, stride)
	if err != nil {
		b.mem.Release()
		return nil, err
	}
	lo, hi, _ := call.Extent(v)
	start, bytes := b.mem.Addr, b.mem.Bytes
	if b.class >= 0 {
		start, bytes = start+uintptr(b.class)*isa.ClassBytes, isa.ClassBytes
	}
	from := int64(v.Addr) - int64(start)
	if hi > lo && (from+lo < 0 || from+hi > bytes) {
		b.mem.Release()
		return nil, Errorf(Invalid, "view: offset %d, shape %s, strides %s reach outside the buffer's %d bytes",
			offset, call.ShapeText(shape), call.ShapeText(v.Stride[:v.Rank]), bytes)
	}
	within := b.within
	if !b.packed {
		own := b.Layout()
		within = &own
	}
	if w := within; w != nil && !call.Holds(w, v) {
		b.mem.Release()
		return nil, Errorf(Invalid, "view: offset %d, shape %s, strides %s see memory between the elements of the buffer, which has shape %s and strides %s; give strides that are multiples of those, or copy it",
			offset, call.ShapeText(shape), call.ShapeText(v.Stride[:v.Rank]), call.ShapeText(w.Shape[:w.Rank]), call.ShapeText(w.Stride[:w.Rank]))
	}
	made := newBuffer(b.ex, b.mem, v)
	made.readOnly, made.class, made.within = b.readOnly, b.class, within
	if err := b.ex.enlist(made); err != nil {
		b.mem.Release()
		return nil, err
	}
	return made, nil
}

// pin counts a user of the buffer's memory, unless the buffer is freed.
func (b *Buffer) pin(what string) error {
	if b.mem.Acquire() {
		if !b.freed.Load() { // after counting, as in begin
			return nil
		}
		b.mem.Release()
	}
	return Errorf(BadHandle, "%s: the buffer is freed", what)
}

// use counts work that uses the buffer's memory, unless the buffer is freed.
func (b *Buffer) use(what string) error {
	if !b.begin() {
		return Errorf(BadHandle, "%s: the buffer is freed", what)
	}
	return nil
}

func (b *Buffer) begin() bool {
	if !b.mem.Begin() {
		return false
	}
	// Looked at after counting: who frees the buffer looks at the count after that.
	// What was counted may be another's by now, which it is harmless to for so long.
	if b.freed.Load() {
		b.mem.End()
		return false
	}
	return true
}

// Free lets go of the buffer's memory, which lives on while exported views or
// launches under way use it. Freeing again does nothing. If the memory is
// foreign and has no deleter, its owner may let go of it when Free returns, so
// Free waits until no work on any executor uses it.
func (b *Buffer) Free() {
	b.ex.unlist(b)
	b.drop()
}

// Abandon frees a fresh buffer of Wrap's whose caller found no use for it, and
// keeps the memory: the deleter is not called.
func (b *Buffer) Abandon() {
	b.mem.Disown()
	b.Free()
}

// unlist takes a buffer out of the executor's list, if it is there.
func (ex *Executor) unlist(b *Buffer) {
	ex.mu.Lock()
	listed := b.prev != nil || ex.buffers == b // else it was taken out before, or the executor is closed
	switch {
	case !listed:
	case b.prev != nil:
		b.prev.next = b.next
	default:
		ex.buffers = b.next
	}
	if listed && b.next != nil {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
	ex.mu.Unlock()
}

func (b *Buffer) drop() {
	if b.freed.Swap(true) {
		return
	}
	for idle := b.mem.Idle(); idle != nil; idle = b.mem.Idle() {
		<-idle
	}
	b.mem.Release()
}

// Freed reports whether the buffer was freed.
func (b *Buffer) Freed() bool { return b.freed.Load() }

// Executor returns the executor that made the buffer.
func (b *Buffer) Executor() *Executor { return b.ex }

// Layout returns where element 0 is, the dtype, shape and strides. Bytes is 0
// unless the buffer is contiguous.
func (b *Buffer) Layout() (v backends.View) {
	b.layout(&v)
	return v
}

// layout puts the buffer's layout in a View that is zero.
func (b *Buffer) layout(v *backends.View) {
	v.Addr, v.Bytes, v.Type = b.addr, b.bytes(), b.dtype
	if s := b.shape; s != nil {
		v.Rank, v.Shape, v.Stride = s.rank, s.size, s.stride
		return
	}
	v.Rank, v.Shape[0], v.Stride[0] = 1, b.n, 1
}

// bytes is what the elements take, of a contiguous buffer, else 0.
func (b *Buffer) bytes() int64 {
	if !b.packed {
		return 0
	}
	return b.n * int64(b.dtype.Size())
}

// Len returns the number of elements.
func (b *Buffer) Len() int64 { return b.n }

// Contiguous reports whether the elements lie one after the other, row-major.
func (b *Buffer) Contiguous() bool { return b.packed }

// ReadOnly reports whether the buffer is refused as an output.
func (b *Buffer) ReadOnly() bool { return b.readOnly }

// Class returns the class of a boundary buffer, −1 for others.
func (b *Buffer) Class() int { return int(b.class) }

// Lease keeps a buffer's memory alive for a view that others have of it.
type Lease struct {
	mem    *memory.Memory
	ex     *Executor // whose stream is native; nil: none is
	native uintptr
}

// Lease counts another user of the buffer's memory.
func (b *Buffer) Lease() (*Lease, error) {
	if err := b.pin("export"); err != nil {
		return nil, err
	}
	return &Lease{mem: b.mem}, nil
}

// LeaseOn is Lease for who uses the memory in the order of a stream, if it is not 0: once
// the lease is released the memory stays until what was queued there by then is done.
func (b *Buffer) LeaseOn(stream uintptr) (*Lease, error) {
	l, err := b.Lease()
	if err == nil && stream != 0 && b.ex.device.Info.Asynchronous {
		l.ex, l.native = b.ex, stream
	}
	return l, err
}

// Addr is where the memory begins.
func (l *Lease) Addr() uintptr { return l.mem.Addr }

// Release ends the lease. It is called once.
func (l *Lease) Release() {
	if l.ex == nil {
		l.mem.Release()
		return
	}
	_, _ = l.ex.submitTo(l.native, &returned{mem: l.mem}, queue.How{}) // which lets go of it, if it is refused at once
}

// returned keeps memory until the work is done that is before it on a stream.
type returned struct {
	caller
	mem *memory.Memory
}

func (r *returned) Run(t *queue.Target) (backends.Ticket, error) { return t.Mark() }
func (r *returned) Outcome(error) error                          { return nil }
func (r *returned) Release()                                     { r.mem.Release() }

// Device returns the device that the buffer's memory is on.
func (b *Buffer) Device() *Device { return b.ex.device }

// Transfer is a copy between a contiguous buffer and the host's memory.
type Transfer struct {
	Host          uintptr
	Offset, Bytes int64 // in the buffer
	ToHost        bool
	// Later asks for the event of the copy, to which nothing is to wait: with memory that
	// is locked, and in copies to the host of little, the call does not wait either.
	Later bool
	// Stream is that on which the copy is made, as Call's.
	Stream uintptr
	// Deleter is told once when Host is used no more, whatever becomes of the copy. It
	// may be nil: then the host's memory stays as it is until the event is done.
	Deleter func()
}

// Read copies bytes of a contiguous buffer, from byte offset on, to the host.
// It waits for the work queued before, and returns the errors of that which
// nobody has seen. dst stays as it is until the event is done.
func (b *Buffer) Read(dst uintptr, offset, bytes int64) (*Event, error) {
	return b.Transfer(&Transfer{Host: dst, Offset: offset, Bytes: bytes, ToHost: true})
}

// Write copies bytes from the host to a contiguous buffer, from byte offset on.
// src stays as it is until the event is done.
func (b *Buffer) Write(src uintptr, offset, bytes int64) (*Event, error) {
	return b.Transfer(&Transfer{Host: src, Offset: offset, Bytes: bytes})
}

// Transfer makes a copy: see Read and Write.
func (b *Buffer) Transfer(o *Transfer) (*Event, error) {
	what := "write"
	if o.ToHost {
		what = "read"
	}
	var err error
	if b.readOnly && !o.ToHost {
		err = Errorf(Invalid, "write: the buffer is read-only")
	} else {
		err = b.window(what, o.Offset, o.Bytes)
	}
	if err != nil {
		if o.Deleter != nil {
			o.Deleter()
		}
		return nil, err
	}
	c := &transfer{ex: b.ex, mem: b.mem, at: b.addr + uintptr(o.Offset), host: o.Host, bytes: o.Bytes, toHost: o.ToHost, owner: o.Deleter}
	c.direct = (o.Bytes >= directFloor || o.Later && o.Bytes > 0) && b.ex.device.locked(o.Host, o.Bytes)
	how := queue.How{Outcome: o.ToHost || o.Later || c.direct, Long: c.long()}
	if b.ex.own(o.Stream) {
		return b.ex.stream.Submit(c, how)
	}
	s, err := b.ex.on(o.Stream, false)
	if err != nil {
		c.Release()
		return nil, err
	}
	defer b.ex.done(s)
	c.on = s.Stream
	return s.Submit(c, how)
}

// Synchronize waits for all work that uses the buffer's memory, on whichever stream,
// as the host has to where it uses that in place on a device that works by itself.
// It returns the errors of the executor's work that nobody has seen.
func (b *Buffer) Synchronize() (*Event, error) {
	if err := b.use("synchronize"); err != nil {
		return nil, err
	}
	return b.ex.stream.Submit(&fence{all: b.ex, memory: []*memory.Memory{b.mem}}, queue.How{Outcome: true})
}

// window checks a range of bytes and counts the work that uses it.
func (b *Buffer) window(what string, offset, bytes int64) error {
	if !b.packed {
		return Errorf(Invalid, "%s: the buffer is a strided view; copy it to a contiguous one first", what)
	}
	if all := b.bytes(); offset < 0 || bytes < 0 || bytes > all || offset > all-bytes {
		return Errorf(Invalid, "%s: %d bytes at offset %d are outside the buffer's %d bytes", what, bytes, offset, all)
	}
	return b.use(what)
}

// CopyFrom copies all elements of src, which has as many, in whatever shape, and
// the same dtype. It may be on another device: then the bytes go by way of the
// host's memory, in order with the work of both executors.
func (b *Buffer) CopyFrom(src *Buffer) (*Event, error) {
	switch {
	case b.readOnly:
		return nil, Errorf(Invalid, "copy: the destination is read-only")
	case b.dtype != src.dtype:
		return nil, Errorf(BadType, "copy: the destination has dtype %v, the source %v", b.dtype, src.dtype)
	case b.n != src.n:
		return nil, Errorf(Invalid, "copy: the destination has %d elements, the source %d: sizes must be equal", b.n, src.n)
	}
	if b.ex.device == src.ex.device {
		to, from := b.Layout(), src.Layout()
		if call.SameView(&to, &from) && !b.Freed() && !src.Freed() {
			return nil, nil
		}
		var dims []int64
		if to.Rank != from.Rank || to.Shape != from.Shape {
			dims = []int64{b.n} // element by element
		}
		return b.ex.Op("copy", []*Buffer{src, b}, nil, dims)
	}
	if !b.packed || !src.packed {
		return nil, Errorf(Invalid, "copy: a strided view cannot be copied from %s to %s; copy it to a contiguous buffer first",
			src.ex.device.Name, b.ex.device.Name)
	}
	if err := src.use("copy"); err != nil {
		return nil, err
	}
	if err := b.use("copy"); err != nil {
		src.mem.End()
		return nil, err
	}
	between, _, err := src.ex.device.host.Take(nil, max(1, b.bytes()), nil)
	if err != nil {
		src.mem.End()
		b.mem.End()
		return nil, status.Within("copy", err)
	}
	// The other stream's part is queued there first and waits for nothing that
	// is queued later, so two copies in opposite directions cannot wait for
	// each other.
	between.Acquire() // for the second part
	first := &transfer{ex: src.ex, mem: src.mem, at: src.addr, host: between.Addr, bytes: b.bytes(), toHost: true, quiet: true, keep: between}
	second := &transfer{ex: b.ex, mem: b.mem, at: b.addr, host: between.Addr, bytes: b.bytes(), keep: between}
	first.direct = src.ex.device.locked(between.Addr, first.bytes)
	second.direct = b.ex.device.locked(between.Addr, second.bytes)
	second.before, err = src.ex.stream.Submit(first, queue.How{Outcome: true, Long: first.long()})
	if err != nil {
		second.Release()
		return nil, err
	}
	return b.ex.stream.Submit(second, queue.How{Long: second.long() || second.before != nil})
}

// Fill sets every element.
func (b *Buffer) Fill(value Scalar) (*Event, error) {
	return b.ex.Op("fill", []*Buffer{b}, []Scalar{value}, nil)
}
