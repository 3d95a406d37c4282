package conformance

import (
	"slices"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Every expansion is in the corpus, in every type, and held there to no more
// than the row's own bound. Planted errors show the same of rows that have an
// evaluator.
func TestCorpusHasEveryExpansion(t *testing.T) {
	brief.Alone(t)
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		for _, typ := range row.Expand.List() {
			if !slices.ContainsFunc(cases, func(c *Case) bool {
				return c.ULP <= uint64(row.ULP) && uses(c.Program.Program, row, typ)
			}) {
				t.Errorf("no case of the corpus holds %s to %d ULP; see corpus/gen.py", row.Typed(isa.Form{Type: typ}), row.ULP)
			}
		}
	}
}

// Every row is in the corpus, in every type it has, and so in what Once runs.
func TestCorpusHasEveryRow(t *testing.T) {
	brief.Alone(t)
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	has := map[isa.Op]isa.TypeSet{}
	for _, c := range distinct(cases) {
		for _, in := range c.Program.Program.Insts {
			has[in.Op] |= 1 << in.Type
		}
	}
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if _, ok := has[op]; !ok {
			t.Errorf("no case of the corpus runs %s", row.Name)
		}
		for _, typ := range row.Types.List() {
			if !has[op].Has(typ) {
				t.Errorf("no case of the corpus runs %s", row.Typed(isa.Form{Type: typ}))
			}
		}
	}
}

// Once is right of what is right: on the interpreter.
func TestOnce(t *testing.T) {
	Once(t, func() backends.Backend { return interp.New() })
}
