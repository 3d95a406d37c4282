package jit

import (
	"encoding/binary"
	"maps"
	"math/bits"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Computing with heads; see linear.go.

// linear returns what is known of a value: nothing where lanes need not be of
// one row of a block.
func (g *gen) linear(v *ir.Value) *linear {
	if g.lin == nil || !g.lin[v.ID].known {
		return nil
	}
	return &g.lin[v.ID]
}

// headOf returns a node's linear value, if it has one.
func (g *gen) headOf(n *ir.Node) *linear {
	if !n.Op.IsInst() || len(n.Results) != 1 {
		return nil
	}
	return g.linear(n.Result())
}

// head is the register of a value's head. It is the same one in all copies of
// the code that computes it.
func (g *gen) head(v *ir.Value) vreg {
	if g.heads[v.ID] == 0 {
		g.heads[v.ID] = g.newReg(classGPR)
	}
	return g.heads[v.ID]
}

// earlyHead computes a node's head before its turn, once on the ways on which it is asked for.
func (g *gen) earlyHead(n *ir.Node) {
	if !g.early[n] {
		g.headNode(n)
		g.early[n] = true
	}
}

// way writes code that others go around: what heads it computes early, and where it finds loads, is for it alone.
func (g *gen) way(write func()) {
	early, ahead := maps.Clone(g.early), g.ahead
	write()
	g.early, g.ahead = early, ahead
}

// operand is a head, or a constant.
type operand struct {
	reg   vreg
	value uint64
}

func (g *gen) operand(v *ir.Value) operand {
	if c, ok := v.Const(); ok {
		c = registerForm(v.Type, c)
		if v.Type.Size() == 4 {
			c &= 1<<32 - 1
		}
		return operand{value: c}
	}
	return operand{reg: g.head(v)}
}

func (e *encoder) loadOperand(r x86.Reg, o operand) {
	if o.reg == 0 {
		e.MovImm(r, o.value)
		return
	}
	if s := e.gpr(o.reg, r); s != r {
		e.Mov(x86.W64, r, s)
	}
}

// scalarOp computes d, in RAX, of what a and b hold.
func (g *gen) scalarOp(d, a, b vreg, fn func(e *encoder)) {
	g.inner(d, a, b, 0, func(e *encoder, in *inst) {
		fn(e)
		e.putGPR(in.d, x86.RAX)
	})
}

// changed computes d from a number that fn, if not nil, changes in the register it is
// told of: d's own, if it has one.
func (g *gen) changed(d vreg, a operand, fn func(e *encoder, r x86.Reg)) {
	g.pure(d, a.reg, 0, 0, func(e *encoder, in *inst) {
		r := e.outGPR(in.d, x86.RAX)
		e.loadOperand(r, a)
		if fn != nil {
			fn(e, r)
		}
		e.doneGPR(in.d, r)
	})
}

// joined computes d of a and b by an instruction on two registers, the first of which is
// d's own unless that holds b. imm, if not nil, has the second as a constant.
func (g *gen) joined(d vreg, a, b operand, w x86.Width, imm func(e *encoder, r x86.Reg, v int32), fn func(e *encoder, r, s x86.Reg)) {
	c := int64(b.value)
	if w == x86.W32 {
		c = int64(int32(c))
	}
	if b.reg == 0 && imm != nil && c == int64(int32(c)) {
		g.changed(d, a, func(e *encoder, r x86.Reg) { imm(e, r, int32(c)) })
		return
	}
	g.pure(d, a.reg, b.reg, 0, func(e *encoder, in *inst) {
		s, own, r := regT, e.info[in.d].reg, x86.RAX
		if b.reg != 0 {
			s = e.gpr(b.reg, regT)
		} else {
			e.MovImm(regT, b.value)
		}
		if own != x86.None && own != s {
			r = own
		}
		e.loadOperand(r, a)
		fn(e, r, s)
		if own != x86.None && own != r {
			e.Mov(x86.W64, own, r)
		}
		e.doneGPR(in.d, r)
	})
}

// copyHead makes the head of d that of v, or a constant.
func (g *gen) copyHead(d vreg, v *ir.Value) { g.changed(d, g.operand(v), nil) }

// headNode computes the head of a node's result.
func (g *gen) headNode(n *ir.Node) {
	was := g.from(n)
	defer func() { g.src = was }()
	d, t, op := g.head(n.Result()), n.Type, n.Op.Inst()
	switch op {
	case isa.LDP:
		at := g.p.lay.params + int32(8*n.Imm)
		w := x86.Width(t.Size())
		g.scalarOp(d, 0, 0, func(e *encoder) { e.Load(w, x86.RAX, x86.At(regArgs, at)) })
		return
	case isa.SREG:
		g.scalarOp(d, 0, 0, func(e *encoder) { e.placeHead(isa.Special(n.Imm)) })
		return
	case isa.LDG:
		g.loadHead(n, d)
		return
	}
	var a [2]operand
	for i, v := range n.Args {
		a[i] = g.operand(v)
	}
	w := x86.Width(n.Result().Type.Size())
	shifted := func(kind byte, x operand, k uint8) {
		g.changed(d, x, func(e *encoder, r x86.Reg) {
			if k > 0 {
				e.ShiftImm(kind, w, r, k)
			}
		})
	}
	alu, known := map[isa.Op]x86.ALU{isa.ADD: x86.ADD, isa.SUB: x86.SUB, isa.AND: x86.AND, isa.OR: x86.OR, isa.XOR: x86.XOR}[op]
	if known {
		g.joined(d, a[0], a[1], w, func(e *encoder, r x86.Reg, v int32) { e.OpImm(alu, w, r, v) }, func(e *encoder, r, s x86.Reg) { e.Op(alu, w, r, s) })
		return
	}
	var fn func(e *encoder)
	switch op {
	case isa.MUL:
		if c := a[1].value; a[1].reg == 0 && bits.OnesCount64(c) == 1 {
			shifted(4, a[0], uint8(bits.TrailingZeros64(c)))
		} else {
			g.joined(d, a[0], a[1], w, nil, func(e *encoder, r, s x86.Reg) { e.IMul(w, r, s) })
		}
		return
	case isa.SHL, isa.SHR:
		c, _ := n.Args[1].Const()
		shifted(map[isa.Op]byte{isa.SHL: 4, isa.SHR: 5}[op], a[0], uint8(c%uint64(t.Bits())))
		return
	case isa.CVT:
		from, to := n.From, n.Type
		g.changed(d, a[0], func(e *encoder, r x86.Reg) {
			switch {
			case to.Size() == 4 && from.Size() == 8:
				e.Mov(x86.W32, r, r)
			case to.Size() == 8 && from.Size() == 4 && from.Signed():
				e.ShiftImm(4, x86.W64, r, 32)
				e.ShiftImm(7, x86.W64, r, 32)
			}
		})
		return
	case isa.MIN, isa.MAX:
		c := x86.A
		if op == isa.MAX {
			c = x86.B
		}
		fn = func(e *encoder) {
			e.Op(x86.CMP, w, x86.RAX, regT)
			e.CMov(c, w, x86.RAX, regT)
		}
	case isa.DIV, isa.REM:
		fn = func(e *encoder) {
			zero, done := e.NewLabel(), e.NewLabel()
			e.Test(w, regT, regT)
			e.Jcc(x86.E, zero)
			e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
			e.Un(x86.DIV, w, regT)
			if op == isa.REM {
				e.Mov(w, x86.RAX, x86.RDX)
			}
			e.Jmp(done)
			e.Bind(zero)
			if n.CanFault() {
				e.Load(x86.W64, x86.RAX, x86.At(regArgs, argFirst))
				e.noteLane(n, isa.FaultDivide, false)
			}
			e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
			e.Bind(done)
		}
	}
	g.scalarOp(d, a[0].reg, a[1].reg, func(e *encoder) {
		e.headOrZero(x86.RAX, a[0])
		e.headOrZero(regT, a[1])
		fn(e)
	})
}

// loadHead loads what is the same for all lanes of a block; what strays is noted of the
// first, which does it if one does.
func (g *gen) loadHead(n *ir.Node, d vreg) {
	head, _ := g.stepOf(n)
	p := g.p
	g.inner(d, head.reg, 0, 0, func(e *encoder, in *inst) {
		stray, done := e.NewLabel(), e.NewLabel()
		e.headOrZero(x86.RAX, head)
		e.checked(n, p, stray)
		e.Load(x86.Width(n.Type.Size()), x86.RAX, x86.At(x86.RAX, 0))
		e.Jmp(done)
		e.Bind(stray)
		e.Mov(x86.W64, regT, x86.RAX)
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argFirst))
		e.noteLane(n, isa.FaultAccess, true)
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
		e.Bind(done)
		e.putGPR(in.d, x86.RAX)
	})
}

// Conditions of jumps for those of comparisons, of signed numbers and others.
var signedJumps = map[isa.Cond]x86.Cond{isa.EQ: x86.E, isa.NE: x86.NE, isa.LT: x86.L, isa.LE: x86.LE, isa.GT: x86.G, isa.GE: x86.GE}
var jumps = map[isa.Cond]x86.Cond{isa.EQ: x86.E, isa.NE: x86.NE, isa.LT: x86.B, isa.LE: x86.BE, isa.GT: x86.A, isa.GE: x86.AE}

// condition is that of a comparison of heads.
func condition(n *ir.Node) x86.Cond {
	if n.Type.Signed() {
		return signedJumps[n.Cond.Signed()]
	}
	return jumps[n.Cond.Signed()]
}

// agree compares heads that are the same in a block: all lanes, or none.
func (g *gen) agree(n *ir.Node) vreg {
	a, b := g.operand(n.Args[0]), g.operand(n.Args[1])
	w, c := x86.Width(n.Type.Size()), condition(n)
	ones := uint64(1)<<g.lanes - 1
	if !g.t.evex {
		ones = 1<<64 - 1
	}
	d, bytes := g.newReg(g.maskClass()), g.t.bytes
	g.pure(d, a.reg, b.reg, 0, func(e *encoder, in *inst) {
		e.headOrZero(x86.RAX, a)
		e.headOrZero(regT, b)
		e.MovImm(x86.RCX, ones)
		e.MovImm(x86.RDX, 0)
		e.Op(x86.CMP, w, x86.RAX, regT)
		e.CMov(c, x86.W64, x86.RDX, x86.RCX)
		if e.t.evex {
			r := e.outMask(in.d)
			e.Emit(x86.KFromQ, x86.Inst{VL: 16, D: r, B: x86.RDX})
			e.doneMask(in.d, r)
			return
		}
		r := e.out(in.d, 0)
		e.spreadGPR(r, x86.RDX, 8, bytes)
		e.done(in.d, r)
	})
	return d
}

// edgeOf is what an edge compares: numbers that count lanes, and one that these share.
func (g *gen) edgeOf(n *ir.Node) (counts, limit *ir.Value, c isa.Cond) {
	counts, limit, c = n.Args[0], n.Args[1], n.Cond.Signed()
	if x := g.linear(counts); x == nil || x.step == 0 {
		counts, limit = limit, counts
		c = map[isa.Cond]isa.Cond{isa.LT: isa.GT, isa.LE: isa.GE, isa.GT: isa.LT, isa.GE: isa.LE, isa.EQ: isa.EQ, isa.NE: isa.NE}[c]
	}
	return counts, limit, c
}

// edge compares numbers that count lanes with one that these share.
func (g *gen) edge(n *ir.Node) vreg {
	counts, limit, c := g.edgeOf(n)
	switch c {
	case isa.LT:
		return g.below(counts, limit, 0)
	case isa.GE:
		return g.maskNot(g.below(counts, limit, 0))
	case isa.LE:
		return g.below(counts, limit, 1)
	case isa.GT:
		return g.maskNot(g.below(counts, limit, 1))
	}
	var m vreg
	if lane0(n) {
		m = g.firstLane()
	} else {
		m = g.maskWithout(g.below(counts, limit, 1), g.below(counts, limit, 0))
	}
	if c == isa.NE {
		m = g.maskNot(m)
	}
	return m
}

// firstLane is the mask of a block's first lane.
func (g *gen) firstLane() vreg {
	first := g.u == 0
	return g.firstLanes(0, 0, func(e *encoder) {
		e.MovImm(x86.RAX, 0)
		if first { // else another group has it
			e.MovImm(x86.RCX, 1)
			e.Test(x86.W64, regIndex, regIndex)
			e.CMov(x86.E, x86.W64, x86.RAX, x86.RCX)
		}
	})
}

// below is the mask of the lanes whose count is below a limit, or with more = 1, at it.
func (g *gen) below(counts, limit *ir.Value, more int32) vreg {
	a, b := g.operand(counts), g.operand(limit)
	group, lanes := int32(g.u*g.lanes), int32(g.lanes)
	return g.firstLanes(a.reg, b.reg, func(e *encoder) {
		e.nearLimit(a, b, group, lanes-more)
		if more > 0 {
			e.OpImm(x86.ADD, x86.W64, x86.RAX, more)
		}
		e.MovImm(x86.RCX, 0)
		e.Op(x86.SUB, x86.W64, x86.RAX, regT)
		e.CMov(x86.B, x86.W64, x86.RAX, x86.RCX)
	})
}

// nearLimit puts the count of lane regIndex + group into R11, and the limit into RAX, or what is so many above
// that count: a limit beyond is as good.
func (e *encoder) nearLimit(counts, limit operand, group, most int32) {
	e.headOrZero(regT, counts)
	e.headOrZero(x86.RAX, limit)
	e.Lea(regT, x86.Mem{Base: regT, Index: regIndex, Scale: 1, Disp: group})
	e.Lea(x86.RCX, x86.At(regT, most))
	e.Op(x86.CMP, x86.W64, x86.RAX, x86.RCX)
	e.CMov(x86.A, x86.W64, x86.RAX, x86.RCX)
}

// placeHead puts a special value of the block's first lane into RAX.
func (e *encoder) placeHead(s isa.Special) {
	switch {
	case s <= isa.LaneZ:
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
	case s <= isa.BlockZ: // divided by the sizes of the grid, the last one seldom needed
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argBlockNo))
		for k := isa.BlockX; k < s; k++ {
			e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
			e.Load(x86.W32, regT, x86.At(regArgs, argGrid+4*int32(k-isa.BlockX)))
			e.Un(x86.DIV, x86.W64, regT)
		}
		inside := e.NewLabel()
		e.Load(x86.W32, regT, x86.At(regArgs, argGrid+4*int32(s-isa.BlockX)))
		e.Op(x86.CMP, x86.W64, x86.RAX, regT)
		e.Jcc(x86.B, inside)
		e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
		e.Un(x86.DIV, x86.W64, regT)
		e.Mov(x86.W64, x86.RAX, x86.RDX)
		e.Bind(inside)
	case s < isa.GridDimX:
		e.Load(x86.W32, x86.RAX, x86.At(regArgs, argBlock+4*int32(s-isa.BlockDimX)))
	case s < isa.GlobalLane:
		e.Load(x86.W32, x86.RAX, x86.At(regArgs, argGrid+4*int32(s-isa.GridDimX)))
	case s == isa.GlobalLane:
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argFirst))
	default:
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argN))
	}
}

// materialize makes a vector of a linear value for the group at hand.
func (g *gen) materialize(v *ir.Value) vreg { return g.ladder(v, v.Type.Size()) }

// ladder makes a vector of the low bytes of a linear value, so many of each.
func (g *gen) ladder(v *ir.Value, size int) vreg {
	x := g.lin[v.ID]
	vl, group := g.vl(size), int32(g.u*g.lanes)
	d := g.newReg(classVec)
	step := x.step
	g.pure(d, g.head(v), 0, 0, func(e *encoder, in *inst) {
		if step == 0 {
			e.loadOperand(x86.RAX, operand{reg: in.a})
		} else { // regIndex is set: what is computed before the groups is the same in the launch
			e.groupHead(in.a, step, group)
		}
		r := e.out(in.d, 0)
		if size < 4 { // several in 32 bits
			e.OpImm(x86.AND, x86.W32, x86.RAX, 1<<(8*size)-1)
			e.MovImm(regT, map[int]uint64{1: 0x01010101, 2: 0x00010001}[size])
			e.IMul(x86.W32, x86.RAX, regT)
		}
		e.spreadGPR(r, x86.RAX, max(size, 4), vl)
		e.done(in.d, r)
	})
	if step == 0 {
		return d
	}
	row := g.newReg(classVec)
	g.add(inst{f: loadV.of(size), vl: vl, d: row, mem: &mref{label: g.stairs(step, size)}})
	return g.op2(addI.of(size), size, d, row)
}

// groupHead puts the value that a group's first lane has into RAX.
func (e *encoder) groupHead(head vreg, step int64, group int32) {
	e.Lea(x86.RAX, x86.At(regIndex, group))
	if step != 1 {
		e.MovImm(regT, uint64(step))
		e.IMul(x86.W64, x86.RAX, regT)
	}
	e.Op(x86.ADD, x86.W64, x86.RAX, e.gpr(head, regT))
}

// stairs is a table of 0, step, 2·step …
func (g *gen) stairs(step int64, size int) x86.Label {
	key := numberKey{uint64(step), uint8(size)}
	l, ok := g.steps[key]
	if !ok {
		var b []byte
		for i := range g.lanes {
			b = binary.LittleEndian.AppendUint64(b, uint64(step)*uint64(i))[:len(b)+size]
		}
		l = g.table(b)
		g.steps[key] = l
	}
	return l
}
