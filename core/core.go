// Package core is what the C ABI and its bindings stand on: devices and their
// memory, executors, buffers, programs, launches and the library of operations.
//
// A call goes down through its rooms, and its operands enter each once. In order:
//
//	looked up  Executor.Call          call.go           which memory the operands are; borrow.go for that of others, and numbers
//	found      call.Table.Get         call/table.go     whether calls of such layouts were prepared before
//	checked    call.Prepare           call/prepare.go   types; step.go read-only, space.go the index space, overlap.go what may overlap
//	compiled   program.Program.Kernel program/cache.go  each kernel once, however many wait for it
//	bound      call.Prepared.Bind     call/bound.go     addresses and numbers, and what of the checks needs them
//	queued     queue.Stream.Submit    queue/            run at once or later, in the stream's turn: inline.go, deferred.go
//	ordered    call.Bound.Run         call/bound.go     behind what other streams do with the memory: memory.Memory.Before, After
//	awaited    queue.Event.Wait       queue/event.go    by Wait in profile.go; and Deferred.reap, which looks what a device has done
//
// A call with Try that is Busy comes again from the top, its binding given back. Before a
// call whose result nobody has an array for, result.go tells from layouts what that will
// be; the array is then the call's last operand.
//
// A short call on the host's memory that was made before, or one on memory in the order of
// its owner's stream, does not come here at all: direct.go has it published as code, with
// what of its addresses is to be looked at, and the binding to Python enters that, in the
// stream's turn (queue/gate.go).
//
// What is not a call goes to the queue too: transfer.go copies to and from the host,
// allocate.go zeroes, fence.go waits, trace.go interprets. foreignstream.go has the
// queues for streams of others, beside each executor's own. Room memory knows who uses
// what, and recycles it; status has the errors of all; profile is told by all of what
// happens, and when, if somebody wants to know.
//
// Who has a lock takes only those behind it:
//
//	a stream's turn → Deferred.looking → Executor.mu → lane.mu → Event.mu
//	a stream's turn → Device.order
//
// and then memory.Line. looking is that of the executor's own stream before those of
// others. All other locks are the last. What runs others' code is called with none:
// deleters, Stop, a trace's lines. Package lock has the order; tests with the build tag
// lockorder see that it is kept.
//
// A Device is opened once and shared by the Executors on it; its pool recycles
// memory and its cache keeps compiled kernels. A Buffer is a view of counted
// memory. All that can be checked is checked before anything runs, so that a
// call which is refused has changed nothing. Everything may be used from several
// goroutines.
package core

import (
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// What of the rooms is part of this package's face.
type (
	Code        = status.Code
	Error       = status.Error
	Fault       = status.Fault
	Short       = status.Short
	Event       = queue.Event
	Graph       = queue.Graph
	Scalar      = call.Scalar
	Operation   = kernels.Op
	MemoryStats = memory.Stats
	KernelStats = program.Stats
	Stop        = program.Stop
	Type        = isa.Type
)

// The kinds of errors.
const (
	OK          = status.OK
	Pending     = status.Pending
	Invalid     = status.Invalid
	BadType     = status.BadType
	BadHandle   = status.BadHandle
	OutOfMemory = status.OutOfMemory
	Syntax      = status.Syntax
	Unverified  = status.Unverified
	Faulted     = status.Faulted
	Cancelled   = status.Cancelled
	Unavailable = status.Unavailable
	Forked      = status.Forked
	Internal    = status.Internal
	Busy        = status.Busy
	Lost        = status.Lost
)

// Type codes and limits of the ISA that the C ABI names.
const (
	Pred       = isa.Pred
	MaxRank    = isa.MaxRank
	NumClasses = isa.NumClasses
)

// CodeOf returns the kind of err: OK for nil, Internal for an error that core
// did not make.
func CodeOf(err error) Code { return status.CodeOf(err) }

// ShortOf returns how memory was short, by which err came about; nil: it tells nothing of that.
func ShortOf(err error) *Short { return status.ShortOf(err) }

// Errorf makes an Error of the given kind; what %w stands for is its cause.
func Errorf(code Code, format string, args ...any) *Error {
	return status.Errorf(code, format, args...)
}

// Int returns the scalar of an integer.
func Int(v int64) Scalar { return call.Int(v) }

// Float returns the scalar of a floating-point number.
func Float(v float64) Scalar { return call.Float(v) }

// Ops lists the operations; an operation's place is its number in the C ABI.
func Ops() []*Operation { return kernels.All }
