package jit

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// access says how code reaches slot[index].
type access uint8

const (
	contiguous   access = iota
	single              // one element for all
	spacedBlocks        // contiguous in each block
	staged              // by way of memory in which it is contiguous
)

// view is a launch's view of a slot, with the dimensions of the index space of
// which neighbours are fused where memory runs on. Strides are in bytes.
type view struct {
	base   uintptr
	size   int64
	access access
	rank   int
	shape  [isa.MaxRank]int64
	stride [isa.MaxRank]int64
}

// bind binds a launch's view, of which the dimensions are taken in an order.
func (w *view) bind(l *backends.Launch, v *backends.View, order []uint8) {
	w.base, w.size, w.rank = v.Addr, int64(v.Type.Size()), 0
	k := 0
	for _, i := range order {
		n, st := l.Shape[i], v.Stride[i]*w.size
		switch {
		case n == 1:
		case k > 0 && w.stride[k-1] == n*st:
			w.shape[k-1] *= n
			w.stride[k-1] = st
		default:
			w.shape[k], w.stride[k] = n, st
			k++
		}
	}
	w.rank = k
	switch {
	case k == 0, k == 1 && w.stride[0] == w.size:
		w.access = contiguous
	case k == 1 && w.stride[0] == 0:
		w.access = single
	default:
		w.access = staged
	}
}

// orderOf puts the dimensions of a launch in the order in which memory runs that a
// slot writes, if the program may do elements in any. It keeps the others' places.
func (p *program) orderOf(l *backends.Launch, order []uint8) []uint8 {
	for i := range l.Rank {
		order = append(order, uint8(i))
	}
	if l.Rank < 2 || !p.anyOrder || p.writes == 0 {
		return order
	}
	v := &l.Slots[bits.TrailingZeros64(p.writes)]
	slices.SortStableFunc(order, func(a, b uint8) int { return cmp.Compare(abs(v.Stride[b]), abs(v.Stride[a])) })
	return order
}

func abs(x int64) int64 { return max(x, -x) }

// inner returns the length and stride of the innermost dimension.
func (w *view) inner() (n, stride int64) { return w.shape[w.rank-1], w.stride[w.rank-1] }

// offset is where element g lies, in bytes from the first.
func (w *view) offset(g uint64) (off int64) {
	r := int64(g)
	for i := w.rank - 1; i >= 0; i-- {
		off += r % w.shape[i] * w.stride[i]
		r /= w.shape[i]
	}
	return off
}

// rows tells how many rows of n elements, from the one that begins with element g on,
// lie evenly in the view, and how many bytes apart.
func (w *view) rows(g, n uint64) (count uint64, step int64) {
	in := w.rank - 1
	inner := uint64(w.shape[in])
	if in == 0 || inner > n {
		return (inner - g%inner) / n, int64(n) * w.stride[in]
	}
	around := uint64(w.shape[in-1])
	return around - g/n%around, w.stride[in-1]
}

// period is after how many elements the view repeats itself; 0: it does not.
func (w *view) period() uint64 {
	if w.rank == 2 && w.stride[0] == 0 {
		return uint64(w.shape[1])
	}
	return 0
}

// even returns the most lanes, up to so many, after which all views that are staged and repeat themselves
// are where they were, so that they need not be staged again; multiples of whole groups if there are such.
func (r *run) even(piece uint64) uint64 {
	period := uint64(1)
	for i := range r.views {
		w := &r.views[i]
		if p := w.period(); p > 0 && w.access == staged && r.k.p.reads>>i&1 != 0 && r.k.p.writes>>i&1 == 0 {
			if all := multiple(period, p); all <= piece {
				period = all
			}
		}
	}
	for unit := uint64(align); ; unit /= 2 {
		if all := multiple(period, unit); all <= piece {
			return piece / all * all
		}
	}
}

// multiple is the least number that both divide.
func multiple(a, b uint64) uint64 {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}
