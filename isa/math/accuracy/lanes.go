// Package accuracy measures the error of the expansions in isa/math: it
// evaluates them on many arguments at once and compares with references of
// higher precision.
//
// The error of a result is |result − exact| / ulp(exact), where ulp(exact) is
// the spacing of the type's numbers in the binade of the exact value, that of
// the subnormals below the smallest normal number. Infinity as a result stands
// for 2^(emax+1), the value that would come next if the format went on, and an
// exact value beyond that counts as that. NaN must be NaN, and a zero must
// have the sign of an exact zero; else the error is infinite.
package accuracy

import (
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// width is the number of lanes evaluated together: few enough that the
// registers of an expansion stay in the nearer caches.
const width = 512

// vector holds a register of all lanes. Its type is the instruction's, so the
// same bytes are seen as any of them; a predicate is a byte, 0 or 1.
type vector struct{ cells [width]uint64 }

func as[T any](v *vector) []T { return unsafe.Slice((*T)(unsafe.Pointer(v)), width) }

// file is a register file.
type file struct {
	regs  [isa.NumRegisters]*vector
	preds [isa.NumPredicates]*vector
}

// step does one instruction for lanes 0 … n−1.
type step func(n int)

// Evaluator runs an expansion on many arguments at once. It is for one
// goroutine.
type Evaluator struct {
	ty    isa.Type
	in    []*vector
	out   *vector
	steps []step
}

// Run evaluates the expansion on arguments x, y (nil but for POW and REM),
// whose elements have the expansion's type as bits: T is uint16, uint32 or
// uint64. The results go to out, which is as long as x.
func Run[T cell](e *Evaluator, out, x, y []T) {
	for len(x) > 0 {
		n := copy(as[T](e.in[0]), x)
		x = x[n:]
		if len(e.in) > 1 {
			copy(as[T](e.in[1]), y[:n])
			y = y[n:]
		}
		for _, s := range e.steps {
			s(n)
		}
		out = out[copy(out[:n], as[T](e.out)):]
	}
}

// load and store access a lane as a cell of a type, for what has no loop of
// its own.
func load(v *vector, t isa.Type, i int) uint64 {
	switch t.Size() {
	case 0, 1:
		return uint64(as[uint8](v)[i])
	case 2:
		return uint64(as[uint16](v)[i])
	case 4:
		return uint64(as[uint32](v)[i])
	}
	return v.cells[i]
}

func store(v *vector, t isa.Type, i int, c uint64) {
	switch t.Size() {
	case 0, 1:
		as[uint8](v)[i] = uint8(c)
	case 2:
		as[uint16](v)[i] = uint16(c)
	case 4:
		as[uint32](v)[i] = uint32(c)
	default:
		v.cells[i] = c
	}
}

// splat returns a vector that holds the cell c in every lane.
func splat(t isa.Type, c uint64) *vector {
	v := new(vector)
	for i := range width {
		store(v, t, i, c)
	}
	return v
}

// bySize picks the function for the width of t.
func bySize[F any](t isa.Type, f1, f2, f4, f8 F) F {
	switch t.Size() {
	case 0, 1:
		return f1
	case 2:
		return f2
	case 4:
		return f4
	}
	return f8
}

func move(t isa.Type, dst, src *vector) step {
	return bySize(t, moveOf[uint8], moveOf[uint16], moveOf[uint32], moveOf[uint64])(dst, src)
}

func moveOf[T any](dst, src *vector) step {
	d, s := as[T](dst), as[T](src)
	return func(n int) { copy(d[:n], s) }
}

// gather collects the given lanes of src in dst's first ones.
func gather(t isa.Type, dst, src *vector) func([]int) {
	return bySize(t, gatherOf[uint8], gatherOf[uint16], gatherOf[uint32], gatherOf[uint64])(dst, src)
}

func gatherOf[T any](dst, src *vector) func([]int) {
	d, s := as[T](dst), as[T](src)
	return func(lanes []int) {
		for i, l := range lanes {
			d[i] = s[l]
		}
	}
}

// scatter puts src's first lanes into the given ones of dst.
func scatter(t isa.Type, dst, src *vector) func([]int) {
	return bySize(t, scatterOf[uint8], scatterOf[uint16], scatterOf[uint32], scatterOf[uint64])(dst, src)
}

func scatterOf[T any](dst, src *vector) func([]int) {
	d, s := as[T](dst), as[T](src)
	return func(lanes []int) {
		for i, l := range lanes {
			d[l] = s[i]
		}
	}
}

// Value returns the function of x (and y), all rounded to the case's type.
func (e *Evaluator) Value(x, y float64) float64 {
	store(e.in[0], e.ty, 0, fromFloat(e.ty, x))
	if len(e.in) > 1 {
		store(e.in[1], e.ty, 0, fromFloat(e.ty, y))
	}
	for _, s := range e.steps {
		s(1)
	}
	return toFloat(e.ty, load(e.out, e.ty, 0))
}
