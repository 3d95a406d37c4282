package jit

import (
	"math"
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// A function ends with what it gives for special arguments: choices, one after the other,
// by comparisons of the argument with 0 and infinities, of which each takes two
// instructions. AVX-512 has one for all of them, which looks up by an argument's kind what
// comes in the result's place. It makes quiet NaNs of others.

// special is a chain of such choices.
type special struct {
	x     *ir.Value // the argument
	other *ir.Value // what is chosen where it is none of them
	table uint64    // four bits for each kind of argument, the first lowest
}

// kinds are an argument of each kind, in the order of the table's: all of a kind compare
// alike with 0 and infinities.
var kinds = [...]float64{math.NaN(), math.NaN(), 0, 1, math.Inf(-1), math.Inf(1), -2, 2}

// What comes in the result's place: it stays, or the argument does, a NaN as a quiet one,
// or a number does.
const (
	staysResult   = 0
	staysArgument = 1
	staysNaN      = 2
	becomesNaN    = 3
)

var becomes = map[uint64]uint64{
	math.Float64bits(math.Inf(-1)): 4, math.Float64bits(math.Inf(1)): 5, math.Float64bits(math.Copysign(0, -1)): 7,
	0: 8, math.Float64bits(-1): 9, math.Float64bits(1): 10, math.Float64bits(0.5): 11,
}

// findSpecials finds chains of two choices and more, all but the last of which nothing else
// uses. It looks at each choice a bounded number of times: one that a chain cannot go on
// with begins the next.
func (p *program) findSpecials(m *work.Meter) {
	f := &chains{p: p, m: m, uses: make([]int32, p.fn.NumValues), home: map[*ir.Node]*ir.Region{}}
	p.specials = map[*ir.Node]*special{}
	f.look(p.fn.Body)
	f.find(p.fn.Body)
}

// chains finds them.
type chains struct {
	p    *program
	m    *work.Meter
	uses []int32                 // by value ID
	home map[*ir.Node]*ir.Region // of choices
}

// look counts uses, and notes where choices stand.
func (f *chains) look(r *ir.Region) {
	f.m.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		for _, a := range n.Args {
			f.uses[a.ID]++
		}
		if n.Op == ir.Op(isa.SEL) {
			f.home[n] = r
		}
		for _, s := range n.Regions {
			f.look(s)
		}
	}
	for _, y := range r.Yield {
		f.uses[y.ID]++
	}
}

func (f *chains) find(r *ir.Region) {
	for _, n := range slices.Backward(r.Nodes) {
		if _, within := f.p.specials[n]; !within {
			f.chain(r, n)
		}
		for _, s := range n.Regions {
			f.find(s)
		}
	}
}

// chain finds the longest chain that ends with n.
func (f *chains) chain(r *ir.Region, n *ir.Node) {
	var s special
	var choices []*ir.Node
	for at := n; f.home[at] == r && at.Type == n.Type; at = s.other.Node {
		f.m.Step(1)
		if len(choices) > 0 && f.uses[s.other.ID] != 1 {
			break
		}
		x := argument(at)
		if x == nil || s.x != nil && x != s.x {
			break
		}
		other := otherwise(at, x)
		if other == nil {
			break
		}
		s.x, s.other = x, other
		choices = append(choices, at)
	}
	if len(choices) < 2 {
		return
	}
	f.m.Step(len(kinds) * len(choices))
	for i := range kinds {
		s.table |= s.gives(n, len(choices), i) << (4 * i)
	}
	for _, within := range choices[1:] {
		f.p.specials[within] = nil
	}
	f.p.specials[n] = &s
}

// otherwise is what a choice leaves in its place where it does not put what the table has,
// the argument x or one of the numbers; nil: it is none of a chain.
func otherwise(n *ir.Node, x *ir.Value) (other *ir.Value) {
	for _, v := range n.Args[1:] {
		if c, constant := number(n.Type, v); constant {
			if _, ok := becomes[math.Float64bits(c)]; !ok && !math.IsNaN(c) {
				return nil
			}
			continue
		}
		if v == x {
			continue
		}
		if other != nil {
			return nil
		}
		other = v
	}
	return other
}

// argument is what a choice between floats compares with 0 or an infinity; nil: it does not,
// or that is a constant too, as where passes are off.
func argument(n *ir.Node) *ir.Value {
	if n.Op != ir.Op(isa.SEL) || n.Type != isa.F32 && n.Type != isa.F64 {
		return nil
	}
	c := n.Args[0].Node
	if c == nil || c.Op != ir.Op(isa.SET) || c.Type != n.Type {
		return nil
	}
	for i, a := range c.Args {
		b, constant := number(c.Type, c.Args[1-i])
		if _, known := a.Const(); !known && constant && (b == 0 || math.IsInf(b, 0)) {
			return a
		}
	}
	return nil
}

// number is a constant's.
func number(t isa.Type, v *ir.Value) (x float64, ok bool) {
	c, ok := v.Const()
	if t == isa.F32 {
		return float64(math.Float32frombits(uint32(c))), ok
	}
	return math.Float64frombits(c), ok
}

// gives is what a chain of so many choices that ends with n puts in the place of a kind of
// argument's result.
func (s *special) gives(n *ir.Node, choices, kind int) uint64 {
	var v *ir.Value
	for at := n; choices > 0; choices-- {
		c := at.Args[0].Node
		a, b := kinds[kind], kinds[kind]
		if x, constant := number(c.Type, c.Args[0]); constant {
			a = x
		} else {
			b, _ = number(c.Type, c.Args[1])
		}
		if v = at.Args[2]; holds(c.Cond.Signed(), a, b) {
			v = at.Args[1]
		}
		if _, constant := v.Const(); constant || v == s.x || v == s.other {
			break
		}
		at = v.Node
	}
	switch x, constant := number(n.Type, v); {
	case constant && math.IsNaN(x):
		return becomesNaN
	case constant:
		return becomes[math.Float64bits(x)]
	case v == s.other:
		return staysResult
	case math.IsNaN(kinds[kind]):
		return staysNaN
	}
	return staysArgument
}

// holds compares floats.
func holds(c isa.Cond, a, b float64) bool {
	switch c {
	case isa.EQ:
		return a == b
	case isa.NE:
		return a != b
	case isa.LT:
		return a < b
	case isa.LE:
		return a <= b
	case isa.GT:
		return a > b
	}
	return a >= b
}

// specials is the result of a chain of choices that ends with n.
func (g *gen) specials(n *ir.Node, s *special) vreg {
	size := g.regSize(n.Type)
	d := g.newReg(classVec)
	g.add(inst{f: copyV.of(size), vl: g.vl(size), d: d, b: g.val(s.other)})
	g.add(inst{f: pair{x86.FixUpPS, x86.FixUpPD}.of(size), vl: g.vl(size), d: d, a: g.val(s.x), b: g.number(size, s.table), merge: true})
	return d
}
