package isa

import (
	"math"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hologram-project/hologram/isa/graph"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// The oracles here share nothing with the evaluators: exact rationals and
// integers of math/big, rounded by big.Rat's own Float32 and Float64 or, for
// the 16-bit types, by a search through all their values.

// edges holds the cells of each type that are most often got wrong.
func edges(t Type) []uint64 {
	if t.Float() {
		one := uint64(bias(t)) << t.MantissaBits()
		top, min := infinity(t), uint64(1)<<t.MantissaBits()
		pos := []uint64{0, 1, 2, 3, min - 1, min, min + 1, one - 1, one, one + 1, one + min, one + min/2, one - min,
			one + min*5 + 3, top / 2, top - 1, top - min, top, CanonicalNaN(t), top + 1}
		for _, p := range pos[:len(pos):len(pos)] {
			pos = append(pos, p|signBit(t))
		}
		return pos
	}
	m, top := t.Mask(), signBit(t)
	return []uint64{0, 1, 2, 3, 7, 8, 31, 33, m, m - 1, top, top - 1, top + 1, m / 3, 0x55 & m}
}

func randomCell(r *rand.Rand, t Type) uint64 {
	switch r.IntN(8) {
	case 0:
		return edges(t)[r.IntN(len(edges(t)))]
	case 1: // few bits, so that ties and exact results happen
		return (r.Uint64() & r.Uint64() & r.Uint64()) & t.Mask()
	}
	return r.Uint64() & t.Mask()
}

// exact returns a finite float or an integer as a rational.
func exact(t Type, a uint64) *big.Rat {
	switch {
	case t == F64:
		return new(big.Rat).SetFloat64(math.Float64frombits(a))
	case t == F32:
		return new(big.Rat).SetFloat64(float64(math.Float32frombits(uint32(a))))
	case t == BF16:
		return new(big.Rat).SetFloat64(float64(math.Float32frombits(uint32(a) << 16)))
	case t == F16:
		m, e := float64(a&0x3ff), int(a>>10&31)
		if e > 0 {
			m += 0x400
		}
		x := math.Ldexp(m, max(e, 1)-25)
		if a&0x8000 != 0 {
			x = -x
		}
		return new(big.Rat).SetFloat64(x)
	case t.Signed() && a&signBit(t) != 0:
		v := new(big.Int).SetUint64(a)
		return new(big.Rat).SetInt(v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(t.Bits()))))
	}
	return new(big.Rat).SetInt(new(big.Int).SetUint64(a))
}

// steps holds the non-negative finite values of the 16-bit types, in order.
var steps = map[Type]func() []*big.Rat{F16: stepsOf(F16), BF16: stepsOf(BF16)}

func stepsOf(t Type) func() []*big.Rat {
	return sync.OnceValue(func() (v []*big.Rat) {
		for a := range infinity(t) {
			v = append(v, exact(t, a))
		}
		return v
	})
}

// nearestCell rounds a rational to a float type; neg is the sign of a zero.
func nearestCell(t Type, x *big.Rat, neg bool) uint64 {
	if x.Sign() != 0 {
		neg = x.Sign() < 0
	}
	x = new(big.Rat).Abs(x)
	var cell uint64
	switch t {
	case F64:
		f, _ := x.Float64()
		cell = math.Float64bits(f)
	case F32:
		f, _ := x.Float32()
		cell = uint64(math.Float32bits(f))
	default: // binary search for the last value ≤ x, counting ∞ as one step above the largest
		lo, hi := uint64(0), infinity(t)
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; steps[t]()[mid].Cmp(x) <= 0 {
				lo = mid
			} else {
				hi = mid
			}
		}
		mid := new(big.Rat).Add(exact(t, lo), exact(t, lo))
		if lo+1 == infinity(t) {
			mid.Sub(mid, exact(t, lo-1)).Add(mid, exact(t, lo))
		} else {
			mid.Sub(mid, exact(t, lo)).Add(mid, exact(t, lo+1))
		}
		mid.Mul(mid, big.NewRat(1, 2))
		cell = lo
		if c := x.Cmp(mid); c > 0 || c == 0 && lo&1 == 1 {
			cell = lo + 1
		}
	}
	if neg {
		cell |= signBit(t)
	}
	return cell
}

func finite(t Type, a uint64) bool { return !t.Float() || a&^signBit(t) < infinity(t) }

func pairs(r *rand.Rand, t Type, n int, f func(a, b uint64)) {
	for _, a := range edges(t) {
		for _, b := range edges(t) {
			f(a, b)
		}
	}
	for range brief.Or(n, n/10) {
		f(randomCell(r, t), randomCell(r, t))
	}
}

var floatTypes = SetFloat.List()

func TestFloatArithmetic(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(1, 2))
	ops := []struct {
		op  Op
		rat func(z, x, y *big.Rat) *big.Rat
		f64 func(x, y float64) float64 // for infinities, NaN and the signs of zeros
	}{
		{ADD, (*big.Rat).Add, func(x, y float64) float64 { return x + y }},
		{SUB, (*big.Rat).Sub, func(x, y float64) float64 { return x - y }},
		{MUL, (*big.Rat).Mul, func(x, y float64) float64 { return x * y }},
		{DIV, (*big.Rat).Quo, func(x, y float64) float64 { return x / y }},
	}
	for _, ty := range floatTypes {
		for _, o := range ops {
			pairs(r, ty, 6000, func(a, b uint64) {
				var want uint64
				zero := b&^signBit(ty) == 0
				if special := !finite(ty, a) || !finite(ty, b) || o.op == DIV && zero; special {
					s := o.f64(toF64(ty, a), toF64(ty, b))
					switch {
					case s != s:
						want = CanonicalNaN(ty)
					case math.IsInf(s, 0):
						want = infinity(ty)
						fallthrough
					default:
						if math.Signbit(s) {
							want |= signBit(ty)
						}
					}
				} else {
					neg := math.Signbit(o.f64(toF64(ty, a), toF64(ty, b)))
					want = nearestCell(ty, o.rat(new(big.Rat), exact(ty, a), exact(ty, b)), neg)
				}
				got, fault := table[o.op].Eval(Form{Type: ty}, a, b, 0)
				if got != want || fault != NoFault {
					t.Fatalf("%v.%v(%#x, %#x) = %#x, %v, want %#x", o.op, ty, a, b, got, fault, want)
				}
			})
		}
	}
}

// toF64 widens for the signs and specials that big.Rat has not.
func toF64(t Type, a uint64) float64 {
	switch {
	case isNaN(t, a):
		return math.NaN()
	case !finite(t, a):
		return math.Inf(1 - 2*int(a/signBit(t)))
	}
	x, _ := exact(t, a).Float64()
	return math.Copysign(x, float64(1-2*int(a/signBit(t))))
}

// TestSixteenBitIsF32RoundedAgain holds SEMANTICS' wording against the hardware's f32.
func TestSixteenBitIsF32RoundedAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, ty := range []Type{F16, BF16} {
		pairs(r, ty, 4000, func(a, b uint64) {
			x, y := float32(toF64(ty, a)), float32(toF64(ty, b))
			for op, z := range map[Op]float32{ADD: x + y, SUB: x - y, MUL: x * y, DIV: x / y, SQRT: float32(math.Sqrt(float64(x)))} {
				if z != z || math.IsInf(float64(z), 0) {
					continue
				}
				want := nearestCell(ty, exact(F32, uint64(math.Float32bits(z))), math.Signbit(float64(z)))
				if got, _ := table[op].Eval(Form{Type: ty}, a, b, 0); got != want {
					t.Fatalf("%v.%v(%#x, %#x) = %#x, want %#x", op, ty, a, b, got, want)
				}
			}
		})
	}
}

func TestFma(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(5, 6))
	twice := 0 // cases in which rounding twice would have been wrong
	check := func(ty Type, a, b, c uint64) {
		t.Helper()
		got, _ := evalFma(Form{Type: ty}, a, b, c)
		x, y, z := toF64(ty, a), toF64(ty, b), toF64(ty, c)
		h := math.FMA(x, y, z) // right for infinities, NaN and the sign of zero
		want := CanonicalNaN(ty)
		if finite(ty, a) && finite(ty, b) && finite(ty, c) {
			sum := new(big.Rat).Mul(exact(ty, a), exact(ty, b))
			sum.Add(sum, exact(ty, c))
			neg := math.Signbit(h)
			if ty == F16 || ty == BF16 {
				want = nearestCell(F32, sum, neg)
				if !finite(F32, want) {
					want = want>>31<<15 | infinity(ty)
				} else {
					want = nearestCell(ty, exact(F32, want), want>>31 == 1)
				}
			} else {
				want = nearestCell(ty, sum, neg)
			}
			if ty == F32 && uint64(math.Float32bits(float32(h))) != want {
				twice++
			}
		} else if h == h {
			want = nearestCell(ty, new(big.Rat), h < 0) | infinity(ty)
		}
		if got != want {
			t.Fatalf("FMA.%v(%#x, %#x, %#x) = %#x, want %#x", ty, a, b, c, got, want)
		}
	}
	for _, ty := range floatTypes {
		e := edges(ty)
		for _, a := range e {
			for _, b := range e {
				check(ty, a, b, e[r.IntN(len(e))])
				check(ty, a, b, randomCell(r, ty))
			}
		}
		for range brief.Or(6000, 600) {
			check(ty, randomCell(r, ty), randomCell(r, ty), randomCell(r, ty))
		}
	}
	// Products just beside half a unit of c, and every distance of exponents.
	f32 := func(x float64) uint64 { return uint64(math.Float32bits(float32(x))) }
	for range brief.Or(40000, 4000) {
		c := math.Ldexp(1+float64(r.Uint64()>>41)/(1<<23), r.IntN(270)-140)
		k, j := r.IntN(12)+12, float64(2*r.IntN(4)+1) // a·b = 1 − j²·2^(−2k): beyond what f64 keeps of the sum
		a, b := 1+math.Ldexp(j, -k), 1-math.Ldexp(j, -k)
		if r.IntN(4) == 0 {
			a, c = -a, c*math.Ldexp(1, -r.IntN(60))
		}
		_, exp := math.Frexp(c)
		half := exp - 25 + r.IntN(2) // half a unit in c's last place, or a whole one
		check(F32, f32(a), f32(math.Ldexp(b, half)), f32(c))
	}
	if twice < brief.Or(1000, 400) {
		t.Errorf("only %d cases tell one rounding from two", twice)
	}
}

func TestSqrt(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(7, 8))
	check := func(ty Type, a uint64) {
		got, _ := evalSqrt(Form{Type: ty}, a, 0, 0)
		var want uint64
		switch {
		case a&^signBit(ty) == 0 || a == infinity(ty):
			want = a
		case isNaN(ty, a) || a&signBit(ty) != 0:
			want = CanonicalNaN(ty)
		default: // the root of a number with p digits is no tie of p+1 digits, so 200 bits decide
			x := new(big.Float).SetPrec(200).SetRat(exact(ty, a))
			root, _ := x.Sqrt(x).Rat(nil)
			want = nearestCell(ty, root, false)
		}
		if got != want {
			t.Fatalf("SQRT.%v(%#x) = %#x, want %#x", ty, a, got, want)
		}
	}
	for _, ty := range floatTypes {
		for _, a := range edges(ty) {
			check(ty, a)
		}
		for range brief.Or(3000, 300) {
			check(ty, randomCell(r, ty)&^signBit(ty))
		}
	}
	for a := uint64(0); a < 1<<15; a += uint64(brief.Or(1, 11)) {
		check(F16, a)
		check(BF16, a)
	}
}

func TestRoundToIntegral(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(9, 10))
	check := func(ty Type, a uint64) {
		x := toF64(ty, a)
		want := map[Op]float64{FLOOR: x, CEIL: x, ROUND: x, TRUNC: x}
		if math.Abs(x) < 1<<60 {
			n := int64(x) // toward zero, like frac exact
			frac := x - float64(n)
			floor, ceil, even := n, n, n
			if frac < 0 {
				floor--
			}
			if frac > 0 {
				ceil++
			}
			if frac > 0.5 || frac == 0.5 && n%2 != 0 {
				even++
			}
			if frac < -0.5 || frac == -0.5 && n%2 != 0 {
				even--
			}
			want = map[Op]float64{FLOOR: float64(floor), CEIL: float64(ceil), ROUND: float64(even), TRUNC: float64(n)}
		}
		for op, w := range want {
			got, _ := table[op].Eval(Form{Type: ty}, a, 0, 0)
			g := toF64(ty, got)
			if x != x && got != CanonicalNaN(ty) || x == x && (g != w || math.Signbit(g) != math.Signbit(x)) {
				t.Fatalf("%v.%v(%#x) = %#x, want %v", op, ty, a, got, w)
			}
		}
	}
	for a := uint64(0); a < 1<<16; a += uint64(brief.Or(1, 11)) {
		check(F16, a)
		check(BF16, a)
	}
	for _, ty := range []Type{F32, F64} {
		for _, a := range edges(ty) {
			check(ty, a)
		}
		for range brief.Or(20000, 2000) { // exponents around the last integral digit
			e := uint64(bias(ty)+r.IntN(ty.MantissaBits()+6)-3) << ty.MantissaBits()
			check(ty, e|r.Uint64()&(1<<ty.MantissaBits()-1)&^(r.Uint64()>>r.IntN(64))|r.Uint64()&signBit(ty))
		}
	}
}

func TestFloatRemainder(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, ty := range floatTypes {
		pairs(r, ty, 3000, func(a, b uint64) {
			got, fault := evalRem(Form{Type: ty}, a, b, 0)
			want := CanonicalNaN(ty)
			if finite(ty, a) && !isNaN(ty, b) && b&^signBit(ty) != 0 {
				want = a
				if finite(ty, b) {
					x, y := exact(ty, a), exact(ty, b)
					q := new(big.Rat).Quo(x, y)
					n := new(big.Rat).SetInt(new(big.Int).Quo(q.Num(), q.Denom()))
					want = nearestCell(ty, x.Sub(x, n.Mul(n, y)), a&signBit(ty) != 0)
				}
			}
			if got != want || fault != NoFault {
				t.Fatalf("REM.%v(%#x, %#x) = %#x, want %#x", ty, a, b, got, want)
			}
		})
	}
}

func TestCvt(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(13, 14))
	check := func(to, from Type, a uint64) {
		got, fault := evalCvt(Form{Type: to, From: from}, a, 0, 0)
		neg := from.Float() && a&signBit(from) != 0
		var want uint64
		switch {
		case isNaN(from, a) && to.Float():
			want = CanonicalNaN(to)
		case isNaN(from, a):
			want = 0
		case to.Float() && finite(from, a):
			want = nearestCell(to, exact(from, a), neg)
		case to.Float():
			want = infinity(to)
			if neg {
				want |= signBit(to)
			}
		default:
			var n *big.Int
			if !finite(from, a) {
				n = new(big.Int).Lsh(big.NewInt(1), 100)
				if neg {
					n.Neg(n)
				}
			} else {
				x := exact(from, a)
				n = new(big.Int).Quo(x.Num(), x.Denom())
			}
			lo, hi := big.NewInt(0), new(big.Int).SetUint64(to.Mask())
			if to.Signed() {
				hi.SetUint64(to.Mask() >> 1)
				lo.Not(hi)
			}
			if from.Float() && n.Cmp(lo) < 0 {
				n = lo
			} else if from.Float() && n.Cmp(hi) > 0 {
				n = hi
			}
			want = new(big.Int).And(n, new(big.Int).SetUint64(to.Mask())).Uint64() // two's complement
		}
		if got != want || fault != NoFault {
			t.Fatalf("CVT.%v.%v(%#x) = %#x, want %#x", to, from, a, got, want)
		}
	}
	for _, from := range NumericTypes {
		for _, to := range NumericTypes {
			for _, a := range edges(from) {
				check(to, from, a)
			}
			for range brief.Or(3000, 300) {
				check(to, from, randomCell(r, from))
			}
			if from.Float() { // about the result's range, with ties and their neighbours
				span := to.Bits() + 4
				if to.Float() {
					span = min(2*(bias(to)+to.MantissaBits()+3), 1<<from.ExponentBits()-2)
				}
				for range brief.Or(3000, 300) {
					e := uint64(max(1, bias(from)-span/2+r.IntN(span))) << from.MantissaBits()
					m := r.Uint64() &^ (r.Uint64() >> r.IntN(64)) & (1<<from.MantissaBits() - 1)
					check(to, from, min(e, infinity(from)-1)&^(1<<from.MantissaBits()-1)|m|r.Uint64()&signBit(from))
				}
			}
			if from == F16 || from == BF16 {
				for a := uint64(0); a < 1<<16; a += uint64(brief.Or(7, 71)) {
					check(to, from, a)
				}
			}
		}
	}
}

func TestMinMaxSet(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, ty := range NumericTypes {
		pairs(r, ty, 3000, func(a, b uint64) {
			f := Form{Type: ty}
			mn, _ := evalMin(f, a, b, 0)
			mx, _ := evalMax(f, a, b, 0)
			nan := isNaN(ty, a) || isNaN(ty, b)
			cmp := 0
			if nan {
				if mn != CanonicalNaN(ty) || mx != CanonicalNaN(ty) {
					t.Fatalf("MIN, MAX.%v(%#x, %#x) = %#x, %#x, want NaN", ty, a, b, mn, mx)
				}
			} else {
				if ty.Float() {
					x, y := toF64(ty, a), toF64(ty, b)
					if x < y {
						cmp = -1
					} else if x > y {
						cmp = 1
					}
				} else {
					cmp = exact(ty, a).Cmp(exact(ty, b))
				}
				lo, hi := a, b
				if cmp > 0 || cmp == 0 && a < b { // equal but other bits: zeros, of which −0 has the greater bits
					lo, hi = b, a
				}
				if mn != lo || mx != hi {
					t.Fatalf("MIN, MAX.%v(%#x, %#x) = %#x, %#x, want %#x, %#x", ty, a, b, mn, mx, lo, hi)
				}
			}
			want := map[Cond]bool{EQ: cmp == 0, NE: cmp != 0, LT: cmp < 0, LE: cmp <= 0, GT: cmp > 0, GE: cmp >= 0,
				LTU: cmp < 0, LEU: cmp <= 0, GTU: cmp > 0, GEU: cmp >= 0}
			for c, w := range want {
				if c.UnsignedOnly() && !ty.Unsigned() {
					continue
				}
				if nan {
					w = c == NE
				}
				if got, _ := evalSet(Form{Type: ty, Cond: c}, a, b, 0); got == 1 != w || got > 1 {
					t.Fatalf("SET.%v.%v(%#x, %#x) = %d, want %v", c, ty, a, b, got, w)
				}
			}
		})
	}
}

func TestIntegers(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(17, 18))
	for _, ty := range SetInt.List() {
		w := uint(ty.Bits())
		num := func(a uint64) *big.Int { return exact(ty, a).Num() }
		shift := func(b uint64) uint { return uint(b) % w }
		ops := map[Op]func(a, b uint64) *big.Int{
			ADD: func(a, b uint64) *big.Int { return new(big.Int).Add(num(a), num(b)) },
			SUB: func(a, b uint64) *big.Int { return new(big.Int).Sub(num(a), num(b)) },
			MUL: func(a, b uint64) *big.Int { return new(big.Int).Mul(num(a), num(b)) },
			DIV: func(a, b uint64) *big.Int { return new(big.Int).Quo(num(a), num(b)) },
			REM: func(a, b uint64) *big.Int { return new(big.Int).Rem(num(a), num(b)) },
			AND: func(a, b uint64) *big.Int { return new(big.Int).And(num(a), num(b)) },
			OR:  func(a, b uint64) *big.Int { return new(big.Int).Or(num(a), num(b)) },
			XOR: func(a, b uint64) *big.Int { return new(big.Int).Xor(num(a), num(b)) },
			NOT: func(a, _ uint64) *big.Int { return new(big.Int).Not(num(a)) },
			SHL: func(a, b uint64) *big.Int { return new(big.Int).Lsh(num(a), shift(b)) },
			SHR: func(a, b uint64) *big.Int { return new(big.Int).Rsh(num(a), shift(b)) },
			MULHI: func(a, b uint64) *big.Int {
				return new(big.Int).Rsh(new(big.Int).Mul(num(a), num(b)), w)
			},
			MAD: func(a, b uint64) *big.Int {
				return new(big.Int).Add(new(big.Int).Mul(num(a), num(b)), num(a^b))
			},
			NEG: func(a, _ uint64) *big.Int { return new(big.Int).Neg(num(a)) },
			ABS: func(a, _ uint64) *big.Int { return new(big.Int).Abs(num(a)) },
			POPC: func(a, _ uint64) *big.Int {
				n := int64(0)
				for i := range w {
					n += int64(a >> i & 1)
				}
				return big.NewInt(n)
			},
			CLZ: func(a, _ uint64) *big.Int { return big.NewInt(int64(w) - int64(new(big.Int).SetUint64(a).BitLen())) },
			CTZ: func(a, _ uint64) *big.Int {
				n := int64(0)
				for n < int64(w) && a>>n&1 == 0 {
					n++
				}
				return big.NewInt(n)
			},
		}
		for op, oracle := range ops {
			if !table[op].Types.Has(ty) {
				continue
			}
			check := func(a, b uint64) {
				got, fault := table[op].Eval(Form{Type: ty}, a, b, a^b)
				if (op == DIV || op == REM) && b == 0 {
					if got != 0 || fault != FaultDivide {
						t.Fatalf("%v.%v(%#x, 0) = %#x, %v, want 0 and a fault", op, ty, a, got, fault)
					}
					return
				}
				want := new(big.Int).And(oracle(a, b), new(big.Int).SetUint64(ty.Mask())).Uint64()
				if got != want || fault != NoFault {
					t.Fatalf("%v.%v(%#x, %#x) = %#x, %v, want %#x", op, ty, a, b, got, fault, want)
				}
			}
			n := 2000
			if w == 8 {
				n = 0
				for a := uint64(0); a < 256; a += uint64(brief.Or(1, 7)) {
					for b := range uint64(256) {
						check(a, b)
					}
				}
			}
			pairs(r, ty, n, check)
		}
	}
}

func TestFloatSignsAndMad(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, ty := range floatTypes {
		f := Form{Type: ty}
		pairs(r, ty, 1000, func(a, b uint64) {
			if got, _ := evalNeg(f, a, 0, 0); got != a^signBit(ty) {
				t.Fatalf("NEG.%v(%#x) = %#x", ty, a, got)
			}
			if got, _ := evalAbs(f, a, 0, 0); got != a&^signBit(ty) {
				t.Fatalf("ABS.%v(%#x) = %#x", ty, a, got)
			}
			c := randomCell(r, ty)
			p, _ := evalMul(f, a, b, 0)
			want, _ := evalAdd(f, p, c, 0)
			if got, _ := evalMad(f, a, b, c); got != want {
				t.Fatalf("MAD.%v(%#x, %#x, %#x) = %#x, want %#x", ty, a, b, c, got, want)
			}
		})
	}
}

func TestPredicatesAndMoves(t *testing.T) {
	p := Form{Type: Pred}
	for a := range uint64(2) {
		for b := range uint64(2) {
			and, _ := evalAnd(p, a, b, 0)
			or, _ := evalOr(p, a, b, 0)
			xor, _ := evalXor(p, a, b, 0)
			not, _ := evalNot(p, a, 0, 0)
			if and != a*b || or != min(a+b, 1) || xor != (a+b)%2 || not != 1-a {
				t.Errorf("logic of %d, %d: %d %d %d %d", a, b, and, or, xor, not)
			}
		}
		if got, _ := evalSel(Form{Type: I32}, a, 10, 20); got != 20-10*a {
			t.Errorf("SEL(%d) = %d", a, got)
		}
	}
	if got, _ := evalMov(Form{Type: U32, From: F32}, 0x7f800001, 0, 0); got != 0x7f800001 {
		t.Errorf("MOV changed the bits: %#x", got)
	}
}

func TestAtlasEvaluators(t *testing.T) {
	for c := range uint64(256) {
		bad := FaultKind(NoFault)
		if c >= NumClasses {
			bad = FaultClass
		}
		var mirror, count uint64
		var n []uint8
		if bad == NoFault {
			n = graph.Neighbours(uint8(c))
			mirror, count = uint64(graph.Mirror(uint8(c))), uint64(len(n))
		}
		if got, fault := evalMirror(Form{}, c, 0, 0); got != mirror || fault != bad {
			t.Errorf("MIRROR(%d) = %d, %v", c, got, fault)
		}
		if got, fault := evalNbrCount(Form{}, c, 0, 0); got != count || fault != bad {
			t.Errorf("NBR_COUNT(%d) = %d, %v", c, got, fault)
		}
		for i := range uint64(256) {
			var want uint64
			if i < count {
				want = uint64(n[i])
			}
			if got, fault := evalNbrGet(Form{}, c, i, 0); got != want || fault != bad {
				t.Fatalf("NBR_GET(%d, %d) = %d, %v, want %d, %v", c, i, got, fault, want, bad)
			}
			want, bad := c*ClassBytes+i*PageBytes+9, bad
			if i >= PagesPerClass {
				bad = FaultClass
			}
			if bad != NoFault {
				want = 0
			}
			if got, fault := evalBoundMap(Form{}, c, i, 9); got != want || fault != bad {
				t.Fatalf("BOUND_MAP(%d, %d, 9) = %d, %v, want %d, %v", c, i, got, fault, want, bad)
			}
		}
	}
	if NumClasses != graph.Classes || ClassBytes != graph.ClassBytes || PagesPerClass != graph.PagesPerClass || PageBytes != graph.PageBytes {
		t.Error("isa and isa/graph disagree about the boundary pool")
	}
}
