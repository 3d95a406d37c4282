package gemm

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestElementsAreConverted: numbers of 8 and 16 bits are widened and rounded as conversions are: all there are, and each
// with what lies around it and in the middle to the next, in vectors and one by one.
func TestElementsAreConverted(t *testing.T) {
	for _, typ := range []isa.Type{isa.F16, isa.BF16, isa.I8, isa.U8, isa.I16, isa.U16} {
		number, e := numberOf(typ)
		wide := map[bool]isa.Type{true: isa.F32, false: isa.I32}[number.float()]
		var cells []uint16
		for x := uint32(0); x < 1<<(8*e.size); x += uint32(brief.Or(1, 7)) {
			cells = append(cells, uint16(x))
		}
		var numbers []uint32
		for _, x := range cells {
			bits := uint32(isa.Convert(wide, typ, uint64(x)))
			numbers = append(numbers, bits, bits+1<<15, bits-1)
			if number.float() {
				want := float64(math.Float32frombits(bits))
				for _, by := range []uint16{1, 0xffff} { // to the next one away from 0 there is as much as from the last, or twice that
					beside := float64(math.Float32frombits(uint32(isa.Convert(isa.F32, typ, uint64(x+by)))))
					middle := math.Float32bits(float32(want + math.Abs(beside-want)*math.Copysign(0.5, want)))
					numbers = append(numbers, middle-1, middle, middle+1)
				}
			}
		}
		for _, apart := range []int64{1, 2} { // elements that do not lie side by side go one by one
			for name, l := range map[string]*library{"AVX2": narrow(), "AVX-512": wideLibrary(t)} {
				if l == nil {
					continue
				}
				t.Run(fmt.Sprint(typ, name, apart), func(t *testing.T) {
					w := &worker{}
					defer w.free()
					w.p = &product{lib: l, t: number, in: e, out: e}
					from, widened := make([]byte, int64(len(cells))*apart*e.size), make([]uint32, len(cells))
					for i, x := range cells {
						copy(from[int64(i)*apart*e.size:], []byte{byte(x), byte(x >> 8)}[:e.size])
					}
					n := int64(len(cells))
					w.widen(e, start(widened), 0, start(from), apart*e.size, 0, n, 1)
					require.NoError(t, w.err)
					for i, x := range cells {
						sameCell(t, wide, uint64(x), uint64(widened[i]), isa.Convert(wide, typ, uint64(x)))
					}
					n = int64(len(numbers))
					to := make([]byte, n*apart*e.size+1)
					w.narrow(start(to), 0, apart*e.size, start(numbers), 0, 1, n)
					require.NoError(t, w.err)
					for i, bits := range numbers {
						at := to[int64(i)*apart*e.size:]
						got := uint64(at[0])
						if e.size == 2 {
							got |= uint64(at[1]) << 8
						}
						sameCell(t, typ, uint64(bits), got, isa.Convert(typ, wide, uint64(bits)))
					}
				})
			}
		}
	}
}

// wideLibrary is nil on a machine without AVX-512.
func wideLibrary(t *testing.T) *library {
	if err := jit.Available(jit.AVX512); err != nil {
		t.Logf("not tried: %v", err)
		return nil
	}
	return wide()
}

func start[E any](s []E) uintptr { return uintptr(unsafe.Pointer(&s[0])) }

// sameCell: what became of x is as it should be, or both are NaN.
func sameCell(t *testing.T, typ isa.Type, x, got, want uint64) {
	t.Helper()
	isNaN := func(cell uint64) bool {
		e := (uint64(1)<<typ.ExponentBits() - 1) << typ.MantissaBits()
		return typ.Float() && cell&e == e && cell&(1<<typ.MantissaBits()-1) != 0
	}
	if mask := uint64(1)<<(8*typ.Size()) - 1; got&mask != want&mask && !(isNaN(got) && isNaN(want)) {
		t.Fatalf("%#x as %v is %#x, to be %#x", x, typ, got, want)
	}
}
