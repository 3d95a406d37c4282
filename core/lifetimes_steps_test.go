package core

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// step does one thing of chance.
func (l *life) step() {
	switch k := l.r.IntN(100); {
	case k < 3 || len(l.executors) < 3:
		l.newExecutor()
	case k < 4:
		l.closeExecutor(l.executor())
	case k < 13:
		l.allocate(l.executor())
	case k < 16:
		l.wrap(l.executor())
	case k < 19:
		l.lend(l.executor())
	case k < 28:
		l.view()
	case k < 36:
		if b, ok := l.buffer(); ok {
			l.free(b)
		}
	case k < 39:
		l.lease()
	case k < 58:
		l.operation()
	case k < 62:
		l.copyFrom()
	case k < 64:
		l.astray()
	case k < 70:
		l.read()
	case k < 73:
		l.write()
	case k < 76:
		l.beginCapture(l.executor())
	case k < 81:
		l.endCapture(l.capturing())
	case k < 88:
		if g, ok := one(l, l.graphs); ok {
			l.replay(g)
		}
	case k < 90:
		if g, ok := one(l, l.graphs); ok {
			l.release(g)
		}
	case k < 93:
		l.ofOthers()
	case k < 95:
		l.onAll(l.executor())
	case k < 96:
		l.devices[l.r.IntN(len(l.devices))].Trim()
	case k < 98:
		l.quota(l.executor())
	default:
		l.used()
	}
	if l.r.IntN(4) == 0 {
		if b, ok := l.buffer(); ok {
			l.same(b)
		}
	}
	if l.r.IntN(8) == 0 {
		if a, ok := one(l, l.arrays); ok {
			l.sameArray(a)
		}
	}
	if len(l.reads) > 0 && l.r.IntN(3) == 0 {
		l.finish(l.r.IntN(len(l.reads)))
	}
}

// executor is one that is there, or seldom one that is closed.
func (l *life) executor() *lifeExecutor {
	for {
		e := l.executors[l.r.IntN(len(l.executors))]
		if !e.closed || l.r.IntN(20) == 0 || !slices.ContainsFunc(l.executors, func(e *lifeExecutor) bool { return !e.closed }) {
			return e
		}
	}
}

// capturing is one that captures, if there is one.
func (l *life) capturing() *lifeExecutor {
	for _, e := range l.executors {
		if e.capture != nil {
			return e
		}
	}
	return l.executor()
}

// buffer is one that is there, or seldom one that is freed.
func (l *life) buffer() (*lifeBuffer, bool) { return one(l, l.some(l.buffers)) }

func (l *life) some(list []*lifeBuffer) []*lifeBuffer {
	if l.r.IntN(12) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(b *lifeBuffer) bool { return b.freed })
}

func (l *life) nameOf(e *lifeExecutor) string { return fmt.Sprint("ex", slices.Index(l.executors, e)) }

func (l *life) newExecutor() {
	device := len(l.executors) % len(l.devices)
	ex, err := l.devices[device].NewExecutor()
	l.took(fmt.Sprintf("ex%d on device %d", len(l.executors), device), &refusal{}, err)
	l.executors = append(l.executors, &lifeExecutor{ex: ex, device: device})
}

func (l *life) closeExecutor(e *lifeExecutor) {
	f := &refusal{}
	l.copied()
	for _, g := range l.graphs {
		if g.ex == e {
			l.over(g) // else it would be cut short
		}
	}
	if !e.closed {
		for _, r := range l.reads {
			if r.ex == e {
				if r.broken = true; r.fault > no {
					l.passOn(r)
				}
			}
		}
		f.when(e.fault == yes || e.theirs == yes, Faulted)
		f.perhaps(e.fault == maybe || e.theirs == maybe, Faulted)
	}
	l.took("close "+l.nameOf(e), f, e.ex.Close())
	if e.closed {
		return
	}
	e.closed, e.fault, e.theirs = true, no, no
	for _, b := range l.buffers {
		if b.ex == e && !b.freed {
			b.freed = true
			l.let(b.mem)
		}
	}
	if e.boundary != nil {
		e.boundary.users--
	}
	if g := e.capture; g != nil {
		e.capture = nil
		l.dropGraph(g)
	}
}

// synchronize waits for all of an executor's work.
func (l *life) synchronize(e *lifeExecutor) {
	f := &refusal{}
	f.when(e.closed, BadHandle)
	f.when(e.capture != nil, Invalid)
	f.when(e.fault == yes || e.theirs == yes, Faulted)
	f.perhaps(e.fault == maybe || e.theirs == maybe, Faulted)
	ev, err := e.ex.Synchronize()
	l.took("synchronize "+l.nameOf(e), f, wait(ev, err))
	switch {
	case e.closed:
	case e.capture != nil:
		e.theirs = min(e.theirs, maybe)
	default:
		e.fault, e.theirs = no, no
	}
}

func (l *life) made(b *Buffer, e *lifeExecutor, v lifeView, offset int64) *lifeBuffer {
	made := &lifeBuffer{lifeView: v, b: b, ex: e, offset: offset, class: -1}
	v.mem.users++
	l.buffers = append(l.buffers, made)
	return made
}

func (l *life) aType() isa.Type {
	return []isa.Type{isa.I32, isa.I32, isa.I32, isa.I16, isa.U8}[l.r.IntN(5)]
}

func row(mem *lifeMemory, t isa.Type, first, n int64) lifeView {
	return lifeView{mem, t, []int64{n}, []int64{1}, elements(first, int64(t.Size()), []int64{n}, []int64{1})}
}

func (l *life) allocate(e *lifeExecutor) {
	t, n := l.aType(), []int64{1, 2, 3, 6, 6, 6, 12, 24, 100}[l.r.IntN(9)]
	f, zeroed := &refusal{}, e.capture != nil || l.r.IntN(2) == 0
	f.when(e.closed, BadHandle)
	if l.r.IntN(5) == 0 {
		class := l.r.Int64N(3)
		b, err := e.ex.AllocateBoundary(class, n%7+1, 6, t)
		n = (n%7 + 1) * 6
		if l.took(fmt.Sprintf("b%d = %s.boundary(%d, %d × %v)", len(l.buffers), l.nameOf(e), class, n, t), f, err) {
			if e.boundary == nil {
				e.boundary = l.pooled(b, e, isa.BoundaryBytes)
				e.boundary.users++
			}
			l.made(b, e, row(e.boundary, t, class*isa.ClassBytes, n), class*isa.ClassBytes).class = int(class)
		}
		return
	}
	make := e.ex.Allocate
	if l.r.IntN(4) == 0 {
		make = e.ex.TryAllocate
		f.perhaps(true, Busy)
	}
	b, err := make(n, t, zeroed)
	if !l.took(fmt.Sprintf("b%d = %s.allocate(%d, %v, zeroed: %v)", len(l.buffers), l.nameOf(e), n, t, zeroed), f, err) {
		return
	}
	made := l.made(b, e, row(l.pooled(b, e, n*int64(t.Size())), t, 0, n), 0)
	if !zeroed {
		l.must(wait(b.Fill(Int(1))))
		assign(&made.lifeView, func(int) int64 { return 1 })
	}
}

// pooled is memory that an executor took from its device.
func (l *life) pooled(b *Buffer, e *lifeExecutor, bytes int64) *lifeMemory {
	m := &lifeMemory{data: make([]byte, bytes), account: e, device: e.device, bytes: reflect.ValueOf(b.mem).Elem().FieldByName("size").Int()}
	l.memory = append(l.memory, m)
	return m
}

// others is memory that others own.
func (l *life) others(bytes int64, deleter bool) *lifeMemory {
	m := &lifeMemory{data: make([]byte, bytes), freed: new(atomic.Int32), deleter: deleter}
	l.memory = append(l.memory, m)
	if l.backend == nil {
		m.host = hostBytes(bytes + 8)
		m.addr = (addressOf(m.host) + 7) &^ 7
		return m
	}
	given, err := l.backend.NewForeignMemory(0, bytes)
	l.must(err)
	m.addr = given.Addr
	return m
}

// goes is what the owner of memory does when it is told that nobody uses it.
func (l *life) goes(m *lifeMemory) {
	m.freed.Add(1)
	if l.backend != nil {
		_ = l.backend.FreeForeignMemory(0, backends.Memory{Addr: m.addr, Bytes: int64(len(m.data))})
	}
}

// let takes a user away. The owner of memory who is told by nobody knows when the last
// buffer is freed.
func (l *life) let(m *lifeMemory) {
	if m.users--; m.users == 0 && m.account == nil && !m.deleter && !m.array {
		if l.backend == nil && string(hostmem.Bytes(m.addr, int64(len(m.data)))) != string(m.data) {
			l.fail("memory of others holds what it should not")
		}
		l.goes(m)
	}
}

func (l *life) wrap(e *lifeExecutor) {
	if e.device != 0 {
		return
	}
	t, n := l.aType(), []int64{1, 6, 6, 12}[l.r.IntN(4)]
	m := l.others(n*int64(t.Size())+8, l.r.IntN(2) == 0)
	v := row(m, t, 8, n)
	if n > 1 && l.r.IntN(3) == 0 { // backwards
		v.stride = []int64{-1}
		slices.Reverse(v.at)
	}
	readOnly := l.r.IntN(4) == 0
	var deleter func()
	if m.deleter {
		deleter = func() { l.goes(m) }
	}
	f := &refusal{}
	f.when(e.closed, BadHandle)
	b, err := e.ex.Wrap(m.addr+uintptr(v.at[0]), t, v.shape, v.stride, readOnly, deleter)
	if l.took(fmt.Sprintf("b%d = %s.wrap(%d, %v, stride %d, read-only: %v, deleter: %v)", len(l.buffers), l.nameOf(e), n, t, v.stride[0], readOnly, m.deleter), f, err) {
		l.made(b, e, v, v.at[0]).readOnly = readOnly
	} else if m.deleter = false; m.freed.Load() != 0 {
		l.fail("the deleter of what was not wrapped was called")
	}
}

// lend makes an array for calls.
func (l *life) lend(e *lifeExecutor) {
	if e.device != 0 || e.closed {
		return
	}
	a := &lifeArray{ex: e, stream: -1, readOnly: l.r.IntN(8) == 0}
	if len(l.theirs) > 0 && l.r.IntN(3) > 0 {
		if a.stream = l.r.IntN(2); l.r.IntN(2) == 0 {
			a.stream = l.r.IntN(len(l.theirs))
		}
	}
	m := l.others(24, false)
	m.array = true
	m.users++
	a.lifeView = row(m, isa.I32, 0, 6)
	v := backends.View{Addr: m.addr, Type: isa.I32, Rank: 1}
	v.Shape[0], v.Stride[0] = 6, 1
	a.operand = Operand{View: v, DeviceType: e.ex.device.Info.DLPackType, ReadOnly: a.readOnly}
	if l.backend == nil {
		a.operand.DeviceType = dlpackCPU
	}
	l.note("a%d on stream %d of %s, read-only: %v", len(l.arrays), a.stream, l.nameOf(e), a.readOnly)
	l.arrays = append(l.arrays, a)
}

// keeps says whether the executor would keep memory whose owner would wait for that.
func (l *life) keeps(e *lifeExecutor, buffers ...*lifeBuffer) bool {
	return e.capture != nil && slices.ContainsFunc(buffers, func(b *lifeBuffer) bool { return b.mem.account == nil && !b.mem.deleter })
}

// does has work be done, or recorded.
func (l *life) does(e *lifeExecutor, work func(), told *lifeTold, memory ...*lifeMemory) {
	g := e.capture
	if g == nil {
		work()
		if told != nil {
			told.want = 1
		}
		return
	}
	g.works = append(g.works, work)
	for _, m := range memory {
		m.users++
		g.uses = append(g.uses, m)
	}
	if told != nil {
		g.toTell = append(g.toTell, told)
	}
}

func (l *life) beginCapture(e *lifeExecutor) {
	if e.capture == nil && !e.closed {
		l.copied()
		for i := len(l.reads) - 1; i >= 0; i-- {
			if l.reads[i].ex == e {
				l.finish(i)
			}
		}
		l.synchronize(e)
	}
	f := &refusal{}
	f.when(e.closed, BadHandle)
	f.when(e.capture != nil, Invalid)
	err := e.ex.BeginCapture()
	for i := 0; i < 1000 && err != nil && e.capture == nil && strings.Contains(err.Error(), "at work"); i++ {
		time.Sleep(10 * time.Microsecond) // a goroutine is to say that it has nothing to do any more
		err = e.ex.BeginCapture()
	}
	if l.took(l.nameOf(e)+" captures", f, err) {
		e.capture = &lifeGraph{ex: e}
	}
}

func (l *life) endCapture(e *lifeExecutor) {
	f := &refusal{}
	f.when(e.capture == nil, Invalid)
	g, err := e.ex.EndCapture()
	if l.took(fmt.Sprintf("graph %d of %s", len(l.graphs), l.nameOf(e)), f, err) {
		e.capture.g = g
		l.graphs = append(l.graphs, e.capture)
		e.capture = nil
	}
}

// over waits for the last replay of a graph.
func (l *life) over(g *lifeGraph) {
	if g.last != nil {
		f := &refusal{}
		f.when(g.faults, Faulted)
		ev := g.last
		g.last = nil
		l.took("the replay", f, wait(ev, nil))
	}
}

func (l *life) replay(g *lifeGraph) {
	e, f := g.ex, &refusal{}
	if l.r.IntN(8) == 0 {
		e = l.executor()
	}
	f.when(e != g.ex || e.capture != nil, Invalid)
	f.when(g.released || e.closed, BadHandle)
	if l.r.IntN(2) == 0 {
		l.over(g)
	} else {
		f.perhaps(g.last != nil, Invalid)
	}
	ev, err := e.ex.Replay(g.g)
	l.note("replay graph %d: event %v", slices.Index(l.graphs, g), ev != nil)
	if ev == nil && g.faults && len(f.must) == 0 {
		f.must = []Code{Faulted}
		l.took("the replay", f, err)
		f.must, err = nil, nil
	}
	if l.took("replay", f, err) {
		if g.last != nil { // that is over, then
			l.over(g)
		}
		g.last = ev
		for _, work := range g.works {
			work()
		}
	}
}

func (l *life) release(g *lifeGraph) {
	l.note("release graph %d", slices.Index(l.graphs, g))
	g.g.Release()
	if !g.released {
		l.dropGraph(g)
	}
}

func (l *life) dropGraph(g *lifeGraph) {
	g.released = true
	for _, m := range g.uses {
		l.let(m)
	}
	for _, t := range g.toTell {
		t.want = 1
	}
}

func (l *life) quota(e *lifeExecutor) {
	if l.used(); e.closed || slices.ContainsFunc(l.executors, func(e *lifeExecutor) bool { return e.capture != nil }) {
		return
	}
	l.must(e.ex.SetQuota(e.ex.Used() + 1))
	_, err := e.ex.Allocate(math.MaxUint16, isa.U8, false)
	l.took("allocate beyond the quota", &refusal{must: []Code{OutOfMemory}}, err)
	l.must(e.ex.SetQuota(0))
}
