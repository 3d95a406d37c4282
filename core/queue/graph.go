package queue

import (
	"fmt"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// Graph is captured work, which can be replayed. It owns what the works hold,
// until it is released. On a device that captures by itself a replay is one
// call; on one that works while called the works run one after the other.
type Graph struct {
	target *Target // of the stream that captured it
	works  []Replayed
	failed error             // of a call while it was captured
	native backends.Capturer // that records meanwhile; nil: none
	graph  backends.Graph    // what it recorded
	cost   float64           // of a replay on the caller's thread, in nanoseconds
	job    profile.Job       // a replay by the device

	mu       lock.Mutex[lock.Last]
	replays  int // under way
	released bool
}

// Replayed is work that can be captured.
type Replayed interface {
	Work
	// Captured says that the work is part of a graph: whoever submitted it to Try,
	// its replays may wait.
	Captured()
	// Before makes the device wait for what others have queued on the work's
	// memory, and After notes its ticket, around a replay by the device itself.
	Before(t *Target) error
	After(t *Target, ticket backends.Ticket)
	// Cost estimates how many nanoseconds Run takes on a device that works while called.
	Cost() float64
	// Bytes is how many Run moves, for profiles.
	Bytes() int64
	// Reset forgets a Cancel, which was meant for the last replay.
	Reset()
}

func (g *Graph) add(w Work) {
	r := w.(Replayed)
	r.Captured()
	g.works = append(g.works, r)
}

// begin starts a capture. busy, which may be nil, is asked with the lock held.
func (l *lane) begin(native backends.Capturer, busy func() bool) error {
	l.mu.Lock()
	var err error
	mine := false
	switch {
	case l.closed:
		err = ErrFreed
	case l.graph != nil:
		err = status.Errorf(status.Invalid, "capture: the stream captures already")
	default:
		if mine = !l.turn && !l.worker; mine {
			l.start() // nothing comes until the device records
		}
		if !mine || busy != nil && busy() { // what came by the gate too
			err = status.Errorf(status.Invalid, "capture: the stream is at work; wait for it first")
		}
	}
	l.mu.Unlock()
	if mine {
		defer l.give()
	}
	if err != nil {
		return err
	}
	if native != nil {
		if err := native.BeginCapture(); err != nil {
			return status.FromBackend("capture", err)
		}
	}
	l.mu.Lock()
	l.graph = &Graph{native: native, target: &l.target}
	l.target.Capturing = true
	l.settle()
	l.mu.Unlock()
	return nil
}

func (l *lane) end() (*Graph, error) {
	lock.Check[lock.Turn]()
	l.mu.Lock()
	for l.turn {
		l.free.Wait()
	}
	g := l.graph
	if g == nil {
		l.mu.Unlock()
		return nil, status.Errorf(status.Invalid, "capture: the stream does not capture")
	}
	l.start() // nothing comes while the device still records
	l.mu.Unlock()
	err := g.seal()
	l.mu.Lock()
	l.graph, l.target.Capturing = nil, false // settled by give
	l.mu.Unlock()
	l.give()
	if err != nil {
		g.Release()
		return nil, err
	}
	return g, nil
}

// seal ends the recording, also of a graph that cannot be used.
func (g *Graph) seal() error {
	if g.native != nil {
		made, err := g.native.EndCapture()
		if g.native = nil; err != nil {
			return status.FromBackend("capture", err)
		}
		g.graph = made
		g.job.Kind, g.job.Name, g.job.Of = profile.Kernel, "replay", fmt.Sprintf("%d calls", len(g.works))
		for _, w := range g.works {
			g.job.Bytes += w.Bytes()
		}
	} else {
		for _, w := range g.works {
			g.cost += w.Cost()
		}
	}
	return status.Within("capture: a call failed", g.failed)
}

// Replay submits the works once more. Replays of one graph run one at a time;
// what went wrong in one is known when its event is done.
func (g *Graph) Replay(s Stream) (*Event, error) {
	if s.Target() != g.target {
		return nil, status.Errorf(status.Invalid, "capture: the graph is of another executor")
	}
	if err := g.start(); err != nil {
		return nil, err
	}
	return s.Submit(&replay{g: g}, How{Outcome: true, Long: !(g.cost <= Patience)})
}

func (g *Graph) start() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.released {
		return status.Errorf(status.BadHandle, "capture: the graph is freed")
	}
	if g.replays > 0 {
		return status.Errorf(status.Invalid, "capture: the graph's last replay is under way; wait for it first")
	}
	g.replays++
	return nil
}

// Release lets go of what the works hold, once no replay is under way.
func (g *Graph) Release() {
	g.mu.Lock()
	free := !g.released && g.replays == 0
	g.released = true
	g.mu.Unlock()
	if free {
		g.drop()
	}
}

func (g *Graph) drop() {
	if g.graph != nil {
		g.graph.Release()
	}
	for _, w := range g.works {
		w.Release()
	}
	g.works = nil
}

// replay is one run of a graph.
type replay struct {
	g    *Graph
	errs []error
}

func (r *replay) Run(t *Target) (backends.Ticket, error) {
	if r.g.graph == nil {
		for _, w := range r.g.works {
			_, err := w.Run(t)
			if err = w.Outcome(err); err != nil {
				r.errs = append(r.errs, err)
			}
		}
		return 0, nil
	}
	t.Order.Lock()
	defer t.Order.Unlock()
	for _, w := range r.g.works {
		if err := w.Before(t); err != nil {
			return 0, err
		}
	}
	ticket, err := t.profiled(&r.g.job, r.g.graph.Replay)
	if err != nil {
		return 0, status.FromBackend("replay", err)
	}
	for _, w := range r.g.works {
		w.After(t, ticket)
	}
	return ticket, nil
}

func (r *replay) Outcome(err error) error {
	if r.g.graph != nil {
		for _, w := range r.g.works { // also after an error: what they noted is not the next replay's
			if err := w.Outcome(nil); err != nil {
				r.errs = append(r.errs, err)
			}
		}
	}
	if err != nil {
		return err
	}
	return status.Join(r.errs...)
}

func (r *replay) Cancel() bool {
	for _, w := range r.g.works {
		w.Cancel()
	}
	return false
}

func (r *replay) Release() {
	for _, w := range r.g.works {
		w.Reset()
	}
	r.g.mu.Lock()
	r.g.replays--
	free := r.g.released && r.g.replays == 0
	r.g.mu.Unlock()
	if free {
		r.g.drop()
	}
}
