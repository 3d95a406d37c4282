package asynctest

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

func TestDevices(t *testing.T) {
	b := New(Options{Devices: 3, Memory: 1 << 20, MaxGrid: [3]uint32{7, 8, 9}, DLPackType: 12})
	infos, err := b.Devices()
	require.NoError(t, err)
	require.Len(t, infos, 3)
	require.Equal(t, Counts{}, b.Counts(), "Devices opened something")
	for i, info := range infos {
		require.True(t, info.Asynchronous)
		require.False(t, info.HostVisible)
		require.EqualValues(t, i, info.DLPackID)
		require.EqualValues(t, 12, info.DLPackType)
		require.EqualValues(t, 1<<20, info.MemoryBytes)
		require.Equal(t, [3]uint32{7, 8, 9}, info.MaxGrid)
	}
	for _, i := range []int{-1, 3} {
		_, err = b.Open(i)
		require.ErrorContains(t, err, "there are 3")
	}
	_, err = New(Options{Devices: -1}).Devices()
	require.ErrorContains(t, err, "no device")
	infos, err = New(Options{}).Devices()
	require.NoError(t, err)
	require.Len(t, infos, 1)

	// What belongs to one device is not another's.
	one, err := b.Open(0)
	require.NoError(t, err)
	two, err := b.Open(1)
	require.NoError(t, err)
	require.Equal(t, "asynctest 1", two.Info().Name)
	m, err := one.Alloc(64)
	require.NoError(t, err)
	host, err := one.AllocHost(64)
	require.NoError(t, err)
	s, err := two.NewStream()
	require.NoError(t, err)
	_, err = s.Fill(m.Addr, 0, 4, 1)
	require.ErrorContains(t, err, "no memory that the device reaches")
	_, err = s.Fill(host.Addr, 0, 4, 1)
	require.ErrorContains(t, err, "no memory that the device reaches")
	require.ErrorContains(t, two.Free(m), "not allocated here")
	require.ErrorContains(t, one.FreeHost(m), "not allocated here")
	k := compile(t, one, double, backends.Variant{})
	_, err = s.Launch(k, &backends.Launch{})
	require.ErrorContains(t, err, "another device")
	require.Equal(t, Counts{Devices: 2, Streams: 1, Kernels: 1, Blocks: 1, HostBlocks: 1, Opens: 2, Allocs: 2, Frees: 2, Compiles: 1}, b.Counts())
	k.Release()
	require.NoError(t, s.Close())
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	require.Equal(t, Counts{Opens: 2, Allocs: 2, Frees: 2, Compiles: 1}, b.Counts())
	require.ErrorContains(t, one.Close(), "closed already")
	_, err = one.Alloc(1)
	require.ErrorContains(t, err, "closed")
}

// TestMemoryIsAway touches device memory from the host: it must not be there,
// unless the device shows it.
func TestMemoryIsAway(t *testing.T) {
	touch := func(m backends.Memory) (caught any) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { caught = recover() }()
		sink = *(*byte)(hostmem.Pointer(m.Addr))
		return nil
	}
	r := newRig(t, Options{}, double)
	require.NotNil(t, touch(r.m[0]))
	require.Nil(t, touch(r.host))
	r = newRig(t, Options{HostVisible: true}, double)
	require.Nil(t, touch(r.m[0]))
}

var sink byte

// TestHostVisible is Metal's shape: memory in place, work later.
func TestHostVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{HostVisible: true, Delay: 5 * time.Millisecond}, double)
		require.True(t, r.d.Info().HostVisible && r.d.Info().Asynchronous)
		for i := range cells(r.m[0]) {
			cells(r.m[0])[i] = uint32(i)
		}
		ticket := r.must(r.s.Launch(r.k, &r.l))
		require.Zero(t, cells(r.m[1])[7])
		require.NoError(t, r.finish(r.s, ticket))
		for i, x := range cells(r.m[1]) {
			require.EqualValues(t, 2*i, x)
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	r := newRig(t, Options{Memory: 1000, HostMemory: 8*n + 100, FailAlloc: 6, FailAllocHost: 4}, double)
	for _, c := range []struct {
		alloc func(int64) (backends.Memory, error)
		free  func(backends.Memory) error
		left  int64
	}{{r.d.Alloc, r.d.Free, 200}, {r.d.AllocHost, r.d.FreeHost, 100}} {
		_, err := c.alloc(c.left + 1)
		require.ErrorIs(t, err, backends.ErrOutOfMemory)
		require.NotErrorIs(t, err, ErrInjected)
		m, err := c.alloc(c.left)
		require.NoError(t, err)
		require.Zero(t, m.Addr%64)
		require.NoError(t, c.free(m))
		require.Error(t, c.free(m))
		_, err = c.alloc(0) // the call that is to fail, after those of the rig
		if c.left == 200 {
			require.NoError(t, err)
			_, err = c.alloc(1)
		}
		require.ErrorIs(t, err, backends.ErrOutOfMemory)
		require.ErrorIs(t, err, ErrInjected)
		m, err = c.alloc(c.left)
		require.NoError(t, err)
		require.NoError(t, c.free(m))
		_, err = c.alloc(-1)
		require.ErrorIs(t, err, backends.ErrOutOfMemory)
	}
}

// TestPoison reads and writes memory after it was freed.
func TestPoison(t *testing.T) {
	r := newRig(t, Options{HostVisible: true}, double)
	m, host := r.alloc(100), r.alloc(100)
	cells(m)[3] = 7
	require.NoError(t, r.d.Free(m))
	require.EqualValues(t, 0xdbdbdbdb, cells(m)[3])
	require.NoError(t, r.d.Free(host))
	cells(host)[0] = 1
	for range 2 * maxQuarantine / maxQuarantined {
		m = r.alloc(maxQuarantined)
		require.Zero(t, cells(m)[77])
		require.NoError(t, r.d.Free(m))
	}
	r.reports.next(t, "byte 0 of the 100 bytes")
	require.LessOrEqual(t, r.b.quarantine.bytes, int64(maxQuarantine))
	require.NoError(t, r.d.Free(r.alloc(maxQuarantined+1)))
}

// TestStall has Alloc and Free wait for work, and others go on meanwhile.
func TestStall(t *testing.T) {
	r := newRig(t, Options{Stall: true}, endless)
	m := r.alloc(100)
	r.l.Record = r.record()
	ticket := r.must(r.s.Launch(r.k, &r.l))
	done := make(chan error, 2)
	go func() { done <- r.d.Free(m) }()
	go func() {
		m, err := r.d.Alloc(100)
		if err == nil {
			err = r.d.Free(m)
		}
		done <- err
	}()
	require.Equal(t, backends.ErrPending, r.s.Wait(ticket, 20*time.Millisecond))
	require.Empty(t, done)
	r.l.Record.Stop()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.NoError(t, r.finish(r.s, ticket))
}

// TestPanicsWithoutReport: a breach is never silent.
func TestPanicsWithoutReport(t *testing.T) {
	d, err := New(Options{}).Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	require.PanicsWithValue(t, "asynctest: wait for ticket 9 of stream 1, which has given 0 so far", func() { _ = s.Wait(9, 0) })
	require.NoError(t, s.Close()) // and leaves no lock behind
	require.NoError(t, d.Close())
}
