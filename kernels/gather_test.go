package kernels_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// gathered runs an operation on operands in memory, and returns what of operand i is
// there afterwards, in row-major order.
func gathered(t *testing.T, op *kernels.Op, operands []*strided, scalars ...uint64) (after func(i int) []uint64) {
	t.Helper()
	left := shaped(t, op, -1, operands, scalars...)
	return func(i int) (cells []uint64) {
		for _, at := range places(&operands[i].Layout) {
			cells = append(cells, left[i][at])
		}
		return cells
	}
}

// numbered is an operand of indices from 0 to before n.
func numbered(r *rand.Rand, n int64, l kernels.Layout) *strided {
	s := draw(r, l)
	for i := range s.memory {
		s.memory[i] = uint64(r.Int64N(n))
	}
	s.cells = s.cells[:0]
	for _, at := range places(&l) {
		s.cells = append(s.cells, s.memory[at])
	}
	return s
}

// Losses of classes and their gradients are those of the formula, for rows of any
// strides, and a weight for each class or one for all, with a dimension or without.
func TestNLLBitForBit(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	for k, shape := range [][]int64{{7, 5}, {1, 3}, {4}, {2, 3, 4}, {2, 2, 3, 4}, {0, 3}} {
		for form, typ := range []isa.Type{isa.F32, isa.BF16, isa.F64} {
			ar := arithmetic{kernels.Accumulator(typ)}
			rows, classes := shape[:len(shape)-1], shape[len(shape)-1]
			logs := draw(r, layout(r, typ, form > 0, shape...))
			target := numbered(r, classes, layout(r, isa.I64, k > 2, rows...))
			weight := draw(r, layout(r, typ, form == 1, classes))
			if form == 2 {
				weight = draw(r, kernels.Packed(typ, []int64{1}[:k%2]...))
			}
			out := ar.Type
			if form == 1 {
				out = typ
			}
			const ignored = 1
			after := gathered(t, kernels.NLL, []*strided{logs, target, weight, draw(r, layout(r, ar.Type, form > 0, rows...)), draw(r, layout(r, out, false, rows...))}, ignored)
			weights, losses := after(3), after(4)
			total := draw(r, kernels.Packed(ar.Type))
			given := draw(r, layout(r, typ, form > 0, rows...))
			if form == 2 {
				given = draw(r, kernels.Packed(typ, 1))
			}
			slopes := gathered(t, kernels.NLLGradient, []*strided{given, target, weight, total, draw(r, layout(r, typ, form > 0, shape...))}, ignored)(4)
			for i, c := range target.cells {
				w, want := value(0), value(0)
				g := given.values[min(i, len(given.values)-1)]
				if c != ignored {
					w = weight.values[min(int(c), len(weight.values)-1)]
					want = -ar.mul(logs.values[i*int(classes)+int(c)], w)
				}
				requireCell(t, ar.Type, w, weights[i], "weights of %v %v [%d]", typ, shape, i)
				requireCell(t, out, want, losses[i], "nll of %v %v [%d]", typ, shape, i)
				for j := range classes {
					slope := value(0)
					if uint64(j) == c && c != ignored {
						slope = -ar.div(ar.mul(g, w), total.values[0])
					}
					requireCell(t, typ, slope, slopes[i*int(classes)+int(j)], "nll_gradient of %v %v [%d, %d]", typ, shape, i, j)
				}
			}
		}
	}
}

// Rows are copied bit for bit, and their gradients added up in the order of places.
func TestEmbeddingBitForBit(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 2))
	const rows, cols = 6, 5
	for form, typ := range []isa.Type{isa.F32, isa.F16, isa.F64} {
		ar := arithmetic{kernels.Accumulator(typ)}
		for _, shape := range [][]int64{{40}, {3, 4}, {1}, {}, {0}} {
			table := draw(r, layout(r, typ, form > 0, rows, cols))
			index := numbered(r, rows, layout(r, isa.I64, form > 0, shape...))
			got := gathered(t, kernels.Embedding, []*strided{table, index, draw(r, layout(r, typ, form == 1, append(slices.Clone(shape), cols)...))})(2)
			var order, starts, ends []uint64
			for row := range uint64(rows) {
				starts = append(starts, uint64(len(order)))
				for i, c := range index.cells {
					if c == row {
						order = append(order, uint64(i))
					}
				}
				ends = append(ends, uint64(len(order)))
			}
			for i, c := range index.cells {
				require.Equal(t, table.cells[c*cols:(c+1)*cols], got[i*cols:(i+1)*cols])
			}
			given := draw(r, layout(r, typ, form > 0, int64(len(order)), cols))
			of := func(c []uint64) *strided {
				s := numbered(r, rows, layout(r, isa.I64, form > 0, int64(len(c))))
				for i, at := range places(&s.Layout) {
					s.memory[at] = c[i]
				}
				return s
			}
			for _, share := range []uint64{0, 1} {
				const padding = 2
				sums := gathered(t, kernels.EmbeddingGradient,
					[]*strided{given, of(order), of(starts), of(ends), draw(r, layout(r, typ, form > 0, rows, cols))}, padding, share)(4)
				for row := range rows {
					places := order[starts[row]:ends[row]]
					for j := range cols {
						acc := math.Copysign(0, -1)
						for _, at := range places {
							acc = ar.add(acc, given.values[int(at)*cols+j])
						}
						if share == 1 && len(places) > 0 {
							acc = ar.div(acc, value(len(places)))
						}
						if row == padding || len(places) == 0 {
							acc = 0
						}
						requireCell(t, typ, acc, sums[row*cols+j], "embedding_gradient of %v %v, share %d: [%d, %d]", typ, shape, share, row, j)
					}
				}
			}
		}
	}
}

func TestGatheringIsRefused(t *testing.T) {
	f := func(shape ...int64) kernels.Layout { return kernels.Packed(isa.F32, shape...) }
	n := func(shape ...int64) kernels.Layout { return kernels.Packed(isa.I64, shape...) }
	for _, c := range []struct {
		op   *kernels.Op
		l    []kernels.Layout
		want string
	}{
		{kernels.NLL, []kernels.Layout{f(3, 4), n(4), f(4), f(3), f(3)}, "nll: target has shape (4,); expected (3,), a class for each row"},
		{kernels.NLL, []kernels.Layout{f(3, 4), n(3), f(3), f(3), f(3)}, "nll: weight has shape (3,); expected (4,), one for each class"},
		{kernels.NLL, []kernels.Layout{f(3, 4), n(3), f(4), f(4), f(3)}, "nll: weights has shape (4,); expected (3,)"},
		{kernels.NLLGradient, []kernels.Layout{f(2), n(3), f(4), f(1), f(3, 4)}, "nll_gradient: gradient has shape (2,), which does not broadcast to (3,)"},
		{kernels.CrossEntropy, []kernels.Layout{f(3, 4), n(3), f(4), f(2), f(3), f(3), f(3)}, "cross_entropy: most has shape (2,), which does not broadcast to (3,)"},
		{kernels.CrossEntropy, []kernels.Layout{f(3, 4), n(3), f(4), f(3), kernels.Packed(isa.F64, 3), f(3), f(3)}, "cross_entropy: log has dtype f64; expected f32, in which rows are summed"},
		{kernels.CrossEntropyGradient, []kernels.Layout{f(2), n(3), f(4), f(1), f(3, 4), f(3), f(3), f(3, 4)}, "cross_entropy_gradient: gradient has shape (2,), which does not broadcast to (3,)"},
		{kernels.CrossEntropyGradient, []kernels.Layout{f(3), n(4), f(4), f(1), f(3, 4), f(3), f(3), f(3, 4)}, "cross_entropy_gradient: target has shape (4,); expected (3,), a class for each row"},
		{kernels.CrossEntropyGradient, []kernels.Layout{f(3), n(3), f(4), f(1), f(3, 4), f(3), f(3), f(4, 3)}, "cross_entropy_gradient: scores has shape (3, 4), and output has (4, 3); expected the same"},
		{kernels.Embedding, []kernels.Layout{f(3), n(3), f(3, 4)}, "embedding: table has shape (3,); expected 2 dimensions"},
		{kernels.Embedding, []kernels.Layout{f(3, 4), n(3), f(3, 5)}, "embedding: output has shape (3, 5); the result has (3, 4)"},
		{kernels.EmbeddingGradient, []kernels.Layout{f(3, 4), n(2), n(6), n(6), f(6, 4)}, "embedding_gradient: order has shape (2,); expected (3,)"},
	} {
		_, err := c.op.PlanShapes(c.l, -1)
		require.ErrorContains(t, err, c.want)
	}
	_, err := kernels.NLLGradient.ResultShape([]kernels.Layout{f(3), n(3), f(1), f(1)}, nil, -1)
	require.ErrorContains(t, err, "nll_gradient: the operands don't tell how large output is")
	shape, err := kernels.Embedding.ResultShape([]kernels.Layout{f(3, 4), n(2, 5)}, nil, -1)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 5, 4}, shape)
}

// Cross entropies and their gradients are those of the formula, for rows of any strides,
// and have the bits of what they are made of where that rounds nothing between.
func TestCrossEntropyBitForBit(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 3))
	for k, shape := range [][]int64{{7, 5}, {1, 3}, {4}, {2, 3, 4}, {2, 2, 3, 4}, {0, 3}, {3, 1}} {
		for form, typ := range []isa.Type{isa.F32, isa.BF16, isa.F64} {
			ar := arithmetic{kernels.Accumulator(typ)}
			rows, classes := shape[:len(shape)-1], shape[len(shape)-1]
			scores := draw(r, layout(r, typ, form > 0, shape...))
			target := numbered(r, classes, layout(r, isa.I64, k > 2, rows...))
			weight := draw(r, layout(r, typ, form == 1, classes))
			given := draw(r, layout(r, typ, form > 0, rows...))
			if form == 2 {
				weight, given = draw(r, kernels.Packed(typ, []int64{1}[:k%2]...)), draw(r, kernels.Packed(typ, 1))
				if len(rows) == 0 { // as core sees what has no dimensions
					target = numbered(r, classes, kernels.Packed(isa.I64, 1))
				}
			}
			total := draw(r, kernels.Packed(ar.Type))
			room := func(form bool, typ isa.Type, shape ...int64) *strided { return draw(r, layout(r, typ, form, shape...)) }
			most, log := room(form > 0, ar.Type, rows...), room(form > 1, ar.Type, rows...)
			numbers := rowsOn(t, kernels.LogSumExp, scores, most, log)
			most, log = numbers[1], numbers[2]
			out := ar.Type
			if form == 1 {
				out = typ
			}
			const ignored = 1
			found := gathered(t, kernels.CrossEntropy, []*strided{scores, target, weight, most, log,
				room(form > 0, ar.Type, target.Shape...), room(false, out, target.Shape...)}, ignored)
			weights, losses := found(5), found(6)
			operands := []*strided{given, target, weight, total, scores, most, log, room(form > 0, typ, shape...)}
			got := gathered(t, kernels.CrossEntropyGradient, operands, ignored)(7)
			logs := make([]value, len(scores.values))
			for at := range logs {
				row := at / int(classes)
				logs[at] = ar.sub(ar.sub(scores.values[at], most.values[row]), log.values[row])
			}
			powers := function(t, ar, kernels.VectorExp, logs)
			for i, c := range target.cells {
				w, loss, share := value(0), value(0), value(0)
				if c != ignored {
					w = weight.values[min(int(c), len(weight.values)-1)]
					loss = -ar.mul(logs[i*int(classes)+int(c)], w)
					share = ar.div(ar.mul(given.values[min(i, len(given.values)-1)], w), total.values[0])
				}
				requireCell(t, ar.Type, w, weights[i], "weights of %v %v [%d]", typ, shape, i)
				requireCell(t, out, loss, losses[i], "cross_entropy of %v %v [%d]", typ, shape, i)
				for j := range classes {
					at := i*int(classes) + int(j)
					want := ar.mul(powers[at], share)
					if uint64(j) == c && c != ignored {
						want = ar.sub(want, share)
					}
					requireCell(t, typ, want, got[at], "%v %v [%d, %d]", typ, shape, i, j)
				}
			}
			if typ == isa.BF16 || len(shape) < 2 {
				continue
			}
			packed := func(cells []uint64) *strided {
				return &strided{Layout: kernels.Packed(typ, shape...), memory: append(cells, 0)}
			}
			theirs := packed(on(t, kernels.LogSoftmax, 1, []*strided{scores, draw(r, kernels.Packed(typ, shape...))}))
			same(t, typ, losses, gathered(t, kernels.NLL, []*strided{theirs, target, weight, room(false, typ, rows...), room(false, typ, rows...)}, ignored)(4))
			slopes := packed(gathered(t, kernels.NLLGradient, append(slices.Clone(operands[:4]), draw(r, kernels.Packed(typ, shape...))), ignored)(4))
			same(t, typ, got, on(t, kernels.LogSoftmaxGradient, 1, []*strided{slopes, theirs, draw(r, kernels.Packed(typ, shape...))}))
		}
	}
}

// same demands the same numbers, of zeros of either sign.
func same(t *testing.T, typ isa.Type, got, want []uint64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range got {
		if a, b := number(typ, got[i]), number(typ, want[i]); a != b && (a == a || b == b) {
			t.Errorf("%v [%d]: %v and %v", typ, i, a, b)
		}
	}
}

// rowsOn runs an operation on rows along the last dimension, and returns its operands as
// they are then.
func rowsOn(t *testing.T, op *kernels.Op, operands ...*strided) (after []*strided) {
	t.Helper()
	for i, left := range shaped(t, op, 1, operands) {
		s := &strided{Layout: operands[i].Layout, memory: left}
		for _, at := range places(&s.Layout) {
			s.cells, s.values = append(s.cells, left[at]), append(s.values, number(s.Type, left[at]))
		}
		after = append(after, s)
	}
	return after
}
