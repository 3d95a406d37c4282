package tuned_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// Rows of a table come bit for bit, NaNs of any kind among them: rows that a block's lanes
// have once, and that they go along, by sizes and by shapes.
func TestEmbedding(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	device := cpu.New(2)
	const rows, n = 11, 30
	for _, ty := range []isa.Type{isa.F32, isa.BF16, isa.F16, isa.F64} {
		for _, cols := range []int64{8, 70, 1024, 2500} {
			t.Run(fmt.Sprintf("%v/%d", ty, cols), func(t *testing.T) {
				size := int64(ty.Size())
				table, index := words(rows*cols*size), words(8*n)
				for i := range table {
					table[i] = r.Uint64() | uint64(r.IntN(2))*0x7ff07f807c007c00
				}
				for i := range n {
					index[i] = uint64(r.IntN(rows))
				}
				shaped := []kernels.Layout{kernels.Packed(ty, rows, cols), kernels.Packed(isa.I64, 5, 2, n/10), kernels.Packed(ty, 5, 2, n/10, cols)}
				plan, err := tuned.PlanShapes(kernels.Embedding, shaped, -1, 2)
				require.NoError(t, err)
				require.NotNil(t, plan)
				got := words(n * cols * size)
				execute(t, device, plan, [][]uint64{table, index, got}, rows*cols, n, n*cols)
				for i := range n {
					for j := range cols {
						if want := cell(table, ty, int64(index[i])*cols+j); cell(got, ty, int64(i)*cols+j) != want {
							t.Fatalf("row %d, column %d: %#x, to be %#x", i, j, cell(got, ty, int64(i)*cols+j), want)
						}
					}
				}
			})
		}
	}
	for what, l := range map[string][]kernels.Layout{
		"a table's columns":   {{Type: isa.F32, Shape: []int64{rows, 64}, Stride: []int64{1, rows}}, kernels.Packed(isa.I64, n), kernels.Packed(isa.F32, n, 64)},
		"numbers that repeat": {kernels.Packed(isa.F32, rows, 64), {Type: isa.I64, Shape: []int64{n}, Stride: []int64{0}}, kernels.Packed(isa.F32, n, 64)},
		"short rows":          {kernels.Packed(isa.F32, rows, 3), kernels.Packed(isa.I64, n), kernels.Packed(isa.F32, n, 3)},
		"many long rows":      {kernels.Packed(isa.F32, rows, 70), kernels.Packed(isa.I64, 256), kernels.Packed(isa.F32, 256, 70)},
		"many short rows":     {kernels.Packed(isa.F32, rows, 16), kernels.Packed(isa.I64, 256), kernels.Packed(isa.F32, 256, 16)},
		"another output":      {kernels.Packed(isa.F32, rows, 64), kernels.Packed(isa.I64, n), kernels.Packed(isa.F32, n, 63)},
	} {
		plan, err := tuned.PlanShapes(kernels.Embedding, l, -1, 2)
		require.NoError(t, err, what)
		require.Nil(t, plan, what)
	}
}

// A row's number that is none is a fault, whatever its place would come to modulo 2^64, and gives
// zeros.
func TestEmbeddingOfNoRow(t *testing.T) {
	const rows, cols, n = 16, 8, 3
	l := []kernels.Layout{kernels.Packed(isa.F32, rows, cols), kernels.Packed(isa.I64, n), kernels.Packed(isa.F32, n, cols)}
	plan, err := tuned.PlanShapes(kernels.Embedding, l, -1, 2)
	require.NoError(t, err)
	require.NotNil(t, plan)
	table := words(rows * cols * 4)
	for i := range table {
		table[i] = 0x3f8000003f800000
	}
	d, err := cpu.New(1).Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	step := plan.Steps[0]
	f, _, err := ir.Canonical(step.Program)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: step.Program, IR: f}, backends.Variant{})
	require.NoError(t, err)
	defer k.Release()
	for _, none := range []uint64{rows, 1 << 31, 1 << 59, 1 << 61, 1 << 63, math.MaxUint64} {
		index, out := []uint64{2, none, 15}, words(n*cols*4)
		lo := &backends.Launch{Grid: step.Grid, Block: step.Block, Rank: 2, N: n * cols, Record: new(backends.Record)}
		lo.Shape[0], lo.Shape[1] = n, cols
		for i, x := range [][]uint64{table, index, out} {
			v := backends.View{Addr: uintptr(unsafe.Pointer(&x[0])), Type: step.Slots[i].Type, Rank: 2, Shape: lo.Shape}
			v.Bytes = l[i].Elements() * int64(v.Type.Size())
			lo.Slots = append(lo.Slots, v)
		}
		for _, p := range step.Params {
			lo.Params = append(lo.Params, p.Value)
		}
		_, err := s.Launch(k, lo)
		fault := (*backends.ProgramFault)(nil)
		require.ErrorAs(t, err, &fault, "row %#x", none)
		require.Equal(t, isa.FaultAccess, fault.Kind)
		require.Equal(t, [3]uint64{table[0], 0, table[0]}, [3]uint64{out[0], out[cols/2], out[cols]}, "row %#x", none)
	}
}

// Sums of an embedding's gradient have the library's bits: by sizes of rows, in one part
// and in several, with rows that nothing names, ends before starts, padding and shares.
func TestEmbeddingGradient(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(23, 24))
	const rows, n = 9, 40
	for _, ty := range []isa.Type{isa.F32, isa.BF16, isa.F16, isa.F64} {
		for _, cols := range []int64{8, 70, 1032} {
			for padding, share := range map[int64]uint64{-1: 0, 3: 1} {
				given, order, starts, ends := words(n*cols*int64(ty.Size())), words(8*n), words(8*rows), words(8*rows)
				for i := range given { // halves from -2 to 2 and others, with signs
					given[i] = r.Uint64() & 0xbfffbfffbfffbfff
				}
				for i, k := range r.Perm(n) {
					order[i] = uint64(k)
				}
				for i := range rows {
					starts[i], ends[i] = uint64(r.IntN(n)), uint64(r.IntN(n+1))
				}
				l := []kernels.Layout{kernels.Packed(ty, n, cols), kernels.Packed(isa.I64, n), kernels.Packed(isa.I64, rows), kernels.Packed(isa.I64, rows), kernels.Packed(ty, rows, cols)}
				run := func(b backends.Backend, p *kernels.Plan, err error) []uint64 {
					require.NoError(t, err)
					require.NotNil(t, p)
					out := words(rows * cols * int64(ty.Size()))
					params := slices.Clone(p.Steps[0].Params)
					params[len(params)-2], params[len(params)-1] = kernels.Param{Value: uint64(padding)}, kernels.Param{Value: share}
					execute(t, b, &kernels.Plan{Steps: []kernels.Step{withParams(p.Steps[0], params)}}, [][]uint64{given, order, starts, ends, out}, n*cols, n, rows, rows, rows*cols)
					return out
				}
				plan, err := tuned.PlanShapes(kernels.EmbeddingGradient, l, -1, 2)
				got := run(cpu.New(2), plan, err)
				plan, err = kernels.EmbeddingGradient.PlanShapes(l, -1)
				require.Equal(t, run(interp.New(), plan, err), got, "%v, %d columns, padding %d, share %d", ty, cols, padding, share)
			}
		}
	}
	for _, cols := range []int64{7, 1031} { // a short row, and one that is in no parts
		l := []kernels.Layout{kernels.Packed(isa.F32, n, cols), kernels.Packed(isa.I64, n), kernels.Packed(isa.I64, rows), kernels.Packed(isa.I64, rows), kernels.Packed(isa.F32, rows, cols)}
		plan, err := tuned.PlanShapes(kernels.EmbeddingGradient, l, -1, 2)
		require.NoError(t, err)
		require.Nil(t, plan)
	}
}

func withParams(s kernels.Step, params []kernels.Param) kernels.Step {
	s.Params = params
	return s
}
