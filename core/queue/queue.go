// Package queue is core's room for time: the streams on which work runs in
// order, and events for those who wait.
//
// There are two kinds of stream behind one interface. Inline is for devices
// that work while called: short work runs on the caller's thread, long work,
// and what comes after it, on a goroutine. Deferred is for devices that work by
// themselves: work is queued there, and a ticket tells when it has passed.
//
// A stream has a lock, of its own state. It is never held while work runs, waits,
// or lets go of what it holds, all of which may call back. A Deferred has another,
// held by who looks what has passed and so asks works for their outcomes.
//
// target.go is a stream as work sees it, through which its profiles see what that
// does. lane.go is what both kinds have in common, that work takes its turn; inline.go
// and deferred.go run it; stand.go has works that nobody is told of; gate.go lets callers
// take a turn by themselves; event.go is what callers wait for; graph.go captures, and
// guest.go adds to what others capture.
package queue

import (
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// Work is a piece of work for a stream. Its methods are called in the order
// Run, Outcome, Release, each once; in a Graph the first two come once for each
// replay. Work that was refused or cancelled before it began only sees Release.
type Work interface {
	// Run does the work or, on a device that works by itself, queues it and
	// returns its ticket. With an error it is the ticket of what was queued before
	// that; then the error is told as it is, at once, and Outcome's to nobody.
	Run(t *Target) (backends.Ticket, error)
	// Outcome turns what Run or the device said of the work, which is over, into
	// what its caller is told.
	Outcome(error) error
	// Cancel asks the work, which may be under way, to end soon. It reports
	// whether its caller need not wait for that: nothing of the caller's is
	// touched from now on. It does not wait.
	Cancel() bool
	// Release lets go of what the work holds.
	Release()
}

// Waiting is work that only waits for what is before it, and looks at what that
// left. Cancelling all work leaves it: it ends with what it waits for.
type Waiting interface {
	Work
	Waits()
}

// Quiet is work that may be done with once a device has it: that device, which works by
// itself, tells nothing of it but how it was lost, nor is it worth cancelling.
type Quiet interface {
	Work
	// Quiet reports whether the work is so, if Run queues it.
	Quiet() bool
	// Leave comes in the place of Outcome and Release: the work lets go of all but what it
	// returns, which is released when what Run queued has passed.
	Leave() Released
}

// Released is what work leaves to be let go of, and what that work is called in errors.
type Released interface {
	What() string
	Release()
}

// Patience is how many nanoseconds work may take on its caller's thread, where nobody can cancel
// it, and signal handlers of Python wait; more is Long. A goroutine may be on another thread each
// time, and so on another core, whose caches have nothing of the caller's.
const Patience = 20e6

// How says how work is submitted.
type How struct {
	// Long: the work may take long, so it does not run on the caller's thread. To
	// capture it does not.
	Long bool
	// Outcome: the caller wants the work's. Else, on a device that works by itself,
	// it is told by the next call that wants one.
	Outcome bool
	// Try: rather than wait for anything, return status.ErrBusy.
	Try bool

	at int64 // a profile's Stamp of when it was submitted
}

// Stream runs an executor's work in order.
type Stream interface {
	// Submit runs work now or later. An event is given if there is more to wait
	// for, else the outcome.
	Submit(w Work, how How) (*Event, error)
	// Beside runs work on a goroutine that no other work waits for.
	Beside(w Work) (*Event, error)
	// Target is the stream as work sees it, for who submits none.
	Target() *Target
	// Gate lets callers take the stream's turn by a word, in memory that does not move,
	// which is GateShut and from now on the stream's, until it is closed: then it stays
	// so. False: the device knows nothing of what they would queue.
	Gate(word *uint32) bool
	// Line is the stream for who takes memory for it that others may still use;
	// nil while it captures, and so cannot wait for them.
	Line() *memory.Line
	// Errors returns, and forgets, those of work whose outcome nobody has seen.
	Errors() error
	// Gather is Errors for work of another stream, in its Outcome: it waits for who
	// looks what has passed already, so that it has all. What that held is let go of
	// by letGo, with no lock held; nil: nothing.
	Gather() (letGo func(), err error)
	// Keep adds an error to them, if it is one.
	Keep(err error)
	// Captured reports whether the stream is of others, who are capturing it.
	Captured() bool
	// Idle reports whether there is no work, under way or to come, no capture, and no gate.
	Idle() bool
	// Cancel asks all work to end soon, but for what only waits. That it was
	// cancelled is told to those who wait for it, and is not among Errors.
	Cancel()
	// BeginCapture records what is submitted from now on; EndCapture returns it.
	BeginCapture() error
	EndCapture() (*Graph, error)
	// Close cancels work that somebody waits for or could. What the device has
	// queued may end as it would, but is cancelled too after the grace. It returns
	// what Errors would.
	Close(grace time.Duration) error
}

var (
	// ErrFreed refuses work for a stream that is closed.
	ErrFreed     = status.Errorf(status.BadHandle, "executor is freed")
	errNotBegun  = status.Errorf(status.Cancelled, "cancelled before it began")
	errAbandoned = status.Errorf(status.Cancelled, "cancelled while it waited for other work")
	// ErrCapturing refuses work that cannot be captured.
	ErrCapturing = status.Errorf(status.Invalid, "a stream that captures cannot wait, or copy to or from the host")
)
