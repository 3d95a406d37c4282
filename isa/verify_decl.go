package isa

import "fmt"

// checkDeclarations checks all but the instructions.
func (v *verifier) checkDeclarations() error {
	for _, check := range []func() error{v.checkLimits, v.checkNames, v.checkTypes, v.checkBlock} {
		if err := check(); err != nil {
			return err
		}
	}
	for _, l := range v.p.Labels {
		if l.At < 0 || l.At > len(v.p.Insts) {
			return v.failf("label", -1, "label %s stands before instruction %d of %d", l.Name, l.At, len(v.p.Insts))
		}
	}
	return nil
}

func (v *verifier) checkLimits() error {
	p := v.p
	for _, l := range []struct {
		what       string
		count, max int
	}{
		{"instructions", len(p.Insts), MaxInsts},
		{"labels", len(p.Labels), MaxInsts},
		{"slots", len(p.Slots), MaxSlots},
		{"parameters", len(p.Params), MaxParams},
		{"tables", len(p.Data), MaxTables},
	} {
		if l.count > l.max {
			return v.failf("limit", -1, "%d %s, at most %d are allowed", l.count, l.what, l.max)
		}
	}
	bytes := 0
	for _, d := range p.Data {
		// Limited before the multiplication, whose other factor is at most 8.
		if len(d.Values) > MaxDataBytes {
			bytes = len(d.Values)
			break
		}
		size := 1
		if d.Type.Numeric() {
			size = d.Type.Size()
		}
		bytes += size * len(d.Values)
	}
	if bytes > MaxDataBytes {
		return v.failf("limit", -1, "the tables hold more than %d bytes", MaxDataBytes)
	}
	if p.Shared > MaxSharedBytes {
		return v.failf("limit", -1, "%d bytes of shared memory, at most %d are allowed", p.Shared, MaxSharedBytes)
	}
	return nil
}

func (v *verifier) checkNames() error {
	p := v.p
	if p.Name != "" {
		if why := badName(p.Name); why != "" {
			return v.failf("name", -1, "the program's name %q %s", shorten(p.Name), why)
		}
	}
	// Slots, parameters and tables share one set of names: a launch gives its
	// arguments by name.
	globals := map[string]string{}
	for _, kind := range []struct {
		what string
		n    int
		name func(i int) string
		seen map[string]string   // the kind that has the name
		bad  func(string) string // what else may be wrong
	}{
		{"slot", len(p.Slots), func(i int) string { return p.Slots[i].Name }, globals, isReserved},
		{"parameter", len(p.Params), func(i int) string { return p.Params[i].Name }, globals, isReserved},
		{"table", len(p.Data), func(i int) string { return p.Data[i].Name }, globals, isReserved},
		{"label", len(p.Labels), func(i int) string { return p.Labels[i].Name }, map[string]string{}, nil},
		{"register", NumRegisters, func(i int) string { return p.Debug.Regs[i] }, map[string]string{}, notRegisterName},
		{"predicate", NumPredicates, func(i int) string { return p.Debug.Preds[i] }, map[string]string{}, notRegisterName},
	} {
		registers := kind.what == "register" || kind.what == "predicate"
		for i := range kind.n {
			name := kind.name(i)
			if registers && name == "" {
				continue
			}
			why := badName(name)
			if why == "" && kind.bad != nil {
				why = kind.bad(name)
			}
			if why != "" {
				return v.failf("name", -1, "%s name %q %s", kind.what, shorten(name), why)
			}
			if other, ok := kind.seen[name]; ok {
				return v.failf("name", -1, "%s is the name of a %s and of a %s", shorten(name), other, kind.what)
			}
			kind.seen[name] = kind.what
		}
	}
	return nil
}

// isReserved says why a name is reserved, or nothing.
func isReserved(name string) string {
	if why, ok := reservedNames[name]; ok {
		return "is reserved: " + why
	}
	return ""
}

// badName says what is wrong with a name, or nothing.
func badName(s string) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > MaxNameLen {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), MaxNameLen)
	}
	for i := range len(s) {
		if !isNameByte(s[i]) || i == 0 && !isNameStart(s[i]) {
			return "is not an identifier: a letter or _, then letters, digits, _, . or $"
		}
	}
	return ""
}

func (v *verifier) checkTypes() error {
	p := v.p
	numeric := func(what, name string, t Type) error {
		if t.Numeric() {
			return nil
		}
		return v.failf("decl", -1, "%s %s has type %v, a numeric type is needed", what, name, t)
	}
	for _, s := range p.Slots {
		if err := numeric("slot", s.Name, s.Type); err != nil {
			return err
		}
		if s.Name == BoundarySlot && s.Type != U8 {
			return v.failf("decl", -1, "slot %s has type %v, it must be u8", s.Name, s.Type)
		}
	}
	for _, s := range p.Params {
		if err := numeric("parameter", s.Name, s.Type); err != nil {
			return err
		}
	}
	for _, d := range p.Data {
		if err := numeric("table", d.Name, d.Type); err != nil {
			return err
		}
		for i, cell := range d.Values {
			if cell&^d.Type.Mask() != 0 {
				return v.failf("decl", -1, "table %s: value %d is %#x, which does not fit %v", d.Name, i, cell, d.Type)
			}
		}
	}
	return nil
}

func (v *verifier) checkBlock() error {
	b := v.p.Block
	if b == [3]uint32{} {
		return nil
	}
	lanes := uint64(1)
	for _, n := range b {
		// Each factor is limited, so that the product cannot wrap.
		if n == 0 || n > MaxBlockLanes {
			lanes = 0
			break
		}
		lanes *= uint64(n)
	}
	if lanes == 0 || lanes > MaxBlockLanes {
		return v.failf("block", -1, "block shape %d×%d×%d, it must be positive with at most %d lanes", b[0], b[1], b[2], MaxBlockLanes)
	}
	return nil
}
