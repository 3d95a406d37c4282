package call

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
)

// TestWhoEndsACallWaitsForNobody that is in the midst of it, but where it is said that he does: what the call has is let
// go of behind that, and at once where there is nobody.
func TestWhoEndsACallWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Device{}
		all := &d.published
		var order []string
		letGo := func() { order = append(order, "let go") }
		published := func(p *Prepared, wait func()) *Direct {
			made := &Direct{p: p, retire: func() func() { order = append(order, "retired"); return wait }, end: func() { order = append(order, "ended") }}
			require.True(t, all.add(made, all.epoch()))
			return made
		}
		p := &Prepared{device: d}
		published(p, nil)
		p.retire(letGo)
		require.Equal(t, []string{"retired", "ended", "let go"}, order)

		order = nil
		left := make(chan bool)
		published(p, func() { <-left })
		p.retire(letGo)
		synctest.Wait()
		require.Equal(t, []string{"retired"}, order)
		close(left)
		synctest.Wait()
		require.Equal(t, []string{"retired", "ended", "let go"}, order)

		order, left = nil, make(chan bool)
		p.Start(1)
		published(p, func() { <-left })
		done := false
		go func() {
			d.Unpublish()
			done = true
		}()
		synctest.Wait()
		require.False(t, done)
		require.EqualValues(t, 2, p.Users())
		close(left)
		synctest.Wait()
		require.True(t, done)
		require.EqualValues(t, 1, p.Users())
		require.Equal(t, []string{"retired", "ended"}, order)
	})
}

// TestWhoPublishesTooLateWaitsForNobody: all that is published ends while a call is, which ends then too, behind who
// is in the midst of it, and is there till then.
func TestWhoPublishesTooLateWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Device{}
		p := &Prepared{device: d}
		p.Start(1)
		left, ended := make(chan bool), false
		(&Bound{p: p}).Direct(nil, false, nil, func(made *Direct) Retire {
			d.Unpublish()
			return func() func() { return func() { <-left; ended = true } }
		})
		synctest.Wait()
		require.EqualValues(t, 2, p.Users())
		close(left)
		synctest.Wait()
		require.True(t, ended)
		require.EqualValues(t, 1, p.Users())
	})
}

// busy is a stream on which others enter code.
type busy struct {
	backends.Stream
	given, passed atomic.Uint64
}

func (s *busy) Given() backends.Ticket  { return backends.Ticket(s.given.Load()) }
func (s *busy) Passed() backends.Ticket { return backends.Ticket(s.passed.Load()) }

// TestWhatWasEnteredLastIsWaitedFor: what a call has stays until all that was queued of it has passed, also by who came
// just before it ended, or was in the midst of it then and had not queued it yet.
func TestWhatWasEnteredLastIsWaitedFor(t *testing.T) {
	for _, midst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, s := &Device{}, &busy{}
			p := &Prepared{device: d}
			p.enteredOn(&memory.Line{Stream: s})
			var ended, gone atomic.Bool
			left := make(chan bool)
			made := &Direct{p: p, end: func() { ended.Store(true) }}
			made.retire = func() func() {
				if midst {
					return func() { <-left }
				}
				s.given.Store(1)
				return nil
			}
			require.True(t, d.published.add(made, d.published.epoch()))
			p.retire(func() { gone.Store(true) })
			synctest.Wait()
			s.given.Store(1)
			close(left)
			time.Sleep(time.Minute)
			require.True(t, ended.Load())
			require.False(t, gone.Load(), "what was entered has not passed")
			s.passed.Store(1)
			time.Sleep(time.Minute)
			require.True(t, gone.Load())
		})
	}
}
