package asynctest

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

func TestLaterInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Delay: 20 * time.Millisecond}, double)
		for i := range n {
			cells(r.host)[i] = uint32(i)
		}
		t1 := r.must(r.s.Copy(r.m[0].Addr, r.host.Addr, 4*n))
		t2 := r.must(r.s.Launch(r.k, &r.l))
		r.l.Slots[0].Addr, r.l.N = 0, 0 // it was read
		t3 := r.must(r.s.Copy(r.host.Addr+4*n, r.m[1].Addr, 4*n))
		require.Equal(t, []backends.Ticket{1, 2, 3}, []backends.Ticket{t1, t2, t3})
		require.Zero(t, r.s.Passed())
		require.Equal(t, backends.ErrPending, r.s.Wait(t3, 0))
		require.Equal(t, backends.ErrPending, r.s.Wait(t3, time.Microsecond))
		require.NoError(t, r.finish(r.s, t1))
		require.NoError(t, r.finish(r.s, t3))
		require.Equal(t, t3, r.s.Passed())
		require.NoError(t, r.s.Wait(t2, 0))
		for i, x := range cells(r.host)[n:] {
			require.EqualValues(t, 2*i, x)
		}
		require.NoError(t, r.s.Wait(0, 0))
	})
}

// TestFailuresStayWithTheirTicket has one of each kind fail: just that is told,
// whatever was waited for before, and what it would have done is not done.
func TestFailuresStayWithTheirTicket(t *testing.T) {
	r := newRig(t, Options{FailLaunch: 2, FailCopy: 2, FailFill: 1}, double)
	r.write(r.m[0], 1)
	queue := func() []backends.Ticket {
		return []backends.Ticket{
			r.must(r.s.Launch(r.k, &r.l)),
			r.must(r.s.Launch(r.k, &r.l)),
			r.must(r.s.Copy(r.m[0].Addr, r.m[1].Addr, 4*n)),
			r.must(r.s.Fill(r.m[0].Addr, 9, 4, n)),
			r.must(r.s.Launch(r.k, &r.l)),
		}
	}
	all := queue()
	require.NoError(t, r.finish(r.s, all[4]))
	for i, fails := range []bool{false, true, true, true} {
		err := r.s.Wait(all[i], 0)
		if fails {
			require.ErrorIs(t, err, ErrInjected)
			require.NotErrorIs(t, err, backends.ErrLost)
		} else {
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 2, r.read(r.m[1])[0]) // neither copied nor filled
	for _, ticket := range queue() {
		require.NoError(t, r.finish(r.s, ticket)) // each but once
	}
}

func TestFill(t *testing.T) {
	r := newRig(t, Options{}, double)
	for _, size := range []int{1, 2, 4, 8} {
		r.must(r.s.Fill(r.m[0].Addr, 0, 1, 4*n))
		r.must(r.s.Fill(r.m[0].Addr+8, 0x1122334455667788, size, 3))
		got := r.read(r.m[0])
		want := make([]byte, 4*n)
		for i := range 3 * size {
			want[8+i] = byte(uint64(0x1122334455667788) >> (8 * (i % size)))
		}
		require.Equal(t, want, unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), 4*n), size)
	}
	require.NoError(t, r.finish(r.s, r.must(r.s.Fill(0, 1, 4, 0))))
	require.NoError(t, r.finish(r.s, r.must(r.s.Copy(0, 0, 0))))
	_, err := r.s.Fill(r.m[0].Addr, 0, 3, 1)
	require.ErrorContains(t, err, "3 bytes")
	_, err = r.s.Fill(r.m[0].Addr+1, 0, 2, 1)
	require.ErrorContains(t, err, "multiple")
	_, err = r.s.Fill(r.m[0].Addr, 0, 4, -1)
	require.Error(t, err)
	_, err = r.s.Fill(r.m[0].Addr, 0, 8, 1<<61)
	require.Error(t, err)
	_, err = r.s.Copy(r.m[0].Addr, r.m[1].Addr, -1)
	require.Error(t, err)
	_, err = r.s.Copy(r.m[0].Addr, r.m[0].Addr+4, 8)
	require.ErrorContains(t, err, "overlap")
}

// TestOnlyTheDevicesMemory copies, fills and launches on memory that a device
// does not reach.
func TestOnlyTheDevicesMemory(t *testing.T) {
	for _, visible := range []bool{false, true} {
		r := newRig(t, Options{HostVisible: visible}, double)
		plain, err := hostmem.Alloc(4 * n)
		require.NoError(t, err)
		defer hostmem.Free(plain, 4*n)
		heap := make([]byte, 4*n)
		for _, addr := range []uintptr{plain, uintptr(unsafe.Pointer(&heap[0])), 0, r.m[0].Addr + 4, r.host.Addr + 5*n, ^uintptr(0) - 4} {
			_, err = r.s.Copy(addr, r.m[1].Addr, 4*n)
			require.ErrorContains(t, err, "destination")
			_, err = r.s.Copy(r.m[1].Addr, addr, 4*n)
			require.ErrorContains(t, err, "source")
			_, err = r.s.Fill(addr&^3, 0, 4, n+1)
			require.ErrorContains(t, err, "no memory that the device reaches")
			l := r.launch(r.m[0], backends.Memory{Addr: addr &^ 3})
			if l.Slots[1].Addr != 0 {
				_, err = r.s.Launch(r.k, &l)
				require.ErrorContains(t, err, "slot 1")
			}
		}
		l := r.launch(r.m[0], r.host)
		_, err = r.s.Launch(r.k, &l)
		require.ErrorContains(t, err, "AllocHost")
		l = r.launch(r.m[0], r.m[0])
		l.Slots[1].Stride[0] = 2
		_, err = r.s.Launch(r.k, &l)
		require.ErrorContains(t, err, "slot 1")
		l = r.launch(r.m[0], r.m[1])
		l.Slots[1].Addr += 2
		_, err = r.s.Launch(r.k, &l)
		require.ErrorContains(t, err, "multiple")
		require.Zero(t, r.s.last)
	}
}

// TestAwait has a stream wait on the device for another, to and fro.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Delay: 20 * time.Millisecond}, double)
		other := r.second()
		r.write(r.m[0], 1)
		streams := []*stream{r.s, other}
		begin := time.Now()
		var last backends.Ticket
		for i := range 20 { // doubles a into c and c into a, by turns
			l := r.launch(r.m[i%2], r.m[1-i%2])
			s, before := streams[i%2], streams[1-i%2]
			if last > 0 {
				require.NoError(t, s.Await(before, last))
			}
			last = r.must(s.Launch(r.k, &l))
		}
		require.Zero(t, time.Since(begin), "the host waited")
		require.NoError(t, r.finish(other, last))
		for i, x := range r.read(r.m[0]) {
			require.EqualValues(t, uint32(i+1)<<20, x)
		}
	})
}

// TestAwaitAcross has two streams await each other's earlier work, many times
// over: nothing is a cycle.
func TestAwaitAcross(t *testing.T) {
	r := newRig(t, Options{Delay: 100 * time.Microsecond}, double)
	other := r.second()
	spare := r.alloc(4 * n)
	var t1, t2 backends.Ticket
	for range 50 {
		t1 = r.must(r.s.Fill(r.m[0].Addr, 1, 4, n))
		t2 = r.must(other.Fill(spare.Addr, 1, 4, n))
		require.NoError(t, r.s.Await(other, t2))
		require.NoError(t, other.Await(r.s, t1))
		require.NoError(t, r.s.Await(r.s, t1))
	}
	require.NoError(t, r.finish(r.s, t1))
	require.NoError(t, r.finish(other, t2))
}

func TestAwaitRefuses(t *testing.T) {
	r := newRig(t, Options{Devices: 2}, double)
	other := r.second()
	require.ErrorContains(t, r.s.Await(other, 1), "has given 0")
	r.reports.next(t, "has given 0")
	d, err := r.b.Open(1)
	require.NoError(t, err)
	far, err := d.NewStream()
	require.NoError(t, err)
	require.ErrorContains(t, r.s.Await(far, 0), "another device")
	require.NoError(t, far.Close())
	require.NoError(t, d.Close())
	// A stream that is closed has done its work.
	gone := r.stream()
	ticket := r.must(gone.Fill(r.m[0].Addr, 1, 4, n))
	require.NoError(t, r.finish(gone, ticket))
	require.NoError(t, gone.Close())
	require.NoError(t, r.s.Await(gone, ticket))
	require.ErrorContains(t, gone.Await(r.s, 0), "closed")
}

func TestWaitRefuses(t *testing.T) {
	r := newRig(t, Options{}, double)
	require.Error(t, r.s.Wait(1, 0))
	r.reports.next(t, "has given 0")
	ticket := r.must(r.s.Fill(r.m[0].Addr, 1, 4, n))
	require.NoError(t, r.finish(r.s, ticket))
	require.Error(t, r.s.Wait(ticket, 0))
	r.reports.next(t, "has been waited for")
}

func TestCancel(t *testing.T) {
	// One is cancelled while it waits, one while it runs.
	for _, delay := range []time.Duration{time.Hour, 0} {
		r := newRig(t, Options{Delay: delay}, endless)
		r.l.Record = r.record()
		ticket := r.must(r.s.Launch(r.k, &r.l))
		require.Equal(t, backends.ErrPending, r.s.Wait(ticket, 5*time.Millisecond))
		r.l.Record.Stop()
		require.NoError(t, r.finish(r.s, ticket))
		require.Equal(t, backends.ErrCancelled, r.l.Record.Outcome())
	}
}

// TestLost loses the device with work queued on two streams.
func TestLost(t *testing.T) {
	r := newRig(t, Options{Lose: 3, Delay: 5 * time.Millisecond}, double)
	other := r.second()
	spare := r.alloc(4 * n)
	var tickets []backends.Ticket
	for range 5 {
		tickets = append(tickets, r.must(r.s.Launch(r.k, &r.l)))
	}
	require.NoError(t, other.Await(r.s, tickets[4]))
	behind := r.must(other.Fill(spare.Addr, 1, 4, n))
	for i, ticket := range tickets {
		if err := r.finish(r.s, ticket); i < 2 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, backends.ErrLost, i)
		}
	}
	require.ErrorIs(t, r.finish(other, behind), backends.ErrLost)
	require.Equal(t, tickets[4], r.s.Passed())
	_, err := r.s.Fill(spare.Addr, 1, 4, n)
	require.ErrorIs(t, err, backends.ErrLost)
	_, err = r.s.Launch(r.k, &r.l)
	require.ErrorIs(t, err, backends.ErrLost)
	_, err = r.d.Alloc(1)
	require.ErrorIs(t, err, backends.ErrLost)
	_, err = r.d.AllocHost(1)
	require.ErrorIs(t, err, backends.ErrLost)
	require.ErrorIs(t, r.d.Free(spare), backends.ErrLost)
	_, err = r.d.Compile(unit(t, double), backends.Variant{})
	require.ErrorIs(t, err, backends.ErrLost)
	_, err = r.d.NewStream()
	require.ErrorIs(t, err, backends.ErrLost)
	require.ErrorIs(t, r.s.BeginCapture(), backends.ErrLost)
}

// TestFullQueue queues more than there is room for behind an endless launch:
// the caller waits, others do not.
func TestFullQueue(t *testing.T) {
	r := newRig(t, Options{Queue: 4}, endless)
	r.l.Record = r.record()
	other, spare := r.second(), r.alloc(4*n)
	first := r.must(r.s.Launch(r.k, &r.l))
	done := make(chan error)
	go func() {
		var err error
		for range 8 {
			if err == nil {
				_, err = r.s.Fill(r.m[0].Addr, 1, 4, n)
			}
		}
		done <- err
	}()
	select {
	case <-done:
		t.Fatal("the queue has no end")
	case <-time.After(20 * time.Millisecond):
	}
	require.NoError(t, r.finish(other, r.must(other.Fill(spare.Addr, 1, 4, n))))
	require.Equal(t, backends.ErrPending, r.s.Wait(first, 0))
	r.l.Record.Stop()
	require.NoError(t, <-done)
	require.NoError(t, r.finish(r.s, first+8))
}

func TestClosed(t *testing.T) {
	r := newRig(t, Options{Delay: 5 * time.Millisecond}, double)
	s := r.stream()
	require.ErrorContains(t, r.d.Close(), "2 of its streams")
	ticket := r.must(s.Fill(r.m[0].Addr, 7, 4, n))
	require.NoError(t, s.Close())
	r.reports.next(t, "tickets 1 to 1 have not passed")
	require.NoError(t, s.Wait(ticket, 0))
	require.ErrorContains(t, s.Close(), "closed already")
	_, err := s.Fill(r.m[0].Addr, 7, 4, n)
	require.ErrorContains(t, err, "closed")
	require.EqualValues(t, 7, r.read(r.m[0])[0])
}

// TestTwoCallsThatQueue has a call queue while another does, which waits for
// room in the queue.
func TestTwoCallsThatQueue(t *testing.T) {
	r := newRig(t, Options{Queue: 1, Delay: 20 * time.Millisecond}, double)
	var last backends.Ticket
	inside := make(chan error, 1)
	go func() {
		for range 3 {
			ticket, err := r.s.Launch(r.k, &r.l)
			if err != nil {
				inside <- err
			}
			last = ticket
		}
		inside <- nil
	}()
	require.Eventually(t, func() bool { return r.b.Counts().Launches == 3 }, 5*time.Second, 100*time.Microsecond)
	other := r.second()
	require.NoError(t, r.s.Await(other, 0))
	r.reports.next(t, "await on stream 1 while another call queues on it")
	require.NoError(t, <-inside)
	require.NoError(t, r.finish(r.s, last))
}
