package core

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// foreignStream is the queue of a stream that others own. The executor's lock
// guards the rest.
type foreignStream struct {
	queue.Stream
	users int    // who are about to submit to it
	last  uint64 // call on it
	idle  bool   // whoever forgets streams is its only user
}

// maxForeign is how many streams of others an executor remembers while they have
// nothing to do: there may be ever new ones.
const maxForeign = 32

// on returns the executor's queue for a stream that others own, by its number,
// which the caller may submit to until done. With try it is not made:
// status.ErrBusy.
func (ex *Executor) on(native uintptr, try bool) (*foreignStream, error) {
	s, err := ex.known(native, nil)
	switch {
	case s != nil || err != nil:
		return s, err
	case try:
		return nil, status.ErrBusy
	}
	wrapped, err := ex.device.dev.WrapStream(native)
	if err != nil {
		return nil, status.FromBackend("stream", err)
	}
	made := &foreignStream{Stream: ex.newQueue(wrapped)}
	if s, err = ex.known(native, made); s != made { // freed, or another goroutine was faster
		_ = made.Close(0)
		return s, err
	}
	ex.forget()
	return s, nil
}

// known returns the queue for a stream of others, if there is none the one that
// was made, which may be nil.
func (ex *Executor) known(native uintptr, made *foreignStream) (*foreignStream, error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if ex.closed {
		return nil, queue.ErrFreed
	}
	if own, ending := ex.streamsMade[native]; ending && own == nil {
		return nil, Errorf(BadHandle, "stream %#x is freed", native)
	}
	s := ex.foreign[native]
	if s == nil {
		if made == nil {
			return nil, nil
		}
		s = made
		ex.foreign[native] = s
	}
	ex.calls++
	s.last = ex.calls
	s.use()
	return s, nil
}

// uncaptured refuses to prepare a call, which may take the device's compiler, for
// a stream of others that they capture.
func (ex *Executor) uncaptured(native uintptr, r *call.Request) error {
	s, err := ex.on(native, false)
	if err != nil {
		return err
	}
	defer ex.done(s)
	if s.Captured() {
		return Errorf(Unavailable, "%s: the owner of the stream is capturing it, and a call of this kind is the first, for which code may have to be "+
			"compiled; call it once before the capture", r.What())
	}
	return nil
}

// use counts a user. The executor's lock is held.
func (s *foreignStream) use() {
	s.users++
	s.idle = false
}

// done takes a user away.
func (ex *Executor) done(s *foreignStream) {
	ex.mu.Lock()
	s.users--
	ex.mu.Unlock()
}

// forget closes streams of others that have nothing to do, the longest unused
// first, until few are left. Their tickets have passed; errors that nobody has
// seen become those of the executor's own stream.
func (ex *Executor) forget() {
	for _, s := range ex.forgettable() {
		idle := s.Idle() // may call back: what has passed is let go of
		ex.mu.Lock()
		s.users--
		gone := idle && s.idle && !ex.closed && len(ex.foreign) > maxForeign
		if gone {
			maps.DeleteFunc(ex.foreign, func(_ uintptr, f *foreignStream) bool { return f == s })
			ex.leaving.Add(1)
		}
		ex.mu.Unlock()
		if gone {
			ex.stream.Keep(s.Close(0))
			ex.leaving.Done()
		}
	}
}

// forgettable lists the streams without users, if there are too many, with the
// caller as the only one.
func (ex *Executor) forgettable() []*foreignStream {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if len(ex.foreign) <= maxForeign {
		return nil
	}
	var list []*foreignStream
	for _, s := range ex.foreign {
		if s.users == 0 {
			s.users, s.idle = 1, true
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *foreignStream) int { return cmp.Compare(a.last, b.last) })
	return list
}
