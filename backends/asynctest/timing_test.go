package asynctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestTimings has work of each kind timed: as long as it takes, in the order of the
// stream.
func TestTimings(t *testing.T) {
	const delay = 2 * time.Millisecond
	r := newRig(t, Options{Delay: delay}, double)
	g := r.captureOne()
	defer g.Release()
	last := time.Duration(0)
	var tickets []backends.Ticket
	var timings []backends.Timing
	for _, queue := range []func() (backends.Ticket, error){
		func() (backends.Ticket, error) { return r.s.Fill(r.m[0].Addr, 1, 4, n) },
		func() (backends.Ticket, error) { return r.s.Launch(r.k, &r.l) },
		func() (backends.Ticket, error) { return r.s.Copy(r.host.Addr, r.m[1].Addr, 4*n) },
		func() (backends.Ticket, error) { return g.Replay(r.s) },
	} {
		timings = append(timings, r.s.Time())
		tickets = append(tickets, r.must(queue()))
		r.must(r.s.Fill(r.m[0].Addr, 1, 4, n)) // which is not timed
	}
	for i, timing := range timings {
		require.NoError(t, r.finish(r.s, tickets[i]))
		began, ended, err := timing.Span()
		require.NoError(t, err)
		require.GreaterOrEqual(t, ended-began, delay)
		require.GreaterOrEqual(t, began, last)
		last = ended + delay // of the fill
		timing.Release()
	}
	require.NoError(t, r.finish(r.s, r.s.last))
	require.Zero(t, r.b.Counts().Timings)
}

// TestWhatIsNotTimed asks for the times of what is captured, refused or never queued,
// and of what comes after that.
func TestWhatIsNotTimed(t *testing.T) {
	r := newRig(t, Options{}, double)
	untimed := func(timing backends.Timing) {
		t.Helper()
		_, _, err := timing.Span()
		require.ErrorContains(t, err, "was timed")
		timing.Release()
	}
	untimed(r.s.Time())
	released := r.s.Time()
	released.Release()
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))

	refused := r.s.Time()
	_, err := r.s.Fill(r.m[0].Addr, 0, 3, n)
	require.Error(t, err)
	untimed(refused)
	require.NoError(t, r.s.BeginCapture())
	captured := r.s.Time()
	r.must(r.s.Launch(r.k, &r.l))
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	require.NoError(t, r.finish(r.s, r.must(g.Replay(r.s))))
	untimed(captured)
	g.Release()
	require.Zero(t, r.b.Counts().Timings)

	_, _, err = released.Span()
	require.ErrorContains(t, err, "after its release")
	r.reports.next(t, "after its release")
	released.Release()
	r.reports.next(t, "released twice")
}
