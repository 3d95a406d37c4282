package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// A block's shared memory is a slot behind the launch's own that lies in the frame: a thread runs a block to
// its end before the next begins, and so has one for all of them.

// shareMemory makes it one, in a program that has it. Such a program runs by blocks alone.
func (p *program) shareMemory(m *work.Meter) error {
	if p.shared = -1; p.fn.Shared == 0 {
		return nil
	}
	slots := len(p.fn.SlotTypes)
	if slots == isa.MaxSlots {
		return unsupported("shared memory", "there are as many slots as there may be, which would be one more")
	}
	f, err := ir.SharedAsSlot(m, p.fn)
	p.fn, p.shared, p.meets = f, slots, true
	return err
}

// frameSlot writes where it is to where what is known of slots stands.
func (g *gen) frameSlot() {
	bytes := int32(g.p.fn.Shared)
	g.sharedAt = g.reserve(int(bytes))
	place, at := g.sharedAt, g.p.lay.slots+int32(slotBytes*g.p.shared)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Lea(x86.RAX, x86.At(regArgs, place))
		e.Store(x86.W64, x86.At(regArgs, at+slotBase), x86.RAX)
		e.StoreImm(x86.W64, x86.At(regArgs, at+slotReach), bytes)
	})
}

// clearShared makes it zero, as each block finds it.
func (g *gen) clearShared() {
	place, bytes := g.sharedAt, int32(g.p.fn.Shared)
	g.inner(0, g.number(8, 0), 0, 0, func(e *encoder, in *inst) {
		again, step := e.NewLabel(), int32(e.t.bytes)
		zero := e.vec(in.a, 0, e.t.bytes)
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
		e.Bind(again)
		e.Emit(x86.StoreUPS, x86.Inst{VL: e.t.bytes, D: zero, IsMem: true, Mem: x86.Mem{Base: regArgs, Index: x86.RAX, Scale: 1, Disp: place}})
		e.OpImm(x86.ADD, x86.W64, x86.RAX, step)
		e.OpImm(x86.CMP, x86.W64, x86.RAX, bytes)
		e.Jcc(x86.B, again)
	})
}
