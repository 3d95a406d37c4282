package asynctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// plain is memory of the host's that no device knows of.
func plain(t *testing.T, bytes int64) backends.Memory {
	t.Helper()
	addr, err := hostmem.Alloc(bytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hostmem.Free(addr, bytes)) })
	return backends.Memory{Addr: addr, Bytes: bytes}
}

// TestImport uses memory of others from Import until Forget.
func TestImport(t *testing.T) {
	r := newRig(t, Options{HostVisible: true, Delay: 2 * time.Millisecond}, double)
	im := r.d.(backends.Importer)
	m := plain(t, 8*n)
	part := backends.Memory{Addr: m.Addr + 2*n, Bytes: 4 * n}
	l := r.launch(r.m[0], part)
	_, err := r.s.Launch(r.k, &l)
	require.ErrorContains(t, err, "slot 1")
	require.NoError(t, im.Import(m.Addr, 8*n))
	require.NoError(t, im.Import(part.Addr, part.Bytes))
	require.NoError(t, im.Import(part.Addr, part.Bytes))
	r.write(r.m[0], 1)
	ticket := r.must(r.s.Launch(r.k, &l))
	im.Forget(part.Addr, part.Bytes) // it is imported otherwise, too
	im.Forget(m.Addr, m.Bytes)
	r.reports.none(t)
	require.NoError(t, r.finish(r.s, ticket))
	require.EqualValues(t, 2, cells(part)[0])

	// Imports that overlap are the same memory.
	require.NoError(t, im.Import(m.Addr, 4*n))
	other := r.second()
	t1 := r.must(r.s.Fill(part.Addr, 1, 4, n))
	t2 := r.must(other.Fill(m.Addr, 1, 4, n))
	r.reports.next(t, "race")
	im.Forget(part.Addr, part.Bytes)
	r.reports.next(t, "forget: fill of 400 bytes (stream 1, ticket 3) is still to be done")
	require.NoError(t, r.finish(r.s, t1))
	require.NoError(t, r.finish(other, t2))
	im.Forget(m.Addr, 4*n)
	im.Forget(m.Addr, 4*n)
	r.reports.next(t, "are not imported")
	_, err = r.s.Fill(m.Addr, 1, 4, n)
	require.ErrorContains(t, err, "no memory that the device reaches")

	// Captured work holds what it uses.
	require.NoError(t, im.Import(m.Addr, 4*n))
	require.NoError(t, r.s.BeginCapture())
	r.must(r.s.Fill(m.Addr, 1, 4, n))
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	im.Forget(m.Addr, 4*n)
	r.reports.next(t, "forget: a captured graph uses")
	g.Release()
}

func TestImportRefuses(t *testing.T) {
	for _, visible := range []bool{false, true} {
		r := newRig(t, Options{HostVisible: visible, FailImport: 7}, double)
		im := r.d.(backends.Importer)
		m := plain(t, 100)
		require.Error(t, im.Import(0, 8))
		require.Error(t, im.Import(m.Addr, -1))
		require.Error(t, im.Import(^uintptr(0)-4, 8))
		require.ErrorContains(t, im.Import(r.host.Addr, 8), "cannot reach")
		require.NoError(t, im.Import(r.m[0].Addr, 8), "its own, come back")
		im.Forget(r.m[0].Addr, 8)
		if err := im.Import(m.Addr, 100); visible {
			require.NoError(t, err)
			im.Forget(m.Addr, 100)
		} else {
			require.ErrorContains(t, err, "cannot reach")
		}
		require.ErrorIs(t, im.Import(r.m[0].Addr, 8), ErrInjected)
		require.Equal(t, 7, r.b.Counts().Imports)
	}
}

// TestLossEndsWhatRuns: an endless launch passes when the device is lost.
func TestLossEndsWhatRuns(t *testing.T) {
	for _, replayed := range []bool{false, true} {
		r := newRig(t, Options{Lose: 2}, endless)
		other, spare := r.second(), r.alloc(4*n)
		var ticket backends.Ticket
		if replayed {
			require.NoError(t, r.s.BeginCapture())
			r.must(r.s.Launch(r.k, &r.l))
			g, err := r.s.EndCapture()
			require.NoError(t, err)
			defer g.Release()
			ticket = r.must(g.Replay(r.s))
		} else {
			ticket = r.must(r.s.Launch(r.k, &r.l))
		}
		require.Equal(t, backends.ErrPending, r.s.Wait(ticket, 5*time.Millisecond))
		require.ErrorIs(t, r.finish(other, r.must(other.Fill(spare.Addr, 1, 4, n))), backends.ErrLost)
		require.ErrorIs(t, r.finish(r.s, ticket), backends.ErrLost)
	}
}
