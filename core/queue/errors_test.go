package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// failing is work that fails with an error of its own: at once, before or after it has
// queued something, or later, on the device.
type failing struct {
	work
	later error
}

func (w *failing) Outcome(err error) error {
	w.told.Add(1)
	if w.later != nil {
		return w.later
	}
	return err
}

// TestErrorsReachOneCaller submits works that fail in every way, in every way, to a
// device that gets them done now and then: each error is told once, to who asked for
// the outcome, or to who asks for the stream's errors, and each method comes once.
func TestErrorsReachOneCaller(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		native := &heap{}
		s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
		var works []*failing
		var kept, found []string // that somebody has to ask for
		events, expected := map[int]*Event{}, map[int]string{}
		collect := func(err error) {
			var more interface{ Unwrap() []error }
			switch {
			case err == nil:
			case errors.As(err, &more):
				for _, e := range more.Unwrap() {
					found = append(found, e.Error())
				}
			default:
				found = append(found, err.Error())
			}
		}
		failures := 0
		for i := range 24 {
			w := &failing{}
			works = append(works, w)
			how := []How{{}, {Outcome: true}, {Long: true}, {Long: true, Outcome: true}}[r.IntN(4)]
			own := fmt.Sprintf("work %d fails", i)
			ticket := func() backends.Ticket { return backends.Ticket(native.given.Add(1)) }
			kind := r.IntN(4)
			if failures == maxErrors {
				kind = 0
			}
			switch kind {
			case 0:
				w.run = func(*Target) (backends.Ticket, error) { return ticket(), nil }
			case 1:
				w.run = func(*Target) (backends.Ticket, error) { return 0, errors.New(own) }
				expected[i] = own
			case 2:
				w.run = func(*Target) (backends.Ticket, error) { return ticket(), errors.New(own) }
				w.later = errors.New("what nobody is told")
				expected[i] = own
			case 3:
				w.run = func(*Target) (backends.Ticket, error) { return ticket(), nil }
				w.later = errors.New(own)
				if how.Outcome {
					expected[i] = own
				} else {
					failures++
					kept = append(kept, own)
				}
			}
			ev, err := s.Submit(w, how)
			if ev != nil {
				events[i] = ev
				if how.Long && !how.Outcome {
					require.Equal(t, expected[i], text(wait(t, ev, nil)), "seed %d, work %d", seed, i)
				}
			} else {
				require.Equal(t, expected[i], text(err), "seed %d, work %d", seed, i)
			}
			switch r.IntN(6) {
			case 0:
				native.open.Store(!native.open.Load())
			case 1:
				collect(s.Errors())
			case 2:
				letGo, err := s.Gather()
				if letGo != nil {
					letGo()
				}
				collect(err)
			}
		}
		native.open.Store(true)
		for i, ev := range events {
			require.Equal(t, expected[i], text(wait(t, ev, nil)), "seed %d, work %d", seed, i)
		}
		require.Eventually(t, s.Idle, time.Minute, time.Millisecond, "seed %d", seed)
		collect(s.Errors())
		require.Equal(t, kept, found, "seed %d", seed)
		require.NoError(t, s.Close(time.Minute))
		for _, w := range works { // who ran a work lets it go, maybe just after Close has seen its end
			require.Eventually(t, func() bool { return w.released.Load() > 0 }, time.Minute, time.Millisecond, "seed %d", seed)
			w.calls(t, 1, 1, 1)
			require.Zero(t, w.stopped.Load())
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestClosingGivesWorkItsTime closes a stream with a grace that its work needs: it is
// not cancelled.
func TestClosingGivesWorkItsTime(t *testing.T) {
	native := &heap{}
	s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
	w := &work{run: func(*Target) (backends.Ticket, error) { return backends.Ticket(native.given.Add(1)), nil }}
	_, err := s.Submit(w, How{})
	require.NoError(t, err)
	time.AfterFunc(10*time.Millisecond, func() { native.open.Store(true) })
	require.NoError(t, s.Close(time.Minute))
	require.Zero(t, w.stopped.Load())
	w.calls(t, 1, 1, 1)
}

// TestCapturingWhatCannotRecord asks for a capture of a device that has none.
func TestCapturingWhatCannotRecord(t *testing.T) {
	s := NewDeferred(Target{Line: &memory.Line{Stream: &heap{}}, Order: new(lock.Mutex[lock.Order])})
	require.Equal(t, status.Unavailable, status.CodeOf(s.BeginCapture()))
	w := &work{}
	_, err := s.Submit(w, How{})
	require.NoError(t, err)
	require.NoError(t, s.Close(time.Minute))
	w.calls(t, 1, 1, 1)
}
