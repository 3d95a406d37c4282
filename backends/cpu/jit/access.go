package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Loads and stores by byte addresses that step evenly along the lanes. One check
// serves all groups that code is written for together. Where all their elements
// lie side by side and inside of the slot they are accessed in place, as vectors;
// otherwise a lane at a time, by way of a buffer in the frame.

// stepOf returns an access's head, or constant, and by how much lanes differ.
func (g *gen) stepOf(n *ir.Node) (head operand, step int64) {
	if !n.Mem.HasOff {
		return operand{}, 0
	}
	v := n.Args[n.AddrArgs()-1]
	if x := g.linear(v); x != nil {
		step = x.step
	}
	return g.operand(v), step
}

func (g *gen) loadLinear(n *ir.Node) {
	t := g.moved(n)
	size := t.Size()
	_, step := g.stepOf(n)
	if d := g.ahead[n]; d != 0 {
		g.places[n] = d
	} else if g.u == g.lo {
		g.places[n] = g.address(n)
	}
	m := &mref{base: g.places[n]}
	if spaced(step, size) {
		g.set(n.Result(), g.loadSpaced(n, t, step))
		return
	}
	if step == 0 {
		if g.u > g.lo {
			g.set(n.Result(), g.vals[g.lo][n.Result().ID])
			return
		}
		g.set(n.Result(), g.loadSingle(t, m))
		return
	}
	m.indexed, m.scale, m.disp = true, uint8(size), int32(g.u*g.lanes*size)
	if inOrder(n) {
		g.askPage(m)
	}
	if g.regSize(t) < 4 {
		g.set(n.Result(), g.loadPacked(t, m, 0))
		return
	}
	d := g.newReg(classVec)
	g.add(inst{f: loadForm(t), vl: g.vl(g.regSize(t)), d: d, mem: m})
	g.set(n.Result(), g.loaded(t, d))
}

func (g *gen) storeLinear(n *ir.Node) {
	t := g.moved(n)
	size := t.Size()
	v := g.val(n.Args[n.AddrArgs()])
	_, step := g.stepOf(n)
	if step == 0 && g.same(n.Args[n.AddrArgs()]) {
		g.storeOnce(n, v)
		return
	}
	if step != int64(size) {
		if s := g.sides[n]; s != nil && g.m == 0 {
			g.storeSide(s, n)
		} else {
			g.storeApart(n, v, 0)
		}
		return
	}
	if g.u == g.lo {
		g.places[n] = g.address(n)
	}
	m := &mref{base: g.places[n], indexed: true, scale: uint8(size), disp: int32(g.u * g.lanes * size)}
	if inOrder(n) {
		g.askPage(m)
	}
	g.storeAs(t, m, v)
	if g.u == g.hi-1 {
		g.flush(n)
	}
}

// storeOnce stores what all lanes that run store to one place, as a row's sum: by way of the frame, as where lanes
// differ, it was a vector there, for whose last step loads of the next row waited that lie alike in their page.
func (g *gen) storeOnce(n *ir.Node, v vreg) {
	head, _ := g.stepOf(n)
	t, p, lanes, group := g.moved(n), g.p, g.lanes, int32(g.u*g.lanes)
	from := pair{x86.MovDTo, x86.MovQTo}.of(max(g.regSize(t), 4))
	g.inner(0, head.reg, g.m, g.toBits(t, v), func(e *encoder, in *inst) {
		stray, over := e.NewLabel(), e.NewLabel()
		if in.b != 0 {
			e.testAny(in.b)
			e.Jcc(x86.E, over)
		}
		e.headOrZero(x86.RAX, head)
		e.checked(n, p, stray)
		e.Emit(from, x86.Inst{VL: 16, D: e.vec(in.c, 0, 16), B: regT})
		e.Store(x86.Width(t.Size()), x86.At(x86.RAX, 0), regT)
		e.Bind(over)
		e.later(in, func() {
			e.Bind(stray)
			e.noteFirst(n, in.b, lanes, group)
			e.Jmp(over)
		})
	})
}

// laneOffsetOf puts the offset of lane RCX of the groups from the given lane on
// into RAX, less the constant part.
func (e *encoder) laneOffsetOf(head operand, step int64, group int32) {
	if step == 0 {
		e.headOrZero(x86.RAX, head)
		return
	}
	e.Lea(x86.RAX, x86.Mem{Base: regIndex, Index: x86.RCX, Scale: 1, Disp: group})
	if step != 1 {
		e.MovImm(regT, uint64(step))
		e.IMul(x86.W64, x86.RAX, regT)
	}
	e.headOrZero(regT, head)
	e.Op(x86.ADD, x86.W64, x86.RAX, regT)
}

func (e *encoder) headOrZero(r x86.Reg, head operand) {
	if head == (operand{}) {
		e.Op(x86.XOR, x86.W32, r, r)
		return
	}
	e.loadOperand(r, head)
}

// apart runs fn for each lane of some groups, with RAX its element's address, in
// those of mask m, 0 being all, where that is inside of the slot. RCX is the lane.
// begin runs for each lane before that.
func (e *encoder) apart(n *ir.Node, p *program, head operand, step int64, m vreg, group, count int, begin, fn func()) {
	if m != 0 {
		e.maskBits(x86.RDX, m, count)
	}
	again, next := e.NewLabel(), e.NewLabel()
	e.Op(x86.XOR, x86.W32, x86.RCX, x86.RCX)
	e.Bind(again)
	begin()
	if m != 0 {
		e.Mov(x86.W32, x86.RAX, x86.RDX)
		e.ShiftImm(5, x86.W64, x86.RDX, 1)
		e.OpImm(x86.AND, x86.W32, x86.RAX, 1)
		e.Jcc(x86.E, next)
	}
	e.laneOffsetOf(head, step, int32(group))
	e.inside(n, p, int32(group), fn)
	e.Bind(next)
	e.OpImm(x86.ADD, x86.W32, x86.RCX, 1)
	e.OpImm(x86.CMP, x86.W32, x86.RCX, int32(count))
	e.Jcc(x86.B, again)
}

// address gives the place that lane 0 of the block has, or would have, of the
// elements of a load or store, for the groups that code is written for together.
func (g *gen) address(n *ir.Node) vreg {
	head, step := g.stepOf(n)
	p, size, group := g.p, n.Type.Size(), g.lo*g.lanes
	count := (g.hi - g.lo) * g.lanes
	apart := int64(size) // in the buffer
	if spaced(step, size) {
		apart = step
	}
	buffer := g.reserve(count*int(apart) + 8)
	flag := buffer + int32(count*int(apart))
	g.flags[n] = buffer
	if step == 0 {
		return g.addressOfOne(n, head, buffer)
	}
	writes, kept, d := n.Op == ir.Op(isa.STG), g.kept[n.Mem.Slot], g.newReg(classGPR)
	g.add(inst{d: d, a: head.reg, b: g.m, c: kept.base, k: kept.reach, inner: true, emit: func(e *encoder, in *inst) {
		slowly := func() {
			if writes {
				e.StoreImm(x86.W32, x86.At(regArgs, flag), 1)
			} else {
				e.collect(n, p, head, step, in.b, group, count, apart, buffer)
			}
			e.MovImm(x86.RAX, uint64(-apart))
			e.IMul(x86.W64, x86.RAX, regIndex)
			e.Lea(x86.RAX, x86.Mem{Base: regArgs, Index: x86.RAX, Scale: 1, Disp: buffer - int32(group)*int32(apart)})
			e.putGPR(in.d, x86.RAX)
		}
		if step != apart {
			slowly()
			return
		}
		slow, done, offset := e.NewLabel(), e.NewLabel(), int32(n.Mem.Offset)
		from := x86.RAX
		if head.reg != 0 {
			from = e.gpr(head.reg, x86.RAX)
		} else {
			e.headOrZero(x86.RAX, head)
		}
		if step == int64(size) {
			e.Lea(regT, x86.Mem{Base: from, Index: regIndex, Scale: uint8(size), Disp: offset + int32(group*size)})
		} else {
			e.MovImm(x86.RCX, uint64(step))
			e.Lea(regT, x86.At(regIndex, int32(group)))
			e.IMul(x86.W64, regT, x86.RCX)
			e.Lea(regT, x86.Mem{Base: from, Index: regT, Scale: 1, Disp: offset})
		}
		e.reachFrom(in, n, p, from, x86.At(regT, int32(count-1)*int32(step)+int32(size)), slow)
		if writes {
			e.StoreImm(x86.W32, x86.At(regArgs, flag), 0)
		}
		e.Bind(done)
		e.later(in, func() {
			e.Bind(slow)
			slowly()
			e.Jmp(done)
		})
	}})
	return d
}

// addressOfOne is address where all lanes access one element: where that would stray, a zero in the buffer.
func (g *gen) addressOfOne(n *ir.Node, head operand, buffer int32) vreg {
	d, p, group, count := g.newReg(classGPR), g.p, int32(g.lo*g.lanes), (g.hi-g.lo)*g.lanes
	g.inner(d, head.reg, g.m, 0, func(e *encoder, in *inst) {
		stray, done := e.NewLabel(), e.NewLabel()
		e.headOrZero(x86.RAX, head)
		e.checked(n, p, stray)
		e.Jmp(done)
		e.Bind(stray)
		e.noteFirst(n, in.b, count, group)
		e.StoreImm(x86.W64, x86.At(regArgs, buffer), 0)
		e.Lea(x86.RAX, x86.At(regArgs, buffer))
		e.Bind(done)
		e.putGPR(in.d, x86.RAX)
	})
	return d
}

// collect loads some groups' elements, a lane at a time, to a buffer in which they lie apart; zero where no lane runs, or it strays.
func (e *encoder) collect(n *ir.Node, p *program, head operand, step int64, m vreg, group, count int, apart int64, buffer int32) {
	w := x86.Width(n.Type.Size())
	put := func() {
		e.MovImm(regT, uint64(apart))
		e.IMul(x86.W64, regT, x86.RCX)
		e.Store(w, x86.Mem{Base: regArgs, Index: regT, Scale: 1, Disp: buffer}, x86.RAX)
	}
	e.apart(n, p, head, step, m, group, count, func() {
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
		put()
	}, func() {
		e.Load(w, x86.RAX, x86.At(x86.RAX, 0))
		put()
	})
}

// reachFrom makes d the place of an access whose head a register has, if the slot has what lies from R11's number
// to end; else it goes to stray.
func (e *encoder) reachFrom(in *inst, n *ir.Node, p *program, head x86.Reg, end x86.Mem, stray x86.Label) {
	at := p.lay.slots + int32(slotBytes*n.Mem.Slot)
	e.Test(x86.W64, regT, regT)
	e.Jcc(x86.S, stray)
	e.Lea(regT, end)
	e.opSlot(x86.CMP, regT, in.k, at+slotReach)
	e.Jcc(x86.A, stray)
	e.placeInSlot(in, head, int32(n.Mem.Offset), at+slotBase)
}

// loadsInOrder reports whether a node loads elements that lie as lanes do, from a place in a register on.
func (g *gen) loadsInOrder(n *ir.Node) (head operand, ok bool) {
	if n.Op != ir.Op(isa.LDG) || !g.p.linearAccess(g.lin, n) {
		return head, false
	}
	head, step := g.stepOf(n)
	return head, step == int64(n.Type.Size()) && head.reg != 0
}

// placesAhead finds where a segment's loads along memory are before the loop over its groups, with one
// check for all of these; where an element of a block would stray, it goes to stray, for code that
// checks as it goes. It reports whether there are such loads. The checks in the loop took 1.15 of
// the time of what comes from memory: reads of the frame between those of several rows.
func (g *gen) placesAhead(s *segment, stray x86.Label) bool {
	g.ahead = map[*ir.Node]vreg{}
	for _, n := range s.nodes {
		head, ok := g.loadsInOrder(n)
		if !ok {
			continue
		}
		if v := n.Args[n.AddrArgs()-1].Node; v == nil || slices.Contains(s.nodes, v) && !g.early[v] {
			continue
		}
		g.ahead[n] = g.placeAhead(n, head.reg, 0, g.shape.block*n.Type.Size(), stray)
	}
	return len(g.ahead) > 0
}

// noteFirst notes that an access at RAX strays in the first lane of a group that its mask has, if it has one.
func (e *encoder) noteFirst(n *ir.Node, mask vreg, lanes int, group int32) {
	e.Mov(x86.W64, regT, x86.RAX)
	if mask != 0 {
		e.maskBits(x86.RCX, mask, lanes)
		e.Cnt(x86.TZCNT, x86.W64, x86.RCX, x86.RCX)
	} else {
		e.Op(x86.XOR, x86.W32, x86.RCX, x86.RCX)
	}
	e.note(n, isa.FaultAccess, group, true)
}

// placeAhead is where an access's elements lie from the block's first lane on. The slot has so many bytes from there on,
// or, if rest is one, the elements of as many lanes as it says from regIndex on: else it goes to stray.
func (g *gen) placeAhead(n *ir.Node, head, rest vreg, bytes int, stray x86.Label) vreg {
	p, offset, size, kept, d := g.p, int32(n.Mem.Offset), uint8(n.Type.Size()), g.kept[n.Mem.Slot], g.newReg(classGPR)
	g.add(inst{d: d, a: head, b: rest, c: kept.base, k: kept.reach, emit: func(e *encoder, in *inst) {
		from := e.gpr(in.a, x86.RAX)
		first, end := x86.At(from, offset), x86.At(regT, int32(bytes))
		if in.b != 0 {
			first.Index, first.Scale = regIndex, size
			end = x86.Mem{Base: regT, Index: e.gpr(in.b, x86.RCX), Scale: size}
		}
		e.Lea(regT, first)
		e.reachFrom(in, n, p, from, end, stray)
	}})
	return d
}

// rowsNext finds where what comes after segment i loads along memory, which that asks for meanwhile:
// the rows of the next segment or, after the last one, those that the next block begins with, if
// it lies behind this one. It finds none if something in either segment has to come before.
func (g *gen) rowsNext(i int) (rows []*mref) {
	late := func(n *ir.Node) bool { return g.headOf(n) != nil && !g.early[n] }
	s, next, on := &g.p.blocks.segments[i], &g.p.blocks.segments[0], int32(g.shape.block)
	if i+1 < len(g.p.blocks.segments) {
		next, on = &g.p.blocks.segments[i+1], 0
		if slices.ContainsFunc(s.nodes, late) || slices.ContainsFunc(next.nodes, func(n *ir.Node) bool { return late(n) && n.CanFault() }) {
			return nil
		}
		g.headsOf(next)
	}
	for _, n := range next.nodes {
		head, ok := g.loadsInOrder(n)
		if !ok {
			continue
		}
		size := n.Type.Size()
		base, offset := g.p.lay.slots+int32(slotBytes*n.Mem.Slot)+slotBase, int32(n.Mem.Offset)+on*int32(size)
		d := g.newReg(classGPR)
		g.special(d, head.reg, 0, 0, func(e *encoder, in *inst) {
			e.placeInSlot(in, e.gpr(in.a, x86.RAX), offset, base)
		})
		rows = append(rows, &mref{base: d, indexed: true, scale: uint8(size)})
	}
	return rows
}

// askRows asks for the lines of rows that the groups at hand will come to.
func (g *gen) askRows(rows []*mref) {
	for _, m := range rows {
		ahead := *m
		if ahead.disp = int32(g.u * g.lanes * int(m.scale)); ahead.disp%cacheLine == 0 {
			g.add(inst{mem: &ahead, inner: true, emit: func(e *encoder, in *inst) { e.PrefetchL2(e.memory(in.mem, x86.RAX)) }})
		}
	}
}

// flush stores what a store left in its buffer, if it went there.
func (g *gen) flush(n *ir.Node) {
	head, step := g.stepOf(n)
	p, size, group := g.p, n.Type.Size(), g.lo*g.lanes
	count := (g.hi - g.lo) * g.lanes
	w, buffer := x86.Width(size), g.flags[n]
	g.inner(0, head.reg, g.m, 0, func(e *encoder, in *inst) {
		over := e.NewLabel()
		e.OpMemImm(x86.CMP, x86.W32, x86.At(regArgs, buffer+int32(count*size)), 0)
		e.Jcc(x86.E, over)
		e.apart(n, p, head, step, in.b, group, count, func() {}, func() {
			e.Load(w, regT, x86.Mem{Base: regArgs, Index: x86.RCX, Scale: uint8(size), Disp: buffer})
			e.Store(w, x86.At(x86.RAX, 0), regT)
		})
		e.Bind(over)
	})
}
