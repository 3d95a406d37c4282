package strips

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// place is where a lane stands in the grid.
type place struct {
	lane, block [3]uint32
	single      bool // all lanes of the strip are in one block
	row         bool // and in one row of it: only lane.x grows
}

// locate finds the place of the strip's first lane, if the program asks.
func (f *frame) locate() {
	if !f.k.places {
		return
	}
	b, g := f.l.Block, f.l.Grid
	size := uint64(b[0]) * uint64(b[1]) * uint64(b[2])
	block := f.g0 / size
	lane := uint32(f.g0 - block*size)
	w := &f.where
	w.lane = [3]uint32{lane % b[0], lane / b[0] % b[1], lane / b[0] / b[1]}
	w.block = [3]uint32{uint32(block % uint64(g[0])), uint32(block / uint64(g[0]) % uint64(g[1])), uint32(block / uint64(g[0]) / uint64(g[1]))}
	w.single = uint64(lane)+uint64(f.n) <= size
	w.row = uint64(w.lane[0])+uint64(f.n) <= uint64(b[0])
}

// next moves on to the next lane, and reports whether that is in another block.
func (w *place) next(grid, block *[3]uint32) bool {
	for i := range w.lane {
		if w.lane[i]++; w.lane[i] < block[i] {
			return false
		}
		w.lane[i] = 0
	}
	for i := range w.block {
		if w.block[i]++; w.block[i] < grid[i] {
			break
		}
		w.block[i] = 0
	}
	return true
}

// readSpecial is SREG for the special values that differ between strips.
func readSpecial(f *frame, s *step) {
	d, w := &f.regs[s.d], &f.where
	sp := isa.Special(s.imm)
	switch axis := int(sp % 3); {
	case sp == isa.GlobalLane:
		d.setLin(lin{int64(f.g0), 1})
	case sp >= isa.BlockX && w.single:
		d.setUni(uint64(w.block[axis]))
	case sp == isa.LaneX && w.row:
		d.setLin(lin{int64(w.lane[0]), 1})
	case sp < isa.BlockX && w.row:
		d.setUni(uint64(w.lane[axis]))
	case sp < isa.BlockX && f.l.Block[axis] == 1:
		d.setUni(0)
	default:
		at := *w
		x := lanes[uint32](d.setVec(), f.n)
		for i := range x {
			if sp < isa.BlockX {
				x[i] = at.lane[axis]
			} else {
				x[i] = at.block[axis]
			}
			at.next(&f.l.Grid, &f.l.Block)
		}
	}
}

// blockClass is CLS_GET and UNITY_TEST: a table's entry for the class of the
// lane's block.
func blockClass(f *frame, s *step) {
	d := &f.regs[s.d]
	if f.where.single {
		d.setUni(uint64(s.table[f.where.block[0]%isa.NumClasses]))
		return
	}
	at := f.where
	v := s.table[at.block[0]%isa.NumClasses]
	x := lanes[uint8](d.setVec(), f.n)
	for i := range x {
		x[i] = v
		if at.next(&f.l.Grid, &f.l.Block) {
			v = s.table[at.block[0]%isa.NumClasses]
		}
	}
}

// identityTable is CLS_GET's.
func identityTable() []byte {
	t := make([]byte, isa.NumClasses)
	for c := range t {
		t[c] = byte(c)
	}
	return t
}

// unityTable says which classes are within epsilon of 1 or 4; none if
// epsilon is negative or NaN.
func unityTable(epsilon float64) []byte {
	t := make([]byte, isa.NumClasses)
	for c := range t {
		x := float64(c)
		t[c] = b2u(math.Min(math.Abs(x-1), math.Abs(x-4)) <= epsilon)
	}
	return t
}

// classTable is the table of MIRROR, NBR_COUNT or NBR_GET over classes. The
// neighbours of a class differ from it in one of the bits that weigh 48, 24,
// 12 and 6, or by 1 within its group of three.
func classTable(op isa.Op, index uint64) []byte {
	t := make([]byte, isa.NumClasses)
	for c := range t {
		if op == isa.MIRROR {
			t[c] = byte(c + 3)
			if c/3&1 == 1 {
				t[c] = byte(c - 3)
			}
			continue
		}
		var near []byte
		for o := range t {
			a, b := c/3, o/3 // bits and place in the group
			flip := a ^ b
			oneBit := flip == 2 || flip == 4 || flip == 8 || flip == 16
			step := c - o
			if oneBit && c%3 == o%3 || flip == 0 && (step == 1 || step == -1) {
				near = append(near, byte(o))
			}
		}
		switch {
		case op == isa.NBR_COUNT:
			t[c] = byte(len(near))
		case index < uint64(len(near)):
			t[c] = near[index]
		}
	}
	return t
}

// runClassTable looks classes up; one from 96 on gives 0 and is a fault.
func runClassTable(f *frame, s *step) {
	a, d := &f.regs[s.a], &f.regs[s.d]
	if a.kind == uni {
		var v uint64
		if a.bits < isa.NumClasses {
			v = uint64(s.table[a.bits])
		} else {
			f.faultFirst(s, isa.FaultClass)
		}
		d.setUni(v)
		return
	}
	y := lanes[uint8](a.lanes(f), f.n)
	x := lanes[uint8](d.setVec(), f.n)
	for i, c := range y {
		var v uint8
		if c < isa.NumClasses {
			v = s.table[c]
		} else if f.m.has(i) {
			f.fault(s, isa.FaultClass, i)
		}
		x[i] = v
	}
}

// runBoundMap computes offsets in the boundary pool.
func runBoundMap(f *frame, s *step) {
	a, b, c := &f.regs[s.a], &f.regs[s.b], &f.regs[s.c]
	d := &f.regs[s.d]
	n := f.n
	same := a.kind == uni && b.kind == uni && c.kind == uni
	if same {
		n = 1
	}
	x := lanes[uint64](d.setVec(), n)
	for i := range x {
		class, page := a.at(i), b.at(i)
		if class < isa.NumClasses && page < isa.PagesPerClass {
			x[i] = class*isa.ClassBytes + page*isa.PageBytes + c.at(i)
			continue
		}
		x[i] = 0
		if same {
			f.faultFirst(s, isa.FaultClass)
		} else if f.m.has(i) {
			f.fault(s, isa.FaultClass, i)
		}
	}
	if same {
		d.setUni(x[0])
	}
}

func accumulate(f *frame, s *step) {
	c, v := &f.regs[s.a], &f.regs[s.b]
	for i := range f.n {
		if f.m.has(i) {
			if k := c.at(i); k < isa.NumClasses {
				f.residue[k] += v.at(i)
			} else {
				f.fault(s, isa.FaultClass, i)
			}
		}
	}
}

// phases is the number of phases.
const phases = 768

func phaseGet(f *frame, s *step) { f.assign(&f.regs[s.d], &f.phase) }

func phaseAdv(f *frame, s *step) {
	p := &f.phase
	if p.kind == uni && f.m.count == f.n {
		p.setUni((p.bits + s.imm) % phases)
		return
	}
	p.private(f)
	for i, v := range lanes[uint16](p.own, f.n) {
		if f.m.has(i) {
			*(*uint16)(unsafe.Add(p.own, 2*i)) = uint16((uint64(v) + s.imm) % phases)
		}
	}
}

// scratch is one POOL_ALLOC's area within a lane's scratch.
type scratch struct {
	off, size int
}

// poolAlloc zeroes the area. Its handle is its number, from 1 on.
func poolAlloc(f *frame, s *step) {
	a := &f.k.areas[s.imm]
	for i := range f.n {
		if f.m.has(i) {
			f.pooled[i*len(f.k.areas)+int(s.imm)] = true
			clear(lanes[byte](unsafe.Add(f.pool, i*f.k.poolBytes+a.off), a.size))
		}
	}
	f.regs[s.d].setUni(s.imm + 1)
}

// area returns the number of the area that lane i's handle names, or -1 after
// reporting that it names none.
func (f *frame) pooledArea(s *step, h uint64, i int) int {
	if k := h - 1; k < uint64(len(f.k.areas)) && f.pooled[i*len(f.k.areas)+int(k)] {
		return int(k)
	}
	f.fault(s, isa.FaultHandle, i)
	return -1
}

func poolFree(f *frame, s *step) {
	h := &f.regs[s.a]
	for i := range f.n {
		if f.m.has(i) {
			if k := f.pooledArea(s, h.at(i), i); k >= 0 {
				f.pooled[i*len(f.k.areas)+k] = false
			}
		}
	}
}

// pooledAt returns where lane i's handle and offset lead, or nil after
// reporting a fault.
func (f *frame) pooledAt(s *step, h, off uint64, i int) unsafe.Pointer {
	k := f.pooledArea(s, h, i)
	if k < 0 {
		return nil
	}
	a := &f.k.areas[k]
	if size := s.typ.Size(); size > a.size || off > uint64(a.size-size) {
		f.fault(s, isa.FaultAccess, i)
		return nil
	}
	return unsafe.Add(f.pool, i*f.k.poolBytes+a.off+int(off))
}

func poolLoad(f *frame, s *step) {
	h, off := &f.regs[s.a], &f.regs[s.b]
	d := f.regs[s.d].setVec()
	size := s.typ.Size()
	for i := range f.n {
		var v uint64
		if f.m.has(i) {
			if p := f.pooledAt(s, h.at(i), off.at(i), i); p != nil {
				v = loadCell(size, p)
			}
		}
		storeCell(size, unsafe.Add(d, i*size), v)
	}
}

func poolStore(f *frame, s *step) {
	v, h, off := &f.regs[s.a], &f.regs[s.b], &f.regs[s.c]
	size := s.typ.Size()
	for i := range f.n {
		if f.m.has(i) {
			if p := f.pooledAt(s, h.at(i), off.at(i), i); p != nil {
				storeCell(size, p, v.at(i))
			}
		}
	}
}

// fenced is touched by MEM_FENCE: an atomic operation orders everything here.
var fenced atomic.Uint32

func fence(*frame, *step) { fenced.Add(1) }

// barrier has nothing to do: all lanes of the block have done the step before.
func barrier(*frame, *step) {}
