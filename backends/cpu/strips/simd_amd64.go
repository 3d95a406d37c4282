package strips

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Hand-written loops for the hottest primitives of f32, and FMA, which Go has
// no fast form of for it. Each has its twin in pure Go, which also takes the
// lanes beyond the last multiple of 8.

//go:noescape
func addAVX(d, a, b unsafe.Pointer, n int)

//go:noescape
func subAVX(d, a, b unsafe.Pointer, n int)

//go:noescape
func mulAVX(d, a, b unsafe.Pointer, n int)

//go:noescape
func divAVX(d, a, b unsafe.Pointer, n int)

//go:noescape
func maxAVX(d, a, b unsafe.Pointer, n int)

//go:noescape
func minAVX(d, a, b unsafe.Pointer, n int)

//go:noescape
func fmaAVX(d, a, b, c unsafe.Pointer, n int)

//go:noescape
func fmaAVXa(d, a, b, c unsafe.Pointer, n int)

//go:noescape
func fmaAVXc(d, a, b, c unsafe.Pointer, n int)

//go:noescape
func fmaAVX64(d, a, b, c unsafe.Pointer, n int)

// hasAVX2 reports whether the processor has AVX2 and FMA and the system keeps the
// registers.
var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// vector2 makes a loop of a vector routine for multiples of 8 lanes of 4
// bytes and its twin.
func vector2(fast, twin loop2) loop2 {
	if !hasAVX2 {
		return twin
	}
	return func(d, a, b unsafe.Pointer, n int) {
		k := n &^ 7
		if k > 0 {
			fast(d, a, b, k)
		}
		if k < n {
			twin(unsafe.Add(d, 4*k), unsafe.Add(a, 4*k), unsafe.Add(b, 4*k), n-k)
		}
	}
}

// vector3 is vector2 for three operands, of which a or c may be one value for
// all lanes: then its step is 0, else 4.
func vector3(fast, twin loop3, stepA, stepC int) loop3 {
	if !hasAVX2 {
		return twin
	}
	return func(d, a, b, c unsafe.Pointer, n int) {
		k := n &^ 7
		if k > 0 {
			fast(d, a, b, c, k)
		}
		if k < n {
			twin(unsafe.Add(d, 4*k), unsafe.Add(a, stepA*k), unsafe.Add(b, 4*k), unsafe.Add(c, stepC*k), n-k)
		}
	}
}

var (
	addF32 = vector2(addAVX, add[float32])
	subF32 = vector2(subAVX, sub[float32])
	mulF32 = vector2(mulAVX, mul[float32])
	divF32 = vector2(divAVX, divFloat[float32])
	maxF32 = vector2(maxAVX, maximum[float32])
	minF32 = vector2(minAVX, minimum[float32])

	fmaF32Lanes = vector3(fmaAVX, fma32, 4, 4)
	fmaF32A     = vector3(fmaAVXa, fma32a, 0, 4)
	fmaF32C     = vector3(fmaAVXc, fma32c, 4, 0)
	fmaF64Lanes = func() loop3 {
		if !hasAVX2 {
			return fma64
		}
		return func(d, a, b, c unsafe.Pointer, n int) {
			k := n &^ 3
			if k > 0 {
				fmaAVX64(d, a, b, c, 2*k)
			}
			if k < n {
				fma64(unsafe.Add(d, 8*k), unsafe.Add(a, 8*k), unsafe.Add(b, 8*k), unsafe.Add(c, 8*k), n-k)
			}
		}
	}()
)
