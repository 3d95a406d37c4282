package isa

import "fmt"

// registerField is the field of an argument that holds a register's number.
type registerField uint8

const (
	placeReg    registerField = iota // Arg.Reg, or Addr.Reg of an address
	placeHandle                      // Addr.Handle
)

// registerPlace is where an instruction names a register.
type registerPlace struct {
	inst  int32
	arg   uint8
	field registerField
}

// registerNames gives numbers to the named registers, or predicates, of a program.
type registerNames struct {
	kind   string // "register", "predicate"
	prefix byte
	limit  int            // how many there are
	free   int            // numbers below may be given to names
	taken  []bool         // by a number in the text, a directive or a name
	names  map[string]int // index in named
	named  []namedRegister
	uses   []namedUse // of names without directive
}

// namedRegister is a name, where it stands first, and its number: -1 as long
// as that is not known.
type namedRegister struct {
	first  token
	number int
}

type namedUse struct {
	named int32
	place registerPlace
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

// use returns the number of the register that the token names. For a name
// whose number is not known yet it is 0, and the place is filled in later.
func (r *registerNames) use(t token, place registerPlace) (uint8, *failure) {
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
	r.uses = append(r.uses, namedUse{int32(i), place})
	return 0, nil
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

// resolveRegisters numbers the named registers and predicates, writes the
// numbers into the instructions and the names into the program.
func (a *assembler) resolveRegisters() {
	for _, r := range []*registerNames{&a.regs, &a.preds} {
		if err := r.resolve(); err != nil {
			a.report(err)
			continue
		}
		for _, u := range r.uses {
			if int(u.place.inst) >= len(a.p.Insts) {
				continue // its instruction had an error
			}
			arg := &a.p.Insts[u.place.inst].Args[u.place.arg]
			n := uint8(r.named[u.named].number)
			switch {
			case u.place.field == placeHandle:
				arg.Addr.Handle = n
			case arg.Kind == ArgAddr:
				arg.Addr.Reg = n
			default:
				arg.Reg = n
			}
		}
	}
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
