package call

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// look says what is wrong with where a call's operands lie, or returns the bits of the
// arrays' addresses.
func (p *Prepared) look(operands []Operand) (low uintptr, err error) {
	for i := range operands {
		use, addr := &p.operands[i], operands[i].View.Addr
		if use.empty {
			continue
		}
		if addr == 0 {
			return 0, status.Errorf(status.Invalid, "%s: the address is null", use.name)
		}
		if use.number > 0 {
			continue
		}
		low |= addr
		if addr&(use.align-1) != 0 {
			return 0, status.Errorf(status.Invalid, "%s: address 0x%x is not a multiple of %d, the size of an element; make an aligned copy",
				use.name, addr, use.align)
		}
	}
	for i := range p.checks {
		if c := &p.checks[i]; !c.passes(operands) {
			return 0, c.err()
		}
	}
	return low, nil
}

// convert makes cells of a call's scalars.
func (p *Prepared) convert(cells []uint64, scalars []Scalar) error {
	for i := range scalars {
		use := &p.scalars[i]
		if scalars[i].Type == isa.NoType {
			return status.Errorf(status.Invalid, "%s (%v) is not given", use.name, use.t)
		}
		cell, err := scalars[i].Cell(use.t)
		if err != nil {
			return status.Within(use.name, err)
		}
		if use.boolean {
			cell = min(cell, 1)
		}
		cells[i] = cell
	}
	return nil
}

// give gives a launch of the step the parameters that are a call's scalars.
func (s *step) give(params, cells []uint64) {
	for _, x := range s.params {
		params[x.param] = cells[x.scalar]
	}
}

// bestAlign is how addresses are aligned for which Prepare has code made.
const bestAlign = 64

// specialize has the code made that a launch of step i needs.
func (p *Prepared) specialize(i int, l *backends.Launch, try bool, r *Request) error {
	k := p.steps[i].kernel
	if !k.Special() || l.N == 0 {
		return nil
	}
	err := k.Specialize(p.what, l, try || r.May != nil, r.Stop)
	if err == status.ErrBusy && !try {
		if err = r.May(); err == nil {
			err = k.Specialize(p.what, l, false, r.Stop)
		}
	}
	if err != nil {
		return status.FromBackend(p.what, err)
	}
	return nil
}
