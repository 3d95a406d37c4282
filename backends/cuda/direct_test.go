//go:build cgo && linux

package cuda

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// What C may queue by itself: one kernel that is proved, without fuel, by a graph of its own unless
// its blocks meet, and that is freed with it.
func TestDirect(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.d.info.Enters = &enters
	proved := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: true})
	meets := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: true})
	meets.(*kernel).meeting.Blocks = 2
	direct := func(k backends.Kernel) ([]backends.Direct, bool) { return k.(backends.Entered).Direct(&r.l, r.s) }
	parts, never := direct(proved)
	require.False(t, never)
	require.Len(t, parts, 1)
	require.Equal(t, 1, r.calls["instantiate"])
	require.EqualValues(t, singleBytes, parts[0].Bytes)
	for i, a := range parts[0].Addresses {
		require.EqualValues(t, r.l.Slots[i].Addr, binary.LittleEndian.Uint64(parts[0].Frame[a.At:]))
	}
	parts[0].Release()
	require.Empty(t, r.execs)
	require.Empty(t, r.graphs)
	parts, never = direct(meets)
	require.False(t, never)
	require.Equal(t, 1, r.calls["instantiate"], "a graph runs blocks that meet without each other")
	parts[0].Release()
	_, never = direct(r.k)
	require.True(t, never, "accesses that are not proved may fault")
	r.l.Fuel = 5
	_, never = direct(proved)
	require.True(t, never, "fuel may run out")
	r.l.Fuel = 0
	require.NoError(t, r.s.BeginCapture())
	_, never = direct(proved)
	require.False(t, never)
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	g.Release()
	proved.Release()
	meets.Release()
	r.close(t)
}
