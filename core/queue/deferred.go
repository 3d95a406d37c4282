package queue

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// MaxFlight bounds the works queued on a device, and so what they hold, and
// maxTickets their tickets: a device takes 1,024 works before it blocks, among
// them those that wait for other streams and have no ticket.
const (
	MaxFlight  = 192
	maxTickets = 512
)

// maxErrors bounds the errors that are kept for who asks, which may be nobody.
const maxErrors = 100

// Deferred is a stream of a device that works by itself. What it has queued is
// in flight until its ticket has passed. Nothing tells of that: whoever waits
// looks, and a goroutine looks now and then, for those who don't.
type Deferred struct {
	lane

	// looking is held by who looks what has passed. Its owner waits with it, so
	// others only try it, but for Look.
	looking lock.Mutex[lock.Looking]
	seen    backends.Ticket // the last that was waited for

	// What is in flight is a list, in order, from first to last. It is under
	// lane.mu, as is what follows.
	first, last *flying
	inFlight    int // how much
	// quiet is what quiet works left, until something flies for them all, and quietTo the
	// last ticket then given. They change in turns or, where nobody has the turn, under the lock.
	quiet   []Released
	quietTo backends.Ticket
	shared  backends.Shared // the device's stream; nil: it is none
	errs    []error
	more    int // errors beyond those
	tending bool
}

// flying is work that the device has queued.
type flying struct {
	ticket backends.Ticket
	work   Work
	event  *Event // who waits for the outcome; nil: it is kept
	// unwanted: somebody cancelled all work, and need not be told of it. told:
	// the error that came when it was queued is all that anybody hears of it.
	unwanted, told bool

	outcome error // once it has passed
	next    *flying
}

// spare are for works to come, so that a repeated call allocates nothing.
var spare = sync.Pool{New: func() any { return new(flying) }}

// NewDeferred makes a stream.
func NewDeferred(t Target) *Deferred {
	t.Async = true
	s := &Deferred{}
	s.init(t)
	s.shared, _ = t.Line.Stream.(backends.Shared)
	s.entered = s.standForEntered
	return s
}

// Submit is Stream.Submit.
func (s *Deferred) Submit(w Work, how How) (*Event, error) {
	how.at = profile.Stamp()
	if !how.Long && s.full() {
		s.reap(0)
		how.Long = s.full()
	}
	mine, err := s.take(w, how)
	if err != nil {
		w.Release()
		return nil, err
	}
	var ev *Event
	if !mine || how.Outcome {
		ev = newEvent(w, how)
		ev.stream = s
	}
	if mine {
		if ev != nil {
			ev.begin()
		}
		if err := s.here(w, ev, how.at); err != nil {
			return nil, err
		}
		return ev, nil
	}
	if err := s.enqueue(ev, s.serve); err != nil {
		w.Release()
		return nil, err
	}
	return ev, nil
}

// here gives work to the device on the caller's thread, which has the turn, and
// ends the turn.
func (s *Deferred) here(w Work, ev *Event, submitted int64) error {
	s.target.submitted = submitted
	if s.graph != nil {
		_, err := run(w, &s.target)
		if err != nil {
			err = s.target.outcome(w, err)
		}
		if status.CodeOf(err) == status.Busy { // nothing of it is recorded
			s.give()
			w.Release()
			return err
		}
		if err != nil { // part of it may be, and stays until the end
			s.graph.failed = err
		}
		s.graph.add(w)
		s.give()
		return err
	}
	over, err := s.put(w, ev)
	if over && ev == nil && errors.Is(err, backends.ErrCaptured) {
		var settle func()
		if settle, err = s.join(w); settle != nil {
			s.give()
			settle()
			return err
		}
	}
	s.give() // before the work lets go of what it holds, which may call back
	if over {
		err = s.target.outcome(w, err)
		w.Release()
	}
	return err
}

// serve gives work of an event to the device, on the stream's goroutine.
func (s *Deferred) serve(ev *Event) {
	for s.full() && !ev.Done() {
		if !s.reap(LookTime) { // somebody else looks
			time.Sleep(100 * time.Microsecond)
		}
	}
	w := ev.begin()
	if w == nil {
		return
	}
	s.target.submitted = ev.how.at
	over, err := s.put(w, ev)
	if over {
		err = s.target.outcome(w, err)
		w.Release()
	}
	if err != nil || !ev.how.Outcome {
		ev.finish(err)
	}
}

// put gives work to the device, with the turn. An error is all that is told of
// the work then; over says that the device has nothing of it. Else the work
// flies, and the event, if there is one, with it only if the outcome is waited for.
func (s *Deferred) put(w Work, ev *Event) (over bool, err error) {
	q, quiet := w.(Quiet)
	quiet = quiet && ev == nil && s.shared != nil && q.Quiet()
	if !quiet {
		s.standForQuiet()
	}
	ticket, err := run(w, &s.target)
	if quiet {
		if err == nil {
			s.leave(q)
			return false, nil
		}
		s.standForQuiet() // before what may fly now
	}
	if errors.Is(err, errPanicked) {
		if ticket, err = s.mark(err); ticket == 0 || ticket == noTicket {
			s.target.Track.Passed(noTicket) // of what it had queued nobody will hear
		}
	}
	over = err != nil && ticket == 0
	if flies := !over && ticket != noTicket; flies {
		f := spare.Get().(*flying)
		*f = flying{ticket: ticket, work: w, told: err != nil}
		if ev != nil && ev.how.Outcome && err == nil {
			f.event = ev
		}
		s.fly(f, ev)
	} else if ev != nil {
		ev.leave()
	}
	return over, err
}

// noTicket is that of work of which nobody can tell when the device is done with
// it. What it holds is never let go of.
const noTicket = ^backends.Ticket(0)

// mark returns a ticket behind all that a work queued before it panicked, which
// nobody else knows.
func (s *Deferred) mark(panicked error) (ticket backends.Ticket, err error) {
	defer func() {
		if recover() != nil {
			ticket, err = noTicket, panicked
		}
	}()
	switch ticket, err = s.target.Mark(); {
	case err == nil:
		return ticket, panicked
	case errors.Is(err, backends.ErrLost): // which has ended all work
		return 0, panicked
	}
	return noTicket, panicked
}

// fly adds work in flight, which had the event, if any, until now.
func (s *Deferred) fly(f *flying, ev *Event) {
	s.mu.Lock()
	tend := s.add(f)
	if f.event != nil {
		s.events[f.event] = struct{}{}
	} else if ev != nil { // with the lock, so that who cancels finds the work in one place
		ev.leave()
	}
	s.mu.Unlock()
	if tend {
		go s.tend()
	}
}

// add is fly for who holds the lock, of work without an event. It reports whether
// nobody tends yet, as the caller then has it done.
func (s *Deferred) add(f *flying) (tend bool) {
	s.target.Last = max(s.target.Last, f.ticket)
	if s.last == nil {
		s.first = f
	} else {
		s.last.next = f
	}
	s.last = f
	s.inFlight++
	tend, s.tending = !s.tending, true
	return tend
}

func (s *Deferred) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight == 0 { // as while it captures: what is captured does not fly
		return false
	}
	return s.inFlight >= MaxFlight || s.target.Last-s.first.ticket >= maxTickets
}

// tend looks now and then what has passed, until nothing is in flight.
func (s *Deferred) tend() {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, LookTime) {
		time.Sleep(pause)
		s.reap(0)
		s.mu.Lock()
		if s.inFlight == 0 {
			s.tending = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// help waits for an event, up to a time, by looking what has passed.
func (s *Deferred) help(e *Event, d time.Duration) {
	end := time.Now().Add(d)
	for {
		left := time.Until(end)
		if !s.reap(min(max(left, 0), LookTime)) && left > 0 {
			// Somebody else looks, or there is nothing in flight yet.
			t := time.NewTimer(min(left, time.Millisecond))
			select {
			case <-e.finished:
			case <-t.C:
			}
			t.Stop()
		}
		if e.Done() || left <= 0 {
			return
		}
	}
}

// reap ends the works in flight that have passed. Up to a time it waits for the
// first of them. It reports whether it was the one to look, and there was
// something to see.
func (s *Deferred) reap(d time.Duration) bool {
	if !s.looking.TryLock() {
		return false
	}
	list, any := s.passed(d)
	letGo(list)
	return any
}

// Gather is Stream.Gather.
func (s *Deferred) Gather() (letsGo func(), err error) {
	s.looking.Lock()
	list, _ := s.passed(0)
	err = s.told()
	if list == nil {
		return nil, err
	}
	return func() { letGo(list) }, err
}

// passed is reap for who holds looking, and gives it back, but that the works
// which have passed are still to be let go of.
func (s *Deferred) passed(d time.Duration) (list *flying, any bool) {
	var last *flying // that has passed
	ended := 0
	for {
		s.mu.Lock()
		head := s.first
		if last != nil {
			head = last.next
		}
		s.mu.Unlock()
		if head == nil {
			break
		}
		line := s.target.Line.Stream
		if ended > 0 && head.ticket > line.Passed() {
			break
		}
		var err error
		if head.ticket > s.seen { // else other work had the same, or none
			if err = line.Wait(head.ticket, d); errors.Is(err, backends.ErrPending) {
				break
			}
			s.seen = head.ticket
		}
		d = 0
		s.target.Track.Passed(head.ticket)
		err = s.target.outcome(head.work, err)
		head.outcome, last = err, head
		ended++
		if head.event == nil && !head.told && err != nil { // kept at once, since what comes next may report it
			s.mu.Lock()
			if !(head.unwanted && status.CodeOf(err) == status.Cancelled) {
				s.keep(err)
			}
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	any = s.inFlight > 0
	if last != nil {
		list = s.first
		if s.first = last.next; s.first == nil {
			s.last = nil
		}
		last.next = nil
		s.inFlight -= ended
		for f := list; f != nil; f = f.next {
			if f.event != nil {
				delete(s.events, f.event)
			}
		}
	}
	s.mu.Unlock()
	s.looking.Unlock()
	return list, any
}

// letGo lets go of works that have passed, and tells who waits for them. No lock
// is held: what is let go of may call back.
func letGo(list *flying) {
	for list != nil {
		f := list
		list = f.next
		if f.event != nil {
			f.event.leave()
		}
		f.work.Release()
		if f.event != nil {
			f.event.finish(f.outcome)
		}
		*f = flying{}
		spare.Put(f)
	}
}

// Errors is Stream.Errors.
func (s *Deferred) Errors() error {
	s.reap(0)
	if s.target.Guests != nil {
		s.Keep(s.target.Guests.Look())
	}
	return s.told()
}

// told returns, and forgets, the errors that nobody has seen.
func (s *Deferred) told() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.errs
	if s.more > 0 {
		list = append(list, fmt.Errorf("and %d more errors", s.more))
	}
	s.errs, s.more = nil, 0
	return status.Join(list...)
}

// Keep is Stream.Keep.
func (s *Deferred) Keep(err error) {
	if err != nil {
		s.mu.Lock()
		s.keep(err)
		s.mu.Unlock()
	}
}

// keep is Keep of an error, for who holds the lock.
func (s *Deferred) keep(err error) {
	if len(s.errs) < maxErrors {
		s.errs = append(s.errs, err)
	} else {
		s.more++
	}
}

// Captured is Stream.Captured.
func (s *Deferred) Captured() bool {
	g, ok := s.target.Line.Stream.(backends.Guest)
	return ok && g.Captured()
}

// Idle is Stream.Idle.
func (s *Deferred) Idle() bool {
	s.reap(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle() && len(s.quiet) > 0 {
		s.stand()
	}
	return s.idle() && s.inFlight == 0 && s.gate.word == nil
}

// Cancel is Stream.Cancel.
func (s *Deferred) Cancel() { s.cancel(true) }

func (s *Deferred) cancel(unwanted bool) {
	s.cancelEvents(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := s.first; f != nil; f = f.next {
		f.unwanted = f.unwanted || unwanted
		if f.event == nil { // while it is in this list it is not released
			f.work.Cancel()
		}
	}
}

// BeginCapture is Stream.BeginCapture.
func (s *Deferred) BeginCapture() error {
	native, ok := s.target.Line.Stream.(backends.Capturer)
	if !ok {
		return status.Errorf(status.Unavailable, "capture: the device cannot record work")
	}
	s.reap(0)
	return s.begin(native, func() bool { return s.inFlight > 0 || len(s.quiet) > 0 }) // for which others wait on the stream
}

// EndCapture is Stream.EndCapture.
func (s *Deferred) EndCapture() (*Graph, error) { return s.end() }

// Close is Stream.Close.
func (s *Deferred) Close(grace time.Duration) error {
	s.shut()
	s.mu.Lock()
	s.stand()
	s.mu.Unlock()
	s.drain(grace)
	s.cancel(false)
	s.drain(1 << 62)
	err := s.Errors()
	s.target.Line.Close()
	if closed := s.target.Line.Stream.Close(); err == nil {
		err = status.FromBackend("executor", closed)
	}
	return err
}

// drain waits until nothing is in flight, up to a time.
func (s *Deferred) drain(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		s.mu.Lock()
		none := s.inFlight == 0
		s.mu.Unlock()
		if none {
			return
		}
		if !s.reap(min(LookTime, d)) {
			time.Sleep(100 * time.Microsecond)
		}
	}
}
