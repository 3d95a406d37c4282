package jit

import (
	"math"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Block collectives. The groups leave their operands in an array that is filled
// up with the identity to a power of two. A reduction halves it until one element
// is left; a scan works in it, and leaves its results there.

// collective is one in the making.
type collective struct {
	n     *ir.Node
	op    isa.Op
	t     isa.Type // in which it is computed: f32 for 16-bit floats
	at    int32    // the array
	none  vreg     // the identity
	scans bool     // each lane has a result
	kept  bool     // all groups are written together, and their operands stay in registers:
	group []vreg
}

// combines names the primitive that each collective repeats.
var combines = map[isa.Op]isa.Op{
	isa.BLOCK_REDUCE_ADD: isa.ADD, isa.BLOCK_REDUCE_MIN: isa.MIN, isa.BLOCK_REDUCE_MAX: isa.MAX, isa.BLOCK_REDUCE_MUL: isa.MUL,
	isa.BLOCK_SCAN_ADD: isa.ADD, isa.BLOCK_SCAN_MIN: isa.MIN, isa.BLOCK_SCAN_MAX: isa.MAX, isa.BLOCK_SCAN_MUL: isa.MUL,
}

// identity is the cell that changes nothing under op.
func identity(op isa.Op, t isa.Type) uint64 {
	if t.Float() {
		v := map[isa.Op]float64{isa.ADD: math.Copysign(0, -1), isa.MUL: 1, isa.MIN: math.Inf(1), isa.MAX: math.Inf(-1)}[op]
		if t == isa.F64 {
			return math.Float64bits(v)
		}
		return uint64(math.Float32bits(float32(v)))
	}
	high := t.Mask()
	if t.Signed() {
		high >>= 1
	}
	return map[isa.Op]uint64{isa.ADD: 0, isa.MUL: 1, isa.MIN: high, isa.MAX: ^high & t.Mask()}[op]
}

// collective prepares for one; nil if n is none.
func (g *gen) collective(n *ir.Node) *collective {
	if n == nil || combines[n.Op.Inst()] == 0 {
		return nil
	}
	c := g.combining(n)
	size := g.regSize(c.t)
	if c.scans = scans(n.Op.Inst()); c.scans { // a group that is the identity stands before
		pad := g.lanes * size
		c.at = g.reserve(pad+g.shape.block*size) + int32(pad)
		g.arrays[n.Result()] = c.at
	} else {
		c.at = g.reserve(g.shape.block * size)
	}
	return c
}

// combining is a collective that has no array.
func (g *gen) combining(n *ir.Node) *collective {
	c := &collective{n: n, op: combines[n.Op.Inst()], t: n.Type}
	if n.Type == isa.F16 || n.Type == isa.BF16 {
		c.t = isa.F32
	}
	c.none = g.number(g.regSize(c.t), registerForm(c.t, identity(c.op, c.t)))
	return c
}

// operandOf keeps the operand of the group at hand.
func (g *gen) operandOf(c *collective) {
	size := g.regSize(c.t)
	x := g.val(c.n.Args[0])
	if g.m != 0 {
		d := g.newReg(classVec)
		g.blend(c.t, d, c.none, 0)
		g.blend(c.t, d, x, g.m)
		x = d
	}
	if c.kept {
		c.group = append(c.group, x)
		return
	}
	g.storeVector(size, g.array(c.at, size), x)
}

// fill stores the identity behind the block's last group.
func (g *gen) fill(c *collective) {
	if g.shape.whole {
		return
	}
	over, again := g.asm.NewLabel(), g.asm.NewLabel()
	lanes, all := int32(g.lanes), int32(g.shape.block)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.OpImm(x86.CMP, x86.W64, regIndex, all)
		e.Jcc(x86.AE, over)
	})
	first := g.here()
	g.bind(again)
	g.storeVector(g.regSize(c.t), g.array(c.at, g.regSize(c.t)), c.none)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.OpImm(x86.ADD, x86.W64, regIndex, lanes)
		e.OpImm(x86.CMP, x86.W64, regIndex, all)
		e.Jcc(x86.B, again)
	})
	g.loop(first)
	g.bind(over)
}

// combine is op of two vectors of numbers, exact to the last step but for the
// width of narrow integers.
func (g *gen) combine(op isa.Op, t isa.Type, a, b vreg) vreg {
	size := g.regSize(t)
	switch {
	case op == isa.MIN || op == isa.MAX:
		return g.extreme(t, op == isa.MAX, a, b)
	case op == isa.MUL:
		return g.product(t, a, b)
	case t.Float():
		return g.op2(addF.of(size), size, a, b)
	}
	return g.op2(addI.of(size), size, a, b)
}

// reduce halves the array: s[q] and s[q+w]. The halvings that keep whole groups
// go by a tree of loads, of which few are held at a time.
func (g *gen) reduce(c *collective) {
	size := g.regSize(c.t)
	groups := g.shape.block / g.lanes
	// Of the extremes of floats NaNs are looked for once, among the operands: so a halving is
	// one instruction, and not three that wait for each other.
	nan, combine := vreg(0), func(a, b vreg, operands bool) vreg { return g.combine(c.op, c.t, a, b) }
	if g.t.evex && c.t.Float() && (c.op == isa.MIN || c.op == isa.MAX) {
		combine = func(a, b vreg, operands bool) vreg {
			if operands {
				if some := g.unordered(size, a, b); nan == 0 {
					nan = some
				} else {
					nan = g.maskOp(isa.OR, nan, some)
				}
			}
			return g.range2(c.op == isa.MAX, size, a, b)
		}
	}
	// What is in registers is halved in order first, since an operand may have become one in memory.
	halves := make([]vreg, 0, groups/2)
	for i := 0; c.kept && i < groups/2; i++ {
		halves = append(halves, combine(c.group[i], c.group[i+groups/2], true))
	}
	var tree func(i, w int) vreg // what is in group i when w groups are left
	tree = func(i, w int) vreg {
		switch {
		case w == groups && c.kept:
			return c.group[i]
		case 2*w == groups && c.kept:
			return halves[i]
		case w == groups:
			return g.loadVector(size, &mref{fixed: regArgs, disp: c.at + int32(i*g.lanes*size)})
		}
		return combine(tree(i, 2*w), tree(i+w, 2*w), 2*w == groups)
	}
	r := tree(0, 1)
	for w := g.lanes / 2; w > 0; w /= 2 {
		r = combine(r, g.upper(size, w*size, r), groups == 1 && 2*w == g.lanes)
	}
	d := g.op1(toAll.of(size), size, r)
	if nan != 0 {
		g.anew(d, copyV.of(size), size, 0, g.quietNaN(size), nan)
	}
	switch {
	case c.t != c.n.Type:
		d = g.narrowFloat(c.n.Type, d)
	case c.t.Integer():
		d = g.wrap(c.t, d)
	}
	g.shared[c.n.Result().ID] = d
	g.prepareDivisor(c.n.Result())
}

// upper brings what lies so many bytes up in a register, a power of two, to its low end.
func (g *gen) upper(size, bytes int, r vreg) vreg {
	switch {
	case bytes < 4:
		return g.op1Imm(x86.SrlD, size, r, uint8(8*bytes))
	case g.t.evex:
		return g.op2Imm(x86.AlignD, size, r, r, uint8(bytes/4))
	case bytes == 16:
		d := g.newReg(classVec)
		g.add(inst{f: x86.Extract128, vl: 32, d: d, b: r, imm: 1})
		return d
	case bytes == 8:
		return g.op2Imm(x86.ShufPS, size, r, r, 0x0e)
	}
	return g.op2Imm(x86.ShufPS, size, r, r, 0x01)
}

// How many groups of a program's scans are written out, rather than done in loops;
// and how many scans it may have, each of which takes some hundred instructions.
const (
	writtenOut = 64
	maxScans   = 256
)

func scans(op isa.Op) bool { return op >= isa.BLOCK_SCAN_ADD && op <= isa.BLOCK_SCAN_MUL }

// scan adds to each element the one w before it, for w = 1, 2, 4, ….
func (g *gen) scan(c *collective) {
	if groups := g.shape.block / g.lanes; groups*g.p.blocks.scans <= writtenOut {
		g.scanInRegisters(c, groups)
	} else {
		g.scanInMemory(c)
	}
}

// results is what of a scan's numbers lanes get.
func (g *gen) results(c *collective, x vreg) vreg {
	switch {
	case c.t != c.n.Type:
		return g.narrowFloat(c.n.Type, x)
	case c.t.Integer() && c.t.Size() < 4:
		return g.wrap(c.t, x)
	}
	return x
}

// scanInRegisters goes over the groups once.
func (g *gen) scanInRegisters(c *collective, groups int) {
	size, own := g.regSize(c.t), make([]vreg, groups) // what the array doesn't have
	r := g.newRunning(c, 1, g.forScans(1), func(q int) vreg {
		if own[q] != 0 {
			return own[q]
		}
		return g.loadVector(size, g.group(c, q))
	})
	for q := range groups {
		x := g.goOn(r, q, g.loadVector(size, g.group(c, q)))
		kept := g.results(c, x)
		if kept != x {
			own[q] = x
		}
		g.storeVector(size, g.group(c, q), kept)
	}
}

// scanInMemory goes from the last group to the first, so that what it reads is of
// the step before, and leaves out the groups in which nothing has an element so far
// before it.
func (g *gen) scanInMemory(c *collective) {
	size := g.regSize(c.t)
	g.storeVector(size, &mref{fixed: regArgs, disp: c.at - int32(g.lanes*size)}, c.none)
	for w := 1; w < g.shape.block; w *= 2 {
		first := 0
		if w >= g.lanes {
			first = w
		}
		g.scanGroups(c, first, func(at func(lane int) *mref) {
			x, y := g.loadVector(size, at(0)), g.loadVector(size, at(-w))
			g.storeVector(size, at(0), g.combine(c.op, c.t, y, x))
		})
	}
	if c.t != c.n.Type || c.t.Integer() && c.t.Size() < 4 {
		g.scanGroups(c, 0, func(at func(lane int) *mref) {
			g.storeVector(size, at(0), g.results(c, g.loadVector(size, at(0))))
		})
	}
}

// scanGroups writes a loop with body over the groups of a scan's array, from the
// last to that of lane first. at is a place in it, counted from the group's first
// lane.
func (g *gen) scanGroups(c *collective, first int, body func(at func(lane int) *mref)) {
	size, lanes, all := g.regSize(c.t), g.lanes, g.shape.block
	again := g.asm.NewLabel()
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.MovImm(regIndex, uint64(all-lanes)) })
	start := g.here()
	g.bind(again)
	body(func(lane int) *mref {
		return &mref{fixed: regArgs, indexed: true, scale: uint8(size), disp: c.at + int32(lane*size)}
	})
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.OpImm(x86.SUB, x86.W64, regIndex, int32(lanes))
		e.OpImm(x86.CMP, x86.W64, regIndex, int32(first))
		e.Jcc(x86.GE, again)
	})
	g.loop(start)
}
