package contraction

import (
	"math"
	"math/bits"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// The numbers that forms are made of: a lane's place, the loop's round, and of each division by a number of the launch
// what it gives and what it leaves.
const (
	laneX  = int(isa.LaneX)
	laneY  = int(isa.LaneY)
	laneZ  = int(isa.LaneZ)
	blockX = int(isa.BlockX)
	blockY = int(isa.BlockY)
	blockZ = int(isa.BlockZ)
	global = 6
	round  = 7

	firstQuotient = 8 // and the remainder behind it
	maxQuotients  = 3
	atoms         = firstQuotient + 2*maxQuotients
)

// form is c + Σ k · atom in one launch: an integer, without wrapping.
type form struct {
	c int64
	k [atoms]int64
}

// constant reports whether f is a number.
func (f *form) constant() bool { return f.k == [atoms]int64{} }

// step is an integer instruction that the loads' offsets are made of.
type step struct {
	node    *ir.Node
	t       isa.Type
	args    [2]int // numbers of steps; of what the loop carries: what it begins with, and what a round adds
	carried bool
	minus   bool
}

// quotient is a division of a form that is not negative.
type quotient struct{ of, by form }

// numbers evaluates steps for a launch.
type numbers struct {
	l         *backends.Launch
	most      [atoms]int64 // of each atom, whose least is 0
	quotients []quotient
	room      [maxQuotients]quotient
	row       bool // the launch is one row of lanes
	forms     []form
}

func (n *numbers) begin(l *backends.Launch) {
	n.l, n.quotients, n.forms = l, n.room[:0], n.forms[:0]
	for d := range 3 {
		n.most[laneX+d], n.most[blockX+d] = int64(l.Block[d])-1, int64(l.Grid[d])-1
	}
	n.most[global], n.most[round] = int64(min(l.N, math.MaxInt64))-1, 0
	n.row = l.Grid[1] == 1 && l.Grid[2] == 1 && l.Block[1] == 1 && l.Block[2] == 1
}

// addTo returns x + by · y.
func addTo(x *form, by int64, y *form) (f form, ok bool) {
	one := func(a, b int64) int64 {
		p, fits := times(b, by)
		s := a + p
		ok = ok && fits && (s > a) == (p > 0)
		return s
	}
	ok = true
	f.c = one(x.c, y.c)
	for i := range f.k {
		f.k[i] = one(x.k[i], y.k[i])
	}
	return f, ok
}

func times(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// parts writes what is divided in f as what its division gives and leaves.
func (n *numbers) parts(f form) (form, bool) {
	for i := range n.quotients {
		q := &n.quotients[i]
		at := 0
		for at < atoms && q.of.k[at] == 0 {
			at++
		}
		if f.k[at] == 0 || f.k[at]%q.of.k[at] != 0 {
			continue
		}
		c := f.k[at] / q.of.k[at]
		var parts form
		parts.k[firstQuotient+2*i], parts.k[firstQuotient+2*i+1] = q.by.c, 1
		g, ok := addTo(&f, -c, &q.of)
		if ok {
			g, ok = addTo(&g, c, &parts)
		}
		if !ok {
			return f, false
		}
		f = g
	}
	return f, true
}

// bounds returns between which numbers f is.
func (n *numbers) bounds(f *form) (lo, hi int64, ok bool) {
	lo, hi, ok = n.reach(f)
	if g, fits := n.parts(*f); fits && len(n.quotients) > 0 {
		if l, h, fits := n.reach(&g); fits {
			if !ok {
				return l, h, true
			}
			lo, hi = max(lo, l), min(hi, h)
		}
	}
	return lo, hi, ok
}

// reach is bounds, atom by atom.
func (n *numbers) reach(f *form) (lo, hi int64, ok bool) {
	lo, hi = f.c, f.c
	for i, k := range f.k {
		if k == 0 {
			continue
		}
		p, fits := times(k, n.most[i])
		to := &hi
		if k < 0 {
			to = &lo
		}
		s := *to + p
		if !fits || p != 0 && (s > *to) != (p > 0) {
			return 0, 0, false
		}
		*to = s
	}
	return lo, hi, true
}

// fits reports whether f is a number of a type, whatever the lane and the round.
func (n *numbers) fits(f *form, t isa.Type) bool {
	lo, hi, ok := n.bounds(f)
	if !ok {
		return false
	}
	b := t.Bits()
	switch {
	case t.Signed():
		return b == 64 || lo >= -1<<(b-1) && hi < 1<<(b-1)
	case b == 64:
		return lo >= 0
	}
	return lo >= 0 && hi < 1<<b
}

// do evaluates a step. It is false if the result is none that forms can say, or wraps in some lane.
func (n *numbers) do(s *step) (f form, ok bool) {
	var a, b *form
	if s.args[0] >= 0 {
		a = &n.forms[s.args[0]]
	}
	if s.args[1] >= 0 {
		b = &n.forms[s.args[1]]
	}
	if s.carried {
		if !b.constant() {
			return f, false
		}
		by := b.c
		if s.minus {
			by = -by
		}
		f = *a
		f.k[round] += by
		return f, n.fits(&f, s.t)
	}
	if s.node.Op == ir.Const {
		f.c, ok = signed(s.t, s.node.Imm)
		return f, ok
	}
	switch s.node.Op.Inst() {
	case isa.LDP:
		f.c, ok = signed(s.t, n.l.Params[s.node.Imm])
	case isa.SREG:
		f, ok = n.special(isa.Special(s.node.Imm))
	case isa.ADD:
		f, ok = addTo(a, 1, b)
	case isa.SUB:
		f, ok = addTo(a, -1, b)
	case isa.NEG:
		f, ok = addTo(&form{}, -1, a)
	case isa.MUL:
		if a.constant() {
			a, b = b, a
		}
		if !b.constant() {
			return f, false
		}
		f, ok = addTo(&form{}, b.c, a)
	case isa.SHL:
		if !b.constant() || b.c < 0 || b.c >= min(62, int64(s.t.Bits())) {
			return f, false
		}
		f, ok = addTo(&form{}, 1<<b.c, a)
	case isa.CVT, isa.BITCAST:
		f, ok = *a, true
	case isa.MIN, isa.MAX:
		d, fits := addTo(a, -1, b)
		lo, hi, bounded := n.bounds(&d)
		if !fits || !bounded || lo < 0 && hi > 0 {
			return f, false
		}
		f, ok = *a, true
		if (hi <= 0) != (s.node.Op.Inst() == isa.MIN) {
			f = *b
		}
	case isa.DIV:
		f, ok = n.divide(a, b)
	case isa.REM:
		if f, ok = n.divide(a, b); ok {
			f, ok = addTo(a, -b.c, &f)
		}
	}
	if n.row { // a lane's place in its block, and the block's, are its place among all
		if x, b := f.k[laneX], f.k[blockX]; n.most[blockX] == 0 || x != 0 && b == x*(n.most[laneX]+1) {
			f.k[global] += x
			f.k[laneX], f.k[blockX] = 0, 0
		} else if n.most[laneX] == 0 {
			f.k[global] += b
			f.k[blockX] = 0
		}
	}
	return f, ok && n.fits(&f, s.t)
}

// special is a special value.
func (n *numbers) special(s isa.Special) (f form, ok bool) {
	switch {
	case s < isa.BlockDimX && n.most[s] > 0:
		f.k[s] = 1
	case s < isa.BlockDimX: // of one
	case s <= isa.BlockDimZ:
		f.c = int64(n.l.Block[s-isa.BlockDimX])
	case s <= isa.GridDimZ:
		f.c = int64(n.l.Grid[s-isa.GridDimX])
	case s == isa.GlobalLane:
		f.k[global] = 1
	default:
		return f, false
	}
	return f, true
}

// divide returns a / b, of a form that is not negative by a number.
func (n *numbers) divide(a, b *form) (f form, ok bool) {
	lo, hi, ok := n.bounds(a)
	if !ok || lo < 0 || !b.constant() || b.c <= 0 {
		return f, false
	}
	if a.constant() || hi < b.c {
		f.c = lo / b.c // 0 if it is none
		return f, a.constant() || hi < b.c
	}
	x := *a
	at := n.known(&x, b)
	if at < 0 {
		if x, ok = n.parts(x); !ok {
			return f, false
		}
		at = n.known(&x, b)
	}
	if at < 0 {
		if at = len(n.quotients); at == maxQuotients {
			return f, false
		}
		n.quotients = append(n.quotients, quotient{x, *b})
		n.most[firstQuotient+2*at], n.most[firstQuotient+2*at+1] = hi/b.c, b.c-1
	}
	f.k[firstQuotient+2*at] = 1
	return f, true
}

// known returns the number of a quotient that there is already, else -1.
func (n *numbers) known(of, by *form) int {
	return slices.IndexFunc(n.quotients, func(q quotient) bool { return q.of == *of && q.by == *by })
}

// signed is a cell of an integer type as a number; false if that has no place in an int64.
func signed(t isa.Type, cell uint64) (int64, bool) {
	b := 64 - t.Bits()
	if t.Signed() {
		return int64(cell<<b) >> b, true
	}
	cell = cell << b >> b
	return int64(cell), cell <= math.MaxInt64
}
