package ir

import "github.com/hologram-project/hologram/isa"

// Pass is one step to the canonical form. It reports whether it changed f.
type Pass struct {
	Name string
	Doc  string
	Run  func(f *Func) bool
}

// Passes is the way from what Build makes to the canonical form, in order.
var Passes = []Pass{}

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
	for _, p := range Passes {
		if o.off[p.Name] {
			continue
		}
		p.Run(f)
		if o.after != nil {
			o.after(p.Name, f)
		}
	}
	renumber(f)
	srcs := make(Srcs, len(f.Sites))
	for i, n := range f.Sites {
		srcs[i] = n.Src
	}
	return f, srcs, nil
}
