package strips

import "unsafe"

// fmaNEON is FMA for a multiple of 4 lanes of f32; its twin fma32 takes the rest.
//
//go:noescape
func fmaNEON(d, a, b, c unsafe.Pointer, n int)

var (
	addF32      = add[float32]
	subF32      = sub[float32]
	mulF32      = mul[float32]
	divF32      = divFloat[float32]
	maxF32      = maximum[float32]
	minF32      = minimum[float32]
	fmaF64Lanes = fma64

	fmaF32A, fmaF32C = fma32a, fma32c
)

func fmaF32Lanes(d, a, b, c unsafe.Pointer, n int) {
	k := n &^ 3
	fmaNEON(d, a, b, c, k)
	if k < n {
		fma32(unsafe.Add(d, 4*k), unsafe.Add(a, 4*k), unsafe.Add(b, 4*k), unsafe.Add(c, 4*k), n-k)
	}
}
