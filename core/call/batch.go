package call

import (
	"cmp"
	"slices"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// Batch is launches of a program, none of which uses what another writes, as one piece of
// work. It is for devices that work by themselves, which may have one launch for all; and for
// launches that neither fault nor take long, so that nobody asks what became of each.
type Batch struct {
	what   string
	bounds []*Bound
	ls     []*backends.Launch // of bounds, by kernel
	areas  []area
	cost   float64 // in nanoseconds
}

// area is memory that a launch of a batch uses.
type area struct {
	from, to uintptr
	writes   bool
}

// longest is how many nanoseconds a batch may take: longer ones are worth cancelling.
const longest = 20e6

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch makes a batch of n launches, to which Add gives them.
func NewBatch(n int) *Batch {
	b := batches.Get().(*Batch)
	b.bounds = slices.Grow(b.bounds, n)
	return b
}

// Add adds a call on these operands, which is the batch's from now on. It reports false of
// what cannot be part of a batch: then it is not.
func (b *Batch) Add(x *Bound, operands []Operand) bool {
	p, cost := x.p, x.Cost()
	if !p.async || p.faults || p.phase || p.residue || len(p.steps) != 1 || p.workspace > 0 || x.first != nil || x.Borrows() ||
		!(b.cost+cost <= longest) {
		return false
	}
	b.cost += cost
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
	b.what, b.bounds = p.what, append(b.bounds, x)
	return true
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

// Specialize has the code made that the batch needs. With try, or where May refuses it, none
// is: status.ErrBusy, or what May says.
func (b *Batch) Specialize(try bool, r *Request) error {
	for _, x := range b.bounds {
		x.launches[0].Batch = len(b.bounds)
	}
	n := int64(len(b.bounds))
	for _, x := range b.bounds {
		best := x.low%bestAlign == 0
		if !x.p.steps[0].kernel.Special() || x.launches[0].N == 0 || best && x.p.batched.Load() == n {
			continue
		}
		if err := x.specialize(try, r); err != nil {
			return err
		}
		if best {
			x.p.batched.Store(n)
		}
	}
	return nil
}

// What is queue.Released's.
func (b *Batch) What() string { return b.what }

// Run is queue.Work's.
func (b *Batch) Run(t *queue.Target) (last backends.Ticket, err error) {
	if t.Capturing {
		return b.launch(t)
	}
	if b.bounds[0].try {
		if !t.Order.TryLock() {
			return 0, status.ErrBusy
		}
	} else {
		t.Order.Lock()
	}
	defer t.Order.Unlock()
	if err := b.Before(t); err != nil {
		return 0, err
	}
	last, err = b.launch(t)
	if last > 0 {
		b.After(t, last)
		if err != nil {
			err = status.FromBackend(b.what, err)
		}
	}
	return last, err
}

// launch gives the device the launches, those of each kernel together.
func (b *Batch) launch(t *queue.Target) (last backends.Ticket, err error) {
	left := append([]*Bound(nil), b.bounds...)
	for len(left) > 0 && err == nil {
		k := left[0].p.steps[0].kernel
		b.ls = b.ls[:0]
		left = slices.DeleteFunc(left, func(x *Bound) bool {
			mine := x.p.steps[0].kernel == k
			if mine && x.launches[0].N > 0 {
				b.ls = append(b.ls, &x.launches[0])
			}
			return mine
		})
		var ticket backends.Ticket
		if ticket, err = launchBatch(t.Line.Stream, k, b.ls); ticket > 0 {
			last = ticket
		}
	}
	clear(b.ls)
	return last, err
}

// launchBatch queues launches without their Records, of which nobody asks.
func launchBatch(s backends.Stream, k *program.Kernel, ls []*backends.Launch) (last backends.Ticket, err error) {
	records := make([]*backends.Record, len(ls))
	for i, l := range ls {
		records[i], l.Record = l.Record, nil
	}
	defer func() { // also if the device panics
		for i, l := range ls {
			l.Record = records[i]
		}
	}()
	if batcher, ok := s.(backends.Batcher); ok {
		return batcher.LaunchBatch(k.Kernel, ls)
	}
	for _, l := range ls {
		ticket, err := s.Launch(k.Kernel, l)
		if err != nil {
			return last, err
		}
		last = ticket
	}
	return last, nil
}

// Before is queue.Replayed's.
func (b *Batch) Before(t *queue.Target) error {
	for _, x := range b.bounds {
		if err := x.Before(t); err != nil {
			return err
		}
	}
	return nil
}

// After is queue.Replayed's.
func (b *Batch) After(t *queue.Target, ticket backends.Ticket) {
	for _, x := range b.bounds {
		x.After(t, ticket)
	}
}

// Outcome is queue.Work's.
func (b *Batch) Outcome(err error) error {
	if err == nil {
		return nil
	}
	return status.FromBackend(b.what, err)
}

// Cancel is queue.Work's: what is queued ends soon by itself.
func (b *Batch) Cancel() bool { return false }

// Quiet is queue.Quiet's.
func (b *Batch) Quiet() bool { return true }

// Leave is queue.Quiet's. The kernels stay while the prepared calls do.
func (b *Batch) Leave() queue.Released {
	left := &leftovers{b.what, make([]*Prepared, len(b.bounds))}
	for i, x := range b.bounds {
		left.calls[i] = x.p
		x.letGo(0)
		x.launches[0].Batch = 0
		x.p.keepOf(x, maxKeptAll)
	}
	b.forget()
	return left
}

// leftovers are the prepared calls of a batch that the device has.
type leftovers struct {
	what  string
	calls []*Prepared
}

func (l *leftovers) What() string { return l.what }

func (l *leftovers) Release() {
	for _, p := range l.calls {
		p.Release()
	}
}

// Lodge is queue.Guest's.
func (b *Batch) Lodge() error {
	for _, x := range b.bounds {
		if err := x.Lodge(); err != nil {
			return err
		}
	}
	return nil
}

// Lodged is queue.Guest's.
func (b *Batch) Lodged() {
	for _, x := range b.bounds {
		x.Lodged()
	}
}

// Captured is queue.Replayed's.
func (b *Batch) Captured() {
	for _, x := range b.bounds {
		x.Captured()
	}
}

// Cost is queue.Replayed's.
func (b *Batch) Cost() (sum float64) {
	for _, x := range b.bounds {
		sum += x.Cost()
	}
	return sum
}

// Bytes is queue.Replayed's.
func (b *Batch) Bytes() (sum int64) {
	for _, x := range b.bounds {
		sum += x.Bytes()
	}
	return sum
}

// Reset is queue.Replayed's.
func (b *Batch) Reset() {}

// Release is queue.Work's.
func (b *Batch) Release() {
	for _, x := range b.bounds {
		x.launches[0].Batch = 0
		x.release(maxKeptAll)
	}
	b.forget()
}

// forget gives the batch back, without its launches.
func (b *Batch) forget() {
	clear(b.bounds)
	*b = Batch{bounds: b.bounds[:0], ls: b.ls[:0], areas: b.areas[:0]}
	batches.Put(b)
}

var _ interface {
	queue.Guest
	queue.Quiet
} = (*Batch)(nil)
