package asynctest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// stream is the host's side of a queue. The backend's lock guards what changes.
type stream struct {
	device  *device
	number  int // among the device's, from 1 on
	queue   *queue
	native  uintptr
	wrapped bool
	joined  bool        // what comes is the owner's graph's
	queues  atomic.Bool // a call that queues is under way

	last     backends.Ticket // given
	passed   backends.Ticket
	inflight []*work                             // with tickets, that the host does not know to have passed, in order
	failed   map[backends.Ticket]error           // passed, and not waited for
	waited   map[backends.Ticket]bool            // to the end
	batches  map[backends.Ticket]backends.Ticket // by a batch's last ticket, its first
	capture  *graph                              // being captured
	timing   *timing                             // of the next work; nil: nobody asks
	closed   bool
}

// newStream makes a stream on a queue. The caller holds the lock.
func (d *device) newStream(q *queue, wrapped bool) *stream {
	d.made++
	d.backend.counts.Streams++
	s := &stream{device: d, number: d.made, queue: q, wrapped: wrapped, native: ownStreams + uintptr(d.made),
		failed: map[backends.Ticket]error{}, waited: map[backends.Ticket]bool{}, batches: map[backends.Ticket]backends.Ticket{}}
	d.streams[s] = struct{}{}
	return s
}

// ownStreams is what the numbers of a device's own streams begin behind.
const ownStreams = 0xe0000

// Native is the stream's number: an owner's, or one of a device's own streams.
func (s *stream) Native() uintptr { return s.native }

// usable says why nothing can be queued. The caller holds the lock.
func (s *stream) usable(what string) error {
	switch {
	case s.closed:
		return fmt.Errorf("asynctest: %s: the stream is closed", what)
	case s.queue.capture != nil && !s.joined:
		return backends.Captured("asynctest", what)
	}
	return s.device.usable(what)
}

// submit queues, or captures, the task that build makes under the lock.
func (s *stream) submit(k kind, build func() (*task, error)) (backends.Ticket, error) {
	b := s.device.backend
	defer s.alone(kindNames[k])()
	s.queue.submit.Lock()
	defer s.queue.submit.Unlock()
	b.mu.Lock()
	w, err := s.enter(k, build)
	reports := b.release()
	defer b.emit(reports)
	if w == nil {
		return 0, err
	}
	s.queue.items <- w // waits while the queue is full
	if w.panics {
		panic(ErrInjected)
	}
	return w.ticket, nil
}

// alone reports calls that queue on the stream while another does, until the
// function that it returns is called.
func (s *stream) alone(what string) (done func()) {
	if s.queues.Swap(true) {
		b := s.device.backend
		b.mu.Lock()
		_ = b.breach("%s on stream %d while another call queues on it", what, s.number)
		b.unlock()
	}
	return func() { s.queues.Store(false) }
}

// enter makes the work and counts it. Nil without an error: it was captured.
func (s *stream) enter(k kind, build func() (*task, error)) (*work, error) {
	d, b := s.device, s.device.backend
	if err := s.usable(kindNames[k]); err != nil {
		return nil, err
	}
	t, err := build()
	if err != nil {
		return nil, fmt.Errorf("asynctest: %s: %w", kindNames[k], err)
	}
	o := &b.options
	timing := s.timing
	s.timing = nil
	var fail int
	switch t.kind = k; k {
	case kindLaunch:
		fail, b.counts.Launches = o.FailLaunch, b.counts.Launches+1
	case kindCopy:
		fail, b.counts.Copies = o.FailCopy, b.counts.Copies+1
	case kindFill:
		fail, b.counts.Fills = o.FailFill, b.counts.Fills+1
	case kindReplay:
		fail, b.counts.Replays = o.FailReplay, b.counts.Replays+1
	}
	if s.capture != nil {
		s.capture.add(t)
		return nil, nil
	}
	if s.joined {
		if s.queue.capture == nil {
			return nil, b.breach("%s on stream %d between Join and Leave, and its owner no longer captures", kindNames[k], s.number)
		}
		s.queue.capture.add(t)
		return nil, nil
	}
	w := s.queue.place(t)
	s.last++
	d.works++
	d.pending[d.works] = true
	d.calls[k]++
	w.stream, w.ticket, w.number, w.delay, w.timing = s, s.last, d.works, o.Delay, timing
	if d.calls[k] == fail {
		b.counts.Injected++
		w.fail = fmt.Errorf("%v, number %d: %w", w, fail, ErrInjected)
	}
	if t.kernel != nil {
		if w.panics = d.calls[k] == o.PanicLaunch; w.panics {
			b.counts.Injected++
		}
		t.kernel.pending++
	}
	if t.graph != nil {
		t.graph.pending++
	}
	b.note(w, t.uses)
	s.inflight = append(s.inflight, w)
	return w, nil
}

// Copy queues a copy.
func (s *stream) Copy(dst, src uintptr, bytes int64) (backends.Ticket, error) {
	return s.submit(kindCopy, func() (*task, error) {
		if bytes < 0 {
			return nil, fmt.Errorf("%d bytes", bytes)
		}
		t := &task{detail: fmt.Sprintf("%d bytes", bytes)}
		if bytes == 0 {
			t.do = func() error { return nil }
			return t, nil
		}
		to, err := s.device.find(dst, bytes)
		if err != nil {
			return nil, fmt.Errorf("destination: %w", err)
		}
		from, err := s.device.find(src, bytes)
		if err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		if dst < src+uintptr(bytes) && src < dst+uintptr(bytes) {
			return nil, fmt.Errorf("the %d bytes at %#x and at %#x overlap", bytes, dst, src)
		}
		t.uses = []use{usedBytes(to, dst, bytes, true), usedBytes(from, src, bytes, false)}
		t.do = func() error {
			copy(hostmem.Bytes(to.at(dst), bytes), hostmem.Bytes(from.at(src), bytes))
			return nil
		}
		return t, nil
	})
}

// usedBytes is the use of n bytes at addr.
func usedBytes(b *block, addr uintptr, n int64, write bool) use {
	at := int64(addr - b.addr)
	return use{b, at, at + n, write}
}

// Fill queues a fill.
func (s *stream) Fill(dst uintptr, cell uint64, size int, count int64) (backends.Ticket, error) {
	return s.submit(kindFill, func() (*task, error) {
		switch {
		case size != 1 && size != 2 && size != 4 && size != 8:
			return nil, fmt.Errorf("elements of %d bytes; expected 1, 2, 4 or 8", size)
		case count < 0 || count > 1<<59:
			return nil, fmt.Errorf("%d elements", count)
		case dst%uintptr(size) != 0:
			return nil, fmt.Errorf("address %#x is no multiple of the elements' %d bytes", dst, size)
		}
		bytes := count * int64(size)
		t := &task{detail: fmt.Sprintf("%d bytes", bytes)}
		if bytes == 0 {
			t.do = func() error { return nil }
			return t, nil
		}
		to, err := s.device.find(dst, bytes)
		if err != nil {
			return nil, err
		}
		t.uses = []use{usedBytes(to, dst, bytes, true)}
		t.do = func() error {
			_, err := (&hostmem.Stream{Backend: "asynctest"}).Fill(to.at(dst), cell, size, count)
			return err
		}
		return t, nil
	})
}

// Await lets the queue wait, and the detector know it.
func (s *stream) Await(other backends.Stream, t backends.Ticket) error {
	b := s.device.backend
	defer s.alone("await")()
	s.queue.submit.Lock()
	defer s.queue.submit.Unlock()
	b.mu.Lock()
	w, err := s.await(other, t)
	reports := b.release()
	defer b.emit(reports)
	if w != nil {
		s.queue.items <- w
	}
	return err
}

func (s *stream) await(other backends.Stream, t backends.Ticket) (*work, error) {
	if err := s.usable("await"); err != nil {
		return nil, err
	}
	b := s.device.backend
	o, ok := other.(*stream)
	switch {
	case !ok || o.device != s.device:
		return nil, errors.New("asynctest: await: the other stream is of another device")
	case s.capture != nil:
		s.capture.void = true
		return nil, b.breach("await on stream %d, which is capturing", s.number)
	case s.joined:
		return nil, b.breach("await on stream %d between Join and Leave", s.number)
	case t > o.last:
		return nil, b.breach("await of ticket %d of stream %d, which has given %d so far", t, o.number, o.last)
	}
	b.counts.Awaits++
	first := o.last + 1 - backends.Ticket(len(o.inflight))
	if t < first || o.queue == s.queue {
		return nil, nil // the host knows that it has passed, or the queue's order does
	}
	after := o.inflight[t-first]
	s.queue.clock = s.queue.clock.join(after.clock)
	s.queue.clock[after.queue] = max(s.queue.clock[after.queue], after.seq)
	w := s.queue.place(&task{kind: kindAwait, do: func() error { return nil }})
	w.after = after
	return w, nil
}

// know notes that the host knows t to have passed.
func (s *stream) know(t backends.Ticket) {
	first := s.last + 1 - backends.Ticket(len(s.inflight))
	if t < first {
		return
	}
	n := t - first + 1
	s.device.backend.observe(s.inflight[n-1])
	clear(s.inflight[:n])
	s.inflight = s.inflight[n:]
}

// Passed is the last ticket that has passed; from then on the host knows it.
func (s *stream) Passed() backends.Ticket {
	b := s.device.backend
	b.mu.Lock()
	defer b.unlock()
	s.know(s.passed)
	return s.passed
}

// Wait waits for a ticket and tells how its work went.
func (s *stream) Wait(t backends.Ticket, d time.Duration) error {
	b := s.device.backend
	b.mu.Lock()
	defer b.unlock()
	switch {
	case t == 0:
		return nil
	case s.capture != nil:
		s.capture.void = true
		return b.breach("wait on stream %d, which is capturing", s.number)
	case t > s.last:
		return b.breach("wait for ticket %d of stream %d, which has given %d so far", t, s.number, s.last)
	}
	if t > s.passed {
		w := s.inflight[len(s.inflight)-1-int(s.last-t)]
		b.mu.Unlock()
		done := w.wait(d)
		b.mu.Lock()
		if !done {
			return backends.ErrPending
		}
	}
	if s.waited[t] {
		return b.breach("wait for ticket %d of stream %d, which has been waited for", t, s.number)
	}
	s.know(t)
	s.waited[t] = true
	first, ok := s.batches[t]
	if !ok {
		first = t
	}
	delete(s.batches, t)
	var err error
	for at := first; at <= t; at++ {
		if err == nil {
			err = s.failed[at]
		}
		delete(s.failed, at)
	}
	return err
}

// wait reports whether the work is done after at most d.
func (w *work) wait(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-w.done:
			return true
		default:
			return false
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

// Close ends the stream. A queue of others goes on.
func (s *stream) Close() error {
	b := s.device.backend
	s.queue.submit.Lock()
	defer s.queue.submit.Unlock()
	b.mu.Lock()
	switch {
	case s.closed:
		defer b.unlock()
		return errors.New("asynctest: close: the stream is closed already")
	case s.capture != nil:
		defer b.unlock()
		return fmt.Errorf("asynctest: close: stream %d is capturing", s.number)
	}
	if s.passed < s.last {
		_ = b.breach("stream %d is closed, of which tickets %d to %d have not passed", s.number, s.passed+1, s.last)
	}
	s.closed = true
	reports := b.release()
	defer b.emit(reports)
	if s.wrapped {
		s.queue.drain()
	} else {
		s.queue.close()
	}
	b.mu.Lock()
	s.know(s.last)
	delete(s.device.streams, s)
	b.counts.Streams--
	b.mu.Unlock()
	return nil
}
