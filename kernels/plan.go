package kernels

import "github.com/hologram-project/hologram/isa"

// Plan is what a call comes down to: steps run in order, and scratch memory.
type Plan struct {
	Steps     []Step
	Workspace int64 // bytes of scratch memory that the steps share
}

// Step is the launch of one program.
type Step struct {
	Program *isa.Verified
	Slots   []Binding // one for each slot of the program
	Params  []Param
	Grid    [3]uint32
	Block   [3]uint32
	Shape   []int64 // index space
	Places  *Places // nil: none
	// InPlace: an operand that is written may be the identical array as one that is
	// read, though by bytes: no block reads what another writes, nor what its own
	// lanes have written.
	InPlace bool
	Meeting Meeting
}

// Meeting says how the blocks of a step work together on devices that let them; its zero
// value is that of others, where barriers are a block's own. A plan has one only where its
// device said that so many blocks can meet.
type Meeting struct {
	// Blocks meet at each barrier, neighbours along x. The grid has a multiple of so many.
	// Where none meet, the program does the same if it is run once more than it has
	// barriers, and its output is not its input: what blocks tell each other is the same
	// each time, written before the barrier behind which others read it.
	Blocks int
	// Told are the slots by which they tell it, a bit each, of which nothing else is read.
	Told uint64
}

// Places says what a step's slot of type i64 has: places from 0 to before Count, for
// each lane one, or for all that differ in the last dimensions alone. What is none is
// a stray access, about which an error can tell more by this.
type Places struct {
	Slot  int
	Name  string  // of the operand
	Shape []int64 // its
	Count int64
}

// Param is what a step's parameter gets: a cell that the sizes settle, or the
// call's scalar of number Value. A plan doesn't depend on scalars, so one serves
// all calls of the same sizes.
type Param struct {
	Scalar bool
	Value  uint64
}

// cells are parameters that the sizes settle.
func cells(values ...uint64) []Param {
	list := make([]Param, len(values))
	for i, v := range values {
		list[i].Value = v
	}
	return list
}

// Binding says what a step's slot sees: operand number Operand, or the
// workspace from byte Offset on if Operand is Workspace. A nil Shape is the
// whole operand, flat.
type Binding struct {
	Operand int
	Offset  int64 // bytes, of a workspace binding
	Type    isa.Type
	Shape   []int64
	Stride  []int64 // in elements
}

// Workspace is the Operand of a binding to scratch memory.
const Workspace = -1
