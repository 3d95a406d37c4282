package analysis

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// compute gives a value that an instruction or a constant defines its form.
func (s *state) compute(st *step) {
	n := st.node
	i := st.dst
	typ := s.t.values[i].Type
	if !typ.Integer() {
		s.opaque(i, rangeOf(typ))
		return
	}
	if n.Op == ir.Const {
		s.cell(i, typ, n.Imm)
		return
	}
	switch op := n.Op.Inst(); op {
	case isa.LDP:
		if s.in.params != nil && s.in.unknown>>n.Imm&1 == 0 {
			s.cell(i, typ, s.in.params[n.Imm])
			return
		}
	case isa.SREG:
		f := form{n: 1}
		f.terms[0] = term{int32(n.Imm), 1}
		r := s.atoms[n.Imm].interval
		if r.point() {
			f = form{c: r.lo}
		}
		s.set(i, &f, r)
		return
	case isa.LDC:
		s.opaque(i, tableRange(&s.t.f.Data[n.Imm]))
		return
	case isa.CLS_GET, isa.MIRROR, isa.NBR_GET:
		s.opaque(i, interval{0, isa.NumClasses - 1})
		return
	case isa.BOUND_MAP:
		s.opaque(i, interval{0, isa.BoundaryBytes - 1})
		return
	case isa.NBR_COUNT:
		s.opaque(i, interval{0, 6})
		return
	case isa.POPC, isa.CLZ, isa.CTZ:
		s.opaque(i, interval{0, int64(n.Type.Bits())})
		return
	}
	if !follows(n) {
		s.opaque(i, rangeOf(typ))
		return
	}
	s.follow(i, st)
}

// cell gives value i the number that a cell holds.
func (s *state) cell(i int32, t isa.Type, cell uint64) {
	v, ok := signedCell(t, cell)
	if ok {
		s.opaque(i, interval{v, v})
		return
	}
	r := rangeOf(t)
	if t == isa.U64 { // at least that large
		r.lo = inf - 1
	}
	s.opaque(i, r)
	s.values[i].exact = false
}

// tableRange returns the values in a table; 0 is what a stray index gives.
func tableRange(d *isa.Data) interval {
	if !d.Type.Integer() {
		return rangeOf(d.Type)
	}
	var r interval
	for _, cell := range d.Values {
		v, ok := signedCell(d.Type, cell)
		if !ok {
			return rangeOf(d.Type)
		}
		r = r.hull(interval{v, v})
	}
	return r
}

// follow has the rules for the instructions of follows.
func (s *state) follow(i int32, st *step) {
	n := st.node
	typ := n.Type
	all := rangeOf(typ)
	x := s.load(st.a)
	rx := s.values[st.a].interval
	var y form
	var ry interval
	if st.b >= 0 {
		y, ry = s.load(st.b), s.values[st.b].interval
	}
	var f, zero form
	switch op := n.Op.Inst(); op {
	case isa.ADD, isa.SUB:
		k := int64(1)
		if op == isa.SUB {
			k = -1
		}
		if st.b == wraps {
			if f.plus(&x, 1, &form{c: st.back()}) && s.try(i, &f) {
				return
			}
			defer func() { s.values[i].exact = false }()
			c, ok := signedCell(typ, n.Args[1].Node.Imm)
			if !ok {
				s.opaque(i, all)
				return
			}
			y, ry = form{c: c}, interval{c, c}
		}
		if f.plus(&x, k, &y) {
			s.assign(i, &f, all)
			return
		}
		s.within(i, rx.plus(ry.scale(k)), all)
		return
	case isa.NEG:
		if f.plus(&zero, -1, &x) {
			s.assign(i, &f, all)
			return
		}
	case isa.NOT:
		c := int64(-1)
		if typ.Unsigned() {
			if typ == isa.U64 {
				break
			}
			c = int64(typ.Mask())
		}
		if f.plus(&form{c: c}, -1, &x) {
			s.assign(i, &f, all)
			return
		}
	case isa.MUL:
		switch {
		case y.n == 0:
		case x.n == 0:
			x, y = y, x
		default:
			s.within(i, rx.times(ry), all)
			return
		}
		if k := y.c; x.scale(k) {
			s.assign(i, &x, all)
			return
		}
	case isa.SHL:
		if k := y.c % int64(typ.Bits()); y.n == 0 && k >= 0 && k < 62 && x.scale(1<<k) {
			s.assign(i, &x, all)
			return
		}
	case isa.CVT, isa.BITCAST:
		if rx.fits(typ) {
			s.set(i, &x, rx)
			return
		}
		s.assign(i, &x, all)
		return
	case isa.DIV, isa.SHR:
		s.divide(i, op, typ, st)
		return
	case isa.REM:
		s.remainder(i, st)
		return
	case isa.MIN:
		s.least(i, st, 1)
		return
	case isa.MAX:
		s.least(i, st, -1)
		return
	case isa.ABS:
		if rx.lo >= 0 {
			s.set(i, &x, rx)
			return
		}
		if rx.lo > all.lo && rx.hi < inf {
			s.opaque(i, interval{0, max(rx.hi, -rx.lo)})
			return
		}
	case isa.AND, isa.OR, isa.XOR:
		s.bits(i, op, st, all)
		return
	case isa.SEL: // its sources are b and c
		s.opaque(i, ry.hull(s.values[st.c].interval))
		return
	}
	s.opaque(i, all)
	s.values[i].exact = false
}

// within gives value i an interval that holds what it is before wrapping.
func (s *state) within(i int32, r, all interval) {
	exact := r.fits(s.t.values[i].Type)
	if !exact {
		r = all
	}
	s.opaque(i, r)
	s.values[i].exact = exact
}

// divide has the rules of DIV and SHR: floor division of what is not negative
// by a number, of which c · q ≤ x ≤ c · q + c − 1.
func (s *state) divide(i int32, op isa.Op, typ isa.Type, st *step) {
	all := rangeOf(typ)
	x, y := s.load(st.a), s.load(st.b)
	rx, ry := s.values[st.a].interval, s.values[st.b].interval
	if op == isa.SHR {
		if y.n > 0 {
			if rx.lo >= 0 {
				all = interval{0, rx.hi}
			}
			s.opaque(i, all)
			return
		}
		k := uint64(y.c) % uint64(typ.Bits())
		if k == 0 {
			s.set(i, &x, rx)
			return
		}
		if k > 62 {
			s.opaque(i, all)
			return
		}
		y.c = 1 << k
		if rx.lo < 0 && rx.hi < inf && rx.lo > -inf {
			s.opaque(i, interval{rx.lo >> k, rx.hi >> k})
			s.quotient(i, &x, y.c)
			return
		}
	}
	if rx.lo < 0 {
		rx = s.interval(st.a)
	}
	switch {
	case rx.lo < 0 && rx.lo > -inf && rx.hi < inf && (ry.lo > 0 || op == isa.SHR):
		m := max(-rx.lo, rx.hi)
		s.opaque(i, interval{-m, m})
	case rx.lo < 0:
		s.opaque(i, all)
	case y.n > 0: // the divisor is not known
		if typ.Signed() && ry.lo < 0 {
			s.opaque(i, all)
			return
		}
		r := interval{0, rx.hi}
		if ry.lo > 1 && rx.hi < inf {
			r.hi = rx.hi / ry.lo
		}
		if ry.lo > 0 && ry.hi < inf {
			r.lo = rx.lo / ry.hi
		}
		s.opaque(i, r)
	case y.c <= 0: // by 0 it is 0
		s.opaque(i, all.hull(interval{}))
	case y.c == 1:
		s.set(i, &x, rx)
	default:
		s.opaque(i, rx.floorDiv(y.c))
		s.quotient(i, &x, y.c)
	}
}

// quotient adds the facts of value i = ⌊x / c⌋.
func (s *state) quotient(i int32, x *form, c int64) {
	q := s.load(i)
	if q.scale(c) {
		s.atMost(&q, x, 0)
		s.atMost(x, &q, c-1)
	}
}

// remainder has the rules of REM.
func (s *state) remainder(i int32, st *step) {
	x := s.load(st.a)
	rx, ry := s.values[st.a].interval, s.values[st.b].interval
	typ := st.node.Type
	if rx.lo < 0 {
		rx = s.interval(st.a)
	}
	switch {
	case rx.lo >= 0 && rx.hi < ry.lo: // nothing to take away
		s.set(i, &x, rx)
	case rx.lo >= 0:
		r := interval{0, rx.hi}
		if ry.lo >= 0 && ry.hi < inf {
			r.hi = min(r.hi, max(0, ry.hi-1))
		}
		q := s.opaque(i, r)
		s.atMost(&q, &x, 0)
		if ry.lo > 0 {
			y := s.load(st.b)
			s.atMost(&q, &y, -1)
		}
	case ry.lo > -inf && ry.hi < inf:
		m := max(-ry.lo, ry.hi, 1) - 1
		s.opaque(i, interval{-m, m}.meet(rangeOf(typ)))
	default:
		s.opaque(i, rangeOf(typ))
	}
}

// least has the rules of MIN, and with sign −1 of MAX.
func (s *state) least(i int32, st *step, sign int64) {
	x, y := s.load(st.a), s.load(st.b)
	rx, ry := s.values[st.a].interval, s.values[st.b].interval
	if sign < 0 {
		switch {
		case rx.lo >= ry.hi && ry.hi < inf:
			s.set(i, &x, rx)
			return
		case ry.lo >= rx.hi && rx.hi < inf:
			s.set(i, &y, ry)
			return
		}
		m := s.opaque(i, interval{max(rx.lo, ry.lo), max(rx.hi, ry.hi)})
		s.atMost(&x, &m, 0)
		s.atMost(&y, &m, 0)
		return
	}
	switch {
	case rx.hi <= ry.lo && rx.hi < inf:
		s.set(i, &x, rx)
		return
	case ry.hi <= rx.lo && ry.hi < inf:
		s.set(i, &y, ry)
		s.values[i].exact = false // it is not x
		return
	}
	m := s.opaque(i, interval{min(rx.lo, ry.lo), min(rx.hi, ry.hi)})
	s.values[i].exact = false
	s.atMost(&m, &x, 0)
	s.atMost(&m, &y, 0)
}

// bits has the rules of AND, OR and XOR of what is not negative.
func (s *state) bits(i int32, op isa.Op, st *step, all interval) {
	x, y := s.load(st.a), s.load(st.b)
	rx, ry := s.values[st.a].interval, s.values[st.b].interval
	switch {
	case op == isa.AND && (rx.lo >= 0 || ry.lo >= 0):
		r := interval{0, inf}
		if rx.lo >= 0 {
			r.hi = rx.hi
		}
		if ry.lo >= 0 {
			r.hi = min(r.hi, ry.hi)
		}
		m := s.opaque(i, r.meet(all))
		if rx.lo >= 0 {
			s.atMost(&m, &x, 0)
		}
		if ry.lo >= 0 {
			s.atMost(&m, &y, 0)
		}
	case op != isa.AND && rx.lo >= 0 && ry.lo >= 0 && rx.hi < inf && ry.hi < inf:
		most := int64(1)<<bits.Len64(uint64(max(rx.hi, ry.hi))) - 1
		s.opaque(i, interval{0, most}.meet(all))
		if op == isa.OR {
			m := s.load(i)
			s.atMost(&x, &m, 0)
			s.atMost(&y, &m, 0)
		}
	default:
		s.opaque(i, all)
	}
}
