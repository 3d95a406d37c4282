package analysis

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Launch is what proofs rest on: sizes, nothing in memory.
type Launch struct {
	N           uint64   // size of the index space; lanes from N on do not run
	Params      []uint64 // a cell for each parameter
	Open        uint64   // bit i: parameter i is not known yet, and its cell says nothing
	Grid, Block [3]uint32
	SlotBytes   []int64 // by slot: what byte addresses may reach (backends.View.Bytes)
}

// bitset has a bit for each site of a Func.
type bitset []uint64

func (b bitset) has(i int) bool { return i >= 0 && i>>6 < len(b) && b[i>>6]>>(i&63)&1 != 0 }
func (b bitset) put(i int)      { b[i>>6] |= 1 << (i & 63) }

func (b *bitset) reset(n int) {
	words := (n + 63) / 64
	if cap(*b) < words {
		*b = make(bitset, words)
		return
	}
	*b = (*b)[:words]
	clear(*b)
}

// checkable reports whether there is a rule in state.safe for a node that may
// fault.
func checkable(n *ir.Node) bool { return n.CanFault() && n.Site >= 0 && checked(n) != nil }

// checked returns the operands that decide whether n faults: an address'
// handle and offset, a divisor, an index, classes; nil if no rule knows.
func checked(n *ir.Node) []*ir.Value {
	if n.Mem.Mode != 0 {
		return n.Args[:n.AddrArgs():n.AddrArgs()]
	}
	switch n.Op.Inst() {
	case isa.DIV, isa.REM:
		return n.Args[1:2]
	case isa.LDC, isa.MIRROR, isa.NBR_COUNT, isa.NBR_GET, isa.RES_ACCUM:
		return n.Args[:1]
	case isa.BOUND_MAP:
		return n.Args[:2]
	}
	return nil
}

// safe reports whether the node of a check cannot fault in any lane that
// comes there.
func (s *state) safe(st *step) bool {
	n := st.node
	if n.Mem.Mode != 0 {
		return s.inside(st)
	}
	switch n.Op.Inst() {
	case isa.DIV, isa.REM:
		f := s.load(st.a)
		return s.tight(&f, interval{1, inf}).lo > 0 || s.tight(&f, interval{-inf, -1}).hi < 0
	case isa.LDC:
		return s.holds(st.a, interval{0, int64(len(s.t.f.Data[n.Imm].Values)) - 1})
	case isa.BOUND_MAP:
		return s.holds(st.a, interval{0, isa.NumClasses - 1}) && s.holds(st.b, interval{0, isa.PagesPerClass - 1})
	}
	return s.holds(st.a, interval{0, isa.NumClasses - 1})
}

// holds reports whether a value is always in r.
func (s *state) holds(i int32, r interval) bool {
	f := s.load(i)
	got := s.tight(&f, r)
	return got.lo >= r.lo && got.hi <= r.hi
}

// inside reports whether an access is always inside its memory.
func (s *state) inside(st *step) bool {
	n := st.node
	off := st.a
	var reach int64
	switch n.Mem.Mode {
	case isa.AddrShared:
		reach = int64(s.t.f.Shared)
	case isa.AddrByte:
		reach = s.in.reach(n.Mem.Slot)
	case isa.AddrIndirect:
		off = st.b
		slots := s.interval(st.a)
		if slots.lo < 0 || slots.hi >= int64(len(s.in.slots)) || slots.empty() {
			return false
		}
		reach = inf
		for k := slots.lo; k <= slots.hi; k++ {
			reach = min(reach, s.in.reach(int(k)))
		}
	default:
		return false
	}
	var f form
	if n.Mem.HasOff {
		f = s.load(off)
	}
	var ok bool
	if f.c, ok = add(f.c, n.Mem.Offset); !ok {
		return false
	}
	within := interval{0, reach - int64(n.Type.Size())}
	got := s.tight(&f, within)
	return got.lo >= within.lo && got.hi <= within.hi
}

// reach returns how many bytes of a slot byte addresses may touch.
func (l *launch) reach(slot int) int64 {
	if slot >= len(l.slots) {
		return 0
	}
	return l.slots[slot]
}

// of sets l to what is known of a launch of f.
func (l *launch) of(f *ir.Func, from *Launch) {
	*l = launch{n: from.N, params: from.Params, unknown: from.Open, slots: from.SlotBytes}
	for d := range 3 {
		l.grid[d] = interval{int64(from.Grid[d]), int64(from.Grid[d])}
		l.block[d] = interval{int64(from.Block[d]), int64(from.Block[d])}
	}
}
