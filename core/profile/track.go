package profile

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
)

// Track is a stream as profiles see it: one thing at a time.
type Track struct {
	name   string
	number int64 // among the process's

	// waiting is how much of queued there is.
	waiting atomic.Int32
	mu      lock.Mutex[lock.Last]
	queued  []queued
	// offset is what the device's time is behind the host's, as far as is known, and
	// ended when, in the host's, the last thing was over.
	offset, ended int64
	known         bool
}

// queued is work that a device times.
type queued struct {
	ticket backends.Ticket
	timing backends.Timing
	set    *Set
	event  Event // Start is when it was submitted
}

var tracks atomic.Int64

// NewTrack makes the track of a stream.
func NewTrack(device string) *Track {
	n := tracks.Add(1)
	return &Track{name: "stream " + strconv.FormatInt(n, 10) + " of " + device, number: n}
}

// Job is a piece of work of a stream's, as profiles tell of it.
type Job struct {
	Kind               Kind
	Name, Of, Operands string
	Bytes              int64 // that it moves
}

// Operands writes the types and shapes of n views.
func Operands(n int, view func(int) *backends.View) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		v := view(i)
		b.WriteString(v.Type.String())
		b.WriteByte('[')
		for k, d := range v.Shape[:v.Rank] {
			if k > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatInt(d, 10))
		}
		b.WriteByte(']')
	}
	return b.String()
}

// Run has f queue one piece of work on a stream, and tells s of it: at once if the
// device works while it is called, else once Passed is told of its ticket. A device
// that works by itself and cannot tell when it did has no duration. submitted is the
// Stamp of who submitted it, or 0.
func (s *Set) Run(t *Track, stream backends.Stream, async bool, submitted int64, job *Job,
	f func() (backends.Ticket, error),
) (backends.Ticket, error) {
	e := Event{Kind: job.Kind, Name: job.Name, Of: job.Of, Operands: job.Operands, Bytes: job.Bytes, track: t}
	var timing backends.Timing
	if timer, ok := stream.(backends.Timer); ok && async {
		timing = timer.Time()
		defer func() { // also where f panics
			if timing != nil {
				timing.Release()
			}
		}()
	}
	e.Start = now()
	if submitted == 0 {
		submitted = e.Start
	}
	ticket, err := f()
	switch {
	case !async:
		e.Took = now() - e.Start
		e.Queued = e.Start - submitted
		e.fails(err)
	case err != nil: // nothing is queued, and who called is told
		return ticket, err
	case timing == nil:
		e.Took = Instant
	default:
		e.Start = submitted
		s.pend(1)
		t.mu.Lock()
		t.queued = append(t.queued, queued{ticket, timing, s, e})
		t.waiting.Store(int32(len(t.queued)))
		t.mu.Unlock()
		timing = nil
		return ticket, nil
	}
	s.add(&e)
	return ticket, err
}

// Passed says that a stream's work up to a ticket has passed. It comes from who looks
// what has passed, and from work that waits for part of itself: whoever comes later
// finds what the other has left.
func (t *Track) Passed(ticket backends.Ticket) {
	if t == nil || t.waiting.Load() == 0 {
		return
	}
	passed := t.take(ticket, now())
	for i := range passed {
		q := &passed[i]
		q.timing.Release()
		q.set.add(&q.event)
		q.set.pend(-1)
	}
}

// take takes what was queued up to a ticket out of the list, in its order, and says
// when it was done.
func (t *Track) take(ticket backends.Ticket, seen int64) (passed []queued) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(t.queued) && t.queued[n].ticket <= ticket {
		n++
	}
	passed = append(passed, t.queued[:n]...)
	rest := copy(t.queued, t.queued[n:])
	clear(t.queued[rest:])
	t.queued = t.queued[:rest]
	t.waiting.Store(int32(rest))
	for i := range passed {
		q := &passed[i]
		if began, ended, err := q.timing.Span(); err == nil {
			t.place(&q.event, int64(began), int64(ended), seen)
		} else {
			q.event.Took = Instant
			q.event.fails(err)
		}
	}
	return passed
}

// place says when, in the host's time, the device did what was submitted at e.Start
// and is seen to be over. The clocks of both have nothing in common and may drift,
// but work begins after it is submitted and has ended when that is seen, one after
// the other: that bounds the offset, on a stream that was idle to within what a launch
// takes to arrive.
func (t *Track) place(e *Event, began, ended, seen int64) {
	submitted := e.Start
	if !t.known || began+t.offset < submitted {
		t.offset, t.known = submitted-began, true
	}
	if ended+t.offset > seen {
		t.offset = seen - ended
	}
	e.Took = max(ended-began, 0)
	e.Start = max(began+t.offset, t.ended)
	e.Queued = max(e.Start-submitted, 0)
	t.ended = e.Start + e.Took
}
