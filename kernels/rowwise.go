package kernels

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// Rowwise is what an operation does that finds numbers of each row and, of most, makes
// an element of each of the row's by them: softmax and norms, and their gradients.
//
// The parts are text in which each operand that is read is a register of its name,
// each number of the row found so far one of its, and "count" how many elements a
// row has, all of the accumulator's type, for which {{.A}} stands.
type Rowwise struct {
	// Shares are how the operands have elements: one for each of the input's, or for
	// each column or row, to which others broadcast.
	Shares []Share
	Stats  []Stat
	// After makes what all elements of a row need, of its numbers and the scalars.
	After string
	// Each makes the outputs that have elements, which are registers of their names.
	Each string
}

// Stat is a number of a row: what Of leaves in z for each element, combined in the
// order reduce.go states to acc, of which Done makes it, in z. Empty: acc itself.
type Stat struct {
	Name, Combine, Of, Done string
}

// Share says how an operand of a Rowwise has elements.
type Share uint8

const (
	Whole  Share = iota // one for each of the rows' elements
	Column              // one for each place in a row, and broadcast if read
	Row                 // one for each row
)

// mean is a stat's Done where it is the mean of what Of makes.
const mean = "div.{{.A}} z, acc, count"

var words = regexp.MustCompile(`[A-Za-z_]\w*`)

// Uses reports whether a text has a register of a name.
func (*Rowwise) Uses(text, name string) bool {
	return slices.Contains(words.FindAllString(text, -1), name)
}

// Text is a part for an accumulator of type acc.
func (*Rowwise) Text(part string, acc isa.Type) string {
	return strings.ReplaceAll(part, "{{.A}}", acc.String())
}

// Rowwise is what the operation does of rows, nil if it is none such.
func (op *Op) Rowwise() *Rowwise { return op.rowwise }

// MayBe reports whether operand w, which is written, may be the identical array as
// operand i, which is read: each element is then read before it is written. Of rows
// that is so for arrays of the input's elements alone. A number of a row is there
// before what is broadcast to other rows has been read, and what is broadcast may be
// loaded for one output after another has been stored.
func (op *Op) MayBe(w, i int) bool {
	r := op.rowwise
	return r == nil || r.Shares[w] == Whole && r.Shares[i] == Whole
}

// rowwiseOp makes the operation of a Rowwise.
func rowwiseOp(name, doc string, operands []Operand, scalars []Scalar, r *Rowwise) *Op {
	op := &Op{
		Name: name, Doc: doc, Types: isa.SetFloat, Axes: true, Operands: operands, Scalars: scalars,
		Dims: []string{"rows", "cols"}, rowwise: r,
	}
	sizes := func(s Share, d []int64) []int64 { return map[Share][]int64{Whole: d, Column: d[1:], Row: d[:1]}[s] }
	op.extent = func(d []int64) (n []int64) {
		for _, s := range r.Shares {
			l := Packed(isa.U8, sizes(s, d)...)
			n = append(n, l.Elements())
		}
		return n
	}
	op.layouts = func(t isa.Type, d []int64) (l []Layout, axes int, err error) {
		for i, s := range r.Shares {
			l = append(l, Packed(op.TypeOf(i, t), sizes(s, d)...))
		}
		return l, 1, nil
	}
	op.shapes = op.planRowwise
	short, final := &source{}, &source{}
	short.text, final.text = op.shortRow(), op.finalRow()
	op.rowPrograms = [2]*source{short, final}
	return op
}

// Reduction is a reduction by combine as an operation on rows that finds one number of
// each, in the accumulator's type, for plans that find such.
func Reduction(combine string) *Op {
	return rowwiseOp("reduce_"+combine, "", []Operand{{Name: "input", Reads: true}, {Name: "result", Writes: true, Kind: Sum}}, nil,
		&Rowwise{Shares: []Share{Whole, Row}, Stats: []Stat{{Name: "result", Combine: combine, Of: "mov.{{.A}} z, input"}}})
}

// MakesElements reports whether an operation on rows makes elements of them, and not a
// number, or some, of each row.
func (op *Op) MakesElements() bool {
	if op.rowwise == nil {
		return !op.Reduces
	}
	for i, o := range op.Operands {
		if o.Writes && op.rowwise.Shares[i] == Whole {
			return true
		}
	}
	return false
}

// ForElements reports whether operand k, which is written, has an element for each of
// the first one's, and not a number for each row.
func (op *Op) ForElements(k int) bool {
	if op.rowwise == nil {
		return !op.Reduces
	}
	return op.rowwise.Shares[k] == Whole
}

// Broadcasts reports whether something that is read broadcasts to an operation's rows.
func (op *Op) Broadcasts() bool { return slices.Contains(op.rowwise.Shares, Column) }

// Layouts are the shapes that the operands of a call by sizes have, and how many of
// the input's last dimensions are a row.
func (op *Op) Layouts(t isa.Type, dims []int64) ([]Layout, int, error) { return op.layouts(t, dims) }

// TypeOf is the type of operand i of a Rowwise on elements of type t: what is a Sum
// is in the accumulator's.
func (op *Op) TypeOf(i int, t isa.Type) isa.Type {
	if op.Operands[i].Kind == Sum {
		return Accumulator(t)
	}
	return t
}

// rowSlot is the declaration of operand i's slot, and rowLoad what loads it.
func (op *Op) rowSlot(i int) string {
	t := "{{.T}}"
	if op.Operands[i].Kind == Sum {
		t = "{{.A}}"
	}
	return fmt.Sprintf("slot %s %s\n", op.Operands[i].Name, t)
}

func (op *Op) rowLoad(i int, address string) string {
	name := op.Operands[i].Name
	if op.Operands[i].Kind == Sum {
		return fmt.Sprintf("  ldg.{{.A}} %s, %s[%s]\n", name, name, address)
	}
	return fmt.Sprintf("  {{load %q \"%s[%s]\"}}\n", name, name, address)
}

// rowHead are a program's slots and parameters, and the loads of what it reads in its
// index space.
func (op *Op) rowHead(what string, slots ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s%s\n", op.Name, what)
	for i := range op.Operands {
		if what == "" || op.Operands[i].Reads || op.rowwise.Shares[i] == Whole {
			b.WriteString(op.rowSlot(i))
		}
	}
	for _, s := range slots {
		b.WriteString(s)
	}
	b.WriteString("param count {{.A}}\n")
	for _, s := range op.Scalars {
		fmt.Fprintf(&b, "param %s {{.A}}\n", s.Name)
	}
	for i, o := range op.Operands {
		if o.Reads {
			b.WriteString(op.rowLoad(i, "index"))
		}
	}
	b.WriteString("  ldp.{{.A}} count, count\n")
	for _, s := range op.Scalars {
		fmt.Fprintf(&b, "  ldp.{{.A}} %s, %s\n", s.Name, s.Name)
	}
	return b.String()
}

// rowTail makes the elements.
func (op *Op) rowTail() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s\n  %s\n", op.rowwise.After, op.rowwise.Each)
	for i, o := range op.Operands {
		switch {
		case !o.Writes || op.rowwise.Shares[i] != Whole:
		case o.Kind == Sum:
			fmt.Fprintf(&b, "  stg.{{.A}} %s, %s[index]\n", o.Name, o.Name)
		default:
			fmt.Fprintf(&b, "  {{store %q \"%s[index]\"}}\n", o.Name, o.Name)
		}
	}
	return b.String()
}

// shortRow is for rows of at most Partials elements, unless they are many and very
// short: a block is a row, and a lane an element, which is then the partial that
// it alone goes to.
func (op *Op) shortRow() string {
	var b strings.Builder
	b.WriteString(op.rowHead(""))
	for _, s := range op.rowwise.Stats {
		fmt.Fprintf(&b, "  %s\n  block_reduce_%s.{{.A}} acc, z\n  %s\n  mov.{{.A}} %s, z\n", s.Of, s.Combine, s.done(), s.Name)
	}
	b.WriteString(op.rowTail())
	b.WriteString(op.RowResults("{{.A}}", "{{size .A}}"))
	return b.String()
}

func (s *Stat) done() string {
	if s.Done == "" {
		return "mov.{{.A}} z, acc"
	}
	return s.Done
}

// RowResults has lane 0 store the numbers of the block's row that are operands, and
// ends the program.
func (op *Op) RowResults(acc, size string) string {
	var b strings.Builder
	for i, o := range op.Operands {
		if o.Writes && op.rowwise.Shares[i] == Row {
			if b.Len() == 0 {
				fmt.Fprintf(&b, "  sreg q, lane.x\n  set.ne.u32 other, q, 0\n  bra end, other\n  sreg row, block.x\n  cvt.u64.u32 to, row\n  mul.u64 to, to, %s\n", size)
			}
			fmt.Fprintf(&b, "  stg.%s %s, %s[to]\n", acc, o.Name, o.Name)
		}
	}
	if b.Len() > 0 {
		b.WriteString("end:\n")
	}
	return b.String() + "  exit\n"
}

// finalRow makes the elements of rows whose numbers have been found.
func (op *Op) finalRow() string {
	var slots []string
	var loads strings.Builder
	for _, s := range op.rowwise.Stats {
		slots = append(slots, fmt.Sprintf("slot %s {{.A}}\n", s.Name))
		fmt.Fprintf(&loads, "  ldg.{{.A}} %s, %s[index]\n", s.Name, s.Name)
	}
	return op.rowHead("_elements", slots...) + loads.String() + op.rowTail() + "  exit\n"
}

// RowParams are the parameters count and the scalars of a call on rows of so many elements.
func (op *Op) RowParams(t isa.Type, cols int64) []Param {
	params := cells(isa.Convert(Accumulator(t), isa.I64, uint64(cols)))
	for i := range op.Scalars {
		params = append(params, Param{Scalar: true, Value: uint64(i)})
	}
	return params
}

// RowArrays sees the operands of a call in the shape of the input, whose dimensions
// from lead on are a row: strides are 0 where they broadcast. Numbers of rows have
// the shape of the rows alone.
func (op *Op) RowArrays(l []Layout, axes int) ([]Layout, error) {
	r, out := op.rowwise, slices.Clone(l)
	lead := len(l[0].Shape) - axes
	for i := range l {
		name := op.Operands[i].Name
		if want := op.TypeOf(i, l[0].Type); l[i].Type != want {
			return nil, fmt.Errorf("%s: %s has dtype %v; expected %v, in which rows are summed", op.Name, name, l[i].Type, want)
		}
		switch r.Shares[i] {
		case Whole:
			if err := sameShape(op.Name, l, [2]string{op.Operands[0].Name, name}, i); err != nil {
				return nil, err
			}
		case Row:
			want := l[0].Shape[:lead]
			kept := append(slices.Clone(want), slices.Repeat([]int64{1}, axes)...)
			if got := l[i].Shape; !slices.Equal(got, want) && !slices.Equal(got, kept) && (lead > 0 || l[i].Elements() != 1) {
				return nil, fmt.Errorf("%s: %s has shape %s; expected %s, a number for each row", op.Name, name, shapeText(got), shapeText(want))
			}
			out[i] = l[i].part(0, min(lead, len(l[i].Shape)))
		case Column:
			wide, ok := l[i].broadcast(l[0].Shape)
			if !ok {
				return nil, fmt.Errorf("%s: %s has shape %s, which does not broadcast to %s", op.Name, name, shapeText(l[i].Shape), shapeText(l[0].Shape))
			}
			out[i] = wide
		}
	}
	return out, nil
}

// broadcast is l in a shape that it broadcasts to, as numpy has it.
func (l *Layout) broadcast(shape []int64) (Layout, bool) {
	wide := Layout{l.Type, shape, make([]int64, len(shape))}
	more := len(shape) - len(l.Shape)
	if more < 0 {
		return wide, false
	}
	for i, d := range l.Shape {
		switch {
		case d == shape[more+i]:
			wide.Stride[more+i] = l.Stride[i]
		case d != 1:
			return wide, false
		}
	}
	return wide, true
}

// RowCall is a Rowwise's call on arrays that lie packed, for a program whose blocks
// each have a row, or a part of one; or whose rows are the columns of packed matrices,
// for one whose lanes have neighbouring ones.
type RowCall struct {
	Rows, Cols int64
	Matrices   int64 // of which rows are the columns; each has as many
	// Along says which operands lie along a row, and are the same for all.
	Along []bool
	Slots []Binding
	// Steps are, for each operand that is read and broadcast to a row, how many bytes
	// lie between the numbers of two rows.
	Steps []Param
	// Apart says, of operands whose rows don't lie back to back, how many elements there
	// are between them.
	Apart []int64
}

// RowCall is the call's form with packed rows, or nil where an operand does not lie so.
func (op *Op) RowCall(l []Layout, axes int) *RowCall {
	return op.rowCall(l, axes, func(i int, a *Layout, lead int) bool { return a.Packed() })
}

// RowCallApart is RowCall where rows that are read may have others' elements between them.
func (op *Op) RowCallApart(l []Layout, axes int) *RowCall {
	apart := make([]int64, len(l))
	c := op.rowCall(l, axes, func(i int, a *Layout, lead int) bool {
		if a.Packed() {
			return true
		}
		_, cols, pitch, step, ok := a.Rows(lead)
		apart[i] = pitch - cols
		return ok && step == 1 && pitch > cols && !op.Operands[i].Writes
	})
	if c == nil {
		return nil
	}
	c.Apart = apart
	for i, more := range apart {
		c.Slots[i].Shape[0] += max(c.Rows-1, 0) * more
	}
	return c
}

// Alone reports whether all numbers of rows are found of one array that has an element
// for each of the rows'.
func (op *Op) Alone() bool {
	for i, o := range op.Operands {
		if o.Reads && op.rowwise.Shares[i] == Whole && !op.alone(i) {
			return false
		}
	}
	return true
}

// ColumnCall is the form of a call whose rows are columns, all in the same way, or nil.
func (op *Op) ColumnCall(l []Layout, axes int) *RowCall {
	matrices, _, _, ok := l[0].Columns(len(l[0].Shape) - axes)
	if !ok {
		return nil
	}
	c := op.rowCall(l, axes, func(i int, a *Layout, lead int) bool {
		m, _, _, ok := a.Columns(lead)
		return ok && m == matrices
	})
	if c != nil {
		c.Matrices = matrices
	}
	return c
}

// rowCall has the arrays with an element for each of the rows' lie as is asked.
func (op *Op) rowCall(l []Layout, axes int, lies func(i int, a *Layout, lead int) bool) *RowCall {
	lead := len(l[0].Shape) - axes
	arrays, err := op.RowArrays(l, axes)
	if err != nil {
		return nil // the library's plan says it in words
	}
	outer, inner := l[0].part(0, lead), l[0].part(lead, len(l[0].Shape))
	c := &RowCall{Rows: outer.Elements(), Cols: inner.Elements(), Along: make([]bool, len(l)), Slots: make([]Binding, len(l))}
	for i, a := range arrays {
		if op.rowwise.Shares[i] == Column {
			for k, n := range a.Shape {
				if n == 1 {
					a.Stride[k] = 0
				}
			}
			switch {
			case zero(a.Stride):
				c.Steps = append(c.Steps, Param{})
				a = Packed(a.Type, 1)
			case zero(a.Stride[lead:]):
				c.Steps = append(c.Steps, Param{Value: uint64(a.Type.Size())})
				a = a.part(0, lead)
			case zero(a.Stride[:lead]):
				c.Along[i] = true
				a = a.part(lead, len(a.Shape))
			default:
				return nil
			}
		}
		if whole := op.rowwise.Shares[i] == Whole; whole && !lies(i, &a, lead) || !whole && !a.Packed() {
			return nil
		}
		c.Slots[i] = Binding{Operand: i, Type: a.Type, Shape: []int64{a.Elements()}, Stride: []int64{1}}
	}
	return c
}

// Form tells calls apart that take different programs.
func (c *RowCall) Form() string {
	var b strings.Builder
	for _, along := range c.Along {
		b.WriteByte(map[bool]byte{true: 'a', false: 'o'}[along])
	}
	for i, more := range c.Apart {
		if more != 0 {
			fmt.Fprintf(&b, " %d apart", i)
		}
	}
	return b.String()
}
