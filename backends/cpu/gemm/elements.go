package gemm

import (
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// element is how numbers lie in memory. convert and store are nil where they lie
// there as they are computed with.
type element struct {
	size int64
	// convert puts cols × rows elements, whose columns lie colStep and whose rows
	// rowStep bytes apart, in dst as numbers, in rows step apart.
	convert func(dst uintptr, step int64, src uintptr, colStep, rowStep, cols, rows int64)
	// store is the way back.
	store func(dst uintptr, rowStep, colStep int64, src uintptr, step, rows, cols int64)
}

// numberOf is the type in which products of elements of type t are computed, and
// how these lie in memory.
func numberOf(t isa.Type) (number, element) {
	switch t {
	case isa.F32:
		return f32, element{size: 4}
	case isa.F64:
		return f64, element{size: 8}
	case isa.I32, isa.U32:
		return i32, element{size: 4}
	case isa.I64, isa.U64:
		return i64, element{size: 8}
	case isa.I8:
		return i32, small(func(x int8) int32 { return int32(x) }, func(x int32) int8 { return int8(x) })
	case isa.U8:
		return i32, small(func(x uint8) int32 { return int32(x) }, func(x int32) uint8 { return uint8(x) })
	case isa.I16:
		return i32, small(func(x int16) int32 { return int32(x) }, func(x int32) int16 { return int16(x) })
	case isa.U16:
		return i32, small(func(x uint16) int32 { return int32(x) }, func(x int32) uint16 { return uint16(x) })
	case isa.F16:
		return f32, small(fromF16, toF16)
	case isa.BF16:
		return f32, small(fromBF16, toBF16)
	}
	return numbers, element{}
}

// small are elements that are computed with as numbers of 4 bytes.
func small[E int8 | uint8 | int16 | uint16, N int32 | float32](widen func(E) N, narrow func(N) E) element {
	var e E
	size := int64(unsafe.Sizeof(e))
	return element{
		size: size,
		convert: func(dst uintptr, step int64, src uintptr, colStep, rowStep, cols, rows int64) {
			for r := range rows {
				to := unsafe.Slice((*N)(hostmem.Pointer(dst+uintptr(r*step))), cols)
				from := src + uintptr(r*rowStep)
				if colStep == size {
					for c, x := range unsafe.Slice((*E)(hostmem.Pointer(from)), cols) {
						to[c] = widen(x)
					}
					continue
				}
				for c := range to {
					to[c] = widen(*(*E)(hostmem.Pointer(from + uintptr(int64(c)*colStep))))
				}
			}
		},
		store: func(dst uintptr, rowStep, colStep int64, src uintptr, step, rows, cols int64) {
			for r := range rows {
				from := unsafe.Slice((*N)(hostmem.Pointer(src+uintptr(r*step))), cols)
				to := dst + uintptr(r*rowStep)
				for c, x := range from {
					*(*E)(hostmem.Pointer(to + uintptr(int64(c)*colStep))) = narrow(x)
				}
			}
		},
	}
}

func fromBF16(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }

func toBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return 0x7FC0
	}
	return uint16((b + 0x7FFF + b>>16&1) >> 16)
}

func fromF16(x uint16) float32 {
	sign, rest := uint32(x>>15)<<31, uint32(x&0x7FFF)
	switch {
	case rest >= 0x7C00: // infinity, NaN
		return math.Float32frombits(sign | 0x7F800000 | (rest&0x3FF)<<13)
	case rest >= 0x0400:
		return math.Float32frombits(sign | (rest<<13 + (127-15)<<23))
	}
	f := float32(rest) * 0x1p-24 // exact
	return math.Float32frombits(sign | math.Float32bits(f))
}

func toF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, rest := uint16(b>>16&0x8000), b&0x7FFFFFFF
	switch {
	case rest > 0x7F800000:
		return sign | 0x7E00
	case rest >= 0x477FF000: // from half a step beyond the largest on
		return sign | 0x7C00
	case rest < 0x38800000: // subnormal: the addition rounds to a multiple of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(rest)+0.5)-math.Float32bits(0.5))
	}
	rest -= (127 - 15) << 23
	return sign | uint16((rest+0xFFF+rest>>13&1)>>13)
}
