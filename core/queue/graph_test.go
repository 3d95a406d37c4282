package queue

import (
	"sync/atomic"
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
type recorded struct {
	work
	captured, reset atomic.Int32
}

func (*recorded) Before(*Target) error           { return nil }
func (*recorded) After(*Target, backends.Ticket) {}
func (*recorded) Cost() float64                  { return 0 }
func (r *recorded) Captured()                    { r.captured.Add(1) }
func (*recorded) Bytes() int64                   { return 0 }
func (r *recorded) Reset()                       { r.reset.Add(1) }

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

// TestWorkLearnsOfItsGraph captures on streams of both kinds: the work is told
// once, and after each replay that a Cancel was meant for that.
func TestWorkLearnsOfItsGraph(t *testing.T) {
	for name, s := range streams(t) {
		require.NoError(t, s.BeginCapture())
		w := &recorded{}
		ev, err := s.Submit(w, How{})
		require.NoError(t, wait(t, ev, err))
		require.EqualValues(t, 1, w.captured.Load(), name)
		g, err := s.EndCapture()
		require.NoError(t, err)
		for i := range 3 {
			ev, err := g.Replay(s)
			require.NoError(t, wait(t, ev, err))
			require.EqualValues(t, i+1, w.reset.Load(), name)
		}
		require.EqualValues(t, 1, w.captured.Load(), name)
		_, err = g.Replay(streams(t)[name])
		require.ErrorContains(t, err, "the graph is of another executor")
		g.Release()
		require.NoError(t, s.Close(time.Second))
	}
}

// refusing is a stream that records, and whose graphs it does not replay.
type refusing struct {
	heap
	released atomic.Int32
}

func (s *refusing) BeginCapture() error                             { return nil }
func (s *refusing) EndCapture() (backends.Graph, error)             { return s, nil }
func (s *refusing) Replay(backends.Stream) (backends.Ticket, error) { return 0, asynctest.ErrInjected }
func (s *refusing) Release()                                        { s.released.Add(1) }

// TestARefusedReplay has the device refuse at once: it is told, and the graph can be
// released, and its native one goes then.
func TestARefusedReplay(t *testing.T) {
	native := &refusing{}
	s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
	require.NoError(t, s.BeginCapture())
	w := &recorded{}
	ev, err := s.Submit(w, How{})
	require.NoError(t, wait(t, ev, err))
	g, err := s.EndCapture()
	require.NoError(t, err)
	for range 2 {
		ev, err = g.Replay(s)
		require.ErrorIs(t, wait(t, ev, err), asynctest.ErrInjected)
	}
	g.Release()
	require.EqualValues(t, 1, native.released.Load())
	w.calls(t, 1, 2, 1)
	require.NoError(t, s.Close(time.Second))
}

// seized is a stream of others that its owner captures.
type seized struct {
	heap
	joined atomic.Int32
}

func (s *seized) Captured() bool { return true }

func (s *seized) Join() (backends.Stay, error) {
	s.joined.Add(1)
	return stay{}, nil
}

type stay struct{}

func (stay) Leave()     {}
func (stay) Gone() bool { return true }

// replayed is a graph of others that is replayed for the last time when it is asked
// whether it is gone.
type replayed struct {
	stay
	last func()
}

func (r replayed) Gone() bool {
	r.last()
	return true
}

// noting is a guest that tells what replays have noted.
type noting struct {
	lodging
	noted error
}

func (n *noting) Outcome(error) error { return n.noted }

// TestTheLastReplayOfAGuest notes an error as late as one can: it is told all the
// same, and the work is let go of.
func TestTheLastReplayOfAGuest(t *testing.T) {
	var guests Guests
	w := &noting{}
	guests.add(lodger{w, replayed{last: func() { w.noted = asynctest.ErrInjected }}})
	require.ErrorIs(t, guests.Look(), asynctest.ErrInjected)
	require.EqualValues(t, 1, w.released.Load())
	require.NoError(t, guests.Look())
}

// lodging is work that can be part of others' graphs.
type lodging struct{ recorded }

func (*lodging) Lodge() error { return nil }
func (*lodging) Lodged()      {}

// TestWhatIsNoGuest submits work to a stream whose owner captures it: only where
// the stream, the work and the device can, it is recorded.
func TestWhatIsNoGuest(t *testing.T) {
	for i := range 8 {
		can, may, guests := i&1 != 0, i&2 != 0, i&4 != 0
		native := &seized{}
		target := Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])}
		if !can {
			target.Line.Stream = &native.heap
		}
		if guests {
			target.Guests = &Guests{}
		}
		s := NewDeferred(target)
		refused := func(t *Target) (backends.Ticket, error) {
			if t.Capturing {
				return 0, nil
			}
			return 0, backends.Captured("test", "launch")
		}
		guest, other := &lodging{}, &work{run: refused}
		guest.run = refused
		w, counts := Work(guest), &guest.work
		if !may {
			w, counts = other, other
		}
		ev, err := s.Submit(w, How{})
		require.Nil(t, ev)
		if can && may && guests {
			require.NoError(t, err)
			require.EqualValues(t, 1, guest.captured.Load())
			require.Zero(t, counts.released.Load())
			require.NoError(t, s.Errors()) // looks: the owner's graph is gone
		} else {
			require.ErrorContains(t, err, "this cannot be part of a graph of others", "%v %v %v", can, may, guests)
			require.Equal(t, status.Unavailable, status.CodeOf(err))
			require.Zero(t, native.joined.Load())
		}
		require.EqualValues(t, 1, counts.released.Load())
		require.NoError(t, s.Close(time.Second))
	}
}
