package isa

// Limits on what a program may hold. The verifier enforces them; they keep
// every later stage's memory and time bounded, whoever wrote the program.
const (
	NumRegisters  = 256 // r0 … r255
	NumPredicates = 16  // p0 … p15
	FirstPreset   = 252 // r252 … r255 are set at a lane's start, see PresetRegisters

	MaxInsts       = 1 << 16 // instructions as written
	MaxInlined     = 1 << 16 // instructions after calls are inlined
	MaxCallDepth   = 256
	MaxSlots       = 64
	MaxParams      = 64
	MaxDataBytes   = 1 << 20 // all constant tables together
	MaxSharedBytes = 48 << 10
	MaxPoolBytes   = 16 << 10 // all of a lane's scratch together
	MaxBlockLanes  = 1024
	MaxRank        = 8       // dimensions of an index space or a view
	MaxOperations  = 196608  // of the canonical form, with functions like EXP expanded
	MaxConstructs  = 1 << 13 // conditional branches, loops and places where branches meet, in called code for each call
	MaxCarried     = 1 << 18 // values that branches and loops of the canonical form carry
	MaxNameLen     = 255
	MaxFlatOffset  = 1<<48 - 1 // of the constant in slot[flat reg + offset], either way

	NumClasses    = 96
	ClassBytes    = 12288
	PagesPerClass = 48
	PageBytes     = 256
	BoundaryBytes = NumClasses * ClassBytes
)

// BoundarySlot is the name of the slot that Φ-addresses refer to. A program
// that uses phi(…) declares it (the assembler and builder do it on first use):
// a u8 slot of BoundaryBytes bytes, bound to the executor's boundary pool
// unless the launch binds another buffer of that size.
const BoundarySlot = "boundary"

// PresetRegisters maps r252 … r255 to the special value they hold when a lane
// starts: lane.x, block.x, block_dim.x (u32) and global_lane (u64).
var PresetRegisters = [NumRegisters - FirstPreset]Special{LaneX, BlockX, BlockDimX, GlobalLane}

// Slot is a place to which a launch binds a view of memory.
type Slot struct {
	Name string
	Type Type // element type; accesses through the slot have this type, but for the u8 boundary slot
}

// Param is a scalar given at launch.
type Param struct {
	Name string
	Type Type
}

// Data is a constant table, read by LDC with a checked index.
type Data struct {
	Name   string
	Type   Type
	Values []uint64 // one cell an element
}

// Label names the place before instruction At; At may equal len(Insts).
type Label struct {
	Name string
	At   int
}

// Program is an Atlas program as written: what the assembler reads, the
// builder makes and the binary form holds. Only Verify may judge it runnable.
type Program struct {
	Name   string
	Slots  []Slot
	Params []Param
	Data   []Data
	Shared uint32    // bytes of shared memory a block has
	Block  [3]uint32 // block shape the program demands; zero: any
	Labels []Label
	Insts  []Inst
	Debug  Debug
}

// Debug holds what helps a reader and changes no result. Regs and Preds give
// registers their names ("" = none) and survive the text and binary forms;
// Lines, Cols (1-based, by instruction) and File come from the assembler and
// are not part of a program's identity.
type Debug struct {
	Regs  [NumRegisters]string
	Preds [NumPredicates]string
	File  string
	Lines []int32
	Cols  []int32
	// Text is the source, kept so that later errors can show a line of it.
	Text string
}

// Line returns a line of the source by its number, as Lines has it, and whether
// there is one.
func (d *Debug) Line(number int) (line string, ok bool) { return lineOf(d.Text, number) }

// Inst is one instruction: an operation, the types and condition that its
// mnemonic carries, and its operands in the order of the row's Operands. An
// omitted optional operand has kind ArgNone.
type Inst struct {
	Op Op
	Form
	Args [MaxOperands]Arg
}

// MaxOperands is the largest number of operands that a row has.
const MaxOperands = 5

// Form is what the suffixes of a mnemonic say: add.f32 has Type F32,
// cvt.f32.i16 has Type F32 and From I16, set.lt.f32 has Cond LT and Type F32.
type Form struct {
	Type Type // type operated on; for CVT and BITCAST that of the result
	From Type // source type of CVT and BITCAST
	Cond Cond // condition of SET
}

// ArgKind says what an operand is.
type ArgKind uint8

// The kinds of operands.
const (
	ArgNone  ArgKind = iota
	ArgReg           // register Reg
	ArgPred          // predicate Reg, negated if Not
	ArgImm           // immediate: the cell Bits, typed by the row
	ArgLabel         // Labels[Bits]
	ArgParam         // Params[Bits]
	ArgData          // Data[Bits]
	ArgName          // a Special or Scope, by number in Bits
	ArgAddr          // an address, see Arg
)

// Arg is one operand. Of an address Mode says what else there is: Reg, which it
// has if HasReg and which may have any integer type of 32 or 64 bits, as may
// register Handle; Slot's number; and Bits, an offset. The byte address, or of
// AddrFlat the element's number, is the mathematical sum of Reg's value and the
// offset.
type Arg struct {
	Kind   ArgKind
	Not    bool
	Reg    uint8
	Mode   AddrMode
	HasReg bool
	Handle uint8
	Slot   uint16
	Bits   uint64
}

// Offset returns the constant of an address.
func (a *Arg) Offset() int64 { return int64(a.Bits) }

// AddrMode says how an address is made.
type AddrMode uint8

// The address modes.
const (
	AddrIndex    AddrMode = iota + 1 // slot[index]: the lane's element of the view, broadcast to the index space
	AddrByte                         // slot[reg + offset]: a byte address in a contiguous view; reg optional
	AddrIndirect                     // @handle[reg + offset]: likewise, the slot's number in register Handle
	AddrPhi                          // phi(class, page, byte): offset class·12288+page·256+byte in the boundary slot
	AddrShared                       // shared[reg + offset]: a byte address in the block's shared memory
	AddrFlat                         // slot[flat reg + offset]: element reg + offset of the view, row-major; reg optional
)

// Phi returns class, page and byte of an AddrPhi offset.
func (a *Arg) Phi() (class, page, byte_ int64) {
	return a.Offset() / ClassBytes, a.Offset() % ClassBytes / PageBytes, a.Offset() % PageBytes
}

// FaultKind is what went wrong in a lane that a launch reports after it
// completed. The values are part of the C ABI.
type FaultKind uint8

// The faults. A faulting load or division gives 0, a faulting store is dropped.
const (
	NoFault     FaultKind = iota
	FaultAccess           // access outside its buffer, shared memory, table or scratch
	FaultDivide           // integer division or remainder by zero
	FaultFuel             // the lane ran out of fuel
	FaultClass            // class ≥ 96 or page ≥ 48
	FaultHandle           // slot number or pool handle that names nothing
)

var faultNames = [...]string{"none", "stray access", "integer division by zero", "out of fuel", "class or page out of range", "invalid handle"}

// String describes the fault.
func (k FaultKind) String() string {
	if int(k) < len(faultNames) {
		return faultNames[k]
	}
	return "invalid"
}
