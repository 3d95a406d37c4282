package asynctest

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ebitengine/purego"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa/ir"
)

var (
	_ backends.Entered = (*kernel)(nil)
	_ backends.Shared  = (*stream)(nil)
)

// Given is backends.Shared's.
func (s *stream) Given() backends.Ticket {
	s.device.backend.mu.Lock()
	defer s.device.backend.mu.Unlock()
	return s.last
}

// entry is a launch that others queue.
type entry struct {
	stream *stream
	kernel *kernel
	launch backends.Launch // but for addresses and parameters
}

// entries are found by the number that is in their frames.
var entries struct {
	all  sync.Map
	last atomic.Uint64
}

// A frame: whether the launch was refused, the entry's number, then the slots'
// addresses and the parameters.
const (
	frameRefused = 0
	frameEntry   = 8
	frameFirst   = 16
)

// Direct is backends.Entered's, as CUDA has it: of kernels that tell nobody anything.
func (k *kernel) Direct(l *backends.Launch, on backends.Stream) (parts []backends.Direct, never bool) {
	s, ok := on.(*stream)
	if !ok || s.device != k.device || !k.device.backend.options.Enters || !k.variant.Proved || l.Fuel > 0 {
		return nil, true
	}
	b := k.device.backend
	b.mu.Lock()
	defer b.unlock()
	if k.gone || s.closed || s.capture != nil || s.joined {
		return nil, false
	}
	e := &entry{stream: s, kernel: k, launch: *l}
	e.launch.Record, e.launch.Slots, e.launch.Params = nil, slices.Clone(l.Slots), slices.Clone(l.Params)
	number := entries.last.Add(1)
	entries.all.Store(number, e)
	b.counts.Entries++
	d := backends.Direct{Code: enterCode(), Frame: make([]byte, frameFirst), Nanoseconds: k.Cost(l), Bounded: !loops(k.ir.Body), Fault: frameRefused, Refuses: true}
	binary.NativeEndian.PutUint64(d.Frame[frameEntry:], number)
	for i := range l.Slots {
		d.Addresses = append(d.Addresses, backends.AddressPlace{Of: backends.Base(i), At: len(d.Frame)})
		d.Frame = binary.NativeEndian.AppendUint64(d.Frame, 0)
	}
	for i, t := range k.ir.ParamTypes {
		d.Params = append(d.Params, backends.ParamPlace{Of: i, At: len(d.Frame), Type: t})
		d.Frame = binary.NativeEndian.AppendUint64(d.Frame, l.Params[i])
	}
	d.Release = func() {
		if _, there := entries.all.LoadAndDelete(number); there {
			b.mu.Lock()
			b.counts.Entries--
			b.mu.Unlock()
		}
	}
	return []backends.Direct{d}, false
}

func loops(r *ir.Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool { return n.Op == ir.Loop || slices.ContainsFunc(n.Regions, loops) })
}

// enterCode is the C function that queues the launch of a frame.
var enterCode = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(frame uintptr) uintptr {
		refused := (*uint32)(hostmem.Pointer(frame + frameRefused))
		*refused = 1
		if e, ok := entries.all.Load(*(*uint64)(hostmem.Pointer(frame + frameEntry))); ok && e.(*entry).enter(frame+frameFirst) {
			*refused = 0
		}
		return 0
	})
})

// enter queues the launch with the addresses and parameters at the given place, and
// reports whether it did. While much is under way it is refused: nobody may wait here.
func (e *entry) enter(at uintptr) bool {
	q := e.stream.queue
	if len(q.items) > cap(q.items)/2 {
		return false
	}
	l := e.launch
	l.Slots, l.Params = slices.Clone(l.Slots), slices.Clone(l.Params)
	cell := func(i int) uint64 { return *(*uint64)(hostmem.Pointer(at + uintptr(8*i))) }
	for i := range l.Slots {
		l.Slots[i].Addr = uintptr(cell(i))
	}
	for i, t := range e.kernel.ir.ParamTypes {
		l.Params[i] = cell(len(l.Slots)+i) & (1<<t.Bits() - 1)
	}
	if _, err := e.stream.Launch(e.kernel, &l); err != nil {
		return false
	}
	b := e.kernel.device.backend
	b.mu.Lock()
	b.counts.Entered++
	b.mu.Unlock()
	return true
}
