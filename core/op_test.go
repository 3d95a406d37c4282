package core

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

func TestOpsOfSeveralSteps(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		n := int64(3 * kernels.ChunkElements)
		a, err := ex.Allocate(n, isa.F32, true)
		require.NoError(t, err)
		out := floats(t, ex, 0, 0, 0)
		require.NoError(t, wait(a.Fill(Float(1))))
		require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{a, out}, nil, []int64{1, n})))
		require.NoError(t, wait(ex.Op("reduce_max", []*Buffer{a, out}, nil, []int64{1, 5})))
		require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{a, out}, nil, []int64{3, n / 3})))
		if got := values(t, out); !slices.Equal(got, []float32{8192, 8192, 8192}) {
			t.Errorf("got %v", got)
		}
		require.NoError(t, wait(ex.Op("softmax", []*Buffer{a, a}, nil, []int64{n / 4, 4})))
		part, err := a.View(0, []int64{4}, nil)
		require.NoError(t, err)
		if got := values(t, part); !slices.Equal(got, []float32{0.25, 0.25, 0.25, 0.25}) {
			t.Errorf("softmax in place: got %v", got)
		}
		x, y, z := floats(t, ex, 1, 2, 3, 4), floats(t, ex, 1, 1, 0, 1), floats(t, ex, 1, 1, 1, 1)
		scalars := []Scalar{Float(2), Float(1)}
		require.NoError(t, wait(ex.Op("gemm", []*Buffer{x, y, z}, scalars, []int64{2, 2, 2, 0, 1})))
		if got := values(t, z); !slices.Equal(got, []float32{7, 5, 15, 9}) {
			t.Errorf("gemm: got %v", got)
		}
		if used := ex.Used(); used <= 0 {
			t.Errorf("%d bytes are in use", used)
		}
	})
}

// TestFuelOfOperations is a budget for each lane of each of their launches, of
// which there may be none.
func TestFuelOfOperations(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		n := int64(3 * kernels.ChunkElements)
		a, err := ex.Allocate(n, isa.F32, true)
		require.NoError(t, err)
		require.NoError(t, wait(a.Fill(Float(1))))
		out, square := floats(t, ex, 7, 7, 7), floats(t, ex, 1, 2, 3, 4)
		one := []Scalar{Float(1), Float(0)}
		for _, x := range []struct {
			op       string
			operands []*Buffer
			scalars  []Scalar
			dims     []int64
			fuel     uint64
			code     Code
		}{
			{"reduce_sum", []*Buffer{a, out}, nil, []int64{0, 3}, 1, OK},
			{"reduce_sum", []*Buffer{a, out}, nil, []int64{1, 0}, 1, OK},
			{"softmax", []*Buffer{a, out}, nil, []int64{0, 4}, 1, OK},
			{"vector_add", []*Buffer{a, a, out}, nil, []int64{0}, 1, OK},
			{"gemm", []*Buffer{square, square, out}, one, []int64{0, 2, 2, 0, 0}, 1, OK},
			{"vector_add", []*Buffer{a, a, out}, nil, []int64{3}, 1, OK},
			{"reduce_sum", []*Buffer{a, out}, nil, []int64{1, n}, 1, Faulted},
			{"reduce_sum", []*Buffer{a, out}, nil, []int64{1, n}, 1 << 40, OK},
			{"softmax", []*Buffer{a, a}, nil, []int64{1, n}, 1, Faulted},
			{"gemm", []*Buffer{a, a, square}, one, []int64{2, 2, 1000, 0, 0}, 1, Faulted},
			{"gemm", []*Buffer{a, a, square}, one, []int64{2, 2, 1000, 0, 0}, 1 << 40, OK},
		} {
			op, ok := kernels.Lookup(x.op)
			require.True(t, ok)
			c := &Call{Op: op, Scalars: x.scalars, Dims: x.dims, Fuel: x.fuel}
			for _, b := range x.operands {
				c.Operands = append(c.Operands, Operand{Buffer: b})
			}
			_, err = ex.Call(c)
			require.Equal(t, x.code, CodeOf(wait(settledAfter(ex, err))), "%s %v, fuel %d", x.op, x.dims, x.fuel)
		}
	})
}

func TestOpsRefuse(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		a, c := floats(t, ex, 1, 2, 3, 4), floats(t, ex, 7, 7, 7, 7)
		ints, err := ex.Allocate(4, isa.I32, true)
		require.NoError(t, err)
		freed := floats(t, ex, 1)
		freed.Free()
		strided, err := a.View(0, []int64{2}, []int64{2})
		require.NoError(t, err)
		for _, x := range []struct {
			op       string
			operands []*Buffer
			scalars  []Scalar
			dims     []int64
			code     Code
			text     string
		}{
			{"frobnicate", nil, nil, nil, Invalid, `no operation is called "frobnicate"`},
			{"vector_add", []*Buffer{a, c}, nil, nil, Invalid, "vector_add takes 3 operands (a, b, c), got 2"},
			{"vector_add", []*Buffer{a, a, c}, []Scalar{Int(1)}, nil, Invalid, "takes 0 scalars, got 1"},
			{"vector_add", []*Buffer{a, ints, c}, nil, nil, BadType, "b has dtype i32, and a has f32"},
			{"vector_add", []*Buffer{freed, freed, c}, nil, nil, BadHandle, "vector_add: a: the buffer is freed"},
			{"vector_add", []*Buffer{a, a, c}, nil, []int64{5}, Invalid, "n = 5 exceeds the 4 elements of a"},
			{"vector_add", []*Buffer{a, a, c}, nil, []int64{-1}, Invalid, "n = -1 is negative"},
			{"vector_add", []*Buffer{a, a, c}, nil, []int64{1, 2}, Invalid, "takes one size"},
			{"sigmoid", []*Buffer{ints, ints}, nil, nil, BadType, "dtype i32 is not supported"},
			{"scalar_add", []*Buffer{a, c}, []Scalar{Float(1e300)}, nil, Invalid, "scalar_add: scalar: 1e+300 is out of range of f32"},
			{"softmax", []*Buffer{a, c}, nil, []int64{1 << 1}, Invalid, "softmax: axes 0x2; input has 1 dimensions"},
			{"softmax", []*Buffer{a, c}, nil, []int64{-1}, Invalid, "softmax: axes 0xffffffffffffffff; input has 1 dimensions"},
			{"softmax", []*Buffer{a, c}, nil, []int64{1, 2, 3}, Invalid, "rows, cols"},
			{"softmax", []*Buffer{a, c}, nil, []int64{1, 5}, Invalid, "input has 4 elements; rows = 1, cols = 5 need 5"},
			{"softmax", []*Buffer{strided, c}, nil, []int64{2, 1}, Invalid, "input has shape (2,); these sizes demand (2, 1)"},
			{"softmax", []*Buffer{freed, c}, nil, []int64{1, 1}, BadHandle, "softmax: input: the buffer is freed"},
			{"gemm", []*Buffer{a, a, a}, []Scalar{Int(1), Int(0)}, []int64{2, 2, 2, 0, 0}, Invalid, "gemm: c overlaps a"},
			{"gemm", []*Buffer{a, a, c}, []Scalar{Int(1), Int(0)}, []int64{2, 2, 2, 2, 0}, Invalid, "trans_a = 2"},
			{"gemm", []*Buffer{a, a, c}, []Scalar{Int(1), Float(1e300)}, []int64{2, 2, 2, 0, 0}, Invalid, "beta"},
		} {
			_, err := ex.Op(x.op, x.operands, x.scalars, x.dims)
			wants(t, err, x.code, x.text)
		}
		if got := values(t, c); !slices.Equal(got, []float32{7, 7, 7, 7}) {
			t.Errorf("refused operations wrote %v", got)
		}
	})
}

// TestOpsOnViews gives operations views of one array: transposed, backwards, every
// other element, and an output that lies between the elements of what is read.
func TestOpsOnViews(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		// [[0 1 2 3] [4 5 6 7] [8 9 10 11]]
		all := floats(t, ex, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
		view := func(b *Buffer, offset int64, shape, strides []int64) *Buffer {
			t.Helper()
			v, err := b.View(offset, shape, strides)
			require.NoError(t, err)
			return v
		}
		one := []Scalar{Float(1), Float(0)}
		last := []int64{1 << 1} // dimension 1 of two
		run := func(op string, operands []*Buffer, scalars []Scalar, dims []int64) {
			t.Helper()
			require.NoError(t, wait(ex.Op(op, operands, scalars, dims)), op)
		}
		m34 := view(all, 0, []int64{3, 4}, nil)
		m43 := view(all, 0, []int64{4, 3}, []int64{1, 4})
		back := view(all, 11, []int64{3, 4}, []int64{-4, -1})
		out := floats(t, ex, make([]float32, 9)...)
		square := view(out, 0, []int64{3, 3}, nil)

		run("gemm", []*Buffer{m34, m43, square}, one, nil)
		require.Equal(t, []float32{14, 38, 62, 38, 126, 214, 62, 214, 366}, values(t, out))
		run("gemm", []*Buffer{m34, m43, square}, one, []int64{3, 3, 4, 0, 0})
		require.Equal(t, []float32{14, 38, 62, 38, 126, 214, 62, 214, 366}, values(t, out))
		run("gemm", []*Buffer{m34, m34, square}, one, []int64{3, 3, 4, 0, 1})
		require.Equal(t, []float32{14, 38, 62, 38, 126, 214, 62, 214, 366}, values(t, out))
		run("gemm", []*Buffer{m43, m43, square}, one, []int64{3, 3, 4, 1, 0})
		require.Equal(t, []float32{14, 38, 62, 38, 126, 214, 62, 214, 366}, values(t, out))
		run("gemm", []*Buffer{back, m43, view(out, 8, []int64{3, 3}, []int64{-3, -1})}, one, nil)
		require.Equal(t, []float32{52, 28, 4, 204, 116, 28, 356, 204, 52}, values(t, out))

		sums := floats(t, ex, 0, 0, 0, 0)
		run("reduce_sum", []*Buffer{m43, sums}, nil, last)
		require.Equal(t, []float32{12, 15, 18, 21}, values(t, sums))
		run("reduce_max", []*Buffer{back, view(sums, 0, []int64{3}, nil)}, nil, last)
		require.Equal(t, []float32{11, 7, 3, 21}, values(t, sums))
		run("reduce_sum", []*Buffer{back, view(sums, 3, []int64{1}, nil)}, nil, nil)
		require.Equal(t, []float32{11, 7, 3, 66}, values(t, sums))
		wide, err := ex.Allocate(3, isa.F64, true)
		require.NoError(t, err)
		run("reduce_sum", []*Buffer{m34, wide}, nil, last)

		// The first column gets the sums of the others.
		run("reduce_sum", []*Buffer{view(all, 1, []int64{3, 3}, []int64{4, 1}), view(all, 0, []int64{3}, []int64{4})}, nil, last)
		require.Equal(t, []float32{6, 1, 2, 3, 18, 5, 6, 7, 30, 9, 10, 11}, values(t, all))
		_, err = ex.Op("reduce_sum", []*Buffer{m34, view(all, 0, []int64{3}, []int64{4})}, nil, last)
		wants(t, err, Invalid, "overlaps")
		_, err = ex.Op("gemm", []*Buffer{m34, m34, square}, one, nil)
		wants(t, err, Invalid, "there is no product of (3, 4) and (3, 4)")
		_, err = ex.Op("gemm", []*Buffer{m34, m43, square}, one, []int64{3, 3, 3, 0, 0})
		wants(t, err, Invalid, "a has shape (3, 4); these sizes demand (3, 3)")
		_, err = ex.Op("reduce_sum", []*Buffer{m34, view(all, 0, []int64{3}, []int64{0})}, nil, last)
		wants(t, err, Invalid, "share memory")
	})
}

// TestOverlappingOperandsOfAnySize gives operations outputs that share memory
// with what they read, in sizes of one step and of several.
func TestOverlappingOperandsOfAnySize(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const most = 3 * kernels.ChunkElements
		all, err := ex.Allocate(2*most, isa.F32, true)
		require.NoError(t, err)
		view := func(offset, n int64) *Buffer {
			t.Helper()
			v, err := all.View(offset, []int64{n}, nil)
			require.NoError(t, err)
			return v
		}
		for _, n := range []int64{100, most} {
			for _, offset := range []int64{0, 1, n - 1} {
				_, err := ex.Op("reduce_sum", []*Buffer{view(0, n), view(offset, 3)}, nil, []int64{1, n})
				wants(t, err, Invalid, "reduce_sum: output overlaps input in memory")
				_, err = ex.Op("softmax", []*Buffer{view(0, n), view(max(1, offset), n)}, nil, []int64{1, n})
				wants(t, err, Invalid, "softmax: output overlaps input in memory")
			}
			// What a call does not use of its operands plays no part.
			require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{all, view(n, 1)}, nil, []int64{1, n})))
			require.NoError(t, wait(ex.Op("softmax", []*Buffer{view(0, n), all}, nil, []int64{1, n})))
			_, err = ex.Op("mse_loss", []*Buffer{view(0, n), view(n, n), view(n-1, 1)}, nil, []int64{n})
			wants(t, err, Invalid, "mse_loss: ")
		}
		require.NoError(t, wait(ex.Synchronize()))
	})
}

func TestElementwiseShapes(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		a, out := floats(t, ex, 1, 2, 3), floats(t, ex, make([]float32, 6)...)
		matrix, err := out.View(0, []int64{2, 3}, nil)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Op("vector_add", []*Buffer{a, a, matrix}, nil, nil)))
		if got := values(t, out); !slices.Equal(got, []float32{2, 4, 6, 2, 4, 6}) {
			t.Errorf("got %v", got)
		}
		tall, err := out.View(0, []int64{3, 2}, nil)
		require.NoError(t, err)
		_, err = ex.Op("vector_add", []*Buffer{a, a, tall}, nil, nil)
		wants(t, err, Invalid, "vector_add: a: shape (3,) does not broadcast to the output's (3, 2)")
		short := floats(t, ex, 9, 9)
		_, err = ex.Op("vector_add", []*Buffer{a, short, a}, nil, nil)
		wants(t, err, Invalid, "vector_add: b: shape (2,) does not broadcast to the output's (3,)")
		_, err = ex.Op("vector_add", []*Buffer{a, a, short}, nil, nil)
		wants(t, err, Invalid, "vector_add: a: shape (3,) does not broadcast to the output's (2,); n counts the elements")
		require.NoError(t, wait(ex.Op("vector_add", []*Buffer{a, short, a}, nil, []int64{2})))
		if got := values(t, a); !slices.Equal(got, []float32{10, 11, 3}) {
			t.Errorf("the first two: got %v", got)
		}
	})
}

// TestFirstElementOfACall asks calls for element 0 of what they make, of views
// that begin anywhere and of calls that take long, where the host sees it.
func TestFirstElementOfACall(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		op := func(name string) *Operation {
			op, ok := kernels.Lookup(name)
			require.True(t, ok)
			return op
		}
		a, out := floats(t, ex, 1, 2, 3, 4), floats(t, ex, 5, 6, 7)
		back, err := out.View(2, []int64{3}, []int64{-1})
		require.NoError(t, err)
		none, err := out.View(0, []int64{0}, nil)
		require.NoError(t, err)
		first := ^uint64(0)
		call := func(name string, dims []int64, last *Buffer) error {
			return wait(ex.Call(&Call{Op: op(name), Operands: []Operand{{Buffer: a}, {Buffer: last}}, Dims: dims, First: &first}))
		}
		if !ex.Device().Info.HostVisible {
			wants(t, call("reduce_sum", []int64{1, 4}, out), Invalid, "reduce_sum: the host does not see element 0")
			require.Equal(t, []float32{5, 6, 7}, values(t, out), "refused")
			return
		}
		require.NoError(t, call("reduce_sum", []int64{1, 4}, out))
		require.Equal(t, float32(10), math.Float32frombits(uint32(first)))
		require.Equal(t, uint64(0xffffffff), first>>32, "beyond the element")
		require.NoError(t, call("copy", []int64{3}, back))
		require.Equal(t, float32(1), math.Float32frombits(uint32(first)))
		require.Equal(t, []float32{3, 2, 1}, values(t, out))
		long, err := ex.Allocate(1<<22, isa.F32, true)
		require.NoError(t, err)
		a = long
		require.NoError(t, wait(a.Fill(Float(0.5))))
		require.NoError(t, call("reduce_sum", []int64{1, 1 << 22}, out))
		require.Equal(t, float32(1<<21), math.Float32frombits(uint32(first)))
		first = 7
		wants(t, call("copy", nil, none), Invalid, "copy: ")
		wants(t, call("reduce_sum", []int64{0, 4}, none), Invalid, "reduce_sum: the last operand has no element to tell of")
		require.Equal(t, uint64(7), first)
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.BeginCapture())
		wants(t, call("reduce_sum", []int64{1, 4}, out), Invalid, "captures")
		g, err := ex.EndCapture()
		require.NoError(t, err)
		g.Release()
		before := first
		require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{floats(t, ex, 8), out}, nil, []int64{1, 1})))
		require.Equal(t, before, first, "the next call's business")
		// A call of the same kind, which may be made of what the last one left.
		a = floats(t, ex, 1, 2, 3, 4)
		require.NoError(t, call("reduce_sum", []int64{1, 4}, out))
		before = first
		require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{floats(t, ex, 5, 6, 7, 8), out}, nil, []int64{1, 4})))
		require.Equal(t, float32(26), values(t, out)[0])
		require.Equal(t, before, first, "the next call's business, of the same kind")
	})
}

// TestAxes reduces a transposed array over every choice of axes, kept and not,
// which is what the same says of a packed copy that has them last.
func TestAxes(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const rank = 3
		numbers := make([]float32, 24)
		for i := range numbers {
			numbers[i] = float32(i * i % 17)
		}
		shape, stride := []int64{2, 3, 4}, []int64{1, 2, 6} // of memory in another order
		all := floats(t, ex, numbers...)
		a, err := all.View(0, shape, stride)
		require.NoError(t, err)
		for mask := range int64(1 << rank) {
			left, kept := []int64{}, []int64{}
			for i, d := range shape {
				if mask>>i&1 != 0 {
					kept = append(kept, 1)
				} else {
					left, kept = append(left, d), append(kept, d)
				}
			}
			want := map[[rank]int64]float32{} // by index, 0 along the axes
			for i, x := range numbers {
				at := [rank]int64{int64(i) % 2, int64(i) / 2 % 3, int64(i) / 6}
				for d := range at {
					at[d] *= 1 - mask>>d&1
				}
				want[at] += x // exact, in any order
			}
			for _, keep := range []bool{false, true} {
				dims, made := []int64{mask}, left
				if keep {
					dims, made = []int64{mask | call.KeepDims}, kept
				}
				sum := kernels.ReduceSum
				r, err := ResultOf(&Call{Op: sum, Operands: []Operand{{Buffer: a}}, Dims: dims})
				require.NoError(t, err)
				require.Equal(t, made, append([]int64{}, r.Shape...))
				n, _ := call.Elements(made, 24)
				flat := floats(t, ex, make([]float32, n)...)
				out, err := flat.View(0, made, nil)
				require.NoError(t, err)
				require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{a, out}, nil, dims)))
				got := values(t, flat)
				for i := range got {
					at, rest := [rank]int64{}, int64(i)
					for d := rank - 1; d >= 0; d-- {
						if mask>>d&1 == 0 {
							at[d] = rest % shape[d]
							rest /= shape[d]
						}
					}
					require.Equal(t, want[at], got[i], "axes %b, keep %v, %v", mask, keep, at)
				}
				for _, wrong := range [][]int64{append([]int64{1}, made...), {25}} {
					bad, err := ex.Allocate(25, isa.F32, true)
					require.NoError(t, err)
					bad, err = bad.View(0, wrong, nil)
					require.NoError(t, err)
					if len(made) > 0 || wrong[0] != 1 {
						_, err = ex.Op("reduce_sum", []*Buffer{a, bad}, nil, dims)
						wants(t, err, Invalid, "reduce_sum: output has shape "+call.ShapeText(wrong)+"; the result has "+call.ShapeText(made))
					}
				}
			}
		}
		for _, dims := range [][]int64{{8}, {1 << 17}, {-1}, {8 | call.KeepDims}} {
			_, err := ex.Op("reduce_sum", []*Buffer{a, all}, nil, dims)
			wants(t, err, Invalid, "reduce_sum: axes 0x")
			_, err = ResultOf(&Call{Op: kernels.ReduceSum, Operands: []Operand{{Buffer: a}}, Dims: dims})
			wants(t, err, Invalid, "reduce_sum: axes 0x")
		}
		_, err = ex.Op("softmax", []*Buffer{a, a}, nil, []int64{1 | call.KeepDims})
		wants(t, err, Invalid, "softmax keeps all dimensions")
		out, err := floats(t, ex, make([]float32, 24)...).View(0, []int64{4, 3, 2}, nil)
		require.NoError(t, err)
		_, err = ex.Op("softmax", []*Buffer{a, out}, nil, []int64{2})
		wants(t, err, Invalid, "softmax: output has shape (4, 3, 2); the result has (2, 3, 4)")
	})
}

// TestReductionsOfViews sums the middle axis of a stack of matrices, and the last
// two, where the stack is one of every matrix, of every second, or of some columns,
// into arrays that lie in order, with gaps, and the last element first.
func TestReductionsOfViews(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const matrices, rows, cols = 4, 70, 6
		numbers := make([]float32, matrices*rows*cols)
		for i := range numbers {
			numbers[i] = float32(i * i % 61)
		}
		all := floats(t, ex, numbers...)
		for _, x := range []struct{ shape, stride []int64 }{
			{[]int64{matrices, rows, cols}, []int64{rows * cols, cols, 1}},
			{[]int64{matrices / 2, rows, cols}, []int64{2 * rows * cols, cols, 1}},
			{[]int64{matrices, rows / 2, cols}, []int64{rows * cols, cols, 1}},
			{[]int64{matrices, rows, cols / 2}, []int64{rows * cols, cols, 1}},
			{[]int64{matrices, rows, cols / 2}, []int64{rows * cols, cols, 2}},
		} {
			in, err := all.View(0, x.shape, x.stride)
			require.NoError(t, err)
			for _, axes := range []int64{0b010, 0b110} {
				shape := []int64{x.shape[0]}
				if axes == 0b010 {
					shape = append(shape, x.shape[2])
				}
				n, _ := call.Elements(shape, 1000)
				want := make([]float32, n)
				for i := range x.shape[0] * x.shape[1] * x.shape[2] {
					m, r, c := i/x.shape[2]/x.shape[1], i/x.shape[2]%x.shape[1], i%x.shape[2]
					to := m
					if axes == 0b010 {
						to = m*x.shape[2] + c
					}
					want[to] += numbers[m*x.stride[0]+r*x.stride[1]+c*x.stride[2]] // exact, in any order
				}
				for _, step := range []int64{1, 3, -1, -2} {
					room := floats(t, ex, slices.Repeat([]float32{-7}, int(4*n))...)
					offset := max(0, -step*(n-1))
					stride := []int64{step}
					if len(shape) > 1 {
						stride = []int64{step * shape[1], step}
					}
					out, err := room.View(offset, shape, stride)
					require.NoError(t, err)
					require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{in, out}, nil, []int64{axes})))
					expected := slices.Repeat([]float32{-7}, int(4*n))
					for i, v := range want {
						expected[offset+int64(i)*step] = v
					}
					require.Equal(t, expected, values(t, room), "%v %v, axes %b, by %d", x.shape, x.stride, axes, step)
				}
			}
		}
	})
}

// TestFillingBools makes bytes of 0 and 1, whatever number is given.
func TestFillingBools(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x, err := ex.Allocate(3, isa.U8, true)
		require.NoError(t, err)
		for value, want := range map[int64]byte{2: 1, 0: 0, 255: 1, 1: 1} {
			for _, boolean := range []bool{true, false} {
				require.NoError(t, wait(ex.Call(&Call{Op: kernels.Fill, Operands: []Operand{{Buffer: x, Bool: boolean}}, Scalars: []Scalar{Int(value)}})))
				data := hostBytes(3)
				require.NoError(t, wait(x.Read(addressOf(data), 0, 3)))
				if !boolean {
					want = byte(value)
				}
				require.Equal(t, []byte{want, want, want}, data)
			}
		}
		_, err = ex.Call(&Call{Op: kernels.Fill, Operands: []Operand{{Buffer: x, Bool: true}}, Scalars: []Scalar{Int(256)}})
		wants(t, err, Invalid, "fill: value")
	})
}
