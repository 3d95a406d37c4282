package progen

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa"
)

// count is a number that most often steps along the lanes: a register, its type, and
// what the witness has in it, a lane of the first block.
type count struct {
	reg  uint8
	t    isa.Type
	cell uint64
}

// affine writes numbers that step along the lanes, as the places of a window that
// slides over a row do: chains of sums, products, shifts, other arithmetic and
// conversions between integers of all types, of a lane's number and numbers of the
// launch, of any sign and size. It stores what that comes to, asks in which lanes it is
// beyond another number, or loads from where it leads, if that is inside of a slot.
func (g *generator) affine() {
	witness := uint64(g.s.Intn(int(g.c.Block[0])))
	at := g.treated(g.blocksNumber(), witness)
	if g.s.Intn(8) > 0 { // or else the same in all lanes
		lane := g.converted(g.laneNumber(witness), at.t)
		if g.s.Intn(4) == 0 {
			lane = g.stepped(lane, witness)
		}
		at = g.combine(pick(g.s, []isa.Op{isa.ADD, isa.ADD, isa.ADD, isa.SUB}), at, lane)
	}
	at = g.treated(at, witness)
	switch g.s.Intn(6) {
	case 0:
		g.show(at.t, at.reg)
	case 1:
		if g.c.N%2 == 0 { // one that leads nowhere evenly is left to slower engines, with the program
			g.window(g.converted(at, isa.U64))
			return
		}
		fallthrough
	case 2:
		g.beyond(at)
	default:
		g.beyond(g.converted(at, pick(g.s, []isa.Type{isa.U32, isa.U64})))
	}
}

// show stores what the lanes have in a register, side by side.
func (g *generator) show(t isa.Type, r uint8) {
	const places = 8 // of which the last ones may be stored to again
	lanes, k := g.lanesInGrid(), min(g.shown[t], places-1)
	g.shown[t]++
	slot := g.slotNamed("line_"+t.String(), t, places*lanes, false, true)
	at := g.apply(isa.SHL, isa.U64, reg(255), imm(uint64(bits.TrailingZeros(uint(t.Size())))))
	g.emit(isa.STG, of(t), reg(r), byteAddr(slot, at, int64(k*lanes*t.Size())))
}

// integer returns a type, most often one as wide as a place is.
func (g *generator) integer() isa.Type {
	if g.s.Intn(5) > 0 {
		return pick(g.s, isa.SetWide.List())
	}
	return pick(g.s, isa.SetInt.List())
}

// near returns a cell of an integer type near 0 or where numbers of some type end.
func (g *generator) near(t isa.Type) uint64 {
	c := uint64(g.s.Intn(100)) - 50
	if g.s.Intn(3) == 0 {
		c += 1 << pick(g.s, []int{7, 8, 15, 16, 31, 32, 62, 63})
	}
	return c & t.Mask()
}

// laneNumber returns a lane's number, most often that in the block.
func (g *generator) laneNumber(witness uint64) count {
	if g.s.Intn(4) == 0 {
		return count{255, isa.U64, witness}
	}
	return count{252, isa.U32, witness}
}

// blocksNumber returns a number that all lanes of a block have.
func (g *generator) blocksNumber() count {
	r := g.temp()
	switch g.s.Intn(8) {
	case 0:
		return count{253, isa.U32, 0}
	case 1:
		t := g.integer()
		c := count{r, t, g.near(t)}
		g.emit(isa.MOV, of(t), reg(r), imm(c.cell))
		return c
	}
	i := g.shift()
	t := g.c.Program.Params[i].Type
	g.emit(isa.LDP, of(t), reg(r), isa.Arg{Kind: isa.ArgParam, Bits: uint64(i)})
	return count{r, t, g.c.Params[i]}
}

// shift returns a parameter of an integer type.
func (g *generator) shift() int {
	const most = 8
	if len(g.shifts) < most {
		t := g.integer()
		if g.s.Intn(3) == 0 {
			t = isa.I32 // as shifts are, most often
		}
		g.shifts = append(g.shifts, g.parameter(t, g.near(t)))
		return g.shifts[len(g.shifts)-1]
	}
	return pick(g.s, g.shifts)
}

// treated converts a count and computes with it, a few times at most.
func (g *generator) treated(a count, witness uint64) count {
	for range g.s.Intn(3) {
		if g.s.Intn(3) == 0 {
			a = g.stepped(a, witness)
		} else {
			a = g.converted(a, g.integer())
		}
	}
	return a
}

// converted returns a count as a number of type t.
func (g *generator) converted(a count, t isa.Type) count {
	if a.t == t {
		return a
	}
	r := g.temp()
	g.emit(isa.CVT, isa.Form{Type: t, From: a.t}, reg(r), reg(a.reg))
	return count{r, t, isa.Convert(t, a.t, a.cell)}
}

// combine writes an operation on counts of one type.
func (g *generator) combine(op isa.Op, a, b count) count {
	return count{g.apply(op, a.t, reg(a.reg), reg(b.reg)), a.t, evaluate(op, a.t, a.cell, b.cell)}
}

func evaluate(op isa.Op, t isa.Type, a, b uint64) uint64 {
	row, _ := isa.Lookup(op)
	c, _ := row.Eval(of(t), a, b, 0)
	return c
}

// stepped writes an operation on a count and a constant, now and then some rounds of it.
func (g *generator) stepped(a count, witness uint64) count {
	op := pick(g.s, []isa.Op{isa.ADD, isa.ADD, isa.ADD, isa.SUB, isa.MUL, isa.SHL, isa.MAD, isa.NEG})
	if g.s.Intn(16) == 0 { // what lanes do not step after
		op = pick(g.s, []isa.Op{isa.MIN, isa.MAX, isa.AND, isa.OR, isa.XOR, isa.SHR})
	}
	c := g.near(a.t)
	if (op == isa.MUL || op == isa.MAD || op == isa.SHL || op == isa.SHR) && g.s.Intn(4) > 0 {
		c = uint64(g.s.Intn(14)) - 3
	}
	c &= a.t.Mask()
	switch {
	case op == isa.NEG && !a.t.Signed():
		return count{g.apply(isa.SUB, a.t, imm(0), reg(a.reg)), a.t, evaluate(isa.SUB, a.t, 0, a.cell)}
	case op == isa.NEG:
		r := g.temp()
		g.emit(op, of(a.t), reg(r), reg(a.reg))
		return count{r, a.t, evaluate(op, a.t, a.cell, 0)}
	case op == isa.MAD:
		b, r := g.converted(g.laneNumber(witness), a.t), g.temp()
		g.emit(op, of(a.t), reg(r), reg(a.reg), imm(c), reg(b.reg))
		return count{r, a.t, evaluate(isa.ADD, a.t, evaluate(isa.MUL, a.t, a.cell, c), b.cell)}
	case (op == isa.ADD || op == isa.SUB) && g.loops < maxLoops && g.s.Intn(4) == 0:
		rounds, next, r := g.s.Intn(4), g.label(), g.temp()
		g.emit(isa.MOV, of(a.t), reg(r), reg(a.reg))
		g.emit(isa.LOOP, isa.Form{}, imm(uint64(rounds)), next)
		g.emit(op, of(a.t), reg(r), reg(r), imm(c))
		g.put(next)
		g.emit(isa.MOV, of(isa.U32), reg(239), imm(0)) // see counted
		for range rounds {
			a.cell = evaluate(op, a.t, a.cell, c)
		}
		return count{r, a.t, a.cell}
	}
	return count{g.apply(op, a.t, reg(a.reg), imm(c)), a.t, evaluate(op, a.t, a.cell, c)}
}

// beyond asks in which lanes a count is beyond a number, often the witness's or one
// beside it, and makes something of the answer.
func (g *generator) beyond(a count) {
	limit := g.near(a.t)
	if g.s.Intn(2) == 0 {
		limit = (a.cell + uint64(g.s.Intn(3)) - 1) & a.t.Mask()
	}
	l := imm(limit)
	if len(g.c.Params) < isa.MaxParams && g.s.Intn(2) == 0 {
		l = reg(g.temp())
		g.emit(isa.LDP, of(a.t), l, isa.Arg{Kind: isa.ArgParam, Bits: uint64(g.parameter(a.t, limit))})
	}
	f := isa.Form{Type: a.t, Cond: isa.EQ + isa.Cond(g.s.Intn(6))}
	x, y := reg(a.reg), l
	if g.s.Intn(3) == 0 {
		x, y = y, x
	}
	if x.Kind == isa.ArgImm {
		x, y = y, x
	}
	p, r := pred(isa.NumPredicates-2, g.s.Intn(2) == 0), g.temp()
	g.emit(isa.SET, f, pred(p.Reg, false), x, y)
	g.emit(isa.SEL, of(isa.U32), reg(r), p, imm(1), reg(252))
	if !g.alone && !g.quiet && g.depth == 0 && g.s.Intn(2) == 0 {
		g.assign(isa.U32, func(d isa.Arg) { g.emit(isa.BLOCK_REDUCE_ADD, of(isa.U32), d, reg(r)) })
		return
	}
	g.show(isa.U32, r)
}

// window loads element number a of a row, in the lanes in which there is one.
func (g *generator) window(a count) {
	const elements = 50
	t := pick(g.s, []isa.Type{isa.U8, isa.U16, isa.U32, isa.U64})
	slot := g.slotNamed("row_"+t.String(), t, elements, false, false)
	p, skip, r := pred(isa.NumPredicates-2, false), g.label(), g.temp()
	g.emit(isa.MOV, of(t), reg(r), imm(uint64(g.s.Intn(100))))
	g.emit(isa.SET, isa.Form{Type: isa.U64, Cond: isa.GE}, p, reg(a.reg), imm(elements))
	g.emit(isa.BRA, isa.Form{}, skip, p)
	g.emit(isa.LDG, of(t), reg(r), byteAddr(slot, g.apply(isa.MUL, isa.U64, reg(a.reg), imm(uint64(t.Size()))), 0))
	g.put(skip)
	g.show(t, r)
}
