// Package backends is the contract between core and whatever runs programs.
// A backend imports isa and kernels, never core; core imports backends.
//
// In order: Devices says what there is; Open opens a device; Alloc gives
// memory and NewStream a queue; Compile turns a Unit into a Kernel, once per
// Key; Stream.Launch runs it. Core checks everything that can be checked
// without running (types, shapes, overlap, limits), so a backend may rely on
// a Launch being well formed; what a program does while running is the
// backend's to make safe.
//
// Time is counted by tickets. What is queued on a stream gets the stream's next
// one, and a ticket has passed when its work, and all before it, is done. Who
// needs that waits for the ticket: the host by Wait, another stream by Await,
// on the device. A device that works while it is called is the simple case: its
// tickets are all 0, which has always passed.
package backends

import (
	"errors"
	"fmt"
	"time"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Backend is one way to run programs.
type Backend interface {
	// Name is what Executor(backend=…) calls it: "cpu", "cuda", "metal", "interp".
	Name() string
	// Devices lists the devices, or says why there are none. It opens none.
	Devices() ([]Info, error)
	// Open opens device number i of Devices.
	Open(i int) (Device, error)
}

// Threaded is a Backend whose devices work on threads of the host's, as many as
// they are told.
type Threaded interface {
	// SetThreads chooses how many threads work on a launch, the caller's included:
	// 1 … MaxThreads.
	SetThreads(n int)
	// Threads tells how many there are now.
	Threads() int
}

// MaxThreads is the most that work on a launch.
const MaxThreads = 1024

// Info describes a device.
type Info struct {
	Name         string
	HostVisible  bool      // the host may read and write the device's memory in place
	Asynchronous bool      // what a Stream is given may be done after it returned
	Codegen      string    // what changes the code made: generator version, architecture, features
	RunsSource   bool      // compiles Unit.Source rather than Unit.IR, so kernels differ by source
	Heeds        bool      // Compile computes alone, and counts what it does on Unit.Work, whose word it heeds
	FewLanes     bool      // few lanes keep the device busy: products need not be split along k
	Variants     Variant   // what Compile heeds; the rest of a Variant makes no other kernel
	MemoryBytes  int64     // 0: not known
	Processors   int       // of the device's, which run blocks beside each other; 0: not known
	Capability   int       // CUDA's compute capability, as 10 · major + minor; 0: it has none
	MaxGrid      [3]uint32 // the most blocks in x, y, z; 0: 2^32 − 1
	DLPackType   int32     // DLPack's DLDeviceType: 1 CPU, 2 CUDA, 8 Metal; 0: memory is not shared by DLPack
	DLPackID     int32     // DLPack's device_id

	Batches bool         // its streams are Batchers
	Enters  *EnterBounds // of what may be entered of kernels that are Entered; nil: none is
}

// Device is an opened device. Its methods may be called from several goroutines.
type Device interface {
	Info() Info
	// Alloc returns zeroed memory aligned to 64 bytes or better, outside Go's
	// heap. ErrOutOfMemory, possibly wrapped, if there is none.
	Alloc(bytes int64) (Memory, error)
	// Free gives memory back. Work already queued on it has passed.
	Free(Memory) error
	// AllocHost returns zeroed memory of the host's, likewise aligned, that the
	// device reaches at the same address: for copies and for Records.
	AllocHost(bytes int64) (Memory, error)
	FreeHost(Memory) error
	// Compile prepares a unit. *Unsupported says what it cannot do, and why.
	Compile(*Unit, Variant) (Kernel, error)
	// NewStream makes a queue. Work on one stream runs in order.
	NewStream() (Stream, error)
	// WrapStream makes a Stream of a queue that others own, such as torch's
	// CUstream, numbered as DLPack does. Closing it leaves theirs open.
	// *Unsupported where there are none. While the owner captures, what queues
	// on it is refused by ErrCaptured, and nothing is done; see Guest.
	WrapStream(native uintptr) (Stream, error)
	Close() error
}

// Planner is a Device that has plans of its own for operations of the library.
type Planner interface {
	// Plan is kernels.Op.Plan for this device, in the written order; nil: the
	// library's own.
	Plan(op *kernels.Op, t isa.Type, dims []int64) (*kernels.Plan, error)
	// PlanShapes is kernels.Op.PlanShapes likewise, of operands that do not lie
	// packed or have several types.
	PlanShapes(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error)
}

// Importer is a Device that has to be told of memory of others, wrapped or
// borrowed, before slots lie in it. (CUDA need not: its pointers are one space.)
type Importer interface {
	// Import is an error if the device cannot reach the memory in place.
	Import(addr uintptr, bytes int64) error
	// Forget ends an Import. Work on the memory has passed, but for what an owner
	// replays of his graphs, whose memory it is.
	Forget(addr uintptr, bytes int64)
}

// Memory is a device's memory at Addr: a host address where Info.HostVisible.
type Memory struct {
	Addr  uintptr
	Bytes int64
}

// Meter is a Device that can tell how much memory it has left.
type Meter interface {
	// FreeBytes is what Alloc could still give at most; 0: it is not known.
	FreeBytes() int64
}

// Trimmer is a Device that keeps memory from launch to launch which is nobody's.
type Trimmer interface {
	Device
	// Trim gives what is not in use back to the system and returns its size in bytes.
	Trim() int64
}

// Locator is a Device that can tell where memory lies, whoever has it.
type Locator interface {
	// Locate tells of the memory at an address. It waits for nothing.
	Locate(addr uintptr) Place
}

// Place is where memory lies.
type Place struct {
	Kind   PlaceKind
	Device int32 // DLPack's device_id, of OnDevice
	Bytes  int64 // from the address to the end of what was allocated; 0: not known
}

// PlaceKind is a kind of memory.
type PlaceKind uint8

// The kinds. Copies take Locked memory as they take that of AllocHost.
const (
	Elsewhere PlaceKind = iota // nothing that devices of the backend know of: most of the host's
	Locked                     // the host's, which does not move, so that the device copies to and from it
	OnDevice
)

// Kernel is a compiled unit; it belongs to the device that made it. Fault
// sites are nodes of the IR, or instructions of the source if Info.RunsSource.
type Kernel interface {
	// Cost estimates how long l takes, in nanoseconds, from its sizes and
	// parameters alone: Slots' and Record's addresses need not be there. +Inf
	// where nothing bounds it.
	Cost(l *Launch) float64
	// Workspace is the device memory, in bytes, that l needs beside its slots;
	// 0 for most. Like Cost it looks at no address.
	Workspace(l *Launch) int64
	// Release frees what the kernel holds. No launch of it is under way.
	Release()
}

// Specializer is a Kernel that makes more code for launches of some kinds: core
// has it made before a stream's turn is taken, on a goroutine that may wait for all
// that is queued, for ever if need be, while the callers leave. Without try there
// is one call at a time.
type Specializer interface {
	// Specialize makes the code that l needs, which depends on what Cost looks at,
	// whether there is Fuel, on Batch, and the slots' addresses modulo 64. With try it makes
	// none, but returns ErrPending where there is need. A Launch for which it was
	// not called may have to make the code itself.
	Specialize(l *Launch, try bool) error
}

// Keeper is a Specializer that may find code which an earlier process made.
type Keeper interface {
	Specializer
	// Kept reports whether the code that Specialize made last was found.
	Kept() bool
}

// Ticket is the place of work in its stream's order.
type Ticket uint64

// Stream is a queue of work on a device. A call that returns an error has queued
// nothing, or, on a device that works while called, says what became of it.
// Memory that work uses stays until its ticket has passed; what is passed by
// pointer is read before the call returns, but for Records. Calls that queue
// come one at a time; Passed, Wait, and to be another's other in Await, at any
// time. A stream takes at least 1,024 works; then queueing may block. Once the
// device is lost, all that was given has passed, and Wait tells what was not done.
type Stream interface {
	// Launch queues k; a launch of no lanes is nothing, with a ticket. What the
	// program did wrong is in l.Record, which the host clears, once the ticket has
	// passed; a device that works while called returns it as well.
	Launch(k Kernel, l *Launch) (Ticket, error)
	// Copy copies bytes between places in the device's memory or that of
	// AllocHost; on a device that works while called, any of the host's. Areas
	// do not overlap.
	Copy(dst, src uintptr, bytes int64) (Ticket, error)
	// Fill sets count elements of size bytes (1, 2, 4 or 8) to the low bits of cell.
	// Of none it is nothing, wherever dst is, with a ticket.
	Fill(dst uintptr, cell uint64, size int, count int64) (Ticket, error)
	// Await makes what is queued from now on wait until t, which other has given,
	// has passed on other, a stream of the same device. The host does not wait.
	Await(other Stream, t Ticket) error
	// Passed is the last ticket that has passed. It does not wait, and costs
	// little.
	Passed() Ticket
	// Wait returns nil when t has passed, and ErrPending if it has not after d.
	// Another error tells that just the work of ticket t failed to run; it wraps
	// ErrLost if the device is of no more use. After t has passed, Wait may be
	// called for it once.
	Wait(t Ticket, d time.Duration) error
	// Close ends the stream. All its work has passed.
	Close() error
}

// Batcher is a Stream that queues launches together: for many small ones the device, and
// whoever queues, takes less time.
type Batcher interface {
	// LaunchBatch queues n launches of k, none of which writes what another reads or writes,
	// in whatever order, as Launch would each; it returns a ticket that passes when all have.
	// launch is asked for each as often as need be, and each is valid until it is asked for
	// the next. Their Batch is at least n, and their Params are the same but for those by
	// ir.Func.Given. They have no Records. Wait for the ticket tells of each that failed. With an error
	// the ticket, if it is not 0, is of those that are queued.
	LaunchBatch(k Kernel, n int, launch func(i int) *Launch) (Ticket, error)
}

// Timer is a Stream that can tell when the device did its work.
type Timer interface {
	// Time has the next Launch, Copy, Fill or Replay timed, and returns where that is
	// told. It queues nothing itself. What is captured is not timed.
	Time() Timing
}

// Timing is when the device did a piece of work.
type Timing interface {
	// Span is when the device began and ended the work, counted from an instant that is
	// the same for all of the stream, once its ticket has passed. An error if it was not
	// timed.
	Span() (began, ended time.Duration, err error)
	// Release lets go of it, at whatever time.
	Release()
}

// Comparer is a Timing that can be told from those of other streams of the device.
type Comparer interface {
	// Since is the time from when the device ended earlier's work to when it ended
	// this one's; both have passed, and nobody asked for their Span.
	Since(earlier Timing) (time.Duration, error)
}

// Numbered is a Stream that others can use too.
type Numbered interface {
	// Native is its number, as for WrapStream.
	Native() uintptr
}

// Capturer is a Stream that records work instead of doing it.
type Capturer interface {
	// BeginCapture records Launch, Copy and Fill from now on; their tickets are 0.
	// Meanwhile Await, Replay and Wait on the stream are errors.
	BeginCapture() error
	// EndCapture returns what was recorded. Memory, workspaces and Records that it
	// uses stay until Release.
	EndCapture() (Graph, error)
}

// Guest is a stream of others that can add to what its owner captures, as work of
// an operation does to the graph of a training step that torch captures.
type Guest interface {
	// Captured reports whether the owner captures the stream now.
	Captured() bool
	// Join has Launch, Copy and Fill record in the owner's graph what comes until
	// Leave, with tickets 0; what keeps a state in the stream (phase, residues) is
	// *Unsupported. Workspaces, Records and kernels stay until Gone; memory of
	// others is their owner's business, as it is for work of his own.
	Join() (Stay, error)
}

// Stay is what a Guest recorded at one time.
type Stay interface {
	Leave()
	// Gone reports that neither the owner's graph nor anything made of it is there
	// any more, so that no replay is under way or to come.
	Gone() bool
}

// Graph is captured work.
type Graph interface {
	// Replay queues the work on s, a stream of the same device.
	Replay(s Stream) (Ticket, error)
	// Release frees the graph. No replay is under way.
	Release()
}

// Unsupported says what a backend cannot compile or do.
type Unsupported struct{ Backend, What, Why string }

func (u *Unsupported) Error() string {
	return fmt.Sprintf("%s cannot run %s: %s", u.Backend, u.What, u.Why)
}

// Captured is the *Unsupported for what a stream of others refuses while its owner
// captures it. It is ErrCaptured.
func Captured(backend, what string) error {
	return captured{&Unsupported{backend, what + " on a stream of others", "its owner is capturing it"}}
}

type captured struct{ *Unsupported }

func (c captured) Unwrap() error      { return c.Unsupported }
func (captured) Is(target error) bool { return target == ErrCaptured }

// Errors that callers compare with errors.Is.
var (
	ErrOutOfMemory = errors.New("out of memory")
	ErrCancelled   = errors.New("launch cancelled")
	ErrPending     = errors.New("not done yet")
	ErrCaptured    = errors.New("the stream's owner is capturing it")
	ErrLost        = errors.New("the device is lost; only a new process can use it again")
)
