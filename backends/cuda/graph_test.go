package cuda

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

var _ backends.Capturer = (*stream)(nil)

// Captured work runs at each replay, on any stream, and its tickets are the
// replays'.
func TestCaptureAndReplay(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	a, b := r.l.Slots[0].Addr, r.l.Slots[1].Addr
	before, err := r.s.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.NoError(t, r.s.BeginCapture())
	require.Equal(t, before, r.s.Passed(), "what came before has been told of")
	require.ErrorContains(t, r.s.BeginCapture(), "capturing already")
	require.ErrorContains(t, r.s.Close(), "capturing")
	other, err := r.d.NewStream()
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"await": func() error { return r.s.Await(other, 1) },
		"wait":  func() error { return r.s.Wait(before, time.Second) },
	} {
		require.ErrorContains(t, call(), "capturing", name)
	}
	m, err := r.d.Alloc(64) // as long as the stream captures
	require.NoError(t, err)
	require.NoError(t, r.d.Free(m))
	writes := r.calls["write"]
	for _, queue := range []func() (backends.Ticket, error){
		func() (backends.Ticket, error) { return r.s.Fill(a, 5, 1, 64) },
		func() (backends.Ticket, error) { return r.s.Launch(r.k, &r.l) },
		func() (backends.Ticket, error) { return r.s.Copy(b, a, 64) },
	} {
		ticket, err := queue()
		require.NoError(t, err)
		require.Zero(t, ticket)
	}
	require.Equal(t, writes, r.calls["write"])
	ran := r.ran
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	_, err = r.s.EndCapture()
	require.ErrorContains(t, err, "not capturing")
	require.Equal(t, ran, r.ran, "a capture ran")
	bytes := func() byte { return *(*byte)(pointerOf(b)) }
	require.Zero(t, bytes())
	r.held = true
	for i := range 3 {
		ticket, err := g.Replay(r.s)
		require.NoError(t, err)
		require.Equal(t, before+backends.Ticket(i)+1, ticket)
		require.Equal(t, backends.ErrPending, r.s.Wait(ticket, time.Millisecond))
		r.run()
		require.NoError(t, r.s.Wait(ticket, time.Second))
		require.Equal(t, ran+i+1, r.ran)
		require.Equal(t, byte(5), bytes())
	}
	ticket, err := g.Replay(other)
	require.NoError(t, err)
	require.Equal(t, backends.Ticket(1), ticket)
	r.run()
	r.held = false
	require.NoError(t, other.Wait(ticket, time.Second))
	require.NoError(t, other.(*stream).BeginCapture())
	_, err = g.Replay(other)
	require.ErrorContains(t, err, "capturing")
	h, err := other.(*stream).EndCapture()
	require.NoError(t, err)
	h.Release()
	g.Release()
	g.Release()
	_, err = g.Replay(r.s)
	require.ErrorContains(t, err, "released")
	require.NoError(t, other.Close())
	r.held = false
	r.close(t)
}
