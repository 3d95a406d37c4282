package isa

import "fmt"

// directives are the statements that stand before the instructions.
var directives map[string]func(*assembler, token) *failure

var directiveNames = []string{"program", "slot", "param", "data", "shared", "block", "reg", "pred"}

func init() {
	directives = map[string]func(*assembler, token) *failure{
		"program": (*assembler).programDirective,
		"slot":    (*assembler).slotDirective,
		"param":   (*assembler).paramDirective,
		"data":    (*assembler).dataDirective,
		"shared":  (*assembler).sharedDirective,
		"block":   (*assembler).blockDirective,
		"reg": func(a *assembler, _ token) *failure {
			return a.regs.directive(a)
		},
		"pred": func(a *assembler, _ token) *failure {
			return a.preds.directive(a)
		},
	}
}

func checkNameLength(t token) *failure {
	if len(t.text) > MaxNameLen {
		return fail(t, "", "name of %d characters; at most %d are allowed", len(t.text), MaxNameLen)
	}
	return nil
}

func (a *assembler) programDirective(d token) *failure {
	if a.anything {
		return fail(d, "", "program is the first statement, or there is none")
	}
	t, err := a.expect(tokName, "the program's name", "it is written program NAME")
	if err == nil {
		err = checkNameLength(t)
	}
	a.p.Name = t.text
	return err
}

// nameAndType reads NAME TYPE of a directive.
func (a *assembler) nameAndType(directive string) (name token, t Type, err *failure) {
	hint := fmt.Sprintf("it is written %s NAME TYPE; types: %v", directive, SetNumeric)
	if name, err = a.expect(tokName, "a name", hint); err != nil {
		return
	}
	word, err := a.expect(tokName, "a type", hint)
	if err != nil {
		return
	}
	t, _ = TypeNamed(word.text)
	if !t.Numeric() {
		err = fail(word, hint, "%s is not a type that a %s can have", word.describe(), directive)
	}
	return
}

// addGlobal makes name the number at of things of that kind.
func (a *assembler) addGlobal(name token, kind string, at, limit int) *failure {
	if err := checkNameLength(name); err != nil {
		return err
	}
	if why, ok := reservedNames[name.text]; ok {
		return fail(name, why, "%s cannot name a %s", name.text, kind)
	}
	if g, ok := a.globals[name.text]; ok {
		return fail(name, "slots, parameters and tables have different names", "%s is already a %s, see line %d", name.text, g.kind, g.line)
	}
	if at >= limit {
		return tooMany(name, limit, kind+"s")
	}
	a.globals[name.text] = global{kind, at, name.line}
	return nil
}

func (a *assembler) slotDirective(token) *failure {
	name, t, err := a.nameAndType("slot")
	if err == nil {
		err = a.addGlobal(name, "slot", len(a.p.Slots), MaxSlots)
	}
	if err == nil {
		a.p.Slots = append(a.p.Slots, Slot{name.text, t})
	}
	return err
}

func (a *assembler) paramDirective(token) *failure {
	name, t, err := a.nameAndType("param")
	if err == nil {
		err = a.addGlobal(name, "parameter", len(a.p.Params), MaxParams)
	}
	if err == nil {
		a.p.Params = append(a.p.Params, Param{name.text, t})
	}
	return err
}

func (a *assembler) dataDirective(token) *failure {
	name, t, err := a.nameAndType("data")
	if err == nil {
		err = a.addGlobal(name, "table", len(a.p.Data), MaxTables)
	}
	if err != nil {
		return err
	}
	const hint = "a table is written data NAME TYPE { value, value, … }"
	if _, err := a.expect('{', "{", hint); err != nil {
		return err
	}
	var values []uint64
	for {
		for a.accept(tokNewline) {
		}
		if a.accept('}') {
			break
		}
		if len(values) > 0 && a.tok.kind != tokEnd && !a.atImmediate(t) {
			return fail(a.tok, hint, "expected a value or }, found %s", a.tok.describe())
		}
		v, err := a.immediate(t)
		if err != nil {
			return err
		}
		if a.dataBytes += t.Size(); a.dataBytes > MaxDataBytes {
			return tooMany(name, MaxDataBytes, "bytes of tables")
		}
		values = append(values, v)
		for a.accept(tokNewline) {
		}
		if a.tok.kind != '}' {
			if _, err := a.expect(',', "a comma or }", hint); err != nil {
				return err
			}
		}
	}
	a.p.Data = append(a.p.Data, Data{name.text, t, values})
	return nil
}

// number reads a whole number from lo to hi.
func (a *assembler) number(what string, lo, hi uint64) (uint32, *failure) {
	t, err := a.expect(tokNumber, what, "")
	if err != nil {
		return 0, err
	}
	v, bad := parseImmediate(U64, false, t.text)
	if bad != nil || v < lo || v > hi {
		return 0, fail(t, "", "%s %s; it goes from %d to %d", what, t.describe(), lo, hi)
	}
	return uint32(v), nil
}

func (a *assembler) sharedDirective(d token) (err *failure) {
	if a.declared.shared != 0 {
		return fail(d, "", "shared is already declared in line %d", a.declared.shared)
	}
	a.declared.shared = d.line
	a.p.Shared, err = a.number("the size of shared memory in bytes", 0, MaxSharedBytes)
	return err
}

func (a *assembler) blockDirective(d token) (err *failure) {
	if a.declared.block != 0 {
		return fail(d, "", "block is already declared in line %d", a.declared.block)
	}
	a.declared.block = d.line
	shape := [3]uint32{1, 1, 1}
	lanes := uint64(1)
	for i := range shape {
		if i > 0 && a.tok.kind != tokNumber {
			break
		}
		at := a.tok
		if shape[i], err = a.number("the block's size in "+"xyz"[i:i+1], 1, MaxBlockLanes); err != nil {
			return err
		}
		if lanes *= uint64(shape[i]); lanes > MaxBlockLanes {
			return fail(at, "", "a block of %d lanes; at most %d are allowed", lanes, MaxBlockLanes)
		}
	}
	a.p.Block = shape
	return nil
}
