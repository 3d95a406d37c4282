package call

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// checkType demands that slot i is bound to its own type. Raw memory, which is
// a u8 slot accessed by bytes alone, may be bound to any.
func (s *step) checkType(i int, want isa.Type) error {
	got := s.l.Slots[i].Type
	if got == want {
		return nil
	}
	use := &s.program.Verified.Slots[i]
	if want == isa.U8 && !use.Indexed && !use.Flat {
		v := &s.l.Slots[i]
		v.Type = isa.U8
		if v.Bytes > 0 { // else it is strided, which is refused later, or empty
			v.Rank, v.Shape, v.Stride = 1, [isa.MaxRank]int64{v.Bytes}, [isa.MaxRank]int64{1}
		}
		return nil
	}
	return status.Errorf(status.BadType, "%s: dtype is %v; expected %v", s.name(i), got, want)
}

// chooseBlock settles the shape of a block.
func (s *step) chooseBlock(block [3]uint32) error {
	demanded := s.program.Source().Block
	if block == [3]uint32{} {
		block = demanded
	}
	if block == [3]uint32{} {
		block = [3]uint32{256, 1, 1}
	}
	if demanded != ([3]uint32{}) && block != demanded {
		return status.Errorf(status.Invalid, "%s: block %s; the program demands %s", s.what, gridText(block), gridText(demanded))
	}
	lanes := uint64(1)
	for _, d := range block {
		if lanes *= uint64(d); lanes > isa.MaxBlockLanes || d == 0 {
			return status.Errorf(status.Invalid, "%s: block %s; expected 1 … %d lanes", s.what, gridText(block), isa.MaxBlockLanes)
		}
	}
	s.l.Block = block
	return nil
}

func gridText(g [3]uint32) string {
	return "(" + strconv.Itoa(int(g[0])) + ", " + strconv.Itoa(int(g[1])) + ", " + strconv.Itoa(int(g[2])) + ")"
}

// chooseSpace settles index space and grid, and broadcasts the views to it.
func (s *step) chooseSpace(shape []int64, grid [3]uint32) error {
	block := uint64(s.l.Block[0]) * uint64(s.l.Block[1]) * uint64(s.l.Block[2])
	lanes := uint64(0) // of the grid; 0: not given
	if grid != [3]uint32{} {
		lanes = block
		for _, d := range grid {
			if d == 0 || lanes > 1<<62/uint64(d) {
				return status.Errorf(status.Invalid, "%s: grid %s; expected 1 … 2^62 lanes in all", s.what, gridText(grid))
			}
			lanes *= uint64(d)
		}
	}
	if err := s.indexSpace(shape, lanes); err != nil {
		return err
	}
	switch {
	case lanes == 0:
		blocks := (s.l.N + block - 1) / block
		if blocks > 1<<32-1 {
			return status.Errorf(status.Invalid, "%s: %d elements need %d blocks of %d lanes; at most 2^32 − 1", s.what, s.l.N, blocks, block)
		}
		s.l.Grid = [3]uint32{uint32(max(1, blocks)), 1, 1}
	case s.l.N > lanes:
		return status.Errorf(status.Invalid, "%s: grid %s of blocks %s has %d lanes, fewer than the %d elements of the index space",
			s.what, gridText(grid), gridText(s.l.Block), lanes, s.l.N)
	default:
		s.l.Grid = grid
	}
	for i, most := range s.info.MaxGrid {
		if most > 0 && s.l.Grid[i] > most {
			return status.Errorf(status.Invalid, "%s: grid %s; %s takes at most %s", s.what, gridText(s.l.Grid), s.info.Name, gridText(s.info.MaxGrid))
		}
	}
	return nil
}

// differs returns the first slot by [index] that slot i does not broadcast with. There is
// one where it doesn't with all those before it: a size of theirs is that of one of them.
func (s *step) differs(i int) int {
	v := &s.l.Slots[i]
	for j := range i {
		w := &s.l.Slots[j]
		shape := w.Shape
		if s.program.Verified.Slots[j].Indexed && mergeShapes(&shape, w.Rank, v.Shape[:v.Rank]) < 0 {
			return j
		}
	}
	return i
}

// indexSpace sets the launch's shape and brings every view to it.
func (s *step) indexSpace(shape []int64, lanes uint64) error {
	uses := s.program.Verified.Slots
	var space [isa.MaxRank]int64
	rank := len(shape)
	for _, d := range shape {
		if d < 0 {
			return status.Errorf(status.Invalid, "%s: index space %s has a negative dimension", s.what, ShapeText(shape))
		}
	}
	if rank > isa.MaxRank {
		return status.Errorf(status.Invalid, "%s: index space %s has more than %d dimensions", s.what, ShapeText(shape), isa.MaxRank)
	}
	copy(space[:], shape)
	switch {
	case rank == 1 && !s.broadcasts:
		rank = s.flatten(&space)
	case shape == nil:
		rank = 0
		indexed := false
		for i := range s.l.Slots {
			if !uses[i].Indexed {
				continue
			}
			indexed = true
			v := &s.l.Slots[i]
			if rank = mergeShapes(&space, rank, v.Shape[:v.Rank]); rank < 0 {
				other := s.differs(i)
				w := &s.l.Slots[other]
				return status.Errorf(status.Invalid, "%s: shape %s does not broadcast with slot %s, whose shape is %s; give n or shape",
					s.name(i), ShapeText(v.Shape[:v.Rank]), s.slots[other].name, ShapeText(w.Shape[:w.Rank]))
			}
		}
		if !indexed {
			if lanes == 0 {
				return status.Errorf(status.Invalid, "%s: give n, shape or grid: no slot is accessed by [index], so nothing says how many lanes there are", s.what)
			}
			space[0], rank = int64(lanes), 1
		}
	}
	n, ok := Elements(space[:rank], 1<<62)
	if !ok {
		return status.Errorf(status.Invalid, "%s: index space %s has more than 2^62 elements", s.what, ShapeText(space[:rank]))
	}
	for i := range s.l.Slots {
		if err := s.toSpace(i, space[:rank], n); err != nil {
			return err
		}
	}
	s.l.Sizes = slices.Clone(space[:rank])
	if len(shape) == 1 {
		s.l.Sizes = slices.Clone(shape) // also where it counts the elements of arrays with more axes
	}
	if rank != 1 {
		rank = collapse(s.l.Slots, &space, rank)
	}
	s.l.Rank, s.l.Shape, s.l.N = rank, space, uint64(n)
	return nil
}

// flatten lets the number n count the elements of strided slots too: if one of
// them has just n elements, its shape is the index space.
func (s *step) flatten(space *[isa.MaxRank]int64) int {
	for i := range s.l.Slots {
		v := &s.l.Slots[i]
		if s.program.Verified.Slots[i].Indexed && v.Rank > 1 && !Contiguous(v) && Numel(v) == space[0] {
			copy(space[:], v.Shape[:v.Rank])
			return v.Rank
		}
	}
	return 1
}

// toSpace brings slot i's view to the index space.
func (s *step) toSpace(i int, space []int64, n int64) error {
	v := &s.l.Slots[i]
	use := &s.program.Verified.Slots[i]
	if !use.Indexed {
		// Only bytes are addressed: the elements' place plays no part.
		v.Rank = len(space)
		v.Shape, v.Stride = [isa.MaxRank]int64{}, [isa.MaxRank]int64{}
		copy(v.Shape[:], space)
		return nil
	}
	bytes := v.Bytes
	if s.broadcasts {
		if !broadcastTo(v, space) {
			return s.misfit(i, space, n)
		}
	} else if len(space) == 1 && v.Rank == 1 && v.Shape[0] >= n {
		v.Shape[0] = n // the first n elements
	} else if len(space) == 1 && v.Rank > 1 && Contiguous(v) && Numel(v) >= n {
		stride := v.Stride[v.Rank-1]
		if v.Shape[v.Rank-1] == 1 {
			stride = 1
		}
		v.Rank = 1
		v.Shape, v.Stride = [isa.MaxRank]int64{n}, [isa.MaxRank]int64{stride}
	} else if !broadcastTo(v, space) {
		// What has no shape of its own is taken element by element.
		if v.Rank != 1 || !Contiguous(v) || v.Shape[0] != n {
			return s.misfit(i, space, n)
		}
		v.Rank = len(space)
		copy(v.Shape[:], space)
		Pack(v)
	}
	if use.Writes && n > 0 {
		for k, d := range space {
			if d > 1 && v.Stride[k] == 0 {
				return status.Errorf(status.Invalid, "%s is written, so it is not broadcast: it must have the index space's shape %s",
					s.name(i), ShapeText(space))
			}
		}
	}
	v.Bytes = bytes
	if !use.Bytes {
		v.Bytes = 0
		if Contiguous(v) {
			v.Bytes = n * int64(v.Type.Size())
		}
	}
	return nil
}

func (s *step) misfit(i int, space []int64, n int64) error {
	v := &s.l.Slots[i]
	if len(space) == 1 && v.Rank == 1 && !s.broadcasts {
		return status.Errorf(status.Invalid, "%s has %d elements, fewer than n = %d", s.name(i), v.Shape[0], n)
	}
	if len(space) == 1 && v.Rank > 1 && !s.broadcasts && !Contiguous(v) && Numel(v) >= n {
		return status.Errorf(status.Invalid, "%s has shape %s and is strided: n takes the first elements of arrays that are contiguous or have one dimension; make a copy, or take all %d",
			s.name(i), ShapeText(v.Shape[:v.Rank]), Numel(v))
	}
	verb := "broadcast to"
	if s.program.Verified.Slots[i].Writes {
		verb = "fit"
	}
	if !s.broadcasts {
		return status.Errorf(status.Invalid, "%s: shape %s does not %s the index space %s", s.name(i), ShapeText(v.Shape[:v.Rank]), verb, ShapeText(space))
	}
	hint := "; n counts the elements of arrays that are longer"
	if has := Numel(v); has == n {
		hint = "; give n = " + strconv.FormatInt(n, 10) + " to take all element by element, or a view of that shape"
	} else if has < n {
		hint = ""
	}
	return status.Errorf(status.Invalid, "%s: shape %s does not broadcast to the output's %s%s", s.name(i), ShapeText(v.Shape[:v.Rank]), ShapeText(space), hint)
}

func slotNames(p *isa.Program) string {
	names := make([]string, len(p.Slots))
	for i, s := range p.Slots {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
