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
    {{load "y" (printf "target[%s]" (offset 1))}}` + term}
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
		Name: name, Doc: doc, Types: isa.SetFloat, Reduces: true, ScalarResult: true, result: rest,
		Operands: []Operand{{Name: "pred", Reads: true}, {Name: "target", Reads: true}, {Name: "output", Writes: true}},
		Dims:     []string{"n"},
		extent:   func(d []int64) []int64 { return []int64{d[0], d[0], 1} },
		layouts: func(t isa.Type, d []int64) ([]Layout, int, error) {
			return []Layout{Packed(t, d[0]), Packed(t, d[0]), Packed(t, 1)}, 0, nil
		},
	}
	op.shapes = func(l []Layout, _ int) (*Plan, error) {
		if err := sameShape(name, l, [2]string{"pred", "target"}, 1); err != nil {
			return nil, err
		}
		n := l[0].Elements()
		switch {
		case n == 0:
			return nil, emptyError(name)
		case l[2].Elements() != 1:
			return nil, fmt.Errorf("%s: output has shape %s; the result is one number", name, shapeText(l[2].Shape))
		}
		t := l[0].Type
		count := isa.Convert(Accumulator(t), isa.I64, uint64(n))
		return op.reduced(l[2], func(p *Plan, out array) error {
			return r.reduce(p, Accumulator(t), []array{operand(0, l[0]), operand(1, l[1])}, 0, nil, out, count)
		})
	}
	return op
}
