package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// TestColumns tells the columns of packed matrices, one behind the other, from all
// that is nearly so: matrices that lie apart, backwards or in each other, and columns
// or elements apart.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		what                 string
		shape, stride        []int64 // matrices, columns, rows
		lead                 int
		matrices, rows, cols int64 // 0: they are none
	}{
		{"a matrix", []int64{5, 3}, []int64{1, 5}, 1, 1, 3, 5},
		{"a stack", []int64{4, 5, 3}, []int64{15, 1, 5}, 2, 4, 3, 5},
		{"a stack of one", []int64{1, 5, 3}, []int64{99, 1, 5}, 2, 1, 3, 5},
		{"every second matrix", []int64{4, 5, 3}, []int64{30, 1, 5}, 2, 0, 0, 0},
		{"matrices with room behind", []int64{4, 5, 3}, []int64{16, 1, 5}, 2, 0, 0, 0},
		{"one matrix again and again", []int64{4, 5, 3}, []int64{0, 1, 5}, 2, 0, 0, 0},
		{"matrices that share rows", []int64{4, 5, 3}, []int64{10, 1, 5}, 2, 0, 0, 0},
		{"matrices backwards", []int64{4, 5, 3}, []int64{-15, 1, 5}, 2, 0, 0, 0},
		{"every second column", []int64{5, 3}, []int64{2, 10}, 1, 0, 0, 0},
		{"some of the columns", []int64{5, 3}, []int64{1, 6}, 1, 0, 0, 0},
		{"every second row", []int64{5, 3}, []int64{1, 10}, 1, 0, 0, 0},
		{"rows along memory", []int64{5, 3}, []int64{3, 1}, 1, 0, 0, 0},
	} {
		l := Layout{Type: isa.F32, Shape: c.shape, Stride: c.stride}
		matrices, rows, cols, ok := l.Columns(c.lead)
		require.Equal(t, c.matrices > 0, ok, c.what)
		if ok {
			require.Equal(t, []int64{c.matrices, c.rows, c.cols}, []int64{matrices, rows, cols}, c.what)
		}
	}
}
