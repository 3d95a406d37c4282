package cuda

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

func (r *fakeRig) series(t testing.TB, n int, kernels ...backends.Kernel) {
	t.Helper()
	for range n {
		for _, k := range kernels {
			_, err := r.s.Launch(k, &r.l)
			require.NoError(t, err)
		}
	}
}

// blocks makes the launch one of so many blocks.
func (r *fakeRig) blocks(n uint32) {
	r.l.Grid[0], r.l.N, r.l.Shape[0] = n, 256*uint64(n), 256*int64(n)
}

// What is repeated goes by a graph of its own from some launches on, and each launch
// once. What is captured does not, nor what no graph takes, nor blocks that meet.
func TestLaunchesByAGraphOfOneKernel(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	other := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: true})
	r.series(t, singleAfter, r.k, other)
	ran := 2 * singleAfter
	require.Zero(t, r.calls["single"]+r.calls["instantiate"], "what is seldom")
	r.series(t, 5, r.k, other)
	ran += 10
	require.Equal(t, 10, r.calls["single"])
	require.Equal(t, 2, r.calls["instantiate"])
	require.Equal(t, ran, r.ran)

	r.unfit = (*other.(*kernel).variants.Load())[0].fn
	r.series(t, 3, r.k, other)
	ran += 6
	require.Equal(t, 13, r.calls["single"])
	require.Equal(t, ran, r.ran)
	r.unfit = 0

	// Another grid is another launch.
	r.blocks(2)
	r.series(t, singleAfter+1, r.k)
	ran += singleAfter + 1
	require.Equal(t, 14, r.calls["single"])
	require.Equal(t, 3, r.calls["instantiate"])
	r.blocks(4)

	met := compileUnit(t, r.d, fakeAdd, backends.Variant{})
	met.(*kernel).meeting.Blocks = 2
	r.series(t, 2*singleAfter, met)
	ran += 2 * singleAfter
	require.Equal(t, 14, r.calls["single"])
	require.Equal(t, ran, r.ran)
	met.Release()

	require.NoError(t, r.s.BeginCapture())
	r.series(t, 3, r.k)
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	require.Equal(t, 14, r.calls["single"])
	require.Equal(t, ran, r.ran)
	g.Release()
	other.Release()
	r.close(t)
}

// What takes the device longer than it takes the host to queue it is a dependent launch, where
// the device can, its program waits by itself and it isn't captured; the rest goes by graphs.
func TestLongLaunchesAreDependent(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(r *fakeRig)
		dependent int
	}{
		"long":            {func(*fakeRig) {}, 20},
		"few bytes":       {func(r *fakeRig) { r.l.Slots[0].Bytes-- }, 0},
		"few steps":       {func(r *fakeRig) { r.blocks(4); r.l.Slots[0].Bytes = 1 << 40 }, 0},
		"an older device": {func(r *fakeRig) { r.d.compute = 89 }, 0},
		"an older driver": {func(r *fakeRig) { r.api.Version = 12000 }, 0},
		"no such launch":  {func(r *fakeRig) { r.api.LaunchEx = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, fakeAdd, 3)
			r.blocks(1 << 12)
			r.l.Slots[0].Bytes, r.l.Slots[1].Bytes, r.l.Slots[2].Bytes = dependentBytes/2, 0, dependentBytes/2
			c.change(r)
			r.series(t, 20, r.k)
			require.Equal(t, c.dependent, r.calls["dependent"])
			require.Equal(t, c.dependent == 0, r.calls["single"] > 0)
			require.NoError(t, r.s.BeginCapture())
			r.series(t, 1, r.k)
			g, err := r.s.EndCapture()
			require.NoError(t, err)
			require.Equal(t, c.dependent, r.calls["dependent"])
			require.Equal(t, 20, r.ran)
			g.Release()
			for _, v := range *r.k.(*kernel).variants.Load() { // in words that the driver knows
				text, _, err := r.k.(*kernel).text(v.form)
				require.NoError(t, err)
				require.Equal(t, r.api.Version >= 12010 && r.d.compute >= 90 && r.api.LaunchEx != nil, strings.Contains(text, ".version 8.1\n"))
			}
			r.close(t)
		})
	}
}

// The text of products waits for nothing: they are never dependent.
func TestProductsAreNotDependent(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	plan, err := kernels.Gemm.Plan(isa.F32, []int64{4096, 4096, 4096, 0, 0})
	require.NoError(t, err)
	s := plan.Steps[0]
	f, _, err := ir.Canonical(s.Program)
	require.NoError(t, err)
	k, err := r.d.Compile(&backends.Unit{Source: s.Program, IR: f, Hash: f.Hash()}, backends.Variant{Proved: true})
	require.NoError(t, err)
	l := backends.Launch{Grid: s.Grid, Block: s.Block, Rank: len(s.Shape), N: 1, Params: make([]uint64, len(s.Params))}
	for i, n := range s.Shape {
		l.Shape[i], l.N = n, l.N*uint64(n)
	}
	for i, p := range s.Params {
		if l.Params[i] = p.Value; p.Scalar {
			l.Params[i] = []uint64{0x3f800000, 0}[p.Value]
		}
	}
	for _, slot := range r.l.Slots {
		slot.Bytes, slot.Shape = 4<<24, [isa.MaxRank]int64{1 << 24}
		l.Slots = append(l.Slots, slot)
	}
	for range 2 * often {
		_, err := r.s.Launch(k, &l)
		require.NoError(t, err)
	}
	require.True(t, (*k.(*kernel).variants.Load())[0].form.product.Is())
	require.Zero(t, r.calls["dependent"])
	require.Positive(t, r.calls["single"])
	k.Release()
	r.close(t)
}

// Of launches that share a place the one that is repeated more has it; those of many
// sizes, each of which comes once, take nobody's.
func TestManyLaunchesShareFewGraphs(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.series(t, often, r.k)
	single := r.calls["single"]
	for i := range uint32(10 * singles) {
		r.blocks(5 + i)
		r.series(t, 1, r.k)
		r.blocks(4)
		r.series(t, 2, r.k)
	}
	require.Equal(t, single+20*singles, r.calls["single"])
	require.Equal(t, 1, r.calls["instantiate"])
	for i := range uint32(10 * singles) {
		r.blocks(5 + i)
		r.series(t, 3*often, r.k)
	}
	require.Equal(t, 1+10*singles, r.calls["instantiate"])
	require.LessOrEqual(t, len(r.execs), singles)
	require.Greater(t, len(r.execs), singles/2)
	r.close(t)
}

// The driver is not asked about functions that are unloaded: their graphs end first.
func TestUnloadingWhatAGraphHas(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	ending := compileUnit(t, r.d, fakeAdd, backends.Variant{})
	second, err := r.d.NewStream()
	require.NoError(t, err)
	first := r.s
	for _, s := range []backends.Stream{first, second} {
		r.s = s.(*stream)
		r.series(t, often, r.k, ending)
	}
	r.s = first
	require.Len(t, r.execs, 4)
	ending.Release()
	require.Len(t, r.execs, 2)
	require.NoError(t, second.Close())
	require.Len(t, r.execs, 1)
	r.series(t, 1, r.k)
	r.close(t)
}

// Where the driver makes no graph, launches go on as before, and it is not asked again.
func TestNoGraphOfOneKernel(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.api.GraphInstantiate = func(*driver.Exec, driver.Graph, uint64) driver.Result {
		r.calls["refused"]++
		return invalidValue
	}
	r.series(t, 3*singleAfter, r.k)
	require.Equal(t, 3*singleAfter, r.ran)
	require.Equal(t, 1, r.calls["refused"])
	require.Zero(t, r.calls["single"])
	r.close(t)
}
