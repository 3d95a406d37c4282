package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// cells is arithmetic on the cells of a type, in Go's own numbers: f32's for the
// 16-bit floats, rounded to them after each operation; integers wrap.
type cells struct{ isa.Type }

func (t cells) in() arithmetic { return arithmetic{kernels.Accumulator(t.Type)} }

// of makes a cell of a function of numbers, or of a function of the cells.
func (t cells) of(a, b uint64, floats func(x, y value) value, integers func(x, y uint64) uint64) uint64 {
	if t.Float() {
		return cell(t.Type, floats(number(t.Type, a), number(t.Type, b)))
	}
	return integers(a, b) & t.Mask()
}

func (t cells) add(a, b uint64) uint64 {
	return t.of(a, b, t.in().add, func(x, y uint64) uint64 { return x + y })
}

func (t cells) sub(a, b uint64) uint64 {
	return t.of(a, b, t.in().sub, func(x, y uint64) uint64 { return x - y })
}

func (t cells) mul(a, b uint64) uint64 {
	return t.of(a, b, t.in().mul, func(x, y uint64) uint64 { return x * y })
}

func (t cells) div(a, b uint64) uint64 {
	return t.of(a, b, t.in().div, func(x, y uint64) uint64 {
		if t.Signed() {
			return uint64(t.signed(x) / t.signed(y))
		}
		return x / y
	})
}

func (t cells) signed(a uint64) int64 {
	shift := 64 - t.Bits()
	return int64(a<<shift) >> shift
}

func (t cells) less(a, b uint64) bool {
	switch {
	case t.Float():
		return number(t.Type, a) < number(t.Type, b)
	case t.Signed():
		return t.signed(a) < t.signed(b)
	}
	return a < b
}

func (t cells) equal(a, b uint64) bool {
	return t.Float() && number(t.Type, a) == number(t.Type, b) || !t.Float() && a == b
}

func (t cells) min(a, b uint64) uint64 {
	return t.of(a, b, func(x, y value) value { return min(x, y) }, func(x, y uint64) uint64 {
		if t.less(x, y) {
			return x
		}
		return y
	})
}

func (t cells) max(a, b uint64) uint64 {
	return t.of(a, b, func(x, y value) value { return max(x, y) }, func(x, y uint64) uint64 {
		if t.less(x, y) {
			return y
		}
		return x
	})
}

func (t cells) neg(a uint64) uint64 {
	return t.of(a, 0, func(x, _ value) value { return -x }, func(x, _ uint64) uint64 { return -x })
}

func (t cells) abs(a uint64) uint64 {
	if !t.Float() && !t.less(a, 0) || t.Float() && !math.Signbit(number(t.Type, a)) {
		return a
	}
	return t.neg(a)
}

func truth(holds bool) uint64 {
	if holds {
		return 1
	}
	return 0
}

// elementwise are the operations' formulas, of the operands that are read and then
// the scalars; nil of those whose results have bounds, which others look at.
var elementwise = map[string]func(t cells, x []uint64) uint64{
	"vector_add":           func(t cells, x []uint64) uint64 { return t.add(x[0], x[1]) },
	"vector_sub":           func(t cells, x []uint64) uint64 { return t.sub(x[0], x[1]) },
	"vector_mul":           func(t cells, x []uint64) uint64 { return t.mul(x[0], x[1]) },
	"vector_div":           func(t cells, x []uint64) uint64 { return t.div(x[0], x[1]) },
	"vector_mad":           func(t cells, x []uint64) uint64 { return t.add(t.mul(x[0], x[1]), x[2]) },
	"vector_min":           func(t cells, x []uint64) uint64 { return t.min(x[0], x[1]) },
	"vector_max":           func(t cells, x []uint64) uint64 { return t.max(x[0], x[1]) },
	"vector_abs":           func(t cells, x []uint64) uint64 { return t.abs(x[0]) },
	"vector_neg":           func(t cells, x []uint64) uint64 { return t.neg(x[0]) },
	"vector_relu":          func(t cells, x []uint64) uint64 { return t.max(x[0], 0) },
	"vector_clip":          func(t cells, x []uint64) uint64 { return t.min(t.max(x[0], x[1]), x[2]) },
	"vector_equal":         func(t cells, x []uint64) uint64 { return truth(t.equal(x[0], x[1])) },
	"vector_not_equal":     func(t cells, x []uint64) uint64 { return truth(!t.equal(x[0], x[1])) },
	"vector_less":          func(t cells, x []uint64) uint64 { return truth(t.less(x[0], x[1])) },
	"vector_less_equal":    func(t cells, x []uint64) uint64 { return truth(t.less(x[0], x[1]) || t.equal(x[0], x[1])) },
	"vector_greater":       func(t cells, x []uint64) uint64 { return truth(t.less(x[1], x[0])) },
	"vector_greater_equal": func(t cells, x []uint64) uint64 { return truth(t.less(x[1], x[0]) || t.equal(x[0], x[1])) },
	"scalar_add":           func(t cells, x []uint64) uint64 { return t.add(x[0], x[1]) },
	"scalar_mul":           func(t cells, x []uint64) uint64 { return t.mul(x[0], x[1]) },
	"fill":                 func(_ cells, x []uint64) uint64 { return x[0] },
	"copy":                 func(_ cells, x []uint64) uint64 { return x[0] },
	"where": func(_ cells, x []uint64) uint64 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	},
	"vector_sqrt": func(t cells, x []uint64) uint64 {
		return t.of(x[0], 0, func(x, _ value) value { return t.in().round(math.Sqrt(x)) }, nil)
	},
	"vector_exp": nil, "vector_log": nil, "sigmoid": nil, "tanh": nil, "gelu": nil,
}

// ends are the numbers of a type at which formulas that are almost the same part.
func ends(t isa.Type) (list []uint64) {
	if !t.Float() {
		return []uint64{0, 1, t.Mask(), t.Mask() >> 1, t.Mask()>>1 + 1}
	}
	for _, v := range []value{0, math.Copysign(0, -1), 1, -1.5, math.Inf(1), math.Inf(-1), math.NaN()} {
		list = append(list, cell(t, v))
	}
	return list
}

// tuples are all of n cells, one of each list.
func tuples(lists [][]uint64) [][]uint64 {
	all := [][]uint64{nil}
	for _, list := range lists {
		var longer [][]uint64
		for _, t := range all {
			for _, c := range list {
				longer = append(longer, append(append([]uint64(nil), t...), c))
			}
		}
		all = longer
	}
	return all
}

// An operation on elements is its formula, for every type and all ends of it together:
// bounds that contradict each other, zeros of both signs, NaN in any place.
func TestElementwiseBitForBit(t *testing.T) {
	for _, op := range kernels.All {
		if !op.Elementwise {
			continue
		}
		formula, listed := elementwise[op.Name]
		require.True(t, listed, op.Name)
		if formula == nil {
			continue
		}
		for _, typ := range op.Types.List() {
			v, err := op.Program(typ)
			require.NoError(t, err)
			s := kernels.Step{Program: v}
			var types []isa.Type
			var lists, scalars [][]uint64
			for i, o := range op.Operands {
				types = append(types, v.Program.Slots[i].Type)
				s.Slots = append(s.Slots, kernels.Binding{Operand: i, Type: types[i]})
				switch {
				case o.Kind == kernels.Mask && o.Reads:
					lists = append(lists, []uint64{0, 1, 2, 255})
				case o.Reads:
					lists = append(lists, ends(typ))
				}
			}
			for i := range op.Scalars {
				scalars = append(scalars, ends(typ))
				s.Params = append(s.Params, kernels.Param{Scalar: true, Value: uint64(i)})
			}
			var elements [][]uint64
			for _, x := range tuples(lists) {
				if op.Name != "vector_div" || typ.Float() || x[1] != 0 { // else a fault
					elements = append(elements, x)
				}
			}
			out := len(op.Operands) - 1
			operands := make([][]uint64, out+1)
			for i := range operands {
				operands[i] = make([]uint64, len(elements))
				for k := range elements {
					if i < out {
						operands[i][k] = elements[k][i]
					}
				}
			}
			s.Shape = []int64{int64(len(elements))}
			for n, given := range tuples(scalars) {
				if brief.Skips(n, 4) {
					continue
				}
				got := execute(t, &kernels.Plan{Steps: []kernels.Step{s}}, types, flat(operands), given...)[out]
				for k, c := range got {
					x := append(append([]uint64(nil), elements[k]...), given...)
					want := formula(cells{typ}, x)
					if of := types[out]; of.Float() && number(of, want) != number(of, want) && number(of, c) != number(of, c) {
						continue // all NaNs are one
					}
					if c != want {
						t.Fatalf("%s of %v %#x is %#x, to be %#x", op.Name, typ, x, c, want)
					}
				}
			}
		}
	}
}
