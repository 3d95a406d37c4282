package jit

import (
	"cmp"
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Stores to places side by side, of elements that lie apart, as those of a short row that
// is a lane's: together they fill all that is between. So the vectors that a group's
// elements make are put together in registers and stored whole, where each store by itself
// would write every vector under a mask.

// sides are such stores of a straight stretch.
type sides struct {
	stores      []*ir.Node // by place
	first, last *ir.Node   // in the stretch: finds out where to, and does it for all
	to          map[int]vreg
}

// sidesOf finds them. What they are put off behind are loads beside them, and what can't
// fault and has nothing to do with memory.
func (g *gen) sidesOf(nodes []*ir.Node) {
	var run []*ir.Node
	end := func() {
		if len(run) < 2 {
			run = nil
			return
		}
		first, t := run[0], g.moved(run[0])
		s := &sides{first: first, last: run[len(run)-1], stores: run, to: map[int]vreg{}}
		run = nil
		slices.SortFunc(s.stores, func(a, b *ir.Node) int { return cmp.Compare(a.Mem.Offset, b.Mem.Offset) })
		if _, step := g.stepOf(first); step != int64(len(s.stores)*t.Size()) || !g.t.evex || !g.permuted(t, step) {
			return
		}
		for i, n := range s.stores {
			if n.Mem.Slot != first.Mem.Slot || n.Args[n.AddrArgs()-1] != first.Args[first.AddrArgs()-1] || g.moved(n) != t ||
				n.Mem.Offset != s.stores[0].Mem.Offset+int64(i*t.Size()) || g.same(n.Args[n.AddrArgs()]) {
				return
			}
		}
		for _, n := range s.stores {
			g.sides[n] = s
		}
	}
	for _, n := range nodes {
		switch {
		case n.Op == ir.Op(isa.STG) && n.Mem.HasOff && g.p.linearAccess(g.lin, n):
			run = append(run, n)
		case n.Op == ir.Op(isa.LDG) && n.Mem.HasOff && g.p.linearAccess(g.lin, n) && g.beside(n, run):
		case n.Op != ir.Const && (!pure(n) || g.headOf(n) != nil):
			end()
		}
	}
	end()
}

// beside reports whether no lane loads what stores do, even if it is from the same memory.
func (g *gen) beside(load *ir.Node, stores []*ir.Node) bool {
	for _, n := range stores {
		between := max(load.Mem.Offset-n.Mem.Offset, n.Mem.Offset-load.Mem.Offset)
		if between < int64(load.Type.Size()) || !g.apartFrom(n, []*ir.Node{load}) {
			return false
		}
	}
	return true
}

// weave is how vectors are put together of those of stores.
type weave struct {
	index []vreg   // by vector: the lanes whose elements it has
	masks [][]vreg // by vector, and by store from the second on: where its elements are
}

func (g *gen) weaveOf(size, apart int) *weave {
	key := [2]int{size, apart}
	if w := g.weaves[key]; w != nil {
		return w
	}
	w := &weave{}
	g.weaves[key] = w
	once := g.once
	g.once = true
	found := map[uint64]vreg{}
	for j := range apart {
		d := g.newReg(classVec)
		g.add(inst{f: x86.MovUPS, vl: g.vl(size), d: d, mem: &mref{label: g.indices(size, func(at int) int { return (j*g.lanes + at) / apart })}})
		w.index = append(w.index, d)
		masks := make([]vreg, apart)
		for c := 1; c < apart; c++ {
			bits := uint64(0)
			for at := range g.lanes {
				if (j*g.lanes+at)%apart == c {
					bits |= 1 << at
				}
			}
			if masks[c] = found[bits]; masks[c] == 0 {
				masks[c] = g.maskOf(bits)
				found[bits] = masks[c]
			}
		}
		w.masks = append(w.masks, masks)
	}
	g.once = once
	return w
}

// storeSide does what store n has to: nothing before the last, unless not all of a group's
// elements are inside of the slot, where each does its own.
func (g *gen) storeSide(s *sides, n *ir.Node) {
	if n == s.first {
		s.to[g.u] = g.sidesTo(s)
	}
	to := s.to[g.u]
	g.storeApart(n, g.val(n.Args[n.AddrArgs()]), to)
	if n != s.last {
		return
	}
	t, apart := g.moved(n), len(s.stores)
	size, vl := t.Size(), g.vl(t.Size())
	w := g.weaveOf(size, apart)
	for j := range apart {
		d := g.newReg(classVec)
		for c, n := range s.stores {
			in := inst{f: permuteV.of(size), vl: vl, d: d, a: w.index[j], b: g.toBits(t, g.val(n.Args[n.AddrArgs()]))}
			if c > 0 {
				in.k, in.merge = w.masks[j][c], true
			}
			g.add(in)
		}
		g.inner(0, to, 0, d, func(e *encoder, in *inst) {
			over, r := e.NewLabel(), e.gpr(in.a, x86.RAX)
			e.Test(x86.W64, r, r)
			e.Jcc(x86.E, over)
			e.Emit(storeV.of(size), x86.Inst{VL: vl, D: e.vec(in.c, 0, vl), IsMem: true, Mem: x86.At(r, int32(j*vl))})
			e.Bind(over)
		})
	}
}

// sidesTo is where a group's elements go; 0 if not all are inside.
func (g *gen) sidesTo(s *sides) vreg {
	n := s.stores[0]
	head, step := g.stepOf(n)
	p, at, end := g.p, n.Mem.Offset+int64(g.u*g.lanes)*step, int32(g.lanes)*int32(step)
	to := g.newReg(classGPR)
	g.inner(to, head.reg, 0, 0, func(e *encoder, in *inst) {
		astray, done := e.NewLabel(), e.NewLabel()
		e.headOrZero(regT, head)
		e.MovImm(x86.RAX, uint64(step))
		e.IMul(x86.W64, x86.RAX, regIndex)
		e.Op(x86.ADD, x86.W64, x86.RAX, regT)
		e.Lea(x86.RAX, x86.At(x86.RAX, int32(at)))
		e.inSlot(n, p, x86.RCX, end, astray)
		e.Jmp(done)
		e.Bind(astray)
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
		e.Bind(done)
		e.putGPR(in.d, x86.RAX)
	})
	return to
}
