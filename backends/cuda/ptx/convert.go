package ptx

import (
	"github.com/hologram-project/hologram/isa"
)

// widen returns an f32 register with the value of a 16-bit float's bits.
func (e *emitter) widen(t isa.Type, bits string) string {
	f := e.temp(bankF)
	p, ok := e.parts[bits]
	if ok && t == isa.BF16 && p.bit == 16 {
		r := e.temp(bankR)
		e.line("and.b32 %s, %s, 0xffff0000;", r, p.word)
		e.line("mov.b32 %s, %s;", f, r)
		return f
	}
	if ok && t == isa.BF16 {
		bits = p.word
	}
	if t == isa.F16 {
		s := e.temp(bankS)
		e.line("cvt.u16.u32 %s, %s;", s, bits)
		e.line("cvt.f32.f16 %s, %s;", f, s)
		return f
	}
	r := e.temp(bankR)
	e.line("shl.b32 %s, %s, 16;", r, bits)
	e.line("mov.b32 %s, %s;", f, r)
	return f
}

// narrow rounds an f32 to nearest even, to the bits of a 16-bit float. bf16 has
// no instruction before sm_80: half a unit less the parity is added, and a
// carry moves into the exponent.
func (e *emitter) narrow(t isa.Type, d, f string) {
	if t == isa.F16 || e.opt.Modern {
		s, zero := e.temp(bankS), e.temp(bankS)
		e.line("cvt.rn.%v.f32 %s, %s;", t, s, f)
		// Not by cvt.u32.u16: of what that gives, ptxas (12.8; not 13.5) loses an and, such as abs is, where prmt then
		// takes the low half.
		e.line("mov.b16 %s, 0;", zero)
		e.line("mov.b32 %s, {%s, %s};", d, s, zero)
		return
	}
	b, odd, p := e.temp(bankR), e.temp(bankR), e.temp(bankP)
	e.line("mov.b32 %s, %s;", b, f)
	e.line("bfe.u32 %s, %s, 16, 1;", odd, b)
	e.line("add.u32 %s, %s, 0x7fff;", b, b)
	e.line("add.u32 %s, %s, %s;", b, b, odd)
	e.line("shr.u32 %s, %s, 16;", b, b)
	e.line("setp.nan.f32 %s, %s, %s;", p, f, f)
	e.line("selp.b32 %s, 0x7fc0, %s, %s;", d, b, p)
}

// bitcast reinterprets bits. Where both types are kept in 32 bits, the result
// is extended anew.
func bitcast(e *emitter, f isa.Form, d string, a []string) bool {
	if f.Type.Size() != f.From.Size() || !f.Type.Numeric() || !f.From.Numeric() {
		return false
	}
	e.line("mov.%s %s, %s;", width(f.Type), d, a[0])
	if f.Type.Bits() < 32 && f.Type != f.From {
		if half(f.Type) {
			e.line("and.b32 %s, %s, 0xffff;", d, d)
		} else {
			e.wrap(f.Type, d)
		}
	}
	return true
}

// convert is CVT.
func convert(e *emitter, f isa.Form, d string, a []string) bool {
	to, from, x := f.Type, f.From, a[0]
	switch {
	case !to.Numeric() || !from.Numeric():
		return false
	case to == from:
		e.move(to, d, x)
	case to.Integer() && from.Integer():
		e.integers(to, from, d, x)
	case half(to):
		e.narrow(to, d, e.odd(from, x))
	case half(from) && to == isa.F32:
		e.move(to, d, e.widen(from, x))
	case half(from):
		return convert(e, isa.Form{Type: to, From: isa.F32}, d, []string{e.widen(from, x)})
	case to.Integer():
		e.truncate(to, from, d, x)
	case from == isa.F32:
		e.line("cvt.f64.f32 %s, %s;", d, x)
	default: // f64 to f32, and integers, which are exact or rounded once
		e.line("cvt.rn.%s.%s %s, %s;", suffix(to), suffix(from), d, x)
	}
	return true
}

// integers truncates or extends.
func (e *emitter) integers(to, from isa.Type, d, x string) {
	switch {
	case to.Size() == 4 && from.Signed() && from.Bits() < 32:
		// Nothing is to be done, and that it is seen to be done keeps ptxas (12.8 to 13.5) from making cvt.f32.u32 of the
		// result the conversion of the s8 or s16 that it was loaded as.
		e.line("prmt.b32 %s, %s, 0, %#x;", d, x, map[int]int{8: 0x8880, 16: 0x9910}[from.Bits()])
	case to.Size() == 8 && from.Size() == 8, to.Size() < 8 && from.Size() < 8:
		e.line("mov.%s %s, %s;", width(to), d, x)
	case to.Size() == 8:
		e.line("cvt.%s.%s %s, %s;", suffix(to), suffix(from), d, x)
	default:
		e.line("cvt.u32.u64 %s, %s;", d, x)
	}
	e.wrap(to, d)
}

// odd returns an f32 that rounds to 16 bits as the source itself would: the
// source toward zero, its last bit set if anything was lost. An f32 has more
// than two bits to spare, and its subnormals and its infinity lie beyond what
// the 16-bit types tell apart.
func (e *emitter) odd(from isa.Type, x string) string {
	switch {
	case from == isa.F32:
		return x
	case half(from):
		return e.widen(from, x)
	}
	f := e.temp(bankF)
	if from.Integer() && from.Bits() < 32 {
		e.line("cvt.rn.f32.%s %s, %s;", suffix(from), f, x)
		return f
	}
	e.line("cvt.rz.f32.%s %s, %s;", suffix(from), f, x)
	back, p, bits, set := e.temp(bankOf(from)), e.temp(bankP), e.temp(bankR), e.temp(bankR)
	if from == isa.F64 {
		e.line("cvt.f64.f32 %s, %s;", back, f)
	} else {
		e.line("cvt.rzi.%s.f32 %s, %s;", suffix(from), back, f)
	}
	e.line("setp.ne.%s %s, %s, %s;", suffix(from), p, back, x) // a NaN stays one
	e.line("mov.b32 %s, %s;", bits, f)
	e.line("or.b32 %s, %s, 1;", set, bits)
	e.line("selp.b32 %s, %s, %s, %s;", bits, set, bits, p)
	e.line("mov.b32 %s, %s;", f, bits)
	return f
}

// truncate converts f32 or f64 to an integer. The machine saturates by itself
// to 32 and 64 bits, and does not give 0 for every NaN.
func (e *emitter) truncate(to, from isa.Type, d, x string) {
	p := e.temp(bankP)
	e.line("cvt.rzi.%s.%s %s, %s;", suffix(to), suffix(from), d, x)
	if to.Bits() < 32 {
		high := to.Mask()
		if to.Signed() {
			high >>= 1
			e.line("max.s32 %s, %s, %d;", d, d, -int64(high)-1)
		}
		e.line("min.%s %s, %s, %d;", suffix(to), d, d, high)
	}
	e.line("setp.nan.%s %s, %s, %s;", suffix(from), p, x, x)
	e.line("selp.%s %s, 0, %s, %s;", width(to), d, d, p)
}
