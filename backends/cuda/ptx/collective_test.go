package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Collectives of blocks whose lanes are known: between a scan's last look at the scratch
// and what a reduction writes there stands a barrier, and one of a single warp is a
// barrier for memory.
func TestCollectivesOfKnownBlocks(t *testing.T) {
	for _, block := range []int{1, 7, 32, 96, 256} {
		text, err := fromText(t, `
program known
slot a f32
slot c f32
  ldg.f32 x, a[index]
  block_scan_add.f32 y, x
  block_reduce_max.f32 z, y
  add.f32 y, y, z
  stg.f32 y, c[index]
  exit`).Text(Options{Block: block})
		require.NoError(t, err)
		require.NotRegexp(t, `\w+.u32 [^\n]*, %present`, text, "whole warps have no use for how many lanes are there")
		_, reduction, found := strings.Cut(text, "block_reduce_max")
		require.True(t, found)
		if block > warp {
			store := strings.Index(reduction, "st.shared")
			require.True(t, store > 0 && strings.Contains(reduction[:store], "barrier.sync"), "the scratch is written while it may be read")
		} else {
			before, _, _ := strings.Cut(reduction, "shfl.sync")
			require.Contains(t, before, "bar.warp.sync")
		}
	}
}
