package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// rule writes the instructions of a node for the group at hand.
type rule func(g *gen, n *ir.Node)

// rules has what can be compiled. What is missing runs on strips.
var rules map[isa.Op]rule

// pair is an instruction for elements of 4 bytes and of 8.
type pair struct{ d, q *x86.Form }

func (p pair) of(size int) *x86.Form {
	if size == 8 {
		return p.q
	}
	return p.d
}

// The instructions that differ by the size of the element alone.
var (
	addF  = pair{x86.AddPS, x86.AddPD}
	subF  = pair{x86.SubPS, x86.SubPD}
	mulF  = pair{x86.MulPS, x86.MulPD}
	divF  = pair{x86.DivPS, x86.DivPD}
	minF  = pair{x86.MinPS, x86.MinPD}
	maxF  = pair{x86.MaxPS, x86.MaxPD}
	sqrtF = pair{x86.SqrtPS, x86.SqrtPD}
	sllI  = pair{x86.SllD, x86.SllQ}
	srlI  = pair{x86.SrlD, x86.SrlQ}
	sraI  = pair{x86.SraD, x86.SraQ}
	sllV  = pair{x86.SllvD, x86.SllvQ}
	srlV  = pair{x86.SrlvD, x86.SrlvQ}
	sraV  = pair{x86.SravD, x86.SravQ}

	loadV    = pair{x86.MovUPS, x86.LoadUPD}
	storeV   = pair{x86.StoreUPS, x86.StoreUPD}
	copyV    = pair{x86.MovAPS, x86.MovAPD}
	permuteV = pair{x86.PermD, x86.PermVarQ}

	fmaPS = fmaForms{f132: x86.FMA132PS, f213: x86.FMA213PS, f231: x86.FMA231PS}
	fmaPD = fmaForms{f132: x86.FMA132PD, f213: x86.FMA213PD, f231: x86.FMA231PD}

	negatedPS = fmaForms{f132: x86.FNMA132PS, f213: x86.FNMA213PS, f231: x86.FNMA231PS}
	negatedPD = fmaForms{f132: x86.FNMA132PD, f213: x86.FNMA213PD, f231: x86.FNMA231PD}

	// a & b | c, and a & b ^ c. An immediate has the result for each three bits, of the
	// destination as it was, the second and the third operand.
	andOrD  = fmaForms{x86.TernD, x86.TernD, x86.TernD, 0xEC, 0xEA, 0xF8}
	andOrQ  = fmaForms{x86.TernQ, x86.TernQ, x86.TernQ, 0xEC, 0xEA, 0xF8}
	andXorD = fmaForms{x86.TernD, x86.TernD, x86.TernD, 0x6C, 0x6A, 0x78}
	andXorQ = fmaForms{x86.TernQ, x86.TernQ, x86.TernQ, 0x6C, 0x6A, 0x78}
)

// declined says of each instruction without a rule why it has none.
var declined = map[isa.Op]string{
	isa.CLS_GET: classGraph, isa.MIRROR: classGraph, isa.UNITY_TEST: classGraph, isa.NBR_COUNT: classGraph, isa.NBR_GET: classGraph, isa.BOUND_MAP: classGraph,
	isa.RES_ACCUM: ofTheLaunch, isa.PHASE_GET: ofTheLaunch, isa.PHASE_ADV: ofTheLaunch,
	isa.POOL_ALLOC: ofTheLane, isa.POOL_FREE: ofTheLane, isa.POOL_LOAD: ofTheLane, isa.POOL_STORE: ofTheLane,
}

const (
	classGraph  = "it works on the class graph"
	ofTheLaunch = "it uses state of the launch or stream"
	ofTheLane   = "it uses a lane's scratch"
	chosenSlot  = "its slot is chosen at run time"
)

func init() {
	rules = map[isa.Op]rule{
		isa.ADD: arithmetic(addF, addI), isa.SUB: arithmetic(subF, subI), isa.MUL: multiply, isa.MULHI: multiplyHigh,
		isa.DIV: divide, isa.REM: divide, isa.MIN: extremum, isa.MAX: extremum, isa.FMA: fusedMultiplyAdd,
		isa.ABS: absolute, isa.NEG: negate, isa.SQRT: squareRoot,
		isa.FLOOR: rounding(1), isa.CEIL: rounding(2), isa.ROUND: rounding(0), isa.TRUNC: rounding(3),
		isa.AND: bitwise, isa.OR: bitwise, isa.XOR: bitwise, isa.NOT: complement,
		isa.SHL: shift, isa.SHR: shift, isa.POPC: count, isa.CLZ: count, isa.CTZ: count,
		isa.SET: compare, isa.SEL: choose, isa.CVT: convert, isa.BITCAST: bitcast,
		isa.LDP: parameter, isa.LDC: lookUp, isa.SREG: specialValue,
		isa.LDG: load, isa.STG: store, isa.MEM_FENCE: fence,
		isa.LDS: load, isa.STS: store, // as LDG and STG, see shareMemory
		// Segments end here; blocks.go has what is done.
		isa.BAR_SYNC:         segmentEnd,
		isa.BLOCK_REDUCE_ADD: segmentEnd, isa.BLOCK_REDUCE_MIN: segmentEnd, isa.BLOCK_REDUCE_MAX: segmentEnd, isa.BLOCK_REDUCE_MUL: segmentEnd,
		isa.BLOCK_SCAN_ADD: segmentEnd, isa.BLOCK_SCAN_MIN: segmentEnd, isa.BLOCK_SCAN_MAX: segmentEnd, isa.BLOCK_SCAN_MUL: segmentEnd,
	}
	for op := range atomics {
		rules[op] = atomically
	}
}

// op2 is a new register ← f(a, b).
func (g *gen) op2(f *x86.Form, size int, a, b vreg) vreg { return g.op2Imm(f, size, a, b, 0) }

func (g *gen) op2Imm(f *x86.Form, size int, a, b vreg, imm uint8) vreg {
	d := g.newFor(f)
	g.add(inst{f: f, vl: g.vl(size), d: d, a: a, b: b, imm: imm})
	return d
}

// op1 is a new register ← f(b).
func (g *gen) op1(f *x86.Form, size int, b vreg) vreg { return g.op1Imm(f, size, b, 0) }

func (g *gen) op1Imm(f *x86.Form, size int, b vreg, imm uint8) vreg {
	d := g.newFor(f)
	g.add(inst{f: f, vl: g.vl(size), d: d, b: b, imm: imm})
	return d
}

func (g *gen) newFor(f *x86.Form) vreg {
	if f.Ops[0] == 'k' {
		return g.newReg(classMask)
	}
	return g.newReg(classVec)
}

// The logic of vectors: EVEX has its own names for it, by the element's size.
func (g *gen) and(size int, a, b vreg) vreg {
	return g.op2(g.logic(x86.And, x86.AndD, x86.AndQ, size), size, a, b)
}
func (g *gen) or(size int, a, b vreg) vreg {
	return g.op2(g.logic(x86.Or, x86.OrD, x86.OrQ, size), size, a, b)
}
func (g *gen) xor(size int, a, b vreg) vreg {
	return g.op2(g.logic(x86.Xor, x86.XorD, x86.XorQ, size), size, a, b)
}
func (g *gen) andNot(size int, a, b vreg) vreg { // ^a & b
	return g.op2(g.logic(x86.AndNot, x86.AndNotD, x86.AndNotQ, size), size, a, b)
}

func (g *gen) logic(vex, d, q *x86.Form, size int) *x86.Form {
	switch {
	case !g.t.evex:
		return vex
	case size == 8:
		return q
	}
	return d
}

func (g *gen) signBit(size int) vreg { return g.number(size, 1<<(8*size-1)) }

// args are the registers of a node's operands.
func (g *gen) args(n *ir.Node) (r [3]vreg) {
	for i, a := range n.Args[:min(len(n.Args), 3)] {
		r[i] = g.val(a)
	}
	return r
}

// result gives the node's result a register; a 16-bit float is rounded, a
// narrow integer wrapped.
func (g *gen) result(n *ir.Node, r vreg) { g.set(n.Result(), g.fit(n.Result().Type, r)) }

// fit brings what was computed in a register's width into a type.
func (g *gen) fit(t isa.Type, r vreg) vreg {
	switch {
	case t == isa.F16 || t == isa.BF16:
		return g.roundHalf(t, r)
	case t.Integer():
		return g.wrap(t, r)
	}
	return r
}

// wrap extends the low bits of a narrow integer.
func (g *gen) wrap(t isa.Type, r vreg) vreg {
	switch k := uint8(32 - t.Bits()); {
	case t.Bits() >= 32 || g.packed:
		return r
	case t.Signed():
		return g.op1Imm(x86.SraD, 4, g.op1Imm(x86.SllD, 4, r, k), k)
	}
	return g.and(4, r, g.number(4, t.Mask()))
}

func arithmetic(floats pair, ints forms) rule {
	return func(g *gen, n *ir.Node) {
		a, size := g.args(n), g.regSize(n.Type)
		f := floats.of(size)
		if n.Type.Integer() {
			f = ints.of(size)
		}
		g.result(n, g.op2(f, size, a[0], a[1]))
	}
}

func multiply(g *gen, n *ir.Node) {
	a := g.args(n)
	g.result(n, g.product(n.Type, a[0], a[1]))
}

// product is a · b, of narrow types before it is brought into them.
func (g *gen) product(t isa.Type, a, b vreg) vreg {
	size := g.regSize(t)
	switch {
	case t.Float():
		return g.op2(mulF.of(size), size, a, b)
	case size < 4:
		return g.narrowProduct(size, a, b)
	case size == 4:
		return g.op2(x86.MulLD, 4, a, b)
	case g.t.evex:
		return g.op2(x86.MulLQ, 8, a, b)
	}
	// from halves of 32 bits
	low := g.op2(x86.MulUDQ, 8, a, b)
	x := g.op2(x86.MulUDQ, 8, g.op1Imm(x86.SrlQ, 8, a, 32), b)
	y := g.op2(x86.MulUDQ, 8, g.op1Imm(x86.SrlQ, 8, b, 32), a)
	high := g.op1Imm(x86.SllQ, 8, g.op2(x86.AddQ, 8, x, y), 32)
	return g.op2(x86.AddQ, 8, low, high)
}

func multiplyHigh(g *gen, n *ir.Node) {
	a := g.args(n)
	if n.Type.Size() == 8 {
		op := x86.MUL
		if n.Type.Signed() {
			op = x86.IMUL
		}
		g.result(n, g.lanewise(8, a[0], 8, a[1], 8, func(e *encoder) {
			e.Un(op, x86.W64, regT)
			e.Mov(x86.W64, x86.RAX, x86.RDX)
		}))
		return
	}
	f := x86.MulUDQ
	if n.Type.Signed() {
		f = x86.MulDQ
	}
	g.result(n, g.highHalves(f, a[0], a[1], g.op1Imm(x86.SrlQ, 4, a[1], 32)))
}

// highHalves multiplies 32-bit elements, of b the even ones and the odd ones in their
// places, and gives the high halves.
func (g *gen) highHalves(f *x86.Form, a, even, odd vreg) vreg {
	low := g.op1Imm(x86.SrlQ, 4, g.op2(f, 4, a, even), 32)
	high := g.op2(f, 4, g.op1Imm(x86.SrlQ, 4, a, 32), odd)
	return g.or(4, low, g.op2(g.logic(x86.And, x86.AndQ, x86.AndQ, 8), 4, high, g.number(8, 0xffffffff<<32)))
}

// findShortcuts finds values that are not computed as they stand: NEGs whose
// every use is as one factor of an FMA, before lanes meet again, and ANDs whose every use is as one side of an
// OR or XOR, which there are instructions for, and f16 loads that are but stored, whose bits
// no conversion has to go over (it would make quiet NaNs of others).
func (p *program) findShortcuts() {
	uses, as := map[*ir.Node]int{}, map[*ir.Node]int{}
	candidate := func(v *ir.Value, op isa.Op) *ir.Node {
		if n := v.Node; n != nil && n.Op == ir.Op(op) && n.Type.Float() {
			return n
		}
		return nil
	}
	use := func(v *ir.Value, shortcut bool) {
		if n := v.Node; n != nil {
			uses[n]++
			if shortcut {
				as[n]++
			}
		}
	}
	made, meetings := map[*ir.Node]int{}, 0 // how often lanes had met before a NEG
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		near := map[*ir.Node]bool{} // ANDs of this region since lanes met
		for _, n := range r.Nodes {
			if n.Op.IsInst() && meets[n.Op.Inst()] {
				clear(near)
				meetings++
			}
			made[n] = meetings
			side := -1
			if (n.Op == ir.Op(isa.OR) || n.Op == ir.Op(isa.XOR)) && n.Args[0] != n.Args[1] {
				side = slices.IndexFunc(n.Args, func(a *ir.Value) bool { return near[a.Node] })
			}
			near[n] = n.Op == ir.Op(isa.AND) && n.Type != isa.Pred
			for i, a := range n.Args {
				switch {
				case a.Node != nil && a.Node.Op == ir.Op(isa.AND):
					use(a, i == side)
				case candidate(a, isa.NEG) != nil:
					use(a, n.Op == ir.Op(isa.FMA) && i < 2 && made[a.Node] == meetings && candidate(n.Args[1-i], isa.NEG) == nil)
				case candidate(a, isa.LDG) != nil && a.Type == isa.F16:
					use(a, n.Op == ir.Op(isa.STG))
				}
			}
			for _, s := range n.Regions {
				walk(s)
			}
		}
		for _, y := range r.Yield {
			use(y, false)
		}
	}
	walk(p.fn.Body)
	for n, k := range uses {
		p.shortcut[n] = as[n] == k
	}
}

// moved is the type as which n moves values between memory and registers: for
// f16 that is but copied, its bits.
func (g *gen) moved(n *ir.Node) isa.Type {
	source := n
	if n.Op == ir.Op(isa.STG) {
		source = n.Args[n.AddrArgs()].Node
	}
	if n.Type == isa.F16 && source != nil && g.p.shortcut[source] {
		return isa.U16
	}
	return n.Type
}

func fusedMultiplyAdd(g *gen, n *ir.Node) {
	forms := [...]*fmaForms{&fmaPS, &fmaPD, &negatedPS, &negatedPD}
	which := g.regSize(n.Type)/4 - 1
	var r [3]vreg
	for i, a := range n.Args {
		if a.Node != nil && g.p.shortcut[a.Node] {
			a = a.Node.Args[0]
			which += 2
		}
		r[i] = g.val(a)
	}
	d := g.newReg(classVec)
	g.add(inst{fma: forms[which], vl: g.vl(g.regSize(n.Type)), d: d, a: r[0], b: r[1], c: r[2]})
	g.result(n, d)
}

// fma is a · b + c.
func (g *gen) fma(size int, a, b, c vreg) vreg {
	d := g.newReg(classVec)
	g.add(inst{fma: [...]*fmaForms{&fmaPS, &fmaPD}[size/4-1], vl: g.vl(size), d: d, a: a, b: b, c: c})
	return d
}

func absolute(g *gen, n *ir.Node) {
	x, size := g.val(n.Args[0]), g.regSize(n.Type)
	if n.Type.Float() {
		g.set(n.Result(), g.andNot(size, g.signBit(size), x))
		return
	}
	g.result(n, g.magnitude(size, x))
}

func negate(g *gen, n *ir.Node) {
	if g.p.shortcut[n] {
		return
	}
	x, size := g.val(n.Args[0]), g.regSize(n.Type)
	if n.Type.Float() {
		g.set(n.Result(), g.xor(size, x, g.signBit(size)))
		return
	}
	g.result(n, g.op2(subI.of(size), size, g.number(size, 0), x))
}

// rounding is to an integral value: 0 to nearest even, 1 down, 2 up, 3 toward 0.
func rounding(mode uint8) rule {
	return func(g *gen, n *ir.Node) {
		size := g.regSize(n.Type)
		g.set(n.Result(), g.integral(size, g.val(n.Args[0]), mode))
	}
}

func (g *gen) integral(size int, x vreg, mode uint8) vreg {
	f := pair{x86.RoundPS, x86.RoundPD}
	if g.t.evex {
		f = pair{x86.RndScalePS, x86.RndScalePD}
	}
	return g.op1Imm(f.of(size), size, x, mode|8) // 8: no exception for inexact
}

func bitwise(g *gen, n *ir.Node) {
	op, size := n.Op.Inst(), g.regSize(n.Type)
	if g.p.shortcut[n] {
		return
	}
	if side := slices.IndexFunc(n.Args, func(a *ir.Value) bool { return a.Node != nil && g.p.shortcut[a.Node] }); side >= 0 && (op == isa.OR || op == isa.XOR) {
		and := n.Args[side].Node.Args
		g.set(n.Result(), g.andWithin(op, size, g.val(and[0]), g.val(and[1]), g.val(n.Args[1-side])))
		return
	}
	a := g.args(n)
	if n.Type == isa.Pred {
		g.set(n.Result(), g.maskOp(op, a[0], a[1]))
		return
	}
	switch op {
	case isa.AND:
		g.set(n.Result(), g.and(size, a[0], a[1]))
	case isa.OR:
		g.set(n.Result(), g.or(size, a[0], a[1]))
	default:
		g.set(n.Result(), g.xor(size, a[0], a[1]))
	}
}

// andOr is a & b | c.
func (g *gen) andOr(size int, a, b, c vreg) vreg { return g.andWithin(isa.OR, size, a, b, c) }

// andWithin is a & b | c, or a & b ^ c.
func (g *gen) andWithin(op isa.Op, size int, a, b, c vreg) vreg {
	forms := [...]*fmaForms{&andOrD, &andOrQ}
	with := (*gen).or
	if op == isa.XOR {
		forms, with = [...]*fmaForms{&andXorD, &andXorQ}, (*gen).xor
	}
	if !g.t.evex {
		return with(g, size, g.and(size, a, b), c)
	}
	d, f := g.newReg(classVec), forms[0]
	if size == 8 {
		f = forms[1]
	}
	g.add(inst{fma: f, vl: g.vl(size), d: d, a: a, b: b, c: c})
	return d
}

func complement(g *gen, n *ir.Node) {
	x := g.val(n.Args[0])
	if n.Type == isa.Pred {
		g.set(n.Result(), g.maskNot(x))
		return
	}
	size, ones := g.regSize(n.Type), ^uint64(0)
	if n.Type.Unsigned() {
		ones = n.Type.Mask()
	}
	g.set(n.Result(), g.xor(size, x, g.number(size, ones)))
}

func shift(g *gen, n *ir.Node) {
	x, size, t := g.val(n.Args[0]), g.regSize(n.Type), n.Type
	left, signed := n.Op == ir.Op(isa.SHL), t.Signed()
	if c, ok := n.Args[1].Const(); ok {
		k := uint8(c % uint64(t.Bits()))
		switch {
		case k == 0:
			g.set(n.Result(), x)
		case left:
			g.result(n, g.op1Imm(sllI.of(size), size, x, k))
		case signed && size == 8 && !g.t.evex:
			g.result(n, g.signedShift(x, g.number(8, uint64(k))))
		case signed:
			g.result(n, g.op1Imm(sraI.of(size), size, x, k))
		default:
			g.result(n, g.op1Imm(srlI.of(size), size, x, k))
		}
		return
	}
	by := g.and(size, g.val(n.Args[1]), g.number(size, uint64(t.Bits()-1)))
	switch {
	case left:
		g.result(n, g.op2(sllV.of(size), size, x, by))
	case signed && size == 8 && !g.t.evex:
		g.result(n, g.signedShift(x, by))
	case signed:
		g.result(n, g.op2(sraV.of(size), size, x, by))
	default:
		g.result(n, g.op2(srlV.of(size), size, x, by))
	}
}

// signedShift shifts 64-bit elements right by the sign, which AVX2 cannot: the
// sign bit, shifted along, is spread over what is above it.
func (g *gen) signedShift(x, by vreg) vreg {
	s := g.op2(x86.SrlvQ, 8, g.number(8, 1<<63), by)
	r := g.xor(8, g.op2(x86.SrlvQ, 8, x, by), s)
	return g.op2(x86.SubQ, 8, r, s)
}

// count has POPC, CLZ and CTZ, a lane at a time.
func count(g *gen, n *ir.Node) {
	x, size, t, op := g.val(n.Args[0]), g.regSize(n.Type), n.Type, n.Op.Inst()
	if size == 4 && t.Signed() && t.Bits() < 32 { // the extension does not count
		x = g.and(4, x, g.number(4, t.Mask()))
	}
	w := x86.Width(size)
	g.set(n.Result(), g.lanewise(size, x, 0, 0, size, func(e *encoder) {
		switch op {
		case isa.POPC:
			e.Cnt(x86.POPCNT, w, x86.RAX, x86.RAX)
		case isa.CLZ:
			e.Cnt(x86.LZCNT, w, x86.RAX, x86.RAX)
			if t.Bits() < 32 {
				e.OpImm(x86.SUB, w, x86.RAX, int32(32-t.Bits()))
			}
		default:
			if t.Bits() < 32 {
				e.OpImm(x86.OR, w, x86.RAX, int32(1)<<t.Bits())
			}
			e.Cnt(x86.TZCNT, w, x86.RAX, x86.RAX)
		}
	}))
}

// divide is DIV and REM; of floats DIV alone, since REM comes expanded.
func divide(g *gen, n *ir.Node) {
	if n.Type.Float() {
		g.result(n, g.quotient(g.val(n.Args[0]), n.Args[1]))
		return
	}
	g.divideWhole(n)
}

// fence: code keeps accesses in the order of the program, and so does the processor.
func fence(*gen, *ir.Node) {}

// segmentEnd is for what no group does by itself.
func segmentEnd(g *gen, n *ir.Node) {
	g.fail(n, "the lanes of a block meet where machine code takes lanes as they come")
}
