// Package progen makes random ordered Atlas programs with all that a launch
// of them needs: no two lanes touch one location, one of them writing, without
// a barrier between them or an integer atomic whose result is unused, and no
// program looks at the bits of a NaN. So every backend must leave the same
// bits behind. Every program passes isa.Verify and ends by itself.
//
// Operations come from the instruction table: a new row that is pure takes
// part without a change here.
package progen

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
)

// Config says what programs may hold.
type Config struct {
	// Size is about how many statements a program has.
	Size int
	// Lanes lets blocks have more than one lane, and lanes work together:
	// shared memory, barriers, collectives, atomics.
	Lanes bool
	// Math lets in what expands (EXP, SIN, …).
	Math bool
	// Atlas lets in phase, residue and scratch areas.
	Atlas bool
	// Faults lets in stray accesses, divisions by zero and classes that do
	// not exist, now and then.
	Faults bool
	// Crowded lets loads, stores and guarded accesses stand close together on
	// few places: small programs in which the order of two of them, or a mask,
	// shows.
	Crowded bool
	// Narrow has much of a program convert to types of few bits and go on with
	// what that made.
	Narrow bool
	// Common leaves out what is rare in programs that people write, and so what
	// engines that make code for vectors leave to slower ones: atomics, shared
	// memory, the class graph, slots by number, and mostly all that is not addressed
	// by [index]. It takes Atlas away.
	Common bool
	// Affine has most of a program compute with numbers that step along the lanes of
	// blocks that are rows, as addresses do.
	Affine bool
	// Space lets in places in the index space and flat addresses: what launches
	// give beside parameters.
	Space bool
}

// Case is a program with a launch. Params has a cell for each parameter. The
// index space has N elements; its sizes matter with Config.Space alone.
type Case struct {
	Program     *isa.Program
	Grid, Block [3]uint32
	N           uint64
	Sizes       []int64
	Slots       []Slot
	Params      []uint64
}

// Slot is what a launch binds to a slot of the program.
type Slot struct {
	isa.Slot
	Elements int    // at least N if the slot is accessed by index
	Data     []byte // what the memory holds before the launch, Elements·size bytes
	// Indexed is set if slot[index] is the only access: the view may have
	// strides, and a slot that is only read may be broadcast.
	Indexed bool
	// Flat is set if slot[flat i] is the only access: the elements may lie any step apart.
	Flat   bool
	Writes bool
}

// Lanes returns the number of lanes of a block.
func (c *Case) Lanes() uint32 { return c.Block[0] * c.Block[1] * c.Block[2] }

// New makes a case from s's choices.
func New(s isatest.Source, cfg Config) *Case {
	cfg.Atlas = cfg.Atlas && !cfg.Common
	g := &generator{s: s, cfg: cfg, c: &Case{Program: &isa.Program{Name: "random"}}}
	g.indexed = cfg.Common && g.s.Intn(4) > 0
	for range 3 {
		g.types = append(g.types, pick(g.s, isa.NumericTypes))
	}
	g.launch()
	g.open()
	g.preamble()
	for left := cfg.Size; left > 0; left = g.statement(left) {
	}
	g.results()
	g.emit(isa.EXIT, isa.Form{})
	g.close()
	for i := range g.c.Slots {
		g.c.Slots[i].Indexed = g.c.Slots[i].Indexed && !g.indirect
		g.c.Slots[i].Flat = g.c.Slots[i].Flat && !g.indirect
		g.c.Slots[i].Writes = g.c.Slots[i].Writes || g.anywhere
		g.c.Program.Slots = append(g.c.Program.Slots, g.c.Slots[i].Slot)
	}
	return g.c
}

func (g *generator) launch() {
	c := g.c
	c.Block = [3]uint32{1, 1, 1}
	if g.cfg.Lanes {
		shapes := [][3]uint32{{1, 1, 1}, {4, 1, 1}, {32, 1, 1}, {33, 1, 1}, {5, 3, 1}, {2, 2, 3}, {64, 1, 1}}
		if g.cfg.Affine {
			shapes = [][3]uint32{{7, 1, 1}, {20, 1, 1}, {32, 1, 1}, {33, 1, 1}, {45, 1, 1}, {64, 1, 1}}
		}
		c.Block = pick(g.s, shapes)
	}
	blocks := 1 + g.s.Intn(3)
	c.Grid = [3]uint32{uint32(blocks), 1, 1}
	if blocks == 3 && g.s.Intn(2) == 0 {
		c.Grid = [3]uint32{2, 2, 1}
		blocks = 4
	}
	all := blocks * int(c.Lanes())
	c.N = uint64(all - g.s.Intn(min(all, 4)))
	c.Sizes = []int64{int64(c.N)}
	for g.cfg.Space && len(c.Sizes) < 4 && g.s.Intn(3) > 0 { // split the last axis
		last := &c.Sizes[len(c.Sizes)-1]
		var divisors []int64
		for d := int64(1); d <= *last; d++ {
			if *last%d == 0 {
				divisors = append(divisors, d)
			}
		}
		d := pick(g.s, divisors)
		*last /= d
		c.Sizes = append(c.Sizes, d)
	}
}

// lanesInGrid counts the surplus lanes in.
func (g *generator) lanesInGrid() int {
	c := g.c
	return int(c.Lanes() * c.Grid[0] * c.Grid[1] * c.Grid[2])
}

func pick[T any](s isatest.Source, list []T) T { return list[s.Intn(len(list))] }

// generator writes a program. Instructions go to the top segment: the main
// code is one, each subroutine another.
type generator struct {
	s   isatest.Source
	cfg Config
	c   *Case

	segments []*segment
	finished []*segment
	labels   []place // by label number

	regs   [isa.FirstPreset]bool // in use
	preds  [isa.NumPredicates]bool
	vars   []variable
	pinned []uint8 // registers that no statement may assign
	held   []uint8 // temporaries of the statement at hand

	// types are those that most values have, so that they meet.
	types []isa.Type
	// alone is set where lanes may have parted: no barrier may stand there.
	alone bool
	// quiet is set for good when a lane may have ended where others have not.
	quiet bool
	// indirect is set if a slot's number is in a register: then any slot may
	// be meant, and all are accessed by byte address.
	indirect bool
	indexed  bool // all is addressed by [index]
	anywhere bool // and stored to
	depth    int
	loops    int
	calls    int
	chains   int           // slots that narrow has stored to
	shifts   []int         // parameters of affine
	shown    [isa.Pred]int // by type: what affine has stored
	slot     map[string]int
	lane     uint8 // u32 register: the lane's number in its block
	area     uint8 // u64 register: where the lane's part of the scratch slot begins
	pool     uint8 // u64 register: the handle of a scratch area
	atomic   isa.Op
	common   isa.Op // the atomic of shared memory
	tally    isa.Op // the atomic at flat addresses
}

type variable struct {
	t   isa.Type // Pred: reg is a predicate
	reg uint8
}

type segment struct {
	insts []isa.Inst
	start int
}

type place struct {
	seg *segment
	at  int
}

func (g *generator) open() { g.segments = append(g.segments, &segment{}) }

func (g *generator) top() *segment { return g.segments[len(g.segments)-1] }

func (g *generator) pop() {
	g.finished = append(g.finished, g.top())
	g.segments = g.segments[:len(g.segments)-1]
}

// close puts the segments one behind the other, the main code first.
func (g *generator) close() {
	g.pop()
	p := g.c.Program
	for i := len(g.finished) - 1; i >= 0; i-- {
		f := g.finished[i]
		f.start = len(p.Insts)
		p.Insts = append(p.Insts, f.insts...)
	}
	for i, l := range g.labels {
		p.Labels = append(p.Labels, isa.Label{Name: fmt.Sprintf("L%d", i), At: l.seg.start + l.at})
	}
}

func (g *generator) emit(op isa.Op, f isa.Form, args ...isa.Arg) {
	in := isa.Inst{Op: op, Form: f}
	copy(in.Args[:], args)
	g.top().insts = append(g.top().insts, in)
}

func (g *generator) label() isa.Arg {
	g.labels = append(g.labels, place{})
	return isa.Arg{Kind: isa.ArgLabel, Bits: uint64(len(g.labels) - 1)}
}

func (g *generator) put(l isa.Arg) {
	g.labels[l.Bits] = place{g.top(), len(g.top().insts)}
}

func reg(r uint8) isa.Arg            { return isa.Arg{Kind: isa.ArgReg, Reg: r} }
func pred(p uint8, not bool) isa.Arg { return isa.Arg{Kind: isa.ArgPred, Reg: p, Not: not} }
func imm(cell uint64) isa.Arg        { return isa.Arg{Kind: isa.ArgImm, Bits: cell} }
func of(t isa.Type) isa.Form         { return isa.Form{Type: t} }

// kind returns a type of the set, most often one of the program's favourites.
func (g *generator) kind(set isa.TypeSet) isa.Type {
	if g.s.Intn(4) > 0 {
		if t := pick(g.s, g.types); set.Has(t) {
			return t
		}
	}
	return pick(g.s, set.List())
}

// fresh returns a register that nothing uses, and whether there was one.
func (g *generator) fresh() (uint8, bool) {
	for r := range g.regs {
		if !g.regs[r] {
			g.regs[r] = true
			return uint8(r), true
		}
	}
	return 0, false
}

// temp returns a register that is free again after the statement.
func (g *generator) temp() uint8 {
	r, ok := g.fresh()
	if !ok {
		panic("progen: out of registers")
	}
	g.held = append(g.held, r)
	return r
}

func (g *generator) dropTemps(to int) {
	for _, r := range g.held[to:] {
		g.regs[r] = false
	}
	g.held = g.held[:to]
}

func (g *generator) pin() uint8 {
	r, _ := g.fresh()
	g.pinned = append(g.pinned, r)
	return r
}

// scope runs f; the variables that it adds are gone afterwards.
func (g *generator) scope(f func()) {
	n := len(g.vars)
	f()
	for _, v := range g.vars[n:] {
		if v.t == isa.Pred {
			g.preds[v.reg] = false
		} else {
			g.regs[v.reg] = false
		}
	}
	g.vars = g.vars[:n]
}

// variables returns the variables of type t.
func (g *generator) variables(t isa.Type) []variable {
	var l []variable
	for _, v := range g.vars {
		if v.t == t {
			l = append(l, v)
		}
	}
	return l
}

// assign calls f with a destination of type t, a new variable or an old one.
func (g *generator) assign(t isa.Type, f func(dst isa.Arg)) {
	old := g.variables(t)
	if len(old) > 0 && (g.s.Intn(3) == 0 || len(g.vars) > 40) {
		v := pick(g.s, old)
		if t == isa.Pred {
			f(pred(v.reg, false))
		} else {
			f(reg(v.reg))
		}
		return
	}
	if t != isa.Pred {
		if len(g.vars) > 120 {
			f(reg(g.temp()))
			return
		}
		r, _ := g.fresh()
		f(reg(r))
		g.vars = append(g.vars, variable{t, r})
		return
	}
	for p := range g.preds[:isa.NumPredicates-2] {
		if !g.preds[p] {
			g.preds[p] = true
			f(pred(uint8(p), false))
			g.vars = append(g.vars, variable{t, uint8(p)})
			return
		}
	}
	f(pred(isa.NumPredicates-1, false)) // never read
}

// source returns an operand of type t.
func (g *generator) source(t isa.Type) isa.Arg {
	vars := g.variables(t)
	if t == isa.Pred {
		if len(vars) == 0 || g.s.Intn(12) == 0 {
			return imm(uint64(g.s.Intn(2)))
		}
		return pred(pick(g.s, vars).reg, g.s.Intn(3) == 0)
	}
	switch k := g.s.Intn(10); {
	case len(vars) > 0 && k < 7:
		return reg(pick(g.s, vars).reg)
	case k < 9:
		return imm(g.cell(t))
	}
	r := g.temp()
	g.emit(isa.LDG, of(t), reg(r), g.element(g.input(t)))
	return reg(r)
}

// register returns an operand of type t that is a register.
func (g *generator) register(t isa.Type) uint8 {
	a := g.source(t)
	if a.Kind == isa.ArgReg {
		return a.Reg
	}
	r := g.temp()
	g.emit(isa.MOV, of(t), reg(r), a)
	return r
}

// cell returns a value of type t: often a special or a small one.
func (g *generator) cell(t isa.Type) uint64 {
	if g.s.Intn(4) == 0 {
		return g.s.Uint64() & t.Mask()
	}
	if !t.Float() {
		top := uint64(1) << (t.Bits() - 1)
		return pick(g.s, []uint64{0, 1, 2, 3, 5, 7, 8, 31, 32, 100, top - 1, top, t.Mask(), t.Mask() - 1}) & t.Mask()
	}
	m, e := t.MantissaBits(), t.ExponentBits()
	sign := uint64(g.s.Intn(2)) << (t.Bits() - 1)
	one := (uint64(1)<<(e-1) - 1) << m
	inf := (uint64(1)<<e - 1) << m
	return sign | pick(g.s, []uint64{0, 1, one, one, one + 1, one + 1<<m, one + 3<<(m-1), one - 1<<m,
		one + 4<<m, one + 5<<(m-1), 1 << m, 1<<m - 1, inf, inf - 1, inf | 1<<(m-1)})
}

// slotNamed returns the slot of that name, which make describes if it is new.
func (g *generator) slotNamed(name string, t isa.Type, elements int, indexed, writes bool) int {
	if g.slot == nil {
		g.slot = map[string]int{}
	}
	i, ok := g.slot[name]
	if !ok {
		i = len(g.c.Slots)
		g.slot[name] = i
		s := Slot{Slot: isa.Slot{Name: name, Type: t}, Elements: elements, Indexed: indexed, Writes: writes}
		for range elements {
			c := g.cell(t)
			for b := range t.Size() {
				s.Data = append(s.Data, byte(c>>(8*b)))
			}
		}
		g.c.Slots = append(g.c.Slots, s)
	}
	return i
}

func (g *generator) input(t isa.Type) int {
	return g.slotNamed(fmt.Sprintf("in%d_%v", g.s.Intn(2), t), t, int(g.c.N), true, false)
}

// output returns a slot of which each lane writes, and may read, its element.
func (g *generator) output(t isa.Type) int {
	return g.slotNamed(fmt.Sprintf("out%d_%v", g.s.Intn(2), t), t, int(g.c.N), true, true)
}

func (g *generator) element(slot int) isa.Arg {
	return isa.Arg{Kind: isa.ArgAddr, Mode: isa.AddrIndex, Slot: uint16(slot)}
}

func byteAddr(slot int, r uint8, off int64) isa.Arg {
	return isa.Arg{Kind: isa.ArgAddr, Mode: isa.AddrByte, Slot: uint16(slot), HasReg: true, Reg: r, Bits: uint64(off)}
}

func flatAddr(slot int, r uint8, off int64) isa.Arg {
	return isa.Arg{Kind: isa.ArgAddr, Mode: isa.AddrFlat, Slot: uint16(slot), HasReg: true, Reg: r, Bits: uint64(off)}
}

func sharedAddr(r uint8, off int64) isa.Arg {
	return isa.Arg{Kind: isa.ArgAddr, Mode: isa.AddrShared, HasReg: true, Reg: r, Bits: uint64(off)}
}

// param returns a parameter of type t.
func (g *generator) param(t isa.Type) int {
	var l []int
	for i, p := range g.c.Program.Params {
		if p.Type == t {
			l = append(l, i)
		}
	}
	if len(l) > 0 && (len(l) > 2 || g.s.Intn(2) == 0) {
		return pick(g.s, l)
	}
	return g.parameter(t, g.cell(t))
}

// parameter adds a parameter.
func (g *generator) parameter(t isa.Type, cell uint64) int {
	i := len(g.c.Program.Params)
	g.c.Program.Params = append(g.c.Program.Params, isa.Param{Name: fmt.Sprintf("a%d", i), Type: t})
	g.c.Params = append(g.c.Params, cell)
	return i
}

// tableLen is the length of every constant table.
const tableLen = 8

func (g *generator) table(t isa.Type) int {
	for i, d := range g.c.Program.Data {
		if d.Type == t {
			return i
		}
	}
	d := isa.Data{Name: "t_" + t.String(), Type: t}
	for range tableLen {
		d.Values = append(d.Values, g.cell(t))
	}
	g.c.Program.Data = append(g.c.Program.Data, d)
	return len(g.c.Program.Data) - 1
}

// preamble computes what later statements address memory by, and gives a few
// variables their first values.
func (g *generator) preamble() {
	u32, u64 := isa.U32, isa.U64
	sreg := func(d uint8, s isa.Special) {
		g.emit(isa.SREG, isa.Form{}, reg(d), isa.Arg{Kind: isa.ArgName, Bits: uint64(s)})
	}
	g.area = g.pin()
	g.emit(isa.SHL, of(u64), reg(g.area), reg(255), imm(6))
	if g.cfg.Lanes {
		g.c.Program.Shared = g.c.Lanes()*8 + 16
		g.lane = g.pin()
		t := g.temp()
		sreg(g.lane, isa.LaneZ)
		sreg(t, isa.BlockDimY)
		g.emit(isa.MUL, of(u32), reg(g.lane), reg(g.lane), reg(t))
		sreg(t, isa.LaneY)
		g.emit(isa.ADD, of(u32), reg(g.lane), reg(g.lane), reg(t))
		g.emit(isa.MUL, of(u32), reg(g.lane), reg(g.lane), reg(254))
		g.emit(isa.ADD, of(u32), reg(g.lane), reg(g.lane), reg(252))
	}
	if g.cfg.Atlas && g.s.Intn(2) == 0 {
		g.pool = g.pin()
		g.emit(isa.POOL_ALLOC, isa.Form{}, reg(g.pool), imm(64))
	}
	g.dropTemps(0)
	for range 3 {
		t := g.kind(isa.SetNumeric)
		g.assign(t, func(d isa.Arg) { g.emit(isa.LDG, of(t), d, g.element(g.input(t))) })
	}
}

// results stores variables, so that something can be seen of the program.
func (g *generator) results() {
	for range 4 {
		var numbers []variable
		for _, v := range g.vars {
			if v.t != isa.Pred {
				numbers = append(numbers, v)
			}
		}
		if len(numbers) == 0 {
			return
		}
		v := pick(g.s, numbers)
		if g.cfg.Affine { // by index it might be where machine code does not go
			if v.t.Integer() {
				g.show(v.t, v.reg)
			}
			continue
		}
		g.emit(isa.STG, of(v.t), reg(v.reg), g.element(g.output(v.t)))
	}
	if g.pool != 0 && g.s.Intn(2) == 0 {
		g.emit(isa.POOL_FREE, isa.Form{}, reg(g.pool))
	}
}
