package core

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/status"
)

// dlpackCPU is DLPack's kDLCPU.
const dlpackCPU = 1

// borrow takes memory of others as an operand: the device's or, where that is
// one, the host's, as Wrap does. Nothing is kept of memory that is used in a stream's
// order, unless the device has to be told of it.
func (ex *Executor) borrow(to *call.Operand, o *Operand, r *call.Request, i int, owner *owner, ordered bool) error {
	info := &ex.device.Info
	own := o.DeviceType == info.DLPackType && o.DeviceID == info.DLPackID
	if !own && !(info.HostVisible && o.DeviceType == dlpackCPU) {
		instead := "make a buffer of it with executor.from_numpy(array)"
		if o.DeviceType != dlpackCPU {
			instead = "use an executor on its device, or copy it to the host first"
		}
		return Errorf(Unavailable, "%s: %s: the array is on DLPack device (%d, %d), which is not memory that %s works on, and nothing is copied silently: %s",
			r.What(), r.Name(i), o.DeviceType, o.DeviceID, ex.device.Name, instead)
	}
	v := &o.View
	if err := call.CheckView(v); err != nil {
		return status.Within(r.What()+": "+r.Name(i), err)
	}
	to.View, to.ReadOnly, to.Bool = *v, o.ReadOnly, o.Bool
	to.View.Bytes = 0
	if o.Transposed {
		transpose(&to.View)
	}
	if to.Packed = call.Contiguous(&to.View); to.Packed {
		call.Pack(&to.View)
	}
	if owner == nil && (!info.Asynchronous || ordered && !ex.device.imports()) {
		return nil
	}
	lo, hi, _ := call.Extent(v)
	at, bytes := v.Addr+uintptr(lo), hi-lo
	deleter := func() {}
	if owner != nil {
		owner.n.Add(1)
		deleter = owner.told
	}
	m, err := ex.device.foreign(at, bytes, deleter)
	if err != nil {
		deleter()
		return status.Within(r.What()+": "+r.Name(i), err)
	}
	to.Mem = m
	return nil
}

// takeNumber takes a number as an operand.
func takeNumber(to *call.Operand, o *Operand, r *call.Request, i int) error {
	if err := call.CheckView(&o.View); err != nil {
		return status.Within(r.What()+": "+r.Name(i), err)
	}
	for k := range o.View.Rank {
		if o.View.Stride[k] != 0 {
			return Errorf(Invalid, "%s: %s is a number, and its stride in dimension %d is %d; expected 0", r.What(), r.Name(i), k, o.View.Stride[k])
		}
	}
	to.View, to.Bool, to.ReadOnly, to.Number = o.View, o.Bool, true, true
	to.View.Bytes = 0
	if to.Packed = call.Contiguous(&to.View); to.Packed {
		call.Pack(&to.View)
	}
	return nil
}

// owner of memory of others is told once when all of a call's is done with.
type owner struct {
	n       atomic.Int32
	deleter func()
	told    func() // drop
}

func newOwner(deleter func()) *owner {
	o := &owner{deleter: deleter}
	o.told = o.drop
	o.n.Store(1) // the call itself
	return o
}

func (o *owner) drop() {
	if o.n.Add(-1) == 0 && o.deleter != nil {
		o.deleter()
	}
}

// end ends the call's own part. After Busy nobody is told.
func (o *owner) end(err error) {
	if o == nil {
		return
	}
	if status.CodeOf(err) == status.Busy {
		o.deleter = nil
	}
	o.drop()
}
