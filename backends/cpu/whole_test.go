package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// wholes are integers of a type: near powers of two, near multiples of what may divide
// them, and any.
func wholes(r *rand.Rand, t isa.Type, n int, y uint64) (cells []uint64, bytes []byte) {
	var within uint64
	for i := range n {
		near := uint64(r.IntN(5)) - 2
		if i%16 == 0 { // neighbours stay below some power of two
			within = uint64(1)<<(24+r.IntN(41)) - 1
		}
		c := uint64(1)<<r.IntN(t.Bits()) + near
		switch bits := r.IntN(64); {
		case i < n/4: // groups that are in no bound
		case i < n/2:
			c = c&within | near>>14
		case i < 3*n/4 && y != 0:
			c = min(r.Uint64()>>bits/y, within/y)*y + near
		default:
			c = r.Uint64() >> bits
		}
		if t.Signed() && r.IntN(2) == 0 {
			c = -c
		}
		cells = append(cells, c&t.Mask())
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], c)
		bytes = append(bytes, b[:t.Size()]...)
	}
	return cells, bytes
}

// Quotients and remainders of integers have the oracle's bits, by what each lane has, by
// a parameter and by a constant: in groups within the bounds of f64, beyond, and by 0.
func TestWholeQuotients(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(19, 20))
	oracle := interp.New()
	const n = 400
	for _, ty := range []isa.Type{isa.I64, isa.U64, isa.I32, isa.U32, isa.I16} {
		divisors, _ := wholes(r, ty, 2, 0)
		divisors = append(divisors, 0, 1, 3, ty.Mask(), 1<<(ty.Bits()-1))
		for k := ty.Bits()/2 - 1; k < ty.Bits(); k += 1 + r.IntN(2) {
			divisors = append(divisors, 1<<k+uint64(r.IntN(7))-3)
		}
		for _, y := range divisors {
			y &= ty.Mask()
			constant := fmt.Sprint(y)
			if ty.Signed() {
				constant = fmt.Sprint(int64(y<<(64-ty.Bits())) >> (64 - ty.Bits()))
			}
			text := "program p\nparam by T\nslot x T\nslot y T\nslot q0 T\nslot r0 T\nslot q1 T\nslot r1 T\nslot q2 T\nslot r2 T\n  ldg.T x, x[index]\n  ldg.T y, y[index]\n  ldp.T p, by\n  mov.T c, " + constant
			_, x := wholes(r, ty, n, y)
			_, ys := wholes(r, ty, n, 0)
			contents := [][]byte{x, ys}
			for i, by := range []string{"y", "p", "c"} {
				text += strings.NewReplacer("@", fmt.Sprint(i), "by", by).Replace("\n  div.T q, x, by\n  rem.T r, x, by\n  stg.T q, q@[index]\n  stg.T r, r@[index]")
				contents = append(contents, make([]byte, len(x)), make([]byte, len(x)))
			}
			v := verify(t, strings.ReplaceAll(text, "T", ty.String())+"\n  exit")
			want := run(t, oracle, v, linear(n, 256), contents, nil, []uint64{y})
			for _, l := range levels {
				got := run(t, on(t, l, 1), v, linear(n, 256), contents, nil, []uint64{y})
				if err := same(v, got, want); err != nil {
					t.Errorf("%v, %v, divided by %s: %v", ty, l, constant, err)
				}
			}
		}
	}
}
