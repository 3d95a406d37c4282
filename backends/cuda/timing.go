package cuda

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// timing is when a piece of work was done: between two events on its stream, of which
// the device notes when it passes them. On a stream that was idle it comes to the
// first while the host is still about to queue the work.
type timing struct {
	stream       *stream
	began, ended driver.Event // 0: there is none, or no longer
	ticket       backends.Ticket
	queued       bool // the work, and both events
	told         bool // by Span, in span
	span         [2]time.Duration
	err          error // why there is no time
}

var (
	errUntimed  = errors.New("cuda: no work of the stream was timed")
	errReleased = errors.New("cuda: the timing is released")
)

// Time has the next work timed.
func (s *stream) Time() backends.Timing {
	t := &timing{stream: s}
	s.timing.Store(t)
	return t
}

// before has the device note when it begins the work at hand, if somebody asks and it
// is not captured. The caller is between begin and end. That a time is not to be had
// is told to who asks for it; the work goes on.
func (s *stream) before() {
	if s.timed = nil; s.timing.Load() == nil {
		return
	}
	t := s.timing.Swap(nil)
	if t == nil || s.graph != nil || s.joined {
		return
	}
	d := s.device
	if t.began, t.err = d.events.take(d); t.err != nil {
		return
	}
	if t.ended, t.err = d.events.take(d); t.err != nil {
		return
	}
	if t.err = d.api.Check("cuEventRecord", d.api.EventRecord(t.began, s.handle)); t.err == nil {
		s.timed = t
	}
}

// after has it note when it has ended the work, which is queued.
func (s *stream) after(ticket backends.Ticket) {
	t := s.timed
	if t == nil {
		return
	}
	s.timed = nil
	api := s.device.api
	if t.err = api.Check("cuEventRecord", api.EventRecord(t.ended, s.handle)); t.err == nil {
		t.ticket, t.queued = ticket, true
	}
}

// Span tells when the work was done.
func (t *timing) Span() (began, ended time.Duration, err error) {
	d := t.stream.device
	if !t.told {
		switch {
		case t.err != nil:
			return 0, 0, fmt.Errorf("cuda: time of work: %w", d.classified(t.err))
		case !t.queued:
			return 0, 0, errUntimed
		}
		if err := d.within(t.ask); err != nil {
			return 0, 0, fmt.Errorf("cuda: time of work: %w", d.classified(err))
		}
	}
	return t.span[0], t.span[1], nil
}

// Since is the time from the end of earlier's work to the end of this one's.
func (t *timing) Since(earlier backends.Timing) (time.Duration, error) {
	d := t.stream.device
	o, ok := earlier.(*timing)
	switch {
	case !ok || o.stream.device != d:
		return 0, errors.New("cuda: the other time is another device's")
	case t.err != nil || o.err != nil:
		return 0, fmt.Errorf("cuda: time between works: %w", d.classified(errors.Join(t.err, o.err)))
	case t.ended == 0 || o.ended == 0 || !t.queued || !o.queued:
		return 0, errUntimed
	}
	var took time.Duration
	err := d.within(func() (err error) {
		if took, err = d.elapsed(o.ended, t.ended); err == nil {
			return nil
		}
		// No word of the driver's says that time may go back.
		back, again := d.elapsed(t.ended, o.ended)
		if again == nil {
			took, err = -back, nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cuda: time between works: %w", d.classified(err))
	}
	return took, nil
}

// ask asks the driver, and gives the events back.
func (t *timing) ask() error {
	d := t.stream.device
	took, err := d.elapsed(t.began, t.ended)
	if err != nil {
		return err
	}
	began, kept, err := t.stream.clock.tell(d, t)
	if err != nil {
		return err
	}
	t.span, t.told = [2]time.Duration{began, began + took}, true
	if !kept {
		d.events.give(t.began)
	}
	d.events.give(t.ended)
	t.began, t.ended = 0, 0
	return nil
}

// Release lets go of the events. What the device is still to come to cannot be had by
// others, whose times it would overwrite.
func (t *timing) Release() {
	s := t.stream
	s.timing.CompareAndSwap(t, nil)
	passed := t.queued && s.passed() >= t.ticket
	for _, e := range []driver.Event{t.began, t.ended} {
		switch {
		case e == 0:
		case passed:
			s.device.events.give(e)
		default:
			s.device.destroy(e)
		}
	}
	t.began, t.ended = 0, 0
	if t.err == nil && !t.told {
		t.err = errReleased
	}
}

// clock is the time on a stream. The driver tells what is between two events in
// milliseconds, as a float32, whose steps are microseconds if that is 8 seconds or more:
// so the event that others are compared with is never long ago.
type clock struct {
	mu     sync.Mutex
	base   driver.Event // 0: there is none yet
	at     time.Duration
	ticket backends.Ticket // of the work that began by it
}

const clockReach = time.Second

// tell tells when a work began, and whether the clock keeps its event.
func (c *clock) tell(d *device, t *timing) (began time.Duration, kept bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base == 0 {
		c.base, c.ticket = t.began, t.ticket
		return c.at, true, nil
	}
	if t.ticket < c.ticket {
		gap, err := d.elapsed(t.began, c.base)
		return c.at - gap, false, err
	}
	gap, err := d.elapsed(c.base, t.began)
	if err != nil || gap < clockReach {
		return c.at + gap, false, err
	}
	d.events.give(c.base)
	c.base, c.at, c.ticket = t.began, c.at+gap, t.ticket
	return c.at, true, nil
}

// stop gives the event back.
func (c *clock) stop(d *device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base != 0 {
		d.events.give(c.base)
		c.base = 0
	}
}

// elapsed is the time from one event to another, both of which have passed. The caller
// is within the context.
func (d *device) elapsed(from, to driver.Event) (time.Duration, error) {
	var ms float32
	err := d.api.Check("cuEventElapsedTime", d.api.EventElapsed(&ms, from, to))
	return time.Duration(math.Round(float64(ms) * float64(time.Millisecond))), err
}

// events are those of a device that nobody has.
type events struct {
	mu    sync.Mutex
	spare []driver.Event
}

// take returns an event, a new one if need be.
func (e *events) take(d *device) (event driver.Event, err error) {
	e.mu.Lock()
	if n := len(e.spare); n > 0 {
		event, e.spare = e.spare[n-1], e.spare[:n-1]
	}
	e.mu.Unlock()
	if event == 0 {
		err = d.do(call{"cuEventCreate", func() driver.Result { return d.api.EventCreate(&event, 0) }})
	}
	return event, err
}

func (e *events) give(event driver.Event) {
	e.mu.Lock()
	e.spare = append(e.spare, event)
	e.mu.Unlock()
}

// destroy destroys them all. What the driver says to that has nobody to hear it.
func (e *events) destroy(d *device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.spare {
		d.destroy(event)
	}
	e.spare = nil
}

func (d *device) destroy(e driver.Event) {
	_ = d.do(call{"cuEventDestroy", func() driver.Result { return d.api.EventDestroy(e) }})
}
