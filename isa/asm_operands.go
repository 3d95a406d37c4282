package isa

import (
	"fmt"
	"slices"
	"strings"
)

// operand reads operand i of the instruction, of which the ones before are
// known.
func (a *assembler) operand(row *Row, in *Inst, i int) (Arg, *failure) {
	o := row.Operands[i]
	t := o.Holds(in.Form)
	switch o.Kind {
	case Mem, SharedMem, AnyMem:
		return a.address(row, o, i)
	case LabelRef:
		name, err := a.expect(tokName, "a label", "a label is a name")
		if err == nil {
			a.labelUses = append(a.labelUses, labelUse{int32(len(a.p.Insts)), int32(i), name})
		}
		return Arg{Kind: ArgLabel}, err
	case ParamRef:
		at, err := a.globalUse("parameter")
		return Arg{Kind: ArgParam, Bits: uint64(at)}, err
	case DataRef:
		at, err := a.globalUse("table")
		return Arg{Kind: ArgData, Bits: uint64(at)}, err
	case SpecialRef, ScopeRef:
		return a.namedValue(o)
	}
	if o.Accepts(ArgImm, in.Form) && a.atImmediate(t) {
		bits, err := a.immediate(t)
		return Arg{Kind: ArgImm, Bits: bits}, err
	}
	if o.Kind == Imm {
		return Arg{}, fail(a.tok, "it is written "+row.Signature(), "operand %s of %s is an immediate %v, found %s",
			o.Name, row.Typed(in.Form), t, a.tok.describe())
	}
	if t == Pred {
		return a.predicate(row, o, i)
	}
	return a.register(row, o, in.Form, i)
}

func (a *assembler) register(row *Row, o Operand, f Form, i int) (Arg, *failure) {
	if a.tok.kind != tokName {
		return Arg{}, fail(a.tok, "it is written "+row.Signature(), "operand %s of %s is a register%s, found %s",
			o.Name, row.Typed(f), orImmediate(o), a.tok.describe())
	}
	name := a.tok
	a.advance()
	if a.tok.kind == '[' {
		return Arg{}, fail(name, a.accessed(name.text, o, f), "operand %s of %s is a register%s, found the address %s[…]",
			o.Name, row.Typed(f), orImmediate(o), name.text)
	}
	reg, err := a.regs.use(name, &a.open, 1<<i)
	return Arg{Kind: ArgReg, Reg: reg}, err
}

// accessed tells who wrote an address in the place of operand o how memory, or
// a table, is accessed.
func (a *assembler) accessed(name string, o Operand, f Form) string {
	t, load, store := o.Holds(f), "ldg", "stg"
	switch g := a.globals[name]; {
	case g.kind == "slot" && g.at < len(a.p.Slots): // else its declaration was wrong
		t = a.p.Slots[g.at].Type
	case g.kind == "table" && g.at < len(a.p.Data):
		t, load = a.p.Data[g.at].Type, "ldc"
	case name == "shared":
		load, store = "lds", "sts"
	}
	if o.Kind == Dst {
		return fmt.Sprintf("%s.%v stores a register there: %[1]s.%[2]v x, %[3]s[…]", store, t, name)
	}
	return fmt.Sprintf("%s.%v loads it into a register first: %[1]s.%[2]v x, %[3]s[…]", load, t, name)
}

func orImmediate(o Operand) string {
	if o.Kind == Src {
		return " or an immediate"
	}
	return ""
}

func (a *assembler) predicate(row *Row, o Operand, i int) (Arg, *failure) {
	bang := a.tok
	not := a.accept('!')
	if not && (o.Kind == PredDst || o.Kind == Dst) {
		return Arg{}, fail(bang, "negate it where it is read", "operand %s is a predicate that is written, it cannot be negated", o.Name)
	}
	if a.tok.kind != tokName {
		return Arg{}, fail(a.tok, "it is written "+row.Signature(), "operand %s of %s is a predicate, found %s",
			o.Name, row.Mnemonic(), a.tok.describe())
	}
	reg, err := a.preds.use(a.tok, &a.open, 1<<i)
	a.advance()
	return Arg{Kind: ArgPred, Not: not, Reg: reg}, err
}

// atImmediate reports whether an immediate of type t begins here.
func (a *assembler) atImmediate(t Type) bool {
	switch a.tok.kind {
	case tokNumber, '-':
		return true
	case tokName:
		switch a.tok.text {
		case "true", "false", "inf", "nan":
			return true
		}
	}
	return false
}

// immediate reads an immediate of type t.
func (a *assembler) immediate(t Type) (uint64, *failure) {
	first := a.tok
	negative := a.accept('-')
	number := a.tok
	if number.kind != tokNumber && number.kind != tokName {
		return 0, fail(number, "", "expected an immediate %v, found %s", t, number.describe())
	}
	a.advance()
	text := number.text
	if text == "nan" && a.accept('(') {
		payload, err := a.expect(tokNumber, "the bits of a NaN", "")
		if err == nil {
			_, err = a.expect(')', ")", "")
		}
		if err != nil {
			return 0, err
		}
		text = "nan(" + payload.text + ")"
	}
	bits, bad := parseImmediate(t, negative, text)
	if bad != nil {
		end := number.col + len(number.text)
		return 0, fail(token{number.kind, a.at(first.line)[first.col:end], first.line, first.col}, bad.hint, "%s", bad.msg)
	}
	return bits, nil
}

// namedValue reads the name of a special value or a scope.
func (a *assembler) namedValue(o Operand) (Arg, *failure) {
	names := o.Names()
	list := "one of " + strings.Join(names, " ")
	t, err := a.expect(tokName, "a "+o.Name, list)
	if err != nil {
		return Arg{}, err
	}
	for i, n := range names {
		if n == t.text {
			return Arg{Kind: ArgName, Bits: uint64(i)}, nil
		}
	}
	return Arg{}, fail(t, didYouMean(t.text, names, list), "no %s is called %s", o.Name, t.text)
}

// globalUse reads the name of a slot, parameter or table and returns its number.
func (a *assembler) globalUse(kind string) (int, *failure) {
	t, err := a.expect(tokName, "a "+kind, "")
	if err != nil {
		return 0, err
	}
	g, ok := a.globals[t.text]
	if ok && g.kind == kind {
		return g.at, nil
	}
	if ok {
		reader := map[string]string{"slot": "ldg and stg access it", "parameter": "ldp reads it", "table": "ldc reads it"}[g.kind]
		return 0, fail(t, reader, "%s is a %s, and a %s is expected", t.text, g.kind, kind)
	}
	if a.reported[t.text] {
		return 0, nil // once is enough; the program is refused anyway
	}
	a.reported[t.text] = true
	hint := "declare it before the first instruction: " +
		map[string]string{"slot": "slot NAME TYPE", "parameter": "param NAME TYPE", "table": "data NAME TYPE { … }"}[kind]
	var names []string
	for n, g := range a.globals {
		if g.kind == kind {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return 0, fail(t, didYouMean(t.text, names, listOr(kind, names, hint)), "no %s is called %s", kind, t.text)
}

// listOr lists the names that there are, if that is short, else gives the hint.
func listOr(kind string, names []string, hint string) string {
	if list := strings.Join(names, " "); list != "" && len(list) < maxQuoted {
		return fmt.Sprintf("the %ss are %s", kind, list)
	}
	return hint
}

// address reads a memory operand.
func (a *assembler) address(row *Row, o Operand, i int) (Arg, *failure) {
	first := a.tok
	arg := Arg{Kind: ArgAddr}
	var err *failure
	switch {
	case a.accept('@'):
		var h token
		arg.Mode = AddrIndirect
		h, err = a.expect(tokName, "the register that holds the slot's number", "an indirect address is written @handle[offset]")
		if err == nil {
			arg.Handle, err = a.regs.use(h, &a.open, handleBit)
		}
	case first.kind != tokName:
		return arg, fail(first, "addresses are written "+addressForms(o), "operand %s of %s is an address, found %s", o.Name, row.Mnemonic(), first.describe())
	case first.text == "phi":
		arg.Mode = AddrPhi
		err = a.phi(&arg)
	case first.text == "shared":
		a.advance()
		arg.Mode = AddrShared
	default:
		var slot int
		arg.Mode = AddrByte
		slot, err = a.globalUse("slot")
		arg.Slot = uint16(slot)
	}
	if err != nil {
		return arg, err
	}
	if !o.AcceptsMode(arg.Mode) {
		return arg, fail(first, "addresses are written "+addressForms(o), "%s cannot access %s", row.Mnemonic(), first.describe())
	}
	if arg.Mode == AddrPhi {
		return arg, nil
	}
	if !a.accept('[') {
		return arg, fail(a.tok, "addresses are written "+addressForms(o), "expected [, found %s", a.tok.describe())
	}
	if err = a.inBrackets(&arg, i); err != nil {
		return arg, err
	}
	if !a.accept(']') {
		return arg, fail(a.tok, "addresses are written "+addressForms(o), "expected ], found %s", a.tok.describe())
	}
	return arg, nil
}

// addressForms shows the addresses that may stand in the operand's place.
func addressForms(o Operand) string {
	var forms []string
	if o.AcceptsMode(AddrByte) {
		forms = append(forms, "slot[index]", "slot[reg + 16]", "slot[flat reg + 1]", "@reg[reg + 16]", "phi(class, page, byte)")
	}
	if o.AcceptsMode(AddrShared) {
		forms = append(forms, "shared[reg + 16]")
	}
	return strings.Join(forms, ", ")
}

// flatWord counts elements in an address: slot[flat i]. It is a word only before
// a register or a number, and a name like others elsewhere.
const flatWord = "flat"

// inBrackets reads what stands in an address' brackets.
func (a *assembler) inBrackets(addr *Arg, i int) *failure {
	if a.tok.kind != tokName {
		return a.constant(addr)
	}
	first := a.tok
	a.advance()
	switch {
	case first.text == "index" && addr.Mode == AddrByte:
		addr.Mode = AddrIndex
		return nil
	case first.text != flatWord || a.tok.kind != tokName && a.tok.kind != tokNumber:
		return a.offset(first, addr, i)
	case addr.Mode != AddrByte:
		return fail(first, "write bytes, or the slot's name", "[flat …] counts the elements of a slot that is named")
	}
	addr.Mode = AddrFlat
	if a.tok.kind == tokNumber {
		return a.constant(addr)
	}
	first = a.tok
	a.advance()
	return a.offset(first, addr, i)
}

const offsetForms = "an offset in bytes is written reg, 16, reg + 16 or reg - 16; elements are counted by slot[flat reg + 1]"

// offset reads "reg", "reg + number" or "reg - number", of which reg is read.
func (a *assembler) offset(name token, addr *Arg, i int) *failure {
	reg, err := a.regs.use(name, &a.open, 1<<i)
	if err != nil {
		return err
	}
	addr.HasReg, addr.Reg = true, reg
	switch a.tok.kind {
	case ']':
		return nil
	case '+', '-':
		a.accept('+')
		return a.constant(addr)
	}
	return fail(a.tok, offsetForms, "expected ], + or -, found %s", a.tok.describe())
}

// constant reads the number of an offset.
func (a *assembler) constant(addr *Arg) *failure {
	if a.tok.kind != tokNumber && a.tok.kind != '-' {
		what := "an offset in bytes"
		if addr.Mode == AddrFlat {
			what = "a number of elements"
		}
		return fail(a.tok, offsetForms, "expected %s, found %s", what, a.tok.describe())
	}
	offset, err := a.immediate(I64)
	addr.Bits = offset
	return err
}

// phi reads phi(class, page, byte).
func (a *assembler) phi(addr *Arg) *failure {
	at := a.tok
	a.advance()
	for i, part := range []struct {
		name         string
		limit, scale uint64
	}{{"class", NumClasses, ClassBytes}, {"page", PagesPerClass, PageBytes}, {"byte", PageBytes, 1}} {
		open := tokenKind(',')
		if i == 0 {
			open = '('
		}
		if _, err := a.expect(open, string(rune(open)), "a Φ-address is written phi(class, page, byte)"); err != nil {
			return err
		}
		t := a.tok
		if t.kind != tokNumber {
			return fail(t, "a Φ-address is static; bound_map computes one from registers", "expected the %s as a number, found %s", part.name, t.describe())
		}
		a.advance()
		v, bad := parseImmediate(U64, false, t.text)
		if bad != nil || v >= part.limit {
			return fail(t, fmt.Sprintf("the %s goes from 0 to %d", part.name, part.limit-1), "%s %s is out of range", part.name, t.describe())
		}
		addr.Bits += v * part.scale
	}
	if _, err := a.expect(')', ")", ""); err != nil {
		return err
	}
	g, ok := a.globals[BoundarySlot]
	switch {
	case !ok:
		if err := a.addGlobal(token{tokName, BoundarySlot, at.line, at.col}, "slot", len(a.p.Slots), MaxSlots); err != nil {
			return err
		}
		g = a.globals[BoundarySlot]
		a.p.Slots = append(a.p.Slots, Slot{BoundarySlot, U8})
	case g.kind != "slot" || a.p.Slots[g.at].Type != U8:
		return fail(at, "declare slot "+BoundarySlot+" u8", "phi refers to the slot %s, which is another thing here, see line %d", BoundarySlot, g.line)
	}
	addr.Slot = uint16(g.at)
	return nil
}
