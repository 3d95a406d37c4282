package conformance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// wrong is a way for an evaluator to be wrong. It returns another result for the
// inputs that it is wrong about, all cells being of the types in f.
type wrong struct {
	name string
	// applies reports whether there is such an input and such a result.
	applies func(row *isa.Row, typ isa.Type) bool
	result  func(f isa.Form, a, b, v uint64) uint64
}

func always(*isa.Row, isa.Type) bool         { return true }
func floats(_ *isa.Row, t isa.Type) bool     { return t.Float() }
func binaryInts(r *isa.Row, t isa.Type) bool { return t.Integer() && len(r.Operands) > 2 }

// givesType reports whether a row's result is of the type it operates on.
func givesType(r *isa.Row) bool { return r.Operands[0].Type == isa.TypeT }

// takesType reports whether a row's first source is of one of its types.
func takesType(r *isa.Row) bool {
	t := r.Operands[1].Type
	return t == isa.TypeT || t == isa.TypeFrom
}

var wrongs = []wrong{
	{"in the lowest bit, for one input in seven", always, func(_ isa.Form, a, b, v uint64) uint64 {
		if (a*31+b*17)%7 == 3 {
			v ^= 1
		}
		return v
	}},
	{"in the sign of a zero", func(r *isa.Row, t isa.Type) bool { return t.Float() && givesType(r) }, func(f isa.Form, a, b, v uint64) uint64 {
		sign := uint64(1) << (f.Type.Bits() - 1)
		if v&^sign == 0 {
			v ^= sign
		}
		return v
	}},
	{"where an operand is a zero", floats, func(f isa.Form, a, b, v uint64) uint64 {
		return flip(v, magnitude(f, a) == 0)
	}},
	{"where an operand is infinite", floats, func(f isa.Form, a, b, v uint64) uint64 {
		if magnitude(f, a) == infinite(source(f)) && !(f.Type.Float() && isNaN(f.Type, v)) {
			v ^= 1
		}
		return v
	}},
	{"where an operand is NaN", floats, func(f isa.Form, a, b, v uint64) uint64 {
		switch t := source(f); {
		case !isNaN(t, a):
		case f.Type.Float() && isNaN(f.Type, v):
			v = 0
		default:
			v ^= 1
		}
		return v
	}},
	{"where an operand is subnormal", floats, func(f isa.Form, a, b, v uint64) uint64 {
		m := magnitude(f, a)
		return flip(v, m > 0 && m < 1<<source(f).MantissaBits())
	}},
	{"where an operand is the least integer", func(_ *isa.Row, t isa.Type) bool { return t.Signed() && !t.Float() }, func(f isa.Form, a, b, v uint64) uint64 {
		return flip(v, source(f).Signed() && a == uint64(1)<<(source(f).Bits()-1))
	}},
	{"where an operand is all ones", func(_ *isa.Row, t isa.Type) bool { return t.Integer() }, func(f isa.Form, a, b, v uint64) uint64 {
		return flip(v, a == source(f).Mask())
	}},
	{"where the second operand is zero", binaryInts, func(f isa.Form, a, b, v uint64) uint64 {
		return flip(v, b == 0)
	}},
	{"where the second operand is large", binaryInts, func(f isa.Form, a, b, v uint64) uint64 {
		return flip(v, b >= uint64(f.Type.Bits()))
	}},
	{"where the operands are equal", binaryInts, func(f isa.Form, a, b, v uint64) uint64 {
		return flip(v, a == b)
	}},
}

func flip(v uint64, yes bool) uint64 {
	if yes {
		v ^= 1
	}
	return v
}

// source is the type of an evaluator's first operand.
func source(f isa.Form) isa.Type {
	if f.From != isa.NoType {
		return f.From
	}
	return f.Type
}

// magnitude is a float's cell without its sign; all ones for other types.
func magnitude(f isa.Form, a uint64) uint64 {
	t := source(f)
	if !t.Float() {
		return ^uint64(0)
	}
	return a &^ (1 << (t.Bits() - 1))
}

func infinite(t isa.Type) uint64 {
	if !t.Float() {
		return 0
	}
	return (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
}

// An error planted in any evaluator, for any of its types, makes the corpus
// fail, be it all over or at an edge alone.
func TestPlantedErrorsAreCaught(t *testing.T) {
	brief.Alone(t)
	cases, err := Corpus()
	require.NoError(t, err)
	planted := 0
	for op := isa.Op(1); op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Eval == nil {
			continue
		}
		types := row.Types.List()
		if len(types) == 0 {
			types = []isa.Type{isa.NoType}
		}
		for _, typ := range types {
			if typ == isa.Pred || row.Expand.Has(typ) {
				continue // logic on predicates is tested by programs; expansions have their own bounds
			}
			for i, w := range wrongs {
				if i > 0 && (typ == isa.NoType || !takesType(row)) || !w.applies(row, typ) {
					continue // SEL, say, decides by a predicate: no number is an edge to it
				}
				planted++
				if !caught(t, cases, row, typ, w) {
					t.Errorf("no case of the corpus notices a wrong %s.%v: %s", row.Name, typ, w.name)
				}
			}
		}
	}
	t.Logf("%d planted errors", planted)
	require.GreaterOrEqual(t, planted, 1000)
}

// caught plants an error in row for one type and reports whether a case fails.
func caught(t *testing.T, cases []*Case, row *isa.Row, typ isa.Type, w wrong) bool {
	right := row.Eval
	defer func() { row.Eval = right }()
	row.Eval = func(f isa.Form, a, b, c uint64) (uint64, isa.FaultKind) {
		v, fault := right(f, a, b, c)
		if f.Type == typ {
			v = w.result(f, a, b, v)
		}
		return v, fault
	}
	r := newRig(t, interp.New())
	defer r.close()
	for _, c := range cases {
		if !uses(c.Program.Program, row, typ) {
			continue
		}
		var err error
		if c.Grid != 0 {
			err = r.explicit(c)
		} else {
			err = r.elementwise(c, []int64{int64(c.elements())}, 0, 256)
		}
		if err != nil {
			return true
		}
	}
	return false
}

func uses(p *isa.Program, row *isa.Row, typ isa.Type) bool {
	for _, in := range p.Insts {
		if in.Type == typ && strings.EqualFold(in.Op.String(), row.Name) {
			return true
		}
	}
	return false
}
