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
	Event   uintptr
	Pointer uint64 // of device memory
)

// API is the entry points. The tag is the symbol, of which _v2 and the like are
// the forms with 64-bit sizes.
type API struct {
	Init             func(flags uint32) Result                                                                           `sym:"cuInit"`
	DriverGetVersion func(version *int32) Result                                                                         `sym:"cuDriverGetVersion"`
	GetErrorName     func(r Result, name **byte) Result                                                                  `sym:"cuGetErrorName"`
	GetErrorString   func(r Result, text **byte) Result                                                                  `sym:"cuGetErrorString"`
	DeviceGetCount   func(n *int32) Result                                                                               `sym:"cuDeviceGetCount"`
	DeviceGet        func(d *Device, ordinal int32) Result                                                               `sym:"cuDeviceGet"`
	DeviceGetName    func(name *byte, length int32, d Device) Result                                                     `sym:"cuDeviceGetName"`
	DeviceAttribute  func(value *int32, attribute Attribute, d Device) Result                                            `sym:"cuDeviceGetAttribute"`
	DeviceTotalMem   func(bytes *uint64, d Device) Result                                                                `sym:"cuDeviceTotalMem_v2"`
	PrimaryRetain    func(c *Context, d Device) Result                                                                   `sym:"cuDevicePrimaryCtxRetain"`
	PrimaryRelease   func(d Device) Result                                                                               `sym:"cuDevicePrimaryCtxRelease_v2"`
	CtxPush          func(c Context) Result                                                                              `sym:"cuCtxPushCurrent_v2"`
	CtxPop           func(c *Context) Result                                                                             `sym:"cuCtxPopCurrent_v2"`
	CtxSynchronize   func() Result                                                                                       `sym:"cuCtxSynchronize"`
	MemGetInfo       func(free, total *uint64) Result                                                                    `sym:"cuMemGetInfo_v2"`
	MemAlloc         func(p *Pointer, bytes uint64) Result                                                               `sym:"cuMemAlloc_v2"`
	MemFree          func(p Pointer) Result                                                                              `sym:"cuMemFree_v2"`
	MemHostAlloc     func(p *unsafe.Pointer, bytes uint64, flags uint32) Result                                          `sym:"cuMemHostAlloc"`
	MemFreeHost      func(p unsafe.Pointer) Result                                                                       `sym:"cuMemFreeHost"`
	HostPointer      func(d *Pointer, p unsafe.Pointer, flags uint32) Result                                             `sym:"cuMemHostGetDevicePointer_v2"`
	CopyToDevice     func(dst Pointer, src uintptr, n uint64, s Stream) Result                                           `sym:"cuMemcpyHtoDAsync_v2"`
	CopyToHost       func(dst uintptr, src Pointer, n uint64, s Stream) Result                                           `sym:"cuMemcpyDtoHAsync_v2"`
	CopyOnDevice     func(dst, src Pointer, n uint64, s Stream) Result                                                   `sym:"cuMemcpyDtoDAsync_v2"`
	Set8             func(dst Pointer, v uint8, n uint64, s Stream) Result                                               `sym:"cuMemsetD8Async"`
	StreamCreate     func(s *Stream, flags uint32) Result                                                                `sym:"cuStreamCreate"`
	StreamDestroy    func(s Stream) Result                                                                               `sym:"cuStreamDestroy_v2"`
	StreamQuery      func(s Stream) Result                                                                               `sym:"cuStreamQuery"`
	StreamSync       func(s Stream) Result                                                                               `sym:"cuStreamSynchronize"`
	StreamWait       func(s Stream, e Event, flags uint32) Result                                                        `sym:"cuStreamWaitEvent"`
	EventCreate      func(e *Event, flags uint32) Result                                                                 `sym:"cuEventCreate"`
	EventDestroy     func(e Event) Result                                                                                `sym:"cuEventDestroy_v2"`
	EventRecord      func(e Event, s Stream) Result                                                                      `sym:"cuEventRecord"`
	EventQuery       func(e Event) Result                                                                                `sym:"cuEventQuery"`
	EventSync        func(e Event) Result                                                                                `sym:"cuEventSynchronize"`
	EventElapsed     func(ms *float32, from, to Event) Result                                                            `sym:"cuEventElapsedTime"`
	ModuleLoad       func(m *Module, image *byte, n uint32, options *int32, values *uintptr) Result                      `sym:"cuModuleLoadDataEx"`
	ModuleUnload     func(m Module) Result                                                                               `sym:"cuModuleUnload"`
	ModuleFunction   func(f *Func, m Module, name *byte) Result                                                          `sym:"cuModuleGetFunction"`
	FuncGetAttribute func(v *int32, attribute int32, f Func) Result                                                      `sym:"cuFuncGetAttribute"`
	FuncSetAttribute func(f Func, attribute, value int32) Result                                                         `sym:"cuFuncSetAttribute"`
	Launch           func(f Func, gx, gy, gz, bx, by, bz, shared uint32, s Stream, params, extra *unsafe.Pointer) Result `sym:"cuLaunchKernel"`

	// Version is the newest CUDA that the driver knows: 1000·major + 10·minor.
	Version int
}

// Attribute is a property of a device.
type Attribute int32

// The attributes that are asked for.
const (
	MultiprocessorCount Attribute = 16
	ComputeMajor        Attribute = 75
	ComputeMinor        Attribute = 76
	SharedPerBlockOptin Attribute = 97
)

// Flags and attributes of functions.
const (
	StreamNonBlocking = 1
	EventNoTiming     = 2
	HostPortable      = 1
	HostMapped        = 2

	FuncRegisters  = 4
	FuncLocalBytes = 3
	FuncMaxShared  = 8
)

// Results that callers tell apart.
const (
	Success     Result = 0
	OutOfMemory Result = 2
	NoDevice    Result = 100
	NotReady    Result = 600
)

// oldest is the driver from which all that is used is there: CUDA 11.2.
const oldest = 11020

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
		return nil, &Unavailable{fmt.Sprintf("no NVIDIA driver: %v", err)}
	}
	a := &API{}
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("sym")
		if symbol == "" {
			continue
		}
		at, err := find(lib, symbol)
		if err != nil {
			return nil, &Unavailable{fmt.Sprintf("%s has no %s, which drivers have from CUDA %d.%d on: %v",
				name, symbol, oldest/1000, oldest%1000/10, err)}
		}
		register(v.Field(i).Addr().Interface(), at)
	}
	return a, nil
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
		return &Unavailable{"the driver finds no device"}
	default:
		return &Unavailable{fmt.Sprintf("the driver does not start: %s", a.reason(r))}
	}
	var n int32
	if r := a.DeviceGetCount(&n); r != Success {
		return &Unavailable{fmt.Sprintf("the driver does not count its devices: %s", a.reason(r))}
	}
	if n == 0 {
		return &Unavailable{"the driver finds no device"}
	}
	return nil
}

// IsUnavailable reports whether err says that there is no CUDA here.
func IsUnavailable(err error) bool {
	var u *Unavailable
	return errors.As(err, &u)
}
