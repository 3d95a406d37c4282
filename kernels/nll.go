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

func init() {
	NLL.shapes = planNLL
	NLL.result = func(l []Layout, _ int) ([]int64, error) { return l[1].Shape, nil }
}

var nllText = &source{text: `
program nll
slot logs {{.T}}
slot target i64
slot weight {{.T}}
slot weights {{.A}}
slot output {{.Out}}` + classParams + `param ignored i64

  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  mov.{{.A}} w, 0.0
  mov.{{.A}} z, 0.0
  set.eq.i64 p, class, ignored
  bra end, p` + classText + `
  {{load "x" "logs[at]"}}
  mul.{{.A}} z, x, w
  neg.{{.A}} z, z
end:
  stg.{{.A}} w, weights[index]
  {{store "z" "output[index]"}}
  exit
`}

func planNLL(l []Layout, _ int) (*Plan, error) {
	if err := checkClasses(NLL, l, 0, 1, 2); err != nil {
		return nil, err
	}
	shape := l[1].Shape
	for i := 3; i < 5; i++ {
		if !slices.Equal(l[i].Shape, shape) {
			return nil, fmt.Errorf("nll: %s has shape %s; expected %s, as target has", NLL.Operands[i].Name, shapeText(l[i].Shape), shapeText(shape))
		}
	}
	t := l[0].Type
	if acc := Accumulator(t); l[3].Type != acc || l[4].Type != acc && l[4].Type != t {
		return nil, fmt.Errorf("nll: weights has dtype %v and output %v; expected %v, and that or %v", l[3].Type, l[4].Type, acc, t)
	}
	p := &Plan{}
	if l[1].Elements() == 0 {
		return p, nil
	}
	logs := operand(0, l[0])
	g, ok := rowsOf(logs.Layout, len(l[0].Shape)-1)
	if !ok {
		var err error
		if logs, err = p.pack(logs); err != nil {
			return nil, err
		}
		g, _ = rowsOf(logs.Layout, len(l[0].Shape)-1)
	}
	weight, err := p.forward(operand(2, l[2]))
	if err != nil {
		return nil, err
	}
	target, weights, out := operand(1, l[1]), operand(3, l[3]), operand(4, l[4])
	if err := p.step(nllText, fields{T: t, A: Accumulator(t), Out: out.Type, Batched: g.n1 > 1}, shape, append(classCells(g, weight.Layout), Param{Scalar: true}),
		logs.bytes(), target.indexed(), weight.bytes(), weights.indexed(), out.indexed()); err != nil {
		return nil, err
	}
	p.places("target", l[1], g.cols)
	return p, nil
}
