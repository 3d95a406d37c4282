package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Symbol is a number that forms are made of.
type Symbol struct {
	Kind    SymbolKind
	Special isa.Special // of SymSpecial
	Param   int         // of SymParam
	Loop    int         // of SymRound: index in Analysis.Loops
	Value   *ir.Value   // of SymValue
	Vary    Vary
	id      int // order of first appearance
}

// SymbolKind says what a Symbol stands for.
type SymbolKind uint8

// The kinds of symbols.
const (
	SymSpecial SymbolKind = iota // a special value: lane.x, block_dim.x, global_lane …
	SymParam                     // an integer parameter of the launch
	SymRound                     // the round of a loop, from 0
	SymValue                     // any other value
)

// String returns the symbol's name: "lane.x", "p3", "round0", "%17".
func (y *Symbol) String() string {
	switch y.Kind {
	case SymSpecial:
		return y.Special.String()
	case SymParam:
		return fmt.Sprintf("p%d", y.Param)
	case SymRound:
		return fmt.Sprintf("round%d", y.Loop)
	}
	return fmt.Sprintf("%%%d", y.Value.ID)
}

// Affine is a sum of terms. It is affine in each symbol that stands in terms
// alone or with symbols that do not vary as it does. Nil is 0.
type Affine []Term

// Term is Coef times the product of symbols, in the order of their first
// appearance, the same one perhaps twice.
type Term struct {
	Coef    int64
	Symbols []*Symbol
}

// Bounds on an Affine. What exceeds them becomes a symbol of its own.
const (
	maxAffineTerms = 16
	maxDegree      = 4
)

// Const returns the constant term.
func (a Affine) Const() int64 {
	if len(a) > 0 && len(a[0].Symbols) == 0 {
		return a[0].Coef
	}
	return 0
}

// isConst returns the number that a is, if it is one.
func (a Affine) isConst() (int64, bool) {
	return a.Const(), len(a) == 0 || len(a) == 1 && len(a[0].Symbols) == 0
}

// Vary says between which lanes a may differ.
func (a Affine) Vary() Vary {
	v := PerLaunch
	for _, t := range a {
		for _, y := range t.Symbols {
			v = max(v, y.Vary)
		}
	}
	return v
}

// Along returns what a grows by when the symbol of which is tells grows by
// one, all others staying; false if that depends on the symbol itself.
func (a Affine) Along(is func(*Symbol) bool) (step Affine, linear bool) {
	for _, t := range a {
		at := slices.IndexFunc(t.Symbols, is)
		if at < 0 {
			continue
		}
		rest := slices.Delete(slices.Clone(t.Symbols), at, at+1)
		if slices.ContainsFunc(rest, is) {
			return nil, false
		}
		step = append(step, Term{t.Coef, rest})
	}
	return normal(step), true
}

// alongSpecial is Along for a special value.
func (a Affine) alongSpecial(s isa.Special) (Affine, bool) {
	return a.Along(func(y *Symbol) bool { return y.Kind == SymSpecial && y.Special == s })
}

// AlongRound is Along for the rounds of a loop.
func (a Affine) AlongRound(loop int) (Affine, bool) {
	return a.Along(func(y *Symbol) bool { return y.Kind == SymRound && y.Loop == loop })
}

// AlongLanes returns what a grows by from a lane to the next in x, which is
// the next in the grid; false if it is not the same for all lanes of a block.
func (a Affine) AlongLanes() (Affine, bool) {
	for _, t := range a {
		for _, y := range t.Symbols {
			if y.Vary == PerLane && y.Kind != SymSpecial {
				return nil, false
			}
		}
	}
	x, okX := a.alongSpecial(isa.LaneX)
	g, okG := a.alongSpecial(isa.GlobalLane)
	if !okX || !okG || x.Vary() == PerLane || g.Vary() == PerLane {
		return nil, false
	}
	return normal(append(slices.Clone(x), g...)), true
}

// String writes a as a sum, such as "4·lane.x + 4·p1·round0 + 16".
func (a Affine) String() string {
	if len(a) == 0 {
		return "0"
	}
	var b strings.Builder
	for i, k := 0, 0; i < len(a); i++ {
		t := a[(i+1)%len(a)] // the constant last
		if len(a[0].Symbols) > 0 {
			t = a[i]
		}
		c := t.Coef
		switch {
		case k > 0 && c < 0:
			b.WriteString(" − ")
			c = -c
		case k > 0:
			b.WriteString(" + ")
		case c < 0:
			b.WriteString("−")
			c = -c
		}
		k++
		if c != 1 || len(t.Symbols) == 0 {
			fmt.Fprintf(&b, "%d", uint64(c))
			if len(t.Symbols) > 0 {
				b.WriteString("·")
			}
		}
		for j, y := range t.Symbols {
			if j > 0 {
				b.WriteString("·")
			}
			b.WriteString(y.String())
		}
	}
	return b.String()
}

// compare orders terms by degree, then by symbols.
func (t *Term) compare(u *Term) int {
	if d := len(t.Symbols) - len(u.Symbols); d != 0 {
		return d
	}
	for i, y := range t.Symbols {
		if d := y.id - u.Symbols[i].id; d != 0 {
			return d
		}
	}
	return 0
}

// normal sorts terms and adds up equal ones. Coefficients wrap, as addresses
// of 64 bits do.
func normal(a Affine) Affine {
	slices.SortFunc(a, func(t, u Term) int { return t.compare(&u) })
	out := a[:0]
	for _, t := range a {
		if n := len(out); n > 0 && out[n-1].compare(&t) == 0 {
			out[n-1].Coef += t.Coef
		} else {
			out = append(out, t)
		}
	}
	return slices.DeleteFunc(out, func(t Term) bool { return t.Coef == 0 })
}

// sum returns a + k·b; false if it has too many terms.
func sum(a Affine, k int64, b Affine) (Affine, bool) {
	out := append(make(Affine, 0, len(a)+len(b)), a...) // kept for each value: with no room to spare
	for _, t := range b {
		out = append(out, Term{k * t.Coef, t.Symbols})
	}
	out = normal(out)
	return out, len(out) <= maxAffineTerms
}

// product returns a · b; false if it has too many terms or a too high degree.
func product(a, b Affine) (Affine, bool) {
	if len(a)*len(b) > maxAffineTerms {
		return nil, false
	}
	var out Affine
	for _, t := range a {
		for _, u := range b {
			if len(t.Symbols)+len(u.Symbols) > maxDegree {
				return nil, false
			}
			y := append(slices.Clone(t.Symbols), u.Symbols...)
			slices.SortFunc(y, func(p, q *Symbol) int { return p.id - q.id })
			out = append(out, Term{t.Coef * u.Coef, y})
		}
	}
	return normal(out), true
}

// symbolic finds the Affine of every value on a tape: the second reading of
// the steps that a state runs with numbers. Where a step's value is made of
// its operands' forms, the step is marked merged, so that a state can tell
// whether that holds in a launch: whether nothing wrapped. A form is let go
// once no later step is made of it; those of accesses' offsets are kept.
type symbolic struct {
	t       *tape
	vary    []Vary
	forms   []Affine
	last    []int32 // by value: the last step that its form is for; never: none
	at      int32   // the step at hand
	found   affines
	special [isa.NumSpecials]*Symbol
	params  map[int]*Symbol
	count   int
}

const never = -1

// affines are the forms that an Analysis has.
type affines struct {
	loops   []Loop   // with Count and Inductions
	offsets []Affine // of the accesses that are checked and have a register part of the offset: of that part
}

// findAffines reads a tape, counted by m.
func findAffines(m *work.Meter, t *tape, vary []Vary) affines {
	s := &symbolic{t: t, vary: vary, forms: make([]Affine, len(t.values)), last: make([]int32, len(t.values)),
		found: affines{loops: make([]Loop, len(t.loops))}, params: map[int]*Symbol{}}
	s.findLast()
	for _, piece := range t.steps.pieces {
		m.Step(len(piece))
		for i := range piece {
			st := &piece[i]
			switch st.kind {
			case stepValue:
				if s.value(st); s.last[st.dst] == never {
					s.forms[st.dst] = nil
				}
			case stepLoop:
				s.loop(st)
			case stepMerge:
				s.opaque(st.dst)
			case stepEnd:
				s.results(t.loops[st.loop])
			case stepCheck:
				if st.node.Mem.HasOff {
					s.found.offsets = append(s.found.offsets, s.forms[offset(st)])
				}
			}
			s.uses(st, s.done)
			s.at++
		}
	}
	return s.found
}

// findLast finds out how long forms are needed.
func (s *symbolic) findLast() {
	for i := range s.last {
		s.last[i] = never
	}
	at := int32(0)
	use := func(i int32) { s.last[i] = max(s.last[i], at) }
	for _, piece := range s.t.steps.pieces {
		for i := range piece {
			s.uses(&piece[i], use)
			at++
		}
	}
}

// uses calls f for the values whose forms a step reads.
func (s *symbolic) uses(st *step, f func(i int32)) {
	switch st.kind {
	case stepValue:
		for _, i := range [...]int32{st.a, st.b, st.c} {
			if i >= 0 {
				f(i)
			}
		}
	case stepLoop:
		l := s.t.loops[st.loop]
		if l.count >= 0 {
			f(l.count)
		}
		for k := range l.params {
			p := &l.params[k]
			f(p.init)
			if p.step >= 0 {
				f(p.step)
			}
		}
	case stepCheck:
		if st.node.Mem.HasOff {
			f(offset(st))
		}
	}
}

// offset is the value that is the register part of an access's offset.
func offset(check *step) int32 {
	if check.node.Mem.Mode == isa.AddrIndirect {
		return check.b
	}
	return check.a
}

// done lets a form go after its last use.
func (s *symbolic) done(i int32) {
	if s.last[i] == s.at {
		s.forms[i] = nil
	}
}

func (s *symbolic) symbol(y Symbol) *Symbol {
	y.id = s.count
	s.count++
	return &y
}

func one(y *Symbol) Affine { return Affine{{1, []*Symbol{y}}} }

func number(c int64) Affine {
	if c == 0 {
		return nil
	}
	return Affine{{Coef: c}}
}

func (s *symbolic) opaque(i int32) {
	if s.last[i] == never {
		s.count++ // as if: numbers only tell which comes first
		return
	}
	v := s.t.values[i]
	s.forms[i] = one(s.symbol(Symbol{Kind: SymValue, Value: v, Vary: s.vary[v.ID]}))
}

func (s *symbolic) value(st *step) {
	n, i := st.node, st.dst
	v := s.t.values[i]
	if !v.Type.Integer() {
		s.opaque(i)
		return
	}
	if n.Op == ir.Const {
		c, _ := signedCell(v.Type, n.Imm)
		s.forms[i] = number(c)
		return
	}
	switch n.Op.Inst() {
	case isa.LDP:
		k := int(n.Imm)
		if s.params[k] == nil {
			s.params[k] = s.symbol(Symbol{Kind: SymParam, Param: k, Value: v})
		}
		s.forms[i] = one(s.params[k])
		return
	case isa.SREG:
		s.forms[i] = s.place(isa.Special(n.Imm), v)
		return
	}
	if follows(n) {
		if f, ok := s.follow(st); ok {
			s.forms[i] = f
			st.merged = true
			return
		}
	}
	s.opaque(i)
}

// place is the form of a special value: a number, if the program demands a
// block shape that says which.
func (s *symbolic) place(p isa.Special, v *ir.Value) Affine {
	if shape := s.t.f.Block; shape != [3]uint32{} {
		switch {
		case p <= isa.LaneZ && shape[p] == 1:
			return nil
		case p >= isa.BlockDimX && p <= isa.BlockDimZ:
			return number(int64(shape[p-isa.BlockDimX]))
		}
	}
	if s.special[p] == nil {
		s.special[p] = s.symbol(Symbol{Kind: SymSpecial, Special: p, Value: v, Vary: s.vary[v.ID]})
	}
	return one(s.special[p])
}

func (s *symbolic) follow(st *step) (Affine, bool) {
	n := st.node
	a := s.forms[st.a]
	var b Affine
	if st.b >= 0 {
		b = s.forms[st.b]
	}
	switch n.Op.Inst() {
	case isa.ADD:
		if st.b == wraps {
			b = number(st.back())
		}
		return sum(a, 1, b)
	case isa.MIN: // that keeps addresses from wrapping; see ir's builder
		if c, ok := n.Args[1].Const(); ok && n.Type == isa.U64 && c == math.MaxInt64 {
			return a, true
		}
	case isa.SUB:
		return sum(a, -1, b)
	case isa.NEG:
		return sum(nil, -1, a)
	case isa.MUL:
		return product(a, b)
	case isa.SHL:
		k, ok := b.isConst()
		if !ok {
			return nil, false
		}
		return product(a, number(1<<(uint64(k)%uint64(n.Type.Bits()))))
	case isa.CVT, isa.BITCAST:
		return a, true
	}
	return nil, false
}

// loop gives parameters that grow by the same in each round their form.
func (s *symbolic) loop(st *step) {
	l := s.t.loops[st.loop]
	out := &s.found.loops[st.loop]
	if l.count >= 0 {
		out.Count = s.forms[l.count]
	}
	vary := PerLaunch
	var round *Symbol
	for k := range l.params {
		p := &l.params[k]
		if p.step >= 0 || p.back != 0 {
			if round == nil {
				round = s.symbol(Symbol{Kind: SymRound, Loop: int(st.loop), Vary: vary})
			}
			if by, ok := product(s.step(p), one(round)); ok {
				sign := int64(1)
				if p.minus {
					sign = -1
				}
				if f, ok := sum(s.forms[p.init], sign, by); ok {
					s.forms[p.value], p.merged = f, true
					step := s.step(p)
					if p.minus {
						step, _ = sum(nil, -1, step)
					}
					out.Inductions = append(out.Inductions, Induction{int(p.index), s.forms[p.init], step})
					continue
				}
			}
		}
		s.opaque(p.value)
	}
}

// step is what each round adds to (subtracts from, if p.minus) a parameter.
func (s *symbolic) step(p *tapeParam) Affine {
	if p.back != 0 {
		return number(p.back)
	}
	return s.forms[p.step]
}

func (s *symbolic) results(l *tapeLoop) {
	for k := range l.params {
		if r := l.params[k].result; r >= 0 {
			s.opaque(r)
		}
	}
}
