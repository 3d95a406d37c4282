package core

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
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
			wants(t, err, Invalid, "captures")
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
