// Package workers is the pool of threads that CPU launches share. A launch is
// cut into chunks, and these into a stretch for each thread, which begins with its
// own and then helps the others: so one launch after the other finds in a
// processor's cache what it worked on before. The caller always takes part, and
// waits at the end only for workers that have begun: a pool that is busy
// elsewhere, or whose threads the system does not wake, costs nothing but help.
package workers

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
)

// Task is work in chunks. Run is called by each thread that takes part, at
// the same time; it takes chunks from the job, by Next, until there are none.
type Task interface {
	Run(j *Job, at Seat)
}

// Job is one task being run.
type Job struct {
	task      Task
	chunks    int64
	stretches []stretch
	over      atomic.Bool // after a panic
	// state has the generation in its high half, whether workers may still
	// enter in bit 31, and the number of workers inside below.
	state atomic.Uint64
	left  chan struct{} // the last worker to leave a closed job says so
	panic atomic.Pointer[Panic]
}

// stretch is a part of a job's chunks, on a cache line of its own.
type stretch struct {
	next atomic.Int64
	end  int64
	_    [48]byte
}

// Seat is where a thread takes chunks.
type Seat struct{ stretch, ended int }

// Panic is what Run panics with if a worker did.
type Panic struct {
	Value any
	Stack []byte // of the worker
}

// String returns the worker's panic and stack.
func (p *Panic) String() string { return fmt.Sprintf("%v\non a worker:\n%s", p.Value, p.Stack) }

const open = 1 << 31

// Next returns the number of a chunk that nobody has, of the seat's stretch or else of
// those behind it, and false when there is none left. After a panic on another thread
// none is left either.
func (j *Job) Next(at *Seat) (int, bool) {
	for ; at.ended < len(j.stretches) && !j.over.Load(); at.ended++ {
		s := &j.stretches[at.stretch]
		if i := s.next.Add(1) - 1; i < s.end {
			return int(i), true
		}
		if at.stretch++; at.stretch == len(j.stretches) {
			at.stretch = 0
		}
	}
	return 0, false
}

// cut divides the chunks among so many threads.
func (j *Job) cut(threads int) {
	if cap(j.stretches) < threads {
		j.stretches = make([]stretch, threads)
	}
	j.stretches = j.stretches[:threads]
	from := int64(0)
	for i := range j.stretches {
		s := &j.stretches[i]
		s.next.Store(from)
		s.end = j.chunks * int64(i+1) / int64(threads)
		from = s.end
	}
}

// enter lets a worker in if the job is still that of the invitation.
func (j *Job) enter(generation uint64) bool {
	for {
		s := j.state.Load()
		if s>>32 != generation || s&open == 0 {
			return false
		}
		if j.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// leave counts a worker out.
func (j *Job) leave() {
	if s := j.state.Add(^uint64(0)); s&(open<<1-1) == 0 {
		j.left <- struct{}{}
	}
}

// invitation asks a worker to take part in a job, if it is still going on.
type invitation struct {
	job        *Job
	generation uint64
}

// Pool is a set of workers.
type Pool struct {
	// A worker is bound to a thread only while it works: to wake a goroutine
	// that is bound takes the scheduler longer.
	threads atomic.Int32
	work    chan invitation
	behind  chan struct{} // see follow
	mu      sync.Mutex
	started int
	free    []*Job
	closed  bool
	quit    chan struct{}
	awake   atomic.Int32 // workers that look for work, though there was none
}

// maxThreads bounds what SetThreads takes.
const maxThreads = backends.MaxThreads

// New makes a pool for the given number of threads, the caller's included.
// Workers start when they are first needed.
func New(threads int) *Pool {
	p := &Pool{work: make(chan invitation, maxThreads), behind: make(chan struct{}), quit: make(chan struct{})}
	p.SetThreads(threads)
	return p
}

// SetThreads sets how many threads a launch may use, the caller's included; at
// least 1.
func (p *Pool) SetThreads(n int) { p.threads.Store(int32(min(max(n, 1), maxThreads))) }

// Threads returns how many threads a launch may use.
func (p *Pool) Threads() int { return int(p.threads.Load()) }

// Run runs a task in chunks and returns when all are done. If the task panics,
// on whichever thread, so does Run, once no thread is in the task any more; the
// chunks that were not begun are left out. A worker's panic is a *Panic.
func (p *Pool) Run(chunks int, t Task) {
	helpers := min(p.Threads(), chunks) - 1
	j := p.begin(chunks, t, helpers)
	generation := j.state.Load() >> 32
	asleep := p.Awake() < helpers
invite:
	for range helpers {
		select {
		case p.work <- invitation{j, generation}:
		default:
			break invite // as many are waiting already as the pool could ever serve
		}
	}
	if asleep {
		select {
		case p.behind <- struct{}{}:
		default: // it has not slept since the last launch
		}
	}
	if worker := p.takePart(j); worker != nil {
		panic(worker)
	}
}

// follow does nothing but be woken after the last worker that is. The one that was woken
// last has a place of its own, from which the scheduler's other threads take it only after
// a sleep of 3 µs, which Linux makes 50 and more; with another there, the worker is in the
// queue, from which they take it at once.
func (p *Pool) follow() {
	for {
		select {
		case <-p.behind:
		case <-p.quit:
			return
		}
	}
}

// takePart runs the job's task on the caller's thread, and ends the job whatever
// happens. It returns the first panic of a worker.
func (p *Pool) takePart(j *Job) (worker *Panic) {
	state := fpenv.Enter()
	returned := false
	defer func() {
		fpenv.Leave(state)
		if !returned {
			j.skip()
		}
		worker = p.end(j)
	}()
	j.task.Run(j, Seat{})
	returned = true
	return nil
}

// skip leaves out the chunks that were not begun.
func (j *Job) skip() { j.over.Store(true) }

// begin opens a job, and sees to it that there are workers.
func (p *Pool) begin(chunks int, t Task, helpers int) *Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started == 0 && helpers > 0 && !p.closed {
		go p.follow()
	}
	for p.started < helpers && !p.closed {
		p.started++
		go p.serve(p.started)
	}
	var j *Job
	if n := len(p.free); n > 0 {
		j = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		j = &Job{left: make(chan struct{}, 1)}
	}
	j.task, j.chunks = t, int64(chunks)
	j.cut(helpers + 1)
	j.over.Store(false)
	j.panic.Store(nil)
	j.state.Store((j.state.Load()>>32+1)<<32 | open)
	return j
}

// How long a worker looks for more work before it sleeps, and a caller whether the
// workers are done, which are in their last chunks. To wake a thread takes longer
// than most launches; one that looks about is there in less than a microsecond. Between
// two long launches of a program in Python are up to 80 µs, since the first one has the
// caches: a worker that slept by then would be woken for each. Others get a turn seldom:
// with each the scheduler wakes a thread to look for what else there is, and where no
// processor is left for it that one takes the caller's (docs/RATIONALE.md).
const (
	lookout = 100 * time.Microsecond
	turn    = 50 * time.Microsecond // until others get one
	looks   = 64                    // before the clock is asked
)

// until looks as long for what found reports.
func until(found func() bool) bool {
	start, turns := time.Now(), time.Duration(0)
	for {
		for range looks {
			if found() {
				return true
			}
		}
		switch since := time.Since(start); {
		case since > lookout:
			return false
		case since/turn > turns:
			turns = since / turn
			runtime.Gosched()
		}
	}
}

// end closes a job, waits for the workers inside, and keeps it for later. It
// returns the first panic of a worker.
func (p *Pool) end(j *Job) *Panic {
	// Without the bit nobody enters any more, and the last to leave says so.
	if s := j.state.Add(^uint64(open - 1)); s&(open-1) != 0 {
		j.wait()
	}
	worker := j.panic.Load()
	j.task = nil
	p.mu.Lock()
	p.free = append(p.free, j)
	p.mu.Unlock()
	return worker
}

// wait waits for the last worker to leave.
func (j *Job) wait() {
	left := until(func() bool {
		select {
		case <-j.left:
			return true
		default:
			return false
		}
	})
	if !left {
		<-j.left
	}
}

// Awake returns how many workers would take part at once.
func (p *Pool) Awake() int { return int(p.awake.Load()) }

// serve is a worker: it takes part in the jobs that it is invited to. Its number, from
// 1 on, says which stretch it begins with.
func (p *Pool) serve(number int) {
	for in, ok := p.sleep(); ok; in, ok = p.invited() {
		if in.job.enter(in.generation) {
			in.job.help(number)
		}
	}
}

// invited waits for an invitation; there is none any more if the pool is closed.
func (p *Pool) invited() (in invitation, ok bool) {
	if int(p.awake.Add(1)) >= runtime.GOMAXPROCS(0) { // the caller needs one, too
		p.awake.Add(-1)
		return p.sleep()
	}
	ok = until(func() bool {
		select {
		case in = <-p.work:
			return true
		default:
			return false
		}
	})
	p.awake.Add(-1)
	if ok {
		return in, true
	}
	return p.sleep()
}

func (p *Pool) sleep() (in invitation, ok bool) {
	select {
	case <-p.quit:
		return in, false
	case in = <-p.work:
		return in, true
	}
}

// help takes part in a job as a worker. A panic here would end the process, so
// the job keeps it for its caller.
func (j *Job) help(number int) {
	state := fpenv.Enter()
	defer func() {
		fpenv.Leave(state)
		if r := recover(); r != nil {
			j.panic.CompareAndSwap(nil, &Panic{r, debug.Stack()})
			j.skip()
		}
		j.leave()
	}()
	j.task.Run(j, Seat{stretch: number % len(j.stretches)})
}

// Close ends the workers; jobs then run on their callers' threads alone.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.quit)
	}
}
