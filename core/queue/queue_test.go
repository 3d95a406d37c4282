package queue

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// work is what a test wants it to be, and counts the calls of its methods.
type work struct {
	run      func(t *Target) (backends.Ticket, error)
	cancel   func() bool
	release  func()
	ran      atomic.Int32
	told     atomic.Int32
	stopped  atomic.Int32
	released atomic.Int32
}

func (w *work) Run(t *Target) (backends.Ticket, error) {
	w.ran.Add(1)
	if w.run != nil {
		return w.run(t)
	}
	return t.Last, nil
}

func (w *work) Outcome(err error) error {
	w.told.Add(1)
	return err
}

func (w *work) Cancel() bool {
	w.stopped.Add(1)
	return w.cancel != nil && w.cancel()
}

func (w *work) Release() {
	if w.release != nil {
		w.release()
	}
	w.released.Add(1)
}

// calls checks how often the methods were called.
func (w *work) calls(t *testing.T, ran, told, released int) {
	t.Helper()
	require.EqualValues(t, []int{ran, told, released}, []int{int(w.ran.Load()), int(w.told.Load()), int(w.released.Load())})
}

// streams makes a stream of each kind.
func streams(t *testing.T) map[string]Stream {
	d, err := asynctest.New(asynctest.Options{Delay: 50 * time.Microsecond}).Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	return map[string]Stream{
		"inline":   NewInline(Target{Line: &memory.Line{Stream: hostStream{}}}),
		"deferred": NewDeferred(Target{Line: &memory.Line{Stream: s}, Order: new(lock.Mutex[lock.Order])}),
	}
}

// hostStream is a stream of a device that works while called.
type hostStream struct{ hostmem.Stream }

func (hostStream) Copy(dst, src uintptr, bytes int64) (backends.Ticket, error) { return 0, nil }
func (hostStream) Fill(uintptr, uint64, int, int64) (backends.Ticket, error)   { return 0, nil }
func (hostStream) Await(backends.Stream, backends.Ticket) error                { return nil }
func (hostStream) Passed() backends.Ticket                                     { return 0 }
func (hostStream) Wait(backends.Ticket, time.Duration) error                   { return nil }
func (hostStream) Close() error                                                { return nil }
func (hostStream) Launch(backends.Kernel, *backends.Launch) (backends.Ticket, error) {
	return 0, nil
}

func wait(t *testing.T, ev *Event, err error) error {
	t.Helper()
	if ev == nil {
		return err
	}
	for range 10000 {
		if err := ev.Wait(time.Millisecond); !errors.Is(err, backends.ErrPending) {
			return err
		}
	}
	t.Fatal("the event never ends")
	return nil
}

func TestEachMethodOnce(t *testing.T) {
	for name, s := range streams(t) {
		for _, how := range []How{{}, {Long: true}, {Outcome: true}, {Long: true, Outcome: true}} {
			w := &work{}
			ev, err := s.Submit(w, how)
			require.NoError(t, wait(t, ev, err), name)
			require.Eventually(t, func() bool { return w.released.Load() == 1 }, time.Second, time.Millisecond, name)
			w.calls(t, 1, 1, 1)
			failing := &work{run: func(*Target) (backends.Ticket, error) { return 0, errors.New("no") }}
			ev, err = s.Submit(failing, how)
			require.ErrorContains(t, wait(t, ev, err), "no", name)
			failing.calls(t, 1, 1, 1)
		}
		require.NoError(t, s.Close(time.Second))
		w := &work{}
		_, err := s.Submit(w, How{})
		require.Equal(t, status.BadHandle, status.CodeOf(err))
		w.calls(t, 0, 0, 1)
		w = &work{}
		_, err = s.Beside(w)
		require.Equal(t, status.BadHandle, status.CodeOf(err))
		w.calls(t, 0, 0, 1)
	}
}

// TestOneAtATimeInOrder submits from many goroutines, short and long: the work
// of each comes in its order, and never two at a time.
func TestOneAtATimeInOrder(t *testing.T) {
	for name, s := range streams(t) {
		t.Run(name, func(t *testing.T) {
			const each = 300
			var inside atomic.Int32
			var last [8]int
			var group sync.WaitGroup
			for g := range last {
				group.Go(func() {
					var events []*Event
					for i := 1; i <= each; i++ {
						ev, err := s.Submit(&work{run: func(t *Target) (backends.Ticket, error) {
							if inside.Add(1) != 1 {
								return 0, errors.New("two at a time")
							}
							defer inside.Add(-1)
							if last[g] != i-1 {
								return 0, errors.New("out of order")
							}
							last[g] = i
							return t.Last, nil
						}}, How{Long: i%7 == g%7})
						if ev == nil && err != nil {
							t.Error(err)
						}
						if ev != nil {
							events = append(events, ev)
						}
					}
					for _, ev := range events {
						if err := wait(t, ev, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			for _, n := range last {
				require.Equal(t, each, n)
			}
			require.NoError(t, s.Close(time.Second))
		})
	}
}

// TestNothingHeldWhileReleasing submits from within Release, as deleters do.
func TestNothingHeldWhileReleasing(t *testing.T) {
	for name, s := range streams(t) {
		for _, how := range []How{{}, {Long: true}, {Outcome: true}} {
			done := make(chan error, 1)
			w := &work{release: func() {
				ev, err := s.Submit(&work{}, How{Outcome: true})
				go func() { done <- wait(t, ev, err) }()
			}}
			ev, err := s.Submit(w, how)
			require.NoError(t, wait(t, ev, err), name)
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(5 * time.Second):
				t.Fatalf("%s: a lock is held", name)
			}
		}
		require.NoError(t, s.Close(time.Second))
	}
}

// TestTry never waits: neither behind long work nor for another's turn.
func TestTry(t *testing.T) {
	for name, s := range streams(t) {
		hold, held := make(chan struct{}), make(chan struct{})
		block := func(t *Target) (backends.Ticket, error) {
			held <- struct{}{}
			<-hold
			return t.Last, nil
		}
		for _, how := range []How{{Long: true}, {}} {
			go func() { _, _ = s.Submit(&work{run: block}, how) }()
			<-held
			w := &work{}
			_, err := s.Submit(w, How{Try: true})
			require.ErrorIs(t, err, status.ErrBusy, name)
			w.calls(t, 0, 0, 1)
			hold <- struct{}{}
		}
		require.Eventually(t, func() bool {
			_, err := s.Submit(&work{}, How{Try: true})
			return err == nil
		}, time.Second, time.Millisecond)
		require.NoError(t, s.Close(time.Second))
	}
}

// TestCancelBeforeTheBeginning cancels work that stands behind other work: its
// outcome is there at once, and it never runs.
func TestCancelBeforeTheBeginning(t *testing.T) {
	for name, s := range streams(t) {
		hold := make(chan struct{})
		first := &work{run: func(t *Target) (backends.Ticket, error) {
			<-hold
			return t.Last, nil
		}}
		ev, err := s.Submit(first, How{Long: true})
		require.NoError(t, err)
		var behind *Event
		told := false
		// Who is told may do something else then with what the work used.
		second, third := &work{release: func() { told = behind.Done() }}, &work{}
		behind, err = s.Submit(second, How{})
		require.NoError(t, err)
		last, err := s.Submit(third, How{Outcome: true})
		require.NoError(t, err)
		behind.Cancel()
		behind.Cancel()
		require.Equal(t, status.Cancelled, status.CodeOf(behind.Wait(0)), name)
		second.calls(t, 0, 0, 1)
		require.False(t, told, "the event ended before the work let go of what it held")
		close(hold)
		require.NoError(t, wait(t, ev, nil))
		require.NoError(t, wait(t, last, nil))
		third.calls(t, 1, 1, 1)
		require.NoError(t, s.Close(time.Second))
		require.Zero(t, first.stopped.Load())
	}
}

// TestClosingEndsAll closes a stream with work under way, behind it and beside it.
func TestClosingEndsAll(t *testing.T) {
	for name, s := range streams(t) {
		stop := make(chan struct{})
		endless := func() *work {
			w := &work{}
			own := make(chan struct{})
			var once sync.Once
			w.run = func(t *Target) (backends.Ticket, error) {
				select {
				case <-own:
				case <-stop:
				}
				return t.Last, errAbandoned
			}
			w.cancel = func() bool {
				once.Do(func() { close(own) })
				return false
			}
			return w
		}
		var events []*Event
		for range 3 {
			ev, err := s.Submit(endless(), How{Long: true})
			require.NoError(t, err)
			events = append(events, ev)
		}
		ev, err := s.Beside(endless())
		require.NoError(t, err)
		events = append(events, ev)
		done := make(chan struct{})
		go func() {
			_ = s.Close(0)
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: Close hangs", name)
		}
		for _, ev := range events {
			require.Equal(t, status.Cancelled, status.CodeOf(wait(t, ev, nil)), name)
		}
		close(stop)
	}
}

// TestCancelMeetsNoOther cancels an event while its work is released, when what
// the work was made of may be another's already, and work that has no event.
func TestCancelMeetsNoOther(t *testing.T) {
	for name, s := range streams(t) {
		for _, how := range []How{{Long: true}, {Outcome: true, Long: true}, {Outcome: true}} {
			for _, failing := range []bool{false, true} {
				got, done := make(chan *Event, 1), make(chan struct{})
				w := &work{run: func(t *Target) (backends.Ticket, error) {
					if failing {
						return 0, errors.New("no")
					}
					return t.Last, nil
				}}
				w.release = func() {
					defer close(done)
					select {
					case ev := <-got:
						ev.Cancel()
						s.Cancel()
					case <-time.After(100 * time.Millisecond): // Submit has not returned
					}
				}
				ev, err := s.Submit(w, how)
				if ev != nil {
					got <- ev
				}
				_ = wait(t, ev, err)
				<-done
				require.Zero(t, w.stopped.Load(), "%s %+v", name, how)
			}
		}
		require.NoError(t, s.Close(time.Second))
	}
}

// TestErrorsAreBounded lets more works fail than anybody wants to read of.
func TestErrorsAreBounded(t *testing.T) {
	s := streams(t)["deferred"].(*Deferred)
	for _, extra := range []int{0, 1, 5} {
		for range maxErrors + extra {
			ev, err := s.Submit(&told{err: status.Errorf(status.Faulted, "no")}, How{})
			require.NoError(t, wait(t, ev, err))
		}
		ev, err := s.Submit(&work{}, How{Outcome: true})
		require.NoError(t, wait(t, ev, err))
		err = s.Errors()
		require.Equal(t, status.Faulted, status.CodeOf(err))
		if extra > 0 {
			require.ErrorContains(t, err, fmt.Sprintf("and %d more errors", extra))
		} else {
			require.NotContains(t, err.Error(), "more errors")
		}
		require.NoError(t, s.Errors())
	}
	require.NoError(t, s.Close(time.Second))
}

// told is work of which the device tells an error.
type told struct {
	work
	err error
}

func (w *told) Outcome(error) error { return w.err }

// heap is a stream that gives tickets, of which none passes before it is opened.
type heap struct {
	hostStream
	given atomic.Uint64
	open  atomic.Bool
}

func (s *heap) Passed() backends.Ticket {
	if s.open.Load() {
		return backends.Ticket(s.given.Load())
	}
	return 0
}

func (s *heap) Wait(t backends.Ticket, d time.Duration) error {
	if s.Passed() >= t {
		return nil
	}
	time.Sleep(min(d, time.Millisecond))
	return backends.ErrPending
}

// TestClosingAfterCancelling closes a stream whose work has not ended yet since it
// was cancelled: that it was is not told, and other errors are.
func TestClosingAfterCancelling(t *testing.T) {
	h := &heap{}
	s := NewDeferred(Target{Line: &memory.Line{Stream: h}})
	submit := func(code status.Code) {
		w := &told{err: status.Errorf(code, "no")}
		w.run = func(*Target) (backends.Ticket, error) { return backends.Ticket(h.given.Add(1)), nil }
		ev, err := s.Submit(w, How{})
		require.Nil(t, ev)
		require.NoError(t, err)
		w.cancel = func() bool { return false }
	}
	submit(status.Cancelled)
	submit(status.Faulted)
	submit(status.Cancelled)
	s.Cancel()
	time.AfterFunc(20*time.Millisecond, func() { h.open.Store(true) })
	err := s.Close(0)
	require.Equal(t, status.Faulted, status.CodeOf(err))
	require.Equal(t, "no", err.Error())
}

// TestADeviceIsNeverFull submits works of many tickets each to a device that
// gets none done: no more is given to it than it takes.
func TestADeviceIsNeverFull(t *testing.T) {
	for _, each := range []uint64{1, 7, 40} {
		native := &heap{}
		s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
		var last *Event
		for last == nil {
			ev, err := s.Submit(&work{run: func(*Target) (backends.Ticket, error) {
				return backends.Ticket(native.given.Add(each)), nil
			}}, How{})
			require.NoError(t, err)
			require.LessOrEqual(t, native.given.Load(), uint64(800))
			last = ev
		}
		_, err := s.Submit(&work{}, How{Try: true})
		require.ErrorIs(t, err, status.ErrBusy)
		native.open.Store(true)
		require.NoError(t, wait(t, last, nil))
		require.NoError(t, s.Close(time.Second))
	}
}

// TestWorkThatPanics has work panic on the caller's thread and on the stream's:
// it is over, and the stream goes on.
func TestWorkThatPanics(t *testing.T) {
	for name, s := range streams(t) {
		for _, how := range []How{{}, {Long: true}, {Outcome: true}} {
			w := &work{run: func(*Target) (backends.Ticket, error) { panic("oh") }}
			ev, err := s.Submit(w, how)
			err = wait(t, ev, err)
			require.Equal(t, status.Internal, status.CodeOf(err), name)
			require.ErrorContains(t, err, "panic: oh")
			require.Eventually(t, func() bool { return w.released.Load() == 1 }, time.Second, time.Millisecond, name)
			w.calls(t, 1, 1, 1)
		}
		require.NoError(t, s.Errors())
		require.NoError(t, s.Close(time.Second))
	}
}

// broken is a stream that panics, or fails, whatever it is asked to queue.
type broken struct {
	heap
	err error
}

func (s *broken) Fill(uintptr, uint64, int, int64) (backends.Ticket, error) {
	if s.err == nil {
		panic("again")
	}
	return 0, s.err
}

// TestWorkThatPanicsOnABrokenStream cannot find out when the device is done with
// work that panicked: what it holds is kept, unless the device has ended all.
func TestWorkThatPanicsOnABrokenStream(t *testing.T) {
	for _, refusal := range []error{nil, errors.New("no"), backends.ErrLost} {
		for _, how := range []How{{}, {Long: true}} {
			s := NewDeferred(Target{Line: &memory.Line{Stream: &broken{err: refusal}}, Order: new(lock.Mutex[lock.Order])})
			w := &work{run: func(*Target) (backends.Ticket, error) { panic("oh") }}
			ev, err := s.Submit(w, how)
			require.ErrorContains(t, wait(t, ev, err), "panic: oh")
			require.NoError(t, s.Close(time.Second))
			require.Equal(t, refusal == backends.ErrLost, w.released.Load() == 1)
		}
	}
}

// TestIdle asks streams whether they are idle in each state that they can be in.
func TestIdle(t *testing.T) {
	for name, s := range streams(t) {
		hold, held := make(chan struct{}), make(chan struct{})
		block := &work{run: func(t *Target) (backends.Ticket, error) {
			held <- struct{}{}
			<-hold
			return t.Last, nil
		}}
		states := map[string]func() (*Event, error){
			"a caller's turn": func() (*Event, error) {
				go func() { _, _ = s.Submit(block, How{}) }()
				return nil, nil
			},
			"long work":   func() (*Event, error) { return s.Submit(block, How{Long: true}) },
			"work beside": func() (*Event, error) { return s.Beside(block) },
		}
		for state, begin := range states {
			require.True(t, s.Idle(), "%s before %s", name, state)
			ev, err := begin()
			require.NoError(t, err)
			<-held
			require.False(t, s.Idle(), "%s: %s", name, state)
			hold <- struct{}{}
			require.NoError(t, wait(t, ev, err))
			require.Eventually(t, s.Idle, time.Second, time.Millisecond, "%s after %s", name, state)
		}
		require.NoError(t, s.BeginCapture())
		require.False(t, s.Idle(), name)
		g, err := s.EndCapture()
		require.NoError(t, err)
		g.Release()
		require.True(t, s.Idle(), name)
		require.NoError(t, s.Close(time.Second))
	}
	native := &refusing{}
	s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
	_, err := s.Submit(&work{run: func(*Target) (backends.Ticket, error) { return backends.Ticket(native.given.Add(1)), nil }}, How{})
	require.NoError(t, err)
	require.False(t, s.Idle(), "work is in flight")
	require.Equal(t, status.Invalid, status.CodeOf(s.BeginCapture()), "which others may wait for")
	native.open.Store(true)
	require.True(t, s.Idle())
	require.NoError(t, s.Close(time.Second))
}

// TestWorkOfNothingIsNotTheLast submits work with a ticket, and then such as the
// device has nothing to do for: who waits for all waits for the first, and the
// stream is not full.
func TestWorkOfNothingIsNotTheLast(t *testing.T) {
	native := &heap{}
	s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
	for _, ticket := range []backends.Ticket{5, 0, 3} {
		_, err := s.Submit(&work{run: func(*Target) (backends.Ticket, error) { return ticket, nil }}, How{})
		require.NoError(t, err)
	}
	native.given.Store(5)
	_, err := s.Submit(&work{}, How{Try: true})
	require.NoError(t, err, "a stream with little in flight is taken for full")
	all, err := s.Submit(&work{}, How{Outcome: true})
	require.NoError(t, err)
	require.ErrorIs(t, all.Wait(5*time.Millisecond), backends.ErrPending)
	native.open.Store(true)
	require.NoError(t, wait(t, all, nil))
	require.NoError(t, s.Close(time.Second))
}

// TestQueuedWorkIsInReach has the stream's goroutine queue work: until it is over
// whoever cancels finds it by its event or in flight.
func TestQueuedWorkIsInReach(t *testing.T) {
	native := &heap{}
	s := NewDeferred(Target{Line: &memory.Line{Stream: native}, Order: new(lock.Mutex[lock.Order])})
	inside, goOn := make(chan struct{}), make(chan struct{})
	w := &work{run: func(*Target) (backends.Ticket, error) {
		close(inside)
		<-goOn
		return backends.Ticket(native.given.Add(1)), nil
	}}
	ev, err := s.Submit(w, How{Long: true})
	require.NoError(t, err)
	<-inside
	s.mu.Lock() // which it needs in order to fly
	close(goOn)
	time.Sleep(20 * time.Millisecond)
	ev.mu.Lock()
	reachable := ev.work != nil
	ev.mu.Unlock()
	s.mu.Unlock()
	require.True(t, reachable)
	require.NoError(t, wait(t, ev, nil))
	s.Cancel()
	require.EqualValues(t, 1, w.stopped.Load())
	native.open.Store(true)
	require.NoError(t, s.Close(time.Second))
	w.calls(t, 1, 1, 1)
}
