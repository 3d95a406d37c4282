package isa

import "fmt"

// unnumbered says which of an instruction's arguments hold, in place of a
// register's number, that of a name which has none yet: bit i is for Args[i].Reg,
// handleBit for the Handle that there is.
type unnumbered uint8

const handleBit = unnumbered(1) << MaxOperands

// registerNames gives numbers to the named registers, or predicates, of a program.
type registerNames struct {
	kind   string // "register", "predicate"
	prefix byte
	limit  int            // how many there are
	free   int            // numbers below may be given to names
	taken  []bool         // by a number in the text, a directive or a name
	names  map[string]int // index in named
	named  []namedRegister
}

// namedRegister is a name, where it stands first, and its number: -1 as long
// as that is not known.
type namedRegister struct {
	first  token
	number int
}

func (r *registerNames) init(kind string, prefix byte, limit, free int) {
	*r = registerNames{kind: kind, prefix: prefix, limit: limit, free: free,
		taken: make([]bool, limit), names: map[string]int{}}
}

// number returns the number that the token spells, or -1 for a name.
func (r *registerNames) number(t token) (int, *failure) {
	n, ok := numberedName(t.text, r.prefix, r.limit)
	if ok && n < 0 {
		return 0, fail(t, fmt.Sprintf("%ss go from %c0 to %c%d", r.kind, r.prefix, r.prefix, r.limit-1), "no %s is called %s", r.kind, t.describe())
	}
	if ok {
		return n, nil
	}
	if _, other := numberedName(t.text, 'r'+'p'-r.prefix, 1); other {
		return 0, fail(t, fmt.Sprintf("%ss are %c0 … %c%d and names", r.kind, r.prefix, r.prefix, r.limit-1),
			"%s is not a %s", t.describe(), r.kind)
	}
	if why, ok := reservedNames[t.text]; ok {
		return 0, fail(t, why, "%s cannot name a %s", t.text, r.kind)
	}
	return -1, checkNameLength(t)
}

// use returns the number of the register that the token names. For a name that
// has none yet it is the name's own, and bit is set in open. (What a uint8 does
// not hold is more names than there are registers, which resolve refuses.)
func (r *registerNames) use(t token, open *unnumbered, bit unnumbered) (uint8, *failure) {
	n, err := r.number(t)
	if err != nil {
		return 0, err
	}
	if n >= 0 {
		r.taken[n] = true
		return uint8(n), nil
	}
	i, ok := r.names[t.text]
	if !ok {
		i = r.add(t, -1)
	}
	if n := r.named[i].number; n >= 0 {
		return uint8(n), nil
	}
	*open |= bit
	return uint8(i), nil
}

func (r *registerNames) add(t token, number int) int {
	i := len(r.named)
	r.names[t.text] = i
	r.named = append(r.named, namedRegister{t, number})
	return i
}

// directive reads NAME rN.
func (r *registerNames) directive(a *assembler) *failure {
	name, err := a.expect(tokName, "a name", "")
	if err != nil {
		return err
	}
	n, err := r.number(name)
	if err != nil {
		return err
	}
	if n >= 0 {
		return fail(name, "", "%s is a number, and a name is expected", name.text)
	}
	number, err := a.expect(tokName, fmt.Sprintf("%c0 … %c%d", r.prefix, r.prefix, r.limit-1), "")
	if err != nil {
		return err
	}
	if n, err = r.number(number); err != nil {
		return err
	}
	if n < 0 {
		return fail(number, fmt.Sprintf("%ss go from %c0 to %c%d", r.kind, r.prefix, r.prefix, r.limit-1),
			"%s is not the number of a %s", number.describe(), r.kind)
	}
	if _, ok := r.names[name.text]; ok {
		return fail(name, "", "%s %s is named twice", r.kind, name.text)
	}
	if r.taken[n] {
		return fail(number, "", "%s has a name already", number.text)
	}
	r.add(name, n)
	r.taken[n] = true
	return nil
}

// resolve numbers the names that have none and returns the first one for
// which none is left.
func (r *registerNames) resolve() *failure {
	next := 0
	for i := range r.named {
		if r.named[i].number >= 0 {
			continue
		}
		t := r.named[i].first
		for next < r.free && r.taken[next] {
			next++
		}
		if next == r.free {
			return fail(t, fmt.Sprintf("a program has %d %ss for names", r.free, r.kind), "no %s is left for %s", r.kind, t.text)
		}
		r.named[i].number = next
		r.taken[next] = true
	}
	return nil
}

// numberOf is the number that name i has come to have.
func (r *registerNames) numberOf(i uint8) uint8 { return uint8(r.named[i].number) }

// resolveRegisters numbers the named registers and predicates, writes the
// numbers into the instructions and the names into the program.
func (a *assembler) resolveRegisters() {
	for _, r := range []*registerNames{&a.regs, &a.preds} {
		if err := r.resolve(); err != nil {
			a.report(err)
		}
	}
	if len(a.errs) > 0 {
		return
	}
	for i, open := range a.opened {
		for k := 0; open != 0 && k < MaxOperands; k++ {
			arg, named := &a.p.Insts[i].Args[k], open>>k&1 != 0
			if arg.Kind == ArgAddr && open&handleBit != 0 {
				arg.Handle = a.regs.numberOf(arg.Handle)
			}
			switch {
			case named && arg.Kind == ArgPred:
				arg.Reg = a.preds.numberOf(arg.Reg)
			case named:
				arg.Reg = a.regs.numberOf(arg.Reg)
			}
		}
	}
	a.opened = nil
	for _, n := range a.regs.named {
		if n.number >= 0 {
			a.p.Debug.Regs[n.number] = n.first.text
		}
	}
	for _, n := range a.preds.named {
		if n.number >= 0 {
			a.p.Debug.Preds[n.number] = n.first.text
		}
	}
}
