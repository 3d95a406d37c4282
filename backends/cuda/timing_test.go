package cuda

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

var _ backends.Timer = (*stream)(nil)

// span requires that a timing has a time, and lets go of it.
func span(t *testing.T, timing backends.Timing) (began, ended time.Duration) {
	t.Helper()
	began, ended, err := timing.Span()
	require.NoError(t, err)
	again, end, err := timing.Span()
	require.NoError(t, err)
	require.Equal(t, [2]time.Duration{began, ended}, [2]time.Duration{again, end}, "asked again")
	timing.Release()
	return began, ended
}

// Work of each kind is timed where somebody asks, in the order of the stream, with as
// many events as are needed at a time.
func TestTimings(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	a, b := r.l.Slots[0].Addr, r.l.Slots[1].Addr
	require.NoError(t, r.s.BeginCapture())
	_, err := r.s.Launch(r.k, &r.l)
	require.NoError(t, err)
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	works := []func() (backends.Ticket, error){
		func() (backends.Ticket, error) { return r.s.Fill(a, 5, 1, 64) },
		func() (backends.Ticket, error) { return r.s.Launch(r.k, &r.l) },
		func() (backends.Ticket, error) { return r.s.Copy(b, a, 64) },
		func() (backends.Ticket, error) { return r.s.Launch(r.k, &r.l) },
		func() (backends.Ticket, error) { return g.Replay(r.s) },
	}
	last := time.Duration(0)
	for round := range 20 {
		r.held = true
		var asked []backends.Timing
		for _, queue := range works {
			asked = append(asked, r.s.Time())
			_, err := queue()
			require.NoError(t, err)
			r.launch(t) // not timed
		}
		_, _, err := asked[0].Span()
		require.Error(t, err, "it has not passed")
		r.held = false
		r.run()
		require.Equal(t, r.launch(t), r.s.Passed())
		for i, timing := range asked {
			began, ended := span(t, timing)
			require.Equal(t, time.Millisecond, ended-began, "work %d", i)
			if i == 0 && round == 0 {
				require.Zero(t, began)
			} else {
				gap := time.Millisecond
				if i == 0 {
					gap = 2 * time.Millisecond // and the last launch
				}
				require.Equal(t, last+gap, began, "work %d", i)
			}
			last = ended
		}
	}
	require.LessOrEqual(t, r.calls["event"], 2*len(works)+1)
	g.Release()
	r.close(t)
}

// Times are exact however long a stream has been there, and in whatever order they are
// asked for.
func TestTimesOfALongLife(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	var asked []backends.Timing
	var at []float64
	for i := range 300 {
		at = append(at, r.time)
		asked = append(asked, r.s.Time())
		r.launch(t)
		r.time += float64(i%7) * 333.1234567
		if i == 150 {
			r.time += 1e6 // a quarter of an hour, which the driver tells to a tenth of a millisecond
		}
	}
	r.s.Passed()
	var began [300]time.Duration
	for i := range asked {
		i ^= 1 // the second before the first
		var ended time.Duration
		began[i], ended = span(t, asked[i])
		require.InDelta(t, time.Millisecond, ended-began[i], 100)
	}
	for i := 1; i < len(began); i++ {
		slack := 200 * time.Nanosecond
		if i == 150 || i == 151 { // asked after 151, and after 149
			slack = 100 * time.Microsecond
		}
		require.InDelta(t, (at[i]-at[i-1])*float64(time.Millisecond), float64(began[i]-began[i-1]), float64(slack), "work %d", i)
	}
	r.close(t)
}

// Nothing is recorded, and nothing asked, of what is captured: by the stream, by its
// owner, or as a guest.
func TestWhatIsCapturedIsNotTimed(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	wrapped, err := r.d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	w := wrapped.(*stream)
	untimed := func(timing backends.Timing) {
		t.Helper()
		_, _, err := timing.Span()
		require.ErrorIs(t, err, errUntimed)
		timing.Release()
		_, _, err = timing.Span()
		require.ErrorIs(t, err, errReleased)
	}
	untimed(r.s.Time())
	released := r.s.Time()
	released.Release()
	r.launch(t)
	require.NoError(t, r.s.BeginCapture())
	captured := r.s.Time()
	_, err = r.s.Launch(r.k, &r.l)
	require.NoError(t, err)
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	_, err = g.Replay(r.s)
	require.NoError(t, err)
	untimed(captured)
	g.Release()

	r.foreign[w.handle] = true
	refused := w.Time()
	_, err = w.Launch(r.k, &r.l)
	require.ErrorIs(t, err, backends.ErrCaptured)
	_, err = w.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64)
	require.ErrorIs(t, err, backends.ErrCaptured)
	untimed(refused)
	stay, err := w.Join()
	require.NoError(t, err)
	guest := w.Time()
	_, err = w.Launch(r.k, &r.l)
	require.NoError(t, err)
	stay.Leave()
	untimed(guest)
	r.foreign[w.handle] = false
	require.Zero(t, r.calls["event"]+r.calls["record"]+r.calls["elapsed"])
	for _, o := range r.kept {
		r.end(o)
	}
	require.True(t, stay.Gone())
	require.NoError(t, w.Close())
	r.close(t)
}

// Who lets go of a time that is yet to be taken spoils no other.
func TestTimingsReleasedEarly(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.held = true
	var kept []backends.Timing
	for i := range 40 {
		timing := r.s.Time()
		r.launch(t)
		if i%4 == 3 {
			kept = append(kept, timing)
		} else {
			timing.Release()
		}
	}
	r.held = false
	r.run()
	r.s.Passed()
	for i, timing := range kept {
		began, ended := span(t, timing)
		require.Equal(t, time.Duration(4*i)*time.Millisecond, began)
		require.Equal(t, time.Millisecond, ended-began)
	}
	timing := r.s.Time()
	r.launch(t)
	r.s.Passed()
	created := r.calls["event"]
	timing.Release() // has passed, so its events serve others
	for range 10 {
		timing := r.s.Time()
		r.launch(t)
		r.s.Passed()
		span(t, timing)
	}
	require.LessOrEqual(t, r.calls["event"], created+1)
	r.close(t)
}

// Work is done whether or not its time can be had; who asks for that is told why.
func TestTimesThatCannotBeHad(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	create, record, launch := r.api.EventCreate, r.api.EventRecord, r.api.Launch
	for name, fail := range map[string]func(){
		"cuEventCreate": func() { r.api.EventCreate = func(*driver.Event, uint32) driver.Result { return driver.OutOfMemory } },
		"cuEventRecord": func() {
			r.api.EventRecord = func(driver.Event, driver.Stream) driver.Result { return invalidValue }
		},
	} {
		fail()
		timing, ran := r.s.Time(), r.ran
		r.launch(t)
		require.Equal(t, ran+1, r.ran)
		_, _, err := timing.Span()
		require.ErrorContains(t, err, name)
		timing.Release()
		r.api.EventCreate, r.api.EventRecord = create, record
	}
	timing := r.s.Time()
	r.api.Launch = func(driver.Func, uint32, uint32, uint32, uint32, uint32, uint32, uint32, driver.Stream, *unsafe.Pointer, *unsafe.Pointer) driver.Result {
		panic("oh")
	}
	require.PanicsWithValue(t, "oh", func() { _, _ = r.s.Launch(r.k, &r.l) })
	r.api.Launch = launch
	records := r.calls["record"]
	_, err := r.s.Fill(r.l.Slots[0].Addr, 0, 1, 1)
	require.NoError(t, err)
	require.Equal(t, records, r.calls["record"])
	_, _, err = timing.Span()
	require.ErrorIs(t, err, errUntimed)
	timing.Release()
	r.close(t)
}
