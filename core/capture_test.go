package core

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestCaptureAmongOtherWork begins a capture while work is in flight, captures
// what cannot be replayed, and closes a stream that captures.
func TestCaptureAmongOtherWork(t *testing.T) {
	var told atomic.Pointer[string]
	devices := map[string]*Device{"cpu": testDevices(t)["cpu"],
		"async": asyncDevice(t, asynctest.Options{Delay: 5 * time.Millisecond, Report: func(s string) { told.Store(&s) }})}
	for name, d := range devices {
		t.Run(name, func(t *testing.T) {
			ex, other := executorOn(t, d), executorOn(t, d)
			x, y := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
			require.NoError(t, wait(ex.Op("copy", []*Buffer{x, y}, nil, nil)))
			if err := ex.BeginCapture(); d.Info.Asynchronous {
				wants(t, err, Invalid, "the stream is at work")
				require.NoError(t, wait(ex.Synchronize()))
				require.NoError(t, ex.BeginCapture())
			} else {
				require.NoError(t, err)
			}
			data := hostBytes(8)
			_, err := y.Write(addressOf(data), 0, 8)
			wants(t, err, Invalid, "captures")
			var sums [isa.NumClasses]uint64
			_, err = ex.Launch(assemble(t, "program sums\nslot c f32\nldg.f32 x, c[index]\nmov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nexit"),
				&LaunchArgs{Slots: []*Buffer{x}, Residue: &sums})
			wants(t, err, Invalid, `launch "sums": residues are there when a launch is over`)
			if name == "cpu" {
				array := Operand{View: y.Layout(), DeviceType: dlpackCPU}
				_, err = ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{{Buffer: x}, array}})
				wants(t, err, Invalid, "copy: dst: a stream that captures keeps what it records until the graph is released, which nobody would tell the owner of this array; wrap it in a buffer")
			}
			require.NoError(t, wait(ex.Op("scalar_add", []*Buffer{x, y}, []Scalar{Float(1)}, nil)))
			require.NoError(t, wait(ex.Op("scalar_add", []*Buffer{y, x}, []Scalar{Float(1)}, nil)))
			g, err := ex.EndCapture()
			require.NoError(t, err)
			_, err = other.Replay(g)
			wants(t, err, Invalid, "another executor")
			// A cancel is for one replay, and not for the next.
			ev, err := ex.Replay(g)
			if ev != nil {
				ev.Cancel()
			}
			_ = wait(ev, err)
			require.NoError(t, wait(x.Fill(Float(1))))
			require.NoError(t, wait(ex.Replay(g)))
			require.Equal(t, []float32{3, 3}, values(t, x))
			g.Release()
			require.NoError(t, wait(ex.Synchronize()))
			require.NoError(t, ex.BeginCapture())
			require.NoError(t, wait(ex.Op("copy", []*Buffer{x, y}, nil, nil)))
			require.NoError(t, ex.Close())
		})
	}
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

// TestAllocatingWhileCapturing allocates memory that another stream still uses:
// a stream that captures cannot wait for it.
func TestAllocatingWhileCapturing(t *testing.T) {
	var told atomic.Pointer[string]
	d := asyncDevice(t, asynctest.Options{Delay: 20 * time.Millisecond, Memory: 48 << 20, Report: func(s string) { told.Store(&s) }})
	ex, other := executorOn(t, d), executorOn(t, d)
	x, y := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	require.NoError(t, wait(ex.Synchronize()))
	big, err := other.Allocate(30<<20, isa.U8, false)
	require.NoError(t, err)
	require.NoError(t, ex.BeginCapture())
	require.NoError(t, wait(ex.Op("copy", []*Buffer{x, y}, nil, nil)))
	require.NoError(t, wait(big.Fill(Int(1))))
	big.Free()
	_, err = ex.Allocate(30<<20, isa.U8, false)
	require.NoError(t, err)
	g, err := ex.EndCapture()
	require.NoError(t, err)
	require.NoError(t, wait(ex.Replay(g)))
	require.Equal(t, []float32{1, 2}, values(t, y))
	g.Release()
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

// hooked is a device that tells when it is asked for memory.
type hooked struct {
	backends.Device
	asked func()
}

func (d hooked) Alloc(bytes int64) (backends.Memory, error) {
	d.asked()
	return d.Device.Alloc(bytes)
}

// TestAllocatingWhenACaptureBegins begins a capture while the executor gets memory
// that another stream uses, and for which it was to wait.
func TestAllocatingWhenACaptureBegins(t *testing.T) {
	for _, zeroed := range []bool{false, true} {
		b := asynctest.New(asynctest.Options{Delay: 20 * time.Millisecond, Memory: 48 << 20})
		dev, err := b.Open(0)
		require.NoError(t, err)
		asked := func() {}
		d, err := newDevice("async", b, hooked{dev, func() { asked() }})
		require.NoError(t, err)
		require.NoError(t, d.SetMemoryLimit(0)) // so that it is the device that has no more
		ex, other := executorOn(t, d), executorOn(t, d)
		big, err := other.Allocate(30<<20, isa.U8, false)
		require.NoError(t, err)
		require.NoError(t, wait(big.Fill(Int(1))))
		big.Free()
		begin := sync.OnceValue(ex.BeginCapture)
		asked = func() { require.NoError(t, begin()) }
		x, err := ex.Allocate(30<<20, isa.U8, zeroed)
		require.NoError(t, err, "zeroed: %v", zeroed)
		g, err := ex.EndCapture()
		require.NoError(t, err)
		g.Release()
		require.NoError(t, wait(x.Fill(Int(2))))
		require.NoError(t, wait(ex.Synchronize()))
	}
}

// TestCapturingLongWork captures a launch that nothing bounds. A replay of it, as
// of many that are short, is not for the caller's thread: it can be cancelled.
func TestCapturingLongWork(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		c, err := ex.Allocate(4, isa.U32, true)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.BeginCapture())
		require.NoError(t, wait(ex.Launch(assemble(t, forever), &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{4}})))
		g, err := ex.EndCapture()
		require.NoError(t, err)
		defer g.Release()
		for range 2 {
			ev, err := ex.Replay(g)
			pending(t, "a replay", ev, err)
		}
	})
}

// TestReplayingManyShortCalls replays so many that are short by themselves that
// they are long together.
func TestReplayingManyShortCalls(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	const n, calls = 1 << 18, 4000
	x, err := ex.Allocate(n, isa.F32, true)
	require.NoError(t, err)
	require.NoError(t, ex.BeginCapture())
	for range calls {
		require.NoError(t, wait(ex.Op("scalar_add", []*Buffer{x, x}, []Scalar{Float(1)}, nil)))
	}
	g, err := ex.EndCapture()
	require.NoError(t, err)
	defer g.Release()
	ev, err := ex.Replay(g)
	require.NoError(t, err)
	require.NotNil(t, ev, "it ran on the caller's thread")
	require.NoError(t, wait(ev, nil))
	require.Equal(t, float32(calls), values(t, x)[n-1])
}

// TestCapturingForAStreamOfOthers calls for another stream while the executor
// captures: it is neither recorded nor run unnoticed.
func TestCapturingForAStreamOfOthers(t *testing.T) {
	b := asynctest.New(asynctest.Options{DLPackType: 2})
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, openAsync(t, b, 0))
	x := floats(t, ex, 1, 2)
	require.NoError(t, wait(ex.Synchronize()))
	told := 0
	fill := &Call{Op: kernels.Fill, Operands: []Operand{{Buffer: x}}, Scalars: []Scalar{Float(3)}, Stream: theirs.Native(), Deleter: func() { told++ }}
	require.NoError(t, ex.BeginCapture())
	_, err := ex.Call(fill)
	wants(t, err, Invalid, "fill: the executor captures")
	require.Equal(t, 1, told)
	g, err := ex.EndCapture()
	require.NoError(t, err)
	require.NoError(t, wait(ex.Replay(g)))
	g.Release()
	require.Equal(t, []float32{1, 2}, values(t, x))
	require.NoError(t, wait(ex.Call(fill)))
	require.Equal(t, []float32{3, 3}, values(t, x))
}

// TestCapturingArraysOfOthers: those whose owner is told are kept until the graph
// is released.
func TestCapturingArraysOfOthers(t *testing.T) {
	d := testDevices(t)["cpu"]
	ex := executorOn(t, d)
	x, y := floats(t, ex, 1, 2), floats(t, executorOn(t, d), 0, 0)
	var told atomic.Int32
	require.NoError(t, ex.BeginCapture())
	array := Operand{View: y.Layout(), DeviceType: dlpackCPU}
	require.NoError(t, wait(ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{{Buffer: x}, array}, Deleter: func() { told.Add(1) }})))
	g, err := ex.EndCapture()
	require.NoError(t, err)
	require.Equal(t, []float32{0, 0}, values(t, y))
	require.NoError(t, wait(ex.Replay(g)))
	require.Equal(t, []float32{1, 2}, values(t, y))
	require.Zero(t, told.Load())
	g.Release()
	require.EqualValues(t, 1, told.Load())
}
