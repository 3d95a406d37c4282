package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Rows that want more blocks to meet than is promised have clusters of as many as the
// driver has room for, else smaller ones, or several passes. It is asked once, where it
// matters, and what it is asked of is gone afterwards.
func TestClustersFitTheDevice(t *testing.T) {
	chunk := int64(kernels.ChunkElements)
	for name, c := range map[string]struct {
		change func(r *fakeRig)
		most   int64 // that meet for rows of 16 chunks, and of 32
		asked  int
	}{
		"room for 16":              {func(r *fakeRig) { r.together = 16 }, 16, 1},
		"room for 12":              {func(r *fakeRig) { r.together = 12 }, 8, 1},
		"no room":                  {func(*fakeRig) {}, 8, 1},
		"a driver that cannot say": {func(r *fakeRig) { r.api.ActiveClusters = nil }, 8, 0},
		"an error": {func(r *fakeRig) {
			r.api.ActiveClusters = func(*int32, driver.Func, *driver.LaunchConfig) driver.Result { return invalidValue }
		}, 8, 0},
		"few processors":  {func(r *fakeRig) { r.together, r.d.processors = 16, 100 }, 8, 0},
		"another machine": {func(r *fakeRig) { r.together, r.d.compute = 16, 120 }, 8, 0},
		"no clusters":     {func(r *fakeRig) { r.together, r.d.compute = 16, 89 }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, fakeAdd, 0)
			if r.d.compute = 90; c.change != nil {
				c.change(r)
			}
			blocks := func(chunks int64) (meet int64) {
				plan, err := r.d.Plan(kernels.Softmax, isa.F32, []int64{4, chunks * chunk})
				require.NoError(t, err)
				n := plan.Steps[0].Meeting.Blocks
				require.Equal(t, n == 0, len(plan.Steps) > 1, "several passes where blocks do not meet")
				return int64(n)
			}
			loaded := len(r.modules)
			require.Equal(t, min(c.most, 7), blocks(7))
			require.Equal(t, min(c.most, 8), blocks(8))
			require.Zero(t, r.calls["clusters"], "asked where it does not matter")
			for range 2 {
				require.Equal(t, c.most, blocks(16))
				require.Equal(t, c.most/16*16, blocks(32))
			}
			require.Equal(t, c.asked, r.calls["clusters"])
			require.Len(t, r.modules, loaded)
			r.close(t)
		})
	}
}

// Where the driver couldn't be asked, as while memory is short, it is asked again.
func TestClustersAreAskedOfAgain(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 0)
	r.d.compute, r.together = 90, 16
	load := r.api.ModuleLoad
	r.api.ModuleLoad = func(*driver.Module, *byte, uint32, *int32, *uintptr) driver.Result { return driver.OutOfMemory }
	require.EqualValues(t, 8, r.d.most())
	r.api.ModuleLoad = load
	require.EqualValues(t, 16, r.d.most())
	r.close(t)
}
