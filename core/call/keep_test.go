package call

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core/queue"
)

// As many Bounds are kept as a stream has in flight, and more on a device only up
// to its bound; who is not kept is freed, and all are counted.
func TestBoundsAreKept(t *testing.T) {
	var all atomic.Int64
	p := &Prepared{keptAll: &all}
	const flight = queue.MaxFlight
	list := make([]*Bound, flight)
	for i := range list {
		list[i] = &Bound{p: p}
		p.keep(list[i])
	}
	require.Equal(t, int64(flight-1), all.Load(), "one is the next call's")
	seen := map[*Bound]bool{}
	for range list {
		b := p.kept()
		require.NotNil(t, b)
		require.False(t, seen[b])
		seen[b] = true
	}
	require.Nil(t, p.kept())
	require.Zero(t, all.Load())
	for range 2 * maxKept {
		p.keep(&Bound{p: p})
	}
	require.Equal(t, int64(maxKept), all.Load())
	all.Store(maxKeptAll)
	other := &Prepared{keptAll: &all}
	other.keep(&Bound{p: other})
	other.keep(&Bound{p: other})
	require.Empty(t, other.more)
	require.NotNil(t, other.kept())
}
