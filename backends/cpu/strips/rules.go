package strips

import (
	"github.com/hologram-project/hologram/isa"
)

// The tables that say which loop computes which primitive, by type. A 16-bit
// float has the entries of f32, between a widening and a narrowing; ABS, NEG
// and SEL, which work on bits, those of u16.
type (
	table1 [isa.Pred + 1]loop1
	table2 [isa.Pred + 1]loop2
)

func floats1(f32, f64 loop1) (t table1) {
	t[isa.F16], t[isa.BF16], t[isa.F32], t[isa.F64] = f32, f32, f32, f64
	return t
}

func floats2(t table2, f32, f64 loop2) table2 {
	t[isa.F16], t[isa.BF16], t[isa.F32], t[isa.F64] = f32, f32, f32, f64
	return t
}

func bits1(l8, l16, l32, l64, pred loop1) (t table1) {
	t[isa.I8], t[isa.I16], t[isa.I32], t[isa.I64] = l8, l16, l32, l64
	t[isa.U8], t[isa.U16], t[isa.U32], t[isa.U64] = l8, l16, l32, l64
	t[isa.Pred] = pred
	return t
}

func bits2(l8, l16, l32, l64, pred loop2) (t table2) {
	t[isa.I8], t[isa.I16], t[isa.I32], t[isa.I64] = l8, l16, l32, l64
	t[isa.U8], t[isa.U16], t[isa.U32], t[isa.U64] = l8, l16, l32, l64
	t[isa.Pred] = pred
	return t
}

func ints2(i8, i16, i32, i64, u8, u16, u32, u64 loop2) (t table2) {
	t[isa.I8], t[isa.I16], t[isa.I32], t[isa.I64] = i8, i16, i32, i64
	t[isa.U8], t[isa.U16], t[isa.U32], t[isa.U64] = u8, u16, u32, u64
	return t
}

func signs1(i8, i16, i32, i64, f16, f32, f64 loop1) (t table1) {
	t[isa.I8], t[isa.I16], t[isa.I32], t[isa.I64] = i8, i16, i32, i64
	t[isa.F16], t[isa.BF16], t[isa.F32], t[isa.F64] = f16, f16, f32, f64
	return t
}

var unaries = map[isa.Op]table1{
	isa.ABS: signs1(absInt[int8], absInt[int16], absInt[int32], absInt[int64],
		absBits[uint16], absBits[uint32], absBits[uint64]),
	isa.NEG: signs1(negInt[int8], negInt[int16], negInt[int32], negInt[int64],
		negBits[uint16], negBits[uint32], negBits[uint64]),
	isa.SQRT:  floats1(sqrt[float32], sqrt[float64]),
	isa.FLOOR: floats1(floor[float32], floor[float64]),
	isa.CEIL:  floats1(ceil[float32], ceil[float64]),
	isa.ROUND: floats1(round[float32], round[float64]),
	isa.TRUNC: floats1(trunc[float32], trunc[float64]),
	isa.NOT:   bits1(not[uint8], not[uint16], not[uint32], not[uint64], notPred),
	isa.POPC:  bits1(popc[uint8], popc[uint16], popc[uint32], popc[uint64], nil),
	isa.CLZ:   bits1(clz[uint8], clz[uint16], clz[uint32], clz[uint64], nil),
	isa.CTZ:   bits1(ctz[uint8], ctz[uint16], ctz[uint32], ctz[uint64], nil),
}

var binaries = map[isa.Op]table2{
	isa.ADD: floats2(bits2(add[uint8], add[uint16], add[uint32], add[uint64], nil), addF32, add[float64]),
	isa.SUB: floats2(bits2(sub[uint8], sub[uint16], sub[uint32], sub[uint64], nil), subF32, sub[float64]),
	isa.MUL: floats2(bits2(mul[uint8], mul[uint16], mul[uint32], mul[uint64], nil), mulF32, mul[float64]),
	isa.DIV: floats2(ints2(divInt[int8], divInt[int16], divInt[int32], divInt[int64],
		divInt[uint8], divInt[uint16], divInt[uint32], divInt[uint64]), divF32, divFloat[float64]),
	isa.REM: ints2(remInt[int8], remInt[int16], remInt[int32], remInt[int64],
		remInt[uint8], remInt[uint16], remInt[uint32], remInt[uint64]),
	isa.MIN: floats2(ints2(minimum[int8], minimum[int16], minimum[int32], minimum[int64],
		minimum[uint8], minimum[uint16], minimum[uint32], minimum[uint64]), minF32, minimum[float64]),
	isa.MAX: floats2(ints2(maximum[int8], maximum[int16], maximum[int32], maximum[int64],
		maximum[uint8], maximum[uint16], maximum[uint32], maximum[uint64]), maxF32, maximum[float64]),
	isa.MULHI: ints2(nil, nil, mulHiSigned32, mulHiSigned64, nil, nil, mulHiUnsigned32, mulHiUnsigned64),
	isa.AND:   bits2(and[uint8], and[uint16], and[uint32], and[uint64], and[uint8]),
	isa.OR:    bits2(or[uint8], or[uint16], or[uint32], or[uint64], or[uint8]),
	isa.XOR:   bits2(xor[uint8], xor[uint16], xor[uint32], xor[uint64], xor[uint8]),
	isa.SHL:   bits2(shl[uint8], shl[uint16], shl[uint32], shl[uint64], nil),
	isa.SHR: ints2(shr[int8], shr[int16], shr[int32], shr[int64],
		shr[uint8], shr[uint16], shr[uint32], shr[uint64]),
}

// comparisons has those that the others turn into by exchanging operands.
var comparisons = map[isa.Cond]table2{
	isa.EQ: floats2(bits2(setEQ[uint8], setEQ[uint16], setEQ[uint32], setEQ[uint64], nil), setEQ[float32], setEQ[float64]),
	isa.NE: floats2(bits2(setNE[uint8], setNE[uint16], setNE[uint32], setNE[uint64], nil), setNE[float32], setNE[float64]),
	isa.LT: floats2(ints2(setLT[int8], setLT[int16], setLT[int32], setLT[int64],
		setLT[uint8], setLT[uint16], setLT[uint32], setLT[uint64]), setLT[float32], setLT[float64]),
	isa.LE: floats2(ints2(setLE[int8], setLE[int16], setLE[int32], setLE[int64],
		setLE[uint8], setLE[uint16], setLE[uint32], setLE[uint64]), setLE[float32], setLE[float64]),
}

var selLoops = map[int]loop3{1: sel[uint8], 2: sel[uint16], 4: sel[uint32], 8: sel[uint64]}

// linRules are for those primitives of integers that index arithmetic is made of.
var linRules = map[isa.Op]linRule{
	isa.ADD: linAdd, isa.SUB: linSub, isa.MUL: linMul, isa.DIV: linDiv, isa.REM: linRem,
	isa.SHL: linShl, isa.SHR: linShr, isa.AND: linAnd, isa.MIN: linMin, isa.MAX: linMax,
}

// half is how a 16-bit float becomes a float32 and back.
type half struct{ widen, narrow loop1 }

var halves = map[isa.Type]half{
	isa.F16:  {widenF16, narrowF16},
	isa.BF16: {widenBF16, narrowBF16},
}

// primitive returns the step for a primitive without memory or control, bare
// of registers and sites, or nil if there is none. The step's operands are
// the node's, in order.
func primitive(op isa.Op, form isa.Form) *step {
	t := form.Type
	s := &step{typ: t, loops: &loops{each: true}}
	h := halves[t]
	s.widen, s.narrow = h.widen, h.narrow
	isHalf := h.widen != nil
	switch op {
	case isa.ABS, isa.NEG: // on bits
		isHalf, s.widen, s.narrow = false, nil, nil
	case isa.FMA:
		s.run = runTernary
		switch {
		case isHalf:
			s.run, s.l3 = runHalf, fmaF32Lanes
		case t == isa.F32:
			s.l3, s.l3a, s.l3c = fmaF32Lanes, fmaF32A, fmaF32C
		case t == isa.F64:
			s.l3 = fmaF64Lanes
		}
		return s.orNil(s.l3 != nil)
	case isa.SET:
		return comparison(s, form, isHalf)
	case isa.SEL:
		s.run, s.l3 = runSel, selLoops[t.Size()]
		return s.orNil(t.Numeric())
	case isa.CVT:
		return conversion(s, form)
	case isa.DIV, isa.REM:
		if t.Integer() {
			s.run, s.l2, s.lin = runDiv, binaries[op][t], linRules[op]
			return s.orNil(s.l2 != nil)
		}
	case isa.MIRROR, isa.NBR_COUNT, isa.NBR_GET:
		s.run = runClassTable
		return s
	case isa.BOUND_MAP:
		s.run = runBoundMap
		return s
	}
	s.l1, s.l2 = unaries[op][t], binaries[op][t]
	s.run = runBinary
	switch {
	case isHalf:
		s.run = runHalf
	case s.l1 != nil:
		s.run = runUnary
	}
	if t.Integer() {
		s.lin = linRules[op]
	}
	return s.orNil(s.l1 != nil || s.l2 != nil)
}

func comparison(s *step, form isa.Form, isHalf bool) *step {
	s.cond = form.Cond.Signed()
	switch s.cond {
	case isa.GT:
		s.cond, s.exchange = isa.LT, true
	case isa.GE:
		s.cond, s.exchange = isa.LE, true
	}
	s.l2 = comparisons[s.cond][form.Type]
	s.run, s.narrow = runSet, nil
	if isHalf {
		s.run = runHalf
	}
	return s.orNil(s.l2 != nil)
}

// conversion finds the loop for CVT. From a 16-bit float it goes by way of
// float32, which holds every value of both formats.
func conversion(s *step, form isa.Form) *step {
	to, from := form.Type, form.From
	s.from = from
	s.run, s.widen, s.narrow = runCvt, nil, nil
	h, isHalf := halves[from]
	switch {
	case isHalf && to == isa.F32:
		s.l1 = h.widen
	case isHalf:
		s.run, s.widen, s.l1 = runHalf, h.widen, cvtLoops[to][isa.F32]
	case to.Numeric() && from.Numeric():
		s.l1 = cvtLoops[to][from]
	}
	return s.orNil(s.l1 != nil)
}

// sameBits reports whether a conversion changes no bit of any value, so that
// its result can share its operand's register. A conversion of a float to its
// own type counts: it may keep the bits of a NaN.
func sameBits(op isa.Op, form isa.Form) bool {
	t, from := form.Type, form.From
	switch op {
	case isa.BITCAST:
		return true
	case isa.CVT:
		return t == from || t.Integer() && from.Integer() && t.Size() == from.Size()
	}
	return false
}

func (s *step) orNil(ok bool) *step {
	if !ok {
		return nil
	}
	return s
}
