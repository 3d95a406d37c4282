package strips

import (
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// This file is where byte addresses that a program computes become pointers, the
// engine's boundary of memory safety: whatever the registers hold, nothing
// here may read or write outside an area.

// area is memory that byte addresses reach: a slot's, or the block's shared.
type area struct {
	base  unsafe.Pointer
	bytes int64
	still bool  // nothing stores to it during the launch, so that a register may point into it
	slot  int32 // −1: shared
}

// area returns the step's memory, or false if its slot differs between lanes
// or doesn't exist.
func (f *frame) area(s *step) (area, bool) {
	n := int32(s.slot)
	if s.mode == isa.AddrIndirect {
		h := &f.regs[s.h]
		if h.kind != uni || h.bits >= uint64(len(f.slots)) {
			return area{}, false
		}
		n = int32(h.bits)
	}
	if n < 0 {
		return area{f.shared, int64(f.k.shared), false, -1}, true
	}
	sl := &f.slots[n]
	return area{sl.base, sl.bytes, sl.still, n}, true
}

// window returns the register values for which an access of size bytes at
// value + offset lies in [0, bytes); lo > hi if there are none.
func window(offset, bytes int64, size int) (lo, hi int64) {
	last := bytes - int64(size)
	if last < 0 || offset == math.MinInt64 {
		return 1, 0
	}
	hi = last - offset
	if offset < 0 && hi < 0 { // beyond 2^63 - 1
		hi = math.MaxInt64
	}
	return -offset, hi
}

// offsets returns the byte addresses as a lin, if they are one and can't
// overflow.
func (f *frame) offsets(s *step) (lin, bool) {
	if s.a < 0 {
		return lin{base: s.offset()}, true
	}
	l, ok := f.regs[s.a].linear(isa.I64, f.n)
	if !ok || s.offset() > 1<<60 || s.offset() < -1<<60 {
		return lin{}, false
	}
	l.base += s.offset()
	return l, true
}

// asked is the byte that an access at value + offset asks for, as near as 64
// bits come.
func asked(value, offset int64) int64 {
	sum := value + offset
	if (value < 0) == (offset < 0) && (sum < 0) != (value < 0) {
		if value < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return sum
}

// within reports whether all n accesses of size bytes lie in [0, bytes).
func (l lin) within(bytes int64, size, n int) bool {
	last := bytes - int64(size)
	e := l.last(n)
	return l.base >= 0 && l.base <= last && e >= 0 && e <= last
}

// load is LDG by byte address and LDS.
func load(f *frame, s *step) {
	d := &f.regs[s.d]
	size := s.typ.Size()
	ar, ok := f.area(s)
	if !ok {
		f.loadEach(s)
		return
	}
	if l, ok := f.offsets(s); ok {
		if l.within(ar.bytes, size, f.n) {
			p := unsafe.Add(ar.base, l.base)
			switch l.stride {
			case 0:
				d.setUni(loadCell(size, p))
			case int64(size):
				f.consecutive(d, p, ar.still)
			default:
				gatherSize(d.size, d.setVec(), p, l.stride, f.n)
			}
			return
		}
		if l.stride == 0 {
			f.stray(s, f.first(), ar.slot, l.base)
			d.setUni(0)
			return
		}
	}
	switch size {
	case 1:
		loadLanes[uint8](f, s, ar)
	case 2:
		loadLanes[uint16](f, s, ar)
	case 4:
		loadLanes[uint32](f, s, ar)
	default:
		loadLanes[uint64](f, s, ar)
	}
}

func loadLanes[T unsigned](f *frame, s *step, ar area) {
	offs := lanes[int64](f.regs[s.a].lanes(f), f.n)
	x := lanes[T](f.regs[s.d].setVec(), f.n)
	var size T
	lo, hi := window(s.offset(), ar.bytes, int(unsafe.Sizeof(size)))
	base, offset, m := ar.base, s.offset(), f.m
	stray, at := -1, int64(0)
	if m.count == f.n {
		for i, o := range offs {
			var v T
			if o >= lo && o <= hi {
				v = *(*T)(unsafe.Add(base, o+offset))
			} else if stray < 0 {
				stray, at = i, o
			}
			x[i] = v
		}
	} else {
		for i, o := range offs {
			var v T
			if m.has(i) {
				if o >= lo && o <= hi {
					v = *(*T)(unsafe.Add(base, o+offset))
				} else if stray < 0 {
					stray, at = i, o
				}
			}
			x[i] = v
		}
	}
	if stray >= 0 {
		f.stray(s, stray, ar.slot, asked(at, offset))
	}
}

// store is STG by byte address and STS.
func store(f *frame, s *step) {
	v := &f.regs[s.b]
	size := s.typ.Size()
	ar, ok := f.area(s)
	if !ok {
		f.storeEach(s)
		return
	}
	if l, ok := f.offsets(s); ok {
		switch {
		case l.stride == 0:
			if !l.within(ar.bytes, size, 1) {
				f.stray(s, f.first(), ar.slot, l.base)
				return
			}
			i := f.n - 1
			for !f.m.has(i) {
				i--
			}
			storeCell(size, unsafe.Add(ar.base, l.base), v.at(i))
			return
		case l.within(ar.bytes, size, f.n):
			to, from := unsafe.Add(ar.base, l.base), v.lanes(f)
			switch {
			case f.m.count < f.n:
				scatterSize(v.size, to, from, f.m.p, l.stride, f.n)
			case l.stride == int64(size):
				move(v.size, to, from, f.n)
			default:
				scatterSize(v.size, to, from, nil, l.stride, f.n)
			}
			return
		}
	}
	switch size {
	case 1:
		storeLanes[uint8](f, s, ar)
	case 2:
		storeLanes[uint16](f, s, ar)
	case 4:
		storeLanes[uint32](f, s, ar)
	default:
		storeLanes[uint64](f, s, ar)
	}
}

func storeLanes[T unsigned](f *frame, s *step, ar area) {
	offs := lanes[int64](f.regs[s.a].lanes(f), f.n)
	y := lanes[T](f.regs[s.b].lanes(f), f.n)
	var size T
	lo, hi := window(s.offset(), ar.bytes, int(unsafe.Sizeof(size)))
	base, offset, m := ar.base, s.offset(), f.m
	stray, at := -1, int64(0)
	for i, o := range offs {
		if m.has(i) {
			if o >= lo && o <= hi {
				*(*T)(unsafe.Add(base, o+offset)) = y[i]
			} else if stray < 0 {
				stray, at = i, o
			}
		}
	}
	if stray >= 0 {
		f.stray(s, stray, ar.slot, asked(at, offset))
	}
}

// at returns the cell of lane i.
func (r *reg) at(i int) uint64 {
	switch r.kind {
	case uni:
		return r.bits
	case aff:
		v := r.bits + uint64(int64(i)*r.stride)
		return v << (64 - 8*r.size) >> (64 - 8*r.size)
	}
	return loadCell(int(r.size), unsafe.Add(r.p, i*int(r.size)))
}

// address returns where lane i accesses memory, or nil after reporting that
// it is nowhere. It handles every mode, a lane at a time.
func (f *frame) address(s *step, i int) unsafe.Pointer {
	if s.mode == isa.AddrIndex {
		return f.slots[s.slot].element(f.g0 + uint64(i))
	}
	ar := area{f.shared, int64(f.k.shared), false, -1}
	n := uint64(int64(s.slot))
	if s.mode == isa.AddrIndirect {
		n = f.regs[s.h].at(i)
		if n >= uint64(len(f.slots)) {
			f.fault(s, isa.FaultHandle, i)
			return nil
		}
	}
	if int64(n) >= 0 {
		ar.base, ar.bytes, ar.slot = f.slots[n].base, f.slots[n].bytes, int32(n)
	}
	var o int64
	if s.a >= 0 {
		o = int64(f.regs[s.a].at(i))
	}
	lo, hi := window(s.offset(), ar.bytes, s.typ.Size())
	if o < lo || o > hi {
		f.stray(s, i, ar.slot, asked(o, s.offset()))
		return nil
	}
	return unsafe.Add(ar.base, o+s.offset())
}

// loadEach and storeEach are for lanes that access different slots.
func (f *frame) loadEach(s *step) {
	d := f.regs[s.d].setVec()
	size := s.typ.Size()
	for i := range f.n {
		var v uint64
		if f.m.has(i) {
			if p := f.address(s, i); p != nil {
				v = loadCell(size, p)
			}
		}
		storeCell(size, unsafe.Add(d, i*size), v)
	}
}

func (f *frame) storeEach(s *step) {
	size := s.typ.Size()
	for i := range f.n {
		if f.m.has(i) {
			if p := f.address(s, i); p != nil {
				storeCell(size, p, f.regs[s.b].at(i))
			}
		}
	}
}

// loadTable is LDC: the table's element at a checked index.
func loadTable(f *frame, s *step) {
	d, ix := &f.regs[s.d], &f.regs[s.a]
	size := s.typ.Size()
	table := unsafe.Pointer(unsafe.SliceData(s.table))
	if l, ok := ix.linear(s.from, f.n); ok {
		last := l.last(f.n)
		top := int64(s.elements) - 1
		switch {
		case l.base >= 0 && l.base <= top && last >= 0 && last <= top:
			p := unsafe.Add(table, l.base*int64(size))
			switch l.stride {
			case 0:
				d.setUni(loadCell(size, p))
			default:
				gatherSize(d.size, d.setVec(), p, l.stride*int64(size), f.n)
			}
			return
		case l.stride == 0:
			f.stray(s, f.first(), -1, l.base)
			d.setUni(0)
			return
		}
	}
	switch s.from {
	case isa.I32:
		tableLanes[int32](f, s, table)
	case isa.U32:
		tableLanes[uint32](f, s, table)
	case isa.I64:
		tableLanes[int64](f, s, table)
	default:
		tableLanes[uint64](f, s, table)
	}
}

// tableLanes looks a table up at indices of type I. A negative index becomes
// a large one.
func tableLanes[I integer](f *frame, s *step, table unsafe.Pointer) {
	idx := lanes[I](f.regs[s.a].lanes(f), f.n)
	d := f.regs[s.d].setVec()
	switch s.typ.Size() {
	case 1:
		lookUp[uint8](f, s, d, table, idx)
	case 2:
		lookUp[uint16](f, s, d, table, idx)
	case 4:
		lookUp[uint32](f, s, d, table, idx)
	default:
		lookUp[uint64](f, s, d, table, idx)
	}
}

func lookUp[T unsigned, I integer](f *frame, s *step, d, table unsafe.Pointer, idx []I) {
	x, t := lanes[T](d, len(idx)), lanes[T](table, s.elements)
	stray, at := -1, int64(0)
	for i, j := range idx {
		var v T
		if uint64(int64(j)) < uint64(len(t)) {
			v = t[j]
		} else if stray < 0 && f.m.has(i) {
			stray, at = i, int64(j)
		}
		x[i] = v
	}
	if stray >= 0 {
		f.stray(s, stray, -1, at)
	}
}
