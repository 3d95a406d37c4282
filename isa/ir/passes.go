package ir

import "github.com/hologram-project/hologram/isa"

// Pass is one step to the canonical form.
type Pass struct {
	Name string
	Doc  string
	// Again marks the passes that may find more to do after one another: all
	// of them are repeated while one changes something, up to maxRounds times.
	Again bool

	run func(f *Func) (changed bool)
}

// Passes is the way from what Build makes to the canonical form, in order.
// (renumber, which finishes a Func, cannot be switched off.)
var Passes = []Pass{
	{"tail", "jumps become falling through, Blocks without jumps dissolve", true, tail},
	{"fold", "operations on constants become constants", true, fold},
	{"simplify", "identities that hold bit for bit", true, simplify},
	{"params", "what constructs carry for nothing goes", true, params},
	{"number", "equal computations become one", true, number},
	{"dead", "what nothing needs goes", true, dead},
	{"commute", "operands that may be exchanged are put in order", false, commute},
	{"order", "nodes, results and parameters are put in order", false, order},
}

// maxRounds bounds the repetition. Two or three rounds do for programs as
// people and generators write them; the bound keeps the worst case linear.
const maxRounds = 8

// Option changes what Canonical does.
type Option func(*options)

type options struct {
	off   map[string]bool
	after func(pass string, f *Func)
}

// Without switches passes off by name. The program still means the same.
func Without(names ...string) Option {
	return func(o *options) {
		for _, n := range names {
			o.off[n] = true
		}
	}
}

// After calls f after each pass, for tests.
func After(f func(pass string, f *Func)) Option {
	return func(o *options) { o.after = f }
}

// Srcs leads from a Func's sites to the instructions of one program that has
// this canonical form: the index in Func.Sites to the index in Program.Insts.
type Srcs []int

// Canonical brings a verified program into canonical form.
func Canonical(v *isa.Verified, opts ...Option) (*Func, Srcs, error) {
	o := options{off: map[string]bool{}}
	for _, opt := range opts {
		opt(&o)
	}
	f, err := build(v)
	if err != nil {
		return nil, nil, err
	}
	for round, changed := 0, true; changed && round < maxRounds; round++ {
		changed = o.run(f, true)
	}
	o.run(f, false)
	renumber(f)
	srcs := make(Srcs, len(f.Sites))
	for i, n := range f.Sites {
		srcs[i] = n.Src
	}
	return f, srcs, nil
}

// run runs the passes that are repeated, or the others, once.
func (o *options) run(f *Func, again bool) (changed bool) {
	for i := range Passes {
		p := &Passes[i]
		if o.off[p.Name] || p.Again != again {
			continue
		}
		if p.run(f) {
			changed = true
		}
		if o.after != nil {
			o.after(p.Name, f)
		}
	}
	return changed
}
