package analysis

import (
	"math"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
)

// interval is a set of integers lo … hi. That hi is inf, or lo −inf, says that
// nothing is known there: the value itself may lie beyond what int64 holds. That lo
// is inf, or hi −inf, says that it does.
type interval struct{ lo, hi int64 }

const inf = math.MaxInt64

// rangeOf returns the values of an integer type. U64 has no upper end, since
// the largest do not fit int64.
func rangeOf(t isa.Type) interval {
	switch {
	case t == isa.Pred:
		return interval{0, 1}
	case !t.Integer() || t == isa.I64:
		return interval{-inf, inf}
	case t == isa.U64:
		return interval{0, inf}
	case t.Signed():
		top := int64(1) << (t.Bits() - 1)
		return interval{-top, top - 1}
	}
	return interval{0, int64(t.Mask())}
}

// fits reports whether every value of r is a value of type t, so that the
// mathematical result is the wrapped one. An open end never fits 64 bits.
func (r interval) fits(t isa.Type) bool {
	to := rangeOf(t)
	return r.lo >= to.lo && r.hi <= to.hi && r.lo > -inf && r.hi < inf
}

func (r interval) point() bool { return r.lo == r.hi && r.hi < inf && r.lo > -inf }

func (r interval) empty() bool { return r.lo > r.hi }

// hull returns the smallest interval with the values of both.
func (r interval) hull(o interval) interval {
	switch {
	case r.empty():
		return o
	case o.empty():
		return r
	}
	return interval{min(r.lo, o.lo), max(r.hi, o.hi)}
}

func (r interval) meet(o interval) interval { return interval{max(r.lo, o.lo), min(r.hi, o.hi)} }

// addLower adds two lower ends. An open one leaves the sum open; what is too large
// for int64 becomes inf, which it is not below, so that more may be added to it.
func addLower(a, b int64) int64 {
	if a <= -inf || b <= -inf {
		return -inf
	}
	s := a + b
	switch {
	case a > 0 && b > 0 && s <= 0:
		return inf
	case a < 0 && b < 0 && s >= 0:
		return -inf
	}
	return max(s, -inf)
}

// addUpper is addLower for two upper ends.
func addUpper(a, b int64) int64 { return -addLower(-a, -b) }

// mulEnd multiplies an end by a number; 0 times an open end is 0.
func mulEnd(a, c int64) int64 {
	if a == 0 || c == 0 {
		return 0
	}
	p, ok := mul(a, c)
	switch {
	case ok && a < inf && a > -inf:
		return p
	case (a < 0) == (c < 0):
		return inf
	}
	return -inf
}

// mul returns a·c, and whether it is within −inf … inf.
func mul(a, c int64) (int64, bool) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(c))
	if hi != 0 || lo >= inf {
		return 0, false
	}
	if (a < 0) != (c < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}

// add returns a+b, and whether it is within −inf … inf.
func add(a, b int64) (int64, bool) {
	s := a + b
	if (a < 0) == (b < 0) && (s < 0) != (a < 0) || s >= inf || s <= -inf {
		return 0, false
	}
	return s, true
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func (r interval) scale(c int64) interval {
	a, b := mulEnd(r.lo, c), mulEnd(r.hi, c)
	return interval{min(a, b), max(a, b)}
}

func (r interval) plus(o interval) interval {
	return interval{addLower(r.lo, o.lo), addUpper(r.hi, o.hi)}
}

// times returns the hull of the products.
func (r interval) times(o interval) interval {
	a, b := r.scale(o.lo), r.scale(o.hi)
	return a.hull(b)
}

// floorDiv returns ⌊r / c⌋ for c > 0 and r ≥ 0.
func (r interval) floorDiv(c int64) interval {
	if r.hi == inf {
		if c > 1 { // of an U64
			return interval{r.lo / c, int64(math.MaxUint64 / uint64(c))}
		}
		return r
	}
	return interval{r.lo / c, r.hi / c}
}

// signedCell returns the integer that a cell of type t holds; false if it does
// not fit int64.
func signedCell(t isa.Type, cell uint64) (int64, bool) {
	if t.Signed() {
		s := 64 - t.Bits()
		v := int64(cell<<s) >> s
		return v, v > -inf && v < inf
	}
	return int64(cell), cell < inf
}
