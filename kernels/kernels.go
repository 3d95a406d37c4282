// Package kernels is the library of operations: each file holds one, as an
// Atlas program with its formula, types, errors and order of evaluation.
//
// An Op says what an operation is called and takes; Plan turns a call's sizes
// into steps, each the launch of one program. Programs are text with a type to
// fill in. The package knows no device: core runs the steps.
package kernels

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/hologram-project/hologram/isa"
)

// Op is an operation of the library.
type Op struct {
	Name string
	Doc  string
	// Types are the element types it exists for: of the operands whose Kind is Same.
	Types isa.TypeSet
	// Operands are the arrays of a call, inputs and outputs in order.
	Operands []Operand
	// Scalars are the numbers of a call. They are given as cells.
	Scalars []Scalar
	// Dims name the sizes that Plan takes. An elementwise operation has none:
	// its index space is the broadcast shape of its operands.
	Dims []string
	// Elementwise operations accept strided and broadcast operands and consist
	// of one step, whose slots are the operands and whose parameters are the
	// scalars, in order. Others have a plan for operands as they lie: PlanShapes.
	Elementwise bool
	// Reduces: a call without axes makes one number. Bindings that are given no
	// array for it return it as a number of their language.
	Reduces bool
	// ScalarResult: what it makes stands in element 0 of the last operand, and
	// bindings return it even if that was given, by position and without axes.
	ScalarResult bool
	Bools        bool   // made of bools alone the result is bools, of 0 and 1
	Divisor      string // the operand that integers are divided by, which errors name; "": none

	// Axes: a row may lie along any dimensions of the first operand. Plans have them
	// last, and take how many they are.
	Axes bool

	// exact reductions are of types and ways to combine that give the same bits in
	// any order: a row's dimensions may be taken in the order that memory has.
	exact func(t isa.Type) bool

	number  int
	program func(t isa.Type) (*isa.Verified, error) // of an elementwise operation
	extent  func(dims []int64) []int64              // the elements each operand needs
	// layouts gives the operands of flat sizes their shapes, and the axes that
	// shapes takes; shapes plans a call on operands with shapes.
	layouts func(t isa.Type, dims []int64) ([]Layout, int, error)
	shapes  func(l []Layout, axes int) (*Plan, error)
	// product, of products, is shapes with k in parts of so many where the result has fewer
	// than few elements.
	product     func(l []Layout, few, part int64) (*Plan, error)
	rowwise     *Rowwise
	rowPrograms [2]*source                                  // of a Rowwise: of short rows, and of elements
	result      func(l []Layout, axes int) ([]int64, error) // the last operand's shape, of the others'
}

// Operand is an array argument.
type Operand struct {
	Name          string
	Reads, Writes bool
	Kind          Kind
}

// Kind says which types an operand may have. The operation is on elements of the
// type of the first operand that is Same.
type Kind uint8

const (
	Same  Kind = iota // that of the elements
	Sum               // or a wider one, in which sums are then kept; integers wrap
	Index             // i64
	Mask              // u8, of which bools are made: 0 is false, all else true
	Wider             // or, of integers, a wider one, in which products are then summed; they wrap
)

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"same", "sum", "index", "mask", "wider"}[k] }

// Takes reports whether an operand may have type got where the first has t.
func (k Kind) Takes(t, got isa.Type) bool {
	switch k {
	case Index:
		return got == isa.I64
	case Mask:
		return got == isa.U8
	case Wider:
		return got == t || t.Integer() && got.Integer() && got.Size() > t.Size()
	case Sum:
		return got == t || t.Float() == got.Float() && (got.Size() > t.Size() || t.Integer() && got.Size() == t.Size())
	}
	return got == t
}

// Subject is the number of the operand whose type is that of the elements.
func (op *Op) Subject() int {
	return slices.IndexFunc(op.Operands, func(o Operand) bool { return o.Kind == Same })
}

// CheckTypes checks the types of the operands.
func (op *Op) CheckTypes(types []isa.Type) error {
	subject := op.Subject()
	t, first := types[subject], op.Operands[subject].Name
	if err := op.check(t); err != nil {
		return err
	}
	for i, o := range op.Operands {
		switch {
		case o.Kind.Takes(t, types[i]):
		case o.Kind == Index:
			return fmt.Errorf("%s: %s has dtype %v; expected i64", op.Name, o.Name, types[i])
		case o.Kind == Mask:
			return fmt.Errorf("%s: %s has dtype %v; expected bool, or u8", op.Name, o.Name, types[i])
		case o.Kind == Sum:
			return fmt.Errorf("%s: %s has dtype %v, and %s has %v: a sum's type is the same or a wider one", op.Name, o.Name, types[i], first, t)
		case o.Kind == Wider && t.Integer():
			return fmt.Errorf("%s: %s has dtype %v, and %s has %v: of integers a product's type is the same or a wider one", op.Name, o.Name, types[i], first, t)
		default:
			return fmt.Errorf("%s: %s has dtype %v, and %s has %v: all operands must have the same", op.Name, o.Name, types[i], first, t)
		}
	}
	return nil
}

// Scalar is a number argument. Wide means that it has the accumulator's type
// (f32 for f16 and bf16) rather than the elements', Index that it is i64. Default, if it is not nil, is
// what bindings pass where their caller gives none. Of names the output whose
// former elements it scales: where that is left out so must be the number.
type Scalar struct {
	Name    string
	Wide    bool
	Index   bool
	Default *float64
	Of      string
}

// Type returns the type of the scalar's cell in a call on elements of type t.
func (s Scalar) Type(t isa.Type) isa.Type {
	switch {
	case s.Index:
		return isa.I64
	case s.Wide:
		return Accumulator(t)
	}
	return t
}

// ScalarType returns the type of a scalar's cell in a call on operands of these types, which
// CheckTypes takes: of a product it is one of the result.
func (op *Op) ScalarType(s Scalar, types []isa.Type) isa.Type {
	for i, o := range op.Operands {
		if o.Kind == Wider {
			return s.Type(types[i])
		}
	}
	return s.Type(types[op.Subject()])
}

// Accumulator is the type in which sums over elements of type t are kept: f32
// for the 16-bit floats, t itself for all others.
func Accumulator(t isa.Type) isa.Type {
	if t == isa.F16 || t == isa.BF16 {
		return isa.F32
	}
	return t
}

// Program returns the program of an elementwise operation for elements of type t.
func (op *Op) Program(t isa.Type) (*isa.Verified, error) {
	if !op.Elementwise {
		return nil, fmt.Errorf("%s is not an elementwise operation: use Plan", op.Name)
	}
	if err := op.check(t); err != nil {
		return nil, err
	}
	return op.program(t)
}

// Whole returns the steps of a call on operands with shapes for a device that
// needs no more lanes than the result has elements: no product is done in parts
// that are added up, but where k is beyond all bounds. Nil: PlanShapes' serve as
// well, and check the operands.
func (op *Op) Whole(l []Layout) (*Plan, error) {
	if op.product == nil {
		return nil, nil
	}
	if _, err := op.checkShapes(l, -1); err != nil {
		return nil, err
	}
	return op.product(l, 0, ProductChunk)
}

// Plan returns the steps of a call on elements of type t. dims has the sizes
// that Dims names.
func (op *Op) Plan(t isa.Type, dims []int64) (*Plan, error) {
	if op.Elementwise {
		return nil, fmt.Errorf("%s is an elementwise operation: use Program", op.Name)
	}
	if err := op.checkDims(t, dims); err != nil {
		return nil, err
	}
	l, axes, err := op.layouts(t, dims)
	if err != nil {
		return nil, err
	}
	return op.shapes(l, axes)
}

// PlanShapes returns the steps of a call on operands with shapes and strides, of
// types that CheckTypes takes. axes is a number that operations with Axes take;
// negative: all dimensions of the first operand.
func (op *Op) PlanShapes(l []Layout, axes int) (*Plan, error) {
	if op.Elementwise {
		return nil, fmt.Errorf("%s is an elementwise operation: use Program", op.Name)
	}
	axes, err := op.checkShapes(l, axes)
	if err != nil {
		return nil, err
	}
	return op.shapes(l, axes)
}

// checkShapes bounds shapes, and returns the number of axes.
func (op *Op) checkShapes(l []Layout, axes int) (int, error) {
	for i := range l {
		n := int64(1)
		for _, d := range l[i].Shape {
			if d > maxDim || n*d > maxElements {
				return 0, fmt.Errorf("%s: %s has shape %s; at most 2^31 in each dimension, and 2^40 elements", op.Name, op.Operands[i].Name, shapeText(l[i].Shape))
			}
			n *= d
		}
	}
	rank := len(l[0].Shape)
	if op.Axes && axes > rank {
		return 0, fmt.Errorf("%s: %d dimensions of %s, which has %d", op.Name, axes, op.Operands[0].Name, rank)
	} else if axes < 0 {
		return rank, nil
	}
	return axes, nil
}

// Sizes are the sizes that Plan takes for a call on operands with shapes, nil if
// it has to be planned by PlanShapes.
func (op *Op) Sizes(l []Layout, axes int) []int64 {
	for i := range l {
		if l[i].Type != l[0].Type || !l[i].Packed() {
			return nil
		}
	}
	first := l[0].Shape
	switch {
	case op.rowwise != nil && len(op.Operands) > 2:
		return nil // sizes don't say what broadcasts
	case op.Axes:
		if axes < 0 {
			axes = len(first)
		}
		rows, row := l[0].part(0, len(first)-axes), l[0].part(len(first)-axes, len(first))
		if max(rows.Elements(), row.Elements()) > maxDim {
			return nil // several dimensions may have more elements than one
		}
		return []int64{rows.Elements(), row.Elements()}
	case len(op.Dims) == 1:
		if l[0].Elements() > maxDim {
			return nil
		}
		return []int64{l[0].Elements()}
	case len(first) != 2 || len(l[2].Shape) != len(l[1].Shape):
		return nil // a stack
	case len(op.Dims) == 3 && len(l[1].Shape) == 1:
		return []int64{first[0], first[1], 0}
	case len(op.Dims) == 5 && len(l[1].Shape) == 2:
		return []int64{first[0], l[1].Shape[1], first[1], 0, 0}
	}
	return nil
}

// Sized gives the operands of a call of these sizes their shapes, of which l are
// the layouts. What lies packed is taken in a row, whatever its shape, but a matrix
// where the sizes say one: that, and what does not lie packed, must have the shape that
// they say; a matrix that is used transposed has it as it is stored.
func (op *Op) Sized(l []Layout, dims []int64) ([]Layout, int, error) {
	sized, axes, err := op.layouts(l[0].Type, dims)
	if err != nil {
		return nil, 0, err
	}
	if row, err := op.oneRow(l, sized, dims); row != nil || err != nil {
		return row, -1, err
	}
	for i, o := range op.Operands {
		got := l[i]
		sized[i].Type = got.Type
		if got.Packed() && (op.OneRow(dims) || len(sized[i].Shape) != 2 || len(got.Shape) != 2) {
			continue
		}
		want, flip := slices.Clone(sized[i].Shape), false
		if at := slices.Index(op.Dims, "trans_"+o.Name); at >= 0 && dims[at] == 1 {
			slices.Reverse(want)
			flip = true
		}
		if !slices.Equal(got.Shape, want) {
			return nil, 0, fmt.Errorf("%s: %s has shape %s; these sizes demand %s", op.Name, o.Name, shapeText(got.Shape), shapeText(want))
		}
		if sized[i] = got; flip {
			sized[i] = got.transposed()
		}
	}
	return sized, axes, nil
}

// OneRow reports whether a call of these sizes works on one row of elements.
func (op *Op) OneRow(dims []int64) bool { return len(op.Dims) == 1 || op.Axes && dims[0] == 1 }

// oneRow gives a call on one row of all elements, of operands some of which do
// not lie packed, the shape of these; nil if it is none.
func (op *Op) oneRow(l, sized []Layout, dims []int64) ([]Layout, error) {
	n := dims[len(dims)-1]
	if !op.OneRow(dims) {
		return nil, nil
	}
	first := slices.IndexFunc(l, func(x Layout) bool { return !x.Packed() })
	if first < 0 {
		return nil, nil
	}
	if has := l[first].Elements(); has != n {
		if sized[first].Elements() != n {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: %s has shape %s and is strided: the first %d elements are taken of arrays that are contiguous or have one dimension; make a copy, or take all %d",
			op.Name, op.Operands[first].Name, shapeText(l[first].Shape), n, has)
	}
	shape := l[first].Shape
	out := slices.Clone(sized)
	for i := range l {
		out[i].Type = l[i].Type
		switch {
		case sized[i].Elements() != n: // a result
		case l[i].Packed():
			out[i] = Packed(l[i].Type, shape...)
		case !slices.Equal(l[i].Shape, shape):
			return nil, fmt.Errorf("%s: %s has shape %s, and %s has %s; expected the same of strided arrays",
				op.Name, op.Operands[first].Name, shapeText(shape), op.Operands[i].Name, shapeText(l[i].Shape))
		default:
			out[i] = l[i]
		}
	}
	return out, nil
}

// sameShape demands that operand i has the shape of operand 0.
func sameShape(op string, l []Layout, names [2]string, i int) error {
	if !slices.Equal(l[0].Shape, l[i].Shape) {
		return fmt.Errorf("%s: %s has shape %s, and %s has %s; expected the same", op, names[0], shapeText(l[0].Shape), names[1], shapeText(l[i].Shape))
	}
	return nil
}

// Extent returns how many elements each operand of a call needs.
func (op *Op) Extent(t isa.Type, dims []int64) ([]int64, error) {
	if err := op.checkDims(t, dims); err != nil {
		return nil, err
	}
	return op.extent(dims), nil
}

// maxElements bounds every product of sizes, so that byte counts fit int64.
const maxElements = 1 << 40

func (op *Op) check(t isa.Type) error {
	if !op.Types.Has(t) {
		return fmt.Errorf("%s: dtype %v is not supported; supported: %v", op.Name, t, op.Types)
	}
	return nil
}

func (op *Op) checkDims(t isa.Type, dims []int64) error {
	if err := op.check(t); err != nil {
		return err
	}
	if len(dims) != len(op.Dims) {
		return fmt.Errorf("%s takes the sizes %s, got %d numbers", op.Name, strings.Join(op.Dims, ", "), len(dims))
	}
	for i, d := range dims {
		if d < 0 || d > maxDim {
			return fmt.Errorf("%s: %s = %d; expected 0 … %d", op.Name, op.Dims[i], d, int64(maxDim))
		}
	}
	if op.extent == nil {
		return nil
	}
	for i, n := range op.extent(dims) {
		if n > maxElements {
			return fmt.Errorf("%s: operand %s has %d elements; at most %d", op.Name, op.Operands[i].Name, n, int64(maxElements))
		}
	}
	return nil
}

// maxDim keeps products of two sizes within int64.
const maxDim = 1 << 31

// Lookup returns the operation with the given name.
func Lookup(name string) (*Op, bool) {
	for _, op := range All {
		if op.Name == name {
			return op, true
		}
	}
	return nil, false
}

// source is the text of a program with types to fill in.
//
//	{{.T}}                    the type of the elements it reads
//	{{.A}}                    that of the accumulator
//	{{.Out}}                  that of the elements it writes: T or A
//	{{size .T}}               bytes of an element
//	{{load "x" "a[index]"}}   load a T and widen it to A
//	{{store "x" "c[index]"}}  round x from A to Out and store it
type source struct {
	text string
	mu   sync.Mutex
	made map[fields]*isa.Verified
}

// fields are what a source may refer to. Lanes, Extra, Map, Combine, Identity
// and Done are for reductions and products, Stride for rows side by side, Split and
// Batched for products; Sizes are those of a reduction's arrays, of Walk dimensions.
type fields struct {
	T, A, Out                                  isa.Type
	Split, Batched                             bool
	Lanes, Stride, Walk                        int64
	Extra, Map, Combine, Identity, Done, Sizes string
}

// elements are the fields of a program that reads and writes elements of type t.
func elements(t isa.Type) fields { return fields{T: t, A: Accumulator(t), Out: t} }

// instance returns the verified program with f filled in.
func (s *source) instance(f fields) (*isa.Verified, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.made[f]; ok {
		return v, nil
	}
	text, err := s.expand(f)
	if err != nil {
		return nil, err
	}
	p, err := isa.Assemble("kernels", text)
	if err != nil {
		return nil, err
	}
	v, err := isa.Verify(p)
	if err != nil {
		return nil, err
	}
	if s.made == nil {
		s.made = map[fields]*isa.Verified{}
	}
	s.made[f] = v
	return v, nil
}

func (s *source) expand(f fields) (string, error) {
	tmpl, err := template.New("").Funcs(template.FuncMap{
		"size":   isa.Type.Size,
		"stride": func(t isa.Type) int { return Partials * t.Size() },
		"load":   func(reg, addr string) string { return load(f.T, f.A, reg, addr) },
		"store":  func(reg, addr string) string { return store(f.Out, f.A, reg, addr) },
		"offset": f.offset,
	}).Parse(s.text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, f); err != nil {
		return "", err
	}
	return b.String(), nil
}

// load is the text that loads an element of type t and widens it to type acc.
func load(t, acc isa.Type, reg, addr string) string {
	if t == acc {
		return fmt.Sprintf("ldg.%v %s, %s", t, reg, addr)
	}
	return fmt.Sprintf("ldg.%v %s_, %s\n  cvt.%v.%v %s, %s_", t, reg, addr, acc, t, reg, reg)
}

// store is the text that rounds reg from type acc to type t and stores it.
func store(t, acc isa.Type, reg, addr string) string {
	if t == acc {
		return fmt.Sprintf("stg.%v %s, %s", t, reg, addr)
	}
	return fmt.Sprintf("cvt.%v.%v %s_, %s\n  stg.%v %s_, %s", t, acc, reg, reg, t, reg, addr)
}

// elementwise makes an operation out of a program that uses slot[index] alone.
// Its slots are the operands, of which the last is the output, and slots of type
// u8 are masks; its parameters are the scalars.
func elementwise(name string, types isa.TypeSet, doc, text string) *Op {
	s := &source{text: "program " + name + text}
	op := &Op{Name: name, Doc: doc, Types: types, Elementwise: true}
	op.program = func(t isa.Type) (*isa.Verified, error) { return s.instance(elements(t)) }
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) == 3 && f[0] == "slot":
			kind := Same
			if f[2] == "u8" {
				kind = Mask
			}
			op.Operands = append(op.Operands, Operand{Name: f[1], Reads: true, Kind: kind})
		case len(f) == 3 && f[0] == "param":
			op.Scalars = append(op.Scalars, Scalar{Name: f[1], Wide: f[2] == "{{.A}}"})
		}
	}
	last := &op.Operands[len(op.Operands)-1]
	last.Reads, last.Writes = false, true
	return op
}

// ofBools has an operation make bools of bools.
func ofBools(op *Op) *Op {
	op.Bools = true
	return op
}
