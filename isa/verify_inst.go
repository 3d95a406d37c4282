package isa

import (
	"fmt"
	"math"
)

// checkInstructions checks each instruction against its row.
func (v *verifier) checkInstructions() error {
	for i := range v.p.Insts {
		if err := v.checkInst(i); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) checkInst(i int) error {
	in := &v.p.Insts[i]
	row, ok := Lookup(in.Op)
	if !ok {
		return v.failf("op", i, "there is no operation %d", in.Op)
	}
	if err := v.checkForm(i, in, row); err != nil {
		return err
	}
	for k := range in.Args {
		arg := &in.Args[k]
		if k >= len(row.Operands) {
			if arg.Kind != ArgNone {
				return v.failf("operand", i, "%d operands, %s takes %d", k+1, row.Name, len(row.Operands))
			}
			continue
		}
		if err := v.checkOperand(i, in, k, &row.Operands[k]); err != nil {
			return err
		}
	}
	switch in.Op {
	case REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_MUL:
		if n, first := in.Args[2].Bits, uint64(in.Args[1].Reg); n == 0 || n > NumRegisters-first {
			return v.failf("reduce", i, "%d registers from r%d on, it must be at least 1 and stay below r%d", n, first, NumRegisters)
		}
	case UNITY_TEST:
		if e := math.Float64frombits(in.Args[1].Bits); !(e >= 0 && e <= math.MaxFloat64) {
			return v.failf("epsilon", i, "epsilon is %v, it must be finite and not negative", e)
		}
	}
	return nil
}

func (v *verifier) checkForm(i int, in *Inst, row *Row) error {
	check := func(what string, t Type, set TypeSet) error {
		switch {
		case set == 0 && t != NoType:
			return v.failf("form", i, "%s has no %s, %v is given", row.Name, what, t)
		case set != 0 && !set.Has(t):
			return v.failf("form", i, "%s of %s is %v, it may be %v", what, row.Name, t, set)
		}
		return nil
	}
	if err := check("type", in.Type, row.Types); err != nil {
		return err
	}
	if err := check("source type", in.From, row.From); err != nil {
		return err
	}
	switch {
	case !row.HasCond && in.Cond != NoCond:
		return v.failf("form", i, "%s has no condition, %v is given", row.Name, in.Cond)
	case row.HasCond && (in.Cond == NoCond || in.Cond > GEU):
		return v.failf("form", i, "%s needs one of the conditions eq ne lt le gt ge ltu leu gtu geu", row.Name)
	case in.Cond.UnsignedOnly() && !in.Type.Unsigned():
		return v.fail("form", i, fmt.Sprintf("condition %v compares unsigned integers, the type is %v", in.Cond, in.Type),
			fmt.Sprintf("write %v, or compare as an unsigned type", in.Cond.Signed()))
	case in.Op == BITCAST && in.Type.Size() != in.From.Size():
		return v.fail("form", i, fmt.Sprintf("%v has %d bits, %v has %d", in.Type, in.Type.Bits(), in.From, in.From.Bits()),
			"cvt converts between widths")
	}
	return nil
}

// operandType returns the type of the value in an operand's place: a type,
// TypeAnyInt, or NoType for a place that holds none.
func operandType(in *Inst, o *Operand) Type {
	switch o.Type {
	case TypeT:
		return in.Type
	case TypeFrom:
		return in.From
	case TypeNamedT:
		// SREG is the one row with this; its special value comes second.
		return Special(in.Args[1].Bits).Type()
	}
	return o.Type
}

func (v *verifier) checkOperand(i int, in *Inst, k int, o *Operand) error {
	arg := &in.Args[k]
	t := operandType(in, o)
	wrong := func(want string) error {
		return v.failf("operand", i, "operand %d (%s) is %s, it must be %s", k+1, o.Name, arg.Kind, want)
	}
	ref := func(what string, n int) error {
		if arg.Bits < uint64(n) {
			return nil
		}
		return v.failf("ref", i, "operand %d (%s) is %s %d of %d", k+1, o.Name, what, arg.Bits, n)
	}
	if arg.Kind == ArgNone && o.Optional {
		return nil
	}
	if written := o.Kind == Dst || o.Kind == PredDst; arg.Not && (written || arg.Kind != ArgPred) {
		return v.failf("operand", i, "operand %d (%s) is negated, only a predicate that is read may be", k+1, o.Name)
	}
	switch o.Kind {
	case Dst, SrcReg, PredDst, PredSrc, Src:
		want, kind := "a register", ArgReg
		if t == Pred {
			want, kind = "a predicate", ArgPred
		}
		if o.Kind == Src {
			if arg.Kind == ArgImm {
				return v.checkImm(i, k, o, arg.Bits, t)
			}
			want += " or an immediate"
		}
		if arg.Kind != kind {
			return wrong(want)
		}
		if kind == ArgPred && arg.Reg >= NumPredicates {
			return v.failf("ref", i, "operand %d (%s) is predicate %d of %d", k+1, o.Name, arg.Reg, NumPredicates)
		}
		return nil
	case Imm:
		if arg.Kind != ArgImm {
			return wrong("an immediate")
		}
		return v.checkImm(i, k, o, arg.Bits, t)
	case Mem, SharedMem, AnyMem:
		if arg.Kind != ArgAddr {
			return wrong("an address")
		}
		return v.checkAddr(i, in, k, o)
	case LabelRef:
		if arg.Kind != ArgLabel {
			return wrong("a label")
		}
		return ref("label", len(v.p.Labels))
	case ParamRef:
		if arg.Kind != ArgParam {
			return wrong("a parameter")
		}
		if err := ref("parameter", len(v.p.Params)); err != nil {
			return err
		}
		if d := &v.p.Params[arg.Bits]; d.Type != t {
			return v.failf("access", i, "parameter %s is %v, it is read as %v", d.Name, d.Type, t)
		}
		return nil
	case DataRef:
		if arg.Kind != ArgData {
			return wrong("a table")
		}
		if err := ref("table", len(v.p.Data)); err != nil {
			return err
		}
		if d := &v.p.Data[arg.Bits]; d.Type != t {
			return v.failf("access", i, "table %s is %v, it is read as %v", d.Name, d.Type, t)
		}
		return nil
	case SpecialRef:
		if arg.Kind != ArgName {
			return wrong("a special value")
		}
		return ref("special value", NumSpecials)
	case ScopeRef:
		if arg.Kind != ArgName {
			return wrong("a scope")
		}
		return ref("scope", int(ScopeSystem)+1)
	}
	return v.failf("operand", i, "the row of %v has operand %s of unknown kind %d", in.Op, o.Name, o.Kind)
}

func (v *verifier) checkImm(i, k int, o *Operand, bits uint64, t Type) error {
	if t == TypeAnyInt || bits&^t.Mask() == 0 {
		return nil
	}
	return v.failf("imm", i, "operand %d (%s) is %#x, which does not fit %v", k+1, o.Name, bits, t)
}

func (v *verifier) checkAddr(i int, in *Inst, k int, o *Operand) error {
	a := &in.Args[k].Addr
	if a.Mode < AddrIndex || a.Mode > AddrShared {
		return v.failf("operand", i, "operand %d (%s) has address mode %d of %d", k+1, o.Name, a.Mode, AddrShared)
	}
	if shared := a.Mode == AddrShared; shared && o.Kind == Mem || !shared && o.Kind == SharedMem {
		return v.failf("operand", i, "operand %d (%s) is in %v memory, %v takes the other", k+1, o.Name, memoryOf(a.Mode), in.Op)
	}
	if fixed := a.Mode == AddrIndex || a.Mode == AddrPhi; fixed && a.HasReg || a.Mode == AddrIndex && a.Offset != 0 {
		return v.failf("operand", i, "operand %d (%s) is an address by index or phi, to which nothing is added", k+1, o.Name)
	}
	size := int64(in.Type.Size())
	switch a.Mode {
	case AddrShared:
		return v.checkShared(i, a, size)
	case AddrIndirect:
		if len(v.p.Slots) == 0 {
			return v.failf("ref", i, "an address by slot number, but the program has no slots")
		}
		return nil
	}
	if int(a.Slot) >= len(v.p.Slots) {
		return v.failf("ref", i, "operand %d (%s) is in slot %d of %d", k+1, o.Name, a.Slot, len(v.p.Slots))
	}
	s := &v.p.Slots[a.Slot]
	if a.Mode == AddrPhi {
		if a.Offset < 0 || a.Offset > BoundaryBytes-size || s.Name != BoundarySlot {
			class, page, b := a.Phi()
			return v.fail("phi", i, fmt.Sprintf("phi(%d, %d, %d) of %d bytes in slot %s: it must lie in the %d bytes of slot %s",
				class, page, b, size, s.Name, BoundaryBytes, BoundarySlot), "class < 96, page < 48, byte < 256")
		}
		return nil
	}
	if s.Type == in.Type || a.Mode == AddrByte && s.Type == U8 {
		return nil
	}
	hint := ""
	if s.Type == U8 {
		hint = "by byte address a u8 slot is accessed as any type"
	}
	return v.fail("access", i, fmt.Sprintf("slot %s is %v, it is accessed as %v", s.Name, s.Type, in.Type), hint)
}

func (v *verifier) checkShared(i int, a *Addr, size int64) error {
	room := int64(v.p.Shared) - size
	if room < 0 {
		return v.fail("shared", i, fmt.Sprintf("an access of %d bytes to %d bytes of shared memory", size, v.p.Shared),
			"declare its size with shared BYTES")
	}
	if !a.HasReg && (a.Offset < 0 || a.Offset > room) {
		return v.failf("shared", i, "shared[%d] of %d bytes lies outside the %d bytes of shared memory", a.Offset, size, v.p.Shared)
	}
	return nil
}

func memoryOf(m AddrMode) string {
	if m == AddrShared {
		return "shared"
	}
	return "a slot's"
}

var argNames = [...]string{"left out", "a register", "a predicate", "an immediate", "a label", "a parameter", "a table", "a name", "an address"}

// String describes the kind.
func (k ArgKind) String() string {
	if int(k) < len(argNames) {
		return argNames[k]
	}
	return "invalid"
}
