package kernels

// NLLGradient is the gradient by logs of an NLL whose results' is gradient: output
// is 0 but for output[r, target[r]] = −gradient[r] · weight[target[r]] / total, total
// the number that a mean was divided by, or 1.
var NLLGradient = gathering("nll_gradient",
	"output[r, j] = −gradient[r] · weight[j] / total where j = target[r], which is not ignored, else 0: the gradient of nll",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "target", Reads: true, Kind: Index}, {Name: "weight", Reads: true},
		{Name: "total", Reads: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "ignored", Index: true}},
	func(rows, cols int64) [][]int64 { return [][]int64{{rows}, {rows}, {cols}, {1}, {rows, cols}} })

func init() { NLLGradient.shapes = planNLLGradient }

var nllGradientText = &source{text: `
program nll_gradient
slot gradient {{.T}}
slot target i64
slot weight {{.T}}
slot total {{.Out}}
slot output {{.T}}` + classParams + `param ignored i64

  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  set.eq.i64 p, class, ignored
  bra end, p` + classText + `
  {{load "g" "gradient[index]"}}
  mul.{{.A}} z, g, w
  {{.Extra}}
  div.{{.A}} z, z, total
  neg.{{.A}} z, z
  {{.Done}}
end:
  exit
`}

func planNLLGradient(l []Layout, _ int) (*Plan, error) {
	if err := checkClasses(NLLGradient, l, 4, 1, 2); err != nil {
		return nil, err
	}
	t, acc, shape := l[0].Type, Accumulator(l[0].Type), l[1].Shape
	given, err := NLLGradient.spread(0, l[0], shape)
	if err != nil {
		return nil, err
	}
	total, err := NLLGradient.spread(3, l[3], shape)
	if err != nil {
		return nil, err
	}
	return NLLGradient.reduced(l[4], func(p *Plan, out array) error {
		if l[4].Elements() == 0 {
			return nil
		}
		if err := p.zeros(out); err != nil {
			return err
		}
		weight, err := p.forward(operand(2, l[2]))
		if err != nil {
			return err
		}
		target := operand(1, l[1])
		g, _ := rowsOf(out.Layout, len(out.Shape)-1)
		f := fields{T: t, A: acc, Out: total.Type, Batched: g.n1 > 1, Extra: load(total.Type, acc, "total", "total[index]"), Done: store(t, acc, "z", "output[at]")}
		if err := p.step(nllGradientText, f, shape, append(classCells(g, weight.Layout), Param{Scalar: true}),
			given.indexed(), target.indexed(), weight.bytes(), total.indexed(), out.bytes()); err != nil {
			return err
		}
		p.places("target", l[1], g.cols)
		return nil
	})
}
