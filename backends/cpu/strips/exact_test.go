package strips

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// What is the same for all lanes or linear in them is computed once; what comes
// out must be what each lane would have got, whatever the signs, the wrapping
// and the zeros that the lanes go through.
func TestLinearRulesLaneByLane(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(typ isa.Type) lin {
		lo, hi := typeRange(typ)
		small := []int64{-70, -65, -64, -33, -32, -9, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 70}
		l := lin{small[r.IntN(len(small))], small[r.IntN(len(small))]}
		switch r.IntN(8) {
		case 0:
			l.base = lo + int64(r.IntN(70))
		case 1:
			l.base = hi - int64(r.IntN(70))
		case 2:
			l.base, l.stride = l.base<<r.IntN(40), l.stride<<r.IntN(40)
		}
		if r.IntN(3) == 0 {
			l.stride = 0
		}
		return l
	}
	cellOf := func(typ isa.Type, v int64) uint64 { return uint64(v) & typ.Mask() }
	linear := 0
	for op, rule := range linRules {
		row, _ := isa.Lookup(op)
		for _, typ := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16, isa.I32, isa.U32, isa.I64, isa.U64} {
			for range 6000 {
				x, y, n := draw(typ), draw(typ), 1+r.IntN(70)
				if !x.fits(typ, n) || !y.fits(typ, n) {
					continue
				}
				l, ok := rule(typ, x, y, n)
				if !ok || !l.fits(typ, n) {
					continue
				}
				linear++
				for i := range n {
					at := func(l lin) uint64 { return cellOf(typ, l.base+int64(i)*l.stride) }
					want, fault := row.Eval(isa.Form{Type: typ}, at(x), at(y), 0)
					if fault != isa.NoFault {
						continue // reported by the step; the value is 0 there
					}
					if at(l) != want {
						require.Equal(t, want, at(l), "%v.%v of %v and %v, lane %d of %d", op, typ, x, y, i, n)
					}
				}
			}
			for _, c := range []isa.Cond{isa.EQ, isa.NE, isa.LT, isa.LE} {
				set, _ := isa.Lookup(isa.SET)
				for range 1000 {
					x, y, n := draw(typ), draw(typ), 1+r.IntN(70)
					if !x.fits(typ, n) || !y.fits(typ, n) {
						continue
					}
					holds, ok := linSet(c, x, y, n)
					for i := 0; ok && i < n; i++ {
						at := func(l lin) uint64 { return cellOf(typ, l.base+int64(i)*l.stride) }
						want, _ := set.Eval(isa.Form{Type: typ, Cond: c}, at(x), at(y), 0)
						if uint64(b2u(holds)) != want {
							require.Equal(t, want, uint64(b2u(holds)), "set.%v.%v of %v and %v, lane %d of %d", c, typ, x, y, i, n)
						}
					}
				}
			}
		}
	}
	require.Greater(t, linear, 50000, "results that stayed linear")
}

// Every 16-bit float, the point halfway to the next, and what lies next to
// that point on either side: a tie goes to the even one, the least more or less
// than a tie to the nearer one, from whichever type it comes.
func TestNarrowingAroundTies(t *testing.T) {
	for _, typ := range []isa.Type{isa.F16, isa.BF16} {
		top := uint16(0x7c00) // infinity
		if typ == isa.BF16 {
			top = 0x7f80
		}
		h := halves[typ]
		value := func(c uint16) float64 {
			if c == top { // as if the exponents went on
				return math.Ldexp(1, map[isa.Type]int{isa.F16: 16, isa.BF16: 128}[typ])
			}
			var f float32
			h.widen(unsafe.Pointer(&f), unsafe.Pointer(&c), 1)
			return float64(f)
		}
		from64, from32 := cvtLoops[typ][isa.F64], cvtLoops[typ][isa.F32]
		for c := uint16(0); c < top; c++ {
			low, high := value(c), value(c+1)
			tie := low + (high-low)/2
			even := c + c&1
			for sign, bit := range map[float64]uint16{1: 0, -1: 0x8000} {
				for _, x := range []struct {
					v    float64
					want uint16
				}{
					{low, c}, {tie, even}, {math.Nextafter(tie, 0), c}, {math.Nextafter(tie, math.Inf(1)), c + 1},
					{tie * (1 - 0x1p-30), c}, {tie * (1 + 0x1p-30), c + 1},
				} {
					v, got := sign*x.v, uint16(0)
					from64(unsafe.Pointer(&got), unsafe.Pointer(&v), 1)
					if got != x.want|bit {
						require.Equal(t, x.want|bit, got, "%v from f64 %v", typ, v)
					}
					if f := float32(v); float64(f) == v {
						from32(unsafe.Pointer(&got), unsafe.Pointer(&f), 1)
						if got != x.want|bit {
							require.Equal(t, x.want|bit, got, "%v from f32 %v", typ, f)
						}
					}
					if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
						narrowInts(t, typ, int64(v), x.want|bit, x.want)
					}
				}
				// Integers next to ties that no float64 holds.
				if tie == math.Trunc(tie) && tie >= 1<<54 && tie < 1<<62 {
					n := int64(tie)
					narrowInts(t, typ, int64(sign)*(n+1), (c+1)|bit, c+1)
					narrowInts(t, typ, int64(sign)*(n-1), c|bit, c)
					narrowInts(t, typ, int64(sign)*n, even|bit, even)
				}
			}
		}
	}
}

// narrowInts converts v from the 64-bit integers; magnitude is what |v| gives.
func narrowInts(t *testing.T, typ isa.Type, v int64, want, magnitude uint16) {
	t.Helper()
	if v == 0 {
		want = 0
	}
	var got uint16
	cvtLoops[typ][isa.I64](unsafe.Pointer(&got), unsafe.Pointer(&v), 1)
	if got != want {
		require.Equal(t, want, got, "%v from i64 %d", typ, v)
	}
	u := uint64(max(v, -v))
	cvtLoops[typ][isa.U64](unsafe.Pointer(&got), unsafe.Pointer(&u), 1)
	if got != magnitude {
		require.Equal(t, magnitude, got, "%v from u64 %d", typ, u)
	}
}
