package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Loads and stores of elements that lie apart by the same step, as those of short rows
// do. Where few others lie between them, the vectors in which they are are permuted;
// else they are moved one by one.

// spaced reports whether elements lie apart, but not far.
func spaced(step int64, size int) bool { return step > int64(size) && step <= 512 }

// mostApart is up to how many elements' sizes apart they are permuted.
const mostApart = 8

// permuted reports whether elements of type t that are step bytes apart are permuted:
// where a group of them would fill one vector.
func (g *gen) permuted(t isa.Type, step int64) bool {
	size := t.Size()
	return spaced(step, size) && step%int64(size) == 0 && step <= mostApart*int64(size) && size == g.regSize(t) &&
		(size == 4 || size == 8 && g.t.evex) && g.lanes*size >= 32
}

// comb is how loads take a group's elements out of several vectors.
type comb struct {
	index, last vreg   // which elements of the vectors, of the last one others
	masks       []vreg // which lanes have theirs in a vector, from the second on; of AVX-512
}

// combOf is that for elements so many of their size apart, made once. The last vector
// ends with the group's last element, so that nothing behind that is touched.
func (g *gen) combOf(size, apart int) *comb {
	key := [2]int{size, apart}
	if c := g.combs[key]; c != nil {
		return c
	}
	c := &comb{index: g.newReg(classVec), last: g.newReg(classVec)}
	g.combs[key] = c
	once := g.once
	g.once = true
	for i, d := range []vreg{c.index, c.last} {
		g.add(inst{f: x86.MovUPS, vl: g.vl(size), d: d, mem: &mref{label: g.indices(size, func(lane int) int { return (lane*apart + i*(apart-1)) % g.lanes })}})
	}
	for j := 1; j < apart && g.t.evex; j++ {
		c.masks = append(c.masks, g.maskOf(g.within(j, apart)))
	}
	g.once = once
	return c
}

// spacedFrom is where the elements of the groups begin that regIndex is at, if the
// block's first is at from.
func (g *gen) spacedFrom(from vreg, step int64) vreg {
	d := g.newReg(classGPR)
	g.pure(d, from, 0, 0, func(e *encoder, in *inst) {
		e.MovImm(x86.RAX, uint64(step))
		e.IMul(x86.W64, x86.RAX, regIndex)
		e.Op(x86.ADD, x86.W64, x86.RAX, e.gpr(in.a, regT))
		e.putGPR(in.d, x86.RAX)
	})
	return d
}

// within has a bit for each lane whose element is in vector j of those that elements so
// many apart are in.
func (g *gen) within(j, apart int) (bits uint64) {
	for lane := range g.lanes {
		if lane*apart/g.lanes == j {
			bits |= 1 << lane
		}
	}
	return bits
}

// indices is a table of a number for each lane.
func (g *gen) indices(size int, of func(lane int) int) x86.Label {
	b := make([]byte, g.lanes*size)
	for lane := range g.lanes {
		b[lane*size] = byte(of(lane))
	}
	return g.table(b)
}

// combed loads the elements of the group at hand, of the groups whose first are at from.
func (g *gen) combed(from vreg, size int, step int64) vreg {
	d, apart, vl, first := g.newReg(classVec), int(step)/size, g.vl(size), int32(g.u*g.lanes)*int32(step)
	c := g.combOf(size, apart)
	permute := permuteV.of(size)
	for j := range apart {
		in := inst{f: permute, vl: vl, d: d, a: c.index, mem: &mref{base: from, disp: first + int32(j*vl)}}
		if j == apart-1 {
			in.a, in.mem.disp = c.last, first+int32(g.lanes-1)*int32(step)+int32(size-vl)
		}
		switch {
		case j == 0:
			g.add(in)
		case g.t.evex:
			in.k, in.merge = c.masks[j-1], true
			g.add(in)
		default:
			in.d = g.newReg(classVec)
			g.add(in)
			g.add(inst{f: x86.BlendD, vl: vl, d: d, a: d, b: in.d, imm: uint8(g.within(j, apart))})
		}
	}
	return d
}

// loadSpaced loads a group's elements that are step bytes apart, the block's first
// of which would be where address says.
func (g *gen) loadSpaced(n *ir.Node, t isa.Type, step int64) vreg {
	from := g.places[n]
	if g.permuted(t, step) {
		if g.u == g.lo {
			g.begins[n] = g.spacedFrom(from, step)
		}
		return g.combed(g.begins[n], t.Size(), step)
	}
	d, size, lanes, group := g.newReg(classVec), t.Size(), g.lanes, int32(g.u*g.lanes)
	f := loadForm(t)
	if size == g.regSize(t) { // also of packed ones, which nothing extends
		f = loadV.of(size)
	}
	vl := g.vl(g.regSize(t))
	g.pure(d, from, 0, 0, func(e *encoder, in *inst) {
		e.Lea(x86.RAX, x86.At(regIndex, group))
		e.MovImm(regT, uint64(step))
		e.IMul(x86.W64, x86.RAX, regT)
		e.Op(x86.ADD, x86.W64, x86.RAX, e.gpr(in.a, regT))
		w := x86.Width(size)
		for i := range lanes {
			r := [...]x86.Reg{x86.RCX, x86.RDX}[i%2]
			e.Load(w, r, x86.At(x86.RAX, int32(i)*int32(step)))
			e.Store(w, x86.At(regArgs, scratch(2)+int32(i*size)), r)
		}
		r := e.out(in.d, 0)
		e.Emit(f, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(2))})
		e.done(in.d, r)
	})
	return g.loaded(t, d)
}

// scattered stores a group's elements of type t, in v, from RAX on, so many bytes apart:
// vector by vector, what is between them masked.
func (g *gen) scattered(t isa.Type, step int64) func(e *encoder, v x86.Reg) {
	size := t.Size()
	apart, vl := int(step)/size, g.vl(size)
	labels, masks := make([]x86.Label, apart), make([]uint64, apart)
	for j := range apart {
		labels[j] = g.indices(size, func(at int) int { return (j*g.lanes + at) / apart })
		for at := range g.lanes {
			if (j*g.lanes+at)%apart == 0 {
				masks[j] |= 1 << at
			}
		}
	}
	return func(e *encoder, v x86.Reg) {
		t := e.t.temps[1]
		for j := range apart {
			if j == 0 || masks[j] != masks[j-1] {
				e.MovImm(x86.RCX, masks[j])
				e.Emit(x86.KFromQ, x86.Inst{VL: 16, D: maskTemp1, B: x86.RCX})
			}
			e.Emit(x86.MovUPS, x86.Inst{VL: vl, D: t, IsMem: true, Mem: x86.Mem{Label: labels[j]}})
			e.Emit(permuteV.of(size), x86.Inst{VL: vl, D: t, A: t, B: v})
			e.Emit(storeV.of(size), x86.Inst{VL: vl, D: t, IsMem: true, Mem: x86.At(x86.RAX, int32(j*vl)), K: maskTemp1})
		}
	}
}

// storeApart stores a group's elements that do not lie side by side: with one check for
// all where all lanes run and they are not far apart. It does nothing if done is something
// else than 0.
func (g *gen) storeApart(n *ir.Node, v, done vreg) {
	head, step := g.stepOf(n)
	t, p, lanes, group := g.moved(n), g.p, g.lanes, g.u*g.lanes
	size, w := g.regSize(t), x86.Width(t.Size())
	bits, vl := g.toBits(t, v), g.vl(g.regSize(t))
	from := lane(2, size)
	if g.same(n.Args[n.AddrArgs()]) { // maybe in fewer elements than there are lanes
		from = x86.At(regArgs, scratch(2))
	}
	near := g.m == 0 && spaced(step, t.Size()) && done == 0
	var scattered func(e *encoder, v x86.Reg)
	if near && from.Index != x86.None && g.t.evex && g.permuted(t, step) {
		scattered = g.scattered(t, step)
	}
	mask := g.m
	if done != 0 { // by all lanes
		mask = done
	}
	g.inner(0, head.reg, mask, bits, func(e *encoder, in *inst) {
		slow, over := e.NewLabel(), e.NewLabel()
		lanesOf := in.b
		if done != 0 {
			r := e.gpr(in.b, x86.RAX)
			e.Test(x86.W64, r, r)
			e.Jcc(x86.NE, over)
			lanesOf = 0
		}
		if scattered == nil {
			e.spread(in.c, 2, vl)
		}
		if near {
			e.headOrZero(x86.RAX, head)
			e.Lea(x86.RCX, x86.At(regIndex, int32(group)))
			e.MovImm(regT, uint64(step))
			e.IMul(x86.W64, x86.RCX, regT)
			e.Lea(x86.RAX, x86.Mem{Base: x86.RAX, Index: x86.RCX, Scale: 1, Disp: int32(n.Mem.Offset)})
			e.inSlot(n, p, x86.RCX, int32(lanes-1)*int32(step)+int32(w), slow)
			if scattered != nil {
				scattered(e, e.vec(in.c, 0, vl))
			} else {
				e.oneByOne(from, lanes, int32(step), x86.Width(size), w)
			}
			e.Jmp(over)
			e.Bind(slow)
			if scattered != nil {
				e.spread(in.c, 2, vl)
			}
		}
		e.eachLane(lanesOf, lanes, func() {
			e.laneOffsetOf(head, step, int32(group))
			e.inside(n, p, int32(group), func() {
				e.Load(x86.Width(size), regT, from)
				e.Store(w, x86.At(x86.RAX, 0), regT)
			})
		})
		e.Bind(over)
	})
}

// oneByOne stores lanes' elements, which are in memory from an address on, or one for
// all, to where they lie apart from RAX on.
func (e *encoder) oneByOne(from x86.Mem, lanes int, step int32, size, w x86.Width) {
	at := from
	at.Index, at.Scale = x86.None, 1
	for i := range lanes {
		r := [...]x86.Reg{x86.RCX, regT}[i%2]
		e.Load(size, r, at)
		e.Store(w, x86.At(x86.RAX, int32(i)*step), r)
		if from.Index != x86.None {
			at.Disp += int32(size)
		}
	}
}
