package strips

import (
	"math"
	"math/bits"
	"unsafe"
)

// A loop computes one primitive for n lanes. Operands and result are arrays
// of the primitive's type, wherever they lie; the result may be one of the
// operands, since lane i is read before it is written. n may be any number,
// 1 for a value that all lanes share.
type (
	loop1 func(d, a unsafe.Pointer, n int)
	loop2 func(d, a, b unsafe.Pointer, n int)
	loop3 func(d, a, b, c unsafe.Pointer, n int)
)

type signed interface{ int8 | int16 | int32 | int64 }

type unsigned interface {
	uint8 | uint16 | uint32 | uint64
}

type integer interface{ signed | unsigned }

type float interface{ float32 | float64 }

type number interface{ integer | float }

// lanes is n values of type T from p on.
func lanes[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

func add[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] + z[i]
	}
}

func sub[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] - z[i]
	}
}

func mul[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] * z[i]
	}
}

func divFloat[T float](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] / z[i]
	}
}

// divInt and remInt give 0 where the divisor is 0; whether a lane did that
// and must report it, the step finds out afterwards.
func divInt[T integer](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		var q T
		if v := z[i]; v != 0 {
			q = y[i] / v
		}
		x[i] = q
	}
}

func remInt[T integer](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		var r T
		if v := z[i]; v != 0 {
			r = y[i] % v
		}
		x[i] = r
	}
}

// minimum and maximum rest on the language's min and max, which propagate NaN
// and order -0 before +0.
func minimum[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = min(y[i], z[i])
	}
}

func maximum[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = max(y[i], z[i])
	}
}

func and[T unsigned](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] & z[i]
	}
}

func or[T unsigned](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] | z[i]
	}
}

func xor[T unsigned](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = y[i] ^ z[i]
	}
}

func not[T unsigned](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = ^y[i]
	}
}

// notPred flips predicates, bytes of 0 or 1.
func notPred(d, a unsafe.Pointer, n int) {
	x, y := lanes[uint8](d, n), lanes[uint8](a, n)
	for i := range x {
		x[i] = y[i] ^ 1
	}
}

// width is the number of bits of a T.
func width[T integer]() uint64 { var z T; return 8 * uint64(unsafe.Sizeof(z)) }

// shl and shr take the amount modulo the width. The amount has the value's
// type; its low bits are what counts, whatever the sign.
func shl[T unsigned](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	m := T(width[T]() - 1)
	for i := range x {
		x[i] = y[i] << (z[i] & m)
	}
}

func shr[T integer](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[T](d, n), lanes[T](a, n), lanes[T](b, n)
	m := width[T]() - 1
	for i := range x {
		x[i] = y[i] >> (uint64(z[i]) & m)
	}
}

func popc[T unsigned](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = T(bits.OnesCount64(uint64(y[i])))
	}
}

func clz[T unsigned](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	w := 64 - int(width[T]())
	for i := range x {
		x[i] = T(bits.LeadingZeros64(uint64(y[i])) - w)
	}
}

func ctz[T unsigned](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	w := int(width[T]())
	for i := range x {
		x[i] = T(min(w, bits.TrailingZeros64(uint64(y[i]))))
	}
}

func mulHiSigned32(d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[int32](d, n), lanes[int32](a, n), lanes[int32](b, n)
	for i := range x {
		x[i] = int32(int64(y[i]) * int64(z[i]) >> 32)
	}
}

func mulHiUnsigned32(d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[uint32](d, n), lanes[uint32](a, n), lanes[uint32](b, n)
	for i := range x {
		x[i] = uint32(uint64(y[i]) * uint64(z[i]) >> 32)
	}
}

// mulHiSigned64 corrects the unsigned high half: a negative factor counts
// 2^64 too much, which puts the other factor too much into the high half.
func mulHiSigned64(d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[int64](d, n), lanes[int64](a, n), lanes[int64](b, n)
	for i := range x {
		p, q := y[i], z[i]
		h, _ := bits.Mul64(uint64(p), uint64(q))
		x[i] = int64(h) - (p >> 63 & q) - (q >> 63 & p)
	}
}

func mulHiUnsigned64(d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[uint64](d, n), lanes[uint64](a, n), lanes[uint64](b, n)
	for i := range x {
		x[i], _ = bits.Mul64(y[i], z[i])
	}
}

func absInt[T signed](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		v := y[i]
		if v < 0 {
			v = -v
		}
		x[i] = v
	}
}

func negInt[T signed](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = -y[i]
	}
}

// absBits and negBits work on the sign bit alone, so that a NaN keeps its bits.
func absBits[T unsigned](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = y[i] << 1 >> 1
	}
}

func negBits[T unsigned](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	s := T(1) << (width[T]() - 1)
	for i := range x {
		x[i] = y[i] ^ s
	}
}

// The square root and the roundings go through float64, where the results for
// a float32 are exact or, of the root, rounded innocuously.
func sqrt[T float](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = T(math.Sqrt(float64(y[i])))
	}
}

func floor[T float](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = T(math.Floor(float64(y[i])))
	}
}

func ceil[T float](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = T(math.Ceil(float64(y[i])))
	}
}

func round[T float](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = T(math.RoundToEven(float64(y[i])))
	}
}

func trunc[T float](d, a unsafe.Pointer, n int) {
	x, y := lanes[T](d, n), lanes[T](a, n)
	for i := range x {
		x[i] = T(math.Trunc(float64(y[i])))
	}
}

// b2u is 1 for true; the compiler makes it a single instruction.
func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func setEQ[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[uint8](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = b2u(y[i] == z[i])
	}
}

func setNE[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[uint8](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = b2u(y[i] != z[i])
	}
}

func setLT[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[uint8](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = b2u(y[i] < z[i])
	}
}

func setLE[T number](d, a, b unsafe.Pointer, n int) {
	x, y, z := lanes[uint8](d, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		x[i] = b2u(y[i] <= z[i])
	}
}

// sel works on bits. The predicate is 0 or 1, so p-1 is all ones for false.
func sel[T unsigned](d, p, a, b unsafe.Pointer, n int) {
	x, q, y, z := lanes[T](d, n), lanes[uint8](p, n), lanes[T](a, n), lanes[T](b, n)
	for i := range x {
		m := T(q[i]) - 1
		x[i] = y[i]&^m | z[i]&m
	}
}

// blend copies lanes of a to d where the mask holds.
func blend[T unsigned](d, a, mask unsafe.Pointer, n int) {
	x, y, q := lanes[T](d, n), lanes[T](a, n), lanes[uint8](mask, n)
	for i := range x {
		m := -T(q[i])
		x[i] ^= (x[i] ^ y[i]) & m
	}
}

// fill puts v into n lanes of d. Beyond the first few it copies what is there,
// which is the fastest way to store in Go.
func fill[T unsigned](d unsafe.Pointer, v T, n int) {
	x := lanes[T](d, n)
	k := min(n, 16)
	for i := range x[:k] {
		x[i] = v
	}
	for ; k < n; k *= 2 {
		copy(x[k:], x[:k])
	}
}

// ramp puts base, base + stride, … into n lanes of d.
func ramp[T unsigned](d unsafe.Pointer, base, stride T, n int) {
	x := lanes[T](d, n)
	for i := range x {
		x[i] = base
		base += stride
	}
}

// gather copies n values that stand stride bytes apart.
func gather[T unsigned](d, a unsafe.Pointer, stride int64, n int) {
	x := lanes[T](d, n)
	for i := range x {
		x[i] = *(*T)(unsafe.Add(a, int64(i)*stride))
	}
}

// scatter is the inverse of gather.
func scatter[T unsigned](d, a unsafe.Pointer, stride int64, n int) {
	y := lanes[T](a, n)
	for i := range y {
		*(*T)(unsafe.Add(d, int64(i)*stride)) = y[i]
	}
}

// scatterMasked is scatter in the lanes of a mask.
func scatterMasked[T unsigned](d, a, mask unsafe.Pointer, stride int64, n int) {
	y, q := lanes[T](a, n), lanes[uint8](mask, n)
	for i := range y {
		if q[i] != 0 {
			*(*T)(unsafe.Add(d, int64(i)*stride)) = y[i]
		}
	}
}

// The functions that end in Size work on bits alone, for values of 1, 2, 4 or
// 8 bytes.
func blendSize(size uint8, d, a, mask unsafe.Pointer, n int) {
	switch size {
	case 1:
		blend[uint8](d, a, mask, n)
	case 2:
		blend[uint16](d, a, mask, n)
	case 4:
		blend[uint32](d, a, mask, n)
	default:
		blend[uint64](d, a, mask, n)
	}
}

func fillSize(size uint8, d unsafe.Pointer, v uint64, n int) {
	switch size {
	case 1:
		fill(d, uint8(v), n)
	case 2:
		fill(d, uint16(v), n)
	case 4:
		fill(d, uint32(v), n)
	default:
		fill(d, v, n)
	}
}

func rampSize(size uint8, d unsafe.Pointer, base, stride int64, n int) {
	switch size {
	case 1:
		ramp(d, uint8(base), uint8(stride), n)
	case 2:
		ramp(d, uint16(base), uint16(stride), n)
	case 4:
		ramp(d, uint32(base), uint32(stride), n)
	default:
		ramp(d, uint64(base), uint64(stride), n)
	}
}

func gatherSize(size uint8, d, a unsafe.Pointer, stride int64, n int) {
	switch size {
	case 1:
		gather[uint8](d, a, stride, n)
	case 2:
		gather[uint16](d, a, stride, n)
	case 4:
		gather[uint32](d, a, stride, n)
	default:
		gather[uint64](d, a, stride, n)
	}
}

func scatterSize(size uint8, d, a, mask unsafe.Pointer, stride int64, n int) {
	if mask != nil {
		switch size {
		case 1:
			scatterMasked[uint8](d, a, mask, stride, n)
		case 2:
			scatterMasked[uint16](d, a, mask, stride, n)
		case 4:
			scatterMasked[uint32](d, a, mask, stride, n)
		default:
			scatterMasked[uint64](d, a, mask, stride, n)
		}
		return
	}
	switch size {
	case 1:
		scatter[uint8](d, a, stride, n)
	case 2:
		scatter[uint16](d, a, stride, n)
	case 4:
		scatter[uint32](d, a, stride, n)
	default:
		scatter[uint64](d, a, stride, n)
	}
}

// move copies n values of the given size.
func move(size uint8, d, a unsafe.Pointer, n int) {
	copy(lanes[byte](d, n*int(size)), lanes[byte](a, n*int(size)))
}
