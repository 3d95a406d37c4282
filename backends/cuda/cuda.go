// Package cuda is the backend "cuda": NVIDIA's GPUs, by the driver alone. The
// driver is opened at run time (driver), programs go to it as PTX text (ptx),
// and the device's primary context is used, which PyTorch and CuPy have too, so
// that memory and streams are shared.
//
// cuda.go has the backend and its devices, place.go whose memory an address is; kernel.go
// programs and their variants, compile.go what the driver makes of these; stream.go the
// queue, launch.go and grid.go the launches in it, single.go the graphs of one kernel that
// stand for those it repeats; graph.go captured work, guest.go work in what others capture,
// direct.go launches that others queue, timing.go when work was done.
package cuda

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/cubins"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/product"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Backend is the backend.
type Backend struct {
	load      func() (*driver.API, error)
	eager     bool   // see device.eager
	dependent int64  // see device.dependent
	level     *int32 // see device.level
	after     int    // see device.after
	// cubins opens the folder of compiled code; nil: there is none.
	cubins func() *cubins.Cache
}

// New returns the backend. Nothing is opened before Devices or Open is called.
func New() *Backend {
	return &Backend{load: driver.Load, cubins: openCubins, after: singleAfter, dependent: dependentBytes}
}

// Name returns "cuda".
func (*Backend) Name() string { return "cuda" }

// Devices lists the devices, or says why there are none.
func (b *Backend) Devices() ([]backends.Info, error) {
	api, err := b.load()
	if err != nil {
		return nil, err
	}
	var n int32
	if err := api.Check("cuDeviceGetCount", api.DeviceGetCount(&n)); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	infos := make([]backends.Info, n)
	var old error
	usable := false
	for i := range infos {
		d, err := describe(api, i)
		if err != nil {
			return nil, err
		}
		infos[i] = d.info
		if err := d.tooOld(); err == nil {
			usable = true
		} else if old == nil {
			old = err
		}
	}
	if !usable && old != nil {
		return nil, old // as Open says it: nobody is to be told that there is a device
	}
	return infos, nil
}

// tooOld says that the driver compiles no PTX of ours for a device, nil if it does.
func (d *device) tooOld() error {
	if d.compute >= oldestCompute {
		return nil
	}
	return fmt.Errorf("cuda: device %d, %s, has compute capability %d.%d; needed is %d.%d",
		d.ordinal, d.info.Name, d.compute/10, d.compute%10, oldestCompute/10, oldestCompute%10)
}

// oldestCompute is the compute capability from which PTX here can be compiled.
const oldestCompute = 75

// dlpackCUDA is DLPack's kDLCUDA.
const dlpackCUDA = 2

// describe asks for the properties of a device.
func describe(api *driver.API, i int) (*device, error) {
	d := &device{api: api, ordinal: i, streams: map[*stream]struct{}{}}
	var name [256]byte
	var bytes uint64
	var major, minor int32
	for _, c := range []struct {
		call   string
		result driver.Result
	}{
		{"cuDeviceGet", api.DeviceGet(&d.number, int32(i))},
		{"cuDeviceGetName", api.DeviceGetName(&name[0], int32(len(name)), d.number)},
		{"cuDeviceTotalMem", api.DeviceTotalMem(&bytes, d.number)},
		{"cuDeviceGetAttribute", api.DeviceAttribute(&major, driver.ComputeMajor, d.number)},
		{"cuDeviceGetAttribute", api.DeviceAttribute(&minor, driver.ComputeMinor, d.number)},
		{"cuDeviceGetAttribute", api.DeviceAttribute(&d.processors, driver.Multiprocessors, d.number)},
		{"cuDeviceGetAttribute", api.DeviceAttribute(&d.sharedBytes, driver.SharedPerBlockOptin, d.number)},
		{"cuDeviceGetAttribute", api.DeviceAttribute(&d.cacheBytes, driver.L2CacheBytes, d.number)},
	} {
		if err := api.Check(c.call, c.result); err != nil {
			return nil, fmt.Errorf("cuda: device %d: %w", i, err)
		}
	}
	n := 0
	for n < len(name) && name[n] != 0 {
		n++
	}
	d.compute = int(10*major + minor)
	d.info = backends.Info{
		Name: string(name[:n]), Asynchronous: true, Batches: true, MemoryBytes: int64(bytes), DLPackType: dlpackCUDA, DLPackID: int32(i),
		Processors: int(d.processors), Capability: d.compute, Variants: backends.Variant{Proved: true},
		Codegen: fmt.Sprintf("%s %s sm_%d cuda_%d %s", ptx.Version, product.Version, d.compute, api.Version, driver.Build()),
	}
	if api.Enters() {
		d.info.Enters = &enters
	}
	return d, nil
}

// Open opens device i: it retains the device's primary context.
func (b *Backend) Open(i int) (backends.Device, error) {
	api, err := b.load()
	if err != nil {
		return nil, err
	}
	var n int32
	if err := api.Check("cuDeviceGetCount", api.DeviceGetCount(&n)); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if i < 0 || i >= int(n) {
		return nil, fmt.Errorf("cuda: open device %d: there are %d, numbered from 0", i, n)
	}
	d, err := describe(api, i)
	if err != nil {
		return nil, err
	}
	d.eager, d.level, d.after, d.dependent = b.eager, b.level, b.after, b.dependent
	if b.cubins != nil {
		d.cubins = b.cubins()
	}
	if err := d.tooOld(); err != nil {
		return nil, err
	}
	if err := api.Check("cuDevicePrimaryCtxRetain", api.PrimaryRetain(&d.context, d.number)); err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", i, err)
	}
	err = d.do(call{"cuStreamCreate", func() driver.Result { return api.StreamCreate(&d.zero, driver.StreamNonBlocking) }})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: device %d: %w", i, err), api.Check("cuDevicePrimaryCtxRelease", api.PrimaryRelease(d.number)))
	}
	return d, nil
}

// device is an opened device.
type device struct {
	api         *driver.API
	ordinal     int
	number      driver.Device
	context     driver.Context
	info        backends.Info
	compute     int
	processors  int32
	eager       bool          // lanes do several elements in small launches too, for tests
	level       *int32        // of the driver's optimiser, 0 … 4, for tests; nil: the driver's own, 4
	after       int           // how often a stream repeats a launch before it has a graph of it
	dependent   int64         // how many bytes launches reach that are dependent
	sharedBytes int32         // that a block may have
	cacheBytes  int32         // of the L2 cache
	zero        driver.Stream // where new memory is cleared
	cubins      *cubins.Cache // nil: code is not kept
	lost        atomic.Bool   // found out by some call
	asking      sync.Mutex    // of large
	large       int64         // see most; 0: not known

	mu     sync.Mutex
	closed bool
	fold   *variant // ptx.Fold, once a kernel needs it
	spare  []*notes // of closed streams
	// streams are those that are open.
	streams map[*stream]struct{}

	events events
}

// Plan is backends.Planner's.
func (d *device) Plan(op *kernels.Op, t isa.Type, dims []int64) (*kernels.Plan, error) {
	return tuned.Plan(op, t, dims, d.shape())
}

// PlanShapes is backends.Planner's.
func (d *device) PlanShapes(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error) {
	return tuned.PlanShapes(op, l, axes, d.shape())
}

// shape is what plans depend on.
func (d *device) shape() tuned.Device {
	return tuned.Device{Processors: int64(d.processors), Units: d.modern(), Meet: d.meets(), Most: d.most}
}

// waits reports whether kernels wait by themselves for what is before them on their stream,
// so that launches can be dependent.
func (d *device) waits() bool { return d.hopper() && d.api.LaunchEx != nil }

// hopper reports whether the device has what came with Hopper, and the driver takes PTX that
// says so (8.1).
func (d *device) hopper() bool { return d.compute >= 90 && d.api.Version >= 12010 }

// meets is how many blocks can meet, 0 if none: in clusters, of as many as is promised for
// devices that are not a small part of one.
func (d *device) meets() int64 {
	if !d.hopper() || d.processors < 64 {
		return 0
	}
	return promised
}

// most is how many blocks can meet at most: twice as many as is promised on whole devices
// whose groups of processors are large enough, where the driver says that such a cluster
// has room. It is asked once, when rows are so long: that takes a kernel.
func (d *device) most() int64 {
	d.asking.Lock()
	defer d.asking.Unlock()
	if d.large > 0 {
		return d.large
	}
	least := d.meets()
	if large := d.compute/10 == 9 || d.compute/10 == 10; large && d.processors >= 128 && least > 0 && d.api.ActiveClusters != nil {
		room, err := d.places(2 * promised)
		if err != nil {
			return least // and it is asked again: the driver may have lacked memory
		}
		if room {
			least = 2 * promised
		}
	}
	d.large = least
	return d.large
}

// places reports whether the device has room for a cluster of so many blocks that need
// a multiprocessor each: all its shared memory, and most of its registers. An error is that it
// could not be asked.
func (d *device) places(blocks uint32) (bool, error) {
	v, err := d.load(ptx.Probe(), "probe")
	if err != nil {
		return false, err
	}
	type asked struct {
		n       int32
		config  driver.LaunchConfig
		cluster driver.LaunchAttribute
	}
	a := &asked{config: driver.LaunchConfig{Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{ptx.ProbeLanes, 1, 1}, Shared: uint32(d.sharedBytes), Count: 1}}
	a.cluster = driver.LaunchAttribute{ID: driver.ClusterDimension, Value: [16]uint32{blocks, 1, 1}}
	a.config.Attributes = &a.cluster
	err = d.do(
		call{"cuFuncSetAttribute", func() driver.Result { return d.api.FuncSetAttribute(v.fn, driver.FuncLargeClusters, 1) }},
		call{"cuFuncSetAttribute", func() driver.Result {
			return d.api.FuncSetAttribute(v.fn, driver.FuncMaxShared, d.sharedBytes)
		}},
		call{"cuOccupancyMaxActiveClusters", func() driver.Result { return d.api.ActiveClusters(&a.n, v.fn, &a.config) }},
	)
	_ = d.do(call{"cuModuleUnload", func() driver.Result { return d.api.ModuleUnload(v.module) }})
	return err == nil && a.n > 0, nil
}

// promised is how many blocks a cluster has at most where nothing else is asked for.
const promised = 8

var errClosed = errors.New("cuda: the device is closed")

// call is one call of the driver, for do.
type call struct {
	name string
	run  func() driver.Result
}

// do makes calls in the device's context, one after the other until one fails.
// The thread's own context, which may be PyTorch's for another device, is
// current again afterwards.
func (d *device) do(calls ...call) error {
	return d.within(func() error {
		for _, c := range calls {
			if err := d.api.Check(c.name, c.run()); err != nil {
				return err
			}
		}
		return nil
	})
}

// within runs f with the device's context current, and without the limits that
// somebody's capture puts on what threads may do meanwhile.
func (d *device) within(f func() error) error {
	at := new(driver.Context)
	pushed, err := d.enter(at)
	if err != nil {
		return err
	}
	mode := int32(driver.CaptureRelaxed)
	err = d.api.Check("cuThreadExchangeStreamCaptureMode", d.api.CaptureMode(&mode))
	if err == nil {
		err = errors.Join(f(), d.api.Check("cuThreadExchangeStreamCaptureMode", d.api.CaptureMode(&mode)))
	}
	return errors.Join(err, d.leave(pushed, at))
}

// enter makes the device's context current on this thread, which it keeps until
// leave. Where it is current already, as it is where PyTorch works on the same
// device, there is nothing to push. at is a place for a context, off the stack.
func (d *device) enter(at *driver.Context) (pushed bool, err error) {
	runtime.LockOSThread()
	if d.api.CtxCurrent(at) == driver.Success && *at == d.context {
		return false, nil
	}
	if err := d.api.Check("cuCtxPushCurrent", d.api.CtxPush(d.context)); err != nil {
		runtime.UnlockOSThread()
		return false, err
	}
	return true, nil
}

// leave makes current what was so before enter.
func (d *device) leave(pushed bool, at *driver.Context) error {
	defer runtime.UnlockOSThread()
	if !pushed {
		return nil
	}
	return d.api.Check("cuCtxPopCurrent", d.api.CtxPop(at))
}

func (d *device) Info() backends.Info { return d.info }

// open lists the streams that are open.
func (d *device) open() []*stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.streams))
}

func (d *device) Alloc(bytes int64) (backends.Memory, error) {
	if bytes < 0 {
		return backends.Memory{}, fmt.Errorf("cuda: allocate %d bytes", bytes)
	}
	var p driver.Pointer
	n := uint64(max(bytes, 1))
	err := d.do(
		call{"cuMemAlloc", func() driver.Result { return d.api.MemAlloc(&p, n) }},
		call{"cuMemsetD8Async", func() driver.Result { return d.api.Set8(p, 0, n, d.zero) }},
		call{"cuStreamSynchronize", func() driver.Result { return d.api.StreamSync(d.zero) }},
	)
	if err != nil {
		if p != 0 {
			err = errors.Join(err, d.do(call{"cuMemFree", func() driver.Result { return d.api.MemFree(p) }}))
		}
		return backends.Memory{}, fmt.Errorf("cuda: allocate %d bytes on device %d: %w", bytes, d.ordinal, d.classified(err))
	}
	return backends.Memory{Addr: uintptr(p), Bytes: bytes}, nil
}

// classified adds the contract's error to one of the driver's that means it, and
// notes that the device is lost.
func (d *device) classified(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == driver.OutOfMemory:
		return fmt.Errorf("%w: %w", backends.ErrOutOfMemory, err)
	case e.Code.Sticky():
		d.lost.Store(true)
		return fmt.Errorf("%w: %w", backends.ErrLost, err)
	}
	return err
}

func (d *device) Free(m backends.Memory) error {
	return d.do(call{"cuMemFree", func() driver.Result { return d.api.MemFree(driver.Pointer(m.Addr)) }})
}

// AllocHost returns pinned memory, which the device reaches at the host's own
// address.
func (d *device) AllocHost(bytes int64) (backends.Memory, error) {
	if bytes < 0 {
		return backends.Memory{}, fmt.Errorf("cuda: allocate %d bytes of host memory", bytes)
	}
	var p unsafe.Pointer
	err := d.do(call{"cuMemHostAlloc", func() driver.Result {
		return d.api.MemHostAlloc(&p, uint64(max(bytes, 1)), driver.HostPortable|driver.HostMapped)
	}})
	if err != nil {
		return backends.Memory{}, fmt.Errorf("cuda: allocate %d bytes of host memory: %w", bytes, d.classified(err))
	}
	clear(unsafe.Slice((*byte)(p), bytes))
	return backends.Memory{Addr: uintptr(p), Bytes: bytes}, nil
}

func (d *device) FreeHost(m backends.Memory) error {
	return d.do(call{"cuMemFreeHost", func() driver.Result { return d.api.MemFreeHost(hostmem.Pointer(m.Addr)) }})
}

// Close gives the context back. It is the application's as well, and lives on
// while somebody else has it.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.closed = true
	for _, n := range d.spare {
		_ = n.free()
	}
	d.spare = nil
	d.events.destroy(d)
	_ = d.do(call{"cuStreamDestroy", func() driver.Result { return d.api.StreamDestroy(d.zero) }})
	if d.fold != nil {
		_ = d.do(call{"cuModuleUnload", func() driver.Result { return d.api.ModuleUnload(d.fold.module) }})
	}
	return d.api.Check("cuDevicePrimaryCtxRelease", d.api.PrimaryRelease(d.number))
}
