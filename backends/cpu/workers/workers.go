// Package workers is the pool of threads that CPU launches share. A launch is
// cut into chunks, and these into a stretch for each thread, which begins with its
// own and then helps the others: so one launch after the other finds in a
// processor's cache what it worked on before. The caller always takes part, and
// waits at the end only for workers that have begun: a pool that is busy
// elsewhere, or whose threads the system does not wake, costs nothing but help.
//
// A job is closed and nobody's; begin opens it to so many workers and shows it. A worker enters by
// an addition to its state, within some 100 ns of its first chunk: all it does before, it does
// without the job. Whoever leaves first closes it, or else the caller, when it finds no chunk; from
// then on who adds itself sees that it came too late, and takes itself off without a look at the
// rest of the job. So a job may serve another launch as soon as those that did enter have left,
// and the caller waits for no others. A worker that the system puts aside in the midst of a chunk
// is waited for: nobody else can know what it has written. So workers that wake beside their
// caller, on its processor, first go to another.
package workers

import (
	"fmt"
	"math"
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
	helpers   int
	slot      *atomic.Pointer[Job] // of the pool's, where workers find it
	stretches []stretch
	over      atomic.Bool   // after a panic
	left      chan struct{} // the last worker to leave says so to a caller that sleeps
	panic     atomic.Pointer[Panic]
	_         [64]byte
	// state has the number of workers inside in its lowest bits, then whether the caller
	// sleeps until they have left, how many there are places for, and whether any may enter.
	// All threads write it, so it has a line of a cache of its own.
	state atomic.Uint32
	_     [60]byte
}

const (
	inside  = 1<<15 - 1
	waiting = 1 << 15
	place   = 1 << 16
	places  = inside * place
	open    = 1 << 31
)

// stretch is a part of a job's chunks, on a cache line of its own.
type stretch struct {
	next atomic.Int64
	end  int64
	_    [48]byte
}

// Seat is where a thread takes chunks. Its zero value is the caller's.
type Seat struct{ number, stretch, ended int }

// Panic is what Run panics with if a worker did.
type Panic struct {
	Value any
	Stack []byte // of the worker
}

// String returns the worker's panic and stack.
func (p *Panic) String() string { return fmt.Sprintf("%v\non a worker:\n%s", p.Value, p.Stack) }

// Next returns the number of a chunk that nobody has, of the seat's stretch or else of
// those behind it, and false when there is none left. After a panic on another thread
// none is left either.
func (j *Job) Next(at *Seat) (int, bool) {
	for ; at.ended < len(j.stretches) && !j.over.Load(); at.ended++ {
		s := &j.stretches[at.stretch]
		if s.next.Load() < s.end { // to count on where nothing is left would take the line from others
			if i := s.next.Add(1) - 1; i < s.end {
				return int(i), true
			}
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

// admits reports whether a job of such a state lets a worker in. Until the first of them
// leaves, which closes it, those inside are all that ever came.
func admits(state uint32) bool { return state&open != 0 && state&inside < state&places/place }

// enter lets a worker in, if it may.
func (j *Job) enter() bool {
	if !admits(j.state.Load()) {
		return false
	}
	if !admits(j.state.Add(1) - 1) { // others were quicker, or it is over
		j.out()
		return false
	}
	return true
}

// leave counts a worker out. It leaves when there is nothing left to do, so the job closes.
func (j *Job) leave() {
	if j.state.Load()&open != 0 {
		j.state.And(^uint32(open))
	}
	j.out()
}

// out counts one out. The last one, of which there may be several if some come too late,
// tells the caller, once.
func (j *Job) out() {
	if s := j.state.Add(^uint32(0)); s&(inside|waiting) == waiting && j.state.CompareAndSwap(s, s&^waiting) {
		j.left <- struct{}{}
	}
}

// sleep lets the caller of a closed job sleep until no worker is inside. The job is marked only
// where one is, who takes the mark off: if it stayed, one who comes too late would tell the
// job's next caller, who would not wait for those inside.
func (j *Job) sleep() {
	for s := j.state.Load(); s&inside != 0; s = j.state.Load() {
		if j.state.CompareAndSwap(s, s|waiting) {
			<-j.left
			return
		}
	}
}

// reopen admits so many workers to a closed job. Some who come too late for what it was may
// still be counted.
func (j *Job) reopen(helpers int) {
	for {
		s := j.state.Load()
		if j.state.CompareAndSwap(s, s&inside|uint32(helpers)*place|open) {
			return
		}
	}
}

// Pool is a set of workers. A worker is bound to a thread only while it works: to wake a
// goroutine that is bound takes the scheduler longer.
type Pool struct {
	_ [64]byte
	// jobs are those that workers may enter. All that look for work look here, so they
	// share lines of a cache that are seldom written to.
	jobs [8]atomic.Pointer[Job]
	_    [64]byte

	// These are seldom written to, too.
	threads    atomic.Int32
	started    atomic.Int32
	asleep     atomic.Int32
	processors atomic.Int32 // of Go's, when somebody looked last
	caller     atomic.Int32 // the processor that the last launch's caller was on
	bed        *bed
	_          [64]byte

	wanted atomic.Int32 // by the jobs that are open
	short  atomic.Int64 // when somebody did alone what others could have shared

	mu     sync.Mutex
	free   []*Job
	closed bool
}

// maxThreads bounds what SetThreads takes.
const maxThreads = backends.MaxThreads

// New makes a pool for the given number of threads, the caller's included.
// Workers start when they are first needed.
func New(threads int) *Pool {
	p := &Pool{bed: newBed()}
	p.caller.Store(-1)
	p.SetThreads(threads)
	return p
}

// SetThreads sets how many threads a launch may use, the caller's included; at
// least 1.
func (p *Pool) SetThreads(n int) {
	p.threads.Store(int32(min(max(n, 1), maxThreads)))
	p.processors.Store(int32(runtime.GOMAXPROCS(0)))
}

// Threads returns how many threads a launch may use.
func (p *Pool) Threads() int { return int(p.threads.Load()) }

// Run runs a task in chunks and returns when all are done. If the task panics,
// on whichever thread, so does Run, once no thread is in the task any more; the
// chunks that were not begun are left out. A worker's panic is a *Panic.
func (p *Pool) Run(chunks int, t Task) {
	if worker := p.takePart(p.begin(chunks, t)); worker != nil {
		panic(worker)
	}
}

// show lets workers find a job, and wakes as many as it lacks. Where others have filled all
// slots, there is nobody left to find it.
func (p *Pool) show(j *Job) {
	for i := range p.jobs {
		if p.jobs[i].CompareAndSwap(nil, j) {
			j.slot = &p.jobs[i]
			break
		}
	}
	lacks := min(j.helpers-p.Awake(), int(p.asleep.Load())-p.bed.pending())
	p.wanted.Add(int32(j.helpers))
	if j.slot != nil && lacks > 0 {
		p.bed.wake(lacks)
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
func (p *Pool) begin(chunks int, t Task) *Job {
	p.mu.Lock()
	helpers := min(p.Threads(), chunks) - 1
	if p.closed {
		helpers = 0
	}
	if at := processor(); helpers > 0 && at != p.caller.Load() {
		p.caller.Store(at)
	}
	for int(p.started.Load()) < helpers {
		go p.serve(int(p.started.Add(1)))
	}
	var j *Job
	if n := len(p.free); n > 0 {
		j = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		j = &Job{left: make(chan struct{}, 1)}
	}
	p.mu.Unlock()
	j.task, j.chunks, j.helpers = t, int64(chunks), max(helpers, 0)
	j.cut(j.helpers + 1)
	j.over.Store(false)
	j.panic.Store(nil)
	j.reopen(j.helpers)
	if j.helpers > 0 {
		p.show(j)
	}
	return j
}

// How long a worker looks for more work before it sleeps, and a caller whether the
// workers are done, which are in their last chunks. To wake a thread takes longer
// than most launches; one that looks about is there in less than a microsecond. Between
// two long launches of a program in Python are up to 80 µs, since the first one has the
// caches: a worker that slept by then would be woken for each. The more there are, the longer
// until all are awake again.
const (
	lookout = 50 * time.Microsecond // for each thread, but no longer than for …
	most    = 10
	looks   = 32 // before the clock is asked
	// A goroutine that has run for 10 ms is interrupted. In a task, where it is bound to its
	// thread, others would have to wake for that, and its job to wait for some 100 µs.
	yields = 4 * time.Millisecond
)

// lookout is how long to look.
func (p *Pool) lookout() time.Duration {
	return lookout * time.Duration(min(p.Threads(), most))
}

// until looks as long for what found reports.
func (p *Pool) until(found func() bool) bool {
	for start := time.Now(); ; {
		for range looks {
			if found() {
				return true
			}
			Pause()
		}
		if time.Since(start) > p.lookout() {
			return false
		}
	}
}

// end closes a job, waits for the workers inside, and keeps it for later. It
// returns the first panic of a worker.
func (p *Pool) end(j *Job) *Panic {
	if j.slot != nil {
		j.slot.Store(nil)
		j.slot = nil
	}
	p.wanted.Add(-int32(j.helpers))
	j.state.And(^uint32(open)) // nobody enters any more
	left := func() bool { return j.state.Load()&inside == 0 }
	if !p.until(left) {
		j.sleep()
	}
	worker := j.panic.Load()
	j.task = nil
	p.mu.Lock()
	p.free = append(p.free, j)
	p.mu.Unlock()
	return worker
}

// Awake returns how many workers would take part at once.
func (p *Pool) Awake() int {
	return max(int(p.started.Load()-p.asleep.Load()-p.wanted.Load()), 0)
}

// Nanoseconds that sharing takes by itself, and of two threads, one of which is soon kept by
// something else, rather more; and what each thread adds.
const (
	sharing  = 6e3
	sharing2 = 10e3
	eachMore = 400
)

// Alone returns how many nanoseconds of work a caller does as soon by itself as with others,
// though they are awake: it takes some time to share it, and more the more they are.
func Alone(threads int) float64 {
	switch threads {
	case 1:
		return math.Inf(1)
	case 2:
		return (sharing2 + 2*eachMore) / (1 - 1./2)
	}
	n := math.Min(float64(threads), 5) // where it is least
	return (sharing + eachMore*n) / (1 - 1/n)
}

// Nanoseconds that it takes a worker that sleeps to be there, and that make a chunk where
// none has to wake.
const (
	sleepersTake = 50e3
	awakeChunk   = 3e3
)

// Share returns how many threads are to share so many nanoseconds of work, 1 if it is not
// worth to share, and how many make a chunk that is worth fetching. Workers that sleep are
// woken by what is short only if it comes again and again: for what then follows. Short work is
// done soonest by few: of n threads, each does an nth part and adds to the time of all.
func (p *Pool) Share(work float64) (threads int, chunk float64) {
	threads = p.Threads()
	if threads == 1 || work < Alone(threads) {
		return 1, work
	}
	threads = max(2, min(threads, int(math.Sqrt(work/eachMore))))
	switch {
	case p.Awake() > 0:
	case work >= sleepersTake:
		return threads, sleepersTake / 2
	default:
		now := time.Since(epoch)
		if before := time.Duration(p.short.Swap(int64(now))); now-before > p.lookout() {
			return 1, work
		}
	}
	return threads, awakeChunk
}

// epoch is what times are since.
var epoch = time.Now()

// serve is a worker: it takes part in jobs. Its number, from 1 on, says which stretch it
// begins with.
func (p *Pool) serve(number int) {
	var j *Job
	var beside, moved bool
	find := func() bool {
		if beside = !moved && p.beside(); beside {
			return true
		}
		j = p.find()
		return j != nil
	}
	for yielded := time.Now(); ; {
		if time.Since(yielded) > yields {
			runtime.Gosched()
			yielded, moved = time.Now(), false
		}
		// One of Go's processors is for the caller.
		if p.started.Load()-p.asleep.Load() < p.processors.Load() && p.until(find) || find() {
			if beside { // where there is no other processor, or another caller is, it helps nevertheless
				aside(p.caller.Load())
				moved = true
			} else {
				j.help(number)
			}
			continue
		}
		moved = false
		job, quit := p.rest()
		if quit {
			return
		}
		if job != nil {
			job.help(number)
		}
	}
}

// beside reports whether a worker is on the caller's processor. What it does there keeps the caller
// from its own part, and what it has begun when the system goes back to the caller, the caller
// waits for. To look about keeps the caller from whatever comes between two launches.
func (p *Pool) beside() bool {
	here := processor()
	return here >= 0 && here == p.caller.Load()
}

// rest lets a worker sleep until it is woken, unless there is a job by then: what was shown
// before it counted as asleep has counted on it. quit says that the pool is closed.
func (p *Pool) rest() (j *Job, quit bool) {
	p.asleep.Add(1)
	if j = p.find(); j == nil {
		if !p.bed.sleep() {
			return nil, true
		}
		p.processors.Store(int32(runtime.GOMAXPROCS(0)))
	}
	p.asleep.Add(-1)
	return j, false
}

// find enters the job that has the fewest workers inside, so that callers share them fairly.
// It is nil if there is none.
func (p *Pool) find() *Job {
	for {
		var job *Job
		fewest := uint32(inside + 1)
		for i := range p.jobs {
			if j := p.jobs[i].Load(); j != nil {
				if s := j.state.Load(); admits(s) && s&inside < fewest {
					job, fewest = j, s&inside
				}
			}
		}
		if job == nil || job.enter() {
			return job
		}
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
	j.task.Run(j, Seat{number: number, stretch: number % len(j.stretches)})
}

// Close ends the workers; jobs then run on their callers' threads alone.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.bed.close()
	}
}
