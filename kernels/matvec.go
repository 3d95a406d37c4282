package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// Matvec is y = alpha·op(A)·x + beta·y with op(A) m×n, A row-major and
// contiguous; trans_a = 1 says that A is stored n×m. Order and rounding are
// those of Gemm, of which it is the case of one column.
var Matvec = &Op{
	Name: "matvec", Doc: "y[m] = alpha · op(a)[m, n] · x[n] + beta · y[m], row-major",
	Types: isa.SetNumeric,
	Operands: []Operand{
		{Name: "a", Reads: true}, {Name: "x", Reads: true}, {Name: "y", Reads: true, Writes: true}},
	Scalars: []Scalar{{Name: "alpha", Wide: true, Default: new(1.0)}, {Name: "beta", Wide: true, Default: new(0.0)}},
	Dims:    []string{"m", "n", "trans_a"},
	extent:  func(d []int64) []int64 { return []int64{d[0] * d[1], d[1], d[0]} },
	plan: func(t isa.Type, d []int64) (*Plan, error) {
		if err := flag("matvec", "trans_a", d[2]); err != nil {
			return nil, err
		}
		return planGemm(t, []int64{d[0], 1, d[1], d[2], 0})
	},
}

// flag checks a size that stands for yes or no.
func flag(op, name string, v int64) error {
	if v != 0 && v != 1 {
		return fmt.Errorf("%s: %s = %d; expected 0 or 1", op, name, v)
	}
	return nil
}
