package strips

import (
	"math"
	"unsafe"
)

// fmaF32 is a·b + c with one rounding, without an FMA unit. The product is
// exact in a float64. The sum rounds there; its error is found exactly (Knuth,
// TAOCP 2, 4.2.2, theorem B: two-sum), and if there is one, the sum is turned
// into the odd one of the two float64 that enclose the exact value, so that
// the rounding to float32 sees what was lost (Boldo and Melquiond, "Emulation
// of FMA and correctly rounded sums", 2008).
func fmaF32(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b))
	z := float64(c)
	s := p + z
	t := s - p
	e := (p - (s - t)) + (z - t)
	if e != 0 && s-s == 0 {
		bits := math.Float64bits(s)
		if bits&1 == 0 {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}

func fma32(d, a, b, c unsafe.Pointer, n int) {
	x, p, q, r := lanes[float32](d, n), lanes[float32](a, n), lanes[float32](b, n), lanes[float32](c, n)
	for i := range x {
		x[i] = fmaF32(p[i], q[i], r[i])
	}
}

// fma32a and fma32c have one value of a, or of c, for all lanes.
func fma32a(d, a, b, c unsafe.Pointer, n int) {
	x, p, q, r := lanes[float32](d, n), *(*float32)(a), lanes[float32](b, n), lanes[float32](c, n)
	for i := range x {
		x[i] = fmaF32(p, q[i], r[i])
	}
}

func fma32c(d, a, b, c unsafe.Pointer, n int) {
	x, p, q, r := lanes[float32](d, n), lanes[float32](a, n), lanes[float32](b, n), *(*float32)(c)
	for i := range x {
		x[i] = fmaF32(p[i], q[i], r)
	}
}

func fma64(d, a, b, c unsafe.Pointer, n int) {
	x, p, q, r := lanes[float64](d, n), lanes[float64](a, n), lanes[float64](b, n), lanes[float64](c, n)
	for i := range x {
		x[i] = math.FMA(p[i], q[i], r[i])
	}
}
