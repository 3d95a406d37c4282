package main

// #include "support.h"
import "C"

import (
	"unsafe"

	"github.com/hologram-project/hologram/core"
	"github.com/hologram-project/hologram/core/lock"
)

// standard is the default executor, which handle 0 means wherever an executor is
// asked for, but to free it. It is made on "auto" at first use, and never freed.
var standard struct {
	lock.Mutex[lock.Standard]
	ex *core.Executor
}

// executorOf returns the executor of a handle.
func executorOf(h C.hologram_executor, what string) (*core.Executor, error) {
	if h != 0 {
		return lookup(handle(h), kindExecutor, what)
	}
	standard.Lock()
	defer standard.Unlock()
	if standard.ex == nil {
		ex, err := core.NewExecutor("auto")
		if err != nil {
			return nil, err
		}
		standard.ex = ex
	}
	return standard.ex, nil
}

// go_executor_new opens an executor on a backend: "cpu", "interp", "cuda",
// "metal", or "auto" for the first of metal, cuda and cpu that is there. Without
// one, executor 0, a default that is made on "auto" at first use, does too.
//
//hologram:opens
//export go_executor_new
func go_executor_new(backend *C.char, executor_out *C.hologram_executor) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_new"
	if backend == nil {
		return null(what, "backend")
	}
	if executor_out == nil {
		return null(what, "executor_out")
	}
	ex, err := core.NewExecutor(C.GoString(backend))
	return adopt(kindExecutor, ex, err, executor_out, func(ex *core.Executor) { ex.Close() })
}

// go_executor_free frees the executor's buffers and ends it. Calls under way that
// returned HOLOGRAM_PENDING, or wait for their programs to be compiled and loaded,
// are cancelled; launches that an asynchronous device
// has queued may end as they would, but are cancelled too after 5 seconds. The
// status is the first error of those whose outcome nobody has seen.
//
//export go_executor_free
func go_executor_free(executor C.hologram_executor) (status C.int32_t) {
	defer guard(&status)
	ex, err := unregister(handle(executor), kindExecutor, "executor_free")
	if err != nil {
		return fail(err)
	}
	return fail(closeExecutor(handle(executor), ex))
}

// closeExecutor closes an executor that had a handle.
func closeExecutor(h handle, ex *core.Executor) error {
	err := ex.Close()
	dropGates(h)
	return err
}

// go_executor_describe describes an executor.
//
//hologram:quick
//export go_executor_describe
func go_executor_describe(executor C.hologram_executor, info_out *C.hologram_executor_info) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_describe"
	if info_out == nil {
		return null(what, "info_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	d := ex.Device()
	made := C.hologram_executor_info{
		host_visible: flag(d.Info.HostVisible),
		asynchronous: flag(d.Info.Asynchronous),
		threads:      C.int32_t(d.Threads()),
		used:         C.int64_t(ex.Used()),
		quota:        C.int64_t(ex.Quota()),
		dlpack_type:  C.int32_t(d.Info.DLPackType),
		dlpack_id:    C.int32_t(d.Info.DLPackID),
		memory_bytes: C.int64_t(d.Info.MemoryBytes),
		processors:   C.int32_t(d.Info.Processors),
		capability:   C.int32_t(d.Info.Capability),
	}
	put(made.backend[:], d.Name)
	put(made.device[:], d.Info.Name)
	return answer(what, "info_out", info_out, made)
}

// go_executor_synchronize waits for all work of the executor. Its status is
// the first error of launches whose outcome nobody has seen.
//
//export go_executor_synchronize
func go_executor_synchronize(executor C.hologram_executor, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	if event_out == nil {
		return null("executor_synchronize", "event_out")
	}
	ex, err := executorOf(executor, "executor_synchronize")
	if err != nil {
		return fail(err)
	}
	ev, err := ex.Synchronize()
	return settle(ev, err, event_out)
}

// go_executor_cancel asks all work of the executor to end soon, and calls in other
// threads that wait for their programs to be compiled and loaded. That a launch was
// cancelled by it is told to who waits for that launch, and to nobody else. To
// cancel the event of a wait, such as that of hologram_executor_synchronize,
// ends the wait alone.
//
//export go_executor_cancel
func go_executor_cancel(executor C.hologram_executor) (status C.int32_t) {
	defer guard(&status)
	ex, err := executorOf(executor, "executor_cancel")
	if err != nil {
		return fail(err)
	}
	ex.Cancel()
	return C.HOLOGRAM_OK
}

// go_executor_phase gives the phase of the executor's stream, 0 … 767, after
// the work queued so far; *phase_out is set when that is done.
//
//export go_executor_phase
func go_executor_phase(executor C.hologram_executor, phase_out *C.int32_t, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_phase"
	if phase_out == nil {
		return null(what, "phase_out")
	}
	if event_out == nil {
		return null(what, "event_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	ev, err := ex.Phase((*int32)(unsafe.Pointer(phase_out)))
	return settle(ev, err, event_out)
}

// go_executor_set_quota bounds the bytes that the executor's buffers may take; 0 lifts the bound.
//
//export go_executor_set_quota
func go_executor_set_quota(executor C.hologram_executor, bytes C.int64_t) (status C.int32_t) {
	defer guard(&status)
	ex, err := executorOf(executor, "executor_set_quota")
	if err != nil {
		return fail(err)
	}
	return fail(ex.SetQuota(int64(bytes)))
}

// go_executor_set_memory_limit bounds the bytes that the pool of the executor's
// device may take; 0 lifts the bound.
//
//export go_executor_set_memory_limit
func go_executor_set_memory_limit(executor C.hologram_executor, bytes C.int64_t) (status C.int32_t) {
	defer guard(&status)
	ex, err := executorOf(executor, "executor_set_memory_limit")
	if err != nil {
		return fail(err)
	}
	return fail(ex.Device().SetMemoryLimit(int64(bytes)))
}

// go_executor_trim gives cached memory of the executor's device, and what that keeps
// from call to call, back to the system, and tells how many bytes.
//
//export go_executor_trim
func go_executor_trim(executor C.hologram_executor, bytes_out *C.int64_t) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_trim"
	if bytes_out == nil {
		return null(what, "bytes_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	*bytes_out = C.int64_t(ex.Device().Trim())
	return C.HOLOGRAM_OK
}

// go_executor_memory_stats describes the memory of the executor's device.
//
//export go_executor_memory_stats
func go_executor_memory_stats(executor C.hologram_executor, stats_out *C.hologram_memory_stats) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_memory_stats"
	if stats_out == nil {
		return null(what, "stats_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	s := ex.Device().MemoryStats()
	return answer(what, "stats_out", stats_out, C.hologram_memory_stats{
		in_use: C.int64_t(s.InUse), cached: C.int64_t(s.Cached), reserved: C.int64_t(s.Reserved), peak: C.int64_t(s.Peak),
		limit: C.int64_t(s.Limit), allocations: C.int64_t(s.Allocations), reused: C.int64_t(s.Reused),
	})
}

// go_executor_kernel_stats describes the kernel cache of the executor's device.
//
//export go_executor_kernel_stats
func go_executor_kernel_stats(executor C.hologram_executor, stats_out *C.hologram_kernel_stats) (status C.int32_t) {
	defer guard(&status)
	const what = "executor_kernel_stats"
	if stats_out == nil {
		return null(what, "stats_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	s := ex.Device().KernelStats()
	return answer(what, "stats_out", stats_out, C.hologram_kernel_stats{
		entries: C.int64_t(s.Entries), limit: C.int64_t(s.Limit), hits: C.int64_t(s.Hits), misses: C.int64_t(s.Misses),
		evictions: C.int64_t(s.Evictions),
	})
}
