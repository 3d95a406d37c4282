package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Atomic operations, a lane at a time and in the order of lanes. On memory of the launch they are the processor's
// own. What is in a block's shared memory no other thread knows of, so there nothing has to be atomic. Where an
// address is no multiple of the operand's size, the processor's may stop all others (and the system the
// process), so those take turns by a lock of the kernel's.

// findUnread fills unread.
func (p *program) findUnread() {
	uses := countUses(p.fn.Body, map[*ir.Value]int{})
	var look func(r *ir.Region)
	look = func(r *ir.Region) {
		for _, n := range r.Nodes {
			if n.Op.IsInst() && atomics[n.Op.Inst()] {
				p.unread[n] = uses[n.Result()] == 0
			}
			for _, s := range n.Regions {
				look(s)
			}
		}
	}
	look(p.fn.Body)
}

// atomics are these instructions.
var atomics = map[isa.Op]bool{
	isa.ATOM_ADD: true, isa.ATOM_MIN: true, isa.ATOM_MAX: true, isa.ATOM_AND: true, isa.ATOM_OR: true, isa.ATOM_XOR: true,
	isa.ATOM_EXCH: true, isa.ATOM_CAS: true,
}

func atomically(g *gen, n *ir.Node) {
	if n.Mem.Mode != isa.AddrByte {
		g.fail(n, chosenSlot)
		return
	}
	t, p, lanes, group, wide := n.Type, g.p, g.lanes, int32(g.u*g.lanes), g.vl(8)
	vl := g.vl(t.Size())
	in := inst{a: g.offset(n), b: g.val(n.Args[n.AddrArgs()]), k: g.m, inner: true}
	if n.Op == ir.Op(isa.ATOM_CAS) {
		in.c = g.val(n.Args[n.AddrArgs()+1])
	}
	if !p.unread[n] {
		in.d = g.newReg(classVec)
		g.set(n.Result(), in.d)
	}
	in.emit = func(e *encoder, in *inst) {
		e.spreadOffsets(in.a, wide)
		e.spread(in.b, 1, vl)
		if in.c != 0 {
			e.spread(in.c, 3, vl)
		}
		if in.d != 0 {
			e.clearScratch(2, vl)
		}
		e.eachLane(in.k, lanes, func() {
			e.laneOffset(n, in.a)
			e.inside(n, p, group, func() { e.update(in, n, n.Mem.Slot != p.shared) })
		})
		if in.d != 0 {
			r := e.out(in.d, 0)
			e.Emit(x86.MovUPS, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(2))})
			e.done(in.d, r)
		}
	}
	g.add(in)
}

// update does lane RCX's operation at the address in RAX, among other threads' if there are such.
func (e *encoder) update(in *inst, n *ir.Node, others bool) {
	size := n.Type.Size()
	done, odd := e.NewLabel(), e.NewLabel()
	e.Mov(x86.W64, regT, x86.RAX)
	if in.k != 0 {
		e.Store(x86.W64, x86.At(regArgs, argMask), x86.RDX)
	}
	if others {
		e.OpImm(x86.AND, x86.W32, x86.RAX, int32(size-1))
		e.Jcc(x86.NE, odd)
	}
	e.operate(n, in.d != 0, others)
	e.Bind(done)
	if in.k != 0 {
		e.Load(x86.W64, x86.RDX, x86.At(regArgs, argMask))
	}
	if in.d != 0 {
		e.Store(x86.Width(size), lane(2, size), x86.RAX)
	}
	if !others {
		return
	}
	e.later(in, func() {
		again := e.NewLabel()
		e.Bind(odd)
		e.Load(x86.W64, x86.RDX, x86.At(regArgs, argLock))
		e.Bind(again)
		e.MovImm(x86.RAX, 1)
		e.XChg(x86.W32, x86.At(x86.RDX, 0), x86.RAX)
		e.Test(x86.W32, x86.RAX, x86.RAX)
		e.Jcc(x86.NE, again)
		e.operate(n, in.d != 0, false)
		e.Load(x86.W64, x86.RDX, x86.At(regArgs, argLock))
		e.StoreImm(x86.W32, x86.At(x86.RDX, 0), 0)
		e.Jmp(done)
	})
}

// operate does it at the address in R11, atomically or not, and leaves what was there in RAX if somebody asks; it
// changes RDX.
func (e *encoder) operate(n *ir.Node, asked, locked bool) {
	t, op, at := n.Type, n.Op.Inst(), x86.At(regT, 0)
	size := t.Size()
	w, value := x86.Width(size), lane(1, size)
	lock := func() {
		if locked {
			e.Lock()
		}
	}
	alu, whole := map[isa.Op]x86.ALU{isa.ATOM_ADD: x86.ADD, isa.ATOM_AND: x86.AND, isa.ATOM_OR: x86.OR, isa.ATOM_XOR: x86.XOR}[op]
	switch whole = whole && t.Integer(); {
	case whole && !asked:
		e.Load(w, x86.RAX, value)
		lock()
		e.OpTo(alu, w, at, x86.RAX)
		return
	case whole && op == isa.ATOM_ADD:
		e.Load(w, x86.RAX, value)
		lock()
		e.XAdd(w, at, x86.RAX)
		return
	case op == isa.ATOM_EXCH && locked:
		e.Load(w, x86.RAX, value)
		e.XChg(w, at, x86.RAX)
		return
	case op == isa.ATOM_CAS:
		e.Load(w, x86.RAX, value)
		e.Load(w, x86.RDX, lane(3, size))
		lock()
		e.CmpXChg(w, at, x86.RDX)
		return
	}
	again := e.NewLabel()
	e.Load(w, x86.RAX, at)
	e.Bind(again)
	switch {
	case op == isa.ATOM_MIN || op == isa.ATOM_MAX:
		e.Load(w, x86.RDX, value)
		e.Op(x86.CMP, w, x86.RAX, x86.RDX)
		e.CMov(keeps(op, t), w, x86.RDX, x86.RAX)
	case op == isa.ATOM_EXCH:
		e.Load(w, x86.RDX, value)
	case whole:
		e.Mov(w, x86.RDX, x86.RAX)
		e.OpMem(alu, w, x86.RDX, value)
	default: // a sum of floats
		a, b, from, to := e.t.temps[0], e.t.temps[1], pair{x86.MovDFrom, x86.MovQFrom}.of(size), pair{x86.MovDTo, x86.MovQTo}.of(size)
		e.Emit(from, x86.Inst{VL: 16, D: a, B: x86.RAX})
		e.Load(w, x86.RDX, value)
		e.Emit(from, x86.Inst{VL: 16, D: b, B: x86.RDX})
		e.Emit(addF.of(size), x86.Inst{VL: 16, D: a, A: a, B: b})
		e.Emit(to, x86.Inst{VL: 16, D: a, B: x86.RDX})
	}
	if !locked {
		e.Store(w, at, x86.RDX)
		return
	}
	e.Lock()
	e.CmpXChg(w, at, x86.RDX)
	e.Jcc(x86.NE, again)
}

// keeps is the condition, of what was there compared with the operand, on which an extremum is what was there.
func keeps(op isa.Op, t isa.Type) x86.Cond {
	switch low := op == isa.ATOM_MIN; {
	case low && t.Signed():
		return x86.L
	case low:
		return x86.B
	case t.Signed():
		return x86.GE
	}
	return x86.AE
}
