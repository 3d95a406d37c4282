package jit

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// directNanoseconds is how much work is entered directly: its caller may hold locks
// of its own meanwhile, and nobody can stop it.
const directNanoseconds = 10e3

// Direct is backends.Entered's.
func (k *Kernel) Direct(l *backends.Launch) *backends.Direct {
	alone := *l
	alone.Record = nil // nobody cancels it
	r := k.takeRun()
	defer k.giveBack(r)
	if l.Fuel > 0 || !r.prepare(&alone) || r.lanes == 0 || r.staging || r.row > 0 {
		return nil
	}
	ns := r.estimate() * float64(r.lanes)
	if !(ns <= directNanoseconds) || r.width > 0 && r.lanes > r.width && r.lanes%r.width != 0 {
		return nil // more than one call
	}
	f := r.newFrame()
	f.enter(r)
	f.aim(0, r.lanes)
	d := &backends.Direct{Code: r.v.code.Entry, Frame: unsafe.Slice((*byte)(f.args), f.bytes), Nanoseconds: ns, Fault: -1}
	for i := range r.views {
		at := int(r.v.lay.slots) + slotBytes*i
		if (k.p.reads|k.p.writes)>>i&1 != 0 {
			d.Slots = append(d.Slots, backends.Base{Of: i, At: at + slotIndex})
		}
		if k.p.bytes {
			d.Slots = append(d.Slots, backends.Base{Of: i, At: at + slotBase})
		}
	}
	for i := range l.Params {
		if t := k.p.fn.ParamTypes[i]; t != isa.F16 && t != isa.BF16 {
			d.Params = append(d.Params, backends.ParamPlace{Place: backends.Place{Of: i, At: int(r.v.lay.params) + 8*i}, Type: t})
		}
	}
	again := []int32{argEnded} // and argKind beside it
	if r.width > 0 {           // where code steps on from block to block
		again = append(again, argFirst, argCount, argBlockNo)
	}
	if faults(k.p.fn.Body) {
		d.Fault, again = argKind, append(again, argLane)
	}
	for _, at := range again {
		d.Words = append(d.Words, backends.Word{At: int(at), Value: *f.u64(at)})
	}
	f.r = nil
	return d
}
