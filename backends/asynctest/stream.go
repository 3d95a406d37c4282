package asynctest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// stream is a queue with a goroutine that works it off in order.
type stream struct {
	device *device
	work   chan *job
	ended  chan struct{}

	mu       sync.Mutex
	closed   bool
	last     *job // queued
	launches int
	copies   int
}

// job is one queued work, and its event.
type job struct {
	do     func() error
	cancel func() bool // whether it is cancelled before its time; nil: it can't be
	uses   []*block
	done   chan struct{}
	err    error
}

// Wait returns the outcome, or backends.ErrPending after the given time.
func (j *job) Wait(d time.Duration) error {
	select {
	case <-j.done:
		return j.err
	default:
	}
	if d <= 0 {
		return backends.ErrPending
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.err
	case <-timer.C:
		return backends.ErrPending
	}
}

var errClosed = errors.New("asynctest: the stream is closed")

// queue adds a job; the caller holds the stream's lock.
func (s *stream) queue(j *job) (backends.Event, error) {
	if s.closed {
		return nil, errClosed
	}
	j.done = make(chan struct{})
	s.device.mu.Lock()
	for _, b := range j.uses {
		b.pending++
	}
	s.device.mu.Unlock()
	s.last = j
	s.work <- j
	return j, nil
}

// tick is how often a waiting job looks whether it is cancelled.
const tick = time.Millisecond

func (s *stream) serve() {
	defer close(s.ended)
	for j := range s.work {
		end := time.Now().Add(s.device.backend.options.Delay)
		for left := time.Until(end); left > 0; left = time.Until(end) {
			if j.cancel != nil && j.cancel() {
				break
			}
			time.Sleep(min(left, tick))
		}
		j.err = j.do()
		s.device.mu.Lock()
		for _, b := range j.uses {
			b.pending--
		}
		s.device.mu.Unlock()
		close(j.done)
	}
}

// Launch queues a launch. Its description is read when its time has come, not
// before: who changes it earlier breaks the contract, and will see it.
func (s *stream) Launch(k backends.Kernel, l *backends.Launch) (backends.Event, error) {
	kn, ok := k.(*kernel)
	if !ok || kn.device != s.device {
		return nil, errors.New("asynctest: launch: the kernel is of another device")
	}
	if len(l.Slots) != kn.slots || len(l.Params) != kn.params {
		return nil, fmt.Errorf("asynctest: launch: %d slots and %d parameters given, the program has %d and %d",
			len(l.Slots), len(l.Params), kn.slots, kn.params)
	}
	uses, err := s.device.views(l)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launches++
	fail := s.launches == s.device.backend.options.FailLaunch
	j := &job{uses: uses, do: func() error {
		if fail {
			return fmt.Errorf("launch %d: %w", s.device.backend.options.FailLaunch, ErrInjected)
		}
		here := *l
		here.Slots = append([]backends.View(nil), l.Slots...)
		for i := range here.Slots {
			if here.Slots[i].Addr != 0 {
				here.Slots[i].Addr -= away
			}
		}
		if here.Workspace != 0 {
			here.Workspace -= away
		}
		return kn.code.Run(&here, s.device.pool)
	}}
	if l.Cancel != nil {
		j.cancel = l.Cancel.Load
	}
	return s.queue(j)
}

// views returns the blocks that a launch's views lie in. A view without an
// element may be anywhere.
func (d *device) views(l *backends.Launch) ([]*block, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var uses []*block
	for i := range l.Slots {
		v := &l.Slots[i]
		if v.Addr == 0 || l.N == 0 && v.Bytes == 0 {
			continue
		}
		lo, hi := int64(0), max(v.Bytes, int64(v.Type.Size()))
		up := int64(v.Type.Size())
		for k := range v.Rank {
			reach := (v.Shape[k] - 1) * v.Stride[k] * int64(v.Type.Size())
			lo += min(reach, 0)
			up += max(reach, 0)
		}
		hi = max(hi, up)
		if l.N == 0 {
			lo, hi = 0, v.Bytes
		}
		b, err := d.find(v.Addr+uintptr(lo), hi-lo)
		if err != nil {
			return nil, fmt.Errorf("launch: slot %d: %w", i, err)
		}
		uses = append(uses, b)
	}
	return uses, nil
}

// Copy queues a copy.
func (s *stream) Copy(dst, src uintptr, bytes int64, dstHost, srcHost bool) (backends.Event, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("asynctest: copy of %d bytes", bytes)
	}
	j := &job{}
	for _, side := range []struct {
		addr *uintptr
		host bool
	}{{&dst, dstHost}, {&src, srcHost}} {
		if side.host || bytes == 0 {
			continue
		}
		s.device.mu.Lock()
		b, err := s.device.find(*side.addr, bytes)
		s.device.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("copy: %w", err)
		}
		*side.addr -= away
		j.uses = append(j.uses, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies++
	fail := s.copies == s.device.backend.options.FailCopy
	j.do = func() error {
		if fail {
			return fmt.Errorf("copy %d: %w", s.device.backend.options.FailCopy, ErrInjected)
		}
		copy(hostmem.Bytes(dst, bytes), hostmem.Bytes(src, bytes))
		return nil
	}
	return s.queue(j)
}

// Synchronize waits until all work queued so far is done, or ctx ends.
func (s *stream) Synchronize(ctx context.Context) error {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == nil {
		return nil
	}
	select {
	case <-last.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close works off the queue and ends the stream.
func (s *stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.closed = true
	close(s.work)
	s.mu.Unlock()
	<-s.ended
	return nil
}
