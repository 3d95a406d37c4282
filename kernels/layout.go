package kernels

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// Layout is how an operand lies in memory: shape and strides in elements.
type Layout struct {
	Type          isa.Type
	Shape, Stride []int64
}

// Packed is the layout of contiguous, row-major memory.
func Packed(t isa.Type, shape ...int64) Layout {
	l := Layout{Type: t, Shape: shape, Stride: make([]int64, len(shape))}
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		l.Stride[i] = n
		n *= shape[i]
	}
	return l
}

// Elements is how many elements l has.
func (l *Layout) Elements() int64 {
	n := int64(1)
	for _, d := range l.Shape {
		n *= d
	}
	return n
}

// Packed reports whether l's elements lie one after the other, row-major.
func (l *Layout) Packed() bool {
	n := int64(1)
	for i := len(l.Shape) - 1; i >= 0; i-- {
		if l.Shape[i] != 1 && l.Stride[i] != n && l.Elements() != 0 {
			return false
		}
		n *= l.Shape[i]
	}
	return true
}

// span is how many elements lie between the first and the last, both counted;
// ok is false if some lie before the first.
func (l *Layout) span() (n int64, ok bool) {
	if l.Elements() == 0 {
		return 0, true
	}
	for i, d := range l.Shape {
		if d > 1 && l.Stride[i] < 0 {
			return 0, false
		}
		n += (d - 1) * l.Stride[i]
	}
	return n + 1, true
}

// transposed is l, a matrix or a stack of them, with its last two dimensions swapped.
func (l Layout) transposed() Layout {
	n := len(l.Shape)
	l.Shape, l.Stride = slices.Clone(l.Shape), slices.Clone(l.Stride)
	l.Shape[n-1], l.Shape[n-2] = l.Shape[n-2], l.Shape[n-1]
	l.Stride[n-1], l.Stride[n-2] = l.Stride[n-2], l.Stride[n-1]
	return l
}

// part is l with the dimensions from … to − 1 alone.
func (l Layout) part(from, to int) Layout {
	return Layout{l.Type, l.Shape[from:to], l.Stride[from:to]}
}

// array is an operand or a piece of workspace, as a plan sees it.
type array struct {
	Layout
	operand int
	offset  int64
}

func operand(i int, l Layout) array { return array{l, i, 0} }

// indexed binds a slot that is accessed by [index], in an index space of the
// array's shape.
func (a *array) indexed() Binding {
	return Binding{Operand: a.operand, Offset: a.offset, Type: a.Type, Shape: a.Shape, Stride: a.Stride}
}

// bytes binds a slot that is accessed by bytes, from the first element on as far
// as there are elements.
func (a *array) bytes() Binding {
	n, _ := a.span()
	return Binding{Operand: a.operand, Offset: a.offset, Type: a.Type, Shape: []int64{n}, Stride: []int64{1}}
}

// room reserves workspace for an array.
func (p *Plan) room(t isa.Type, shape ...int64) array {
	a := array{Packed(t, shape...), Workspace, 0}
	a.offset = p.scratch(t, a.Elements()).Offset
	return a
}

// copy appends the step that copies from to to, of the same shape and type.
func (p *Plan) copy(from, to array) error {
	program, err := Copy.Program(from.Type)
	if err != nil {
		return err
	}
	p.Steps = append(p.Steps, Step{Program: program, Slots: []Binding{from.indexed(), to.indexed()}, Shape: from.Shape})
	return nil
}

// pack returns an array with the elements of a that lies packed, a itself if it does.
func (p *Plan) pack(a array) (array, error) {
	if a.Packed() {
		a.Stride = Packed(a.Type, a.Shape...).Stride // of dimensions that play no part too
		return a, nil
	}
	to := p.room(a.Type, a.Shape...)
	return to, p.copy(a, to)
}

// forward returns an array with the elements of a for a program that addresses them by
// bytes from the first on: packed, if some lie before that.
func (p *Plan) forward(a array) (array, error) {
	if _, ok := a.span(); ok {
		return a, nil
	}
	return p.pack(a)
}

// merged joins neighbouring dimensions that all strides walk through as if they
// were one, and drops those of size 1. Strides has those of each array.
func merged(shape []int64, strides ...[]int64) ([]int64, [][]int64) {
	var out []int64
	walks := make([][]int64, len(strides))
	for i, d := range shape {
		if d == 1 {
			continue
		}
		last := len(out) - 1
		join := last >= 0
		for k, s := range strides {
			join = join && walks[k][last] == s[i]*d
		}
		if join {
			out[last] *= d
		} else {
			out = append(out, d)
		}
		for k, s := range strides {
			if join {
				walks[k][last] = s[i]
			} else {
				walks[k] = append(walks[k], s[i])
			}
		}
	}
	return out, walks
}

// shapeText writes a shape as Python would.
func shapeText(shape []int64) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	text := ""
	for i, d := range shape {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(d)
	}
	return "(" + text + ")"
}
