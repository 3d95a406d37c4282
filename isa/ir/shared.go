package ir

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// SharedAsSlot returns a copy of a finished f, expanded (Expand), that has a block's shared memory in a slot behind
// f's own, of f.Shared bytes: what a backend does with byte addresses then serves for both. Sites keep their numbers.
// m, which may be nil, counts the work; the error is its, or a *SizeError.
func SharedAsSlot(m *work.Meter, f *Func) (out *Func, err error) {
	defer work.Catch(&err)
	size := sizeOf(f.Body)
	if err := size.check(); err != nil {
		return nil, err
	}
	c := newCloner(m, f, size.nodes)
	c.to.SlotTypes = append(append([]isa.Type(nil), f.SlotTypes...), isa.U8)
	c.to.Body = c.region(f.Body)
	toSlot(c.to.Body, len(f.SlotTypes))
	renumber(c.to)
	c.to.Shared, c.to.work = f.Shared, nil
	return c.to, nil
}

// toSlot makes accesses to shared memory those to a slot.
func toSlot(r *Region, slot int) {
	for _, n := range r.Nodes {
		if n.Mem.Mode == isa.AddrShared {
			n.Mem.Mode, n.Mem.Slot = isa.AddrByte, slot
			switch n.Op {
			case Op(isa.LDS):
				n.Op = Op(isa.LDG)
			case Op(isa.STS):
				n.Op = Op(isa.STG)
			}
		}
		for _, s := range n.Regions {
			toSlot(s, slot)
		}
	}
}
