package asynctest

import (
	"fmt"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// queue is the device's side of a stream, with a goroutine that works it off
// in order. A foreign queue has its owner's work among that of the streams
// that wrap it.
type queue struct {
	backend *Backend
	items   chan *work
	ended   chan struct{}

	// submit is held from when a work gets its place to when it has it. It is
	// taken before the backend's lock.
	submit sync.Mutex

	// Guarded by the backend's lock.
	seq     uint64 // of the last work
	clock   clock  // of the next work
	capture *graph // what the owner of a foreign queue captures
}

// kind is what a work is.
type kind uint8

const (
	kindLaunch kind = iota
	kindCopy
	kindFill
	kindReplay
	kindAwait
	kindForeign
	numKinds
)

var kindNames = [numKinds]string{"launch", "copy", "fill", "replay", "await", "foreign function"}

// task is what a call queues or captures.
type task struct {
	kind   kind
	detail string
	// do does the work. An error is told by the ticket.
	do func() error
	// cancelled reports whether it shall end before its time; nil: it never is.
	cancelled func() bool
	stop      func() // ends it while it runs, when the device is lost; nil: it ends by itself
	uses      []use
	kernel    *kernel // of a launch
	graph     *graph  // of a replay
}

// work is a task queued.
type work struct {
	*task
	queue  *queue
	seq    uint64 // place in the queue, from 1 on
	clock  clock  // what of other queues is ordered before it
	stream *stream
	ticket backends.Ticket
	number int           // among the device's works, from 1 on
	fail   error         // injected
	panics bool          // the call, likewise
	delay  time.Duration // how long it takes at least
	after  *work         // that an Await awaits
	timing *timing       // where its time goes; nil: nobody asks

	// passed and err are guarded by the backend's lock; done is closed thereafter.
	passed bool
	err    error
	done   chan struct{}
}

func (w *work) String() string {
	s := kindNames[w.kind]
	if w.detail != "" {
		s += " of " + w.detail
	}
	if w.stream == nil {
		return s
	}
	return fmt.Sprintf("%s (stream %d, ticket %d)", s, w.stream.number, w.ticket)
}

func newQueue(b *Backend) *queue {
	q := &queue{backend: b, items: make(chan *work, b.options.Queue), ended: make(chan struct{}), clock: clock{}}
	go q.serve()
	return q
}

// place gives t the next place in the queue. The caller holds both locks, and
// puts it there.
func (q *queue) place(t *task) *work {
	q.seq++
	return &work{task: t, queue: q, seq: q.seq, clock: q.clock, done: make(chan struct{})}
}

// close ends the server when it has done what is queued.
func (q *queue) close() {
	close(q.items)
	<-q.ended
}

// tick is how often a waiting work looks whether there is still need to wait.
const tick = time.Millisecond

func (q *queue) serve() {
	defer close(q.ended)
	for w := range q.items {
		if w.after != nil {
			<-w.after.done
		}
		began := time.Now()
		end := began.Add(w.delay)
		for left := time.Until(end); left > 0 && !w.idle(); left = time.Until(end) {
			time.Sleep(min(left, tick))
		}
		w.pass(began, w.run())
	}
}

// idle reports whether there is no need to wait for the work's time.
func (w *work) idle() bool {
	return w.cancelled != nil && w.cancelled() || w.stream != nil && w.stream.device.isLost()
}

// run does the work, if the device can, and returns why it failed.
func (w *work) run() error {
	if w.stream != nil {
		if err := w.stream.device.reach(w); err != nil {
			return err
		}
	}
	if w.fail != nil {
		return w.fail
	}
	if err := w.do(); err != nil || w.stream == nil {
		return err
	}
	return w.stream.device.still(w)
}

// pass notes that the work, which the device began then, is done.
func (w *work) pass(began time.Time, err error) {
	b := w.queue.backend
	b.mu.Lock()
	if w.timing != nil {
		w.timing.began, w.timing.ended = began, time.Now()
	}
	w.passed, w.err = true, err
	if s := w.stream; s != nil {
		s.passed = w.ticket
		if err != nil {
			s.failed[w.ticket] = err
		}
		delete(s.device.pending, w.number)
		if w.kernel != nil {
			w.kernel.pending--
		}
		if w.graph != nil {
			w.graph.pending--
		}
	}
	reports := b.release()
	b.idle.Broadcast()
	close(w.done)
	b.emit(reports)
}

// isLost reports whether the device is lost.
func (d *device) isLost() bool {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	return d.lost
}

// reach says whether the device still works when it comes to w.
func (d *device) reach(w *work) error {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	if n := d.backend.options.Lose; n > 0 && w.number == n {
		d.lost = true
		d.backend.counts.Injected++
		for s := range d.streams { // what runs would go on for ever
			for _, w := range s.inflight {
				if w.stop != nil {
					w.stop()
				}
			}
		}
		return fmt.Errorf("%v: %w: %w", w, ErrInjected, backends.ErrLost)
	}
	return d.alive(w)
}

// still says whether the device was not lost while it did w.
func (d *device) still(w *work) error {
	d.backend.mu.Lock()
	defer d.backend.mu.Unlock()
	return d.alive(w)
}

func (d *device) alive(w *work) error {
	if d.lost {
		return fmt.Errorf("asynctest: %v: %w", w, backends.ErrLost)
	}
	return nil
}
