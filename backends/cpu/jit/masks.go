package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Predicates are masks: AVX-512's mask registers, with a bit for each lane and
// zeros above; in AVX2 vectors of ones and zeros in the width of the widest
// elements of the program, so that each fills a vector.

func (g *gen) maskClass() class {
	if g.t.evex {
		return classMask
	}
	return classVec
}

// allLanes is the mask of all lanes of a group.
func (g *gen) allLanes() vreg {
	if !g.t.evex {
		return g.number(8, ^uint64(0))
	}
	return g.maskOf(uint64(1)<<g.lanes - 1)
}

// maskOf is AVX-512's mask of lanes that bits tell.
func (g *gen) maskOf(bits uint64) vreg {
	d := g.newReg(classMask)
	g.pure(d, 0, 0, 0, func(e *encoder, in *inst) {
		r := e.outMask(in.d)
		e.MovImm(x86.RAX, bits)
		e.Emit(x86.KFromQ, x86.Inst{VL: 16, D: r, B: x86.RAX})
		e.doneMask(in.d, r)
	})
	return d
}

func (g *gen) noLanes() vreg {
	if !g.t.evex {
		return g.number(8, 0)
	}
	d := g.newReg(classMask)
	g.pure(d, 0, 0, 0, func(e *encoder, in *inst) {
		r := e.outMask(in.d)
		e.Emit(x86.KXorQ, x86.Inst{VL: 16, D: r, A: r, B: r})
		e.doneMask(in.d, r)
	})
	return d
}

// tailMask is the mask of the lanes from the group's first to the last to do.
func (g *gen) tailMask() vreg {
	lanes := uint64(g.lanes)
	return g.firstLanes(0, 0, func(e *encoder) {
		e.Mov(x86.W64, x86.RAX, regCount)
		e.Op(x86.SUB, x86.W64, x86.RAX, regIndex)
		e.MovImm(x86.RCX, lanes)
		e.Op(x86.CMP, x86.W64, x86.RAX, x86.RCX)
		e.CMov(x86.A, x86.W64, x86.RAX, x86.RCX)
	})
}

// firstLanes is the mask of the group's first lanes, as many as count, which reads a
// and b, leaves in RAX.
func (g *gen) firstLanes(a, b vreg, count func(e *encoder)) vreg {
	d := g.newReg(g.maskClass())
	if g.t.evex {
		g.pure(d, a, b, 0, func(e *encoder, in *inst) {
			r := e.outMask(in.d)
			count(e)
			e.MovImm(x86.RCX, 1<<64-1)
			e.BZHI(x86.W64, x86.RAX, x86.RCX, x86.RAX)
			e.Emit(x86.KFromQ, x86.Inst{VL: 16, D: r, B: x86.RAX})
			e.doneMask(in.d, r)
		})
		return d
	}
	// From a row of ones, then zeros, as many as lanes each.
	size := g.t.bytes / g.lanes
	row := make([]byte, 2*g.t.bytes)
	for i := range g.t.bytes {
		row[i] = 0xff
	}
	label := g.table(row)
	bytes := g.t.bytes
	g.pure(d, a, b, 0, func(e *encoder, in *inst) {
		r := e.out(in.d, 0)
		count(e)
		e.Un(x86.NEG, x86.W64, x86.RAX)
		e.Lea(x86.RCX, x86.Mem{Label: label})
		e.Emit(x86.MovUPS, x86.Inst{VL: bytes, D: r, IsMem: true,
			Mem: x86.Mem{Base: x86.RCX, Index: x86.RAX, Scale: uint8(size), Disp: int32(bytes)}})
		e.done(in.d, r)
	})
	return d
}

// table puts bytes behind the code.
func (g *gen) table(b []byte) x86.Label {
	l := g.asm.NewLabel()
	g.asm.tables = append(g.asm.tables, table{l, b})
	return l
}

// maskOp combines two predicates.
func (g *gen) maskOp(op isa.Op, a, b vreg) vreg {
	if !g.t.evex {
		return g.op2(map[isa.Op]*x86.Form{isa.AND: x86.And, isa.OR: x86.Or, isa.XOR: x86.Xor}[op], g.maskSize(), a, b)
	}
	d := g.newReg(classMask)
	f := map[isa.Op]*x86.Form{isa.AND: x86.KAndQ, isa.OR: x86.KOrQ, isa.XOR: x86.KXorQ}[op]
	g.add(inst{f: f, vl: 16, d: d, a: a, b: b})
	return d
}

// maskSize is the size of a mask's element in AVX2.
func (g *gen) maskSize() int { return g.t.bytes / g.lanes }

func (g *gen) maskNot(a vreg) vreg { return g.maskOp(isa.XOR, a, g.full) }

// maskAnd is the lanes of m, 0 being all, in which p holds.
func (g *gen) maskAnd(m, p vreg) vreg {
	if m == 0 {
		return p
	}
	return g.maskOp(isa.AND, m, p)
}

// maskWithout is the lanes of m, 0 being all, in which p does not hold.
func (g *gen) maskWithout(m, p vreg) vreg {
	if m == 0 {
		return g.maskNot(p)
	}
	if !g.t.evex {
		return g.op2(x86.AndNot, g.maskSize(), p, m)
	}
	d := g.newReg(classMask)
	g.add(inst{f: x86.KAndNQ, vl: 16, d: d, a: p, b: m})
	return d
}

// copyMask makes a register of its own that starts as m, 0 being all.
func (g *gen) copyMask(m vreg) vreg {
	if m == 0 {
		m = g.full
	}
	d := g.newReg(g.maskClass())
	g.assignMask(d, m)
	return d
}

func (g *gen) assignMask(d, m vreg) {
	if d == m {
		return
	}
	if g.t.evex {
		g.add(inst{f: x86.KMovQ, vl: 16, d: d, b: m})
		return
	}
	g.add(inst{f: x86.MovUPS, vl: g.t.bytes, d: d, b: m})
}

// mergeMask adds the lanes of m, 0 being all, to d.
func (g *gen) mergeMask(d, m vreg) {
	switch {
	case m == 0:
		g.assignMask(d, g.full)
	case g.t.evex:
		g.add(inst{f: x86.KOrQ, vl: 16, d: d, a: d, b: m})
	default:
		g.add(inst{f: x86.Or, vl: g.t.bytes, d: d, a: d, b: m})
	}
}

// jumpNone jumps if m has no lane.
func (g *gen) jumpNone(m vreg, to x86.Label) { g.testMask(m, x86.E, to) }

// jumpAny jumps if m has a lane.
func (g *gen) jumpAny(m vreg, to x86.Label) { g.testMask(m, x86.NE, to) }

func (g *gen) testMask(m vreg, c x86.Cond, to x86.Label) {
	g.special(0, m, 0, 0, func(e *encoder, in *inst) {
		e.testAny(in.a)
		e.Jcc(c, to)
	})
}

// testAny sets the zero flag if mask m has no lane.
func (e *encoder) testAny(m vreg) {
	if e.t.evex {
		k := e.mask(m, maskTemp0)
		e.Emit(x86.KOrTstQ, x86.Inst{VL: 16, D: k, B: k})
		return
	}
	v := e.vec(m, 0, e.t.bytes)
	e.Emit(x86.PTest, x86.Inst{VL: e.t.bytes, D: v, B: v})
}

// maskBits puts a mask's lanes into the low bits of a general register.
func (e *encoder) maskBits(d x86.Reg, m vreg, lanes int) {
	if e.t.evex {
		e.Emit(x86.KToQ, x86.Inst{VL: 16, D: d, B: e.mask(m, maskTemp0)})
		return
	}
	v := e.vec(m, 0, e.t.bytes)
	f := x86.MovMskPS
	switch e.t.bytes / lanes {
	case 8:
		f = x86.MovMskPD
	case 2: // of each half the low bytes
		t := e.t.temps[0]
		e.Emit(x86.PackSSWB, x86.Inst{VL: e.t.bytes, D: t, A: v, B: v})
		e.Emit(x86.PermQ, x86.Inst{VL: e.t.bytes, D: t, B: t, Imm: 0x08})
		e.Emit(x86.MovMskB, x86.Inst{VL: 16, D: d, B: t})
		return
	case 1:
		f = x86.MovMskB
	}
	e.Emit(f, x86.Inst{VL: e.t.bytes, D: d, B: v})
}

// cmpF compares floats by one of x86's predicates.
func (g *gen) cmpF(size int, a, b vreg, how uint8) vreg {
	if g.t.evex {
		return g.op2Imm(pair{x86.CmpPS, x86.CmpPD}.of(size), size, a, b, how)
	}
	return g.widenMask(size, g.op2Imm(pair{x86.VCmpPS, x86.VCmpPD}.of(size), size, a, b, how))
}

// widenMask makes a mask of the result of a comparison in AVX2.
func (g *gen) widenMask(size int, r vreg) vreg {
	if size < g.maskSize() {
		return g.op1(x86.SxDQ, 8, r)
	}
	return r
}

// narrowMask makes a mask serve for elements of the given size.
func (g *gen) narrowMask(size int, p vreg) vreg {
	if g.t.evex || size == g.maskSize() {
		return p
	}
	high := g.newReg(classVec)
	g.add(inst{f: x86.Extract128, vl: 32, d: high, b: p, imm: 1})
	d := g.newReg(classVec)
	g.add(inst{f: x86.ShufPS, vl: 16, d: d, a: p, b: high, imm: 0x88})
	return d
}

// Predicates of comparisons that say false of NaNs, but NE.
var floatConds = map[isa.Cond]uint8{isa.EQ: 0, isa.LT: 0x11, isa.LE: 0x12, isa.NE: 4, isa.GE: 0x1d, isa.GT: 0x1e}
var intConds = map[isa.Cond]uint8{isa.EQ: 0, isa.LT: 1, isa.LE: 2, isa.NE: 4, isa.GE: 5, isa.GT: 6}

func compare(g *gen, n *ir.Node) {
	switch {
	case g.lin == nil:
	case g.p.agreed(g.lin, n):
		g.set(n.Result(), g.agree(n))
		return
	case g.p.edge(g.lin, n):
		g.set(n.Result(), g.edge(n))
		return
	}
	a, size, t := g.args(n), g.regSize(n.Type), n.Type
	c := n.Cond.Signed()
	if t.Float() {
		g.set(n.Result(), g.cmpF(size, a[0], a[1], floatConds[c]))
		return
	}
	if k, ok := g.p.asked[n]; ok && g.t.evex && g.shape.block == 0 {
		if x := g.val(k.x); x != 0 {
			g.set(n.Result(), g.isOf(k, x))
			return
		}
	}
	if and := g.p.tests[n]; and != nil && g.t.evex && g.shape.block == 0 {
		if x, y := g.val(and.Args[0]), g.val(and.Args[1]); x != 0 && y != 0 { // what a launch shares may be no vectors
			g.set(n.Result(), g.test(t, x, y, c))
			return
		}
	}
	g.set(n.Result(), g.cmpI(t, a[0], a[1], c))
}

// findTests finds comparisons of an AND with 0, where what it is made of is still there: no
// branch or loop between them may have put other values in its registers.
func (p *program) findTests(r *ir.Region) {
	ands := map[*ir.Value]*ir.Node{}
	for _, n := range r.Nodes {
		for _, s := range n.Regions {
			p.findTests(s)
		}
		switch {
		case n.Op == ir.Op(isa.AND) && n.Type.Numeric() && len(n.Args) == 2:
			ands[n.Result()] = n
		case !n.Op.IsInst() && n.Op != ir.Const:
			clear(ands)
		case n.Op == ir.Op(isa.SET) && (n.Cond == isa.EQ || n.Cond == isa.NE):
			for i, a := range n.Args {
				if c, ok := a.Const(); ok && c == 0 && ands[n.Args[1-i]] != nil {
					p.tests[n] = ands[n.Args[1-i]]
				}
			}
		}
	}
}

// test compares a & b with 0, which AVX-512 does at once.
func (g *gen) test(t isa.Type, a, b vreg, c isa.Cond) vreg {
	size, f := g.regSize(t), testNone
	if c == isa.NE {
		f = testAny
	}
	in := inst{f: f.of(size), vl: g.vl(size), d: g.newReg(classMask), a: a, b: b}
	if g.partial(size) { // what is behind the lanes is none
		in.k = g.full
	}
	g.add(in)
	return in.d
}

// cmpI compares integers.
func (g *gen) cmpI(t isa.Type, a, b vreg, c isa.Cond) vreg {
	size := g.regSize(t)
	unsigned := t.Unsigned() && size == t.Size() // others are extended to more
	if g.t.evex {
		f := compS
		if unsigned {
			f = compU
		}
		d := g.newReg(classMask)
		in := inst{f: f.of(size), vl: g.vl(size), d: d, a: a, b: b, imm: intConds[c]}
		if g.partial(size) { // what is behind the lanes is none
			in.k = g.full
		}
		g.add(in)
		return d
	}
	not := c == isa.NE || c == isa.LE || c == isa.GE
	var r vreg
	switch c {
	case isa.EQ, isa.NE:
		r = g.op2(compEq.of(size), size, a, b)
	default:
		if unsigned {
			s := g.signBit(size)
			a, b = g.xor(size, a, s), g.xor(size, b, s)
		}
		if c == isa.LT || c == isa.GE {
			a, b = b, a
		}
		r = g.op2(compGt.of(size), size, a, b)
	}
	r = g.widenMask(size, r)
	if not {
		r = g.maskNot(r)
	}
	return r
}

func (g *gen) equal(size int, a, b vreg) vreg {
	return g.cmpI(signedOf[size], a, b, isa.EQ)
}

func choose(g *gen, n *ir.Node) {
	if g.t.evex && g.shape.block == 0 {
		if s, ok := g.p.specials[n]; ok {
			if s != nil {
				g.set(n.Result(), g.specials(n, s))
			}
			return
		}
	}
	a := g.args(n)
	g.set(n.Result(), g.sel(g.regSize(n.Type), a[0], a[1], a[2]))
}

// sel is a where p holds, b elsewhere.
func (g *gen) sel(size int, p, a, b vreg) vreg {
	d := g.newReg(classVec)
	if g.t.evex {
		g.add(inst{f: blends.of(size), vl: g.vl(size), d: d, a: b, b: a, k: p})
		return d
	}
	g.add(inst{f: x86.BlendVB, vl: g.vl(size), d: d, a: b, b: a, c: g.narrowMask(size, p)})
	return d
}

// blend writes v to d, or to its lanes in m if that is not 0. Predicates too.
func (g *gen) blend(t isa.Type, d, v, m vreg) {
	if t == isa.Pred {
		g.blendMask(d, v, m)
		return
	}
	g.blendSize(g.regSize(t), d, v, m)
}

func (g *gen) blendSize(size int, d, v, m vreg) {
	vl := g.vl(size)
	switch {
	case d == v:
	case m == 0:
		g.add(inst{f: x86.MovAPS, vl: vl, d: d, b: v})
	case g.t.evex && size < 4:
		g.add(inst{f: blends.of(size), vl: vl, d: d, a: d, b: v, k: m})
	case g.t.evex:
		g.add(inst{f: copyV.of(size), vl: vl, d: d, b: v, k: m, merge: true})
	default:
		g.add(inst{f: x86.BlendVB, vl: vl, d: d, a: d, b: v, c: g.narrowMask(size, m)})
	}
}

func (g *gen) blendMask(d, v, m vreg) {
	switch {
	case d == v:
	case m == 0:
		g.assignMask(d, v)
	case g.t.evex:
		kept := g.maskWithout(d, m)
		g.add(inst{f: x86.KOrQ, vl: 16, d: d, a: kept, b: g.maskOp(isa.AND, v, m)})
	default:
		g.add(inst{f: x86.BlendVB, vl: g.t.bytes, d: d, a: d, b: v, c: m})
	}
}

// fault notes a fault of n in the lanes that run where p holds, if one is below
// those noted before. index, if not 0, holds what was asked for, of type t.
func (g *gen) fault(n *ir.Node, kind isa.FaultKind, p, index vreg, t isa.Type) {
	m := g.maskAnd(g.m, p)
	lanes, group, vl := g.lanes, int32(g.u*g.lanes), g.vl(8)
	size := 0
	if index != 0 {
		size = g.regSize(t)
		vl = g.vl(size)
	}
	g.inner(0, m, index, 0, func(e *encoder, in *inst) {
		none := e.NewLabel()
		e.testAny(in.a)
		e.Jcc(x86.E, none)
		e.maskBits(x86.RCX, in.a, lanes)
		e.Cnt(x86.TZCNT, x86.W64, x86.RCX, x86.RCX)
		if size > 0 {
			e.spread(in.b, 3, vl)
			if at := lane(3, size); size == 4 && t.Signed() {
				e.LoadSigned(x86.W32, regT, at)
			} else {
				e.Load(x86.Width(size), regT, at)
			}
		}
		e.note(n, kind, group, size > 0)
		e.Bind(none)
	})
}

// faults reports whether something may fault, which names its lane.
func faults(r *ir.Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool {
		return n.Op.IsInst() && n.CanFault() || slices.ContainsFunc(n.Regions, faults)
	})
}

// note notes a fault of lane RCX, if it is below those noted before. regT is
// what was asked for.
func (e *encoder) note(n *ir.Node, kind isa.FaultKind, group int32, known bool) {
	e.Lea(x86.RAX, x86.Mem{Base: regIndex, Index: x86.RCX, Scale: 1, Disp: group})
	e.OpMem(x86.ADD, x86.W64, x86.RAX, x86.At(regArgs, argFirst))
	e.noteLane(n, kind, known)
}

// noteLane notes a fault of the lane whose global number is in RAX.
func (e *encoder) noteLane(n *ir.Node, kind isa.FaultKind, known bool) {
	above := e.NewLabel()
	e.OpMem(x86.CMP, x86.W64, x86.RAX, x86.At(regArgs, argLane))
	e.Jcc(x86.AE, above)
	e.Store(x86.W64, x86.At(regArgs, argLane), x86.RAX)
	e.StoreImm(x86.W32, x86.At(regArgs, argSite), int32(n.Site))
	e.StoreImm(x86.W32, x86.At(regArgs, argKind), int32(kind))
	slot := n.Mem.Slot
	if slot == e.shared { // it has no number
		slot = 0
	}
	e.StoreImm(x86.W32, x86.At(regArgs, argSlot), int32(slot))
	if known {
		e.Store(x86.W64, x86.At(regArgs, argAt), regT)
		e.StoreImm(x86.W32, x86.At(regArgs, argKnown), 1)
	} else {
		e.StoreImm(x86.W32, x86.At(regArgs, argKnown), 0)
	}
	e.Bind(above)
}
