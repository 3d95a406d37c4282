package backends

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Held is how many nanoseconds, as they are estimated, work may take while its caller holds
// locks that others wait for, as Python's: what is tried on the host, and what is entered.
// The two are one bound. If less were tried, some of what is entered would come twice each time
// until it is; if more, callers would hold their locks for what is not entered.
const Held = 100e3

// EnterBounds say what of a device's calls others may enter by themselves: its frames and
// workspace have at most so many Bytes, and it takes at most so many Nanoseconds. Who
// enters it may hold locks meanwhile, as Python's, which that leaves to a thread for 5 ms;
// and nobody cancels it. Alone is the bound, if it is more, for those who hold no such lock, or
// know that there is nobody to wait for it.
type EnterBounds struct {
	Bytes       int64
	Nanoseconds float64
	Alone       float64
}

// Most is the longest that anything entered takes, in nanoseconds.
func (b *EnterBounds) Most() float64 { return max(b.Nanoseconds, b.Alone) }

// Entered is a Kernel with launches that others may run without its stream, as C code, in
// that stream's turn: short ones, for which the way there would take longer than the work
// or, on a device that works by itself, than queueing it.
type Entered interface {
	Kernel
	// Direct returns a launch on a stream as code to be entered, one after the other, or
	// nil if it is to go by the stream: for now or, if never, as often as it comes. Of l's
	// slots it looks at all but the addresses, which others take the place of: they are
	// aligned as these are, to 64 bytes where the Kernel is a Specializer, else to their
	// elements, and lie apart or on each other as these do.
	Direct(l *Launch, on Stream) (parts []Direct, never bool)
}

// Shared is a Stream of a device that works by itself, on which code may be entered
// where a call that queues could come. What is entered has tickets as any other work.
type Shared interface {
	Stream
	// Given is the last ticket that was given, whoever got it.
	Given() Ticket
}

// Direct is a launch to be entered, or a part of one. Its code stays while its Kernel does.
type Direct struct {
	Code  uintptr // of a function by C's convention of one argument, the address of a frame
	Frame []byte  // what a frame is before its first use; its address is a multiple of FrameAlign
	// Addresses go to a frame before each use: those of Launch.Slots, or its own.
	Addresses []AddressPlace
	// Params are where cells of Launch.Params go, those of signed integers extended by
	// their signs and others by zeros to 64 bits.
	Params []ParamPlace
	Words  []Word // what is to be written before each use
	// Nanoseconds estimates how long it takes. Bounded: whatever the parameters.
	Nanoseconds float64
	Bounded     bool
	// Fault is where a u32 is that is not 0 after a launch that is to be made again by
	// the stream, because it faulted or, if Refuses, because nothing was done; -1: none is.
	Fault   int
	Refuses bool
	// Bytes are what the device keeps for it until Release.
	Bytes int64
	// Release, if it is not nil, lets go of what the code has beside its Kernel, before
	// that. Nobody enters it then, but what was entered may still be under way.
	Release func()
}

// FrameAlign is what frames' addresses are multiples of.
const FrameAlign = 64

// Base says whose address is meant: by its number that of one of a launch's slots, of a
// call's operands, or one of these.
type Base int

const (
	Workspace Base = kernels.Workspace     // a call's workspace, of which launches know nothing
	OwnFrame  Base = kernels.Workspace - 1 // the frame's own
)

// AddressPlace is where an address goes, 64 bits, with so many bytes added to it.
type AddressPlace struct {
	Of     Base
	At     int // byte of a frame
	Offset int64
}

// ParamPlace is where a parameter of a type goes. Single: a 16-bit float as the f32 that
// it is.
type ParamPlace struct {
	Of, At int
	Type   isa.Type
	Single bool
}

// Word is 64 bits of a frame, from byte At on.
type Word struct {
	At    int
	Value uint64
}
