package isa

import (
	"fmt"
	"strings"
	"sync"
)

// What a row's operands let stand in their places: shared by the assembler,
// the disassembler, the binary form, the builder and the reference page.

// Holds returns the type of the value the operand holds in an instruction of
// form f: NoType for those that hold none, and for TypeNamedT, whose type
// depends on what is named. An immediate in the place of TypeAnyInt is I64.
func (o Operand) Holds(f Form) Type {
	switch o.Type {
	case TypeT:
		return f.Type
	case TypeFrom:
		return f.From
	case TypeAnyInt:
		return I64
	case TypeNamedT:
		return NoType
	}
	return o.Type
}

// Accepts reports whether an argument of kind k may stand in the operand's
// place in an instruction of form f. Registers stand for values, predicates
// where the value's type is Pred.
func (o Operand) Accepts(k ArgKind, f Form) bool {
	register := ArgReg
	if o.Holds(f) == Pred {
		register = ArgPred
	}
	switch o.Kind {
	case Dst, SrcReg:
		return k == register
	case Src:
		return k == register || k == ArgImm
	case PredDst, PredSrc:
		return k == ArgPred
	case Imm:
		return k == ArgImm
	case Mem, SharedMem, AnyMem:
		return k == ArgAddr
	case LabelRef:
		return k == ArgLabel
	case ParamRef:
		return k == ArgParam
	case DataRef:
		return k == ArgData
	case SpecialRef, ScopeRef:
		return k == ArgName
	}
	return false
}

// AcceptsMode reports whether an address of mode m may stand in the operand's place.
func (o Operand) AcceptsMode(m AddrMode) bool {
	switch m {
	case AddrIndex, AddrByte, AddrIndirect, AddrPhi, AddrFlat:
		return o.Kind == Mem || o.Kind == AnyMem
	case AddrShared:
		return o.Kind == SharedMem || o.Kind == AnyMem
	}
	return false
}

// Names returns the names that may stand in the operand's place, by their
// number, for SpecialRef and ScopeRef.
func (o Operand) Names() []string {
	switch o.Kind {
	case SpecialRef:
		return specialNames[:]
	case ScopeRef:
		return scopeNames[:]
	}
	return nil
}

// Mnemonic returns the row's name in text form, without suffixes.
func (r *Row) Mnemonic() string { return strings.ToLower(r.Name) }

// mnemonicOps finds the instruction of a mnemonic without suffixes.
var mnemonicOps = sync.OnceValue(func() map[string]Op {
	m := make(map[string]Op, NumOps)
	for op := NoOp + 1; op < NumOps; op++ {
		m[table[op].Mnemonic()] = op
	}
	return m
})

// allMnemonics lists the mnemonics without suffixes in the table's order.
func allMnemonics() []string {
	var names []string
	for op := NoOp + 1; op < NumOps; op++ {
		names = append(names, table[op].Mnemonic())
	}
	return names
}

// Signature writes the row as its instructions are written, with T, FROM and
// COND for the suffixes: "set.COND.T pdst, a, b", "ldc.T dst, table[index]",
// "bra label [, pred]".
func (r *Row) Signature() string {
	var b strings.Builder
	b.WriteString(r.Mnemonic())
	if r.HasCond {
		b.WriteString(".COND")
	}
	if r.Types != 0 {
		b.WriteString(".T")
	}
	if r.From != 0 {
		b.WriteString(".FROM")
	}
	for i, o := range r.Operands {
		inBrackets := i > 0 && r.Operands[i-1].Kind == DataRef
		switch {
		case inBrackets:
			b.WriteString("[" + o.Name + "]")
		case o.Optional:
			b.WriteString(" [, " + o.Name + "]")
		case i == 0:
			b.WriteString(" " + o.Name)
		default:
			b.WriteString(", " + o.Name)
		}
	}
	return b.String()
}

// Typed writes the mnemonic with the suffixes of form f, such as cvt.f32.i16.
func (r *Row) Typed(f Form) string {
	s := r.Mnemonic()
	if r.HasCond {
		s += "." + f.Cond.String()
	}
	if r.Types != 0 {
		s += "." + f.Type.String()
	}
	if r.From != 0 {
		s += "." + f.From.String()
	}
	return s
}

// formError says which suffix of a mnemonic is wrong: 0 for the condition, 1
// for the type, 2 for the source type.
type formError struct {
	part      int
	msg, hint string
}

// checkForm returns what is wrong with form f for the row, or nil.
func (r *Row) checkForm(f Form) *formError {
	// This runs for every instruction that is read or verified, and almost
	// always finds nothing: words are made only for an error.
	set := func(t Type, s TypeSet) string {
		if s == 0 && t != NoType {
			return fmt.Sprintf("%s has no type %v", r.Mnemonic(), t)
		}
		if s != 0 && !s.Has(t) {
			return fmt.Sprintf("%s has no form for type %v", r.Mnemonic(), t)
		}
		return ""
	}
	if (f.Cond != NoCond) != r.HasCond || f.Cond > GEU {
		return &formError{0, fmt.Sprintf("%s with condition %q", r.Mnemonic(), f.Cond), r.hintCond()}
	}
	if msg := set(f.Type, r.Types); msg != "" {
		return &formError{1, msg, r.hintTypes(r.Types)}
	}
	if msg := set(f.From, r.From); msg != "" {
		return &formError{2, msg, r.hintTypes(r.From)}
	}
	if f.Cond.UnsignedOnly() && !f.Type.Unsigned() {
		return &formError{0, fmt.Sprintf("condition %v does not go with %v", f.Cond, f.Type),
			fmt.Sprintf("it is for %v; write %v", SetUnsigned, f.Cond.Signed())}
	}
	return nil
}

func (r *Row) hintTypes(s TypeSet) string {
	if s == 0 {
		return "it is written " + r.Signature()
	}
	return fmt.Sprintf("types of %s: %v", r.Signature(), s)
}

func (r *Row) hintCond() string {
	if !r.HasCond {
		return "it is written " + r.Signature()
	}
	return "the conditions are " + strings.Join(condNames[1:], " ")
}
