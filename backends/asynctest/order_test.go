package asynctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestRaces has two streams use the same memory in each way, first without
// anything between them, then ordered in each way there is.
func TestRaces(t *testing.T) {
	read := func(r *rig, s *stream) backends.Ticket {
		return r.must(s.Copy(r.m[1].Addr+uintptr(s.number*100), r.m[0].Addr, 100))
	}
	write := func(r *rig, s *stream) backends.Ticket {
		return r.must(s.Fill(r.m[0].Addr, 1, 4, n))
	}
	launch := func(r *rig, s *stream) backends.Ticket { // reads 0, writes the one that is the stream's own
		l := r.launch(r.m[0], r.alloc(4*n))
		return r.must(s.Launch(r.k, &l))
	}
	for _, c := range []struct {
		name          string
		first, second func(*rig, *stream) backends.Ticket
		race          string
	}{
		{"read, read", read, read, ""},
		{"read, launch that reads", read, launch, ""},
		{"read, write", read, write, "fill of 400 bytes (stream 2, ticket 1) writes bytes 0 to 400 of"},
		{"write, read", write, read, "copy of 100 bytes (stream 2, ticket 1) reads bytes 0 to 100 of"},
		{"write, write", write, write, "which fill of 400 bytes (stream 1, ticket 1) writes"},
		{"launch, write", launch, write, "which launch of 100 lanes (stream 1, ticket 1) reads"},
	} {
		for _, delay := range []time.Duration{0, time.Millisecond} {
			t.Run(c.name, func(t *testing.T) {
				for how, order := range map[string]func(r *rig, a, b *stream, first backends.Ticket){
					"nothing": func(*rig, *stream, *stream, backends.Ticket) {},
					// That it is done, without that the host asked, orders nothing.
					"time": func(_ *rig, a, _ *stream, _ backends.Ticket) {
						require.Eventually(t, func() bool {
							a.device.backend.mu.Lock()
							defer a.device.backend.mu.Unlock()
							return a.passed == a.last
						}, time.Second, time.Millisecond)
					},
					"an earlier ticket": func(r *rig, a, b *stream, first backends.Ticket) {
						require.NoError(t, b.Await(a, first-1))
					},
					"Await": func(r *rig, a, b *stream, first backends.Ticket) {
						require.NoError(t, b.Await(a, first))
					},
					"Await through a third": func(r *rig, a, b *stream, first backends.Ticket) {
						third := r.second()
						require.NoError(t, third.Await(a, first))
						spare := r.alloc(4)
						require.NoError(t, b.Await(third, r.must(third.Fill(spare.Addr, 1, 4, 1))))
					},
					"Wait": func(r *rig, a, _ *stream, first backends.Ticket) {
						require.NoError(t, r.finish(a, first))
					},
					"Passed": func(r *rig, a, _ *stream, first backends.Ticket) {
						require.Eventually(t, func() bool { return a.Passed() == first }, time.Second, time.Millisecond)
					},
					// Who has waited for what waited for it knows as much.
					"Wait for a third": func(r *rig, a, _ *stream, first backends.Ticket) {
						third := r.second()
						require.NoError(t, third.Await(a, first))
						spare := r.alloc(4)
						require.NoError(t, r.finish(third, r.must(third.Fill(spare.Addr, 1, 4, 1))))
					},
				} {
					r := newRig(t, Options{Delay: delay}, double)
					other := r.second()
					first := c.first(r, r.s)
					order(r, r.s, other, first)
					second := c.second(r, other)
					if loose := how == "nothing" || how == "time" || how == "an earlier ticket"; loose && c.race != "" {
						r.reports.next(t, c.race)
					}
					r.reports.none(t)
					require.NoError(t, r.finish(other, second))
					require.Eventually(t, func() bool { return r.s.Passed() == first }, time.Second, time.Millisecond, how)
				}
			})
		}
	}
}

// TestAwaitOrdersNoMore: what the other stream queued after the ticket, and
// what this one queued before the Await, is not ordered by it.
func TestAwaitOrdersNoMore(t *testing.T) {
	r := newRig(t, Options{Delay: time.Millisecond}, double)
	other := r.second()
	first := r.must(r.s.Fill(r.m[0].Addr, 1, 4, n))
	r.must(r.s.Fill(r.m[0].Addr, 2, 4, n))
	require.NoError(t, other.Await(r.s, first))
	last := r.must(other.Fill(r.m[0].Addr, 3, 4, n))
	r.reports.next(t, "(stream 1, ticket 2)")
	// The way back is not ordered either.
	r.must(r.s.Copy(r.m[1].Addr, r.m[0].Addr, 4*n))
	r.reports.next(t, "race")
	require.NoError(t, r.finish(other, last))
	require.Eventually(t, func() bool { return r.s.Passed() == 3 }, time.Second, time.Millisecond)
}

// TestOneStreamNeedsNoOrder reuses memory over and over on one stream, and parts
// of a block on two.
func TestOneStreamNeedsNoOrder(t *testing.T) {
	r := newRig(t, Options{}, double)
	other := r.second()
	var mine, others backends.Ticket
	for i := range 3000 {
		r.must(r.s.Fill(r.m[0].Addr, uint64(i), 4, n/2))
		mine = r.must(r.s.Copy(r.m[1].Addr, r.m[0].Addr, 2*n))
		others = r.must(other.Fill(r.m[0].Addr+2*n, uint64(i), 4, n/2))
	}
	r.b.mu.Lock()
	for _, k := range r.s.device.blocks {
		require.LessOrEqual(t, len(k.history), 4, "the history of a block grows")
	}
	r.b.mu.Unlock()
	require.NoError(t, r.finish(r.s, mine))
	require.NoError(t, r.finish(other, others))
	require.Empty(t, r.s.inflight)
}

// TestRecordsArePartOfIt: two launches at once may not share a Record or a Phase.
func TestRecordsArePartOfIt(t *testing.T) {
	for _, phase := range []bool{false, true} {
		r := newRig(t, Options{Delay: time.Millisecond}, double)
		other := r.second()
		second := r.launch(r.m[0], r.alloc(4*n))
		if phase {
			r.l.Phase = &cells(r.host)[0]
			second.Phase = r.l.Phase
		} else {
			r.l.Record = r.record()
			second.Record = r.l.Record
		}
		r.must(r.s.Launch(r.k, &r.l))
		last := r.must(other.Launch(r.k, &second))
		r.reports.next(t, "race: launch of 100 lanes (stream 2, ticket 1) writes")
		require.NoError(t, r.finish(other, last))
		require.Eventually(t, func() bool { return r.s.Passed() == 1 }, time.Second, time.Millisecond)
	}
}

func TestFreeingWhatIsUsed(t *testing.T) {
	r := newRig(t, Options{Delay: 10 * time.Millisecond}, double)
	m := r.alloc(4 * n)
	ticket := r.must(r.s.Fill(m.Addr, 1, 4, n))
	require.ErrorContains(t, r.d.Free(m), "still to be done")
	r.reports.next(t, "Free: fill of 400 bytes (stream 1, ticket 1) is still to be done")
	require.NoError(t, r.finish(r.s, ticket))
	require.NoError(t, r.d.Free(m))

	// It has passed, but the host has not asked.
	m, err := r.d.AllocHost(4 * n)
	require.NoError(t, err)
	ticket = r.must(r.s.Copy(m.Addr, r.m[0].Addr, 4*n))
	<-r.s.inflight[0].done
	require.NoError(t, r.d.FreeHost(m))
	r.reports.next(t, "the host has not asked whether copy of 400 bytes (stream 1, ticket 2) has passed")
	require.NoError(t, r.finish(r.s, ticket))
}
