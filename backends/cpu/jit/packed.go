package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Integers of 8 and 16 bits lie packed in registers, with no more bytes than in
// memory, in programs that do with them only what there are instructions for: up to
// 64 lanes are a group then, nothing is extended at a load, and what leaves the range
// wraps by itself.

// packing is whether and how a program's narrow integers are packed.
type packing struct {
	possible bool
	uniform  bool // all numbers have one size, as masks of AVX2 want it
	widest   int  // bytes of the widest
}

// packable are the instructions that work on packed integers. Conversions do between
// integers of one size, whose bits stay.
var packable = map[isa.Op]bool{
	isa.LDG: true, isa.STG: true, isa.LDP: true, isa.SET: true, isa.SEL: true, isa.CVT: true, isa.BITCAST: true,
	isa.ADD: true, isa.SUB: true, isa.MUL: true, isa.MIN: true, isa.MAX: true, isa.ABS: true, isa.NEG: true,
	isa.AND: true, isa.OR: true, isa.XOR: true, isa.NOT: true,
}

// packs looks at a program that is neither run by blocks nor branches.
func (p *program) packs() (out packing) {
	if !p.straight || p.bytes || p.meets {
		return out
	}
	out.uniform = true
	least := 8
	for _, n := range p.fn.Body.Nodes {
		if !n.Op.IsInst() {
			continue
		}
		narrow := false
		values := append(append([]*ir.Value(nil), n.Args...), n.Results...)
		for _, v := range values {
			if !v.Type.Numeric() {
				continue
			}
			size := regSize(v.Type)
			if v.Type.Integer() {
				size = v.Type.Size()
			}
			narrow = narrow || size < 4
			out.uniform = out.uniform && v.Type.Integer()
			least, out.widest = min(least, size), max(out.widest, size)
		}
		converts := n.From != isa.NoType
		if narrow && (!packable[n.Op.Inst()] || converts && !(n.From.Integer() && n.Type.Integer() && n.From.Size() == n.Type.Size())) {
			return packing{}
		}
	}
	out.possible = least < 4
	out.uniform = out.uniform && least == out.widest
	return out
}

// packs reports whether code for t has the program's narrow integers packed.
func (t *target) packs(p *program) bool {
	return p.packing.possible && (t.evex || p.packing.uniform)
}

// regSize is the bytes that an element of a type takes in the code's registers.
func (g *gen) regSize(t isa.Type) int {
	if g.packed && t.Integer() {
		return t.Size()
	}
	return regSize(t)
}

// forms is an instruction for elements of 1, 2, 4 and 8 bytes.
type forms struct{ b, w, d, q *x86.Form }

func (f forms) of(size int) *x86.Form {
	switch size {
	case 1:
		return f.b
	case 2:
		return f.w
	case 4:
		return f.d
	}
	return f.q
}

var (
	addI   = forms{x86.AddB, x86.AddW, x86.AddD, x86.AddQ}
	subI   = forms{x86.SubB, x86.SubW, x86.SubD, x86.SubQ}
	minU   = forms{x86.MinUB, x86.MinUW, x86.MinUD, x86.MinUQ}
	minS   = forms{x86.MinSB, x86.MinSW, x86.MinSD, x86.MinSQ}
	maxU   = forms{x86.MaxUB, x86.MaxUW, x86.MaxUD, x86.MaxUQ}
	maxS   = forms{x86.MaxSB, x86.MaxSW, x86.MaxSD, x86.MaxSQ}
	absI   = forms{x86.AbsB, x86.AbsW, x86.AbsD, x86.AbsQ}
	compS  = forms{x86.CmpB, x86.CmpW, x86.CmpD, x86.CmpQ}
	compU  = forms{x86.CmpUB, x86.CmpUW, x86.CmpUD, x86.CmpUQ}
	compEq = forms{x86.CmpEqB, x86.CmpEqW, x86.CmpEqD, x86.CmpEqQ}
	compGt = forms{x86.CmpGtB, x86.CmpGtW, x86.CmpGtD, x86.CmpGtQ}
	blends = forms{x86.BlendB, x86.BlendW, x86.BlendPS, x86.BlendPD}
	toAll  = forms{x86.BcastB, x86.BcastW, x86.BcastD, x86.BcastQ}
)

// narrowProduct is a · b of packed integers. Of bytes, the products of the even ones
// are in the low halves of those of words; the odd ones are taken down and, as factors
// that have nothing below, back up.
func (g *gen) narrowProduct(size int, a, b vreg) vreg {
	if size == 2 {
		return g.op2(x86.MulLW, 2, a, b)
	}
	low := g.number(2, 0x00ff)
	even := g.and(1, g.op2(x86.MulLW, 1, a, b), low)
	odd := g.op2(x86.MulLW, 1, g.op1Imm(x86.SrlW, 1, a, 8), g.andNot(1, low, b))
	return g.or(1, even, odd)
}

// partial reports whether a group's elements of a size fill less than a register.
func (g *gen) partial(size int) bool { return g.lanes*size < 16 }

// loadPacked loads a group's packed integers.
func (g *gen) loadPacked(t isa.Type, m *mref) vreg {
	size := t.Size()
	d := g.newReg(classVec)
	in := inst{f: x86.MovUPS, vl: g.vl(size), d: d, mem: m}
	switch {
	case g.m != 0 && !g.t.evex:
		return g.loadLanes(t, m)
	case g.m != 0:
		in.f, in.k, in.zero = pair{x86.MovB, x86.MovW}.of(4*size), g.m, true
	case g.partial(size):
		in.f = x86.LoadQE
	}
	g.add(in)
	return d
}

// storePacked stores a group's packed integers.
func (g *gen) storePacked(size int, m *mref, v vreg) {
	in := inst{f: x86.StoreUPS, vl: g.vl(size), mem: m}
	switch {
	case g.m != 0 && !g.t.evex:
		g.storeLanes(size, x86.Width(size), m, v)
		return
	case g.m != 0:
		in.f, in.k = pair{x86.StoreB, x86.StoreW}.of(4*size), g.m
	case g.partial(size):
		in.f = x86.StoreQE
	}
	g.store(in, v)
}
