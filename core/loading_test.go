package core

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
)

// loading is a device that loads code only when all that is queued is done, as
// CUDA's does, with an endless launch at work and a program that was not used yet.
type loading struct {
	b             *asynctest.Backend
	d             *Device
	first, second *Executor // the endless launch is on the first
	fresh         *Program
	x, odd        *Buffer // of the second; odd is a view that lies otherwise
	specials      int     // before
}

func newLoading(t *testing.T) *loading {
	b := asynctest.New(asynctest.Options{Specialize: true, LoadStalls: true, Workspace: 100, Report: func(s string) { t.Error(s) }})
	l := &loading{b: b, d: openAsync(t, b, 0)}
	l.first, l.second = executorOn(t, l.d), executorOn(t, l.d)
	l.fresh = assemble(t, "program fresh\nslot c f32\nldg.f32 x, c[index]\nadd.f32 x, x, x\nstg.f32 x, c[index]\nexit")
	l.x = floats(t, l.second, 1, 2, 3, 4)
	var err error
	l.odd, err = l.x.View(1, []int64{2}, nil)
	require.NoError(t, err)
	endlessLaunch(t, l.first)
	l.specials = b.Counts().Specials
	return l
}

// launch launches the fresh program, which does not return while the endless
// launch is at work.
func (l *loading) launch(b *Buffer, stop Stop) error {
	return wait(l.second.Launch(l.fresh, &LaunchArgs{Slots: []*Buffer{b}, Stop: stop}))
}

// begun waits until n pieces of code are being made, or were.
func (l *loading) begun(t *testing.T, n int) {
	require.Eventually(t, func() bool { return l.b.Counts().Specials == l.specials+n }, 10*time.Second, time.Millisecond)
}

// stop ends a wait for code of the program's, but not for the program.
func (l *loading) stop(err error) Stop {
	return func() error {
		if l.b.Counts().Specials == l.specials {
			return nil
		}
		return err
	}
}

// end ends the endless launch.
func (l *loading) end(t *testing.T) {
	l.first.Cancel()
	_ = wait(l.first.Synchronize())
}

// TestTheFirstUseOfAProgramBehindAnEndlessLaunch ends when it is told to, in
// whichever way, and leaves its code to be made: for the next who wants it.
func TestTheFirstUseOfAProgramBehindAnEndlessLaunch(t *testing.T) {
	errSignal := Errorf(Cancelled, "a signal's handler raised")
	for name, c := range map[string]struct {
		stop func(l *loading) Stop // by the caller's own thread
		end  func(l *loading)      // by another
		code Code
		text string
		gone bool // the executor is, afterwards
	}{
		"a signal": {stop: func(l *loading) Stop { return l.stop(errSignal) }, code: Cancelled, text: "a signal's handler raised"},
		"a handler that launches the same": {stop: func(l *loading) Stop {
			depth := 0
			return func() error {
				if depth++; depth > 2 {
					return l.stop(errSignal)()
				}
				return l.launch(l.x, l.stop(errSignal))
			}
		}, code: Cancelled, text: "a signal's handler raised"},
		"cancel": {end: func(l *loading) { l.second.Cancel() }, code: Cancelled, text: `launch "fresh": cancelled before it began`},
		"close":  {end: func(l *loading) { _ = l.second.Close() }, code: BadHandle, text: "executor is freed", gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoading(t)
			var stop Stop
			if c.stop != nil {
				stop = c.stop(l)
			}
			done := make(chan error, 1)
			go func() { done <- l.launch(l.x, stop) }()
			l.begun(t, 1)
			if c.end != nil {
				select {
				case err := <-done:
					t.Fatal("the launch does not wait for the device: ", err)
				case <-time.After(50 * time.Millisecond):
				}
				c.end(l)
			}
			select {
			case err := <-done:
				wants(t, err, c.code, c.text)
			case <-time.After(10 * time.Second):
				t.Error("the launch does not end")
			}
			if c.gone {
				l.end(t)
				return
			}
			// Who asks again waits for the same code.
			for range 3 {
				wants(t, l.launch(l.x, func() error { return errSignal }), Cancelled, "raised")
			}
			require.Equal(t, l.specials+1, l.b.Counts().Specials)
			l.end(t)
			require.NoError(t, l.launch(l.x, nil))
			require.Equal(t, []float32{2, 4, 6, 8}, values(t, l.x))
			require.Equal(t, l.specials+1, l.b.Counts().Specials, "code that was kept is made anew")
		})
	}
}

// TestCodeForAnAlignmentIsWaitedFor is the same for a program that is in use, but
// for arrays that lie otherwise.
func TestCodeForAnAlignmentIsWaitedFor(t *testing.T) {
	l := newLoading(t)
	l.end(t)
	require.NoError(t, l.launch(l.x, nil))
	endlessLaunch(t, l.first)
	l.specials = l.b.Counts().Specials
	done := make(chan error, 1)
	go func() { done <- l.launch(l.odd, nil) }()
	l.begun(t, 1)
	require.NoError(t, l.launch(l.x, nil), "a call that needs no other code waits for it")
	l.second.Cancel()
	wants(t, <-done, Cancelled, "cancelled before it began")
	l.end(t)
	require.NoError(t, wait(l.second.Synchronize()))
	require.NoError(t, l.launch(l.odd, nil))
}

// TestCallersShareWhatIsLoaded: several wait for one making.
func TestCallersShareWhatIsLoaded(t *testing.T) {
	l := newLoading(t)
	var group sync.WaitGroup
	var failed atomic.Int32
	for range 4 {
		group.Go(func() {
			if l.launch(l.x, nil) != nil {
				failed.Add(1)
			}
		})
	}
	l.begun(t, 1)
	time.Sleep(20 * time.Millisecond)
	l.end(t)
	group.Wait()
	require.Zero(t, failed.Load())
	require.Equal(t, l.specials+1, l.b.Counts().Specials)
	require.Equal(t, []float32{16, 32, 48, 64}, values(t, l.x))
}

// TestWhatNobodyWantsIsLoadedAndFreed: a program that is closed, and forgotten by
// the cache, while its code is being made goes when that has ended.
func TestWhatNobodyWantsIsLoadedAndFreed(t *testing.T) {
	l := newLoading(t)
	errStop := errors.New("stop")
	require.ErrorIs(t, l.launch(l.x, l.stop(errStop)), errStop)
	before := l.b.Counts().Kernels
	l.fresh.Close()
	l.d.kernels.Clear()
	require.NoError(t, l.second.Close(), "closing waits for it")
	time.Sleep(20 * time.Millisecond)
	l.end(t)
	require.Eventually(t, func() bool { return l.b.Counts().Kernels == before-1 }, 10*time.Second, time.Millisecond)
	require.Zero(t, l.d.KernelStats().Entries)
}

// TestTryDoesNotWaitForCode, made by whoever.
func TestTryDoesNotWaitForCode(t *testing.T) {
	l := newLoading(t)
	stop := errors.New("stop")
	require.ErrorIs(t, l.launch(l.x, l.stop(stop)), stop)
	_, err := l.second.Call(&Call{Program: l.fresh, Operands: []Operand{{Buffer: l.x}}, Try: true})
	wants(t, err, Busy, "would have to wait")
	l.end(t)
}
