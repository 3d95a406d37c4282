package cuda

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
)

// How many launches of the driver's a batch comes to.
func TestBatchesAreFewLaunches(t *testing.T) {
	for name, c := range map[string]struct {
		n        int
		change   func(r *fakeRig, ls []*backends.Launch)
		unproved bool
		launches int
	}{
		"two":                     {2, nil, false, 1},
		"many":                    {400, nil, false, 1},
		"many of an older driver": {400, func(r *fakeRig, _ []*backends.Launch) { r.api.Version = 12000 }, false, 5},
		"one alone":               {1, nil, false, 1},
		"none has elements":       {3, func(_ *fakeRig, ls []*backends.Launch) { ls[0].N, ls[1].N, ls[2].N = 0, 0, 0 }, false, 0},
		"one has no elements":     {3, func(_ *fakeRig, ls []*backends.Launch) { ls[1].N = 0 }, false, 1},
		"a large one among them":  {3, func(_ *fakeRig, ls []*backends.Launch) { ls[1].Slots[0].Bytes = batchBytes }, false, 2},
		"every second element":    {4, func(_ *fakeRig, ls []*backends.Launch) { ls[2].Slots[1].Stride[0] = 2; ls[3].Slots[1].Stride[0] = 3 }, false, 2},
		"two dimensions":          {4, func(_ *fakeRig, ls []*backends.Launch) { square(ls[0]); square(ls[2]) }, false, 2},
		"may fault":               {3, nil, true, 3},
		"each alone":              {3, func(_ *fakeRig, ls []*backends.Launch) { ls[0].Batch, ls[1].Batch, ls[2].Batch = 0, 0, 0 }, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, fakeAdd, 3)
			k := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: !c.unproved})
			ls := r.batch(c.n)
			if c.change != nil {
				c.change(r, ls)
			}
			ticket, err := r.launches(k, ls)
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

func (r *fakeRig) launches(k backends.Kernel, ls []*backends.Launch) (backends.Ticket, error) {
	return r.s.LaunchBatch(k, len(ls), func(i int) *backends.Launch { return ls[i] })
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
	_, err := r.launches(other.k, r.batch(2))
	require.ErrorContains(t, err, "of another device")
	ls := r.batch(3)
	ls[2].Slots[1].Addr++
	_, err = r.launches(k, ls)
	require.ErrorContains(t, err, "slot 1: address")
	r.run()
	require.Zero(t, r.ran)
	r.foreign[r.s.handle] = true // by others
	ticket, err := r.launches(k, r.batch(2))
	require.ErrorIs(t, err, backends.ErrCaptured)
	require.Zero(t, ticket)
	delete(r.foreign, r.s.handle)
	k.Release()
	other.close(t)
	r.close(t)
}

// What the kernel of a batch is given: of each launch, in their order, its first block, its lanes and where its slots lie.
func TestWhatABatchIsGiven(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	k := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: true}).(*kernel)
	ls := r.batch(5)
	for i, l := range ls {
		n := int64(100 + 200*i)
		l.Shape[0], l.N = n, uint64(n)
		for j := range l.Slots {
			l.Slots[j].Shape[0], l.Slots[j].Addr = n, r.l.Slots[j].Addr+uintptr(8*i)
		}
	}
	ls[3].N = 0
	given := make([]byte, ptx.NarrowBatch)
	blocks := uint32(0)
	launch := r.api.Launch
	r.api.Launch = func(fn driver.Func, gx, gy, gz, bx, by, bz, shared uint32, s driver.Stream, params, extra *unsafe.Pointer) driver.Result {
		blocks = gx
		copy(given, unsafe.Slice((*byte)(*params), len(given)))
		return launch(fn, gx, gy, gz, bx, by, bz, shared, s, params, extra)
	}
	_, err := r.launches(k, ls)
	require.NoError(t, err)
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(given[at:]) }
	at := k.program.Layout.Bytes
	require.EqualValues(t, 4, u64(at), "launches")
	at += 8
	first := uint64(0)
	for i, l := range ls {
		if l.N == 0 {
			continue
		}
		require.Equal(t, first, u64(at), "launch %d: its first block", i)
		require.Equal(t, l.N, u64(at+8), "launch %d: lanes", i)
		for j := range l.Slots {
			require.EqualValues(t, l.Slots[j].Addr, u64(at+16+8*j), "launch %d: slot %d", i, j)
		}
		first += (l.N + ownLanes - 1) / ownLanes
		at += 8 * (2 + 3)
	}
	require.EqualValues(t, first, blocks)
	r.run()
	k.Release()
	r.close(t)
}

// How a launch goes depends on how many are queued with it, and on what its program does.
func TestWhatGoesInBatches(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		slots int
		batch bool
	}{
		"a map":      {fakeAdd, 3, true},
		"many slots": {manySlots(), 12, false},
	} {
		r := newFakeRig(t, c.text, c.slots)
		k := compileUnit(t, r.d, c.text, backends.Variant{Proved: true}).(*kernel)
		l := r.batch(2)[0]
		require.Equal(t, c.batch, k.batch(l) > 0, name)
		k.Release()
		r.close(t)
	}
	r := newFakeRig(t, fakeAdd, 3)
	k := compileUnit(t, r.d, fakeAdd, backends.Variant{Proved: true}).(*kernel)
	few, many := r.batch(2)[0], r.batch(4000)[0]
	for l, vector := range map[*backends.Launch]bool{few: false, many: true} {
		var space ptx.Space
		k.program.Layout.Fuse(l, &space)
		require.Equal(t, vector, k.options(l, &space).Vector > 0, "of %d launches", l.Batch)
	}
	for range singleAfter + 3 { // the same again and again is no graph of one kernel
		_, err := r.launches(k, r.batch(3))
		require.NoError(t, err)
	}
	require.Empty(t, r.execs)
	r.run()
	k.Release()
	r.close(t)
	_, err := r.launches(k, r.batch(3))
	require.ErrorContains(t, err, "closed")
}

func manySlots() (text string) {
	for i := range 12 {
		text += "slot s" + string(rune('a'+i)) + " f32\n"
	}
	text += "mov.f32 x, 0x0p+0\n"
	for i := range 11 {
		text += "ldg.f32 y, s" + string(rune('a'+i)) + "[index]\nadd.f32 x, x, y\n"
	}
	return text + "stg.f32 x, sl[index]\nexit"
}
