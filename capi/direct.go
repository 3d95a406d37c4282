package main

// #include "direct.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/core"
	"github.com/hologram-project/hologram/core/lock"
)

// Calls that C makes by itself: see direct.h. What C finds in a gate is put there and
// taken away here. A call lasts until the code that it runs is about to go, another
// takes its place, or its executor is closed; the memory of gates lasts as long as
// the process, since C may look at one whose executor another thread frees.

// entrance is where a gate is: an executor's own stream, 0, or one of others.
type entrance struct {
	executor handle
	stream   uint64
}

// gate is that of an entrance.
type gate struct {
	c     *C.hologram_gate
	calls map[*C.hologram_direct]*published // what is there
	bytes int64                             // that are kept for them
}

// published is a call in C's memory.
type published struct {
	c     *C.hologram_direct
	bytes int64 // that are kept for it
	d     *core.Direct
}

// maxGateBytes bounds what is kept for one gate's calls, on whatever device.
const maxGateBytes = 32 << 20

var gates struct {
	lock.Mutex[lock.Last]
	of   map[entrance]*gate
	free []*gate
}

// C's turns are core's, or this does not compile.
var _ = [1]struct{}{}[(C.HOLOGRAM_GATE_OPEN^core.GateOpen)|(C.HOLOGRAM_GATE_TAKEN^core.GateTaken)|(C.HOLOGRAM_GATE_SHUT^core.GateShut)]

func init() {
	core.WatchProfiles(func(profiled bool) { C.hologram_direct_pause(flag(profiled)) })
}

// direct_gate gives the gate of an executor's stream, made at the first call; NULL if it has none.
//
//export direct_gate
func direct_gate(executor C.hologram_executor, stream C.uint64_t) *C.hologram_gate {
	at := entrance{handle(executor), uint64(stream)}
	ex, err := lookup(handle(executor), kindExecutor, "gate")
	if err != nil {
		return nil
	}
	gates.Lock()
	g := gates.of[at]
	made := g == nil
	if made {
		if n := len(gates.free); n > 0 {
			g = gates.free[n-1]
			gates.free = gates.free[:n-1]
		} else if c := (*C.hologram_gate)(C.calloc(1, C.sizeof_hologram_gate)); c != nil {
			g = &gate{c: c, calls: map[*C.hologram_direct]*published{}}
			c.turn = core.GateShut
		} else {
			gates.Unlock()
			return nil
		}
		info := &ex.Device().Info
		g.c.executor, g.c.stream, g.c.done, g.c.credit = executor, stream, 0, C.HOLOGRAM_DIRECT_CREDIT
		g.c.device_type, g.c.device_id, g.c.asynchronous = C.int32_t(info.DLPackType), C.int32_t(info.DLPackID), flag(info.Asynchronous)
		if gates.of == nil {
			gates.of = map[entrance]*gate{}
		}
		gates.of[at] = g
	}
	gates.Unlock()
	opened := ex.Gate(uintptr(stream), (*uint32)(&g.c.turn))
	// It may be closed meanwhile, by who looked for no gate yet; of one that was there before, who closes it takes care.
	if !opened || find(handle(executor), kindExecutor) == nil {
		if made {
			dropGate(at)
		}
		return nil
	}
	return g.c
}

// dropGates ends the gates of an executor that is closed.
func dropGates(executor handle) {
	var list []entrance
	gates.Lock()
	for at := range gates.of {
		if at.executor == executor {
			list = append(list, at)
		}
	}
	gates.Unlock()
	for _, at := range list {
		dropGate(at)
	}
}

// dropGate ends a gate of an executor that is closed, or never opened it.
func dropGate(at entrance) {
	gates.Lock()
	g := gates.of[at]
	if g == nil {
		gates.Unlock()
		return
	}
	delete(gates.of, at)
	ended := g.calls
	g.calls, g.bytes = map[*C.hologram_direct]*published{}, 0
	for c := range ended {
		C.hologram_direct_remove(g.c, c)
		C.free(unsafe.Pointer(c)) // nobody has the turn, nor will
	}
	g.c.executor = 0
	gates.free = append(gates.free, g)
	gates.Unlock()
	for _, x := range ended {
		x.d.Forget()
	}
}

// left tells whether nobody uses what was just taken away from a gate, for whoever takes its
// turn from now on does not find that: nil, or what waits until the turn is free or was given
// back since. That may be for tens of milliseconds, which nobody is to wait who may hold a lock
// of Python's.
func (g *gate) left() (wait func()) {
	turns := atomic.LoadUint32((*uint32)(&g.c.turns))
	used := func() bool {
		turn := atomic.LoadUint32((*uint32)(&g.c.turn))
		return turn == core.GateTaken || turn == core.GateWanted
	}
	if !used() {
		return nil
	}
	return func() {
		for i := 0; used() && atomic.LoadUint32((*uint32)(&g.c.turns)) == turns; i++ {
			if i < 100 {
				runtime.Gosched()
			} else {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}
}

// drop takes a call away, for who holds the lock, and reports whether it was there: then
// it is to be freed once nobody uses it.
func (g *gate) drop(x *published) bool {
	if g.calls[x.c] != x {
		return false
	}
	delete(g.calls, x.c)
	g.bytes -= x.bytes
	C.hologram_direct_remove(g.c, x.c)
	return true
}

// retire takes a call away, if it is still there, and returns what waits until nobody uses it, nil
// if nobody does: who took it away may not have waited yet.
func (g *gate) retire(x *published) func() {
	gates.Lock()
	there := g.drop(x)
	gates.Unlock()
	free := func() {
		if there {
			C.free(unsafe.Pointer(x.c))
		}
	}
	wait := g.left()
	if wait == nil {
		free()
		return nil
	}
	return func() {
		wait()
		free()
	}
}

// direct_publish publishes a call like one that was just made, or that C need not ask
// for it again, under a key.
//
//export direct_publish
func direct_publish(executor C.hologram_executor, args *C.hologram_call_args, key *C.hologram_direct) {
	var status C.int32_t
	defer guard(&status)
	ex, err := lookup(handle(executor), kindExecutor, "direct")
	if err != nil {
		return
	}
	f := frames.Get().(*frame)
	defer f.release()
	if f.read("direct", args) != nil {
		return
	}
	at := entrance{handle(executor), uint64(args.stream)}
	ex.Direct(&f.call, func(d *core.Direct) core.Retire {
		x := &published{d: d}
		if x.c, x.bytes = newDirect(d, key); x.c == nil {
			return nil
		}
		if g := admit(at, x); g != nil {
			return func() func() { return g.retire(x) }
		}
		return nil
	})
}

// admit puts a call into the gate of an entrance, which it returns, in the place of others.
// nil: there is none, or no place in it, and the call is freed.
func admit(at entrance, x *published) *gate {
	var ended []*published
	gates.Lock()
	g := gates.of[at]
	placed := g != nil
	if placed {
		for _, other := range g.calls {
			if g.bytes+x.bytes <= maxGateBytes {
				break
			}
			if other.bytes > 0 && g.drop(other) {
				ended = append(ended, other)
			}
		}
		switch old := C.hologram_direct_put(g.c, x.c); {
		case old == x.c:
			placed = false
		case old != nil:
			before := g.calls[old]
			delete(g.calls, old)
			g.bytes -= before.bytes
			ended = append(ended, before)
		}
	}
	if placed {
		g.calls[x.c] = x
		g.bytes += x.bytes
	}
	gates.Unlock()
	end := func() {
		for _, other := range ended {
			C.free(unsafe.Pointer(other.c))
			other.d.Forget()
		}
	}
	var wait func()
	if len(ended) > 0 {
		wait = g.left()
	}
	if wait == nil {
		end()
	} else {
		go func() {
			wait()
			end()
		}()
	}
	if !placed {
		C.free(unsafe.Pointer(x.c))
		return nil
	}
	return g
}

// loan is core's, of a buffer's memory, as long as a word has its id.
type loan struct {
	g    *gate
	word *C.uint64_t
	id   C.uint64_t
}

// loans are the words of those that ended, which come again, and the last id.
var loans struct {
	lock.Mutex[lock.Last]
	free []*C.uint64_t
	last C.uint64_t
}

// newLoan makes one for a gate's calls; nil: there is no room for its word.
func newLoan(g *gate) *loan {
	const words = 512
	loans.Lock()
	defer loans.Unlock()
	if len(loans.free) == 0 {
		more := (*[words]C.uint64_t)(C.calloc(words, C.sizeof_uint64_t))
		if more == nil {
			return nil
		}
		for i := range more {
			loans.free = append(loans.free, &more[i])
		}
	}
	n := len(loans.free) - 1
	l := &loan{g: g, word: loans.free[n], id: loans.last + 1}
	loans.free, loans.last = loans.free[:n], l.id
	atomic.StoreUint64((*uint64)(l.word), uint64(l.id))
	return l
}

// End is core's Loan's.
func (l *loan) End() {
	atomic.StoreUint64((*uint64)(l.word), 0)
	if wait := l.g.left(); wait != nil { // of a device that works by itself: whoever has the turn only queues
		wait()
	}
	loans.Lock()
	loans.free = append(loans.free, l.word)
	loans.Unlock()
}

// direct_lend has a buffer's memory lent for a gate's calls, if it can be now, and reports
// whether it ever can.
//
//export direct_lend
func direct_lend(executor C.hologram_executor, c *C.hologram_gate, buffer C.hologram_buffer, out *C.hologram_loan) C.bool {
	var status C.int32_t
	defer guard(&status)
	ex, b := find(handle(executor), kindExecutor), find(handle(buffer), kindBuffer)
	gates.Lock()
	g := gates.of[entrance{handle(executor), uint64(c.stream)}]
	gates.Unlock()
	if ex == nil || b == nil || g == nil || g.c != c {
		return true
	}
	lent, never := ex.Lend(uintptr(c.stream), b, func() core.Loan {
		if l := newLoan(g); l != nil {
			return l
		}
		return nil
	})
	if l, ok := lent.(*loan); ok {
		out.gate, out.word, out.id = l.g.c, l.word, l.id
	}
	return C.bool(!never)
}

// parts are those of a call that is on its way to C's memory.
type parts struct {
	steps  []C.hologram_direct_step
	bases  []C.hologram_direct_base
	params []C.hologram_direct_param
	resets []C.hologram_direct_word
	checks []C.hologram_direct_check
	memory []byte // the workspace, if it is not elsewhere, and the frames
}

// room adds bytes to the memory, and returns where.
func (p *parts) room(bytes int) (at int) {
	at = len(p.memory)
	p.memory = append(p.memory, make([]byte, (bytes+core.FrameAlign-1)&^(core.FrameAlign-1))...)
	return at
}

// add adds a step of a call.
func (p *parts) add(d *core.Direct, s *core.DirectStep) {
	frame := p.room(len(s.Frame))
	copy(p.memory[frame:], s.Frame)
	step := C.hologram_direct_step{code: (*[0]byte)(*(*unsafe.Pointer)(unsafe.Pointer(&s.Code))), frame: C.uintptr_t(frame)}
	if s.Fault >= 0 {
		step.fault, step.faults = C.uintptr_t(frame+s.Fault), 1
	}
	p.steps = append(p.steps, step)
	to := func(at int) C.uintptr_t { return C.uintptr_t(frame + at) }
	for _, b := range s.Bases {
		switch {
		case b.Of >= 0:
			p.bases = append(p.bases, C.hologram_direct_base{to: to(b.At), offset: C.int64_t(b.Offset), operand: C.int32_t(b.Of)})
		case b.Of == core.OwnFrame:
			p.resets = append(p.resets, C.hologram_direct_word{to: to(b.At), value: C.uint64_t(frame) + C.uint64_t(b.Offset), own: 1})
		default: // at the memory's beginning
			p.resets = append(p.resets, C.hologram_direct_word{to: to(b.At), value: C.uint64_t(d.Space) + C.uint64_t(b.Offset), own: flag(d.Space == 0)})
		}
	}
	for _, x := range s.Params {
		p.params = append(p.params, C.hologram_direct_param{to: to(x.At), scalar: C.int32_t(x.Scalar), dtype: C.int32_t(d.Scalars[x.Scalar]), single: flag(x.Single)})
	}
	for _, w := range s.Words {
		p.resets = append(p.resets, C.hologram_direct_word{to: to(w.At), value: C.uint64_t(w.Value)})
	}
}

// newDirect puts a call with a key into C's memory, and tells what is kept for it.
func newDirect(d *core.Direct, key *C.hologram_direct) (c *C.hologram_direct, bytes int64) {
	call := *key
	if len(d.Operands) > len(call.align) {
		return nil, 0
	}
	call.num_operands = C.int32_t(len(d.Operands))
	for i, o := range d.Operands {
		call.align[i], call.first = C.uint8_t(o.Align), C.uint8_t(o.Size)
	}
	call.takes_long = C.uint8_t(flag(d.Long))
	var p parts
	if d.Space == 0 {
		p.room(int(d.Workspace))
	} else {
		bytes = d.Workspace
	}
	for i := range d.Steps {
		p.add(d, &d.Steps[i])
		bytes += d.Steps[i].Bytes
	}
	for _, x := range d.Checks {
		p.checks = append(p.checks, C.hologram_direct_check{written: C.int32_t(x.Written), other: C.int32_t(x.Other), same: flag(x.Same),
			written_from: C.int64_t(x.WrittenFrom), written_to: C.int64_t(x.WrittenTo),
			other_from: C.int64_t(x.OtherFrom), other_to: C.int64_t(x.OtherTo), gap: C.int64_t(x.Gap)})
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	call.steps, call.num_steps = pinned(&pins, p.steps)
	call.bases, call.num_bases = pinned(&pins, p.bases)
	call.params, call.num_params = pinned(&pins, p.params)
	call.resets, call.num_resets = pinned(&pins, p.resets)
	call.checks, call.num_checks = pinned(&pins, p.checks)
	memory, n := pinned(&pins, p.memory)
	call.memory = (*C.char)(unsafe.Pointer(memory))
	return C.hologram_direct_new(&call, C.size_t(n)), bytes + int64(n)
}

// pinned returns what C copies of a slice.
func pinned[T any](pins *runtime.Pinner, s []T) (*T, C.int32_t) {
	if len(s) == 0 {
		return nil, 0
	}
	pins.Pin(&s[0])
	return &s[0], C.int32_t(len(s))
}
