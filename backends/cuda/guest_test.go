package cuda

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

var _ backends.Guest = (*stream)(nil)

// Our own stream too may be captured by others, who have its number: nothing is queued to it then.
func TestOurStreamIsCapturedByOthers(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.launch(t)
	ran, passed := r.ran, r.s.Passed()
	r.foreign[r.s.handle] = true
	require.True(t, r.s.Captured())
	for _, queue := range []func() (backends.Ticket, error){
		func() (backends.Ticket, error) { return r.s.Launch(r.k, &r.l) },
		func() (backends.Ticket, error) { return r.s.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64) },
		func() (backends.Ticket, error) { return r.s.Fill(r.l.Slots[0].Addr, 0, 1, 64) },
	} {
		_, err := queue()
		require.ErrorIs(t, err, backends.ErrCaptured)
	}
	require.Equal(t, passed, r.s.Passed())
	require.Empty(t, r.guests)
	r.foreign[r.s.handle] = false
	r.launch(t)
	require.Equal(t, ran+1, r.ran)
	r.close(t)
}

// A guest records in its owner's graph what comes between Join and Leave, without
// tickets, and learns from the driver when the graph is gone.
func TestAGuestOfACapture(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	wrapped, err := r.d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	w := wrapped.(*stream)
	require.False(t, w.Captured())
	require.False(t, r.s.Captured())
	_, err = w.Join()
	require.ErrorContains(t, err, "has ended")
	before, err := w.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.NoError(t, w.Wait(before, time.Second))

	r.foreign[w.handle] = true
	require.True(t, w.Captured())
	_, err = w.Launch(r.k, &r.l)
	require.ErrorIs(t, err, backends.ErrCaptured)
	stays := []backends.Stay{}
	ran := r.ran
	for range 2 {
		stay, err := w.Join()
		require.NoError(t, err)
		stays = append(stays, stay)
		for _, queue := range []func() (backends.Ticket, error){
			func() (backends.Ticket, error) { return w.Launch(r.k, &r.l) },
			func() (backends.Ticket, error) { return w.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64) },
			func() (backends.Ticket, error) { return w.Fill(r.l.Slots[0].Addr, 0, 1, 64) },
		} {
			ticket, err := queue()
			require.NoError(t, err)
			require.Zero(t, ticket)
		}
		r.held = true
		mine, err := r.s.Launch(r.k, &r.l)
		require.NoError(t, err)
		require.ErrorIs(t, w.Await(r.s, mine), backends.ErrCaptured)
		r.held = false
		r.run()
		require.Equal(t, before, w.Passed())
		stay.Leave()
		_, err = w.Launch(r.k, &r.l)
		require.ErrorIs(t, err, backends.ErrCaptured)
	}
	require.Len(t, r.guests, 6)
	require.Equal(t, ran+2, r.ran, "what is recorded ran")
	require.Zero(t, r.calls["object release"])
	require.Len(t, r.kept, 2)

	r.foreign[w.handle] = false
	after, err := w.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.Equal(t, before+1, after)
	for i, stay := range stays {
		require.False(t, stay.Gone())
		r.end(r.kept[i])
		require.True(t, stay.Gone())
		require.True(t, stay.Gone())
	}
	require.NoError(t, w.Wait(after, time.Second))
	require.NoError(t, w.Close())
	r.close(t)
}

// What the stream keeps a state for cannot be recorded, and what the driver
// refuses leaves the stream as it was.
func TestAGuestIsRefused(t *testing.T) {
	r := newFakeRig(t, "slot a u16\n phase_get p\n stg.u16 p, a[index]\n exit", 1)
	r.l.Slots[0].Type = 0
	wrapped, err := r.d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	w := wrapped.(*stream)
	r.foreign[w.handle] = true
	retain := r.api.GraphRetain
	r.api.GraphRetain = func(driver.Graph, driver.UserObject, uint32, uint32) driver.Result { return invalidValue }
	_, err = w.Join()
	require.ErrorContains(t, err, "cuGraphRetainUserObject")
	require.Empty(t, r.objects)
	r.api.GraphRetain = retain
	_, err = w.Fill(r.l.Slots[0].Addr, 0, 1, 64)
	require.ErrorIs(t, err, backends.ErrCaptured)
	stay, err := w.Join()
	require.NoError(t, err)
	var unsupported *backends.Unsupported
	_, err = w.Launch(r.k, &r.l)
	require.ErrorAs(t, err, &unsupported)
	stay.Leave()
	require.Empty(t, r.guests)
	r.end(r.kept[0])
	require.True(t, stay.Gone())
	r.foreign[w.handle] = false
	require.NoError(t, w.Close())
	r.close(t)
}
