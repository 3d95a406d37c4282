package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// float is a cell of a float type with an exponent and random digits.
func float(r *rand.Rand, t isa.Type, exponent int) uint64 {
	bias := 1<<(t.ExponentBits()-1) - 1
	e := uint64(min(max(exponent+bias, 0), 2*bias+1))
	digits := r.Uint64() & (1<<t.MantissaBits() - 1)
	if r.IntN(8) == 0 { // few digits, and all
		digits = [...]uint64{0, 1, 1<<t.MantissaBits() - 1}[r.IntN(3)]
	}
	return r.Uint64()&1<<(t.Bits()-1) | e<<t.MantissaBits() | digits
}

// nearMiddle is an f32 or f64 whose quotient by y is nearly between two others.
func nearMiddle(r *rand.Rand, t isa.Type, y uint64) uint64 {
	if t == isa.F32 {
		q := 1 + math.Ldexp(float64(r.Uint32()>>9*2+1), -24)
		return uint64(math.Float32bits(float32(q * float64(math.Float32frombits(uint32(y))))))
	}
	q, d := 1+math.Ldexp(float64(r.Uint64()>>12), -52), math.Float64frombits(y)
	return math.Float64bits(math.FMA(q, d, d*0x1p-53))
}

// Quotients by what all lanes share have the oracle's bits: where groups are within the
// bounds of products, beyond, and with zeros, infinities and NaNs among them; by a
// parameter, and by what the lanes of a block have come to.
func TestQuotientsBySharedNumbers(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(9, 10))
	oracle := interp.New()
	const n = 1100
	for _, ty := range []isa.Type{isa.F32, isa.F64, isa.F16, isa.BF16} {
		v := verify(t, fmt.Sprintf("program p\nslot x %v\nslot z %[1]v\nparam y %[1]v\n  ldg.%[1]v x, x[index]\n  ldp.%[1]v y, y\n  div.%[1]v z, x, y\n  stg.%[1]v z, z[index]\n  exit", ty))
		// Of both the whole range, and groups whose quotients are at the ends of it.
		bias, digits := 1<<(ty.ExponentBits()-1)-1, ty.MantissaBits()
		ends := []int{bias + 1, bias, 1 - bias, -bias, -bias - digits/2, -bias - digits}
		exponents := []int{0, 1, -3, 7, 39, 40, 41, -39, -41, 61, -61, 126, -127, 128, 299, 300, 301, -300, -301, 2000}
		for k := 1; k < 8; k++ {
			exponents = append(exponents, bias*k/8, -bias*k/8)
		}
		for range 60 {
			exponents = append(exponents, r.IntN(2*bias)-bias)
		}
		for _, exponent := range exponents {
			y := float(r, ty, exponent)
			contents := [][]byte{nil, make([]byte, n*ty.Size())}
			group := 0
			for i := range n {
				switch { // somewhere before the ends, and anywhere
				case i%64 == 0:
					group = exponent + (1-2*r.IntN(2))*(bias+2-r.IntN(bias/2))
				case i%64 == 32:
					group = r.IntN(2*bias+digits) - bias - digits
				}
				e := r.IntN(16) - 8
				switch {
				case i > 540 && i <= 700:
					e = group
				case i > 900:
					e = r.IntN(280) - 140
				case i > 700:
					e = exponent + ends[i/32%len(ends)]
				case i > 380:
					e = [...]int{-61, -60, -59, 59, 60, 61, 499, 500, -500, -501}[i/32%10]
				}
				cell := float(r, ty, e)
				if i < 300 && ty.Size() >= 4 {
					cell = nearMiddle(r, ty, y)
				}
				var b [8]byte
				binary.LittleEndian.PutUint64(b[:], cell)
				contents[0] = append(contents[0], b[:ty.Size()]...)
			}
			want := run(t, oracle, v, linear(n, 256), contents, nil, []uint64{y})
			for _, l := range levels {
				got := run(t, on(t, l, 1), v, linear(n, 256), contents, nil, []uint64{y})
				if err := same(v, got, want); err != nil {
					t.Errorf("%v, %v, divided by %#x: %v", ty, l, y, err)
				}
			}
		}
	}
	v := verify(t, `
program p
slot x f32
slot z f32
param rounds u32
block 256
  ldg.f32 x, x[index]
  abs.f32 a, x
  block_reduce_max.f32 m, a
  add.f32 s, m, m
  div.f32 first, x, s
  ldp.u32 rounds, rounds
  loop rounds, end
  div.f32 x, x, s
  add.f32 s, s, m
  div.f32 x, x, s
end:
  div.f32 x, x, s
  add.f32 x, x, first
  stg.f32 x, z[index]
  exit`)
	for _, spread := range []int{3, 45, 130} {
		contents := [][]byte{nil, make([]byte, 4*n)}
		for range n {
			contents[0] = binary.LittleEndian.AppendUint32(contents[0], uint32(float(r, isa.F32, r.IntN(2*spread)-spread)))
		}
		want := run(t, oracle, v, linear(n, 256), contents, nil, []uint64{3})
		for _, l := range levels {
			got := run(t, on(t, l, 1), v, linear(n, 256), contents, nil, []uint64{3})
			if err := same(v, got, want); err != nil {
				t.Errorf("%v, exponents to %d: %v", l, spread, err)
			}
		}
	}
}

// Quotients and remainders by constants have the oracle's bits: of numbers beside their
// multiples, and at the ends of a type; also where something keeps them from being packed.
func TestQuotientsByConstants(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	oracle := interp.New()
	const n = 300
	for _, ty := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64, isa.U64} {
		most := ty.Mask()
		if ty.Signed() {
			most >>= 1
		}
		divisors := []uint64{1, 2, 3, 5, 7, 10, 16, 100, 127, most, most - 1, most/2 + 1, most / 3}
		for range brief.Or(4, 1) {
			divisors = append(divisors, 1+r.Uint64N(most), 1+r.Uint64()%most>>r.IntN(ty.Bits()-1))
		}
		if ty.Signed() {
			divisors = append(divisors, most+1)
		}
		for _, d := range divisors {
			signs := []string{""}
			if d = max(1, d); ty.Signed() {
				signs = append(signs, "-")
			}
			if d > most { // what has no counterpart without its sign
				signs = []string{"-"}
			}
			var cells []byte
			for i := range n {
				cell := d*(r.Uint64()%max(1, most/d)+uint64(r.IntN(2))) + uint64(r.IntN(3)) - 1
				switch {
				case i < 8:
					cell = most + uint64(i) - 4
				case i%5 == 0:
					cell = r.Uint64()
				case ty.Signed() && i%2 == 0:
					cell = -cell
				}
				cells = append(cells, binary.LittleEndian.AppendUint64(nil, cell)[:ty.Size()]...)
			}
			for _, sign := range signs {
				for _, wide := range []bool{false, true} {
					slot, also, contents := "", "", [][]byte{cells, make([]byte, len(cells)), make([]byte, len(cells))}
					switch {
					case wide && ty.Size() > 2:
						continue
					case wide:
						slot, also = "\nslot f f32", fmt.Sprintf("\n  cvt.f32.%v f, x\n  stg.f32 f, f[index]", ty)
						contents = append(contents, make([]byte, 4*n))
					}
					v := verify(t, fmt.Sprintf("program p\nslot x %v\nslot q %[1]v\nslot m %[1]v%[4]s\n  ldg.%[1]v x, x[index]\n  div.%[1]v y, x, %s%d\n  stg.%[1]v y, q[index]\n  rem.%[1]v y, x, %[2]s%[3]d\n  stg.%[1]v y, m[index]%[5]s\n  exit", ty, sign, d, slot, also))
					want := run(t, oracle, v, linear(n, 100), contents, nil, nil)
					for _, l := range levels {
						if err := same(v, run(t, on(t, l, 1), v, linear(n, 100), contents, nil, nil), want); err != nil {
							t.Errorf("%v, %v by %s%d, wide: %v: %v", l, ty, sign, d, wide, err)
						}
					}
				}
			}
		}
	}
}

// Quotients and remainders of integers by what all lanes share are Go's: of 8 and 16 bits those
// of all numbers, of more bits those beside multiples and at the ends of a type.
func TestWholeQuotientsBySharedNumbers(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(13, 14))
	for _, ty := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64, isa.U64} {
		v := verify(t, fmt.Sprintf("program p\nslot x %v\nslot q %[1]v\nslot m %[1]v\nparam y %[1]v\n  ldg.%[1]v x, x[index]\n  ldp.%[1]v y, y\n  div.%[1]v q, x, y\n  stg.%[1]v q, q[index]\n  rem.%[1]v q, x, y\n  stg.%[1]v q, m[index]\n  exit", ty))
		most, size := ty.Mask(), ty.Size()
		if ty.Signed() {
			most >>= 1
		}
		var divisors []uint64
		for y := uint64(1); ty.Bits() == 8 && y <= most; y++ {
			divisors = append(divisors, y)
		}
		if ty.Signed() {
			divisors = append(divisors, most+1) // the least number
		}
		if ty.Bits() > 8 {
			divisors = append(divisors, 1, 2, 3, 5, 7, 10, 11, 13, 16, 100, 127, 129, 255, 257, 641, most, most-1, most/2+1, most/3, most/2-1)
			for range brief.Or(60, 12) {
				divisors = append(divisors, 1+r.Uint64N(most), max(1, r.Uint64N(most)>>r.IntN(ty.Bits()-1)))
			}
		}
		for _, y := range divisors {
			if ty.Signed() && r.IntN(3) == 0 {
				y = -y
			}
			y &= ty.Mask()
			n := 3000
			if ty.Bits() <= 16 {
				n = 1 << ty.Bits()
			}
			var cells, quotients, remainders []byte
			for i := range n {
				x := uint64(i)
				if ty.Bits() > 16 {
					by := y
					if ty.Signed() && int64(y<<(64-ty.Bits())) < 0 {
						by = -y & ty.Mask()
					}
					if x = by*(r.Uint64()%max(1, most/by)+uint64(r.IntN(2))) + uint64(r.IntN(3)) - 1; i%7 == 0 {
						x = r.Uint64() >> r.IntN(64)
					} else if i < 8 {
						x = most + uint64(i) - 4
					}
					if ty.Signed() && i%2 == 0 {
						x = -x
					}
				}
				q, m := x&ty.Mask()/y, x&ty.Mask()%y
				if ty.Signed() {
					up := 64 - ty.Bits()
					a, b := int64(x<<up)>>up, int64(y<<up)>>up
					q, m = uint64(a/b), uint64(a%b)
				}
				for to, cell := range map[*[]byte]uint64{&cells: x, &quotients: q, &remainders: m} {
					*to = append(*to, binary.LittleEndian.AppendUint64(nil, cell)[:size]...)
				}
			}
			for _, l := range levels {
				got := run(t, on(t, l, 1), v, linear(int64(n), 256), [][]byte{cells, make([]byte, len(cells)), make([]byte, len(cells))}, nil, []uint64{y})
				require.Equal(t, quotients, got.slots[1], "%v, %v by %#x", l, ty, y)
				require.Equal(t, remainders, got.slots[2], "%v, %v by %#x", l, ty, y)
			}
		}
	}
}

// Quotients and remainders by an element that stands for all lanes have the oracle's bits and
// faults, whatever the program does beside: where integers are packed, and where something
// keeps them from it; in whole groups and at their end.
func TestQuotientsByOneElement(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	oracle := interp.New()
	beside := map[string]string{
		"nothing":    "",
		"arithmetic": "  mul.%[1]v q, q, x\n  max.%[1]v m, m, y\n",
		"wider":      "  cvt.i64.%[1]v w, q\n  mul.i64 w, w, 3\n  cvt.%[1]v.i64 q, w\n",
		"by each":    "  sub.%[1]v q, q, m\n  or.%[1]v m, x, 1\n  div.%[1]v m, q, m\n",
	}
	for _, ty := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64, isa.U64} {
		for name, more := range beside {
			if more != "" {
				more = fmt.Sprintf(more, ty)
			}
			v := verify(t, fmt.Sprintf("program p\nslot x %v\nslot y %[1]v\nslot q %[1]v\nslot m %[1]v\n  ldg.%[1]v x, x[index]\n  ldg.%[1]v y, y[index]\n  div.%[1]v q, x, y\n  rem.%[1]v m, x, y\n%s  stg.%[1]v q, q[index]\n  stg.%[1]v m, m[index]\n  exit", ty, more))
			ends := []uint64{0, 1, 2, 3, ty.Mask(), ty.Mask() - 1, ty.Mask() - 2, ty.Mask() >> 1, ty.Mask()>>1 + 1, ty.Mask()>>1 + 2}
			for _, n := range []int{1, 63, 64, 700} {
				var x []byte
				for i := range n {
					cell := r.Uint64() >> r.IntN(64)
					if i < 2*len(ends) {
						cell = ends[i%len(ends)]
					}
					x = append(x, binary.LittleEndian.AppendUint64(nil, cell)[:ty.Size()]...)
				}
				for _, y := range append(ends, r.Uint64(), r.Uint64()>>r.IntN(64)) {
					contents := [][]byte{x, binary.LittleEndian.AppendUint64(nil, y)[:ty.Size()], make([]byte, len(x)), make([]byte, len(x))}
					stays := map[int][]int64{1: {0}}
					want := run(t, oracle, v, linear(int64(n), 100), contents, stays, nil)
					for _, l := range levels {
						if err := same(v, run(t, on(t, l, 1), v, linear(int64(n), 100), contents, stays, nil), want); err != nil {
							t.Fatalf("%v, %d of %v by %#x, beside %s: %v", l, n, ty, y&ty.Mask(), name, err)
						}
					}
				}
			}
		}
	}
}

// Quotients and remainders by what the lanes of a block share and is not there before them, in blocks of which the
// first one's is 0.
func TestQuotientsByTheBlocksNumber(t *testing.T) {
	for _, ty := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64, isa.U64} {
		for _, wide := range []string{"", "\n  cvt.f64.%[1]v w, x\n  mul.f64 w, w, 0.5\n  cvt.%[1]v.f64 x, w"} {
			text := fmt.Sprintf("program p\nslot x %[1]v\nslot q %[1]v\nslot m %[1]v\nparam k %[1]v\n  sreg b, block.x\n  cvt.%[1]v.u32 y, b\n  ldp.%[1]v k, k\n  rem.%[1]v y, y, k\n"+
				"  mul.%[1]v y, y, 3\n  bar_sync 0\n  ldg.%[1]v x, x[index]"+wide+"\n  div.%[1]v q, x, y\n  stg.%[1]v q, q[index]\n  rem.%[1]v q, x, y\n  stg.%[1]v q, m[index]\n  exit", ty)
			v := verify(t, text)
			for _, n := range []int64{512, 700} {
				contents := randomContents(rand.New(rand.NewPCG(41, 42)), v, n)
				want := run(t, interp.New(), v, linear(n, 256), contents, nil, []uint64{2})
				require.Error(t, want.err)
				for _, l := range levels {
					if err := same(v, run(t, on(t, l, 1), v, linear(n, 256), contents, nil, []uint64{2}), want); err != nil {
						t.Errorf("%v, %d lanes: %v\n%s", l, n, err, text)
					}
				}
			}
		}
	}
}
