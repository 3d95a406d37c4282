package core

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// lifeCall is what is called: an operation, or else the program triple.
type lifeCall struct {
	op     *Operation
	reads  int
	of     func(x [2]int64, scalar int64) int64
	scalar int64
}

func (l *life) aCall() *lifeCall {
	scalar := l.r.Int64N(100)
	find := func(name string) *Operation {
		op, _ := kernels.Lookup(name)
		return op
	}
	switch l.r.IntN(5) {
	case 0:
		return &lifeCall{kernels.Fill, 0, nil, scalar}
	case 1:
		return &lifeCall{kernels.Copy, 1, func(x [2]int64, _ int64) int64 { return x[0] }, 0}
	case 2:
		return &lifeCall{find("scalar_add"), 1, func(x [2]int64, s int64) int64 { return x[0] + s }, scalar}
	case 3:
		return &lifeCall{find("vector_sub"), 2, func(x [2]int64, _ int64) int64 { return x[0] - x[1] }, 0}
	default:
		return &lifeCall{nil, 1, func(x [2]int64, s int64) int64 { return 3*x[0] + s }, scalar}
	}
}

func (c *lifeCall) name() string {
	if c.op == nil {
		return "triple"
	}
	return c.op.Name
}

// lifeOperand is a buffer or an array.
type lifeOperand interface {
	view() *lifeView
	is() (o Operand, freed, readOnly bool, device int, name string)
}

func (b *lifeBuffer) view() *lifeView { return &b.lifeView }
func (a *lifeArray) view() *lifeView  { return &a.lifeView }

func (b *lifeBuffer) is() (Operand, bool, bool, int, string) {
	return Operand{Buffer: b.b}, b.freed, b.readOnly, b.ex.device, fmt.Sprintf("%p", b)
}

func (a *lifeArray) is() (Operand, bool, bool, int, string) {
	return a.operand, false, a.readOnly, 0, fmt.Sprintf("%p", a)
}

// nested tells whether each dimension's steps lead over all of those before it, by
// which it is known that no two elements are one.
func (v *lifeView) nested() bool {
	var steps [][2]int64
	for k, n := range v.shape {
		steps = append(steps, [2]int64{max(v.stride[k], -v.stride[k]), n - 1})
	}
	slices.SortFunc(steps, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	var reach int64
	for _, s := range steps {
		if s[1] > 0 && s[0] <= reach {
			return false
		}
		reach += s[0] * max(0, s[1])
	}
	return true
}

// writes says what of an output that shares memory with itself is refused.
func (f *refusal) writes(v *lifeView) {
	f.when(len(slices.Compact(slices.Sorted(slices.Values(v.at)))) != len(v.at), Invalid)
	f.perhaps(!v.nested(), Invalid)
}

// operation calls something on what fits, more or less.
func (l *life) operation() {
	if a, ok := one(l, l.arrays); ok && l.r.IntN(3) == 0 {
		l.withArrays(a.ex, a.stream)
		return
	}
	out, ok := l.buffer()
	if !ok {
		return
	}
	e, stream := out.ex, -1
	if l.r.IntN(4) == 0 {
		e = l.executor()
	}
	if len(l.theirs) > 0 && e.device == 0 && l.r.IntN(5) == 0 {
		if stream = l.r.IntN(2); l.r.IntN(2) == 0 {
			stream = l.r.IntN(len(l.theirs))
		}
	}
	c := l.aCall()
	operands := []lifeOperand{}
	for range c.reads {
		operands = append(operands, l.fitting(&out.lifeView))
	}
	l.freeSome(out)
	l.call(e, stream, c, append(operands, out)...)
}

// fitting is a buffer that is an input beside an output, as a rule.
func (l *life) fitting(out *lifeView) lifeOperand {
	var fit []*lifeBuffer
	for _, b := range l.buffers {
		if b.dtype == out.dtype && b.broadcast(out.shape) != nil && !b.freed {
			fit = append(fit, b)
		}
	}
	if b, ok := one(l, fit); ok && l.r.IntN(8) > 0 {
		return b
	}
	b, ok := l.buffer()
	if !ok {
		b = l.buffers[0]
	}
	return b
}

// withArrays is a call with arrays of a stream among its operands.
func (l *life) withArrays(e *lifeExecutor, stream int) {
	var of []*lifeArray
	for _, a := range l.arrays {
		if a.ex == e && a.stream == stream {
			of = append(of, a)
		}
	}
	c := l.aCall()
	operands := []lifeOperand{}
	for range c.reads + 1 {
		a, _ := one(l, of)
		if operands = append(operands, a); l.r.IntN(4) == 0 && len(l.buffers) > 0 {
			operands[len(operands)-1] = l.fitting(&a.lifeView)
		}
	}
	l.call(e, stream, c, operands...)
}

// call makes a call, the last of whose operands is its output.
func (l *life) call(e *lifeExecutor, stream int, c *lifeCall, operands ...lifeOperand) bool {
	f, out := &refusal{}, operands[len(operands)-1].view()
	made := &Call{Op: c.op, Scalars: []Scalar{Int(c.scalar)}}
	if c.op == nil {
		made.Program = l.triple
		f.when(out.dtype != isa.I32, BadType)
	} else if len(c.op.Scalars) == 0 {
		made.Scalars = nil
	}
	text, borrows := c.name()+fmt.Sprintf("(%d", c.scalar), false
	memory := []*lifeMemory{}
	at := make([][]int64, c.reads)
	for i, o := range operands {
		v := o.view()
		given, freed, readOnly, device, _ := o.is()
		made.Operands = append(made.Operands, given)
		memory = append(memory, v.mem)
		f.when(freed, BadHandle)
		f.when(device != e.device, Invalid)
		f.when(v.dtype != out.dtype, BadType)
		if i < c.reads {
			if at[i] = v.broadcast(out.shape); at[i] == nil && c.op == nil && len(v.at) == 1 && len(out.at) == 1 {
				return false // of a launch the index space is what all broadcast to
			} else if at[i] == nil {
				f.when(true, Invalid)
			} else {
				l.overlaps(f, out, v, at[i])
			}
		} else {
			f.when(readOnly, Invalid)
			f.writes(out)
		}
		switch o := o.(type) {
		case *lifeBuffer:
			if l.keeps(e, o) {
				return false
			}
			text += fmt.Sprintf(", b%d", slices.Index(l.buffers, o))
		case *lifeArray:
			borrows = true
			text += fmt.Sprintf(", a%d", slices.Index(l.arrays, o))
		}
	}
	f.when(e.closed, BadHandle)
	var told *lifeTold
	how := l.r.IntN(4)
	if stream >= 0 {
		made.Stream = l.theirs[stream].Native()
		f.when(e.capture != nil, Invalid)
		if made.Ordered = borrows && how == 0; made.Ordered {
			borrows = false
		}
	}
	if how > 1 && !made.Ordered {
		told = &lifeTold{}
		l.tolds = append(l.tolds, told)
		made.Deleter = func() { told.times.Add(1) }
	} else {
		f.when(e.capture != nil && borrows, Invalid)
	}
	if made.Try = l.r.IntN(8) == 0; made.Try {
		f.perhaps(true, Busy)
	}
	first := uint64(0)
	if l.r.IntN(8) == 0 {
		made.First = &first
		f.when(e.capture != nil || !e.ex.device.Info.HostVisible, Invalid)
		f.perhaps(len(out.at) == 0, Invalid)
	}
	ev, err := e.ex.Call(made)
	err = wait(ev, err)
	text += fmt.Sprintf(") by %s, stream %d, first %v, try %v", l.nameOf(e), stream, made.First != nil, made.Try)
	if !l.took(text, f, err) {
		if told != nil && CodeOf(err) != Busy {
			told.want = 1
		}
		return false
	}
	if told != nil && !borrows {
		told.want, told = 1, nil
	}
	l.does(e, func() {
		assign(out, func(i int) int64 {
			if c.op == kernels.Fill {
				return c.scalar
			}
			var x [2]int64
			for k := range at {
				in := lifeView{mem: operands[k].view().mem, dtype: out.dtype, at: at[k]}
				x[k] = in.get(i)
			}
			return c.of(x, c.scalar)
		})
	}, told, memory...)
	if made.First != nil && len(out.at) > 0 {
		if want := uint64(out.get(0)) & (1<<(8*out.dtype.Size()) - 1); first != want {
			l.fail("element 0 is %d; expected %d", first, want)
		}
	}
	return true
}

// astray launches what stores outside its buffer.
func (l *life) astray() {
	b, ok := l.buffer()
	if !ok {
		return
	}
	stream := -1
	if len(l.theirs) > 0 && b.ex.device == 0 && b.ex.capture == nil && l.r.IntN(3) == 0 {
		stream = l.r.IntN(2)
	}
	l.strayOf(b.ex, stream, b)
}

func (l *life) strayOf(e *lifeExecutor, stream int, b *lifeBuffer) {
	if e.closed || b.ex.device != e.device || b.freed || b.readOnly || !b.b.Contiguous() || b.dtype != isa.I32 || len(b.at) == 0 || l.keeps(e, b) {
		return
	}
	c := &Call{Program: l.stray, Operands: []Operand{{Buffer: b.b}}, Scalars: []Scalar{Int(1 << 30)}, Dims: []int64{1}}
	if stream >= 0 {
		c.Stream = l.theirs[stream].Native()
	}
	f := &refusal{}
	asynchronous := e.ex.device.Info.Asynchronous
	f.when(!asynchronous && e.capture == nil, Faulted)
	l.took(fmt.Sprintf("stray(b%d) by %s, stream %d", slices.Index(l.buffers, b), l.nameOf(e), stream), f, wait(e.ex.Call(c)))
	switch {
	case e.capture != nil:
		e.capture.faults = true
		l.does(e, func() {}, nil, b.mem)
	case asynchronous && stream >= 0:
		e.theirs = yes
	case asynchronous:
		e.fault = yes
	}
}

// onAll makes a call on each stream of others: of so many an executor forgets some.
func (l *life) onAll(e *lifeExecutor) {
	b, ok := one(l, slices.DeleteFunc(slices.Clone(l.buffers), func(b *lifeBuffer) bool {
		return b.freed || b.readOnly || b.ex.device != e.device || b.dtype != isa.I32 || !b.b.Contiguous()
	}))
	if !ok || len(l.theirs) <= 2 || e.device != 0 || e.capture != nil {
		return
	}
	l.strayOf(e, 0, b)
	for i, s := range l.theirs {
		l.call(e, i, &lifeCall{kernels.Fill, 0, nil, int64(i)}, b)
		if l.r.IntN(4) > 0 {
			s.Synchronize()
		}
	}
	if l.r.IntN(2) == 0 {
		l.synchronize(e)
	}
}

// ofOthers captures calls for a stream of others, by its owner, or does something with
// what he captured.
func (l *life) ofOthers() {
	if g, ok := one(l, l.lent); ok && (l.r.IntN(3) > 0 || len(l.lent) > 5) {
		if l.r.IntN(6) == 0 {
			l.note("destroy a graph of stream %d", g.stream)
			g.g.Destroy()
			l.lent = slices.DeleteFunc(l.lent, func(o *lifeLent) bool { return o == g })
			return
		}
		l.note("replay a graph on stream %d", g.stream)
		g.g.Replay(l.theirs[g.stream])
		for _, work := range g.works {
			work()
		}
		return
	}
	a, ok := one(l, l.arrays)
	if !ok || a.stream < 0 || a.ex.closed || a.ex.capture != nil {
		return
	}
	type one struct {
		c    *lifeCall
		call *Call
		work func()
	}
	var calls []one
	for range 1 + l.r.IntN(3) {
		if a.readOnly {
			continue
		}
		c := &lifeCall{kernels.Fill, 0, nil, l.r.Int64N(100)}
		if l.r.IntN(2) == 0 {
			c = &lifeCall{op: lookUpOp("scalar_add"), reads: 1, scalar: 1}
		}
		k := one{c: c, call: &Call{Op: c.op, Scalars: []Scalar{Int(c.scalar)}, Stream: l.theirs[a.stream].Native()}}
		for range c.reads + 1 {
			k.call.Operands = append(k.call.Operands, a.operand)
		}
		k.work = func() {
			assign(&a.lifeView, func(i int) int64 { return int64(c.reads)*a.get(i) + c.scalar })
		}
		calls = append(calls, k)
	}
	run := func(what string) {
		for _, k := range calls {
			told := &lifeTold{want: 1}
			l.tolds = append(l.tolds, told)
			k.call.Deleter = func() { told.times.Add(1) }
			l.took(what+" of a"+fmt.Sprint(slices.Index(l.arrays, a)), &refusal{}, wait(a.ex.ex.Call(k.call)))
			if what == "capture" && told.times.Load() != 1 {
				l.fail("memory of others is held after a call that its owner captures")
			}
		}
	}
	run("call")
	for _, k := range calls {
		k.work()
	}
	g := &lifeLent{stream: a.stream, g: l.theirs[a.stream].BeginCapture()}
	run("capture")
	l.theirs[a.stream].EndCapture()
	for _, k := range calls {
		g.works = append(g.works, k.work)
	}
	l.lent = append(l.lent, g)
}

func lookUpOp(name string) *Operation {
	op, _ := kernels.Lookup(name)
	return op
}

// sameArray checks what an array holds, by a call on its stream.
func (l *life) sameArray(a *lifeArray) {
	if a.ex.capture != nil || a.ex.closed {
		return
	}
	if l.backend == nil {
		if string(hostmem.Bytes(a.mem.addr, 24)) != string(a.mem.data) {
			l.fail("a%d holds what it should not", slices.Index(l.arrays, a))
		}
		return
	}
	out, err := a.ex.ex.Allocate(6, isa.I32, false)
	l.must(err)
	defer out.Free()
	c := &Call{Op: kernels.Copy, Operands: []Operand{a.operand, {Buffer: out}}, Deleter: func() {}}
	if a.stream >= 0 {
		c.Stream = l.theirs[a.stream].Native()
	}
	l.must(wait(a.ex.ex.Call(c)))
	if got := l.contents(0, out, isa.I32, 6); string(got) != string(a.mem.data) {
		l.fail("a%d holds %v; expected %v", slices.Index(l.arrays, a), got, a.mem.data)
	}
}

// end ends all that is left, in an order of chance, and counts.
func (l *life) end() {
	l.note("the end")
	for _, e := range l.executors {
		if e.capture != nil {
			l.endCapture(e)
		}
	}
	for len(l.reads) > 0 {
		l.finish(0)
	}
	for _, b := range l.buffers {
		l.same(b)
	}
	for _, a := range l.arrays {
		l.sameArray(a)
	}
	var ends []func()
	for _, b := range l.buffers {
		ends = append(ends, func() { l.free(b) })
	}
	for _, g := range l.graphs {
		ends = append(ends, func() { l.release(g) })
	}
	for _, e := range l.executors {
		ends = append(ends, func() { l.closeExecutor(e) })
	}
	for _, g := range l.lent {
		ends = append(ends, g.g.Destroy)
	}
	for _, le := range l.leases {
		ends = append(ends, func() {
			le.lease.Release()
			l.let(le.mem)
		})
	}
	l.r.Shuffle(len(ends), func(i, k int) { ends[i], ends[k] = ends[k], ends[i] })
	for _, end := range ends {
		end()
		if l.r.IntN(8) == 0 {
			l.used()
		}
	}
	l.used()
	for i, c := range l.checker {
		l.must(c.Close())
		if n := l.devices[i].MemoryStats().InUse - l.inUse[i]; n != 0 {
			l.fail("%d bytes of device %d are in use at the end", n, i)
		}
	}
	for _, a := range l.arrays {
		l.goes(a.mem)
	}
	l.triple.Close()
	l.stray.Close()
	for _, s := range l.theirs {
		s.Close()
	}
	l.reported()
	if l.backend != nil {
		if n := l.backend.Counts(); n.Graphs != 0 || n.Streams != 0 || n.Timings != 0 {
			l.fail("at the end there are %+v", n)
		}
	}
}

// abandon ends what a failure has left.
func (l *life) abandon() {
	defer func() { _ = recover() }()
	for _, e := range l.executors {
		_ = e.ex.Close()
	}
	for _, c := range l.checker {
		_ = c.Close()
	}
}
