package analysis

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// A tape is what of a Func matters to the questions asked of it (how often
// loops run, where accesses go): the integer values in question, what they are
// computed from, and the comparisons that guard regions, as a list of steps in
// program order. It is made once; a launch runs it through a state.
type tape struct {
	f      *ir.Func
	steps  stepList
	values []*ir.Value
	index  []int32 // by Value.ID: its place in values, or negative
	loops  []*tapeLoop
	carry  int // loop parameters that are on the tape
}

type stepKind uint8

const (
	stepValue stepKind = iota // value dst by its node
	stepFact                  // a cond b holds from here to the end of the scope
	stepOpen                  // a scope begins: a region
	stepClose                 // the scope ends
	stepLoop                  // loop begins: its parameters get their values
	stepNext                  // parameter dst of loop comes back as a
	stepEnd                   // loop has ended: its results get their values
	stepJoin                  // result dst may be a
	stepMerge                 // result dst of an If or Block is one of those
	stepCheck                 // node may fault; a … c are what it depends on
)

type step struct {
	kind stepKind
	cond isa.Cond
	typ  isa.Type // compared
	// merged: the value's Affine is made of its operands'; see symbolic.
	merged bool
	dst    int32
	a, b   int32 // values, −1: none; b may be wraps
	c      int32
	loop   int32
	node   *ir.Node
}

// wraps is, of an ADD, in place of the second operand: that is a constant which
// wraps back. See wrapsBack.
const wraps = -2

// back is what such an ADD subtracts, as a negative number.
func (st *step) back() int64 {
	back, _ := wrapsBack(st.node.Args[1])
	return back
}

// stepList is a list of steps in pieces, all but the last of the same length, so
// that a long one grows without being copied: large programs have many steps.
type stepList struct{ pieces [][]step }

// pieceSteps is how long a piece is.
const pieceSteps = 512

func (l *stepList) len() int {
	if len(l.pieces) == 0 {
		return 0
	}
	last := len(l.pieces) - 1
	return last*pieceSteps + len(l.pieces[last])
}

func (l *stepList) put(s step) {
	last := len(l.pieces) - 1
	if last < 0 || len(l.pieces[last]) == pieceSteps {
		var piece []step // the first grows: most lists are short
		if last++; last > 0 {
			piece = make([]step, 0, pieceSteps)
		}
		l.pieces = append(l.pieces, piece)
	}
	l.pieces[last] = append(l.pieces[last], s)
}

// cut leaves the first n steps.
func (l *stepList) cut(n int) {
	k := (n + pieceSteps - 1) / pieceSteps
	clear(l.pieces[k:])
	if l.pieces = l.pieces[:k]; k > 0 {
		l.pieces[k-1] = l.pieces[k-1][:n-(k-1)*pieceSteps]
	}
}

// tapeLoop is a loop of the Func. All loops that stand on the tape at all are
// listed, in program order.
type tapeLoop struct {
	node   *ir.Node
	count  int32 // value, −1 if it is not counted
	params []tapeParam
}

// tapeParam is a loop's parameter that is on the tape.
type tapeParam struct {
	index  int32 // among the region's parameters
	value  int32
	init   int32
	result int32 // the loop's, −1: none on the tape
	carry  int32 // its number among all on the tape
	// step is what each round adds (subtracts, if minus), where every way back
	// brings the same sum of the parameter and a value from outside the loop;
	// −1 if it is not so. next is that sum.
	step   int32
	next   int32
	minus  bool
	merged bool  // as a step's
	back   int64 // of a step that is a constant which wraps back, what that subtracts; step is −1 then
}

// questions say what a tape is made for.
type questions struct {
	loops      bool // how often loops run
	checks     bool // whether what may fault does
	inductions bool // which parameters of loops grow by the same in each round
}

// builder makes a tape: need marks values from the questions backwards, then
// emit writes the steps.
type builder struct {
	t     *tape
	ask   questions
	meter *work.Meter
	needs int     // how many values are needed
	index []int32 // by Value.ID: −1 not needed, else place in t.values once emitted
	work  []*ir.Value
	// guards leads from a value to the comparisons with it that guard regions.
	guards map[*ir.Value][]*ir.Node
	// backs lists the Brs to each Loop and Block that has something to bring.
	backs map[*ir.Node][]*ir.Node
	// loopOf leads from a region with parameters to its loop.
	loopOf map[*ir.Region]*ir.Node
	number map[*ir.Node]int32 // of loops emitted, in t.loops
	used   int                // the steps up to the last that is more than a scope or a fact
}

const (
	unneeded = -1
	needed   = -2 // and not yet emitted
)

// newTape makes a tape, counted by m.
func newTape(m *work.Meter, f *ir.Func, ask questions) *tape {
	b := &builder{t: &tape{f: f}, ask: ask, meter: m, index: make([]int32, f.NumValues),
		guards: map[*ir.Value][]*ir.Node{}, backs: map[*ir.Node][]*ir.Node{}, loopOf: map[*ir.Region]*ir.Node{}, number: map[*ir.Node]int32{}}
	for i := range b.index {
		b.index[i] = unneeded
	}
	b.survey(f.Body, nil)
	if ask.inductions {
		for r, n := range b.loopOf {
			for i, p := range r.Params {
				if by, _ := increment(b.comesBack(n, i), p); by != nil {
					b.need(p)
				}
			}
		}
	}
	b.close()
	b.guards, b.work = nil, nil
	b.t.values = make([]*ir.Value, 0, b.needs)
	b.emit(f.Body)
	b.t.index = b.index
	return b.t
}

// survey finds guards and ways back, and marks what the questions ask of.
func (b *builder) survey(r *ir.Region, loop *ir.Node) {
	b.meter.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		switch n.Op {
		case ir.Br:
			if n.Target != nil {
				b.backs[n.Target] = append(b.backs[n.Target], n)
			}
		case ir.If:
			leaves := loop != nil && !loop.Counted && b.ask.loops && (n.Regions[0].Ends() || n.Regions[1].Ends())
			eachComparison(n.Args[0], false, func(c *ir.Node, _ bool) {
				for _, a := range c.Args {
					b.guards[a] = append(b.guards[a], c)
					if leaves { // this may be what ends the loop
						b.need(a)
					}
				}
			})
		case ir.Loop:
			b.loopOf[n.Regions[0]] = n
			if n.Counted && !n.Free && b.ask.loops {
				b.need(n.Args[0])
			}
		}
		if b.ask.checks && checkable(n) {
			for _, a := range checked(n) {
				b.need(a)
			}
		}
		for _, s := range n.Regions {
			inner := loop
			if n.Op == ir.Loop {
				inner = n
			}
			b.survey(s, inner)
		}
	}
}

// maxConjuncts bounds how deep a predicate is taken apart.
const maxConjuncts = 8

// eachComparison calls f for each comparison of integers that must hold, or
// must not (not), where p holds (not: does not hold).
func eachComparison(p *ir.Value, not bool, f func(c *ir.Node, not bool)) {
	eachConjunct(p, not, maxConjuncts, f)
}

func eachConjunct(p *ir.Value, not bool, depth int, f func(c *ir.Node, not bool)) {
	n := p.Node
	if n == nil || !n.Op.IsInst() || depth == 0 {
		return
	}
	switch op := n.Op.Inst(); {
	case op == isa.SET && n.Type.Integer():
		f(n, not)
	case op == isa.NOT:
		eachConjunct(n.Args[0], !not, depth-1, f)
	case op == isa.AND && !not, op == isa.OR && not:
		eachConjunct(n.Args[0], not, depth-1, f)
		eachConjunct(n.Args[1], not, depth-1, f)
	}
}

// need marks a value, and what it is made from will be.
func (b *builder) need(v *ir.Value) {
	if b.index[v.ID] == unneeded {
		b.index[v.ID] = needed
		b.needs++
		b.work = append(b.work, v)
	}
}

// close marks all that marked values are computed from, and what they are
// compared with.
func (b *builder) close() {
	for len(b.work) > 0 {
		b.meter.Step(1)
		v := b.work[len(b.work)-1]
		b.work = b.work[:len(b.work)-1]
		for _, c := range b.guards[v] {
			b.need(c.Args[0])
			b.need(c.Args[1])
		}
		switch {
		case v.Param != nil:
			n := b.loopOf[v.Param]
			if n.Counted {
				b.need(n.Args[0])
			}
			b.needBack(n, v.Param, int(v.Index))
			b.need(n.Args[int(v.Index)+inits(n)])
		case v.Node.Op == ir.If:
			for _, r := range v.Node.Regions {
				if !r.Ends() {
					b.need(r.Yield[v.Index])
				}
			}
		case v.Node.Op == ir.Block:
			b.needBack(v.Node, v.Node.Regions[0], int(v.Index))
		case v.Node.Op == ir.Loop:
			b.need(v.Node.Regions[0].Params[v.Index])
			b.need(v.Node.Args[0])
		case follows(v.Node):
			for _, a := range v.Node.Args {
				b.need(a)
			}
		}
	}
}

// inits returns how many of a loop's operands stand before the inits.
func inits(loop *ir.Node) int {
	if loop.Counted {
		return 1
	}
	return 0
}

func (b *builder) needBack(n *ir.Node, r *ir.Region, i int) {
	for _, br := range b.backs[n] {
		b.need(br.Args[i])
	}
	if !r.Ends() {
		b.need(r.Yield[i])
	}
}

// wrapsBack returns the negative number that adding v comes to, if v is a
// constant in the upper half of an unsigned type: the canonical form writes
// x − 1 as x + (2^w − 1).
func wrapsBack(v *ir.Value) (int64, bool) {
	cell, ok := v.Const()
	if !ok || !v.Type.Unsigned() || cell>>(v.Type.Bits()-1) == 0 {
		return 0, false
	}
	back := int64(cell<<(64-v.Type.Bits())) >> (64 - v.Type.Bits())
	return back, back > -inf
}

// follows reports whether a value is computed from its operands by a rule
// that state.compute has; all others are only known by their type.
func follows(n *ir.Node) bool {
	if !n.Op.IsInst() {
		return false
	}
	switch n.Op.Inst() {
	case isa.ADD, isa.SUB, isa.MUL, isa.DIV, isa.REM, isa.MIN, isa.MAX, isa.NEG, isa.ABS,
		isa.AND, isa.OR, isa.XOR, isa.NOT, isa.SHL, isa.SHR, isa.SEL:
		return n.Type.Integer()
	case isa.CVT, isa.BITCAST:
		return n.Type.Integer() && n.From.Integer()
	}
	return false
}

func (b *builder) at(v *ir.Value) int32 {
	if i := b.index[v.ID]; i >= 0 {
		return i
	}
	return -1
}

// place gives a value that is needed its place on the tape.
func (b *builder) place(v *ir.Value) int32 {
	i := int32(len(b.t.values))
	b.index[v.ID] = i
	b.t.values = append(b.t.values, v)
	return i
}

func (b *builder) put(s step) {
	b.t.steps.put(s)
	if s.kind != stepOpen && s.kind != stepClose && s.kind != stepFact {
		b.used = b.t.steps.len()
	}
}

func (b *builder) emit(r *ir.Region) {
	b.meter.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		switch n.Op {
		case ir.If:
			b.emitIf(n)
		case ir.Block:
			b.scope(func() {
				b.emit(n.Regions[0])
				b.join(n, n.Regions[0])
			})
			b.merge(n)
		case ir.Loop:
			b.emitLoop(n)
		case ir.Br:
			b.emitBr(n)
		default:
			b.emitInst(n)
		}
	}
}

// scope writes a scope, but for one in which nothing is told but facts, which
// end with it: most regions of a large program are such.
func (b *builder) scope(f func()) {
	at := b.t.steps.len()
	b.put(step{kind: stepOpen})
	f()
	if b.used <= at {
		b.t.steps.cut(at)
		return
	}
	b.put(step{kind: stepClose})
}

func (b *builder) emitInst(n *ir.Node) {
	if b.ask.checks && checkable(n) {
		s := step{kind: stepCheck, node: n}
		b.operands(&s, checked(n))
		b.put(s)
	}
	if v := n.Result(); v != nil && b.index[v.ID] == needed {
		s := step{kind: stepValue, node: n, a: -1, b: -1, c: -1}
		if follows(n) {
			b.operands(&s, n.Args)
			if n.Op == ir.Op(isa.ADD) {
				if _, ok := wrapsBack(n.Args[1]); ok {
					s.b = wraps
				}
			}
		}
		s.dst = b.place(v)
		b.put(s)
	}
}

func (b *builder) operands(s *step, args []*ir.Value) {
	s.a, s.b, s.c = -1, -1, -1
	for i, a := range args {
		switch i {
		case 0:
			s.a = b.at(a)
		case 1:
			s.b = b.at(a)
		case 2:
			s.c = b.at(a)
		}
	}
}

func (b *builder) emitIf(n *ir.Node) {
	for i, r := range n.Regions {
		b.scope(func() {
			b.facts(n.Args[0], i == 1)
			b.emit(r)
			b.join(n, r)
		})
	}
	b.merge(n)
	// One who comes here has not left by the side that ends.
	if n.Regions[0].Ends() {
		b.facts(n.Args[0], true)
	} else if n.Regions[1].Ends() {
		b.facts(n.Args[0], false)
	}
}

func (b *builder) facts(p *ir.Value, not bool) {
	eachComparison(p, not, func(c *ir.Node, not bool) {
		x, y := b.at(c.Args[0]), b.at(c.Args[1])
		if x < 0 || y < 0 {
			return
		}
		cond := c.Cond.Signed()
		if not {
			cond = opposite[cond]
		}
		b.put(step{kind: stepFact, cond: cond, typ: c.Type, a: x, b: y})
	})
}

var opposite = [...]isa.Cond{isa.EQ: isa.NE, isa.NE: isa.EQ, isa.LT: isa.GE, isa.LE: isa.GT, isa.GT: isa.LE, isa.GE: isa.LT}

// join tells the results of n what region r yields.
func (b *builder) join(n *ir.Node, r *ir.Region) {
	if r.Ends() {
		return
	}
	for i, v := range n.Results {
		if b.index[v.ID] != unneeded {
			b.put(step{kind: stepJoin, dst: b.result(v), a: b.at(r.Yield[i])})
		}
	}
}

// result returns the place of a construct's result, which gets it when first
// something is joined to it.
func (b *builder) result(v *ir.Value) int32 {
	if b.index[v.ID] == needed {
		return b.place(v)
	}
	return b.index[v.ID]
}

func (b *builder) merge(n *ir.Node) {
	for _, v := range n.Results {
		if b.index[v.ID] != unneeded {
			b.put(step{kind: stepMerge, dst: b.result(v), node: n})
		}
	}
}

func (b *builder) emitLoop(n *ir.Node) {
	l := &tapeLoop{node: n, count: -1}
	k := int32(len(b.t.loops))
	b.t.loops = append(b.t.loops, l)
	b.number[n] = k
	if n.Counted {
		l.count = b.at(n.Args[0])
	}
	region := n.Regions[0]
	count := 0
	for _, p := range region.Params {
		if b.index[p.ID] != unneeded {
			count++
		}
	}
	l.params = make([]tapeParam, 0, count)
	for i, p := range region.Params {
		if b.index[p.ID] == unneeded {
			continue
		}
		tp := tapeParam{index: int32(i), init: b.at(n.Args[i+inits(n)]), result: -1, step: -1, next: -1, carry: int32(b.t.carry)}
		b.t.carry++
		if by, minus := increment(b.comesBack(n, i), p); by != nil {
			if back, ok := wrapsBack(by); ok && !minus {
				tp.back = back
			} else {
				tp.step, tp.minus = b.at(by), minus
			}
		}
		tp.value = b.place(p)
		l.params = append(l.params, tp)
	}
	b.scope(func() {
		b.put(step{kind: stepLoop, loop: k})
		b.emit(region)
		if !region.Ends() {
			b.next(k, region.Yield)
		}
	})
	for i := range l.params {
		p := &l.params[i]
		if p.step >= 0 || p.back != 0 {
			p.next = b.at(b.comesBack(n, int(p.index)))
		}
		if n.Counted && b.index[n.Results[p.index].ID] != unneeded {
			p.result = b.place(n.Results[p.index])
		}
	}
	b.put(step{kind: stepEnd, loop: k})
}

func (b *builder) next(k int32, values []*ir.Value) {
	l := b.t.loops[k]
	for i := range l.params {
		b.put(step{kind: stepNext, loop: k, dst: int32(i), a: b.at(values[l.params[i].index])})
	}
}

func (b *builder) emitBr(n *ir.Node) {
	switch {
	case n.Target == nil:
	case n.Target.Op == ir.Loop:
		b.next(b.number[n.Target], n.Args)
	default:
		for i, v := range n.Target.Results {
			if b.index[v.ID] != unneeded {
				b.put(step{kind: stepJoin, dst: b.result(v), a: b.at(n.Args[i])})
			}
		}
	}
}

// comesBack returns the one value that every way back brings to parameter i of
// a loop, or nil.
func (b *builder) comesBack(n *ir.Node, i int) *ir.Value {
	var next *ir.Value
	for _, br := range b.backs[n] {
		if next != nil && br.Args[i] != next {
			return nil
		}
		next = br.Args[i]
	}
	if r := n.Regions[0]; !r.Ends() {
		if next != nil && r.Yield[i] != next {
			return nil
		}
		next = r.Yield[i]
	}
	return next
}

// increment returns what is added to p to make next (subtracted, if minus), if
// that comes from outside the loop, else nil. Values are numbered in order of
// definition: those from outside have lower numbers than p's loop.
func increment(next, p *ir.Value) (by *ir.Value, minus bool) {
	if next == nil || next.Node == nil || !next.Node.Op.IsInst() || !next.Type.Integer() {
		return nil, false
	}
	n := next.Node
	outside := func(v *ir.Value) bool { return v.ID < p.Param.Params[0].ID }
	switch op := n.Op.Inst(); {
	case (op == isa.ADD || op == isa.SUB) && n.Args[0] == p && outside(n.Args[1]):
		return n.Args[1], op == isa.SUB
	case op == isa.ADD && n.Args[1] == p && outside(n.Args[0]):
		return n.Args[0], false
	}
	return nil, false
}
