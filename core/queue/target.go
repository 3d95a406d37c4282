package queue

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// Target is a stream as work sees it.
type Target struct {
	Line *memory.Line
	// Phase is the cell of the phase, which launches read and write in order, on
	// whichever streams share it. The device reaches it. Nil: no launch asks.
	Phase *memory.Memory
	// Async says that the device works by itself.
	Async bool
	// Order is held, on a device that works by itself, from when work looks who
	// uses its memory until it has noted its own use, so that no other stream's
	// comes between. It is the device's. Nobody waits meanwhile: a stream never
	// has more work in flight than the device takes.
	Order *lock.Mutex[lock.Order]
	// Capturing says that work is recorded, to run later: it orders its memory then.
	Capturing bool
	// Guests are the device's, for a stream of others.
	Guests *Guests
	// Loss is the device's: what is known of how it was lost. It may be nil.
	Loss *status.Loss
	// Last is the ticket of the work queued last.
	Last backends.Ticket
	// Track is where profiles see the stream's work; nil: they don't.
	Track     *profile.Track
	submitted int64 // a profile's Stamp of the work that has the turn
}

// PhaseCell is where the phase is.
func (t *Target) PhaseCell() *uint32 { return (*uint32)(hostmem.Pointer(t.Phase.Addr)) }

// outcome is a work's, which is over.
func (t *Target) outcome(w Work, err error) error {
	err = w.Outcome(err)
	if err == nil || t.Loss == nil {
		return err
	}
	if _, waits := w.(Waiting); waits { // it did nothing that a device is lost by
		return t.Loss.Add(err)
	}
	return t.Loss.Tell(err)
}

// Mark queues what is nothing on a device that works by itself, for its ticket,
// which passes when all that was queued before it has: an Await has none.
func (t *Target) Mark() (backends.Ticket, error) { return t.Line.Stream.Fill(0, 0, 1, 0) }

// Launch is the stream's, of a job that profiles are told of.
func (t *Target) Launch(k backends.Kernel, l *backends.Launch, job *profile.Job) (backends.Ticket, error) {
	return t.profiled(job, func(s backends.Stream) (backends.Ticket, error) { return s.Launch(k, l) })
}

// Copy is the stream's. what names it for profiles.
func (t *Target) Copy(what string, dst, src uintptr, bytes int64) (backends.Ticket, error) {
	job := profile.Job{Kind: profile.Copy, Name: what, Bytes: bytes}
	return t.profiled(&job, func(s backends.Stream) (backends.Ticket, error) { return s.Copy(dst, src, bytes) })
}

// Fill is the stream's. what names it for profiles.
func (t *Target) Fill(what string, dst uintptr, cell uint64, size int, count int64) (backends.Ticket, error) {
	job := profile.Job{Kind: profile.Copy, Name: what, Bytes: count * int64(size)}
	return t.profiled(&job, func(s backends.Stream) (backends.Ticket, error) { return s.Fill(dst, cell, size, count) })
}

// profiled gives the device a job, and tells who profiles. What is recorded runs later.
func (t *Target) profiled(job *profile.Job, queue func(backends.Stream) (backends.Ticket, error)) (backends.Ticket, error) {
	set, stream := profile.On(), t.Line.Stream
	if set == nil || t.Capturing || t.Track == nil {
		return queue(stream)
	}
	return set.Run(t.Track, stream, t.Async, t.submitted, job, func() (backends.Ticket, error) { return queue(stream) })
}
