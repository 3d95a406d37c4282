package strips

import (
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// step is a node made ready to run: what to do, and the registers to do it on.
// It is immutable once compiled, and shared by all workers. What only some
// steps have stands apart: large programs are made of many small ones.
type step struct {
	run     func(f *frame, s *step)
	*loops         // of a primitive
	*rest          // of control flow, and of what looks something up
	imm     uint64 // static operand; of an access the constant part of its address, an int64
	d       int32  // result register, -1 for none
	a, b, c int32  // operand registers; of an access a is the address's, -1 for none, b and c (ATOM_CAS, the value desired) the values'
	h       int32  // register of the slot number of an indirect address
	site    int32
	slot    int8 // memory: slot number, or -1 for shared memory; see direct
	direct  directness
	op      isa.Op   // of ATOM_…
	typ     isa.Type // operated on
	from    isa.Type // CVT: of the source; LDC: of the index
	mode    isa.AddrMode
}

// directness says whether the result of a primitive is only stored to slot[index],
// the slot being the step's, and may be computed right there.
type directness uint8

const (
	direct directness = iota + 1 // it may
	quiet                        // and no load stands between, so that even an out slot that is an in slot too may be used
)

// elementwise reports whether lane i of the result depends on lane i of the operands
// alone and is written after these are read, so that registers may be shared.
func (s *step) elementwise() bool { return s.loops != nil && s.each }

// offset is the constant part of an access's address.
func (s *step) offset() int64 { return int64(s.imm) }

// loops are what a primitive does to arrays. Steps of one primitive share them.
type loops struct {
	l1 loop1
	l2 loop2
	l3 loop3
	// l3a and l3c are l3 where the operand is one value for all lanes, if there
	// are such loops.
	l3a, l3c loop3
	widen    loop1 // of a 16-bit float
	narrow   loop1 // likewise; nil if the result is not one
	lin      linRule
	cond     isa.Cond // SET
	exchange bool     // SET has its operands the other way round
	each     bool     // see elementwise
}

// rest is what few steps have.
type rest struct {
	sides      [2]*region
	init       []pair // of Loop: parameters from inits
	leave      []pair // of Br: the target's results or parameters
	m0, m1, m2 int32  // registers for masks
	exit       int32  // of Block and Loop, and of Br its target's: index of its exits; -1: the lane ends
	toLoop     bool   // of Br
	counted    bool
	free       bool
	// A table: its bytes, and for LDC the number of its elements.
	table    []byte
	elements int
}

// region is the steps of an ir.Region and what they yield at its end.
type region struct {
	steps stepList
	yield []pair
	// ends: the region's end is never reached.
	ends bool
}

// stepList is a list of steps in pieces, all but the last of the same length: a large
// program's would find no room, in one piece, among what was freed before.
type stepList struct{ pieces [][]step }

// pieceSteps is how long a piece is.
const pieceSteps = 512

func (l *stepList) len() int {
	last := len(l.pieces) - 1
	if last < 0 {
		return 0
	}
	return last*pieceSteps + len(l.pieces[last])
}

func (l *stepList) at(i int) *step { return &l.pieces[i/pieceSteps][i%pieceSteps] }

// add adds a step, to a list of so many at most, as far as one knows.
func (l *stepList) add(most int) *step {
	last := len(l.pieces) - 1
	if last < 0 || len(l.pieces[last]) == pieceSteps {
		last++
		l.pieces = append(l.pieces, make([]step, 0, max(1, min(pieceSteps, most-last*pieceSteps))))
	}
	l.pieces[last] = append(l.pieces[last], step{})
	return l.at(l.len() - 1)
}

// drop takes the last step away, which was added last.
func (l *stepList) drop() {
	last := &l.pieces[len(l.pieces)-1]
	*last = (*last)[:len(*last)-1]
}

// pair says that register d takes the value of register s; that ^d does, as the
// first half of a move by way of a temporary, where d is negative.
type pair struct{ d, s int32 }

func (p pair) temp() bool { return p.d < 0 }

// to is the register that takes the value.
func (p pair) to() int32 { return p.d ^ p.d>>31 }

// out returns where an elementwise step puts its lanes, and makes the result
// register hold them.
func (f *frame) out(s *step) unsafe.Pointer {
	d := &f.regs[s.d]
	if s.direct > 0 && f.m.count == f.n {
		sl := &f.slots[s.slot]
		if sl.layout == linear && (sl.alone || s.direct == quiet) {
			d.kind = vec
			d.p = unsafe.Add(sl.base, int64(f.g0)*int64(sl.size))
			return d.p
		}
	}
	return d.setVec()
}

// cell makes the result register uniform and returns where its cell is.
func (d *reg) cell() unsafe.Pointer {
	d.setUni(0)
	return unsafe.Pointer(&d.bits)
}

func runUnary(f *frame, s *step) {
	a := &f.regs[s.a]
	if a.kind == uni {
		s.l1(f.regs[s.d].cell(), unsafe.Pointer(&a.bits), 1)
		return
	}
	p := a.lanes(f)
	s.l1(f.out(s), p, f.n)
}

func runBinary(f *frame, s *step) {
	a, b := &f.regs[s.a], &f.regs[s.b]
	if a.kind|b.kind != vec && f.simple(s, a, b) {
		return
	}
	p, q := a.lanes(f), b.lanes(f)
	s.l2(f.out(s), p, q, f.n)
}

// simple computes a binary primitive without work per lane, if its operands
// are uniform, or linear in the lane and the result is too.
func (f *frame) simple(s *step, a, b *reg) bool {
	d := &f.regs[s.d]
	if a.kind == uni && b.kind == uni {
		s.l2(d.cell(), unsafe.Pointer(&a.bits), unsafe.Pointer(&b.bits), 1)
		return true
	}
	if s.lin == nil || a.kind == vec || b.kind == vec {
		return false
	}
	x, ok1 := a.linear(s.typ, f.n)
	y, ok2 := b.linear(s.typ, f.n)
	if !ok1 || !ok2 {
		return false
	}
	l, ok := s.lin(s.typ, x, y, f.n)
	if !ok || !l.fits(s.typ, f.n) {
		return false
	}
	d.setLin(l)
	return true
}

// runTernary is FMA.
func runTernary(f *frame, s *step) {
	a, b, c := &f.regs[s.a], &f.regs[s.b], &f.regs[s.c]
	if a.kind == uni && b.kind == uni && c.kind == uni {
		s.l3(f.regs[s.d].cell(), unsafe.Pointer(&a.bits), unsafe.Pointer(&b.bits), unsafe.Pointer(&c.bits), 1)
		return
	}
	if b.kind == uni {
		a, b = b, a // a product commutes
	}
	switch {
	case a.kind == uni && b.kind != uni && s.l3a != nil:
		q, r := b.lanes(f), c.lanes(f)
		s.l3a(f.out(s), unsafe.Pointer(&a.bits), q, r, f.n)
	case c.kind == uni && s.l3c != nil:
		p, q := a.lanes(f), b.lanes(f)
		s.l3c(f.out(s), p, q, unsafe.Pointer(&c.bits), f.n)
	default:
		p, q, r := a.lanes(f), b.lanes(f), c.lanes(f)
		s.l3(f.out(s), p, q, r, f.n)
	}
}

// runHalf runs a float32 loop on 16-bit floats, by way of the frame's scratch.
func runHalf(f *frame, s *step) {
	n, same := f.n, true
	var in [3]unsafe.Pointer
	for _, r := range [3]int32{s.a, s.b, s.c} {
		if r >= 0 && f.regs[r].kind != uni {
			same = false
		}
	}
	if same {
		n = 1
	}
	for i, r := range [3]int32{s.a, s.b, s.c} {
		if r < 0 {
			break
		}
		x := &f.regs[r]
		in[i] = f.wide[i]
		if x.kind == uni {
			s.widen(in[i], unsafe.Pointer(&x.bits), 1)
			if !same {
				fillSize(4, in[i], uint64(*(*uint32)(in[i])), n)
			}
			continue
		}
		s.widen(in[i], x.lanes(f), n)
	}
	var d unsafe.Pointer
	if same {
		d = f.regs[s.d].cell()
	} else {
		d = f.out(s)
	}
	to := d
	if s.narrow != nil {
		to = f.wide[0]
	}
	switch {
	case s.l1 != nil:
		s.l1(to, in[0], n)
	case s.l2 != nil && s.exchange:
		s.l2(to, in[1], in[0], n)
	case s.l2 != nil:
		s.l2(to, in[0], in[1], n)
	default:
		s.l3(to, in[0], in[1], in[2], n)
	}
	if s.narrow != nil {
		s.narrow(d, to, n)
	}
}

func runSet(f *frame, s *step) {
	a, b, d := &f.regs[s.a], &f.regs[s.b], &f.regs[s.d]
	if s.exchange {
		a, b = b, a
	}
	if a.kind != vec && b.kind != vec {
		if a.kind == uni && b.kind == uni {
			s.l2(d.cell(), unsafe.Pointer(&a.bits), unsafe.Pointer(&b.bits), 1)
			return
		}
		x, ok1 := a.linear(s.typ, f.n)
		y, ok2 := b.linear(s.typ, f.n)
		if s.typ.Integer() && ok1 && ok2 {
			if holds, ok := linSet(s.cond, x, y, f.n); ok {
				d.setUni(uint64(b2u(holds)))
				return
			}
		}
	}
	p, q := a.lanes(f), b.lanes(f)
	s.l2(d.setVec(), p, q, f.n)
}

func runSel(f *frame, s *step) {
	p := &f.regs[s.a]
	if p.kind == uni {
		from := s.c
		if p.bits&1 != 0 {
			from = s.b
		}
		f.assign(&f.regs[s.d], &f.regs[from])
		return
	}
	q, x, y := p.lanes(f), f.regs[s.b].lanes(f), f.regs[s.c].lanes(f)
	s.l3(f.out(s), q, x, y, f.n)
}

func runCvt(f *frame, s *step) {
	a, d := &f.regs[s.a], &f.regs[s.d]
	if a.kind == uni {
		s.l1(d.cell(), unsafe.Pointer(&a.bits), 1)
		return
	}
	if a.kind == aff && s.typ.Integer() {
		if l, ok := a.linear(s.from, f.n); ok && l.fits(s.typ, f.n) {
			d.setLin(l)
			return
		}
	}
	p := a.lanes(f)
	s.l1(f.out(s), p, f.n)
}

// runDiv is integer division and remainder: a divisor of 0 in an active lane
// is a fault.
func runDiv(f *frame, s *step) {
	b := &f.regs[s.b]
	if b.kind == uni {
		if b.bits == 0 {
			f.faultFirst(s, isa.FaultDivide)
		}
	} else {
		// Found out before the division, which may overwrite the divisors.
		size := s.typ.Size()
		p := b.lanes(f)
		if i := firstZero(size, p, f.n); i >= 0 {
			f.zeroDivisors(s, size, p, i)
		}
	}
	runBinary(f, s)
}

// zeroDivisors reports a zero divisor from lane i on, if an active lane has one.
func (f *frame) zeroDivisors(s *step, size int, p unsafe.Pointer, i int) {
	for ; i < f.n; i++ {
		if f.m.has(i) && firstZero(size, unsafe.Add(p, i*size), 1) == 0 {
			f.fault(s, isa.FaultDivide, i)
			return
		}
	}
}

func zeroAt[T unsigned](p unsafe.Pointer, n int) int {
	for i, v := range lanes[T](p, n) {
		if v == 0 {
			return i
		}
	}
	return -1
}

// firstZero returns the first of n integers that is 0, or -1.
func firstZero(size int, p unsafe.Pointer, n int) int {
	switch size {
	case 1:
		return zeroAt[uint8](p, n)
	case 2:
		return zeroAt[uint16](p, n)
	case 4:
		return zeroAt[uint32](p, n)
	}
	return zeroAt[uint64](p, n)
}
