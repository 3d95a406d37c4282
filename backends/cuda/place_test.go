package cuda

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestPlaces asks where memory lies of which the driver knows, from its middle on too, and
// of which it does not.
func TestPlaces(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	d := r.d
	m, err := d.AllocHost(4096)
	require.NoError(t, err)
	locator := backends.Locator(d)
	require.Equal(t, backends.Place{Kind: backends.Locked, Bytes: 4096}, locator.Locate(m.Addr))
	require.Equal(t, backends.Place{Kind: backends.Locked, Bytes: 96}, locator.Locate(m.Addr+4000))
	require.Equal(t, backends.Place{}, locator.Locate(uintptr(unsafe.Pointer(new([9]byte)))))
	require.Equal(t, backends.Place{}, locator.Locate(0))
	require.NoError(t, d.FreeHost(m))
	require.EqualValues(t, 1<<30, backends.Meter(d).FreeBytes())
	require.NotZero(t, backends.Numbered(r.s).Native())
	r.close(t)
}

// TestTimesBetweenStreams compares marks of two streams, which are nothing but places.
func TestTimesBetweenStreams(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	other, err := r.d.NewStream()
	require.NoError(t, err)
	mark := func(s backends.Stream) backends.Comparer {
		timing := s.(backends.Timer).Time()
		_, err := s.Fill(0, 0, 1, 0)
		require.NoError(t, err)
		return timing.(backends.Comparer)
	}
	first := mark(r.s)
	r.launch(t)
	r.launch(t)
	second := mark(other)
	r.run()
	since := func(to, from backends.Comparer) time.Duration {
		took, err := to.Since(from.(backends.Timing))
		require.NoError(t, err)
		return took
	}
	require.Equal(t, 2*time.Millisecond, since(second, first))
	require.Equal(t, -2*time.Millisecond, since(first, second))
	require.Zero(t, since(first, first))
	unused := r.s.Time()
	_, err = second.Since(unused)
	require.ErrorIs(t, err, errUntimed)
	for _, timing := range []backends.Timing{unused, first.(backends.Timing), second.(backends.Timing)} {
		timing.Release()
	}
	require.NoError(t, other.Close())
	r.close(t)
}
