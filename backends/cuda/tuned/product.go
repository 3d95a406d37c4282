package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// productOf is the library's plan of a matrix product, with k split where tiles would
// keep less than three quarters of the multiprocessors at work, and what the parts leave is
// not too much.
func productOf(op *kernels.Op, t isa.Type, dims []int64, d Device) (*kernels.Plan, error) {
	if !t.Float() || op == kernels.Matvec && !d.units(t) {
		return nil, nil
	}
	if _, err := op.Plan(t, dims); err != nil { // the library refuses bad sizes in words
		return nil, nil
	}
	l, _, err := op.Layouts(t, dims)
	if err != nil {
		return nil, nil
	}
	if d.units(t) {
		return ofUnits(op, l, d)
	}
	m, n, k := dims[0], dims[1], dims[2]
	if min(m, n) < fewestRows || max(m, n) > maxBlocks || k <= kernels.ProductChunk || ceil(k, kernels.ProductChunk)*m > mostParts/n {
		return nil, nil
	}
	return kernels.PlanProduct(op, l, d.Processors*tileElements*3/4, kernels.ProductChunk)
}

// UnitChunk is how many products matrix units add up in one chain. It is longer than
// others': what waits of their sums is read and written while the units do, which at
// 512 took a ninth of the time of a product of 4096³ on an H100.
const UnitChunk = 4 * kernels.ProductChunk

// MatrixUnits reports whether matrix units, where a device has them, multiply a type: plans
// then sum in chunks of UnitChunk, which is what package product looks for.
func MatrixUnits(t isa.Type) bool { return t == isa.F16 || t == isa.BF16 }

// units reports whether a product of a type is one of matrix units.
func (d Device) units(t isa.Type) bool { return d.Units && MatrixUnits(t) }

// ofUnits is the plan of a product by matrix units, whatever its sizes: parts of k have
// the bits of chunks, so that how a result is computed doesn't show in it.
func ofUnits(op *kernels.Op, l []kernels.Layout, d Device) (*kernels.Plan, error) {
	few := d.Processors * tileElements * 3 / 4
	if c := l[len(l)-1]; c.Elements() > 0 {
		k := l[0].Shape[len(l[0].Shape)-1]
		if ceil(k, UnitChunk) > mostParts/c.Elements() {
			few = 0
		}
	}
	return kernels.PlanProduct(op, l, few, UnitChunk)
}

// tileElements is how many elements of C a block has, fewestRows from how many rows
// and columns on a product is one of tiles, and mostParts how many elements parts
// may leave.
const (
	tileElements = 64 * 128
	fewestRows   = 8
	mostParts    = 1 << 26
)
