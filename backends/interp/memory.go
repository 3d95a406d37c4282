package interp

import (
	"encoding/binary"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// slot is the memory that a view reaches.
type slot struct {
	mem    []byte
	origin int64 // of element 0 in mem: strides may be negative
	reach  int64 // bytes from there that byte addresses may touch
	view   backends.View
}

func viewSlot(v *backends.View) slot {
	size := int64(v.Type.Size())
	first, last := int64(0), size // bytes reached, from element 0
	for d := range v.Rank {
		if v.Shape[d] == 0 {
			first, last = 0, 0
			break
		}
		span := (v.Shape[d] - 1) * v.Stride[d] * size
		first, last = first+min(span, 0), last+max(span, 0)
	}
	last = max(last, v.Bytes)
	return slot{hostmem.Bytes(v.Addr+uintptr(first), last-first), -first, v.Bytes, *v}
}

// distance returns how many bytes a lane's element lies from element 0.
func (s *slot) distance(l *lane, rank int, t isa.Type) int64 {
	var off int64
	for d := range rank {
		off += l.coord[d] * s.view.Stride[d] * int64(t.Size())
	}
	return off
}

// place is a value of type t at the start of mem; a stray one has no mem.
type place struct {
	mem []byte
	t   isa.Type
}

// load returns the value there, 0 if stray.
func (p place) load() uint64 {
	var b [8]byte
	copy(b[:p.t.Size()], p.mem)
	return binary.LittleEndian.Uint64(b[:])
}

// store sets the value there; a stray store is dropped.
func (p place) store(cell uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], cell)
	copy(p.mem, b[:p.t.Size()])
}

// within returns the place at byte off of mem, if it lies wholly inside.
func within(mem []byte, off int64, t isa.Type) (place, isa.FaultKind) {
	size := int64(t.Size())
	if off < 0 || off > int64(len(mem))-size {
		return place{t: t}, isa.FaultAccess
	}
	return place{mem[off : off+size], t}, isa.NoFault
}

// locate returns the place that an address means to a lane.
func (m *machine) locate(l *lane, a *isa.Arg, t isa.Type) (place, isa.FaultKind) {
	number := uint64(a.Slot)
	switch a.Mode {
	case isa.AddrIndex:
		s := &m.slots[a.Slot]
		return within(s.mem, s.origin+s.distance(l, m.launch.Rank, t), t)
	case isa.AddrFlat:
		return m.flat(l, a, t)
	case isa.AddrIndirect:
		h, ok := l.integer(&isa.Arg{Kind: isa.ArgReg, Reg: a.Handle})
		if !ok || h < 0 || h >= int64(len(m.slots)) {
			return place{t: t}, isa.FaultHandle
		}
		number = uint64(h)
	}
	off, ok := l.offset(a)
	if ok { // else it has more than 64 bits
		m.asked = backends.Asked{Known: 1, Slot: uint32(number), At: off}
	}
	switch {
	case !ok:
		return place{t: t}, isa.FaultAccess
	case a.Mode == isa.AddrShared:
		return within(m.shared, off, t)
	}
	s := &m.slots[number]
	return within(s.mem[s.origin:][:s.reach], off, t)
}

// flat returns the place of slot[flat i].
func (m *machine) flat(l *lane, a *isa.Arg, t isa.Type) (place, isa.FaultKind) {
	f, s := &m.launch.Flats[a.Slot], &m.slots[a.Slot]
	i, ok := l.offset(a)
	if !ok || i < 0 || i >= f.Count {
		if ok { // else it has more than 64 bits
			m.asked = backends.Asked{Known: 1, Slot: uint32(a.Slot), At: f.At(max(min(i, f.Limit), -f.Limit), t)}
		}
		return place{t: t}, isa.FaultAccess
	}
	return within(s.mem, s.origin+f.At(i, t), t)
}

// offset returns the sum of an address' register and constant; false if it is
// none that memory has.
func (l *lane) offset(a *isa.Arg) (int64, bool) {
	if !a.HasReg {
		return a.Offset(), true
	}
	v, ok := l.integer(&isa.Arg{Kind: isa.ArgReg, Reg: a.Reg})
	if !ok && a.Offset() < 0 { // from 2^63 on: the constant may lead back
		d := uint64(v) - uint64(-a.Offset())
		return int64(d), d < 1<<63
	}
	sum := v + a.Offset()
	wrapped := (v < 0) == (a.Offset() < 0) && (sum < 0) != (v < 0)
	return sum, ok && !wrapped
}

// pool returns the scratch area of a handle, or nil.
func (l *lane) pool(handle *isa.Arg) []byte {
	if h := l.read(handle); h-1 < uint64(len(l.pools)) {
		return l.pools[h-1]
	}
	return nil
}

// inPool returns the place at a byte offset of a scratch area.
func (l *lane) inPool(handle, offset *isa.Arg, t isa.Type) (place, isa.FaultKind) {
	mem := l.pool(handle)
	if mem == nil {
		return place{t: t}, isa.FaultHandle
	}
	return within(mem, int64(min(l.read(offset), 1<<62)), t)
}
