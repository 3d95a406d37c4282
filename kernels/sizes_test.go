package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// smallLayouts yields layouts of up to three dimensions of few elements, of
// strides that lie packed, apart, on each other and backwards.
func smallLayouts(yield func(Layout) bool) {
	sizes, strides := []int64{0, 1, 2, 3}, []int64{-1, 0, 1, 2, 3, 6}
	var grow func(shape, stride []int64) bool
	grow = func(shape, stride []int64) bool {
		if !yield(Layout{isa.F32, slices.Clone(shape), slices.Clone(stride)}) {
			return false
		}
		if len(shape) == 3 {
			return true
		}
		for _, d := range sizes[len(shape)/2:] { // of three dimensions the last has elements
			for _, s := range strides {
				if !grow(append(shape, d), append(stride, s)) {
					return false
				}
			}
		}
		return true
	}
	grow(nil, nil)
}

// elementsOf lists where a layout's elements lie, in row-major order.
func elementsOf(l *Layout) []int64 {
	at := []int64{0}
	for i, d := range l.Shape {
		next := make([]int64, 0, int64(len(at))*d)
		for _, a := range at {
			for k := range d {
				next = append(next, a+k*l.Stride[i])
			}
		}
		at = next
	}
	return at
}

// TestWhatLayoutsSay holds what is asked about layouts, and what they are made to,
// against lists of their elements.
func TestWhatLayoutsSay(t *testing.T) {
	i := 0
	for l := range smallLayouts {
		if i++; brief.Skips(i, 11) {
			continue
		}
		at := elementsOf(&l)
		n := int64(len(at))
		require.Equal(t, n, l.Elements(), "%+v", l)
		inARow := true
		for i, a := range at {
			inARow = inARow && a == int64(i)
		}
		require.Equal(t, inARow, l.Packed(), "%+v", l)
		span, ok := l.span()
		require.Equal(t, n == 0 || slices.Min(at) == 0, ok, "%+v", l)
		if ok {
			require.Equal(t, slices.Max(append(at, -1))+1, span, "%+v", l)
		}
		var p Plan
		a, err := p.forward(operand(0, l))
		require.NoError(t, err)
		if first := a.operand == 0; first {
			require.Equal(t, at, elementsOf(&a.Layout))
			require.Empty(t, p.Steps)
		} else {
			require.Len(t, p.Steps, 1)
			require.Equal(t, (4*n+63)&^63, p.Workspace)
		}
		require.Equal(t, ok, a.operand == 0, "%+v", l)
		shape, walks := merged(l.Shape, l.Stride)
		m := Layout{l.Type, shape, walks[0]}
		require.Equal(t, at, elementsOf(&m), "%+v merged is %+v", l, m)
		for i, d := range shape {
			require.NotEqual(t, 1, d)
			if n > 0 && i > 0 {
				require.NotEqual(t, walks[0][i]*d, walks[0][i-1], "%+v merged is %+v", l, m)
			}
		}
		for lead := range len(l.Shape) + 1 {
			if g, ok := rowsOf(l, lead); ok && n > 0 {
				var found []int64
				for row := range g.n0 * g.n1 {
					for k := range g.cols {
						found = append(found, row/g.n0*g.s1+row%g.n0*g.s0+k*g.step)
					}
				}
				require.Equal(t, at, found, "%+v, %d lead: %+v", l, lead, g)
			}
		}
	}
}

// TestShapesJoinAsNumpysDo holds broadcasting against its definition, element by element.
func TestShapesJoinAsNumpysDo(t *testing.T) {
	var shapes [][]int64
	for _, a := range []int64{-1, 0, 1, 2, 3} {
		for _, b := range []int64{-1, 0, 1, 2, 3} {
			shapes = append(shapes, slices.DeleteFunc([]int64{a, b}, func(d int64) bool { return d < 0 }))
		}
	}
	for _, x := range shapes {
		for _, y := range shapes {
			var want []int64
			ok := true
			for i := max(len(x), len(y)); i > 0; i-- {
				d, e := int64(1), int64(1)
				if i <= len(x) {
					d = x[len(x)-i]
				}
				if i <= len(y) {
					e = y[len(y)-i]
				}
				switch {
				case d == e || e == 1:
					want = append(want, d)
				case d == 1:
					want = append(want, e)
				default:
					ok = false
				}
			}
			got, joins := joined(x, y)
			require.Equal(t, ok, joins, "%v and %v", x, y)
			if ok {
				require.Equal(t, want, got, "%v and %v", x, y)
			}
		}
	}
}

// TestWhichTypesGoWithWhich tries operands of each kind in each pair of types.
func TestWhichTypesGoWithWhich(t *testing.T) {
	wider := map[isa.Type]isa.TypeSet{ // floats in which sums of another are exact, or nearly so
		isa.F16: 1<<isa.F16 | 1<<isa.F32 | 1<<isa.F64, isa.BF16: 1<<isa.BF16 | 1<<isa.F32 | 1<<isa.F64,
		isa.F32: 1<<isa.F32 | 1<<isa.F64, isa.F64: 1 << isa.F64,
	}
	for _, of := range isa.NumericTypes {
		sums, products := wider[of], isa.TypeSet(1<<of)
		if of.Integer() {
			for _, got := range isa.SetInt.List() {
				if got.Bits() >= of.Bits() {
					sums |= 1 << got
				}
				if got.Bits() > of.Bits() {
					products |= 1 << got
				}
			}
		}
		for kind, taken := range map[Kind]isa.TypeSet{Same: 1 << of, Sum: sums, Wider: products, Index: 1 << isa.I64, Mask: 1 << isa.U8} {
			op := &Op{Name: "op", Types: isa.SetNumeric, Operands: []Operand{{Name: "x"}, {Name: "y", Kind: kind}}}
			for _, got := range isa.NumericTypes {
				err := op.CheckTypes([]isa.Type{of, got})
				if taken.Has(got) {
					require.NoError(t, err, "%v of %v as %v", kind, of, got)
					continue
				}
				require.ErrorContains(t, err, fmt.Sprintf("op: y has dtype %v", got))
				if kind != Index && kind != Mask {
					require.ErrorContains(t, err, fmt.Sprintf("x has %v", of))
				}
			}
		}
		want := of
		if of.Size() == 2 && of.Float() {
			want = isa.F32
		}
		require.Equal(t, want, Accumulator(of))
		require.Equal(t, []isa.Type{of, want, isa.I64}, []isa.Type{Scalar{}.Type(of), Scalar{Wide: true}.Type(of), Scalar{Index: true}.Type(of)})
	}
}

// TestIdentitiesChangeNothing combines them with what lies at the ends of each type.
func TestIdentitiesChangeNothing(t *testing.T) {
	for combine, op := range map[string]isa.Op{"add": isa.ADD, "mul": isa.MUL, "min": isa.MIN, "max": isa.MAX} {
		row, _ := isa.Lookup(op)
		for _, typ := range isa.NumericTypes {
			identity, err := isa.ParseImmediate(typ, Identity(combine, typ))
			require.NoError(t, err)
			top := uint64(1) << (typ.Bits() - 1)
			cells := []uint64{0, 1, top, top - 1, top + 1, typ.Mask()}
			if typ.Float() {
				inf := (uint64(1)<<typ.ExponentBits() - 1) << typ.MantissaBits()
				cells = []uint64{0, top, 1, top | 1, inf, inf | top, inf - 1, isa.CanonicalNaN(typ)}
			}
			for _, c := range cells {
				got, _ := row.Eval(isa.Form{Type: typ}, identity, c, 0)
				require.Equal(t, c, got, "%s.%v of %#x", combine, typ, c)
			}
		}
	}
}

// TestSizesPlanAsShapesDo: where sizes say all about a call, a plan made of them is
// that made of the shapes.
func TestSizesPlanAsShapesDo(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for _, op := range All {
		if op.Elementwise {
			continue
		}
		sized := 0
		for range 40 {
			rank := 1 + r.IntN(3)
			first := make([]int64, rank)
			for i := range first {
				first[i] = int64(1 + r.IntN(5))
			}
			axes := -1
			if op.Axes {
				axes = r.IntN(rank+2) - 1
			}
			of := op.Types.List()[0]
			l := []Layout{Packed(of, first...)}
			last := first[rank-1]
			switch {
			case op == Gemm && rank > 1:
				cols := int64(1 + r.IntN(5))
				l = append(l, Packed(of, last, cols), Packed(of, append(slices.Clone(first[:rank-1]), cols)...))
			case op == Matvec && rank > 1:
				l = append(l, Packed(of, last), Packed(of, first[:rank-1]...))
			case op == Gemm, op == Matvec, len(op.Operands) > 3, op.rowwise != nil && len(op.Operands) > 2:
				continue
			default:
				for len(l) < len(op.Operands)-1 {
					l = append(l, l[0])
				}
				if op.result == nil && op.rowwise == nil || op == Embedding {
					continue
				}
				shape, err := op.ResultShape(l, nil, axes)
				require.NoError(t, err, op.Name)
				l = append(l, Packed(of, shape...))
			}
			dims := op.Sizes(l, axes)
			if dims == nil {
				continue
			}
			sized++
			bySize, err := op.Plan(of, dims)
			require.NoError(t, err, "%s %v", op.Name, dims)
			kind := op.Operands[len(op.Operands)-1].Kind
			if kind == Index {
				l[len(l)-1].Type = isa.I64
			}
			byShape, err := op.PlanShapes(l, axes)
			require.NoError(t, err)
			require.Equal(t, bySize.Workspace, byShape.Workspace, "%s of %v, %d axes", op.Name, first, axes)
			require.Len(t, byShape.Steps, len(bySize.Steps))
			for i, s := range byShape.Steps {
				require.Same(t, bySize.Steps[i].Program, s.Program, "%s of %v, %d axes", op.Name, first, axes)
				require.Equal(t, bySize.Steps[i].Params, s.Params, "%s of %v, %d axes", op.Name, first, axes)
				require.Equal(t, []any{bySize.Steps[i].Grid, bySize.Steps[i].Block}, []any{s.Grid, s.Block}, "%s of %v, %d axes", op.Name, first, axes)
			}
			again, _, err := op.Sized(l, dims)
			if op.Axes && rank == 2 && !op.OneRow(dims) && !slices.Equal(first, dims) { // a matrix is of the sizes that are given
				require.ErrorContains(t, err, "these sizes demand "+shapeText(dims), "%s of %v", op.Name, first)
				continue
			}
			require.NoError(t, err)
			for i := range again {
				require.Equal(t, l[i].Elements(), again[i].Elements(), "%s of %v: %s", op.Name, first, op.Operands[i].Name)
			}
		}
		if len(op.Dims) > 0 && (op.rowwise == nil || len(op.Operands) == 2) && len(op.Operands) < 4 && op != Embedding {
			require.Positive(t, sized, op.Name)
		}
	}
}

// TestSizesAreWhatPlanTakes: several dimensions together may have more elements
// than one, and are planned by their shapes.
func TestSizesAreWhatPlanTakes(t *testing.T) {
	const most = 1 << 31
	for _, c := range []struct {
		op    *Op
		shape []int64
		axes  int
		want  []int64
	}{
		{ReduceMax, []int64{2, most / 2}, -1, []int64{1, most}},
		{ReduceMax, []int64{5, most / 2}, -1, nil},
		{ReduceSum, []int64{5, most / 2}, 1, []int64{5, most / 2}},
		{ReduceMin, []int64{5, most / 2, 3}, 1, nil},
		{MSELoss, []int64{5, most / 2}, -1, nil},
	} {
		l := []Layout{Packed(isa.F32, c.shape...)}
		if c.op == MSELoss {
			l = append(l, l[0])
		}
		rows := c.shape[:0]
		if c.axes > 0 {
			rows = c.shape[:len(c.shape)-c.axes]
		}
		l = append(l, Packed(isa.F32, rows...))
		_, err := c.op.PlanShapes(l, c.axes)
		require.NoError(t, err, "%s of %v", c.op.Name, c.shape)
		require.Equal(t, c.want, c.op.Sizes(l, c.axes), "%s of %v", c.op.Name, c.shape)
	}
}

// TestBoundsOfSizes goes one past the most that dimensions, elements and launches have.
func TestBoundsOfSizes(t *testing.T) {
	const dim, all = int64(1) << 31, int64(1) << 40
	f := func(shape ...int64) Layout { return Packed(isa.I8, shape...) }
	for _, c := range []struct {
		shape []int64
		want  string
	}{
		{[]int64{dim}, ""}, {[]int64{dim + 1}, "at most 2^31 in each dimension, and 2^40 elements"},
		{[]int64{all / dim, dim}, ""}, {[]int64{dim, all/dim + 1}, "at most 2^31"}, {[]int64{0, dim}, ""}, {[]int64{0, dim + 1}, "at most 2^31"},
	} {
		out := slices.Clone(c.shape)
		_, err := Cumsum.PlanShapes([]Layout{f(c.shape...), f(out...)}, 1)
		switch {
		case c.want != "":
			require.ErrorContains(t, err, c.want, "%v", c.shape)
		case err != nil:
			require.ErrorContains(t, err, "too many for one launch", "%v", c.shape)
		}
		if len(c.shape) == 1 {
			_, err = Cumsum.Plan(isa.I8, []int64{1, c.shape[0]})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "cumsum: cols = 2147483649; expected 0 … 2147483648")
			}
		}
	}
	_, err := Cumsum.Plan(isa.I8, []int64{-1, 1})
	require.ErrorContains(t, err, "rows = -1")
	for _, c := range []struct {
		op   *Op
		rows int64 // the most of cols elements
		cols int64
	}{
		{Cumsum, dim, ScanChunk}, {Cumsum, dim / 2, 2 * ScanChunk}, {ReduceMax, dim / 2, ChunkElements}, {ReduceMax, dim / 8, 2 * ChunkElements},
	} {
		if c.rows*c.cols > all {
			c.rows = all / c.cols
		}
		_, err := c.op.Plan(isa.I8, []int64{c.rows, c.cols})
		require.NoError(t, err, "%s of %d rows of %d", c.op.Name, c.rows, c.cols)
	}
	_, err = Cumsum.Plan(isa.I8, []int64{dim/2 + 1, ScanChunk + 1})
	require.ErrorContains(t, err, "1073741825 rows of 257 elements are too many for one launch")
	for axes, want := range map[int]string{2: "", 3: "reduce_max: 3 dimensions of input, which has 2"} {
		_, err := ReduceMax.PlanShapes([]Layout{f(2, 3), f()}, axes)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// TestPlacesOfLongRows: the place of an element beyond the first 2^32 fits the type
// in which places are compared.
func TestPlacesOfLongRows(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		wide  bool
	}{{[]int64{1 << 31}, false}, {[]int64{1<<16 - 1, 1<<16 + 1}, false}, {[]int64{1 << 16, 1 << 16}, true}} {
		p, err := Argmax.PlanShapes([]Layout{Packed(isa.I8, c.shape...), Packed(isa.I64)}, -1)
		require.NoError(t, err)
		text := isa.Disassemble(p.Steps[len(p.Steps)-1].Program.Program)
		require.Equal(t, c.wide, strings.Contains(text, "block_reduce_min.u64"), "%v:\n%s", c.shape, text)
	}
}
