// Package asynctest is a backend for tests that behaves as a GPU's does: its
// memory is its own, work is done some time after it was queued, by another
// thread, and anything may fail, when it is asked for or later. Core and the
// bindings run their suites over it, so that they don't come to rely on what
// only the host's backends offer. Programs run by the strips engine.
package asynctest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/strips"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// Options say how the backend behaves. The zero value completes at once, but
// still on a thread of its own, and never fails.
type Options struct {
	// Delay is the time from when work could start to when it is done.
	Delay time.Duration
	// Memory is how many bytes may be allocated at a time; 0: no limit.
	Memory int64
	// FailAlloc, FailLaunch and FailCopy are the ordinal, from 1 on, of the
	// call that fails; 0: none does. Allocation reports it at once, by
	// ErrOutOfMemory, the others by the event.
	FailAlloc, FailLaunch, FailCopy int
}

// ErrInjected is the failure that Options asked for.
var ErrInjected = errors.New("asynctest: injected failure")

// away is added to the host's addresses. The sum is an address that neither
// x86-64 nor arm64 lets a program touch, so that whoever takes device memory
// for the host's learns it at once.
const away = 1 << 50

// Backend is the backend, named "asynctest".
type Backend struct{ options Options }

// New returns a backend that behaves as o says.
func New(o Options) *Backend { return &Backend{o} }

// Name returns "asynctest".
func (*Backend) Name() string { return "asynctest" }

// Devices lists the one device.
func (b *Backend) Devices() ([]backends.Info, error) { return []backends.Info{b.info()}, nil }

func (b *Backend) info() backends.Info {
	return backends.Info{Name: "asynctest", Asynchronous: true, Codegen: "asynctest/1", MemoryBytes: b.options.Memory}
}

// Open opens device 0.
func (b *Backend) Open(i int) (backends.Device, error) {
	if i != 0 {
		return nil, fmt.Errorf("asynctest: open device %d: there is one, number 0", i)
	}
	return &device{backend: b, pool: workers.New(1), blocks: map[uintptr]*block{}}, nil
}

type device struct {
	backend *Backend
	pool    *workers.Pool

	mu     sync.Mutex
	blocks map[uintptr]*block // by address
	bytes  int64
	allocs int
}

// block is allocated memory, at the host's address addr.
type block struct {
	addr    uintptr
	bytes   int64
	pending int // queued works that use it
}

func (d *device) Info() backends.Info { return d.backend.info() }

func (d *device) Alloc(bytes int64) (backends.Memory, error) {
	o := &d.backend.options
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allocs++
	if d.allocs == o.FailAlloc {
		return backends.Memory{}, fmt.Errorf("allocate %d bytes: %w: %w", bytes, ErrInjected, backends.ErrOutOfMemory)
	}
	if o.Memory > 0 && bytes > o.Memory-d.bytes {
		return backends.Memory{}, fmt.Errorf("asynctest: allocate %d bytes: %d of %d are in use: %w", bytes, d.bytes, o.Memory, backends.ErrOutOfMemory)
	}
	addr, err := hostmem.Alloc(bytes)
	if err != nil {
		return backends.Memory{}, fmt.Errorf("asynctest: %w", err)
	}
	d.bytes += bytes
	d.blocks[addr] = &block{addr: addr, bytes: bytes}
	return backends.Memory{Addr: addr + away, Bytes: bytes}, nil
}

func (d *device) Free(m backends.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.blocks[m.Addr-away]
	if b == nil || b.bytes != m.Bytes {
		return fmt.Errorf("asynctest: free: %d bytes at %#x were not allocated here", m.Bytes, m.Addr)
	}
	if b.pending > 0 {
		return fmt.Errorf("asynctest: free: work is still queued on the %d bytes at %#x", m.Bytes, m.Addr)
	}
	delete(d.blocks, b.addr)
	d.bytes -= b.bytes
	return hostmem.Free(b.addr, b.bytes)
}

// find returns the block that holds n bytes at the device's address addr. The
// caller holds the lock.
func (d *device) find(addr uintptr, n int64) (*block, error) {
	at := addr - away
	for _, b := range d.blocks {
		if at >= b.addr && at-b.addr <= uintptr(b.bytes) && uintptr(n) <= uintptr(b.bytes)-(at-b.addr) {
			return b, nil
		}
	}
	return nil, fmt.Errorf("asynctest: %d bytes at %#x are not in the device's memory", n, addr)
}

func (d *device) Compile(u *backends.Unit) (backends.Kernel, error) {
	k, err := strips.Compile(u.IR)
	if err != nil {
		return nil, err
	}
	return &kernel{d, k, len(u.IR.Slots), len(u.IR.ParamTypes)}, nil
}

func (d *device) NewStream() (backends.Stream, error) {
	s := &stream{device: d, work: make(chan *job, 256), ended: make(chan struct{})}
	go s.serve()
	return s, nil
}

// Close frees what is still allocated.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.Close()
	var err error
	for a, b := range d.blocks {
		err = errors.Join(err, hostmem.Free(a, b.bytes))
	}
	clear(d.blocks)
	d.bytes = 0
	return err
}

type kernel struct {
	device        *device
	code          *strips.Kernel
	slots, params int
}

func (*kernel) Workspace(uint64) int64 { return 0 }
func (k *kernel) Release()             { k.code.Release() }
