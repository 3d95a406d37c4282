package call

import (
	"github.com/hologram-project/hologram/backends"
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

	p      *Prepared
	retire func()
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
type DirectOperand struct{ Align uintptr }

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
// which that leaves to a thread for 5 ms. Kernels may want less.
const (
	maxDirectBytes       = 256 << 10
	maxDirectNanoseconds = 30e3
)

// Direct has the call, as it is bound, published as code to be entered: publish gets
// it, and returns what is called once when it ends, after which nobody may enter it;
// nil: it is not published. Direct reports whether there is such code.
func (b *Bound) Direct(publish func(*Direct) (retire func())) bool {
	d := b.direct()
	if d == nil {
		return false
	}
	p := b.p
	if d.retire = publish(d); d.retire != nil {
		p.mu.Lock()
		if p.directs == nil {
			p.directs = map[*Direct]struct{}{}
		}
		p.directs[d] = struct{}{}
		p.mu.Unlock()
	}
	return true
}

// Forget says that nobody enters the code any more.
func (d *Direct) Forget() {
	d.p.mu.Lock()
	delete(d.p.directs, d)
	d.p.mu.Unlock()
}

// retire ends all that was published of the call.
func (p *Prepared) retire() {
	p.mu.Lock()
	ended := p.directs
	p.directs = nil
	p.mu.Unlock()
	for d := range ended {
		d.retire()
	}
}

func (b *Bound) direct() *Direct {
	p := b.p
	if p.async || p.varies || p.special || p.residue || p.phase || b.launches == nil {
		return nil
	}
	d := &Direct{p: p, Workspace: p.workspace}
	bytes, took := p.workspace, 0.0
	faults := false
	for i := range b.launches {
		s := &p.steps[i]
		k, ok := s.kernel.Kernel.(backends.Entered)
		if !ok || b.launches[i].Fuel > 0 {
			return nil
		}
		parts := k.Direct(&b.launches[i])
		if parts == nil {
			return nil
		}
		for n := range parts {
			from := &parts[n]
			step := DirectStep{Direct: from}
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
					return nil
				}
				step.Params = append(step.Params, DirectParam{At: at, Scalar: x.scalar})
			}
			faults = faults || from.Fault >= 0
			bytes += int64(len(from.Frame))
			took += from.Nanoseconds
			d.Steps = append(d.Steps, step)
		}
	}
	if bytes > maxDirectBytes || took > maxDirectNanoseconds {
		return nil
	}
	for i := range p.operands {
		use := &p.operands[i]
		if use.empty || faults && use.reads && use.writes { // what faults is made again, of what there was before
			return nil
		}
		d.Operands = append(d.Operands, DirectOperand{use.align})
	}
	for i := range p.scalars {
		switch use := &p.scalars[i]; {
		case use.boolean, !use.t.Integer() && use.t != isa.F32 && use.t != isa.F64:
			return nil
		}
		d.Scalars = append(d.Scalars, p.scalars[i].t)
	}
	for i := range p.checks {
		c := &p.checks[i]
		if p.operands[c.other].number > 0 {
			continue // of which the caller has a copy
		}
		a, o := c.written, c.seen
		a.Addr, o.Addr = 0, 0
		d.Checks = append(d.Checks, DirectCheck{Written: c.writes, Other: c.other, WrittenFrom: c.wlo, WrittenTo: c.whi,
			OtherFrom: c.slo, OtherTo: c.shi, Gap: int64(c.written.Addr) - int64(c.seen.Addr), Same: c.same && !faults && SameView(&a, &o)})
	}
	return d
}
