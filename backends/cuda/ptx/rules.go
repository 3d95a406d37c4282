package ptx

import (
	"math"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// text says how a primitive is spelled where it is one instruction: for
// integers, for f32 and f64 (and for the 16-bit floats, between a widening and
// a rounding), for predicates. $t is the type, $w the width, $d the result, $a
// $b $c the sources. Wraps: the result of a narrow integer has to be cut to its
// width; an unsigned one alone if it is wrapsUnsigned.
type text struct {
	ints, floats, preds string
	wraps               wrapping
}

type wrapping uint8

const (
	fits wrapping = iota
	wraps
	wrapsUnsigned
)

var texts = map[isa.Op]text{
	isa.ADD:   {ints: "add.$t $d, $a, $b;", floats: "add.rn.$t $d, $a, $b;", wraps: wraps},
	isa.SUB:   {ints: "sub.$t $d, $a, $b;", floats: "sub.rn.$t $d, $a, $b;", wraps: wraps},
	isa.MUL:   {ints: "mul.lo.$t $d, $a, $b;", floats: "mul.rn.$t $d, $a, $b;", wraps: wraps},
	isa.MULHI: {ints: "mul.hi.$t $d, $a, $b;"},
	isa.FMA:   {floats: "fma.rn.$t $d, $a, $b, $c;"},
	isa.SQRT:  {floats: "sqrt.rn.$t $d, $a;"},
	isa.FLOOR: {floats: "cvt.rmi.$t.$t $d, $a;"},
	isa.CEIL:  {floats: "cvt.rpi.$t.$t $d, $a;"},
	isa.ROUND: {floats: "cvt.rni.$t.$t $d, $a;"},
	isa.TRUNC: {floats: "cvt.rzi.$t.$t $d, $a;"},
	isa.AND:   {ints: "and.$w $d, $a, $b;", preds: "and.pred $d, $a, $b;"},
	isa.OR:    {ints: "or.$w $d, $a, $b;", preds: "or.pred $d, $a, $b;"},
	isa.XOR:   {ints: "xor.$w $d, $a, $b;", preds: "xor.pred $d, $a, $b;"},
	isa.NOT:   {ints: "not.$w $d, $a;", preds: "not.pred $d, $a;", wraps: wrapsUnsigned},
}

// computeRule writes a primitive on registers; it reports whether it is one of
// the form. Nobody but compute calls it.
type computeRule func(e *emitter, f isa.Form, d string, a []string) bool

// computeRules are the primitives that take more than one instruction, or
// differ between types. Filled by init, since they call compute again.
var computeRules map[isa.Op]computeRule

// nodeRules are the instructions that need more than their operands' registers.
var nodeRules map[isa.Op]func(e *emitter, n *ir.Node)

func init() {
	computeRules = map[isa.Op]computeRule{
		isa.DIV: divide, isa.REM: remainder, isa.MIN: extremum(isa.MIN), isa.MAX: extremum(isa.MAX),
		isa.ABS: absolute, isa.NEG: negate, isa.SHL: shift(isa.SHL), isa.SHR: shift(isa.SHR),
		isa.POPC: count(isa.POPC), isa.CLZ: count(isa.CLZ), isa.CTZ: count(isa.CTZ),
		isa.SET: compare, isa.SEL: choose, isa.CVT: convert, isa.BITCAST: bitcast, isa.MOV: copyValue,
	}
	nodeRules = map[isa.Op]func(*emitter, *ir.Node){
		isa.DIV: checkedDivision, isa.REM: checkedDivision,
		isa.LDG: (*emitter).load, isa.LDS: (*emitter).load, isa.STG: (*emitter).store, isa.STS: (*emitter).store,
		isa.LDP: (*emitter).parameter, isa.LDC: (*emitter).table, isa.SREG: (*emitter).special,
		isa.BAR_SYNC: (*emitter).barrier, isa.MEM_FENCE: (*emitter).fence,
		isa.CLS_GET: (*emitter).blockClass, isa.UNITY_TEST: (*emitter).unity,
		isa.MIRROR: (*emitter).classTable, isa.NBR_COUNT: (*emitter).classTable, isa.NBR_GET: (*emitter).classTable,
		isa.BOUND_MAP: (*emitter).boundMap, isa.RES_ACCUM: (*emitter).residue,
		isa.PHASE_GET: (*emitter).phaseGet, isa.PHASE_ADV: (*emitter).phaseAdvance,
		isa.POOL_ALLOC: (*emitter).poolAlloc, isa.POOL_FREE: (*emitter).poolFree,
		isa.POOL_LOAD: (*emitter).poolLoad, isa.POOL_STORE: (*emitter).poolStore,
	}
	for op := range collectives {
		nodeRules[op] = (*emitter).collective
	}
	for op := range atomics {
		nodeRules[op] = (*emitter).atomic
	}
}

// compute writes a primitive that takes registers (or literals) and gives one,
// and reports whether it has a rule.
func (e *emitter) compute(op isa.Op, f isa.Form, d string, a ...string) bool {
	if half(f.Type) && op != isa.SEL && op != isa.CVT && op != isa.BITCAST && op != isa.ABS && op != isa.NEG && op != isa.MOV {
		return e.halfway(op, f, d, a)
	}
	if rule, ok := computeRules[op]; ok {
		return rule(e, f, d, a)
	}
	x, t := texts[op], f.Type
	if op == isa.SUB && t.Integer() && a[0] == "0" {
		minus(e, t, d, a[1])
		return true
	}
	for i := range 2 {
		if op == isa.MUL && t.Integer() && a[i][0] != '%' && cellOf(a[i])&t.Mask() == t.Mask() {
			minus(e, t, d, a[1-i])
			return true
		}
	}
	form := x.ints
	switch {
	case t == isa.Pred:
		form = x.preds
	case t.Float():
		form = x.floats
	}
	if form == "" {
		return false
	}
	e.spell(form, t, d, a)
	if x.wraps == wraps || x.wraps == wrapsUnsigned && t.Unsigned() {
		e.wrap(t, d)
	}
	return true
}

func (e *emitter) spell(form string, t isa.Type, d string, a []string) {
	r := []string{"$t", suffix(t), "$w", width(t), "$d", d}
	for i, name := range []string{"$a", "$b", "$c"} {
		if i < len(a) {
			r = append(r, name, a[i])
		}
	}
	e.line("%s", strings.NewReplacer(r...).Replace(form))
}

// halfway computes with 16-bit floats in f32, and rounds a float result once more.
func (e *emitter) halfway(op isa.Op, f isa.Form, d string, a []string) bool {
	wide := make([]string, len(a))
	for i, s := range a {
		wide[i] = e.widen(f.Type, s)
	}
	g := f
	g.Type = isa.F32
	if op == isa.SET {
		return e.compute(op, g, d, wide...)
	}
	t := e.temp(bankF)
	if !e.compute(op, g, t, wide...) {
		return false
	}
	e.narrow(f.Type, d, t)
	return true
}

// wrap cuts a register to a narrow integer type.
func (e *emitter) wrap(t isa.Type, r string) {
	switch {
	case !t.Integer() || t.Bits() >= 32:
	case t.Signed():
		// Not by bfe: ptxas (12.8 to 13.5) makes cvt.f32.u32 of one the conversion of an s8 or s16.
		e.line("cvt.s32.s%d %s, %s;", t.Bits(), r, r)
	default:
		e.line("and.b32 %s, %s, %#x;", r, r, t.Mask())
	}
}

func copyValue(e *emitter, f isa.Form, d string, a []string) bool {
	e.move(f.Type, d, a[0])
	return true
}

// divide is the division of floats, and of integers by a divisor that the
// caller has made safe.
func divide(e *emitter, f isa.Form, d string, a []string) bool {
	one := map[isa.Type]uint64{isa.F32: 0x3f800000, isa.F64: 0x3ff0000000000000}[f.Type]
	if one != 0 && a[0] == literal(f.Type, one) { // correctly rounded too, in fewer steps
		e.spell("rcp.rn.$t $d, $b;", f.Type, d, a)
	} else if f.Type.Float() {
		e.spell("div.rn.$t $d, $a, $b;", f.Type, d, a)
	} else {
		e.spell("div.$t $d, $a, $b;", f.Type, d, a)
		e.wrap(f.Type, d)
	}
	return f.Type.Numeric()
}

func remainder(e *emitter, f isa.Form, d string, a []string) bool {
	e.spell("rem.$t $d, $a, $b;", f.Type, d, a)
	return f.Type.Integer()
}

// checkedDivision is DIV and REM: a divisor of 0 gives 0 and is a fault, −1
// negates, which the machine's own division need not do to the smallest integer.
func checkedDivision(e *emitter, n *ir.Node) {
	op, t, d := n.Op.Inst(), n.Type, e.name(n.Result())
	a, b := e.arg(n.Args[0]), e.arg(n.Args[1])
	if t.Float() {
		if !e.compute(op, n.Form, d, a, b) {
			e.unsupported(op.String()+" "+t.String(), "there is no rule for it")
		}
		return
	}
	c, isConst := n.Args[1].Const()
	minusOne := t.Signed() && (!isConst || c == t.Mask())
	if isConst && c != 0 && !minusOne {
		e.compute(op, n.Form, d, a, b)
		return
	}
	zero, odd := e.temp(bankP), e.temp(bankP)
	e.line("setp.eq.%s %s, %s, 0;", suffix(t), zero, b)
	e.fault(n, isa.FaultDivide, zero)
	e.line("setp.eq.%s %s, %s, 0;", suffix(t), odd, b)
	if minusOne {
		e.line("setp.eq.or.%s %s, %s, -1, %s;", suffix(t), odd, b, odd)
	}
	safe, q := e.temp(bankOf(t)), e.temp(bankOf(t))
	e.line("selp.%s %s, 1, %s, %s;", width(t), safe, b, odd)
	e.compute(op, n.Form, q, a, safe)
	if minusOne && op == isa.DIV {
		negative := e.temp(bankOf(t))
		minus(e, t, negative, a)
		e.line("selp.%s %s, %s, %s, %s;", width(t), q, negative, q, odd)
	}
	e.line("selp.%s %s, 0, %s, %s;", width(t), d, q, zero)
}

// extremum is MIN or MAX. The machine's, of floats, drops a NaN; and of f64 it
// is a comparison, which does not tell the zeros apart.
func extremum(op isa.Op) computeRule {
	name, less, bits := "min", "lt", "or"
	if op == isa.MAX {
		name, less, bits = "max", "gt", "and"
	}
	return func(e *emitter, f isa.Form, d string, a []string) bool {
		t := f.Type
		switch {
		case t.Integer():
			e.spell(name+".$t $d, $a, $b;", t, d, a)
		case t == isa.F32 && e.opt.Modern:
			e.line("%s.NaN.f32 %s, %s, %s;", name, d, a[0], a[1])
		case t == isa.F32:
			x, p := e.temp(bankF), e.temp(bankP)
			e.line("%s.f32 %s, %s, %s;", name, x, a[0], a[1])
			e.line("setp.nan.f32 %s, %s, %s;", p, a[0], a[1])
			e.line("selp.f32 %s, %s, %s, %s;", d, literal(t, isa.CanonicalNaN(t)), x, p)
		case t == isa.F64 && certain(a[1]):
			p := e.temp(bankP)
			e.line("setp.%su.f64 %s, %s, %s;", less, p, a[0], a[1]) // or a NaN, which stays
			e.line("selp.f64 %s, %s, %s, %s;", d, a[0], a[1], p)
		case t == isa.F64 && certain(a[0]):
			return e.compute(op, f, d, a[1], a[0])
		case t == isa.F64:
			p, x := e.temp(bankP), e.temp(bankFD)
			e.line("setp.%s.f64 %s, %s, %s;", less, p, a[0], a[1])
			e.line("selp.f64 %s, %s, %s, %s;", x, a[0], a[1], p)
			e.comment("equal ones: their bits differ in the sign of a zero at most")
			i, j, k, both := e.temp(bankRD), e.temp(bankRD), e.temp(bankRD), e.temp(bankFD)
			e.line("mov.b64 %s, %s;", i, a[0])
			e.line("mov.b64 %s, %s;", j, a[1])
			e.line("%s.b64 %s, %s, %s;", bits, k, i, j)
			e.line("mov.b64 %s, %s;", both, k)
			e.line("setp.eq.f64 %s, %s, %s;", p, a[0], a[1])
			e.line("selp.f64 %s, %s, %s, %s;", x, both, x, p)
			e.line("setp.nan.f64 %s, %s, %s;", p, a[0], a[1])
			e.line("selp.f64 %s, %s, %s, %s;", d, literal(t, isa.CanonicalNaN(t)), x, p)
		default:
			return false
		}
		return true
	}
}

// certain reports whether s is the literal of an f64 that is neither zero nor NaN:
// what is neither below nor above it is its equal to the bit, or a NaN.
func certain(s string) bool {
	bits, err := strconv.ParseUint(strings.TrimPrefix(s, "0d"), 16, 64)
	v := math.Float64frombits(bits)
	return err == nil && strings.HasPrefix(s, "0d") && v != 0 && !math.IsNaN(v)
}

func absolute(e *emitter, f isa.Form, d string, a []string) bool {
	switch t := f.Type; {
	case half(t):
		e.line("and.b32 %s, %s, 0x7fff;", d, a[0])
	case t == isa.F32:
		// Not by abs: ptxas (12.8 to 13.5) takes |x| ≥ 0 and the like to hold of NaN too.
		bits := e.temp(bankR)
		e.line("mov.b32 %s, %s;", bits, e.register(t, a[0]))
		e.line("and.b32 %s, %s, 0x7fffffff;", bits, bits)
		e.line("mov.b32 %s, %s;", d, bits)
	case t.Float():
		e.spell("abs.$t $d, $a;", t, d, a)
	case t.Signed(): // ptxas takes abs to be positive, which that of the smallest integer isn't
		negative, p := e.temp(bankOf(t)), e.temp(bankP)
		minus(e, t, negative, a[0])
		e.line("setp.lt.%s %s, %s, 0;", suffix(t), p, a[0])
		e.line("selp.%s %s, %s, %s, %s;", width(t), d, negative, a[0], p)
		e.wrap(t, d)
	default:
		return false
	}
	return true
}

func negate(e *emitter, f isa.Form, d string, a []string) bool {
	switch t := f.Type; {
	case half(t):
		e.line("xor.b32 %s, %s, 0x8000;", d, a[0])
	case t.Float():
		e.spell("neg.$t $d, $a;", t, d, a)
	case t.Signed():
		minus(e, t, d, a[0])
	default:
		return false
	}
	return true
}

// minus is 0 − a of integers. Not by sub, nor by a product with −1: for sm_90 and later, ptxas up to 12.9
// and the driver's of 580 lose the sign of what they fold into a maximum or
// minimum of three: max(max(x, −y), y) becomes max(x, y, y). (13.5 doesn't.)
func minus(e *emitter, t isa.Type, d, a string) {
	if t.Size() == 8 {
		e.line("sub.%s %s, 0, %s;", suffix(t), d, a)
		return
	}
	e.line("not.b32 %s, %s;", d, a)
	e.line("add.s32 %s, %s, 1;", d, d)
	e.wrap(t, d)
}

// shift is SHL or SHR by an amount modulo the width.
func shift(op isa.Op) computeRule {
	return func(e *emitter, f isa.Form, d string, a []string) bool {
		t := f.Type
		if !t.Integer() {
			return false
		}
		by := e.temp(bankR)
		if a[1][0] != '%' {
			by = strconv.FormatUint(cellOf(a[1])%uint64(t.Bits()), 10)
		} else if t.Size() == 8 {
			e.line("cvt.u32.u64 %s, %s;", by, a[1])
			e.line("and.b32 %s, %s, 63;", by, by)
		} else {
			e.line("and.b32 %s, %s, %d;", by, a[1], t.Bits()-1)
		}
		if op == isa.SHL {
			e.line("shl.%s %s, %s, %s;", width(t), d, a[0], by)
			e.wrap(t, d)
		} else {
			e.line("shr.%s %s, %s, %s;", suffix(t), d, a[0], by)
		}
		return true
	}
}

// count is POPC, CLZ or CTZ.
func count(op isa.Op) computeRule {
	return func(e *emitter, f isa.Form, d string, a []string) bool {
		t, x := f.Type, a[0]
		if !t.Integer() {
			return false
		}
		if t.Bits() < 32 {
			x = e.temp(bankR)
			if op == isa.CTZ { // a bit above ends the search
				e.line("or.b32 %s, %s, %#x;", x, a[0], t.Mask()+1)
			} else {
				e.line("and.b32 %s, %s, %#x;", x, a[0], t.Mask())
			}
		}
		if op == isa.CTZ {
			y := e.temp(bankOf(t))
			e.line("brev.%s %s, %s;", width(t), y, x)
			x = y
		}
		c := d
		if t.Size() == 8 {
			c = e.temp(bankR)
		}
		name := "clz"
		if op == isa.POPC {
			name = "popc"
		}
		e.line("%s.%s %s, %s;", name, width(t), c, x)
		switch {
		case t.Size() == 8:
			e.line("cvt.u64.u32 %s, %s;", d, c)
		case op == isa.CLZ && t.Bits() < 32:
			e.line("sub.u32 %s, %s, %d;", d, d, 32-t.Bits())
		}
		return true
	}
}

func compare(e *emitter, f isa.Form, d string, a []string) bool {
	if !f.Type.Numeric() {
		return false
	}
	cond := f.Cond.Signed().String()
	if f.Cond == isa.NE && f.Type.Float() {
		cond = "neu" // holds with a NaN
	}
	e.line("setp.%s.%s %s, %s, %s;", cond, suffix(f.Type), d, a[0], a[1])
	return true
}

func choose(e *emitter, f isa.Form, d string, a []string) bool {
	if !f.Type.Numeric() {
		return false
	}
	e.line("selp.%s %s, %s, %s, %s;", banks[bankOf(f.Type)].typ, d, a[1], a[2], a[0])
	return true
}
