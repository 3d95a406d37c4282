package call

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// A layout is a backends.View: where element 0 is, and shape and strides in
// elements. The functions here are all that core knows of strides.

// Pack gives v the strides of contiguous row-major memory.
func Pack(v *backends.View) {
	stride := int64(1)
	for i := v.Rank - 1; i >= 0; i-- {
		v.Stride[i] = stride
		stride *= v.Shape[i]
	}
	v.Bytes = stride * int64(v.Type.Size())
}

// Elements returns the number of elements of v, and whether it is at most limit.
func Elements(shape []int64, limit int64) (int64, bool) {
	for _, d := range shape {
		if d == 0 {
			return 0, true
		}
	}
	n := int64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > uint64(limit) {
			return 0, false
		}
		n = int64(lo)
	}
	return n, true
}

// Numel returns the number of elements of a layout that is known to be sound.
func Numel(v *backends.View) int64 {
	n := int64(1)
	for _, d := range v.Shape[:v.Rank] {
		n *= d
	}
	return n
}

// Contiguous reports whether v's elements lie one after the other, row-major.
func Contiguous(v *backends.View) bool {
	stride := int64(1)
	for i := v.Rank - 1; i >= 0; i-- {
		if v.Shape[i] == 0 {
			return true
		}
	}
	for i := v.Rank - 1; i >= 0; i-- {
		if v.Shape[i] != 1 && v.Stride[i] != stride {
			return false
		}
		stride *= v.Shape[i]
	}
	return true
}

// Extent returns the bytes from v's address that its elements reach, as the
// half-open interval [lo, hi); ok is false if they overflow.
func Extent(v *backends.View) (lo, hi int64, ok bool) {
	for _, d := range v.Shape[:v.Rank] {
		if d == 0 {
			return 0, 0, true
		}
	}
	size := int64(v.Type.Size())
	hi = size
	for i, d := range v.Shape[:v.Rank] {
		s := v.Stride[i]
		if d == 1 || s == 0 {
			continue
		}
		abs := uint64(s)
		if s < 0 {
			abs = -abs
		}
		over, reach := bits.Mul64(abs, uint64(d-1)*uint64(size))
		if over != 0 || uint64(d-1) > 1<<58 || reach > 1<<60 {
			return 0, 0, false
		}
		if s < 0 {
			lo -= int64(reach)
		} else {
			hi += int64(reach)
		}
		if hi > 1<<61 || lo < -1<<61 {
			return 0, 0, false
		}
	}
	return lo, hi, true
}

// selfOverlaps reports whether two elements of v may share memory, as in a
// broadcast view. It is exact for views cut out of an array by slices and
// transpositions, and errs on the safe side for others.
func selfOverlaps(v *backends.View) bool {
	if Numel(v) == 0 {
		return false
	}
	if v.Rank == 1 {
		return v.Shape[0] > 1 && v.Stride[0] == 0
	}
	reach := int64(0) // of the dimensions with smaller strides
	var done [isa.MaxRank]bool
	for range v.Rank {
		best := -1
		for i := range v.Rank {
			if !done[i] && v.Shape[i] > 1 && (best < 0 || abs(v.Stride[i]) < abs(v.Stride[best])) {
				best = i
			}
		}
		if best < 0 {
			return false
		}
		done[best] = true
		if s := abs(v.Stride[best]); s <= reach {
			return true
		} else {
			reach += s * (v.Shape[best] - 1)
		}
	}
	return false
}

// Holds reports whether every element of v is one of whole's. It is exact where
// both are cut out of an array by slices, steps and transpositions, and errs on
// the safe side for others.
func Holds(whole, v *backends.View) bool {
	if Numel(v) == 0 || Numel(whole) == 0 {
		return Numel(v) == 0
	}
	if permutes(whole, v) { // what follows takes a step for a sum of whole's, which are several where its elements overlap
		return true
	}
	var order []int // whole's dimensions, the greatest strides first
	at := int64(v.Addr) - int64(whole.Addr)
	size := int64(v.Type.Size())
	for i := range whole.Rank {
		if whole.Shape[i] > 1 && whole.Stride[i] != 0 {
			order = append(order, i)
			at -= min(0, (whole.Shape[i]-1)*whole.Stride[i]*size) // from the lowest element on
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(abs(whole.Stride[b]), abs(whole.Stride[a])) })
	if at%size != 0 {
		return false
	}
	for _, nearest := range []bool{false, true} { // a step of 11 is 11 columns or, of rows of 12, a row less a column
		if inside(whole, v, order, at/size, nearest) {
			return true
		}
	}
	return false
}

// permutes reports whether v is whole with its dimensions in another order.
func permutes(whole, v *backends.View) bool {
	if v.Addr != whole.Addr || v.Type != whole.Type || v.Rank != whole.Rank {
		return false
	}
	var taken [isa.MaxRank]bool
	for k := range v.Rank {
		i := 0
		for i < whole.Rank && (taken[i] || whole.Shape[i] != v.Shape[k] || whole.Stride[i] != v.Stride[k]) {
			i++
		}
		if i == whole.Rank {
			return false
		}
		taken[i] = true
	}
	return true
}

// inside is Holds, where v starts so many elements after whole's lowest.
func inside(whole, v *backends.View, order []int, start int64, nearest bool) bool {
	// take returns n elements as steps of whole, up from its lowest element.
	take := func(n int64, nearest bool) (counts [isa.MaxRank]int64, ok bool) {
		for k, i := range order {
			s := abs(whole.Stride[i])
			if counts[i] = n / s; nearest && k < len(order)-1 {
				counts[i] += 2 * (n % s) / s
			}
			n -= counts[i] * s
		}
		return counts, n == 0
	}
	lo, ok := take(start, false)
	if !ok {
		return false
	}
	hi := lo
	for k := range v.Rank {
		if v.Shape[k] == 1 {
			continue
		}
		each, ok := take(v.Stride[k], nearest)
		if !ok {
			return false
		}
		for _, i := range order {
			lo[i] += min(0, each[i]*(v.Shape[k]-1))
			hi[i] += max(0, each[i]*(v.Shape[k]-1))
		}
	}
	for _, i := range order {
		if lo[i] < 0 || hi[i] >= whole.Shape[i] {
			return false
		}
	}
	return true
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

// SameView reports whether a and b see the same elements in the same order.
func SameView(a, b *backends.View) bool {
	if a.Addr != b.Addr || a.Type != b.Type || a.Rank != b.Rank {
		return false
	}
	for i := range a.Rank {
		if a.Shape[i] != b.Shape[i] || a.Shape[i] > 1 && a.Stride[i] != b.Stride[i] {
			return false
		}
	}
	return true
}

// overlap reports whether two views may touch the same byte. Views whose extents
// meet are told apart by their place in periods of memory: the even and the odd
// elements of an array, or its left and its right columns. It errs on the safe
// side.
func overlap(a, b *backends.View) bool {
	alo, ahi, _ := Extent(a)
	blo, bhi, _ := Extent(b)
	if alo == ahi || blo == bhi {
		return false
	}
	gap := int64(b.Addr) - int64(a.Addr)
	if ahi <= gap+blo || gap+bhi <= alo {
		return false
	}
	all := int64(0)
	for _, v := range [2]*backends.View{a, b} {
		for i, d := range v.Shape[:v.Rank] {
			if d < 2 {
				continue
			}
			period := abs(v.Stride[i]) * int64(v.Type.Size())
			if apart(a, b, gap, period) {
				return false
			}
			all = gcd(all, period)
		}
	}
	return !apart(a, b, gap, all)
}

// apart reports whether two views, b gap bytes behind a, keep to different parts
// of each period of memory. Strides that are multiples of the period don't move
// a view within it; how far the others reach is.
func apart(a, b *backends.View, gap, period int64) bool {
	if period == 0 {
		return false
	}
	alo, ahi := within(a, period)
	blo, bhi := within(b, period)
	r := (gap + blo - alo) % period
	if r < 0 {
		r += period
	}
	return ahi-alo <= r && r+bhi-blo <= period
}

// within is the Extent of a view without the dimensions whose strides are
// multiples of a period.
func within(v *backends.View, period int64) (lo, hi int64) {
	inner := backends.View{Type: v.Type, Rank: v.Rank}
	for i, d := range v.Shape[:v.Rank] {
		if inner.Shape[i] = 1; v.Stride[i]*int64(v.Type.Size())%period != 0 {
			inner.Shape[i], inner.Stride[i] = d, v.Stride[i]
		}
	}
	lo, hi, _ = Extent(&inner)
	return lo, hi
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// broadcastTo sees v through a shape, as numpy.broadcast_to does: missing
// leading dimensions and those of size 1 are repeated.
func broadcastTo(v *backends.View, shape []int64) bool {
	if v.Rank > len(shape) {
		return false
	}
	var stride [isa.MaxRank]int64
	shift := len(shape) - v.Rank
	for i := range v.Rank {
		switch v.Shape[i] {
		case shape[shift+i]:
			stride[shift+i] = v.Stride[i]
		case 1:
		default:
			return false
		}
	}
	v.Rank = len(shape)
	copy(v.Shape[:], shape)
	v.Stride = stride
	return true
}

// mergeShapes broadcasts shape b against a and stores the result in a, as
// numpy.broadcast_shapes does. It returns the new rank, or -1 if they differ.
func mergeShapes(a *[isa.MaxRank]int64, rank int, b []int64) int {
	var out [isa.MaxRank]int64
	n := max(rank, len(b))
	for i := 1; i <= n; i++ {
		x, y := int64(1), int64(1)
		if i <= rank {
			x = a[rank-i]
		}
		if i <= len(b) {
			y = b[len(b)-i]
		}
		switch {
		case x == y || y == 1:
			out[n-i] = x
		case x == 1:
			out[n-i] = y
		default:
			return -1
		}
	}
	*a = out
	return n
}

// collapse merges dimensions of an index space that all views walk through as
// if they were one, and drops those of size 1. Views have the index space's
// rank and shape. The order of elements stays.
func collapse(views []backends.View, shape *[isa.MaxRank]int64, rank int) int {
	out := 0
	for i := range rank {
		if shape[i] == 1 {
			continue
		}
		merges := out > 0
		for k := 0; merges && k < len(views); k++ {
			merges = views[k].Stride[out-1] == views[k].Stride[i]*shape[i]
		}
		if merges {
			out--
			shape[out] *= shape[i]
		} else {
			shape[out] = shape[i]
		}
		for k := range views {
			views[k].Stride[out] = views[k].Stride[i]
		}
		out++
	}
	if out == 0 { // a single element
		shape[0] = 1
		for k := range views {
			views[k].Stride[0] = 1
		}
		out = 1
	}
	for k := range views {
		views[k].Rank = out
		views[k].Shape = *shape
		clear(views[k].Shape[out:])
		clear(views[k].Stride[out:])
	}
	clear(shape[out:])
	return out
}

// ShapeText writes a shape as Python would: (3, 4), (5,), ().
func ShapeText(shape []int64) string {
	parts := make([]string, len(shape))
	for i, d := range shape {
		parts[i] = fmt.Sprint(d)
	}
	if len(parts) == 1 {
		return "(" + parts[0] + ",)"
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// ViewOf checks a layout: a shape and strides in elements; nil strides are row-major.
func ViewOf(what string, addr uintptr, t isa.Type, shape, stride []int64) (*backends.View, error) {
	if !t.Numeric() {
		return nil, status.Errorf(status.BadType, "%s: dtype code %d names no type", what, t)
	}
	if len(shape) > isa.MaxRank {
		return nil, status.Errorf(status.Invalid, "%s: shape %s has %d dimensions; at most %d", what, ShapeText(shape), len(shape), isa.MaxRank)
	}
	for _, d := range shape {
		if d < 0 {
			return nil, status.Errorf(status.Invalid, "%s: shape %s has a negative dimension", what, ShapeText(shape))
		}
	}
	if _, ok := Elements(shape, memory.MaxBytes/8); !ok {
		return nil, status.Errorf(status.Invalid, "%s: shape %s has more elements than any memory", what, ShapeText(shape))
	}
	v := &backends.View{Addr: addr, Type: t, Rank: len(shape)}
	copy(v.Shape[:], shape)
	if stride == nil {
		Pack(v)
	} else if len(stride) != len(shape) {
		return nil, status.Errorf(status.Invalid, "%s: %d strides for %d dimensions", what, len(stride), len(shape))
	}
	copy(v.Stride[:], stride)
	if lo, hi, ok := Extent(v); !ok || addr != 0 && (int64(addr)+lo < 0 || int64(addr)+hi < 0) {
		return nil, status.Errorf(status.Invalid, "%s: shape %s with strides %s reaches beyond any memory", what, ShapeText(shape), ShapeText(stride))
	}
	return v, nil
}

// CheckView checks a layout that came as a whole.
func CheckView(v *backends.View) error {
	if v.Rank < 0 || v.Rank > isa.MaxRank {
		return status.Errorf(status.Invalid, "the array has %d dimensions; at most %d", v.Rank, isa.MaxRank)
	}
	if !v.Type.Numeric() {
		return status.Errorf(status.BadType, "dtype code %d names no type", v.Type)
	}
	for _, d := range v.Shape[:v.Rank] {
		if d < 0 {
			return status.Errorf(status.Invalid, "shape %s has a negative dimension", ShapeText(v.Shape[:v.Rank]))
		}
	}
	lo, hi, ok := Extent(v)
	if _, few := Elements(v.Shape[:v.Rank], memory.MaxBytes/8); !ok || !few || int64(v.Addr)+lo < 0 || int64(v.Addr)+hi < 0 {
		return status.Errorf(status.Invalid, "shape %s with strides %s reaches beyond any memory",
			ShapeText(v.Shape[:v.Rank]), ShapeText(v.Stride[:v.Rank]))
	}
	return nil
}
