package strips

import (
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

// convert is for pairs whose Go conversion is what the ISA wants: integers
// among each other, integers to floats (rounded once, to nearest even), and
// floats among each other.
func convert[D, S number](d, a unsafe.Pointer, n int) {
	x, y := lanes[D](d, n), lanes[S](a, n)
	for i := range x {
		x[i] = D(y[i])
	}
}

// truncate converts floats to integers: toward zero, saturating, 0 for NaN.
// The bounds are computed in S, where the power of two above the largest
// integer is exact.
func truncate[D integer, S float](d, a unsafe.Pointer, n int) {
	x, y := lanes[D](d, n), lanes[S](a, n)
	var zero D
	lo, hi := zero, zero-1 // of an unsigned type
	above := S(1)
	w := width[D]()
	if hi < 0 {
		w--
		lo = D(1) << w
		hi = ^lo
	}
	for range w {
		above *= 2
	}
	for i := range x {
		switch v := y[i]; {
		case v >= above:
			x[i] = hi
		case v <= S(lo):
			x[i] = lo
		case v != v:
			x[i] = 0
		default:
			x[i] = D(v)
		}
	}
}

func toInts[S float](s isa.Type, table *cvtTable) {
	table[isa.I8][s] = truncate[int8, S]
	table[isa.I16][s] = truncate[int16, S]
	table[isa.I32][s] = truncate[int32, S]
	table[isa.I64][s] = truncate[int64, S]
	table[isa.U8][s] = truncate[uint8, S]
	table[isa.U16][s] = truncate[uint16, S]
	table[isa.U32][s] = truncate[uint32, S]
	table[isa.U64][s] = truncate[uint64, S]
	table[isa.F32][s] = convert[float32, S]
	table[isa.F64][s] = convert[float64, S]
}

func fromInt[S integer](s isa.Type, table *cvtTable) {
	// Only the size of an integer result matters, since it is the source's
	// bits, extended by the source's sign.
	table[isa.I8][s] = convert[uint8, S]
	table[isa.I16][s] = convert[uint16, S]
	table[isa.I32][s] = convert[uint32, S]
	table[isa.I64][s] = convert[uint64, S]
	table[isa.U8][s] = convert[uint8, S]
	table[isa.U16][s] = convert[uint16, S]
	table[isa.U32][s] = convert[uint32, S]
	table[isa.U64][s] = convert[uint64, S]
	table[isa.F32][s] = convert[float32, S]
	table[isa.F64][s] = convert[float64, S]
	table[isa.F16][s] = intToF16[S]
	table[isa.BF16][s] = intToBF16[S]
}

// cvtTable has the loop for each pair of types, result first. A 16-bit float
// as source is widened first, so its column is that of f32.
type cvtTable [isa.Pred][isa.Pred]loop1

var cvtLoops = func() *cvtTable {
	t := new(cvtTable)
	fromInt[int8](isa.I8, t)
	fromInt[int16](isa.I16, t)
	fromInt[int32](isa.I32, t)
	fromInt[int64](isa.I64, t)
	fromInt[uint8](isa.U8, t)
	fromInt[uint16](isa.U16, t)
	fromInt[uint32](isa.U32, t)
	fromInt[uint64](isa.U64, t)
	toInts[float32](isa.F32, t)
	toInts[float64](isa.F64, t)
	t[isa.F16][isa.F32], t[isa.BF16][isa.F32] = narrowF16, narrowBF16
	t[isa.F16][isa.F64], t[isa.BF16][isa.F64] = narrowF16From64, narrowBF16From64
	return t
}()
