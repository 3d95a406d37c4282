package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// loss makes the operation output[0] = (Σ term(pred, target)) / n, with the sum
// in the order reduce.go states. term is text that makes z from x (pred) and y
// (target), all of type A; negate flips the result's sign.
func loss(name, doc, term string, negate bool) *Op {
	body := &source{text: `{{load "x" "a[off]"}}
    {{load "y" "target[off]"}}` + term}
	r := &reduction{combine: "add"}
	r.extra = func(f fields) string { return fmt.Sprintf("slot target %v", f.T) }
	r.m = func(f fields) string {
		text, err := body.expand(f)
		if err != nil {
			return err.Error() // the assembler shows it in its place
		}
		return text
	}
	r.done = func(f fields) string {
		text := fmt.Sprintf("ldp.%v count, count\n  div.%v z, acc, count", f.A, f.A)
		if negate {
			text += fmt.Sprintf("\n  neg.%v z, z", f.A)
		}
		return text
	}
	op := &Op{
		Name: name, Doc: doc, Types: isa.SetFloat, ScalarResult: true,
		Operands: []Operand{{Name: "pred", Reads: true}, {Name: "target", Reads: true}, {Name: "output", Writes: true}},
		Dims:     []string{"n"},
		extent:   func(d []int64) []int64 { return []int64{d[0], d[0], 1} },
	}
	op.plan = func(t isa.Type, d []int64) (*Plan, error) {
		if d[0] == 0 {
			return nil, emptyError(name)
		}
		p := &Plan{}
		count := isa.Convert(Accumulator(t), isa.I64, uint64(d[0]))
		return p, r.levels(p, t, t, 1, d[0], []Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}}, Binding{Operand: 2, Type: t}, count)
	}
	return op
}
