package queue

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/status"
)

// Guest is work that can be recorded in the graph of others: that which the owner
// of its stream captures.
type Guest interface {
	Replayed
	// Lodge makes the work ready for that, or says why it cannot be. Run then comes
	// with a Target that is Capturing.
	Lodge() error
	// Lodged lets go of what is the owner's business: memory of others.
	Lodged()
}

// Guests are the works in graphs of others, of all streams of a device. Nothing
// tells when those are replayed, nor when one ends: who looks sees what replays
// have noted so far, and lets go of what is no longer used.
type Guests struct {
	mu   lock.Mutex[lock.Last]
	list []lodger
}

type lodger struct {
	work Guest
	stay backends.Stay
}

func (g *Guests) add(l lodger) {
	g.mu.Lock()
	g.list = append(g.list, l)
	g.mu.Unlock()
}

// Look ends the works whose graphs are gone, and returns the errors of replays
// that nobody has seen.
func (g *Guests) Look() error {
	var gone []Guest
	var errs []error
	g.mu.Lock()
	kept := g.list[:0]
	for _, l := range g.list {
		ended := l.stay.Gone() // asked first: what the last replay noted is there then
		if err := l.work.Outcome(nil); err != nil && len(errs) < maxErrors {
			errs = append(errs, err)
		}
		if ended {
			gone = append(gone, l.work)
		} else {
			kept = append(kept, l)
		}
	}
	clear(g.list[len(kept):])
	g.list = kept
	g.mu.Unlock()
	for _, w := range gone { // which may call back
		w.Release()
	}
	return status.Join(errs...)
}

// join records work in what the stream's owner captures. If the work belongs to his
// graph from now on, whatever the error, settle has to be called when the turn is
// over; else it is nil, and nothing has happened.
func (s *Deferred) join(w Work) (settle func(), err error) {
	stream, can := s.target.Line.Stream.(backends.Guest)
	work, may := w.(Guest)
	if !can || !may || s.target.Guests == nil {
		return nil, status.Errorf(status.Unavailable, "the stream's owner is capturing it, and this cannot be part of a graph of others")
	}
	// What others have recorded before, and what was said of it, is not this call's.
	s.Keep(s.target.Guests.Look())
	if err := work.Lodge(); err != nil {
		return nil, err
	}
	stay, err := stream.Join()
	if err != nil {
		return nil, status.FromBackend("capture", err)
	}
	t := s.target
	t.Capturing = true
	_, err = run(w, &t)
	stay.Leave()
	if err != nil {
		err = w.Outcome(err)
	}
	work.Captured()
	return func() {
		work.Lodged() // which may call back, and comes before others may let go of the work
		s.target.Guests.add(lodger{work, stay})
	}, err
}
