package driver

import (
	"runtime"
	"unsafe"
)

// KernelNode is a launch as graphs have it: CUDA_KERNEL_NODE_PARAMS.
type KernelNode struct {
	Func        Func
	Grid, Block [3]uint32
	Shared      uint32
	parameters  *unsafe.Pointer // where those of the kernel are
	extra       *unsafe.Pointer // nil
}

// Submission is a launch and what goes with it: the context that it needs, and
// the word that is written when it has passed. Where there is C, Submit is one
// call of it, which calls the driver up to seven times; submit.h has the same.
type Submission struct {
	Context Context
	Stream  Stream
	KernelNode
	Exec          Exec    // not 0: a graph of one kernel, Node, to launch by
	Node          Node    // of which the kernel becomes this one
	Word          Pointer // not 0: gets Value when the launch has passed
	Value         uint64
	Others        uint32 // not 0: others may be capturing the stream, which is theirs or has its number from us
	Dependent     uint32 // not 0: a programmatic dependent launch, whose kernel waits by itself for what is before it
	Failed        Failed // the call whose result Submit gave
	Captured      int32  // not 0: the stream is captured by others, and nothing was done
	status        int32
	current       Context
	params        [1]unsafe.Pointer // the one parameter's place
	parameterSize uintptr
}

// Failed tells which call failed.
type Failed int32

// The calls of a submission, in order.
const (
	FailedNone Failed = iota
	FailedPush
	FailedCapturing
	FailedLaunch
	FailedWrite
	FailedPop
	FailedGraph
)

func (f Failed) String() string {
	return [...]string{"", "cuCtxPushCurrent", "cuStreamIsCapturing", "cuLaunchKernel", "cuStreamWriteValue64", "cuCtxPopCurrent", "cuGraphLaunch"}[f]
}

// NewSubmission makes a submission. It lasts until
// FreeSubmission.
func (a *API) NewSubmission() *Submission {
	if a.entries != nil {
		return allocSubmission()
	}
	return new(Submission)
}

// Parameter is the place of the launch's one parameter, with room for n bytes.
// It holds what it held, unless it grows.
func (a *API) Parameter(s *Submission, n int) []byte {
	if int(s.parameterSize) < n {
		if a.entries != nil {
			growParameter(s, n)
		} else {
			s.params[0], s.parameterSize = unsafe.Pointer(unsafe.SliceData(make([]byte, n))), uintptr(n)
		}
	}
	s.parameters = &s.params[0]
	return unsafe.Slice((*byte)(s.params[0]), n)
}

// Params is what cuLaunchKernel takes as kernelParams.
func (s *Submission) Params() *unsafe.Pointer { return &s.params[0] }

// FreeSubmission frees one of NewSubmission.
func (a *API) FreeSubmission(s *Submission) {
	if a.entries != nil && s != nil {
		freeSubmission(s)
	}
}

// Submit makes the calls until one fails, and returns what it said. The thread's
// context is then what it was before.
func (a *API) Submit(s *Submission) Result {
	if a.entries != nil {
		return submit(a.entries, s)
	}
	return a.submit(s)
}

// submit is Submit without C.
func (a *API) submit(s *Submission) (r Result) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.Failed, s.Captured = FailedNone, 0
	if a.CtxCurrent(&s.current) != Success || s.current != s.Context {
		if r = a.CtxPush(s.Context); r != Success {
			s.Failed = FailedPush
			return r
		}
		defer func() {
			if popped := a.CtxPop(&s.current); popped != Success && r == Success {
				r, s.Failed = popped, FailedPop
			}
		}()
	}
	if s.Others != 0 {
		s.status = 0
		r = a.StreamIsCapturing(s.Stream, &s.status)
		switch {
		case r == CaptureImplicit, r == Success && s.status != 0:
			s.Captured = 1
			return Success
		case r != Success:
			s.Failed = FailedCapturing
			return r
		}
	}
	if s.Exec != 0 && a.ExecSetKernel(s.Exec, s.Node, &s.KernelNode) == Success {
		if r = a.GraphLaunch(s.Exec, s.Stream); r != Success {
			s.Failed = FailedGraph
			return r
		}
	} else {
		if s.Dependent != 0 {
			r = a.dependent(s)
		} else {
			r = a.Launch(s.Func, s.Grid[0], s.Grid[1], s.Grid[2], s.Block[0], s.Block[1], s.Block[2], s.Shared, s.Stream, &s.params[0], nil)
		}
		if r != Success {
			s.Failed = FailedLaunch
			return r
		}
	}
	if s.Word != 0 {
		if r = a.StreamWriteValue(s.Stream, s.Word, s.Value, 0); r != Success {
			s.Failed = FailedWrite
		}
	}
	return r
}

// dependent is the launch of a submission that is Dependent.
func (a *API) dependent(s *Submission) Result {
	x := &struct {
		config LaunchConfig
		is     LaunchAttribute
	}{LaunchConfig{Grid: s.Grid, Block: s.Block, Shared: s.Shared, Stream: s.Stream, Count: 1}, LaunchAttribute{ID: Programmatic, Value: [16]uint32{1}}}
	x.config.Attributes = &x.is
	return a.LaunchEx(&x.config, s.Func, &s.params[0], nil)
}
