//go:build cgo && linux

package driver

// #include <stdlib.h>
// #include "submit.h"
import "C"

import "unsafe"

// entries are the entry points that C calls, in C's memory for as long as the
// process lives.
type entries C.hologram_cuda_entries

// newEntries finds them.
func newEntries(find func(symbol string) (uintptr, error)) (*entries, error) {
	e := (*entries)(C.calloc(1, C.sizeof_hologram_cuda_entries))
	for _, x := range []struct {
		to     *C.uintptr_t
		symbol string
	}{
		{&e.current, "cuCtxGetCurrent"}, {&e.push, "cuCtxPushCurrent_v2"}, {&e.pop, "cuCtxPopCurrent_v2"},
		{&e.capturing, "cuStreamIsCapturing"}, {&e.set, "cuGraphExecKernelNodeSetParams"},
		{&e.graph, "cuGraphLaunch"}, {&e.launch, "cuLaunchKernel"}, {&e.launch_ex, "cuLaunchKernelEx"}, {&e.write, "cuStreamWriteValue64_v2"},
	} {
		at, err := find(x.symbol)
		if err != nil && x.to == &e.launch_ex { // of CUDA 11.8; no launch is dependent then
			continue
		}
		if err != nil {
			C.free(unsafe.Pointer(e))
			return nil, err
		}
		*x.to = C.uintptr_t(at)
	}
	return e, nil
}

// Submission is laid out as C has it.
var _ = [1]struct{}{}[unsafe.Sizeof(Submission{})-C.sizeof_hologram_cuda_submission]
var _ = [1]struct{}{}[unsafe.Sizeof(Entry{})-C.sizeof_hologram_cuda_entry]
var _ = [1]struct{}{}[unsafe.Sizeof(Tickets{})-C.sizeof_hologram_cuda_tickets]

func enterCode() uintptr { return uintptr(C.hologram_cuda_enter) }

func allocSubmission() *Submission {
	return (*Submission)(C.calloc(1, C.sizeof_hologram_cuda_submission))
}

func growParameter(s *Submission, n int) {
	C.free(s.params[0])
	s.params[0], s.parameterSize = C.calloc(1, C.size_t(n)), uintptr(n)
}

func freeSubmission(s *Submission) {
	C.free(s.params[0])
	C.free(unsafe.Pointer(s))
}

// submit passes numbers, which need no check of cgo's: all is in C's memory.
func submit(e *entries, s *Submission) Result {
	return Result(C.hologram_cuda_submit(C.uintptr_t(uintptr(unsafe.Pointer(e))), C.uintptr_t(uintptr(unsafe.Pointer(s)))))
}
