// Package isatest makes random programs straight from the instruction table,
// for tests: every row, every form of it, every operand that the row allows.
// A new row takes part without a change here.
//
// The programs are well formed, as isa.Program.Check says: they have a text
// and a binary form. Few of them pass isa.Verify, since registers are read
// before they are written and branches go anywhere.
package isatest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hologram-project/hologram/isa"
	"pgregory.net/rapid"
)

// Source is where random choices come from.
type Source interface {
	// Intn returns a number from 0 to n-1.
	Intn(n int) int
	// Uint64 returns any number.
	Uint64() uint64
}

// FromRapid lets rapid make the choices, so that it can shrink what fails.
func FromRapid(t *rapid.T) Source { return rapidSource{t} }

type rapidSource struct{ t *rapid.T }

func (s rapidSource) Intn(n int) int { return rapid.IntRange(0, n-1).Draw(s.t, "choice") }
func (s rapidSource) Uint64() uint64 { return rapid.Uint64().Draw(s.t, "bits") }

// FromSeed makes choices that depend on seed alone, quickly.
func FromSeed(seed uint64) Source { return randSource{rand.New(rand.NewPCG(seed, 1))} }

type randSource struct{ *rand.Rand }

func (s randSource) Intn(n int) int { return s.IntN(n) }

func pick[T any](s Source, list []T) T { return list[s.Intn(len(list))] }

// Forms returns every form of a row: types × source types × conditions.
func Forms(row *isa.Row) []isa.Form {
	types := func(s isa.TypeSet) []isa.Type {
		if s == 0 {
			return []isa.Type{isa.NoType}
		}
		return s.List()
	}
	conds := []isa.Cond{isa.NoCond}
	if row.HasCond {
		conds = nil
		for c := isa.EQ; c <= isa.GEU; c++ {
			conds = append(conds, c)
		}
	}
	var forms []isa.Form
	for _, t := range types(row.Types) {
		for _, from := range types(row.From) {
			for _, c := range conds {
				if !c.UnsignedOnly() || t.Unsigned() {
					forms = append(forms, isa.Form{Type: t, From: from, Cond: c})
				}
			}
		}
	}
	return forms
}

// Shape is one kind of thing that an operand can be.
type Shape struct {
	Kind isa.ArgKind
	Not  bool         // of ArgPred
	Mode isa.AddrMode // of ArgAddr
	Reg  bool         // of ArgAddr: with a register
}

// Shapes returns every shape that operand o may have in an instruction of form f.
func Shapes(o isa.Operand, f isa.Form) []Shape {
	var shapes []Shape
	if o.Optional {
		shapes = append(shapes, Shape{})
	}
	for k := isa.ArgReg; k <= isa.ArgAddr; k++ {
		if !o.Accepts(k, f) {
			continue
		}
		switch {
		case k == isa.ArgPred && (o.Kind == isa.Src || o.Kind == isa.PredSrc):
			shapes = append(shapes, Shape{Kind: k}, Shape{Kind: k, Not: true})
		case k != isa.ArgAddr:
			shapes = append(shapes, Shape{Kind: k})
		default:
			for m := isa.AddrIndex; m <= isa.AddrFlat; m++ {
				if !o.AcceptsMode(m) {
					continue
				}
				shapes = append(shapes, Shape{Kind: k, Mode: m})
				if m != isa.AddrIndex && m != isa.AddrPhi {
					shapes = append(shapes, Shape{Kind: k, Mode: m, Reg: true})
				}
			}
		}
	}
	return shapes
}

// Declarations returns a program without instructions that has slots,
// parameters and tables of all types, shared memory and labels 0 … labels-1,
// so that any instruction finds what it refers to.
func Declarations(s Source, labels int) *isa.Program {
	p := &isa.Program{Name: name(s), Shared: uint32(8 + s.Intn(1000))}
	if s.Intn(2) == 0 {
		p.Block = [3]uint32{uint32(1 + s.Intn(32)), uint32(1 + s.Intn(4)), uint32(1 + s.Intn(4))}
	}
	for i, t := range isa.NumericTypes {
		p.Slots = append(p.Slots, isa.Slot{Name: fmt.Sprintf("%s.%d", name(s), i), Type: t})
		p.Params = append(p.Params, isa.Param{Name: fmt.Sprintf("%s$%d", name(s), i), Type: t})
		d := isa.Data{Name: fmt.Sprintf("%s_%d", name(s), i), Type: t}
		for range s.Intn(4) {
			d.Values = append(d.Values, Cell(s, t))
		}
		p.Data = append(p.Data, d)
	}
	p.Slots = append(p.Slots, isa.Slot{Name: isa.BoundarySlot, Type: isa.U8})
	for i := range labels {
		p.Labels = append(p.Labels, isa.Label{Name: fmt.Sprintf("%s.%d", name(s), i)})
	}
	for range s.Intn(20) {
		n := s.Intn(isa.NumRegisters)
		p.Debug.Regs[n] = fmt.Sprintf("%s.%d", name(s), n)
		n = s.Intn(isa.NumPredicates)
		p.Debug.Preds[n] = fmt.Sprintf("%s.%d", name(s), n)
	}
	return p
}

// name returns the beginning of a name, to be made unique by what follows it.
func name(s Source) string {
	return pick(s, []string{"a", "x", "loop", "r", "p", "index", "nan", "_", "add.f32", "slot", "shared$", "Z9", "e5", "phi"})
}

// Cell returns a cell of a type: an edge value half the time.
func Cell(s Source, t isa.Type) uint64 {
	if s.Intn(2) == 0 {
		return s.Uint64() & t.Mask()
	}
	return pick(s, Edges(t))
}

// Edges returns the cells of a type that are most likely to go wrong: zeros,
// ones, extremes; of floats also infinities, NaNs and subnormals.
func Edges(t isa.Type) []uint64 {
	m := t.Mask()
	if !t.Float() {
		return []uint64{0, 1, m, m >> 1, m>>1 + 1, m >> 1 &^ 1} // 0, 1, −1 or largest, largest signed, smallest signed
	}
	sign := m>>1 + 1
	inf := uint64(1<<t.ExponentBits()-1) << t.MantissaBits()
	one := inf >> 1 &^ (1<<t.MantissaBits() - 1)
	positive := []uint64{0, 1, 1<<t.MantissaBits() - 1, 1 << t.MantissaBits(), one, one + 1, inf - 1, inf, inf + 1, inf | 1<<(t.MantissaBits()-1), m >> 1}
	cells := slices.Clone(positive)
	for _, c := range positive {
		cells = append(cells, c|sign)
	}
	return cells
}

// Arg returns an argument of the given shape for operand o of form f in a
// program with the declarations of p. What it refers to has a fitting type
// where the operand has one.
func Arg(s Source, p *isa.Program, o isa.Operand, f isa.Form, shape Shape) isa.Arg {
	a := isa.Arg{Kind: shape.Kind, Not: shape.Not}
	t := o.Holds(f)
	switch shape.Kind {
	case isa.ArgReg:
		a.Reg = uint8(s.Intn(isa.NumRegisters))
	case isa.ArgPred:
		a.Reg = uint8(s.Intn(isa.NumPredicates))
	case isa.ArgImm:
		a.Bits = Cell(s, t)
		if o.Name == "count" && s.Intn(2) == 0 { // of registers, of which there are few
			a.Bits = uint64(1 + s.Intn(4))
		}
	case isa.ArgLabel:
		a.Bits = uint64(s.Intn(len(p.Labels)))
	case isa.ArgParam:
		a.Bits = ofType(s, p.Params, func(d isa.Param) isa.Type { return d.Type }, t)
	case isa.ArgData:
		a.Bits = ofType(s, p.Data, func(d isa.Data) isa.Type { return d.Type }, t)
	case isa.ArgName:
		a.Bits = uint64(s.Intn(len(o.Names())))
	case isa.ArgAddr:
		a = address(s, p, t, shape)
	}
	return a
}

func ofType[T any](s Source, list []T, typ func(T) isa.Type, t isa.Type) uint64 {
	var fit []uint64
	for i, d := range list {
		if typ(d) == t {
			fit = append(fit, uint64(i))
		}
	}
	return pick(s, fit)
}

func address(s Source, p *isa.Program, t isa.Type, shape Shape) isa.Arg {
	a := isa.Arg{Kind: isa.ArgAddr, Mode: shape.Mode, HasReg: shape.Reg}
	if shape.Reg {
		a.Reg = uint8(s.Intn(isa.NumRegisters))
	}
	switch shape.Mode {
	case isa.AddrIndex, isa.AddrByte, isa.AddrFlat:
		a.Slot = uint16(ofType(s, p.Slots, func(d isa.Slot) isa.Type { return d.Type }, t))
	case isa.AddrIndirect:
		a.Handle = uint8(s.Intn(isa.NumRegisters))
	}
	size := t.Size()
	switch {
	case shape.Mode == isa.AddrIndex:
	case shape.Mode == isa.AddrPhi:
		a.Slot = uint16(len(p.Slots) - 1)
		a.Bits = uint64(s.Intn(isa.BoundaryBytes - size + 1))
	case shape.Mode == isa.AddrShared && !shape.Reg:
		a.Bits = uint64(s.Intn(int(p.Shared) - size + 1))
	case shape.Mode == isa.AddrFlat:
		a.Bits = uint64(pick(s, []int64{0, 1, -1, 16, isa.MaxFlatOffset, -isa.MaxFlatOffset, int64(s.Uint64()) >> 16}))
		if !shape.Reg {
			a.Bits = uint64(max(a.Offset(), 0))
		}
	default:
		a.Bits = uint64(pick(s, []int64{0, 1, -1, 16, math.MaxInt64, math.MinInt64, int64(s.Uint64())}))
	}
	return a
}

// Inst returns an instruction of the given form and shapes in a program with
// the declarations of p. The second result is false where no such instruction
// was found, after some attempts, that Check accepts: some rows ask more of
// their operands than the table says.
func Inst(s Source, p *isa.Program, op isa.Op, f isa.Form, shapes []Shape) (isa.Inst, bool) {
	row, _ := isa.Lookup(op)
	one := *p
	one.Labels = slices.Clone(p.Labels)
	for i := range one.Labels {
		one.Labels[i].At = min(one.Labels[i].At, 1)
	}
	for range 50 {
		in := isa.Inst{Op: op, Form: f}
		for i, o := range row.Operands {
			in.Args[i] = Arg(s, p, o, f, shapes[i])
		}
		one.Insts = []isa.Inst{in}
		if one.Check() == nil {
			return in, true
		}
	}
	return isa.Inst{}, false
}

// Program returns a random well-formed program of up to n instructions.
func Program(s Source, n int) *isa.Program {
	p := Declarations(s, 1+s.Intn(5))
	for range s.Intn(n + 1) {
		op := isa.Op(1 + s.Intn(int(isa.NumOps)-1))
		row, _ := isa.Lookup(op)
		f := pick(s, Forms(row))
		shapes := make([]Shape, len(row.Operands))
		for i, o := range row.Operands {
			shapes[i] = pick(s, Shapes(o, f))
		}
		if in, ok := Inst(s, p, op, f, shapes); ok {
			p.Insts = append(p.Insts, in)
		}
	}
	at := make([]int, len(p.Labels))
	for i := range at {
		at[i] = s.Intn(len(p.Insts) + 1)
	}
	slices.Sort(at)
	for i := range at {
		p.Labels[i].At = at[i]
	}
	return p
}

// Programs generates well-formed programs of up to n instructions.
func Programs(n int) *rapid.Generator[*isa.Program] {
	return rapid.Custom(func(t *rapid.T) *isa.Program { return Program(FromRapid(t), n) })
}
