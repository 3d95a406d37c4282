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
	bytes int64                             // of their memory
}

// published is a call in C's memory.
type published struct {
	c     *C.hologram_direct
	bytes int64
	d     *core.Direct // nil: it is one that C leaves to Go
}

// maxGateBytes bounds the memory of one gate's calls, on whatever device.
const maxGateBytes = 32 << 20

var gates struct {
	lock.Mutex[lock.Last]
	of   map[entrance]*gate
	free []*gate
}

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
	if g == nil {
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
		g.c.device_type, g.c.device_id = C.int32_t(info.DLPackType), C.int32_t(info.DLPackID)
		if gates.of == nil {
			gates.of = map[entrance]*gate{}
		}
		gates.of[at] = g
	}
	gates.Unlock()
	opened := ex.Gate(uintptr(stream), (*uint32)(&g.c.turn))
	// It may be closed meanwhile, by who looked for no gate yet.
	if !opened || find(handle(executor), kindExecutor) == nil {
		dropGate(at)
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
		x.forget()
	}
}

// forget tells core that the call is not entered any more.
func (x *published) forget() {
	if x.d != nil {
		x.d.Forget()
	}
}

// leave waits until nobody uses what was just taken away from a gate.
func (g *gate) leave() {
	for i := 0; ; i++ {
		if turn := atomic.LoadUint32((*uint32)(&g.c.turn)); turn != core.GateTaken && turn != core.GateWanted {
			return
		}
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
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

// retire takes a call away, if it is still there.
func (g *gate) retire(x *published) {
	gates.Lock()
	there := g.drop(x)
	gates.Unlock()
	g.leave() // who took it away may not have waited yet
	if there {
		C.free(unsafe.Pointer(x.c))
	}
}

// direct_publish publishes a call like one that was just made, or that C need not ask
// for it again.
//
//export direct_publish
func direct_publish(executor C.hologram_executor, args *C.hologram_call_args, counts *C.hologram_direct, key *C.uint64_t) {
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
	never := ex.Direct(&f.call, func(d *core.Direct) func() {
		x := &published{d: d}
		if x.c, x.bytes = newDirect(d, counts, key); x.c == nil {
			return nil
		}
		if g := admit(at, x); g != nil {
			return func() { g.retire(x) }
		}
		return nil
	})
	if never {
		if c := C.hologram_direct_new(counts, key, 0); c != nil {
			admit(at, &published{c: c})
		}
	}
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
	if len(ended) > 0 {
		g.leave()
	}
	for _, other := range ended {
		C.free(unsafe.Pointer(other.c))
		other.forget()
	}
	if !placed {
		C.free(unsafe.Pointer(x.c))
		return nil
	}
	return g
}

// newDirect puts a call into C's memory.
func newDirect(d *core.Direct, counts *C.hologram_direct, key *C.uint64_t) (*C.hologram_direct, int64) {
	up := func(n int) int { return (n + core.FrameAlign - 1) &^ (core.FrameAlign - 1) }
	n, bytes := *counts, 0
	if d.Space == 0 {
		bytes = up(int(d.Workspace))
	}
	n.num_steps, n.num_params, n.num_checks = C.int32_t(len(d.Steps)), 0, C.int32_t(len(d.Checks))
	for i := range d.Steps {
		s := &d.Steps[i]
		bytes += up(len(s.Frame))
		n.num_params += C.int32_t(len(s.Params))
		n.num_resets += C.int32_t(len(s.Words))
		for _, b := range s.Bases {
			if b.Operand >= 0 {
				n.num_bases++
			} else {
				n.num_resets++
			}
		}
	}
	if len(d.Operands) > len(n.align) {
		return nil, 0
	}
	n.num_operands = C.int32_t(len(d.Operands))
	for i, o := range d.Operands {
		n.align[i], n.first = C.uint8_t(o.Align), C.uint8_t(o.Size)
	}
	c := C.hologram_direct_new(&n, key, C.size_t(bytes))
	if c == nil {
		return nil, 0
	}
	steps, bases := unsafe.Slice(c.steps, n.num_steps), unsafe.Slice(c.bases, n.num_bases)
	params, resets := unsafe.Slice(c.params, n.num_params), unsafe.Slice(c.resets, n.num_resets)
	checks := unsafe.Slice(c.checks, n.num_checks)
	at, workspace := unsafe.Pointer(c.memory), d.Space
	if workspace == 0 {
		workspace = uintptr(at)
		at = unsafe.Add(at, up(int(d.Workspace)))
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		frame := at
		at = unsafe.Add(at, up(len(s.Frame)))
		copy(unsafe.Slice((*byte)(frame), len(s.Frame)), s.Frame)
		cell := func(at int) *C.uint64_t { return (*C.uint64_t)(unsafe.Add(frame, at)) }
		steps[i].code = (*[0]byte)(*(*unsafe.Pointer)(unsafe.Pointer(&s.Code)))
		steps[i].frame = (*C.char)(frame)
		if s.Fault >= 0 {
			steps[i].fault = (*C.uint32_t)(unsafe.Add(frame, s.Fault))
		}
		for _, b := range s.Bases {
			if b.Operand < 0 {
				of := workspace
				if b.Operand == core.OwnFrame {
					of = uintptr(frame)
				}
				resets[0].to, resets[0].value = cell(b.At), C.uint64_t(of)+C.uint64_t(b.Offset)
				resets = resets[1:]
				continue
			}
			bases[0].to, bases[0].offset, bases[0].operand = cell(b.At), C.int64_t(b.Offset), C.int32_t(b.Operand)
			bases = bases[1:]
		}
		for _, p := range s.Params {
			params[0].to, params[0].scalar, params[0].dtype = cell(p.At), C.int32_t(p.Scalar), C.int32_t(d.Scalars[p.Scalar])
			params = params[1:]
		}
		for _, w := range s.Words {
			resets[0].to, resets[0].value = cell(w.At), C.uint64_t(w.Value)
			resets = resets[1:]
		}
	}
	for i, x := range d.Checks {
		checks[i] = C.hologram_direct_check{written: C.int32_t(x.Written), other: C.int32_t(x.Other), same: flag(x.Same),
			written_from: C.int64_t(x.WrittenFrom), written_to: C.int64_t(x.WrittenTo),
			other_from: C.int64_t(x.OtherFrom), other_to: C.int64_t(x.OtherTo), gap: C.int64_t(x.Gap)}
	}
	if d.Space != 0 {
		bytes += int(d.Workspace)
	}
	return c, int64(bytes)
}
