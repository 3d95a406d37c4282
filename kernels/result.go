package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// What a call makes where its caller has no array for it: bindings ask for its
// type and its shape, make one, and go on with it as the next operand.

// Makes reports whether operand k and all that come after it can be left out: they are
// written, and not read, but for the last one, which a product reads where it is there.
func (op *Op) Makes(k int) bool {
	last := len(op.Operands) - 1
	return 0 < k && k <= last && !slices.ContainsFunc(op.Operands[k:last], func(o Operand) bool { return o.Reads })
}

// Made is how many of the last operands the operation makes.
func (op *Op) Made() (n int) {
	for k := 1; k < len(op.Operands); k++ {
		if op.Makes(k) {
			n++
		}
	}
	return n
}

// ResultType is the type of the operand after those of these types, which nobody has
// given. types are 0 for numbers, which have no say, and bools says which of them are
// bools; isBool is whether the result is. Sums of integers are kept in 64 bits, as
// numpy has it.
func (op *Op) ResultType(types []isa.Type, bools []bool) (t isa.Type, isBool bool, err error) {
	subject, k := -1, len(types) // the first operand that is no bool, or the first
	for i, o := range op.Operands[:k] {
		if o.Kind == Same && types[i] != 0 && (subject < 0 || bools[subject] && !bools[i]) {
			subject = i
		}
	}
	if subject < 0 {
		return 0, false, fmt.Errorf("%s: no array says what the result is", op.Name)
	}
	t, isBool = types[subject], bools[subject]
	if err := op.check(t); err != nil {
		return 0, false, err
	}
	switch op.Operands[k].Kind {
	case Index:
		return isa.I64, false, nil
	case Sum:
		switch {
		case op.rowwise != nil || k < len(op.Operands)-1:
			return Accumulator(t), false, nil
		case t.Integer() && (t.Signed() || isBool):
			return isa.I64, false, nil
		case t.Integer():
			return isa.U64, false, nil
		}
	case Mask:
		return isa.U8, true, nil
	case Same, Wider:
		if isBool && !op.Bools {
			return 0, false, fmt.Errorf("%s: %s has dtype bool, and %[1]s makes no bools; array.view(numpy.uint8) has them as 0 and 1", op.Name, op.Operands[subject].Name)
		}
	}
	return t, isBool, nil
}

// ResultShape is the shape of the operand after those of the layouts l, which nobody
// has given. Numbers have type 0; dims are the sizes of the call, nil for none, and axes
// is what PlanShapes takes.
func (op *Op) ResultShape(l []Layout, dims []int64, axes int) ([]int64, error) {
	switch {
	case op.Elementwise && dims != nil:
		return op.counted(l, dims)
	case op.Elementwise:
		return op.broadcast(l)
	case dims == nil:
		axes, err := op.checkShapes(l, axes)
		if err != nil {
			return nil, err
		}
		switch {
		case op.rowwise == nil:
			return op.result(l, axes)
		case op.ForElements(len(l)):
			return like(l, axes)
		}
		return rest(l, axes)
	}
	extents, err := op.Extent(l[0].Type, dims)
	if err != nil {
		return nil, err
	}
	for i := range l {
		if has := l[i].Elements(); has < extents[i] {
			return nil, op.Short(i, has, extents[i], dims)
		}
	}
	sized, _, err := op.layouts(l[0].Type, dims)
	if err != nil {
		return nil, err
	}
	return sized[len(l)].Shape, nil
}

// Short is the error of an operand that has fewer elements than sizes need.
func (op *Op) Short(i int, has, need int64, dims []int64) error {
	sizes := make([]string, len(dims))
	for k, d := range dims {
		sizes[k] = fmt.Sprintf("%s = %d", op.Dims[k], d)
	}
	return fmt.Errorf("%s: %s has %d elements; %s need %d", op.Name, op.Operands[i].Name, has, strings.Join(sizes, ", "), need)
}

// counted is the shape of the first n elements.
func (op *Op) counted(l []Layout, dims []int64) ([]int64, error) {
	if len(dims) != 1 {
		return nil, fmt.Errorf("%s takes one size, n, got %d numbers", op.Name, len(dims))
	}
	n := dims[0]
	if n < 0 {
		return nil, fmt.Errorf("%s: n = %d is negative", op.Name, n)
	}
	for i := range l {
		if has := l[i].Elements(); l[i].Type != 0 && n > has {
			return nil, fmt.Errorf("%s: n = %d exceeds the %d elements of %s", op.Name, n, has, op.Operands[i].Name)
		}
	}
	return []int64{n}, nil
}

// broadcast is the shape that all arrays broadcast to, as numpy's do.
func (op *Op) broadcast(l []Layout) ([]int64, error) {
	var shapes [][]int64
	var names []string
	for i := range l {
		if l[i].Type != 0 {
			shapes = append(shapes, l[i].Shape)
			names = append(names, op.Operands[i].Name+" "+shapeText(l[i].Shape))
		}
	}
	shape, ok := joined(shapes...)
	if !ok {
		hint := "; n takes the first elements of each"
		if slices.ContainsFunc(l, func(l Layout) bool { return len(l.Shape) > 1 }) {
			hint = "" // of rows and columns nobody wants the first elements
		}
		return nil, fmt.Errorf("%s: the shapes do not broadcast together: %s%s", op.Name, strings.Join(names, ", "), hint)
	}
	return shape, nil
}

// joined is the shape that shapes broadcast to; ok is false if they don't.
func joined(shapes ...[]int64) (joined []int64, ok bool) {
	for _, shape := range shapes {
		for len(joined) < len(shape) {
			joined = slices.Insert(joined, 0, 1)
		}
	}
	for _, shape := range shapes {
		for i, d := range shape {
			switch at := &joined[len(joined)-len(shape)+i]; {
			case *at == 1:
				*at = d
			case d != 1 && d != *at:
				return nil, false
			}
		}
	}
	return joined, true
}

// like is the result of what makes an element of each of the first operand's.
func like(l []Layout, _ int) ([]int64, error) { return l[0].Shape, nil }

// rest is the result of a reduction: what is left of the first operand's shape.
func rest(l []Layout, axes int) ([]int64, error) { return l[0].Shape[:len(l[0].Shape)-axes], nil }
