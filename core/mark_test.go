package core

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// come waits until the device has come to a mark.
func come(t *testing.T, m *Mark) {
	t.Helper()
	require.NoError(t, m.Wait(10*time.Second))
}

func TestMarks(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x := floats(t, ex, 1, 2, 3)
		before, err := ex.Record(0)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Op("vector_add", []*Buffer{x, x, x}, nil, nil)))
		after, err := ex.Record(0)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Await(after, 0)))
		come(t, after)
		come(t, before)
		took, err := after.Since(before)
		require.NoError(t, err)
		require.GreaterOrEqual(t, took, time.Duration(0))
		back, err := before.Since(after)
		require.NoError(t, err)
		require.Equal(t, -took, back)
		before.Free()
		_, err = ex.Await(before, 0)
		wants(t, err, BadHandle, "the event is freed")
		after.Free()
	})
}

// TestAMarkIsBehindWhatWasQueued looks at a mark before and after the work before it.
func TestAMarkIsBehindWhatWasQueued(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, openAsync(t, b, 0))
	held := make(chan struct{})
	theirs.Do(0, func() { <-held })
	m, err := ex.Record(theirs.Native())
	require.NoError(t, err)
	wants(t, m.Wait(0), Pending, "")
	early, err := ex.Record(0)
	require.NoError(t, err)
	come(t, early)
	_, err = m.Since(early)
	wants(t, err, Invalid, "has not come to both")
	// The executor's own stream waits for theirs, and what is queued there with it.
	require.NoError(t, wait(ex.Await(m, 0)))
	late, err := ex.Record(0)
	require.NoError(t, err)
	m.Free() // goes on being waited for
	require.ErrorIs(t, late.Wait(20*time.Millisecond), backends.ErrPending)
	close(held)
	come(t, late)
	late.Free()
	early.Free()
	other := executorOn(t, asyncDevice(t, asynctest.Options{}))
	_, err = other.Await(early, 0)
	wants(t, err, Invalid, "wait: the event is on async, the executor on async")
	require.Zero(t, b.Counts().Timings)
}

// TestMarksOrderStreams has a buffer of theirs be written on a stream of the executor's and
// read on another, in the order of a mark: the device would tell if nothing ordered them.
func TestMarksOrderStreams(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: time.Millisecond, DLPackType: 2, Unified: true})
	ex := executorOn(t, openAsync(t, b, 0))
	memory, err := b.NewForeignMemory(0, 16)
	require.NoError(t, err)
	operand := func() Operand {
		v := backends.View{Addr: memory.Addr, Type: isa.F32, Rank: 1}
		v.Shape[0], v.Stride[0] = 4, 1
		return Operand{View: v, DeviceType: 2}
	}
	out := floats(t, ex, 0, 0, 0, 0)
	one, err := ex.NewStream()
	require.NoError(t, err)
	two, err := ex.NewStream()
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	call := func(stream uintptr, name string, scalars []Scalar, operands ...Operand) error {
		op, ok := kernels.Lookup(name)
		require.True(t, ok)
		return wait(ex.Call(&Call{Op: op, Operands: operands, Scalars: scalars, Stream: stream, Ordered: true}))
	}
	for i := range 5 {
		require.NoError(t, call(one, "fill", []Scalar{Float(float64(i))}, operand()))
		m, err := ex.Record(one)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Await(m, two)))
		m.Free()
		require.NoError(t, call(two, "copy", nil, operand(), Operand{Buffer: out}))
		m, err = ex.Record(two)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Await(m, one)))
		m.Free()
		v := float32(i)
		require.Equal(t, []float32{v, v, v, v}, values(t, out))
	}
	require.NoError(t, ex.FreeStream(one))
	wants(t, ex.FreeStream(one), BadHandle, "is no stream of the executor's, or freed")
	require.Contains(t, []Code{BadHandle, Internal}, CodeOf(call(one, "fill", []Scalar{Float(0)}, operand())), "it is ending, or has ended")
}

func TestStreamsOfTheExecutor(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: time.Millisecond})
	d := openAsync(t, b, 0)
	ex := executorOn(t, d)
	require.NotZero(t, ex.Native())
	x := floats(t, ex, 1)
	for range 3 {
		s, err := ex.NewStream()
		require.NoError(t, err)
		c := &Call{Op: kernels.Copy, Operands: []Operand{{Buffer: x}, {Buffer: floats(t, ex, 0)}}, Stream: s}
		require.NoError(t, wait(ex.Call(c)))
	}
	// Its own number is its own stream.
	c := &Call{Op: kernels.Copy, Operands: []Operand{{Buffer: x}, {Buffer: floats(t, ex, 0)}}, Stream: ex.Native()}
	require.NoError(t, wait(ex.Call(c)))
	require.Equal(t, 1+3+3, b.Counts().Streams)
	require.NoError(t, ex.Close())
	require.Zero(t, b.Counts().Streams)
	_, err := ex.NewStream()
	wants(t, err, BadHandle, "freed")
	host := executorOn(t, testDevices(t)["cpu"])
	_, err = host.NewStream()
	wants(t, err, Unavailable, "one stream an executor")
	require.Zero(t, host.Native())
}

// TestReady hands memory that another stream still writes to a stream of others.
func TestReady(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 5 * time.Millisecond})
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, openAsync(t, b, 0))
	x := floats(t, ex, 1, 2)
	require.NoError(t, wait(x.Fill(Float(7))))
	require.NoError(t, wait(x.Ready(theirs.Native())))
	early := x.Layout()
	seen := float32(0)
	<-theirs.Do(0, func() { seen = *(*float32)(hostmem.Pointer(early.Addr - 1<<50)) })
	require.Equal(t, float32(7), seen)
	require.NoError(t, wait(x.Ready(theirs.Native())))
	x.Free()
	_, err := x.Ready(0)
	wants(t, err, BadHandle, "freed")
}

// TestTransfers copies sizes around those of pieces both ways, to memory that is locked
// and to memory that is not.
func TestTransfers(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int64{0, 1, 4095, directFloor - 1, directFloor, copyShare*2 + 3, stagePiece, 2*stagePiece + 1, stageCount*stagePiece + 77} {
			x, err := ex.Allocate(max(n, 1), isa.U8, false)
			require.NoError(t, err)
			plain, back := hostBytes(n+1), hostBytes(n+1)
			lease, err := ex.HostMemory(n + 1)
			require.NoError(t, err)
			at := lease.Addr()
			locked := hostmem.Bytes(at, n+1)
			for i := range plain {
				plain[i], locked[i] = byte(r.Uint32()), 9
			}
			var told atomic.Int32
			// Each with the event that it gives, or without.
			for _, later := range []bool{false, true} {
				ends := func(host uintptr, toHost bool) *Transfer {
					return &Transfer{Host: host, Bytes: n, ToHost: toHost, Later: later, Deleter: func() { told.Add(1) }}
				}
				require.NoError(t, wait(x.Transfer(ends(addressOf(plain), false))))
				require.NoError(t, wait(x.Transfer(ends(at, true))))
				require.Equal(t, plain[:n], locked[:n])
				require.NoError(t, wait(x.Transfer(ends(at, false))))
				clear(locked[:n])
				clear(back)
				require.NoError(t, wait(x.Transfer(ends(addressOf(back), true))))
				require.Equal(t, plain[:n], back[:n])
				require.Equal(t, byte(9), locked[n])
				require.Zero(t, back[n])
			}
			require.NoError(t, wait(ex.Synchronize()))
			require.Eventually(t, func() bool { return told.Load() == 8 }, 5*time.Second, time.Millisecond)
			runtime.KeepAlive(plain)
			runtime.KeepAlive(back)
			lease.Release()
			x.Free()
		}
		x := floats(t, ex, 1)
		defer x.Free()
		told := false
		_, err := x.Transfer(&Transfer{Host: 1, Bytes: 5, Deleter: func() { told = true }})
		wants(t, err, Invalid, "5 bytes at offset 0 are outside the buffer's 4 bytes")
		require.True(t, told)
	})
}

// TestDirectTransfersDoNotStage counts what the device copies, and what of the host's
// memory it takes for that.
func TestDirectTransfersDoNotStage(t *testing.T) {
	const n = 3*stagePiece + 5
	b := asynctest.New(asynctest.Options{Delay: time.Millisecond})
	ex := executorOn(t, openAsync(t, b, 0))
	x, err := ex.Allocate(n, isa.U8, false)
	require.NoError(t, err)
	lease, err := ex.HostMemory(n)
	require.NoError(t, err)
	at := lease.Addr()
	defer lease.Release()
	copies, blocks := b.Counts().Copies, b.Counts().HostBlocks
	ev, err := x.Transfer(&Transfer{Host: at, Bytes: n, Later: true})
	require.NoError(t, err)
	require.NotNil(t, ev)
	require.ErrorIs(t, ev.Wait(0), backends.ErrPending, "the call waited")
	require.NoError(t, wait(x.Transfer(&Transfer{Host: at, Bytes: n, ToHost: true})))
	require.Equal(t, copies+2, b.Counts().Copies)
	require.Equal(t, blocks, b.Counts().HostBlocks)
	// What is locked only in part is staged.
	require.NoError(t, wait(x.Transfer(&Transfer{Host: at, Bytes: n - 1, ToHost: true})))
	require.Equal(t, copies+3, b.Counts().Copies)
	require.Equal(t, backends.Elsewhere, ex.Locate(addressOf(hostBytes(8))).Kind)
	require.Equal(t, backends.Locked, ex.Locate(at).Kind)
	require.Equal(t, backends.OnDevice, ex.Locate(x.Layout().Addr).Kind)
}
