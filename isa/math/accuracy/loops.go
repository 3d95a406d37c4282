package accuracy

import (
	"math"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
)

// fast returns the loop for an instruction, or nil where there is none and the
// table's evaluator has to do. args are the vectors of the operands.
func fast(in *isa.Inst, args []*vector) step {
	switch in.Op {
	case isa.CVT, isa.BITCAST:
		return convert(in, args[0], args[1])
	case isa.SET:
		switch in.Type {
		case isa.F32:
			return set[float32](in.Cond, args)
		case isa.F64:
			return set[float64](in.Cond, args)
		case isa.U32:
			return set[uint32](in.Cond, args)
		case isa.U64:
			return set[uint64](in.Cond, args)
		case isa.I32:
			return set[int32](in.Cond, args)
		case isa.I64:
			return set[int64](in.Cond, args)
		}
		return nil
	case isa.MOV:
		return move(in.Type, args[0], args[1])
	case isa.SEL:
		return bySize(in.Type, sel[uint8], sel[uint16], sel[uint32], sel[uint64])(args)
	}
	switch in.Type {
	case isa.F32:
		return float32Loop(in.Op, args)
	case isa.F64:
		return float64Loop(in.Op, args)
	case isa.U32:
		return integerLoop[uint32](in, args)
	case isa.U64:
		return integerLoop[uint64](in, args)
	case isa.I32:
		return integerLoop[int32](in, args)
	case isa.I64:
		return integerLoop[int64](in, args)
	case isa.Pred:
		return integerLoop[uint8](in, args)
	}
	return nil
}

type number interface {
	int32 | int64 | uint8 | uint32 | uint64 | float32 | float64
}

type integer interface {
	int32 | int64 | uint8 | uint32 | uint64
}

func sel[T any](args []*vector) step {
	d, p, a, b := as[T](args[0]), as[uint8](args[1]), as[T](args[2]), as[T](args[3])
	return func(n int) {
		d, p, a, b := d[:n], p[:n], a[:n], b[:n]
		for i := range d {
			v := b[i]
			if p[i] != 0 {
				v = a[i]
			}
			d[i] = v
		}
	}
}

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func set[T number](cond isa.Cond, args []*vector) step {
	d, a, b := as[uint8](args[0]), as[T](args[1]), as[T](args[2])
	switch cond {
	case isa.GT, isa.GE, isa.GTU, isa.GEU:
		a, b = b, a
	}
	switch cond {
	case isa.EQ:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = truth(a[i] == b[i])
			}
		}
	case isa.NE:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = truth(a[i] != b[i])
			}
		}
	case isa.LT, isa.GT, isa.LTU, isa.GTU:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = truth(a[i] < b[i])
			}
		}
	}
	return func(n int) {
		d, a, b := d[:n], a[:n], b[:n]
		for i := range d {
			d[i] = truth(a[i] <= b[i])
		}
	}
}

// arithmetic compiles what integers and floats spell alike.
func arithmetic[T number](op isa.Op, args []*vector) step {
	d, a := as[T](args[0]), as[T](args[1])
	b := a
	if len(args) > 2 {
		b = as[T](args[2])
	}
	switch op {
	case isa.ADD:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] + b[i]
			}
		}
	case isa.SUB:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] - b[i]
			}
		}
	case isa.MUL:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] * b[i]
			}
		}
	case isa.MIN:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = min(a[i], b[i])
			}
		}
	case isa.MAX:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = max(a[i], b[i])
			}
		}
	}
	return nil
}

func integerLoop[T integer](in *isa.Inst, args []*vector) step {
	d, a := as[T](args[0]), as[T](args[1])
	b := a
	if len(args) > 2 {
		b = as[T](args[2])
	}
	mask := T(in.Type.Bits() - 1)
	switch in.Op {
	case isa.AND:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] & b[i]
			}
		}
	case isa.OR:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] | b[i]
			}
		}
	case isa.XOR:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] ^ b[i]
			}
		}
	case isa.SHL:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] << (uint(b[i]&mask) & 63)
			}
		}
	case isa.SHR:
		return func(n int) {
			d, a, b := d[:n], a[:n], b[:n]
			for i := range d {
				d[i] = a[i] >> (uint(b[i]&mask) & 63)
			}
		}
	case isa.MULHI:
		if in.Type != isa.U64 {
			return nil
		}
		d, a, b := as[uint64](args[0]), as[uint64](args[1]), as[uint64](args[2])
		return func(n int) {
			for i := range n {
				d[i], _ = bits.Mul64(a[i], b[i])
			}
		}
	case isa.NOT:
		return nil
	}
	if in.Type == isa.Pred {
		return nil
	}
	return arithmetic[T](in.Op, args)
}

func unary[T any](args []*vector, f func(T) T) step {
	d, a := as[T](args[0]), as[T](args[1])
	return func(n int) {
		for i := range n {
			d[i] = f(a[i])
		}
	}
}

func float64Loop(op isa.Op, args []*vector) step {
	switch op {
	case isa.DIV:
		d, a, b := as[float64](args[0]), as[float64](args[1]), as[float64](args[2])
		return func(n int) {
			for i := range n {
				d[i] = a[i] / b[i]
			}
		}
	case isa.FMA:
		d, a, b, c := as[float64](args[0]), as[float64](args[1]), as[float64](args[2]), as[float64](args[3])
		return func(n int) {
			d, a, b, c := d[:n], a[:n], b[:n], c[:n]
			for i := range d {
				d[i] = math.FMA(a[i], b[i], c[i])
			}
		}
	case isa.ABS:
		return unary(args, math.Abs)
	case isa.NEG:
		return unary(args, func(x float64) float64 { return -x })
	case isa.SQRT:
		return unary(args, math.Sqrt)
	case isa.ROUND:
		return unary(args, math.RoundToEven)
	case isa.TRUNC:
		return unary(args, math.Trunc)
	}
	return arithmetic[float64](op, args)
}

func float32Loop(op isa.Op, args []*vector) step {
	d, a := as[float32](args[0]), as[float32](args[1])
	switch op {
	case isa.DIV:
		b := as[float32](args[2])
		return func(n int) {
			for i := range n {
				d[i] = a[i] / b[i]
			}
		}
	case isa.FMA:
		b, c := as[float32](args[2]), as[float32](args[3])
		if hasFMA {
			return func(n int) { fmaVector(&d[0], &a[0], &b[0], &c[0], n) }
		}
		return func(n int) { fma32(d[:n], a[:n], b[:n], c[:n]) }
	case isa.ABS:
		d, a := as[uint32](args[0]), as[uint32](args[1])
		return func(n int) {
			d, a := d[:n], a[:n]
			for i := range d {
				d[i] = a[i] &^ (1 << 31)
			}
		}
	case isa.NEG:
		d, a := as[uint32](args[0]), as[uint32](args[1])
		return func(n int) {
			d, a := d[:n], a[:n]
			for i := range d {
				d[i] = a[i] ^ 1<<31
			}
		}
	case isa.SQRT: // rounding a double's root once more is exact for f32
		return unary(args, func(x float32) float32 { return float32(math.Sqrt(float64(x))) })
	case isa.ROUND:
		return unary(args, func(x float32) float32 { return float32(math.RoundToEven(float64(x))) })
	case isa.TRUNC:
		return unary(args, func(x float32) float32 { return float32(math.Trunc(float64(x))) })
	}
	return arithmetic[float32](op, args)
}

// fma32 sets d to a·b + c rounded once. The product is exact in f64, and so
// the sum rounded to f64 and then to f32 is right unless the first rounding
// hits the middle between two f32, or f32 is subnormal there.
func fma32(d, a, b, c []float32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		p, q := float64(a[i])*float64(b[i]), float64(c[i])
		s := p + q
		u := math.Float64bits(s)
		if u&(1<<29-1) == 1<<28 || u<<1 < (1023-126)<<53 {
			s = addToOdd(p, q)
		}
		d[i] = float32(s)
	}
}

// addToOdd returns p + q rounded to odd: toward zero, with the last bit set if
// that was inexact. Rounding such a sum once more to a format shorter by two
// bits or more gives what rounding the exact sum would.
func addToOdd(p, q float64) float64 {
	s := p + q
	t := s - p
	e := (p - (s - t)) + (q - t) // the rounding error, exactly
	u := math.Float64bits(s)
	if e == 0 || e != e || u&1 == 1 {
		return s
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(u + 1)
	}
	return math.Float64frombits(u - 1)
}

func convert(in *isa.Inst, dst, src *vector) step {
	if in.Op == isa.BITCAST {
		return move(in.Type, dst, src)
	}
	type pair struct{ to, from isa.Type }
	switch (pair{in.Type, in.From}) {
	case pair{isa.F32, isa.I32}:
		return cast[float32, int32](dst, src)
	case pair{isa.F32, isa.I64}:
		return cast[float32, int64](dst, src)
	case pair{isa.I64, isa.F32}:
		d, s := as[int64](dst), as[float32](src)
		return func(n int) {
			for i, v := range s[:n] {
				switch {
				case v >= -0x1p63 && v < 0x1p63:
					d[i] = int64(v)
				case v > 0:
					d[i] = math.MaxInt64
				case v < 0:
					d[i] = math.MinInt64
				default:
					d[i] = 0
				}
			}
		}
	case pair{isa.F64, isa.I64}:
		return cast[float64, int64](dst, src)
	case pair{isa.U64, isa.U32}:
		return cast[uint64, uint32](dst, src)
	case pair{isa.U32, isa.U64}:
		return cast[uint32, uint64](dst, src)
	case pair{isa.U32, isa.I64}:
		return cast[uint32, int64](dst, src)
	}
	return nil
}

// cast converts where Go's conversion is CVT's: between integers, and from
// signed integers to floats.
func cast[D, S number](dst, src *vector) step {
	d, s := as[D](dst), as[S](src)
	return func(n int) {
		d, s := d[:n], s[:n]
		for i := range d {
			d[i] = D(s[i])
		}
	}
}
