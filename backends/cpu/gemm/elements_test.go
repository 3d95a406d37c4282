package gemm

import (
	"fmt"
	"math"
	"slices"
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

// TestMatricesAreConverted: elements that lie in rows or in columns, with gaps or none, become rows of numbers and these
// them again, each at its place and nothing beside it, also of more than are converted at a time.
func TestMatricesAreConverted(t *testing.T) {
	for _, typ := range []isa.Type{isa.F16, isa.U8, isa.I16} {
		number, e := numberOf(typ)
		wide := map[bool]isa.Type{true: isa.F32, false: isa.I32}[number.float()]
		for _, size := range [][2]int64{{1, 1}, {3, 5}, {1, 40}, {40, 1}, {17, 33}, {30, 16}, {0, 3}, {3, 0}, {260, 210}, {40_000, 3}, {3, 40_000}, {17, 3000}, {3000, 17}} {
			rows, cols := size[0], size[1]
			for name, l := range map[string]*library{"AVX2": narrow(), "AVX-512": wideLibrary(t)} {
				for how := range 8 {
					rowStep, colStep, step := cols*e.size, e.size, cols
					if how&1 != 0 {
						rowStep, colStep = e.size, rows*e.size
					}
					switch how / 2 {
					case 1, 3: // gaps between rows, or columns, and maybe between rows of numbers
						rowStep, colStep, step = rowStep+gap(rowStep, e.size), colStep+gap(colStep, e.size), cols+3*int64(how/2&2^2)/2
					case 2: // and between all
						rowStep, colStep, step = 3*rowStep, 3*colStep, cols
					}
					if l == nil || rows*cols == 0 && how > 0 {
						continue
					}
					t.Run(fmt.Sprint(typ, name, size, how), func(t *testing.T) {
						w := &worker{p: &product{lib: l, t: number, in: e, out: e}}
						defer w.free()
						from := make([]byte, max(0, (rows-1)*rowStep)+max(0, (cols-1)*colStep)+e.size+64) // what is small may lie on a stack, which moves
						for i := range from {
							from[i] = byte(i*7+i/251) & 0x3f // no NaN
						}
						numbers := make([]uint32, max(rows, 1)*step+64)
						for i := range numbers {
							numbers[i] = 0xdeadbeef
						}
						want, to := slices.Clone(numbers), slices.Clone(from)
						for i := range to {
							to[i] ^= 0x55
						}
						back := slices.Clone(to)
						for i := range rows {
							for j := range cols {
								at := i*rowStep + j*colStep
								x := uint64(from[at])
								if e.size == 2 {
									x |= uint64(from[at+1]) << 8
								}
								want[i*step+j] = uint32(isa.Convert(wide, typ, x))
								copy(back[at:at+e.size], from[at:])
							}
						}
						w.widen(e, start(numbers), 4*step, start(from), colStep, rowStep, cols, rows)
						require.NoError(t, w.err)
						require.True(t, slices.Equal(want, numbers), "widened")
						w.narrow(start(to), rowStep, colStep, start(numbers), 4*step, rows, cols)
						require.NoError(t, w.err)
						require.True(t, slices.Equal(back, to), "narrowed")
					})
				}
			}
		}
	}
}

// gap is what is between rows that lie step apart, none between elements side by side.
func gap(step, size int64) int64 {
	if step == size {
		return 0
	}
	return 5 * size
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
