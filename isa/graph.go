package isa

// Verified is a program that passed Verify, with what the verifier found out.
// It is immutable; everything after the verifier starts from it.
type Verified struct {
	Program *Program
	// Graph is the program's control flow with calls inlined, unreachable code
	// left out and straight-line blocks merged.
	Graph Graph
	// Slots says, for each slot, how the program uses it.
	Slots []SlotUse
	// PoolBytes is the scratch that one lane needs.
	PoolBytes int
	// HasBarrier is whether the program contains a barrier or a collective.
	HasBarrier bool
	// BackEdges says which ways out of instructions of Program are back edges
	// of the graph: they start a new round of a loop that is not counted, and
	// so cost a unit of fuel. What has none is left out.
	BackEdges map[RoutineInst]BackEdge
}

// RoutineInst is an instruction as one routine runs it. Routines may share
// code, and what starts a new round in one of them need not do so in another.
type RoutineInst struct {
	Entry int // where the routine starts: what the innermost CALL names, 0 outside of calls
	Inst  int // index in Program.Insts
}

// BackEdge is a set of ways out of an instruction.
type BackEdge uint8

// The ways out of an instruction.
const (
	// BackTaken is a BRA taken.
	BackTaken BackEdge = 1 << iota
	// BackOnward is going on to the next instruction; from a CALL, when a RET
	// comes back to it, in the routine that calls; from a LOOP, past its end
	// when no rounds are left.
	BackOnward
)

// SlotUse says how a program uses a slot.
type SlotUse struct {
	Reads, Writes bool // in: Reads; out: Writes; both
	Indexed       bool // accessed as slot[index]
	Bytes         bool // accessed by byte address, which demands a contiguous view
	Flat          bool // accessed as slot[flat i], which demands a view of one stride; in the IR, which has byte addresses instead, it is Bytes
	// LoadsAfterStoreTo lists the other slots, in order, of which a store may
	// precede a load of this one in a lane. Where both are bound to the identical view, sharing
	// a load would be seen, so such a launch is refused.
	LoadsAfterStoreTo []int
}

// Computed reports whether the slot is accessed by addresses that the program
// computes, so that a lane may reach what is another's.
func (u *SlotUse) Computed() bool { return u.Bytes || u.Flat }

// Graph is a control-flow graph: Blocks[0] is the entry, to which nothing
// leads, the rest follow in reverse postorder. It is reducible: a Term that
// leads to a block of the same or a lower number is a back edge, to a block
// that dominates it, and each costs a unit of fuel, but for that of a latch. A
// loop that is not counted is the blocks that reach a back edge without
// passing the block it leads to.
type Graph struct {
	Blocks []Block
}

// Block is straight-line code and what ends it.
type Block struct {
	Code []Located
	Term Term
}

// Located is an instruction of the program, and its place there. Where calls
// are inlined, many may be the same.
type Located struct {
	*Inst
	Src int // index in Program.Insts
}

// TermKind says how a block ends.
type TermKind uint8

// The ends of blocks.
const (
	// TermExit ends the lane.
	TermExit TermKind = iota
	// TermJump goes to To[0].
	TermJump
	// TermBranch goes to To[0] if Pred holds, else to To[1].
	TermBranch
	// TermLoop reads Count and starts a counted loop: to To[0], the loop's
	// header, if it is not 0, else to To[1]. The header is a block of the
	// loop's own that only this block and the loop's latch lead to; it may be
	// empty, hold code of the body, or be the latch itself.
	TermLoop
	// TermLatch ends a round of a counted loop: to its header To[0] if rounds
	// are left, else to To[1], the same block as its TermLoop's To[1]. A loop
	// of which no round ends has no latch.
	TermLatch
)

// Term is the end of a block.
type Term struct {
	Kind  TermKind
	Pred  Arg // of TermBranch: kind ArgPred
	Count Arg // of TermLoop: register or immediate
	To    [2]int
	Src   int // index in Program.Insts of the instruction, -1 for a fall-through
}

// Successors returns the blocks that t may lead to.
func (t *Term) Successors() []int {
	switch t.Kind {
	case TermExit:
		return nil
	case TermJump:
		return t.To[:1]
	default:
		return t.To[:2]
	}
}
