package workers

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts how often each chunk is taken, and by how many threads.
type counter struct {
	seen    []atomic.Int32
	threads atomic.Int32
	work    func(chunk int)
}

func (c *counter) Run(j *Job, at Seat) {
	c.threads.Add(1)
	for {
		i, ok := j.Next(&at)
		if !ok {
			return
		}
		c.seen[i].Add(1)
		if c.work != nil {
			c.work(i)
		}
	}
}

func newCounter(chunks int) *counter { return &counter{seen: make([]atomic.Int32, chunks)} }

func (c *counter) check(t *testing.T) {
	t.Helper()
	for i := range c.seen {
		if n := c.seen[i].Load(); n != 1 {
			t.Fatalf("chunk %d was taken %d times", i, n)
		}
	}
}

// TestEveryChunkOnce runs jobs from several goroutines, more than there are slots, over
// pools of several sizes.
func TestEveryChunkOnce(t *testing.T) {
	for _, threads := range []int{-1, 1, 2, 5} {
		p := New(threads)
		var callers sync.WaitGroup
		for range 12 {
			callers.Add(1)
			go func() {
				defer callers.Done()
				for n := range 200 {
					c := newCounter(n)
					p.Run(n, c)
					c.check(t)
				}
			}()
		}
		callers.Wait()
		p.Close()
	}
}

// TestWorkersHelp has a job whose first chunk ends only when another thread
// has taken the second.
func TestWorkersHelp(t *testing.T) {
	p := New(2)
	defer p.Close()
	second := make(chan struct{})
	c := newCounter(2)
	c.work = func(chunk int) {
		if chunk == 0 {
			<-second
		} else {
			close(second)
		}
	}
	p.Run(2, c)
	c.check(t)
	if n := c.threads.Load(); n != 2 {
		t.Errorf("%d threads took part", n)
	}
}

// TestStretches has two threads begin at the same time: each with its own half, which it
// takes in order, and with what is left of the other's thereafter.
func TestStretches(t *testing.T) {
	p := New(2)
	defer p.Close()
	me := goroutine()
	var mu sync.Mutex
	var caller, worker []int
	both := make(chan struct{})
	c := newCounter(9)
	c.work = func(chunk int) {
		mu.Lock()
		own := &worker
		if goroutine() == me {
			own = &caller
		}
		*own = append(*own, chunk)
		last := len(caller) > 0 && len(worker) > 0 && len(*own) == 1
		wait := len(*own) == 1 && !last
		mu.Unlock()
		if last {
			close(both)
		} else if wait {
			<-both
		}
		if own == &worker { // so slow that the caller gets to its half
			time.Sleep(20 * time.Millisecond)
		}
	}
	p.Run(9, c)
	c.check(t)
	if len(caller) < 5 || !slices.Equal(caller[:4], []int{0, 1, 2, 3}) || worker[0] != 4 {
		t.Errorf("the caller took %v, the worker %v", caller, worker)
	}
}

// TestCallerNeverWaitsForTheIdle has all workers busy with one job, while
// another is run by its caller alone.
func TestCallerNeverWaitsForTheIdle(t *testing.T) {
	p := New(2)
	defer p.Close()
	hold, inside := make(chan struct{}), make(chan struct{}, 2)
	long := newCounter(2)
	long.work = func(int) {
		inside <- struct{}{}
		<-hold
	}
	done := make(chan struct{})
	go func() {
		p.Run(2, long)
		close(done)
	}()
	<-inside
	<-inside
	c := newCounter(10)
	p.Run(10, c)
	c.check(t)
	if n := c.threads.Load(); n != 1 {
		t.Errorf("%d threads took part", n)
	}
	close(hold)
	<-done
}

// TestJobsUsedAgain has workers wake for jobs that are long over and used again.
func TestJobsUsedAgain(t *testing.T) {
	p := New(3)
	defer p.Close()
	for range 2000 {
		c := newCounter(3)
		p.Run(3, c)
		c.check(t)
	}
}

// TestNobodyTellsTheNextCaller: a caller finds that the last worker left just before it would
// have slept, and another worker comes too late. The next caller is told by its own worker.
func TestNobodyTellsTheNextCaller(t *testing.T) {
	j := &Job{left: make(chan struct{}, 1)}
	late := func() {
		j.state.Add(1)
		j.out()
	}
	j.sleep()
	late()
	j.reopen(1)
	if !j.enter() {
		t.Fatal("nobody may enter")
	}
	j.state.And(^uint32(open))
	told := make(chan uint32, 1)
	go func() {
		j.sleep()
		told <- j.state.Load()
	}()
	for j.state.Load()&waiting == 0 && len(told) == 0 {
		runtime.Gosched()
	}
	late()
	select {
	case <-told:
		t.Fatal("the caller returns while a worker is inside")
	case <-time.After(10 * time.Millisecond):
	}
	j.leave()
	if s := <-told; s&(inside|waiting) != 0 || len(j.left) != 0 {
		t.Errorf("the job's state is %#x, %d more tell", s, len(j.left))
	}
}

// TestWhoComesTooLateStaysCounted: a job that is used again has one inside who came too late for
// what it was, and goes.
func TestWhoComesTooLateStaysCounted(t *testing.T) {
	j := &Job{left: make(chan struct{}, 1)}
	j.state.Add(1)
	j.reopen(2)
	if s := j.state.Load(); s != 2*place|open|1 {
		t.Errorf("the state is %#x", s)
	}
	j.out()
	if s := j.state.Load(); s != 2*place|open || len(j.left) != 0 {
		t.Errorf("the state is %#x, %d tell", s, len(j.left))
	}
}

// TestWhatHasCountedOnAWorker: a job that was shown just before a worker sleeps woke nobody, as
// that worker was awake. It does not sleep.
func TestWhatHasCountedOnAWorker(t *testing.T) {
	p := New(2)
	defer p.Close()
	p.started.Store(1) // a worker that is this test
	j := p.begin(2, newCounter(2))
	if p.bed.pending() != 0 {
		t.Fatal("somebody was woken")
	}
	found := make(chan *Job, 1)
	go func() {
		j, _ := p.rest()
		found <- j
	}()
	select {
	case got := <-found:
		if got != j || p.asleep.Load() != 0 {
			t.Errorf("the worker found %v, %d are asleep", got, p.asleep.Load())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the worker sleeps")
	}
	j.leave()
	p.end(j)
}

// TestWhoWakesLooksAtProcessors: how many workers look about follows what Go may use by then.
func TestWhoWakesLooksAtProcessors(t *testing.T) {
	p := New(2)
	defer p.Close()
	p.processors.Store(99)
	p.bed.wake(1)
	if _, quit := p.rest(); quit || int(p.processors.Load()) != runtime.GOMAXPROCS(0) {
		t.Errorf("%d processors, quit: %v", p.processors.Load(), quit)
	}
}

// TestWorkersAreShared: of two callers' jobs a worker goes to the one that fewer are in.
func TestWorkersAreShared(t *testing.T) {
	p := New(4)
	defer p.Close()
	p.started.Store(3) // they are this test
	one, other := p.begin(4, newCounter(4)), p.begin(4, newCounter(4))
	var found [2]int
	for range 4 {
		found[map[*Job]int{one: 0, other: 1}[p.find()]]++
	}
	if found != [2]int{2, 2} {
		t.Fatalf("%v workers came", found)
	}
	for _, j := range []*Job{one, other} {
		j.leave()
		j.leave()
		p.end(j)
	}
}

// TestClosedPoolsStartNobody: who has a pool that is closed meanwhile works alone.
func TestClosedPoolsStartNobody(t *testing.T) {
	p := New(4)
	p.Close()
	c := newCounter(8)
	j := p.begin(8, c)
	if j.helpers != 0 || p.started.Load() != 0 {
		t.Errorf("%d helpers, %d workers", j.helpers, p.started.Load())
	}
	p.takePart(j)
	c.check(t)
}

// TestPanics has a task panic on a worker, on the caller's thread and on both:
// the caller gets the panic when nobody is in the task any more, and the pool
// works as before.
func TestPanics(t *testing.T) {
	p := New(2)
	defer p.Close()
	for round := range 300 {
		onCaller, onWorker := round%3 != 0, round%3 != 1
		var inside atomic.Int32
		both := make(chan struct{})
		var arrived atomic.Int32
		me := goroutine()
		c := newCounter(2)
		c.work = func(int) {
			inside.Add(1)
			defer inside.Add(-1)
			if arrived.Add(1) == 2 {
				close(both)
			}
			<-both
			if mine := goroutine() == me; mine && onCaller || !mine && onWorker {
				panic("oh")
			}
			time.Sleep(100 * time.Microsecond)
		}
		func() {
			defer func() {
				r := recover()
				if n := inside.Load(); n != 0 {
					t.Errorf("%d threads are in the task after Run", n)
				}
				if worker, ok := r.(*Panic); onCaller && r != "oh" || !onCaller && (!ok || worker.Value != "oh" || len(worker.Stack) == 0) {
					t.Errorf("Run panics with %v", r)
				}
			}()
			p.Run(2, c)
		}()
		again := newCounter(5)
		p.Run(5, again)
		again.check(t)
	}
}

// meeting is a task of a caller and one worker, who both have entered before either does
// anything: what befalls the worker comes before the caller's part, in it or after it.
type meeting struct {
	when             string
	event, own       func() // of the worker, of the caller
	entered, proceed chan struct{}
	inside           atomic.Int32
	chunks           atomic.Int32
}

func (m *meeting) Run(j *Job, at Seat) {
	m.inside.Add(1)
	defer m.inside.Add(-1)
	if at.stretch != 0 {
		close(m.entered)
		<-m.proceed
		for m.when == "after" && j.state.Load()&open != 0 { // until the caller waits for us
			runtime.Gosched()
		}
		m.event()
		return
	}
	<-m.entered
	left := func() {
		close(m.proceed)
		for j.state.Load()&inside != 0 {
			runtime.Gosched()
		}
	}
	if m.when == "before" {
		left()
	}
	for _, ok := j.Next(&at); ok; _, ok = j.Next(&at) {
		if m.chunks.Add(1) == 1 && m.when == "in" {
			left()
		}
	}
	if m.when == "after" {
		close(m.proceed)
	}
	m.own()
}

// TestWhenWorkersEnd has a worker end before, in and after the caller's part, by a panic or
// not: the caller hears of it whenever it was, and nobody is in the task thereafter.
func TestWhenWorkersEnd(t *testing.T) {
	p := New(2)
	defer p.Close()
	nothing := func() {}
	for _, c := range []struct {
		name       string
		event, own func()
		want       any // what Run panics with; a worker's is in a *Panic
		chunks     map[string]int32
	}{
		{"leaves", nothing, nothing, nil, map[string]int32{"before": 6, "in": 6, "after": 6}},
		{"panics", func() { panic("worker") }, nothing, "worker", map[string]int32{"before": 0, "in": 1, "after": 6}},
		{"leaves a caller that panics", nothing, func() { panic("caller") }, "caller", map[string]int32{"before": 6, "in": 6, "after": 6}},
		{"panics as the caller does", func() { panic("worker") }, func() { panic("caller") }, "caller", map[string]int32{"before": 0, "in": 1, "after": 6}},
	} {
		for when, chunks := range c.chunks {
			t.Run(c.name+" "+when, func(t *testing.T) {
				for range 20 {
					m := &meeting{when: when, event: c.event, own: c.own, entered: make(chan struct{}), proceed: make(chan struct{})}
					func() {
						defer func() {
							r := recover()
							if worker, ok := r.(*Panic); ok {
								r = worker.Value
							}
							if r != c.want {
								t.Errorf("Run panics with %v; expected %v", r, c.want)
							}
						}()
						p.Run(6, m)
					}()
					if n := m.inside.Load(); n != 0 {
						t.Errorf("%d threads are in the task after Run", n)
					}
					if n := m.chunks.Load(); n != chunks {
						t.Errorf("the caller took %d chunks; expected %d", n, chunks)
					}
					again := newCounter(5)
					p.Run(5, again)
					again.check(t)
				}
			})
		}
	}
}

// TestPanicsEndTheJob: after a panic chunks that were not begun are left out, by all
// threads, whoever panics; of several panics of workers the caller gets the first.
func TestPanicsEndTheJob(t *testing.T) {
	p := New(3)
	defer p.Close()
	for _, onCaller := range []bool{true, false} {
		me := goroutine()
		var begun atomic.Int32
		all, told := make(chan struct{}), make(chan struct{})
		c := newCounter(3000)
		c.work = func(int) {
			switch n := begun.Add(1); {
			case n > 3:
				return
			case n == 3:
				close(all)
			}
			<-all // each of the threads has one
			if mine := goroutine() == me; mine == onCaller && begun.CompareAndSwap(3, 4) {
				defer close(told)
				panic("first")
			} else {
				<-told
				time.Sleep(5 * time.Millisecond)
				if !mine && !onCaller {
					panic("second")
				}
			}
		}
		func() {
			defer func() {
				r := recover()
				if worker, ok := r.(*Panic); onCaller && r != "first" || !onCaller && (!ok || worker.Value != "first" || len(worker.Stack) == 0) {
					t.Errorf("Run panics with %v", r)
				}
			}()
			p.Run(3000, c)
		}()
		if n := c.threads.Load(); n != 3 {
			t.Errorf("%d threads took part", n)
		}
		if n := begun.Load(); n != 4 {
			t.Errorf("%d chunks were begun after the panic", n-4)
		}
	}
}

// goroutine tells goroutines apart.
func goroutine() string {
	text := make([]byte, 64)
	text = text[:runtime.Stack(text, false)]
	return string(bytes.Fields(text)[1])
}

// TestSetThreads changes the number between jobs, and runs after Close.
func TestSetThreads(t *testing.T) {
	p := New(1)
	for _, n := range []int{4, 1, 2, 0, 100000} {
		p.SetThreads(n)
		if got := p.Threads(); got != min(max(n, 1), maxThreads) {
			t.Errorf("SetThreads(%d) gives %d", n, got)
		}
		if n < 10 {
			c := newCounter(50)
			c.work = func(int) { time.Sleep(10 * time.Microsecond) }
			p.Run(50, c)
			c.check(t)
		}
	}
	p.SetThreads(2)
	p.Close()
	p.Close()
	c := newCounter(5)
	p.Run(5, c)
	c.check(t)
}

// TestShare: what is short is done alone; what is long is shared; what is between only with
// workers that are awake, or if it comes again at once, so that they wake.
func TestShare(t *testing.T) {
	p := New(1)
	defer p.Close()
	is := func(work float64, threads int, chunk float64) {
		t.Helper()
		if n, c := p.Share(work); n != threads || c != chunk {
			t.Errorf("%v ns of work: %d threads, chunks of %v; expected %d, %v", work, n, c, threads, chunk)
		}
	}
	is(1e9, 1, 1e9)
	p.SetThreads(4)
	for range 2 {
		is(Alone(4)-1, 1, Alone(4)-1)
		is(1e9, 4, sleepersTake/2)
	}
	is(30e3, 1, 30e3)
	time.Sleep(2 * p.lookout())
	is(30e3, 1, 30e3)
	again := false
	for range 1000 { // unless the system takes longer between two calls than workers look about
		n, _ := p.Share(30e3)
		again = again || n == 4
	}
	if !again {
		t.Error("what comes again and again is done alone")
	}
	p.Run(4, newCounter(4))
	for deadline := time.Now().Add(30 * time.Second); p.Awake() == 0 && time.Now().Before(deadline); {
		p.Run(4, newCounter(4))
	}
	awake := false
	for range 1000 {
		p.Run(4, newCounter(4))
		n, c := p.Share(1e9)
		awake = awake || n == 4 && c == awakeChunk
	}
	if !awake {
		t.Error("long work is cut for workers that sleep, though they do not")
	}
	if Alone(1) < 1e300 || Alone(2) > 30e3 || Alone(64) > 50e3 || Alone(64) < Alone(16) {
		t.Error("what is done alone is too much, or too little")
	}
}

// TestWorkersFallAsleep has workers stop looking for work when there is none.
func TestWorkersFallAsleep(t *testing.T) {
	p := New(3)
	defer p.Close()
	for range 100 {
		p.Run(3, newCounter(3))
	}
	for deadline := time.Now().Add(30 * time.Second); p.Awake() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("workers are awake after half a minute")
		}
	}
	c := newCounter(3)
	p.Run(3, c)
	c.check(t)
}
