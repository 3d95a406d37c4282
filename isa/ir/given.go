package ir

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// Given is a number that a launch tells a program which does not declare it as a
// parameter: of the index space, or of a slot that is accessed as slot[flat i].
// So engines need not know of either: the first become divisions of the lane's
// number, the second byte addresses.
type Given struct {
	Kind GivenKind
	Of   int // the axis, or the slot
}

// GivenKind says what a launch tells. The numbers are part of the canonical bytes.
type GivenKind uint8

// The kinds of Given. Those of an index space are U64.
const (
	// GivenSize is the size of axis Of, 1 of axes that there are not.
	GivenSize GivenKind = iota
	// GivenInner is the product of the sizes of the axes behind axis Of.
	GivenInner
	// GivenRows and GivenColumns are the sizes of the last axis but one and of the
	// last one.
	GivenRows
	GivenColumns
	// GivenFirst is how many elements behind the slot's address element 0 of its
	// view lies, GivenStep how many lie from it to the next. What a slot gives is I64.
	GivenFirst
	GivenStep
	// GivenLimit is a number of elements: at least as many as the view has, and so
	// few that the byte address of none up to it wraps, nor of one as far below 0.
	GivenLimit
)

var givenNames = [...]string{"size", "inner", "rows", "columns", "first", "step", "limit"}

// Type returns the type of the number.
func (g Given) Type() isa.Type {
	if g.Kind >= GivenFirst {
		return isa.I64
	}
	return isa.U64
}

// String names the number: "size.0", "columns", "step of s2".
func (g Given) String() string {
	switch g.Kind {
	case GivenSize, GivenInner:
		return fmt.Sprintf("%s.%d", givenNames[g.Kind], g.Of)
	case GivenRows, GivenColumns:
		return givenNames[g.Kind]
	}
	return fmt.Sprintf("%s of s%d", givenNames[g.Kind], g.Of)
}

// Until renumber the parameter that is given goes by a number of its own, which
// what else the program uses does not change.
const firstGiven = 1 << 16

func (g Given) number() uint64 { return firstGiven + uint64(g.Kind)<<8 + uint64(g.Of) }

func givenNumbered(n uint64) Given {
	n -= firstGiven
	return Given{GivenKind(n >> 8), int(n & 0xff)}
}

// isGiven reports whether n loads a parameter that is given and not numbered yet.
func (n *Node) isGiven() bool { return n.Op == Op(isa.LDP) && n.Imm >= firstGiven }

// numberGiven puts what the leaves use of Given behind the program's parameters.
func (f *Func) numberGiven(leaves []*Node) {
	var used []*Node
	for _, n := range leaves {
		if n.isGiven() {
			used = append(used, n)
		}
	}
	slices.SortFunc(used, func(a, b *Node) int { return cmp.Compare(a.Imm, b.Imm) })
	for _, n := range used {
		g := givenNumbered(n.Imm)
		n.Imm = uint64(len(f.ParamTypes))
		f.ParamTypes = append(f.ParamTypes, g.Type())
		f.Given = append(f.Given, g)
	}
}

// given returns the value of a Given.
func (b *builder) given(kind GivenKind, of int) *Value {
	g := Given{kind, of}
	return b.f.leaf(Op(isa.LDP), isa.Form{Type: g.Type()}, g.number(), g.Type())
}

// inSpace returns what a special value of the index space is made of: the lane's
// number is that of its element, row-major.
func (b *builder) inSpace(s isa.Special, src int) *Value {
	switch {
	case s == isa.RowCount:
		return b.given(GivenRows, 0)
	case s == isa.ColumnCount:
		return b.given(GivenColumns, 0)
	case s >= isa.Size0:
		return b.given(GivenSize, int(s-isa.Size0))
	}
	lane := b.f.leaf(Op(isa.SREG), isa.Form{}, uint64(isa.GlobalLane), isa.U64)
	switch s {
	case isa.RowIndex:
		return b.rest(b.quotient(lane, b.given(GivenColumns, 0), src), b.given(GivenRows, 0), src)
	case isa.ColumnIndex:
		return b.rest(lane, b.given(GivenColumns, 0), src)
	}
	axis := int(s - isa.Index0)
	return b.rest(b.quotient(lane, b.given(GivenInner, axis), src), b.given(GivenSize, axis), src)
}

// quotient appends a division by a number that is not 0 where a lane runs.
func (b *builder) quotient(x, y *Value, src int) *Value {
	v := b.op2(isa.DIV, isa.U64, x, y, src)
	v.Node.Free = true
	return v
}

// rest appends the remainder of a division whose quotient others may want too: of
// row and column one division is the same.
func (b *builder) rest(x, y *Value, src int) *Value {
	return b.op2(isa.SUB, isa.U64, x, b.op2(isa.MUL, isa.U64, b.quotient(x, y, src), y, src), src)
}

// flat makes the byte address of element i, (first + i · step) · size, of which i
// is brought within the limit first, either way, so that nothing wraps. Where the
// view has no element i there is no byte of its memory, from its lowest element to
// its highest: the engines' check of the byte address is that of i.
func (b *builder) flat(n *Node, a *isa.Arg, src int) {
	size := int64(n.Type.Size())
	n.Mem = Mem{Mode: isa.AddrByte, HasOff: true, Slot: int(a.Slot)}
	v := b.flatRegister(a)
	if b.packed {
		n.Mem.Offset = a.Offset() * size
		if n.Mem.HasOff = v != nil; v != nil {
			n.Args = append(n.Args, b.op2(isa.MUL, isa.I64, b.wide(v, src), b.f.Const(isa.I64, uint64(size)), src))
		}
		return
	}
	limit := b.given(GivenLimit, n.Mem.Slot)
	var i *Value
	if v != nil && v.Type == isa.U64 && a.Offset() == 0 {
		i = b.wide(b.op2(isa.MIN, isa.U64, v, b.convert(isa.U64, limit, src), src), src)
	} else {
		i = b.op2(isa.MIN, isa.I64, b.element(v, a.Offset(), src), limit, src)
		if v != nil && (v.Type.Signed() || a.Offset() < 0) {
			n := b.node(Op(isa.NEG), src)
			n.Type = isa.I64
			n.Args = append(n.Args, limit)
			i = b.op2(isa.MAX, isa.I64, i, b.push(n).addResult(isa.I64), src)
		}
	}
	i = b.op2(isa.ADD, isa.I64, b.op2(isa.MUL, isa.I64, i, b.given(GivenStep, n.Mem.Slot), src), b.given(GivenFirst, n.Mem.Slot), src)
	n.Args = append(n.Args, b.op2(isa.MUL, isa.I64, i, b.f.Const(isa.I64, uint64(size)), src))
}

// flatRegister returns the value of an address' register, nil if it has none.
func (b *builder) flatRegister(a *isa.Arg) *Value {
	if !a.HasReg {
		return nil
	}
	return b.get(int(a.Reg))
}

// element returns v + offset as an I64. What wraps is as far out as it was.
func (b *builder) element(v *Value, offset int64, src int) *Value {
	c := b.f.Const(isa.I64, uint64(offset))
	switch {
	case v == nil:
		return c
	case v.Type == isa.U64: // leaves room for the offset
		v = b.op2(isa.MIN, isa.U64, v, b.f.Const(isa.U64, 1<<62), src)
	}
	if v = b.wide(v, src); offset != 0 {
		v = b.op2(isa.ADD, isa.I64, v, c, src)
	}
	return v
}
