package strips

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// layout says how slot[index] moves through memory.
type layout uint8

const (
	// linear: element i of the index space is element i of the memory.
	linear layout = iota
	// scalar: every element is the same one.
	scalar
	// strided: in rows of at least run.row elements, the innermost stride.
	strided
	// scattered: everything else.
	scattered
)

// slot is a launch's view as the steps use it. The dimensions are those of
// the index space with neighbours fused where memory runs on, strides in bytes.
type slot struct {
	base   unsafe.Pointer
	bytes  int64 // what byte addresses may reach
	size   uint8
	layout layout
	// still: nothing stores to the slot's memory during the launch, so a
	// load may alias it. alone: no other slot shares memory with it.
	still, alone bool
	rank         int
	shape        [isa.MaxRank]int64
	stride       [isa.MaxRank]int64
}

// bind prepares a slot for a view of a launch.
func (sl *slot) bind(l *backends.Launch, v *backends.View) {
	sl.base, sl.bytes, sl.size = hostmem.Pointer(v.Addr), v.Bytes, uint8(v.Type.Size())
	size := int64(sl.size)
	k := 0
	for i := range l.Rank {
		n, st := l.Shape[i], v.Stride[i]*size
		switch {
		case n == 1:
		case k > 0 && sl.stride[k-1] == n*st:
			sl.shape[k-1] *= n
			sl.stride[k-1] = st
		default:
			sl.shape[k], sl.stride[k] = n, st
			k++
		}
	}
	sl.rank = k
	switch {
	case k == 0, k == 1 && sl.stride[0] == 0:
		sl.layout = scalar
	case k == 1 && sl.stride[0] == size:
		sl.layout = linear
	default:
		sl.layout = scattered
	}
}

// extent returns the first byte of the slot's memory and the one after the
// last that the launch may reach through it.
func (sl *slot) extent() (lo, hi uintptr) {
	lo = uintptr(sl.base)
	hi = lo + uintptr(max(sl.bytes, int64(sl.size)))
	var up, down int64
	for i := range sl.rank {
		d := (sl.shape[i] - 1) * sl.stride[i]
		up, down = up+max(d, 0), down+min(d, 0)
	}
	return lo - uintptr(-down), max(hi, lo+uintptr(up)+uintptr(sl.size))
}

// cursor is a place in a slot's view.
type cursor struct {
	off int64 // bytes from element 0
	at  [isa.MaxRank]int64
}

// cursor returns the place of element g.
func (sl *slot) cursor(g uint64) (c cursor) {
	r := int64(g)
	for i := sl.rank - 1; i >= 0; i-- {
		n := sl.shape[i]
		if n == 0 {
			return c
		}
		c.at[i] = r % n
		c.off += c.at[i] * sl.stride[i]
		r /= n
	}
	return c
}

// run returns how many elements follow with the innermost stride, at most n.
func (sl *slot) run(c *cursor, n int) int {
	in := sl.rank - 1
	return int(min(int64(n), sl.shape[in]-c.at[in]))
}

// advance moves on by k elements, not past the end of the innermost dimension.
func (sl *slot) advance(c *cursor, k int) {
	i := sl.rank - 1
	c.at[i] += int64(k)
	c.off += int64(k) * sl.stride[i]
	for i > 0 && c.at[i] == sl.shape[i] {
		c.off -= sl.shape[i] * sl.stride[i]
		c.at[i] = 0
		i--
		c.at[i]++
		c.off += sl.stride[i]
	}
}

// element returns the address of element g.
func (sl *slot) element(g uint64) unsafe.Pointer {
	switch sl.layout {
	case linear:
		return unsafe.Add(sl.base, int64(g)*int64(sl.size))
	case scalar:
		return sl.base
	}
	return unsafe.Add(sl.base, sl.cursor(g).off)
}

// loadIndex is LDG from slot[index]: no address of it can be stray, and lanes
// that don't run may load along.
func loadIndex(f *frame, s *step) {
	d, sl := &f.regs[s.d], &f.slots[s.slot]
	switch sl.layout {
	case linear:
		f.consecutive(d, sl.element(f.g0), sl.still)
	case scalar:
		d.setUni(loadCell(int(sl.size), sl.base))
	case strided:
		st := sl.stride[sl.rank-1]
		p := sl.element(f.g0)
		switch st {
		case 0:
			d.setUni(loadCell(int(sl.size), p))
		case int64(sl.size):
			f.consecutive(d, p, sl.still)
		default:
			gatherSize(sl.size, d.setVec(), p, st, f.n)
		}
	default:
		c, st := sl.cursor(f.g0), sl.stride[sl.rank-1]
		p, size := d.setVec(), int(sl.size)
		for i := 0; i < f.n; {
			k := sl.run(&c, f.n-i)
			from := unsafe.Add(sl.base, c.off)
			if st == int64(size) {
				move(sl.size, unsafe.Add(p, i*size), from, k)
			} else {
				gatherSize(sl.size, unsafe.Add(p, i*size), from, st, k)
			}
			sl.advance(&c, k)
			i += k
		}
	}
}

// consecutive makes d hold the values from p on, in place if they stay.
func (f *frame) consecutive(d *reg, p unsafe.Pointer, still bool) {
	if still {
		d.kind, d.p = vec, p
		return
	}
	move(d.size, d.setVec(), p, f.n)
}

// storeIndex is STG to slot[index].
func storeIndex(f *frame, s *step) {
	v, sl := &f.regs[s.b], &f.slots[s.slot]
	size := int(sl.size)
	whole := f.m.count == f.n
	if sl.layout == linear && whole {
		to := sl.element(f.g0)
		switch {
		case v.kind == uni:
			fillSize(v.size, to, v.bits, f.n)
		case v.kind == aff:
			rampSize(v.size, to, int64(v.bits), v.stride, f.n)
		case v.p != to: // else it was computed there
			move(v.size, to, v.p, f.n)
		}
		return
	}
	p := v.lanes(f)
	if sl.layout == linear {
		blendSize(v.size, sl.element(f.g0), p, f.m.p, f.n)
		return
	}
	if sl.rank == 0 {
		for i := f.n - 1; i >= 0; i-- {
			if f.m.has(i) {
				move(v.size, sl.base, unsafe.Add(p, i*size), 1)
				return
			}
		}
		return
	}
	c, st := sl.cursor(f.g0), sl.stride[sl.rank-1]
	for i := 0; i < f.n; {
		k := sl.run(&c, f.n-i)
		to, from := unsafe.Add(sl.base, c.off), unsafe.Add(p, i*size)
		switch {
		case !whole:
			scatterSize(v.size, to, from, unsafe.Add(f.m.p, i), st, k)
		case st == int64(size):
			move(v.size, to, from, k)
		default:
			scatterSize(v.size, to, from, nil, st, k)
		}
		sl.advance(&c, k)
		i += k
	}
}

// loadCell and storeCell move one value of the given size.
func loadCell(size int, p unsafe.Pointer) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

func storeCell(size int, p unsafe.Pointer, v uint64) {
	switch size {
	case 1:
		*(*uint8)(p) = uint8(v)
	case 2:
		*(*uint16)(p) = uint16(v)
	case 4:
		*(*uint32)(p) = uint32(v)
	default:
		*(*uint64)(p) = v
	}
}
