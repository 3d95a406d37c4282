package ir

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

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
	work   *work.Meter
	off    map[string]bool
	packed bool
	after  func(pass string, f *Func)
}

// Without switches passes off by name. The program still means the same.
func Without(names ...string) Option {
	return func(o *options) {
		for _, n := range names {
			o.off[n] = true
		}
	}
}

// Metered lets m count the work, and stop it; the error is then m's.
func Metered(m *work.Meter) Option {
	return func(o *options) { o.work = m }
}

// Packed makes the form for launches of which it is known that the views of slots
// accessed as slot[flat i] are packed, and that the views have all elements that
// lanes ask for. It is the form of the program that addresses bytes instead, which
// engines know best.
func Packed() Option {
	return func(o *options) { o.packed = true }
}

// After calls f after each pass, for tests.
func After(f func(pass string, f *Func)) Option {
	return func(o *options) { o.after = f }
}

// Srcs leads from a Func's sites to the instructions of one program that has
// this canonical form: the index in Func.Sites to the index in Program.Insts.
type Srcs []int

// Canonical brings a verified program into canonical form.
func Canonical(v *isa.Verified, opts ...Option) (f *Func, srcs Srcs, err error) {
	defer work.Catch(&err)
	o := options{off: map[string]bool{}}
	for _, opt := range opts {
		opt(&o)
	}
	f, err = build(o.work, v, o.packed)
	if err != nil {
		return nil, nil, err
	}
	o.repeat(f)
	o.once(f)
	renumber(f)
	f.work = nil
	srcs = make(Srcs, len(f.Sites))
	for i, n := range f.Sites {
		srcs[i] = int(n.Src)
	}
	return f, srcs, nil
}

// repeat runs the passes that are repeated, until each has found nothing to do
// since the last that did.
func (o *options) repeat(f *Func) {
	idle := 0
	for range maxRounds {
		for i := range Passes {
			switch p := &Passes[i]; {
			case !p.Again:
			case o.run(f, p):
				idle = 0
			default:
				if idle++; idle == repeated {
					return
				}
			}
		}
	}
}

// repeated is how many passes are.
var repeated = func() (n int) {
	for i := range Passes {
		if Passes[i].Again {
			n++
		}
	}
	return n
}()

// once runs the others.
func (o *options) once(f *Func) {
	for i := range Passes {
		if !Passes[i].Again {
			o.run(f, &Passes[i])
		}
	}
}

// run runs a pass, if it is not switched off.
func (o *options) run(f *Func, p *Pass) (changed bool) {
	if o.off[p.Name] {
		return false
	}
	changed = p.run(f)
	if o.after != nil {
		o.after(p.Name, f)
	}
	return changed
}
