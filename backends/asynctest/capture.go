package asynctest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/backends"
)

// graph is captured work. The backend's lock guards what changes.
type graph struct {
	device  *device
	tasks   []*task
	pinned  []*block
	void    bool // a call came that cannot be captured
	pending int  // replays not done
	gone    bool
	owners  bool    // of a stream of others, by its owner
	last    []*work // its replays
}

// add captures a task and pins its memory. The caller holds the lock.
func (g *graph) add(t *task) {
	g.tasks = append(g.tasks, t)
	for _, u := range t.uses {
		if g.owners && u.block.owner == ofOthers { // his business
			continue
		}
		u.block.pins = append(u.block.pins, pin{g, u.lo, u.hi})
		g.pinned = append(g.pinned, u.block)
	}
	if t.kernel != nil {
		t.kernel.graphs++
	}
}

// drop lets go of what the graph holds.
func (g *graph) drop() {
	for _, k := range g.pinned {
		k.pins = slices.DeleteFunc(k.pins, func(p pin) bool { return p.graph == g })
	}
	for _, t := range g.tasks {
		if t.kernel != nil {
			t.kernel.graphs--
		}
	}
	g.tasks, g.pinned, g.gone = nil, nil, true
}

// BeginCapture starts to capture instead of queueing.
func (s *stream) BeginCapture() error {
	b := s.device.backend
	b.mu.Lock()
	defer b.unlock()
	if err := s.usable("begin a capture"); err != nil {
		return err
	}
	if s.capture != nil {
		return fmt.Errorf("asynctest: begin a capture: stream %d is capturing already", s.number)
	}
	s.capture = &graph{device: s.device}
	b.counts.Captures++
	return nil
}

// EndCapture ends the capture, whether or not it can be used.
func (s *stream) EndCapture() (backends.Graph, error) {
	b := s.device.backend
	b.mu.Lock()
	defer b.unlock()
	g := s.capture
	if g == nil {
		return nil, fmt.Errorf("asynctest: end a capture: stream %d is not capturing", s.number)
	}
	s.capture = nil
	err := s.usable("end a capture")
	if g.void {
		err = errors.New("asynctest: end a capture: it holds a call that cannot be captured")
	}
	if err != nil {
		g.drop()
		return nil, err
	}
	b.counts.Graphs++
	return g, nil
}

// Replay queues the graph's work as one.
func (g *graph) Replay(to backends.Stream) (backends.Ticket, error) {
	b := g.device.backend
	s, ok := to.(*stream)
	if !ok || s.device != g.device {
		return 0, errors.New("asynctest: replay: the stream is of another device")
	}
	return s.submit(kindReplay, func() (*task, error) {
		switch {
		case g.gone:
			return nil, b.breach("the graph is released")
		case s.capture != nil:
			s.capture.void = true
			return nil, b.breach("replay on stream %d, which is capturing", s.number)
		}
		t := g.replay()
		t.graph = g
		return t, nil
	})
}

// replay makes a task of all that the graph holds. The caller holds the lock.
func (g *graph) replay() *task {
	tasks := g.tasks
	t := &task{detail: fmt.Sprintf("%d works", len(tasks))}
	for _, k := range tasks {
		t.uses = append(t.uses, k.uses...)
	}
	t.do = func() error {
		var err error
		for _, k := range tasks {
			err = errors.Join(err, k.do())
		}
		return err
	}
	t.stop = func() {
		for _, k := range tasks {
			if k.stop != nil {
				k.stop()
			}
		}
	}
	t.cancelled = func() bool {
		return slices.ContainsFunc(tasks, func(k *task) bool { return k.cancelled != nil && k.cancelled() })
	}
	return t
}

// Release frees the graph.
func (g *graph) Release() {
	b := g.device.backend
	b.mu.Lock()
	defer b.unlock()
	switch {
	case g.gone:
		_ = b.breach("a graph is released twice")
		return
	case g.pending > 0:
		_ = b.breach("a graph is released of which %d replays are to be done", g.pending)
	}
	g.drop()
	b.counts.Graphs--
}
