package core

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// source is a backend by the name that executors call it: how to make it, or
// why there is none.
type source struct {
	name   string
	make   func() backends.Backend
	reason string

	made backends.Backend // once it was needed
}

// automatic is the order in which "auto" looks for a backend.
var automatic = []string{"metal", "cuda", "cpu"}

// BackendInfo describes a backend as the command "hologram info" shows it.
type BackendInfo struct {
	Name      string
	Available bool
	Reason    string          // why it is not available
	Threads   int             // that work on a launch now; 0 where that is not the host's business
	Device    backends.Info   // the first
	Devices   []backends.Info // all of them
}

// Device is an opened device of a backend.
type Device struct {
	Name string // as executors ask for it: the backend's, and from the second device on ":" and its number
	Info backends.Info

	dev     backends.Device
	pool    *memory.Pool
	host    *memory.Pool // memory of the host's that the device reaches
	kernels *program.Cache
	calls   *call.Table // of operations
	call    call.Device
	workers backends.Threaded     // nil where the number of threads is not the host's business
	threads lock.Mutex[lock.Last] // held while that is chosen

	order  lock.Mutex[lock.Order] // queue.Target's
	guests queue.Guests           // likewise
	loss   status.Loss            // likewise
}

var devices struct {
	lock.Mutex[lock.Devices]
	open map[string]*Device
}

// DeviceFor returns the device of a name, opening it on first use: that of a
// backend, its first device, or with ":" and a number another. "auto" is the
// first of metal, cuda and cpu that is available.
func DeviceFor(name string) (*Device, error) {
	name = strings.ToLower(name)
	if name == "auto" {
		var d *Device
		var err error
		for _, candidate := range automatic {
			if d, err = DeviceFor(candidate); err == nil {
				return d, nil
			}
		}
		return nil, err // the CPU's, which every machine has
	}
	backend, number := name, 0
	if before, after, found := strings.Cut(name, ":"); found {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 || strconv.Itoa(n) != after {
			return nil, Errorf(Invalid, "Invalid backend %q; after the colon stands the number of a device, as in %q", name, before+":0")
		}
		backend, number = before, n
	}
	if number == 0 {
		name = backend
	}
	devices.Lock()
	defer devices.Unlock()
	if d, ok := devices.open[name]; ok {
		return d, nil
	}
	for i := range sources {
		if s := &sources[i]; s.name == backend {
			d, err := s.open(name, number)
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
	hint := ""
	if before, _, _ := strings.Cut(name, ":"); before == "gpu" {
		hint = `; GPUs are "cuda", NVIDIA's, and "metal", Apple's`
	}
	return nil, Errorf(Invalid, "Invalid backend %q; expected auto or one of %s%s", name, strings.Join(BackendNames(), ", "), hint)
}

// list lists a backend's devices, of which there is at least one. The caller
// holds devices' lock.
func (s *source) list() ([]backends.Info, error) {
	if s.make == nil {
		return nil, Errorf(Unavailable, "backend %s is not available: %s", s.name, s.reason)
	}
	if s.made == nil {
		s.made = s.make()
	}
	infos, err := s.made.Devices()
	if err == nil && len(infos) == 0 {
		err = fmt.Errorf("it has no devices")
	}
	if err != nil {
		return nil, Errorf(Unavailable, "backend %s is not available: %w", s.name, err)
	}
	return infos, nil
}

func (s *source) open(name string, number int) (*Device, error) {
	infos, err := s.list()
	if err != nil {
		return nil, err
	}
	if number >= len(infos) {
		return nil, Errorf(Invalid, "Invalid backend %q; %s has %d devices, numbered from 0", name, s.name, len(infos))
	}
	dev, err := s.made.Open(number)
	if err != nil {
		return nil, Errorf(Unavailable, "backend %s is not available: %w", name, err)
	}
	return newDevice(name, s.made, dev)
}

// preparedOps is how many prepared calls of operations a device keeps.
const preparedOps = 1024

// newDevice makes a Device of what a backend opened.
func newDevice(name string, b backends.Backend, dev backends.Device) (*Device, error) {
	d := &Device{Name: name, Info: dev.Info(), dev: dev}
	d.workers, _ = b.(backends.Threaded)
	own := memory.Allocator{Alloc: dev.Alloc, Free: dev.Free, Of: name}
	if meter, ok := dev.(backends.Meter); ok {
		own.Left = meter.FreeBytes
	}
	d.pool = memory.NewPool(own, d.Info.MemoryBytes)
	d.host = memory.NewPool(memory.Allocator{Alloc: dev.AllocHost, Free: dev.FreeHost, Of: "the host, for " + name}, 0)
	d.kernels = program.NewCache(dev)
	d.call.Cache, d.call.Pool, d.call.Host = d.kernels, d.pool, d.host
	d.calls = call.NewTable(&d.call, preparedOps)
	if text := numThreads.Get(); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > backends.MaxThreads {
			return nil, Errorf(Invalid, "%s is %q; expected 1 … %d", numThreads.Name, text, backends.MaxThreads)
		}
		if d.workers != nil {
			d.setThreads(n)
		}
	}
	return d, nil
}

// Threads returns the number of threads that work on a launch; 0 where that is
// not the host's business.
func (d *Device) Threads() int { return threads(d.workers, &d.Info) }

func threads(workers backends.Threaded, info *backends.Info) int {
	switch {
	case workers != nil:
		return workers.Threads()
	case info.Asynchronous:
		return 0
	}
	return 1 // the caller's
}

// SetThreads chooses the number of threads that work on a launch on the CPU.
func SetThreads(n int) error {
	if n < 1 || n > backends.MaxThreads {
		return Errorf(Invalid, "number of threads is %d; expected 1 … %d", n, backends.MaxThreads)
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

// setThreads chooses the number of threads, by which plans are made and kernels say what is entered directly.
// Go runs no more than GOMAXPROCS at once, which is raised where more are asked for.
func (d *Device) setThreads(n int) {
	d.threads.Lock()
	d.call.Replan(n, d.workers.SetThreads)
	if runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	d.threads.Unlock()
	d.call.Unpublish()
}

// BackendNames lists the backends that have a name, available or not.
func BackendNames() []string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.name
	}
	return names
}

// DescribeBackend describes a backend. It opens no device.
func DescribeBackend(name string) BackendInfo {
	devices.Lock()
	defer devices.Unlock()
	for i := range sources {
		if s := &sources[i]; s.name == name {
			infos, err := s.list()
			if err != nil {
				return BackendInfo{Name: name, Reason: err.Error()}
			}
			workers, _ := s.made.(backends.Threaded)
			return BackendInfo{Name: name, Available: true, Device: infos[0], Devices: infos, Threads: threads(workers, &infos[0])}
		}
	}
	return BackendInfo{Name: name, Reason: "no backend has that name"}
}

// MemoryStats returns what the device's pool holds.
func (d *Device) MemoryStats() MemoryStats { return d.pool.Stats() }

// SetMemoryLimit bounds the bytes that the pool may take from the device; 0
// lifts the bound. It is an error to ask for less than is in use.
func (d *Device) SetMemoryLimit(bytes int64) error { return d.pool.SetLimit(bytes) }

// Trim gives cached memory back to the device, and what the device keeps between launches to
// the system, and returns its size in bytes.
func (d *Device) Trim() int64 {
	bytes := d.pool.Trim()
	if keeps, ok := d.dev.(backends.Trimmer); ok {
		bytes += keeps.Trim()
	}
	return bytes
}

// KernelStats returns what the device's cache of compiled kernels holds.
func (d *Device) KernelStats() KernelStats { return d.kernels.Stats() }

// imports reports whether the device has to be told of memory of others.
func (d *Device) imports() bool {
	_, ok := d.dev.(backends.Importer)
	return ok
}

// foreign makes memory that others own, of which the device is told if it has to be.
func (d *Device) foreign(addr uintptr, bytes int64, deleter func()) (*memory.Memory, error) {
	var forget func()
	if importer, ok := d.dev.(backends.Importer); ok && bytes > 0 {
		if err := importer.Import(addr, bytes); err != nil {
			return nil, status.FromBackend("the memory", err)
		}
		forget = func() { importer.Forget(addr, bytes) }
	}
	return memory.Foreign(addr, bytes, forget, deleter), nil
}
