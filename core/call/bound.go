package call

import (
	"slices"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Bound is one call: a prepared one with addresses and numbers. It is work for
// a queue, and can be captured. When it is over its prepared call keeps it for
// the next, so that a repeated call allocates nothing.
type Bound struct {
	p        *Prepared
	pool     *memory.Pool // of the workspace
	launches []backends.Launch
	tickets  []backends.Ticket
	records  memory.Scratch   // one Record a launch, in memory that the device reaches
	mems     []*memory.Memory // of the operands; nil where there is none, or no longer
	cells    []uint64
	numbers  []uint64          // the operands that are numbers, each in its low bytes
	filled   []backends.Ticket // of their way to a device that works by itself
	space    memory.Scratch
	low      uintptr      // bits of the operands' addresses
	try      bool         // take only what memory is at hand
	quiet    bool         // the launches have no Record: see Quiet
	line     *memory.Line // of a device that works by itself, once the work is queued
	failed   int          // the launch that the device refused, or ended with an error
	residue  *[isa.NumClasses]uint64
	first    *uint64 // receives element 0 of the last operand, which is at firstAt
	firstAt  uintptr
}

// take returns a Bound to fill in.
func (p *Prepared) take(d *Device, try bool) (*Bound, error) {
	if b := p.kept(); b != nil {
		return b, nil
	}
	b := &Bound{p: p, pool: d.Pool, launches: make([]backends.Launch, len(p.steps)), tickets: make([]backends.Ticket, len(p.steps)),
		cells: make([]uint64, len(p.scalars)), numbers: make([]uint64, len(p.numbers)), mems: make([]*memory.Memory, len(p.operands))}
	if p.async {
		b.filled = make([]backends.Ticket, len(p.numbers))
	}
	size := int64(unsafe.Sizeof(backends.Record{}))
	records, err := d.Host.Scratch(nil, max(1, size*int64(len(p.steps))), try)
	if err == status.ErrBusy {
		return nil, err
	} else if err != nil {
		return nil, status.Within(p.what, err)
	}
	b.records = records
	for i := range b.launches {
		l := &b.launches[i]
		*l = p.steps[i].l
		l.Slots = append([]backends.View(nil), l.Slots...)
		l.Params = append([]uint64(nil), l.Params...)
		l.Record = (*backends.Record)(hostmem.Pointer(records.Addr() + uintptr(int64(i)*size)))
		*l.Record = backends.Record{}
	}
	return b, nil
}

// Bind makes a call r of a prepared one, with as many operands and scalars. If it
// succeeds, the call ends the counts of the operands' memory, and lets go of p.
// With try neither Bind nor the call takes memory that is not at hand:
// status.ErrBusy. The request's Stop may end the wait for code that the call is the
// first to need, and May refuse it.
func (p *Prepared) Bind(d *Device, operands []Operand, scalars []Scalar, try bool, r *Request) (*Bound, error) {
	b, err := p.take(d, try)
	if err != nil {
		return nil, err
	}
	if err := b.bind(operands, scalars, try, r); err != nil {
		p.keep(b)
		return nil, err
	}
	for i := range operands {
		b.mems[i] = operands[i].Mem
	}
	b.try = try
	return b, nil
}

func (b *Bound) bind(operands []Operand, scalars []Scalar, try bool, r *Request) error {
	p := b.p
	low, err := p.look(operands)
	if err != nil {
		return err
	}
	for i := range p.numbers {
		if x := &p.numbers[i]; !p.operands[x.operand].empty {
			copy(hostmem.Bytes(b.numberAt(i+1), x.size), hostmem.Bytes(operands[x.operand].View.Addr, x.size))
		}
	}
	if err := p.convert(b.cells, scalars); err != nil {
		return err
	}
	for i := range b.launches {
		l, s := &b.launches[i], &p.steps[i]
		for k := range l.Slots {
			from := s.slots[k].operand
			if from == kernels.Workspace {
				continue
			}
			base := operands[from].View.Addr
			if n := p.operands[from].number; n > 0 {
				if p.async {
					continue // as the workspace, where it will be
				}
				base = b.numberAt(n)
			}
			l.Slots[k].Addr = base + s.l.Slots[k].Addr
		}
		s.give(l.Params, b.cells)
	}
	if b.low = low; p.special && low%bestAlign != 0 {
		return b.specialize(try, r)
	}
	return nil
}

// numberAt is where number n of the operands, counted from 1, is for the host.
func (b *Bound) numberAt(n int) uintptr { return uintptr(unsafe.Pointer(&b.numbers[n-1])) }

// specialize has the code made that the launches need for their addresses. Those
// of the workspace, which is not there yet, are aligned like those of the last.
func (b *Bound) specialize(try bool, r *Request) error {
	for i := range b.launches {
		if err := b.p.specialize(i, &b.launches[i], try, r); err != nil {
			return err
		}
	}
	return nil
}

// Cost estimates how long the call takes, in nanoseconds; +Inf if nothing bounds it.
func (b *Bound) Cost() float64 {
	p := b.p
	if !p.varies {
		return p.cost
	}
	cost := 0.0
	for i := range b.launches {
		cost += p.steps[i].cost(&b.launches[i])
	}
	return cost
}

// Bytes is how many the call moves.
func (b *Bound) Bytes() int64 {
	moved := int64(0)
	for i := range b.p.steps {
		moved += b.p.steps[i].job.Bytes
	}
	return moved
}

// SetFuel gives the launches of a call that was prepared for it a budget of steps
// a lane. There may be none.
func (b *Bound) SetFuel(steps uint64) {
	for i := range b.launches {
		b.launches[i].Fuel = steps
	}
}

// SetResidue says where RES_ACCUM's sums go when the call is over; the program
// may have none. It reports whether there will be any.
func (b *Bound) SetResidue(to *[isa.NumClasses]uint64) bool {
	if b.p.residue {
		b.residue = to
	}
	return b.residue != nil
}

// SetFirst says where element 0 of the last operand goes when the call is over, in
// the low bytes; nil: nowhere. The host sees the operand. It reports whether the
// caller has to wait for that.
func (b *Bound) SetFirst(to *uint64, operands []Operand) (bool, error) {
	if to == nil {
		return false, nil
	}
	last := len(operands) - 1
	if last < 0 || b.p.operands[last].empty {
		return false, status.Errorf(status.Invalid, "%s: the last operand has no element to tell of", b.p.what)
	}
	b.first, b.firstAt = to, operands[last].View.Addr
	return true, nil
}

// Launch is the one launch of a program's call, for the interpreter to trace.
func (b *Bound) Launch() *backends.Launch { return &b.launches[0] }

// Memory lists what holds the call's operands.
func (b *Bound) Memory() []*memory.Memory {
	return slices.DeleteFunc(slices.Clone(b.mems), func(m *memory.Memory) bool { return m == nil })
}

// What names the call in errors.
func (b *Bound) What() string { return b.p.what }

// Run is queue.Work's: it runs the launches or queues them.
func (b *Bound) Run(t *queue.Target) (backends.Ticket, error) {
	b.failed = 0
	if !t.Async {
		return 0, b.run(t)
	}
	b.line = t.Line
	if t.Capturing {
		return 0, b.run(t)
	}
	if err := b.lend(t.Line); err != nil { // may wait, so before Order
		return 0, err
	}
	last, err := b.inOrder(t)
	if err == nil || last > 0 {
		b.letGo(last) // which may give memory back to the device, so after Order
	}
	return last, err
}

// inOrder queues the launches, between those of other streams that use the same
// memory. With an error the ticket is of those before.
func (b *Bound) inOrder(t *queue.Target) (last backends.Ticket, err error) {
	if !b.try {
		t.Order.Lock()
	} else if !t.Order.TryLock() {
		return 0, status.ErrBusy
	}
	defer t.Order.Unlock()
	if err := b.Before(t); err != nil {
		return 0, err
	}
	err = b.run(t)
	if b.failed > 0 {
		last = b.tickets[b.failed-1]
	}
	if last > 0 { // else nothing is queued, and what others wait for stays as it is
		b.After(t, last)
		if err != nil {
			err = status.FromBackend(b.p.what, err)
		}
	}
	return last, err
}

// lend gives the launches their workspace, for work on line.
func (b *Bound) lend(line *memory.Line) error {
	if b.p.workspace == 0 || b.space.Held() {
		return nil
	}
	space, err := b.pool.Scratch(line, b.p.workspace, b.try)
	if err == status.ErrBusy {
		return err
	} else if err != nil {
		return status.Within(b.p.what+": workspace", err)
	}
	b.space = space
	for i := range b.launches {
		l, s := &b.launches[i], &b.p.steps[i]
		for k := range l.Slots {
			if from := s.slots[k].operand; from == kernels.Workspace {
				l.Slots[k].Addr = space.Addr() + s.l.Slots[k].Addr
			} else if n := b.p.operands[from].number; n > 0 && b.p.async {
				l.Slots[k].Addr = space.Addr() + uintptr(b.p.numbers[n-1].at) + s.l.Slots[k].Addr
			}
		}
		l.Workspace = space.Addr() + uintptr(s.scratch)
	}
	return nil
}

// run gives the device the launches.
func (b *Bound) run(t *queue.Target) error {
	// Without a line, where there is none yet: what is captured cannot be made to wait.
	if err := b.lend(nil); err != nil {
		return err
	}
	filled := len(b.filled) == 0
	profiled := profile.On() != nil // asked here, so that a launch of which nobody is told is none the dearer
	for i := range b.launches {
		b.failed = i
		l, s := &b.launches[i], &b.p.steps[i]
		if l.N == 0 {
			if i > 0 {
				b.tickets[i] = b.tickets[i-1]
			} else {
				b.tickets[i] = 0
			}
			continue
		}
		if !filled {
			if err := b.fill(t); err != nil {
				return err
			}
			filled = true
		}
		if s.program.Phase {
			l.Phase = t.PhaseCell()
		}
		var ticket backends.Ticket
		var err error
		switch {
		case b.quiet:
			ticket, err = launchQuietly(t, s, l)
		case profiled:
			ticket, err = t.Launch(s.kernel.Kernel, l, s.job)
		default:
			ticket, err = t.Line.Stream.Launch(s.kernel.Kernel, l)
		}
		b.tickets[i] = ticket
		if err != nil {
			return err
		}
	}
	b.failed = len(b.launches)
	return nil
}

// fill queues the numbers' way to the workspace.
func (b *Bound) fill(t *queue.Target) error {
	clear(b.filled)
	for i := range b.p.numbers {
		x := &b.p.numbers[i]
		ticket, err := t.Line.Stream.Fill(b.space.Addr()+uintptr(x.at), b.numbers[i], int(x.size), 1)
		if err != nil {
			return err
		}
		if b.filled[i] = ticket; ticket > 0 {
			b.space.After(b.line, ticket)
		}
	}
	return nil
}

// Before makes the device wait for what other streams do with the call's memory.
func (b *Bound) Before(t *queue.Target) error {
	if b.p.phase {
		if err := t.Phase.Before(t.Line, true); err != nil {
			return status.FromBackend(b.p.what, err)
		}
	}
	for i, m := range b.mems {
		if m == nil {
			continue
		}
		if err := m.Before(t.Line, b.p.operands[i].writes); err != nil {
			return status.FromBackend(b.p.what, err)
		}
	}
	return nil
}

// After notes on the call's memory what the device has queued.
func (b *Bound) After(t *queue.Target, ticket backends.Ticket) {
	if b.p.phase {
		t.Phase.After(t.Line, ticket, true)
	}
	for i, m := range b.mems {
		if m != nil {
			m.After(t.Line, ticket, b.p.operands[i].writes)
		}
	}
}

// letGo lets go of memory of ours that the device still uses: who gets it next
// waits for the ticket. Memory of others stays until the call is over, and so does
// what the host then reads.
func (b *Bound) letGo(ticket backends.Ticket) {
	for i, m := range b.mems {
		read := b.first != nil && i == len(b.mems)-1
		if m != nil && !m.IsForeign() && !read {
			m.End()
			b.mems[i] = nil
		}
	}
	if b.space.Held() {
		if ticket > 0 {
			b.space.After(b.line, ticket)
		}
		b.space.Return()
	}
}

// Outcome is queue.Work's: what is told of the call, which is over.
func (b *Bound) Outcome(err error) error {
	at := min(b.failed, len(b.launches)-1)
	for i := 0; err == nil && i < len(b.filled) && b.failed > 0; i++ {
		if t := b.filled[i]; t > 0 { // which has passed with the launches behind it
			b.filled[i] = 0
			err = b.line.Stream.Wait(t, 0)
		}
	}
	for i := 0; err == nil && b.line != nil && i < b.failed; i++ {
		// The last ticket was waited for; a launch of no lanes has that of the one before.
		if at = i; i < b.failed-1 && b.tickets[i] > 0 && b.tickets[i] != b.tickets[i+1] {
			err = b.line.Stream.Wait(b.tickets[i], 0)
		}
		if err == nil {
			err = b.launches[i].Record.Outcome()
		}
	}
	if b.residue != nil {
		*b.residue = b.launches[0].Record.Residue
	}
	if b.first != nil && err == nil {
		size := int64(b.p.operands[len(b.p.operands)-1].align)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(b.first)), size), hostmem.Bytes(b.firstAt, size))
	}
	for i := range b.launches {
		r := b.launches[i].Record
		r.Ended, r.Fault, r.Asked = 0, 0, backends.Asked{}
		if b.p.residue {
			r.Residue = [isa.NumClasses]uint64{}
		}
	}
	if err == nil {
		return nil
	}
	if at < 0 {
		return status.FromBackend(b.p.what, err)
	}
	wrong := b.p.steps[at].divided(err, &b.launches[at])
	if !b.p.async { // the host sees the numbers
		wrong += b.p.steps[at].stray(err, &b.launches[at])
	}
	return b.p.steps[at].program.Outcome(b.p.what, wrong, err, b.p.sources, &b.launches[at])
}

// Cancel is queue.Work's. The call's memory may be in use until it is over.
func (b *Bound) Cancel() bool {
	for i := range b.launches {
		b.launches[i].Record.Stop()
	}
	return false
}

// Lodge is queue.Guest's.
func (b *Bound) Lodge() error {
	if b.p.phase || b.p.residue {
		return status.Errorf(status.Unavailable, "%s: the program reads or changes the executor's phase or residues, and the owner of the stream "+
			"captures it, whose graph knows nothing of them", b.p.what)
	}
	for i, m := range b.mems {
		if m != nil && !m.IsForeign() {
			return status.Errorf(status.Unavailable, "%s is a buffer, whose use Hologram orders, and the owner of the stream captures it, whose "+
				"replays nobody sees; use an array of the owner's", b.p.operands[i].name)
		}
	}
	// The workspace, if there is one, may have earlier work on it that only this stream is ordered behind.
	b.space.Return()
	b.try = false
	return nil
}

// Lodged is queue.Guest's.
func (b *Bound) Lodged() {
	for i, m := range b.mems {
		if m != nil {
			m.End()
			b.mems[i] = nil
		}
	}
}

// Captured is queue.Replayed's.
func (b *Bound) Captured() { b.try = false }

// Reset is queue.Replayed's.
func (b *Bound) Reset() {
	for i := range b.launches {
		b.launches[i].Record.Cancel = 0
	}
}

// Release is queue.Work's. Nobody cancels the call any more.
func (b *Bound) Release() {
	for i, m := range b.mems {
		if m != nil {
			m.End()
			b.mems[i] = nil
		}
	}
	b.space.Return()
	b.Reset()
	b.line, b.residue, b.first, b.quiet = nil, nil, nil, false
	p := b.p
	p.keep(b)
	p.Release()
}

// How many Bounds are kept for calls that are under way side by side, as on a
// device that works by itself, beside the one of each prepared call: by a
// prepared call as many as a stream has in flight, since making one costs as much
// as the call; and by all of a device, since their Records take pinned memory.
const (
	maxKept    = queue.MaxFlight
	maxKeptAll = 8192
)

// kept returns a Bound of an earlier call, or nil.
func (p *Prepared) kept() *Bound {
	if b := p.spare.Swap(nil); b != nil {
		return b
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.more)
	if n == 0 {
		return nil
	}
	b := p.more[n-1]
	p.more[n-1] = nil
	p.more = p.more[:n-1]
	p.device.kept.Add(-1)
	return b
}

// keep keeps a Bound for another call.
func (p *Prepared) keep(b *Bound) {
	if p.spare.CompareAndSwap(nil, b) {
		return
	}
	p.mu.Lock()
	kept := len(p.more) < maxKept && p.device.kept.Load() < maxKeptAll
	if kept {
		p.more = append(p.more, b)
		p.device.kept.Add(1)
	}
	p.mu.Unlock()
	if !kept {
		b.free()
	}
}

// free lets go of what outlives a call.
func (b *Bound) free() { b.records.Return() }
