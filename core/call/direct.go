package call

import (
	"slices"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
)

// Direct is a prepared call as code that others enter by themselves, in the turn of
// its stream: nothing of it but addresses and numbers is to be looked at. It ends
// with the prepared call, and holds that up no longer than Retire takes.
type Direct struct {
	Steps     []DirectStep // to be run one after the other
	Operands  []DirectOperand
	Scalars   []isa.Type // integers, f32 or f64, to which the call's numbers are converted
	Checks    []DirectCheck
	Workspace int64 // bytes that the steps take beside the operands; what they leave there nobody reads
	// Space is where the workspace is, on a device that works by itself; 0: anywhere.
	Space uintptr

	p      *Prepared
	retire func()
	end    func() // once
}

// DirectStep is a launch, or a part of one.
type DirectStep struct {
	*backends.Direct
	Bases  []DirectBase // of Direct.Slots
	Params []DirectParam
}

// DirectBase says what address goes to byte At of a frame before each use: so many bytes
// behind that of an operand, or of kernels.Workspace (-1), or of the frame (OwnFrame).
type DirectBase struct {
	At, Operand int
	Offset      int64
}

// OwnFrame is the Operand of a DirectBase.
const OwnFrame = -2

// DirectParam says which of the call's numbers goes to byte At of a frame.
type DirectParam struct{ At, Scalar int }

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

// maxDirectBytes bounds the frames and the workspace of one Direct, and
// maxDirectNanoseconds the work: who enters it may hold locks meanwhile, as Python's,
// which that leaves to a thread for 5 ms. Kernels may want less. A device that works by
// itself has bounds of its own, since nobody cancels the work.
const (
	maxDirectBytes        = 256 << 10
	maxDirectNanoseconds  = 30e3
	maxEnteredBytes       = 4 << 20
	maxEnteredNanoseconds = 10e6
)

// Direct has the call, as it is bound, published as code to be entered in the turn of the
// stream of line: publish gets it, and returns what is called once when it ends, after which
// nobody may enter it; nil: it is not published. never reports that there is no such code.
func (b *Bound) Direct(line *memory.Line, publish func(*Direct) (retire func())) (never bool) {
	d, never := b.direct(line)
	if d == nil {
		return never
	}
	p := b.p
	if p.async {
		p.enteredOn(line)
	}
	if d.retire = publish(d); d.retire == nil {
		d.end()
		return false
	}
	p.mu.Lock()
	if p.directs == nil {
		p.directs = map[*Direct]struct{}{}
	}
	p.directs[d] = struct{}{}
	p.mu.Unlock()
	return false
}

// enteredOn notes a line, and forgets those that are closed.
func (p *Prepared) enteredOn(line *memory.Line) {
	p.mu.Lock()
	lines := p.lines // which nobody changes
	p.mu.Unlock()
	kept := []*memory.Line{line}
	for _, l := range lines {
		if l != line && l.Given() > 0 {
			kept = append(kept, l)
		}
	}
	p.mu.Lock()
	for _, l := range p.lines { // who came meanwhile
		if !slices.Contains(lines, l) && !slices.Contains(kept, l) {
			kept = append(kept, l)
		}
	}
	p.lines = kept
	p.mu.Unlock()
}

// Forget says that nobody enters the code any more.
func (d *Direct) Forget() {
	d.p.mu.Lock()
	delete(d.p.directs, d)
	d.p.mu.Unlock()
	d.end()
}

// retire ends all that was published of the call, and lets go of the rest once what was
// entered has passed: at once, or from a goroutine.
func (p *Prepared) retire(letGo func()) {
	p.mu.Lock()
	ended, lines := p.directs, p.lines
	p.directs = nil
	p.mu.Unlock()
	for d := range ended {
		d.retire()
		d.end()
	}
	tickets := make([]backends.Ticket, len(lines))
	busy := false
	for i, l := range lines {
		tickets[i] = l.Given()
		busy = busy || !l.Passed(tickets[i])
	}
	if !busy {
		letGo()
		return
	}
	go func() {
		for i, l := range lines {
			for pause := 100 * time.Microsecond; !l.Passed(tickets[i]); pause = min(2*pause, queue.LookTime) {
				time.Sleep(pause)
			}
		}
		letGo()
	}()
}

// direct makes the call's code; nil: there is none now or, if never, ever.
func (b *Bound) direct(line *memory.Line) (d *Direct, never bool) {
	p := b.p
	if p.residue || p.phase || b.launches == nil || p.async && len(p.numbers) > 0 {
		return nil, true
	}
	mostBytes, most := int64(maxDirectBytes), maxDirectNanoseconds
	if p.async {
		mostBytes, most = maxEnteredBytes, maxEnteredNanoseconds
	}
	align := uintptr(1)
	if p.special {
		if align = bestAlign; !b.wellAligned() {
			return nil, false
		}
	}
	if p.workspace > mostBytes {
		return nil, true
	}
	made := &Direct{p: p, Workspace: p.workspace}
	var space memory.Scratch
	made.end = sync.OnceFunc(func() {
		for i := range made.Steps {
			if release := made.Steps[i].Release; release != nil {
				release()
			}
		}
		if space.Held() {
			space.After(line, line.Given())
			space.Return()
		}
	})
	defer func() {
		if d == nil {
			made.end()
		}
	}()
	if p.async && p.workspace > 0 {
		var err error
		if space, err = b.pool.Lasting(line, p.workspace); err != nil {
			return nil, false
		}
		made.Space = space.Addr()
	}
	bytes, took := p.workspace, 0.0
	faults := false
	for i := range b.launches {
		s := &p.steps[i]
		k, ok := s.kernel.Kernel.(backends.Entered)
		if !ok || b.launches[i].Fuel > 0 || p.async && (b.launches[i].N == 0 || k.Workspace(&b.launches[i]) > 0) {
			return nil, true
		}
		parts := k.Direct(&b.launches[i], line.Stream)
		if parts == nil {
			return nil, true
		}
		first := len(made.Steps)
		for n := range parts { // all, for what has to be let go of
			made.Steps = append(made.Steps, DirectStep{Direct: &parts[n]})
		}
		for n := first; n < len(made.Steps); n++ {
			step := &made.Steps[n]
			from := step.Direct
			if p.varies && !from.Bounded {
				return nil, true
			}
			for _, place := range from.Slots {
				if place.Of == backends.OwnFrame {
					step.Bases = append(step.Bases, DirectBase{At: place.At, Operand: OwnFrame, Offset: place.Offset})
					continue
				}
				offset := int64(s.l.Slots[place.Of].Addr) + place.Offset
				step.Bases = append(step.Bases, DirectBase{At: place.At, Operand: s.slots[place.Of].operand, Offset: offset})
			}
			for _, x := range s.params {
				at := -1
				for _, place := range from.Params {
					if place.Of == x.param {
						at = place.At
					}
				}
				if at < 0 {
					return nil, true
				}
				step.Params = append(step.Params, DirectParam{At: at, Scalar: x.scalar})
			}
			// If it is not the first, something may have been done.
			faults = faults || from.Fault >= 0 && (!from.Refuses || n > 0)
			bytes += int64(len(from.Frame))
			took += from.Nanoseconds
		}
	}
	if bytes > mostBytes || !(took <= most) {
		return nil, true
	}
	for i := range p.operands {
		use := &p.operands[i]
		if use.empty || faults && use.reads && use.writes { // what faults is made again, of what there was before
			return nil, true
		}
		at := use.align
		if use.number == 0 {
			at = max(at, align)
		}
		made.Operands = append(made.Operands, DirectOperand{at, use.align})
	}
	for i := range p.scalars {
		switch use := &p.scalars[i]; {
		case use.boolean, !use.t.Integer() && use.t != isa.F32 && use.t != isa.F64:
			return nil, true
		}
		made.Scalars = append(made.Scalars, p.scalars[i].t)
	}
	for i := range p.checks {
		c := &p.checks[i]
		if p.operands[c.other].number > 0 {
			continue // of which the caller has a copy
		}
		a, o := c.written, c.seen
		a.Addr, o.Addr = 0, 0
		made.Checks = append(made.Checks, DirectCheck{Written: c.writes, Other: c.other, WrittenFrom: c.wlo, WrittenTo: c.whi,
			OtherFrom: c.slo, OtherTo: c.shi, Gap: int64(c.written.Addr) - int64(c.seen.Addr), Same: c.same && !faults && SameView(&a, &o)})
	}
	return made, false
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
