package strips

import (
	"encoding/binary"
	"math"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// maxLasting bounds the registers that keep a place of their own: beyond so
// many, constants are set again in each strip.
const maxLasting = 64

// regInfo is what the compiler knows about a register: the size of a value,
// where its lanes stand in a frame, and the span of the program during which
// they are needed.
type regInfo struct {
	size       uint8
	lasting    bool
	constant   bool
	bits       uint64 // of a constant
	place      int    // in bytes a lane
	start, end int
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
	regs   map[*ir.Value]int32
	uses   map[*ir.Value]int
	exits  map[*ir.Node]int32
	consts map[constKey]int32
	pos    int
	loops  []loopSpan
	nested [][]int32 // for each open region, the mask registers it must keep to its end
	cost   float64
	weight float64 // how often the region at hand is thought to run
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
func Compile(fn *ir.Func) (*Kernel, error) {
	fn = ir.Expand(fn)
	k := &Kernel{shared: fn.Shared, use: fn.Slots}
	c := &compiler{
		k: k, fn: fn, weight: 1,
		regs: map[*ir.Value]int32{}, uses: map[*ir.Value]int{},
		exits: map[*ir.Node]int32{}, consts: map[constKey]int32{},
	}
	c.count(fn.Body)
	c.findPools(fn.Body)
	body, err := c.region(fn.Body, nil)
	if err != nil {
		return nil, err
	}
	k.body = body
	k.cost = c.cost
	c.allocate()
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

// count counts the uses of every value.
func (c *compiler) count(r *ir.Region) {
	for _, n := range r.Nodes {
		for _, a := range n.Args {
			c.uses[a]++
		}
		for _, s := range n.Regions {
			c.count(s)
		}
	}
	for _, y := range r.Yield {
		c.uses[y]++
	}
}

// findPools lays out a lane's scratch.
func (c *compiler) findPools(r *ir.Region) {
	for _, n := range r.Nodes {
		if n.Op == ir.Op(isa.POOL_ALLOC) && c.pool(n) < 0 {
			size := int(uint32(n.Imm))
			c.k.areas = append(c.k.areas, scratch{uint32(n.Imm >> 32), c.k.poolBytes, size})
			c.k.poolBytes += (size + 7) &^ 7
		}
		for _, s := range n.Regions {
			c.findPools(s)
		}
	}
}

func (c *compiler) pool(n *ir.Node) int {
	for i, a := range c.k.areas {
		if a.ordinal == uint32(n.Imm>>32) {
			return i
		}
	}
	return -1
}

func sizeOf(t isa.Type) uint8 {
	if t == isa.Pred {
		return 1
	}
	return uint8(t.Size())
}

// newReg makes a register that is first written at time start.
func (c *compiler) newReg(size uint8, start int) int32 {
	c.k.regs = append(c.k.regs, regInfo{size: size, start: start, end: start})
	return int32(len(c.k.regs) - 1)
}

// define gives a value a register.
func (c *compiler) define(v *ir.Value, start int) int32 {
	r := c.newReg(sizeOf(v.Type), start)
	c.regs[v] = r
	return r
}

// keep makes a register last to the given time at least.
func (c *compiler) keep(r int32, until int) {
	c.k.regs[r].end = max(c.k.regs[r].end, until)
}

// use returns a value's register, read now.
func (c *compiler) use(v *ir.Value) int32 {
	r := c.regs[v]
	c.keep(r, 2*c.pos)
	for i := range c.loops {
		if l := &c.loops[i]; c.k.regs[r].start < l.start {
			l.outer = append(l.outer, r)
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
	stored := map[int]int{} // by slot: last store to its slot[index]
	loaded := map[int]int{} // by slot: last load from it
	for _, n := range r.Nodes {
		c.pos++
		at := len(out.steps)
		s, err := c.node(n)
		if err != nil {
			return nil, err
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
			stored[n.Mem.Slot] = at
		case !n.Op.IsInst():
			changed = at
		case s == nil || s.elementwise:
		case n.Op == ir.Op(isa.LDG) && n.Mem.Mode == isa.AddrIndex:
			read, loaded[n.Mem.Slot] = at, at
		case n.Op != ir.Op(isa.LDC) && n.Op != ir.Op(isa.SREG) && n.Op != ir.Op(isa.LDP):
			changed = at
		}
		if s != nil {
			out.steps = append(out.steps, *s)
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

// makeDirect lets the step that computes what n stores put it right into
// slot[index], if n is the value's only use and follows in the same region
// with nothing between that could tell.
func (c *compiler) makeDirect(out *region, n *ir.Node, changed, read int) {
	v := n.Args[0]
	if v.Node == nil || c.uses[v] != 1 || sameBits(v.Node.Op.Inst(), v.Node.Form) {
		return
	}
	r := c.regs[v]
	for i := len(out.steps) - 1; i > changed; i-- {
		if s := &out.steps[i]; s.d == r && s.elementwise {
			s.direct = int32(n.Mem.Slot) + 1
			s.directQuiet = read < i
			c.k.foreign = append(c.k.foreign, r)
			return
		}
	}
}

// pairs lists the moves of values to registers. If one of the sources is
// itself a destination, all go by way of temporaries.
func (c *compiler) pairs(values []*ir.Value, to []int32) []pair {
	var p []pair
	swap := false
	for i, v := range values {
		s := c.use(v)
		if s == to[i] {
			continue
		}
		p = append(p, pair{d: to[i], s: s})
		for _, d := range to {
			swap = swap || s == d
		}
	}
	if !swap {
		return p
	}
	var first, second []pair
	for _, m := range p {
		t := c.newReg(c.k.regs[m.d].size, 2*c.pos)
		first = append(first, pair{d: t, s: m.s, temp: true})
		second = append(second, pair{d: m.d, s: t})
	}
	return append(first, second...)
}

// results gives the results of a construct registers, which its regions write.
func (c *compiler) results(n *ir.Node) []int32 {
	var r []int32
	for _, v := range n.Results {
		r = append(r, c.define(v, 2*c.pos))
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
	c.k.regs[r].lasting = true
	c.consts[key] = r
	return r, true
}

// node compiles a node to a step, or to none.
func (c *compiler) node(n *ir.Node) (*step, error) {
	switch n.Op {
	case ir.Const:
		return c.constant(n), nil
	case ir.If:
		return c.ifNode(n)
	case ir.Loop:
		return c.loopNode(n)
	case ir.Block:
		return c.blockNode(n)
	case ir.Br:
		return c.brNode(n)
	}
	return c.inst(n)
}

func (c *compiler) constant(n *ir.Node) *step {
	v := n.Result()
	r, isNew := c.lastingReg(n)
	if r >= 0 {
		c.regs[v] = r
		if isNew {
			c.k.regs[r].constant, c.k.regs[r].bits = true, n.Imm
		}
		return nil
	}
	return &step{run: setConst, imm: n.Imm, d: c.define(v, 2*c.pos)}
}

func setConst(f *frame, s *step) { f.regs[s.d].setUni(s.imm) }

func setParam(f *frame, s *step) { f.regs[s.d].setUni(f.l.Params[s.imm]) }

func setSpecial(f *frame, s *step) { f.regs[s.d].setUni(f.r.special(isa.Special(s.imm))) }

func (c *compiler) ifNode(n *ir.Node) (*step, error) {
	s := &step{run: runIf, site: int32(n.Site), d: -1}
	s.a = c.use(n.Args[0])
	res := c.results(n)
	s.m0, s.m1 = c.mask(), c.mask()
	w := c.weight
	c.weight *= 0.75
	for i, side := range n.Regions {
		r, err := c.region(side, res)
		if err != nil {
			return nil, err
		}
		s.sides[i] = r
	}
	c.weight = w
	c.keepAll(res)
	return s, nil
}

func (c *compiler) keepAll(regs []int32) {
	for _, r := range regs {
		c.keep(r, 2*c.pos)
	}
}

func (c *compiler) newExit(n *ir.Node) int32 {
	x := int32(c.k.exits)
	c.k.exits++
	c.exits[n] = x
	return x
}

func (c *compiler) blockNode(n *ir.Node) (*step, error) {
	s := &step{run: runBlock, d: -1, exit: c.newExit(n)}
	res := c.results(n)
	s.m0 = c.mask()
	r, err := c.region(n.Regions[0], res)
	if err != nil {
		return nil, err
	}
	s.sides[0] = r
	c.keepAll(res)
	return s, nil
}

func (c *compiler) brNode(n *ir.Node) (*step, error) {
	s := &step{run: runBr, d: -1, exit: -1}
	if n.Target == nil {
		return s, nil
	}
	s.exit = c.exits[n.Target]
	to := n.Target.Results
	if s.toLoop = n.Target.Op == ir.Loop; s.toLoop {
		to = n.Target.Regions[0].Params
	}
	var regs []int32
	for _, v := range to {
		regs = append(regs, c.regs[v])
	}
	s.leave = c.pairs(n.Args, regs)
	return s, nil
}

// loopNode compiles a loop. Its results are its parameters' last values, so
// they share registers.
func (c *compiler) loopNode(n *ir.Node) (*step, error) {
	s := &step{run: runLoop, d: -1, exit: c.newExit(n), site: int32(n.Site), counted: n.Counted, free: n.Free}
	inits, rounds := n.Args, 64.0
	if n.Counted {
		s.a = c.use(n.Args[0])
		inits = n.Args[1:]
		if k := n.Args[0].Node; k != nil && k.Op == ir.Const {
			rounds = min(float64(k.Imm), 1<<20)
		}
	}
	body := n.Regions[0]
	var params []int32
	for _, v := range body.Params {
		params = append(params, c.define(v, 2*c.pos))
	}
	for i, v := range n.Results {
		c.regs[v] = params[i]
	}
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
		return nil, err
	}
	c.weight = w
	s.sides[0] = r
	l := c.loops[len(c.loops)-1]
	c.loops = c.loops[:len(c.loops)-1]
	c.keepAll(l.outer)
	c.keepAll(params)
	c.keepAll([]int32{s.m0, s.m1, s.m2})
	if n.Counted {
		c.keep(s.a, 2*c.pos)
	}
	return s, nil
}

// inst compiles an instruction.
func (c *compiler) inst(n *ir.Node) (*step, error) {
	op := n.Op.Inst()
	if sameBits(op, n.Form) {
		// The result is another name of the operand's register, which lasts
		// as long as either is read.
		c.regs[n.Result()] = c.use(n.Args[0])
		return nil, nil
	}
	s, err := c.instStep(op, n)
	if s == nil || err != nil {
		return s, err
	}
	s.site = int32(n.Site)
	// operands, but for those of addresses, are in place
	v := n.Result()
	if v == nil || op >= isa.ATOM_ADD && op <= isa.ATOM_CAS && c.uses[v] == 0 {
		s.d = -1
	} else if s.elementwise {
		s.d = c.define(v, 2*c.pos+1)
	} else {
		s.d = c.define(v, 2*c.pos)
	}
	return s, nil
}

// operands reads the node's arguments from number i on into a, b, c.
func (c *compiler) operands(s *step, n *ir.Node, i int) {
	s.a, s.b, s.c = -1, -1, -1
	for j, r := range []*int32{&s.a, &s.b, &s.c} {
		if i+j < len(n.Args) {
			*r = c.use(n.Args[i+j])
		}
	}
}

// address reads the operands of n's address, and puts its value, if it has
// one, into b, and a second one into e.
func (c *compiler) address(s *step, n *ir.Node) {
	m := &n.Mem
	s.slot, s.offset, s.hasOff = int32(m.Slot), m.Offset, m.HasOff
	s.index = m.Mode == isa.AddrIndex
	if m.Mode == isa.AddrShared {
		s.slot = -1
	}
	i := 0
	if m.Mode == isa.AddrIndirect {
		s.indirect = true
		s.h = c.use(n.Args[0])
		i++
	}
	if m.HasOff {
		s.a = c.use(n.Args[i])
		i++
	}
	if i < len(n.Args) {
		s.b = c.use(n.Args[i])
	}
	if i+1 < len(n.Args) {
		s.e = c.use(n.Args[i+1])
	}
}

func (c *compiler) instStep(op isa.Op, n *ir.Node) (*step, error) {
	k := c.k
	s := &step{typ: n.Type}
	switch op {
	case isa.LDP:
		if r, isNew := c.lastingReg(n); r >= 0 {
			c.regs[n.Result()] = r
			if isNew {
				k.params = append(k.params, paramReg{r, int32(n.Imm)})
			}
			return nil, nil
		}
		s.run, s.imm = setParam, n.Imm
		return s, nil
	case isa.SREG:
		return c.special(s, n), nil
	case isa.LDG, isa.LDS:
		s.run = load
		c.address(s, n)
		if s.index {
			s.run = loadIndex
		}
		if op == isa.LDS {
			k.blocks = true
		}
		k.foreign = append(k.foreign, int32(len(k.regs))) // the result's, defined next
		return s, nil
	case isa.STG, isa.STS:
		s.run = store
		c.address(s, n)
		if s.index {
			s.run = storeIndex
		}
		if op == isa.STS {
			k.blocks = true
		}
		return s, nil
	case isa.ATOM_ADD, isa.ATOM_MIN, isa.ATOM_MAX, isa.ATOM_AND, isa.ATOM_OR, isa.ATOM_XOR, isa.ATOM_EXCH, isa.ATOM_CAS:
		s.run, s.imm = runAtomic, uint64(op)
		c.address(s, n)
		k.blocks = k.blocks || s.slot < 0
		return s, nil
	case isa.LDC:
		s.run, s.from = loadTable, n.Args[0].Type
		c.operands(s, n, 0)
		d := &c.fn.Data[n.Imm]
		s.table, s.elements = tableBytes(d), len(d.Values)
		return s, nil
	case isa.BAR_SYNC:
		s.run, k.blocks = barrier, true
		return s, nil
	case isa.MEM_FENCE:
		s.run = fence
		return s, nil
	case isa.CLS_GET:
		s.run, s.table, k.places = blockClass, identityTable(), true
		return s, nil
	case isa.UNITY_TEST:
		s.run, s.table, k.places = blockClass, unityTable(math.Float64frombits(n.Imm)), true
		return s, nil
	case isa.RES_ACCUM:
		s.run, k.residue = accumulate, true
		c.operands(s, n, 0)
		return s, nil
	case isa.PHASE_GET, isa.PHASE_ADV:
		s.run, s.imm, k.phase = phaseGet, n.Imm, true
		if op == isa.PHASE_ADV {
			s.run = phaseAdv
		}
		return s, nil
	case isa.POOL_ALLOC:
		s.run, s.imm = poolAlloc, uint64(c.pool(n))
		return s, nil
	case isa.POOL_FREE:
		s.run = poolFree
		c.operands(s, n, 0)
		return s, nil
	case isa.POOL_LOAD:
		s.run = poolLoad
		c.operands(s, n, 0)
		return s, nil
	case isa.POOL_STORE:
		s.run = poolStore
		c.operands(s, n, 0)
		return s, nil
	}
	if prim, ok := collectives[op]; ok {
		return c.collective(op, prim, n)
	}
	p := primitive(op, n.Form)
	if p == nil {
		return nil, unsupported(n, "there is no rule for it")
	}
	if p.run == nil {
		return nil, unsupported(n, "its rule is empty")
	}
	if op == isa.MIRROR || op == isa.NBR_COUNT || op == isa.NBR_GET {
		p.table = classTable(op, n.Imm)
	}
	k.halves = k.halves || p.widen != nil
	c.operands(p, n, 0)
	return p, nil
}

func (c *compiler) collective(op, prim isa.Op, n *ir.Node) (*step, error) {
	s := &step{typ: n.Type, run: reduce, imm: identity(prim, n.Type)}
	if op >= isa.BLOCK_SCAN_ADD {
		s.run = scan
	}
	h := halves[n.Type]
	s.widen, s.narrow, s.l2 = h.widen, h.narrow, binaries[prim][n.Type]
	if s.l2 == nil {
		return nil, unsupported(n, "there is no rule for it")
	}
	c.k.blocks, c.k.collectives = true, true
	c.operands(s, n, 0)
	return s, nil
}

// special compiles SREG. What is the same in all lanes of a launch gets a
// lasting register.
func (c *compiler) special(s *step, n *ir.Node) *step {
	sp := isa.Special(n.Imm)
	s.imm = n.Imm
	switch {
	case sp == isa.GlobalLane:
	case sp < isa.BlockDimX:
		c.k.places = true
	default:
		if r, isNew := c.lastingReg(n); r >= 0 {
			c.regs[n.Result()] = r
			if isNew {
				c.k.specials = append(c.k.specials, specialReg{r, sp})
			}
			return nil
		}
		s.run = setSpecial
		return s
	}
	s.run = readSpecial
	return s
}

// tableBytes is a constant table as it stands in memory.
func tableBytes(d *isa.Data) []byte {
	b := make([]byte, 0, len(d.Values)*d.Type.Size()+8)
	for _, v := range d.Values {
		var cell [8]byte
		binary.LittleEndian.PutUint64(cell[:], v)
		b = append(b, cell[:d.Type.Size()]...)
	}
	return b
}
