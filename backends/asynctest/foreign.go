package asynctest

import (
	"errors"
	"fmt"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// Foreign is a queue of a device that others own, as torch owns its CUstreams:
// WrapStream knows it by its number, and works on it in order with the owner's.
type Foreign struct {
	backend *Backend
	device  int
	native  uintptr
	queue   *queue
}

// NewForeign makes a queue on the device of the given number.
func (b *Backend) NewForeign(device int) *Foreign {
	b.mu.Lock()
	defer b.unlock()
	b.natives++
	return b.newForeign(device, 0xf000+b.natives)
}

// NewDefault makes the queue that is number 1, as DLPack has it of CUDA's default
// stream, on the device of the given number.
func (b *Backend) NewDefault(device int) *Foreign {
	b.mu.Lock()
	defer b.unlock()
	return b.newForeign(device, 1)
}

func (b *Backend) newForeign(device int, native uintptr) *Foreign {
	f := &Foreign{b, device, native, newQueue(b)}
	b.foreign[native] = f
	return f
}

// Native is its number, as for WrapStream.
func (f *Foreign) Native() uintptr { return f.native }

// Do queues the owner's own work: it takes the given time and then calls do, on
// another goroutine. The channel is closed when that has been done.
func (f *Foreign) Do(delay time.Duration, do func()) <-chan struct{} {
	return f.queue.host(delay, do).done
}

// host queues a function of the host's.
func (q *queue) host(delay time.Duration, do func()) *work {
	q.submit.Lock()
	defer q.submit.Unlock()
	q.backend.mu.Lock()
	w := q.place(&task{kind: kindForeign, do: func() error {
		do()
		return nil
	}})
	q.backend.unlock()
	w.delay = delay
	q.items <- w
	return w
}

// drain waits for what has been queued so far. The caller holds submit.
func (q *queue) drain() {
	q.backend.mu.Lock()
	w := q.place(&task{kind: kindForeign, do: func() error { return nil }})
	q.backend.unlock()
	q.items <- w
	<-w.done
}

// Synchronize waits for all that has been queued so far, by whomever. The host
// knows then that it has passed.
func (f *Foreign) Synchronize() {
	w := f.queue.host(0, func() {})
	<-w.done
	f.backend.mu.Lock()
	f.backend.observe(w)
	f.backend.unlock()
}

// ForeignGraph is what the owner of a queue captured of his guests' work. His own,
// of Do, is not recorded.
type ForeignGraph struct {
	backend *Backend
	graph
}

// BeginCapture begins to capture: streams that wrap the queue refuse work, because
// it would be done at the owner's replays only, or join.
func (f *Foreign) BeginCapture() *ForeignGraph {
	g := &ForeignGraph{backend: f.backend, graph: graph{owners: true}}
	f.backend.mu.Lock()
	defer f.backend.unlock()
	f.queue.capture = &g.graph
	return g
}

// EndCapture ends that.
func (f *Foreign) EndCapture() {
	f.backend.mu.Lock()
	defer f.backend.unlock()
	f.queue.capture = nil
}

// Replay queues the graph's work on a queue of the owner's. The channel is closed
// when it has been done.
func (g *ForeignGraph) Replay(f *Foreign) <-chan struct{} {
	q := f.queue
	q.submit.Lock()
	defer q.submit.Unlock()
	g.backend.mu.Lock()
	t := g.replay()
	t.kind = kindForeign
	do := t.do
	t.do = func() error { // which the owner is not told: it is in the Records
		_ = do()
		return nil
	}
	w := q.place(t)
	g.backend.note(w, t.uses)
	g.last = append(g.last, w)
	g.backend.unlock()
	q.items <- w
	return w.done
}

// Destroy frees the graph, once the replays that are queued have been done.
func (g *ForeignGraph) Destroy() {
	g.backend.mu.Lock()
	defer g.backend.unlock()
	g.gone = true
}

// stay is what a guest recorded in an owner's graph.
type stay struct {
	s *stream
	g *graph
}

// Captured reports whether the owner captures.
func (s *stream) Captured() bool {
	s.device.backend.mu.Lock()
	defer s.device.backend.unlock()
	return s.queue.capture != nil
}

// Join records what comes in the owner's graph.
func (s *stream) Join() (backends.Stay, error) {
	b := s.device.backend
	b.mu.Lock()
	defer b.unlock()
	switch {
	case s.queue.capture == nil:
		return nil, errors.New("asynctest: join: the owner does not capture")
	case s.joined:
		return nil, b.breach("stream %d joins twice", s.number)
	}
	s.joined = true
	return stay{s, s.queue.capture}, nil
}

// Leave ends Join.
func (y stay) Leave() {
	b := y.s.device.backend
	b.mu.Lock()
	defer b.unlock()
	y.s.joined = false
}

// Gone reports that the graph is destroyed, and its replays are done. Then the
// guests let go of what it used, so it pins nothing any more.
func (y stay) Gone() bool {
	b := y.s.device.backend
	b.mu.Lock()
	defer b.unlock()
	for _, w := range y.g.last {
		if !w.passed {
			return false
		}
	}
	if y.g.gone && len(y.g.tasks) > 0 {
		for _, w := range y.g.last {
			b.observe(w)
		}
		y.g.drop()
	}
	return y.g.gone
}

// Close ends the queue. No stream wraps it any more.
func (f *Foreign) Close() {
	f.backend.mu.Lock()
	delete(f.backend.foreign, f.native)
	f.backend.unlock()
	f.queue.close()
}

// NewForeignMemory returns zeroed memory of a device that others own, as a
// tensor of torch's: once imported, work may use it, but it is not for Free.
func (b *Backend) NewForeignMemory(device int, bytes int64) (backends.Memory, error) {
	b.mu.Lock()
	defer b.unlock()
	if device < 0 || device >= len(b.others) {
		return backends.Memory{}, fmt.Errorf("asynctest: foreign memory: there is no device %d", device)
	}
	k, err := b.newBlock(ofOthers, bytes)
	if err != nil {
		return backends.Memory{}, err
	}
	b.others[device].add(k)
	return backends.Memory{Addr: k.addr, Bytes: bytes}, nil
}

// FreeForeignMemory is what the owner of such memory does at its time: that work
// still uses it, or may for all that the host knows, is a breach.
func (b *Backend) FreeForeignMemory(device int, m backends.Memory) error {
	b.mu.Lock()
	defer b.unlock()
	k := b.others[device].named(m, ofOthers)
	if k == nil {
		return errors.New("asynctest: foreign memory: it is not there")
	}
	if err := b.unused("free foreign memory", k); err != nil {
		return err
	}
	b.others[device].take(m, ofOthers)
	return b.discard(k)
}
