package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// How many launches of the driver's a batch comes to.
func TestBatchesAreFewLaunches(t *testing.T) {
	for name, c := range map[string]struct {
		n        int
		change   func(r *fakeRig, ls []*backends.Launch)
		unproved bool
		launches int
	}{
		"two":                      {2, nil, false, 1},
		"many":                     {400, nil, false, 1},
		"many of an older driver":  {400, func(r *fakeRig, _ []*backends.Launch) { r.api.Version = 12000 }, false, 7},
		"one alone":                {1, nil, false, 1},
		"none has elements":        {3, func(_ *fakeRig, ls []*backends.Launch) { ls[0].N, ls[1].N, ls[2].N = 0, 0, 0 }, false, 0},
		"one has no elements":      {3, func(_ *fakeRig, ls []*backends.Launch) { ls[1].N = 0 }, false, 1},
		"a large one among them":   {3, func(_ *fakeRig, ls []*backends.Launch) { ls[1].Slots[0].Bytes = batchBytes }, false, 2},
		"strides that are others'": {4, func(_ *fakeRig, ls []*backends.Launch) { ls[2].Slots[1].Stride[0] = 2; ls[3].Slots[1].Stride[0] = 2 }, false, 1},
		"two dimensions":           {4, func(_ *fakeRig, ls []*backends.Launch) { square(ls[0]); square(ls[2]) }, false, 2},
		"may fault":                {3, nil, true, 3},
		"each alone":               {3, func(_ *fakeRig, ls []*backends.Launch) { ls[0].Batch, ls[1].Batch, ls[2].Batch = 0, 0, 0 }, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, fakeAdd, 3)
			k := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: !c.unproved})
			ls := r.batch(c.n)
			if c.change != nil {
				c.change(r, ls)
			}
			ticket, err := r.s.LaunchBatch(k, ls)
			require.NoError(t, err)
			require.Equal(t, c.launches > 0, ticket > 0)
			r.run()
			if ticket > 0 {
				require.NoError(t, r.s.Wait(ticket, 0))
			}
			require.Equal(t, c.launches, r.ran)
			k.Release()
			r.close(t)
		})
	}
}

// batch is n launches as the rig's.
func (r *fakeRig) batch(n int) (ls []*backends.Launch) {
	for range n {
		l := r.l
		l.Slots, l.Batch = append([]backends.View(nil), l.Slots...), n
		ls = append(ls, &l)
	}
	return ls
}

// square makes a launch one of 32×32 elements, every second row.
func square(l *backends.Launch) {
	l.Rank, l.Shape[0], l.Shape[1] = 2, 32, 32
	for i := range l.Slots {
		v := &l.Slots[i]
		v.Rank, v.Shape, v.Stride[0], v.Stride[1] = 2, l.Shape, 64, 1
	}
}

// What a batch is refused for leaves nothing queued.
func TestBatchesThatAreRefused(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	k := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: true})
	other := newFakeRig(t, fakeAdd, 3)
	_, err := r.s.LaunchBatch(other.k, r.batch(2))
	require.ErrorContains(t, err, "of another device")
	ls := r.batch(3)
	ls[2].Slots[1].Addr++
	_, err = r.s.LaunchBatch(k, ls)
	require.ErrorContains(t, err, "slot 1: address")
	r.run()
	require.Zero(t, r.ran)
	r.foreign[r.s.handle] = true // by others
	ticket, err := r.s.LaunchBatch(k, r.batch(2))
	require.ErrorIs(t, err, backends.ErrCaptured)
	require.Zero(t, ticket)
	delete(r.foreign, r.s.handle)
	k.Release()
	other.close(t)
	r.close(t)
}
