package ir

import (
	"github.com/hologram-project/hologram/isa"
)

// simplify applies identities that hold bit for bit for every input, −0,
// infinities and NaN (all NaNs being one) included.
func simplify(f *Func) bool {
	s := &simplifier{f: f}
	s.rewriter = rewriter{f: f, visit: s.node}
	s.region(f.Body)
	return s.changed
}

type simplifier struct {
	rewriter
	f   *Func
	out []*Node // the new list; new nodes are appended to it
}

func (s *simplifier) node(n *Node, out []*Node) []*Node {
	s.out = out
	switch n.Op {
	case If:
		s.branch(n)
	case Loop:
		if c, ok := n.count(); ok && c == 0 {
			for i, v := range n.Results {
				v.repl = n.Args[i+1]
			}
			s.changed = true
		} else {
			s.out = append(s.out, n)
		}
	case Const, Block, Br:
		s.out = append(s.out, n)
	default:
		if v := s.inst(n); v != nil {
			n.Results[0].repl = v
			s.changed = true
		} else {
			s.out = append(s.out, n)
		}
	}
	return s.out
}

// count returns the constant number of rounds of a counted loop.
func (n *Node) count() (uint64, bool) {
	if !n.Counted {
		return 0, false
	}
	return n.Args[0].Const()
}

// emit appends a new instruction that takes its place in the source from n.
func (s *simplifier) emit(n *Node, op isa.Op, form isa.Form, t isa.Type, args ...*Value) *Value {
	m := &Node{Op: Op(op), Form: form, Src: n.Src, Site: -1, Free: n.Free}
	m.Args = append(m.room[:0:roomForArgs], args...)
	s.out = append(s.out, m)
	return m.addResult(t)
}

func (s *simplifier) branch(n *Node) {
	then, other := n.Regions[0], n.Regions[1]
	pred := n.Args[0]
	if c, ok := pred.Const(); ok {
		taken := then
		if c == 0 {
			taken = other
		}
		s.out = append(s.out, taken.Nodes...)
		for i, y := range taken.Yield {
			n.Results[i].repl = y
		}
		s.changed = true
		return
	}
	swap := func() {
		n.Regions[0], n.Regions[1] = other, then
		then, other = other, then
		s.changed = true
	}
	switch one, two := len(then.Nodes) > 0, len(other.Nodes) > 0; {
	case one == two:
		if p := s.straight(n, pred); p != nil {
			n.Args[0] = p
			swap()
		}
	case two:
		n.Args[0] = s.emit(n, isa.NOT, isa.Form{Type: isa.Pred}, isa.Pred, pred)
		swap()
	}
	if len(then.Nodes) == 0 && len(other.Nodes) == 0 && s.selects(n) {
		return
	}
	s.out = append(s.out, n)
}

// selects replaces an If that only chooses between values, if all are numbers.
func (s *simplifier) selects(n *Node) bool {
	for _, r := range n.Results {
		if r.Type == isa.Pred {
			return false
		}
	}
	for i, r := range n.Results {
		x, y := n.Regions[0].Yield[i], n.Regions[1].Yield[i]
		r.repl = s.emit(n, isa.SEL, isa.Form{Type: r.Type}, r.Type, n.Args[0], x, y)
	}
	s.changed = true
	return true
}

// by returns the node that defines v if it is an op.
func (v *Value) by(op isa.Op) *Node {
	if v.Node != nil && v.Node.Op == Op(op) {
		return v.Node
	}
	return nil
}

// inst returns the value that n may be replaced by, or nil. It may change n.
func (s *simplifier) inst(n *Node) *Value {
	if n.Mem.HasOff {
		s.offset(n)
		return nil
	}
	if n.Mem.Mode != 0 || len(n.Args) == 0 || len(n.Results) != 1 {
		return nil
	}
	row, _ := isa.Lookup(n.Op.Inst())
	if row.Commutes {
		if _, ok := n.Args[0].Const(); ok {
			if _, ok := n.Args[1].Const(); !ok {
				n.Args[0], n.Args[1] = n.Args[1], n.Args[0]
				s.changed = true
			}
		}
	}
	a := n.Args[0]
	if len(n.Args) == 1 {
		return s.unary(n, a)
	}
	b := n.Args[1]
	if n.Op == Op(isa.SEL) {
		return s.sel(n)
	}
	if n.Op == Op(isa.SET) {
		return s.set(n)
	}
	if len(n.Args) > 2 {
		return nil
	}
	t := n.Type
	if c, ok := b.Const(); ok {
		if v := s.withConst(n, a, c); v != nil {
			return v
		}
	}
	if c, ok := a.Const(); ok && n.Op == Op(isa.SUB) {
		if t.Float() && c == minusZero(t) || t.Signed() && c == 0 {
			return s.emit(n, isa.NEG, n.Form, t, b)
		}
	}
	if a == b {
		switch n.Op.Inst() {
		case isa.MIN, isa.MAX, isa.AND, isa.OR:
			return a
		case isa.XOR:
			return s.f.Const(t, 0)
		case isa.SUB:
			if t.Integer() {
				return s.f.Const(t, 0)
			}
		}
	}
	return nil
}

// offset moves a constant register part of an address into its static part.
func (s *simplifier) offset(n *Node) {
	at := n.AddrArgs() - 1
	c, ok := n.Args[at].Const()
	if !ok {
		return
	}
	sum := int64(c) + n.Mem.Offset
	if (sum > n.Mem.Offset) != (int64(c) > 0) {
		return // the sum does not fit; such an address is stray at any rate
	}
	n.Mem.Offset, n.Mem.HasOff = sum, false
	n.Args = append(n.Args[:at:at], n.Args[at+1:]...)
	s.changed = true
}

func minusZero(t isa.Type) uint64 { return 1 << (t.Bits() - 1) }

// one returns the cell of 1 in type t.
func one(t isa.Type) uint64 {
	if !t.Float() {
		return 1
	}
	bias := uint64(1)<<(t.ExponentBits()-1) - 1
	return bias << t.MantissaBits()
}

func (s *simplifier) unary(n *Node, a *Value) *Value {
	switch n.Op.Inst() {
	case isa.NOT:
		if m := a.by(isa.NOT); m != nil {
			return m.Args[0]
		}
		if m := a.by(isa.SET); m != nil {
			return s.inverse(n, m)
		}
	case isa.NEG:
		if m := a.by(isa.NEG); m != nil {
			return m.Args[0]
		}
	case isa.ABS:
		if a.by(isa.ABS) != nil {
			return a
		}
		if m := a.by(isa.NEG); m != nil {
			n.Args[0] = m.Args[0]
			s.changed = true
		}
	case isa.CVT:
		if n.Type == n.From {
			return a
		}
	case isa.BITCAST:
		if n.Type == n.From {
			return a
		}
		if m := a.by(isa.BITCAST); m != nil {
			n.Args[0], n.From = m.Args[0], m.From
			s.changed = true
		}
	}
	return nil
}

// inverse returns the comparison that holds where m does not, or nil: with
// floats, only = and ≠ have one.
func (s *simplifier) inverse(n, m *Node) *Value {
	form, x, y := m.Form, m.Args[0], m.Args[1]
	switch {
	case m.Cond == isa.EQ:
		form.Cond = isa.NE
	case m.Cond == isa.NE:
		form.Cond = isa.EQ
	case m.Type.Float():
		return nil
	case m.Cond == isa.LT || m.Cond == isa.GT:
		form.Cond, x, y = m.Cond+1, y, x // x < y: not y ≤ x
	default:
		form.Cond, x, y = m.Cond-1, y, x
	}
	return s.emit(n, isa.SET, form, isa.Pred, x, y)
}

func (s *simplifier) sel(n *Node) *Value {
	p, x, y := n.Args[0], n.Args[1], n.Args[2]
	if c, ok := p.Const(); ok {
		if c != 0 {
			return x
		}
		return y
	}
	if x == y {
		return x
	}
	if q := s.straight(n, p); q != nil {
		n.Args = []*Value{q, y, x}
		s.changed = true
	}
	return nil
}

// straight returns the inverse of p if a choice is to be written with that
// and its sides exchanged: of a NOT, of ≠, and among integers of ≤.
func (s *simplifier) straight(n *Node, p *Value) *Value {
	if m := p.by(isa.NOT); m != nil {
		return m.Args[0]
	}
	if m := p.by(isa.SET); m != nil && (m.Cond == isa.NE || m.Cond == isa.LE && m.Type.Integer()) {
		return s.inverse(n, m)
	}
	return nil
}

// set leaves only =, ≠, < and ≤.
func (s *simplifier) set(n *Node) *Value {
	x, y := n.Args[0], n.Args[1]
	if n.Cond == isa.GT || n.Cond == isa.GE {
		n.Cond -= isa.GT - isa.LT
		n.Args[0], n.Args[1] = y, x
		s.changed = true
	}
	if x == y && n.Type.Integer() {
		holds := uint64(0)
		if n.Cond == isa.EQ || n.Cond == isa.LE {
			holds = 1
		}
		return s.f.Const(isa.Pred, holds)
	}
	return nil
}

// withConst simplifies n = a op c.
func (s *simplifier) withConst(n *Node, a *Value, c uint64) *Value {
	t := n.Type
	integer := !t.Float()
	op := n.Op.Inst()
	switch op {
	case isa.ADD:
		if integer && c == 0 || !integer && c == minusZero(t) {
			return a
		}
	case isa.SUB:
		if c == 0 {
			return a
		}
		neg := -c & t.Mask()
		if !integer {
			neg = c ^ minusZero(t)
		}
		n.Op, n.Args[1] = Op(isa.ADD), s.f.Const(t, neg)
		s.changed = true
		return nil
	case isa.MUL:
		if c == one(t) {
			return a
		}
		if integer && c == 0 {
			return s.f.Const(t, 0)
		}
	case isa.DIV:
		if c == one(t) {
			return a
		}
	case isa.REM:
		if integer && c == 1 {
			return s.f.Const(t, 0)
		}
	case isa.AND:
		switch c {
		case 0:
			return s.f.Const(t, 0)
		case t.Mask():
			return a
		}
	case isa.OR:
		switch c {
		case 0:
			return a
		case t.Mask():
			return s.f.Const(t, c)
		}
	case isa.XOR:
		switch c {
		case 0:
			return a
		case t.Mask():
			return s.emit(n, isa.NOT, n.Form, t, a)
		}
	case isa.SHL, isa.SHR:
		k := c & uint64(t.Bits()-1)
		if k == 0 {
			return a
		}
		if k != c {
			n.Args[1] = s.f.Const(t, k)
			s.changed = true
		}
	}
	return s.regroup(n, a, c)
}

// regroup turns n = (x op d) op c into x op (d op c), for integers where op is
// associative.
func (s *simplifier) regroup(n *Node, a *Value, c uint64) *Value {
	op := n.Op.Inst()
	if n.Type.Float() || op != isa.ADD && op != isa.MUL && op != isa.AND && op != isa.OR && op != isa.XOR {
		return nil
	}
	m := a.by(op)
	if m == nil || m.Form != n.Form {
		return nil
	}
	d, ok := m.Args[1].Const()
	if !ok {
		return nil
	}
	row, _ := isa.Lookup(op)
	e, _ := row.Eval(n.Form, d, c, 0)
	n.Args[0], n.Args[1] = m.Args[0], s.f.Const(n.Type, e)
	s.changed = true
	return nil
}
