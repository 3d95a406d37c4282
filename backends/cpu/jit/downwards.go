package jit

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// What lanes do in any order is done from the first to the last, or the other way.
//
// A processor takes a load for one of what a store before it writes if their places in a page are
// the same, and some bits of where the page lies: then the load waits. One pair of pages in 16 is so
// alike, as memory happens to be given out. Where results begin some lines behind what is read, in a
// page of their own, as arrays of whole pages do that are allocated one after the other, each store is
// followed by loads of the places that it wrote to: sums of 1,024 f32 take 220 ns in most processes and
// 320 in one of eight, so. Downwards no load comes to what was stored: it lies above. So code compares
// where results begin with where what is read does.

// alikeBytes is how far behind a store the loads are that a processor may do before it is done.
const alikeBytes = 0x340

// alikes are the pairs of slots, one written and one read, whose elements lie at the same places in pages all
// along if they begin so; none where lanes are not done in any order, or memory is waited for anyway.
func (g *gen) alikes() (pairs [][2]int) {
	p, s := g.p, &g.shape
	if !p.anyOrder || !p.level || p.loops || s.head || s.stream || s.pages {
		return nil
	}
	for w, to := range p.fn.SlotTypes {
		for r, from := range p.fn.SlotTypes {
			if r != w && p.writes>>w&1 != 0 && (p.reads&^s.single)>>r&1 != 0 && to.Size() == from.Size() {
				pairs = append(pairs, [2]int{w, r})
			}
		}
	}
	return pairs
}

// bothWays is groups for lanes in any order. What is left over beside whole rounds is done first.
func (g *gen) bothWays(unroll int, pairs [][2]int, body func(groups int, m vreg)) {
	done, main, rest, whole := g.asm.NewLabel(), g.asm.NewLabel(), g.asm.NewLabel(), g.asm.NewLabel()
	step := int32(unroll * g.lanes) // a power of two
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Mov(x86.W64, regIndex, regCount)
		e.OpImm(x86.AND, x86.W64, regIndex, -step)
		e.Op(x86.CMP, x86.W64, regIndex, regCount)
		e.Jcc(x86.E, whole)
	})
	g.groupsLeft(rest, body)
	g.bind(whole)
	stride, end := g.newReg(classGPR), g.newReg(classGPR)
	g.inner(stride, 0, 0, 0, func(e *encoder, in *inst) { g.chooseWay(e, in.d, step, pairs) })
	g.special(end, stride, 0, 0, func(e *encoder, in *inst) {
		up := e.NewLabel()
		by, d := e.gpr(in.a, x86.RAX), e.outGPR(in.d, x86.RCX)
		e.Mov(x86.W64, d, regCount)
		e.OpImm(x86.AND, x86.W64, d, -step)
		e.doneGPR(in.d, d)
		e.Jcc(x86.E, done)
		e.Op(x86.XOR, x86.W32, regIndex, regIndex)
		e.Test(x86.W64, by, by)
		e.Jcc(x86.NS, up)
		e.Mov(x86.W64, regIndex, d)
		e.OpImm(x86.SUB, x86.W64, regIndex, step)
		e.MovImm(d, uint64(-int64(step)))
		e.doneGPR(in.d, d)
		e.Bind(up)
	})
	first := g.here()
	g.bind(main)
	body(unroll, 0)
	g.special(0, stride, end, 0, func(e *encoder, in *inst) {
		e.Op(x86.ADD, x86.W64, regIndex, e.gpr(in.a, x86.RAX))
		e.Op(x86.CMP, x86.W64, regIndex, e.gpr(in.b, x86.RAX))
		e.Jcc(x86.NE, main)
	})
	g.loop(first)
	g.bind(done)
}

// chooseWay gives d the lanes from round to round, less than 0 downwards.
func (g *gen) chooseWay(e *encoder, d vreg, step int32, pairs [][2]int) {
	by := e.outGPR(d, x86.RCX)
	down, chosen := e.NewLabel(), e.NewLabel()
	e.MovImm(by, uint64(step))
	for _, p := range pairs {
		at := func(slot int) x86.Mem { return x86.At(regArgs, g.p.lay.slots+int32(slotBytes*slot)+slotIndex) }
		e.Load(x86.W64, x86.RAX, at(p[0]))
		e.OpMem(x86.SUB, x86.W64, x86.RAX, at(p[1]))
		e.OpImm(x86.SUB, x86.W64, x86.RAX, 1) // at the same place a load comes before the store
		e.OpImm(x86.AND, x86.W64, x86.RAX, pageBytes-1)
		e.OpImm(x86.CMP, x86.W64, x86.RAX, alikeBytes)
		e.Jcc(x86.B, down)
	}
	e.Jmp(chosen)
	e.Bind(down)
	e.Un(x86.NEG, x86.W64, by)
	e.Bind(chosen)
	e.doneGPR(d, by)
}
