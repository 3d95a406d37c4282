// Package kernels is the library of operations: each file holds one, as an
// Atlas program with its formula, types, errors and order of evaluation.
//
// An Op says what an operation is called and takes; Plan turns a call's sizes
// into steps, each the launch of one program. Programs are text with a type to
// fill in. The package knows no device: core runs the steps.
package kernels

import (
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/hologram-project/hologram/isa"
)

// Op is an operation of the library.
type Op struct {
	Name string
	Doc  string
	// Types are the element types it exists for. All operands have the same.
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
	// scalars, in order. Others take contiguous operands.
	Elementwise bool
	// Scalar results (a reduction's, a loss's) stand in element 0 of the last
	// operand, and bindings may return them.
	ScalarResult bool

	number  int
	program func(t isa.Type) (*isa.Verified, error) // of an elementwise operation
	plan    func(t isa.Type, dims []int64) (*Plan, error)
	extent  func(dims []int64) []int64 // the elements each operand needs
}

// Operand is an array argument.
type Operand struct {
	Name          string
	Reads, Writes bool
}

// Scalar is a number argument. Wide means that it has the accumulator's type
// (f32 for f16 and bf16) rather than the elements'. Default, if it is not nil, is
// what bindings pass where their caller gives none.
type Scalar struct {
	Name    string
	Wide    bool
	Default *float64
}

// Type returns the type of the scalar's cell in a call on elements of type t.
func (s Scalar) Type(t isa.Type) isa.Type {
	if s.Wide {
		return Accumulator(t)
	}
	return t
}

// Plan is what a call comes down to: steps run in order, and scratch memory.
type Plan struct {
	Steps     []Step
	Workspace int64 // bytes of scratch memory that the steps share
}

// Step is the launch of one program.
type Step struct {
	Program *isa.Verified
	Slots   []Binding // one for each slot of the program
	Params  []Param
	Grid    [3]uint32
	Block   [3]uint32
	Shape   []int64 // index space
	// InPlace: an operand that is written may be the identical array as one that is
	// read, though by bytes: no block reads what another writes, nor what its own
	// lanes have written.
	InPlace bool
}

// Param is what a step's parameter gets: a cell that the sizes settle, or the
// call's scalar of number Value. A plan doesn't depend on scalars, so one serves
// all calls of the same sizes.
type Param struct {
	Scalar bool
	Value  uint64
}

// cells are parameters that the sizes settle.
func cells(values ...uint64) []Param {
	list := make([]Param, len(values))
	for i, v := range values {
		list[i].Value = v
	}
	return list
}

// Binding says what a step's slot sees: operand number Operand, or the
// workspace from byte Offset on if Operand is Workspace. A nil Shape is the
// whole operand, flat.
type Binding struct {
	Operand int
	Offset  int64 // bytes, of a workspace binding
	Type    isa.Type
	Shape   []int64
	Stride  []int64 // in elements
}

// Workspace is the Operand of a binding to scratch memory.
const Workspace = -1

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

// Plan returns the steps of a call on elements of type t. dims has the sizes
// that Dims names.
func (op *Op) Plan(t isa.Type, dims []int64) (*Plan, error) {
	if op.Elementwise {
		return nil, fmt.Errorf("%s is an elementwise operation: use Program", op.Name)
	}
	if err := op.checkDims(t, dims); err != nil {
		return nil, err
	}
	return op.plan(t, dims)
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
// and Done are for reductions and products, Split for the latter.
type fields struct {
	T, A, Out                           isa.Type
	Split                               bool
	Lanes                               int64
	Extra, Map, Combine, Identity, Done string
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
// Its slots are the operands, of which the last is the output; its parameters
// are the scalars.
func elementwise(name string, types isa.TypeSet, doc, text string) *Op {
	s := &source{text: "program " + name + text}
	op := &Op{Name: name, Doc: doc, Types: types, Elementwise: true}
	op.program = func(t isa.Type) (*isa.Verified, error) { return s.instance(elements(t)) }
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) == 3 && f[0] == "slot":
			op.Operands = append(op.Operands, Operand{Name: f[1], Reads: true})
		case len(f) == 3 && f[0] == "param":
			op.Scalars = append(op.Scalars, Scalar{Name: f[1], Wide: f[2] == "{{.A}}"})
		}
	}
	op.Operands[len(op.Operands)-1] = Operand{Name: op.Operands[len(op.Operands)-1].Name, Writes: true}
	return op
}
