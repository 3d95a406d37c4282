package main

// #include "support.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// go_executor_stream gives the number of the executor's own stream, as its platform
// numbers streams, by which others can use it too; 0 where it has none.
//
//hologram:quick
//export go_executor_stream
func go_executor_stream(executor C.hologram_executor, stream_out *C.uint64_t) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_stream"
	if stream_out == nil {
		return null(what, "stream_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	*stream_out = C.uint64_t(ex.Native())
	return C.HOLOGRAM_OK
}

// go_stream_new makes another stream of the executor's, for its calls and for others,
// and gives its number. Work on it runs beside that on other streams. It ends with
// hologram_stream_free, or with the executor.
//
//export go_stream_new
func go_stream_new(executor C.hologram_executor, stream_out *C.uint64_t) (status C.int32_t) {
	defer guard(&status)
	const what = "stream_new"
	if stream_out == nil {
		return null(what, "stream_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	number, err := ex.NewStream()
	if err != nil {
		return fail(err)
	}
	*stream_out = C.uint64_t(number)
	return C.HOLOGRAM_OK
}

// go_stream_free ends a stream of hologram_stream_new's once its work is done, for which
// it does not wait. What went wrong on it is told by the executor's next hologram_executor_synchronize.
//
//export go_stream_free
func go_stream_free(executor C.hologram_executor, stream C.uint64_t) (status C.int32_t) {
	defer guard(&status)
	ex, err := executorOf(executor, "stream_free")
	if err != nil {
		return fail(err)
	}
	return fail(ex.FreeStream(uintptr(stream)))
}

// go_executor_outcome gives the event of all work of the executor so far, and
// HOLOGRAM_PENDING at once; or, if there is none under way, what
// hologram_executor_synchronize would. The event's outcome is that one's.
//
//export go_executor_outcome
func go_executor_outcome(executor C.hologram_executor, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_outcome"
	if event_out == nil {
		return null(what, "event_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	ev, err := ex.Synchronize()
	return later(ev, err, event_out)
}

// later is settle without a grace.
func later(ev *core.Event, err error, event_out *C.hologram_event) C.int32_t {
	if ev == nil {
		return fail(err)
	}
	h, err := register(kindEvent, ev)
	if err != nil {
		return settle(ev, nil, event_out)
	}
	*event_out = C.hologram_event(h)
	return C.HOLOGRAM_PENDING
}

// go_executor_locate tells where memory lies, of which an address is given.
//
//export go_executor_locate
func go_executor_locate(executor C.hologram_executor, address C.uint64_t, place_out *C.hologram_place) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_locate"
	if place_out == nil {
		return null(what, "place_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	p := ex.Locate(uintptr(address))
	return answer(what, "place_out", place_out, C.hologram_place{kind: C.int32_t(p.Kind), device_id: C.int32_t(p.Device), bytes: C.int64_t(p.Bytes)})
}

// go_host_allocate makes memory of the host's that does not move, so that copies of the
// executor's device take it in place. It is not zeroed, and lasts as long as the lease.
//
//export go_host_allocate
func go_host_allocate(executor C.hologram_executor, bytes C.int64_t, lease_out *C.hologram_lease) (status C.int32_t) {
	defer guard(&status)
	const what = "host_allocate"
	if lease_out == nil {
		return null(what, "lease_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	l, err := ex.HostMemory(int64(bytes))
	return adopt(kindLease, l, err, lease_out, (*core.Lease).Release)
}

// go_lease_address gives the address at which the memory of a lease begins.
//
//hologram:quick
//export go_lease_address
func go_lease_address(lease C.hologram_lease, address_out *C.uint64_t) (status C.int32_t) {
	defer guard(&status)
	const what = "lease_address"
	if address_out == nil {
		return null(what, "address_out")
	}
	l, err := lookup(handle(lease), kindLease, what)
	if err != nil {
		return fail(err)
	}
	*address_out = C.uint64_t(l.Addr())
	return C.HOLOGRAM_OK
}

// go_buffer_ready has a stream, 0 for the executor's own, wait for all that other streams
// have queued on a buffer's memory, before it does what is queued there from now on.
//
//export go_buffer_ready
func go_buffer_ready(buffer C.hologram_buffer, stream C.uint64_t, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_ready"
	if event_out == nil {
		return null(what, "event_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	ev, err := b.Ready(uintptr(stream))
	return settle(ev, err, event_out)
}

// go_buffer_transfer copies bytes between a contiguous buffer, from byte offset on, and the
// host, on a stream, 0 for the executor's own. Without HOLOGRAM_LATER it is
// hologram_buffer_write or, with HOLOGRAM_TO_HOST, hologram_buffer_read. With it, it
// returns HOLOGRAM_PENDING at once if host's memory does not move or little is read, and
// else when it has read what is to be copied. deleter, which may be NULL, is called once with
// context, from any thread, when host is used no more, whatever the call returns but
// what it says of a NULL; without it host stays as it is until the event is done.
//
//export go_buffer_transfer
func go_buffer_transfer(buffer C.hologram_buffer, offset, bytes C.int64_t, host unsafe.Pointer, flags C.int32_t, stream C.uint64_t, deleter C.hologram_deleter, context unsafe.Pointer, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_transfer"
	if event_out == nil {
		return null(what, "event_out")
	}
	if host == nil && bytes != 0 {
		return null(what, "host")
	}
	o := &core.Transfer{Host: uintptr(host), Offset: int64(offset), Bytes: int64(bytes), Stream: uintptr(stream),
		ToHost: flags&C.HOLOGRAM_TO_HOST != 0, Later: flags&C.HOLOGRAM_LATER != 0}
	if deleter != nil {
		o.Deleter = func() { C.hologram_support_delete(deleter, context) }
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err == nil {
		err = onlyFlags(what, flags, C.HOLOGRAM_TO_HOST|C.HOLOGRAM_LATER)
	}
	if err != nil {
		if o.Deleter != nil {
			o.Deleter()
		}
		return fail(err)
	}
	ev, err := b.Transfer(o)
	if o.Later {
		return later(ev, err, event_out)
	}
	return settle(ev, err, event_out)
}

// go_mark_record makes a mark behind what was queued so far on a stream, 0 for the
// executor's own: others wait for it, and ask how long it is behind another.
//
//export go_mark_record
func go_mark_record(executor C.hologram_executor, stream C.uint64_t, mark_out *C.hologram_mark) (status C.int32_t) {
	defer guard(&status)
	const what = "mark_record"
	if mark_out == nil {
		return null(what, "mark_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	m, err := ex.Record(uintptr(stream))
	return adopt(kindMark, m, err, mark_out, (*core.Mark).Free)
}

// go_mark_wait waits up to milliseconds (0: only looks) until the device has come to a
// mark: HOLOGRAM_OK, or HOLOGRAM_PENDING if it has not.
//
//export go_mark_wait
func go_mark_wait(mark C.hologram_mark, milliseconds C.int32_t) (status C.int32_t) {
	defer guard(&status)
	m, err := lookup(handle(mark), kindMark, "mark_wait")
	if err != nil {
		return fail(err)
	}
	err = m.Wait(time.Duration(max(0, milliseconds)) * time.Millisecond)
	if core.CodeOf(err) == core.Pending {
		return C.HOLOGRAM_PENDING
	}
	return fail(err)
}

// go_mark_elapsed gives how many nanoseconds the device came to a mark after it had come to
// another, as it counts them itself. It has come to both.
//
//export go_mark_elapsed
func go_mark_elapsed(mark, earlier C.hologram_mark, nanoseconds_out *C.int64_t) (status C.int32_t) {
	defer guard(&status)
	const what = "mark_elapsed"
	if nanoseconds_out == nil {
		return null(what, "nanoseconds_out")
	}
	m, err := lookup(handle(mark), kindMark, what)
	if err != nil {
		return fail(err)
	}
	other, err := lookup(handle(earlier), kindMark, what)
	if err != nil {
		return fail(err)
	}
	d, err := m.Since(other)
	if err != nil {
		return fail(err)
	}
	*nanoseconds_out = C.int64_t(d.Nanoseconds())
	return C.HOLOGRAM_OK
}

// go_mark_await has a stream, 0 for the executor's own, wait for a mark before it does what
// is queued there from now on. The mark is of an executor on the same device.
//
//export go_mark_await
func go_mark_await(executor C.hologram_executor, mark C.hologram_mark, stream C.uint64_t, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "mark_await"
	if event_out == nil {
		return null(what, "event_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	m, err := lookup(handle(mark), kindMark, what)
	if err != nil {
		return fail(err)
	}
	ev, err := ex.Await(m, uintptr(stream))
	return settle(ev, err, event_out)
}

// go_mark_free frees a mark. What waits for it goes on waiting.
//
//hologram:quick
//export go_mark_free
func go_mark_free(mark C.hologram_mark) (status C.int32_t) {
	defer guard(&status)
	m, err := unregister(handle(mark), kindMark, "mark_free")
	if err != nil {
		return fail(err)
	}
	m.Free()
	return C.HOLOGRAM_OK
}
