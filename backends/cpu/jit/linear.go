package jit

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Integers that step evenly along the lanes of a block, as addresses do, are
// kept as one number, that of the block's first lane, in a general register:
// the head. Blocks are rows of lanes here; see blocks.go.

// linear is what is known of a value: if known, lane l has head + step·l,
// modulo the size of its type, of which step may exceed the range.
//
// Of its bits as a number without sign, also where the type has one, max says more if it
// is below all ones of the type. Then no lane has more than max; head + step·l is what
// lane l has as a sum of integers, which did not wrap; and lanes that step do so upwards,
// step·(isa.MaxBlockLanes − 1) ≤ max, so that step is what it is in wider types too. All
// ones say nothing, as of what may be negative. Each rule of inst keeps all three.
type linear struct {
	known bool
	step  int64
	max   uint64
	vec   bool // something wants it as a vector
}

// headed reports whether values of a type may be kept so.
func headed(t isa.Type) bool { return t.Integer() && t.Size() >= 4 }

// linears finds the linear values of a function, by ID.
func (p *program) linears() []linear {
	l := &linearizer{p: p, out: make([]linear, p.fn.NumValues), bad: map[*ir.Value]bool{}, here: map[*ir.Node]bool{}, used: make([]bool, p.fn.NumValues)}
	l.uses(p.fn.Body)
	l.common(p.fn.Body)
	// Parameters of loops are taken to step as they start, until what comes back
	// says otherwise.
	for again, pass := true, 0; again; pass++ {
		l.again, l.strict = false, pass == 8
		l.region(p.fn.Body)
		again = l.again
	}
	l.wants(p.fn.Body)
	return l.out
}

type linearizer struct {
	p             *program
	out           []linear
	here          map[*ir.Node]bool  // instructions that all lanes of a block do, if one does
	bad           map[*ir.Value]bool // parameters that are not linear
	used          []bool
	again, strict bool
}

// common fills here: what stands before lanes leave, and in rounds that they all do.
func (l *linearizer) common(r *ir.Region) {
	for _, n := range r.Nodes {
		if l.p.escapes[n] {
			return
		}
		l.here[n] = n.Op.IsInst()
		if n.Op == ir.Loop && n.Counted && !l.p.rounds[n] && l.p.a.Vary(n.Args[0]) != analysis.PerLane {
			l.common(n.Regions[0])
		}
	}
}

func (l *linearizer) uses(r *ir.Region) {
	for _, n := range r.Nodes {
		for _, a := range n.Args {
			l.used[a.ID] = true
		}
		for _, s := range n.Regions {
			l.uses(s)
		}
	}
	for _, y := range r.Yield {
		l.used[y.ID] = true
	}
}

func (l *linearizer) of(v *ir.Value) linear {
	if c, ok := v.Const(); ok && headed(v.Type) {
		return linear{known: true, max: c & v.Type.Mask()}
	}
	return l.out[v.ID]
}

func (l *linearizer) region(r *ir.Region) {
	for _, n := range r.Nodes {
		if n.Op == ir.Loop {
			l.loop(n)
			continue
		}
		for _, s := range n.Regions {
			l.region(s)
		}
		if n.Op.IsInst() && len(n.Results) == 1 && headed(n.Result().Type) {
			l.out[n.Result().ID] = l.inst(n)
		}
	}
}

// evenly reports whether a loop's parameters may be linear: all lanes in it are
// in the same round, and leave it together, or nobody asks for what they left with.
func (l *linearizer) evenly(n *ir.Node, i int) bool {
	if !n.Counted || l.p.escapes[n] || l.p.rounds[n] || l.strict {
		return false
	}
	return l.p.a.Vary(n.Args[0]) != analysis.PerLane || !l.used[n.Results[i].ID]
}

func (l *linearizer) loop(n *ir.Node) {
	r := n.Regions[0]
	first := 0
	if n.Counted {
		first = 1
	}
	for i, v := range r.Params {
		init := n.Args[first+i]
		x := l.of(init)
		l.out[v.ID] = linear{}
		if headed(v.Type) && x.known && !l.bad[v] && l.evenly(n, i) {
			l.out[v.ID] = linear{known: true, step: x.step, max: v.Type.Mask()}
		}
	}
	l.region(r)
	for i, v := range r.Params {
		if x := l.out[v.ID]; x.known {
			if y := l.of(r.Yield[i]); !y.known || y.step != x.step {
				l.bad[v], l.again = true, true
			}
		}
		if len(n.Results) > i {
			l.out[n.Results[i].ID] = l.out[v.ID]
		}
	}
}

func (l *linearizer) inst(n *ir.Node) linear {
	none, full := linear{}, n.Result().Type.Mask()
	var a [3]linear
	even := true // no operand steps
	for i, v := range n.Args {
		if i == len(a) {
			return none
		}
		if a[i] = l.of(v); !a[i].known {
			return none
		}
		even = even && a[i].step == 0
	}
	// fits is the max of a sum or product of numbers that have no more, or all ones where
	// that may wrap. All ones of an operand come out as all ones, but for a product with 0.
	fits := func(high, low uint64) uint64 {
		if high != 0 || low > full {
			return full
		}
		return low
	}
	switch n.Op.Inst() {
	case isa.LDP:
		return linear{known: true, max: full}
	case isa.SREG:
		switch s := isa.Special(n.Imm); s {
		case isa.LaneX:
			if l.p.fn.Block[0] == 1 { // the same in the launch, and so computed before any group
				return linear{known: true}
			}
			return linear{known: true, step: 1, max: isa.MaxBlockLanes - 1}
		case isa.LaneY, isa.LaneZ:
			return linear{known: true}
		case isa.GlobalLane:
			return linear{known: true, step: 1, max: full}
		default:
			return linear{known: true, max: full}
		}
	case isa.ADD: // of what did not wrap, the sums of heads and of steps, if that fits
		low, high := bits.Add64(a[0].max, a[1].max, 0)
		return linear{known: true, step: a[0].step + a[1].step, max: fits(high, low)}
	case isa.SUB: // may be negative, or step downwards
		return linear{known: true, step: a[0].step - a[1].step, max: full}
	case isa.MUL:
		// Steps are modulo the type's size, whatever the constant's sign. One that is
		// negative has a large number's bits: times what steps, and so reaches 1023, that
		// does not fit.
		high, low := bits.Mul64(a[0].max, a[1].max)
		for i, v := range n.Args {
			if c, ok := v.Const(); ok {
				return linear{known: true, step: a[1-i].step * int64(c), max: fits(high, low)}
			}
		}
		return linear{known: even, max: fits(high, low)}
	case isa.SHL: // a product with a power of two, by the count modulo the type's bits
		if c, ok := n.Args[1].Const(); ok {
			k := c % uint64(n.Type.Bits())
			high, low := bits.Mul64(a[0].max, 1<<k)
			return linear{known: true, step: a[0].step << k, max: fits(high, low)}
		}
	case isa.CVT:
		to, from := n.Type, n.From
		if !headed(from) {
			return none
		}
		if to.Size() <= from.Size() {
			// The low bits: what steps goes on to, modulo fewer. What fits them, and so
			// did not wrap before, is the same number.
			return linear{known: true, step: a[0].step, max: min(full, a[0].max)}
		}
		// What may have wrapped in some lanes, or be negative in some, steps evenly no more.
		// A negative number that all lanes have goes on as one: its sign fills the upper
		// bits, of which max says nothing.
		limit := from.Mask() - 1
		if from.Signed() {
			limit = from.Mask() >> 1
		}
		switch {
		case a[0].max <= limit:
			return linear{known: true, step: a[0].step, max: a[0].max}
		case a[0].step != 0:
			return none
		case from.Signed():
			return linear{known: true, max: full}
		}
		return linear{known: true, max: a[0].max}
	// What follows makes the same of what is the same in all lanes, and nothing even of
	// what steps. headNode has it for numbers without sign alone.
	case isa.SHR:
		if _, ok := n.Args[1].Const(); ok && n.Type.Unsigned() {
			return linear{known: even, max: full}
		}
	case isa.MIN, isa.MAX:
		if n.Type.Unsigned() {
			return linear{known: even, max: full}
		}
	case isa.DIV, isa.REM:
		if n.Type.Unsigned() && (!n.CanFault() || l.here[n]) {
			return linear{known: even, max: full}
		}
	case isa.AND, isa.OR, isa.XOR:
		return linear{known: even, max: full}
	case isa.LDG:
		// A row's number, say. All lanes of a block load the same and find the same, since
		// nothing writes the slot meanwhile, nor another that overlaps it.
		if l.here[n] && even && l.p.linearAccess(l.out, n) && !l.p.fn.Slots[n.Mem.Slot].Writes {
			return linear{known: true, max: full}
		}
	}
	return none
}

// wants finds the linear values that are wanted as vectors as well.
func (l *linearizer) wants(r *ir.Region) {
	want := func(v *ir.Value) { l.out[v.ID].vec = true }
	for _, n := range r.Nodes {
		for i, a := range n.Args {
			switch {
			case n.Op == ir.Loop:
				k := i
				if n.Counted {
					k--
				}
				if k < 0 {
					if l.p.a.Vary(a) == analysis.PerLane || !l.of(a).known {
						want(a)
					}
				} else if !l.out[n.Regions[0].Params[k].ID].known {
					want(a)
				}
			case n.Op.IsInst() && len(n.Results) == 1 && l.out[n.Result().ID].known:
			case l.p.scalar(l.out, n), l.p.ladder(l.out, n):
			case n.Mem.Mode == isa.AddrByte && n.Mem.HasOff && i == 0 && l.straight(n):
			default:
				want(a)
			}
		}
		for _, s := range n.Regions {
			l.wants(s)
		}
	}
	for i, y := range r.Yield {
		if len(r.Params) == 0 || !l.out[r.Params[i].ID].known {
			want(y)
		}
	}
}

// straight reports whether an access goes by a linear offset.
func (l *linearizer) straight(n *ir.Node) bool { return l.p.linearAccess(l.out, n) }

// agreed reports whether a node compares heads that are the same in a block.
func (p *program) agreed(lin []linear, n *ir.Node) bool {
	if n.Op != ir.Op(isa.SET) || !headed(n.Type) {
		return false
	}
	for _, v := range n.Args {
		if _, constant := v.Const(); !constant && (!lin[v.ID].known || lin[v.ID].step != 0) {
			return false
		}
	}
	return true
}

// edge reports whether a node compares numbers that count the lanes of a block, and
// don't wrap, with one that they share: it holds in the lanes to one side of a place.
func (p *program) edge(lin []linear, n *ir.Node) bool {
	if n.Op != ir.Op(isa.SET) || !headed(n.Type) || n.Type.Signed() {
		return false
	}
	counts := 0
	for _, v := range n.Args {
		if _, constant := v.Const(); constant {
			continue
		}
		switch x := lin[v.ID]; {
		case x.known && x.step == 1 && x.max < min(mostCount, v.Type.Mask()):
			counts++ // as integers, in 64 bits too
		case !x.known || x.step != 0:
			return false
		}
	}
	return counts == 1
}

// mostCount bounds what counts lanes, so that those of a group don't wrap. What may be
// all ones of a narrower type may have wrapped already: index − 2, of 32 bits.
const mostCount = 1 << 62

// scalar reports whether a node compares heads as numbers.
func (p *program) scalar(lin []linear, n *ir.Node) bool {
	return p.agreed(lin, n) || p.edge(lin, n)
}

// ladder reports whether a node takes the low bits of a linear value, which step as well.
func (p *program) ladder(lin []linear, n *ir.Node) bool {
	return n.Op == ir.Op(isa.CVT) && n.Type.Integer() && n.Type.Size() < 4 && headed(n.From) && lin[n.Args[0].ID].known
}

// maxOffset bounds the constant part of linear offsets, so that a sum with it
// that wraps is not taken for one that is inside of a slot.
const maxOffset = 1 << 30

func (p *program) linearAccess(lin []linear, n *ir.Node) bool {
	if n.Mem.Mode != isa.AddrByte || n.Mem.Offset >= maxOffset || n.Mem.Offset <= -maxOffset {
		return false
	}
	if n.Op != ir.Op(isa.LDG) && n.Op != ir.Op(isa.STG) {
		return false
	}
	if !n.Mem.HasOff {
		return true
	}
	v := n.Args[n.AddrArgs()-1]
	_, constant := v.Const()
	return constant || lin[v.ID].known
}
