package memory

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
)

// noting is a stream that notes whom it was made to wait for.
type noting struct {
	backends.Stream
	name   string
	passed backends.Ticket
	awaits []string
}

func (s *noting) Passed() backends.Ticket { return s.passed }

func (s *noting) Await(other backends.Stream, t backends.Ticket) error {
	s.awaits = append(s.awaits, fmt.Sprint(other.(*noting).name, t))
	return nil
}

func newLine(name string) (*Line, *noting) {
	s := &noting{name: name}
	return &Line{Stream: s}, s
}

// TestOrderOfStreams has three streams use memory: a reader waits for the last
// writer, a writer for all readers since, and nobody for himself or for what
// has passed.
func TestOrderOfStreams(t *testing.T) {
	a, as := newLine("a")
	b, bs := newLine("b")
	c, cs := newLine("c")
	m := &Memory{}
	use := func(l *Line, s *noting, ticket backends.Ticket, writes bool, want ...string) {
		t.Helper()
		s.awaits = nil
		require.NoError(t, m.Before(l, writes))
		require.Equal(t, want, s.awaits)
		m.After(l, ticket, writes)
	}
	use(a, as, 1, true)
	use(a, as, 2, false)
	use(b, bs, 1, false, "a1")
	use(c, cs, 1, false, "a1")
	use(b, bs, 2, false, "a1")
	use(a, as, 3, true, "b2", "c1")
	use(c, cs, 2, true, "a3")
	cs.passed = 2
	use(a, as, 4, false)
	a.Close()
	use(b, bs, 3, true)
}

// sharing is a stream on which others enter code.
type sharing struct {
	noting
	given backends.Ticket
}

func (s *sharing) Given() backends.Ticket { return s.given }

type endless struct{}

func (endless) End() {}

// TestWhatIsLent is a pool's memory, to a stream of which somebody can tell what it was given.
func TestWhatIsLent(t *testing.T) {
	shared := func(given backends.Ticket) *Line { return &Line{Stream: &sharing{given: given}} }
	alone, _ := newLine("a")
	closed := shared(1)
	closed.Close()
	for name, c := range map[string]struct {
		m    *Memory
		l    *Line
		none bool // there is no room for loans
		lent bool
	}{
		"a pool's":                  {m: &Memory{}, l: shared(1), lent: true},
		"memory of others":          {m: Foreign(64, 64, nil, nil), l: shared(1)},
		"a stream of its own":       {m: &Memory{}, l: alone},
		"a stream without a ticket": {m: &Memory{}, l: shared(0)},
		"a stream that is closed":   {m: &Memory{}, l: closed},
		"no loan":                   {m: &Memory{}, l: shared(1), none: true},
	} {
		began := 0
		begin := func() Loan {
			if began++; c.none {
				return nil
			}
			return endless{}
		}
		for range 2 {
			require.Equal(t, c.lent, c.m.Lend(c.l, begin) != nil, name)
		}
		require.Equal(t, began == 1, c.lent, name)
		require.True(t, c.m.Claimed(shared(1)) || c.lent, name)
	}
}

// TestBlocksKnowTheirUsers gives blocks back before work on them has passed.
func TestBlocksKnowTheirUsers(t *testing.T) {
	p := NewPool(host(t), 0)
	a, as := newLine("a")
	b, bs := newLine("b")
	c, cs := newLine("c")
	take := func(l *Line) *Memory {
		t.Helper()
		m, _, err := p.Take(l, 2<<20, nil)
		require.NoError(t, err)
		return m
	}
	m := take(a)
	addr := m.Addr
	require.NoError(t, m.Before(a, true))
	m.After(a, 7, true)
	m.Release()

	again := take(a)
	require.Equal(t, addr, again.Addr, "the same stream may use it at once")
	require.Empty(t, as.awaits)
	// Another stream that uses it first waits for the earlier owner's work.
	require.NoError(t, again.Before(b, true))
	require.Equal(t, []string{"a7"}, bs.awaits)
	again.Release()

	other := take(b)
	require.NotEqual(t, addr, other.Addr, "another stream gets a fresh block while there is one")
	host := take(nil)
	require.NotEqual(t, addr, host.Addr, "the host must not touch it")
	require.NoError(t, p.SetLimit(p.Stats().Reserved))
	bs.awaits = nil
	last := take(b)
	require.Equal(t, addr, last.Addr, "where there is no other it waits, on the device")
	require.Empty(t, bs.awaits, "in the turn of its work alone")
	require.False(t, last.Claimed(b))
	require.NoError(t, last.Before(b, false))
	require.Equal(t, []string{"a7"}, bs.awaits)
	last.After(b, 1, false)
	require.NoError(t, last.Before(c, false))
	require.Equal(t, []string{"a7"}, cs.awaits, "readers too, until there is a write")
	last.After(b, 2, true)
	require.True(t, last.Claimed(b))
	cs.awaits = nil
	require.NoError(t, last.Before(c, false))
	require.Equal(t, []string{"b2"}, cs.awaits)
	bs.passed = 2
	as.passed = 7
	last.Release()
	require.Equal(t, addr, take(nil).Addr)
}

// TestMemoryOfAStreamThatIsBehind has the host take blocks for a stream that is
// always some way behind: the oldest have passed, so that no more are taken than
// are in use at a time.
func TestMemoryOfAStreamThatIsBehind(t *testing.T) {
	for _, behind := range []int{0, 1, 20, 500} {
		p := NewPool(host(t), 0)
		l, s := newLine("l")
		for i := range 20 * (behind + 10) {
			m, _, err := p.Take(nil, 400, nil)
			require.NoError(t, err)
			m.After(l, backends.Ticket(i+1), true)
			m.Release()
			s.passed = backends.Ticket(max(0, i+1-behind))
		}
		require.LessOrEqual(t, p.Stats().Cached, int64(behind+1)*classSize(400), "%d behind", behind)
		for range behind + 1 { // all of them are found again, whatever order they came back in
			s.passed = backends.Ticket(1 << 40)
			_, _, err := p.Take(nil, 400, nil)
			require.NoError(t, err)
		}
		require.Zero(t, p.Stats().Cached)
	}
}

// TestMemoryBehindAnEndlessStream frees blocks of a stream that gets on, and then as
// many as are looked at first of one that never does: the former are found again.
func TestMemoryBehindAnEndlessStream(t *testing.T) {
	p := NewPool(host(t), 0)
	ends, s := newLine("ends")
	endless, _ := newLine("endless")
	free := func(l *Line) {
		var list []*Memory
		for range lookAt {
			m, _, err := p.Take(l, 400, nil)
			require.NoError(t, err)
			m.After(l, 1, true)
			list = append(list, m)
		}
		for _, m := range list {
			m.Release()
		}
	}
	free(ends)
	free(endless)
	s.passed = 1
	for range lookAt {
		_, _, err := p.Take(nil, 400, nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, lookAt, p.Stats().Reused)
}

// TestScratch lends blocks without a count.
func TestScratch(t *testing.T) {
	p := NewPool(host(t), 0)
	a, _ := newLine("a")
	b, bs := newLine("b")
	s, err := p.Scratch(a, 100, false)
	require.NoError(t, err)
	addr := s.Addr()
	s.After(a, 3)
	s.Return()
	s.Return()
	require.False(t, s.Held())
	require.Zero(t, p.Stats().InUse)
	again, err := p.Scratch(a, 100, false)
	require.NoError(t, err)
	require.Equal(t, addr, again.Addr())
	again.After(a, 4)
	again.Return()
	other, err := p.Scratch(b, 100, false)
	require.NoError(t, err)
	require.NotEqual(t, addr, other.Addr())
	require.Empty(t, bs.awaits)
}

// TestScratchThatIsNotUsed gives back a block on which no work came about: the
// work before is still to be waited for.
func TestScratchThatIsNotUsed(t *testing.T) {
	p := NewPool(host(t), 0)
	a, _ := newLine("a")
	b, _ := newLine("b")
	s, err := p.Scratch(a, 100, false)
	require.NoError(t, err)
	addr := s.Addr()
	s.After(a, 3)
	s.Return()
	s, err = p.Scratch(a, 100, false)
	require.NoError(t, err)
	require.Equal(t, addr, s.Addr())
	s.Return()
	s, err = p.Scratch(b, 100, false)
	require.NoError(t, err)
	require.NotEqual(t, addr, s.Addr())
}

// closing is a stream that must not be looked at when it is gone.
type closing struct {
	backends.Stream
	gone atomic.Bool
	bad  atomic.Bool
}

func (s *closing) Passed() backends.Ticket {
	for range 100 {
		if s.gone.Load() {
			s.bad.Store(true)
		}
	}
	return 1
}

// TestNobodyLooksAtAClosedStream looks at a stream that is closed meanwhile.
func TestNobodyLooksAtAClosedStream(t *testing.T) {
	for range 200 {
		s := &closing{}
		l := &Line{Stream: s}
		var group sync.WaitGroup
		begun := make(chan struct{})
		var once sync.Once
		for range 4 {
			group.Go(func() {
				for range 100 {
					l.Passed(1)
					once.Do(func() { close(begun) })
				}
			})
		}
		<-begun
		l.Close()
		s.gone.Store(true)
		group.Wait()
		require.False(t, s.bad.Load())
	}
}

// ending is a stream that, when it is looked at, sees another end.
type ending struct {
	noting
	other *Line
}

func (s *ending) Passed() backends.Ticket {
	if s.other != nil {
		done := make(chan struct{})
		go func() { // by who holds no line, as who ends a stream
			defer close(done)
			s.other.Close()
		}()
		<-done
	}
	return s.passed
}

// TestAStreamThatEndsWhileOthersAreLookedAt looks for what has passed on two
// streams, of which the first that is looked at closes the second.
func TestAStreamThatEndsWhileOthersAreLookedAt(t *testing.T) {
	p := NewPool(host(t), 0)
	s := &ending{}
	a, b := &Line{Stream: s}, &Line{} // of which nothing can be asked
	s.other = b
	for _, l := range []*Line{b, a} { // the newest is looked at first
		m := p.newMemory(backends.Memory{Addr: 64, Bytes: 128}, 128)
		m.uses = []use{{l, 1}}
		p.keep(m)
	}
	m, _, err := p.Take(nil, 100, nil)
	require.NoError(t, err)
	require.Equal(t, []use{{b, 1}}, m.uses, "all that a closed stream was given has passed")
}

// TestForeignMemory ends memory of others: the device forgets it before its owner
// hears of it, once, and not at all if he takes the duty back.
func TestForeignMemory(t *testing.T) {
	for _, disowned := range []bool{false, true} {
		var told []string
		tell := func(s string) func() { return func() { told = append(told, s) } }
		m := Foreign(64, 100, tell("device"), tell("owner"))
		require.True(t, m.IsForeign())
		require.True(t, m.Acquire())
		want := []string{"device", "owner"}
		if disowned {
			m.Disown()
			want = want[:1]
		}
		m.Release()
		require.Empty(t, told)
		m.Release()
		require.Equal(t, want, told)
		require.False(t, m.Acquire())
		require.False(t, m.Begin())
	}
	Foreign(64, 100, nil, nil).Release()
}

// TestQuotas counts against an account what is taken, also where that fails.
func TestQuotas(t *testing.T) {
	p := NewPool(host(t), 8<<20)
	var a Account
	p.SetQuota(&a, 1000)
	m, _, err := p.Take(nil, 500, &a)
	require.NoError(t, err)
	require.EqualValues(t, 512, a.used)
	_, _, err = p.Take(nil, 500, &a)
	require.ErrorContains(t, err, "would exceed the executor's quota of 1000 bytes, of which 512 bytes is taken")
	require.EqualValues(t, 512, a.used)
	p.SetQuota(&a, 0)
	_, _, err = p.Take(nil, 16<<20, &a)
	require.ErrorContains(t, err, "would exceed the device's limit of 8 MiB")
	require.EqualValues(t, 512, a.used)
	m.Release()
	require.Zero(t, a.used)
}

// TestMemoryThatComesAgain takes, as another's, what was somebody's: nothing of
// that is left but the uses that have not passed, and a user who comes too late
// takes nothing away.
func TestMemoryThatComesAgain(t *testing.T) {
	p := NewPool(host(t), 0)
	var a Account
	l, _ := newLine("l")
	m, fresh, err := p.Take(l, 100, &a)
	require.NoError(t, err)
	require.True(t, fresh)
	m.After(l, 1, true)
	m.After(l, 2, false)
	m.Release()
	require.False(t, m.Begin(), "there is no user left to count beside")

	again, fresh, err := p.Take(l, 70, nil)
	require.NoError(t, err)
	require.Same(t, m, again)
	require.False(t, fresh)
	require.EqualValues(t, 70, again.Bytes)
	require.Equal(t, []use{{l, 1}, {l, 2}}, again.uses)
	require.Zero(t, again.order.write)
	require.Empty(t, again.order.reads)
	require.True(t, m.Begin(), "somebody who still has the former one")
	again.Release()
	require.EqualValues(t, 128, p.Stats().InUse)
	m.End()
	require.Zero(t, p.Stats().InUse)
	require.Zero(t, a.used)
}

// TestReadersThatHaveGoneAreForgotten has ever new streams read the same memory.
func TestReadersThatHaveGoneAreForgotten(t *testing.T) {
	m := &Memory{}
	w, ws := newLine("w")
	for i := range 1000 {
		l, s := newLine("r")
		m.After(l, 1, false)
		if i%2 == 0 {
			l.Close()
		} else {
			s.passed = 1
		}
	}
	busy, _ := newLine("busy")
	m.After(busy, 7, false)
	m.After(w, 1, false)
	require.LessOrEqual(t, len(m.order.reads), 2)
	require.NoError(t, m.Before(w, true))
	require.Equal(t, []string{"busy7"}, ws.awaits)
}

// looked is a stream of which nothing passes, and that tells when it was looked at.
type looked struct {
	noting
	once sync.Once
	at   chan struct{}
}

func (s *looked) Passed() backends.Ticket {
	s.once.Do(func() { close(s.at) })
	return s.passed
}

// TestTrimLeavesWhatIsInUse trims while work uses cached memory, for which Trim
// waits: others, who can wait for the work on the device, get it meanwhile.
func TestTrimLeavesWhatIsInUse(t *testing.T) {
	p := NewPool(host(t), 0)
	s := &looked{at: make(chan struct{})}
	a := &Line{Stream: s}
	b, _ := newLine("b")
	m, _, err := p.Take(a, 2<<20, nil)
	require.NoError(t, err)
	addr := m.Addr
	m.After(a, 1, true)
	m.Release()
	s.once, s.at = sync.Once{}, make(chan struct{})
	require.NoError(t, p.SetLimit(p.Stats().Reserved))
	trimmed := make(chan int64)
	go func() { trimmed <- p.Trim() }()
	<-s.at
	m, _, err = p.Take(b, 2<<20, nil)
	require.NoError(t, err)
	require.Equal(t, addr, m.Addr)
	require.Zero(t, <-trimmed)
}

// TestMemoryOnItsWayBack asks for memory within a limit, or of a device, while
// another goroutine gives as much back.
func TestMemoryOnItsWayBack(t *testing.T) {
	for _, limited := range []bool{true, false} {
		from := host(t)
		var mu sync.Mutex
		left := int64(2 << 20)
		going, goOn := make(chan struct{}), make(chan struct{})
		p := NewPool(Allocator{
			Alloc: func(n int64) (backends.Memory, error) {
				mu.Lock()
				defer mu.Unlock()
				if left -= n; left < 0 && !limited {
					left += n
					return backends.Memory{}, backends.ErrOutOfMemory
				}
				return from.Alloc(n)
			},
			Free: func(m backends.Memory) error {
				close(going)
				<-goOn
				mu.Lock()
				left += m.Bytes
				mu.Unlock()
				return from.Free(m)
			},
		}, 0)
		m, _, err := p.Take(nil, 2<<20, nil)
		require.NoError(t, err)
		if limited {
			require.NoError(t, p.SetLimit(2<<20))
		}
		m.Release()
		var group sync.WaitGroup
		group.Go(func() { p.Trim() })
		<-going
		group.Go(func() {
			time.Sleep(20 * time.Millisecond)
			close(goOn)
		})
		_, _, err = p.Take(nil, 1<<20, nil)
		require.NoError(t, err)
		group.Wait()
		require.EqualValues(t, 1<<20, p.Stats().Reserved)
	}
}

// TestMemoryThatDoesNotComeBack asks for memory while the device takes for ever
// to take some back: that is waited for for a while only.
func TestMemoryThatDoesNotComeBack(t *testing.T) {
	from := host(t)
	going, goOn := make(chan struct{}), make(chan struct{})
	p := NewPool(Allocator{Alloc: from.Alloc, Free: func(m backends.Memory) error {
		close(going)
		<-goOn
		return from.Free(m)
	}}, 2<<20)
	p.patience = 10 * time.Millisecond
	m, _, err := p.Take(nil, 2<<20, nil)
	require.NoError(t, err)
	m.Release()
	var group sync.WaitGroup
	group.Go(func() { p.Trim() })
	<-going
	_, _, err = p.Take(nil, 1<<20, nil)
	require.Equal(t, status.OutOfMemory, status.CodeOf(err))
	close(goOn)
	group.Wait()
	m, _, err = p.Take(nil, 1<<20, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, p.Stats().Reserved)
	m.Release()
}

// TestScratchThatIsInUse lends a block that work on another stream still uses,
// where there is no other: the stream waits for it.
func TestScratchThatIsInUse(t *testing.T) {
	p := NewPool(host(t), 0)
	p.patience = 0
	a, _ := newLine("a")
	b, bs := newLine("b")
	s, err := p.Scratch(a, 2<<20, false)
	require.NoError(t, err)
	addr := s.Addr()
	s.After(a, 3)
	s.Return()
	require.NoError(t, p.SetLimit(p.Stats().Reserved))
	_, err = p.Scratch(b, 2<<20, true)
	require.ErrorIs(t, err, status.ErrBusy)
	s, err = p.Scratch(b, 2<<20, false)
	require.NoError(t, err)
	require.Equal(t, addr, s.Addr())
	require.Equal(t, []string{"a3"}, bs.awaits)
	s.Return()
	_, err = p.Scratch(nil, 2<<20, false)
	require.Equal(t, status.OutOfMemory, status.CodeOf(err), "the host cannot wait on the device")
}

// nosy is a stream that, when it is looked at, asks for what its pool holds.
type nosy struct {
	noting
	p *Pool
}

func (s *nosy) Passed() backends.Ticket {
	s.p.Stats()
	return s.passed
}

// TestNobodyLooksWithTheLock looks, for all that a pool may want to know, at a
// device that waits for the pool's lock.
func TestNobodyLooksWithTheLock(t *testing.T) {
	p := NewPool(host(t), 0)
	s := &nosy{p: p}
	a := &Line{Stream: s}
	done := make(chan error)
	go func() {
		defer close(done)
		leave := func(bytes int64, ticket backends.Ticket) error {
			m, _, err := p.Take(a, bytes, nil)
			if err == nil {
				m.After(a, ticket, true)
				m.Release()
			}
			return err
		}
		for _, bytes := range []int64{100, 2 << 20, cacheFloor + 1} {
			s.passed = 0
			if err := leave(bytes, 5); err != nil {
				done <- err
			}
			s.passed = 5
			m, fresh, err := p.Take(nil, bytes, nil)
			if err != nil {
				done <- err
			} else if fresh {
				done <- errors.New("what has passed is found to have passed")
			}
			m.Release()
			a = &Line{Stream: s}
		}
		s.passed = 0
		if err := leave(3<<20, 7); err != nil {
			done <- err
		}
		s.passed = 7
		p.Trim()
	}()
	select {
	case err, more := <-done:
		require.NoError(t, err)
		require.False(t, more)
	case <-time.After(5 * time.Second):
		t.Fatal("the pool is locked while the device is asked")
	}
	require.Zero(t, p.Stats().Cached, "what has passed is given back")
}

// TestAWriterWaitsForAllReaders has many streams read before another writes.
func TestAWriterWaitsForAllReaders(t *testing.T) {
	m := &Memory{}
	var want []string
	for i := range 20 {
		l, s := newLine(fmt.Sprint("r", i, "t"))
		require.NoError(t, m.Before(l, false))
		require.Empty(t, s.awaits)
		m.After(l, 1, false)
		want = append(want, fmt.Sprint("r", i, "t1"))
	}
	w, ws := newLine("w")
	require.NoError(t, m.Before(w, true))
	require.Equal(t, want, ws.awaits)
}

// TestIdleForeignMemory waits for the end of several works on memory of others.
func TestIdleForeignMemory(t *testing.T) {
	m := Foreign(64, 64, nil, nil)
	for range 2 {
		require.Nil(t, m.Idle())
		for range 3 {
			require.True(t, m.Begin())
		}
		idle := m.Idle()
		for range 3 {
			select {
			case <-idle:
				t.Fatal("work still uses the memory")
			default:
			}
			m.End()
		}
		<-idle
	}
	require.Nil(t, m.Idle())
	m = Foreign(64, 64, nil, func() {})
	require.True(t, m.Begin())
	require.Nil(t, m.Idle(), "a deleter can tell")
	m.End()
}
