package strips

import (
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// collectives names the primitive that each collective repeats.
var collectives = map[isa.Op]isa.Op{
	isa.BLOCK_REDUCE_ADD: isa.ADD, isa.BLOCK_SCAN_ADD: isa.ADD,
	isa.BLOCK_REDUCE_MIN: isa.MIN, isa.BLOCK_SCAN_MIN: isa.MIN,
	isa.BLOCK_REDUCE_MAX: isa.MAX, isa.BLOCK_SCAN_MAX: isa.MAX,
	isa.BLOCK_REDUCE_MUL: isa.MUL, isa.BLOCK_SCAN_MUL: isa.MUL,
}

// identity is the value that changes nothing under op, as a cell of type t,
// or of f32 for the 16-bit floats, which compute in it.
func identity(op isa.Op, t isa.Type) uint64 {
	pick := func(add, mul, low, high float64) float64 {
		switch op {
		case isa.ADD:
			return add
		case isa.MUL:
			return mul
		case isa.MIN:
			return high
		}
		return low
	}
	if t.Float() {
		v := pick(math.Copysign(0, -1), 1, math.Inf(-1), math.Inf(1))
		if t == isa.F64 {
			return math.Float64bits(v)
		}
		return uint64(math.Float32bits(float32(v)))
	}
	high := t.Mask()
	if t.Signed() {
		high >>= 1
	}
	switch op {
	case isa.ADD:
		return 0
	case isa.MUL:
		return 1
	case isa.MIN:
		return high
	}
	return ^high & t.Mask()
}

// gatherLanes puts the operand of a collective into the frame's temporary,
// with the identity (the step's imm) in lanes that don't run, and returns the
// size of a value there.
func (f *frame) gatherLanes(s *step) int {
	a, t := &f.regs[s.a], f.temp[0]
	size := s.typ.Size()
	if s.widen != nil {
		s.widen(t, a.lanes(f), f.n)
		size = 4
	} else {
		move(a.size, t, a.lanes(f), f.n)
	}
	if f.m.count < f.n {
		for i := range f.n {
			if !f.m.has(i) {
				storeCell(size, unsafe.Add(t, i*size), s.imm)
			}
		}
	}
	return size
}

// reduce halves the block's lanes: s[q] += s[q+w]. Lanes beyond the strip are
// the identity, so nothing is done for them.
func reduce(f *frame, s *step) {
	size := f.gatherLanes(s)
	t, d := f.temp[0], &f.regs[s.d]
	w := 1
	for w < f.n {
		w *= 2
	}
	for w /= 2; w > 0; w /= 2 {
		s.l2(t, t, unsafe.Add(t, w*size), min(w, f.n-w))
	}
	if s.narrow != nil {
		s.narrow(t, t, 1)
	}
	d.setUni(loadCell(s.typ.Size(), t))
}

// scan adds, to each lane from w on, the lane w before, for w = 1, 2, 4, ….
func scan(f *frame, s *step) {
	size := f.gatherLanes(s)
	t, u := f.temp[0], f.temp[1]
	for w := 1; w < f.n; w *= 2 {
		move(uint8(size), u, t, w)
		s.l2(unsafe.Add(u, w*size), t, unsafe.Add(t, w*size), f.n-w)
		t, u = u, t
	}
	d := f.regs[s.d].setVec()
	if s.narrow != nil {
		s.narrow(d, t, f.n)
	} else {
		move(uint8(size), d, t, f.n)
	}
}
