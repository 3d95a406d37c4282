package analysis

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Class says what kind of program it is, for backends that have a better way
// for some. What it describes is a part of the program, to be replaced alone;
// what stands before and after it is code as any other.
type Class struct {
	Kind Kind
	// Elementwise says that it computes each element of its outputs alone, as a
	// Map does: it writes slot[index] and nothing else, and reads nothing that it
	// writes but slot[index]. Of such a program how lanes are cut in blocks says nothing.
	Elementwise bool
	// Epilogue says, of a Product, that more is done with a sum of products than to
	// store it, converted or not.
	Epilogue bool
	// Reason says, of Other, what keeps the program from being a map.
	Reason string
	// Reads, Writes and Gathers have a bit for each slot that is read by
	// slot[index], written so, and read by other addresses.
	Reads, Writes, Gathers uint64
	// Sums are the values that loops accumulate, the inner before the outer.
	Sums []Accumulation
}

// Kind is a kind of program.
type Kind uint8

// The kinds, of which a program has the first that fits.
const (
	// Other is none of those below.
	Other Kind = iota
	// Product has a loop whose rounds add products of two loads to a number, and
	// do nothing else: Class.Sums has one with Factors, Alone.
	Product
	// Map is Elementwise.
	Map
	// Reduction has a loop whose rounds combine numbers, or combines those of
	// a block.
	Reduction
)

var kindNames = [...]string{"other", "product", "map", "reduction"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// Accumulation is a number that a counted loop keeps, and combines in each
// round with another: acc = acc op term, or acc = a · b + acc. Nothing else in
// the loop uses it.
type Accumulation struct {
	Loop  int       // in Analysis.Loops
	Index int       // among the loop's parameters and results
	Node  *ir.Node  // what combines: ADD, MUL, MIN, MAX, AND, OR, XOR or FMA
	Term  *ir.Value // what it is combined with; nil of a product
	// Factors are, of a product, two loads in Analysis.Accesses, in the order
	// of the multiplication's operands, with offsets that grow by the same for
	// all lanes in each round; the loads' results may be converted before they
	// are multiplied. Else −1, −1.
	Factors [2]int
	// Alone says that the loop does nothing but accumulate: there is no store,
	// construct or fault in it that is not of a load, and every parameter is an
	// Accumulation or an Induction.
	Alone bool
	// Collective is the instruction that combines, by the same operation, the
	// loop's results of a block's lanes, or nil.
	Collective *ir.Node
	// Chunks lists the loops around, inner first, of which each adds up the
	// results of the one before: the written order of long products.
	Chunks []int
	// Result is what comes of all rounds, of the loops of Chunks and of Collective.
	Result *ir.Value
}

// IsProduct reports whether a sum of products of loads is accumulated.
func (s *Accumulation) IsProduct() bool { return s.Factors[0] >= 0 }

// classifier looks at all of a Func once.
type classifier struct {
	a      *Analysis
	work   *work.Meter
	uses   []int32          // of values, by ID
	users  []*ir.Node       // the last node that uses a value, by ID
	home   []*ir.Region     // where a value is defined, by ID
	access map[*ir.Node]int // of loads
	number map[*ir.Node]int // of loops
	other  string           // the first that keeps it from being a map
	blocks bool             // has a collective that reduces
}

func (a *Analysis) classify(m *work.Meter) {
	f := a.Func
	c := &classifier{a: a, work: m, uses: make([]int32, f.NumValues), users: make([]*ir.Node, f.NumValues), home: make([]*ir.Region, f.NumValues),
		access: map[*ir.Node]int{}, number: make(map[*ir.Node]int, len(a.Loops))}
	for i := range a.Accesses {
		if n := a.Accesses[i].Node; isLoad(n) {
			c.access[n] = i
		}
	}
	for i := range a.Loops {
		c.number[a.Loops[i].Node] = i
	}
	c.region(f.Body)
	for i := len(a.Loops) - 1; i >= 0; i-- {
		c.loop(i)
	}
	k := &a.Class
	if both := k.Gathers & storedSlots(f.Body); both != 0 && c.other == "" {
		c.other = "a slot is written and read elsewhere than at slot[index]"
	}
	products := false
	for i := range k.Sums {
		if s := &k.Sums[i]; s.IsProduct() && s.Alone {
			products = true
			k.Epilogue = k.Epilogue || !c.stored(s.Result)
		}
	}
	k.Elementwise = c.other == "" && k.Writes != 0
	switch {
	case products:
		k.Kind = Product
	case k.Elementwise:
		k.Kind = Map
	case c.blocks || len(k.Sums) > 0:
		k.Kind = Reduction
	case c.other == "":
		k.Reason = "nothing is written"
	default:
		k.Reason = c.other
	}
}

func (c *classifier) use(v *ir.Value, by *ir.Node) {
	c.uses[v.ID]++
	c.users[v.ID] = by
}

func (c *classifier) region(r *ir.Region) {
	c.work.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		for _, v := range n.Args {
			c.use(v, n)
		}
		for _, v := range n.Results {
			c.home[v.ID] = r
		}
		if n.Op.IsInst() {
			c.inst(n)
		}
		for _, s := range n.Regions {
			c.region(s)
		}
	}
	for _, y := range r.Yield {
		c.use(y, nil)
	}
}

// inst notes which slots are used how, and what no map does.
func (c *classifier) inst(n *ir.Node) {
	k := &c.a.Class
	row, _ := isa.Lookup(n.Op.Inst())
	op := n.Op.Inst()
	not := func(why string) {
		if c.other == "" {
			c.other = fmt.Sprintf("%v %s", op, why)
		}
	}
	switch {
	case n.Mem.Mode == isa.AddrIndex && op == isa.LDG:
		k.Reads |= 1 << n.Mem.Slot
	case n.Mem.Mode == isa.AddrIndex && op == isa.STG:
		k.Writes |= 1 << n.Mem.Slot
	case n.Mem.Mode == isa.AddrByte && op == isa.LDG:
		k.Gathers |= 1 << n.Mem.Slot
	case n.Mem.Mode == isa.AddrShared:
		not("uses shared memory")
	case n.Mem.Mode == isa.AddrIndirect:
		not("chooses its slot at run time")
	case row.Effect&isa.Writes != 0:
		not("writes elsewhere than at slot[index], or atomically")
	case row.Effect&isa.Barrier != 0:
		not("lets the lanes of a block meet")
		c.blocks = c.blocks || collectives[op] != isa.NoOp
	case row.Effect&isa.State != 0:
		not("reads or changes the state of lane, launch or stream")
	}
}

var collectives = map[isa.Op]isa.Op{
	isa.BLOCK_REDUCE_ADD: isa.ADD, isa.BLOCK_REDUCE_MIN: isa.MIN, isa.BLOCK_REDUCE_MAX: isa.MAX, isa.BLOCK_REDUCE_MUL: isa.MUL,
}

// loop finds what a counted loop accumulates.
func (c *classifier) loop(k int) {
	n := c.a.Loops[k].Node
	if !n.Counted || n.Free {
		return
	}
	r := n.Regions[0]
	if r.Ends() {
		return
	}
	first := len(c.a.Class.Sums)
	for i := range r.Params {
		if s, ok := c.accumulation(k, i); ok {
			c.a.Class.Sums = append(c.a.Class.Sums, s)
		}
	}
	found := c.a.Class.Sums[first:]
	alone := len(found)+len(c.a.Loops[k].Inductions) == len(r.Params) && c.plain(r)
	for i := range found {
		found[i].Alone = alone
	}
}

// plain reports whether nothing in r has an effect but loads' faults.
func (c *classifier) plain(r *ir.Region) bool {
	for _, n := range r.Nodes {
		if n.Op == ir.Const {
			continue
		}
		if !n.Op.IsInst() {
			return false
		}
		row, _ := isa.Lookup(n.Op.Inst())
		if row.Effect&(isa.Writes|isa.Barrier|isa.State) != 0 || n.CanFault() && n.Op != ir.Op(isa.LDG) {
			return false
		}
	}
	return true
}

// accumulation looks at parameter i of loop k.
func (c *classifier) accumulation(k, i int) (s Accumulation, ok bool) {
	loop := c.a.Loops[k].Node
	r := loop.Regions[0]
	p, next := r.Params[i], r.Yield[i]
	n := next.Node
	// The parameter goes into one instruction, whose result goes round alone.
	if n == nil || !n.Op.IsInst() || c.uses[p.ID] != 1 || c.users[p.ID] != n || c.uses[next.ID] != 1 || c.home[next.ID] != r {
		return s, false
	}
	s = Accumulation{Loop: k, Index: i, Node: n, Factors: [2]int{-1, -1}}
	op := n.Op.Inst()
	switch op {
	case isa.ADD, isa.MUL, isa.MIN, isa.MAX, isa.AND, isa.OR, isa.XOR:
		s.Term = n.Args[0]
		if s.Term == p {
			s.Term = n.Args[1]
		}
		if s.Term.ID < r.Params[0].ID && n.Type.Integer() && op == isa.ADD {
			return s, false // an induction
		}
		if m := s.Term.Node; op == isa.ADD && n.Type.Integer() && m != nil && m.Op == ir.Op(isa.MUL) && c.uses[s.Term.ID] == 1 {
			s.factors(c, m.Args[0], m.Args[1])
		}
	case isa.FMA:
		if n.Args[2] != p {
			return s, false
		}
		s.factors(c, n.Args[0], n.Args[1])
	default:
		return s, false
	}
	c.after(&s, loop, op)
	return s, true
}

// factors sets Factors if a and b are loads that step evenly through memory.
func (s *Accumulation) factors(c *classifier, a, b *ir.Value) {
	x, okX := c.steps(a, s.Loop)
	y, okY := c.steps(b, s.Loop)
	if okX && okY {
		s.Term, s.Factors = nil, [2]int{x, y}
	}
}

// steps returns the load that v is, perhaps converted, if it is one of the
// loop with an offset that grows by the same, in all lanes, in each round.
func (c *classifier) steps(v *ir.Value, loop int) (access int, ok bool) {
	n := v.Node
	if n != nil && n.Op == ir.Op(isa.CVT) {
		n = n.Args[0].Node
	}
	if n == nil || !isLoad(n) {
		return -1, false
	}
	i := c.access[n]
	a := &c.a.Accesses[i]
	if a.Loop != loop {
		return -1, false
	}
	step, ok := a.Offset.AlongRound(loop)
	return i, ok && len(step) > 0 && step.Vary() == PerLaunch && !c.inside(a.Offset, loop)
}

// isLoad reports whether n loads from a byte address in a slot.
func isLoad(n *ir.Node) bool { return n.Op == ir.Op(isa.LDG) && n.Mem.Mode == isa.AddrByte }

// inside reports whether an offset has symbols that are made in the loop, of
// which one cannot tell how they grow.
func (c *classifier) inside(a Affine, loop int) bool {
	first := c.a.Loops[loop].Node.Regions[0].Params[0].ID
	for _, t := range a {
		for _, y := range t.Symbols {
			if y.Kind == SymValue && y.Value.ID >= first {
				return true
			}
		}
	}
	return false
}

// oneMore follows a value through a condition under which some lanes combine it
// with one term more, as they do where a row's last elements are not for all.
func (c *classifier) oneMore(v *ir.Value, op isa.Op) *ir.Value {
	for _, n := range c.home[v.ID].Nodes {
		if n.Op != ir.If {
			continue
		}
		for i, out := range n.Results {
			if uses, ok := c.passes(n, i, v, op); ok && uses == c.uses[v.ID] {
				return out
			}
		}
	}
	return v
}

// passes reports whether result i of an If is v in any case, or v combined with a
// term, and how many uses of v that takes.
func (c *classifier) passes(n *ir.Node, i int, v *ir.Value, op isa.Op) (uses int32, ok bool) {
	for _, r := range n.Regions {
		if i >= len(r.Yield) {
			return 0, false
		}
		y := r.Yield[i]
		switch {
		case y == v:
			uses++
		case y.Node != nil && y.Node.Op.IsInst() && y.Node.Op.Inst() == op && c.uses[y.ID] == 1 && (y.Node.Args[0] == v) != (y.Node.Args[1] == v):
			uses++
		case y.Node != nil && y.Node.Op == ir.If && c.uses[y.ID] == 1:
			inner, ok := c.passes(y.Node, int(y.Index), v, op)
			if !ok {
				return 0, false
			}
			uses += inner
		default:
			return 0, false
		}
	}
	return uses, uses > 0
}

// after finds where the result of the loop goes: to a collective of the same
// operation, or to a loop around that adds results up.
func (c *classifier) after(s *Accumulation, loop *ir.Node, op isa.Op) {
	if op == isa.FMA {
		op = isa.ADD
	}
	result := loop.Results[s.Index]
	defer func() { s.Result = result }()
	for {
		result = c.oneMore(result, op)
		user := c.users[result.ID]
		if c.uses[result.ID] != 1 || user == nil || !user.Op.IsInst() || user.Type != result.Type {
			return
		}
		if by := collectives[user.Op.Inst()]; by == op && by != isa.NoOp {
			s.Collective, result = user, user.Result()
			return
		}
		inner := s.Loop
		if len(s.Chunks) > 0 {
			inner = s.Chunks[len(s.Chunks)-1]
		}
		k := c.a.Loops[inner].Parent
		if user.Op.Inst() != op || k < 0 || !c.a.Loops[k].Node.Counted {
			return
		}
		around := c.a.Loops[k].Node
		r := around.Regions[0]
		at := -1
		for i, y := range r.Yield {
			if y.Node == user && c.uses[y.ID] == 1 {
				at = i
			}
		}
		if at < 0 || c.uses[r.Params[at].ID] != 1 || c.users[r.Params[at].ID] != user {
			return
		}
		s.Chunks = append(s.Chunks, k)
		result = around.Results[at]
	}
}

// stored reports whether nothing is done with a value but to store it, converted or not.
func (c *classifier) stored(v *ir.Value) bool {
	user := c.users[v.ID]
	if user != nil && user.Op == ir.Op(isa.CVT) && c.uses[v.ID] == 1 {
		v = user.Result()
		user = c.users[v.ID]
	}
	return c.uses[v.ID] == 1 && user != nil && user.Op == ir.Op(isa.STG)
}
