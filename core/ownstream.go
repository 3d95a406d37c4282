package core

import (
	"errors"
	"math"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// Native is the number of the executor's own stream, by which others can use it too; 0
// where the device's streams have none.
func (ex *Executor) Native() uintptr { return ex.native }

func native(s backends.Stream) uintptr {
	if n, ok := s.(backends.Numbered); ok {
		return n.Native()
	}
	return 0
}

// own reports whether a stream's number means the executor's own.
func (ex *Executor) own(number uintptr) bool { return number == 0 || number == ex.native }

// submitTo submits work to the stream of a number.
func (ex *Executor) submitTo(number uintptr, w queue.Work, how queue.How) (*Event, error) {
	if ex.own(number) {
		return ex.stream.Submit(w, how)
	}
	s, err := ex.on(number, false)
	if err != nil {
		w.Release()
		return nil, err
	}
	defer ex.done(s)
	return s.Submit(w, how)
}

// lineOf is the line of the stream of a number, nil if it captures or was not used yet.
func (ex *Executor) lineOf(number uintptr) *memory.Line {
	if ex.own(number) {
		return ex.stream.Line()
	}
	s, err := ex.known(number, nil)
	if s == nil || err != nil {
		return nil
	}
	defer ex.done(s)
	return s.Line()
}

// NewStream makes another stream, for calls of the executor and for others, and returns
// its number: work on it runs beside that on other streams. It is the executor's until
// FreeStream.
func (ex *Executor) NewStream() (uintptr, error) {
	if !ex.device.Info.Asynchronous {
		return 0, Errorf(Unavailable, "stream: %s works while it is called, and has one stream an executor", ex.device.Name)
	}
	made, err := ex.device.dev.NewStream()
	if err != nil {
		return 0, status.FromBackend("stream", err)
	}
	number := native(made)
	ex.mu.Lock()
	closed := ex.closed
	if number != 0 && !closed {
		ex.streamsMade[number] = made
	}
	ex.mu.Unlock()
	switch {
	case closed:
		err = queue.ErrFreed
	case number == 0:
		err = Errorf(Unavailable, "stream: streams of %s have no numbers", ex.device.Name)
	default:
		return number, nil
	}
	return 0, errors.Join(err, made.Close())
}

// unhurried is a grace for work that ends by itself.
const unhurried = time.Duration(math.MaxInt64)

// FreeStream ends a stream of NewStream's once its work is done, for which it does not
// wait. What went wrong on it is told by those who ask the executor next.
func (ex *Executor) FreeStream(number uintptr) error {
	ex.mu.Lock()
	made, s := ex.streamsMade[number], ex.foreign[number]
	if made == nil || ex.closed { // or it is ending
		ex.mu.Unlock()
		return Errorf(BadHandle, "stream: %#x is no stream of the executor's, or freed", number)
	}
	ex.streamsMade[number] = nil // until it has ended, so that nobody uses it meanwhile
	delete(ex.foreign, number)
	ex.leaving.Add(1)
	ex.mu.Unlock()
	go func() {
		defer ex.leaving.Done()
		if s != nil {
			ex.stream.Keep(s.Close(unhurried))
		}
		ex.stream.Keep(status.FromBackend("stream", made.Close()))
		ex.mu.Lock()
		delete(ex.streamsMade, number)
		ex.mu.Unlock()
	}()
	return nil
}
