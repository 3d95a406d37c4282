package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Loads and stores by byte addresses, a lane at a time.

// offset is the register of a byte address less its constant part; 0: it has
// no other, or a constant, for which groups may have too many lanes.
func (g *gen) offset(n *ir.Node) vreg {
	if _, constant := constantOffset(n); constant {
		return 0
	}
	return g.val(n.Args[n.AddrArgs()-1])
}

func constantOffset(n *ir.Node) (c uint64, ok bool) {
	if !n.Mem.HasOff {
		return 0, true
	}
	return n.Args[n.AddrArgs()-1].Const()
}

// spreadOffsets stores what offset gave, and laneOffset loads a lane's to RAX.
func (e *encoder) spreadOffsets(v vreg, vl int) {
	if v != 0 {
		e.spread(v, 0, vl)
	}
}

func (e *encoder) laneOffset(n *ir.Node, v vreg) {
	switch c, _ := constantOffset(n); {
	case v != 0:
		e.Load(x86.W64, x86.RAX, lane(0, 8))
	case c != 0:
		e.MovImm(x86.RAX, c)
	default:
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
	}
}

// checked leads RAX, an offset, to the access's address, or to stray if that is
// outside of the slot.
func (e *encoder) checked(n *ir.Node, p *program, stray x86.Label) {
	if n.Mem.Offset != 0 {
		e.MovImm(regT, uint64(n.Mem.Offset))
		e.Op(x86.ADD, x86.W64, x86.RAX, regT)
		e.Jcc(x86.O, stray)
	}
	e.inSlot(n, p, regT, int32(n.Type.Size()), stray)
}

// inSlot leads RAX from an access's offset, its constant part included, to the address, or to stray if the slot does not have
// so many bytes from there on. temp is changed.
func (e *encoder) inSlot(n *ir.Node, p *program, temp x86.Reg, bytes int32, stray x86.Label) {
	at := p.lay.slots + int32(slotBytes*n.Mem.Slot)
	e.Test(x86.W64, x86.RAX, x86.RAX)
	e.Jcc(x86.S, stray)
	e.Lea(temp, x86.At(x86.RAX, bytes))
	e.OpMem(x86.CMP, x86.W64, temp, x86.At(regArgs, at+slotReach))
	e.Jcc(x86.A, stray)
	e.OpMem(x86.ADD, x86.W64, x86.RAX, x86.At(regArgs, at+slotBase))
}

// inside does with the element of lane RCX, whose offset RAX has, what fn does with its address there, or notes that it strays.
func (e *encoder) inside(n *ir.Node, p *program, group int32, fn func()) {
	stray, done := e.NewLabel(), e.NewLabel()
	e.checked(n, p, stray)
	fn()
	e.Jmp(done)
	e.Bind(stray)
	e.Mov(x86.W64, regT, x86.RAX)
	e.note(n, isa.FaultAccess, group, true)
	e.Bind(done)
}

func (g *gen) loadBytes(n *ir.Node) {
	if n.Mem.Mode != isa.AddrByte {
		g.fail(n, chosenSlot)
		return
	}
	t, p, lanes, group := g.moved(n), g.p, g.lanes, int32(g.u*g.lanes)
	size, w := g.regSize(t), x86.Width(t.Size())
	d, vl, wide := g.newReg(classVec), g.vl(size), g.vl(8)
	same := g.same(n.Result())
	g.inner(d, g.offset(n), g.m, 0, func(e *encoder, in *inst) {
		e.spreadOffsets(in.a, wide)
		e.clearScratch(2, vl)
		one := func() {
			e.laneOffset(n, in.a)
			e.inside(n, p, group, func() {
				from := x86.At(x86.RAX, 0)
				if t.Signed() && w < x86.W32 {
					e.LoadSigned(w, x86.RAX, from)
				} else {
					e.Load(w, x86.RAX, from)
				}
				e.Store(x86.Width(size), lane(2, size), x86.RAX)
			})
		}
		if same {
			e.MovImm(x86.RCX, 0) // a lane, also where none runs
		}
		if same && in.b == 0 {
			one()
		} else {
			e.eachLane(in.b, lanes, one)
		}
		r := e.out(in.d, 0)
		if same { // what the lane that was last has is for all, whichever run
			e.Load(x86.Width(size), x86.RAX, lane(2, size))
			e.spreadGPR(r, x86.RAX, size, vl)
		} else {
			e.Emit(x86.MovUPS, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(2))})
		}
		e.done(in.d, r)
	})
	g.set(n.Result(), g.fromBits(t, d))
}

func (g *gen) storeBytes(n *ir.Node) {
	if n.Mem.Mode != isa.AddrByte {
		g.fail(n, chosenSlot)
		return
	}
	t, p, lanes, group := g.moved(n), g.p, g.lanes, int32(g.u*g.lanes)
	size, w := g.regSize(t), x86.Width(t.Size())
	v := g.toBits(t, g.val(n.Args[n.AddrArgs()]))
	vl, wide := g.vl(size), g.vl(8)
	g.inner(0, g.offset(n), g.m, v, func(e *encoder, in *inst) {
		e.spreadOffsets(in.a, wide)
		e.spread(in.c, 2, vl)
		e.eachLane(in.b, lanes, func() {
			e.laneOffset(n, in.a)
			e.inside(n, p, group, func() {
				e.Load(x86.Width(size), regT, lane(2, size))
				e.Store(w, x86.At(x86.RAX, 0), regT)
			})
		})
	})
}
