package asynctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestWrappedStreams has work of ours between that of a queue's owner.
func TestWrappedStreams(t *testing.T) {
	r := newRig(t, Options{Delay: time.Millisecond}, double)
	f := r.b.NewForeign(0)
	s, err := r.d.WrapStream(f.Native())
	require.NoError(t, err)
	order := make(chan string, 3)
	host := cells(r.host)
	f.Do(20*time.Millisecond, func() { // ours waits for this
		for i := range n {
			host[i] = uint32(i)
		}
		order <- "before"
	})
	r.must(s.Copy(r.m[0].Addr, r.host.Addr, 4*n))
	r.must(s.Launch(r.k, &r.l))
	ticket := r.must(s.Copy(r.host.Addr+4*n, r.m[1].Addr, 4*n))
	var then uint32
	after := f.Do(0, func() { // and this for ours
		then = host[n+7]
		order <- "after"
	})
	require.EqualValues(t, 3, ticket)
	require.Equal(t, backends.ErrPending, s.Wait(ticket, 5*time.Millisecond))
	<-after
	require.Equal(t, "before", <-order)
	require.Equal(t, "after", <-order)
	require.EqualValues(t, 14, then)
	require.Equal(t, ticket, s.Passed())

	// Another stream waits for the wrapped one, and it for that.
	last := r.must(s.Fill(r.m[0].Addr, 5, 4, n))
	require.NoError(t, r.s.Await(s, last))
	mine := r.must(r.s.Launch(r.k, &r.l))
	require.NoError(t, s.Await(r.s, mine))
	f.Do(0, func() { order <- "the owner's work waits too" })
	require.NoError(t, s.Await(r.s, mine))
	require.NoError(t, r.finish(s, r.must(s.Copy(r.host.Addr, r.m[1].Addr, 4*n))))
	require.EqualValues(t, 10, host[0])

	// A second wrap has tickets of its own, and the order of the queue.
	again, err := r.d.WrapStream(f.Native())
	require.NoError(t, err)
	require.EqualValues(t, 1, r.must(again.Fill(r.m[1].Addr, 8, 4, n)))
	require.NoError(t, r.finish(s, r.must(s.Copy(r.host.Addr, r.m[1].Addr, 4*n))))
	require.EqualValues(t, 8, host[0])
	require.NoError(t, again.Wait(1, 0))
	require.NoError(t, again.Close())

	// The wrap is closed, the queue goes on.
	require.NoError(t, s.Close())
	_, err = s.Fill(r.m[1].Addr, 8, 4, n)
	require.ErrorContains(t, err, "closed")
	<-f.Do(0, func() {})
	s, err = r.d.WrapStream(f.Native())
	require.NoError(t, err)
	require.NoError(t, r.finish(s, r.must(s.Fill(r.m[1].Addr, 8, 4, n))))
	require.NoError(t, s.Close())
	f.Close()
	_, err = r.d.WrapStream(f.Native())
	require.ErrorContains(t, err, "has none numbered")
}

// TestTheOwnersOrderCounts: who has synchronized the owner's queue knows that
// our work on it has passed.
func TestTheOwnersOrderCounts(t *testing.T) {
	r := newRig(t, Options{Delay: 5 * time.Millisecond}, double)
	f := r.b.NewForeign(0)
	s, err := r.d.WrapStream(f.Native())
	require.NoError(t, err)
	m, err := r.b.NewForeignMemory(0, 4*n)
	require.NoError(t, err)
	r.write(r.m[0], 3)
	l := r.launch(r.m[0], m)
	_, err = s.Launch(r.k, &l)
	require.ErrorContains(t, err, "slot 1") // it is to be imported first
	require.NoError(t, r.d.(backends.Importer).Import(m.Addr, m.Bytes))
	r.must(s.Launch(r.k, &l))
	require.ErrorContains(t, r.b.FreeForeignMemory(0, m), "still to be done")
	r.reports.next(t, "free foreign memory: launch of 100 lanes")
	require.ErrorContains(t, r.d.Free(m), "not allocated here")
	f.Synchronize()
	require.EqualValues(t, 6, r.read(m)[0])
	r.d.(backends.Importer).Forget(m.Addr, m.Bytes)
	require.NoError(t, r.b.FreeForeignMemory(0, m))
	require.ErrorContains(t, r.b.FreeForeignMemory(0, m), "not there")
	_, err = s.Launch(r.k, &l)
	require.ErrorContains(t, err, "slot 1")
	require.NoError(t, s.Close())
	f.Close()
}

// TestTheOwnersReplaysNeedNoImport of what is the owner's: it may end while one is
// under way, and the memory may not.
func TestTheOwnersReplaysNeedNoImport(t *testing.T) {
	r := newRig(t, Options{}, double)
	f := r.b.NewForeign(0)
	s, err := r.d.WrapStream(f.Native())
	require.NoError(t, err)
	m, err := r.b.NewForeignMemory(0, 4*n)
	require.NoError(t, err)
	im := r.d.(backends.Importer)
	require.NoError(t, im.Import(m.Addr, m.Bytes))
	g := f.BeginCapture()
	stay, err := s.(backends.Guest).Join()
	require.NoError(t, err)
	r.must(s.Fill(m.Addr, 1, 4, n))
	stay.Leave()
	f.EndCapture()
	hold := make(chan struct{})
	f.Do(0, func() { <-hold })
	done := g.Replay(f)
	im.Forget(m.Addr, m.Bytes)
	require.ErrorContains(t, r.b.FreeForeignMemory(0, m), "still to be done")
	r.reports.next(t, "free foreign memory: foreign function of 1 works")
	close(hold)
	<-done
	f.Synchronize()
	g.Destroy()
	require.NoError(t, r.b.FreeForeignMemory(0, m))
	require.NoError(t, s.Close())
	f.Close()
}

func TestWrapRefuses(t *testing.T) {
	r := newRig(t, Options{Devices: 2}, double)
	for _, native := range []uintptr{0, 1, 0xf000} {
		_, err := r.d.WrapStream(native)
		require.ErrorContains(t, err, "has none numbered")
	}
	far := r.b.NewForeign(1)
	_, err := r.d.WrapStream(far.Native())
	require.ErrorContains(t, err, "device 0 has none")
	far.Close()
	_, err = r.b.NewForeignMemory(2, 1)
	require.ErrorContains(t, err, "no device 2")

	// While the owner captures, what we queued would be done when it replays.
	f := r.b.NewForeign(0)
	s, err := r.d.WrapStream(f.Native())
	require.NoError(t, err)
	f.BeginCapture()
	var no *backends.Unsupported
	_, err = s.Launch(r.k, &r.l)
	require.ErrorAs(t, err, &no)
	_, err = s.Fill(r.m[0].Addr, 0, 4, n)
	require.ErrorAs(t, err, &no)
	require.ErrorAs(t, s.Await(r.s, 0), &no)
	require.ErrorAs(t, s.(backends.Capturer).BeginCapture(), &no)
	f.EndCapture()
	require.NoError(t, r.finish(s, r.must(s.Launch(r.k, &r.l))))
	require.NoError(t, s.Close())
	f.Close()
}
