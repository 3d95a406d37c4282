// Package tuned has the GPU's own plans for operations of the library: Atlas
// programs in the written orders, shaped so that rows stay in registers and much
// memory is under way at once. They run on any backend, with the library's bits.
//
// tile.go has rows that a block holds, chunks.go longer ones, a chunk a block or some,
// reduce.go reductions of both, softmax.go and exps.go softmax, long.go that of longer rows,
// and what blocks that meet have in common; scan.go has cumulative sums, rowwise.go norms
// and gradients, rowcolumns.go these where rows are columns, columns.go reductions of
// columns, product.go products.
// Which serves a call depends on sizes.
package tuned

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Device is what a plan depends on.
type Device struct {
	Processors int64 // multiprocessors
	// Units: it has matrix units, whose products of 16-bit floats have chains of
	// UnitChunk.
	Units bool
	Meet  int64 // how many blocks can meet, a power of two, or 0: see kernels.Meeting
	// Most says how many can at most; nil: Meet. It is asked where more would have to, as
	// finding it takes longer.
	Most func() int64
}

// meet is how many of blocks can meet.
func (d Device) meet(blocks int64) int64 {
	if blocks <= d.Meet || d.Meet == 0 || d.Most == nil {
		return d.Meet
	}
	return d.Most()
}

// Plan returns a plan for an operation on a device, or nil where the library's own
// is as good.
func Plan(op *kernels.Op, t isa.Type, dims []int64, d Device) (*kernels.Plan, error) {
	if op == kernels.Gemm || op == kernels.Matvec {
		return productOf(op, t, dims, d)
	}
	if op == kernels.Cumsum && len(dims) == 2 {
		return scan(t, t, dims[0], dims[1], d)
	}
	r, ok := reductions[op]
	if !ok && op != kernels.Softmax && op.Rowwise() == nil || len(dims) != 2 || dims[0] < 1 || dims[1] < 1 {
		return nil, nil
	}
	// The library refuses bad sizes in words.
	if _, err := op.Extent(t, dims); err != nil {
		return nil, nil
	}
	if op.Rowwise() != nil {
		l, axes, err := op.Layouts(t, dims)
		if err != nil {
			return nil, nil
		}
		return rowwise(op, l, axes, d)
	}
	if op == kernels.Softmax {
		return softmax(t, dims[0], dims[1], d)
	}
	return r.plan(t, dims[0], dims[1], d)
}

// PlanShapes returns a plan for operands with shapes, the rows of which are the last
// axes dimensions of the first, below 0 all, or nil where the library's own is as good.
func PlanShapes(op *kernels.Op, l []kernels.Layout, axes int, d Device) (*kernels.Plan, error) {
	if axes < 0 && len(l) > 0 {
		axes = len(l[0].Shape)
	}
	if op.Rowwise() != nil {
		return rowwise(op, l, axes, d)
	}
	if (op == kernels.Gemm || op == kernels.Matvec) && d.units(l[0].Type) {
		return ofUnits(op, l, d)
	}
	if op == kernels.Cumsum {
		return scanOf(l, axes, d)
	}
	if r, ok := reductions[op]; ok && l[1].Packed() {
		if matrices, rows, cols, ok := l[0].Columns(len(l[0].Shape) - axes); ok {
			return r.columns(l[0].Type, l[1].Type, matrices, rows, cols, d)
		}
	}
	return nil, nil
}

// A reduction's chunks and partials.
const (
	chunk    = kernels.ChunkElements
	partials = kernels.Partials
	warp     = 32
)

// How many registers a lane's elements of a row may take: of a warp's rows, of
// larger blocks', and of a shape that is exact, which needs few others, where longer
// rows would be read several times.
const (
	warpRegisters  = 32
	mostRegisters  = 64
	exactRegisters = 128
)

// shape is how the rows of a matrix are dealt out: a block of so many lanes has so
// many rows, of each of which a lane has so many elements, or runs of some beside each
// other, lanes apart. If it is exact, rows have just as many elements as the lanes
// together, and blocks are whole.
type shape struct {
	lanes, elements, rows, beside int64
	exact                         bool
}

// shapeFor chooses the shape for rows of elements that are computed with in type t,
// of several of which a lane may hold so many together; ok is false if they are too
// long, for exact registers if the shape is exact.
func shapeFor(t isa.Type, rows, cols, processors, together, exact int64) (s shape, ok bool) {
	size := ceil(int64(t.Size()), 4)
	s = shape{lanes: warp, elements: ceil(cols, warp), rows: 1, beside: 1}
	if s.elements*size > warpRegisters {
		s = shape{lanes: partials, elements: ceil(cols, partials), rows: 1, beside: 1}
	}
	if n := s.elements * size; n > exact || n > mostRegisters && cols%partials != 0 {
		return shape{}, false
	}
	for s.lanes == warp && 2*s.rows*s.elements <= together && rows >= 2*s.rows*fullBlocks*processors {
		s.rows *= 2
	}
	s.exact = s.lanes*s.elements == cols && rows%s.rows == 0
	return s, true
}

// fullBlocks is how many blocks of a warp a multiprocessor can have at work.
const fullBlocks = 32

func ceil(n, d int64) int64 { return (n + d - 1) / d }

// programs are verified once for the process: what is prepared is found by them.
var programs sync.Map

// program returns the program of a key, made by text if it is the first time.
func program(key any, text func(w *writer)) (*isa.Verified, error) {
	if v, ok := programs.Load(key); ok {
		return v.(*isa.Verified), nil
	}
	w := &writer{beside: 1}
	text(w)
	p, err := isa.Assemble("tuned", w.String())
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, w.String())
	}
	v, err := isa.Verify(p)
	if err != nil {
		return nil, err
	}
	made, _ := programs.LoadOrStore(key, v)
	return made.(*isa.Verified), nil
}

// writer writes a program.
type writer struct {
	strings.Builder
	t, acc isa.Type // of elements, and in which they are computed with
	beside int      // partials that a lane has side by side
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// load loads an element, which widen has to complete.
func (w *writer) load(to, address string) { w.line("  ldg.%v %s, %s", w.t, to, address) }

// widen completes a load, once all are under way.
func (w *writer) widen(r string) {
	if w.t != w.acc {
		w.line("  cvt.%v.%v %s, %[3]s", w.acc, w.t, r)
	}
}

// store rounds r to type t and stores it.
func (w *writer) store(t isa.Type, r, address string) {
	if t != w.acc {
		w.line("  cvt.%v.%v %s, %[3]s", t, w.acc, r)
	}
	w.line("  stg.%v %s, %s", t, r, address)
}

// tree combines registers by halving: r[i] with r[i+w], w half their number
// rounded up to a power of two, and so on. Those that are not there count as the
// identity. It returns the one with the result.
func (w *writer) tree(combine string, r []string) string {
	n := 1
	for n < len(r) {
		n *= 2
	}
	for n /= 2; n > 0; n /= 2 {
		for i := 0; i < n && i+n < len(r); i++ {
			w.line("  %s.%v %s, %s, %s", combine, w.acc, r[i], r[i], r[i+n])
		}
		r = r[:min(n, len(r))]
	}
	return r[0]
}

// cells are parameters that the sizes settle.
func cells(values ...int64) []kernels.Param {
	list := make([]kernels.Param, len(values))
	for i, v := range values {
		list[i].Value = uint64(v)
	}
	return list
}

// step is the launch of a program by so many blocks, of the shape that it demands.
func step(p *isa.Verified, blocks int64, slots []kernels.Binding, params ...int64) kernels.Step {
	b := p.Program.Block
	return kernels.Step{
		Program: p, Slots: slots, Params: cells(params...), Grid: [3]uint32{uint32(blocks), 1, 1}, Block: b,
		Shape: []int64{blocks * int64(b[0]*b[1]*b[2])},
	}
}

// maxBlocks bounds a grid.
const maxBlocks = 1<<31 - 1
