package jit

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// program is a function made ready for code to be generated.
type program struct {
	fn       *ir.Func // expanded
	a        *analysis.Analysis
	lay      layout
	straight bool // neither branches nor loops
	loops    bool
	level    bool                  // all lanes come to every store by index, see allStore
	wide     bool                  // values of 64 bits occur in lanes
	apart    map[*ir.Node]bool     // see findApart
	polls    map[*ir.Node]bool     // loops in which to look whether the launch is cancelled
	escapes  map[*ir.Node]bool     // constructs that a Br inside leaves, for farther out than their end
	rounds   map[*ir.Node]bool     // loops to which a Br goes
	tests    map[*ir.Node]*ir.Node // see findTests
	asked    map[*ir.Node]asked    // see findAsked
	insts    int
	aside    int                   // those of them that are jumped over where no lane needs them
	bytes    bool                  // byte addresses occur
	places   bool                  // special values do
	moves    bool                  // see moving
	idle     bool                  // see dividerIdle
	anyOrder bool                  // elements may be done in any order: nothing tells which comes when
	shortcut map[*ir.Node]bool     // see findShortcuts
	specials map[*ir.Node]*special // see findSpecials; nil: what stands within one
	blocks   *blocks               // how it runs by blocks; nil: it does not
	meets    bool                  // lanes of a block meet, or share memory, so it runs by blocks alone
	shared   int                   // the slot that is a block's shared memory, or -1
	unread   map[*ir.Node]bool     // atomic operations of which nobody asks what was there before
	packing  packing               // where it is not run by blocks
	divisors map[*ir.Value]bool    // what is divided by
	formers  map[*ir.Node]*former  // see findFormer
	// conditions are comparisons that need be no masks, see findConditions.
	conditions map[*ir.Node]bool
	// writes has a bit for each slot stored to by index, masked for each of
	// those to which not all lanes may store; reads for those loaded.
	writes, masked, reads uint64
}

// shape is the variant of a program that code is made for: which of the slots
// accessed by index stand for one element, where the others are contiguous; how blocks
// are; and what is faster for so much memory, and where it lies.
type shape struct {
	single uint64
	stream bool // results go past the caches
	halved bool // with vectors of half the length
	pages  bool // pages that it will come to are asked for, and rows of the next segment …
	near   bool // … into the nearest cache
	far    bool // what it goes through is in no near cache: see goesFar
	head   bool // lanes up to a line of the first result are done first
	// block is 0 where lanes are taken as they come. Else the code is for blocks
	// that are rows of at most so many lanes, a power of two; whole: just so many.
	block int
	whole bool
}

// needed is a shape without what only makes launches faster.
func (s shape) needed() shape { return shape{single: s.single, block: s.block, whole: s.whole} }

// maxNodes bounds the programs that are compiled; longer ones are not worth it.
const maxNodes = 1 << 14

// gen makes the code of one variant.
type gen struct {
	*unit
	work    *work.Meter
	p       *program
	t       *target
	shape   shape
	asm     *encoder // for labels
	lanes   int      // of a group
	packed  bool     // narrow integers are
	packing packing
	pro     []inst // what runs once

	shared   []vreg   // by value ID: what is the same in all groups
	vals     [][]vreg // by unrolled group, then value ID
	u        int      // the group at hand
	lo, hi   int      // groups that code is written for together
	lin      []linear // by value ID; nil: nothing is linear
	heads    []vreg   // by value ID
	steps    map[numberKey]x86.Label
	room     int32 // bytes of the frame given to arrays so far
	places   map[*ir.Node]vreg
	ahead    map[*ir.Node]vreg // of a segment's loads that need no check in its loop
	next     []*mref           // what the next segment will load
	kept     map[int]slotRegs  // by slot, in the loop at hand
	begins   map[*ir.Node]vreg // of spaced loads
	combs    map[[2]int]*comb
	flags    map[*ir.Node]int32
	sides    map[*ir.Node]*sides
	weaves   map[[2]int]*weave
	early    map[*ir.Node]bool // nodes whose heads are computed already
	arrays   map[*ir.Value]int32
	spare    map[int][]int32 // arrays that are free, by the bytes of an element
	lying    []*ir.Value     // what lies in arrays, in order
	sharedAt int32           // where a block's shared memory is in the frame
	alive    int32           // where the masks of lanes that have not left are; 0: all are there
	m        vreg            // mask of the lanes that run; 0: all
	mine     vreg            // that mask, where the region that comes may change it; 0: it may not
	full     vreg            // mask of all lanes
	once     bool            // instructions go to pro
	rare     bool            // see inst
	src      int32           // of what is added, see inst
	consts   map[numberKey]vreg
	odds     map[vreg]vreg // see oddBytes

	unmasked map[vreg]vreg // of what was rounded to bf16, the register with its low bits
	divisors map[divided]divisor
	bases    []vreg
	iota     map[int]x86.Label
	data     map[uint64]x86.Label
	exits    map[*ir.Node]*exit
	cancel   x86.Label // where launches end that are cancelled; 0: none can be
	err      error
}

func unsupported(what, why string) error {
	return &backends.Unsupported{Backend: "jit", What: what, Why: why}
}

// prepare looks a canonical function over.
func prepare(m *work.Meter, f *ir.Func) (*program, error) {
	x, err := ir.ExpandMetered(m, f)
	var size *ir.SizeError
	if errors.As(err, &size) {
		return nil, unsupported("a program of this size", err.Error())
	}
	if err != nil {
		return nil, err
	}
	p := &program{fn: x, straight: true, unread: map[*ir.Node]bool{},
		shortcut: map[*ir.Node]bool{}, polls: map[*ir.Node]bool{}, escapes: map[*ir.Node]bool{}, rounds: map[*ir.Node]bool{}, tests: map[*ir.Node]*ir.Node{}, asked: map[*ir.Node]asked{}, divisors: map[*ir.Value]bool{}, conditions: map[*ir.Node]bool{}}
	if err := p.shareMemory(m); err != nil {
		return nil, err
	}
	x, p.lay = p.fn, newLayout(len(p.fn.Slots), len(p.fn.ParamTypes))
	if err := p.scan(x.Body); err != nil {
		return nil, err
	}
	p.findUnread()
	p.leaving(x.Body, nil)
	p.findShortcuts()
	p.findTests(x.Body)
	p.findAsked(x.Body)
	p.findSpecials(m)
	p.level = p.straight || p.allStore()
	if !p.level {
		p.masked = p.writes
	}
	p.findApart()
	p.packing = p.packs(0)
	p.moves, p.idle = p.moving(), p.dividerIdle()
	p.findDivisors(x.Body)
	p.findFormer()
	p.anyOrder = !p.places && !p.bytes && !p.meets && !faults(x.Body)
	if p.a, err = analysis.NewMetered(m, x); err != nil {
		return nil, err
	}
	if err := p.byBlocks(); err != nil {
		return nil, err
	}
	for i := range p.a.Loops {
		l := &p.a.Loops[i]
		p.polls[l.Node] = !l.Node.Free && !l.Short(1<<12)
	}
	return p, nil
}

// scan finds out what the program uses, and refuses what nothing is made for.
func (p *program) scan(r *ir.Region) error {
	p.insts += len(r.Nodes)
	if p.insts > maxNodes {
		return unsupported("a program of this size", fmt.Sprintf("it has more than %d operations", maxNodes))
	}
	for _, n := range r.Nodes {
		for _, v := range n.Results {
			p.wide = p.wide || v.Type.Numeric() && v.Type.Size() == 8
		}
		for _, v := range r.Params {
			p.wide = p.wide || v.Type.Numeric() && v.Type.Size() == 8
		}
		switch {
		case !n.Op.IsInst():
			if n.Op != ir.Const {
				p.straight = false
			}
			p.loops = p.loops || n.Op == ir.Loop
		case n.Mem.Mode == isa.AddrIndex && n.Op == ir.Op(isa.STG):
			p.writes |= 1 << n.Mem.Slot
		case n.Mem.Mode == isa.AddrIndex:
			p.reads |= 1 << n.Mem.Slot
		case n.Mem.Mode != 0:
			p.bytes = true
		}
		if n.Op.IsInst() && meets[n.Op.Inst()] {
			p.meets = true
		}
		p.places = p.places || n.Op == ir.Op(isa.SREG)
		if n.Op == ir.Op(isa.SQRT) {
			p.insts += rootInsts
		}
		if n.Op.IsInst() {
			if _, ok := rules[n.Op.Inst()]; !ok {
				return unsupported(instName(n), declined[n.Op.Inst()])
			}
		}
		before, aside := p.insts, p.aside
		for _, s := range n.Regions {
			if err := p.scan(s); err != nil {
				return err
			}
		}
		if n.Op == ir.If && readyWay(n) >= 0 {
			p.aside = aside + p.insts - before
		}
	}
	return nil
}

func instName(n *ir.Node) string {
	s := n.Op.Inst().String()
	if n.Type != isa.NoType {
		s += " " + n.Type.String()
	}
	return s
}

// fail notes what cannot be compiled; the first stays.
func (g *gen) fail(n *ir.Node, why string) {
	if g.err == nil {
		g.err = unsupported(instName(n), why)
	}
}

// generate makes the code of a variant. It returns the layout of its arguments.
func (p *program) generate(m *work.Meter, t *target, s shape) (code []byte, lay layout, err error) {
	return p.generateFor(m, t, s, nil)
}

// generateFor is generate with somebody who reads the stages, or nil.
func (p *program) generateFor(m *work.Meter, t *target, s shape, d *dump) (code []byte, lay layout, err error) {
	lay, t = p.lay, t.targetFor(s)
	room := 3*p.insts + 32 // for most
	e := &encoder{Asm: x86.Asm{Has: t.features()}, unit: &unit{info: make([]vinfo, 1, room), code: make([]inst, 0, room)}, t: t, lay: &lay, shared: p.shared}
	g := &gen{unit: e.unit, work: m, p: p, t: t, shape: s, asm: e, lanes: p.groupLanes(t, s), packed: t.packs(p.packingOf(s)), packing: p.packingOf(s),
		shared: make([]vreg, p.fn.NumValues), consts: map[numberKey]vreg{}, odds: map[vreg]vreg{}, unmasked: map[vreg]vreg{}, divisors: map[divided]divisor{}, iota: map[int]x86.Label{}, data: map[uint64]x86.Label{}}
	if s.block > 0 {
		g.forBlocks()
	}
	g.function()
	lay.spill += g.room
	if g.err != nil {
		return nil, lay, g.err
	}
	g.code = slices.Insert(g.code, 0, g.pro...)
	for i := range g.loops {
		g.loops[i].first += int32(len(g.pro))
		g.loops[i].last += int32(len(g.pro))
	}
	d.unit(StageInstructions, g.unit)
	g.tidy()
	g.foldLoads(t)
	g.dropAsks()
	d.unit(StageTidy, g.unit)
	g.schedule(t)
	d.unit(StageSchedule, g.unit)
	places := g.allocate(&t.files)
	d.unit(StageRegisters, g.unit)
	d.listen(e)
	lay.bytes = lay.spill + int32(t.bytes)*places
	pushed := e.enter()
	row := e.NewLabel()
	e.Bind(row)
	for i := range e.code {
		d.mark(e, e.code[i].src)
		e.inst(&e.code[i])
	}
	d.mark(e, 0)
	if s.block == 0 {
		e.nextRow(p, row)
	}
	e.leave(pushed)
	for _, a := range e.aside {
		d.mark(e, a.src)
		a.emit()
	}
	end := len(e.Code)
	code, err = e.finish()
	d.machine(e, end)
	return code, lay, err
}

// enter saves the registers that have to be kept.
func (e *encoder) enter() (pushed []x86.Reg) {
	used := map[x86.Reg]bool{}
	for v := range e.info {
		if x := &e.info[v]; x.class == classGPR && x.reg != x86.None && x.end >= 0 {
			used[x.reg] = true
		}
	}
	for _, r := range e.t.files[classGPR] {
		if used[r] && saved(r) {
			e.Push(r)
			pushed = append(pushed, r)
		}
	}
	return pushed
}

// nextRow goes back for the next row, of a call with several: whatever is the same in a
// row, as numbers that broadcast are, is found again, and no register holds anything.
func (e *encoder) nextRow(p *program, row x86.Label) {
	done := e.NewLabel()
	e.Load(x86.W64, x86.RCX, x86.At(regArgs, argRows))
	e.OpImm(x86.SUB, x86.W64, x86.RCX, 1)
	e.Jcc(x86.BE, done)
	e.Load(x86.W32, x86.RAX, x86.At(regArgs, argEnded))
	e.Test(x86.W32, x86.RAX, x86.RAX)
	e.Jcc(x86.NE, done)
	e.Store(x86.W64, x86.At(regArgs, argRows), x86.RCX)
	e.Load(x86.W64, x86.RAX, x86.At(regArgs, argCount))
	e.OpTo(x86.ADD, x86.W64, x86.At(regArgs, argFirst), x86.RAX)
	for i := range p.fn.Slots {
		if p.fn.Slots[i].Indexed {
			at := p.lay.slots + int32(slotBytes*i)
			e.Load(x86.W64, x86.RAX, x86.At(regArgs, at+slotStep))
			e.OpTo(x86.ADD, x86.W64, x86.At(regArgs, at+slotIndex), x86.RAX)
		}
	}
	e.Jmp(row)
	e.Bind(done)
}

func (e *encoder) leave(pushed []x86.Reg) {
	for i := len(pushed) - 1; i >= 0; i-- {
		e.Pop(pushed[i])
	}
	e.VZeroUpper()
	e.Ret()
}

// add appends an instruction.
func (g *gen) add(in inst) {
	in.src, in.rare = g.src, g.rare
	if g.once {
		g.pro = append(g.pro, in)
	} else {
		g.code = append(g.code, in)
	}
}

// from notes which node the instructions are for that follow, and returns for which
// they were.
func (g *gen) from(n *ir.Node) (was int32) {
	was, g.src = g.src, n.Src+1
	return was
}

// special appends an instruction with an emit function, which reads a, b, c and
// writes d.
func (g *gen) special(d, a, b, c vreg, emit func(e *encoder, in *inst)) {
	g.add(inst{d: d, a: a, b: b, c: c, emit: emit})
}

// inner is special for what control comes out of at its end alone, whatever jumps it has.
func (g *gen) inner(d, a, b, c vreg, emit func(e *encoder, in *inst)) {
	g.add(inst{d: d, a: a, b: b, c: c, emit: emit, inner: true})
}

// pure is inner for what nobody notices but by d.
func (g *gen) pure(d, a, b, c vreg, emit func(e *encoder, in *inst)) {
	g.add(inst{d: d, a: a, b: b, c: c, emit: emit, inner: true, pure: true})
}

func (g *gen) bind(l x86.Label) { g.add(inst{label: l}) }

func (g *gen) jump(l x86.Label) {
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.Jmp(l) })
}

// here is where the next instruction goes, for loops.
func (g *gen) here() int32 { return int32(len(g.code)) }

// loop notes that the code from first on is a loop that ends here.
func (g *gen) loop(first int32) {
	g.loops = append(g.loops, span{first, g.here() - 1})
}

// vl is the length of vectors of elements of the given size.
func (g *gen) vl(size int) int { return min(max(g.lanes*size, 16), g.t.bytes) }

// function lays out the loops over the lanes.
func (g *gen) function() {
	p := g.p
	g.once = true
	for i := range p.fn.Slots {
		b := g.newReg(classGPR)
		g.bases = append(g.bases, b)
		if p.fn.Slots[i].Indexed {
			at := p.lay.slots + int32(slotBytes*i) + slotIndex
			g.special(b, 0, 0, 0, func(e *encoder, in *inst) {
				r := e.outGPR(in.d, x86.RAX)
				e.Load(x86.W64, r, x86.At(regArgs, at))
				e.doneGPR(in.d, r)
			})
		}
	}
	g.full = g.allLanes() // first: what is not so is computed apart too
	if p.apart != nil && !g.packed && g.shape.block == 0 {
		g.computeApart(p.fn.Body, g.narrow())
	}
	if p.shared >= 0 {
		g.frameSlot()
	}
	for _, n := range p.fn.Body.Nodes {
		g.hoist(n)
	}
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Load(x86.W64, regCount, x86.At(regArgs, argCount))
		e.Op(x86.XOR, x86.W32, regIndex, regIndex)
	})
	g.once = false
	if g.shape.block > 0 {
		g.blockLoop()
	} else if pairs := g.alikes(); len(pairs) > 0 {
		g.bothWays(g.unrolling(), pairs, g.body)
	} else {
		g.groups(g.unrolling(), g.body)
	}
	if g.cancel != 0 {
		over := g.asm.NewLabel()
		g.jump(over)
		g.bind(g.cancel)
		g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.StoreImm(x86.W32, x86.At(regArgs, argEnded), 1) })
		g.bind(over)
	}
	if g.shape.stream {
		g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { e.SFence() })
	}
}

// groups lays out the loops over the groups of lanes from the first to regCount:
// one over whole groups, unroll at a time, one over the rest, with a mask.
func (g *gen) groups(unroll int, body func(groups int, m vreg)) {
	done, tail, main := g.asm.NewLabel(), g.asm.NewLabel(), g.asm.NewLabel()
	step := unroll * g.lanes
	check := func(e *encoder, c x86.Cond, l x86.Label) {
		e.Lea(x86.RAX, x86.At(regIndex, int32(step)))
		e.Op(x86.CMP, x86.W64, x86.RAX, regCount)
		e.Jcc(c, l)
	}
	again, rest, outer := g.asm.NewLabel(), g.asm.NewLabel(), g.here()
	if g.shape.head {
		g.toLine(rest)
		outer = g.here()
		g.bind(again)
	}
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) { check(e, x86.A, tail) })
	first := g.here()
	g.bind(main)
	body(unroll, 0)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.OpImm(x86.ADD, x86.W64, regIndex, int32(step))
		check(e, x86.BE, main)
	})
	g.loop(first)
	g.bind(tail)
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.Op(x86.CMP, x86.W64, regIndex, regCount)
		e.Jcc(x86.AE, done)
	})
	g.groupsLeft(rest, body)
	if g.shape.head {
		g.fromLine(again)
		g.loop(outer)
	}
	g.bind(done)
}

// groupsLeft does the groups from regIndex on, one or more, each with the mask of its lanes.
func (g *gen) groupsLeft(again x86.Label, body func(groups int, m vreg)) {
	first := g.here()
	g.bind(again)
	body(1, g.tailMask())
	g.special(0, 0, 0, 0, func(e *encoder, _ *inst) {
		e.OpImm(x86.ADD, x86.W64, regIndex, int32(g.lanes))
		e.Op(x86.CMP, x86.W64, regIndex, regCount)
		e.Jcc(x86.B, again)
	})
	g.loop(first)
}

// unrolling is how many groups a round of the main loop does: more where they are
// short. A processor looks ahead for a hundred instructions that wait for others, a
// few groups of a function; where there are registers enough they are interleaved.
// What most groups jump over doesn't count, unless it is long: there is one for each.
func (g *gen) unrolling() int {
	n, many := g.p.insts, len(g.t.files[classVec]) >= manyVectors
	if n <= longProgram {
		n -= g.p.aside
	}
	switch {
	case !g.p.level || g.p.loops:
		return 1
	case n <= shortProgram, n <= 120 && many:
		return 4
	case n <= 60:
		return 2
	}
	return 1
}

// shortProgram is how many instructions a processor sees through some groups of.
const shortProgram = 12

// longProgram is how many instructions are written four times if most of them are jumped over.
const longProgram = 500

// manyVectors are registers enough for four groups and the constants of a function.
const manyVectors = 24

// begin forgets the values of all groups that were written before.
func (g *gen) begin(groups int) {
	for len(g.vals) < groups {
		g.vals = append(g.vals, make([]vreg, g.p.fn.NumValues))
	}
	for _, values := range g.vals[:groups] {
		clear(values)
	}
	maps.DeleteFunc(g.divisors, func(d divided, _ divisor) bool { return d.u >= 0 })
	g.exits = map[*ir.Node]*exit{}
}

// body writes the program for some groups of lanes; m masks those that run.
func (g *gen) body(groups int, m vreg) {
	g.begin(groups)
	g.m, g.lo, g.hi = m, 0, groups
	g.u = 0
	for i := range g.p.fn.Slots {
		if (g.p.reads|g.p.writes)>>i&1 != 0 && g.shape.single>>i&1 == 0 {
			g.askPage(g.element(i, g.p.fn.SlotTypes[i].Size()))
		}
	}
	end := g.asm.NewLabel()
	g.region(g.p.fn.Body, end)
	g.bind(end)
}

// val is the register of a value in the group at hand.
func (g *gen) val(v *ir.Value) vreg {
	if c, ok := v.Const(); ok {
		return g.constant(v.Type, c)
	}
	if r := g.shared[v.ID]; r != 0 {
		return r
	}
	if g.vals[g.u][v.ID] == 0 && v.Node != nil && g.late(v.Node) {
		was := g.from(v.Node)
		compare(g, v.Node)
		g.src = was
	}
	return g.vals[g.u][v.ID]
}

// late reports whether a node waits until something asks for its result: comparisons
// do, in code that interleaves groups, since masks have few registers, and those that only a branch asks for.
func (g *gen) late(n *ir.Node) bool {
	return g.lin != nil && g.p.conditions[n] || g.t.evex && g.p.straight && g.shape.block == 0 && n.Op == ir.Op(isa.SET)
}

// set gives a value its register.
func (g *gen) set(v *ir.Value, r vreg) {
	g.succeed(v, r)
	g.info[r].values = min(g.info[r].values+1, 2)
}

// succeed gives it the register of a value that ends there.
func (g *gen) succeed(v *ir.Value, r vreg) { g.vals[g.u][v.ID] = r }
