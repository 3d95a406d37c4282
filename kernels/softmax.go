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
	Types:    isa.SetFloat,
	Operands: []Operand{{Name: "input", Reads: true}, {Name: "output", Writes: true}},
	Dims:     []string{"rows", "cols"},
	extent:   func(d []int64) []int64 { return []int64{d[0] * d[1], d[0] * d[1]} },
	plan:     planSoftmax,
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

// softmaxShort is for rows of at most Partials elements: a block is a row, and a
// lane an element, which is then the partial that it alone goes to.
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

func planSoftmax(t isa.Type, d []int64) (*Plan, error) {
	rows, cols := d[0], d[1]
	p := &Plan{}
	if rows == 0 || cols == 0 {
		return p, nil
	}
	if cols <= Partials && rows <= maxDim/cols {
		program, err := softmaxShort.instance(elements(t))
		if err != nil {
			return nil, err
		}
		p.Steps = []Step{{
			Program: program,
			Slots:   []Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}},
			Grid:    [3]uint32{uint32(rows), 1, 1},
			Block:   [3]uint32{uint32(cols), 1, 1},
			Shape:   []int64{rows * cols},
		}}
		return p, nil
	}
	acc := Accumulator(t)
	in := Binding{Operand: 0, Type: t}
	m, s := p.scratch(acc, rows), p.scratch(acc, rows)
	if err := softmaxMax.levels(p, t, acc, rows, cols, []Binding{in}, m, 0); err != nil {
		return nil, err
	}
	if err := softmaxSum.levels(p, t, acc, rows, cols, []Binding{in, m}, s, 0); err != nil {
		return nil, err
	}
	program, err := softmaxDivide.instance(elements(t))
	if err != nil {
		return nil, err
	}
	shape, packed, byRow := []int64{rows, cols}, []int64{cols, 1}, []int64{1, 0}
	p.Steps = append(p.Steps, Step{
		Program: program,
		Slots: []Binding{
			{Operand: 0, Type: t, Shape: shape, Stride: packed},
			{Operand: Workspace, Offset: m.Offset, Type: acc, Shape: shape, Stride: byRow},
			{Operand: Workspace, Offset: s.Offset, Type: acc, Shape: shape, Stride: byRow},
			{Operand: 1, Type: t, Shape: shape, Stride: packed},
		},
		Shape: shape,
	})
	return p, nil
}
