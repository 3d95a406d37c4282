package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// recorded is work that can be captured.
type recorded struct{ work }

func (*recorded) Before(*Target) error           { return nil }
func (*recorded) After(*Target, backends.Ticket) {}
func (*recorded) Cost() float64                  { return 0 }
func (*recorded) Captured()                      {}
func (*recorded) Bytes() int64                   { return 0 }
func (*recorded) Reset()                         {}

// TestLongWorkAndACapture begins a capture when long work has been told to go to
// the stream's goroutine, but is not there yet.
func TestLongWorkAndACapture(t *testing.T) {
	s := streams(t)["inline"].(*Inline)
	w := &work{}
	mine, err := s.take(w, How{Long: true})
	require.NoError(t, err)
	require.False(t, mine)
	require.NoError(t, s.BeginCapture())
	require.ErrorIs(t, s.enqueue(newEvent(w, How{Long: true}), s.serve), ErrCapturing)
	require.NoError(t, s.Close(0))
}

// TestAReplayThatFails has the device fail: what the works noted is looked at all
// the same, so that it is not taken for the next replay's.
func TestAReplayThatFails(t *testing.T) {
	d, err := asynctest.New(asynctest.Options{FailReplay: 1}).Open(0)
	require.NoError(t, err)
	native, err := d.NewStream()
	require.NoError(t, err)
	s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
	require.NoError(t, s.BeginCapture())
	w := &recorded{}
	ev, err := s.Submit(w, How{})
	require.NoError(t, wait(t, ev, err))
	g, err := s.EndCapture()
	require.NoError(t, err)
	ev, err = g.Replay(s)
	require.ErrorIs(t, wait(t, ev, err), asynctest.ErrInjected)
	w.calls(t, 1, 1, 0)
	ev, err = g.Replay(s)
	require.NoError(t, wait(t, ev, err))
	w.calls(t, 1, 2, 0)
	g.Release()
	w.calls(t, 1, 2, 1)
	require.NoError(t, s.Close(time.Second))
}

// TestReleasingAGraphThatIsReplayed lets go of a graph, twice, while a replay is
// under way: what it holds goes when that is over.
func TestReleasingAGraphThatIsReplayed(t *testing.T) {
	for name, s := range streams(t) {
		hold, capturing := make(chan struct{}), true
		w := &recorded{}
		w.run = func(*Target) (backends.Ticket, error) {
			if !capturing {
				<-hold
			}
			return 0, nil
		}
		require.NoError(t, s.BeginCapture())
		ev, err := s.Submit(w, How{})
		require.NoError(t, wait(t, ev, err))
		g, err := s.EndCapture()
		require.NoError(t, err)
		capturing = false
		first := &work{run: func(t *Target) (backends.Ticket, error) { <-hold; return t.Last, nil }}
		_, err = s.Submit(first, How{Long: true}) // so that the replay is not over at once
		require.NoError(t, err)
		ev, err = g.Replay(s)
		require.NoError(t, err)
		_, err = g.Replay(s)
		require.Equal(t, status.Invalid, status.CodeOf(err), "two replays at a time")
		g.Release()
		g.Release()
		require.Zero(t, w.released.Load(), name)
		close(hold)
		require.NoError(t, wait(t, ev, nil))
		require.Eventually(t, func() bool { return w.released.Load() == 1 }, time.Second, time.Millisecond, name)
		_, err = g.Replay(s)
		require.Equal(t, status.BadHandle, status.CodeOf(err))
		require.NoError(t, s.Close(time.Second))
		require.EqualValues(t, 1, w.released.Load())
	}
}

// TestACaptureOfWhatFails has a call fail while it is recorded: there is no graph, and
// what it and the calls beside it hold goes at once. A stream that is closed while it
// captures lets go likewise, and a capture can begin anew.
func TestACaptureOfWhatFails(t *testing.T) {
	s := streams(t)["deferred"]
	for range 2 {
		require.NoError(t, s.BeginCapture())
		before, failing, after := &recorded{}, &recorded{}, &recorded{}
		failing.run = func(*Target) (backends.Ticket, error) { return 0, asynctest.ErrInjected }
		ev, err := s.Submit(before, How{})
		require.NoError(t, wait(t, ev, err))
		ev, err = s.Submit(failing, How{})
		require.ErrorIs(t, wait(t, ev, err), asynctest.ErrInjected)
		ev, err = s.Submit(after, How{})
		require.NoError(t, wait(t, ev, err))
		_, err = s.EndCapture()
		require.ErrorIs(t, err, asynctest.ErrInjected)
		for _, w := range []*recorded{before, failing, after} {
			require.EqualValues(t, 1, w.released.Load())
		}
	}
	require.NoError(t, s.Close(time.Second))
	for name, s := range streams(t) {
		require.NoError(t, s.BeginCapture())
		w := &recorded{}
		ev, err := s.Submit(w, How{})
		require.NoError(t, wait(t, ev, err), name)
		require.NoError(t, s.Close(time.Second))
		require.EqualValues(t, 1, w.released.Load(), name)
	}
}

// TestBusyWhileCapturing tries work that cannot be captured at once: it is no part
// of the capture, and does not spoil it.
func TestBusyWhileCapturing(t *testing.T) {
	for name, s := range streams(t) {
		require.NoError(t, s.BeginCapture())
		busy := &recorded{}
		busy.run = func(*Target) (backends.Ticket, error) { return 0, status.ErrBusy }
		if name == "deferred" {
			_, err := s.Submit(busy, How{Try: true})
			require.ErrorIs(t, err, status.ErrBusy, name)
			busy.calls(t, 1, 1, 1)
		}
		again := &recorded{}
		ev, err := s.Submit(again, How{})
		require.NoError(t, wait(t, ev, err), name)
		g, err := s.EndCapture()
		require.NoError(t, err, name)
		ev, err = g.Replay(s)
		require.NoError(t, wait(t, ev, err), name)
		g.Release()
		require.EqualValues(t, 1, again.released.Load())
		require.NoError(t, s.Close(time.Second))
	}
}
