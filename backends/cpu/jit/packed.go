package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Integers of 8 and 16 bits lie packed in registers, with no more bytes than in
// memory, in programs that do with them only what there are instructions for: up to
// 64 lanes are a group then, nothing is extended at a load, and what leaves the range
// wraps by itself.
//
// So are numbers of f16 and bf16 where nothing is done with them but what their bits tell:
// where they are moved, chosen, or given another sign.

// packing is whether and how a program's narrow integers are packed.
type packing struct {
	possible bool
	halves   bool // floats of 16 bits are, as their bits
	uniform  bool // all numbers have one size, as masks of AVX2 want it
	widest   int  // bytes of the widest
}

// packable are the instructions that work on packed integers. Conversions do between
// integers of one size, whose bits stay.
var packable = map[isa.Op]bool{
	isa.LDG: true, isa.STG: true, isa.LDP: true, isa.SET: true, isa.SEL: true, isa.CVT: true, isa.BITCAST: true,
	isa.ADD: true, isa.SUB: true, isa.MUL: true, isa.MIN: true, isa.MAX: true, isa.ABS: true, isa.NEG: true,
	isa.AND: true, isa.OR: true, isa.XOR: true, isa.NOT: true,
	isa.BLOCK_REDUCE_ADD: true, isa.BLOCK_REDUCE_MIN: true, isa.BLOCK_REDUCE_MAX: true, isa.BLOCK_REDUCE_MUL: true,
}

// packs looks at a program that is neither run by blocks nor branches, whose slots in
// single stand for one element.
func (p *program) packs(single uint64) packing {
	if !p.straight || p.bytes || p.meets {
		return packing{}
	}
	s := newPacker()
	s.shared = func(v *ir.Value) bool {
		_, constant := v.Const()
		n := v.Node
		return constant || n != nil && (n.Op == ir.Op(isa.LDP) || n.Op == ir.Op(isa.LDG) && single>>n.Mem.Slot&1 != 0)
	}
	s.halves = !slices.ContainsFunc(p.fn.Body.Nodes, computesHalves)
	for _, n := range p.fn.Body.Nodes {
		if n.Op.IsInst() {
			s.inst(n, append(slices.Clip(n.Args), n.Results...))
		}
	}
	return s.done()
}

// half reports whether a type is a float of 16 bits.
func half(t isa.Type) bool { return t == isa.F16 || t == isa.BF16 }

// ofBits are the instructions that say what bits a float has, of what bits others have.
var ofBits = map[isa.Op]bool{
	isa.LDG: true, isa.STG: true, isa.LDP: true, isa.SEL: true, isa.ABS: true, isa.NEG: true, isa.BITCAST: true,
}

// computesHalves reports whether a node does more with floats of 16 bits.
func computesHalves(n *ir.Node) bool {
	of := func(v *ir.Value) bool { return half(v.Type) }
	return n.Op.IsInst() && !ofBits[n.Op.Inst()] && (slices.ContainsFunc(n.Args, of) || slices.ContainsFunc(n.Results, of))
}

// packs looks at a program that is run by blocks. Heads take no vectors, nor does what
// is compared as numbers. Beside narrow integers there is nothing but what a block's
// lanes share, for which a register of any length will do.
func (b *blocks) packs(p *program) packing {
	s := newPacker()
	var region func(r *ir.Region)
	region = func(r *ir.Region) {
		for _, n := range r.Nodes {
			if values := b.vectors(p, n); p.ladder(b.lin, n) {
				s.sizes(values)
			} else {
				s.inst(n, values)
			}
			for _, r := range n.Regions {
				region(r)
			}
		}
	}
	region(p.fn.Body)
	if s.widest >= 4 {
		return packing{}
	}
	return s.done()
}

// vectors are the values of a node that are in vectors, but for constants that nothing
// uses.
func (b *blocks) vectors(p *program, n *ir.Node) (list []*ir.Value) {
	made := func(values []*ir.Value) {
		for _, v := range values {
			if !b.lin[v.ID].known {
				list = append(list, v)
			}
		}
	}
	used := func(values []*ir.Value) {
		for _, v := range values {
			if x := b.lin[v.ID]; !x.known || x.vec {
				list = append(list, v)
			}
		}
	}
	if n.Op == ir.Const || b.sharedWide(p, n) {
		return nil
	}
	for _, r := range n.Regions {
		made(r.Params)
	}
	made(n.Results)
	switch {
	case !n.Op.IsInst():
		for _, v := range n.Args {
			if _, constant := v.Const(); !constant {
				used([]*ir.Value{v})
			}
		}
	case len(n.Results) == 1 && b.lin[n.Result().ID].known, p.scalar(b.lin, n), p.ladder(b.lin, n): // of heads
	case n.Mem.Mode == isa.AddrByte && p.linearAccess(b.lin, n):
		used(n.Args[n.AddrArgs():])
	default:
		used(n.Args)
	}
	return list
}

// sharedWide reports whether a node works on numbers that a block's lanes share, of
// any width, in a way that takes no heed of how many lanes there are.
func (b *blocks) sharedWide(p *program, n *ir.Node) bool {
	if !n.Op.IsInst() {
		return false
	}
	values := append(slices.Clip(n.Args[n.AddrArgs():]), n.Results...)
	switch op := n.Op.Inst(); {
	case sharable[op]:
	case op == isa.LDG || op == isa.STG:
		off := n.Args[:n.AddrArgs()]
		if !p.linearAccess(b.lin, n) || len(off) > 0 && b.lin[off[0].ID].step != 0 {
			return false
		}
	default:
		return false
	}
	return !slices.ContainsFunc(values, func(v *ir.Value) bool {
		return !v.Type.Integer() || p.a.Vary(v) == analysis.PerLane
	})
}

var sharable = map[isa.Op]bool{
	isa.ADD: true, isa.SUB: true, isa.MUL: true, isa.MIN: true, isa.MAX: true, isa.AND: true, isa.OR: true, isa.XOR: true, isa.CVT: true,
}

// packer collects what packing wants to know.
type packer struct {
	packing
	least  int
	fails  bool
	shared func(v *ir.Value) bool // whether all lanes of the launch have it; nil: of none it is known
}

func newPacker() *packer { return &packer{packing: packing{uniform: true}, least: 8} }

// sizes takes values into account that are in vectors, and reports whether one is
// narrow.
func (s *packer) sizes(values []*ir.Value) (narrow bool) {
	for _, v := range values {
		if !v.Type.Numeric() {
			continue
		}
		size := regSize(v.Type)
		if s.packs(v.Type) {
			size = v.Type.Size()
		}
		narrow = narrow || size < 4
		s.uniform = s.uniform && s.packs(v.Type)
		s.least, s.widest = min(s.least, size), max(s.widest, size)
	}
	return narrow
}

// inst takes a node into account, of whose values these are in vectors.
func (s *packer) inst(n *ir.Node, values []*ir.Value) {
	if !s.sizes(values) || !n.Op.IsInst() {
		return
	}
	op, converts := n.Op.Inst(), n.From != isa.NoType
	if (op == isa.DIV || op == isa.REM) && n.Type.Integer() && s.shared != nil && s.shared(n.Args[1]) {
		return
	}
	if !packable[op] || converts && !(s.packs(n.From) && s.packs(n.Type) && n.From.Size() == n.Type.Size()) {
		s.fails = true
	}
}

func (s *packer) done() packing {
	if s.fails {
		return packing{}
	}
	s.possible = s.least < 4
	s.uniform = s.uniform && s.least == s.widest
	return s.packing
}

// packs reports whether numbers of a type take as many bytes in packed registers as in memory.
func (k packing) packs(t isa.Type) bool { return t.Integer() || k.halves && half(t) }

// packs reports whether code for t has narrow integers packed.
func (t *target) packs(k packing) bool { return k.possible && (t.evex || k.uniform) }

// regSize is the bytes that an element of a type takes in the code's registers.
func (g *gen) regSize(t isa.Type) int {
	if g.packing.packs(t) && g.packed {
		return t.Size()
	}
	return regSize(t)
}

// registerForm is how a cell is kept in the code's registers.
func (g *gen) registerForm(t isa.Type, cell uint64) uint64 {
	if g.packed && g.packing.halves && half(t) {
		return cell
	}
	return registerForm(t, cell)
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
	addI     = forms{x86.AddB, x86.AddW, x86.AddD, x86.AddQ}
	subI     = forms{x86.SubB, x86.SubW, x86.SubD, x86.SubQ}
	minU     = forms{x86.MinUB, x86.MinUW, x86.MinUD, x86.MinUQ}
	minS     = forms{x86.MinSB, x86.MinSW, x86.MinSD, x86.MinSQ}
	maxU     = forms{x86.MaxUB, x86.MaxUW, x86.MaxUD, x86.MaxUQ}
	maxS     = forms{x86.MaxSB, x86.MaxSW, x86.MaxSD, x86.MaxSQ}
	absI     = forms{x86.AbsB, x86.AbsW, x86.AbsD, x86.AbsQ}
	compS    = forms{x86.CmpB, x86.CmpW, x86.CmpD, x86.CmpQ}
	testNone = forms{x86.TestNB, x86.TestNW, x86.TestND, x86.TestNQ}
	testAny  = forms{x86.TestB, x86.TestW, x86.TestD, x86.TestQ}
	compU    = forms{x86.CmpUB, x86.CmpUW, x86.CmpUD, x86.CmpUQ}
	compEq   = forms{x86.CmpEqB, x86.CmpEqW, x86.CmpEqD, x86.CmpEqQ}
	compGt   = forms{x86.CmpGtB, x86.CmpGtW, x86.CmpGtD, x86.CmpGtQ}
	blends   = forms{x86.BlendB, x86.BlendW, x86.BlendPS, x86.BlendPD}
	toAll    = forms{x86.BcastB, x86.BcastW, x86.BcastD, x86.BcastQ}
)

// narrowProduct is a · b of packed integers. Of bytes, the products of the even ones
// are in the low halves of those of words; the odd ones are taken down and, as factors
// that have nothing below, back up.
func (g *gen) narrowProduct(size int, a, b vreg) vreg {
	if size == 2 {
		return g.op2(x86.MulLW, 2, a, b)
	}
	if g.odds[a] != 0 || g.info[a].constant {
		a, b = b, a
	}
	odd := g.op2(x86.MulLW, 1, g.op1Imm(x86.SrlW, 1, a, 8), g.oddBytes(b))
	return g.andOr(1, g.op2(x86.MulLW, 1, a, b), g.number(2, 0x00ff), odd)
}

// oddBytes are those of b, with nothing between them: of what is the same in all groups made once.
func (g *gen) oddBytes(b vreg) vreg {
	if x := &g.info[b]; x.constant {
		return g.number(2, x.bits&0xff00)
	}
	if d := g.odds[b]; d != 0 {
		return d
	}
	return g.andNot(1, g.number(2, 0x00ff), b)
}

// prepareFactor makes of bytes, which all groups share, what products by them want.
func (g *gen) prepareFactor(v *ir.Value) {
	if v.Type.Integer() && g.regSize(v.Type) == 1 {
		r := g.val(v)
		g.odds[r] = g.oddBytes(r)
	}
}

// partial reports whether a group's elements of a size fill less than a register.
func (g *gen) partial(size int) bool { return g.lanes*size < 16 }

// loadPacked loads a group's packed integers, of the lanes in mask; 0: all.
func (g *gen) loadPacked(t isa.Type, m *mref, mask vreg) vreg {
	size := t.Size()
	d := g.newReg(classVec)
	in := inst{f: x86.MovUPS, vl: g.vl(size), d: d, mem: m}
	switch {
	case mask != 0 && !g.t.evex:
		return g.loadLanes(t, m)
	case mask != 0:
		in.f, in.k, in.zero = pair{x86.MovB, x86.MovW}.of(4*size), mask, true
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
	case g.shape.stream:
		in.f = x86.StoreNTPS
	}
	g.store(in, v)
}
