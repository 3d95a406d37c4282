// Package tuned has the CPU's own plans for operations of the library: Atlas
// programs in the written orders, shaped so that a row stays in the caches while
// it is worked on. They run on any backend, with the library's bits. Where a call
// has none, the library's plan is as good.
//
// # Files
//
//	tuned.go          which plan a call gets
//	plan.go           plans in the making, and the programs, which are kept
//	writer.go         what all programs are written with
//	rows.go           reductions of rows; rowplaces.go: argmin and argmax of rows
//	columns.go        reductions of columns; columnplaces.go: argmin and argmax of columns, narrowplaces.go: of few
//	softmax.go        softmax of rows; longsoftmax.go: of long ones, columnsoftmax.go: of columns
//	scan.go           cumsum of rows; scancolumns.go: of columns, narrowcolumns.go: of few
//	rowwise.go        what finds numbers of a row and makes elements with them, as norms do (kernels.Rowwise);
//	                  rowcolumns.go: where rows are columns, columnstats.go: the numbers alone
//	gather.go         embedding and its gradient
package tuned

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Plan returns a plan for an operation by so many threads, or nil where the library's own is as good.
func Plan(op *kernels.Op, t isa.Type, dims []int64, threads int) (*kernels.Plan, error) {
	if gathers[op] != nil {
		l, _, err := op.Layouts(t, dims)
		if err != nil {
			return nil, nil
		}
		return gathering(op, l)
	}
	if !op.Axes {
		return nil, nil
	}
	// The library refuses bad sizes in words.
	if _, err := op.Extent(t, dims); err != nil {
		return nil, nil
	}
	out := t
	if places[op] != "" {
		out = isa.I64
	}
	return along(op, t, out, walk{dims[0], dims[1], dims[1], 1}, threads)
}

// along returns a plan for an operation on rows.
func along(op *kernels.Op, t, out isa.Type, r walk, threads int) (*kernels.Plan, error) {
	rows, cols := r.rows, r.cols
	switch {
	case places[op] != "":
		return place(places[op], t, out, r)
	case combines[op] != "":
		return reduction(combines[op], t, out, r)
	case op == kernels.Softmax && r.step == 1 && r.pitch >= cols:
		return softmax(t, r)
	case !r.packed():
		return nil, nil
	case op.Rowwise() != nil:
		l, axes, err := op.Layouts(t, []int64{rows, cols})
		if err != nil {
			return nil, nil
		}
		return rowwise(op, l, axes)
	case op == kernels.Cumsum:
		return cumsum(t, out, rows, cols, threads)
	}
	return nil, nil
}

// PlanShapes returns a plan for operands with shapes, the rows of which are the last
// axes dimensions of the first, below 0 all, or nil where the library's own is as good.
func PlanShapes(op *kernels.Op, l []kernels.Layout, axes, threads int) (*kernels.Plan, error) {
	if gathers[op] != nil {
		return gathering(op, l)
	}
	if !op.Axes || len(l) != 2 && op.Rowwise() == nil || l[0].Elements() == 0 {
		return nil, nil
	}
	if axes < 0 {
		axes = len(l[0].Shape)
	}
	if op.Rowwise() != nil {
		return rowwise(op, l, axes)
	}
	lead := len(l[0].Shape) - axes
	if op == kernels.Cumsum && slices.Equal(l[0].Shape, l[1].Shape) {
		m, rows, cols, ok := l[0].Columns(lead)
		if out, _, _, same := l[1].Columns(lead); ok && same && m == out {
			return columnSums(l[0].Type, l[1].Type, m, rows, cols)
		}
	}
	if op == kernels.Softmax && slices.Equal(l[0].Shape, l[1].Shape) {
		m, rows, cols, ok := l[0].Columns(lead)
		if out, _, _, same := l[1].Columns(lead); ok && same && m == out {
			return columnSoftmax(l[0].Type, m, rows, cols)
		}
	}
	if !op.Reduces && op != kernels.Cumsum && op != kernels.Softmax || !l[1].Packed() {
		return nil, nil
	}
	if rows, cols, pitch, step, ok := l[0].Rows(lead); ok && step > 0 && (step == 1 || rows == 1 || step < pitch) {
		return along(op, l[0].Type, l[1].Type, walk{rows, cols, pitch, step}, threads)
	}
	if m, rows, cols, ok := l[0].Columns(lead); ok && combines[op] != "" {
		return columns(combines[op], l[0].Type, l[1].Type, m, rows, cols)
	} else if ok && places[op] != "" {
		return columnPlaces(places[op], l[0].Type, l[1].Type, m, rows, cols)
	}
	return nil, nil
}

// combines are the reductions, by what they repeat.
var combines = map[*kernels.Op]string{
	kernels.ReduceSum: "add", kernels.ReduceProd: "mul", kernels.ReduceMin: "min", kernels.ReduceMax: "max",
}

// places are what finds where a row's reduction is.
var places = map[*kernels.Op]string{kernels.Argmin: "min", kernels.Argmax: "max"}

const (
	chunk   = kernels.ChunkElements
	lanes   = kernels.Partials
	longest = 8 * chunk
	alone   = 4 * chunk // elements of a row that is not worth several threads
	few     = 4         // rows
)
