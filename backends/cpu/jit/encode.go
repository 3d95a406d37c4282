package jit

import (
	"encoding/binary"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// Fixed registers. The others of C's calling convention that a function may
// change are free for vregs; the rest is saved.
const (
	regArgs  = x86.RDI // the block of arguments, layout.go
	regIndex = x86.RSI // the group's first lane, from 0
	regCount = x86.R8  // lanes to do
)

// encoder turns a unit whose registers are allocated into machine code. An
// instruction's operands that are in memory go by way of temporaries: two
// vectors, two masks, and RAX, RCX, RDX and R11, which are never dealt out.
type encoder struct {
	x86.Asm
	*unit
	t      *target
	lay    *layout
	shared int      // the slot that is shared memory
	data   []*vinfo // the constants that have places, in the order of these
	tables []table
	aside  []aside
}

// aside is code for what seldom happens, which stands behind the function's end: what
// always happens is read without it.
type aside struct {
	src  int32
	emit func()
}

// later puts code of an instruction aside.
func (e *encoder) later(in *inst, emit func()) { e.aside = append(e.aside, aside{in.src, emit}) }

// table is constant data of the program.
type table struct {
	label x86.Label
	bytes []byte
}

// constant returns the place of a constant in the pool.
func (e *encoder) constant(x *vinfo) x86.Mem {
	if x.pooled == 0 {
		x.pooled = e.NewLabel()
		e.data = append(e.data, x)
	}
	return x86.Mem{Label: x.pooled}
}

func (e *encoder) place(x *vinfo) x86.Mem {
	return x86.At(regArgs, e.lay.spill+int32(e.t.bytes)*x.slot)
}

// vec returns a register that holds vector v: its own, or temporary number n,
// into which it is loaded.
func (e *encoder) vec(v vreg, n, vl int) x86.Reg {
	x := &e.info[v]
	if x.reg != x86.None {
		return x.reg
	}
	r := e.t.temps[n]
	e.loadTo(r, x, vl)
	return r
}

func (e *encoder) loadTo(r x86.Reg, x *vinfo, vl int) {
	if x.constant {
		e.broadcast(r, x, vl)
		return
	}
	e.Emit(x86.MovUPS, x86.Inst{VL: e.t.bytes, D: r, IsMem: true, Mem: e.place(x)})
}

func (e *encoder) broadcast(r x86.Reg, x *vinfo, vl int) {
	f := x86.BcastD
	if x.size == 8 {
		f = x86.BcastQ
	}
	e.Emit(f, x86.Inst{VL: vl, D: r, IsMem: true, Mem: e.constant(x)})
}

// out returns the register to compute vector d in, temporary n if it is in
// memory; done stores that.
func (e *encoder) out(d vreg, n int) x86.Reg {
	if r := e.info[d].reg; r != x86.None {
		return r
	}
	return e.t.temps[n]
}

func (e *encoder) done(d vreg, r x86.Reg) {
	if x := &e.info[d]; x.reg == x86.None {
		e.Emit(x86.StoreUPS, x86.Inst{VL: e.t.bytes, D: r, IsMem: true, Mem: e.place(x)})
	}
}

// Temporaries for masks.
const (
	maskTemp0 x86.Reg = 6
	maskTemp1 x86.Reg = 7
)

// mask returns a register that holds mask v.
func (e *encoder) mask(v vreg, temp x86.Reg) x86.Reg {
	x := &e.info[v]
	if x.reg != x86.None {
		return x.reg
	}
	e.Emit(x86.KMovQ, x86.Inst{VL: 16, D: temp, IsMem: true, Mem: e.place(x)})
	return temp
}

func (e *encoder) outMask(d vreg) x86.Reg {
	if r := e.info[d].reg; r != x86.None {
		return r
	}
	return maskTemp0
}

func (e *encoder) doneMask(d vreg, r x86.Reg) {
	if x := &e.info[d]; x.reg == x86.None {
		e.Emit(x86.KStoreQ, x86.Inst{VL: 16, D: r, IsMem: true, Mem: e.place(x)})
	}
}

// gpr returns a register that holds v.
func (e *encoder) gpr(v vreg, temp x86.Reg) x86.Reg {
	x := &e.info[v]
	if x.reg != x86.None {
		return x.reg
	}
	e.Load(x86.W64, temp, e.place(x))
	return temp
}

func (e *encoder) outGPR(d vreg, temp x86.Reg) x86.Reg {
	if r := e.info[d].reg; r != x86.None {
		return r
	}
	return temp
}

func (e *encoder) doneGPR(d vreg, r x86.Reg) {
	if x := &e.info[d]; x.reg == x86.None {
		e.Store(x86.W64, e.place(x), r)
	}
}

// putGPR makes r, in which d was computed for now, what d holds.
func (e *encoder) putGPR(d vreg, r x86.Reg) {
	if own := e.outGPR(d, r); own != r {
		e.Mov(x86.W64, own, r)
	}
	e.doneGPR(d, r)
}

// memory resolves a place in memory; temp serves for a base that has no register.
func (e *encoder) memory(m *mref, temp x86.Reg) x86.Mem {
	if m.label != 0 {
		return x86.Mem{Label: m.label, Disp: m.disp}
	}
	out := x86.Mem{Base: m.fixed, Index: x86.None, Scale: 1, Disp: m.disp}
	if m.base != 0 {
		out.Base = e.gpr(m.base, temp)
	}
	if m.indexed {
		out.Index, out.Scale = regIndex, m.scale
	}
	return out
}

// inst encodes one instruction.
func (e *encoder) inst(in *inst) {
	switch {
	case in.label != 0:
		e.Bind(in.label)
	case in.emit != nil:
		in.emit(e, in)
	case in.fma != nil:
		e.fma(in)
	default:
		e.form(in)
	}
}

// isMask reports whether a letter of Form.Ops stands for a mask.
func isMask(f *x86.Form, i int) bool { return i < len(f.Ops) && f.Ops[i] == 'k' }

// form encodes an instruction of the table.
func (e *encoder) form(in *inst) {
	f := in.f
	if b := &e.info[in.b]; in.isCopy() && b.constant && b.reg == x86.None {
		r := e.out(in.d, 0)
		e.broadcast(r, b, in.vl)
		e.done(in.d, r)
		return
	}
	x := x86.Inst{VL: in.vl, Imm: in.imm, Zero: in.zero}
	last := len(f.Ops) - 1
	if f.Is4 {
		last--
	}
	temp := 0
	source := func(v vreg, at int) x86.Reg {
		if isMask(f, at) {
			r := e.mask(v, maskTemp0+x86.Reg(temp&1))
			temp++
			return r
		}
		r := e.vec(v, temp&1, in.vl)
		if e.info[v].reg == x86.None {
			temp++
		}
		return r
	}
	if in.a != 0 {
		x.A = source(in.a, 1)
	}
	if in.c != 0 {
		x.C = source(in.c, last+1)
	}
	switch {
	case in.mem != nil:
		x.IsMem, x.Mem = true, e.memory(in.mem, x86.RAX)
	case in.b != 0:
		b := &e.info[in.b]
		if b.reg == x86.None && !isMask(f, last) && f.Folds(e.t.evex) && e.fold(&x, b, f) {
			break
		}
		x.B = source(in.b, last)
	}
	if in.k != 0 {
		x.K = e.mask(in.k, maskTemp1)
	}
	if in.d == 0 {
		e.Emit(f, x)
		return
	}
	if f.Layout == x86.MR && in.mem == nil { // what is written stands in B
		x.D, x.B = x.B, e.out(in.d, 0)
		e.Emit(f, x)
		e.done(in.d, x.B)
		return
	}
	if isMask(f, 0) {
		x.D = e.outMask(in.d)
		e.Emit(f, x)
		e.doneMask(in.d, x.D)
		return
	}
	n := 0
	if in.merge || in.early {
		n = temp & 1
	}
	x.D = e.out(in.d, n)
	if in.merge && e.info[in.d].reg == x86.None {
		e.loadTo(x.D, &e.info[in.d], in.vl)
	}
	e.Emit(f, x)
	e.done(in.d, x.D)
}

// fold makes operand B memory: a place of a spilled vector, or a constant's.
func (e *encoder) fold(x *x86.Inst, b *vinfo, f *x86.Form) bool {
	if !b.constant {
		if f.Tuple != 0 {
			return false
		}
		x.IsMem, x.Mem = true, e.place(b)
		return true
	}
	if f.Tuple != 0 || e.t.evex && f.Elem != b.size {
		return false
	}
	x.IsMem, x.Mem, x.Broadcast = true, e.constant(b), e.t.evex
	return true
}

// fma encodes d ← a · b + c, by whichever order leaves an operand in place.
func (e *encoder) fma(in *inst) {
	reg := func(v vreg) x86.Reg { return e.info[v].reg }
	a, b, c := in.a, in.b, in.c
	d := e.out(in.d, 0)
	if reg(a) == x86.None { // the factor in memory is b, if only one is
		a, b = b, a
	}
	if reg(a) == x86.None && a != b {
		// both in memory: one comes by the temporary that d does not need
		t := e.t.temps[1]
		e.loadTo(t, &e.info[a], in.vl)
		e.fmaWith(in, d, t, b, c)
		return
	}
	if reg(a) == x86.None {
		t := e.t.temps[1]
		e.loadTo(t, &e.info[a], in.vl)
		e.fmaRegs(in, d, t, t, c)
		return
	}
	e.fmaWith(in, d, reg(a), b, c)
}

// fmaWith has a in a register.
func (e *encoder) fmaWith(in *inst, d, a x86.Reg, b, c vreg) {
	x := x86.Inst{VL: in.vl, D: d}
	xb, xc := &e.info[b], &e.info[c]
	if xb.reg != x86.None {
		e.fmaRegs(in, d, a, xb.reg, c)
		return
	}
	if !e.fold(&x, xb, in.fma.f231) { // never: forms of FMA fold everything
		panic("jit: an operand of FMA that is no memory operand")
	}
	switch {
	case xc.reg == d && xc.reg != x86.None:
		x.A = a
		x.Imm = in.fma.i231
		e.Emit(in.fma.f231, x)
	case a == d && xc.reg != x86.None:
		x.A = xc.reg
		x.Imm = in.fma.i132
		e.Emit(in.fma.f132, x)
	case d != a:
		if xc.reg != x86.None {
			e.move(d, xc.reg, in.vl)
		} else {
			e.loadTo(d, xc, in.vl)
		}
		x.A = a
		x.Imm = in.fma.i231
		e.Emit(in.fma.f231, x)
	default: // c in memory, and d in a's place
		t := e.t.temps[0]
		if d == t || a == t {
			t = e.t.temps[1]
		}
		e.loadTo(t, xc, in.vl)
		x.A = t
		x.Imm = in.fma.i132
		e.Emit(in.fma.f132, x)
	}
	e.done(in.d, d)
}

// fmaRegs has a and b in registers.
func (e *encoder) fmaRegs(in *inst, d, a, b x86.Reg, c vreg) {
	x := x86.Inst{VL: in.vl, D: d}
	xc := &e.info[c]
	switch {
	case xc.reg == d && xc.reg != x86.None:
		x.A, x.B = a, b
		x.Imm = in.fma.i231
		e.Emit(in.fma.f231, x)
	case d == a || d == b:
		if d == b {
			a, b = b, a
		}
		x.A = b
		if xc.reg != x86.None {
			x.B = xc.reg
		} else if !e.fold(&x, xc, in.fma.f213) {
			panic("jit: an operand of FMA that is no memory operand")
		}
		x.Imm = in.fma.i213
		e.Emit(in.fma.f213, x)
	case xc.reg != x86.None:
		e.move(d, xc.reg, in.vl)
		x.A, x.B = a, b
		x.Imm = in.fma.i231
		e.Emit(in.fma.f231, x)
	default:
		e.loadTo(d, xc, in.vl)
		x.A, x.B = a, b
		x.Imm = in.fma.i231
		e.Emit(in.fma.f231, x)
	}
	e.done(in.d, d)
}

func (e *encoder) move(d, s x86.Reg, vl int) {
	if d != s {
		e.Emit(x86.MovAPS, x86.Inst{VL: vl, D: d, B: s})
	}
}

// finish puts the constants and tables behind the code.
func (e *encoder) finish() ([]byte, error) {
	e.Align(64)
	for _, x := range e.data {
		n := 1
		if !e.t.evex { // no broadcasts: a constant fills a vector
			n = e.t.bytes / int(x.size)
			e.Align(e.t.bytes)
		} else {
			e.Align(8)
		}
		e.Bind(x.pooled)
		for range n {
			if x.size == 8 {
				e.Code = binary.LittleEndian.AppendUint64(e.Code, x.bits)
			} else {
				e.Code = binary.LittleEndian.AppendUint32(e.Code, uint32(x.bits))
			}
		}
	}
	for _, t := range e.tables {
		e.Align(64)
		e.Bind(t.label)
		e.Code = append(e.Code, t.bytes...)
	}
	if err := e.Finish(); err != nil {
		return nil, err
	}
	return e.Code, nil
}
