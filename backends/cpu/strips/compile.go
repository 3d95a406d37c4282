package strips

import (
	"errors"
	"fmt"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// maxLasting bounds the registers that keep a place of their own: beyond so
// many, constants are set again in each strip.
const maxLasting = 64

// regInfo is what the compiler knows about a register: the size of a value, and
// the span of the program during which its lanes are needed. There is one for
// each value; those that are not needed at the same time share one of frames, of
// which it is the number.
type regInfo struct {
	start, end int32
	number     int32
	size       uint8
	lasting    bool
	foreign    bool // it may hold memory of slots
}

// constantReg is a register that holds a constant.
type constantReg struct {
	reg  int32
	bits uint64
}

type paramReg struct{ reg, param int32 }

type specialReg struct {
	reg     int32
	special isa.Special
}

// compiler turns an ir.Func into steps. Time is counted in half positions:
// a node at position p reads its operands at 2p and writes its result at
// 2p+1 if it is elementwise, so that the result may take an operand's place,
// else at 2p.
type compiler struct {
	k      *Kernel
	fn     *ir.Func
	work   *work.Meter
	infos  []regInfo // by register
	regs   []int32   // by a value's ID: its register, plus one; 0: none yet; late
	uses   []uint8   // by a value's ID: none, one, or 2 for more
	values int       // that are given registers, at most
	exits  map[*ir.Node]target
	consts map[constKey]int32
	// What steps share.
	primitives map[primitiveKey]*step
	tables     map[uint64]*rest
	pools      map[uint32]int // by ordinal: index in k.areas
	seen       []int32        // by register: the last call of pairs in which it was a destination
	calls      int32          // of pairs
	pos        int
	loops      []loopSpan
	nested     [][]int32 // for each open region, the mask registers it must keep to its end
	err        error     // the tree is malformed
	cost       float64   // steps a lane takes
	weight     float64   // how often the region at hand is thought to run
}

// primitiveKey names a primitive.
type primitiveKey struct {
	op   isa.Op
	form isa.Form
}

// target is a construct that Brs lead to: its exit, and the registers of its
// results or, of a loop, its parameters.
type target struct {
	exit int32
	regs []int32
}

// constKey names a value that is the same throughout a launch: a constant of a
// size, a parameter, a special value.
type constKey struct {
	op   ir.Op
	size uint8
	bits uint64
}

// loopSpan is a loop being compiled: where it starts, and the registers from
// before it that are read inside, which must last to its end.
type loopSpan struct {
	start int
	outer []int32
}

// Compile makes a kernel of a canonical function.
func Compile(fn *ir.Func) (*Kernel, error) { return CompileMetered(nil, fn) }

// CompileMetered is Compile, counted and stopped by m; the error is then m's.
func CompileMetered(m *work.Meter, fn *ir.Func) (k *Kernel, err error) {
	defer work.Catch(&err)
	fn, err = ir.ExpandMetered(m, fn)
	var size *ir.SizeError
	if errors.As(err, &size) {
		return nil, &backends.Unsupported{Backend: "cpu", What: "a program of this size", Why: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	k = &Kernel{shared: fn.Shared, use: fn.Slots}
	c := &compiler{
		k: k, fn: fn, work: m, weight: 1, regs: make([]int32, fn.NumValues), uses: make([]uint8, fn.NumValues),
		exits: map[*ir.Node]target{}, consts: map[constKey]int32{}, pools: map[uint32]int{}, primitives: map[primitiveKey]*step{}, tables: map[uint64]*rest{},
	}
	c.count(fn.Body)
	c.infos = make([]regInfo, 0, c.values+c.values/8)
	c.findPools(fn.Body)
	c.findLate(fn.Body)
	body, err := c.region(fn.Body, nil)
	if err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	k.body = body
	k.cost = c.cost
	c.regs, c.uses, c.seen = nil, nil, nil // not there together with what follows
	c.allocate()
	c.renumber()
	return k, nil
}

func unsupported(n *ir.Node, why string) error {
	what := "a construct"
	if n.Op.IsInst() {
		what = n.Op.Inst().String()
		if n.Type != isa.NoType {
			what += " " + n.Type.String()
		}
	}
	return &backends.Unsupported{Backend: "cpu", What: what, Why: why}
}

// count counts the uses of every value, and the values: a loop's results are its
// parameters.
func (c *compiler) count(r *ir.Region) {
	c.work.Step(len(r.Nodes))
	c.values += len(r.Params)
	for _, n := range r.Nodes {
		if n.Op != ir.Loop {
			c.values += len(n.Results)
		}
		for _, a := range n.Args {
			c.used(a)
		}
		for _, s := range n.Regions {
			c.count(s)
		}
	}
	for _, y := range r.Yield {
		c.used(y)
	}
}

func (c *compiler) used(v *ir.Value) { c.uses[v.ID] = min(2, c.uses[v.ID]+1) }

// late stands in place of the register of a constant that is set where it is used.
const late = -1

// findLate finds the constants that the body itself uses once: without a register
// that lasts they are set there, for many that are all set first take the room of
// many registers.
func (c *compiler) findLate(body *ir.Region) {
	for _, n := range body.Nodes {
		for _, a := range n.Args {
			if a.Node != nil && a.Node.Op == ir.Const && c.uses[a.ID] == 1 {
				c.regs[a.ID] = late
			}
		}
	}
}

// setLate adds the steps that set what n uses and was left for late.
func (c *compiler) setLate(out *region, n *ir.Node, most int) {
	for _, a := range n.Args {
		if c.regs[a.ID] == late {
			c.set(a, out.steps.add(most))
			c.cost += c.weight
		}
	}
}

// findPools lays out a lane's scratch.
func (c *compiler) findPools(r *ir.Region) {
	for _, n := range r.Nodes {
		if ordinal := uint32(n.Imm >> 32); n.Op == ir.Op(isa.POOL_ALLOC) && !has(c.pools, ordinal) {
			c.pools[ordinal] = len(c.k.areas)
			size := int(uint32(n.Imm))
			c.k.areas = append(c.k.areas, scratch{c.k.poolBytes, size})
			c.k.poolBytes += size // not rounded up: small areas would take far more than they ask for
		}
		for _, s := range n.Regions {
			c.findPools(s)
		}
	}
}

func has[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

func sizeOf(t isa.Type) uint8 {
	if t == isa.Pred {
		return 1
	}
	return uint8(t.Size())
}

// newReg makes a register that is first written at time start, no earlier than
// those made before: allocate counts on it.
func (c *compiler) newReg(size uint8, start int) int32 {
	c.infos = append(c.infos, regInfo{size: size, start: int32(start), end: int32(start)})
	return int32(len(c.infos) - 1)
}

// define gives a value a register.
func (c *compiler) define(v *ir.Value, start int) int32 {
	r := c.newReg(sizeOf(v.Type), start)
	c.regs[v.ID] = r + 1
	return r
}

// keep makes a register last to the given time at least.
func (c *compiler) keep(r int32, until int) {
	c.infos[r].end = max(c.infos[r].end, int32(until))
}

// reg returns a value's register, or -1.
func (c *compiler) reg(v *ir.Value) int32 { return c.regs[v.ID] - 1 }

// use returns a value's register, read now.
func (c *compiler) use(v *ir.Value) int32 {
	r := c.reg(v)
	if r < 0 {
		c.err = fmt.Errorf("strips: compile: value %d is used before it is defined", v.ID)
		return 0
	}
	before := int(c.infos[r].end) // the last use so far
	c.keep(r, 2*c.pos)
	for i := range c.loops {
		if l := &c.loops[i]; int(c.infos[r].start) < l.start {
			if before <= l.start { // else it is there
				l.outer = append(l.outer, r)
			}
			break
		}
	}
	return r
}

// mask makes a mask register that lasts to the end of the region at hand and
// what the construct around it does then.
func (c *compiler) mask() int32 {
	r := c.newReg(1, 2*c.pos)
	top := len(c.nested) - 1
	c.nested[top] = append(c.nested[top], r)
	return r
}

// region compiles a region; results are the registers that its yield goes to.
func (c *compiler) region(r *ir.Region, results []int32) (*region, error) {
	out := &region{ends: r.Ends()}
	c.nested = append(c.nested, nil)
	// The last time that memory changed or control flowed, and that memory
	// was read: by step.
	changed, read := -1, -1
	var stored, loaded map[int]int // by slot: last store to its slot[index], last load from it
	note := func(m *map[int]int, slot, at int) {
		if *m == nil {
			*m = map[int]int{}
		}
		(*m)[slot] = at
	}
	most := c.steps(r.Nodes)
	for _, n := range r.Nodes {
		c.pos++
		c.work.Step(1)
		c.setLate(out, n, most)
		at := out.steps.len()
		s := out.steps.add(most)
		some, err := c.node(n, s)
		if err != nil {
			return nil, err
		}
		if !some {
			out.steps.drop()
		}
		switch {
		case n.Op == ir.Op(isa.STG) && n.Mem.Mode == isa.AddrIndex:
			before, ok := stored[n.Mem.Slot]
			if !ok || before < changed {
				before = changed
			}
			if after, ok := loaded[n.Mem.Slot]; ok {
				before = max(before, after) // the load must not see what is stored
			}
			c.makeDirect(out, n, before, read)
			note(&stored, n.Mem.Slot, at)
		case !n.Op.IsInst():
			changed = at
		case !some || s.elementwise():
		case n.Op == ir.Op(isa.LDG) && n.Mem.Mode == isa.AddrIndex:
			read = at
			note(&loaded, n.Mem.Slot, at)
		case n.Op != ir.Op(isa.LDC) && n.Op != ir.Op(isa.SREG) && n.Op != ir.Op(isa.LDP):
			changed = at
		}
		if some {
			c.cost += c.weight
		}
	}
	c.pos++
	if !out.ends {
		out.yield = c.pairs(r.Yield, results)
	}
	c.pos++
	top := len(c.nested) - 1
	for _, m := range c.nested[top] {
		c.keep(m, 2*c.pos)
	}
	c.nested = c.nested[:top]
	return out, nil
}

// steps returns how many steps a region's nodes become, at most: where a register
// that lasts is left for a constant, that becomes none, or what took it instead.
func (c *compiler) steps(nodes []*ir.Node) int {
	constants := 0
	for _, n := range nodes {
		if n.Op == ir.Const {
			constants++
		}
	}
	return len(nodes) - min(constants, maxLasting-len(c.consts)) + 1 // room for one that comes to nothing
}

// makeDirect lets the step that computes what n stores put it right into
// slot[index], if n is the value's only use and follows in the same region
// with nothing between that could tell.
func (c *compiler) makeDirect(out *region, n *ir.Node, changed, read int) {
	v := n.Args[0]
	if v.Node == nil || c.uses[v.ID] != 1 || sameBits(v.Node.Op.Inst(), v.Node.Form) {
		return
	}
	r := c.reg(v)
	for i := out.steps.len() - 1; i > changed; i-- {
		if s := out.steps.at(i); s.d == r && s.elementwise() {
			s.slot, s.direct = int8(n.Mem.Slot), direct
			if read < i {
				s.direct = quiet
			}
			c.infos[r].foreign = true
			return
		}
	}
}

// pairs lists the moves of values to registers. If one of the sources is
// itself a destination, all go by way of temporaries.
func (c *compiler) pairs(values []*ir.Value, to []int32) []pair {
	if len(values) == 0 {
		return nil
	}
	c.work.Step(len(values))
	c.calls++
	c.seen = append(c.seen, make([]int32, len(c.infos)-len(c.seen))...)
	for _, d := range to {
		c.seen[d] = c.calls
	}
	moved := 0
	for i, v := range values {
		if c.reg(v) != to[i] {
			moved++
		}
	}
	p := make([]pair, 0, moved)
	swap := false
	for i, v := range values {
		s := c.use(v)
		if s == to[i] {
			continue
		}
		p = append(p, pair{d: to[i], s: s})
		swap = swap || c.seen[s] == c.calls
	}
	if !swap {
		return p
	}
	moves := make([]pair, 2*len(p))
	for i, m := range p {
		t := c.newReg(c.infos[m.d].size, 2*c.pos)
		moves[i] = pair{d: ^t, s: m.s}
		moves[len(p)+i] = pair{d: m.d, s: t}
	}
	return moves
}

// results gives the results of a construct registers, which its regions write.
func (c *compiler) results(n *ir.Node) []int32 {
	if len(n.Results) == 0 {
		return nil
	}
	r := make([]int32, len(n.Results))
	for i, v := range n.Results {
		r[i] = c.define(v, 2*c.pos)
	}
	return r
}

// lastingReg returns a register with a place of its own for n, whose result is
// the same throughout a launch, and whether it is new; -1 if there are too many.
func (c *compiler) lastingReg(n *ir.Node) (r int32, isNew bool) {
	key := constKey{n.Op, sizeOf(n.Result().Type), n.Imm}
	if r, ok := c.consts[key]; ok {
		return r, false
	}
	if len(c.consts) == maxLasting {
		return -1, false
	}
	r = c.newReg(key.size, 0)
	c.infos[r].lasting = true
	c.consts[key] = r
	return r, true
}

// node compiles a node to a step, which it fills in, or to none.
func (c *compiler) node(n *ir.Node, s *step) (some bool, err error) {
	switch n.Op {
	case ir.Const:
		return c.constant(n, s), nil
	case ir.If:
		return true, c.ifNode(n, s)
	case ir.Loop:
		return true, c.loopNode(n, s)
	case ir.Block:
		return true, c.blockNode(n, s)
	case ir.Br:
		c.brNode(n, s)
		return true, nil
	}
	return c.inst(n, s)
}

func (c *compiler) constant(n *ir.Node, s *step) (some bool) {
	v := n.Result()
	r, isNew := c.lastingReg(n)
	if r >= 0 {
		c.regs[v.ID] = r + 1
		if isNew {
			c.k.constants = append(c.k.constants, constantReg{r, n.Imm})
		}
		return false
	}
	if c.regs[v.ID] == late {
		return false
	}
	c.set(v, s)
	return true
}

// set makes s the step that sets a constant.
func (c *compiler) set(v *ir.Value, s *step) {
	*s = step{run: setConst, imm: v.Node.Imm, d: c.define(v, 2*c.pos)}
}

func setConst(f *frame, s *step) { f.regs[s.d].setUni(s.imm) }

func setParam(f *frame, s *step) { f.regs[s.d].setUni(f.l.Params[s.imm]) }

func setSpecial(f *frame, s *step) { f.regs[s.d].setUni(f.r.special(isa.Special(s.imm))) }

func (c *compiler) ifNode(n *ir.Node, s *step) error {
	*s = step{rest: &rest{}, run: runIf, site: int32(n.Site), d: -1}
	s.a = c.use(n.Args[0])
	res := c.results(n)
	s.m0, s.m1 = c.mask(), c.mask()
	w := c.weight
	c.weight *= 0.75
	for i, side := range n.Regions {
		r, err := c.region(side, res)
		if err != nil {
			return err
		}
		s.sides[i] = r
	}
	c.weight = w
	c.keepAll(res)
	return nil
}

func (c *compiler) keepAll(regs []int32) {
	for _, r := range regs {
		c.keep(r, 2*c.pos)
	}
}

// newExit opens a construct for Brs to it, whose values go to the given registers.
func (c *compiler) newExit(n *ir.Node, regs []int32) int32 {
	x := int32(c.k.exits)
	c.k.exits++
	c.exits[n] = target{x, regs}
	return x
}

func (c *compiler) blockNode(n *ir.Node, s *step) error {
	res := c.results(n)
	*s = step{rest: &rest{exit: c.newExit(n, res)}, run: runBlock, d: -1}
	s.m0 = c.mask()
	r, err := c.region(n.Regions[0], res)
	if err != nil {
		return err
	}
	s.sides[0] = r
	delete(c.exits, n)
	c.keepAll(res)
	return nil
}

func (c *compiler) brNode(n *ir.Node, s *step) {
	*s = step{rest: &rest{exit: -1}, run: runBr, d: -1}
	if n.Target == nil {
		return
	}
	to := c.exits[n.Target]
	s.exit, s.toLoop = to.exit, n.Target.Op == ir.Loop
	s.leave = c.pairs(n.Args, to.regs)
}

// loopNode compiles a loop. Its results are its parameters' last values, so
// they share registers.
func (c *compiler) loopNode(n *ir.Node, s *step) error {
	*s = step{rest: &rest{counted: n.Counted, free: n.Free}, run: runLoop, d: -1, site: int32(n.Site)}
	inits, rounds := n.Args, 64.0
	if n.Counted {
		s.a = c.use(n.Args[0])
		inits = n.Args[1:]
		if k := n.Args[0].Node; k != nil && k.Op == ir.Const {
			rounds = min(float64(k.Imm), 1<<20)
		}
	}
	body := n.Regions[0]
	params := make([]int32, 0, len(body.Params))
	for _, v := range body.Params {
		params = append(params, c.define(v, 2*c.pos))
	}
	for i, v := range n.Results {
		c.regs[v.ID] = params[i] + 1
	}
	s.exit = c.newExit(n, params)
	s.init = c.pairs(inits, params)
	s.m0, s.m1, s.m2 = c.mask(), c.mask(), c.mask()
	// What is first written now or later belongs to the loop; the parameters,
	// masks and all that is read inside last to its end.
	start := 2 * c.pos
	c.loops = append(c.loops, loopSpan{start: start})
	w := c.weight
	c.weight *= rounds
	r, err := c.region(body, params)
	if err != nil {
		return err
	}
	c.weight = w
	s.sides[0] = r
	delete(c.exits, n)
	l := c.loops[len(c.loops)-1]
	c.loops = c.loops[:len(c.loops)-1]
	c.keepAll(l.outer)
	c.keepAll(params)
	c.keepAll([]int32{s.m0, s.m1, s.m2})
	if n.Counted {
		c.keep(s.a, 2*c.pos)
	}
	return nil
}
