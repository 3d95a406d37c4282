package kernels

import (
	"fmt"
	"slices"
)

// NLL is output[r] = −logs[r, target[r]] · weight[target[r]], and weights[r] the
// weight itself; where the target is ignored both are 0. The last dimension of logs
// has the classes. f16 and bf16 are computed in f32, and rounded where output is of
// their type. A target that is no class and not ignored is a stray access.
var NLL = gathering("nll",
	"output[r] = −logs[r, target[r]] · weight[target[r]], and weights[r] the weight; 0 where target[r] = ignored. A target that is no class is a fault",
	[]Operand{{Name: "logs", Reads: true}, {Name: "target", Reads: true, Kind: Index}, {Name: "weight", Reads: true},
		{Name: "weights", Writes: true, Kind: Sum}, {Name: "output", Writes: true, Kind: Sum}},
	[]Scalar{{Name: "ignored", Index: true}},
	func(rows, cols int64) [][]int64 { return [][]int64{{rows, cols}, {rows}, {cols}, {rows}, {rows}} })

func init() { NLL.shapes, NLL.result = NLL.planNLL, ofTargets }

// ofTargets is the result of what picks an element of each row.
func ofTargets(l []Layout, _ int) ([]int64, error) { return l[1].Shape, nil }

// logText makes an element's logarithm of its score, as LogSoftmax does.
const logText = `
  ldg.{{.A}} most, most[index]
  ldg.{{.A}} log, log[index]
  sub.{{.A}} x, x, most
  sub.{{.A}} x, x, log
`

// nllOf is the program of an NLL whose logarithms are made of what it is given by a text,
// which has slots of its own.
func nllOf(name, of, slots, made string) *source {
	return &source{text: `
program ` + name + `
slot ` + of + ` {{.T}}
slot target i64
slot weight {{.T}}` + slots + `
slot weights {{.A}}
slot output {{.Out}}` + classParams + `param ignored i64

  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  mov.{{.A}} w, 0.0
  mov.{{.A}} z, 0.0
  set.eq.i64 p, class, ignored
  bra end, p` + classText + `
  {{load "x" "` + of + `[at]"}}` + made + `
  mul.{{.A}} z, x, w
  neg.{{.A}} z, z
end:
  stg.{{.A}} w, weights[index]
  {{store "z" "output[index]"}}
  exit
`}
}

var nllText = map[*Op]*source{
	NLL:          nllOf("nll", "logs", "", ""),
	CrossEntropy: nllOf("cross_entropy", "scores", "\nslot most {{.A}}\nslot log {{.A}}", logText),
}

// planNLL plans an NLL, of logarithms or of scores and their rows' numbers.
func (op *Op) planNLL(l []Layout, _ int) (*Plan, error) {
	if err := checkClasses(op, l, 0, 1, 2); err != nil {
		return nil, err
	}
	t, shape, last := l[0].Type, l[1].Shape, len(l)-1
	for i := last - 1; i <= last; i++ {
		if !slices.Equal(l[i].Shape, shape) {
			return nil, fmt.Errorf("%s: %s has shape %s; expected %s, as target has", op.Name, op.Operands[i].Name, shapeText(l[i].Shape), shapeText(shape))
		}
	}
	if acc := Accumulator(t); l[last-1].Type != acc || l[last].Type != acc && l[last].Type != t {
		return nil, fmt.Errorf("%s: weights has dtype %v and output %v; expected %v, and that or %v", op.Name, l[last-1].Type, l[last].Type, acc, t)
	}
	numbers, err := op.numbers(l, 3, last-1, shape)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if l[1].Elements() == 0 {
		return p, nil
	}
	of := operand(0, l[0])
	g, ok := rowsOf(of.Layout, len(l[0].Shape)-1)
	if !ok {
		if of, err = p.pack(of); err != nil {
			return nil, err
		}
		g, _ = rowsOf(of.Layout, len(l[0].Shape)-1)
	}
	weight, err := p.forward(operand(2, l[2]))
	if err != nil {
		return nil, err
	}
	target, weights, out := operand(1, l[1]), operand(last-1, l[last-1]), operand(last, l[last])
	slots := []Binding{of.bytes(), target.indexed(), weight.bytes()}
	for _, a := range append(numbers, weights, out) {
		slots = append(slots, a.indexed())
	}
	if err := p.step(nllText[op], fields{T: t, A: Accumulator(t), Out: out.Type, Batched: g.n1 > 1}, shape, append(classCells(g, weight.Layout), Param{Scalar: true}), slots...); err != nil {
		return nil, err
	}
	p.places("target", l[1], g.cols)
	return p, nil
}

// numbers are operands from one to before another, each a number for each row, in the
// accumulator's type.
func (op *Op) numbers(l []Layout, from, to int, shape []int64) (list []array, err error) {
	for i := from; i < to; i++ {
		a, err := op.spread(i, l[i], shape)
		if err != nil {
			return nil, err
		}
		if acc := Accumulator(l[op.Subject()].Type); a.Type != acc {
			return nil, fmt.Errorf("%s: %s has dtype %v; expected %v, in which rows are summed", op.Name, op.Operands[i].Name, a.Type, acc)
		}
		list = append(list, a)
	}
	return list, nil
}
