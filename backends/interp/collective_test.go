package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

// The written orders, said again as recursions on Go's own arithmetic.

// halved is element q once elements w or more apart have been joined: s[q] += s[q+w].
func halved[T any](s []T, op func(a, b T) T, q, w int) T {
	if w == len(s) {
		return s[q]
	}
	return op(halved(s, op, q, 2*w), halved(s, op, q+w, 2*w))
}

// scanned is element q of Hillis and Steele's scan after the rounds 1, 2, … w.
func scanned[T any](s []T, op func(a, b T) T, q, w int) T {
	switch {
	case w == 0:
		return s[q]
	case q < w:
		return scanned(s, op, q, w/2)
	}
	return op(scanned(s, op, q-w, w/2), scanned(s, op, q, w/2))
}

// collectives tells what each lane of a block gets; absent lanes have the
// identity. x has as many elements as the block lanes.
func collectives[T any](x []T, absent func(int) bool, identity T, op func(a, b T) T) (reduce T, scan []T) {
	padded := 1
	for padded < len(x) {
		padded *= 2
	}
	s := make([]T, padded)
	for i := range s {
		s[i] = identity
		if i < len(x) && !absent(i) {
			s[i] = x[i]
		}
	}
	for q := range x {
		scan = append(scan, scanned(s, op, q, padded/2))
	}
	return halved(s, op, 0, 1), scan
}

type arithmetic[T any] struct {
	t        isa.Type
	encode   func(T) uint64
	make     func(i int) T
	identity [4]T // ADD, MIN, MAX, MUL
	op       [4]func(a, b T) T
}

func testCollectives[T any](t *testing.T, a arithmetic[T]) {
	t.Helper()
	size := a.t.Size()
	for _, block := range []int{1, 2, 31, 32, 33, 100} {
		n := 2*block - block/3 // the last block has surplus lanes
		for k, name := range []string{"add", "min", "max", "mul"} {
			for _, kind := range []string{"reduce", "scan"} {
				what := fmt.Sprintf("block_%s_%s.%v, %d lanes in blocks of %d", kind, name, a.t, n, block)
				r := setup(t, fmt.Sprintf(`
slot x %[1]v
slot out %[1]v
  ldg.%[1]v v, x[index]
  and.u32 l, r252, 7
  set.eq.u32 p, l, 5
  bra gone, p
  block_%[2]s_%[3]s.%[1]v v, v
  stg.%[1]v v, out[index]
gone:
  exit`, a.t, kind, name), uint64(n), uint32(block))
				x := make([]T, 2*block)
				for i := range n {
					x[i] = a.make(i)
					var cell [8]byte
					binary.LittleEndian.PutUint64(cell[:], a.encode(x[i]))
					copy(r.bytes(0)[i*size:], cell[:size])
				}
				r.ok()
				for b := range 2 {
					absent := func(i int) bool { return i&7 == 5 || b*block+i >= n }
					reduce, scan := collectives(x[b*block:][:block], absent, a.identity[k], a.op[k])
					for i := range block {
						var cell [8]byte
						if at := b*block + i; at < n {
							copy(cell[:], r.bytes(1)[at*size:][:size])
						}
						got, want := binary.LittleEndian.Uint64(cell[:]), uint64(0)
						if !absent(i) {
							want = a.encode(reduce)
							if kind == "scan" {
								want = a.encode(scan[i])
							}
						}
						if got != want {
							t.Fatalf("%s: lane %d of block %d has %#x, want %#x", what, i, b, got, want)
						}
					}
				}
			}
		}
	}
}

// wild gives numbers of very different sizes, so that the order of adding shows.
func wild(i int) float64 { return math.Ldexp(math.Sin(float64(i+1)), i*7%23-11) }

func TestCollectives(t *testing.T) {
	f32 := arithmetic[float32]{
		t: isa.F32, make: func(i int) float32 { return float32(wild(i)) },
		encode:   func(x float32) uint64 { return uint64(math.Float32bits(x)) },
		identity: [4]float32{float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), 1},
		op: [4]func(a, b float32) float32{
			func(a, b float32) float32 { return a + b }, func(a, b float32) float32 { return min(a, b) },
			func(a, b float32) float32 { return max(a, b) }, func(a, b float32) float32 { return a * b }},
	}
	testCollectives(t, f32)
	for _, narrow := range []isa.Type{isa.F16, isa.BF16} {
		a := f32
		a.t = narrow
		a.encode = func(x float32) uint64 { return isa.Convert(narrow, isa.F32, uint64(math.Float32bits(x))) }
		a.make = func(i int) float32 {
			return math.Float32frombits(uint32(isa.Convert(isa.F32, narrow, a.encode(float32(wild(i))))))
		}
		testCollectives(t, a)
	}
	testCollectives(t, arithmetic[float64]{
		t: isa.F64, make: wild, encode: math.Float64bits,
		identity: [4]float64{math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1},
		op: [4]func(a, b float64) float64{
			func(a, b float64) float64 { return a + b }, func(a, b float64) float64 { return min(a, b) },
			func(a, b float64) float64 { return max(a, b) }, func(a, b float64) float64 { return a * b }},
	})
	testCollectives(t, arithmetic[int16]{
		t: isa.I16, make: func(i int) int16 { return int16(i * 7919) }, encode: func(x int16) uint64 { return uint64(uint16(x)) },
		identity: [4]int16{0, math.MaxInt16, math.MinInt16, 1},
		op: [4]func(a, b int16) int16{
			func(a, b int16) int16 { return a + b }, func(a, b int16) int16 { return min(a, b) },
			func(a, b int16) int16 { return max(a, b) }, func(a, b int16) int16 { return a * b }},
	})
	testCollectives(t, arithmetic[uint64]{
		t: isa.U64, make: func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }, encode: func(x uint64) uint64 { return x },
		identity: [4]uint64{0, math.MaxUint64, 0, 1},
		op: [4]func(a, b uint64) uint64{
			func(a, b uint64) uint64 { return a + b }, func(a, b uint64) uint64 { return min(a, b) },
			func(a, b uint64) uint64 { return max(a, b) }, func(a, b uint64) uint64 { return a * b }},
	})
}

// TestCollectiveOfZeros sees that padding changes no sign: the sum of −0.0s is −0.0.
func TestCollectiveOfZeros(t *testing.T) {
	for _, ty := range isa.SetFloat.List() {
		r := setup(t, fmt.Sprintf("slot out %[1]v\n block_reduce_add.%[1]v x, -0x0p+0\n stg.%[1]v x, out[index]\n exit", ty), 3, 3)
		r.ok()
		b := r.bytes(0)[:ty.Size()]
		if b[ty.Size()-1] != 0x80 || b[0] != 0 {
			t.Errorf("%v: the sum of −0.0 is % x", ty, b)
		}
	}
}
