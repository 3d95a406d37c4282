package call

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestRowsInTheOrderOfMemory: dimensions that a row may take in any order end
// with the smallest stride, and those before them stay.
func TestRowsInTheOrderOfMemory(t *testing.T) {
	v := backends.View{Rank: 5}
	copy(v.Shape[:], []int64{7, 2, 3, 4, 5})
	copy(v.Stride[:], []int64{1, 6, -60, 0, 2})
	descend(&v, 1, false)
	require.Equal(t, []int64{7, 3, 2, 5, 4}, v.Shape[:5])
	require.Equal(t, []int64{1, -60, 6, 2, 0}, v.Stride[:5])
	descend(&v, 5, false)
	require.Equal(t, []int64{7, 3, 2, 5, 4}, v.Shape[:5])
}
