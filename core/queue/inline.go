package queue

import (
	"time"

	"github.com/hologram-project/hologram/core/profile"
)

// Inline is a stream of a device that works while called.
type Inline struct{ lane }

// NewInline makes a stream.
func NewInline(t Target) *Inline {
	s := &Inline{}
	s.init(t)
	return s
}

// Submit is Stream.Submit.
func (s *Inline) Submit(w Work, how How) (*Event, error) {
	how.at = profile.Stamp()
	mine, err := s.take(w, how)
	if err != nil {
		w.Release()
		return nil, err
	}
	if mine {
		return nil, s.here(w, how.at)
	}
	ev := newEvent(w, how)
	if err := s.enqueue(ev, s.serve); err != nil {
		w.Release()
		return nil, err
	}
	return ev, nil
}

// here runs work on the caller's thread, which has the turn.
func (s *Inline) here(w Work, submitted int64) error {
	kept := false
	defer func() {
		s.give()
		if !kept {
			w.Release()
		}
	}()
	if s.graph != nil {
		s.graph.add(w)
		kept = true
		return nil
	}
	s.target.submitted = submitted
	_, err := run(w, &s.target)
	return w.Outcome(err)
}

func (s *Inline) serve(ev *Event) {
	w := ev.begin()
	if w == nil {
		return
	}
	s.target.submitted = ev.how.at
	_, err := run(w, &s.target)
	err = w.Outcome(err)
	ev.leave()
	w.Release()
	ev.finish(err)
}

// Errors is Stream.Errors: everybody has been told.
func (s *Inline) Errors() error { return nil }

// Gather is Stream.Gather: what has passed has ended.
func (s *Inline) Gather() (func(), error) { return nil, nil }

// Keep is Stream.Keep. Nothing comes here: a device that works while called has
// no streams of others.
func (s *Inline) Keep(error) {}

// Captured is Stream.Captured: see Keep.
func (s *Inline) Captured() bool { return false }

// Idle is Stream.Idle.
func (s *Inline) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle()
}

// Cancel is Stream.Cancel.
func (s *Inline) Cancel() { s.cancelEvents(false) }

// BeginCapture is Stream.BeginCapture.
func (s *Inline) BeginCapture() error { return s.begin(nil, nil) }

// EndCapture is Stream.EndCapture.
func (s *Inline) EndCapture() (*Graph, error) { return s.end() }

// Close is Stream.Close.
func (s *Inline) Close(time.Duration) error {
	s.shut()
	s.target.Line.Close()
	return s.target.Line.Stream.Close()
}
