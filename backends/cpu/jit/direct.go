package jit

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
)

// directRows is how many rows that have to be calls of their own are entered directly.
const directRows = 64

// Direct is backends.Entered's, of launches within a bound in nanoseconds. Nil: it never is.
func (k *Kernel) Direct(l *backends.Launch, within float64) []backends.Direct {
	alone := *l
	alone.Record = nil // nobody cancels it
	r := k.takeRun()
	defer k.giveBack(r)
	if !r.prepare(&alone, 1) || r.lanes == 0 || r.staging || r.row > 0 && r.lanes > r.row*directRows {
		return nil
	}
	ns := r.estimate() * float64(r.lanes)
	if !(ns <= within) || r.width > 0 && r.lanes > r.width && r.lanes%r.width != 0 {
		return nil // more than one call
	}
	if !r.liesAnywhere() {
		return nil
	}
	f := r.newFrame()
	f.enter(r)
	row := r.lanes
	if r.row > 0 {
		row = r.row
	}
	var all []backends.Direct
	for g := uint64(0); g < r.lanes; g += row {
		f.aim(g, min(row, r.lanes-g), 1)
		all = append(all, f.direct(ns/float64(r.lanes)*float64(row)))
	}
	f.r = nil
	return all
}

// liesAnywhere has the run's code be one for whatever addresses others enter it with, which are multiples of
// elements alone, not of lines as these may be: stores past the caches then go up to a line of the
// only result first, or there are none. It reports whether there is such code.
func (r *run) liesAnywhere() bool {
	s := r.v.shape
	if !s.stream {
		return true
	}
	s.head = r.k.t.evex && r.row == 0 && bits.OnesCount64(r.k.p.writes) == 1
	s.stream = s.head
	v, err := r.k.variantFor(s)
	r.v = v
	return err == nil
}

// direct returns the call that the frame is ready for.
func (f *frame) direct(ns float64) backends.Direct {
	r := f.r
	k, l := r.k, r.l
	d := backends.Direct{Code: r.v.code.Entry, Frame: slices.Clone(unsafe.Slice((*byte)(f.args), f.bytes)), Nanoseconds: ns, Bounded: !k.p.loops,
		Fault: -1}
	for i := range r.views {
		at := int(r.v.lay.slots) + slotBytes*i
		if (k.p.reads|k.p.writes)>>i&1 != 0 {
			offset := int64(*f.u64(int32(at + slotIndex))) - int64(l.Slots[i].Addr)
			d.Addresses = append(d.Addresses, backends.AddressPlace{Of: backends.Base(i), At: at + slotIndex, Offset: offset})
		}
		if k.p.bytes {
			d.Addresses = append(d.Addresses, backends.AddressPlace{Of: backends.Base(i), At: at + slotBase})
		}
	}
	for i := range l.Params {
		t := k.p.fn.ParamTypes[i]
		d.Params = append(d.Params, backends.ParamPlace{Of: i, At: int(r.v.lay.params) + 8*i, Type: t, Single: half(t) && !r.v.halves})
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
	return d
}
