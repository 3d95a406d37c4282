package core

import (
	"errors"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
)

// copyPiece is how many bytes are copied at a time: a copy of more is long
// work, which can be cancelled between two pieces.
const copyPiece = 64 << 20

// copyJob copies between a buffer and the host, or between devices.
type copyJob struct {
	dst, src         uintptr
	bytes            int64
	dstHost, srcHost bool
	mem              [2]*memory // counted as work; may be nil
	report           bool       // errors of earlier launches
	keep             any        // host memory of Go's
	before           *Event     // work on another stream that it waits for; may be nil
	stop             atomic.Bool
}

// copy submits a copy.
func (s *stream) copy(c *copyJob) (*Event, error) {
	return s.submit(c, s.device.async || c.bytes > copyPiece || c.before != nil)
}

func (c *copyJob) run(s *stream) error {
	if c.before != nil {
		if err := await(c.before, c.stop.Load); err != nil {
			return err
		}
	}
	for _, m := range c.mem {
		if m != nil && m.device == s.device {
			if err := s.after(m, c.stop.Load); err != nil {
				return err
			}
		}
	}
	for at := int64(0); at < c.bytes; at += copyPiece {
		if c.stop.Load() {
			return Errorf(Cancelled, "copy of %s: cancelled after %s", sizeText(c.bytes), sizeText(at))
		}
		ev, err := s.s.Copy(c.dst+uintptr(at), c.src+uintptr(at), min(copyPiece, c.bytes-at), c.dstHost, c.srcHost)
		if err == nil && ev != nil {
			// The device may be writing: not even a cancelled copy ends before that has.
			for err = backends.ErrPending; errors.Is(err, backends.ErrPending); {
				err = ev.Wait(look)
			}
		}
		if err != nil {
			return fromBackend("copy of "+sizeText(c.bytes), err)
		}
	}
	if c.report && s.device.async {
		s.settle()
		return s.takeDeferred()
	}
	return nil
}

// await waits for work elsewhere, until stop tells it to give up.
func await(ev *Event, stop func() bool) error {
	for {
		err := ev.Wait(look)
		if !errors.Is(err, backends.ErrPending) {
			return err
		}
		if stop() {
			return errCancelledWaiting
		}
	}
}

func (c *copyJob) cancel() { c.stop.Store(true) }

func (c *copyJob) done() {
	for _, m := range c.mem {
		if m != nil {
			m.end()
		}
	}
}
