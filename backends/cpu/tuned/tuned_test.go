package tuned_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// words is memory of 8-byte words, which the collector keeps while it is used.
func words(bytes int64) []uint64 { return make([]uint64, bytes/8+8) }

// execute runs a plan on operands, of which n are the elements.
func execute(t *testing.T, b backends.Backend, p *kernels.Plan, operands [][]uint64, n ...int64) {
	t.Helper()
	d, err := b.Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	room := words(p.Workspace)
	for i := range room {
		room[i] = 0x7ff7_fff7_7ff7_f7f7 // of nobody
	}
	for _, st := range p.Steps {
		f, _, err := ir.Canonical(st.Program)
		require.NoError(t, err)
		k, err := d.Compile(&backends.Unit{Source: st.Program, IR: f}, backends.Variant{})
		require.NoError(t, err)
		l := &backends.Launch{Grid: st.Grid, Block: st.Block, Rank: len(st.Shape), N: 1, Record: new(backends.Record)}
		for i, m := range st.Shape {
			l.Shape[i] = m
			l.N *= uint64(m)
		}
		for i := range l.Block { // as core does
			l.Block[i], l.Grid[i] = max(l.Block[i], 1), max(l.Grid[i], 1)
		}
		if st.Block == [3]uint32{} {
			l.Block[0], l.Grid[0] = 256, uint32((l.N+255)/256)
		}
		for i, prm := range st.Params {
			if prm.Scalar { // one for all
				prm.Value = isa.Convert(st.Program.Program.Params[i].Type, isa.F64, math.Float64bits(0.125))
			}
			l.Params = append(l.Params, prm.Value)
		}
		for _, slot := range st.Slots {
			v := backends.View{Type: slot.Type, Rank: l.Rank, Shape: l.Shape}
			size := int64(slot.Type.Size())
			if slot.Operand == kernels.Workspace {
				v.Addr, v.Bytes = uintptr(unsafe.Pointer(&room[0]))+uintptr(slot.Offset), p.Workspace-slot.Offset
			} else {
				v.Addr, v.Bytes = uintptr(unsafe.Pointer(&operands[slot.Operand][0])), n[slot.Operand]*size
			}
			if slot.Shape == nil {
				v.Rank, v.Shape = 1, [isa.MaxRank]int64{v.Bytes / size}
				v.Stride[0] = 1
			} else {
				copy(v.Shape[:], slot.Shape)
				copy(v.Stride[:], slot.Stride)
				if slot.Operand != kernels.Workspace && len(slot.Shape) == 1 { // as core does
					v.Bytes = slot.Shape[0] * size
				}
			}
			l.Slots = append(l.Slots, v)
		}
		_, err = s.Launch(k, l)
		require.NoError(t, err)
		k.Release()
	}
}

func cell(b []uint64, t isa.Type, i int64) uint64 {
	at := unsafe.Add(unsafe.Pointer(&b[0]), i*int64(t.Size()))
	switch t.Size() {
	case 1:
		return uint64(*(*uint8)(at))
	case 2:
		return uint64(*(*uint16)(at))
	case 4:
		return uint64(*(*uint32)(at))
	}
	return *(*uint64)(at)
}

func put(b []uint64, t isa.Type, i int64, c uint64) {
	at := unsafe.Add(unsafe.Pointer(&b[0]), i*int64(t.Size()))
	switch t.Size() {
	case 1:
		*(*uint8)(at) = uint8(c)
	case 2:
		*(*uint16)(at) = uint16(c)
	case 4:
		*(*uint32)(at) = uint32(c)
	default:
		*(*uint64)(at) = c
	}
}

// special are numbers that reductions have to treat as they are told to.
var special = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e-310, -1e-42, 88, -104, 1e30}

// matrix has numbers of all kinds for type ty; few of them special, or all is NaN.
func matrix(r *rand.Rand, ty isa.Type, rows, cols int64) []uint64 {
	x := words(rows * cols * int64(ty.Size()))
	for i := range rows * cols {
		v := r.NormFloat64() * 5
		if row := i / cols; row > 1 && r.IntN(int(cols)) == 0 {
			v = special[r.IntN(len(special))]
		} else if row%2 == 1 {
			v = math.Round(v) // many are equal, −0 and +0 among them
		}
		put(x, ty, i, isa.Convert(ty, isa.F64, math.Float64bits(v)))
	}
	return x
}

// columns is a stack of matrices of which the columns are rows of matrix, so that a
// special number or two in one, which may be all that a reduction then tells of, leave
// the others as they are.
func columns(r *rand.Rand, ty isa.Type, matrices, rows, cols int64) []uint64 {
	x := words(matrices * rows * cols * int64(ty.Size()))
	for m := range matrices {
		y := matrix(r, ty, cols, rows)
		for i := range rows * cols {
			put(x, ty, (m*rows+i%rows)*cols+i/rows, cell(y, ty, i))
		}
	}
	return x
}

// agrees runs the CPU's own plans of an operation on rows, for one thread and several, and the
// library's on the interpreter. inPlace says whether the output may be the input.
func agrees(t *testing.T, r *rand.Rand, op *kernels.Op, ty isa.Type, rows, cols int64, inPlace bool) {
	t.Helper()
	own, err := tuned.Plan(op, ty, []int64{rows, cols}, 2)
	require.NoError(t, err)
	require.NotNil(t, own)
	alone, err := tuned.Plan(op, ty, []int64{rows, cols}, 1)
	require.NoError(t, err)
	theirs, err := op.Plan(ty, []int64{rows, cols})
	require.NoError(t, err)
	extents, err := op.Extent(ty, []int64{rows, cols})
	require.NoError(t, err)
	out := ty
	if op.Operands[1].Kind == kernels.Index {
		out = isa.I64
	}
	agree(t, own, theirs, matrix(r, ty, rows, cols), out, extents[0], extents[1], inPlace)
	if len(alone.Steps) != len(own.Steps) {
		agree(t, alone, theirs, matrix(r, ty, rows, cols), out, extents[0], extents[1], inPlace)
	}
}

// agree runs two plans on an input of so many elements, and compares the n elements
// of type out that they make.
func agree(t *testing.T, own, theirs *kernels.Plan, x []uint64, out isa.Type, in, n int64, inPlace bool) {
	t.Helper()
	mine := cpu.New(2)
	want, got := words(n*int64(out.Size())), words(n*int64(out.Size()))
	execute(t, interp.New(), theirs, [][]uint64{x, want}, in, n)
	execute(t, mine, own, [][]uint64{x, got}, in, n)
	nan := func(c uint64) bool {
		f := math.Float64frombits(isa.Convert(isa.F64, out, c))
		return out.Float() && f != f
	}
	same := func(got []uint64) {
		for i := range n {
			if a, b := cell(want, out, i), cell(got, out, i); a != b && !(nan(a) && nan(b)) {
				t.Fatalf("element %d of %d: %#x, to be %#x", i, n, b, a)
			}
		}
	}
	same(got)
	if inPlace {
		execute(t, mine, own, [][]uint64{x, x}, in, n)
		same(x)
	}
}

// The CPU's own plans have the bits of the library's, as the interpreter computes
// them: rows of all lengths that they take, with numbers of all kinds.
func TestPlans(t *testing.T) {
	floats := []isa.Type{isa.F32, isa.F64, isa.F16, isa.BF16}
	ints := []isa.Type{isa.I8, isa.U16, isa.I32, isa.U64}
	every := append(append([]isa.Type{}, floats...), ints...)
	r := rand.New(rand.NewPCG(5, 6))
	number := 0
	for _, c := range []struct {
		op      *kernels.Op
		types   []isa.Type
		rows    []int64
		cols    []int64
		inPlace bool
	}{
		{kernels.Softmax, floats, []int64{5}, []int64{257, 511, 512, 1000, 8191, 8192, 8193, 20001}, true},
		{kernels.Softmax, floats, []int64{1, 3}, []int64{32_769, 66_000}, true}, // beyond what a block keeps by itself
		{kernels.Softmax, floats[:1], []int64{4}, []int64{65_537, 131_072}, true},
		{kernels.Softmax, floats[:1], []int64{2}, []int64{40_000, 90_000}, true},
		{kernels.Softmax, floats, []int64{64, 101}, []int64{5, 8, 10, 31, 32}, true},
		{kernels.ReduceSum, every, []int64{3}, []int64{1, 2, 33, 128, 255, 256, 257, 600}, false},
		{kernels.ReduceMax, every, []int64{3}, []int64{1, 100, 256, 600}, false},
		{kernels.ReduceMin, []isa.Type{isa.F32, isa.I8}, []int64{65}, []int64{33, 300}, false},
		{kernels.ReduceProd, []isa.Type{isa.F32, isa.I32}, []int64{3}, []int64{33, 300}, false},
		{kernels.ReduceSum, floats[:2], []int64{4}, []int64{8192, 8193, 40000}, false},
		{kernels.ReduceSum, []isa.Type{isa.BF16}, []int64{2}, []int64{65537, 131072, 200000}, false},
		{kernels.Argmax, every, []int64{4}, []int64{1, 2, 33, 255, 256, 257, 1000}, false},
		{kernels.Argmin, every, []int64{4}, []int64{1, 40, 600}, false},
		{kernels.Argmax, []isa.Type{isa.F32, isa.I8}, []int64{3}, []int64{32769, 100000}, false},
		{kernels.Cumsum, every, []int64{3}, []int64{1, 2, 15, 16, 17, 100, 128, 255, 256, 257, 512, 700}, true},
		{kernels.Cumsum, []isa.Type{isa.F32}, []int64{2}, []int64{66_049}, true},
		{kernels.Cumsum, []isa.Type{isa.F32}, []int64{2}, []int64{300_001}, true},
		{kernels.Cumsum, []isa.Type{isa.F64}, []int64{1}, []int64{1<<20 + 300_001}, true}, // in stretches
		{kernels.Cumsum, []isa.Type{isa.F32}, []int64{352}, []int64{6000}, false},         // in several rows at a time
		{kernels.Cumsum, every, []int64{64, 257}, []int64{1, 2, 3, 4, 7, 16}, true},
		{kernels.ReduceSum, every, []int64{64, 257}, []int64{1, 2, 5, 8, 16}, false},
		{kernels.ReduceSum, every, []int64{64}, []int64{7, 12, 13, 17, 20, 21, 24, 25, 31, 32}, false},
		{kernels.ReduceMin, every, []int64{257}, []int64{3, 4, 32}, false},
		{kernels.Argmax, every, []int64{64, 257}, []int64{1, 2, 6, 16}, false},
		{kernels.Argmax, every, []int64{64}, []int64{15, 17, 24, 25, 32}, false},
		{kernels.Argmin, every, []int64{257}, []int64{3, 4, 8}, false},
		{kernels.Argmax, []isa.Type{isa.I8}, []int64{4}, []int64{65_536, 65_537, 250_000}, false}, // as many rounds as 8 bits count, and more
	} {
		for _, ty := range c.types {
			for _, rows := range c.rows {
				for _, cols := range c.cols {
					if number++; brief.On() && cols > 1000 || brief.Skips(number, 51) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%v/%d×%d", c.op.Name, ty, rows, cols), func(t *testing.T) {
						agrees(t, r, c.op, ty, rows, cols, c.inPlace)
					})
				}
			}
		}
	}
}

// Rows that are parts of longer ones, every other row, or the same row again have plans
// too, with the library's bits.
func TestRowsApart(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(15, 16))
	sums := []*kernels.Op{kernels.ReduceSum, kernels.ReduceProd, kernels.ReduceMin, kernels.ReduceMax}
	places := []*kernels.Op{kernels.Argmin, kernels.Argmax}
	number := 0
	for _, c := range []struct {
		ops                     []*kernels.Op
		rows, cols, pitch, step int64
	}{
		{append(sums, places...), 5, 257, 300, 1},
		{append(sums, places...), 3, 100, 101, 1},
		{append(sums, places...), 70, 40, 80, 1},
		{append(sums, places...), 70, 4, 9, 1},
		{append(sums, places...), 70, 13, 40, 2},
		{append(sums, places...), 70, 32, 33, 1},
		{append(sums, places...), 6, 1000, 0, 1},
		{append(sums, places...), 4, 600, 599, 1},
		{append(sums, places...), 5, 300, 900, 3},
		{append(sums, places...), 4, 500, 999, 2},
		{append(sums, places...), 3, 90, 1000, 7},
		{append(sums, places...), 1, 700, 1, 2},
		{sums[:1], 3, 40_000, 40_007, 1},
		{sums[:1], 1, 40_000, 1, 2},
		{sums[2:3], 2, 33_000, 70_000, 1},
		{places, 2, 70_000, 70_100, 1},
		{places, 1, 70_000, 1, 2},
		{[]*kernels.Op{kernels.Softmax}, 5, 257, 300, 1},
		{[]*kernels.Op{kernels.Softmax}, 4, 1000, 2000, 1},
		{[]*kernels.Op{kernels.Softmax}, 6, 8192, 8193, 1},
	} {
		for _, op := range c.ops {
			for _, ty := range []isa.Type{isa.F32, isa.BF16, isa.F64, isa.I8} {
				if number++; !op.Types.Has(ty) || brief.Skips(number, 7) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v/%d×%d of %d by %d", op.Name, ty, c.rows, c.cols, c.pitch, c.step), func(t *testing.T) {
					x := kernels.Layout{Type: ty, Shape: []int64{c.rows, c.cols}, Stride: []int64{c.pitch, c.step}}
					y := kernels.Packed(ty, c.rows)
					switch {
					case op == kernels.Softmax:
						y = kernels.Packed(ty, c.rows, c.cols)
					case op.Operands[1].Kind == kernels.Index:
						y = kernels.Packed(isa.I64, c.rows)
					}
					l := []kernels.Layout{x, y}
					own, err := tuned.PlanShapes(op, l, 1, 2)
					require.NoError(t, err)
					require.NotNil(t, own)
					theirs, err := op.PlanShapes(l, 1)
					require.NoError(t, err)
					n := (c.rows-1)*c.pitch + (c.cols-1)*c.step + 1
					agree(t, own, theirs, matrix(r, ty, 1, n), y.Type, n, y.Elements(), false)
				})
			}
		}
	}
}

// Exponentials of 16-bit floats are kept for some rows at a time.
func TestSoftmaxInParts(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(13, 14))
	for _, room := range []int64{1, 600, 1000} {
		defer tuned.SetKept(room)()
		for _, ty := range []isa.Type{isa.BF16, isa.F16, isa.F32} {
			agrees(t, r, kernels.Softmax, ty, 7, 300, true)
		}
	}
}

// Exponentials of long rows that no cache holds have a pass of their own.
func TestSoftmaxPastCaches(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(15, 16))
	defer tuned.SetPastCaches(0)()
	for _, ty := range []isa.Type{isa.BF16, isa.F16, isa.F32, isa.F64} {
		for _, rows := range []int64{1, 3} {
			for _, cols := range []int64{32_769, 66_000} {
				agrees(t, r, kernels.Softmax, ty, rows, cols, true)
			}
		}
	}
}

// Exponentials of long rows that an output of 16 bits has no room for are bounded; those that
// it keeps itself are not.
func TestRoomForLongRows(t *testing.T) {
	for _, c := range []struct {
		t    isa.Type
		cols int64
		own  bool
	}{{isa.BF16, 1 << 24, true}, {isa.BF16, 1<<24 + 1, false}, {isa.F16, 1 << 30, false}, {isa.F32, 1<<24 + 1, true}, {isa.F64, 1 << 30, true}} {
		p, err := tuned.Plan(kernels.Softmax, c.t, []int64{1, c.cols}, 2)
		require.NoError(t, err)
		require.Equal(t, c.own, p != nil, "%d of %v", c.cols, c.t)
		if p != nil {
			require.LessOrEqual(t, p.Workspace, int64(4<<24+1<<22))
		}
	}
}

// The place of a row's first NaN is told wherever it is, whatever follows.
func TestPlaceOfANaN(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, op := range []*kernels.Op{kernels.Argmax, kernels.Argmin} {
		for _, cols := range []int64{40, 300, 800} {
			places := []int64{0, 1, cols / 3, cols / 2, cols - 2, cols - 1}
			rows := int64(len(places))
			x := words(rows * cols * 4)
			for i := range rows * cols {
				v := r.NormFloat64()
				if at := places[i/cols]; i%cols == at || i%cols > at && r.IntN(50) == 0 {
					v = math.NaN()
				}
				put(x, isa.F32, i, uint64(math.Float32bits(float32(v))))
			}
			own, err := tuned.Plan(op, isa.F32, []int64{rows, cols}, 2)
			require.NoError(t, err)
			require.NotNil(t, own)
			got := words(rows * 8)
			execute(t, cpu.New(1), own, [][]uint64{x, got}, rows*cols, rows)
			for i, at := range places {
				require.EqualValues(t, at, got[i], "%s, row %d of %d", op.Name, i, cols)
			}
		}
	}
}

// Columns are reduced to the bits of the library's plan: few rows and many, chunks,
// several matrices, types that the sums are kept in.
func TestColumns(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(7, 8))
	number := 0
	all := []*kernels.Op{kernels.ReduceSum, kernels.ReduceProd, kernels.ReduceMin, kernels.ReduceMax}
	for _, c := range []struct {
		ops                  []*kernels.Op
		in, out              isa.Type
		matrices, rows, cols int64
	}{
		{all, isa.F32, isa.F32, 1, 2, 2},
		{all, isa.F32, isa.F32, 1, 64, 128},
		{all, isa.F32, isa.F32, 1, 65, 300},
		{all, isa.F32, isa.F32, 3, 256, 17},
		{all, isa.F32, isa.F32, 2, 1000, 3},
		{all[:2], isa.F32, isa.F32, 1, 512, 130},
		{all, isa.F64, isa.F64, 1, 300, 100},
		{all, isa.F16, isa.F16, 1, 700, 20},
		{all, isa.BF16, isa.BF16, 2, 129, 40},
		{all, isa.I8, isa.I8, 1, 555, 130},
		{all[:1], isa.I8, isa.I64, 1, 555, 33},
		{all[:1], isa.U8, isa.U64, 5, 60, 9},
		{all, isa.I64, isa.I64, 2, 100, 50},
		{all[:1], isa.F32, isa.F32, 2, 8193, 5},
		{all[:1], isa.F32, isa.F32, 1, 16385, 18},
		{all[:1], isa.F32, isa.F32, 3, 8250, 6},
		{all[:1], isa.F32, isa.F32, 1, 16, 1100},
		{all[:1], isa.F32, isa.F32, 1, 17, 50},
		{all[:2], isa.F32, isa.F32, 1, 1000, 330},
		{all[:1], isa.BF16, isa.BF16, 2, 780, 40},
		{all[:3], isa.F32, isa.F32, 1, 2400, 70},
		{all[:1], isa.F64, isa.F64, 2, 8300, 20},
		{all[:1], isa.F16, isa.F16, 1, 4608, 80},
		{all[:1], isa.I16, isa.I64, 1, 1300, 70},
		// Rows of whole pages, where the order is free, and of f32's sums, where it is not:
		{all, isa.F32, isa.F32, 2, 200, 1024},
		{all, isa.I8, isa.I8, 1, 64, 4096},
		{all[:1], isa.I8, isa.I64, 2, 150, 4096},
		{all[2:], isa.BF16, isa.BF16, 1, 63, 2048},
		{all[2:3], isa.F64, isa.F64, 1, 17*64 + 5, 512},
		{all[3:], isa.BF16, isa.BF16, 2, 128, 2048}, // two lanes a column, whose sums are of another type than the result
		{all[:1], isa.I8, isa.I8, 2, 65, 4096},
	} {
		for _, op := range c.ops {
			if number++; brief.Skips(number, 3) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v %v/%d×%d×%d", op.Name, c.in, c.out, c.matrices, c.rows, c.cols), func(t *testing.T) {
				l := []kernels.Layout{
					{Type: c.in, Shape: []int64{c.matrices, c.cols, c.rows}, Stride: []int64{c.rows * c.cols, 1, c.cols}},
					kernels.Packed(c.out, c.matrices, c.cols),
				}
				own, err := tuned.PlanShapes(op, l, 1, 2)
				require.NoError(t, err)
				require.NotNil(t, own)
				theirs, err := op.PlanShapes(l, 1)
				require.NoError(t, err)
				x := columns(r, c.in, c.matrices, c.rows, c.cols)
				agree(t, own, theirs, x, c.out, c.matrices*c.rows*c.cols, c.matrices*c.cols, false)
			})
		}
	}
}

// Few columns beyond the caches are read by tiles, with the library's bits: lanes of one partial, two
// and four, chunks that are whole, and rows that are left.
func TestFewColumnsOfMemory(t *testing.T) {
	brief.Alone(t)
	defer tuned.SetNearMemory(0, 0)()
	r := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		op                   *kernels.Op
		in                   isa.Type
		matrices, rows, cols int64
	}{
		{kernels.ReduceSum, isa.F64, 1, 8192 + 777, 4},
		{kernels.ReduceSum, isa.F32, 2, 8250, 6},
		{kernels.ReduceMax, isa.F64, 1, 900, 9},
		{kernels.ReduceSum, isa.F32, 1, 16385, 18},
		{kernels.ReduceMin, isa.BF16, 1, 4608, 20},
		{kernels.ReduceSum, isa.F64, 1, 530_000, 4}, // past 16 MB, where rows are asked for ahead
		{kernels.ReduceSum, isa.I8, 1, 8192 + 5, 20},
		{kernels.ReduceSum, isa.F32, 2, 8192 + 777, 2}, // half a tile
		{kernels.ReduceSum, isa.BF16, 1, 8192 + 3, 4},
	} {
		t.Run(fmt.Sprintf("%s %v/%d×%d×%d", c.op.Name, c.in, c.matrices, c.rows, c.cols), func(t *testing.T) {
			l := []kernels.Layout{
				{Type: c.in, Shape: []int64{c.matrices, c.cols, c.rows}, Stride: []int64{c.rows * c.cols, 1, c.cols}},
				kernels.Packed(c.in, c.matrices, c.cols),
			}
			own, err := tuned.PlanShapes(c.op, l, 1, 1)
			require.NoError(t, err)
			require.NotNil(t, own)
			theirs, err := c.op.PlanShapes(l, 1)
			require.NoError(t, err)
			agree(t, own, theirs, columns(r, c.in, c.matrices, c.rows, c.cols), c.in, c.matrices*c.rows*c.cols, c.matrices*c.cols, false)
		})
	}
}

// Sums along columns have the bits of the library's plan: chunks of any length, one and
// several, tiles of columns and what is left of them, in place and not.
func TestColumnSums(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(11, 12))
	for _, c := range []struct {
		in, out              isa.Type
		matrices, rows, cols int64
	}{
		{isa.F32, isa.F32, 1, 2, 2},
		{isa.F32, isa.F32, 2, 15, 70},
		{isa.F32, isa.F32, 1, 16, 130},
		{isa.F32, isa.F32, 1, 17, 5},
		{isa.F64, isa.F64, 1, 31, 40},
		{isa.F32, isa.F32, 1, 64, 128},
		{isa.I8, isa.I8, 3, 100, 300},
		{isa.F32, isa.F32, 1, 256, 20},
		{isa.F32, isa.F32, 2, 257, 3},
		{isa.I32, isa.I64, 2, 513, 33},
		{isa.BF16, isa.F32, 1, 300, 17},
		{isa.F32, isa.F32, 1, 600, 65},
		{isa.F64, isa.F64, 1, 256*17 + 1, 2},
		{isa.F32, isa.F32, 1, 256 * 3, 4},
		{isa.F32, isa.F32, 3, 256*2 + 100, 4},
		{isa.F32, isa.F32, 1, 256*257 + 3, 2},
		{isa.I64, isa.I64, 3, 40, 2},
		{isa.BF16, isa.F32, 2, 700, 3},
		{isa.I8, isa.I8, 2, 513, 4},
		{isa.F64, isa.F64, 2, 256*3 + 100, 4},
		{isa.F64, isa.F64, 1, 700, 3},
		{isa.I64, isa.I64, 1, 1024, 4},
		{isa.F32, isa.F32, 2, 256*4 + 77, 5},
		{isa.I32, isa.I64, 1, 256*2 + 9, 6},
		{isa.F64, isa.F64, 1, 256*5 + 200, 7},
		{isa.F64, isa.F64, 1, 256*3 + 3, 8},
		{isa.F32, isa.F32, 1, 256*2 + 255, 8},
		{isa.BF16, isa.BF16, 1, 600, 4},
		{isa.F16, isa.F16, 2, 300, 9},
		{isa.F16, isa.BF16, 1, 30, 3},
		{isa.U8, isa.U8, 1, 1000, 7},
		{isa.F64, isa.F64, 2, 256, 6},
		{isa.I8, isa.U16, 1, 900, 2},
	} {
		if brief.On() && (c.rows > 1500 || c.rows > 300 && c.cols > 9) { // narrow ones have ways of their own
			continue
		}
		t.Run(fmt.Sprintf("%v %v/%d×%d×%d", c.in, c.out, c.matrices, c.rows, c.cols), func(t *testing.T) {
			l := []kernels.Layout{{Type: c.in}, {Type: c.out}}
			for i := range l {
				l[i].Shape, l[i].Stride = []int64{c.matrices, c.cols, c.rows}, []int64{c.rows * c.cols, 1, c.cols}
			}
			own, err := tuned.PlanShapes(kernels.Cumsum, l, 1, 2)
			require.NoError(t, err)
			require.NotNil(t, own)
			theirs, err := kernels.Cumsum.PlanShapes(l, 1)
			require.NoError(t, err)
			n := c.matrices * c.rows * c.cols
			agree(t, own, theirs, columns(r, c.in, c.matrices, c.rows, c.cols), c.out, n, n, c.in == c.out)
		})
	}
}

// TestSumsKeptInWiderTypes: sums along packed rows go to outputs of wider types by
// plans of the CPU's own, with the library's bits.
func TestSumsKeptInWiderTypes(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(13, 14))
	for _, c := range []struct {
		in, out    isa.Type
		rows, cols int64
	}{
		{isa.F32, isa.F64, 1, 1},
		{isa.F32, isa.F64, 70, 9},
		{isa.F32, isa.F64, 3, 256},
		{isa.F32, isa.F64, 2, 700},
		{isa.F16, isa.F32, 2, 300},
		{isa.BF16, isa.F64, 1, 513},
		{isa.I8, isa.I64, 3, 600},
		{isa.U16, isa.U64, 1, 257},
		{isa.F32, isa.F64, 1, 66_049},
	} {
		t.Run(fmt.Sprintf("%v %v/%d×%d", c.in, c.out, c.rows, c.cols), func(t *testing.T) {
			l := []kernels.Layout{kernels.Packed(c.in, c.rows, c.cols), kernels.Packed(c.out, c.rows, c.cols)}
			own, err := tuned.PlanShapes(kernels.Cumsum, l, 1, 2)
			require.NoError(t, err)
			require.NotNil(t, own)
			theirs, err := kernels.Cumsum.PlanShapes(l, 1)
			require.NoError(t, err)
			n := c.rows * c.cols
			agree(t, own, theirs, columns(r, c.in, 1, c.rows, c.cols), c.out, n, n, false)
		})
	}
}
