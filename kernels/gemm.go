package kernels

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hologram-project/hologram/isa"
)

// Gemm is C = alpha·op(A)·op(B) + beta·C with op(A) m×k, op(B) k×n. Of sizes
// that are given all are row-major and contiguous, and trans_a = 1 says that A is
// stored k×m and used transposed, trans_b = 1 that B is stored n×k; 0 as they
// stand. Else matrices are the last two dimensions of the operands, of any
// strides, and those before them are batches, to which A and B broadcast; a vector
// is a row of A or a column of B, which C then has not, as in numpy.matmul.
//
// Order: k is cut in chunks of ProductChunk, the last shorter, of which each is
// a chain of FMAs from +0.0 in order of k; the chunks' results are added up in
// order, in groups of ProductChunk, whose results are added up the same way,
// and so on. k alone decides, so that a row of C is the same in every batch. k
// = 0 gives +0.0. Then t = alpha·acc, and if beta ≠ 0 the result is FMA(beta,
// C, t); with beta = 0 C is not read. f16 and bf16 accumulate in f32 and are
// rounded once, after what follows the product. Integers wrap, where no order
// can be seen: of a and b of integers c may be of a wider type, in which the products
// are then made and added up. alpha and beta have the accumulator's type.
var Gemm = &Op{
	Name: "gemm", Doc: "c[m, n] = alpha · op(a)[m, k] · op(b)[k, n] + beta · c[m, n], row-major; of integers c may be of a wider type, in which they are multiplied",
	Types: isa.SetNumeric,
	Operands: []Operand{
		{Name: "a", Reads: true}, {Name: "b", Reads: true}, {Name: "c", Reads: true, Writes: true, Kind: Wider}},
	Scalars: []Scalar{{Name: "alpha", Wide: true, Default: new(1.0)}, {Name: "beta", Wide: true, Default: new(0.0), Of: "c"}},
	Dims:    []string{"m", "n", "k", "trans_a", "trans_b"},
	extent:  func(d []int64) []int64 { return []int64{d[0] * d[2], d[2] * d[1], d[0] * d[1]} },
	layouts: func(t isa.Type, d []int64) ([]Layout, int, error) {
		a, err := stored(t, "gemm: trans_a", d[0], d[2], d[3])
		if err != nil {
			return nil, 0, err
		}
		b, err := stored(t, "gemm: trans_b", d[2], d[1], d[4])
		return []Layout{a, b, Packed(t, d[0], d[1])}, 0, err
	},
	shapes:  func(l []Layout, _ int) (*Plan, error) { return gemmOf(l, fewLanes, ProductChunk) },
	product: gemmOf,
	result:  func(l []Layout, _ int) ([]int64, error) { return matmulShape(l) },
}

// PlanProduct is PlanShapes of Gemm or Matvec for a device on which results of fewer
// than few elements keep too little of it at work, so that k is split, into parts of a
// multiple of ProductChunk. The bits are the same where part is ProductChunk.
func PlanProduct(op *Op, l []Layout, few, part int64) (*Plan, error) { return op.product(l, few, part) }

func gemmOf(l []Layout, few, part int64) (*Plan, error) {
	l, err := matrices(l)
	if err != nil {
		return nil, err
	}
	return planProduct("gemm", l, few, part)
}

// matrices makes the vectors of a product matrices, as numpy.matmul does: a of one
// row, b of one column, either of which the result then has not.
func matrices(l []Layout) ([]Layout, error) {
	row, column := len(l[0].Shape) == 1, len(l[1].Shape) == 1
	c := &l[2]
	if !row && !column && len(l[0].Shape) > 0 && len(l[1].Shape) > 0 {
		if len(c.Shape) < 2 {
			return nil, fmt.Errorf("gemm: c has shape %s; expected a matrix, or a stack of them", shapeText(c.Shape))
		}
		return l, nil
	}
	want, err := matmulShape(l[:2])
	if err != nil {
		return nil, err
	}
	number := row && column && len(c.Shape) <= 1 && c.Elements() == 1
	if !number && !slices.Equal(c.Shape, want) {
		return nil, fmt.Errorf("gemm: c has shape %s; the result has %s", shapeText(c.Shape), shapeText(want))
	}
	all := []Layout{asMatrix(l[0], row, 0), asMatrix(l[1], column, 1), *c}
	switch rank := len(c.Shape); {
	case row && column:
		all[2] = Layout{c.Type, []int64{1, 1}, []int64{1, 1}}
	case row:
		all[2] = asMatrix(*c, true, rank-1)
	case column:
		all[2] = asMatrix(*c, true, rank)
	}
	return all, nil
}

// asMatrix is l, or if it is to be changed l with a dimension of 1 at a place.
func asMatrix(l Layout, change bool, at int) Layout {
	if change {
		l.Shape, l.Stride = slices.Insert(slices.Clone(l.Shape), at, 1), slices.Insert(slices.Clone(l.Stride), at, 1)
	}
	return l
}

// matmulShape is the shape of the product of a and b.
func matmulShape(l []Layout) ([]int64, error) {
	for i := range 2 {
		if len(l[i].Shape) == 0 {
			return nil, fmt.Errorf("gemm: %s has shape (); expected a vector, a matrix or a stack of matrices", []string{"a", "b"}[i])
		}
	}
	a, b := l[0].Shape, l[1].Shape
	row, column := len(a) == 1, len(b) == 1
	if k := a[len(a)-1]; k != b[max(0, len(b)-2)] && (row || column) {
		return nil, noProduct("gemm", a, b, b[max(0, len(b)-2)])
	}
	shape, err := productShape("gemm", []Layout{asMatrix(l[0], row, 0), asMatrix(l[1], column, 1)})
	if err != nil {
		return nil, err
	}
	if column {
		shape = shape[:len(shape)-1]
	}
	if row {
		at := len(shape) - 2
		if column {
			at++
		}
		shape = slices.Delete(shape, at, at+1)
	}
	return shape, nil
}

// Product is what a program does that a product's plan launches, for devices that
// have a better way: param by param it is as productText has it.
type Product struct {
	T, Acc, Out isa.Type // of A and B, of sums, of the result
	Batched     bool
	Split       bool // k is in parts
	Scaled      bool // the result is alpha · acc + beta · c; else acc
	// Most is how many products an element of a float's result, or of a part, may
	// sum up.
	Most int64
}

var productPrograms sync.Map // from *isa.Verified to *Product

// ProductOf returns what a program of a product's plan does, nil for others.
func ProductOf(v *isa.Verified) *Product {
	p, _ := productPrograms.Load(v)
	product, _ := p.(*Product)
	return product
}

// stored is the layout of a packed rows × cols matrix that is stored transposed
// if flag is 1.
func stored(t isa.Type, what string, rows, cols, flag int64) (Layout, error) {
	switch flag {
	case 0:
		return Packed(t, rows, cols), nil
	case 1:
		return Packed(t, cols, rows).transposed(), nil
	}
	return Layout{}, fmt.Errorf("%s = %d; expected 0 or 1", what, flag)
}

// Where few lanes would each have a long sum to do, k is split into parts of a
// chunk each, for a lane each. No part is longer than a group of chunks, and
// there are few enough for a grid's second dimension.
var fewLanes = int64(1 << 14)

const (
	maxPart  = ProductChunk * ProductChunk
	maxParts = 1 << 15
)

// maxBatches is how many matrices a launch takes at most, a grid's third dimension.
const maxBatches = 65535

// planProduct plans the product of matrices in the last two dimensions of l.
// Where the result has few elements, k is split into parts.
func planProduct(op string, l []Layout, few, part int64) (*Plan, error) {
	m, n, k, batches, err := productSizes(op, l)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if l[2].Elements() == 0 {
		return p, nil
	}
	in, size, err := p.factors(l, batches)
	if err != nil {
		return nil, err
	}
	c := operand(2, l[2])
	final := c
	if !c.Packed() { // it may be read
		if c, err = p.pack(c); err != nil {
			return nil, err
		}
	}
	if err := p.product(op, m, n, k, size, in, c, few, part); err != nil {
		return nil, err
	}
	if !final.Packed() {
		return p, p.copy(c, final)
	}
	return p, nil
}

// noProduct says that factors of such shapes have none: the last dimension of the first meets
// another size of the second.
func noProduct(op string, a, b []int64, meets int64) error {
	return fmt.Errorf("%s: there is no product of %s and %s: the first has %d in its last dimension, and meets %d of the second", op, shapeText(a), shapeText(b), a[len(a)-1], meets)
}

// productSizes checks shapes and returns what they say. batches is the shape of
// the stack.
func productSizes(op string, l []Layout) (m, n, k int64, batches []int64, err error) {
	rank := [3]int{len(l[0].Shape) - 2, len(l[1].Shape) - 2, len(l[2].Shape) - 2}
	a, b, c := l[0].Shape[rank[0]:], l[1].Shape[rank[1]:], l[2].Shape[rank[2]:]
	if a[1] != b[0] {
		return 0, 0, 0, nil, noProduct(op, a, b, b[0])
	}
	if c[0] != a[0] || c[1] != b[1] {
		return 0, 0, 0, nil, fmt.Errorf("%s: a product of %s and %s is no %s", op, shapeText(a), shapeText(b), shapeText(c))
	}
	batches = l[2].Shape[:rank[2]]
	shape, err := productShape(op, l)
	if err != nil {
		return 0, 0, 0, nil, err
	}
	if wide := shape[:len(shape)-2]; !slices.Equal(wide, batches) {
		return 0, 0, 0, nil, fmt.Errorf("%s: the result is a stack of shape %s, and there is one of %s for it", op, shapeText(wide), shapeText(batches))
	}
	return a[0], b[1], a[1], batches, nil
}

// productShape is the shape of the product of two matrices, or stacks of them.
func productShape(op string, l []Layout) ([]int64, error) {
	a, b := l[0].Shape, l[1].Shape
	stacks := [2][]int64{a[:len(a)-2], b[:len(b)-2]}
	if a[len(a)-1] != b[len(b)-2] {
		return nil, noProduct(op, a[len(a)-2:], b[len(b)-2:], b[len(b)-2])
	}
	shape, ok := joined(stacks[:]...)
	if !ok {
		return nil, fmt.Errorf("%s: stacks of shapes %s and %s do not broadcast", op, shapeText(stacks[0]), shapeText(stacks[1]))
	}
	return append(shape, a[len(a)-2], b[len(b)-1]), nil
}

// factor is an operand of a product: bytes from row to row, column to column,
// matrix to matrix.
type factor struct {
	array
	row, col, batch int64
}

// factors brings A and B to one stack of size matrices. What has no such strides
// is packed.
func (p *Plan) factors(l []Layout, batches []int64) (in [2]factor, size int64, err error) {
	size = 1
	var walks [2][]int64
	for f := range in {
		a := operand(f, l[f])
		rank := len(a.Shape) - 2
		stride := make([]int64, len(batches)+2)
		copy(stride[len(batches):], a.Stride[rank:])
		for i := range rank {
			if a.Shape[i] != 1 {
				stride[len(batches)-rank+i] = a.Stride[i]
			}
		}
		a.Shape, a.Stride = slices.Concat(batches, a.Shape[rank:]), stride
		if _, ok := a.span(); !ok {
			if a, err = p.pack(a); err != nil {
				return in, 0, err
			}
		}
		in[f].array, walks[f] = a, a.Stride[:len(batches)]
	}
	stack, steps := merged(batches, walks[0], walks[1])
	if len(stack) > 1 {
		for f := range in {
			if in[f].array, err = p.pack(in[f].array); err != nil {
				return in, 0, err
			}
			walks[f] = in[f].Stride[:len(batches)]
		}
		stack, steps = merged(batches, walks[0], walks[1])
	}
	for f := range in {
		width := int64(in[f].Type.Size())
		in[f].row, in[f].col = in[f].Stride[len(batches)]*width, in[f].Stride[len(batches)+1]*width
		if len(stack) == 1 {
			in[f].batch, size = steps[f][0]*width, stack[0]
		}
	}
	return in, size, nil
}

// product appends the steps of a stack of size products, of which few is the most
// elements of the result that have k split, into such parts.
func (p *Plan) product(op string, m, n, k, size int64, in [2]factor, c array, few, part int64) error {
	t := in[0].Type
	if m*n*size >= few || k > maxParts*part {
		part *= ProductChunk // a group, as which parts are added up
	}
	part = max(1, min(part, k))
	parts := max(1, (k+part-1)/part)
	f := products(t, c.Type)
	f.Map = sumOfProducts(f, part)
	f.Batched, f.Split = size > 1, parts > 1
	to := c
	scales := []Param{{Scalar: true, Value: 0}, {Scalar: true, Value: 1}}
	if f.Split {
		f.Out, f.Done = f.A, fmt.Sprintf("mov.%v z, acc", f.A)
		to, scales = p.room(f.A, parts, size*m*n), nil
	} else {
		f.Extra, f.Done = scaled(f)
	}
	program, err := productText.instance(f)
	if err != nil {
		return err
	}
	most := int64(ProductChunk)
	if part > ProductChunk {
		most = maxPart
	}
	productPrograms.LoadOrStore(program, &Product{T: t, Acc: f.A, Out: f.Out, Batched: f.Batched, Split: f.Split, Scaled: !f.Split, Most: most})
	// A block has 256 lanes in as few rows as the width allows.
	bx := min(n, 256)
	by := min(m, max(1, 256/bx))
	bz := int64(1)
	if part <= ProductChunk {
		bz = min(parts, 256/(bx*by))
	}
	gx, gy, gz := (n+bx-1)/bx, (m+by-1)/by, (parts+bz-1)/bz
	if gx*gy > maxDim {
		return fmt.Errorf("%s: m = %d, n = %d: too large for one launch", op, m, n)
	}
	params := cells(uint64(m), uint64(n), uint64(k), uint64(in[0].row), uint64(in[0].col), uint64(in[1].row), uint64(in[1].col), uint64(gx))
	for first := int64(0); first < size; first += maxBatches {
		deep := min(size-first, maxBatches)
		own := slices.Clone(params)
		if f.Batched {
			own = append(own, cells(uint64(first), uint64(in[0].batch), uint64(in[1].batch))...)
		}
		if f.Split {
			own = append(own, cells(uint64(parts), uint64(part), uint64(size*m*n))...)
		}
		p.Steps = append(p.Steps, Step{
			Program: program,
			Slots:   []Binding{in[0].bytes(), in[1].bytes(), to.bytes()},
			Params:  append(own, scales...),
			Grid:    [3]uint32{uint32(gx * gy), uint32(gz), uint32(deep)},
			Block:   [3]uint32{uint32(bx), uint32(by), uint32(bz)},
			Shape:   []int64{gx * bx * gy * by * gz * bz * deep},
		})
	}
	if f.Split {
		return p.addUp(op, size*m*n, parts, to, c)
	}
	return nil
}

// addUp appends the steps that add up, in groups and their results again, the
// matrices of count elements in from, and make C of the last sum.
func (p *Plan) addUp(op string, count, parts int64, from, c array) error {
	for last := false; !last; {
		groups := (parts + ProductChunk - 1) / ProductChunk
		last = groups == 1
		f := products(c.Type, c.Type)
		to := c
		var scales []Param
		if last {
			f.Extra, f.Done = scaled(f)
			scales = []Param{{Scalar: true, Value: 0}, {Scalar: true, Value: 1}}
		} else {
			f.Split, f.Out, f.Done = true, f.A, fmt.Sprintf("mov.%v z, acc", f.A)
			to = p.room(f.A, groups, count)
		}
		program, err := sumText.instance(f)
		if err != nil {
			return err
		}
		lanes := min(count, 256)
		across := (count + lanes - 1) / lanes
		if across*groups > maxDim || count > maxDim {
			return fmt.Errorf("%s: %d elements in %d groups: too large for one launch", op, count, groups)
		}
		p.Steps = append(p.Steps, Step{
			Program: program,
			Slots:   []Binding{from.bytes(), to.bytes()},
			Params:  append(cells(uint64(count), uint64(parts), uint64(across)), scales...),
			Grid:    [3]uint32{uint32(across * groups), 1, 1},
			Block:   [3]uint32{uint32(lanes), 1, 1},
			Shape:   []int64{across * groups * lanes},
		})
		parts, from = groups, to
	}
	return nil
}

// ProductChunk is how many products, or results of chunks, are added up in one
// go: the order of products, as Gemm has it.
const ProductChunk = 512

// sumOfProducts is the text that makes acc from left products, at most most, of
// elements of a and b that stand a_col and b_row bytes apart from oa and ob on:
// a chain, or a sum of chains.
func sumOfProducts(f fields, most int64) string {
	chain := fmt.Sprintf(`mov.%[1]v acc, 0
  loop left, done
    %[2]s
    %[3]s
    %[4]s.%[1]v acc, u, v, acc
    add.u64 oa, oa, a_col
    add.u64 ob, ob, b_row
done:
`, f.A, load(f.T, f.A, "u", "a[oa]"), load(f.T, f.A, "v", "b[ob]"), f.Combine)
	if most <= ProductChunk || !f.A.Float() {
		return chain
	}
	return fmt.Sprintf(`add.u32 chunks, left, 511
  shr.u32 chunks, chunks, 9
  mul.u64 a_step, a_col, 512
  mul.u64 b_step, b_row, 512
  mov.u64 a_at, oa
  mov.u64 b_at, ob
  mov.u32 done, 0
  mov.u32 all, left
  mov.%[1]v sum, -0.0
  loop chunks, summed
    sub.u32 left, all, done
    min.u32 left, left, 512
    mov.u64 oa, a_at
    mov.u64 ob, b_at
    %[2]s
    add.%[1]v sum, sum, acc
    add.u64 a_at, a_at, a_step
    add.u64 b_at, b_at, b_step
    add.u32 done, done, 512
summed:
  mov.%[1]v acc, sum
`, f.A, chain)
}
