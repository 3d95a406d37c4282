package isa

import (
	"fmt"
	"math"
)

// checkInstructions checks each instruction against its row.
func (v *verifier) checkInstructions() error {
	for i := range v.p.Insts {
		v.work.Step(1)
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
	for k := range row.Operands {
		if err := v.checkOperand(i, in, row, k); err != nil {
			return err
		}
	}
	for k := len(row.Operands); k < len(in.Args); k++ {
		if in.Args[k].Kind != ArgNone {
			return v.fail("operand", i, fmt.Sprintf("an operand more than the %d that it takes", len(row.Operands)), "it is written "+row.Signature())
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
	if e := row.checkForm(in.Form); e != nil {
		return v.fail("form", i, e.msg, e.hint)
	}
	if in.Op == BITCAST && in.Type.Size() != in.From.Size() {
		return v.fail("form", i, fmt.Sprintf("%v has %d bits, %v has %d", in.Type, in.Type.Bits(), in.From, in.From.Bits()),
			"cvt converts between widths")
	}
	return nil
}

// checkOperand checks operand k of the instruction at i.
func (v *verifier) checkOperand(i int, in *Inst, row *Row, k int) error {
	o, arg := &row.Operands[k], &in.Args[k]
	if arg.Kind == ArgNone && o.Optional {
		return nil
	}
	if !o.Accepts(arg.Kind, in.Form) {
		return v.fail("operand", i, fmt.Sprintf("operand %s is %v", o.Name, arg.Kind), "it is written "+row.Signature())
	}
	if written := o.Kind == Dst || o.Kind == PredDst; arg.Not && (written || arg.Kind != ArgPred) {
		return v.failf("operand", i, "operand %s is negated, only a predicate that is read may be", o.Name)
	}
	t := o.Holds(in.Form)
	named := func(name string, has Type) error {
		if has == t {
			return nil
		}
		return v.failf("access", i, "%v %s is %v, it is read as %v", arg.Kind, name, has, t)
	}
	count := -1 // of what the operand refers to by number
	switch arg.Kind {
	case ArgPred:
		if arg.Reg >= NumPredicates {
			return v.failf("ref", i, "operand %s is predicate %d of %d", o.Name, arg.Reg, NumPredicates)
		}
	case ArgImm:
		if arg.Bits&^t.Mask() != 0 {
			return v.failf("imm", i, "operand %s is %#x, which does not fit %v", o.Name, arg.Bits, t)
		}
	case ArgAddr:
		return v.checkAddr(i, in, row, k)
	case ArgLabel:
		count = len(v.p.Labels)
	case ArgParam:
		if count = len(v.p.Params); arg.Bits < uint64(count) {
			d := &v.p.Params[arg.Bits]
			return named(d.Name, d.Type)
		}
	case ArgData:
		if count = len(v.p.Data); arg.Bits < uint64(count) {
			d := &v.p.Data[arg.Bits]
			return named(d.Name, d.Type)
		}
	case ArgName:
		count = len(o.Names())
	}
	if count >= 0 && arg.Bits >= uint64(count) {
		return v.failf("ref", i, "operand %s is %v, number %d of %d", o.Name, arg.Kind, arg.Bits, count)
	}
	return nil
}

// checkAddr checks operand k, an address.
func (v *verifier) checkAddr(i int, in *Inst, row *Row, k int) error {
	o, a := &row.Operands[k], &in.Args[k]
	if !o.AcceptsMode(a.Mode) {
		hint := "ldg and stg access slots, lds and sts shared memory"
		return v.fail("operand", i, fmt.Sprintf("operand %s is an address of mode %d", o.Name, a.Mode), hint)
	}
	if fixed := a.Mode == AddrIndex || a.Mode == AddrPhi; fixed && a.HasReg || a.Mode == AddrIndex && a.Offset() != 0 {
		return v.failf("operand", i, "operand %s is an address by index or phi, to which nothing is added", o.Name)
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
		return v.failf("ref", i, "operand %s is in slot %d of %d", o.Name, a.Slot, len(v.p.Slots))
	}
	s := &v.p.Slots[a.Slot]
	if a.Mode == AddrPhi {
		if a.Offset() < 0 || a.Offset() > BoundaryBytes-size || s.Name != BoundarySlot {
			class, page, b := a.Phi()
			return v.fail("phi", i, fmt.Sprintf("phi(%d, %d, %d) of %d bytes in slot %s: it must lie in the %d bytes of slot %s",
				class, page, b, size, s.Name, BoundaryBytes, BoundarySlot), "class < 96, page < 48, byte < 256")
		}
		return nil
	}
	if a.Mode == AddrFlat {
		if low := int64(-MaxFlatOffset); a.Offset() > MaxFlatOffset || a.Offset() < low {
			return v.failf("imm", i, "operand %s counts from %d on, it must be within %d", o.Name, a.Offset(), int64(MaxFlatOffset))
		}
		if !a.HasReg && a.Offset() < 0 {
			return v.fail("imm", i, fmt.Sprintf("operand %s is element %d, elements are counted from 0", o.Name, a.Offset()), "size.0 tells how many an axis has")
		}
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

func (v *verifier) checkShared(i int, a *Arg, size int64) error {
	room := int64(v.p.Shared) - size
	if room < 0 {
		return v.fail("shared", i, fmt.Sprintf("an access of %d bytes to %d bytes of shared memory", size, v.p.Shared),
			"declare its size with shared BYTES")
	}
	if !a.HasReg && (a.Offset() < 0 || a.Offset() > room) {
		return v.failf("shared", i, "shared[%d] of %d bytes lies outside the %d bytes of shared memory", a.Offset(), size, v.p.Shared)
	}
	return nil
}

var argNames = [...]string{"left out", "a register", "a predicate", "an immediate", "a label", "parameter", "table", "a name", "an address"}

// String describes the kind.
func (k ArgKind) String() string {
	if int(k) < len(argNames) {
		return argNames[k]
	}
	return "invalid"
}
