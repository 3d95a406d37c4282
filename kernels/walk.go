package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Elements of arrays that don't lie packed are read by a reduction where they lie, by way
// of a walk, where a packed copy would take much memory, and more than they lie in: what
// is broadcast may have any number of elements in little. Else a copy is the quicker, as a
// walk follows the strides with each element.

// packs tells whether so many bytes are packed that lie in so many.
var packs = func(bytes, lie int64) bool { return bytes <= max(lie, 1<<26) }

// few returns an array with the elements of a that lies packed if that takes few bytes,
// and else a itself.
func (p *Plan) few(a array) (array, error) {
	size := int64(a.Type.Size())
	if n, _ := a.forth().span(); a.Packed() || packs(a.Elements()*size, n*size) {
		return p.pack(a)
	}
	return a, nil
}

// walk is a way through arrays of one shape, from an element in row-major order to that
// Partials farther on: the place in each dimension but the first is a digit, to which that
// of Partials is added with a carry. Packed arrays need no digits.
type walk struct {
	shape   []int64
	strides [][]int64
}

// walkOf is the way through arrays, nil if all lie packed.
func walkOf(in []array) *walk {
	strides, packed := make([][]int64, len(in)), true
	for i, a := range in {
		strides[i], packed = a.Stride, packed && a.Packed()
	}
	if packed {
		return nil
	}
	w := &walk{}
	w.shape, w.strides = merged(in[0].Shape, strides...)
	if len(w.shape) == 0 { // one element
		w.shape, w.strides = []int64{1}, slices.Repeat([][]int64{{0}}, len(in))
	}
	return w
}

// dims is how many digits and the place before them a walk has, 0 of none.
func (w *walk) dims() int64 {
	if w == nil {
		return 0
	}
	return int64(len(w.shape))
}

// slots bind the arrays, each from the element that is first in memory on.
func (w *walk) slots(in []array) []Binding {
	list := make([]Binding, len(in))
	for i, a := range in {
		back := a.back()
		a.Layout = *a.forth()
		list[i] = a.bytes()
		list[i].Offset -= back * int64(a.Type.Size())
	}
	return list
}

// forth is l as if all its dimensions went forward, in the same memory.
func (l *Layout) forth() *Layout {
	to := Layout{l.Type, l.Shape, slices.Clone(l.Stride)}
	for k, s := range to.Stride {
		to.Stride[k] = max(s, -s)
	}
	return &to
}

// back is how many elements' room lies before the first in memory.
func (l *Layout) back() (n int64) {
	for i, d := range l.Shape {
		n += max(0, -l.Stride[i]) * max(0, d-1)
	}
	return n
}

// params are the numbers that a program walks by, in the order that declared has.
func (w *walk) params(in []array) []Param {
	if w == nil {
		return nil
	}
	var list []uint64
	left := int64(Partials) // in digits
	for k := len(w.shape) - 1; k > 0; k-- {
		list = append(list, uint64(w.shape[k]), uint64(left%w.shape[k]))
		left /= w.shape[k]
	}
	list = append(list, uint64(left))
	for i, a := range in {
		size := int64(a.Type.Size())
		list = append(list, uint64(a.back()*size))
		for _, s := range w.strides[i] {
			list = append(list, uint64(s*size))
		}
	}
	return cells(list...)
}

// offset is the register that has the byte offset of an element of array i.
func (f fields) offset(i int) string {
	if i == 0 || f.Walk == 0 && f.Sizes[i] == f.Sizes[0] {
		return "off"
	}
	return fmt.Sprintf("off%d", i)
}

// apart are the arrays whose offsets differ from those of the ones before.
func (f fields) apart() (list []int) {
	for i := range len(f.Sizes) {
		if i == 0 || f.offset(i) != "off" {
			list = append(list, i)
		}
	}
	return list
}

// Declared are the parameters of a walk: of each dimension but the first, from the last on,
// how many places it has and the digit of Partials, then the first's; of each array the
// offset of its first element, and bytes from place to place.
func (f fields) Declared() string {
	if f.Walk == 0 {
		return ""
	}
	var b strings.Builder
	for k := f.Walk - 1; k > 0; k-- {
		fmt.Fprintf(&b, "param n%d u64\nparam d%[1]d u64\n", k)
	}
	b.WriteString("param d0 u64\n")
	for i := range len(f.Sizes) {
		fmt.Fprintf(&b, "param b%d u64\n", i)
		for k := range f.Walk {
			fmt.Fprintf(&b, "param s%d_%d u64\n", i, k)
		}
	}
	return b.String()
}

// Placed finds the offsets of element number start of all.
func (f fields) Placed(start string) string {
	var b strings.Builder
	if f.Walk == 0 {
		for _, i := range f.apart() {
			fmt.Fprintf(&b, "  mul.u64 %s, %s, %d\n", f.offset(i), start, f.Sizes[i])
		}
		return b.String()
	}
	fmt.Fprintf(&b, "  mov.u64 c0, %s\n  ldp.u64 d0, d0\n", start)
	for k := f.Walk - 1; k > 0; k-- {
		fmt.Fprintf(&b, "  ldp.u64 n%d, n%[1]d\n  ldp.u64 d%[1]d, d%[1]d\n  rem.u64 c%[1]d, c0, n%[1]d\n  div.u64 c0, c0, n%[1]d\n", k)
	}
	for i := range len(f.Sizes) {
		// e is as far as Partials elements but for carries, and w what one is.
		fmt.Fprintf(&b, "  ldp.u64 %s, b%d\n  mov.u64 e%[2]d, 0\n", f.offset(i), i)
		for k := range f.Walk {
			fmt.Fprintf(&b, "  ldp.u64 s%d, s%d_%[1]d\n  mad.u64 %[3]s, c%[1]d, s%[1]d, %[3]s\n  mad.u64 e%[2]d, d%[1]d, s%[1]d, e%[2]d\n", k, i, f.offset(i))
			if k > 0 {
				fmt.Fprintf(&b, "  mul.u64 w%d_%d, n%[2]d, s%[2]d\n  sub.u64 w%[1]d_%[2]d, s%d, w%[1]d_%[2]d\n", i, k, k-1)
			}
		}
	}
	return b.String()
}

// Farther goes on by Partials elements.
func (f fields) Farther() string {
	var b strings.Builder
	for _, i := range f.apart() {
		if f.Walk == 0 {
			fmt.Fprintf(&b, "    add.u64 %s, %[1]s, %d\n", f.offset(i), Partials*int(f.Sizes[i]))
		} else {
			fmt.Fprintf(&b, "    add.u64 %s, %[1]s, e%d\n", f.offset(i), i)
		}
	}
	for k := f.Walk - 1; k > 0; k-- {
		fmt.Fprintf(&b, "    add.u64 c%d, c%[1]d, d%[1]d\n", k)
		if k < f.Walk-1 {
			fmt.Fprintf(&b, "    add.u64 c%d, c%[1]d, carry\n", k)
		}
		fmt.Fprintf(&b, "    set.ge.u64 p, c%d, n%[1]d\n    sel.u64 by, p, n%[1]d, 0\n    sub.u64 c%[1]d, c%[1]d, by\n", k)
		if k > 1 {
			b.WriteString("    sel.u64 carry, p, 1, 0\n")
		}
		for i := range len(f.Sizes) {
			fmt.Fprintf(&b, "    sel.u64 by, p, w%d_%d, 0\n    add.u64 %s, %[3]s, by\n", i, k, f.offset(i))
		}
	}
	return b.String()
}

// Rest finds the offsets of the element after whole ones from the first.
func (f fields) Rest() string {
	if f.Walk > 0 {
		return "" // they are there
	}
	return "    add.u64 beyond, start, whole\n" + f.Placed("beyond")
}
