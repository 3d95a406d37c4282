package call

import (
	"math"
	"math/big"
	"testing"

	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

func TestCells(t *testing.T) {
	for _, c := range []struct {
		given Scalar
		to    isa.Type
		want  uint64
		code  status.Code
	}{
		{Int(-1), isa.I8, 0xff, status.OK}, {Int(127), isa.I8, 0x7f, status.OK}, {Int(128), isa.I8, 0, status.Invalid}, {Int(-129), isa.I8, 0, status.Invalid},
		{Int(-1), isa.U64, 0, status.Invalid}, {Int(-1), isa.U8, 0, status.Invalid}, {Int(255), isa.U8, 255, status.OK}, {Int(256), isa.U8, 0, status.Invalid},
		{Scalar{isa.U64, 1 << 63}, isa.I64, 0, status.Invalid}, {Scalar{isa.U64, 1 << 63}, isa.U64, 1 << 63, status.OK},
		{Int(math.MinInt64), isa.I64, 1 << 63, status.OK}, {Int(math.MinInt64), isa.I32, 0, status.Invalid},
		{Float(1.5), isa.I32, 0, status.BadType}, {Float(-2), isa.I32, 0xfffffffe, status.OK}, {Float(math.NaN()), isa.I32, 0, status.BadType},
		{Float(math.Inf(1)), isa.I32, 0, status.Invalid}, {Float(1 << 63), isa.U64, 1 << 63, status.OK}, {Float(3 << 62), isa.U64, 3 << 62, status.OK}, {Float(1 << 63), isa.I64, 0, status.Invalid},
		{Float(-1), isa.U64, 0, status.Invalid}, {Float(1 << 64), isa.U64, 0, status.Invalid},
		{Float(1.5), isa.F32, 0x3fc00000, status.OK}, {Float(0.1), isa.F32, 0x3dcccccd, status.OK}, {Float(1e39), isa.F32, 0, status.Invalid},
		{Float(math.Inf(-1)), isa.F32, 0xff800000, status.OK}, {Float(65520), isa.F16, 0, status.Invalid}, {Float(65504), isa.F16, 0x7bff, status.OK},
		{Float(math.Copysign(0, -1)), isa.F16, 0x8000, status.OK}, {Int(16777217), isa.F32, 0x4b800000, status.OK},
		{Scalar{isa.U64, math.MaxUint64}, isa.F64, math.Float64bits(1 << 64), status.OK}, {Scalar{isa.U64, math.MaxUint64}, isa.F16, 0, status.Invalid},
		{Scalar{isa.F32, 0x3f800000}, isa.F32, 0x3f800000, status.OK}, {Scalar{isa.F32, 0x3f800000}, isa.F64, 0, status.BadType},
		{Scalar{isa.F16, 0x10000}, isa.F16, 0, status.Invalid}, {Scalar{isa.Pred, 1}, isa.I32, 0, status.BadType},
	} {
		cell, err := c.given.Cell(c.to)
		if status.CodeOf(err) != c.code || err == nil && cell != c.want {
			t.Errorf("%v as %v: 0x%x, %v; expected 0x%x, kind %d", c.given, c.to, cell, err, c.want, c.code)
		}
	}
}

// TestBoundsOfCells gives every integer type the numbers about its bounds, as a
// signed, an unsigned integer and a float where they are that: those within arrive
// as they are, and the others are refused.
func TestBoundsOfCells(t *testing.T) {
	for _, to := range isa.NumericTypes {
		if !to.Integer() {
			continue
		}
		one := big.NewInt(1)
		lo, hi := new(big.Int), new(big.Int).Lsh(one, uint(to.Bits()))
		if to.Signed() {
			hi.Rsh(hi, 1)
			lo.Neg(hi)
		}
		hi.Sub(hi, one)
		for _, bound := range []*big.Int{lo, hi, new(big.Int)} {
			for d := int64(-2); d <= 2; d++ {
				v := new(big.Int).Add(bound, big.NewInt(d))
				var given []Scalar
				if v.IsInt64() {
					given = append(given, Int(v.Int64()))
				}
				if v.IsUint64() {
					given = append(given, Scalar{isa.U64, v.Uint64()})
				}
				if f, exact := new(big.Float).SetInt(v).Float64(); exact == big.Exact {
					given = append(given, Float(f))
				}
				within := v.Cmp(lo) >= 0 && v.Cmp(hi) <= 0
				want := new(big.Int).And(v, new(big.Int).SetUint64(to.Mask())).Uint64()
				for _, s := range given {
					cell, err := s.Cell(to)
					if s.Type == to { // a cell already
						continue
					}
					if within != (err == nil) || within && cell != want {
						t.Errorf("%v (%v) as %v: 0x%x, %v", v, s.Type, to, cell, err)
					}
				}
			}
		}
	}
}

// TestNamesOfPlaces counts an operand's elements in row-major order.
func TestNamesOfPlaces(t *testing.T) {
	for want, c := range map[string]struct {
		shape []int64
		i     int64
	}{"index": {nil, 0}, "index[4]": {[]int64{5}, 4}, "index[1, 2]": {[]int64{2, 3}, 5}, "index[1, 0]": {[]int64{2, 3}, 3}, "index[0, 2, 1]": {[]int64{2, 3, 4}, 9}} {
		if got := named("index", c.shape, c.i); got != want {
			t.Errorf("%s; expected %s", got, want)
		}
	}
}
