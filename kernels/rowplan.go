package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// Plans of the operations on rows: short rows in a launch, long ones a number of all
// rows at a time.

func (op *Op) planRowwise(l []Layout, axes int) (*Plan, error) {
	return op.planRows(l, axes, veryShort)
}

// PlanBlocks is PlanShapes of a softmax or a Rowwise for a device on which blocks of more
// than short lanes are worth it where rows are many. The bits are the same.
func (op *Op) PlanBlocks(l []Layout, axes int, short int64) (*Plan, error) {
	if op == Softmax {
		return planSoftmaxRows(l, axes, short)
	}
	return op.planRows(l, axes, short)
}

func (op *Op) planRows(l []Layout, axes int, short int64) (*Plan, error) {
	l, err := op.RowArrays(l, axes)
	if err != nil {
		return nil, err
	}
	r, shape := op.rowwise, l[0].Shape
	lead := len(shape) - axes
	outer, inner := l[0].part(0, lead), l[0].part(lead, len(shape))
	rows, cols := outer.Elements(), inner.Elements()
	p := &Plan{}
	arrays := make([]array, len(l))
	var results []int // numbers of rows that are written, by way of the workspace where they do not lie packed
	for i := range l {
		arrays[i] = operand(i, l[i])
		if r.Shares[i] == Row && op.Operands[i].Writes {
			results = append(results, i)
			if !l[i].Packed() {
				arrays[i] = p.room(l[i].Type, l[i].Shape...)
			}
		}
	}
	if rows == 0 || cols == 0 && len(results) == 0 { // a row of no elements still has its numbers
		return p, nil
	}
	if 0 < cols && cols <= Partials && (rows < manyRows || cols > short) {
		err = op.shortRows(p, arrays, rows, cols)
	} else {
		err = op.rowLevels(p, arrays, lead, rows, cols)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	for _, i := range results {
		if arrays[i].operand == Workspace {
			if err := p.copy(arrays[i], operand(i, l[i])); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// alongRows sees numbers of rows in the input's shape.
func alongRows(a array, shape []int64) array {
	a.Stride = append(slices.Clone(a.Stride), make([]int64, len(shape)-len(a.Shape))...)
	a.Shape = shape
	return a
}

func (op *Op) shortRows(p *Plan, arrays []array, rows, cols int64) error {
	t, shape := arrays[0].Type, arrays[0].Shape
	program, err := op.rowPrograms[0].instance(elements(t))
	if err != nil {
		return err
	}
	s := Step{Program: program, Params: op.RowParams(t, cols), Shape: shape,
		Grid: [3]uint32{uint32(rows), 1, 1}, Block: [3]uint32{uint32(cols), 1, 1}}
	for i, a := range arrays {
		switch {
		case op.rowwise.Shares[i] == Row && op.Operands[i].Writes:
			s.Slots = append(s.Slots, a.bytes())
		case op.rowwise.Shares[i] == Row:
			a = alongRows(a, shape)
			fallthrough
		default:
			s.Slots = append(s.Slots, a.indexed())
		}
	}
	p.Steps = append(p.Steps, s)
	return nil
}

// rowLevels finds a number of all rows at a time, and then the elements.
func (op *Op) rowLevels(p *Plan, arrays []array, lead int, rows, cols int64) error {
	r, t, shape := op.rowwise, arrays[0].Type, arrays[0].Shape
	acc := Accumulator(t)
	for i := range arrays { // as the reductions take them, brought in a row once
		if r.Shares[i] != Whole || !op.Operands[i].Reads {
			continue
		}
		if _, ok := rowsOf(arrays[i].Layout, lead); ok && rows >= manyRows && op.alone(i) {
			continue
		}
		var err error
		if arrays[i], err = p.few(arrays[i]); err != nil {
			return err
		}
	}
	count := isa.Convert(acc, isa.I64, uint64(cols))
	stats := make([]array, len(r.Stats))
	for k := range r.Stats {
		s := &r.Stats[k]
		stats[k] = p.room(acc, shape[:lead]...)
		for i, o := range op.Operands {
			if o.Name == s.Name {
				stats[k] = arrays[i]
			}
		}
		if err := op.rowStat(p, s, arrays, stats[:k], lead, stats[k], count); err != nil {
			return err
		}
	}
	if !op.MakesElements() || cols == 0 {
		return nil
	}
	program, err := op.rowPrograms[1].instance(elements(t))
	if err != nil {
		return err
	}
	final := Step{Program: program, Params: op.RowParams(t, cols), Shape: shape}
	for i, a := range arrays {
		if r.Shares[i] == Row && op.Operands[i].Writes {
			continue
		}
		if r.Shares[i] == Row {
			a = alongRows(a, shape)
		}
		final.Slots = append(final.Slots, a.indexed())
	}
	for _, a := range stats {
		a = alongRows(a, shape)
		final.Slots = append(final.Slots, a.indexed())
	}
	p.Steps = append(p.Steps, final)
	return nil
}

// alone reports whether operand i is the only one that the numbers of rows are
// found of together with what is the same for a whole row.
func (op *Op) alone(i int) bool {
	for _, s := range op.rowwise.Stats {
		for k, o := range op.Operands {
			if k != i && o.Reads && op.rowwise.Shares[k] == Whole && op.rowwise.Uses(s.Of, o.Name) {
				return false
			}
		}
	}
	return true
}

// rowStat appends the steps that find a number of each row.
func (op *Op) rowStat(p *Plan, s *Stat, arrays, before []array, lead int, out array, count uint64) error {
	r := op.rowwise
	var in []array
	var extras []Binding
	var more, slots, loads []string // slots of all but the first, which reductions know, and of extras
	first := -1
	for i, o := range op.Operands {
		if !o.Reads || !r.Uses(s.Of, o.Name) {
			continue
		}
		a := arrays[i]
		switch r.Shares[i] {
		case Column:
			// Of one row, or else of one column.
			of, text := a, ""
			switch {
			case zero(a.Stride[:lead]):
				of.Layout, text = a.part(lead, len(a.Shape)), "at"
			case zero(a.Stride[lead:]):
				of.Layout, text = a.part(0, lead), "row"
			}
			var err error
			if text != "" {
				if of, err = p.few(of); err != nil {
					return err
				}
			}
			if text != "" && of.Packed() {
				size := map[bool]string{false: "{{size .T}}", true: "{{size .A}}"}[o.Kind == Sum]
				loads = append(loads, fmt.Sprintf("  mul.u64 %sat, %s, %s\n", o.Name, text, size))
				slots, loads = append(slots, op.rowSlot(i)), append(loads, op.rowLoad(i, o.Name+"at"))
				extras = append(extras, of.bytes())
				continue
			}
			fallthrough // what is neither, or much, is one more with an element for each of the rows'
		case Whole:
			if in = append(in, a); first < 0 {
				first = i
				continue
			}
			loads = append(loads, fmt.Sprintf("  mov.u64 %sat, {{offset %d}}\n", o.Name, len(in)-1))
			more, loads = append(more, op.rowSlot(i)), append(loads, op.rowLoad(i, o.Name+"at"))
		case Row:
			of, err := p.pack(a)
			if err != nil {
				return err
			}
			loads = append(loads, "  mul.u64 to, row, {{size .A}}\n")
			slots, loads = append(slots, op.rowSlot(i)), append(loads, op.rowLoad(i, "to"))
			extras = append(extras, of.bytes())
		}
	}
	for k := range before {
		if name := r.Stats[k].Name; r.Uses(s.Of, name) {
			slots = append(slots, fmt.Sprintf("slot %s {{.A}}\n", name))
			loads = append(loads, fmt.Sprintf("  mul.u64 to, row, {{size .A}}\n  ldg.{{.A}} %s, %s[to]\n", name, name))
			extras = append(extras, before[k].bytes())
		}
	}
	map_ := fmt.Sprintf("{{load %q \"a[off]\"}}\n%s  %s", op.Operands[first].Name, strings.Join(loads, ""), s.Of)
	red := &reduction{
		combine: s.Combine,
		extra:   filled(strings.Join(append(more, slots...), "")),
		m:       filled(map_),
	}
	if s.Done != "" {
		red.done = filled("ldp.{{.A}} count, count\n  " + s.Done)
	}
	return red.reduce(p, out.Type, in, lead, extras, out, count)
}

// filled is a text with its types filled in, for a reduction.
func filled(text string) func(f fields) string {
	s := &source{text: text}
	return func(f fields) string {
		got, err := s.expand(f)
		if err != nil {
			return err.Error() // the assembler shows it in its place
		}
		return got
	}
}

func zero(strides []int64) bool {
	return !slices.ContainsFunc(strides, func(s int64) bool { return s != 0 })
}
