package main

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core"
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

// TestGatesGoWithTheirExecutor: all of them, and no other's.
func TestGatesGoWithTheirExecutor(t *testing.T) {
	var handles []handle
	var executors []*core.Executor
	for range 2 {
		ex, err := core.NewExecutor("cpu")
		require.NoError(t, err)
		h, err := register(kindExecutor, ex)
		require.NoError(t, err)
		handles, executors = append(handles, h), append(executors, ex)
		for stream := range uint64(2) {
			g := new(gate)
			*(*unsafe.Pointer)(unsafe.Pointer(&g.c)) = unsafe.Pointer(new([1 << 12]uint64)) // room for C's
			gates.Lock()
			if gates.of == nil {
				gates.of = map[entrance]*gate{}
			}
			gates.of[entrance{h, stream}] = g
			gates.Unlock()
		}
	}
	for i, h := range handles {
		_, err := unregister(h, kindExecutor, "f")
		require.NoError(t, err)
		require.NoError(t, closeExecutor(h, executors[i]))
		require.Len(t, gates.of, 2-2*i)
	}
	require.Len(t, gates.free, 4)
	gates.free = nil // which is no memory of C's
}

// TestNobodyUsesWhatIsRetired: it waits for who has a gate's turn, also while another
// waits for that, and for nobody else.
func TestNobodyUsesWhatIsRetired(t *testing.T) {
	g := new(gate)
	*(*unsafe.Pointer)(unsafe.Pointer(&g.c)) = unsafe.Pointer(new([1 << 12]uint64)) // room for C's
	turn := (*uint32)(&g.c.turn)
	for _, busy := range []uint32{core.GateTaken, core.GateWanted} {
		for _, then := range []uint32{core.GateOpen, core.GateShut} {
			var given atomic.Bool
			atomic.StoreUint32(turn, busy)
			time.AfterFunc(20*time.Millisecond, func() {
				given.Store(true)
				atomic.StoreUint32(turn, then)
			})
			g.retire(new(published))
			require.True(t, given.Load(), "it is gone though the turn is %d", busy)
			g.retire(new(published)) // at once
		}
	}
}
