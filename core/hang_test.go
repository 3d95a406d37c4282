package core

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// endlessLaunch starts a launch that ends only when it is cancelled, on the
// returned memory. The event is nil where the device has queued it.
func endlessLaunch(t *testing.T, ex *Executor) (*Buffer, *Event) {
	t.Helper()
	c, err := ex.Allocate(4, isa.U32, true)
	require.NoError(t, err)
	ev, err := ex.Launch(assemble(t, forever), &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{4}})
	require.NoError(t, err)
	return c, ev
}

// pending fails unless work goes on, and can be cancelled.
func pending(t *testing.T, what string, ev *Event, err error) {
	t.Helper()
	require.NoError(t, err)
	if ev == nil {
		t.Fatalf("%s: no event to wait for", what)
	}
	if err := ev.Wait(20 * time.Millisecond); !errors.Is(err, backends.ErrPending) {
		t.Fatalf("%s does not wait: %v", what, err)
	}
	ev.Cancel()
	wants(t, wait(ev, nil), Cancelled, "cancelled")
}

// TestCallsBehindAnEndlessLaunch has each call that waits for work before it
// give an event, and end when that is cancelled.
func TestCallsBehindAnEndlessLaunch(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		other := executorOn(t, asyncDevice(t, asynctest.Options{}))
		foreign, err := other.Allocate(4, isa.U32, true)
		require.NoError(t, err)
		data := hostBytes(16)
		for name, call := range map[string]func(c *Buffer) (*Event, error){
			"phase":       func(*Buffer) (*Event, error) { return ex.Phase(new(int32)) },
			"synchronize": func(*Buffer) (*Event, error) { return ex.Synchronize() },
			"read":        func(c *Buffer) (*Event, error) { return c.Read(addressOf(data), 0, 16) },
			"copy":        func(c *Buffer) (*Event, error) { return foreign.CopyFrom(c) },
		} {
			c, launch := endlessLaunch(t, ex)
			ev, err := call(c)
			require.NoError(t, err)
			if ev == nil {
				t.Fatalf("%s: no event to wait for", name)
			}
			if err := ev.Wait(20 * time.Millisecond); !errors.Is(err, backends.ErrPending) {
				t.Fatalf("%s does not wait: %v", name, err)
			}
			ev.Cancel()
			_ = wait(ev, nil)
			if launch == nil {
				ex.Cancel() // the launch itself, which goes on
			} else {
				if err := launch.Wait(0); !errors.Is(err, backends.ErrPending) {
					t.Errorf("%s: the launch ended with it: %v", name, err)
				}
				launch.Cancel()
				wants(t, wait(launch, nil), Cancelled, "cancelled before its end")
			}
			_ = wait(ex.Synchronize()) // where nobody has seen it yet: that the launch was cancelled
			require.NoError(t, wait(c.Fill(Int(3))))
			require.NoError(t, wait(foreign.CopyFrom(c)))
			if got := words(t, foreign); !slices.Equal(got, []uint32{3, 3, 3, 3}) {
				t.Errorf("%s: got %v", name, got)
			}
		}
		runtime.KeepAlive(data)
	})
}

func words(t *testing.T, b *Buffer) []uint32 {
	t.Helper()
	data := hostBytes(4 * b.Len())
	require.NoError(t, wait(b.Read(addressOf(data), 0, int64(len(data)))))
	out := make([]uint32, b.Len())
	for i := range out {
		out[i] = uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24
	}
	runtime.KeepAlive(data)
	return out
}

// TestClosingCancels closes a stream whose work would never end, and one with
// work queued behind it.
func TestClosingCancels(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		c, launch := endlessLaunch(t, ex)
		behind, err := c.Fill(Int(1))
		require.NoError(t, err)
		err = ex.close(20 * time.Millisecond)
		if ex.device.Info.Asynchronous {
			wants(t, err, Cancelled, "cancelled") // nobody else has seen it
		} else {
			require.NoError(t, err)
			wants(t, wait(launch, nil), Cancelled, "cancelled before")
			wants(t, wait(behind, nil), Cancelled, "cancelled before it began")
		}
	})
}

// TestClosingLetsQueuedLaunchesEnd closes an executor with launches in flight:
// what they write to memory that others keep is there.
func TestClosingLetsQueuedLaunchesEnd(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 2 * time.Millisecond})
	first, second := executorOn(t, d), executorOn(t, d)
	c := floats(t, second, 0, 0)
	for range 5 {
		require.NoError(t, wait(first.Op("scalar_add", []*Buffer{c, c}, []Scalar{Float(1)}, nil)))
	}
	require.NoError(t, first.Close())
	if got := values(t, c); !slices.Equal(got, []float32{5, 5}) {
		t.Errorf("got %v", got)
	}
}

// TestAFullQueue queues more than a stream takes: that gives an event, which can
// be cancelled. Work on memory that another executor's launch uses is queued at
// once; the device waits.
func TestAFullQueue(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	first, second := executorOn(t, d), executorOn(t, d)
	c, _ := endlessLaunch(t, first)
	out := floatsLike(t, second, c)
	ev, err := second.Op("copy", []*Buffer{out, c}, nil, nil)
	require.NoError(t, err)
	require.Nil(t, ev)
	ev, err = second.Synchronize()
	pending(t, "synchronize", ev, err)
	full := false
	for range 2000 {
		ev, err := c.Fill(Int(1))
		require.NoError(t, err)
		if ev != nil {
			pending(t, "fill", ev, err)
			full = true
			break
		}
	}
	require.True(t, full, "the queue has no end")
	ev, err = first.Synchronize()
	pending(t, "synchronize", ev, err)
	first.Cancel()
	require.NoError(t, wait(first.Synchronize()))
	require.Equal(t, []uint32{0, 0, 0, 0}, words(t, out))
}

func floatsLike(t *testing.T, ex *Executor, b *Buffer) *Buffer {
	t.Helper()
	c, err := ex.Allocate(b.Len(), b.dtype, true)
	require.NoError(t, err)
	return c
}

// TestCopiesInOppositeDirections has two devices copy to each other at once.
func TestCopiesInOppositeDirections(t *testing.T) {
	one := executorOn(t, asyncDevice(t, asynctest.Options{Delay: time.Millisecond}))
	host := executorOn(t, testDevices(t)["cpu"])
	for _, pair := range [][2]*Executor{{one, host}, {one, executorOn(t, asyncDevice(t, asynctest.Options{}))}} {
		a, b := floats(t, pair[0], 1, 2), floats(t, pair[1], 3, 4)
		c, d := floats(t, pair[0], 0, 0), floats(t, pair[1], 0, 0)
		var all []*Event
		for range 20 {
			for _, copied := range [][2]*Buffer{{d, a}, {c, b}} {
				ev, err := copied[0].CopyFrom(copied[1])
				require.NoError(t, err)
				if ev != nil {
					all = append(all, ev)
				}
			}
		}
		for _, ev := range all {
			require.NoError(t, wait(ev, nil))
		}
		if x, y := values(t, c), values(t, d); !slices.Equal(x, []float32{3, 4}) || !slices.Equal(y, []float32{1, 2}) {
			t.Errorf("got %v and %v", x, y)
		}
	}
}

// TestDeletersRunWithoutLocks has the deleter of foreign memory use the executor
// whose work was the last to use it.
func TestDeletersRunWithoutLocks(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		base := floats(t, ex, 1, 2)
		c := floats(t, ex, 0, 0)
		done := make(chan error, 1)
		b, err := ex.Wrap(base.Layout().Addr, isa.F32, []int64{2}, nil, false, func() {
			_, err := c.Fill(Float(5))
			done <- err
		})
		require.NoError(t, err)
		ev, err := ex.Op("copy", []*Buffer{b, c}, nil, nil)
		b.Free()
		require.NoError(t, wait(ev, err))
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, <-done)
		if got := values(t, c); !slices.Equal(got, []float32{5, 5}) {
			t.Errorf("got %v", got)
		}
	})
}

// slowCopies is a stream on which a copy's first piece takes until it is let go.
type slowCopies struct {
	backends.Stream
	pieces   []int64
	inside   chan struct{}
	released chan struct{}
}

func (s *slowCopies) Copy(_, _ uintptr, bytes int64) (backends.Ticket, error) {
	s.pieces = append(s.pieces, bytes)
	if len(s.pieces) == 1 {
		s.inside <- struct{}{}
		<-s.released
	}
	return 0, nil
}

// TestLongCopies copies more than a piece, which gives an event, to its end and
// until it is cancelled.
func TestLongCopies(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		ex := executorOn(t, testDevices(t)["cpu"])
		b, err := ex.Allocate(2*copyPiece+5, isa.U8, false)
		require.NoError(t, err)
		slow := &slowCopies{Stream: ex.stream.Target().Line.Stream, inside: make(chan struct{}), released: make(chan struct{})}
		ex.stream.Target().Line.Stream = slow
		ev, err := b.Write(b.addr, 0, b.Len())
		require.NoError(t, err)
		<-slow.inside
		if cancelled {
			ev.Cancel()
		}
		close(slow.released)
		err = wait(ev, nil)
		if cancelled {
			wants(t, err, Cancelled, "copy of 128 MiB: cancelled after 64 MiB")
		} else {
			require.NoError(t, err)
			require.Equal(t, []int64{copyPiece, copyPiece, 5}, slow.pieces)
		}
		b.Free()
	}
}
