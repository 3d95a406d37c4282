package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// graph is captured work. The driver runs one graph's replays one after the
// other, so they can share its notes, which no stream's work touches. A ticket
// is of a replay, so it is queued with it, and not captured.
type graph struct {
	device *device
	notes  *notes

	mu   sync.Mutex // held while a replay is queued
	exec driver.Exec
}

func errCapturing(what string) error { return fmt.Errorf("cuda: %s: the stream is capturing", what) }

// BeginCapture starts to capture instead of queueing. Other threads, and calls
// that have nothing to do with the stream, go on as they like.
func (s *stream) BeginCapture() error {
	g := &graph{device: s.device}
	var err error
	if g.notes, err = s.device.newNotes(); err != nil {
		return fmt.Errorf("cuda: begin a capture: %w", s.device.classified(err))
	}
	if err := s.beginCapture(g); err != nil {
		return errors.Join(err, g.notes.free())
	}
	return nil
}

func (s *stream) beginCapture(g *graph) error {
	const what = "begin a capture"
	if err := s.begin(what); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.graph != nil {
		return errors.Join(errors.New("cuda: begin a capture: the stream is capturing already"), s.device.leave(s.pushed, &s.current))
	}
	var err error
	if s.told.Load() < s.last() { // nobody can tell while it captures
		err = s.tell()
	}
	if api := s.device.api; err == nil {
		err = api.Check("cuStreamBeginCapture", api.CaptureBegin(s.handle, driver.CaptureRelaxed))
	}
	if err == nil {
		s.graph = g
		s.capture.Store(true)
	}
	if err = errors.Join(err, s.device.leave(s.pushed, &s.current)); err != nil {
		return fmt.Errorf("cuda: %s: %w", what, s.device.classified(err))
	}
	return nil
}

// EndCapture ends the capture, whether or not it can be used.
func (s *stream) EndCapture() (backends.Graph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.graph
	if g == nil {
		return nil, errors.New("cuda: end a capture: the stream is not capturing")
	}
	s.graph = nil
	s.capture.Store(false)
	api := s.device.api
	var captured driver.Graph
	err := s.device.within(func() error {
		if err := api.Check("cuStreamEndCapture", api.CaptureEnd(s.handle, &captured)); err != nil {
			return err
		}
		err := api.Check("cuGraphInstantiateWithFlags", api.GraphInstantiate(&g.exec, captured, 0))
		return errors.Join(err, api.Check("cuGraphDestroy", api.GraphDestroy(captured)))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: end a capture: %w", s.device.classified(err)), g.free())
	}
	return g, nil
}

// Replay queues the work on a stream of the device.
func (g *graph) Replay(to backends.Stream) (backends.Ticket, error) {
	s, ok := to.(*stream)
	if !ok || s.device != g.device {
		return 0, errors.New("cuda: replay: the stream is of another device")
	}
	if s.capture.Load() {
		return 0, errCapturing("replay")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exec == 0 {
		return 0, errors.New("cuda: replay: the graph is released")
	}
	if err := s.begin("replay"); err != nil {
		return 0, err
	}
	s.before()
	api := g.device.api
	return s.end("replay", api.Check("cuGraphLaunch", api.GraphLaunch(g.exec, s.handle)))
}

// Release frees the graph. What the driver says to that has nobody to hear it.
func (g *graph) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exec != 0 || g.notes != nil {
		_ = g.free()
	}
}

func (g *graph) free() error {
	var err error
	if g.exec != 0 {
		err = g.device.do(call{"cuGraphExecDestroy", func() driver.Result { return g.device.api.ExecDestroy(g.exec) }})
	}
	err = errors.Join(err, g.notes.free())
	g.exec, g.notes = 0, nil
	return err
}
