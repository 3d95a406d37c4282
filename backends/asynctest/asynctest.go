// Package asynctest is a simulated GPU, for tests. Its memory is its own, work
// is done some time after it was queued, by other threads, several streams at
// once, and anything may fail, when it is asked for or later. The contract of
// package backends is proved on it, and core and the bindings run their suites
// over it, so that they don't come to rely on what only the host offers. Where
// a real device would go astray in silence (work on two streams that nothing
// orders, memory freed too early, a launch that a kernel's Variant does not
// allow) it tells, see Options.Report. Programs run by the strips engine.
//
// Whoever writes a real device finds here what each method comes down to:
//
//	asynctest.go  Options, the backend, its devices
//	device.go     allocation and streams of a device
//	memory.go     the registry of blocks, which finds what an address means, and the poison
//	kernel.go     kernels, and what a launch is checked for
//	queue.go      the device's side of a stream: work, and the server that does it
//	stream.go     the host's side: tickets, Passed, Wait, Await
//	timing.go     when work was done
//	order.go      the race detector
//	capture.go    capture and replay
//	foreign.go    queues and memory that others own
//	import.go     what work may use of it
//	entered.go    launches that others queue
//	batch.go      launches that are queued together
//	plan.go       a plan of the device's own
//
// A queue is CUDA's CUstream or Metal's MTLCommandQueue. A ticket is what CUDA
// writes to a word of host memory after each work (cuStreamWriteValue64), and
// what Metal signals a MTLSharedEvent with (encodeSignalEvent:value:); Passed
// reads it, Await is cuStreamWaitValue64 or encodeWaitForEvent:value:. The
// registry is what Metal needs to bind an address as a MTLBuffer and an offset.
// A graph is cuGraphExec, or on Metal a list that is encoded again.
package asynctest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// Options say how the backend behaves. The zero value has one device, which
// completes at once, but still on threads of its own, and never fails.
type Options struct {
	// Devices is how many devices there are; 0: one; negative: none.
	Devices int
	// Delay is the time from when work could start to when it is done.
	Delay time.Duration
	// Queue is how many works wait on a stream at most; a call that queues more
	// blocks, as CUDA's do. 0: 1024, which is about CUDA's.
	Queue int
	// HostVisible gives Metal's shape: the host may touch the device's memory,
	// and work is still done later.
	HostVisible bool
	// DLPackType is what Info says; a device's DLPackID is its number.
	DLPackType int32
	// MaxGrid is what Info says; launches beyond it are refused.
	MaxGrid [3]uint32
	// Variants is what Info says. A launch that its kernel's Variant does not
	// allow is reported.
	Variants backends.Variant
	// Specialize lets kernels have code for launches with and without fuel, and by
	// how their slots are aligned. A launch that needs code which was not made before
	// it, and would now be while others wait, is reported.
	Specialize bool
	// Load is how long the making of such code takes. With LoadStalls it waits, too,
	// until the device has done all that is queued, as cuModuleGetFunction may.
	Load       time.Duration
	LoadStalls bool
	// Workspace is how many bytes every launch needs. They are overwritten.
	Workspace int64
	// Plans lets the devices have a plan of their own for softmax.
	Plans bool
	// Unified is CUDA's shape: what others have on a device is reached without an Import.
	Unified bool
	// Enters lets others queue launches that are proved not to fault; see backends.Entered.
	Enters bool

	// Memory and HostMemory are how many bytes of each device may be allocated
	// at a time by Alloc and by AllocHost; 0: no limit.
	Memory, HostMemory int64
	// Stall lets Alloc and Free wait until the device has done all that is
	// queued, as cuMemAlloc and cuMemFree may.
	Stall bool
	// Each of these is the ordinal, from 1 on, of a device's call that fails; 0:
	// none does. An allocation reports it at once, by ErrOutOfMemory, and so
	// does an Import; the others are reported by the ticket, and nothing is done.
	FailAlloc, FailAllocHost, FailImport, FailLaunch, FailCopy, FailFill, FailReplay int
	// PanicLaunch is the ordinal of the launch that panics once it is queued.
	PanicLaunch int
	// Lose is the ordinal of the work, of whatever kind, at which a device is
	// lost: it and all that is not done yet fail with ErrLost, and so does what
	// is asked for from then on.
	Lose int

	// Report is told of each breach of the contract that a real device would
	// not notice; nil: it panics. It may be called from any goroutine.
	Report func(string)
}

// ErrInjected is the failure that Options asked for.
var ErrInjected = errors.New("asynctest: injected failure")

// Backend is the backend, named "asynctest".
type Backend struct {
	options Options

	// mu guards all that follows, and the fields of devices, streams, queues,
	// blocks and graphs that say so. Reports wait until it is free.
	mu         sync.Mutex
	idle       *sync.Cond // some work has passed
	reports    []string
	counts     Counts
	foreign    map[uintptr]*Foreign // by native number
	natives    uintptr              // the last number given
	others     []registry           // memory of others, by device
	quarantine quarantine
	seen       clock // what the host knows to have passed
}

// Counts says what there is, and what there was so far, on all devices.
type Counts struct {
	// Devices, Streams (wrapped ones among them), Kernels, Graphs, Blocks
	// and HostBlocks are those alive, and Timings those not released.
	// Entries are launches that others may queue.
	Devices, Streams, Kernels, Graphs, Blocks, HostBlocks, Timings, Entries int
	// Injected are the failures that Options asked for and that came about.
	Injected int
	// The others count calls. Captured work counts when it is captured, and Entered
	// are the Launches that others queued.
	Entered, Opens, Allocs, Frees, Imports, Forgets, Compiles, Specials, Launches, Copies, Fills, Awaits, Captures, Replays, Plans int
}

// New returns a backend that behaves as o says.
func New(o Options) *Backend {
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.Queue <= 0 {
		o.Queue = 1024
	}
	b := &Backend{options: o, foreign: map[uintptr]*Foreign{}, others: make([]registry, max(o.Devices, 0)), seen: clock{}}
	b.idle = sync.NewCond(&b.mu)
	return b
}

// Name returns "asynctest".
func (*Backend) Name() string { return "asynctest" }

// Counts returns the counts.
func (b *Backend) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// Devices lists the devices.
func (b *Backend) Devices() ([]backends.Info, error) {
	if b.options.Devices < 0 {
		return nil, errors.New("asynctest: the options ask for no device")
	}
	infos := make([]backends.Info, b.options.Devices)
	for i := range infos {
		infos[i] = b.info(i)
	}
	return infos, nil
}

func (b *Backend) info(i int) backends.Info {
	o := &b.options
	info := backends.Info{Name: "asynctest", HostVisible: o.HostVisible, Asynchronous: true, Batches: true, Codegen: "asynctest/2", Variants: o.Variants,
		MemoryBytes: o.Memory, MaxGrid: o.MaxGrid, DLPackType: o.DLPackType, DLPackID: int32(i)}
	if o.Enters {
		info.Enters = &backends.EnterBounds{Bytes: 4 << 20, Nanoseconds: 10e6}
	}
	if o.Devices > 1 {
		info.Name = fmt.Sprintf("asynctest %d", i)
	}
	return info
}

// Open opens device i.
func (b *Backend) Open(i int) (backends.Device, error) {
	if i < 0 || i >= b.options.Devices {
		return nil, fmt.Errorf("asynctest: open device %d: there are %d, numbered from 0", i, max(b.options.Devices, 0))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Opens++
	b.counts.Devices++
	d := newDevice(b, i)
	if b.options.Unified {
		return unified{d, d, d, d}, nil
	}
	return d, nil
}

// breach notes a breach of the contract for unlock to report, and returns it
// as an error. The caller holds the lock.
func (b *Backend) breach(format string, args ...any) error {
	err := fmt.Errorf("asynctest: "+format, args...)
	b.reports = append(b.reports, err.Error())
	return err
}

// unlock frees the lock and reports what was noted under it.
func (b *Backend) unlock() { b.emit(b.release()) }

// release frees the lock and returns what is to be reported.
func (b *Backend) release() []string {
	reports := b.reports
	b.reports = nil
	b.mu.Unlock()
	return reports
}

func (b *Backend) emit(reports []string) {
	for _, text := range reports {
		if b.options.Report == nil {
			panic(text)
		}
		b.options.Report(text)
	}
}
