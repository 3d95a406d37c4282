package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
)

// narrowProgram does with integers of a type all that machine code does with packed
// ones, and stores each result. other has its size and the other sign.
func narrowProgram(ty, other isa.Type) string {
	var slots, body strings.Builder
	out := func(t isa.Type, name, form string, args ...any) {
		fmt.Fprintf(&slots, "slot %s %v\n", name, t)
		fmt.Fprintf(&body, "  "+form+"\n", args...)
		fmt.Fprintf(&body, "  stg.%v r, %s[index]\n", t, name)
	}
	for _, op := range []string{"add", "sub", "mul", "min", "max", "and", "or", "xor"} {
		out(ty, "o_"+op, "%s.%v r, x, y", op, ty)
		out(ty, "k_"+op, "%s.%v r, x, k", op, ty)
	}
	out(ty, "o_not", "not.%v r, x", ty)
	out(ty, "o_mad", "mad.%v r, x, y, k", ty)
	out(ty, "o_seven", "mul.%v r, x, 7", ty)
	if ty.Signed() {
		out(ty, "o_abs", "abs.%v r, x", ty)
		out(ty, "o_neg", "neg.%v r, x", ty)
	}
	for _, c := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		out(ty, "o_"+c, "set.%s.%v p, x, y\n  sel.%[2]v r, p, x, 3", c, ty)
	}
	out(ty, "o_both", "set.lt.%v p, x, y\n  set.ne.%[1]v q, x, k\n  and.pred p, p, q\n  not.pred q, p\n  xor.pred p, p, q\n  or.pred p, p, q\n  sel.%[1]v r, p, x, y", ty)
	out(other, "o_cast", "bitcast.%v.%v r, x\n  cvt.%[1]v.%[2]v s, y\n  min.%[1]v r, r, s", other, ty)
	return fmt.Sprintf("program p\nslot a %v\nslot b %[1]v\nparam k %[1]v\n%s  ldg.%[1]v x, a[index]\n  ldg.%[1]v y, b[index]\n  ldp.%[1]v k, k\n%[3]s  exit\n", ty, slots.String(), body.String())
}

// narrowPairs are all pairs of some numbers of a size, those at the ends of its ranges
// among them.
func narrowPairs(r *rand.Rand, size int) (a, b []byte) {
	numbers := []uint16{0, 1, 2, 3, 0x7e, 0x7f, 0x80, 0x81, 0xfd, 0xfe, 0xff, 0x100, 0x7fff, 0x8000, 0x8001, 0xff00, 0xfffe, 0xffff}
	for range 20 {
		numbers = append(numbers, uint16(r.Uint32()))
	}
	put := func(to []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(to, v)[:len(to)+size] }
	for _, x := range numbers {
		for _, y := range numbers {
			a, b = put(a, x), put(b, y)
		}
	}
	return a, b
}

// Integers of 8 and 16 bits have the oracle's bits where they lie packed in registers,
// in groups of any length, and what is behind the last lane stays.
func TestPackedIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	oracle := interp.New()
	for _, types := range [][2]isa.Type{{isa.I8, isa.U8}, {isa.U8, isa.I8}, {isa.I16, isa.U16}, {isa.U16, isa.I16}} {
		v := verify(t, narrowProgram(types[0], types[1]))
		a, b := narrowPairs(r, types[0].Size())
		all := int64(len(a) / types[0].Size())
		for _, n := range []int64{1, 15, 33, 64, 200, all - 5} {
			contents := randomContents(r, v, all)
			contents[0], contents[1] = a, b
			params := []uint64{uint64(r.Uint32()) & types[0].Mask()}
			want := run(t, oracle, v, linear(n, 256), contents, nil, params)
			for _, l := range levels {
				got := run(t, on(t, l, 1), v, linear(n, 256), contents, nil, params)
				if err := same(v, got, want); err != nil {
					t.Errorf("%v, %v, %d elements: %v", types[0], l, n, err)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Masks and bools beside numbers of other sizes; operands that are one element.
func TestPackedBesideOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	oracle := interp.New()
	for _, ty := range []isa.Type{isa.I8, isa.U16, isa.F16, isa.BF16, isa.F32, isa.U32, isa.F64, isa.I64} {
		v := verify(t, fmt.Sprintf(`
program p
slot a %v
slot b %[1]v
slot m u8
slot less u8
slot chosen %[1]v
slot wide u16
  ldg.%[1]v x, a[index]
  ldg.%[1]v y, b[index]
  ldg.u8 m, m[index]
  set.lt.%[1]v p, x, y
  sel.u8 r, p, 1, 0
  stg.u8 r, less[index]
  set.gt.u8 q, m, 100
  sel.%[1]v z, q, x, y
  stg.%[1]v z, chosen[index]
  and.pred p, p, q
  not.pred p, p
  sel.u16 w, p, 0xfedc, 0x1234
  stg.u16 w, wide[index]
  exit`, ty))
		for _, n := range []int64{1, 9, 31, 200} {
			contents := randomContents(r, v, 203)
			for _, strides := range []map[int][]int64{nil, {0: {0}, 2: {0}}} {
				want := run(t, oracle, v, linear(n, 64), contents, strides, nil)
				for _, l := range levels {
					got := run(t, on(t, l, 1), v, linear(n, 64), contents, strides, nil)
					if err := same(v, got, want); err != nil {
						t.Errorf("%v, %v, %d elements, strides %v: %v", ty, l, n, strides, err)
					}
				}
			}
		}
	}
}

// Floats of 16 bits that are compared are numbers in registers, and their bits still bits,
// where integers beside them are packed. (Those of a NaN are any, so it is chosen away.)
func TestBitcastsBesidePackedIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	oracle := interp.New()
	for _, types := range [][2]isa.Type{{isa.BF16, isa.F16}, {isa.F16, isa.BF16}, {isa.BF16, isa.BF16}, {isa.F16, isa.F16}} {
		v := verify(t, fmt.Sprintf(`
program p
slot a %v
slot b %v
slot m u8
  ldg.%[1]v x, a[index]
  set.lt.%[1]v p, x, 1
  sel.%[1]v y, p, x, 0
  bitcast.%[2]v.%[1]v z, y
  stg.%[2]v z, b[index]
  ldg.u8 k, m[index]
  add.u8 k, k, 5
  stg.u8 k, m[index]
  exit`, types[0], types[1]))
		contents := randomContents(r, v, 203)
		want := run(t, oracle, v, linear(200, 64), contents, nil, nil)
		for _, l := range levels {
			if err := same(v, run(t, on(t, l, 1), v, linear(200, 64), contents, nil, nil), want); err != nil {
				t.Errorf("%v, %v: %v", types, l, err)
			}
		}
	}
}
