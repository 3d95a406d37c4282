package strips

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// kind says how a register holds its lanes.
type kind uint8

const (
	// vec: p points to an array with a value for each lane.
	vec kind = iota
	// uni: every lane has the value whose cell is bits.
	uni
	// aff: lane i has the integer bits + i·stride. Base and value are true
	// integers: nothing wraps in the type that the register was written with.
	aff
)

// reg is a strip register: the values that one SSA value (or several that
// have the same bits) has in the lanes of the strip. What is the same for all
// lanes, or grows by a constant from lane to lane, is held as such for as long
// as the steps can keep it so: loop counters, addresses, parameters and
// conditions on them then cost no work per lane.
type reg struct {
	p      unsafe.Pointer // the lanes, if vec: own, or memory of a slot
	own    unsafe.Pointer // the register's place in the frame
	bits   uint64
	stride int64
	kind   kind
	size   uint8 // of a value in bytes; 1 for a predicate
	// spread marks a uni or aff register whose values also stand in own.
	spread bool
	// lasting marks a register whose place in the frame is its own for good:
	// once spread it stays so, for strips of any length.
	lasting bool
}

func (r *reg) setUni(bits uint64) { r.kind, r.bits, r.spread = uni, bits, false }

func (r *reg) setLin(l lin) {
	r.kind, r.bits, r.stride, r.spread = aff, uint64(l.base), l.stride, false
}

// setVec makes the register hold lanes in its own place, which the caller fills
// or has filled.
func (r *reg) setVec() unsafe.Pointer {
	r.kind, r.p = vec, r.own
	return r.own
}

// lanes returns an array of the register's values for the frame's strip.
func (r *reg) lanes(f *frame) unsafe.Pointer {
	if r.kind == vec {
		return r.p
	}
	if !r.spread {
		n := f.n
		if r.lasting {
			n = f.width
		}
		if r.kind == uni {
			fillSize(r.size, r.own, r.bits, n)
		} else {
			rampSize(r.size, r.own, int64(r.bits), r.stride, n)
		}
		r.spread = true
	}
	return r.own
}

// private makes the register hold lanes in its own place, as a blend needs
// that changes some of them.
func (r *reg) private(f *frame) {
	if p := r.lanes(f); p != r.own {
		move(r.size, r.own, p, f.n)
	}
	r.setVec()
}

// assign makes d hold what s holds, in all lanes.
func (f *frame) assign(d, s *reg) {
	if s.kind != vec {
		d.kind, d.bits, d.stride, d.spread = s.kind, s.bits, s.stride, false
		return
	}
	move(d.size, d.setVec(), s.p, f.n)
}

// merge makes d hold what s holds in the lanes of m, and leaves the others.
func (f *frame) merge(d, s *reg, m mask) {
	if m.count == f.n {
		f.assign(d, s)
		return
	}
	d.private(f)
	blendSize(d.size, d.own, s.lanes(f), m.p, f.n)
}

// lin is an integer that is linear in the lane.
type lin struct{ base, stride int64 }

// Bounds that keep arithmetic on lins from overflowing: a strip has at most
// 2^10 lanes (maxWidth), so a value stays below 2^62 + 2^60.
const (
	maxBase   = 1 << 62
	maxStride = 1 << 50
)

func (l lin) last(n int) int64 { return l.base + l.stride*int64(n-1) }

// typeRange is the range of integers of type t that a lin may hold.
func typeRange(t isa.Type) (lo, hi int64) {
	switch t {
	case isa.I8:
		return math.MinInt8, math.MaxInt8
	case isa.I16:
		return math.MinInt16, math.MaxInt16
	case isa.I32:
		return math.MinInt32, math.MaxInt32
	case isa.U8:
		return 0, math.MaxUint8
	case isa.U16:
		return 0, math.MaxUint16
	case isa.U32:
		return 0, math.MaxUint32
	case isa.U64:
		return 0, maxBase
	}
	return -maxBase, maxBase
}

// fits reports whether all n lanes of l are values of type t, and small
// enough to go on with.
func (l lin) fits(t isa.Type, n int) bool {
	lo, hi := typeRange(t)
	if l.base < lo || l.base > hi || l.stride > maxStride || l.stride < -maxStride {
		return false
	}
	e := l.last(n)
	return lo <= e && e <= hi
}

// linear returns the register's value as a lin of type t, if it is one.
func (r *reg) linear(t isa.Type, n int) (lin, bool) {
	switch r.kind {
	case aff:
		l := lin{int64(r.bits), r.stride}
		return l, l.fits(t, n)
	case uni:
		l := lin{base: extend(t, r.bits)}
		return l, l.fits(t, n)
	}
	return lin{}, false
}

// extend is the integer that a cell of type t stands for, as far as an int64
// can hold it; a u64 from 2^63 on comes out negative and so never fits.
func extend(t isa.Type, cell uint64) int64 {
	switch t {
	case isa.I8:
		return int64(int8(cell))
	case isa.I16:
		return int64(int16(cell))
	case isa.I32:
		return int64(int32(cell))
	}
	return int64(cell)
}

// linRule computes a primitive on lins of n lanes, if the result is one.
type linRule func(t isa.Type, x, y lin, n int) (lin, bool)

func linAdd(_ isa.Type, x, y lin, _ int) (lin, bool) {
	return lin{x.base + y.base, x.stride + y.stride}, true
}

func linSub(_ isa.Type, x, y lin, _ int) (lin, bool) {
	return lin{x.base - y.base, x.stride - y.stride}, true
}

// mulSmall multiplies if the product is surely below 2^62.
func mulSmall(x, y int64) (int64, bool) {
	ax, ay := max(x, -x), max(y, -y)
	return x * y, bits.Len64(uint64(ax))+bits.Len64(uint64(ay)) <= 61
}

func linMul(_ isa.Type, x, y lin, _ int) (lin, bool) {
	if x.stride != 0 {
		x, y = y, x
	}
	if x.stride != 0 {
		return lin{}, false
	}
	b, ok1 := mulSmall(x.base, y.base)
	s, ok2 := mulSmall(x.base, y.stride)
	return lin{b, s}, ok1 && ok2
}

func linShl(t isa.Type, x, y lin, n int) (lin, bool) {
	if y.stride != 0 {
		return lin{}, false
	}
	k := y.base & int64(t.Bits()-1)
	if k > 48 {
		return lin{}, false
	}
	return linMul(t, x, lin{base: 1 << k}, n)
}

func linShr(t isa.Type, x, y lin, n int) (lin, bool) {
	if y.stride != 0 {
		return lin{}, false
	}
	k := y.base & int64(t.Bits()-1)
	q := x.base >> k
	if q == x.last(n)>>k {
		return lin{base: q}, true
	}
	return lin{q, x.stride >> k}, x.stride>>k<<k == x.stride
}

// linDiv and linRem handle what index arithmetic does: a lane number divided
// by a positive width, in a strip that lies in one row or steps by whole rows.
func linDiv(_ isa.Type, x, y lin, n int) (lin, bool) {
	if y.stride != 0 || y.base <= 0 || x.base < 0 || x.last(n) < 0 {
		return lin{}, false
	}
	q := x.base / y.base
	if q == x.last(n)/y.base {
		return lin{base: q}, true
	}
	return lin{q, x.stride / y.base}, x.stride%y.base == 0
}

func linRem(_ isa.Type, x, y lin, n int) (lin, bool) {
	if y.stride != 0 || y.base <= 0 || x.base < 0 || x.last(n) < 0 {
		return lin{}, false
	}
	q := x.base / y.base
	if q == x.last(n)/y.base {
		return lin{x.base - q*y.base, x.stride}, true
	}
	return lin{base: x.base % y.base}, x.stride%y.base == 0
}

// linAnd handles masks of low bits, in a strip that lies in one period.
func linAnd(_ isa.Type, x, y lin, n int) (lin, bool) {
	if x.stride == 0 {
		x, y = y, x
	}
	m := y.base
	if y.stride != 0 || m < 0 || m&(m+1) != 0 || x.base < 0 || x.base&^m != x.last(n)&^m {
		return lin{}, false
	}
	return lin{x.base & m, x.stride}, true
}

func linMin(_ isa.Type, x, y lin, n int) (lin, bool) {
	first, last := x.base <= y.base, x.last(n) <= y.last(n)
	if first && last {
		return x, true
	}
	return y, x.base >= y.base && x.last(n) >= y.last(n)
}

func linMax(t isa.Type, x, y lin, n int) (lin, bool) {
	m, ok := linMin(t, x, y, n)
	if m == x {
		return y, ok
	}
	return x, ok
}

// linSet decides a comparison if it comes out alike in all lanes: what lies
// between two lins is itself linear, so its ends decide.
func linSet(c isa.Cond, x, y lin, n int) (holds, ok bool) {
	first, last := x.base-y.base, x.last(n)-y.last(n)
	switch c {
	case isa.EQ, isa.NE:
		if first == 0 && last == 0 {
			return c == isa.EQ, true
		}
		return c == isa.NE, first < 0 && last < 0 || first > 0 && last > 0
	case isa.LT:
		return first < 0, first < 0 == (last < 0)
	default: // LE; GT and GE are exchanged into these
		return first <= 0, first <= 0 == (last <= 0)
	}
}
