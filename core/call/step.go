package call

import (
	"math"

	"github.com/hologram-project/hologram/backends"
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
			return status.Errorf(status.Invalid, "%s is addressed by bytes, which demands a contiguous array; it has shape %s and strides %s",
				s.name(i), ShapeText(v.Shape[:v.Rank]), ShapeText(v.Stride[:v.Rank]))
		}
	}
	if err := p.overlaps(&s); err != nil {
		return err
	}
	if err := s.chooseBlock(block); err != nil {
		return err
	}
	if err := s.chooseSpace(shape, grid); err != nil {
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
	p.residue = p.residue || s.program.Residue
	p.phase = p.phase || s.program.Phase
	p.steps = append(p.steps, s)
	return nil
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
	l := analysis.Launch{N: s.l.N, Params: s.l.Params, Grid: s.l.Grid, Block: s.l.Block}
	for _, x := range s.params {
		l.Open |= 1 << x.param
	}
	for i := range s.l.Slots {
		l.SlotBytes = append(l.SlotBytes, s.l.Slots[i].Bytes)
	}
	return s.program.Proved(&l, stop)
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
