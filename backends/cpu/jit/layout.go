package jit

// A function has one argument, the address of a block of memory that starts
// with a head of the fields below. Behind that are the slots' addresses, the
// parameters, and room for what has no register.
const (
	argFirst   = 0   // u64: the global number of lane 0
	argCount   = 8   // u64: lanes to do
	argCancel  = 16  // address of a u32: not 0 to end soon
	argEnded   = 24  // u32: set to 1 if lanes were left out for that
	argKind    = 28  // u32: isa.FaultKind of the lowest lane's first fault
	argSite    = 32  // i32
	argLane    = 40  // u64: that lane's global number; all ones: none
	argN       = 48  // u64: size of the index space
	argGrid    = 56  // 3 u32
	argBlock   = 68  // 3 u32
	argPlace   = 80  // by special value up to block.z: 2 u64, see place
	argAt      = 176 // i64: backends.Asked.At
	argKnown   = 184 // u32: 1 if the fault says what was asked for
	argSlot    = 188 // u32
	argWidth   = 192 // u64: lanes of a block, where code is for blocks
	argLeft    = 200 // u64: lanes that are not done, those of the block at hand included
	argBlockNo = 208 // u64: number of the block at hand in the grid
	argRows    = 216 // u64: rows of so many lanes each that are done one after the other, where code is not for blocks
	argMask    = 224 // u64: the lanes of a group that are yet to come, while one does an atomic operation
	argLock    = 232 // address of a u32: not 0 while a lane does one at an address that is no multiple of its size
	argLanes   = 256
	headBytes  = argLanes + 4*64
)

// What is told of a slot.
const (
	slotIndex = 0  // address of the element of lane 0
	slotBase  = 8  // address that byte addresses count from
	slotReach = 16 // bytes that they may reach
	slotStep  = 24 // bytes from a block's, or row's, first element to the next one's
	slotBytes = 32
)

// layout is where things stand in that block.
type layout struct {
	slots, params int32
	spill         int32
	bytes         int32 // set when registers are allocated
}

func newLayout(slots, params int) layout {
	l := layout{slots: headBytes}
	l.params = l.slots + int32(slotBytes*slots)
	l.spill = (l.params + int32(8*params) + 63) &^ 63
	return l
}
