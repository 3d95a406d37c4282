package kernels

import "fmt"

// EmbeddingGradient is the gradient by a table of an Embedding whose result's is
// gradient, a row for each place. order are the places sorted by the rows that they
// name; those of row r stand in it from starts[r] to before ends[r]. The sum of a
// row's is one chain from −0.0 in that order, in f32 for f16 and bf16, and rounded
// once; with share it is divided by their number. Row number padding, and rows that
// no place names, get +0, as do those whose end is not behind their start.
var EmbeddingGradient = gathering("embedding_gradient",
	"output[r, j] = Σ gradient[order[k], j] for k from starts[r] to before ends[r], in order; with share divided by their number; 0 for row number padding",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "order", Reads: true, Kind: Index}, {Name: "starts", Reads: true, Kind: Index},
		{Name: "ends", Reads: true, Kind: Index}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "padding", Index: true}, {Name: "share", Index: true}},
	func(rows, cols int64) [][]int64 { return [][]int64{{rows, cols}, {rows}, {rows}, {rows}, {rows, cols}} })

func init() { EmbeddingGradient.shapes = planEmbeddingGradient }

var embeddingGradientText = &source{text: `
program embedding_gradient
slot gradient {{.T}}
slot order i64
slot starts i64
slot ends i64
slot output {{.T}}
param cols u64
param places i64
param padding i64
param share i64

  sreg at, global_lane
  ldp.u64 cols, cols
  ldp.i64 places, places
  ldp.i64 padding, padding
  ldp.i64 share, share
  rem.u64 column, at, cols
  div.u64 row, at, cols
  ldg.i64 start, starts[index]
  ldg.i64 end, ends[index]
  sub.i64 count, end, start
  max.i64 count, count, 0
  min.i64 count, count, places ; what no order has is a fault, not billions of rounds
  cvt.i64.u64 row, row
  set.eq.i64 p, row, padding
  sel.i64 count, p, 0, count
  cvt.u32.i64 rounds, count
  mul.i64 start, start, 8
  mov.{{.A}} acc, -0.0
  loop rounds, done
    ldg.i64 place, order[start]
    cvt.u64.i64 from, place
    mad.u64 from, from, cols, column
    mul.u64 from, from, {{size .T}}
    {{load "x" "gradient[from]"}}
    add.{{.A}} acc, acc, x
    add.i64 start, start, 8
done:
  set.eq.u32 p, rounds, 0
  sel.{{.A}} acc, p, 0.0, acc
  sel.u32 rounds, p, 1, rounds
  set.eq.i64 p, share, 0
  sel.u32 rounds, p, 1, rounds
  cvt.{{.A}}.u32 count, rounds
  div.{{.A}} acc, acc, count
  {{store "acc" "output[index]"}}
  exit
`}

func planEmbeddingGradient(l []Layout, _ int) (*Plan, error) {
	if len(l[0].Shape) != 2 || len(l[4].Shape) != 2 || l[0].Shape[1] != l[4].Shape[1] {
		return nil, fmt.Errorf("embedding_gradient: gradient has shape %s and output %s; expected two matrices with as many columns", shapeText(l[0].Shape), shapeText(l[4].Shape))
	}
	for i, n := range []int64{1: l[0].Shape[0], 2: l[4].Shape[0], 3: l[4].Shape[0]} {
		if i > 0 && (len(l[i].Shape) != 1 || l[i].Shape[0] != n) {
			return nil, fmt.Errorf("embedding_gradient: %s has shape %s; expected (%d,)", EmbeddingGradient.Operands[i].Name, shapeText(l[i].Shape), n)
		}
	}
	p := &Plan{}
	shape, out := l[4].Shape, operand(4, l[4])
	if l[4].Elements() == 0 {
		return p, nil
	}
	if l[0].Elements() == 0 {
		return p, p.zeros(out)
	}
	given, err := p.pack(operand(0, l[0]))
	if err != nil {
		return nil, err
	}
	order, err := p.pack(operand(1, l[1]))
	if err != nil {
		return nil, err
	}
	rows := func(i int) Binding {
		a := operand(i, l[i])
		a.Shape, a.Stride = shape, []int64{l[i].Stride[0], 0}
		return a.indexed()
	}
	program, err := embeddingGradientText.instance(elements(l[0].Type))
	p.Steps = append(p.Steps, Step{
		Program: program, Shape: shape,
		Slots:  []Binding{given.bytes(), order.bytes(), rows(2), rows(3), out.indexed()},
		Params: append(cells(uint64(shape[1]), uint64(l[0].Shape[0])), Param{Scalar: true}, Param{Scalar: true, Value: 1}),
	})
	return p, err
}
