package contraction

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// rest is the program without the loop, whose result is taken from a place of the index space, or of the grid.
type rest struct {
	places  places
	program Program
	sites   []int
	err     error
}

// rests are those that launches asked for.
type rests struct {
	mu   sync.Mutex
	made atomic.Pointer[[]*rest]
}

// maxRests is how many ways to launch what is left a program has at most, of which all but two know places.
const maxRests = 6

// restFor returns what runs what is left of a launch, and has the launch be by rows if that does.
func (k *Kernel) restFor(p *product) *rest {
	if p.known.byRows {
		if r := k.rest(&p.known); r != nil && r.err == nil {
			return r
		}
	}
	p.known = places{byGrid: p.byGrid}
	return k.rest(&p.known)
}

// rest returns the program without the loop, made if it is the first time; nil if there are too many.
func (k *Kernel) rest(of *places) *rest {
	if r := k.rests.find(of); r != nil {
		return r
	}
	k.rests.mu.Lock()
	defer k.rests.mu.Unlock()
	if r := k.rests.find(of); r != nil {
		return r
	}
	var all []*rest
	if made := k.rests.made.Load(); made != nil {
		all = *made
	}
	if of.byRows && len(all) >= maxRests-2 {
		return nil
	}
	r := &rest{places: *of}
	put := ir.Instead{Loop: k.loop, Result: k.result, ByGrid: of.byGrid && !of.byRows}
	compile := k.compile[1]
	if of.byRows {
		put.Places, put.Reordered, compile = of.values(k.steps), of.byGrid, k.compile[0]
	}
	var f *ir.Func
	if f, r.sites, r.err = put.Put(nil, k.f); r.err == nil {
		r.program, r.err = compile(nil, f)
	}
	all = append(slices.Clone(all), r)
	k.rests.made.Store(&all)
	return r
}

func (s *rests) find(of *places) *rest {
	made := s.made.Load()
	if made == nil {
		return nil
	}
	for _, r := range *made {
		if r.places == *of {
			return r
		}
	}
	return nil
}

func (s *rests) release() {
	if made := s.made.Load(); made != nil {
		for _, r := range *made {
			if r.program != nil {
				r.program.Release()
			}
		}
	}
}

// run runs what is left of a launch, with the product in memory.
func (r *rest) run(s *state, l *backends.Launch, p *product, t isa.Type, pool *workers.Pool) error {
	x := *l
	v := backends.View{Addr: p.C, Type: t, Rank: l.Rank, Shape: l.Shape}
	switch {
	case r.places.byRows:
		x.Grid = [3]uint32{uint32(p.cols / p.width), uint32(p.rows), uint32(p.batches)}
		x.Block = [3]uint32{uint32(p.width), 1, 1}
	case r.places.byGrid:
		v.Bytes = p.places * int64(t.Size())
	}
	for d, n := l.Rank-1, int64(1); d >= 0; d-- {
		v.Stride[d] = n
		n *= l.Shape[d]
	}
	s.slots = append(append(s.slots[:0], l.Slots...), v)
	x.Slots = s.slots
	err := r.program.Run(&x, pool)
	var fault *backends.ProgramFault
	if errors.As(err, &fault) {
		of := *fault
		of.Site = r.sites[of.Site]
		return &of
	}
	return err
}
