package main

import (
	"reflect"
	"slices"
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

// TestWhoPublishesWaitsForNobody who has the turn, while what gives way to his call may be in use.
func TestWhoPublishesWaitsForNobody(t *testing.T) {
	ex, err := core.NewExecutor("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, ex.Close()) }()
	g, at := new(gate), entrance{1 << 60, 0}
	*(*unsafe.Pointer)(unsafe.Pointer(&g.c)) = unsafe.Pointer(new([1 << 12]uint64)) // room for C's
	reflect.ValueOf(&g.calls).Elem().Set(reflect.MakeMap(reflect.TypeOf(g.calls)))
	if gates.of == nil {
		gates.of = map[entrance]*gate{}
	}
	gates.of[at] = g
	defer delete(gates.of, at)
	turn := (*uint32)(&g.c.turn)
	var all []*published
	const f32 = 11 // HOLOGRAM_F32
	for i := range int64(3) {
		copies := slices.IndexFunc(core.Ops(), func(o *core.Operation) bool { return o.Name == "copy" })
		c := &core.Call{Op: core.Ops()[copies]}
		for range 2 {
			b, err := ex.Allocate(5+i, f32, false)
			require.NoError(t, err)
			defer b.Free()
			c.Operands = append(c.Operands, core.Operand{Buffer: b})
		}
		_, err = ex.Call(c)
		require.NoError(t, err)
		if i == 2 { // who has the turn may use what gives way to this one
			atomic.StoreUint32(turn, core.GateTaken)
		}
		ex.Direct(c, func(d *core.Direct) core.Retire {
			x := &published{d: d}
			x.c, _ = newDirect(d, made(&(&published{}).c))
			x.bytes = maxGateBytes // there is room for one
			all = append(all, x)
			require.Same(t, g, admit(at, x))
			return func() func() { return g.retire(x) }
		})
		require.Len(t, all, int(i)+1)
		require.Len(t, g.calls, 1)
	}
	// What is freed has no more at its begin what was there: a hash that is 0, and where its key is.
	freed := func() bool {
		c := all[1].c
		return c.hash != 0 || uintptr(unsafe.Pointer(c.key)) != uintptr(unsafe.Pointer(c))+unsafe.Sizeof(*c)
	}
	require.Never(t, freed, 20*time.Millisecond, time.Millisecond)
	atomic.StoreUint32(turn, core.GateOpen)
}

// TestALaterTurnIsNotWaitedFor: who has the turn when what was taken away is asked for gives it back, and
// another takes it, who cannot have found that.
func TestALaterTurnIsNotWaitedFor(t *testing.T) {
	g := new(gate)
	*(*unsafe.Pointer)(unsafe.Pointer(&g.c)) = unsafe.Pointer(new([1 << 12]uint64)) // room for C's
	turn, turns := (*uint32)(&g.c.turn), (*uint32)(&g.c.turns)
	require.Nil(t, g.left())
	atomic.StoreUint32(turn, core.GateShut)
	require.Nil(t, g.left())
	atomic.StoreUint32(turn, core.GateTaken)
	wait := g.left()
	require.NotNil(t, wait)
	atomic.StoreUint32(turns, 1)
	wait()
	require.NotNil(t, g.left(), "somebody has the turn")
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
			wait := g.retire(new(published))
			require.NotNil(t, wait)
			wait()
			require.True(t, given.Load(), "it is gone though the turn is %d", busy)
			require.Nil(t, g.retire(new(published))) // at once
		}
	}
}
