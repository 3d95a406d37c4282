package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// The driver's grids hold each block of a launch that has a lane to run once,
// and stay within the driver's limits.
func TestGrids(t *testing.T) {
	for _, c := range []struct {
		grid  [3]uint32
		lanes uint32
		n     uint64
	}{
		{[3]uint32{5, 1, 1}, 32, 160}, {[3]uint32{5, 1, 1}, 32, 33}, {[3]uint32{3, 4, 5}, 7, 400}, {[3]uint32{3, 4, 5}, 7, 50},
		{[3]uint32{2, 70000, 1}, 1, 140000}, {[3]uint32{1, 2, 140001}, 1, 280002}, {[3]uint32{1, 1, 1}, 1, 0},
	} {
		l := &backends.Launch{Grid: c.grid, Block: [3]uint32{c.lanes, 1, 1}, N: c.n}
		seen := map[uint64]int{}
		for _, g := range grids(nil, l, false, c.lanes) {
			require.LessOrEqual(t, g.size[1], uint32(maxGridY))
			require.LessOrEqual(t, g.size[2], uint32(maxGridY))
			for z := range g.size[2] {
				for y := range g.size[1] {
					for x := range g.size[0] {
						b := uint64(g.origin[2]+z)*uint64(c.grid[1]) + uint64(g.origin[1]+y)
						seen[b*uint64(c.grid[0])+uint64(g.origin[0]+x)]++
					}
				}
			}
		}
		for b := range (c.n + uint64(c.lanes) - 1) / uint64(c.lanes) {
			require.Equal(t, 1, seen[b], "grid %v, n %d: block %d", c.grid, c.n, b)
		}
	}
}

// A launch that would be very many of the driver's is refused before they are made.
func TestGridsWithoutEnd(t *testing.T) {
	r := newFakeRig(t, "slot a f32\n sreg k, lane.x\n cvt.f32.u32 x, k\n stg.f32 x, a[0]\n exit", 1)
	r.l.Grid, r.l.Block = [3]uint32{1, 1<<32 - 1, 1 << 25}, [3]uint32{1, 1, 1}
	r.l.N = uint64(r.l.Grid[1]) * uint64(r.l.Grid[2])
	queued := r.calls["launch"]
	_, err := r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "is more than 65536 launches")
	require.Equal(t, queued, r.calls["launch"])
	r.close(t)
}

// Where blocks are ours to choose, any number of lanes finds room.
func TestGridsOfOurOwn(t *testing.T) {
	for _, n := range []uint64{1, 256, 257, 1 << 40} {
		l := &backends.Launch{Grid: [3]uint32{1 << 31, 1 << 10, 1}, Block: [3]uint32{1, 1, 1}, N: n}
		g := grids(nil, l, true, ownLanes)
		require.Len(t, g, 1)
		require.LessOrEqual(t, g[0].size[0], uint32(maxGridX))
		require.LessOrEqual(t, g[0].size[1], uint32(maxGridY))
		require.GreaterOrEqual(t, uint64(g[0].size[0])*uint64(g[0].size[1])*ownLanes, n)
	}
}
