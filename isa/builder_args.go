package isa

import (
	"fmt"
	"math"
)

// BuilderArg is an operand given to a Builder: a Register, Predicate, Int,
// Float, Bits, Bool, Address, LabelHandle, ParamHandle, TableHandle, Special
// or Scope.
type BuilderArg interface {
	// argument makes the operand for the place of o, or says what the argument
	// is that cannot stand there.
	argument(b *Builder, o Operand, f Form) (arg Arg, why string)
}

// Register is a register of a Builder.
type Register struct {
	b *Builder
	n uint8
}

// Number returns the register's number.
func (r Register) Number() int { return int(r.n) }

func foreign(b, of *Builder, what string) string {
	switch of {
	case b:
		return ""
	case nil:
		return what + " that no builder has made"
	}
	return what + " of another builder"
}

func (r Register) argument(b *Builder, _ Operand, _ Form) (Arg, string) {
	return Arg{Kind: ArgReg, Reg: r.n}, foreign(b, r.b, "a register")
}

// Predicate is a predicate of a Builder, perhaps negated.
type Predicate struct {
	b   *Builder
	n   uint8
	not bool
}

// Not returns the negated predicate, to be read.
func (p Predicate) Not() Predicate {
	p.not = !p.not
	return p
}

func (p Predicate) argument(b *Builder, o Operand, _ Form) (Arg, string) {
	if p.not && (o.Kind == Dst || o.Kind == PredDst) {
		return Arg{}, "a negated predicate, which cannot be written"
	}
	return Arg{Kind: ArgPred, Reg: p.n, Not: p.not}, foreign(b, p.b, "a predicate")
}

// Int is an immediate number. In the place of a float it must be exact.
type Int int64

// Float is an immediate number for the place of a float, rounded once to its type.
type Float float64

// Bits is an immediate bit pattern.
type Bits uint64

// Bool is an immediate predicate.
type Bool bool

// Cell returns the cell of type t that the number v stands for, rounded once.
// NaNs become the canonical one. ok is false where t is not a float type or a
// finite v is out of its range.
func Cell(t Type, v float64) (cell uint64, ok bool) {
	if !t.Float() {
		return 0, false
	}
	cell = convertFloat(t, F64, math.Float64bits(v))
	if v != v {
		return CanonicalNaN(t), true
	}
	return cell, math.IsInf(v, 0) || cell&^signBit(t) != infinity(t)
}

func (v Int) argument(_ *Builder, o Operand, f Form) (Arg, string) {
	t := o.Holds(f)
	arg := Arg{Kind: ArgImm, Bits: uint64(v)}
	switch {
	case t.Float():
		cell, ok := Cell(t, float64(v))
		if !ok || value(t, cell) != float64(v) || int64(float64(v)) != int64(v) {
			return arg, fmt.Sprintf("%d, which is not a %v", v, t)
		}
		arg.Bits = cell
	case t.Integer():
		arg.Bits &= t.Mask()
		if t.Signed() && signed(t, arg.Bits) != int64(v) || !t.Signed() && (v < 0 || arg.Bits != uint64(v)) {
			return arg, fmt.Sprintf("%d", v)
		}
	default:
		return arg, fmt.Sprintf("%d", v)
	}
	return arg, ""
}

func (v Float) argument(_ *Builder, o Operand, f Form) (Arg, string) {
	cell, ok := Cell(numericOr(o.Holds(f), I8), float64(v))
	if !ok {
		return Arg{}, fmt.Sprintf("the number %v", float64(v))
	}
	return Arg{Kind: ArgImm, Bits: cell}, ""
}

func numericOr(t, otherwise Type) Type {
	if t.Numeric() {
		return t
	}
	return otherwise
}

func (v Bits) argument(_ *Builder, o Operand, f Form) (Arg, string) {
	if t := o.Holds(f); t.Valid() && uint64(v)&^t.Mask() != 0 {
		return Arg{}, fmt.Sprintf("the bits %#x", uint64(v))
	}
	return Arg{Kind: ArgImm, Bits: uint64(v)}, ""
}

func (v Bool) argument(_ *Builder, o Operand, f Form) (Arg, string) {
	if o.Holds(f) != Pred {
		return Arg{}, fmt.Sprintf("%t", bool(v))
	}
	arg := Arg{Kind: ArgImm}
	if v {
		arg.Bits = 1
	}
	return arg, ""
}

// LabelHandle is a label of a Builder.
type LabelHandle struct {
	b *Builder
	n int
}

func (l LabelHandle) argument(b *Builder, _ Operand, _ Form) (Arg, string) {
	return Arg{Kind: ArgLabel, Bits: uint64(l.n)}, foreign(b, l.b, "a label")
}

// ParamHandle is a parameter of a Builder.
type ParamHandle struct {
	b *Builder
	n int
}

func (p ParamHandle) argument(b *Builder, _ Operand, _ Form) (Arg, string) {
	return Arg{Kind: ArgParam, Bits: uint64(p.n)}, foreign(b, p.b, "a parameter")
}

// TableHandle is a constant table of a Builder.
type TableHandle struct {
	b *Builder
	n int
}

func (t TableHandle) argument(b *Builder, _ Operand, _ Form) (Arg, string) {
	return Arg{Kind: ArgData, Bits: uint64(t.n)}, foreign(b, t.b, "a table")
}

func (s Special) argument(_ *Builder, o Operand, _ Form) (Arg, string) {
	return namedArgument(o, SpecialRef, int(s), "the special value "+s.String())
}

func (s Scope) argument(_ *Builder, o Operand, _ Form) (Arg, string) {
	return namedArgument(o, ScopeRef, int(s), "the scope "+s.String())
}

func namedArgument(o Operand, k OperandKind, n int, what string) (Arg, string) {
	if o.Kind != k || n >= len(o.Names()) {
		return Arg{}, what
	}
	return Arg{Kind: ArgName, Bits: uint64(n)}, ""
}

// SlotHandle is a slot of a Builder.
type SlotHandle struct {
	b *Builder
	n int
}

// Address is a place in memory.
type Address struct {
	b    *Builder // of what it is made of, nil for a constant address
	addr Arg
	why  string // what is wrong with it
}

func (a Address) argument(b *Builder, o Operand, _ Form) (Arg, string) {
	switch {
	case a.why != "":
		return Arg{}, a.why
	case a.addr.Mode != AddrShared && a.addr.Mode != AddrPhi && a.b != b, a.b != nil && a.b != b:
		return Arg{}, "an address of another builder"
	case !o.AcceptsMode(a.addr.Mode):
		return Arg{}, "an address in other memory"
	}
	if a.addr.Mode == AddrPhi {
		a.addr.Slot = uint16(b.boundarySlot())
	}
	return a.addr, ""
}

// boundarySlot returns the number of the slot that Φ-addresses refer to.
func (b *Builder) boundarySlot() int {
	for i, s := range b.p.Slots {
		if s.Name == BoundarySlot {
			return i
		}
	}
	return b.Slot(BoundarySlot, U8).n
}

// Index is the lane's element of the slot: slot[index].
func (s SlotHandle) Index() Address { return s.address(Arg{Kind: ArgAddr, Mode: AddrIndex}) }

// Byte is the address offset bytes from the slot's start.
func (s SlotHandle) Byte(offset int64) Address {
	return s.address(Arg{Kind: ArgAddr, Mode: AddrByte, Bits: uint64(offset)})
}

// ByteReg is the address r + offset bytes from the slot's start.
func (s SlotHandle) ByteReg(r Register, offset int64) Address {
	return s.address(Arg{Kind: ArgAddr, Mode: AddrByte, Bits: uint64(offset)}).plus(r)
}

// Flat is element i of the slot's view, row-major: slot[flat 3].
func (s SlotHandle) Flat(i int64) Address {
	return s.address(Arg{Kind: ArgAddr, Mode: AddrFlat, Bits: uint64(i)})
}

// FlatReg is element r + offset of the slot's view: slot[flat r + 1].
func (s SlotHandle) FlatReg(r Register, offset int64) Address {
	return s.address(Arg{Kind: ArgAddr, Mode: AddrFlat, Bits: uint64(offset)}).plus(r)
}

func (s SlotHandle) address(a Arg) Address {
	if s.n >= MaxSlots {
		return Address{b: s.b, why: fmt.Sprintf("an address in slot number %d of %d", s.n, MaxSlots)}
	}
	a.Slot = uint16(s.n)
	return Address{b: s.b, addr: a}
}

func (a Address) plus(r Register) Address {
	if a.b != nil && a.b != r.b {
		a.why = "an address with a register of another builder"
	}
	a.b, a.addr.HasReg, a.addr.Reg = r.b, true, r.n
	return a
}

// Indirect is the address offset bytes from the start of the slot whose number
// the register handle holds.
func Indirect(handle Register, offset int64) Address {
	return Address{b: handle.b, addr: Arg{Kind: ArgAddr, Mode: AddrIndirect, Handle: handle.n, Bits: uint64(offset)}}
}

// IndirectReg is the address r + offset bytes from the start of that slot.
func IndirectReg(handle, r Register, offset int64) Address {
	return Indirect(handle, offset).plus(r)
}

// SharedByte is an address in the block's shared memory.
func SharedByte(offset int64) Address {
	return Address{addr: Arg{Kind: ArgAddr, Mode: AddrShared, Bits: uint64(offset)}}
}

// SharedReg is the address r + offset in the block's shared memory.
func SharedReg(r Register, offset int64) Address { return SharedByte(offset).plus(r) }

// Phi is a Φ-address in the boundary pool.
func Phi(class, page, byte_ int) Address {
	a := Address{addr: Arg{Kind: ArgAddr, Mode: AddrPhi, Bits: uint64(int64(class)*ClassBytes + int64(page)*PageBytes + int64(byte_))}}
	if class < 0 || class >= NumClasses || page < 0 || page >= PagesPerClass || byte_ < 0 || byte_ >= PageBytes {
		a.why = fmt.Sprintf("phi(%d, %d, %d), where class < %d, page < %d, byte < %d", class, page, byte_, NumClasses, PagesPerClass, PageBytes)
	}
	return a
}
