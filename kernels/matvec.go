package kernels

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// Matvec is y = alpha·op(A)·x + beta·y with op(A) m×n. Of sizes that are given A
// is row-major and contiguous, and trans_a = 1 says that it is stored n×m; else
// A is the last two dimensions of its operand, and x and y are the last one of
// theirs, as with Gemm. Order and rounding are those of Gemm, of which it is the
// case of one column.
var Matvec = &Op{
	Name: "matvec", Doc: "y[m] = alpha · op(a)[m, n] · x[n] + beta · y[m], row-major; of integers y may be of a wider type, in which they are multiplied",
	Types: isa.SetNumeric,
	Operands: []Operand{
		{Name: "a", Reads: true}, {Name: "x", Reads: true}, {Name: "y", Reads: true, Writes: true, Kind: Wider}},
	Scalars: []Scalar{{Name: "alpha", Wide: true, Default: new(1.0)}, {Name: "beta", Wide: true, Default: new(0.0), Of: "y"}},
	Dims:    []string{"m", "n", "trans_a"},
	extent:  func(d []int64) []int64 { return []int64{d[0] * d[1], d[1], d[0]} },
	layouts: func(t isa.Type, d []int64) ([]Layout, int, error) {
		a, err := stored(t, "matvec: trans_a", d[0], d[1], d[2])
		return []Layout{a, Packed(t, d[1]), Packed(t, d[0])}, 0, err
	},
	shapes:  func(l []Layout, _ int) (*Plan, error) { return matvecOf(l, fewLanes, ProductChunk) },
	product: matvecOf,
	result: func(l []Layout, _ int) ([]int64, error) {
		l, err := columns(l)
		if err != nil {
			return nil, err
		}
		shape, err := productShape("matvec", l)
		if err != nil {
			return nil, err
		}
		return shape[:len(shape)-1], nil
	},
}

func matvecOf(l []Layout, few, part int64) (*Plan, error) {
	l, err := columns(l)
	if err != nil {
		return nil, err
	}
	return planProduct("matvec", l, few, part)
}

// columns makes the vectors of a product matrices of one column. Errors of sizes
// that it has not speak of vectors, so those are found before.
func columns(l []Layout) ([]Layout, error) {
	l = slices.Clone(l)
	for i := range l {
		if least := []int{2, 1, 1}[i]; len(l[i].Shape) < least {
			return nil, fmt.Errorf("matvec: %s has shape %s; expected %d dimensions or more", []string{"a", "x", "y"}[i], shapeText(l[i].Shape), least)
		}
	}
	a, x := l[0].Shape, l[1].Shape
	if a[len(a)-1] != x[len(x)-1] {
		return nil, noProduct("matvec", a, x, x[len(x)-1])
	}
	if len(l) > 2 {
		if y := l[2].Shape; a[len(a)-2] != y[len(y)-1] {
			return nil, fmt.Errorf("matvec: a product of %s and %s is no %s", shapeText(a), shapeText(x), shapeText(y))
		}
	}
	for i := 1; i < len(l); i++ {
		l[i].Shape = append(slices.Clone(l[i].Shape), 1)
		l[i].Stride = append(slices.Clone(l[i].Stride), 1)
	}
	return l, nil
}
