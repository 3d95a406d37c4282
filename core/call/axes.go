package call

import (
	"math/bits"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// KeepDims, in the number that tells of axes, says that the result of a reduction
// has them, as dimensions of 1.
const KeepDims = 1 << 16

// Axes are the dimensions of an operation's first operand along which its rows
// lie. Operations have them last: Prepare sees the operands so.
type Axes struct {
	mask uint
	rank int // the first operand's
	keep bool
}

// AxesOf reads the number that stands for them: bit i for dimension i of the first
// operand, which has the given rank, and KeepDims.
func AxesOf(op *kernels.Op, number int64, rank int) (Axes, error) {
	a := Axes{mask: uint(number &^ KeepDims), rank: rank, keep: number&KeepDims != 0}
	switch {
	case a.mask>>rank != 0:
		return a, status.Errorf(status.Invalid, "%s: axes 0x%x; %s has %d dimensions, which the low bits stand for",
			op.Name, uint64(number), op.Operands[0].Name, rank)
	case a.keep && !op.Reduces:
		return a, status.Errorf(status.Invalid, "%s keeps all dimensions", op.Name)
	}
	return a, nil
}

func (a Axes) count() int { return bits.OnesCount(a.mask) }

// Result is the shape of operand k, which an operation makes of a first one of a shape.
func (a Axes) Result(op *kernels.Op, k int, shape []int64) []int64 {
	if op.ForElements(k) {
		return shape
	}
	made := make([]int64, 0, isa.MaxRank)
	for i, d := range shape {
		switch {
		case a.mask>>i&1 == 0:
			made = append(made, d)
		case a.keep:
			made = append(made, 1)
		}
	}
	return made
}

// check checks the output's shape. One number may be in an array of one dimension.
func (a Axes) check(op *kernels.Op, first, out *backends.View) error {
	got, want := out.Shape[:out.Rank], a.Result(op, len(op.Operands)-1, first.Shape[:a.rank])
	if slices.Equal(got, want) || len(want) == 0 && slices.Equal(got, []int64{1}) {
		return nil
	}
	return status.Errorf(status.Invalid, "%s: %s has shape %s; the result has %s",
		op.Name, op.Operands[len(op.Operands)-1].Name, ShapeText(got), ShapeText(want))
}

// last sees an operand with the axes last, unless it has them no more.
func (a Axes) last(v *backends.View) {
	if v.Rank != a.rank {
		return
	}
	shape, stride := v.Shape, v.Stride
	others, axes := 0, a.rank-a.count()
	for i := range a.rank {
		to := &others
		if a.mask>>i&1 != 0 {
			to = &axes
		}
		v.Shape[*to], v.Stride[*to] = shape[i], stride[i]
		*to++
	}
}

// descend puts the dimensions of v from first on in the order of memory, those of
// the largest strides first; once, with one element of those that are one in memory.
func descend(v *backends.View, first int, once bool) {
	for i := first; once && i < v.Rank; i++ {
		if v.Stride[i] == 0 {
			v.Shape[i] = min(v.Shape[i], 1)
		}
	}
	for i := first + 1; i < v.Rank; i++ {
		for k := i; k > first && max(v.Stride[k], -v.Stride[k]) > max(v.Stride[k-1], -v.Stride[k-1]); k-- {
			v.Shape[k], v.Shape[k-1] = v.Shape[k-1], v.Shape[k]
			v.Stride[k], v.Stride[k-1] = v.Stride[k-1], v.Stride[k]
		}
	}
}
