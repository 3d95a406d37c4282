package call

import (
	"fmt"
	"math"

	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// Scalar is a number as a caller has it: a cell of some type. I64, U64 and F64
// are converted to the type that is wanted; others must be of it already.
type Scalar struct {
	Type isa.Type
	Bits uint64
}

// Int returns the scalar of an integer.
func Int(v int64) Scalar { return Scalar{isa.I64, uint64(v)} }

// Float returns the scalar of a floating-point number.
func Float(v float64) Scalar { return Scalar{isa.F64, math.Float64bits(v)} }

// String writes the number as an error message shows it.
func (s Scalar) String() string {
	switch {
	case s.Type == isa.I64:
		return fmt.Sprint(int64(s.Bits))
	case s.Type == isa.U64:
		return fmt.Sprint(s.Bits)
	case s.Type == isa.F64:
		return fmt.Sprint(math.Float64frombits(s.Bits))
	}
	return fmt.Sprintf("%v 0x%x", s.Type, s.Bits)
}

// Cell converts the number to a cell of type t. An integer must be in t's
// range, or for a float type convertible to a finite value; a float becomes an
// integer only if it is one.
func (s Scalar) Cell(t isa.Type) (uint64, error) {
	if s.Type == t {
		if s.Bits&^t.Mask() != 0 {
			return 0, status.Errorf(status.Invalid, "0x%x has more bits than %v", s.Bits, t)
		}
		return s.Bits, nil
	}
	switch s.Type {
	case isa.I64, isa.U64, isa.F64:
	default:
		return 0, status.Errorf(status.BadType, "expected %v, got a value of type %v", t, s.Type)
	}
	from := s.Type
	if f := math.Float64frombits(s.Bits); from == isa.F64 && t == isa.F32 && !math.IsNaN(f) { // what most are
		if narrow := float32(f); !math.IsInf(float64(narrow), 0) || math.IsInf(f, 0) {
			return uint64(math.Float32bits(narrow)), nil
		}
	}
	if from == isa.F64 && t.Integer() {
		f := math.Float64frombits(s.Bits)
		switch {
		case f != math.Trunc(f): // NaN too
			return 0, status.Errorf(status.BadType, "expected %v, got %v", t, f)
		case f >= -1<<63 && f < 1<<63:
			from, s.Bits = isa.I64, uint64(int64(f))
		case f >= 0 && f < 1<<64:
			from, s.Bits = isa.U64, uint64(f)
		default:
			return 0, status.Errorf(status.Invalid, "%v is out of range of %v", f, t)
		}
	}
	cell := isa.Convert(t, from, s.Bits)
	if t.Integer() {
		if lo := int64(s.Bits); from == isa.I64 && lo < 0 && !t.Signed() || !fits(t, from, s.Bits) {
			return 0, status.Errorf(status.Invalid, "%v is out of range of %v", Scalar{from, s.Bits}, t)
		}
		return cell, nil
	}
	given := math.Float64frombits(isa.Convert(isa.F64, from, s.Bits))
	if back := math.Float64frombits(isa.Convert(isa.F64, t, cell)); math.IsInf(back, 0) && !math.IsInf(given, 0) {
		return 0, status.Errorf(status.Invalid, "%v is out of range of %v", s, t)
	}
	return cell, nil
}

// fits reports whether the 64-bit integer bits, of type from, is in t's range.
func fits(t, from isa.Type, bits uint64) bool {
	if from == isa.U64 || int64(bits) >= 0 {
		limit := t.Mask()
		if t.Signed() {
			limit >>= 1
		}
		return bits <= limit
	}
	return t.Signed() && int64(bits) >= -1<<(t.Bits()-1)
}
