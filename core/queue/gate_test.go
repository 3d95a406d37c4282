package queue

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

func gated() (*Inline, *uint32) {
	word := uint32(GateShut)
	s := NewInline(Target{Line: &memory.Line{Stream: hostStream{}}})
	s.Gate(&word)
	return s, &word
}

// giveBack is what who has taken the turn does.
func giveBack(word *uint32) {
	if !atomic.CompareAndSwapUint32(word, GateTaken, GateOpen) {
		atomic.StoreUint32(word, GateShut)
	}
}

// TestAGateIsOpenWhileThereIsNothingToDo: not while work runs, waits or is recorded,
// nor once the stream is closed.
func TestAGateIsOpenWhileThereIsNothingToDo(t *testing.T) {
	s, word := gated()
	says := func() uint32 { return atomic.LoadUint32(word) }
	require.EqualValues(t, GateOpen, says())
	w := &work{run: func(*Target) (backends.Ticket, error) {
		require.EqualValues(t, GateShut, says(), "at work")
		return 0, nil
	}}
	_, err := s.Submit(w, How{})
	require.NoError(t, err)
	require.EqualValues(t, GateOpen, says())

	atomic.StoreUint32(word, GateTaken)
	require.True(t, s.Gate(word), "it is the stream's already")
	require.EqualValues(t, GateTaken, says(), "whoever has the turn keeps it")
	giveBack(word)

	start := make(chan struct{})
	long := &work{run: func(*Target) (backends.Ticket, error) { <-start; return 0, nil }}
	ev, err := s.Submit(long, How{Long: true})
	require.NoError(t, err)
	require.EqualValues(t, GateShut, says(), "work waits, or runs")
	close(start)
	require.NoError(t, wait(t, ev, nil))
	require.Eventually(t, func() bool { return says() == GateOpen }, time.Second, time.Millisecond)

	require.NoError(t, s.BeginCapture())
	require.EqualValues(t, GateShut, says(), "it captures")
	g, err := s.EndCapture()
	require.NoError(t, err)
	require.EqualValues(t, GateOpen, says())
	g.Release()

	require.NoError(t, s.Close(0))
	require.EqualValues(t, GateShut, says(), "it is closed")
}

// TestWorkWaitsForWhoTookTheTurn, and so does Close.
func TestWorkWaitsForWhoTookTheTurn(t *testing.T) {
	for name, f := range map[string]func(s *Inline) error{
		"work": func(s *Inline) error { _, err := s.Submit(&work{}, How{}); return err },
		"long work": func(s *Inline) error {
			ev, err := s.Submit(&work{}, How{Long: true})
			return wait(t, ev, err)
		},
		"a capture": func(s *Inline) error { return s.BeginCapture() },
		"the end":   func(s *Inline) error { return s.Close(0) },
	} {
		s, word := gated()
		require.True(t, atomic.CompareAndSwapUint32(word, GateOpen, GateTaken))
		done := make(chan error)
		go func() { done <- f(s) }()
		select {
		case <-done:
			t.Fatal(name)
		case <-time.After(2 * time.Millisecond):
		}
		giveBack(word)
		require.NoError(t, <-done, name)
	}
}

// TestWhoOnlyTriesDoesNotWaitAtTheGate, which another may take for long; nor for who does.
func TestWhoOnlyTriesDoesNotWaitAtTheGate(t *testing.T) {
	s, word := gated()
	try := func() {
		_, err := s.Submit(&work{}, How{Try: true})
		require.ErrorIs(t, err, status.ErrBusy)
	}
	require.True(t, atomic.CompareAndSwapUint32(word, GateOpen, GateTaken))
	try()
	for _, f := range []func() error{
		func() error { _, err := s.Submit(&work{}, How{}); return err },
		func() error { ev, err := s.Submit(&work{}, How{Long: true}); return wait(t, ev, err) },
		func() error { // a capture
			err := s.BeginCapture()
			if err == nil {
				var g *Graph
				if g, err = s.EndCapture(); err == nil {
					g.Release()
				}
			}
			return err
		},
		func() error { return s.Close(0) },
	} {
		done := make(chan error)
		go func() { done <- f() }()
		require.Eventually(t, func() bool { return atomic.LoadUint32(word) == GateWanted }, time.Second, time.Microsecond)
		if !s.mu.TryLock() { // which whoever tries takes
			t.Fatal("who waits at the gate holds the lock")
		}
		closed := s.closed
		s.mu.Unlock()
		if !closed {
			try()
		}
		giveBack(word)
		require.NoError(t, <-done)
		require.Eventually(t, func() bool {
			return closed || atomic.CompareAndSwapUint32(word, GateOpen, GateTaken)
		}, time.Second, time.Microsecond)
	}
}

// TestATurnIsGivenToWhoWaits, so that callers who take it again at once don't keep it.
func TestATurnIsGivenToWhoWaits(t *testing.T) {
	s, word := gated()
	for range 100 {
		require.True(t, atomic.CompareAndSwapUint32(word, GateOpen, GateTaken))
		done := make(chan error)
		go func() { _, err := s.Submit(&work{}, How{}); done <- err }()
		require.Eventually(t, func() bool { return atomic.LoadUint32(word) == GateWanted }, time.Second, time.Microsecond)
		atomic.StoreUint32(word, GateShut)
		require.NoError(t, <-done)
		require.EqualValues(t, GateOpen, atomic.LoadUint32(word))
	}
}

// TestOneAtATime: those who take the turn by the word, and work, never meet.
func TestOneAtATime(t *testing.T) {
	s, word := gated()
	var inside atomic.Int32
	alone := func() {
		require.EqualValues(t, 1, inside.Add(1))
		inside.Add(-1)
	}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for range 3000 {
				if atomic.CompareAndSwapUint32(word, GateOpen, GateTaken) {
					alone()
					giveBack(word)
				}
			}
		})
		group.Go(func() {
			for i := range 1000 {
				ev, err := s.Submit(&work{run: func(*Target) (backends.Ticket, error) { alone(); return 0, nil }}, How{Long: i%10 == 0})
				require.NoError(t, wait(t, ev, err))
			}
		})
	}
	group.Wait()
}
