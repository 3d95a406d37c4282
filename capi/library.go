package main

// #include "support.h"
import "C"

import (
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/core"
)

// go_abi_version returns the version of the C ABI that this library offers.
//
//export go_abi_version
func go_abi_version() C.int32_t { return abiVersion }

var versionText = C.CString(version)

// go_version returns the library's version, such as "0.1.0"; the string lives as long as the library.
//
//export go_version
func go_version() *C.char { return versionText }

// go_set_num_threads chooses the number of threads that work on a launch on the
// CPU, the caller's included.
//
//hologram:opens
//export go_set_num_threads
func go_set_num_threads(threads C.int32_t) (status C.int32_t) {
	defer guard(&status)
	return fail(core.SetThreads(int(threads)))
}

// go_num_threads tells how many threads work on a launch on the CPU.
//
//hologram:opens
//export go_num_threads
func go_num_threads(threads_out *C.int32_t) (status C.int32_t) {
	defer guard(&status)
	if threads_out == nil {
		return null("num_threads", "threads_out")
	}
	d, err := core.DeviceFor("cpu")
	if err != nil {
		return fail(err)
	}
	*threads_out = C.int32_t(d.Threads())
	return C.HOLOGRAM_OK
}

// go_backend describes backend number index; HOLOGRAM_INVALID past the last.
//
//hologram:opens
//export go_backend
func go_backend(index C.int32_t, info_out *C.hologram_backend_info) (status C.int32_t) {
	defer guard(&status)
	const what = "backend"
	if info_out == nil {
		return null(what, "info_out")
	}
	names := core.BackendNames()
	if index < 0 || int(index) >= len(names) {
		return fail(core.Errorf(core.Invalid, "%s: index is %d; there are %d backends", what, index, len(names)))
	}
	b := core.DescribeBackend(names[index])
	made := C.hologram_backend_info{
		available: flag(b.Available), host_visible: flag(b.Device.HostVisible), asynchronous: flag(b.Device.Asynchronous),
		threads: C.int32_t(b.Threads), memory_bytes: C.int64_t(b.Device.MemoryBytes), num_devices: C.int32_t(len(b.Devices)),
	}
	put(made.name[:], b.Name)
	put(made.device[:], b.Device.Name)
	put(made.reason[:], b.Reason)
	return answer(what, "info_out", info_out, made)
}

// go_clear_all frees every object that has a handle; work under way is cancelled
// as go_executor_free does it, that of the default executor too. Every handle
// given out so far is freed after it, whatever the status, which is the first
// error of work whose outcome nobody has seen. Threads that wait for an event learn
// that its work was cancelled, or that the event is freed: then the work is over,
// and what it was lent is its owner's again. DLPack's tensors stay until their deleters
// are called: they are their owners'.
//
//export go_clear_all
func go_clear_all() (status C.int32_t) {
	defer guard(&status)
	events := all(kindEvent)
	for _, h := range events {
		if ev, err := lookup(h, kindEvent, "clear_all"); err == nil {
			ev.Cancel()
		}
	}
	// Executors come before buffers, which wait for the work on what they wrap,
	// and all at once, since one may work on another's buffers.
	var group sync.WaitGroup
	var first atomic.Pointer[error]
	for _, h := range all(kindExecutor) {
		ex, err := unregister(h, kindExecutor, "clear_all")
		if err != nil {
			continue // freed by another thread meanwhile
		}
		group.Go(func() {
			if err := closeExecutor(h, ex); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	standard.Lock()
	if standard.ex != nil {
		standard.ex.Cancel()
	}
	standard.Unlock()
	group.Wait()
	for _, h := range events {
		if ev, err := lookup(h, kindEvent, "clear_all"); err == nil {
			ev.Leave()
			_, _ = unregister(h, kindEvent, "clear_all") // else its owner was faster
		}
	}
	freeAll(kindLease, (*core.Lease).Release)
	freeAll(kindBuffer, (*core.Buffer).Free)
	freeAll(kindProgram, (*core.Program).Close)
	freeAll(kindMark, (*core.Mark).Free)
	freeAll(kindProfile, (*core.Profile).Close)
	if err := first.Load(); err != nil {
		return fail(*err)
	}
	return C.HOLOGRAM_OK
}

// freeAll frees the objects of a kind.
func freeAll[T any](k kind[T], free func(*T)) {
	for _, h := range all(k) {
		if object, err := unregister(h, k, "clear_all"); err == nil {
			free(object)
		}
	}
}

// go_object_count tells how many objects have a handle, DLPack's tensors included.
//
//export go_object_count
func go_object_count(count_out *C.int64_t) (status C.int32_t) {
	defer guard(&status)
	if count_out == nil {
		return null("object_count", "count_out")
	}
	n := len(all(kindExecutor)) + len(all(kindBuffer)) + len(all(kindProgram)) + len(all(kindEvent)) + len(all(kindLease)) + len(all(kindProfile)) + len(all(kindTensor)) + len(all(kindMark))
	*count_out = C.int64_t(n)
	return C.HOLOGRAM_OK
}
