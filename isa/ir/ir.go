// Package ir holds the canonical form of Atlas programs: a structured SSA
// representation, the passes that bring it into canonical order, its bytes
// and its hash. Every backend but the interpreter starts from it.
//
// A Func is a tree. A Region is a list of Nodes; a Node is an instruction
// with value operands, or a control construct (If, Loop, Block) that holds
// regions, or Br, which leaves constructs. Values are defined once, by a node
// or as a region's parameter, and are visible in the rest of their region and
// the regions inside it.
//
// What the program's instructions became: moves, calls, labels and register
// reductions are gone; MAD is MUL and ADD; REDUCE_* a chain of its operation;
// LTU … GEU are LT … GE; Φ-addresses are byte addresses in the boundary slot;
// immediates are Const nodes; a negated predicate is a NOT. The offset of a
// byte address is one I64 value and a constant. Flat addresses are byte
// addresses, and rows, columns and places along axes are quotients and
// remainders: both are made of what a launch gives (Given). Transcendentals stay
// whole until a backend asks for them to be expanded (Expand).
//
// The order of independent instructions is not part of the canonical form.
// Two instructions depend on each other if one takes the other's result; if
// one writes a place that the other reads or writes; or if one may end the
// lane (a loop, by fuel; a way out) and the other would be missed. A place is
// a slot, the block's shared memory, the lane's phase, the lane's scratch. It
// is one whatever the address: two stores to different constant offsets of one
// slot keep the order in which they were written, and so do two atomics on it
// and two accesses to different scratch areas. RES_ACCUMs are independent,
// since residues only add up. Barriers and fences write all slots and shared
// memory.
package ir

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// Op is the operation of a node: an isa.Op, or one of the constructs below.
type Op uint16

// The constructs. Instructions have the numbers of the isa package.
const (
	// Const is the constant Imm of type Form.Type (Pred: 0 or 1).
	Const Op = 0x1000 + iota
	// If runs Regions[0] in the lanes where Args[0] holds and Regions[1] in
	// the others; its results are what the regions yield. A region that ends
	// in Br yields nothing.
	If
	// Loop runs Regions[0] for round after round. The region's parameters
	// start as the loop's inits and take what the region yields, or a Br to
	// the loop gives, for the next round. A counted loop has Args[0] = count
	// (U32) before the inits; after count rounds it ends, and its results are
	// the last values of the parameters. A loop that is not counted has no
	// results, and is left only by a Br to an enclosing Block.
	Loop
	// Block runs Regions[0]. A Br to it leaves it; its results are what the
	// region yields or that Br gives. Func.Body is the region of an outermost
	// Block without results: a Br to it (Target nil) ends the lane.
	Block
	// Br leaves every construct inside Target with Args as Target's results
	// (Block) or next parameters (Loop). It is the last node of its region.
	Br
)

// IsInst reports whether op is an instruction, and so has a row in isa's table.
func (op Op) IsInst() bool { return op < Const }

// Inst returns the instruction op stands for.
func (op Op) Inst() isa.Op { return isa.Op(op) }

// Value is an SSA value. ID is dense within a finished Func: 0 … NumValues-1 in
// order of definition. (While passes run it is a hash, set by hashAll.)
type Value struct {
	ID    int
	Node  *Node   // the node that defines it, or nil
	Param *Region // the region whose parameter it is, or nil

	repl *Value // scratch of passes: the value that took this one's place
	mark int32  // scratch of passes

	Index uint16 // among the results of Node or parameters of Param: as many as there are registers, at most
	Type  isa.Type
}

func (v *Value) hash() uint64     { return uint64(v.ID) }
func (v *Value) setHash(x uint64) { v.ID = int(x) }

// Node is an instruction or a construct.
type Node struct {
	Op Op
	isa.Form
	Counted bool // of Loop
	// Free marks a node that came from an expansion: a loop that costs no fuel
	// and always ends, an instruction that cannot fault.
	Free bool
	// Imm is the static operand: a Const's cell; the number of LDP's parameter,
	// LDC's table, SREG's special, MEM_FENCE's scope; NBR_GET's index,
	// PHASE_ADV's delta, UNITY_TEST's epsilon; POOL_ALLOC's ordinal in the
	// high 32 bits and size in the low.
	Imm uint64
	Mem Mem // where memory is accessed
	// Args are the value operands: first those of the address (handle, then
	// offset), then the sources in the row's order.
	Args    []*Value
	Results []*Value
	Regions []*Region
	Target  *Node // of Br: the Block or Loop; nil: the Func's body
	// Src is the index of the instruction in the program as written, Site the
	// node's index in Func.Sites (-1: none). Neither is in the canonical bytes.
	Src  int32
	mark int32 // scratch of passes
	Site int

	*links // scratch of passes, of constructs

	// Room for what most nodes have, so that a node is one allocation: the first
	// result, two arguments and the list of results. A large program is mostly
	// nodes: TestNodesAreSmall.
	result Value
	room   [3]*Value
}

const roomForArgs = 2

// hash is what hashAll has set: an instruction's that of its result, be it used
// or not.
func (n *Node) hash() uint64 {
	if n.links != nil {
		return n.links.hash
	}
	return n.result.hash()
}

func (n *Node) setHash(x uint64) {
	if n.links != nil {
		n.links.hash = x
	} else {
		n.result.setHash(x)
	}
}

// links is what passes find out about a construct.
type links struct {
	brs  []*Node  // the Brs to it; set by linkBrs
	deps []*Value // what its regions take from the region that it is in; set by order
	sum  effects  // its and its regions' effects; set by summarize
	back []uint64 // of a Loop, by parameter: what comes back to it; set by hashAll
	hash uint64   // set by hashAll
}

// Mem is the static part of an address. Mode is AddrIndex, AddrByte,
// AddrIndirect or AddrShared. Args[0] is the handle (I64) of AddrIndirect; the
// next argument is the register part of the offset (I64) if HasOff.
type Mem struct {
	Mode   isa.AddrMode
	HasOff bool
	Slot   int
	Offset int64
}

// Region is a list of nodes with parameters (of loops) and the values it
// yields when its end is reached.
type Region struct {
	Params []*Value
	Nodes  []*Node
	Yield  []*Value

	loop *Node // set by linkBrs: the construct that holds the region
}

// Ends reports whether control never reaches the region's end: whether its
// last node is a Br or a Loop that is not counted. Nothing follows such a node,
// and the region yields nothing. (At least one region of an If does not end:
// where a program goes on in one of two ways, the second follows the If.)
func (r *Region) Ends() bool { return ends(r.Nodes) }

func ends(nodes []*Node) bool {
	if len(nodes) == 0 {
		return false
	}
	n := nodes[len(nodes)-1]
	return n.Op == Br || n.Op == Loop && !n.Counted
}

// Func is a program in structured SSA form. After Canonical it is immutable
// and may be shared.
//
// Constants and the other instructions without value operands (parameters,
// special values, the block's class) stand once each at the start of Body, in
// the order in which they are used.
type Func struct {
	// Slots says how the canonical form uses each slot. A launch is checked
	// against the Verified's own list, which may hold uses that turned out dead.
	Slots      []isa.SlotUse
	SlotTypes  []isa.Type
	ParamTypes []isa.Type
	// Given says what the last of the parameters are: not the program's own, but
	// what its flat addresses and places in the index space are made of. A launch
	// has them behind the others (see backends.Launch).
	Given []Given
	// Data holds the constant tables that are used, in the order of their first
	// use, equal ones of the program once. Names are dropped.
	Data []isa.Data
	// Shared is the size of a block's shared memory, 0 if nothing accesses it.
	Shared    uint32
	Block     [3]uint32 // demanded block shape, zero: any
	PoolBytes int
	Body      *Region
	NumValues int
	// Sites lists the nodes that can fault or loop, in canonical order: a
	// backend reports a fault by the index here (Node.Site), and Srcs, made
	// beside the Func for each program, leads from there to the source.
	Sites []*Node

	// leaves holds the nodes for the start of Body while passes run; then
	// Body does not contain them. Empty in a finished Func.
	leaves leafTable
	// tables holds a hash of each table in Data while passes run.
	tables []uint64
	// nodes is how many nodes there are, about, while passes run.
	nodes int
	// work counts what building and the passes do.
	work *work.Meter
}

// leafTable holds leaves, each once.
type leafTable struct {
	byKey map[leafKey]*Value
	list  []*Value
}

type leafKey struct {
	op Op
	isa.Form
	imm uint64
}

// AddrArgs returns how many of n.Args belong to its address.
func (n *Node) AddrArgs() int {
	k := 0
	if n.Mem.Mode == isa.AddrIndirect {
		k++
	}
	if n.Mem.HasOff {
		k++
	}
	return k
}

// CanFault reports whether n may raise a fault: its row says so, and neither
// the address mode nor a constant operand rules it out.
func (n *Node) CanFault() bool {
	if !n.Op.IsInst() || n.Free || n.effect()&isa.MayFault == 0 {
		return false
	}
	switch n.Op.Inst() {
	case isa.DIV, isa.REM:
		if n.Type.Float() {
			return false
		}
		c, ok := n.Args[1].Const()
		return !ok || c == 0
	}
	return n.Mem.Mode != isa.AddrIndex
}

// IsSite reports whether n belongs in Func.Sites.
func (n *Node) IsSite() bool { return n.CanFault() || n.Op == Loop && !n.Free }

// Const returns the cell of a value that a Const node defines.
func (v *Value) Const() (cell uint64, ok bool) {
	if v.Node == nil || v.Node.Op != Const {
		return 0, false
	}
	return v.Node.Imm, true
}

func (n *Node) effect() isa.Effect {
	if !n.Op.IsInst() {
		return isa.Pure
	}
	row, _ := isa.Lookup(n.Op.Inst())
	return row.Effect
}

// isLeaf reports whether n is a function of the launch and the lane alone.
func (n *Node) isLeaf() bool {
	return n.Op == Const || n.Op.IsInst() && n.effect() == isa.Pure && len(n.Args) == 0
}

func (n *Node) addResult(t isa.Type) *Value {
	v := &n.result
	if v.Node != nil {
		v = new(Value)
	}
	*v = Value{Type: t, Node: n, Index: uint16(len(n.Results))}
	if len(n.Results) == 0 && n.room[roomForArgs] == nil {
		n.Results = n.room[roomForArgs:roomForArgs]
	}
	n.Results = append(n.Results, v)
	return v
}

func (r *Region) addParam(t isa.Type) *Value {
	v := &Value{Type: t, Param: r, Index: uint16(len(r.Params))}
	r.Params = append(r.Params, v)
	return v
}

// leaf returns the value of a leaf, the same one each time.
func (f *Func) leaf(op Op, form isa.Form, imm uint64, t isa.Type) *Value {
	if f.leaves.byKey == nil {
		f.leaves.byKey = map[leafKey]*Value{}
	}
	k := leafKey{op, form, imm}
	v := f.leaves.byKey[k]
	if v == nil {
		v = (&Node{Op: op, Form: form, Imm: imm, Src: -1, Site: -1}).addResult(t)
		f.leaves.byKey[k] = v
		f.leaves.list = append(f.leaves.list, v)
	}
	return v
}

// Const returns the constant of type t with the given cell. For passes: a
// finished Func does not change.
func (f *Func) Const(t isa.Type, cell uint64) *Value {
	return f.leaf(Const, isa.Form{Type: t}, cell, t)
}

// Result returns the node's single result, or nil.
func (n *Node) Result() *Value {
	if len(n.Results) == 0 {
		return nil
	}
	return n.Results[0]
}
