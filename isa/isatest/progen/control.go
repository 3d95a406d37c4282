package progen

import "github.com/hologram-project/hologram/isa"

// condition returns a predicate operand and whether all lanes of a block agree
// on it.
func (g *generator) condition() (p isa.Arg, uniform bool) {
	p = pred(isa.NumPredicates-2, g.s.Intn(2) == 0)
	f := isa.Form{Cond: isa.EQ + isa.Cond(g.s.Intn(6))}
	if g.cfg.Lanes && g.s.Intn(3) == 0 {
		f.Type = isa.U32
		a := reg(253) // block.x
		if g.s.Intn(2) == 0 {
			r := g.temp()
			g.emit(isa.LDP, of(isa.U32), reg(r), isa.Arg{Kind: isa.ArgParam, Bits: uint64(g.param(f.Type))})
			a = reg(r)
		}
		g.emit(isa.SET, f, pred(p.Reg, false), a, imm(uint64(g.s.Intn(3))))
		return p, true
	}
	if vars := g.variables(isa.Pred); len(vars) > 0 && g.s.Intn(2) == 0 {
		return pred(pick(g.s, vars).reg, p.Not), false
	}
	f.Type = g.kind(isa.SetNumeric)
	a, b := g.source(f.Type), g.source(f.Type)
	g.emit(isa.SET, f, pred(p.Reg, false), a, b)
	return p, false
}

// apart runs f, in which lanes may have parted if parted is set.
func (g *generator) apart(parted bool, f func()) {
	was := g.alone
	g.alone = was || parted
	f()
	g.alone = was
}

func not(p isa.Arg) isa.Arg {
	p.Not = !p.Not
	return p
}

func (g *generator) branch(size int) {
	p, uniform := g.condition()
	other, end := g.label(), g.label()
	g.apart(!uniform, func() {
		g.emit(isa.BRA, isa.Form{}, other, not(p))
		g.body(1 + size/2)
		if g.s.Intn(2) == 0 {
			g.emit(isa.BRA, isa.Form{}, end)
			g.put(other)
			g.body(1 + size/2)
		} else {
			g.put(other)
		}
		g.put(end)
	})
}

// counted writes a LOOP, perhaps with a way to the next round and one out.
func (g *generator) counted(size int) {
	count, uniform := imm(uint64(g.s.Intn(5))), true
	switch g.s.Intn(3) {
	case 0:
		count, uniform = reg(g.apply(isa.AND, isa.U32, g.source(isa.U32), imm(3))), false
	case 1:
		r := g.temp()
		g.emit(isa.LDP, of(isa.U32), reg(r), isa.Arg{Kind: isa.ArgParam, Bits: uint64(g.param(isa.U32))})
		count = reg(g.apply(isa.AND, isa.U32, reg(r), imm(3)))
	}
	next, out := g.label(), g.label()
	leaves := g.s.Intn(3) == 0
	g.loops++
	g.apart(!uniform || leaves, func() {
		g.emit(isa.LOOP, isa.Form{}, count, next)
		g.body(1 + size/2)
		if g.s.Intn(3) == 0 {
			p, _ := g.condition()
			g.apart(true, func() {
				g.emit(isa.BRA, isa.Form{}, next, p)
				g.body(1)
			})
		}
		if leaves {
			p, _ := g.condition()
			g.emit(isa.BRA, isa.Form{}, out, p)
			g.body(1 + size/4)
		}
		g.put(next)
	})
	// A label right behind the loop's end would be the next round's.
	g.emit(isa.MOV, of(isa.U32), reg(239), imm(0))
	g.put(out)
	g.loops--
}

// while writes a loop made by branches, which ends after a few rounds at most.
func (g *generator) while(size int) {
	c, ok := g.fresh()
	if !ok {
		return
	}
	again, test, out := g.label(), g.label(), g.label()
	bound := imm(uint64(1 + g.s.Intn(4)))
	g.loops++
	g.emit(isa.MOV, of(isa.U32), reg(c), imm(0))
	enter := g.s.Intn(2) == 0
	parts := g.s.Intn(2) == 0
	g.apart(parts, func() {
		if enter {
			g.emit(isa.BRA, isa.Form{}, test)
		}
		g.put(again)
		g.body(1 + size/2)
		if parts {
			p, _ := g.condition()
			g.emit(isa.BRA, isa.Form{}, pick(g.s, []isa.Arg{test, out}), p)
			g.body(1 + size/4)
		}
		g.put(test)
		g.emit(isa.ADD, of(isa.U32), reg(c), reg(c), imm(1))
		p := pred(isa.NumPredicates-2, false)
		g.emit(isa.SET, isa.Form{Type: isa.U32, Cond: isa.LT}, p, reg(c), bound)
		g.emit(isa.BRA, isa.Form{}, again, p)
	})
	g.put(out)
	g.loops--
	g.regs[c] = false
}

// call writes a subroutine and calls it, once or twice.
func (g *generator) call(size int) {
	g.calls++
	at := g.label()
	g.open()
	g.put(at)
	g.body(size)
	if g.s.Intn(2) == 0 {
		p, _ := g.condition()
		skip := g.label()
		g.emit(isa.BRA, isa.Form{}, skip, p)
		g.emit(isa.RET, isa.Form{})
		g.put(skip)
		g.apart(true, func() { g.body(1) })
	}
	g.emit(isa.RET, isa.Form{})
	g.pop()
	for range 1 + g.s.Intn(2) {
		g.emit(isa.CALL, isa.Form{}, at)
	}
}

// exit ends some lanes.
func (g *generator) exit() {
	p, _ := g.condition()
	skip := g.label()
	g.emit(isa.BRA, isa.Form{}, skip, p)
	g.emit(isa.EXIT, isa.Form{})
	g.put(skip)
	g.quiet = true
}
