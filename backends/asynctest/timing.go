package asynctest

import (
	"errors"
	"fmt"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// timing is when a work was done. The backend's lock guards it.
type timing struct {
	stream       *stream
	began, ended time.Time // zero: it was not
	released     bool
}

// clockStart is the instant that the devices count from: their clock is not the host's.
var clockStart = time.Now().Add(-time.Hour)

// Time has the next work timed.
func (s *stream) Time() backends.Timing {
	b := s.device.backend
	b.mu.Lock()
	defer b.unlock()
	s.timing = &timing{stream: s}
	b.counts.Timings++
	return s.timing
}

// Span tells when the work was done.
func (t *timing) Span() (began, ended time.Duration, err error) {
	b := t.stream.device.backend
	b.mu.Lock()
	defer b.unlock()
	switch {
	case t.released:
		return 0, 0, b.breach("a timing of stream %d is asked after its release", t.stream.number)
	case t.ended.IsZero():
		return 0, 0, fmt.Errorf("asynctest: no work of stream %d was timed", t.stream.number)
	}
	return t.began.Sub(clockStart), t.ended.Sub(clockStart), nil
}

// Since is the time between the ends of two works.
func (t *timing) Since(earlier backends.Timing) (time.Duration, error) {
	o, ok := earlier.(*timing)
	if !ok || o.stream.device != t.stream.device {
		return 0, errors.New("asynctest: the other time is another device's")
	}
	_, from, err := o.Span()
	if err != nil {
		return 0, err
	}
	_, to, err := t.Span()
	return to - from, err
}

// Release lets go of it.
func (t *timing) Release() {
	b := t.stream.device.backend
	b.mu.Lock()
	defer b.unlock()
	if t.released {
		_ = b.breach("a timing of stream %d is released twice", t.stream.number)
		return
	}
	t.released = true
	b.counts.Timings--
	if t.stream.timing == t {
		t.stream.timing = nil
	}
}
