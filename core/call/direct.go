package call

import (
	"slices"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/isa"
)

// Direct is a prepared call as code that others enter by themselves, in the turn of
// its stream: nothing of it but addresses and numbers is to be looked at. On a device that
// works by itself it is of operands that are numbers with their values. It ends
// with the prepared call, and holds that up no longer than Retire takes.
type Direct struct {
	Steps     []DirectStep // to be run one after the other; none: such calls are not to be entered, nor asked for again
	Operands  []DirectOperand
	Scalars   []isa.Type // to which the call's numbers are converted
	Checks    []DirectCheck
	Workspace int64 // bytes that the steps take beside the operands; what they leave there nobody reads
	Long      bool  // it is to be entered only by those who hold no lock that somebody waits for
	// Space is where the workspace is, on a device that works by itself; 0: anywhere.
	Space uintptr

	p      *Prepared
	faults bool // what is made again may have been begun
	retire Retire
	end    func() // once
}

// Retire ends what was published, which nobody may enter from now on; called once. Who entered
// it before may be there yet: then wait is not nil, and waits for him.
type Retire func() (wait func())

// Turn queues something in the turn of a stream, which it gives the line of and whose
// ticket it returns, or returns an error: then nothing is queued, or what is has failed.
type Turn func(queue func(*memory.Line) (backends.Ticket, error)) error

// DirectStep is a launch, or a part of one.
type DirectStep struct {
	*backends.Direct
	Bases  []backends.AddressPlace // Addresses, of the call's operands
	Params []DirectParam
}

// DirectParam says which of the call's numbers goes to byte At of a frame; Single is
// backends.ParamPlace's.
type DirectParam struct {
	At, Scalar int
	Single     bool
}

// DirectOperand is what an operand's address is to be: a multiple of Align, and not null.
// Its elements have Size bytes.
type DirectOperand struct{ Align, Size uintptr }

// DirectCheck are two operands of which the one is written, and bytes from their
// addresses that they reach: these must lie apart or, if Same, the other's address be
// Gap bytes behind the written one's.
type DirectCheck struct {
	Written, Other          int
	WrittenFrom, WrittenTo  int64
	OtherFrom, OtherTo, Gap int64
	Same                    bool
}

// direct makes the call's code; nil: there is none now or, if never, ever.
func (b *Bound) direct(line *memory.Line, turn Turn) (made *Direct, never bool) {
	p := b.p
	within := p.device.Info.Enters
	if within == nil || p.residue || p.phase || p.workspace > within.Bytes {
		return nil, true
	}
	if p.special && !b.wellAligned() {
		return nil, false
	}
	d := &Direct{p: p, Workspace: p.workspace}
	var space memory.Scratch
	d.end = sync.OnceFunc(func() {
		d.release()
		if space.Held() {
			space.After(line, line.Given())
			space.Return()
		}
	})
	defer func() {
		if made == nil {
			d.end()
		}
	}()
	if fine, never := d.addSteps(b, line); !fine {
		return nil, never
	}
	if !d.addOperands() || !d.addScalars() {
		return nil, true
	}
	d.addChecks()
	if p.async && p.workspace > 0 {
		var err error
		if space, err = b.pool.Lasting(line, p.workspace); err != nil {
			return nil, false
		}
		d.Space = space.Addr()
		if !b.place(&space, turn) {
			return nil, false
		}
	}
	return d, false
}

// place puts the call's numbers, on a device that works by itself, where the code finds
// them each time: code is made for their values. It reports whether that is done.
func (b *Bound) place(space *memory.Scratch, turn Turn) bool {
	return len(b.p.numbers) == 0 || turn(func(line *memory.Line) (last backends.Ticket, err error) {
		for i := range b.p.numbers {
			x := &b.p.numbers[i]
			t, err := line.Stream.Fill(space.Addr()+uintptr(x.at), b.numbers[i], int(x.size), 1)
			if err != nil {
				return last, err
			}
			last = t
			space.After(line, last)
		}
		return last, nil
	}) == nil
}

// release lets go of what the steps have.
func (d *Direct) release() {
	for i := range d.Steps {
		if release := d.Steps[i].Release; release != nil {
			release()
		}
	}
}

// addSteps adds the launches' parts, if they are fine: else never, or not now.
func (d *Direct) addSteps(b *Bound, line *memory.Line) (fine, never bool) {
	within := d.p.device.Info.Enters
	bytes, took := d.Workspace, 0.0
	for i := range b.launches {
		l, s := &b.launches[i], &d.p.steps[i]
		k, ok := s.kernel.Kernel.(backends.Entered)
		if !ok || l.Fuel > 0 || l.N == 0 || k.Workspace(l) > 0 {
			return false, true
		}
		parts, never := k.Direct(l, line.Stream)
		if parts == nil {
			return false, never
		}
		first := len(d.Steps)
		for n := range parts { // all, for what has to be let go of
			d.Steps = append(d.Steps, DirectStep{Direct: &parts[n]})
		}
		for n := first; n < len(d.Steps); n++ {
			step := &d.Steps[n]
			if d.p.varies && !step.Bounded || !step.bind(d.p, s) {
				return false, true
			}
			// If it is not the first, something may have been done.
			d.faults = d.faults || step.Fault >= 0 && (!step.Refuses || n > 0)
			bytes += int64(len(step.Frame))
			took += step.Nanoseconds
		}
	}
	d.Long = took > within.Nanoseconds
	return bytes <= within.Bytes && took <= within.Most(), true
}

// bind says of the slots and parameters of a launch which of the call's operands and
// numbers they are; false: of a number it is not known where it goes.
func (d *DirectStep) bind(p *Prepared, s *step) bool {
	for _, place := range d.Addresses {
		if place.Of >= 0 {
			place.Offset += int64(s.l.Slots[place.Of].Addr)
			place.Of = backends.Base(s.slots[place.Of].operand)
			if place.Of >= 0 && p.async && p.operands[place.Of].number > 0 {
				place.Offset += p.numbers[p.operands[place.Of].number-1].at
				place.Of = backends.Workspace
			}
		}
		d.Bases = append(d.Bases, place)
	}
	for _, x := range s.params {
		i := slices.IndexFunc(d.Direct.Params, func(place backends.ParamPlace) bool { return place.Of == x.param })
		if i < 0 {
			return false
		}
		d.Params = append(d.Params, DirectParam{At: d.Direct.Params[i].At, Scalar: x.scalar, Single: d.Direct.Params[i].Single})
	}
	return true
}

// addOperands reports whether all operands can be entered with.
func (d *Direct) addOperands() bool {
	for i := range d.p.operands {
		use := &d.p.operands[i]
		if use.empty || d.faults && use.reads && use.writes { // what faults is made again, of what there was before
			return false
		}
		align := use.align
		if d.p.special && use.number == 0 {
			align = max(align, bestAlign)
		}
		d.Operands = append(d.Operands, DirectOperand{align, use.align})
	}
	return true
}

// addScalars reports whether others know how to convert all numbers.
func (d *Direct) addScalars() bool {
	for i := range d.p.scalars {
		use := &d.p.scalars[i]
		if use.boolean {
			return false
		}
		d.Scalars = append(d.Scalars, use.t)
	}
	return true
}

func (d *Direct) addChecks() {
	for i := range d.p.checks {
		c := &d.p.checks[i]
		if d.p.operands[c.other].number > 0 {
			continue // of which the caller has a copy
		}
		d.Checks = append(d.Checks, DirectCheck{Written: c.writes, Other: c.other, WrittenFrom: c.wlo, WrittenTo: c.whi,
			OtherFrom: c.slo, OtherTo: c.shi, Gap: c.gap, Same: c.same && c.alike && !d.faults})
	}
}

// wellAligned reports whether the operands lie as those do for which Prepare has code made.
func (b *Bound) wellAligned() bool {
	for i := range b.launches {
		s := &b.p.steps[i]
		for k := range s.slots {
			if s.slots[k].operand >= 0 && (b.launches[i].Slots[k].Addr-s.l.Slots[k].Addr)%bestAlign != 0 {
				return false
			}
		}
	}
	return true
}
