package backends

import "github.com/hologram-project/hologram/isa"

// Entered is a Kernel with launches that others may run without its stream, as
// C code, while that stream has nothing else to do: short ones, for which the way
// there would take longer than the work.
type Entered interface {
	Kernel
	// Direct returns a launch on a stream as code to be entered, one after the other, or
	// nil if it is to go by the stream. Of l's slots it looks at all but the addresses,
	// which others take the place of: they are aligned as these are, to 64 bytes where
	// the Kernel is a Specializer, else to their elements, and lie apart or on each other
	// as these do.
	Direct(l *Launch, on Stream) []Direct
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
	Slots []SlotPlace
	// Params are where cells of Launch.Params go, those of signed integers extended by
	// their signs and others by zeros to 64 bits. That of a 16-bit float has no place.
	Params []ParamPlace
	Words  []Word // what is to be written before each use
	// Nanoseconds estimates how long it takes. Bounded: whatever the parameters.
	Nanoseconds float64
	Bounded     bool
	// Fault is where a u32 is that is not 0 after a launch that is to be made again by
	// the stream, because it faulted or, if Refuses, because nothing was done; -1: none is.
	Fault   int
	Refuses bool
	// Release, if it is not nil, lets go of what the code has beside its Kernel, before
	// that. Nobody enters it then, but what was entered may still be under way.
	Release func()
}

// FrameAlign is what frames' addresses are multiples of.
const FrameAlign = 64

// Place says which slot or parameter goes to which byte of a frame.
type Place struct{ Of, At int }

// SlotPlace is where the address of one of Launch.Slots, or of the frame itself, goes
// before each use, 64 bits, with so many bytes added to it.
type SlotPlace struct {
	Place
	Offset int64
}

// OwnFrame is the Of of a SlotPlace with the address of the frame itself.
const OwnFrame = -1

// ParamPlace is the place of a parameter of a type.
type ParamPlace struct {
	Place
	Type isa.Type
}

// Word is 64 bits of a frame, from byte At on.
type Word struct {
	At    int
	Value uint64
}
