// Package core is what the C ABI and its bindings stand on: devices and their
// memory, executors, buffers, programs, launches and the library of operations.
//
// A Device is opened once and shared by the Executors on it; its pool recycles
// memory and its cache keeps compiled kernels. A Buffer is a view of counted
// memory. Launch and Op check all that can be checked before anything runs, so
// that a call which is refused has changed nothing, and queue the work on the
// executor's stream. Everything may be used from several goroutines.
package core

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// source is a backend by the name that executors call it: how to make it, or
// why there is none.
type source struct {
	name   string
	make   func() backends.Backend
	reason string
}

// automatic is the order in which "auto" looks for a backend.
var automatic = []string{"metal", "cuda", "cpu"}

// BackendInfo describes a backend as the command "hologram info" shows it.
type BackendInfo struct {
	Name      string
	Available bool
	Reason    string // why it is not available
	Device    backends.Info
}

// Device is an opened device of a backend.
type Device struct {
	Name    string // of the backend
	Info    backends.Info
	dev     backends.Device
	pool    *pool
	kernels *kernelCache
	workers threaded // nil where the number of threads is not the host's business
	async   bool
}

var devices struct {
	sync.Mutex
	open map[string]*Device
}

// DeviceFor returns the device of the backend with the given name, opening it
// on first use. "auto" is the first of metal, cuda and cpu that is available.
func DeviceFor(name string) (*Device, error) {
	name = strings.ToLower(name)
	if name == "auto" {
		for _, candidate := range automatic {
			if d, err := DeviceFor(candidate); err == nil {
				return d, nil
			}
		}
		return nil, Errorf(Unavailable, "no backend is available")
	}
	devices.Lock()
	defer devices.Unlock()
	if d, ok := devices.open[name]; ok {
		return d, nil
	}
	for _, s := range sources {
		if s.name == name {
			d, err := open(s)
			if err != nil {
				return nil, err
			}
			if devices.open == nil {
				devices.open = map[string]*Device{}
			}
			devices.open[name] = d
			return d, nil
		}
	}
	return nil, Errorf(Invalid, "Invalid backend %q; expected auto or one of %s", name, strings.Join(BackendNames(), ", "))
}

func open(s source) (*Device, error) {
	if s.make == nil {
		return nil, Errorf(Unavailable, "backend %s is not available: %s", s.name, s.reason)
	}
	b := s.make()
	infos, err := b.Devices()
	if err == nil && len(infos) == 0 {
		err = fmt.Errorf("it has no devices")
	}
	if err != nil {
		return nil, Errorf(Unavailable, "backend %s is not available: %w", s.name, err)
	}
	dev, err := b.Open(0)
	if err != nil {
		return nil, Errorf(Unavailable, "backend %s is not available: %w", s.name, err)
	}
	return newDevice(s.name, b, dev)
}

// newDevice makes a Device of what a backend opened.
func newDevice(name string, b backends.Backend, dev backends.Device) (*Device, error) {
	d := &Device{Name: name, Info: dev.Info(), dev: dev}
	d.workers, _ = b.(threaded)
	d.async = d.Info.Asynchronous
	d.pool = &pool{device: dev, free: map[int64][]block{}}
	d.pool.stats.Limit = d.Info.MemoryBytes
	d.kernels = newKernelCache(kernelLimit)
	if text := os.Getenv("HOLOGRAM_NUM_THREADS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxThreads {
			return nil, Errorf(Invalid, "HOLOGRAM_NUM_THREADS is %q; expected 1 … %d", text, maxThreads)
		}
		if d.workers != nil {
			d.setThreads(n)
		}
	}
	return d, nil
}

// threaded is a backend with workers whose number can be chosen.
type threaded interface {
	// SetThreads chooses the number of threads that work on a launch, the
	// caller's included.
	SetThreads(n int)
}

// Threads returns the number of threads that work on a launch; 0 where that is
// not the host's business.
func (d *Device) Threads() int { return d.dev.Info().Threads }

// SetThreads chooses the number of threads that work on a launch on the CPU.
func SetThreads(n int) error {
	if n < 1 || n > maxThreads {
		return Errorf(Invalid, "number of threads is %d; expected 1 … %d", n, maxThreads)
	}
	d, err := DeviceFor("cpu")
	if err != nil {
		return err
	}
	if d.workers == nil {
		return Errorf(Unavailable, "backend %s has one thread", d.Name)
	}
	d.setThreads(n)
	return nil
}

// maxThreads is how many threads the pool of workers takes at most.
const maxThreads = 1024

// setThreads chooses the number of threads. Go runs no more than GOMAXPROCS at
// once, which is raised where more are asked for.
func (d *Device) setThreads(n int) {
	d.workers.SetThreads(n)
	if runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}

// BackendNames lists the backends that have a name, available or not.
func BackendNames() []string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.name
	}
	return names
}

// DescribeBackend describes a backend, which it opens if that is possible.
func DescribeBackend(name string) BackendInfo {
	d, err := DeviceFor(name)
	if err != nil {
		return BackendInfo{Name: name, Reason: err.Error()}
	}
	return BackendInfo{Name: name, Available: true, Device: d.dev.Info()}
}

// MemoryStats returns what the device's pool holds.
func (d *Device) MemoryStats() MemoryStats {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	return d.pool.stats
}

// SetMemoryLimit bounds the bytes that the pool may take from the device; 0
// lifts the bound. It is an error to ask for less than is in use.
func (d *Device) SetMemoryLimit(bytes int64) error {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	if bytes < 0 {
		return Errorf(Invalid, "memory limit is %d bytes; expected 0 (none) or more", bytes)
	}
	if bytes > 0 && bytes < d.pool.stats.InUse {
		return Errorf(Invalid, "memory limit of %s is below the %s in use", sizeText(bytes), sizeText(d.pool.stats.InUse))
	}
	d.pool.stats.Limit = bytes
	return nil
}

// Trim gives cached memory back to the device and returns its size in bytes.
func (d *Device) Trim() int64 {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	return d.pool.trim()
}

// KernelStats returns what the device's cache of compiled kernels holds.
func (d *Device) KernelStats() KernelStats { return d.kernels.statistics() }

// Executor is a user of a device: a stream of work, buffers and a quota.
type Executor struct {
	device *Device
	stream *stream
	quota  atomic.Int64 // bytes; 0: none
	used   atomic.Int64

	mu       sync.Mutex
	buffers  map[*Buffer]struct{}
	boundary *memory
	closed   bool
}

// NewExecutor opens an executor on the device that a name means; see DeviceFor.
func NewExecutor(backend string) (*Executor, error) {
	d, err := DeviceFor(backend)
	if err != nil {
		return nil, err
	}
	return d.NewExecutor()
}

// NewExecutor opens an executor on the device.
func (d *Device) NewExecutor() (*Executor, error) {
	s, err := d.dev.NewStream()
	if err != nil {
		return nil, fromBackend("executor on "+d.Name, err)
	}
	return &Executor{device: d, stream: &stream{device: d, s: s}, buffers: map[*Buffer]struct{}{}}, nil
}

// Device returns the executor's device.
func (ex *Executor) Device() *Device { return ex.device }

// SetQuota bounds the bytes that the executor's buffers may take; 0 lifts the bound.
func (ex *Executor) SetQuota(bytes int64) error {
	if bytes < 0 {
		return Errorf(Invalid, "quota is %d bytes; expected 0 (none) or more", bytes)
	}
	ex.quota.Store(bytes)
	return nil
}

// Used returns the bytes of device memory that the executor's buffers take,
// those that only exported views keep included.
func (ex *Executor) Used() int64 { return ex.used.Load() }

// Quota returns the executor's bound in bytes; 0 is none.
func (ex *Executor) Quota() int64 { return ex.quota.Load() }

// Phase puts the phase of the executor's stream, 0 … 767, where to points, after
// the work before it.
func (ex *Executor) Phase(to *int32) (*Event, error) {
	return ex.stream.submit(&phaseJob{to: to}, ex.device.async && ex.stream.inFlight() > 0)
}

// Close ends the executor and frees its buffers. Work under way that somebody
// waits for, or could, is cancelled; launches that an asynchronous device has
// queued may end as they would, but are cancelled too after some seconds. It
// returns the first error of those whose outcome nobody has seen. Closing again
// does nothing.
func (ex *Executor) Close() error {
	ex.mu.Lock()
	if ex.closed {
		ex.mu.Unlock()
		return nil
	}
	ex.closed = true
	buffers := ex.buffers
	ex.buffers = nil
	boundary := ex.boundary
	ex.boundary = nil
	ex.mu.Unlock()
	err := ex.stream.close(closeGrace)
	for b := range buffers {
		b.drop()
	}
	if boundary != nil {
		boundary.release()
	}
	return err
}

// memoryPatience is how long an allocation waits for work to let go of memory.
const memoryPatience = 5 * time.Second

// memory allocates counted memory on the executor's account. Zeroed says
// whether it must be zero.
func (ex *Executor) memory(bytes int64, zeroed bool) (*memory, error) {
	size := classSize(bytes)
	if quota := ex.quota.Load(); ex.used.Add(size) > quota && quota > 0 {
		ex.used.Add(-size)
		return nil, Errorf(OutOfMemory, "%s more would exceed the executor's quota of %s, of which %s is taken",
			sizeText(bytes), sizeText(quota), sizeText(ex.Used()))
	}
	b, err := ex.device.pool.take(bytes)
	if err != nil && ex.device.async {
		// Work that is done but not yet seen to be holds memory. Nobody could
		// cancel this wait, so it ends.
		end := time.Now().Add(memoryPatience)
		ex.stream.reap(0, func() bool { return time.Now().After(end) })
		b, err = ex.device.pool.take(bytes)
	}
	if err != nil {
		ex.used.Add(-size)
		return nil, err
	}
	m := &memory{addr: b.mem.Addr, bytes: bytes, device: ex.device, owner: ex, block: b}
	m.n.Store(1)
	if zeroed && !b.fresh {
		if err := ex.zero(m); err != nil {
			m.release()
			return nil, err
		}
	}
	return m, nil
}

// zeros is where zeros for devices of other memory are copied from.
var zeros [1 << 16]byte

func (ex *Executor) zero(m *memory) error {
	if ex.device.Info.HostVisible && !ex.device.async {
		clear(bytesAt(m.addr, m.bytes))
		return nil
	}
	for at := int64(0); at < m.bytes; at += int64(len(zeros)) {
		n := min(m.bytes-at, int64(len(zeros)))
		if err := ex.stream.do(&copyJob{dst: m.addr + uintptr(at), src: addressOf(zeros[:]), bytes: n, srcHost: true}); err != nil {
			return err
		}
	}
	return nil
}
