// Package driver is NVIDIA's driver, opened at run time: nothing is linked, and
// a machine without one gets a reason in words. API has each entry point that
// is used, typed once; the names and meanings are those of the CUDA driver API.
package driver

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// The driver's types. Addresses and handles are numbers to us.
type (
	Result  int32
	Device  int32
	Context uintptr
	Module  uintptr
	Func    uintptr
	Stream  uintptr
	Pointer uint64 // of device memory
	Graph   uintptr
	Exec    uintptr // a graph made ready to run
	Link    uintptr // a compilation
	Event   uintptr // that a stream passes, of which the device notes the time
	Node    uintptr // of a graph
	// UserObject is counted by graphs, and tells when none has it any more.
	UserObject uintptr
)

// API is the entry points. The tag is the symbol, of which _v2 and the like are
// the forms with 64-bit sizes.
type API struct {
	Init             func(flags uint32) Result                                `sym:"cuInit"`
	DriverGetVersion func(version *int32) Result                              `sym:"cuDriverGetVersion"`
	GetErrorName     func(r Result, name **byte) Result                       `sym:"cuGetErrorName"`
	GetErrorString   func(r Result, text **byte) Result                       `sym:"cuGetErrorString"`
	DeviceGetCount   func(n *int32) Result                                    `sym:"cuDeviceGetCount"`
	DeviceGet        func(d *Device, ordinal int32) Result                    `sym:"cuDeviceGet"`
	DeviceGetName    func(name *byte, length int32, d Device) Result          `sym:"cuDeviceGetName"`
	DeviceAttribute  func(value *int32, attribute Attribute, d Device) Result `sym:"cuDeviceGetAttribute"`
	DeviceTotalMem   func(bytes *uint64, d Device) Result                     `sym:"cuDeviceTotalMem_v2"`

	PrimaryRetain  func(c *Context, d Device) Result `sym:"cuDevicePrimaryCtxRetain"`
	PrimaryRelease func(d Device) Result             `sym:"cuDevicePrimaryCtxRelease_v2"`
	CtxPush        func(c Context) Result            `sym:"cuCtxPushCurrent_v2"`
	CtxPop         func(c *Context) Result           `sym:"cuCtxPopCurrent_v2"`
	CtxCurrent     func(c *Context) Result           `sym:"cuCtxGetCurrent"`

	MemAlloc          func(p *Pointer, bytes uint64) Result                                                  `sym:"cuMemAlloc_v2"`
	MemFree           func(p Pointer) Result                                                                 `sym:"cuMemFree_v2"`
	MemHostAlloc      func(p *unsafe.Pointer, bytes uint64, flags uint32) Result                             `sym:"cuMemHostAlloc"`
	MemFreeHost       func(p unsafe.Pointer) Result                                                          `sym:"cuMemFreeHost"`
	MemInfo           func(free, total *uint64) Result                                                       `sym:"cuMemGetInfo_v2"`
	PointerAttributes func(n uint32, attributes *PointerAttribute, values *unsafe.Pointer, p Pointer) Result `sym:"cuPointerGetAttributes"`
	Copy              func(dst, src Pointer, bytes uint64, s Stream) Result                                  `sym:"cuMemcpyAsync"`
	Set8              func(dst Pointer, v uint8, n uint64, s Stream) Result                                  `sym:"cuMemsetD8Async"`
	Set16             func(dst Pointer, v uint16, n uint64, s Stream) Result                                 `sym:"cuMemsetD16Async"`
	Set32             func(dst Pointer, v uint32, n uint64, s Stream) Result                                 `sym:"cuMemsetD32Async"`
	Set32Rows         func(dst Pointer, pitch uint64, v uint32, width, height uint64, s Stream) Result       `sym:"cuMemsetD2D32Async"`

	StreamCreate      func(s *Stream, flags uint32) Result                      `sym:"cuStreamCreate"`
	StreamDestroy     func(s Stream) Result                                     `sym:"cuStreamDestroy_v2"`
	StreamQuery       func(s Stream) Result                                     `sym:"cuStreamQuery"`
	StreamSync        func(s Stream) Result                                     `sym:"cuStreamSynchronize"`
	StreamIsCapturing func(s Stream, status *int32) Result                      `sym:"cuStreamIsCapturing"`
	StreamWriteValue  func(s Stream, at Pointer, v uint64, flags uint32) Result `sym:"cuStreamWriteValue64_v2"`
	StreamWaitValue   func(s Stream, at Pointer, v uint64, flags uint32) Result `sym:"cuStreamWaitValue64_v2"`

	EventCreate  func(e *Event, flags uint32) Result          `sym:"cuEventCreate"`
	EventDestroy func(e Event) Result                         `sym:"cuEventDestroy_v2"`
	EventRecord  func(e Event, s Stream) Result               `sym:"cuEventRecord"`
	EventElapsed func(ms *float32, began, ended Event) Result `sym:"cuEventElapsedTime"`

	CaptureMode      func(mode *int32) Result                    `sym:"cuThreadExchangeStreamCaptureMode"`
	CaptureBegin     func(s Stream, mode int32) Result           `sym:"cuStreamBeginCapture_v2"`
	CaptureEnd       func(s Stream, g *Graph) Result             `sym:"cuStreamEndCapture"`
	GraphDestroy     func(g Graph) Result                        `sym:"cuGraphDestroy"`
	GraphInstantiate func(x *Exec, g Graph, flags uint64) Result `sym:"cuGraphInstantiateWithFlags"`
	GraphLaunch      func(x Exec, s Stream) Result               `sym:"cuGraphLaunch"`
	ExecDestroy      func(x Exec) Result                         `sym:"cuGraphExecDestroy"`

	GraphCreate    func(g *Graph, flags uint32) Result                                     `sym:"cuGraphCreate"`
	GraphAddKernel func(n *Node, g Graph, after *Node, count uint64, k *KernelNode) Result `sym:"cuGraphAddKernelNode"`
	ExecSetKernel  func(x Exec, n Node, k *KernelNode) Result                              `sym:"cuGraphExecKernelNodeSetParams"`

	CaptureInfo       func(s Stream, status *int32, number *uint64, g *Graph, after *uintptr, n *uint64) Result          `sym:"cuStreamGetCaptureInfo_v2"`
	UserObjectCreate  func(o *UserObject, at unsafe.Pointer, destructor uintptr, references uint32, flags uint32) Result `sym:"cuUserObjectCreate"`
	UserObjectRelease func(o UserObject, references uint32) Result                                                       `sym:"cuUserObjectRelease"`
	GraphRetain       func(g Graph, o UserObject, references, flags uint32) Result                                       `sym:"cuGraphRetainUserObject"`

	ModuleLoad   func(m *Module, image *byte, n uint32, options *int32, values *uintptr) Result                                  `sym:"cuModuleLoadDataEx"`
	LinkCreate   func(n uint32, options *int32, values *uintptr, l *Link) Result                                                 `sym:"cuLinkCreate_v2"`
	LinkAddData  func(l Link, kind int32, data *byte, size uint64, name *byte, n uint32, options *int32, values *uintptr) Result `sym:"cuLinkAddData_v2"`
	LinkComplete func(l Link, code *unsafe.Pointer, size *uint64) Result                                                         `sym:"cuLinkComplete"`
	LinkDestroy  func(l Link) Result                                                                                             `sym:"cuLinkDestroy"`

	ModuleUnload     func(m Module) Result                                                                               `sym:"cuModuleUnload"`
	ModuleFunction   func(f *Func, m Module, name *byte) Result                                                          `sym:"cuModuleGetFunction"`
	FuncAttribute    func(value *int32, attribute int32, f Func) Result                                                  `sym:"cuFuncGetAttribute"`
	FuncSetAttribute func(f Func, attribute, value int32) Result                                                         `sym:"cuFuncSetAttribute"`
	Launch           func(f Func, gx, gy, gz, bx, by, bz, shared uint32, s Stream, params, extra *unsafe.Pointer) Result `sym:"cuLaunchKernel"`

	// These are nil where the driver has none: before CUDA 11.8.
	LaunchEx       func(c *LaunchConfig, f Func, params, extra *unsafe.Pointer) Result `sym:"cuLaunchKernelEx" optional:"true"`
	ActiveClusters func(n *int32, f Func, c *LaunchConfig) Result                      `sym:"cuOccupancyMaxActiveClusters" optional:"true"`

	// Version is the newest CUDA that the driver knows: 1000·major + 10·minor.
	Version int

	entries *entries // for Submit; nil: it goes through the functions above
}

// Attribute is a property of a device.
type Attribute int32

// The attributes that are asked for.
const (
	Multiprocessors     Attribute = 16
	L2CacheBytes        Attribute = 38
	ComputeMajor        Attribute = 75
	ComputeMinor        Attribute = 76
	SharedPerBlockOptin Attribute = 97
)

// PointerAttribute is a property of memory.
type PointerAttribute int32

// The properties that are asked for; the types of memory that callers tell apart.
const (
	PointerMemoryType PointerAttribute = 2
	PointerOrdinal    PointerAttribute = 9
	PointerRangeStart PointerAttribute = 11
	PointerRangeSize  PointerAttribute = 12

	MemoryTypeHost   = 1
	MemoryTypeDevice = 2
)

// Flags and attributes of functions.
const (
	StreamNonBlocking = 1
	WaitAtLeast       = 0
	CaptureRelaxed    = 2
	CaptureActive     = 1
	NoDestructorSync  = 1 // of a user object
	MoveReference     = 1
	StreamLegacy      = 1 // the stream that waits for all others, by its handle
	HostPortable      = 1
	HostMapped        = 2
	FuncRegisters     = 4
	FuncMaxShared     = 8
	FuncLargeClusters = 14
	LinkPTX           = 1 // text with a NUL at its end
)

// LaunchConfig is a launch with attributes: CUlaunchConfig.
type LaunchConfig struct {
	Grid, Block [3]uint32
	Shared      uint32
	Stream      Stream
	Attributes  *LaunchAttribute
	Count       uint32 // of attributes
}

// LaunchAttribute is one of a launch: CUlaunchAttribute.
type LaunchAttribute struct {
	ID    int32
	_     [4]byte
	Value [16]uint32 // a union, which C aligns to 8 bytes
}

// Attributes of launches.
const (
	ClusterDimension = 4 // three numbers: how many blocks a cluster has along each dimension
	Programmatic     = 6 // 1: blocks may start before what is before them on the stream has passed
)

// Results that callers tell apart.
const (
	Success     Result = 0
	OutOfMemory Result = 2
	NoDevice    Result = 100
	NotReady    Result = 600
	// What calls on a stream say while it, or one that it would wait for, captures.
	CaptureUnsupported Result = 900
	CaptureImplicit    Result = 906
)

// Sticky reports whether a result says that the context is of no more use:
// each call in it will fail.
func (r Result) Sticky() bool {
	switch r {
	case 214, // ECC_UNCORRECTABLE
		220, 226, // NVLINK_UNCORRECTABLE, CONTAINED
		700, 702, 709, 710, // ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, ASSERT
		714, 715, 716, 717, 718, 719, 721: // hardware stack, illegal instruction, misaligned, address space, pc, launch failed, tensor memory leak
		return true
	}
	return false
}

// oldest is the driver from which all that is used is there: CUDA 11.7.
const oldest = 11070

// Error is a call that failed.
type Error struct {
	Call   string
	Code   Result
	Reason string // the driver's name and text for the code
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Call, e.Reason) }

// Unavailable says why there is no CUDA on this machine.
type Unavailable struct{ Reason string }

func (u *Unavailable) Error() string { return "cuda: " + u.Reason }

// Check turns a result into an error: nil, or an *Error.
func (a *API) Check(call string, r Result) error {
	if r == Success {
		return nil
	}
	return &Error{call, r, a.reason(r)}
}

func (a *API) reason(r Result) string {
	var name, text *byte
	if a.GetErrorName(r, &name) != Success || a.GetErrorString(r, &text) != Success {
		return fmt.Sprintf("result %d", r)
	}
	return fmt.Sprintf("%s (%s)", cString(name), cString(text))
}

func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// Load opens the driver and initialises it, once for the process. The error is
// an *Unavailable.
var Load = sync.OnceValues(func() (*API, error) {
	a, err := bind(library)
	if err != nil {
		return nil, err
	}
	return a, a.start()
})

// bind opens a library and finds all entry points in it.
func bind(name string) (*API, error) {
	lib, err := open(name)
	if err != nil {
		return nil, &Unavailable{fmt.Sprintf("no NVIDIA driver: %v; install it, or start the container with its GPUs (docker run --gpus all)", err)}
	}
	a := &API{}
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("sym")
		if symbol == "" {
			continue
		}
		at, err := find(lib, symbol)
		if err != nil && v.Type().Field(i).Tag.Get("optional") != "" {
			continue
		}
		if err != nil {
			return nil, &Unavailable{fmt.Sprintf("%s has no %s, which drivers have from CUDA %d.%d on: %v",
				name, symbol, oldest/1000, oldest%1000/10, err)}
		}
		if f := v.Field(i).Addr().Interface(); !direct(f, at) {
			register(f, at)
		}
	}
	a.entries, err = newEntries(func(symbol string) (uintptr, error) { return find(lib, symbol) })
	return a, err
}

// start initialises the driver and sees that it will do.
func (a *API) start() error {
	var version int32
	if r := a.DriverGetVersion(&version); r != Success {
		return &Unavailable{fmt.Sprintf("the driver does not tell its version: %s", a.reason(r))}
	}
	a.Version = int(version)
	if a.Version < oldest {
		return &Unavailable{fmt.Sprintf("the driver is too old: it knows CUDA %d.%d, needed is %d.%d",
			a.Version/1000, a.Version%1000/10, oldest/1000, oldest%1000/10)}
	}
	switch r := a.Init(0); r {
	case Success:
	case NoDevice:
		return &Unavailable{noDevice}
	default:
		return &Unavailable{fmt.Sprintf("the driver does not start: %s", a.reason(r))}
	}
	var n int32
	if r := a.DeviceGetCount(&n); r != Success {
		return &Unavailable{fmt.Sprintf("the driver does not count its devices: %s", a.reason(r))}
	}
	if n == 0 {
		return &Unavailable{noDevice}
	}
	return nil
}

// noDevice is the reason where the driver works and has nothing to work with.
const noDevice = "the driver finds no device: CUDA_VISIBLE_DEVICES hides them, or there is none"

// IsUnavailable reports whether err says that there is no CUDA here.
func IsUnavailable(err error) bool {
	var u *Unavailable
	return errors.As(err, &u)
}
