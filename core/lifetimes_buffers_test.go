package core

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

func (l *life) view() {
	b, ok := l.buffer()
	if !ok {
		return
	}
	size, memory := int64(b.dtype.Size()), int64(len(b.mem.data))
	var shape, stride []int64
	for range l.r.IntN(3) + l.r.IntN(2) {
		shape = append(shape, []int64{1, 2, 2, 3, 3, 6, 0}[l.r.IntN(7)])
	}
	step, steps := int64(1), make([]int64, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		steps[k] = step
		step *= max(1, shape[k])
	}
	if l.r.IntN(2) == 0 {
		stride = slices.Clone(steps)
		for k := range stride {
			switch l.r.IntN(6) {
			case 0:
				stride[k] *= 2
			case 1:
				stride[k] *= -1
			case 2:
				stride[k] = 0
			case 3:
				j := l.r.IntN(len(stride))
				stride[k], stride[j] = stride[j], stride[k]
			}
		}
		steps = stride
	}
	offset := l.r.Int64N(max(1, memory/size)+4) - 2
	if l.r.IntN(2) == 0 {
		offset = 0
	}
	first := b.offset + offset*size
	at := elements(first, size, shape, steps)
	f := &refusal{}
	f.when(b.freed, BadHandle)
	from, to := int64(0), memory
	if b.class >= 0 {
		from, to = int64(b.class)*isa.ClassBytes, int64(b.class+1)*isa.ClassBytes
	}
	if b.mem.account == nil { // from the first element that was wrapped on
		from = 8
	}
	within := b.within
	if !b.b.Contiguous() {
		within = b.at
	}
	for _, a := range at {
		f.when(a < from || a+size > to, Invalid)
		f.when(within != nil && !slices.Contains(within, a), Invalid)
	}
	f.perhaps(within != nil, Invalid)
	made, err := b.b.View(offset, shape, stride)
	if l.took(fmt.Sprintf("b%d = b%d.view(%d, %v, %v)", len(l.buffers), slices.Index(l.buffers, b), offset, shape, stride), f, err) {
		v := l.made(made, b.ex, lifeView{b.mem, b.dtype, shape, steps, at}, first)
		v.readOnly, v.class, v.within = b.readOnly, b.class, within
	}
}

func (l *life) free(b *lifeBuffer) {
	l.note("free b%d", slices.Index(l.buffers, b))
	b.b.Free()
	if !b.freed {
		b.freed = true
		l.let(b.mem)
	}
	if !b.b.Freed() {
		l.fail("it is not freed")
	}
}

func (l *life) lease() {
	if len(l.leases) > 0 && l.r.IntN(2) == 0 {
		i := l.r.IntN(len(l.leases))
		le := l.leases[i]
		m := le.lease.mem
		if l.backend == nil && le.mem.account != nil && string(hostmem.Bytes(m.Addr, m.Bytes)) != string(le.mem.data) {
			l.fail("the memory of a lease holds what it should not")
		}
		l.note("release lease %d", i)
		l.leases = slices.Delete(l.leases, i, i+1)
		le.lease.Release()
		l.let(le.mem)
	} else if b, ok := l.buffer(); ok {
		f := &refusal{}
		f.when(b.freed, BadHandle)
		lease, err := b.b.Lease()
		if l.took(fmt.Sprintf("lease %d of b%d", len(l.leases), slices.Index(l.buffers, b)), f, err) {
			l.leases = append(l.leases, &lifeLease{lease, b.mem})
			b.mem.users++
		}
	}
}

func (l *life) read() {
	b, ok := l.buffer()
	if !ok {
		return
	}
	f, all := &refusal{}, int64(len(b.at)*b.dtype.Size())
	offset, bytes := int64(0), all
	if l.r.IntN(3) == 0 {
		offset, bytes = l.r.Int64N(all+2), l.r.Int64N(all+2)-1
	}
	f.when(b.freed, BadHandle)
	f.when(b.ex.capture != nil, Invalid)
	f.when(!b.b.Contiguous() || bytes < 0 || offset+bytes > all, Invalid)
	r := &lifeRead{ex: b.ex, got: hostBytes(max(1, bytes)), fault: b.ex.fault}
	if r.fault == no && b.ex.theirs > no {
		r.fault = maybe
	}
	ev, err := b.b.Read(addressOf(r.got), offset, bytes)
	what := fmt.Sprintf("read %d bytes of b%d from %d on", bytes, slices.Index(l.buffers, b), offset)
	if ev == nil {
		f.when(len(f.must) == 0 && r.fault == yes, Faulted)
		f.perhaps(r.fault == maybe, Faulted)
	}
	l.took(what, f, err)
	if err != nil && CodeOf(err) != Faulted {
		return
	}
	r.want = slices.Clone(b.bytes()[offset : offset+bytes])
	b.ex.fault, b.ex.theirs = no, min(b.ex.theirs, maybe)
	if ev == nil {
		l.got(r)
		return
	}
	r.ev = ev
	l.reads = append(l.reads, r)
}

func (l *life) got(r *lifeRead) {
	if string(r.got[:len(r.want)]) != string(r.want) {
		l.fail("read %v; expected %v", r.got, r.want)
	}
}

// finish waits for a read, or gives it up.
func (l *life) finish(i int) {
	r := l.reads[i]
	l.reads = slices.Delete(l.reads, i, i+1)
	if !r.broken && l.r.IntN(6) == 0 {
		r.ev.Cancel()
		if r.broken = true; r.fault > no && !r.ex.closed {
			l.passOn(r)
		}
	}
	f := &refusal{}
	f.when(r.fault == yes && !r.broken, Faulted)
	f.perhaps(r.fault > no, Faulted)
	f.perhaps(r.broken, Cancelled)
	err := wait(r.ev, nil)
	l.took("what was read", f, err)
	if err == nil || CodeOf(err) == Faulted {
		l.got(r)
	}
	for i := range r.got { // which is the caller's again
		r.got[i] = 0xee
	}
	l.had = append(l.had, r.got)
	runtime.KeepAlive(r.got)
}

func (l *life) write() {
	b, ok := l.buffer()
	if !ok {
		return
	}
	f, size := &refusal{}, int64(b.dtype.Size())
	all := int64(len(b.at))
	from := l.r.Int64N(all + 1)
	n := l.r.Int64N(all-from+1) + l.r.Int64N(2)
	f.when(b.freed, BadHandle)
	f.when(b.ex.capture != nil || b.readOnly || !b.b.Contiguous() || from+n > all, Invalid)
	data := hostBytes(max(1, n*size))
	for i := range data {
		data[i] = byte(l.r.IntN(256))
	}
	given := slices.Clone(data)
	ev, err := b.b.Write(addressOf(data), from*size, n*size)
	if !l.took(fmt.Sprintf("write %d elements of b%d from %d on", n, slices.Index(l.buffers, b), from), f, wait(ev, err)) {
		return
	}
	for i := range data { // which is the caller's again
		data[i] = 0xee
	}
	for i := range n {
		copy(b.mem.data[b.at[from+i]:], given[i*size:(i+1)*size])
	}
}

func (l *life) copyFrom() {
	b, ok := l.buffer()
	if !ok {
		return
	}
	var fit []*lifeBuffer
	far := l.r.IntN(2) == 0
	for _, o := range l.buffers {
		if o.dtype == b.dtype && len(o.at) == len(b.at) && (!far || o.ex.device != b.ex.device) {
			fit = append(fit, o)
		}
	}
	src, ok := one(l, l.some(fit))
	if !ok || l.r.IntN(8) == 0 {
		if src, ok = l.buffer(); !ok {
			return
		}
	}
	if l.keeps(b.ex, b, src) {
		return
	}
	l.freeSome(b, src)
	f := &refusal{}
	f.when(b.freed || src.freed, BadHandle)
	f.when(b.dtype != src.dtype, BadType)
	f.when(b.readOnly || len(b.at) != len(src.at), Invalid)
	work := func() { assign(&b.lifeView, func(i int) int64 { return src.get(i) }) }
	if b.ex.device != src.ex.device {
		f.when(b.ex.capture != nil || src.ex.capture != nil || !b.b.Contiguous() || !src.b.Contiguous(), Invalid)
		ev, err := b.b.CopyFrom(src.b)
		if l.took(fmt.Sprintf("copy b%d to b%d of another device", slices.Index(l.buffers, src), slices.Index(l.buffers, b)), f, err) {
			work()
			if ev != nil {
				l.copies = append(l.copies, ev)
			}
			if l.r.IntN(2) == 0 {
				l.copyFrom()
			}
		}
		return
	}
	same := slices.Equal(b.at, src.at) && b.mem == src.mem
	if same && b.ex.capture != nil {
		return // which may have nothing to record
	}
	f.writes(&b.lifeView)
	l.overlaps(f, &b.lifeView, &src.lifeView, src.at)
	f.perhaps(!slices.Equal(b.shape, src.shape) && !(b.b.Contiguous() && src.b.Contiguous()), Invalid)
	if same { // then it may do nothing
		f.may = append(f.may, f.must...)
		f.must = nil
	}
	f.when(b.freed || src.freed, BadHandle)
	ev, err := b.b.CopyFrom(src.b)
	if l.took(fmt.Sprintf("copy b%d to b%d", slices.Index(l.buffers, src), slices.Index(l.buffers, b)), f, wait(ev, err)) {
		l.does(b.ex, work, nil, b.mem, src.mem)
	}
}

// copied waits for copies from other devices, which would not be made when an executor
// closes, nor while one captures.
func (l *life) copied() {
	for _, ev := range l.copies {
		l.must(wait(ev, nil))
	}
	l.copies = nil
}

// freeSome seldom frees one of the buffers of a call that would be right.
func (l *life) freeSome(buffers ...*lifeBuffer) {
	if l.r.IntN(10) == 0 {
		l.free(buffers[l.r.IntN(len(buffers))])
	}
}

// overlaps says what of an output that shares memory with an input is refused.
func (l *life) overlaps(f *refusal, out, in *lifeView, at []int64) {
	if out.mem != in.mem || len(out.at) == 0 || len(at) == 0 {
		return
	}
	same := slices.Equal(out.at, at)
	size, near := int64(out.dtype.Size()), false
	lo, hi := slices.Min(out.at), slices.Max(out.at)
	for _, a := range at {
		for _, o := range out.at {
			f.when(!same && a < o+size && o < a+int64(in.dtype.Size()), Invalid)
		}
		near = near || a <= hi+size && lo <= a+size
	}
	f.perhaps(same && !(slices.Equal(out.shape, in.shape) && slices.Equal(out.stride, in.stride)) || !same && near, Invalid)
}

// assign sets the elements of v to what they are of elements as they were before.
func assign(v *lifeView, of func(i int) int64) {
	values := make([]int64, len(v.at))
	for i := range values {
		values[i] = of(i)
	}
	for i, x := range values {
		v.set(i, x)
	}
}

// passOn leaves what a read that is given up may have told to those after it.
func (l *life) passOn(r *lifeRead) {
	r.ex.fault = max(r.ex.fault, maybe)
	for _, o := range l.reads {
		if o.ex == r.ex {
			o.fault = max(o.fault, maybe)
		}
	}
}
