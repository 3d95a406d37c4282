package queue

// What nobody is told of: work that callers queue by the gate, and quiet works of ours. One
// flight stands for many of them.

import (
	"slices"
	"strings"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
)

// maxQuiet bounds the quiet works of a stream of which nobody looks whether they have passed.
const maxQuiet = 32

// entered stands for what callers queued who took the turn by the gate, of which nobody is
// told and which holds nothing, and for quiet works.
type entered struct {
	left   []Released
	others bool // callers may have queued work too
}

func (*entered) Run(*Target) (backends.Ticket, error) { panic("it was queued before") }
func (e *entered) Outcome(err error) error {
	if err != nil {
		err = status.FromBackend(e.what(), err)
	}
	return err
}

// what names all that it may have been.
func (e *entered) what() string {
	var names []string
	for _, r := range e.left {
		if name := r.What(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if e.others || len(names) == 0 {
		names = append(names, "work of calls")
	}
	return strings.Join(names, " or ")
}

func (*entered) Cancel() bool { return false }
func (e *entered) Release() {
	for i, r := range e.left {
		e.left[i] = nil
		r.Release()
	}
	e.left = e.left[:0]
	stands.Put(e)
}

var stands = sync.Pool{New: func() any { return new(entered) }}

// standForEntered is stand, if callers have queued work since the last that was quiet.
func (s *Deferred) standForEntered() {
	if s.shared != nil && s.shared.Given() > s.quietTo {
		s.stand()
	}
}

// stand has such work fly, if there is any. The caller holds the lock and, if anybody
// does, the turn, and the gate is shut.
func (s *Deferred) stand() {
	if s.shared == nil {
		return
	}
	t := s.shared.Given()
	if t <= s.target.Last {
		if len(s.quiet) == 0 {
			return
		}
		t = s.target.Last // of work without lanes
	}
	e := stands.Get().(*entered)
	e.left, s.quiet, e.others = s.quiet, e.left, s.gate.word != nil
	f := spare.Get().(*flying)
	*f = flying{ticket: t, work: e}
	if s.add(f) {
		go s.tend()
	}
}

// leave ends quiet work, which the device has.
func (s *Deferred) leave(q Quiet) {
	s.quiet, s.quietTo = append(s.quiet, q.Leave()), s.shared.Given()
	if len(s.quiet) >= maxQuiet {
		s.standForQuiet()
	}
}

// standForQuiet is stand, for who has the turn, if there was quiet work.
func (s *Deferred) standForQuiet() {
	if len(s.quiet) > 0 {
		s.mu.Lock()
		s.stand()
		s.mu.Unlock()
	}
}
