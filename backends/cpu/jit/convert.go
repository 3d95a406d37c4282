package jit

import (
	"math"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// widenF16 is the bits of an f16 as f32.
func widenF16(cell uint64) uint64 {
	sign, e, m := uint32(cell)>>15<<31, uint32(cell)>>10&31, uint32(cell)&1023
	switch {
	case e == 31:
		return uint64(sign | 0xff<<23 | m<<13)
	case e != 0:
		return uint64(sign | (e+112)<<23 | m<<13)
	}
	return uint64(sign | math.Float32bits(float32(m)*0x1p-24))
}

// roundHalf rounds f32 to a 16-bit float, kept as f32. Of NaNs, those with
// nothing in the bits that bf16 lacks stay NaNs; arithmetic gives no others.
func (g *gen) roundHalf(t isa.Type, x vreg) vreg {
	if t == isa.F16 {
		return g.fromF16(g.toF16(x))
	}
	odd := g.and(4, g.op1Imm(x86.SrlD, 4, x, 16), g.number(4, 1))
	sum := g.op2(x86.AddD, 4, g.op2(x86.AddD, 4, x, g.number(4, 0x7fff)), odd)
	r := g.and(4, sum, g.number(4, 0xffff0000))
	if g.p.straight { // elsewhere a register may be written again
		g.unmasked[r] = sum
	}
	return r
}

// toF16 gives 16-bit floats, packed, of f32; fromF16 is the way back.
func (g *gen) toF16(x vreg) vreg {
	d := g.newReg(classVec)
	g.add(inst{f: x86.PS2PH, vl: g.vl(4), d: d, b: x})
	return d
}

func (g *gen) fromF16(x vreg) vreg {
	d := g.newReg(classVec)
	g.add(inst{f: x86.PH2PS, vl: g.vl(4), d: d, b: x})
	return d
}

// packWords packs the low words of 32-bit elements, none of which is above
// 65,535 as an unsigned number.
func (g *gen) packWords(x vreg) vreg {
	d := g.newReg(classVec)
	if g.t.evex {
		g.add(inst{f: x86.DW, vl: g.vl(4), d: d, b: x})
		return d
	}
	g.add(inst{f: x86.PackUSDW, vl: g.vl(4), d: d, a: x, b: x})
	if g.vl(4) == 32 {
		p := g.newReg(classVec)
		g.add(inst{f: x86.PermQ, vl: 32, d: p, b: d, imm: 0x08})
		return p
	}
	return d
}

func bitcast(g *gen, n *ir.Node) {
	x, to, from := g.val(n.Args[0]), n.Type, n.From
	switch {
	case g.packed && g.packing.packs(from): // bits are all there is; other floats are beside them as f32
		g.set(n.Result(), x)
	case from == isa.F16 && to != isa.F16:
		d := g.newReg(classVec)
		g.add(inst{f: x86.ZxWD, vl: g.vl(4), d: d, b: g.toF16(x)})
		g.set(n.Result(), g.sameWidth(to, isa.U16, d))
	case from == isa.BF16 && to == isa.I16:
		g.set(n.Result(), g.op1Imm(x86.SraD, 4, x, 16))
	case from == isa.BF16 && to != isa.BF16:
		g.set(n.Result(), g.sameWidth(to, isa.U16, g.op1Imm(x86.SrlD, 4, x, 16)))
	default:
		g.set(n.Result(), g.sameWidth(to, from, x))
	}
}

// sameWidth reinterprets an integer's bits, or those of a float of its width.
func (g *gen) sameWidth(to, from isa.Type, x vreg) vreg {
	switch {
	case to == from || to.Size() > 2:
		return x
	case to == isa.F16:
		return g.fromF16(g.packWords(g.and(4, x, g.number(4, 0xffff))))
	case to == isa.BF16:
		return g.op1Imm(x86.SllD, 4, x, 16)
	}
	return g.wrap(to, x)
}

func convert(g *gen, n *ir.Node) {
	if v := n.Args[0]; g.lin != nil && g.p.ladder(g.lin, n) {
		g.set(n.Result(), g.wrap(n.Type, g.ladder(v, g.regSize(n.Type))))
		return
	}
	g.set(n.Result(), g.cvt(n, n.Type, n.From, g.val(n.Args[0])))
}

func (g *gen) cvt(n *ir.Node, to, from isa.Type, x vreg) vreg {
	switch {
	case to == from:
		return x
	case to.Float() && from.Float():
		return g.floatToFloat(to, from, x)
	case to.Float():
		return g.intToFloat(n, to, from, x)
	case from.Float():
		return g.floatToInt(to, from, x)
	}
	return g.intToInt(to, from, x)
}

func (g *gen) intToInt(to, from isa.Type, x vreg) vreg {
	switch {
	case g.regSize(to) == 8 && g.regSize(from) == 8:
		return x
	case g.packed && from.Size() < min(to.Size(), 4): // of what a block's lanes share
		x = g.op1(loads[from], 4, x)
		switch {
		case to.Size() == 4:
			return x
		case from.Signed():
			return g.op1(x86.SxDQ, 8, x)
		}
		return g.op1(x86.ZxDQ, 8, x)
	case g.packed && to.Size() < min(from.Size(), 4):
		return g.op1(toAll.of(to.Size()), to.Size(), x)
	case g.regSize(to) == 8 && from.Signed():
		return g.op1(x86.SxDQ, 8, x)
	case g.regSize(to) == 8:
		return g.op1(x86.ZxDQ, 8, x)
	case g.regSize(from) == 8:
		x = g.lowHalves(x)
	case from.Bits() < to.Bits() && (from.Unsigned() || to.Signed() || to.Bits() == 32): // fits
		return x
	}
	return g.wrap(to, x)
}

// lowHalves is the low 32 bits of each 64.
func (g *gen) lowHalves(x vreg) vreg {
	if g.t.evex {
		d := g.newReg(classVec)
		g.add(inst{f: x86.QD, vl: g.vl(8), d: d, b: x})
		return d
	}
	return g.narrowMask(4, x)
}

func (g *gen) floatToFloat(to, from isa.Type, x vreg) vreg {
	switch {
	case from == isa.F64 && to == isa.F32:
		return g.op1(x86.PD2PS, 8, x)
	case from == isa.F64:
		return g.narrowFloat(to, g.roundToOdd(x))
	case to == isa.F64:
		return g.op1(x86.PS2PD, 8, x)
	case to == isa.F32:
		return x
	}
	return g.narrowFloat(to, x)
}

// narrowFloat rounds any f32 to a 16-bit float.
func (g *gen) narrowFloat(to isa.Type, x vreg) vreg {
	r := g.roundHalf(to, x)
	if to == isa.F16 {
		return r
	}
	nan := g.cmpF(4, x, x, 3)
	return g.sel(4, nan, g.f32(0x7fc00000), r)
}

// roundToOdd rounds f64 to f32 so that a further rounding is as one of the
// exact value: toward 0, with the last bit set if anything was lost (Boldo and
// Melquiond, 2008).
func (g *gen) roundToOdd(x vreg) vreg {
	t := g.op1(x86.PD2PS, 8, x)
	back := g.op1(x86.PS2PD, 8, t)
	abs := g.number(8, 1<<63-1)
	above := g.cmpF(8, g.and(8, back, abs), g.and(8, x, abs), 0x1e)
	down := g.op2(x86.AddD, 4, t, g.number(4, 1<<32-1))
	t2 := g.sel(4, above, down, t)
	inexact := g.cmpF(8, back, x, 0x0c) // ordered, not equal
	return g.sel(4, inexact, g.or(4, t2, g.number(4, 1)), t2)
}

// intToFloat: from 64 bits to a 16-bit float, and from 32 to one, it goes by a
// number of fewer digits whose last bit tells of those dropped.
func (g *gen) intToFloat(n *ir.Node, to, from isa.Type, x vreg) vreg {
	half := to == isa.F16 || to == isa.BF16
	if g.regSize(from) == 8 {
		switch {
		case to == isa.F64:
			return g.wideToFloat(from, x, 8)
		case to == isa.F32:
			return g.wideToFloat(from, x, 4)
		}
		return g.narrowFloat(to, g.roundToOdd(g.wideToFloat(from, g.sticky(from, x, 11, 53), 8)))
	}
	switch {
	case to == isa.F64 && from == isa.U32:
		if g.t.evex {
			return g.op1(x86.UDQ2PD, 8, x)
		}
		d := g.op1(x86.DQ2PD, 8, g.xor(4, x, g.signBit(4)))
		return g.op2(x86.AddPD, 8, d, g.number(8, math.Float64bits(1<<31)))
	case to == isa.F64:
		return g.op1(x86.DQ2PD, 8, x)
	}
	if half && from.Size() == 4 {
		x = g.sticky(from, x, 8, 24)
	}
	var r vreg
	switch {
	case from != isa.U32:
		r = g.op1(x86.DQ2PS, 4, x)
	case g.t.evex:
		r = g.op1(x86.UDQ2PS, 4, x)
	default: // both halves are exact, and one rounding adds them
		high := g.op1(x86.DQ2PS, 4, g.op1Imm(x86.SrlD, 4, x, 16))
		low := g.op1(x86.DQ2PS, 4, g.and(4, x, g.number(4, 0xffff)))
		r = g.fma(4, high, g.f32(math.Float32bits(65536)), low)
	}
	if half {
		return g.roundHalf(to, r)
	}
	return r
}

// sticky clears the low drop bits of integers of at least digits bits, and sets
// the bit above if one of them was set: rounding to far fewer digits is the same.
func (g *gen) sticky(from isa.Type, x vreg, drop, digits uint) vreg {
	size := g.regSize(from)
	mask := g.number(size, uint64(1)<<drop-1)
	sum := g.op2(addI.of(size), size, g.and(size, x, mask), mask)
	y := g.andNot(size, mask, g.or(size, x, sum))
	limit := g.number(size, uint64(1)<<digits)
	big := g.cmpI(from, x, limit, isa.GE)
	if from.Signed() {
		big = g.maskOp(isa.OR, big, g.cmpI(from, x, g.number(size, -(uint64(1)<<digits)), isa.LE))
	}
	return g.sel(size, big, y, x)
}

// wideToFloat makes floats of so many bytes.
func (g *gen) wideToFloat(from isa.Type, x vreg, size int) vreg {
	signed, f := from.Signed(), pair{x86.UQQ2PS, x86.UQQ2PD}
	if !g.t.evex {
		return g.lanewise(8, x, 0, 0, size, func(e *encoder) { e.toScalar(signed, size == 8) })
	}
	if signed {
		f = pair{x86.QQ2PS, x86.QQ2PD}
	}
	return g.op1(f.of(size), 8, x)
}

// toScalar converts RAX to a float's bits in RAX. An unsigned number too large
// for a signed one is halved, its last bit kept by or, and doubled after.
func (e *encoder) toScalar(signed, double bool) {
	t := e.t.temps[1]
	back, add := x86.MovDTo, x86.AddPS
	if double {
		back, add = x86.MovQTo, x86.AddPD
	}
	small, done := e.NewLabel(), e.NewLabel()
	if !signed {
		e.Test(x86.W64, x86.RAX, x86.RAX)
		e.Jcc(x86.NS, small)
		e.Mov(x86.W64, x86.RDX, x86.RAX)
		e.OpImm(x86.AND, x86.W32, x86.RDX, 1)
		e.ShiftImm(5, x86.W64, x86.RAX, 1)
		e.Op(x86.OR, x86.W64, x86.RAX, x86.RDX)
		e.CvtToFloat(x86.W64, double, t, x86.RAX)
		e.Emit(add, x86.Inst{VL: 16, D: t, A: t, B: t})
		e.Jmp(done)
		e.Bind(small)
	}
	e.CvtToFloat(x86.W64, double, t, x86.RAX)
	e.Bind(done)
	e.Emit(back, x86.Inst{VL: 16, D: t, B: x86.RAX})
}

// floatToInt truncates, saturates, and gives 0 for a NaN.
func (g *gen) floatToInt(to, from isa.Type, x vreg) vreg {
	size := g.regSize(from)
	if g.regSize(to) == 8 {
		if size == 4 {
			x = g.op1(x86.PS2PD, 8, x)
		}
		return g.floatToWide(to, x)
	}
	lo, hi := 0.0, math.Ldexp(1, to.Bits())-1
	if to.Signed() {
		lo, hi = -math.Ldexp(1, to.Bits()-1), math.Ldexp(1, to.Bits()-1)-1
	}
	if size == 4 && to.Size() == 4 {
		return g.singleToInt(to, x, lo)
	}
	// The bounds are exact in the float's type. With the bound second a NaN
	// becomes it.
	y := g.op2(maxF.of(size), size, x, g.float(size, lo))
	y = g.op2(minF.of(size), size, y, g.float(size, hi))
	var r vreg
	switch {
	case size == 4:
		r = g.op1(x86.TPS2DQ, 4, y)
	case to != isa.U32:
		r = g.op1(x86.TPD2DQ, 8, y)
	case g.t.evex:
		r = g.op1(x86.TPD2UDQ, 8, y)
	default:
		z := g.op2(x86.SubPD, 8, g.integral(8, y, 3), g.float(8, 1<<31))
		r = g.xor(4, g.op1(x86.TPD2DQ, 8, z), g.signBit(4))
	}
	if to.Unsigned() {
		return r // lo is 0
	}
	return g.sel(4, g.cmpF(size, x, x, 3), g.number(4, 0), r)
}

// singleToInt is f32 to 32 bits, whose largest value f32 does not have.
func (g *gen) singleToInt(to isa.Type, x vreg, lo float64) vreg {
	limit := g.float(4, 1<<31)
	if to == isa.I32 {
		r := g.op1(x86.TPS2DQ, 4, x) // MIN if it does not fit
		r = g.sel(4, g.cmpF(4, x, limit, 0x1d), g.number(4, math.MaxInt32), r)
		return g.sel(4, g.cmpF(4, x, x, 3), g.number(4, 0), r)
	}
	y := g.op2(x86.MaxPS, 4, x, g.float(4, 0))
	if g.t.evex {
		return g.op1(x86.TPS2UDQ, 4, y) // all ones if it does not fit
	}
	big := g.cmpF(4, y, limit, 0x1d)
	r := g.op1(x86.TPS2DQ, 4, g.sel(4, big, g.op2(x86.SubPS, 4, y, limit), y))
	r = g.sel(4, big, g.xor(4, r, g.signBit(4)), r)
	return g.sel(4, g.cmpF(4, y, g.float(4, 1<<32), 0x1d), g.number(4, math.MaxUint32), r)
}

// floatToWide is f64 to 64 bits.
func (g *gen) floatToWide(to isa.Type, x vreg) vreg {
	limit := g.float(8, 1<<63)
	truncate := func(v vreg) vreg {
		t := g.t.temps[1]
		return g.lanewise(8, v, 0, 0, 8, func(e *encoder) {
			e.Emit(x86.MovQFrom, x86.Inst{VL: 16, D: t, B: x86.RAX})
			e.CvtToInt(x86.W64, true, x86.RAX, t)
		})
	}
	if to == isa.I64 {
		var r vreg
		if g.t.evex {
			r = g.op1(x86.TPD2QQ, 8, x)
		} else {
			r = truncate(x)
		}
		r = g.sel(8, g.cmpF(8, x, limit, 0x1d), g.number(8, math.MaxInt64), r)
		return g.sel(8, g.cmpF(8, x, x, 3), g.number(8, 0), r)
	}
	y := g.op2(x86.MaxPD, 8, x, g.float(8, 0))
	if g.t.evex {
		return g.op1(x86.TPD2UQQ, 8, y)
	}
	big := g.cmpF(8, y, limit, 0x1d)
	r := truncate(g.sel(8, big, g.op2(x86.SubPD, 8, y, limit), y))
	r = g.sel(8, big, g.xor(8, r, g.signBit(8)), r)
	return g.sel(8, g.cmpF(8, y, g.float(8, 1<<64), 0x1d), g.number(8, math.MaxUint64), r)
}

// float is a register with the same number, as a float, in all lanes.
func (g *gen) float(size int, v float64) vreg {
	if size == 8 {
		return g.number(8, math.Float64bits(v))
	}
	return g.number(4, uint64(math.Float32bits(float32(v))))
}
