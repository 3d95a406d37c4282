package isa

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa/graph"
)

// The evaluators that the table names: each primitive, for all its types, on
// cells. They are the meaning of the instruction set, so they say what happens
// rather than hurry. This file has the integers; eval_float.go the floats.
// Sources come in the row's order; the evaluators of integers and floats share
// a name in the table and part ways here.

// signed returns the value of an integer cell of a signed type.
func signed(t Type, a uint64) int64 {
	s := 64 - t.Bits()
	return int64(a<<s) >> s
}

// integer makes a cell of an integer result, wrapping it to the type.
func integer(t Type, v uint64) (uint64, FaultKind) { return v & t.Mask(), NoFault }

func truth(v bool) (uint64, FaultKind) {
	if v {
		return 1, NoFault
	}
	return 0, NoFault
}

func evalMov(f Form, a, b, c uint64) (uint64, FaultKind) { return a, NoFault }

func evalAdd(f Form, a, b, c uint64) (uint64, FaultKind) {
	if f.Type.Float() {
		return rounded(f.Type, value(f.Type, a)+value(f.Type, b))
	}
	return integer(f.Type, a+b)
}

func evalSub(f Form, a, b, c uint64) (uint64, FaultKind) {
	if f.Type.Float() {
		return rounded(f.Type, value(f.Type, a)-value(f.Type, b))
	}
	return integer(f.Type, a-b)
}

func evalMul(f Form, a, b, c uint64) (uint64, FaultKind) {
	if f.Type.Float() {
		return rounded(f.Type, value(f.Type, a)*value(f.Type, b))
	}
	return integer(f.Type, a*b)
}

func evalMad(f Form, a, b, c uint64) (uint64, FaultKind) {
	p, _ := evalMul(f, a, b, 0)
	return evalAdd(f, p, c, 0)
}

func evalMulHi(f Form, a, b, c uint64) (uint64, FaultKind) {
	if f.Type.Signed() {
		a, b = uint64(signed(f.Type, a)), uint64(signed(f.Type, b))
	}
	hi, lo := bits.Mul64(a, b)
	if f.Type.Bits() < 64 {
		return integer(f.Type, lo>>f.Type.Bits())
	}
	if f.Type.Signed() {
		// As unsigned numbers a and b are 2^64 too large where negative.
		hi -= b&uint64(int64(a)>>63) + a&uint64(int64(b)>>63)
	}
	return hi, NoFault
}

func evalDiv(f Form, a, b, c uint64) (uint64, FaultKind) {
	switch {
	case f.Type.Float():
		return rounded(f.Type, value(f.Type, a)/value(f.Type, b))
	case b == 0:
		return 0, FaultDivide
	case f.Type.Signed(): // Go defines MIN / −1 as MIN
		return integer(f.Type, uint64(signed(f.Type, a)/signed(f.Type, b)))
	}
	return integer(f.Type, a/b)
}

func evalRem(f Form, a, b, c uint64) (uint64, FaultKind) {
	switch {
	case f.Type.Float():
		return remainder(f.Type, a, b)
	case b == 0:
		return 0, FaultDivide
	case f.Type.Signed():
		return integer(f.Type, uint64(signed(f.Type, a)%signed(f.Type, b)))
	}
	return integer(f.Type, a%b)
}

// less is the order that MIN and MAX choose by; −0 is below +0. Neither is a NaN.
func less(t Type, a, b uint64) bool {
	switch {
	case t.Float():
		return floatLess(value(t, a), value(t, b))
	case t.Signed():
		return signed(t, a) < signed(t, b)
	}
	return a < b
}

func evalMin(f Form, a, b, c uint64) (uint64, FaultKind) {
	switch {
	case isNaN(f.Type, a) || isNaN(f.Type, b):
		return CanonicalNaN(f.Type), NoFault
	case less(f.Type, b, a):
		return b, NoFault
	}
	return a, NoFault
}

func evalMax(f Form, a, b, c uint64) (uint64, FaultKind) {
	switch {
	case isNaN(f.Type, a) || isNaN(f.Type, b):
		return CanonicalNaN(f.Type), NoFault
	case less(f.Type, a, b):
		return b, NoFault
	}
	return a, NoFault
}

// signBit is the highest bit of a cell of type t.
func signBit(t Type) uint64 { return 1 << (t.Bits() - 1) }

func evalNeg(f Form, a, b, c uint64) (uint64, FaultKind) {
	if f.Type.Float() {
		return a ^ signBit(f.Type), NoFault
	}
	return integer(f.Type, -a)
}

func evalAbs(f Form, a, b, c uint64) (uint64, FaultKind) {
	if a&signBit(f.Type) != 0 {
		return evalNeg(f, a, 0, 0)
	}
	return a, NoFault
}

func evalAnd(f Form, a, b, c uint64) (uint64, FaultKind) { return a & b, NoFault }
func evalOr(f Form, a, b, c uint64) (uint64, FaultKind)  { return a | b, NoFault }
func evalXor(f Form, a, b, c uint64) (uint64, FaultKind) { return a ^ b, NoFault }
func evalNot(f Form, a, b, c uint64) (uint64, FaultKind) { return integer(f.Type, ^a) }

func evalShl(f Form, a, b, c uint64) (uint64, FaultKind) {
	return integer(f.Type, a<<(b%uint64(f.Type.Bits())))
}

func evalShr(f Form, a, b, c uint64) (uint64, FaultKind) {
	n := b % uint64(f.Type.Bits())
	if f.Type.Signed() {
		return integer(f.Type, uint64(signed(f.Type, a)>>n))
	}
	return a >> n, NoFault
}

func evalPopc(f Form, a, b, c uint64) (uint64, FaultKind) {
	return uint64(bits.OnesCount64(a)), NoFault
}

func evalClz(f Form, a, b, c uint64) (uint64, FaultKind) {
	return uint64(bits.LeadingZeros64(a) - (64 - f.Type.Bits())), NoFault
}

func evalCtz(f Form, a, b, c uint64) (uint64, FaultKind) {
	return uint64(min(bits.TrailingZeros64(a), f.Type.Bits())), NoFault
}

func evalSet(f Form, a, b, c uint64) (uint64, FaultKind) {
	if isNaN(f.Type, a) || isNaN(f.Type, b) {
		return truth(f.Cond == NE)
	}
	lt, gt := less(f.Type, a, b), less(f.Type, b, a)
	if f.Type.Float() && value(f.Type, a) == value(f.Type, b) {
		lt, gt = false, false // here, unlike in MIN, −0 = +0
	}
	switch f.Cond.Signed() {
	case EQ:
		return truth(!lt && !gt)
	case NE:
		return truth(lt || gt)
	case LT:
		return truth(lt)
	case LE:
		return truth(!gt)
	case GT:
		return truth(gt)
	default: // GE
		return truth(!lt)
	}
}

func evalSel(f Form, pred, a, b uint64) (uint64, FaultKind) {
	if pred != 0 {
		return a, NoFault
	}
	return b, NoFault
}

func evalMirror(f Form, class, b, c uint64) (uint64, FaultKind) {
	if class >= NumClasses {
		return 0, FaultClass
	}
	return uint64(graph.Mirror(uint8(class))), NoFault
}

func evalNbrCount(f Form, class, b, c uint64) (uint64, FaultKind) {
	if class >= NumClasses {
		return 0, FaultClass
	}
	return uint64(len(graph.Neighbours(uint8(class)))), NoFault
}

func evalNbrGet(f Form, class, index, c uint64) (uint64, FaultKind) {
	if class >= NumClasses {
		return 0, FaultClass
	}
	n := graph.Neighbours(uint8(class))
	if index >= uint64(len(n)) {
		return 0, NoFault
	}
	return uint64(n[index]), NoFault
}

func evalBoundMap(f Form, class, page, b uint64) (uint64, FaultKind) {
	off, ok := graph.Phi(uint8(class), uint8(page), uint8(b))
	if !ok {
		return 0, FaultClass
	}
	return off, NoFault
}
