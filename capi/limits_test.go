package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCounts that callers give: the last that may be, and the first that may not.
func TestCounts(t *testing.T) {
	of := func(_ any, err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	require.Equal(t, "f: the number of sizes is -1", of(items[int64]("f", "sizes", nil, -1)))
	require.Empty(t, of(items[int64]("f", "sizes", nil, 0)))
	require.Equal(t, "f: sizes is NULL, and there are to be 65536", of(items[int64]("f", "sizes", nil, 1<<16)))
	require.Equal(t, "f: the number of sizes is 65537", of(items[int64]("f", "sizes", nil, 1<<16+1)))
	require.Empty(t, of(takeBytes("f", "text", nil, 0)))
	require.Equal(t, "f: text is NULL", of(takeBytes("f", "text", nil, 1<<30)))
	require.Equal(t, "f: text has 1073741825 bytes; at most 2^30", of(takeBytes("f", "text", nil, 1<<30+1)))
}
