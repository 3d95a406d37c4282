package asynctest

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// TestFaultsGoToTheRecord: a program's fault is no failure of its ticket.
func TestFaultsGoToTheRecord(t *testing.T) {
	r := newRig(t, Options{}, stray)
	r.l.Record = r.record()
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))
	var fault *backends.ProgramFault
	require.ErrorAs(t, r.l.Record.Outcome(), &fault)
	require.Equal(t, isa.FaultAccess, fault.Kind)
	require.EqualValues(t, 7, fault.Lane)
	require.EqualValues(t, 2*n, r.l.Record.Residue[5])
	r.l.Record = nil // nobody asks
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))
}

func TestRecordsLieInHostMemory(t *testing.T) {
	r := newRig(t, Options{HostVisible: true}, double)
	r.l.Record = new(backends.Record)
	_, err := r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "Record")
	r.l.Record, r.l.Phase = nil, &cells(r.m[0])[0] // visible, but not AllocHost's
	_, err = r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "Phase")
}

func TestLaunchRefuses(t *testing.T) {
	r := newRig(t, Options{MaxGrid: [3]uint32{2, 1, 0}}, double)
	r.l.Grid = [3]uint32{3, 1, 1}
	_, err := r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "at most [2 1 0]")
	r.l.Grid = [3]uint32{2, 1, 5}
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))
	r.l.Slots = r.l.Slots[:1]
	_, err = r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "1 slots and 0 parameters")
	r.l = r.launch(r.m[0], r.m[1])
	r.k.Release()
	_, err = r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "released")
	r.reports.next(t, "released")
	r.k.Release()
	r.reports.next(t, "released twice")
	// An empty launch takes no memory, and a ticket.
	k := compile(t, r.d, double, backends.Variant{})
	l := backends.Launch{Slots: make([]backends.View, 2), Block: [3]uint32{32, 1, 1}, Rank: 1}
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(k, &l))))
}

// TestReleaseWaitsForNobody releases a kernel that runs.
func TestReleaseWaitsForNobody(t *testing.T) {
	r := newRig(t, Options{}, endless)
	r.l.Record = r.record()
	ticket := r.must(r.s.Launch(r.k, &r.l))
	r.k.Release()
	r.reports.next(t, "1 launches are to be done")
	r.l.Record.Stop()
	require.NoError(t, r.finish(r.s, ticket))
}

func TestWorkspace(t *testing.T) {
	r := newRig(t, Options{Workspace: 128, HostVisible: true, Delay: 5 * time.Millisecond}, double)
	require.EqualValues(t, 128, r.k.Workspace(&r.l))
	m := r.alloc(256)
	for _, addr := range []uintptr{0, r.host.Addr, m.Addr + 192, m.Addr + 4} {
		r.l.Workspace = addr
		_, err := r.s.Launch(r.k, &r.l)
		require.ErrorContains(t, err, "workspace", addr)
	}
	for i := range cells(m) {
		cells(m)[i] = 1
	}
	r.l.Workspace = m.Addr + 64
	first := r.must(r.s.Launch(r.k, &r.l))
	// It is written to, so no other stream may use it meanwhile.
	other := r.second()
	l := r.launch(r.m[0], r.alloc(4*n))
	l.Workspace = r.l.Workspace
	last := r.must(other.Launch(r.k, &l))
	r.reports.next(t, "race")
	require.NoError(t, r.finish(r.s, first))
	require.NoError(t, r.finish(other, last))
	require.EqualValues(t, 1, cells(m)[15])
	require.EqualValues(t, 0xdbdbdbdb, cells(m)[16])
	require.EqualValues(t, 1, cells(m)[48])
}

// TestVariants: what a variant takes for granted is checked, if the device
// heeds it.
func TestVariants(t *testing.T) {
	all := backends.Variant{Packed: true, Proved: true, NoFuel: true}
	scattered := func(r *rig) {
		r.l.N, r.l.Shape[0] = 50, 50
		r.l.Slots[0].Stride[0], r.l.Slots[0].Shape[0], r.l.Slots[1].Shape[0] = 2, 50, 50
	}
	fuel := func(r *rig) { r.l.Fuel = 1000 }
	repeated := func(r *rig) { r.l.Slots[0].Stride[0] = 0 }
	for _, c := range []struct {
		heeds  backends.Variant
		change func(*rig)
		report string
	}{
		{backends.Variant{}, scattered, ""},
		{backends.Variant{}, fuel, ""},
		{all, scattered, "a kernel for packed slots gets slot 0 with strides [2] over [50]"},
		{all, fuel, "a kernel for launches without fuel gets 1000 steps"},
		{all, repeated, ""},
		{backends.Variant{NoFuel: true}, scattered, ""},
	} {
		r := newRig(t, Options{Variants: c.heeds}, double)
		require.Equal(t, c.heeds, r.d.Info().Variants)
		k := compile(t, r.d, double, all)
		c.change(r)
		ticket, err := r.s.Launch(k, &r.l)
		if c.report != "" {
			require.ErrorContains(t, err, c.report)
			r.reports.next(t, c.report)
			continue
		}
		require.NoError(t, r.finish(r.s, r.must(ticket, err)))
	}
	// A proof that was none is found while it runs.
	r := newRig(t, Options{Variants: all}, stray)
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))
	r.reports.next(t, "a kernel whose accesses were proved strays")
}

// TestPacked looks at shapes of more than one dimension.
func TestPacked(t *testing.T) {
	for _, c := range []struct {
		shape, stride []int64
		want          bool
	}{
		{[]int64{}, []int64{}, true},
		{[]int64{2, 3}, []int64{3, 1}, true},
		{[]int64{2, 3}, []int64{0, 0}, true},
		{[]int64{2, 3}, []int64{0, 1}, false},
		{[]int64{2, 3}, []int64{1, 2}, false},
		{[]int64{2, 1, 3}, []int64{3, 77, 1}, true},
		{[]int64{1, 1}, []int64{5, 6}, true},
	} {
		l, v := backends.Launch{Rank: len(c.shape)}, backends.View{Rank: len(c.shape)}
		copy(l.Shape[:], c.shape)
		copy(v.Stride[:], c.stride)
		require.Equal(t, c.want, packed(&l, &v), "%v %v", c.shape, c.stride)
	}
}

func TestCost(t *testing.T) {
	r := newRig(t, Options{}, double)
	small := r.k.Cost(&backends.Launch{N: 100})
	require.Positive(t, small)
	require.InDelta(t, 1000*small, r.k.Cost(&backends.Launch{N: 100_000}), small)
	require.Equal(t, math.Inf(1), compile(t, r.d, endless, backends.Variant{}).Cost(&backends.Launch{N: 1}))
}

// TestSpecialize launches what code was made for, and what it was not.
func TestSpecialize(t *testing.T) {
	r := newRig(t, Options{Specialize: true}, double)
	k := r.k.(backends.Specializer)
	_, err := r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "needs code that was not made")
	r.reports.next(t, "needs code that was not made")
	for made, change := range []func(){func() {}, func() { r.l.Fuel = 9 }, func() { r.l.Slots[1].Addr += 4; r.l.Slots[1].Bytes -= 4; r.l.N-- }} {
		change()
		require.ErrorIs(t, k.Specialize(&r.l, true), backends.ErrPending)
		require.Equal(t, made, r.b.Counts().Specials)
		require.NoError(t, k.Specialize(&r.l, false))
		require.NoError(t, k.Specialize(&r.l, true))
		require.Equal(t, made+1, r.b.Counts().Specials)
	}
	r.l = r.launch(r.m[0], r.m[1])
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))
	r.l.Fuel = 9
	require.NoError(t, r.finish(r.s, r.must(r.s.Launch(r.k, &r.l))))
}
