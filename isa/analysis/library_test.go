package analysis_test

import (
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
	"github.com/stretchr/testify/require"
)

// launchOf makes the launch of a step of the library with the least memory
// that the operation's contract gives it.
func launchOf(t testing.TB, op *kernels.Op, typ isa.Type, dims []int64, s *kernels.Step) *analysis.Launch {
	t.Helper()
	extents, err := op.Extent(typ, dims)
	require.NoError(t, err)
	l := &analysis.Launch{N: 1, Grid: s.Grid, Block: s.Block}
	for i, p := range s.Params {
		l.Params = append(l.Params, p.Value)
		if p.Scalar { // of each call, where the rest is of all with these sizes
			l.Open |= 1 << i
		}
	}
	for _, d := range s.Shape {
		l.N *= uint64(d)
	}
	for _, b := range s.Slots {
		n := int64(1)
		switch {
		case b.Shape == nil:
			n = extents[b.Operand]
		default:
			for i, d := range b.Shape {
				if b.Stride[i] != 0 {
					n *= d
				}
			}
		}
		l.SlotBytes = append(l.SlotBytes, n*int64(b.Type.Size()))
	}
	return l
}

// sizes are dims to try for an operation with so many, small, odd and large.
func sizes(op *kernels.Op) [][]int64 {
	switch op.Name {
	case "gemm":
		var out [][]int64
		for _, d := range [][]int64{{1, 1, 1}, {3, 5, 7}, {64, 64, 64}, {100, 300, 17}, {1, 4096, 1000}, {1000, 1, 4096}, {4096, 4096, 4096}, {2000, 3000, 0}, {5, 1, 1<<18 + 1}, {1, 1, 1<<27 + 700}} {
			for flags := range int64(4) {
				out = append(out, append(append([]int64{}, d...), flags&1, flags>>1))
			}
		}
		return out
	case "matvec":
		var out [][]int64
		for _, d := range [][]int64{{1, 1}, {7, 300}, {300, 7}, {10000, 10000}, {3, 1 << 30}} {
			out = append(out, append(append([]int64{}, d...), 0), append(append([]int64{}, d...), 1))
		}
		return out
	}
	if len(op.Dims) == 1 {
		return [][]int64{{1}, {2}, {255}, {256}, {257}, {8191}, {8192}, {8193}, {100000}, {1 << 24}, {1<<30 + 1}}
	}
	return [][]int64{{1, 1}, {3, 5}, {1, 256}, {1000, 257}, {64, 8192}, {10, 8193}, {7, 100000}, {100000, 4}, {2, 1 << 28}}
}

// TestLibraryIsProved demands that no access of the library's programs keeps
// its check, nor any division, whatever the sizes.
func TestLibraryIsProved(t *testing.T) {
	brief.Alone(t)
	for _, op := range kernels.All {
		switch op {
		case kernels.NLL, kernels.NLLGradient, kernels.Embedding, kernels.EmbeddingGradient, kernels.CrossEntropy, kernels.CrossEntropyGradient:
			continue // memory says where they access, so each access keeps its check
		}
		if op.Elementwise {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			for number, typ := range op.Types.List() {
				if brief.Skips(number, 3) {
					continue
				}
				for _, dims := range sizes(op) {
					plan, err := op.Plan(typ, dims)
					require.NoError(t, err)
					for k := range plan.Steps {
						s := &plan.Steps[k]
						f, _, err := ir.Canonical(s.Program)
						require.NoError(t, err)
						a := analysis.New(f)
						l := launchOf(t, op, typ, dims, s)
						var p analysis.Proof
						a.Prove(l, &p)
						if p.All() {
							continue
						}
						for i, n := range f.Sites {
							if n.CanFault() && !p.Site(i) {
								t.Errorf("%v %v step %d: site %d, %v, is not proved\n%+v\n%v", typ, dims, k, i, n.Op, *l, f)
								return
							}
						}
						for i := range a.Accesses {
							if !p.Affine(i) {
								t.Errorf("%v %v step %d: access %d is not affine in this launch: %v\n%v", typ, dims, k, i, a.Accesses[i].Offset, f)
								return
							}
						}
						t.Errorf("%v %v step %d: not all is proved, and yet each", typ, dims, k)
					}
				}
			}
		})
	}
}

// TestProof demands that launches which differ have proofs that do, that one is
// used again without a trace, and that a launch too large proves nothing.
func TestProof(t *testing.T) {
	dims := []int64{40, 50, 60, 0, 0}
	plan, err := kernels.Gemm.Plan(isa.F32, dims)
	require.NoError(t, err)
	a := analyse(t, plan.Steps[0].Program)
	good := launchOf(t, kernels.Gemm, isa.F32, dims, &plan.Steps[0])
	var p, fresh analysis.Proof
	require.False(t, p.All())
	require.False(t, p.Site(0))
	a.Prove(good, &p)
	require.True(t, p.All())
	// said is all that a proof says.
	said := func(p *analysis.Proof) (all []bool) {
		for i := range a.Func.Sites {
			all = append(all, p.Site(i))
		}
		for i := range a.Accesses {
			all = append(all, p.Affine(i))
		}
		return all
	}
	before := said(&p)
	for slot := range good.SlotBytes {
		short := *good
		short.SlotBytes = append([]int64{}, good.SlotBytes...)
		short.SlotBytes[slot]--
		a.Prove(&short, &p)
		require.False(t, p.All())
		require.NotEqual(t, before, said(&p))
		for i := range a.Accesses { // those of other slots remain
			n := a.Accesses[i].Node
			require.Equal(t, n.Mem.Slot != slot, p.Site(n.Site))
		}
		a.Prove(&short, &fresh)
		require.Equal(t, said(&fresh), said(&p))
	}
	a.Prove(good, &p)
	require.Equal(t, before, said(&p))
	open := *good
	open.Open = 1 << 3 // bytes from row to row
	a.Prove(&open, &p)
	require.False(t, p.All())
	huge := *good
	huge.Grid, huge.N = [3]uint32{1<<32 - 1, 1, 1}, 1<<40
	huge.Params = append([]uint64{}, good.Params...)
	huge.Params[0], huge.Params[1] = 1<<32-1, 1<<32-1
	a.Prove(&huge, &p)
	require.False(t, p.All())
}

func BenchmarkProve(b *testing.B) {
	for _, c := range []struct {
		op   *kernels.Op
		dims []int64
	}{{kernels.Gemm, []int64{1000, 1000, 1000, 0, 1}}, {kernels.Softmax, []int64{100, 10000}}} {
		plan, err := c.op.Plan(isa.F32, c.dims)
		require.NoError(b, err)
		s := &plan.Steps[0]
		f, _, err := ir.Canonical(s.Program)
		require.NoError(b, err)
		b.Run(c.op.Name+"/new", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				analysis.New(f)
			}
		})
		a := analysis.New(f)
		l := launchOf(b, c.op, isa.F32, c.dims, s)
		var p analysis.Proof
		b.Run(c.op.Name+"/prove", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Prove(l, &p)
			}
		})
	}
}
