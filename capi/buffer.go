package main

// #include "direct.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// go_buffer_allocate makes a buffer of length elements, zeroed unless flags has
// HOLOGRAM_UNINITIALIZED. With HOLOGRAM_TRY it returns HOLOGRAM_BUSY at once if
// it would take more than some 100 microseconds.
//
//export go_buffer_allocate
func go_buffer_allocate(executor C.hologram_executor, length C.int64_t, dtype, flags C.int32_t, buffer_out *C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_allocate"
	if buffer_out == nil {
		return null(what, "buffer_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	t, err := typeOf(what, dtype)
	if err != nil {
		return fail(err)
	}
	if err := onlyFlags(what, flags, C.HOLOGRAM_UNINITIALIZED|C.HOLOGRAM_TRY); err != nil {
		return fail(err)
	}
	allocate := (*core.Executor).Allocate
	if flags&C.HOLOGRAM_TRY != 0 {
		allocate = (*core.Executor).TryAllocate
	}
	b, err := allocate(ex, int64(length), t, flags&C.HOLOGRAM_UNINITIALIZED == 0)
	return adopt(kindBuffer, b, err, buffer_out, (*core.Buffer).Free)
}

// go_buffer_allocate_boundary makes a buffer of width · height elements on the
// executor's boundary pool, from Φ(class_index, 0, 0) on. Buffers of one class
// share its 12,288 bytes. width is at most 48, height at most 256.
//
//export go_buffer_allocate_boundary
func go_buffer_allocate_boundary(executor C.hologram_executor, class_index, width, height C.int64_t, dtype C.int32_t, buffer_out *C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_allocate_boundary"
	if buffer_out == nil {
		return null(what, "buffer_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	t, err := typeOf(what, dtype)
	if err != nil {
		return fail(err)
	}
	b, err := ex.AllocateBoundary(int64(class_index), int64(width), int64(height), t)
	return adopt(kindBuffer, b, err, buffer_out, (*core.Buffer).Free)
}

// go_buffer_wrap makes a buffer of memory that the caller owns, in place: the
// host's where the executor's device sees that, else the device's. strides are
// in elements; NULL is row-major. deleter, which may be NULL, is called with
// context, from any thread, when nobody uses the memory any more. If the call
// fails it is not called.
//
//export go_buffer_wrap
func go_buffer_wrap(executor C.hologram_executor, data unsafe.Pointer, dtype, rank C.int32_t, shape, strides *C.int64_t, flags C.int32_t, deleter C.hologram_deleter, context unsafe.Pointer, buffer_out *C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_wrap"
	if buffer_out == nil {
		return null(what, "buffer_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	t, err := typeOf(what, dtype)
	if err != nil {
		return fail(err)
	}
	dims, steps, err := layout(what, rank, shape, strides)
	if err != nil {
		return fail(err)
	}
	if err := onlyFlags(what, flags, C.HOLOGRAM_READ_ONLY); err != nil {
		return fail(err)
	}
	var drop func()
	if deleter != nil {
		drop = func() { C.hologram_support_delete(deleter, context) }
	}
	b, err := ex.Wrap(uintptr(data), t, dims, steps, flags&C.HOLOGRAM_READ_ONLY != 0, drop)
	return adopt(kindBuffer, b, err, buffer_out, (*core.Buffer).Abandon)
}

// layout reads a shape and strides, which may be nil.
func layout(what string, rank C.int32_t, shape, strides *C.int64_t) (dims, steps []int64, err error) {
	dims, err = items(what, "sizes in shape", (*int64)(unsafe.Pointer(shape)), rank)
	if err == nil && strides != nil {
		steps, err = items(what, "strides", (*int64)(unsafe.Pointer(strides)), rank)
		if steps == nil {
			steps = []int64{}
		}
	}
	return dims, steps, err
}

// go_buffer_view makes another buffer that sees part of a buffer's memory: from
// element offset on, with the given shape and strides in elements (NULL:
// row-major). Each of them is freed by itself.
//
//hologram:quick
//export go_buffer_view
func go_buffer_view(buffer C.hologram_buffer, offset C.int64_t, rank C.int32_t, shape, strides *C.int64_t, view_out *C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_view"
	if view_out == nil {
		return null(what, "view_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	dims, steps, err := layout(what, rank, shape, strides)
	if err != nil {
		return fail(err)
	}
	v, err := b.View(int64(offset), dims, steps)
	return adopt(kindBuffer, v, err, view_out, (*core.Buffer).Free)
}

// go_buffer_free frees a buffer. Its memory lives on while leases, views or
// work under way use it.
//
//hologram:quick
//export go_buffer_free
func go_buffer_free(buffer C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	b, err := unregister(handle(buffer), kindBuffer, "buffer_free")
	if err != nil {
		return fail(err)
	}
	atomic.AddUint64((*uint64)(&C.hologram_buffers_freed), 1)
	b.Free()
	return C.HOLOGRAM_OK
}

// go_buffer_describe describes a buffer.
//
//hologram:quick
//export go_buffer_describe
func go_buffer_describe(buffer C.hologram_buffer, info_out *C.hologram_buffer_info) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_describe"
	if info_out == nil {
		return null(what, "info_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	v := b.Layout()
	size := int64(v.Type.Size())
	made := C.hologram_buffer_info{
		data: *(*unsafe.Pointer)(unsafe.Pointer(&v.Addr)), length: C.int64_t(b.Len()), bytes: C.int64_t(b.Len() * size),
		dtype: C.int32_t(v.Type), element_size: C.int32_t(size), rank: C.int32_t(v.Rank),
		contiguous: flag(b.Contiguous()), read_only: flag(b.ReadOnly()), class_index: C.int32_t(b.Class()),
		host_visible: flag(b.Executor().Device().Info.HostVisible), freed: flag(b.Freed()),
	}
	for i := range core.MaxRank {
		made.shape[i], made.strides[i] = C.int64_t(v.Shape[i]), C.int64_t(v.Stride[i])
	}
	return answer(what, "info_out", info_out, made)
}

// go_buffer_synchronize waits for all work that uses the buffer's memory, on
// whichever stream, as the host has to where it uses that in place on an
// asynchronous device. Its status is the first error of launches whose outcome
// nobody has seen.
//
//export go_buffer_synchronize
func go_buffer_synchronize(buffer C.hologram_buffer, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_synchronize"
	if event_out == nil {
		return null(what, "event_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	ev, err := b.Synchronize()
	return settle(ev, err, event_out)
}

// go_buffer_read copies bytes of a contiguous buffer, from byte offset on, to
// the host. It waits for the work before it.
//
//export go_buffer_read
func go_buffer_read(buffer C.hologram_buffer, offset, bytes C.int64_t, data_out unsafe.Pointer, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_read"
	if event_out == nil {
		return null(what, "event_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	if data_out == nil && bytes != 0 {
		return null(what, "data_out")
	}
	ev, err := b.Read(uintptr(data_out), int64(offset), int64(bytes))
	return settle(ev, err, event_out)
}

// go_buffer_write copies bytes from the host to a contiguous buffer, from byte
// offset on.
//
//export go_buffer_write
func go_buffer_write(buffer C.hologram_buffer, offset, bytes C.int64_t, data unsafe.Pointer, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_write"
	if event_out == nil {
		return null(what, "event_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	if data == nil && bytes != 0 {
		return null(what, "data")
	}
	ev, err := b.Write(uintptr(data), int64(offset), int64(bytes))
	return settle(ev, err, event_out)
}

// go_buffer_fill sets every element of a buffer.
//
//export go_buffer_fill
func go_buffer_fill(buffer C.hologram_buffer, value *C.hologram_scalar, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_fill"
	if event_out == nil {
		return null(what, "event_out")
	}
	if value == nil {
		return null(what, "value")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	ev, err := b.Fill(scalar(*value))
	return settle(ev, err, event_out)
}

// go_buffer_copy copies all elements of source to destination, which has as
// many and the same dtype. They may be on different devices: then the bytes go by
// way of the host.
//
//export go_buffer_copy
func go_buffer_copy(destination, source C.hologram_buffer, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	if event_out == nil {
		return null("buffer_copy", "event_out")
	}
	to, err := lookup(handle(destination), kindBuffer, "buffer_copy: destination")
	if err != nil {
		return fail(err)
	}
	from, err := lookup(handle(source), kindBuffer, "buffer_copy: source")
	if err != nil {
		return fail(err)
	}
	ev, err := to.CopyFrom(from)
	return settle(ev, err, event_out)
}

// go_buffer_lease keeps a buffer's memory alive, even if the buffer is freed,
// until the lease is. On an asynchronous device, go_buffer_synchronize before looking at it.
//
//hologram:quick
//export go_buffer_lease
func go_buffer_lease(buffer C.hologram_buffer, lease_out *C.hologram_lease) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_lease"
	if lease_out == nil {
		return null(what, "lease_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	l, err := b.Lease()
	return adopt(kindLease, l, err, lease_out, (*core.Lease).Release)
}

// go_lease_free ends a lease.
//
//hologram:quick
//export go_lease_free
func go_lease_free(lease C.hologram_lease) (status C.int32_t) {
	defer guard(&status)
	k := kindLease
	if kindOf(handle(lease)) == anyKind(kindTensor) {
		k = kindTensor // by its deleter, which alone knows the handle
	}
	l, err := unregister(handle(lease), k, "lease_free")
	if err != nil {
		return fail(err)
	}
	l.Release()
	return C.HOLOGRAM_OK
}

// scalar is a caller's number.
func scalar(s C.hologram_scalar) core.Scalar {
	if s.dtype < 0 || s.dtype > C.HOLOGRAM_F64 {
		s.dtype = C.int32_t(core.Pred) // refused with a message about its type
	}
	return core.Scalar{Type: core.Type(s.dtype), Bits: uint64(s.bits)}
}
