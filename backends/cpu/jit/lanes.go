package jit

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// What has no vector instruction is done a lane at a time: operands go to
// memory, a loop computes with general registers, the result comes back.

// regT is the second operand of a lane's computation; the first and the result
// are in RAX. RDX is free, RCX counts.
const regT = x86.R11

// scratch is the place of vector i of the lanes' memory.
func scratch(i int) int32 { return int32(argLanes + 64*i) }

func lane(i, size int) x86.Mem {
	return x86.Mem{Base: regArgs, Index: x86.RCX, Scale: uint8(size), Disp: scratch(i)}
}

// lanewise computes fn for each lane of a and, if sizeB is not 0, b.
func (g *gen) lanewise(sizeA int, a vreg, sizeB int, b vreg, size int, fn func(e *encoder)) vreg {
	d := g.newReg(classVec)
	g.pure(d, a, b, 0, func(e *encoder, in *inst) { g.eachOf(e, in, sizeA, sizeB, size, fn) })
	return d
}

// lanewiseWhere computes 64-bit elements d anew of those of a and b, all lanes', if m has one.
func (g *gen) lanewiseWhere(m, d, a, b vreg, fn func(e *encoder)) {
	g.add(inst{d: d, merge: true, a: a, b: b, k: m, inner: true, pure: true, emit: func(e *encoder, in *inst) {
		over := e.NewLabel()
		e.testAny(in.k)
		e.Jcc(x86.E, over)
		g.eachOf(e, in, 8, 8, 8, fn)
		e.Bind(over)
	}})
}

func (g *gen) eachOf(e *encoder, in *inst, sizeA, sizeB, size int, fn func(e *encoder)) {
	e.spread(in.a, 0, g.vl(sizeA))
	if sizeB != 0 {
		e.spread(in.b, 1, g.vl(sizeB))
	}
	e.MovImm(x86.RCX, uint64(g.lanes-1))
	again := e.NewLabel()
	e.Bind(again)
	e.Load(x86.Width(sizeA), x86.RAX, lane(0, sizeA))
	if sizeB != 0 {
		e.Load(x86.Width(sizeB), regT, lane(1, sizeB))
	}
	fn(e)
	e.Store(x86.Width(size), lane(2, size), x86.RAX)
	e.OpImm(x86.SUB, x86.W32, x86.RCX, 1)
	e.Jcc(x86.NS, again)
	r := e.out(in.d, 0)
	e.Emit(x86.MovUPS, x86.Inst{VL: g.vl(size), D: r, IsMem: true, Mem: x86.At(regArgs, scratch(2))})
	e.done(in.d, r)
}

// spread stores a vector to the lanes' memory.
func (e *encoder) spread(v vreg, i, vl int) {
	r := e.vec(v, 0, vl)
	e.Emit(x86.StoreUPS, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(i))})
}

// clearScratch makes vl bytes of vector i of the lanes' memory zero.
func (e *encoder) clearScratch(i, vl int) {
	for at := int32(0); at < int32(vl); at += 8 {
		e.StoreImm(x86.W64, x86.At(regArgs, scratch(i)+at), 0)
	}
}

// eachLane runs fn for each lane of mask m, 0 being all, in order; RCX is the lane. RDX has the lanes that are yet
// to come where there is a mask, and is free otherwise; fn leaves both as they are. Where there is a mask and it
// has a lane, RCX is the last one of them behind it.
func (e *encoder) eachLane(m vreg, lanes int, fn func()) {
	again, done := e.NewLabel(), e.NewLabel()
	if m == 0 {
		e.Op(x86.XOR, x86.W32, x86.RCX, x86.RCX)
		e.Bind(again)
		fn()
		e.OpImm(x86.ADD, x86.W32, x86.RCX, 1)
		e.OpImm(x86.CMP, x86.W32, x86.RCX, int32(lanes))
		e.Jcc(x86.B, again)
		return
	}
	e.maskBits(x86.RDX, m, lanes)
	e.Bind(again)
	e.Test(x86.W64, x86.RDX, x86.RDX)
	e.Jcc(x86.E, done)
	e.Cnt(x86.TZCNT, x86.W64, x86.RCX, x86.RDX)
	fn()
	e.Lea(x86.RAX, x86.At(x86.RDX, -1))
	e.Op(x86.AND, x86.W64, x86.RDX, x86.RAX)
	e.Jmp(again)
	e.Bind(done)
}
