package backends

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Flat is how slot[flat i] walks through memory: element i of a view, of Count in
// row-major order, is the one of number First + i·Step from the slot's address on.
// That is the lowest element's, and View.Bytes reaches to the end of the highest.
// Step is not 0; for i from −Limit to Limit, which is at least Count, no byte
// address wraps.
type Flat struct{ First, Step, Count, Limit int64 }

// FlatOf returns how v's elements lie, from the lowest of them on; false if no
// single step leads from each to the next. It takes v's strides as sound.
func FlatOf(v *View) (Flat, bool) {
	f := Flat{Count: 1}
	for d := range v.Rank {
		f.Count *= v.Shape[d]
	}
	run := int64(0) // what the dimension at hand has to step by; 0: any
	for d := v.Rank - 1; d >= 0; d-- {
		if v.Shape[d] == 1 || f.Count == 0 {
			continue
		}
		switch {
		case run == 0:
			f.Step = v.Stride[d]
		case v.Stride[d] != run:
			return f, false
		}
		if run = v.Stride[d] * v.Shape[d]; run == 0 {
			return f, false // an element that is repeated
		}
	}
	switch {
	case f.Count <= 1:
		f.Step = 1
	case f.Step < 0:
		f.First = -f.Step * (f.Count - 1)
	}
	f.Limit = 1 << 61 / (max(f.Step, -f.Step) * int64(v.Type.Size()))
	return f, true
}

// Packed reports whether element i is i elements from the slot's address.
func (f *Flat) Packed() bool { return f.First == 0 && f.Step == 1 }

// At returns how many bytes element i, of type t, lies from the slot's address.
func (f *Flat) At(i int64, t isa.Type) int64 { return (f.First + i*f.Step) * int64(t.Size()) }

// Reach returns how many bytes the elements, of the given size, reach over.
func (f *Flat) Reach(size int64) int64 {
	if f.Count == 0 {
		return 0
	}
	return (max(f.Step, -f.Step)*(f.Count-1) + 1) * size
}

// Space returns the sizes of the index space as the caller gave them.
func (l *Launch) Space() []int64 {
	if l.Sizes != nil {
		return l.Sizes
	}
	return l.Shape[:l.Rank]
}

// Give puts behind the program's own parameters what f asks of the launch.
func (l *Launch) Give(f *ir.Func) {
	for _, g := range f.Given {
		l.Params = append(l.Params, l.given(g))
	}
}

func (l *Launch) given(g ir.Given) uint64 {
	space := l.Space()
	switch g.Kind {
	case ir.GivenFirst:
		return uint64(l.Flats[g.Of].First)
	case ir.GivenStep:
		return uint64(l.Flats[g.Of].Step)
	case ir.GivenLimit:
		return uint64(l.Flats[g.Of].Limit)
	case ir.GivenRows:
		return SizeOf(space, len(space)-2)
	case ir.GivenColumns:
		return SizeOf(space, len(space)-1)
	case ir.GivenInner:
		n := uint64(1)
		for d := g.Of + 1; d < len(space); d++ {
			n *= uint64(space[d])
		}
		return max(n, 1)
	}
	return SizeOf(space, g.Of)
}

// SizeOf returns the size of an axis of an index space, 1 of one that it has not.
func SizeOf(space []int64, axis int) uint64 {
	if axis < 0 || axis >= len(space) {
		return 1
	}
	return uint64(space[axis])
}
