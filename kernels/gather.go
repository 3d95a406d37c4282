package kernels

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// What reads or writes elements whose places stand in memory: rows of a table by
// their numbers, and an element of each row by its class. A number that is none is
// a stray access, which the launch reports.

const classParams = `
param n0 u64                ; rows side by side
param s0 u64                ; elements from row to row
param s1 u64                ; and to the next so many
param step u64              ; from class to class
param classes u64
param wstep u64             ; from weight to weight
`

// classText finds where the class of a lane's target is, at, in bytes; w is its weight.
// A class that is none has no place. Where rows lie side by side alone (not Batched) no
// lane divides by their number.
const classText = `
  sreg lane, global_lane
  ldp.u64 s0, s0
  ldp.u64 step, step
  ldp.u64 classes, classes
  ldp.u64 wstep, wstep
  cvt.u64.i64 at, class
  set.ge.u64 none, at, classes
  sel.u64 at, none, 0, at
  mul.u64 which, at, wstep
  mul.u64 which, which, {{size .T}}
  {{load "w" "weight[which]"}}
  mul.u64 at, at, step
  {{if .Batched}}ldp.u64 n0, n0
  ldp.u64 s1, s1
  div.u64 below, lane, n0
  rem.u64 lane, lane, n0
  mad.u64 at, below, s1, at
  {{end}}mad.u64 at, lane, s0, at
  mul.u64 at, at, {{size .T}}
  sel.u64 at, none, 0x7fffffffffffffff, at
`

// checkClasses checks the shapes of targets and weights against those of rows.
func checkClasses(op *Op, l []Layout, rows, target, weight int) error {
	shape := l[rows].Shape
	if len(shape) == 0 {
		return fmt.Errorf("%s: %s has no dimensions; its last one has the classes", op.Name, op.Operands[rows].Name)
	}
	last := len(shape) - 1
	if got := l[target].Shape; !slices.Equal(got, shape[:last]) && (last > 0 || l[target].Elements() != 1) {
		return fmt.Errorf("%s: %s has shape %s; expected %s, a class for each row", op.Name, op.Operands[target].Name, shapeText(got), shapeText(shape[:last]))
	}
	if w := l[weight]; w.Elements() != 1 && !slices.Equal(w.Shape, shape[last:]) {
		return fmt.Errorf("%s: %s has shape %s; expected %s, one for each class, or a number", op.Name, op.Operands[weight].Name, shapeText(w.Shape), shapeText(shape[last:]))
	}
	return nil
}

// classCells are what classText reads: where the rows lie, and the weights.
func classCells(g geometry, weight Layout) []Param {
	step := int64(0)
	if weight.Elements() > 1 {
		step = weight.Stride[0]
	}
	return cells(uint64(g.n0), uint64(g.s0), uint64(g.s1), uint64(g.step), uint64(g.cols), uint64(step))
}

// places says of the last step that its slot number 1 has an operand's numbers.
func (p *Plan) places(name string, l Layout, count int64) {
	p.Steps[len(p.Steps)-1].Places = &Places{Slot: 1, Name: name, Shape: l.Shape, Count: count}
}

// spread is an operand of one number, or of a shape, in the shape.
func (op *Op) spread(i int, l Layout, shape []int64) (array, error) {
	wide, ok := l.broadcast(shape)
	if l.Elements() == 1 {
		wide, ok = Layout{l.Type, shape, make([]int64, len(shape))}, true
	}
	if !ok {
		return array{}, fmt.Errorf("%s: %s has shape %s, which does not broadcast to %s", op.Name, op.Operands[i].Name, shapeText(l.Shape), shapeText(shape))
	}
	return operand(i, wide), nil
}

// zeros appends the step that fills an array with zeros.
func (p *Plan) zeros(a array) error {
	program, err := Fill.Program(a.Type)
	p.Steps = append(p.Steps, Step{Program: program, Slots: []Binding{a.indexed()}, Params: cells(0), Shape: a.Shape})
	return err
}

// step appends a launch of an instance of a program over a shape.
func (p *Plan) step(s *source, f fields, shape []int64, params []Param, slots ...Binding) error {
	program, err := s.instance(f)
	if err != nil {
		return err
	}
	p.Steps = append(p.Steps, Step{Program: program, Shape: shape, Slots: slots, Params: params})
	return nil
}

// gathering makes an operation on matrices or stacks whose operands have the shapes
// that sizes gives for rows × cols.
func gathering(name, doc string, operands []Operand, scalars []Scalar, sizes func(rows, cols int64) [][]int64) *Op {
	op := &Op{Name: name, Doc: doc, Types: isa.SetFloat, Operands: operands, Scalars: scalars, Dims: []string{"rows", "cols"}}
	op.extent = func(d []int64) (n []int64) {
		for _, shape := range sizes(d[0], d[1]) {
			l := Packed(isa.U8, shape...)
			n = append(n, l.Elements())
		}
		return n
	}
	op.result = func([]Layout, int) ([]int64, error) {
		return nil, fmt.Errorf("%s: the operands don't tell how large %s is; give it", name, operands[len(operands)-1].Name)
	}
	op.layouts = func(t isa.Type, d []int64) (l []Layout, axes int, err error) {
		for i, shape := range sizes(d[0], d[1]) {
			of := t
			switch operands[i].Kind {
			case Index:
				of = isa.I64
			case Sum:
				of = Accumulator(t)
			}
			l = append(l, Packed(of, shape...))
		}
		return l, 0, nil
	}
	return op
}
