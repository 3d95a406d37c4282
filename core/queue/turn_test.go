package queue

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// TestAllThatWaitForATurnAreWoken has many wait for a turn's end on their callers' threads when
// long work comes, which goes before them: whoever is woken first, all of it is done.
func TestAllThatWaitForATurnAreWoken(t *testing.T) {
	for name, s := range streams(t) {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				begun, end := make(chan struct{}), make(chan struct{})
				var group sync.WaitGroup
				submit := func(w *work, how How) {
					group.Go(func() {
						ev, err := s.Submit(w, how)
						if err := wait(t, ev, err); err != nil {
							t.Error(err)
						}
					})
				}
				submit(&work{run: func(t *Target) (backends.Ticket, error) {
					close(begun)
					<-end
					return t.Last, nil
				}}, How{})
				<-begun
				for range 4 {
					submit(&work{}, How{})
				}
				time.Sleep(time.Millisecond) // so that they wait
				submit(&work{}, How{Long: true})
				time.Sleep(time.Millisecond)
				close(end)
				done := make(chan struct{})
				go func() { group.Wait(); close(done) }()
				select {
				case <-done:
				case <-time.After(20 * time.Second):
					t.Fatal("somebody was not woken")
				}
			}
			require.NoError(t, s.Close(time.Second))
		})
	}
}

// TestClosingBeginsNothing closes a stream with work queued behind some that ends when it is
// cancelled: none of it begins then.
func TestClosingBeginsNothing(t *testing.T) {
	for range 20 {
		s := NewInline(Target{Line: &memory.Line{Stream: hostStream{}}})
		begun, end := make(chan struct{}), make(chan struct{})
		endless := &work{
			run: func(*Target) (backends.Ticket, error) {
				close(begun)
				<-end
				return 0, backends.ErrCancelled
			},
			cancel: func() bool {
				close(end)
				return false
			},
		}
		_, err := s.Submit(endless, How{Long: true})
		require.NoError(t, err)
		<-begun
		behind := make([]*work, 20)
		events := make([]*Event, len(behind))
		for i := range behind {
			behind[i] = &work{release: func() { time.Sleep(50 * time.Microsecond) }} // in which the next would begin
			events[i], err = s.Submit(behind[i], How{Long: true})
			require.NoError(t, err)
		}
		require.NoError(t, s.Close(time.Millisecond))
		for i, w := range behind {
			err := wait(t, events[i], nil)
			require.Equal(t, status.Cancelled, status.CodeOf(err))
			require.False(t, errors.Is(err, backends.ErrPending))
			require.Zero(t, w.ran.Load())
		}
	}
}
