package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// Softmax is output[r, j] = e^(input[r, j] − m) / s over each row of a
// rows × cols matrix, m the row's maximum and s = Σ e^(input[r, j] − m) in the
// order reduce.go states. f16 and bf16 are computed in f32 and rounded once. A
// row that holds NaN or +inf, or nothing but −inf, gives NaN, as in numpy.
var Softmax = &Op{
	Name: "softmax", Doc: "output[r, j] = e^(input[r, j] − max) / Σ e^(input[r, :] − max), by rows",
	Types: isa.SetFloat, Axes: true,
	Operands: []Operand{{Name: "input", Reads: true}, {Name: "output", Writes: true}},
	Dims:     []string{"rows", "cols"},
	extent:   func(d []int64) []int64 { return []int64{d[0] * d[1], d[0] * d[1]} },
	layouts: func(t isa.Type, d []int64) ([]Layout, int, error) {
		l := Packed(t, d[0], d[1])
		return []Layout{l, l}, 1, nil
	},
	shapes: planSoftmax,
	result: like,
}

var (
	softmaxMax = &reduction{combine: "max"}
	softmaxSum = &reduction{
		combine: "add",
		extra:   func(f fields) string { return fmt.Sprintf("slot m %v", f.A) },
		m: func(f fields) string {
			return fmt.Sprintf(`mul.u64 mo, row, %d
    ldg.%[2]v m, m[mo]
    %[3]s
    sub.%[2]v z, x, m
    exp.%[2]v z, z`, f.A.Size(), f.A, load(f.T, f.A, "x", "a[off]"))
		},
	}
	softmaxDivide = &source{text: `
program softmax
slot x {{.T}}
slot m {{.A}}
slot s {{.A}}
slot y {{.T}}
  {{load "x" "x[index]"}}
  ldg.{{.A}} m, m[index]
  ldg.{{.A}} s, s[index]
  sub.{{.A}} z, x, m
  exp.{{.A}} z, z
  div.{{.A}} z, z, s
  {{store "z" "y[index]"}}
  exit
`}
)

// softmaxShort is for rows of at most Partials elements, unless they are many and
// very short: a block is a row, and a lane an element, which is then the partial
// that it alone goes to.
var softmaxShort = &source{text: `
program softmax
slot x {{.T}}
slot y {{.T}}
  {{load "x" "x[index]"}}
  block_reduce_max.{{.A}} m, x
  sub.{{.A}} z, x, m
  exp.{{.A}} z, z
  block_reduce_add.{{.A}} s, z
  div.{{.A}} z, z, s
  {{store "z" "y[index]"}}
  exit
`}

// veryShort is a row that is not worth a block where there are many.
const veryShort = 32

func planSoftmax(l []Layout, axes int) (*Plan, error) { return planSoftmaxRows(l, axes, veryShort) }

func planSoftmaxRows(l []Layout, axes int, short int64) (*Plan, error) {
	if err := sameShape("softmax", l, [2]string{"input", "output"}, 1); err != nil {
		return nil, err
	}
	t, shape := l[0].Type, l[0].Shape
	lead := len(shape) - axes
	outer, inner := l[0].part(0, lead), l[0].part(lead, len(shape))
	rows, cols := outer.Elements(), inner.Elements()
	p := &Plan{}
	if rows == 0 || cols == 0 {
		return p, nil
	}
	in, out := operand(0, l[0]), operand(1, l[1])
	if cols <= Partials && (rows < manyRows || cols > short) {
		program, err := softmaxShort.instance(elements(t))
		if err != nil {
			return nil, err
		}
		p.Steps = []Step{{
			Program: program,
			Slots:   []Binding{in.indexed(), out.indexed()},
			Grid:    [3]uint32{uint32(rows), 1, 1},
			Block:   [3]uint32{uint32(cols), 1, 1},
			Shape:   shape,
		}}
		return p, nil
	}
	acc := Accumulator(t)
	if _, ok := rowsOf(in.Layout, lead); !ok || rows < manyRows {
		var err error
		if in, err = p.few(in); err != nil {
			return nil, err
		}
	}
	m, s := p.room(acc, outer.Shape...), p.room(acc, outer.Shape...)
	if err := softmaxMax.reduce(p, acc, []array{in}, lead, nil, m, 0); err != nil {
		return nil, fmt.Errorf("softmax: %w", err)
	}
	if err := softmaxSum.reduce(p, acc, []array{in}, lead, []Binding{m.bytes()}, s, 0); err != nil {
		return nil, fmt.Errorf("softmax: %w", err)
	}
	program, err := softmaxDivide.instance(elements(t))
	if err != nil {
		return nil, err
	}
	for _, a := range []*array{&m, &s} { // the same along a row
		a.Shape = shape
		a.Stride = append(a.Stride, make([]int64, axes)...)
	}
	p.Steps = append(p.Steps, Step{
		Program: program,
		Slots:   []Binding{in.indexed(), m.indexed(), s.indexed(), out.indexed()},
		Shape:   shape,
	})
	return p, nil
}
