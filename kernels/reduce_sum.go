package kernels

import "github.com/hologram-project/hologram/isa"

// ReduceSum is output[r] = Σ input[r, :], the sum of each row of a rows × cols
// matrix in the order reduce.go states. Integers wrap. A row of no elements
// gives +0.
var ReduceSum = rowReduction("reduce_sum", "output[r] = the sum of row r of input", "add", true)

// rowReduction makes the operation that reduces each row with combine.
// empty says whether a row may have no elements.
func rowReduction(name, doc, combine string, empty bool) *Op {
	r := &reduction{combine: combine}
	op := &Op{
		Name: name, Doc: doc, Types: isa.SetNumeric, ScalarResult: true,
		Operands: []Operand{{Name: "input", Reads: true}, {Name: "output", Writes: true}},
		Dims:     []string{"rows", "cols"},
		extent:   func(d []int64) []int64 { return []int64{d[0] * d[1], d[0]} },
	}
	op.plan = func(t isa.Type, d []int64) (*Plan, error) {
		if !empty && d[1] == 0 {
			return nil, emptyError(name)
		}
		p := &Plan{}
		if d[0] == 0 {
			return p, nil
		}
		return p, r.levels(p, t, t, d[0], d[1], []Binding{{Operand: 0, Type: t}}, Binding{Operand: 1, Type: t}, 0)
	}
	return op
}
