package gemm

import (
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// element is how numbers lie in memory. convert and store are nil where they lie
// there as they are computed with.
type element struct {
	size int64
	// wide is how vectors of them are loaded as numbers.
	wide widening
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
		return i32, small(wideI8, func(x int8) int32 { return int32(x) }, func(x int32) int8 { return int8(x) })
	case isa.U8:
		return i32, small(wideU8, func(x uint8) int32 { return int32(x) }, func(x int32) uint8 { return uint8(x) })
	case isa.I16:
		return i32, small(wideI16, func(x int16) int32 { return int32(x) }, func(x int32) int16 { return int16(x) })
	case isa.U16:
		return i32, small(wideU16, func(x uint16) int32 { return int32(x) }, func(x int32) uint16 { return uint16(x) })
	case isa.F16:
		return f32, small(wideF16, fromF16, toF16)
	case isa.BF16:
		return f32, small(wideBF16, fromBF16, toBF16)
	}
	return numbers, element{}
}

// widening is how a vector of elements that lie side by side becomes one of numbers of 4
// bytes.
type widening int

const (
	wideI8 widening = iota
	wideU8
	wideI16
	wideU16
	wideF16
	wideBF16 // and 16 bits up
)

var wideForms = [...]*x86.Form{wideI8: x86.SxBD, wideU8: x86.ZxBD, wideI16: x86.SxWD, wideU16: x86.ZxWD, wideF16: x86.PH2PS, wideBF16: x86.ZxWD}

// widener makes numbers of vectors of elements: of count rows, of which each has so many
// vectors as tiles says. s.rows is the widening.
func widener(m machine, s tile) ([]byte, error) {
	g := newMaker(m, s)
	return g.rowByRow(func(from, to x86.Reg) {
		g.Emit(wideForms[s.rows], x86.Inst{VL: m.bytes, IsMem: true, Mem: x86.At(from, 0)})
		if widening(s.rows) == wideBF16 {
			g.Emit(x86.SllD, x86.Inst{VL: m.bytes, D: 0, B: 0, Imm: 16})
		}
		g.store(x86.At(to, 0), 0, false)
	})
}

// widen makes numbers of cols × rows elements, whose columns lie colStep and whose rows
// rowStep bytes apart, in rows that lie step apart: vectors of them as they lie, which
// are transposed then where columns do as rows should.
func (w *worker) widen(dst uintptr, step int64, src uintptr, colStep, rowStep, cols, rows int64) {
	p := w.p
	lanes, width := int64(p.lib.m.lanes(p.t)), p.t.size()
	switch size := p.in.size; {
	case colStep == size && cols >= lanes:
		w.widenRows(dst, step, src, rowStep, cols, rows)
	case rowStep == size && rows >= lanes && cols > 1:
		most := max(1, widenedBytes/(rows*width))
		room := w.room(roomWide, min(most, cols)*rows*width)
		for c := int64(0); c < cols; c += most {
			n := min(most, cols-c)
			w.widenRows(room, rows*width, src+uintptr(c*colStep), colStep, rows, n)
			w.move(dst+uintptr(c*width), step, width, room, rows*width, width, n, rows)
		}
	default:
		p.in.convert(dst, step, src, colStep, rowStep, cols, rows)
	}
}

// widenedBytes is how many bytes of numbers a call makes, and for how many there is room
// before they are transposed.
const widenedBytes = 128 << 10

// widenRows widens rows of a vector's elements or more, the last vector of which lies on
// the one before.
func (w *worker) widenRows(dst uintptr, step int64, src uintptr, rowStep, cols, rows int64) {
	p := w.p
	lanes, size, width := int64(p.lib.m.lanes(p.t)), p.in.size, p.t.size()
	most := max(1, widenedBytes/(cols*width))
	w.srcStep, w.srcNext, w.dstStep, w.bNext = uintptr(rowStep), uintptr(lanes*size), uintptr(step), uintptr(lanes*width)
	for r := int64(0); r < rows; r += most {
		from, to := src+uintptr(r*rowStep), dst+uintptr(r*step)
		w.src, w.dst, w.tiles, w.count = from, to, cols/lanes, uintptr(min(most, rows-r))
		w.call(widens, tile{t: p.t, rows: int(p.in.wide)})
		if cols%lanes > 0 {
			w.src, w.dst, w.tiles = from+uintptr((cols-lanes)*size), to+uintptr((cols-lanes)*width), 1
			w.call(widens, tile{t: p.t, rows: int(p.in.wide)})
		}
	}
}

// small are elements that are computed with as numbers of 4 bytes.
func small[E int8 | uint8 | int16 | uint16, N int32 | float32](wide widening, widen func(E) N, narrow func(N) E) element {
	var e E
	size := int64(unsafe.Sizeof(e))
	return element{
		size: size,
		wide: wide,
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
