package analysis

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// numbers are such as arithmetic of 64 bits goes wrong at.
var numbers = func() (list []int64) {
	for _, x := range []int64{0, 1, 2, 3, 7, 1 << 31, 1 << 32, 1<<62 - 1, 1 << 62, inf - 2, inf - 1} {
		list = append(list, x, -x)
	}
	return list
}()

func someInterval(r *rand.Rand) interval {
	end := func() int64 {
		if r.IntN(8) == 0 {
			return inf
		}
		return numbers[r.IntN(len(numbers))] + int64(r.IntN(3)-1)
	}
	a, b := end(), end()
	if r.IntN(4) == 0 {
		b = a
	}
	if a == inf { // nothing is known of the lower end
		a = -inf
	}
	if r.IntN(8) == 0 {
		a = -inf
	}
	return interval{max(-inf, min(a, b)), min(inf, max(a, b))}
}

func wide(x int64) *big.Int { return big.NewInt(x) }

// has reports whether a number may be in r.
func has(r interval, x *big.Int) bool {
	return (r.lo <= -inf || x.Cmp(wide(r.lo)) >= 0) && (r.hi >= inf || x.Cmp(wide(r.hi)) <= 0)
}

// some lists numbers of r, from about its ends, and from beyond those that are open.
func some(r interval) (list []*big.Int) {
	top := new(big.Int).SetUint64(math.MaxUint64)
	for _, x := range []*big.Int{wide(0), wide(1), wide(-1), wide(r.lo), wide(r.hi), wide(r.lo + 1), wide(r.hi - 1), wide(inf), wide(math.MinInt64), wide(-inf),
		top, new(big.Int).Neg(top), wide(r.lo/2 + r.hi/2)} {
		if has(r, x) {
			list = append(list, x)
		}
	}
	return list
}

func exactly(x *big.Int) bool { return x.IsInt64() && x.Int64() < inf && x.Int64() > -inf }

// TestIntervalsAgainstExactNumbers holds sums, products and what else is made of
// intervals against numbers of any size: none is lost, whatever wraps, and where
// nothing does the ends are numbers that there are.
func TestIntervalsAgainstExactNumbers(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		a, b := someInterval(r), someInterval(r)
		c := numbers[r.IntN(len(numbers))]
		plus, times, scale, hull, meet := a.plus(b), a.times(b), a.scale(c), a.hull(b), a.meet(b)
		for _, x := range some(a) {
			require.True(t, has(scale, new(big.Int).Mul(x, wide(c))), "%v · %d: %v without that of %v", a, c, scale, x)
			require.True(t, has(hull, x), "%v and %v: %v without %v", a, b, hull, x)
			require.Equal(t, has(b, x), has(meet, x), "%v meets %v: %v, %v", a, b, meet, x)
			for _, y := range some(b) {
				require.True(t, has(plus, new(big.Int).Add(x, y)), "%v + %v: %v without that of %v and %v", a, b, plus, x, y)
				require.True(t, has(times, new(big.Int).Mul(x, y)), "%v · %v: %v without that of %v and %v", a, b, times, x, y)
				require.True(t, has(hull, y), "%v and %v: %v without %v", a, b, hull, y)
			}
		}
		closed := func(r interval) bool { return r.lo > -inf && r.hi < inf }
		if closed(a) && closed(b) {
			if lo, hi := new(big.Int).Add(wide(a.lo), wide(b.lo)), new(big.Int).Add(wide(a.hi), wide(b.hi)); exactly(lo) && exactly(hi) {
				require.Equal(t, interval{lo.Int64(), hi.Int64()}, plus)
			}
			ends := []*big.Int{new(big.Int).Mul(wide(a.lo), wide(c)), new(big.Int).Mul(wide(a.hi), wide(c))}
			if exactly(ends[0]) && exactly(ends[1]) {
				require.Equal(t, interval{min(ends[0].Int64(), ends[1].Int64()), max(ends[0].Int64(), ends[1].Int64())}, scale)
			}
			require.Equal(t, interval{min(a.lo, b.lo), max(a.hi, b.hi)}, hull)
		}
		if c > 0 && a.lo >= 0 {
			by := a.floorDiv(c)
			for _, x := range some(a) { // of a cell, which is at most 2^64 − 1
				require.True(t, has(by, new(big.Int).Div(x, wide(c))), "%v / %d: %v without that of %v", a, c, by, x)
			}
			require.False(t, a.hi < inf && by.hi != a.hi/c || by.lo != a.lo/c, "%v / %d: %v", a, c, by)
		}
	}
	none := interval{1, 0}
	require.Equal(t, interval{3, 4}, none.hull(interval{3, 4}))
	require.Equal(t, interval{3, 4}, interval{3, 4}.hull(none))
}

// TestExactSums adds and multiplies numbers, or says that what is made is too large.
func TestExactSums(t *testing.T) {
	for _, a := range numbers {
		for _, b := range numbers {
			for _, d := range []int64{-1, 0, 1} {
				a := max(-inf+1, min(inf-1, a+d))
				want := new(big.Int).Add(wide(a), wide(b))
				got, ok := add(a, b)
				require.Equal(t, exactly(want), ok, "%d + %d", a, b)
				require.False(t, ok && got != want.Int64(), "%d + %d = %d", a, b, got)
				want.Mul(wide(a), wide(b))
				got, ok = mul(a, b)
				require.Equal(t, exactly(want), ok, "%d · %d", a, b)
				require.False(t, ok && got != want.Int64(), "%d · %d = %d", a, b, got)
			}
		}
	}
}

// TestRangesOfTypes goes through the cells about the ends of each type: a cell's
// number is in the type's range, unless it does not fit, and an interval fits a type
// that has both its ends.
func TestRangesOfTypes(t *testing.T) {
	for _, typ := range isa.NumericTypes {
		if !typ.Integer() {
			continue
		}
		lo, hi := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(typ.Bits()))
		if typ.Signed() {
			hi.Rsh(hi, 1)
			lo.Neg(hi)
		}
		hi.Sub(hi, big.NewInt(1))
		r := rangeOf(typ)
		for _, end := range []*big.Int{lo, hi, new(big.Int)} {
			for d := int64(-2); d <= 2; d++ {
				x := new(big.Int).Add(end, wide(d))
				is := x.Cmp(lo) >= 0 && x.Cmp(hi) <= 0
				if exactly(x) {
					p := interval{x.Int64(), x.Int64()}
					require.Equal(t, is, p.fits(typ), "%v in %v", x, typ)
					if typ.Bits() < 64 {
						require.Equal(t, is, has(r, x), "%v in %v", x, typ)
					}
				}
				if !is {
					continue
				}
				require.True(t, has(r, x), "%v in %v", x, typ)
				cell := new(big.Int).And(x, new(big.Int).SetUint64(typ.Mask())).Uint64()
				got, ok := signedCell(typ, cell)
				require.Equal(t, exactly(x), ok, "%v of %v", x, typ)
				require.False(t, ok && got != x.Int64(), "%v of %v is %d", x, typ, got)
			}
		}
	}
	for _, typ := range []isa.Type{isa.I64, isa.U64} { // an open end may be anything
		require.False(t, interval{0, inf}.fits(typ))
		require.False(t, interval{-inf, 0}.fits(typ))
		require.True(t, interval{0, inf - 1}.fits(typ))
	}
	require.Equal(t, interval{0, 1}, rangeOf(isa.Pred))
}

// TestSumsOfForms adds multiples of forms term by term, exactly, or says that there
// is none: a number in it is too large, or it has too many terms.
func TestSumsOfForms(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(3, 4))
	some := func() (f form, all map[int32]*big.Int) {
		all = map[int32]*big.Int{}
		f.c = numbers[r.IntN(len(numbers))]
		all[-1] = wide(f.c)
		for atom := int32(0); atom < 12 && f.n < maxTerms; atom++ {
			if r.IntN(2) == 0 {
				coef := numbers[2+r.IntN(len(numbers)-2)]
				if r.IntN(2) == 0 {
					coef = int64(r.IntN(5)) + 1
				}
				f.terms[f.n] = term{atom, coef}
				f.n++
				all[atom] = wide(coef)
			}
		}
		return f, all
	}
	made, refused := 0, 0
	for range 20000 {
		x, inX := some()
		y, inY := some()
		k := []int64{0, 1, -1, 2, -3, 8, 1 << 40}[r.IntN(7)]
		if r.IntN(4) == 0 { // what cancels out
			y, inY, k = x, inX, -1
		}
		want, fits := map[int32]*big.Int{}, true
		for atom := int32(-1); atom < 12; atom++ {
			sum, part := new(big.Int), new(big.Int)
			if c := inX[atom]; c != nil {
				sum.Add(sum, c)
			}
			if c := inY[atom]; c != nil {
				part.Mul(c, wide(k))
				sum.Add(sum, part)
			}
			fits = fits && exactly(part) && exactly(sum)
			if atom < 0 || sum.Sign() != 0 {
				want[atom] = sum
			}
		}
		fits = fits && len(want)-1 <= maxTerms
		var f form
		ok := f.plus(&x, k, &y)
		require.Equal(t, fits, ok, "%+v + %d · %+v", x, k, y)
		if !ok {
			refused++
			continue
		}
		made++
		require.Equal(t, want[-1].Int64(), f.c)
		require.Equal(t, len(want)-1, f.n)
		for i := range f.n {
			require.Equal(t, want[f.terms[i].atom].Int64(), f.terms[i].coef)
			require.False(t, i > 0 && f.terms[i].atom <= f.terms[i-1].atom, "out of order")
		}
	}
	require.Greater(t, made, 2000)
	require.Greater(t, refused, 2000)
}
