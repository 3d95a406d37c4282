package jit

import (
	"encoding/binary"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Tables of the program, looked up by an index for each lane: small ones by permuting the
// vectors that they are, others by a gather.

// lookUp is LDC. The table lies behind the code, in the form of registers.
func lookUp(g *gen, n *ir.Node) {
	size := g.regSize(n.Type)
	label, ok := g.data[n.Imm]
	values := g.p.fn.Data[n.Imm].Values
	if !ok {
		b := make([]byte, 0, len(values)*size+g.t.bytes)
		for _, c := range values {
			v := registerForm(n.Type, c)
			if size == 8 {
				b = binary.LittleEndian.AppendUint64(b, v)
			} else {
				b = binary.LittleEndian.AppendUint32(b, uint32(v))
			}
		}
		label = g.table(b[:cap(b)]) // whole vectors are loaded of it
		g.data[n.Imm] = label
	}
	index := n.Args[0]
	x := g.val(index)
	from := g.regSize(index.Type)
	inside := vreg(0)
	if n.CanFault() || !g.picks(size, len(values)) {
		inside = g.cmpI(unsignedOf[from], x, g.number(from, uint64(len(values))), isa.LT)
	}
	if n.CanFault() {
		g.fault(n, isa.FaultAccess, g.maskNot(inside), x, index.Type)
	}
	// Lanes that don't run look up too: what is the same in all that do is taken from any.
	if g.picks(size, len(values)) {
		if bytes := len(values) * size; inside == 0 && (bytes == g.vl(size) || bytes == g.pickedAtOnce()*g.vl(size)) {
			x = g.val(unmaskedIndex(index, len(values)))
		}
		switch {
		case from > size:
			x = g.lowHalves(x)
		case from < size:
			x = g.op1(x86.ZxDQ, 8, x)
		}
		g.set(n.Result(), g.pick(size, len(values), label, x, inside))
		return
	}
	if from == 8 {
		x = g.lowHalves(x)
	}
	g.set(n.Result(), g.gather(size, label, x, inside))
}

// unmaskedIndex is x of an index x & (count-1) into a table of a power of two: where it fills the
// vectors that are permuted, they look at no more of the bits.
func unmaskedIndex(index *ir.Value, count int) *ir.Value {
	n := index.Node
	if n == nil || n.Op != ir.Op(isa.AND) || count&(count-1) != 0 {
		return index
	}
	for i, a := range n.Args {
		if c, ok := a.Const(); ok && c == uint64(count-1) {
			return n.Args[1-i]
		}
	}
	return index
}

// picks says whether a table of so many numbers is looked up by permuting its vectors, which
// takes a fraction of a gather's time: with AVX-512 of one, two, or four, with AVX2 of one or two.
func (g *gen) picks(size, count int) bool {
	most := 4
	if !g.t.evex {
		if most = 2; size != 4 {
			return false
		}
	}
	return size >= 4 && count*size <= most*g.vl(size) && g.vl(size) >= 32
}

// pickedAtOnce is how many vectors one instruction permutes.
func (g *gen) pickedAtOnce() int {
	if g.t.evex {
		return 2
	}
	return 1
}

// pick looks a table up at the indices x, which are as wide as its numbers, in the lanes of m,
// 0 being all; others get 0.
func (g *gen) pick(size, count int, label x86.Label, x, m vreg) vreg {
	vl := g.vl(size)
	at := func(i int) *mref { return &mref{label: label, disp: int32(i * vl)} }
	step := g.pickedAtOnce()
	of := func(first int) vreg { // the vectors from there on
		d := g.newReg(classVec)
		if step == 1 || count*size <= (first+1)*vl {
			g.add(inst{f: permuteV.of(size), vl: vl, d: d, a: x, mem: at(first)})
			return d
		}
		g.add(inst{f: loadV.of(size), vl: vl, d: d, mem: at(first)})
		g.add(inst{f: pair{x86.PermD2, x86.PermQ2}.of(size), vl: vl, d: d, a: x, mem: at(first + 1), merge: true})
		return d
	}
	d := of(0)
	for first := step; first*vl < count*size; first += step {
		// No index that counts is as large as to be negative.
		g.blendSize(size, d, of(first), g.cmpI(signedOf[size], x, g.number(size, uint64(first*vl/size-1)), isa.GT))
	}
	if m == 0 {
		return d
	}
	if !g.t.evex {
		return g.op2(x86.And, size, d, g.narrowMask(size, m))
	}
	r := g.newReg(classVec)
	g.add(inst{f: copyV.of(size), vl: vl, d: r, b: d, k: m, zero: true})
	return r
}

// gather looks a table up at the 32-bit indices x in the lanes of m; others get 0.
func (g *gen) gather(size int, label x86.Label, x, m vreg) vreg {
	d := g.newReg(classVec)
	vl := g.vl(size)
	f := pair{x86.GatherDD, x86.GatherDQ}
	zero := x86.XorD
	if !g.t.evex {
		f, zero = pair{x86.VGatherDD, x86.VGatherDQ}, x86.Xor
		m = g.narrowMask(size, m)
	}
	g.add(inst{d: d, a: x, k: m, early: true, emit: func(e *encoder, in *inst) {
		// What gathers read and write must be different registers, and they
		// use the mask up.
		r, t := e.out(in.d, 0), e.t.temps[1]
		e.Lea(x86.RAX, x86.Mem{Label: label})
		mem := x86.Mem{Base: x86.RAX, Index: x86.None, Scale: uint8(size)}
		if e.t.evex {
			mem.Index = e.vec(in.a, 1, vl)
			e.Emit(x86.KMovQ, x86.Inst{VL: 16, D: maskTemp1, B: e.mask(in.k, maskTemp1)})
			e.Emit(zero, x86.Inst{VL: vl, D: r, A: r, B: r})
			e.Emit(f.of(size), x86.Inst{VL: vl, D: r, IsMem: true, Mem: mem, K: maskTemp1})
			e.done(in.d, r)
			return
		}
		index := e.info[in.a].reg
		if index == x86.None || e.info[in.d].reg == x86.None { // three registers, two temporaries
			e.gatherSlowly(in, r, size, label, vl)
			return
		}
		if s := e.info[in.k].reg; s != x86.None {
			e.move(t, s, vl)
		} else {
			e.loadTo(t, &e.info[in.k], vl)
		}
		mem.Index = index
		e.Emit(zero, x86.Inst{VL: vl, D: r, A: r, B: r})
		e.Emit(f.of(size), x86.Inst{VL: vl, D: r, A: t, IsMem: true, Mem: mem})
		e.done(in.d, r)
	}})
	return d
}

// gatherSlowly is gather for operands that are in memory.
func (e *encoder) gatherSlowly(in *inst, r x86.Reg, size int, label x86.Label, vl int) {
	e.spread(in.a, 0, e.t.bytes)
	e.spread(in.k, 1, e.t.bytes)
	e.Lea(regT, x86.Mem{Label: label})
	e.MovImm(x86.RCX, uint64(vl/size-1))
	again, none, store := e.NewLabel(), e.NewLabel(), e.NewLabel()
	w := x86.Width(size)
	e.Bind(again)
	e.Load(w, x86.RAX, lane(1, size))
	e.Test(w, x86.RAX, x86.RAX)
	e.Jcc(x86.E, none)
	e.Load(x86.W32, x86.RAX, lane(0, 4))
	e.Load(w, x86.RAX, x86.Mem{Base: regT, Index: x86.RAX, Scale: uint8(size)})
	e.Jmp(store)
	e.Bind(none)
	e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
	e.Bind(store)
	e.Store(w, lane(2, size), x86.RAX)
	e.OpImm(x86.SUB, x86.W32, x86.RCX, 1)
	e.Jcc(x86.NS, again)
	e.Emit(x86.MovUPS, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(2))})
	e.done(in.d, r)
}
