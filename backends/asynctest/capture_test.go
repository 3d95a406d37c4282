package asynctest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// captureOne captures a fill, a launch and a copy to the host.
func (r *rig) captureOne() backends.Graph {
	r.Helper()
	require.NoError(r, r.s.BeginCapture())
	require.Zero(r, r.must(r.s.Fill(r.m[0].Addr, 21, 4, n)))
	require.Zero(r, r.must(r.s.Launch(r.k, &r.l)))
	require.Zero(r, r.must(r.s.Copy(r.host.Addr+4*n, r.m[1].Addr, 4*n)))
	g, err := r.s.EndCapture()
	require.NoError(r, err)
	return g
}

// TestReplay is in a bubble of synctest, whose time stands still while the test runs: what
// a work with a delay does cannot be done before the test waits for it.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Delay: time.Millisecond}, double)
		g := r.captureOne()
		r.l.Slots[0].Addr, r.l.N = 0, 0 // a launch is captured by value
		require.Zero(t, r.s.Passed())
		for range 3 {
			clear(cells(r.host))
			ticket := r.must(g.Replay(r.s))
			require.Zero(t, cells(r.host)[n])
			require.NoError(t, r.finish(r.s, ticket))
			for _, x := range cells(r.host)[n:] {
				require.EqualValues(t, 42, x)
			}
		}
		other := r.second()
		require.NoError(t, r.finish(other, r.must(g.Replay(other))))
		require.Equal(t, 4, r.b.Counts().Replays)
		require.Equal(t, 1, r.b.Counts().Graphs)
		g.Release()
		require.Zero(t, r.b.Counts().Graphs)
		_, err := g.Replay(r.s)
		require.ErrorContains(t, err, "released")
		r.reports.next(t, "released")
		g.Release()
		r.reports.next(t, "released twice")
	})
}

// TestRecordsLive: each replay reads and writes the Record and Phase of its
// launches as they are then.
func TestRecordsLive(t *testing.T) {
	r := newRig(t, Options{}, stray)
	r.l.Record, r.l.Phase = r.record(), &cells(r.host)[0]
	*r.l.Phase = 10
	require.NoError(t, r.s.BeginCapture())
	r.must(r.s.Launch(r.k, &r.l))
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	require.NoError(t, r.l.Record.Outcome())
	for i := range 3 {
		require.NoError(t, r.finish(r.s, r.must(g.Replay(r.s))))
		var fault *backends.ProgramFault
		require.ErrorAs(t, r.l.Record.Outcome(), &fault)
		require.Equal(t, isa.FaultAccess, fault.Kind)
		require.EqualValues(t, 7, fault.Lane)
		require.EqualValues(t, 2*n*(i+1), r.l.Record.Residue[5])
		require.EqualValues(t, 10+3*(i+1), *r.l.Phase)
		r.l.Record.Fault = 0
	}
	g.Release()
}

func TestReplayFailsAndIsCancelled(t *testing.T) {
	r := newRig(t, Options{FailReplay: 1, Delay: time.Millisecond}, endless)
	r.l.Record = r.record()
	g := r.captureOne()
	require.ErrorIs(t, r.finish(r.s, r.must(g.Replay(r.s))), ErrInjected)
	require.NoError(t, r.l.Record.Outcome())
	ticket := r.must(g.Replay(r.s))
	require.Equal(t, backends.ErrPending, r.s.Wait(ticket, 5*time.Millisecond))
	r.l.Record.Stop()
	require.NoError(t, r.finish(r.s, ticket))
	require.Equal(t, backends.ErrCancelled, r.l.Record.Outcome())
	g.Release()
}

// TestCaptureRefuses makes the calls that CUDA refuses while it captures.
func TestCaptureRefuses(t *testing.T) {
	r := newRig(t, Options{}, double)
	other := r.second()
	before := r.must(r.s.Fill(r.m[0].Addr, 1, 4, n))
	g := r.captureOne()
	spoils := map[string]func() error{
		"await of ticket 0":   func() error { return r.s.Await(other, 0) },
		"wait for a ticket":   func() error { return r.s.Wait(before, time.Second) },
		"replay on itself":    func() error { _, err := g.Replay(r.s); return err },
		"nothing of the kind": nil,
	}
	for name, call := range spoils {
		require.NoError(t, r.s.BeginCapture())
		require.ErrorContains(t, r.s.BeginCapture(), "capturing already")
		require.ErrorContains(t, r.s.Close(), "capturing")
		require.NoError(t, r.d.Free(r.alloc(100))) // as CUDA does in mode RELAXED
		compile(t, r.d, double, backends.Variant{}).Release()
		r.s.Passed()
		if call != nil {
			require.Error(t, call(), name)
			r.reports.next(t, "capturing")
		}
		h, err := r.s.EndCapture()
		if call != nil {
			require.ErrorContains(t, err, "cannot be captured", name)
		} else {
			require.NoError(t, err)
			h.Release()
		}
	}
	_, err := r.s.EndCapture()
	require.ErrorContains(t, err, "not capturing")
	g.Release()
	require.NoError(t, r.finish(r.s, before))
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	for _, k := range r.s.device.blocks {
		require.Empty(t, k.pins)
	}
}

// TestGraphsOwnTheirPins frees memory and a kernel that a graph uses, and a
// graph that is being replayed, and replays on two streams at once.
func TestGraphsOwnTheirPins(t *testing.T) {
	r := newRig(t, Options{Delay: 5 * time.Millisecond}, double)
	g := r.captureOne()
	require.ErrorContains(t, r.d.Free(r.m[0]), "captured graph")
	r.reports.next(t, "Free: a captured graph uses bytes 0 to 400 of the 400 bytes")
	require.ErrorContains(t, r.d.FreeHost(r.host), "captured graph")
	r.reports.next(t, "captured")
	other := r.second()
	t1 := r.must(g.Replay(r.s))
	t2 := r.must(g.Replay(other))
	r.b.mu.Lock()
	require.NotEmpty(t, r.reports.all[r.reports.seen:])
	r.reports.seen = len(r.reports.all)
	r.b.mu.Unlock()
	require.NoError(t, r.s.Await(other, t2))
	t3 := r.must(g.Replay(r.s))
	r.reports.none(t)
	require.NoError(t, r.finish(r.s, t1))
	require.NoError(t, r.finish(r.s, t3))
	require.NoError(t, r.finish(other, t2))

	k := compile(t, r.d, double, backends.Variant{})
	require.NoError(t, r.s.BeginCapture())
	r.must(r.s.Launch(k, &r.l))
	h, err := r.s.EndCapture()
	require.NoError(t, err)
	k.Release()
	r.reports.next(t, "1 are captured")
	h.Release()
	ticket := r.must(g.Replay(r.s))
	g.Release()
	r.reports.next(t, "1 replays are to be done")
	require.NoError(t, r.finish(r.s, ticket))
}
