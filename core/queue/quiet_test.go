package queue

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// shared is a heap that tells what it gave.
type shared struct{ refusing }

func (s *shared) Given() backends.Ticket { return backends.Ticket(s.given.Load()) }

// quiet is work that leaves a count behind once it is queued.
type quiet struct {
	work
	name string
	loud bool
	left atomic.Int32
	gone atomic.Int32 // what it left
}

func (q *quiet) Quiet() bool     { return !q.loud }
func (q *quiet) Leave() Released { q.left.Add(1); return left{q} }

type left struct{ *quiet }

func (l left) What() string { return l.name }
func (l left) Release()     { l.gone.Add(1) }

func newShared() (*shared, *Deferred) {
	native := new(shared)
	return native, NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
}

// submit has the device take a work of so many tickets.
func (s *shared) submit(t *testing.T, to *Deferred, tickets uint64) *quiet {
	t.Helper()
	q := &quiet{work: work{run: func(*Target) (backends.Ticket, error) { return backends.Ticket(s.given.Add(tickets)), nil }}}
	ev, err := to.Submit(q, How{})
	require.NoError(t, err)
	require.Nil(t, ev)
	return q
}

// TestQuietWorkIsLeft: what the device has of quiet work is let go of at once, but for what
// is to stay until it has passed, whoever waits for that.
func TestQuietWorkIsLeft(t *testing.T) {
	for name, wait := range map[string]func(*Deferred) error{
		"a fence": func(s *Deferred) error {
			ev, err := s.Submit(&work{}, How{Outcome: true})
			return wait(t, ev, err)
		},
		"idling": func(s *Deferred) error {
			require.Eventually(t, s.Idle, time.Second, time.Millisecond)
			return nil
		},
		"closing": func(s *Deferred) error { return s.Close(time.Second) },
	} {
		for _, count := range []int{1, maxQuiet - 1, maxQuiet, 3*maxQuiet + 1} {
			native, s := newShared()
			list := make([]*quiet, count)
			for i := range list {
				list[i] = native.submit(t, s, 1)
			}
			if name == "closing" {
				time.AfterFunc(10*time.Millisecond, func() { native.open.Store(true) })
			} else {
				require.False(t, s.Idle(), name)
				require.Equal(t, status.Invalid, status.CodeOf(s.BeginCapture()), name)
			}
			for _, q := range list {
				q.calls(t, 1, 0, 0)
				require.EqualValues(t, 1, q.left.Load())
				require.Zero(t, q.gone.Load(), "%s, %d: let go of before it passed", name, count)
			}
			if name != "closing" {
				native.open.Store(true)
			}
			require.NoError(t, wait(s))
			require.True(t, native.open.Load(), name)
			for _, q := range list {
				q.calls(t, 1, 0, 0)
				require.EqualValues(t, 1, q.gone.Load(), "%s, %d", name, count)
			}
			if name != "closing" {
				require.NoError(t, s.Close(time.Second))
			}
		}
	}
}

// TestQuietWorkIsInOrder: what waits for all that was queued waits for quiet work as well,
// and a device is not fuller of it than of other work.
func TestQuietWorkIsInOrder(t *testing.T) {
	native, s := newShared()
	native.submit(t, s, 1)
	all, err := s.Submit(&work{}, How{Outcome: true})
	require.NoError(t, err)
	require.ErrorIs(t, all.Wait(5*time.Millisecond), backends.ErrPending)
	native.open.Store(true)
	require.NoError(t, wait(t, all, nil))
	native.open.Store(false)
	for i := 0; ; i++ {
		require.Less(t, i, 1000)
		q := &quiet{work: work{run: func(*Target) (backends.Ticket, error) { return backends.Ticket(native.given.Add(1)), nil }}}
		_, err := s.Submit(q, How{Try: true})
		if errors.Is(err, status.ErrBusy) {
			q.calls(t, 0, 0, 1)
			break
		}
		require.NoError(t, err)
	}
	require.LessOrEqual(t, native.given.Load(), uint64(800))
	native.open.Store(true)
	require.NoError(t, s.Close(time.Second))
}

// TestQuietWorkOfNothing: works that the device has nothing to do for are let go of too.
func TestQuietWorkOfNothing(t *testing.T) {
	native, s := newShared()
	native.open.Store(true)
	var list []*quiet
	for range 2 * maxQuiet {
		q := new(quiet)
		q.run = func(*Target) (backends.Ticket, error) { return 0, nil }
		_, err := s.Submit(q, How{})
		require.NoError(t, err)
		list = append(list, q)
	}
	require.NoError(t, s.Close(time.Second))
	for _, q := range list {
		require.EqualValues(t, 1, q.gone.Load())
	}
}

// TestQuietWorkThatIsNot: work that is not quiet after all, whose caller waits for its
// outcome, that fails, in whole or in part, or that is of a stream which does not tell what
// it gave, goes the way of all others.
func TestQuietWorkThatIsNot(t *testing.T) {
	oh := errors.New("oh")
	native, s := newShared()
	plain := NewDeferred(Target{Line: &memory.Line{Stream: &native.heap}, Order: new(lock.Mutex[lock.Order])})
	native.open.Store(true)
	for name, c := range map[string]struct {
		to     *Deferred
		how    How
		ticket uint64
		err    error
		loud   bool
		told   int
	}{
		"loud":                     {to: s, ticket: 1, loud: true, told: 1},
		"waited for":               {to: s, how: How{Outcome: true}, ticket: 1, told: 1},
		"long":                     {to: s, how: How{Long: true}, ticket: 1, told: 1},
		"failed":                   {to: s, err: oh, told: 1},
		"failed in part":           {to: s, ticket: 1, err: oh, told: 1},
		"of a stream that is mute": {to: plain, ticket: 1, told: 1},
	} {
		native.submit(t, s, 1)
		q := &quiet{loud: c.loud, work: work{run: func(*Target) (backends.Ticket, error) {
			if c.ticket == 0 {
				return 0, c.err
			}
			return backends.Ticket(native.given.Add(c.ticket)), c.err
		}}}
		ev, err := c.to.Submit(q, c.how)
		require.ErrorIs(t, wait(t, ev, err), c.err, name)
		ev, err = c.to.Submit(&work{}, How{Outcome: true})
		require.NoError(t, wait(t, ev, err), name)
		require.Eventually(t, func() bool { return q.released.Load() == 1 }, time.Second, time.Millisecond, name)
		q.calls(t, 1, c.told, 1)
		require.Zero(t, q.left.Load(), name)
	}
	require.NoError(t, s.Close(time.Second))
	require.NoError(t, plain.Close(time.Second))
}

// lost is a device that is lost with all it was given.
type lost struct{ shared }

func (*lost) Wait(backends.Ticket, time.Duration) error { return backends.ErrLost }

// TestQuietWorkIsNamed: where the device was lost by quiet work, the error has the names of
// all that it may have been, each once.
func TestQuietWorkIsNamed(t *testing.T) {
	for _, names := range [][]string{{"add"}, {"add", "add", "relu", "add"}} {
		native := new(lost)
		s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
		for _, name := range names {
			q := &quiet{name: name, work: work{run: func(*Target) (backends.Ticket, error) { return backends.Ticket(native.given.Add(1)), nil }}}
			_, err := s.Submit(q, How{})
			require.NoError(t, err)
		}
		err := s.Close(time.Second)
		require.ErrorIs(t, err, backends.ErrLost)
		want := "add: "
		if len(names) > 1 {
			want = "add or relu: "
		}
		require.True(t, strings.HasPrefix(err.Error(), want), "%v", err)
		require.NotContains(t, err.Error(), "work of calls")
	}
}
