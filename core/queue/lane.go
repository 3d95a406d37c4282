package queue

import (
	"slices"
	"sync"

	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// lane is what both kinds of stream have in common: one piece of work at a time
// has its turn, either on its caller's thread or, if it may take long or others
// are before it, on the stream's goroutine.
type lane struct {
	target Target

	mu      lock.Mutex[lock.Lane]
	free    sync.Cond // signalled when a turn ends
	turn    bool      // somebody has it
	worker  bool      // the goroutine runs, or is to
	waiting []*Event  // for the goroutine
	events  map[*Event]struct{}
	closed  bool
	graph   *Graph // being captured
	gate    gate   // settled where one of turn, worker, closed and graph changes
	entered func() // the gate is shut, behind what others may have queued; nil: they do it at once
}

func (l *lane) init(t Target) {
	l.target = t
	l.free.L = &l.mu
	l.events = map[*Event]struct{}{}
}

func replayable(w Work) bool {
	_, ok := w.(Replayed)
	return ok
}

// take waits for a turn on the caller's thread. Where that may take long it
// returns false: the work is for the goroutine.
func (l *lane) take(w Work, how How) (mine bool, err error) {
	if !how.Try {
		lock.Check[lock.Turn]()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.closed:
			return false, ErrFreed
		case l.graph != nil && (how.Outcome || !replayable(w)):
			return false, ErrCapturing
		case how.Long && l.graph == nil || l.worker:
			if how.Try {
				return false, status.ErrBusy
			}
			return false, nil
		case how.Try && (l.turn || !l.tryGate()):
			return false, status.ErrBusy
		case !l.turn:
			l.start()
			return true, nil
		}
		l.free.Wait()
	}
}

// start begins a turn, for who holds the lock, from which it comes first. That may go meanwhile:
// the lane may be closed then, or others wait.
func (l *lane) start() {
	l.turn = true
	l.settle()
	lock.Enter[lock.Turn]()
}

// idle says that there is nothing to do. The caller holds the lock.
func (l *lane) idle() bool { return !l.turn && !l.worker && len(l.events) == 0 && l.graph == nil }

// give ends a turn.
func (l *lane) give() {
	l.mu.Lock()
	l.turn = false
	l.settle()
	lock.Leave[lock.Turn]()
	l.mu.Unlock()
	l.free.Broadcast()
}

// enqueue leaves work to the goroutine, which serve runs for each event in
// order, with the turn.
func (l *lane) enqueue(ev *Event, serve func(*Event)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrFreed
	case l.graph != nil: // begun since take
		return ErrCapturing
	}
	l.events[ev] = struct{}{}
	l.waiting = append(l.waiting, ev)
	if !l.worker {
		l.worker = true
		l.settle()
		go l.work(serve)
	}
	return nil
}

func (l *lane) work(serve func(*Event)) {
	l.mu.Lock()
	for {
		for l.turn {
			l.free.Wait()
		}
		if len(l.waiting) == 0 {
			l.worker = false
			l.settle()
			l.mu.Unlock()
			l.free.Broadcast()
			return
		}
		ev := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		serve(ev)
		l.mu.Lock()
		delete(l.events, ev)
	}
}

// Target is Stream.Target.
func (l *lane) Target() *Target { return &l.target }

// Line is Stream.Line.
func (l *lane) Line() *memory.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.graph != nil {
		return nil
	}
	return l.target.Line
}

// Beside is Stream.Beside.
func (l *lane) Beside(w Work) (*Event, error) {
	ev := newEvent(w, How{Long: true, Outcome: true})
	ev.beside = true
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		w.Release()
		return nil, ErrFreed
	}
	l.events[ev] = struct{}{}
	l.mu.Unlock()
	ev.begin()
	go func() {
		_, err := run(w, &l.target)
		err = w.Outcome(err)
		ev.leave()
		w.Release()
		ev.finish(err)
		l.mu.Lock()
		delete(l.events, ev)
		l.mu.Unlock()
	}()
	return ev, nil
}

// shut refuses further work, cancels what has an event and waits for its end,
// but for work beside the stream, which may be what closes it.
func (l *lane) shut() {
	l.mu.Lock()
	l.closed = true
	l.settle()
	l.mu.Unlock()
	l.cancelEvents(true)
	l.mu.Lock()
	for l.turn || l.worker {
		l.free.Wait()
	}
	graph := l.graph
	l.graph, l.target.Capturing = nil, false
	l.mu.Unlock()
	if graph != nil {
		_ = graph.seal() // nobody will replay it
		graph.Release()
	}
}

// cancelEvents cancels what has an event; waits says whether also what only waits. The
// last comes first, so that nothing begins because what was before it has ended.
func (l *lane) cancelEvents(waits bool) {
	l.mu.Lock()
	under := slices.Clone(l.waiting)
	slices.Reverse(under)
	queued := make(map[*Event]struct{}, len(under))
	for _, ev := range under {
		queued[ev] = struct{}{}
	}
	for ev := range l.events {
		if _, ok := queued[ev]; !ok {
			under = append(under, ev)
		}
	}
	l.mu.Unlock()
	for _, ev := range under {
		if waits || !ev.waits {
			ev.Cancel()
		}
	}
}
