package kernels

import (
	"fmt"
	"slices"
)

// CrossEntropyGradient is the gradient by scores of a CrossEntropy, of whose results
// gradient is that: output[r, j] = e^logs[r, j] · share − share where j = target[r], and
// e^logs[r, j] · share elsewhere, with logs[r, j] = (scores[r, j] − most[r]) − log[r] and
// share = gradient[r] · weight[target[r]] / total, or 0 where the target is ignored. most
// and log are LogSumExp's: so logs are LogSoftmax's, and are written nowhere. In f32 and
// f64 these are the bits of LogSoftmaxGradient of NLLGradient, of which but one element a
// row is not 0.
var CrossEntropyGradient = gathering("cross_entropy_gradient",
	"output[r, j] = e^(scores[r, j] − most[r] − log[r]) · share, less share where j = target[r]: the gradient of cross_entropy; share = gradient[r] · weight[target[r]] / total, or 0 where target[r] = ignored",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "target", Reads: true, Kind: Index}, {Name: "weight", Reads: true},
		{Name: "total", Reads: true, Kind: Sum}, {Name: "scores", Reads: true}, {Name: "most", Reads: true, Kind: Sum},
		{Name: "log", Reads: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "ignored", Index: true}},
	func(rows, cols int64) [][]int64 {
		return [][]int64{{rows}, {rows}, {cols}, {1}, {rows, cols}, {rows}, {rows}, {rows, cols}}
	})

func init() {
	CrossEntropyGradient.shapes = planCrossEntropyGradient
	CrossEntropyGradient.result = func(l []Layout, _ int) ([]int64, error) { return l[4].Shape, nil }
}

// A row's share, and its target's element.
var crossEntropyRows = &source{text: `
program cross_entropy_gradient_rows
slot gradient {{.T}}
slot target i64
slot weight {{.T}}
slot total {{.Out}}
slot scores {{.T}}
slot most {{.A}}
slot log {{.A}}
slot shares {{.A}}
slot own {{.A}}` + classParams + `param ignored i64

  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  mov.{{.A}} share, 0.0
  mov.{{.A}} z, 0.0
  set.eq.i64 p, class, ignored
  bra end, p` + classText + `
  {{load "x" "scores[at]"}}
  {{load "g" "gradient[index]"}}
  mul.{{.A}} share, g, w
  {{.Extra}}
  div.{{.A}} share, share, total` + logText + `  exp.{{.A}} z, x
  mul.{{.A}} z, z, share
  sub.{{.A}} z, z, share
end:
  stg.{{.A}} share, shares[index]
  stg.{{.A}} z, own[index]
  exit
`}

// All elements, as if none was the target's.
var crossEntropyElements = &source{text: `
program cross_entropy_gradient_elements
slot scores {{.T}}
slot most {{.A}}
slot log {{.A}}
slot shares {{.A}}
slot output {{.T}}

  {{load "x" "scores[index]"}}` + logText + `  ldg.{{.A}} share, shares[index]
  exp.{{.A}} z, x
  mul.{{.A}} z, z, share
  {{store "z" "output[index]"}}
  exit
`}

// The targets' elements, to their places.
var crossEntropyTargets = &source{text: `
program cross_entropy_gradient_targets
slot target i64
slot weight {{.T}}
slot own {{.A}}
slot output {{.T}}` + classParams + `param ignored i64

  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  set.eq.i64 p, class, ignored
  bra end, p` + classText + `
  ldg.{{.A}} z, own[index]
  {{store "z" "output[at]"}}
end:
  exit
`}

func planCrossEntropyGradient(l []Layout, _ int) (*Plan, error) {
	op, t, acc := CrossEntropyGradient, l[0].Type, Accumulator(l[0].Type)
	if err := checkClasses(op, l, 4, 1, 2); err != nil {
		return nil, err
	}
	if !slices.Equal(l[4].Shape, l[7].Shape) {
		return nil, fmt.Errorf("%s: scores has shape %s, and output has %s; expected the same", op.Name, shapeText(l[4].Shape), shapeText(l[7].Shape))
	}
	last := len(l[4].Shape) - 1
	shape := l[4].Shape[:last]
	given, err := op.spread(0, l[0], shape)
	if err != nil {
		return nil, err
	}
	total, err := op.spread(3, l[3], shape)
	if err != nil {
		return nil, err
	}
	numbers, err := op.numbers(l, 5, 7, shape)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if l[1].Elements() == 0 {
		return p, nil
	}
	placed := func(i int) (a array, g geometry, direct bool) {
		a = operand(i, l[i])
		if g, direct = rowsOf(a.Layout, last); !direct {
			a = p.room(t, l[i].Shape...)
			g, _ = rowsOf(a.Layout, last)
		}
		return a, g, direct
	}
	scores, from, direct := placed(4)
	if !direct {
		if err := p.copy(operand(4, l[4]), scores); err != nil {
			return nil, err
		}
	}
	weight, err := p.forward(operand(2, l[2]))
	if err != nil {
		return nil, err
	}
	target, shares, own := operand(1, l[1].part(0, last)), p.room(acc, shape...), p.room(acc, shape...)
	f, e := fields{T: t, A: acc, Out: total.Type, Batched: from.n1 > 1, Extra: load(total.Type, acc, "total", "total[index]")}, elements(t)
	ignored := Param{Scalar: true}
	if err := p.step(crossEntropyRows, f, shape, append(classCells(from, weight.Layout), ignored),
		given.indexed(), target.indexed(), weight.bytes(), total.indexed(), scores.bytes(), numbers[0].indexed(), numbers[1].indexed(),
		shares.indexed(), own.indexed()); err != nil {
		return nil, err
	}
	p.places("target", l[1], from.cols)
	if l[7].Elements() == 0 {
		return p, nil
	}
	out, to, direct := placed(7)
	slots := []Binding{scores.indexed()}
	for _, a := range append(numbers, shares) {
		a = alongRows(a, l[7].Shape)
		slots = append(slots, a.indexed())
	}
	if err := p.step(crossEntropyElements, e, l[7].Shape, nil, append(slots, out.indexed())...); err != nil {
		return nil, err
	}
	e.Batched = to.n1 > 1
	if err := p.step(crossEntropyTargets, e, shape, append(classCells(to, weight.Layout), ignored),
		target.indexed(), weight.bytes(), own.indexed(), out.bytes()); err != nil {
		return nil, err
	}
	if !direct {
		return p, p.copy(out, operand(7, l[7]))
	}
	return p, nil
}
