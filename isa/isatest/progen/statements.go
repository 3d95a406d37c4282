package progen

import (
	"fmt"
	"math"

	"github.com/hologram-project/hologram/isa"
)

// maxDepth bounds how deep ifs and loops nest, maxLoops the loops among them.
const (
	maxDepth = 5
	maxLoops = 3
)

// statement writes one statement and returns how many are left to write.
func (g *generator) statement(left int) int {
	held := len(g.held)
	k := g.s.Intn(100)
	if g.cfg.Affine && g.s.Intn(8) > 0 {
		g.affine()
		g.dropTemps(held)
		return left - 1
	}
	if g.cfg.Narrow && g.s.Intn(2) == 0 {
		g.narrow()
		g.dropTemps(held)
		return left - 1
	}
	if g.cfg.Crowded && g.s.Intn(2) == 0 {
		if g.s.Intn(2) == 0 {
			g.guard()
		} else {
			g.reload()
		}
		g.dropTemps(held)
		return left - 1
	}
	inner := min(left, 1+g.s.Intn(8))
	nested := g.depth < maxDepth && left > 1
	cost := 1
	switch {
	case k < 9 && nested:
		g.branch(inner)
		cost = inner
	case k < 13 && nested && g.loops < maxLoops:
		g.counted(inner)
		cost = inner
	case k < 17 && nested && g.loops < maxLoops:
		g.while(inner)
		cost = inner
	case k < 21 && nested && g.calls < 12:
		g.call(inner)
		cost = inner
	case k < 22 && g.depth > 0:
		g.exit()
	case k < 36:
		g.memory()
	case k < 37:
		g.reload()
	case k < 38:
		g.guard()
	case k < 40 && g.cfg.Space:
		g.flat()
	case k < 46 && g.cfg.Lanes:
		g.together()
	case k < 50 && g.cfg.Atlas:
		g.state()
	case k < 52:
		g.narrow()
	default:
		g.operation()
	}
	g.dropTemps(held)
	return left - cost
}

func (g *generator) body(size int) {
	g.depth++
	g.scope(func() {
		for left := size; left > 0; left = g.statement(left) {
		}
	})
	g.depth--
}

// operations are the rows without effect, and what becomes of such.
var operations = func() (ops []isa.Op) {
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Effect&^(isa.Pure|isa.MayFault|isa.Structural) == 0 && row.Effect != 0 {
			ops = append(ops, op)
		}
	}
	return ops
}()

// graph are the operations on classes.
var graph = map[isa.Op]bool{isa.CLS_GET: true, isa.MIRROR: true, isa.UNITY_TEST: true, isa.NBR_COUNT: true, isa.NBR_GET: true, isa.BOUND_MAP: true}

// operation writes a pure instruction of any row.
func (g *generator) operation() {
	op := pick(g.s, operations)
	row, _ := isa.Lookup(op)
	if row.Expand != 0 && !g.cfg.Math || g.cfg.Common && graph[op] {
		return
	}
	var f isa.Form
	if row.Types != 0 {
		f.Type = g.kind(row.Types)
	}
	if row.From != 0 {
		f.From = g.kind(row.From)
		for op == isa.BITCAST && f.From.Size() != f.Type.Size() {
			f.From = g.kind(row.From)
		}
	}
	if row.HasCond {
		f.Cond = isa.EQ + isa.Cond(g.s.Intn(6))
		if f.Type.Unsigned() && g.s.Intn(2) == 0 && f.Cond >= isa.LT {
			f.Cond += isa.LTU - isa.LT
		}
	}
	args := make([]isa.Arg, len(row.Operands))
	var result isa.Type
	for i, o := range row.Operands {
		t := o.Type
		switch t {
		case isa.TypeT:
			t = f.Type
		case isa.TypeFrom:
			t = f.From
		}
		switch o.Kind {
		case isa.Dst, isa.PredDst:
			result = t
		case isa.PredSrc:
			args[i], _ = g.condition()
		case isa.Src:
			args[i] = g.guarded(op, o.Name, t, row)
		case isa.Imm:
			args[i] = g.static(op, o)
		case isa.ParamRef:
			args[i] = isa.Arg{Kind: isa.ArgParam, Bits: uint64(g.param(t))}
		case isa.DataRef:
			args[i] = isa.Arg{Kind: isa.ArgData, Bits: uint64(g.table(t))}
		case isa.SpecialRef:
			args[i] = isa.Arg{Kind: isa.ArgName, Bits: uint64(g.s.Intn(g.specials()))}
			result = isa.Special(args[i].Bits).Type()
		case isa.SrcReg: // the first of a run of registers
			count := 1 + g.s.Intn(4)
			args[i], args[i+1] = reg(g.run(t, count)), imm(uint64(count))
		}
		if o.Kind == isa.SrcReg {
			g.assign(result, func(d isa.Arg) {
				args[0] = d
				g.emit(op, f, args...)
			})
			return
		}
	}
	g.assign(result, func(d isa.Arg) {
		args[0] = d
		g.emit(op, f, args...)
	})
}

// few are the types of fewer bits than a register of any machine has.
var few = []isa.Type{isa.I8, isa.I16, isa.U8, isa.U16, isa.F16, isa.BF16}

// chained are for each type the operations on numbers of that type alone, which
// cannot fault.
var chained = func() (ops [isa.Pred + 1][]isa.Op) {
	for _, op := range operations {
		row, _ := isa.Lookup(op)
		alike := len(row.Operands) > 1 && row.From == 0
		for i, o := range row.Operands {
			alike = alike && o.Type == isa.TypeT && (o.Kind == isa.Dst && i == 0 || o.Kind == isa.Src && i > 0)
		}
		if alike {
			for _, t := range row.Types.List() {
				if row.Effect&isa.MayFault == 0 || t.Float() {
					ops[t] = append(ops[t], op)
				}
			}
		}
	}
	return ops
}()

// narrow converts a number to a type of few bits, which it seldom fits, and goes on
// with what that made: other conversions, arithmetic, comparisons and stores.
func (g *generator) narrow() {
	if g.cfg.Size > 1000 { // with slots of all types, more than the 64 that there are
		return
	}
	from := g.kind(isa.SetNumeric)
	given := g.source(from)
	if given.Kind != isa.ArgReg { // nothing that passes compute
		given = reg(g.temp())
		g.emit(isa.LDG, of(from), given, g.element(g.input(from)))
	}
	v, at := pick(g.s, few), g.temp()
	g.emit(isa.CVT, isa.Form{Type: v, From: from}, reg(at), given)
	for range 1 + g.s.Intn(4) {
		next := g.temp()
		switch k := g.s.Intn(8); {
		case k < 3:
			op := pick(g.s, chained[v])
			row, _ := isa.Lookup(op)
			if row.Expand != 0 && !g.cfg.Math {
				continue
			}
			args := []isa.Arg{reg(next)}
			for range row.Operands[1:] {
				args = append(args, g.source(v))
			}
			args[1+g.s.Intn(len(args)-1)] = reg(at)
			g.emit(op, of(v), args...)
			at = next
		case k < 4:
			cond := isa.EQ + isa.Cond(g.s.Intn(6))
			g.assign(isa.Pred, func(d isa.Arg) {
				g.emit(isa.SET, isa.Form{Type: v, Cond: cond}, d, reg(at), g.source(v))
			})
		case k < 5:
			g.emit(isa.STG, of(v), reg(at), g.element(g.output(v)))
		default: // to few bits again, or to many
			to := pick(g.s, few)
			if k == 7 {
				to = g.kind(isa.SetNumeric)
			}
			g.emit(isa.CVT, isa.Form{Type: to, From: v}, reg(next), reg(at))
			v, at = to, next
		}
	}
	if g.chains < 8 { // where no other statement stores
		slot := g.slotNamed(fmt.Sprintf("chain%d", g.chains), v, int(g.c.N), true, true)
		g.chains++
		g.emit(isa.STG, of(v), reg(at), g.element(slot))
		return
	}
	g.assign(v, func(d isa.Arg) { g.emit(isa.MOV, of(v), d, reg(at)) })
}

// specials returns how many of the special values there may be.
func (g *generator) specials() int {
	if g.cfg.Space {
		return isa.NumSpecials
	}
	return int(isa.N) + 1
}

// flat accesses an element of a slot by its number: any of one that is only read,
// the lane's own of one that is written, and, with atomics whose result nobody
// uses, any again.
func (g *generator) flat() {
	if g.indexed {
		g.memory()
		return
	}
	t := g.kind(isa.SetNumeric)
	flat := func(name string, t isa.Type, elements int, writes bool) int {
		i := g.slotNamed(name, t, elements, false, writes)
		g.c.Slots[i].Flat = true
		return i
	}
	kinds := 5
	if g.cfg.Common {
		kinds = 4
	}
	switch g.s.Intn(kinds) {
	case 0, 1:
		const elements = 19
		slot, r, off := flat("flat_"+t.String(), t, elements, false), g.offset(15), int64(g.s.Intn(4))
		if g.careless() {
			off = pick(g.s, []int64{-1, 4, elements, isa.MaxFlatOffset, -isa.MaxFlatOffset})
		}
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, flatAddr(slot, r, off)) })
	case 2, 3:
		slot := flat("mine_"+t.String(), t, g.lanesInGrid()+1, true)
		at := flatAddr(slot, 255, 1)
		if g.s.Intn(2) == 0 {
			g.emit(isa.STG, of(t), g.source(t), at)
		} else {
			g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, at) })
		}
	case 4:
		if g.tally == isa.NoOp {
			g.tally = pick(g.s, []isa.Op{isa.ATOM_ADD, isa.ATOM_MIN, isa.ATOM_MAX, isa.ATOM_AND, isa.ATOM_OR, isa.ATOM_XOR})
		}
		slot := flat("tally", isa.U32, 8, true)
		g.emit(g.tally, of(isa.U32), reg(239), flatAddr(slot, g.apply(isa.AND, isa.U32, g.source(isa.U32), imm(7)), 0), g.source(isa.U32))
	}
}

// run fills count registers in a row and returns the first. They lie above
// those that variables get, so they are never in use.
func (g *generator) run(t isa.Type, count int) uint8 {
	const base = 240
	for i := range count {
		g.emit(isa.MOV, of(t), reg(uint8(base+i)), g.source(t))
	}
	return base
}

// careless reports whether to leave out a guard against faults.
func (g *generator) careless() bool { return g.cfg.Faults && g.s.Intn(6) == 0 }

// guarded returns a source operand, made harmless where it must be.
func (g *generator) guarded(op isa.Op, name string, t isa.Type, row *isa.Row) isa.Arg {
	if t == isa.TypeAnyInt { // the index of a table
		t = g.kind(isa.SetWide)
		if g.careless() {
			return reg(g.register(t))
		}
		return reg(g.apply(isa.AND, t, g.source(t), imm(tableLen-1)))
	}
	switch {
	case op == isa.BITCAST && t.Float():
		return reg(g.number(t))
	case row.Effect&isa.MayFault == 0 || t.Float() || g.careless():
		return g.source(t)
	case name == "class":
		return reg(g.apply(isa.REM, t, g.source(t), imm(isa.NumClasses)))
	case name == "page":
		return reg(g.apply(isa.REM, t, g.source(t), imm(isa.PagesPerClass)))
	case name == "b": // of a division
		return reg(g.apply(isa.OR, t, g.source(t), imm(1)))
	}
	return g.source(t)
}

// apply writes an operation on two operands to a temporary.
func (g *generator) apply(op isa.Op, t isa.Type, a, b isa.Arg) uint8 {
	r := g.temp()
	g.emit(op, of(t), reg(r), a, b)
	return r
}

// number returns a float that is not NaN, so that its bits may be seen.
func (g *generator) number(t isa.Type) uint8 {
	v := g.register(t)
	r := g.temp()
	p := pred(isa.NumPredicates-2, false)
	g.emit(isa.SET, isa.Form{Type: t, Cond: isa.NE}, p, reg(v), reg(v))
	g.emit(isa.SEL, of(t), reg(r), p, imm(0), reg(v))
	return r
}

// seen returns a value of type t whose bits others may look at.
func (g *generator) seen(t isa.Type) isa.Arg {
	if t.Float() {
		return reg(g.number(t))
	}
	return g.source(t)
}

func (g *generator) static(op isa.Op, o isa.Operand) isa.Arg {
	switch {
	case op == isa.UNITY_TEST:
		return imm(math.Float64bits(float64(g.s.Intn(4)) / 2))
	case op == isa.NBR_GET:
		return imm(uint64(g.s.Intn(7)))
	}
	return imm(g.s.Uint64() & o.Type.Mask())
}

// most is how many of a list's choices there are, the later ones by byte address.
func (g *generator) most(indexed, all int) int {
	if g.indexed {
		return indexed
	}
	return all
}

// together writes what lanes do with one another.
func (g *generator) together() {
	t := g.kind(isa.SetNumeric)
	wide := pick(g.s, []isa.Type{isa.I32, isa.U32, isa.I64, isa.U64})
	free := []isa.Op{isa.ATOM_ADD, isa.ATOM_MIN, isa.ATOM_MAX, isa.ATOM_AND, isa.ATOM_OR, isa.ATOM_XOR}
	unused := reg(239)
	if g.cfg.Common && (g.alone || g.quiet || g.depth > 0) {
		return
	}
	if g.alone || g.quiet || !g.cfg.Common && g.s.Intn(4) == 0 {
		// An atomic whose result is unused. All lanes of all blocks use one
		// operation on one type, so their order cannot be seen.
		if g.atomic == isa.NoOp {
			g.atomic = pick(g.s, free)
		}
		slot := g.slotNamed("counts", isa.U32, 8, false, true)
		r := g.apply(isa.SHL, isa.U32, reg(g.apply(isa.AND, isa.U32, g.source(isa.U32), imm(7))), imm(2))
		g.emit(g.atomic, of(isa.U32), unused, byteAddr(slot, r, 0), g.source(isa.U32))
		return
	}
	barrier := func() { g.emit(isa.BAR_SYNC, isa.Form{}, imm(0)) }
	kind := g.s.Intn(4)
	if g.cfg.Common {
		kind |= 2
	}
	switch kind {
	case 0: // exchange through shared memory
		at := g.apply(isa.SHL, isa.U32, reg(g.lane), imm(3))
		g.emit(isa.STS, of(t), g.seen(t), sharedAddr(at, 0))
		barrier()
		other := g.apply(isa.ADD, isa.U32, reg(g.lane), imm(uint64(g.s.Intn(70))))
		other = g.apply(isa.REM, isa.U32, reg(other), imm(uint64(g.c.Lanes())))
		other = g.apply(isa.SHL, isa.U32, reg(other), imm(3))
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDS, of(t), d, sharedAddr(other, 0)) })
		barrier()
	case 1: // count in shared memory
		if g.common == isa.NoOp {
			g.common = pick(g.s, free)
		}
		at := g.apply(isa.AND, isa.U32, g.source(isa.U32), imm(8))
		base := int64(g.c.Lanes() * 8)
		barrier()
		g.emit(g.common, of(isa.U64), unused, sharedAddr(at, base), g.source(isa.U64))
		barrier()
		at = g.apply(isa.AND, isa.U32, g.source(isa.U32), imm(8))
		g.assign(isa.U64, func(d isa.Arg) { g.emit(isa.LDS, of(isa.U64), d, sharedAddr(at, base)) })
		barrier()
	case 2:
		var ops []isa.Op
		for op := isa.NoOp + 1; op < isa.NumOps; op++ {
			if row, _ := isa.Lookup(op); row.Effect&isa.Barrier != 0 && row.Types.Has(t) {
				ops = append(ops, op)
			}
		}
		v := g.source(t)
		g.assign(t, func(d isa.Arg) { g.emit(pick(g.s, ops), of(t), d, v) })
	case 3:
		g.emit(isa.MEM_FENCE, isa.Form{}, isa.Arg{Kind: isa.ArgName, Bits: uint64(g.s.Intn(4))})
		g.assign(wide, func(d isa.Arg) { g.emit(isa.MOV, of(wide), d, g.source(wide)) })
	}
}

// state writes what reads or changes the state of Atlas.
func (g *generator) state() {
	switch k := g.s.Intn(5); {
	case k == 0:
		g.assign(isa.U16, func(d isa.Arg) { g.emit(isa.PHASE_GET, isa.Form{}, d) })
	case k == 1:
		g.emit(isa.PHASE_ADV, isa.Form{}, imm(uint64(g.s.Intn(1000))))
	case k == 2 || g.pool == 0:
		class := g.source(isa.U8)
		if !g.careless() {
			class = reg(g.apply(isa.REM, isa.U8, class, imm(isa.NumClasses)))
		}
		g.emit(isa.RES_ACCUM, isa.Form{}, class, g.source(isa.U64))
	default:
		t := g.kind(isa.SetNumeric)
		off := g.apply(isa.AND, isa.U64, g.source(isa.U64), imm(31))
		if k == 3 {
			g.emit(isa.POOL_STORE, of(t), g.seen(t), reg(g.pool), reg(off))
		} else {
			g.assign(t, func(d isa.Arg) { g.emit(isa.POOL_LOAD, of(t), d, reg(g.pool), reg(off)) })
		}
	}
}
