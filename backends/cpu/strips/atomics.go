package strips

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// unaligned guards the atomics at addresses that the machine's own can't take.
var unaligned sync.Mutex

// runAtomic does an atomic operation in lane after lane.
func runAtomic(f *frame, s *step) {
	size := s.typ.Size()
	var d unsafe.Pointer
	if s.d >= 0 {
		d = f.regs[s.d].setVec()
	}
	op := s.op
	for i := range f.n {
		var old uint64
		if f.m.has(i) {
			if p := f.address(s, i); p != nil {
				v := f.regs[s.b].at(i)
				var desired uint64
				if op == isa.ATOM_CAS {
					desired = f.regs[s.c].at(i)
				}
				switch {
				case uintptr(p)%uintptr(size) != 0:
					unaligned.Lock()
					old = loadCell(size, p)
					storeCell(size, p, updated(op, s.typ, old, v, desired))
					unaligned.Unlock()
				case size == 4:
					old = uint64(atomic32((*uint32)(p), op, s.typ, uint32(v), uint32(desired)))
				default:
					old = atomic64((*uint64)(p), op, s.typ, v, desired)
				}
			}
		}
		if d != nil {
			storeCell(size, unsafe.Add(d, i*size), old)
		}
	}
}

func atomic32(p *uint32, op isa.Op, t isa.Type, v, desired uint32) uint32 {
	for {
		old := atomic.LoadUint32(p)
		now := uint32(updated(op, t, uint64(old), uint64(v), uint64(desired)))
		if atomic.CompareAndSwapUint32(p, old, now) {
			return old
		}
	}
}

func atomic64(p *uint64, op isa.Op, t isa.Type, v, desired uint64) uint64 {
	for {
		old := atomic.LoadUint64(p)
		if atomic.CompareAndSwapUint64(p, old, updated(op, t, old, v, desired)) {
			return old
		}
	}
}

// updated is what an atomic operation leaves in memory that held old.
func updated(op isa.Op, t isa.Type, old, v, desired uint64) uint64 {
	a, b := extend(t, old), extend(t, v)
	less := a < b
	if t == isa.U64 {
		less = old < v
	}
	switch op {
	case isa.ATOM_ADD:
		switch t {
		case isa.F32:
			return uint64(math.Float32bits(math.Float32frombits(uint32(old)) + math.Float32frombits(uint32(v))))
		case isa.F64:
			return math.Float64bits(math.Float64frombits(old) + math.Float64frombits(v))
		}
		return old + v
	case isa.ATOM_MIN:
		if less {
			return old
		}
		return v
	case isa.ATOM_MAX:
		if less {
			return v
		}
		return old
	case isa.ATOM_AND:
		return old & v
	case isa.ATOM_OR:
		return old | v
	case isa.ATOM_XOR:
		return old ^ v
	case isa.ATOM_CAS:
		if old == v {
			return desired
		}
		return old
	}
	return v // ATOM_EXCH
}
