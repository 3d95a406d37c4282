package call

import (
	"math"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
)

// add checks a step and completes it: overlap, block, index space, grid, kernel
// and workspace. Its slots and parameters are bound.
func (p *Prepared) add(d *Device, s step, shape []int64, grid, block [3]uint32, noFuel bool) error {
	uses := s.program.Verified.Slots
	for i := range s.l.Slots {
		v := &s.l.Slots[i]
		if uses[i].Writes && s.slots[i].readOnly {
			return status.Errorf(status.Invalid, "%s is written, and the array bound to it is read-only", s.name(i))
		}
		if uses[i].Bytes && !Contiguous(v) {
			return status.Errorf(status.Invalid, "%s is addressed by bytes, which demands a contiguous array; it has shape %s and strides of %s elements",
				s.name(i), ShapeText(v.Shape[:v.Rank]), ShapeText(v.Stride[:v.Rank]))
		}
	}
	if err := s.findFlats(); err != nil {
		return err
	}
	s.job = &profile.Job{Kind: profile.Kernel, Name: s.program.Source().Name, Of: p.what,
		Operands: profile.Operands(len(s.l.Slots), func(i int) *backends.View { return &s.l.Slots[i] })}
	if err := p.overlaps(&s); err != nil {
		return err
	}
	if err := s.chooseBlock(block); err != nil {
		return err
	}
	if err := s.chooseSpace(shape, grid); err != nil {
		return err
	}
	if err := s.bindFlats(p.stop); err != nil {
		return err
	}
	v, err := s.variant(noFuel, p.stop)
	if err != nil {
		return err
	}
	k, err := s.program.Kernel(d.Cache, v, p.stop)
	if err != nil {
		return err
	}
	s.kernel = k
	if !noFuel {
		s.l.Fuel = 1 // some
	}
	if k.Special() && s.l.N > 0 { // for addresses of the best alignment; Bind sees to others
		if err := k.Specialize(p.what, &s.l, false, p.stop); err != nil {
			k.Release()
			return status.FromBackend(p.what, err)
		}
		p.special = true
	}
	s.scratch = p.workspace
	p.workspace += (k.Workspace(&s.l) + 63) &^ 63
	s.job.Bytes = s.moved()
	p.residue = p.residue || s.program.Residue
	p.phase = p.phase || s.program.Phase
	_, enters := k.Kernel.(backends.Entered)
	p.enters = enters && (p.enters || len(p.steps) == 0)
	p.faults = p.faults || !noFuel || !v.Proved
	p.steps = append(p.steps, s)
	return nil
}

// moved is how many bytes the launch moves if it reads and writes each element that
// its slots reach once: those of the index space, or, of a slot that it addresses by
// itself, all.
func (s *step) moved() int64 {
	moved := int64(0)
	if s.l.N == 0 {
		return moved
	}
	for i, use := range s.program.Verified.Slots {
		v := &s.l.Slots[i]
		bytes := v.Bytes
		if !use.Computed() {
			bytes = int64(v.Type.Size())
			for d, n := range v.Shape[:v.Rank] {
				if v.Stride[d] != 0 {
					bytes *= n
				}
			}
		}
		if use.Reads {
			moved += bytes
		}
		if use.Writes {
			moved += bytes
		}
	}
	return moved
}

// findFlats finds out how the elements of slots that are accessed as slot[flat i] lie.
func (s *step) findFlats() error {
	for i, use := range s.program.Verified.Slots {
		if !use.Flat {
			continue
		}
		v := &s.l.Slots[i]
		f, ok := backends.FlatOf(v)
		if !ok {
			return status.Errorf(status.Invalid, "%s is accessed by [flat …], which counts elements that lie one step apart; the array has shape %s and strides of %s elements: make a contiguous copy",
				s.name(i), ShapeText(v.Shape[:v.Rank]), ShapeText(v.Stride[:v.Rank]))
		}
		if use.Indexed && f.First > 0 {
			return status.Errorf(status.Invalid, "%s is accessed both by [index] and by [flat …], and the array runs backwards (strides of %s elements): make a copy",
				s.name(i), ShapeText(v.Stride[:v.Rank]))
		}
		if s.l.Flats == nil {
			s.l.Flats = make([]backends.Flat, len(s.l.Slots))
		}
		s.l.Flats[i] = f
	}
	return nil
}

// bindFlats lets the addresses of these slots reach from the lowest element to the
// highest, and tells the launch what the program asks for beside its parameters.
func (s *step) bindFlats(stop program.Stop) error {
	packed := s.l.Flats != nil
	for i, use := range s.program.Verified.Slots {
		if use.Flat {
			f, v := &s.l.Flats[i], &s.l.Slots[i]
			size := int64(v.Type.Size())
			v.Addr -= uintptr(f.First * size)
			v.Bytes = f.Reach(size)
			packed = packed && f.Packed()
		}
	}
	own := len(s.l.Params)
	if err := s.program.Give(&s.l, s.info, stop); err != nil || !packed || s.info.RunsSource {
		return err
	}
	sizes := s.sizes()
	other, err := s.program.Packed(&sizes, stop)
	if err != nil || other == s.program {
		return err
	}
	s.program, s.l.Params = other, s.l.Params[:own]
	return s.program.Give(&s.l, s.info, stop)
}

// variant is what a kernel for the step may take for granted.
func (s *step) variant(noFuel bool, stop program.Stop) (v backends.Variant, err error) {
	packed := true
	for i := range s.l.Slots {
		if v := &s.l.Slots[i]; s.program.Verified.Slots[i].Indexed && !Contiguous(v) && v.Stride != [isa.MaxRank]int64{} {
			packed = false
		}
	}
	v = backends.Variant{Packed: packed, NoFuel: noFuel}
	if s.info.Variants.Proved {
		v.Proved, err = s.proved(stop)
	}
	return v, err
}

// proved reports whether no launch of these sizes faults, whatever its numbers
// and addresses.
func (s *step) proved(stop program.Stop) (bool, error) {
	l := s.sizes()
	return s.program.Proved(&l, stop)
}

// sizes is what is known of the launch, whatever its numbers and addresses.
func (s *step) sizes() analysis.Launch {
	l := analysis.Launch{N: s.l.N, Params: s.l.Params, Grid: s.l.Grid, Block: s.l.Block}
	for _, x := range s.params {
		l.Open |= 1 << x.param
	}
	for i := range s.l.Slots {
		l.SlotBytes = append(l.SlotBytes, s.l.Slots[i].Bytes)
	}
	return l
}

// cost estimates nanoseconds. The library's programs always end: where the
// estimate knows no bound, there is one by the elements that a lane may see.
func (s *step) cost(l *backends.Launch) float64 {
	if l.N == 0 {
		return 0 // which an unbounded lane times none would not be
	}
	cost := s.kernel.Cost(l)
	if s.op && math.IsInf(cost, 1) {
		cost = float64(l.N) * 64
	}
	return cost
}
