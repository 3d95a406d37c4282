package cuda

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// A launch that was made before allocates nothing, and calls the driver for the context, whether
// others capture the stream, and the launch alone; each 16th has it write the tickets.
func TestLaunchIsCheap(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	for range singleAfter + 1 { // of which the last makes the stream's graph
		_, err := r.s.Launch(r.k, &r.l)
		require.NoError(t, err)
	}
	for _, current := range []bool{false, true} {
		if current {
			r.current = fakeContext
		}
		clear(r.calls)
		allocs := testing.AllocsPerRun(99, func() {
			if _, err := r.s.Launch(r.k, &r.l); err != nil {
				t.Fatal(err)
			}
		})
		require.Zero(t, allocs)
		require.Equal(t, 100, r.calls["launch"])
		require.LessOrEqual(t, r.calls["write"], 7)
		if current {
			require.Zero(t, r.calls["push"]+r.calls["pop"])
		} else {
			require.Equal(t, 100, r.calls["push"])
		}
		require.Equal(t, 100, r.calls["capturing"])
		require.Zero(t, r.calls["mode"]+r.calls["query"]+r.calls["module"]+r.calls["record"])
	}
	r.current = 0
	r.close(t)
}

// Who is told that something failed is told when nothing of it is under way any more.
func TestFailuresSettle(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.calls["sync"] = 0
	r.api.Copy = func(_, _ driver.Pointer, _ uint64, _ driver.Stream) driver.Result { return invalidValue }
	_, err := r.s.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64)
	require.ErrorContains(t, err, "cuMemcpyAsync")
	require.Equal(t, 1, r.calls["sync"])
	require.NoError(t, r.s.BeginCapture())
	r.calls["sync"] = 0
	_, err = r.s.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64)
	require.ErrorContains(t, err, "cuMemcpyAsync")
	require.Zero(t, r.calls["sync"], "what is captured is not under way")
	_, _ = r.s.EndCapture()
	r.api.StreamWriteValue = func(driver.Stream, driver.Pointer, uint64, uint32) driver.Result { return invalidValue }
	r.s.want(r.s.last() + 1)
	sync := r.api.StreamSync
	r.api.StreamSync = func(s driver.Stream) driver.Result {
		require.Equal(t, fakeContext, r.current)
		require.Equal(t, int32(driver.CaptureRelaxed), r.mode)
		return sync(s)
	}
	_, err = r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "cuStreamWriteValue64")
	require.Equal(t, 1, r.calls["sync"], "the kernel may be under way")
}

// A variant is made while its stream is held: what fails of it asks no stream.
func TestVariantsThatFail(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	k, s := r.k.(*kernel), r.s
	loaded := len(r.modules)
	r.api.FuncSetAttribute = func(driver.Func, int32, int32) driver.Result { return invalidValue }
	f := k.form(&r.l, &s.space)
	f.Meeting, f.Block = 2*promised, 128
	failed := make(chan error)
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, err := k.variant(f)
		failed <- err
	}()
	select {
	case err := <-failed:
		require.ErrorContains(t, err, "cuFuncSetAttribute")
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for its own stream")
	}
	require.Len(t, r.modules, loaded)
}

// Tickets are written where somebody asks: by Passed, Wait and Await.
func TestTicketsAreWrittenOnDemand(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.held = true
	launch := func() backends.Ticket {
		ticket, err := r.s.Launch(r.k, &r.l)
		require.NoError(t, err)
		return ticket
	}
	first, second := launch(), launch()
	require.Equal(t, backends.Ticket(1), first)
	require.Zero(t, r.calls["write"])
	require.Zero(t, r.s.Passed())
	require.Equal(t, 1, r.calls["write"])
	require.Zero(t, r.s.Passed())
	require.Equal(t, 1, r.calls["write"], "asked twice")
	require.Equal(t, backends.ErrPending, r.s.Wait(second, time.Millisecond))
	r.run()
	require.Equal(t, second, r.s.Passed())
	require.NoError(t, r.s.Wait(second, 0))

	third := launch()
	require.Equal(t, backends.ErrPending, r.s.Wait(third, time.Millisecond))
	require.Equal(t, 2, r.calls["write"])
	go func() {
		time.Sleep(5 * time.Millisecond)
		r.run()
	}()
	require.NoError(t, r.s.Wait(third, 10*time.Second))

	other, err := r.d.NewStream()
	require.NoError(t, err)
	fourth := launch()
	require.NoError(t, other.Await(r.s, fourth))
	require.Equal(t, 3, r.calls["write"])
	require.Equal(t, 1, r.calls["wait"])
	for range 100 {
		launch()
	}
	require.GreaterOrEqual(t, r.calls["write"], 9, "nobody asks, and none is written")
	r.run()
	r.held = false
	require.NoError(t, r.s.Wait(104, time.Second))
	require.NoError(t, other.Close())
	r.close(t)
}

// Several threads ask for tickets while another queues.
func TestTicketsAreWrittenForManyAskers(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.anyThread()
	done := make(chan error, 3)
	given := make(chan backends.Ticket, 3000)
	for range 3 {
		go func() {
			for ticket := range given {
				if err := r.s.Wait(ticket, 20*time.Second); err != nil {
					done <- err
					return
				}
				r.s.Passed()
			}
			done <- nil
		}()
	}
	for range 3000 {
		ticket, err := r.s.Launch(r.k, &r.l)
		require.NoError(t, err)
		given <- ticket
	}
	close(given)
	for range 3 {
		require.NoError(t, <-done)
	}
	r.k.Release()
	require.NoError(t, r.s.Close())
}

// Streams are numbered as DLPack does, and not touched while their owner captures.
func TestWrapStream(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	for _, n := range []uintptr{0, 2, ^uintptr(0)} {
		_, err := r.d.WrapStream(n)
		require.ErrorContains(t, err, "cuda: wrap stream")
	}
	w, err := r.d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	ticket, err := w.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.Zero(t, r.calls["write"], "this stream has no end")
	require.Equal(t, ticket, w.Passed())
	require.Equal(t, 1, r.calls["write"])
	r.queues[99] = &fakeQueue{}
	theirs, err := r.d.WrapStream(99)
	require.NoError(t, err)
	other, err := theirs.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.Equal(t, 2, r.calls["write"], "the owner may end the stream, so its ticket is written at once")
	require.Equal(t, other, theirs.Passed())
	r.held = true
	other, err = theirs.Launch(r.k, &r.l)
	require.NoError(t, err)
	delete(r.queues, 99) // of which the driver must not be asked any more
	require.Equal(t, backends.ErrPending, theirs.Wait(other, 2*time.Millisecond))
	require.Positive(t, r.calls["query"])
	r.held, r.calls["query"], r.calls["write"] = false, 0, 2
	require.NoError(t, theirs.Close())

	// While the owner captures, a ticket that was not written stays so.
	ticket, err = w.Launch(r.k, &r.l)
	require.NoError(t, err)
	r.foreign[driver.StreamLegacy], r.held = true, true
	var unsupported *backends.Unsupported
	_, err = w.Launch(r.k, &r.l)
	require.ErrorAs(t, err, &unsupported)
	_, err = w.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64)
	require.ErrorAs(t, err, &unsupported)
	_, err = w.Fill(r.l.Slots[0].Addr, 0, 1, 64)
	require.ErrorAs(t, err, &unsupported)
	mine, err := r.s.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.ErrorAs(t, w.Await(r.s, mine), &unsupported)
	require.Equal(t, 3, r.calls["write"])
	require.Equal(t, backends.ErrPending, w.Wait(ticket, time.Millisecond))
	require.Equal(t, ticket-1, w.Passed())
	require.ErrorAs(t, r.s.Await(w, ticket), &unsupported)
	require.Zero(t, r.calls["query"])
	require.Equal(t, 3, r.calls["write"])
	r.foreign[driver.StreamLegacy], r.held = false, false
	r.run()
	require.NoError(t, w.Wait(ticket, time.Second))
	_, err = w.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Contains(t, r.queues, driver.Stream(driver.StreamLegacy))
	r.close(t)
}

// A stream is closed whose ticket, which has passed, another is still to wait for:
// the word stays, and what it says only grows, whoever has it next.
func TestClosingAStreamThatOthersWaitFor(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	other, err := r.d.NewStream()
	require.NoError(t, err)
	var ticket backends.Ticket
	for range 5 {
		ticket, err = other.Launch(r.k, &r.l)
		require.NoError(t, err)
	}
	r.held = true
	require.NoError(t, r.s.Await(other, ticket)) // so far told of none
	require.Equal(t, 1, r.calls["wait"])
	word := other.(*stream).passedAt()
	waits := r.queues[r.s.handle].work
	r.queues[r.s.handle].work = nil // which the device comes to later
	r.run()
	require.Equal(t, ticket, other.Passed())
	require.NoError(t, other.Close())
	next, err := r.d.NewStream()
	require.NoError(t, err)
	require.Equal(t, word, next.(*stream).passedAt())
	require.Equal(t, ticket, next.Passed())
	require.NoError(t, next.Wait(ticket, 0))
	first, err := next.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.Equal(t, ticket+1, first)
	require.Equal(t, backends.ErrPending, next.Wait(first, 0))
	for _, w := range waits {
		w()
	}
	require.Zero(t, r.stray)
	r.held = false
	r.run()
	require.NoError(t, next.Wait(first, time.Second))
	require.NoError(t, next.Close())
	r.close(t)
}

// A launch that panics leaves the stream as it was, and so the thread's context.
func TestALaunchThatPanics(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	launch := r.api.Launch
	r.api.Launch = func(driver.Func, uint32, uint32, uint32, uint32, uint32, uint32, uint32, driver.Stream, *unsafe.Pointer, *unsafe.Pointer) driver.Result {
		panic("oh")
	}
	require.PanicsWithValue(t, "oh", func() { _, _ = r.s.Launch(r.k, &r.l) })
	r.api.Launch = launch
	ticket, err := r.s.Fill(0, 0, 1, 0)
	require.NoError(t, err)
	require.NoError(t, r.s.Wait(ticket, time.Second))
	r.close(t)
}

// BenchmarkHost is our own time for a launch, with a driver that does nothing.
func BenchmarkHost(b *testing.B) {
	r := newFakeRig(b, fakeAdd, 3)
	r.anyThread()
	r.api.Launch = noLaunch
	r.api.StreamWriteValue = func(driver.Stream, driver.Pointer, uint64, uint32) driver.Result { return 0 }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.s.Launch(r.k, &r.l); err != nil {
			b.Fatal(err)
		}
	}
}

func noLaunch(driver.Func, uint32, uint32, uint32, uint32, uint32, uint32, uint32, driver.Stream, *unsafe.Pointer, *unsafe.Pointer) driver.Result {
	return driver.Success
}

func pointerOf(a uintptr) unsafe.Pointer { return hostmem.Pointer(a) }

// Once the device is lost all that was given has passed: nobody waits for it any
// more. Wait tells what was not done.
func TestTheLastTicketOfALostDevice(t *testing.T) {
	const launchFailed driver.Result = 719
	for name, find := range map[string]func(r *fakeRig) error{
		"by waiting":  func(r *fakeRig) error { return r.s.Wait(r.launch(t), 0) },
		"by queueing": func(r *fakeRig) error { return r.s.Await(r.other(t), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, fakeAdd, 3)
			done := r.launch(t)
			require.NoError(t, r.s.Wait(done, time.Second))
			r.held = true
			lost := r.launch(t)
			require.Equal(t, done, r.s.Passed())
			query, wait := r.api.StreamQuery, r.api.StreamWaitValue
			r.api.StreamQuery = func(driver.Stream) driver.Result { return launchFailed }
			r.api.StreamWaitValue = func(driver.Stream, driver.Pointer, uint64, uint32) driver.Result { return launchFailed }
			require.ErrorIs(t, find(r), backends.ErrLost)
			require.GreaterOrEqual(t, r.s.Passed(), lost)
			require.NoError(t, r.s.Wait(done, 0))
			require.ErrorIs(t, r.s.Wait(lost, 0), backends.ErrLost)
			r.api.StreamQuery, r.api.StreamWaitValue = query, wait
			r.run()
		})
	}
}

func (r *fakeRig) launch(t *testing.T) backends.Ticket {
	t.Helper()
	ticket, err := r.s.Launch(r.k, &r.l)
	require.NoError(t, err)
	return ticket
}

// other is another stream that has given a ticket.
func (r *fakeRig) other(t *testing.T) backends.Stream {
	t.Helper()
	s, err := r.d.NewStream()
	require.NoError(t, err)
	_, err = s.Launch(r.k, &r.l)
	require.NoError(t, err)
	return s
}
