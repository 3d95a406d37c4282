package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
)

// TestToldAfterLettingGo waits for events that end in each way there is: nobody is
// told before the work has let go of what it holds, since who waits may use that
// for something else then.
func TestToldAfterLettingGo(t *testing.T) {
	for name, s := range streams(t) {
		for _, how := range []How{{Long: true}, {Long: true, Outcome: true}, {Outcome: true}} {
			for _, cancelled := range []bool{false, true} {
				if name == "deferred" && !how.Outcome && !cancelled {
					continue // its event ends when the device has the work
				}
				hold := make(chan struct{})
				before, err := s.Submit(&work{run: func(t *Target) (backends.Ticket, error) {
					<-hold
					return t.Last, nil
				}}, How{Long: true}) // so that what follows is not over before there is an event
				require.NoError(t, err)
				event, letGo := make(chan *Event, 1), make(chan bool, 1)
				ev, err := s.Submit(&work{release: func() {
					ev := <-event
					time.Sleep(5 * time.Millisecond) // in which nobody is to be told
					letGo <- ev.Done()
				}}, how)
				require.NoError(t, err)
				event <- ev
				if cancelled {
					ev.Cancel()
					require.Equal(t, status.Cancelled, status.CodeOf(ev.Wait(0)))
				}
				close(hold)
				err = wait(t, ev, nil)
				require.Equal(t, cancelled, err != nil)
				select {
				case told := <-letGo:
					require.False(t, told, "%s %+v, cancelled: %v", name, how, cancelled)
				default:
					t.Fatalf("%s %+v, cancelled: %v: told before the work let go", name, how, cancelled)
				}
				require.NoError(t, wait(t, before, nil))
			}
		}
		require.NoError(t, s.Close(time.Second))
	}
}
