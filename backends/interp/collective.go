package interp

import "github.com/hologram-project/hologram/isa"

// meet lets the lanes of a block that wait at instruction site go on, having
// done what it does for them together.
func (m *machine) meet(site int) {
	in := &m.Program.Insts[site]
	var results []uint64
	if in.Op != isa.BAR_SYNC {
		results = m.collect(in)
	}
	for i := range m.lanes {
		if l := &m.lanes[i]; l.state == waiting {
			l.state = running
			cell := uint64(0)
			if results != nil {
				cell = results[i]
			}
			m.finish(l, in, cell)
		}
	}
}

// collect returns each lane's result of a reduction or scan over the block.
// Lanes that do not take part count as the identity. The 16-bit floats are
// widened to f32 and rounded back once, at the end.
func (m *machine) collect(in *isa.Inst) []uint64 {
	op, t := element[in.Op], in.Type
	if t == isa.F16 || t == isa.BF16 {
		t = isa.F32
	}
	padded := 1
	for padded < len(m.lanes) {
		padded *= 2
	}
	s := make([]uint64, padded)
	for i := range s {
		s[i] = identity(op, t)
		if i < len(m.lanes) && m.lanes[i].state == waiting {
			s[i] = m.lanes[i].read(&in.Args[1])
			if t != in.Type {
				s[i] = isa.Convert(t, in.Type, s[i])
			}
		}
	}
	switch in.Op {
	case isa.BLOCK_SCAN_ADD, isa.BLOCK_SCAN_MIN, isa.BLOCK_SCAN_MAX, isa.BLOCK_SCAN_MUL:
		for w := 1; w < padded; w *= 2 { // Hillis–Steele; from the top, so that s[q−w] is of the round before
			for q := padded - 1; q >= w; q-- {
				s[q] = eval(op, t, s[q-w], s[q])
			}
		}
	default:
		for w := padded / 2; w > 0; w /= 2 {
			for q := range w {
				s[q] = eval(op, t, s[q], s[q+w])
			}
		}
		for i := range s {
			s[i] = s[0]
		}
	}
	if t != in.Type {
		for i := range s {
			s[i] = isa.Convert(in.Type, t, s[i])
		}
	}
	return s
}

// identity returns the value of type t that op leaves others as they are with.
func identity(op isa.Op, t isa.Type) uint64 {
	top := uint64(1) << (t.Bits() - 1) // a float's sign, the smallest signed integer
	one := isa.Convert(t, isa.I8, 1)
	switch {
	case op == isa.MUL:
		return one
	case op == isa.ADD && t.Float():
		return top // −0.0
	case op == isa.ADD:
		return 0
	case op == isa.MIN && t.Float():
		return eval(isa.DIV, t, one, 0) // +∞
	case op == isa.MIN && t.Signed():
		return top - 1
	case op == isa.MIN:
		return t.Mask()
	case t.Float():
		return eval(isa.DIV, t, one, top) // −∞
	case t.Signed():
		return top
	}
	return 0
}
