// Package backends is the contract between core and whatever runs programs.
// A backend imports isa and kernels, never core; core imports backends.
//
// In order: Devices says what there is; Open opens a device; Alloc gives
// memory and NewStream a queue; Compile turns a Unit into a Kernel, once per
// cache key; Stream.Launch runs it. Core checks everything that can be checked
// without running (types, shapes, overlap, limits), so a backend may rely on
// a Launch being well formed; what a program does while running is the
// backend's to make safe.
package backends

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Backend is one way to run programs.
type Backend interface {
	// Name is what Executor(backend=…) calls it: "cpu", "cuda", "metal", "interp".
	Name() string
	// Devices lists the devices, or says why there are none.
	Devices() ([]Info, error)
	// Open opens device number i of Devices.
	Open(i int) (Device, error)
}

// Info describes a device.
type Info struct {
	Name         string
	HostVisible  bool   // the host may read and write the device's memory in place
	Asynchronous bool   // Launch and Copy may return before they are done
	Codegen      string // what changes the code made: generator version, architecture, features; part of cache keys
	RunsSource   bool   // compiles Unit.Source rather than Unit.IR, so kernels differ by source
	MemoryBytes  int64  // 0: not known
	Threads      int    // CPU workers including the caller; 0 elsewhere
}

// Device is an opened device. Its methods may be called from several goroutines.
type Device interface {
	Info() Info
	// Alloc returns zeroed memory aligned to 64 bytes or better, outside Go's
	// heap. ErrOutOfMemory, possibly wrapped, if there is none.
	Alloc(bytes int64) (Memory, error)
	// Free gives memory back. Work already queued on it has finished.
	Free(Memory) error
	// Compile prepares a unit. *Unsupported says what it cannot do, and why.
	Compile(*Unit) (Kernel, error)
	// NewStream makes a queue. Work on one stream runs in order.
	NewStream() (Stream, error)
	Close() error
}

// Memory is a device's memory at Addr: a host address where Info.HostVisible.
type Memory struct {
	Addr  uintptr
	Bytes int64
}

// Unit is what Compile gets. It is immutable and may be shared.
type Unit struct {
	Source *isa.Verified
	IR     *ir.Func // canonical
	Hash   [32]byte // of the canonical bytes
}

// Kernel is a compiled unit; it belongs to the device that made it. Fault
// sites are nodes of the IR, or instructions of the source if Info.RunsSource.
type Kernel interface {
	// Workspace is the device memory a launch over n elements needs beside its
	// slots; 0 for most.
	Workspace(n uint64) int64
	// Release frees what the kernel holds. No launch of it is running.
	Release()
}

// Stream is a queue of work on a device.
type Stream interface {
	// Launch queues k. A nil Event means that it is done, and the error is its
	// outcome; else the outcome, *ProgramFault included, comes from the event.
	// l must stay as it is until then. Cancelling l ends it soon.
	Launch(k Kernel, l *Launch) (Event, error)
	// Copy copies bytes between two places of which each is in the device's or,
	// if its host flag is set, in the host's memory. Areas do not overlap.
	Copy(dst, src uintptr, bytes int64, dstHost, srcHost bool) (Event, error)
	// Synchronize waits for all queued work. It returns ctx's error if that
	// ends first; outcomes of launches belong to their events.
	Synchronize(ctx context.Context) error
	Close() error
}

// Event is the completion of queued work.
type Event interface {
	// Wait returns the outcome, or ErrPending after the given time; 0 polls.
	Wait(time.Duration) error
}

// View is memory as seen through shape and strides. Rank 0 is a scalar.
type View struct {
	Addr   uintptr // of element 0 …
	Bytes  int64   // what byte addresses may reach from there; 0 where the view is not contiguous
	Type   isa.Type
	Rank   int
	Shape  [isa.MaxRank]int64
	Stride [isa.MaxRank]int64 // in elements; 0 broadcasts; never reaches outside the memory
}

// Launch is one run of a kernel. Slots are already broadcast to the index
// space: same Rank and Shape, strides 0 where an operand is repeated.
type Launch struct {
	Slots       []View
	Params      []uint64 // cells
	Grid, Block [3]uint32
	Rank        int // of the index space, row-major over the lanes
	Shape       [isa.MaxRank]int64
	N           uint64 // product of Shape; lanes from N on do not run
	Fuel        uint64 // steps a lane may take; 0: no limit
	Cancel      *atomic.Bool
	Workspace   uintptr
	Residue     *[isa.NumClasses]uint64 // RES_ACCUM adds to it; nil if the program has none
	Phase       *uint16                 // the stream's phase, read at the start, set from lane 0's at the end; nil as above
}

// ProgramFault is what went wrong in lanes of a launch that ran to its end.
// Core turns Site into the instruction of the program as written.
type ProgramFault struct {
	Kind isa.FaultKind
	Site int    // ir.Node number (see ir.Func.Sites) or, if Info.RunsSource, index in Program.Insts
	Lane uint64 // one of the lanes, by its global number
}

func (f *ProgramFault) Error() string {
	return fmt.Sprintf("%v at site %d in lane %d", f.Kind, f.Site, f.Lane)
}

// Unsupported says what a backend cannot compile.
type Unsupported struct{ Backend, What, Why string }

func (u *Unsupported) Error() string {
	return fmt.Sprintf("%s cannot run %s: %s", u.Backend, u.What, u.Why)
}

// Errors that callers compare with errors.Is.
var (
	ErrOutOfMemory = errors.New("out of memory")
	ErrCancelled   = errors.New("launch cancelled")
	ErrPending     = errors.New("not done yet")
)
