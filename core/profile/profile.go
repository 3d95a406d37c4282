// Package profile is core's room for profiles: what ran when, for how long, and
// how many bytes it moved. It is the lowest but for lock, since all others tell it.
//
// Whoever does what a profile shows asks On, which costs a load while nobody
// profiles, and tells the Set what happened. Threads tell by a Span, from its Begin to
// its End; streams by their Track. A profile keeps the events that came first, up to a
// limit, and counts the others; chrome.go writes them as Chrome's trace events.
//
// (Another thing is core's Trace, which runs one lane of a program on the interpreter.)
package profile

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/core/lock"
)

// Kind is what an event is about.
type Kind uint8

// The kinds of events.
const (
	Call    Kind = iota // a thread calls an operation, launches a program or replays a graph, until that returns
	Wait                // a thread waits for work that goes on
	Kernel              // a stream runs a launch, or replays a graph
	Copy                // a stream copies or fills memory
	Compile             // a program is assembled, brought to its canonical form, compiled, loaded, or prepared for a call
	Cache               // a compiled kernel was found
	Memory              // memory is taken from a device, or given back
	kinds
)

var kindNames = [kinds]string{"call", "wait", "kernel", "copy", "compile", "cache", "memory"}

func (k Kind) String() string { return kindNames[k] }

// Event is something that happened. Times are in nanoseconds.
type Event struct {
	Kind     Kind
	Name     string
	Of       string // the call that it is part of, or the program that is compiled
	Operands string // types and shapes
	Error    string // what became of it
	Bytes    int64  // that it moved
	Start    int64  // since the process began to count
	Took     int64  // Instant: it has no duration
	Queued   int64  // from when it was submitted to its start

	track  *Track // of a stream
	thread int64  // where track is nil
}

// Instant is the Took of what has no duration, or none that is known.
const Instant = -1

// maxError is how much is kept of an error's text.
const maxError = 200

var epoch = time.Now()

// now is the time in nanoseconds; it is never 0. Inlined it would cost those who ask
// nobody's Stamp.
//
//go:noinline
func now() int64 { return int64(time.Since(epoch)) + 1 }

// Set are the profiles under way, all of which get what happens.
type Set struct{ list []*Profile }

var (
	on       atomic.Pointer[Set] // nil: nobody profiles
	changing lock.Mutex[lock.Last]
)

// Watch, if it is set before the first profile, is told whether anybody profiles from
// now on: for who does what profiles show without asking On.
var Watch = func(profiled bool) {}

// On returns the profiles under way; nil if there are none.
func On() *Set { return on.Load() }

// Stamp is the time at which work is submitted, for Track; 0 while nobody profiles.
func Stamp() int64 {
	if on.Load() == nil {
		return 0
	}
	return now()
}

func (s *Set) add(e *Event) {
	for _, p := range s.list {
		p.add(e)
	}
}

// pend counts works of which the profiles are yet to be told.
func (s *Set) pend(n int64) {
	for _, p := range s.list {
		p.pending.Add(n)
	}
}

// Span is a time of one thread's, from Begin to End.
type Span struct {
	set                 *Set
	start, took, thread int64
}

// Begin begins a span. While nobody profiles its End does nothing.
func Begin() Span {
	if set := on.Load(); set != nil {
		return set.Begin()
	}
	return Span{}
}

// Begin begins a span for these profiles.
func (s *Set) Begin() Span { return Span{set: s, start: now(), thread: thread()} }

// Mine reports whether the span is told of, and of the thread that calls.
func (s *Span) Mine() bool { return s.set != nil && s.thread == thread() }

// Stop says that the span ends here, where End, which comes thereafter, takes time
// to say what it was.
func (s *Span) Stop() { s.took = now() - s.start }

// End tells the profiles of the span. Of e it sets where and when.
func (s *Span) End(e Event, err error) {
	if s.set == nil {
		return
	}
	if s.took == 0 {
		s.Stop()
	}
	e.Start, e.thread, e.Took = s.start, s.thread, s.took
	e.fails(err)
	s.set.add(&e)
}

func (e *Event) fails(err error) {
	if err != nil {
		e.Error = err.Error()
		e.Error = string([]byte(e.Error[:min(len(e.Error), maxError)])) // the rest is let go of
	}
}

// Note tells of what takes no time.
func Note(e Event) {
	if set := on.Load(); set != nil {
		e.Start, e.thread, e.Took = now(), thread(), Instant
		set.add(&e)
	}
}

// Profile is what happens from Start to Stop.
type Profile struct {
	started int64
	wall    time.Time
	limit   int
	pending atomic.Int64

	mu      lock.Mutex[lock.Last]
	chunks  [][]Event
	kept    int
	dropped int64
	closed  bool
	text    []byte // Chrome's, for which its caller had no room; nil: none
}

// DefaultLimit is how many events a profile keeps if nobody says: some 30 MB.
const DefaultLimit = 1 << 18

const chunkSize = 4096

// Start begins a profile that keeps so many events; 0: DefaultLimit.
func Start(limit int) *Profile {
	if limit == 0 {
		limit = DefaultLimit
	}
	p := &Profile{started: now(), wall: time.Now(), limit: limit}
	changing.Lock()
	defer changing.Unlock()
	var list []*Profile
	if set := on.Load(); set != nil {
		list = slices.Clone(set.list)
	}
	on.Store(&Set{append(list, p)})
	Watch(true)
	return p
}

// Stop ends a profile and returns how many works are under way on devices that work
// by themselves of which it is yet to be told. What began before is still told, until
// Close; what begins thereafter is not. Stopping again only counts.
func (p *Profile) Stop() (underWay int64) {
	changing.Lock()
	defer changing.Unlock()
	if set := on.Load(); set != nil && slices.Contains(set.list, p) {
		rest := slices.DeleteFunc(slices.Clone(set.list), func(q *Profile) bool { return q == p })
		if on.Store(nil); len(rest) > 0 {
			on.Store(&Set{rest})
		}
		Watch(len(rest) > 0)
	}
	return p.pending.Load()
}

// Close ends a profile and lets go of its events.
func (p *Profile) Close() {
	p.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chunks, p.text, p.closed = nil, nil, true
}

func (p *Profile) add(e *Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.kept == p.limit {
		p.dropped++
		return
	}
	if p.kept%chunkSize == 0 {
		p.chunks = append(p.chunks, make([]Event, 0, min(chunkSize, p.limit-p.kept)))
	}
	last := &p.chunks[len(p.chunks)-1]
	*last = append(*last, *e)
	p.kept++
}

// events returns those kept so far, in the order of their beginnings, what lasts
// longer first, and how many there were no room for.
func (p *Profile) events() (list []Event, dropped int64) {
	p.mu.Lock()
	for _, c := range p.chunks {
		list = append(list, c...)
	}
	dropped = p.dropped
	p.mu.Unlock()
	slices.SortStableFunc(list, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Took, a.Took))
	})
	return list, dropped
}
