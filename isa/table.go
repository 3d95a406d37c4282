package isa

// Op is the code of an instruction. Codes are part of the binary form: new
// ones go to the end, none is ever used again.
type Op uint16

// The instructions.
const (
	NoOp Op = iota
	// moves
	LDG
	STG
	LDS
	STS
	MOV
	MOV_IMM
	CVT
	BITCAST
	LDP
	LDC
	SREG
	// arithmetic
	ADD
	SUB
	MUL
	MULHI
	DIV
	REM
	MIN
	MAX
	MAD
	FMA
	ABS
	NEG
	SQRT
	FLOOR
	CEIL
	ROUND
	TRUNC
	// logic
	AND
	OR
	XOR
	NOT
	SHL
	SHR
	POPC
	CLZ
	CTZ
	SET
	SEL
	// control
	BRA
	CALL
	RET
	LOOP
	EXIT
	BAR_SYNC
	MEM_FENCE
	// Atlas
	CLS_GET
	MIRROR
	UNITY_TEST
	NBR_COUNT
	NBR_GET
	RES_ACCUM
	PHASE_GET
	PHASE_ADV
	BOUND_MAP
	// reductions over registers, and over the lanes of a block
	REDUCE_ADD
	REDUCE_MIN
	REDUCE_MAX
	REDUCE_MUL
	BLOCK_REDUCE_ADD
	BLOCK_REDUCE_MIN
	BLOCK_REDUCE_MAX
	BLOCK_REDUCE_MUL
	BLOCK_SCAN_ADD
	BLOCK_SCAN_MIN
	BLOCK_SCAN_MAX
	BLOCK_SCAN_MUL
	// atomics
	ATOM_ADD
	ATOM_MIN
	ATOM_MAX
	ATOM_AND
	ATOM_OR
	ATOM_XOR
	ATOM_EXCH
	ATOM_CAS
	// transcendentals
	EXP
	EXP2
	EXPM1
	LOG
	LOG2
	LOG10
	LOG1P
	RSQRT
	SIN
	COS
	TAN
	TANH
	SIGMOID
	ERF
	POW
	// pools
	POOL_ALLOC
	POOL_FREE
	POOL_LOAD
	POOL_STORE

	NumOps
)

// OperandKind says what may stand in an operand's place, and its role.
type OperandKind uint8

// The kinds of operands a row can ask for.
const (
	Dst        OperandKind = iota + 1 // register written
	Src                               // register or immediate read
	SrcReg                            // register read
	PredDst                           // predicate written
	PredSrc                           // predicate read, may be negated
	Imm                               // immediate
	Mem                               // address in a slot: index, byte, indirect or phi
	SharedMem                         // address in shared memory
	AnyMem                            // either
	LabelRef                          // label
	ParamRef                          // parameter
	DataRef                           // constant table
	SpecialRef                        // special value
	ScopeRef                          // fence scope
)

// Operand is one operand of a row. Type is that of the value it holds: a fixed
// type, or one of TypeT, TypeFrom, TypeAnyInt, TypeNamed.
type Operand struct {
	Name     string
	Kind     OperandKind
	Type     Type
	Optional bool
}

// Operand types that depend on the instruction at hand.
const (
	TypeT      Type = 0x80 + iota // the instruction's Type; a predicate operand where that is Pred
	TypeFrom                      // the instruction's From
	TypeAnyInt                    // any integer type of 32 or 64 bits
	TypeNamedT                    // the type of the parameter, table or special value named
)

// Effect is what an instruction does beside giving a result. Zero means that
// the row is not filled in.
type Effect uint16

// The effects.
const (
	Pure       Effect = 1 << iota // a function of its operands
	Reads                         // reads memory
	Writes                        // writes memory
	MayFault                      // can raise a fault
	Control                       // ends or splits straight-line code
	Barrier                       // waits for the block, stands under uniform control
	State                         // reads or changes Atlas or pool state of lane, launch or stream
	Structural                    // gone in the IR: moves, calls, register reductions
)

// Row is an instruction's row in the table.
type Row struct {
	Name     string  // upper case; the mnemonic is its lower case
	Types    TypeSet // types T may have; empty: the mnemonic has no type
	From     TypeSet // types From may have, CVT and BITCAST only
	HasCond  bool    // the mnemonic carries a condition
	Operands []Operand
	Effect   Effect
	Commutes bool  // the first two sources may be exchanged
	ULP      uint8 // error bound in units in the last place; 0: exact or correctly rounded
	// Eval computes the result of a pure primitive from the cells of its
	// sources. Rows without one are the interpreter's own business
	// (memory, control) or have an expansion in isa/math.
	Eval EvalFunc
	// Expand holds the types for which isa/math defines the row by an expansion.
	Expand TypeSet
	Doc    string
}

// EvalFunc evaluates a primitive on cells: bit patterns in the low bits, all
// higher bits zero, predicates 0 or 1. It must be total.
type EvalFunc func(f Form, a, b, c uint64) (uint64, FaultKind)

// Lookup returns the row of op, and whether op exists.
func Lookup(op Op) (*Row, bool) {
	if op == NoOp || op >= NumOps {
		return nil, false
	}
	return &table[op], true
}

// String returns the name of op.
func (op Op) String() string {
	if r, ok := Lookup(op); ok {
		return r.Name
	}
	return "INVALID"
}

// shorthands for the operand lists below
var (
	dst   = Operand{"dst", Dst, TypeT, false}
	src   = Operand{"src", Src, TypeT, false}
	srcA  = Operand{"a", Src, TypeT, false}
	srcB  = Operand{"b", Src, TypeT, false}
	srcC  = Operand{"c", Src, TypeT, false}
	pdst  = Operand{"pdst", PredDst, Pred, false}
	addr  = Operand{"addr", Mem, TypeT, false}
	saddr = Operand{"addr", SharedMem, TypeT, false}
	aaddr = Operand{"addr", AnyMem, TypeT, false}
)

func unary(name string, t TypeSet, eval EvalFunc, doc string) Row {
	return Row{Name: name, Types: t, Operands: []Operand{dst, src}, Effect: Pure, Eval: eval, Doc: doc}
}

func binary(name string, t TypeSet, eval EvalFunc, commutes bool, doc string) Row {
	return Row{Name: name, Types: t, Operands: []Operand{dst, srcA, srcB}, Effect: Pure, Commutes: commutes, Eval: eval, Doc: doc}
}

func expands(name string, ulp uint8, doc string) Row {
	return Row{Name: name, Types: SetFloat, Operands: []Operand{dst, src}, Effect: Pure, Expand: SetFloat, ULP: ulp, Doc: doc}
}

func regReduce(name, doc string) Row {
	return Row{Name: name, Types: SetNumeric, Effect: Structural, Doc: doc, Operands: []Operand{
		dst, {"src_base", SrcReg, TypeT, false}, {"count", Imm, U32, false}}}
}

func collective(name, doc string) Row {
	return Row{Name: name, Types: SetNumeric, Operands: []Operand{dst, src}, Effect: Barrier, Doc: doc}
}

func atomic(name string, t TypeSet, doc string) Row {
	return Row{Name: name, Types: t, Effect: Reads | Writes | MayFault, Doc: doc, Operands: []Operand{
		{"dst", Dst, TypeT, false}, aaddr, src}}
}

// table is the instruction set. It is the only place that lists instructions.
var table = [NumOps]Row{
	LDG: {Name: "LDG", Types: SetNumeric, Operands: []Operand{dst, addr}, Effect: Reads | MayFault,
		Doc: "Load from a slot. A stray load gives 0 and is reported."},
	STG: {Name: "STG", Types: SetNumeric, Operands: []Operand{src, addr}, Effect: Writes | MayFault,
		Doc: "Store to a slot. A stray store is dropped and is reported."},
	LDS: {Name: "LDS", Types: SetNumeric, Operands: []Operand{dst, saddr}, Effect: Reads | MayFault,
		Doc: "Load from the block's shared memory, which is zero when the block starts. Any byte address that fits will do."},
	STS: {Name: "STS", Types: SetNumeric, Operands: []Operand{src, saddr}, Effect: Writes | MayFault,
		Doc: "Store to the block's shared memory."},
	MOV: {Name: "MOV", Types: SetNumeric | SetPred, Operands: []Operand{dst, src}, Effect: Structural, Eval: evalMov,
		Doc: "Copy a register or an immediate of the same type."},
	MOV_IMM: {Name: "MOV_IMM", Types: SetNumeric, Operands: []Operand{dst, {"bits", Imm, U64, false}}, Effect: Structural,
		Doc: "Set a register to a bit pattern: the low bits of a 64-bit integer."},
	CVT: {Name: "CVT", Types: SetNumeric, From: SetNumeric, Operands: []Operand{dst, {"src", Src, TypeFrom, false}}, Effect: Pure, Eval: evalCvt,
		Doc: "Convert a number. Integer to integer truncates or extends; float to integer truncates toward zero, saturates, and gives 0 for NaN; everything else rounds once, to nearest even."},
	BITCAST: {Name: "BITCAST", Types: SetNumeric, From: SetNumeric, Operands: []Operand{dst, {"src", Src, TypeFrom, false}}, Effect: Pure, Eval: evalMov,
		Doc: "Reinterpret the bits of a value of the same width. The bits of a NaN are not promised."},
	LDP: {Name: "LDP", Types: SetNumeric, Operands: []Operand{dst, {"param", ParamRef, TypeT, false}}, Effect: Pure,
		Doc: "Load a launch parameter."},
	LDC: {Name: "LDC", Types: SetNumeric, Operands: []Operand{dst, {"table", DataRef, TypeT, false}, {"index", Src, TypeAnyInt, false}}, Effect: Pure | MayFault,
		Doc: "Load element index of a constant table, written table[index]. An index outside gives 0 and is reported."},
	SREG: {Name: "SREG", Operands: []Operand{{"dst", Dst, TypeNamedT, false}, {"special", SpecialRef, NoType, false}}, Effect: Pure,
		Doc: "Read a special value: lane, block, block_dim, grid_dim in .x .y .z (u32), global_lane, n, row, column, rows, columns, and index, size in .0 … .7 (u64)."},

	ADD:   binary("ADD", SetNumeric, evalAdd, true, "a + b. Integers wrap."),
	SUB:   binary("SUB", SetNumeric, evalSub, false, "a − b. Integers wrap."),
	MUL:   binary("MUL", SetNumeric, evalMul, true, "a · b. Integers wrap."),
	MULHI: binary("MULHI", SetWide, evalMulHi, true, "The high half of the double-width product."),
	DIV: {Name: "DIV", Types: SetNumeric, Operands: []Operand{dst, srcA, srcB}, Effect: Pure | MayFault, Eval: evalDiv,
		Doc: "a / b. Integers truncate toward zero; division by zero gives 0 and is reported; MIN / −1 wraps to MIN. Floats never fault."},
	REM: {Name: "REM", Types: SetNumeric, Operands: []Operand{dst, srcA, srcB}, Effect: Pure | MayFault, Eval: evalRem, Expand: SetFloat,
		Doc: "The remainder of truncating division, with the sign of a; exact. Integer division by zero gives 0 and is reported; MIN rem −1 is 0. Floats, as C's fmod, never fault."},
	MIN: binary("MIN", SetNumeric, evalMin, true, "The smaller. NaN if either is NaN; −0 < +0."),
	MAX: binary("MAX", SetNumeric, evalMax, true, "The larger. NaN if either is NaN; −0 < +0."),
	MAD: {Name: "MAD", Types: SetNumeric, Operands: []Operand{dst, srcA, srcB, srcC}, Effect: Structural, Commutes: true, Eval: evalMad,
		Doc: "a · b + c with two roundings: exactly MUL, then ADD."},
	FMA: {Name: "FMA", Types: SetFloat, Operands: []Operand{dst, srcA, srcB, srcC}, Effect: Pure, Commutes: true, Eval: evalFma,
		Doc: "a · b + c with one rounding. In f16 and bf16: the f32 FMA, rounded once more."},
	ABS:   unary("ABS", SetSigned|SetFloat, evalAbs, "The absolute value; wraps for the smallest integer."),
	NEG:   unary("NEG", SetSigned|SetFloat, evalNeg, "The negative; wraps for the smallest integer; flips the sign of a zero."),
	SQRT:  unary("SQRT", SetFloat, evalSqrt, "The square root, correctly rounded; NaN below −0."),
	FLOOR: unary("FLOOR", SetFloat, evalFloor, "The largest integral value not above."),
	CEIL:  unary("CEIL", SetFloat, evalCeil, "The smallest integral value not below."),
	ROUND: unary("ROUND", SetFloat, evalRound, "The nearest integral value, ties to even."),
	TRUNC: unary("TRUNC", SetFloat, evalTrunc, "The integral value next toward zero."),

	AND:  binary("AND", SetInt|SetPred, evalAnd, true, "Bitwise and."),
	OR:   binary("OR", SetInt|SetPred, evalOr, true, "Bitwise or."),
	XOR:  binary("XOR", SetInt|SetPred, evalXor, true, "Bitwise exclusive or."),
	NOT:  unary("NOT", SetInt|SetPred, evalNot, "Bitwise not."),
	SHL:  binary("SHL", SetInt, evalShl, false, "Shift left by the low bits of b: b mod width."),
	SHR:  binary("SHR", SetInt, evalShr, false, "Shift right by b mod width; arithmetic iff the type is signed."),
	POPC: unary("POPC", SetInt, evalPopc, "The number of one bits."),
	CLZ:  unary("CLZ", SetInt, evalClz, "The number of leading zero bits; the width for 0."),
	CTZ:  unary("CTZ", SetInt, evalCtz, "The number of trailing zero bits; the width for 0."),
	SET: {Name: "SET", Types: SetNumeric, HasCond: true, Operands: []Operand{pdst, srcA, srcB}, Effect: Pure, Eval: evalSet,
		Doc: "Compare: eq ne lt le gt ge, and ltu leu gtu geu for unsigned types alone. With a NaN only ne holds."},
	SEL: {Name: "SEL", Types: SetNumeric, Operands: []Operand{dst, {"pred", PredSrc, Pred, false}, srcA, srcB}, Effect: Pure, Eval: evalSel,
		Doc: "a if the predicate holds, else b."},

	BRA: {Name: "BRA", Operands: []Operand{{"label", LabelRef, NoType, false}, {"pred", PredSrc, Pred, true}}, Effect: Control,
		Doc: "Branch, if the predicate holds or none is given. One that starts a new round of a loop costs a unit of fuel."},
	CALL: {Name: "CALL", Operands: []Operand{{"label", LabelRef, NoType, false}}, Effect: Control | Structural,
		Doc: "Run the instructions at label up to RET. Registers are shared. No recursion."},
	RET: {Name: "RET", Effect: Control | Structural, Doc: "Return to after the CALL."},
	LOOP: {Name: "LOOP", Operands: []Operand{{"count", Src, U32, false}, {"end", LabelRef, NoType, false}}, Effect: Control,
		Doc: "Run the instructions up to end count times; 0 skips them. count is read once. A branch to end goes to the next round, one to elsewhere outside leaves the loop. A round costs one unit of fuel."},
	EXIT: {Name: "EXIT", Effect: Control, Doc: "End the lane, which then counts as arrived at every barrier."},
	BAR_SYNC: {Name: "BAR_SYNC", Operands: []Operand{{"id", Imm, U8, false}}, Effect: Barrier,
		Doc: "Wait for all lanes of the block; orders their memory accesses."},
	MEM_FENCE: {Name: "MEM_FENCE", Operands: []Operand{{"scope", ScopeRef, NoType, false}}, Effect: State,
		Doc: "Order this lane's memory accesses as seen within the scope: thread, block, device or system."},

	CLS_GET: {Name: "CLS_GET", Operands: []Operand{{"dst", Dst, U8, false}}, Effect: Pure,
		Doc: "The class of the lane's block: block.x mod 96."},
	MIRROR: {Name: "MIRROR", Operands: []Operand{{"dst", Dst, U8, false}, {"class", Src, U8, false}}, Effect: Pure | MayFault, Eval: evalMirror,
		Doc: "The mirror class: class + 3 if ⌊class/3⌋ is even, else class − 3."},
	UNITY_TEST: {Name: "UNITY_TEST", Operands: []Operand{pdst, {"epsilon", Imm, F64, false}}, Effect: Pure,
		Doc: "Whether the class of the lane's block is within epsilon of a class of the unity set {1, 4}; epsilon 0 tests membership."},
	NBR_COUNT: {Name: "NBR_COUNT", Operands: []Operand{{"dst", Dst, U8, false}, {"class", Src, U8, false}}, Effect: Pure | MayFault, Eval: evalNbrCount,
		Doc: "The number of neighbours of a class: 5 or 6."},
	NBR_GET: {Name: "NBR_GET", Operands: []Operand{{"dst", Dst, U8, false}, {"class", Src, U8, false}, {"index", Imm, U8, false}}, Effect: Pure | MayFault, Eval: evalNbrGet,
		Doc: "Neighbour number index of a class, ascending; 0 if index is past the last."},
	RES_ACCUM: {Name: "RES_ACCUM", Operands: []Operand{{"class", Src, U8, false}, {"value", Src, U64, false}}, Effect: State | MayFault,
		Doc: "Add to the launch's residue R[class], wrapping; the host reads it after the launch."},
	PHASE_GET: {Name: "PHASE_GET", Operands: []Operand{{"dst", Dst, U16, false}}, Effect: State,
		Doc: "The lane's phase, 0 … 767; it starts from the stream's."},
	PHASE_ADV: {Name: "PHASE_ADV", Operands: []Operand{{"delta", Imm, U16, false}}, Effect: State,
		Doc: "Advance the lane's phase, mod 768. Lane 0's final phase becomes the stream's."},
	BOUND_MAP: {Name: "BOUND_MAP", Operands: []Operand{{"dst", Dst, U64, false}, {"class", Src, U8, false}, {"page", Src, U8, false}, {"byte", Src, U8, false}}, Effect: Pure | MayFault, Eval: evalBoundMap,
		Doc: "The boundary pool's offset class·12288 + page·256 + byte; class ≥ 96 or page ≥ 48 gives 0 and is reported."},

	REDUCE_ADD: regReduce("REDUCE_ADD", "The sum of count registers from src_base on, in order: ((r0 + r1) + r2) + …; count ≥ 1."),
	REDUCE_MIN: regReduce("REDUCE_MIN", "The smallest of count registers, in order."),
	REDUCE_MAX: regReduce("REDUCE_MAX", "The largest of count registers, in order."),
	REDUCE_MUL: regReduce("REDUCE_MUL", "The product of count registers, in order."),

	BLOCK_REDUCE_ADD: collective("BLOCK_REDUCE_ADD", "The sum over the block's lanes: padded to a power of two with −0.0 or 0 and halved, s[q] += s[q+w]. f16 and bf16 add in f32 and round once at the end."),
	BLOCK_REDUCE_MIN: collective("BLOCK_REDUCE_MIN", "The smallest over the block's lanes, in the same order."),
	BLOCK_REDUCE_MAX: collective("BLOCK_REDUCE_MAX", "The largest over the block's lanes, in the same order."),
	BLOCK_REDUCE_MUL: collective("BLOCK_REDUCE_MUL", "The product over the block's lanes, in the same order and precision as the sum."),
	BLOCK_SCAN_ADD:   collective("BLOCK_SCAN_ADD", "Inclusive prefix sums over the block's lanes, x fastest, by Hillis–Steele: for w = 1, 2, 4 …, s[q] = s[q−w] + s[q] for q ≥ w. f16 and bf16 add in f32 and round once at the end."),
	BLOCK_SCAN_MIN:   collective("BLOCK_SCAN_MIN", "Inclusive prefix minima, in the same order."),
	BLOCK_SCAN_MAX:   collective("BLOCK_SCAN_MAX", "Inclusive prefix maxima, in the same order."),
	BLOCK_SCAN_MUL:   collective("BLOCK_SCAN_MUL", "Inclusive prefix products, in the same order and precision as the sums."),

	ATOM_ADD:  atomic("ATOM_ADD", SetWide|1<<F32|1<<F64, "Add to memory atomically; the result is the old value. The order of float additions is not promised."),
	ATOM_MIN:  atomic("ATOM_MIN", SetWide, "Atomic minimum; the result is the old value."),
	ATOM_MAX:  atomic("ATOM_MAX", SetWide, "Atomic maximum; the result is the old value."),
	ATOM_AND:  atomic("ATOM_AND", SetWide, "Atomic and; the result is the old value."),
	ATOM_OR:   atomic("ATOM_OR", SetWide, "Atomic or; the result is the old value."),
	ATOM_XOR:  atomic("ATOM_XOR", SetWide, "Atomic exclusive or; the result is the old value."),
	ATOM_EXCH: atomic("ATOM_EXCH", SetWide, "Atomic exchange; the result is the old value."),
	ATOM_CAS: {Name: "ATOM_CAS", Types: SetWide, Effect: Reads | Writes | MayFault,
		Operands: []Operand{dst, aaddr, {"expected", Src, TypeT, false}, {"desired", Src, TypeT, false}},
		Doc:      "Store desired if memory holds expected, atomically; the result is the old value."},

	EXP:     expands("EXP", 1, "e to the power of x."),
	EXP2:    expands("EXP2", 1, "2 to the power of x."),
	EXPM1:   expands("EXPM1", 2, "e^x − 1."),
	LOG:     expands("LOG", 1, "The natural logarithm."),
	LOG2:    expands("LOG2", 1, "The logarithm to base 2."),
	LOG10:   expands("LOG10", 1, "The logarithm to base 10."),
	LOG1P:   expands("LOG1P", 2, "The natural logarithm of 1 + x."),
	RSQRT:   expands("RSQRT", 2, "1 / √x."),
	SIN:     expands("SIN", 1, "The sine of x in radians."),
	COS:     expands("COS", 1, "The cosine of x in radians."),
	TAN:     expands("TAN", 2, "The tangent of x in radians."),
	TANH:    expands("TANH", 2, "The hyperbolic tangent."),
	SIGMOID: expands("SIGMOID", 2, "1 / (1 + e^−x)."),
	ERF:     expands("ERF", 2, "The error function."),
	POW: {Name: "POW", Types: SetFloat, Operands: []Operand{dst, srcA, srcB}, Effect: Pure, Expand: SetFloat, ULP: 2,
		Doc: "a to the power of b, with C's special values."},

	POOL_ALLOC: {Name: "POOL_ALLOC", Operands: []Operand{{"dst", Dst, U64, false}, {"size", Imm, U64, false}}, Effect: State,
		Doc: "A zeroed scratch area of size bytes, private to the lane, freed when the lane ends. The result is its handle, whose value is not promised. Run again, the instruction gives the same area, zeroed."},
	POOL_FREE: {Name: "POOL_FREE", Operands: []Operand{{"handle", Src, U64, false}}, Effect: State | MayFault,
		Doc: "Give a scratch area back; later use of the handle is a fault."},
	POOL_LOAD: {Name: "POOL_LOAD", Types: SetNumeric, Operands: []Operand{dst, {"handle", Src, U64, false}, {"offset", Src, U64, false}}, Effect: State | MayFault,
		Doc: "Load from a scratch area at a byte offset."},
	POOL_STORE: {Name: "POOL_STORE", Types: SetNumeric, Operands: []Operand{src, {"handle", Src, U64, false}, {"offset", Src, U64, false}}, Effect: State | MayFault,
		Doc: "Store to a scratch area at a byte offset."},
}
