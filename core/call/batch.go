package call

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// Batch is launches of a program, none of which uses what another writes, as one piece of
// work. It is for devices that work by themselves, which may have one launch for all; for
// launches that neither fault nor take long, so that nobody asks what became of each; and for
// memory that others keep in order. Of a launch it holds what its own is, the addresses, and
// not a Bound: for many small launches it is memory that takes the time.
type Batch struct {
	what      string
	cells     []uint64 // of the scalars, which all have
	members   []member
	mems      []*memory.Memory // of others, where the device has to be told of it
	addresses []uintptr        // of the members' slots, one's after the other's
	areas     []area
	cost      float64 // in nanoseconds
	try       bool
	queued    *bool
	line      *memory.Line
	tickets   []backends.Ticket // one for each kernel

	// The launch at hand, of calls that filled is, and those of the kernel at hand.
	filled *Prepared
	launch backends.Launch
	group  []int32
}

// member is a launch of a batch.
type member struct {
	p    *Prepared
	at   int32 // its first address
	best bool  // the addresses are aligned as those for which Prepare has code made
}

// area is memory that a launch of a batch uses.
type area struct {
	from, to uintptr
	writes   bool
}

// longest is how many nanoseconds a batch may take: longer ones are worth cancelling.
const longest = 20e6

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch makes a batch, to which Add gives its launches. With try it waits for nobody.
// queued is set once something of it is.
func NewBatch(try bool, queued *bool) *Batch {
	b := batches.Get().(*Batch)
	b.try, b.queued = try, queued
	return b
}

// Add adds a call of p on these operands, memory of others, all of a batch with the same
// scalars. It reports false, as with an error, of what cannot be part of a batch; else p and
// the operands' memory are the batch's from now on.
func (b *Batch) Add(p *Prepared, operands []Operand, scalars []Scalar) (bool, error) {
	if !p.async || p.faults || p.phase || p.residue || len(p.steps) != 1 || p.workspace > 0 || len(p.numbers) > 0 {
		return false, nil
	}
	low, err := p.look(operands)
	if err != nil {
		return false, err
	}
	if len(b.members) == 0 {
		b.cells = append(b.cells[:0], make([]uint64, len(scalars))...)
		if err := p.convert(b.cells, scalars); err != nil {
			return false, err
		}
	}
	s, n := &p.steps[0], len(b.members)
	b.what, b.members = p.what, append(b.members, member{p, int32(len(b.addresses)), low%bestAlign == 0})
	for k := range s.slots {
		b.addresses = append(b.addresses, operands[s.slots[k].operand].View.Addr+s.l.Slots[k].Addr)
	}
	cost := p.cost
	if p.varies {
		cost = s.cost(b.at(n))
	}
	if !(b.cost+cost <= longest) {
		b.members = b.members[:n]
		return false, nil
	}
	b.cost += cost
	b.use(p, operands)
	for i := range operands {
		if m := operands[i].Mem; m != nil {
			b.mems = append(b.mems, m)
		}
	}
	return true, nil
}

// use notes which memory a call uses.
func (b *Batch) use(p *Prepared, operands []Operand) {
	own := len(b.areas)
	for _, written := range []bool{true, false} {
		for i := range operands {
			use, at := &p.operands[i], operands[i].View.Addr
			if use.empty || use.writes != written {
				continue
			}
			a := area{at + uintptr(use.lo), at + uintptr(use.hi), written}
			// What is read where it is written, which a launch's own checks allow, is one area.
			if written || !slices.ContainsFunc(b.areas[own:], func(o area) bool { return o.writes && o.from == a.from && o.to == a.to }) {
				b.areas = append(b.areas, a)
			}
		}
	}
}

// Independent reports whether no launch uses what another writes.
func (b *Batch) Independent() bool {
	slices.SortFunc(b.areas, func(x, y area) int { return cmp.Compare(x.from, y.from) })
	var written, used uintptr // up to where those before reach
	for _, a := range b.areas {
		if a.from < written || a.writes && a.from < used {
			return false
		}
		if used = max(used, a.to); a.writes {
			written = max(written, a.to)
		}
	}
	return true
}

// at is launch i, until another is asked for.
func (b *Batch) at(i int) *backends.Launch {
	m, l := &b.members[i], &b.launch
	if s := &m.p.steps[0]; m.p != b.filled {
		slots, params := append(l.Slots[:0], s.l.Slots...), append(l.Params[:0], s.l.Params...)
		s.give(params, b.cells)
		*l = s.l
		l.Slots, l.Params, b.filled = slots, params, m.p
	}
	l.Batch = len(b.members)
	for k := range l.Slots {
		l.Slots[k].Addr = b.addresses[int(m.at)+k]
	}
	return l
}

// Specialize has the code made that the batch needs. With try, or where May refuses it, none
// is: status.ErrBusy, or what May says.
func (b *Batch) Specialize(r *Request) error {
	n := int64(len(b.members))
	for i := range b.members {
		m := &b.members[i]
		if m.best && m.p.batched.Load() == n {
			continue
		}
		if err := m.p.specialize(0, b.at(i), b.try, r); err != nil {
			return err
		}
		if m.best {
			m.p.batched.Store(n)
		}
	}
	return nil
}

// What is queue.Released's.
func (b *Batch) What() string { return b.what }

// Run is queue.Work's.
func (b *Batch) Run(t *queue.Target) (last backends.Ticket, err error) {
	switch {
	case t.Capturing:
	case !b.try:
		t.Order.Lock()
		defer t.Order.Unlock()
	case !t.Order.TryLock():
		return 0, status.ErrBusy
	default:
		defer t.Order.Unlock()
	}
	b.line = t.Line
	for done := 0; done < len(b.members) && err == nil; {
		k := b.members[done].p.steps[0].kernel
		b.group = b.group[:0]
		for i := done; i < len(b.members); i++ { // those of the kernel come to the front of what is left
			if b.members[i].p.steps[0].kernel != k {
				continue
			}
			b.members[done], b.members[i] = b.members[i], b.members[done]
			if b.members[done].p.steps[0].l.N > 0 {
				b.group = append(b.group, int32(done))
			}
			done++
		}
		queued := *b.queued
		*b.queued = true // also if the device panics
		var ticket backends.Ticket
		ticket, err = t.Line.Stream.(backends.Batcher).LaunchBatch(k.Kernel, len(b.group), func(i int) *backends.Launch { return b.at(int(b.group[i])) })
		if ticket > 0 {
			last, b.tickets = ticket, append(b.tickets, ticket)
		} else if err != nil && (!t.Capturing || errors.Is(err, backends.ErrCaptured)) {
			*b.queued = queued
		}
	}
	if err != nil && last > 0 {
		err = status.FromBackend(b.what, err)
	}
	return last, err
}

// Before is queue.Replayed's. Others keep the memory in order.
func (b *Batch) Before(*queue.Target) error { return nil }

// After is queue.Replayed's.
func (b *Batch) After(*queue.Target, backends.Ticket) {}

// Outcome is queue.Work's.
func (b *Batch) Outcome(err error) error {
	for i := 0; err == nil && i < len(b.tickets)-1; i++ { // the last was waited for
		err = b.line.Stream.Wait(b.tickets[i], 0)
	}
	if err == nil {
		return nil
	}
	return status.FromBackend(b.what, err)
}

// Cancel is queue.Work's: what is queued ends soon by itself.
func (b *Batch) Cancel() bool { return false }

// Quiet is queue.Quiet's.
func (b *Batch) Quiet() bool { return len(b.members) == 0 || b.members[0].p.device.Info.Enters != nil }

// Leave is queue.Quiet's. The kernels stay while the prepared calls do.
func (b *Batch) Leave() queue.Released { return b }

// Lodge is queue.Guest's.
func (b *Batch) Lodge() error {
	b.try = false
	return nil
}

// Lodged is queue.Guest's.
func (b *Batch) Lodged() { b.end() }

// end lets go of memory of others.
func (b *Batch) end() {
	for _, m := range b.mems {
		m.End()
	}
	clear(b.mems)
	b.mems = b.mems[:0]
}

// Captured is queue.Replayed's.
func (b *Batch) Captured() { b.try = false }

// Cost is queue.Replayed's.
func (b *Batch) Cost() float64 { return b.cost }

// Bytes is queue.Replayed's.
func (b *Batch) Bytes() (sum int64) {
	for i := range b.members {
		sum += b.members[i].p.steps[0].job.Bytes
	}
	return sum
}

// Reset is queue.Replayed's.
func (b *Batch) Reset() {}

// Release is queue.Work's.
func (b *Batch) Release() {
	for i := range b.members {
		b.members[i].p.Release()
	}
	b.end()
	clear(b.members)
	l := &b.launch
	*b = Batch{cells: b.cells[:0], members: b.members[:0], mems: b.mems[:0], tickets: b.tickets[:0], addresses: b.addresses[:0], areas: b.areas[:0], group: b.group[:0],
		launch: backends.Launch{Slots: l.Slots[:0], Params: l.Params[:0]}}
	batches.Put(b)
}

var _ interface {
	queue.Guest
	queue.Quiet
} = (*Batch)(nil)
