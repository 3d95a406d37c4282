package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// product is the library's plan of a matrix product, with k split where tiles would
// keep less than three quarters of the multiprocessors at work, and what the parts leave is
// not too much.
func product(t isa.Type, dims []int64, processors int64) (*kernels.Plan, error) {
	if t != isa.F32 && t != isa.F64 || len(dims) != 5 {
		return nil, nil
	}
	if _, err := kernels.Gemm.Plan(t, dims); err != nil { // the library refuses bad sizes in words
		return nil, nil
	}
	m, n, k := dims[0], dims[1], dims[2]
	if min(m, n) < fewestRows || max(m, n) > maxBlocks || k <= kernels.ProductChunk || ceil(k, kernels.ProductChunk)*m > mostParts/n {
		return nil, nil
	}
	l := []kernels.Layout{stored(t, m, k, dims[3]), stored(t, k, n, dims[4]), kernels.Packed(t, m, n)}
	return kernels.PlanProduct(l, processors*tileElements*3/4)
}

// stored is the layout of a matrix, which is stored transposed if flag is 1.
func stored(t isa.Type, rows, cols, flag int64) kernels.Layout {
	l := kernels.Packed(t, rows, cols)
	if flag == 1 {
		l.Stride = []int64{1, rows}
	}
	return l
}

// tileElements is how many elements of C a block has, fewestRows from how many rows
// and columns on a product is one of tiles, and mostParts how many elements parts
// may leave.
const (
	tileElements = 64 * 128
	fewestRows   = 8
	mostParts    = 1 << 26
)
