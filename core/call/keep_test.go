package call

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// As many Bounds are kept as a stream has in flight, and more on a device only up
// to its bound; who is not kept is freed, and all are counted.
func TestBoundsAreKept(t *testing.T) {
	d := &Device{}
	all := &d.kept
	p := &Prepared{device: d}
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
	other := &Prepared{device: d}
	other.keep(&Bound{p: other})
	other.keep(&Bound{p: other})
	require.Empty(t, other.more)
	require.NotNil(t, other.kept())
}

// What a call held that was refused is the next one's.
func TestARefusedCallKeepsNothing(t *testing.T) {
	_, d := newSlow(t)
	none := d.Host.Stats().InUse
	r := &Request{Op: kernels.ScalarAdd, Operands: []Operand{vector(64, isa.F32, 9), vector(128, isa.F32, 9)}}
	p, err := Prepare(d, r)
	require.NoError(t, err)
	null := []Operand{vector(0, isa.F32, 9), vector(128, isa.F32, 9)}
	overlapping := []Operand{vector(64, isa.F32, 9), vector(68, isa.F32, 9)}
	for range 3 {
		_, err = p.Bind(d, null, []Scalar{Float(1)}, false, r)
		require.ErrorContains(t, err, "null")
		_, err = p.Bind(d, overlapping, []Scalar{Float(1)}, false, r)
		require.ErrorContains(t, err, "overlaps")
		_, err = p.Bind(d, r.Operands, []Scalar{{Type: isa.I8}}, false, r)
		require.ErrorContains(t, err, "expected f32")
	}
	p.Release()
	require.Equal(t, none, d.Host.Stats().InUse)
}
