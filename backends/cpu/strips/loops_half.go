package strips

import (
	"math"
	"unsafe"
)

// The 16-bit floats compute in float32: a strip is widened, the float32 loop
// runs, and the result is rounded once more, as the ISA defines.

// f16ToF32 widens by rebasing the exponent with a multiplication, which also
// puts a subnormal in its place; infinities and NaNs are patched.
func f16ToF32(h uint16) float32 {
	const rebase = 0x1p112 // 2^(127-15)
	em := uint32(h&0x7fff) << 13
	b := math.Float32bits(math.Float32frombits(em) * rebase)
	if h&0x7c00 == 0x7c00 {
		b = em | 0x7f800000
	}
	return math.Float32frombits(b | uint32(h&0x8000)<<16)
}

// f32ToF16 rounds to nearest even by letting the addition of a suitable power
// of two do the rounding (for subnormal results) or by adding half a unit
// less the parity (for normal ones, where a carry moves into the exponent).
func f32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	s := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return 0x7e00
	case b >= 0x47800000: // 2^16 and above
		return s | 0x7c00
	case b < 0x38800000: // below 2^-14: the unit of the sum is 2^-24
		return s | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	b += 0xfff + b>>13&1 - (127-15)<<23
	return s | uint16(b>>13)
}

func bf16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func f32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// oddF32 rounds a float64 to a float32 that later rounds to 16 bits as the
// float64 itself would: toward zero, with the last bit set if anything was
// lost (round to odd; sound because a float32 has more than two spare bits,
// and its subnormals lie far below those that f16 can tell from 0, and 16
// bits below bf16's).
func oddF32(x float64) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(x) {
		b-- // was rounded away from zero, perhaps to infinity
	}
	return math.Float32frombits(b | 1)
}

func f64ToF16(x float64) uint16  { return f32ToF16(oddF32(x)) }
func f64ToBF16(x float64) uint16 { return f32ToBF16(oddF32(x)) }

func widenF16(d, a unsafe.Pointer, n int) {
	x, y := lanes[float32](d, n), lanes[uint16](a, n)
	for i := range x {
		x[i] = f16ToF32(y[i])
	}
}

func narrowF16(d, a unsafe.Pointer, n int) {
	x, y := lanes[uint16](d, n), lanes[float32](a, n)
	for i := range x {
		x[i] = f32ToF16(y[i])
	}
}

func widenBF16(d, a unsafe.Pointer, n int) {
	x, y := lanes[float32](d, n), lanes[uint16](a, n)
	for i := range x {
		x[i] = bf16ToF32(y[i])
	}
}

func narrowBF16(d, a unsafe.Pointer, n int) {
	x, y := lanes[uint16](d, n), lanes[float32](a, n)
	for i := range x {
		x[i] = f32ToBF16(y[i])
	}
}

func narrowF16From64(d, a unsafe.Pointer, n int) {
	x, y := lanes[uint16](d, n), lanes[float64](a, n)
	for i := range x {
		x[i] = f64ToF16(y[i])
	}
}

func narrowBF16From64(d, a unsafe.Pointer, n int) {
	x, y := lanes[uint16](d, n), lanes[float64](a, n)
	for i := range x {
		x[i] = f64ToBF16(y[i])
	}
}

// oddInt converts an integer to a float64, rounding to odd the few that a
// float64 cannot hold, so that a later rounding to 16 bits is the only one.
func oddInt[T integer](v T) float64 {
	neg := v < 0
	u := uint64(v)
	if neg {
		u = -u
	}
	if u>>53 != 0 {
		if u&0x7ff != 0 {
			u |= 0x800
		}
		u &^= 0x7ff
	}
	f := float64(u)
	if neg {
		f = -f
	}
	return f
}

func intToF16[T integer](d, a unsafe.Pointer, n int) {
	x, y := lanes[uint16](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = f64ToF16(oddInt(y[i]))
	}
}

func intToBF16[T integer](d, a unsafe.Pointer, n int) {
	x, y := lanes[uint16](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = f64ToBF16(oddInt(y[i]))
	}
}
