package progen

import "github.com/hologram-project/hologram/isa"

// memory writes a load or store that only this lane can tell from others.
func (g *generator) memory() {
	t := g.kind(isa.SetNumeric)
	kind := g.s.Intn(9)
	if g.cfg.Common {
		kind = pick(g.s, []int{0, 2, 3, 5, 6}[:g.most(3, 5)])
	}
	switch kind {
	case 0, 1:
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, g.element(g.input(t))) })
	case 2:
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, g.element(g.output(t))) })
	case 3:
		g.emit(isa.STG, of(t), g.source(t), g.element(g.output(t)))
	case 4: // any place of a slot that is only read
		slot := g.slotNamed("bytes", isa.U8, 80, false, false)
		if g.s.Intn(2) == 0 {
			slot = g.slotNamed("bytes_"+t.String(), t, 80/t.Size(), false, false)
		}
		r, off := g.offset(63), int64(g.s.Intn(9))
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, byteAddr(slot, r, off)) })
	case 5:
		at := g.own(t)
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, at) })
	case 6:
		g.emit(isa.STG, of(t), g.seen(t), g.own(t))
	case 8: // the slot's number in a register
		if g.s.Intn(4) > 0 {
			return
		}
		g.indirect = true
		h := g.temp()
		g.emit(isa.MOV, of(isa.I64), reg(h), imm(uint64(g.slotNamed("bytes", isa.U8, 80, false, false))))
		at := isa.Arg{Kind: isa.ArgAddr, Mode: isa.AddrIndirect, Handle: h, HasReg: true, Reg: g.offset(63), Bits: uint64(g.s.Intn(9))}
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, at) })
	case 7: // nobody else touches the place: the result may be used
		t = g.kind(isa.SetWide)
		op := pick(g.s, atomics)
		if op == isa.ATOM_CAS {
			old, with, at := g.source(t), g.source(t), g.own(t)
			g.assign(t, func(d isa.Arg) { g.emit(op, of(t), d, at, old, with) })
			return
		}
		v, at := g.source(t), g.own(t)
		g.assign(t, func(d isa.Arg) { g.emit(op, of(t), d, at, v) })
	}
}

// reload loads a place of the lane's own, stores to it or beside it, and loads
// it again, by one address or by another that leads there too.
func (g *generator) reload() {
	if g.indexed {
		g.memory()
		return
	}
	t := g.kind(isa.SetNumeric &^ isa.SetFloat)
	slot := g.slotNamed("scratch", isa.U8, 64*g.lanesInGrid(), false, true)
	place := func() isa.Arg {
		at := byteAddr(slot, g.area, int64(8*g.s.Intn(2)))
		if g.cfg.Common || !g.indirect && g.s.Intn(4) > 0 || g.s.Intn(2) == 0 {
			return at
		}
		g.indirect = true
		h := g.temp()
		g.emit(isa.MOV, of(isa.I64), reg(h), imm(uint64(slot)))
		at.Mode, at.Handle, at.Slot = isa.AddrIndirect, h, 0
		return at
	}
	for range 2 + g.s.Intn(3) {
		at := place()
		if g.s.Intn(2) == 0 {
			g.anywhere = g.anywhere || at.Mode == isa.AddrIndirect
			g.emit(isa.STG, of(t), g.source(t), at)
		} else {
			g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, at) })
		}
	}
}

// guard does what would be a fault in some lanes, in the others alone: those
// that a test lets through.
func (g *generator) guard() {
	t := pick(g.s, []isa.Type{isa.U32, isa.U64})
	i := g.temp()
	if g.s.Intn(2) == 0 { // linear in the lane
		g.emit(isa.CVT, isa.Form{Type: t, From: isa.U64}, reg(i), reg(255))
		g.emit(isa.ADD, of(t), reg(i), reg(i), imm(uint64(g.s.Intn(5)-2)&t.Mask()))
	} else {
		g.emit(isa.AND, of(t), reg(i), g.source(t), imm(15))
	}
	p, skip := pred(isa.NumPredicates-2, false), g.label()
	test := func(c isa.Cond, limit uint64) {
		g.emit(isa.SET, isa.Form{Type: t, Cond: c}, p, reg(i), imm(limit))
		g.emit(isa.BRA, isa.Form{}, skip, not(p))
	}
	// What is assigned in between is known to all lanes before.
	out := g.kind(isa.SetNumeric)
	d := g.register(out)
	r := g.temp()
	g.emit(isa.MOV, of(out), reg(r), reg(d))
	g.apart(true, func() {
		kind := g.s.Intn(4)
		if g.cfg.Common {
			kind &= 2
		}
		switch kind {
		case 0:
			test(isa.LT, tableLen)
			g.emit(isa.LDC, of(out), reg(r), isa.Arg{Kind: isa.ArgData, Bits: uint64(g.table(out))}, reg(i))
		case 1:
			size := out.Size()
			slot := g.slotNamed("bytes_"+out.String(), out, 80/size, false, false)
			test(isa.LE, uint64(80-size))
			g.emit(isa.LDG, of(out), reg(r), byteAddr(slot, i, 0))
		case 2:
			test(isa.NE, 0)
			q := g.temp()
			g.emit(pick(g.s, []isa.Op{isa.DIV, isa.REM}), of(t), reg(q), g.source(t), reg(i))
			g.emit(isa.CVT, isa.Form{Type: out, From: t}, reg(r), reg(q))
		case 3:
			test(isa.LT, isa.NumClasses)
			c := g.temp()
			g.emit(isa.CVT, isa.Form{Type: isa.U8, From: t}, reg(c), reg(i))
			g.emit(isa.MIRROR, isa.Form{}, reg(c), reg(c))
			g.emit(isa.CVT, isa.Form{Type: out, From: isa.U8}, reg(r), reg(c))
		}
		g.put(skip)
	})
	g.assign(out, func(d isa.Arg) { g.emit(isa.MOV, of(out), d, reg(r)) })
}

var atomics = []isa.Op{isa.ATOM_ADD, isa.ATOM_MIN, isa.ATOM_MAX, isa.ATOM_AND, isa.ATOM_OR, isa.ATOM_XOR, isa.ATOM_EXCH, isa.ATOM_CAS}

// offset returns a register with an integer of 0 … mask, or now and then any.
func (g *generator) offset(mask uint64) uint8 {
	t := g.kind(isa.SetWide)
	if g.careless() {
		return g.register(t)
	}
	return g.apply(isa.AND, t, g.source(t), imm(mask))
}

// own returns a place in the lane's 64 bytes of the scratch slot: integers in
// the first half, the floats in the other.
func (g *generator) own(t isa.Type) isa.Arg {
	slot := g.slotNamed("scratch", isa.U8, 64*g.lanesInGrid(), false, true)
	r, off := g.area, int64(g.s.Intn(5))
	if !t.Float() && !g.cfg.Common && g.s.Intn(3) == 0 {
		u := g.temp()
		g.emit(isa.AND, of(isa.U64), reg(u), g.source(isa.U64), imm(15))
		r, off = g.apply(isa.ADD, isa.U64, reg(g.area), reg(u)), int64(g.s.Intn(17-t.Size()))
	}
	if t.Float() {
		off = 32 + int64(t-isa.F16)*8
	}
	return byteAddr(slot, r, off)
}
