package conformance

import (
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
)

// An error planted in any evaluator, for any of its types, makes the corpus
// fail: the lowest bit of the result is wrong for about one input in seven.
func TestPlantedErrorsAreCaught(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
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
			planted++
			if !caught(t, cases, row, typ) {
				t.Errorf("no case of the corpus notices a wrong %s.%v", row.Name, typ)
			}
		}
	}
	t.Logf("%d planted errors", planted)
	if planted < 250 {
		t.Errorf("planted only %d errors", planted)
	}
}

// caught plants an error in row for one type and reports whether a case fails.
func caught(t *testing.T, cases []*Case, row *isa.Row, typ isa.Type) bool {
	right := row.Eval
	defer func() { row.Eval = right }()
	row.Eval = func(f isa.Form, a, b, c uint64) (uint64, isa.FaultKind) {
		v, fault := right(f, a, b, c)
		if f.Type == typ && (a*31+b*17+c*7)%7 == 3 {
			v ^= 1
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
