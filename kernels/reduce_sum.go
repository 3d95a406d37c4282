package kernels

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// ReduceSum is output[r] = Σ input[r, :], the sum of each row of a matrix, in the
// order reduce.go states. Where output has a wider type the sum is kept in it.
// Integers wrap. A row of no elements gives +0.
var ReduceSum = rowReduction("reduce_sum", "output[r] = the sum of row r of input", "add", true)

// rowReduction makes the operation that reduces each row with combine.
// empty says whether a row may have no elements.
func rowReduction(name, doc, combine string, empty bool) *Op {
	r := &reduction{combine: combine}
	op := rowOperation(name, doc)
	if combine == "add" || combine == "mul" {
		op.Operands[1].Kind = Sum
		op.exact = isa.Type.Integer
	} else {
		op.exact = func(isa.Type) bool { return true }
	}
	op.shapes = func(l []Layout, axes int) (*Plan, error) {
		lead, err := resultShape(op, l, axes, empty)
		if err != nil {
			return nil, err
		}
		acc := Accumulator(l[1].Type)
		return op.reduced(l[1], func(p *Plan, out array) error {
			return r.reduce(p, acc, []array{operand(0, l[0])}, lead, nil, out, 0)
		})
	}
	return op
}

// rowOperation makes what reductions of rows have in common.
func rowOperation(name, doc string) *Op {
	op := &Op{
		Name: name, Doc: doc, Types: isa.SetNumeric, Reduces: true, ScalarResult: true, Axes: true, result: rest,
		Operands: []Operand{{Name: "input", Reads: true}, {Name: "output", Writes: true}},
		Dims:     []string{"rows", "cols"},
		extent:   func(d []int64) []int64 { return []int64{d[0] * d[1], d[0]} },
	}
	op.layouts = func(t isa.Type, d []int64) ([]Layout, int, error) {
		out := t
		if op.Operands[1].Kind == Index {
			out = isa.I64
		}
		return []Layout{Packed(t, d[0], d[1]), Packed(out, d[0])}, 1, nil
	}
	return op
}

// Unordered reports whether rows of elements of type t give the same bits in
// whatever order their elements are taken.
func (op *Op) Unordered(t isa.Type) bool { return op.exact != nil && op.exact(t) }

// Chooses reports whether a row's result is one of its elements, of which more of the same
// change nothing: such alone are exact of floats.
func (op *Op) Chooses() bool { return op.Unordered(isa.F32) }

// resultShape checks the shape of a reduction's output, which may have the
// dimensions that are reduced as 1, or one of 1 if no other is left, and returns
// how many are left.
func resultShape(op *Op, l []Layout, axes int, empty bool) (lead int, err error) {
	lead = len(l[0].Shape) - axes
	kept := slices.Clone(l[0].Shape[:lead])
	for range axes {
		kept = append(kept, 1)
	}
	if got := l[1].Shape; !slices.Equal(got, kept) && !slices.Equal(got, kept[:lead]) && (lead > 0 || l[1].Elements() != 1) {
		return 0, fmt.Errorf("%s: %s has shape %s; the result has %s", op.Name, op.Operands[1].Name, shapeText(got), shapeText(kept[:lead]))
	}
	if row := l[0].part(lead, len(l[0].Shape)); !empty && row.Elements() == 0 && l[1].Elements() > 0 {
		return 0, emptyError(op.Name)
	}
	return lead, nil
}

// reduced is a plan whose result goes to operand 1, of layout l, by way of the
// workspace if that is not packed.
func (op *Op) reduced(l Layout, steps func(p *Plan, out array) error) (*Plan, error) {
	p := &Plan{}
	final := operand(len(op.Operands)-1, l)
	out := final
	if !final.Packed() {
		out = p.room(l.Type, l.Shape...)
	}
	if err := steps(p, out); err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	if !final.Packed() && l.Elements() > 0 {
		return p, p.copy(out, final)
	}
	return p, nil
}
