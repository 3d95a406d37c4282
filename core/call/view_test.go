package call

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// TestExtentsOfLargeViews compares with exact numbers: an extent is that, or said to
// be more than an int64 should hold, which what reaches less than 2^57 bytes isn't.
func TestExtentsOfLargeViews(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	types := []isa.Type{isa.U8, isa.F16, isa.F32, isa.F64}
	sound := 0
	for range 50000 {
		v := backends.View{Type: types[r.IntN(len(types))], Rank: 1 + r.IntN(4)}
		size := big.NewInt(int64(v.Type.Size()))
		lo, hi := new(big.Int), new(big.Int).Set(size)
		for i := range v.Rank {
			v.Shape[i] = int64(1)<<r.IntN(63) + r.Int64N(3) - 1
			v.Stride[i] = int64(1)<<r.IntN(63) + r.Int64N(3) - 1
			if r.IntN(2) == 0 {
				v.Stride[i] = -v.Stride[i]
			}
			if r.IntN(20) == 0 {
				v.Shape[i], v.Stride[i] = []int64{1, 2, 3, math.MaxInt64}[r.IntN(4)], []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64, 0}[r.IntN(4)]
			}
			if i > 0 {
				v.Shape[i] = max(1, v.Shape[i]>>r.IntN(62))
			}
			reach := new(big.Int).Mul(big.NewInt(v.Shape[i]-1), big.NewInt(v.Stride[i]))
			if reach.Mul(reach, size); reach.Sign() < 0 {
				lo.Add(lo, reach)
			} else {
				hi.Add(hi, reach)
			}
		}
		if slices.Contains(v.Shape[:v.Rank], 0) {
			continue
		}
		gotLo, gotHi, ok := Extent(&v)
		small := max(hi.BitLen(), lo.BitLen()) <= 57
		if small {
			sound++
		}
		if ok && (!lo.IsInt64() || lo.Int64() != gotLo || !hi.IsInt64() || hi.Int64() != gotHi) || !ok && small {
			t.Fatalf("%+v: extent [%d, %d), %v; expected [%v, %v)", v, gotLo, gotHi, ok, lo, hi)
		}
	}
	require.Greater(t, sound, 1000)
}

// TestCountsOfElements counts up to a limit, and one beyond.
func TestCountsOfElements(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		shape       []int64
		limit, want int64 // -1: more than the limit
	}{
		{nil, 1, 1}, {[]int64{5}, 5, 5}, {[]int64{6}, 5, -1}, {[]int64{2, 3}, 6, 6}, {[]int64{2, 3}, 5, -1},
		{[]int64{most, 0}, 5, 0}, {[]int64{most, most, 0}, 0, 0}, {[]int64{most}, most, most}, {[]int64{1 << 32, 1 << 31}, most, -1},
		{[]int64{1 << 32, 1 << 32}, most, -1}, {[]int64{most, most, most}, most, -1}, {[]int64{1 << 31, 1 << 31}, 1 << 62, 1 << 62},
		{[]int64{1 << 31, 1 << 31}, 1<<62 - 1, -1}, {[]int64{1 << 32, 1 << 32, 7}, most, -1},
	} {
		n, ok := Elements(c.shape, c.limit)
		if ok != (c.want >= 0) || ok && n != c.want {
			t.Errorf("%v: %d, %v; expected %d", c.shape, n, ok, c.want)
		}
	}
}

// TestSameViews: two views are the same that have the same elements in the same
// order, under the same shape and type, and no others.
func TestSameViews(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	same := 0
	for range 20000 {
		a := randomView(r)
		b := a
		switch i := r.IntN(3); r.IntN(8) {
		case 0:
			b.Addr += 4
		case 1:
			b.Type = isa.I32
		case 2:
			b.Stride[i] = int64(r.IntN(5) - 2)
		case 3:
			b.Shape[i] = int64(r.IntN(4))
		case 4:
			b.Rank = r.IntN(4)
		case 5:
			b.Bytes++ // which follows from the rest
		case 6:
			b = randomView(r)
		}
		// What is empty may or may not be the same: nothing is in it.
		want := a.Type == b.Type && a.Addr == b.Addr && slices.Equal(a.Shape[:a.Rank], b.Shape[:b.Rank]) && slices.Equal(places(&a), places(&b))
		if got := SameView(&a, &b); got != want && Numel(&a) > 0 {
			t.Fatalf("%+v and %+v: the same %v, expected %v", a, b, got, want)
		}
		if want {
			same++
		}
	}
	require.Greater(t, same, 1000)
}

// TestPiecesOfAnArrayDoNotOverlapThemselves: what is cut out of an array by slices,
// steps and transpositions is not said to.
func TestPiecesOfAnArrayDoNotOverlapThemselves(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 20000 {
		whole := backends.View{Type: isa.F32, Rank: 4}
		for i := range 4 {
			whole.Shape[i] = 1 + r.Int64N(5)
		}
		Pack(&whole)
		v := backends.View{Type: isa.F32, Rank: 4}
		for k, i := range r.Perm(4) {
			step := 1 + r.Int64N(3)
			v.Shape[k], v.Stride[k] = 1+(whole.Shape[i]-1)/step, step*whole.Stride[i]
			if r.IntN(3) == 0 {
				v.Stride[k] = -v.Stride[k]
			}
			if r.IntN(8) == 0 {
				v.Shape[k], v.Stride[k] = 1, 0
			}
		}
		if selfOverlaps(&v) {
			t.Fatalf("%+v, of %+v, is said to overlap itself", v, whole)
		}
	}
	for n, want := range map[int64]bool{0: false, 1: false, 2: true} {
		v := backends.View{Type: isa.F32, Rank: 1, Shape: [8]int64{n}}
		require.Equal(t, want, selfOverlaps(&v), n)
	}
}

// TestCheckedLayouts goes to the last layout that may be, and beyond, of those that
// come in parts and those that come as a whole.
func TestCheckedLayouts(t *testing.T) {
	const far = math.MaxInt64
	eight := []int64{1, 1, 1, 1, 1, 1, 1, 3}
	for _, c := range []struct {
		addr          uintptr
		t             isa.Type
		shape, stride []int64
		code          status.Code
	}{
		{64, isa.F32, nil, nil, status.OK},
		{64, isa.F32, []int64{3, 0, 4}, nil, status.OK},
		{64, isa.F32, eight, nil, status.OK},
		{64, isa.F32, append([]int64{1}, eight...), nil, status.Invalid},
		{64, isa.Pred, []int64{3}, nil, status.BadType},
		{64, isa.NoType, []int64{3}, nil, status.BadType},
		{64, isa.F32, []int64{3, -1}, nil, status.Invalid},
		{64, isa.F32, []int64{-1}, []int64{1}, status.Invalid},
		{64, isa.U8, []int64{memory.MaxBytes / 8}, nil, status.OK},
		{64, isa.U8, []int64{memory.MaxBytes/8 + 1}, nil, status.Invalid},
		{64, isa.U8, []int64{memory.MaxBytes / 8, 2}, []int64{0, 0}, status.Invalid},
		{64, isa.F32, []int64{1 << 40, 1 << 40}, []int64{0, 0}, status.Invalid},
		{64, isa.F32, []int64{3, 4}, []int64{4}, status.Invalid},
		{64, isa.F32, []int64{3}, []int64{4, 1}, status.Invalid},
		{64, isa.F32, []int64{3}, []int64{}, status.Invalid},
		{64, isa.F32, []int64{17}, []int64{-1}, status.OK}, // down to address 0
		{64, isa.F32, []int64{18}, []int64{-1}, status.Invalid},
		{0, isa.F32, []int64{18}, []int64{-1}, status.OK}, // it is not known yet where
		{far - 8, isa.F32, []int64{2}, nil, status.OK},
		{far - 7, isa.F32, []int64{2}, nil, status.Invalid},
		{far - 7, isa.F32, []int64{2}, []int64{-1}, status.OK},
		{1 << 63, isa.F32, []int64{2}, nil, status.Invalid},
		{math.MaxUint64 - 3, isa.F32, []int64{2}, []int64{1}, status.Invalid},
		{64, isa.F64, []int64{2}, []int64{math.MinInt64}, status.Invalid},
		{0, isa.F64, []int64{2}, []int64{math.MinInt64}, status.Invalid},
	} {
		v, err := ViewOf("x", c.addr, c.t, c.shape, c.stride)
		require.Equal(t, c.code, status.CodeOf(err), "%+v", c)
		whole := &backends.View{Addr: c.addr, Type: c.t, Rank: len(c.shape)}
		copy(whole.Shape[:], c.shape)
		if c.stride == nil && whole.Rank <= isa.MaxRank {
			Pack(whole)
		}
		if c.stride == nil || len(c.stride) == len(c.shape) && c.addr != 0 {
			copy(whole.Stride[:], c.stride)
			require.Equal(t, c.code, status.CodeOf(CheckView(whole)), "%+v", c)
		}
		if err != nil {
			continue
		}
		require.Equal(t, c.shape, append([]int64(nil), v.Shape[:v.Rank]...))
		if c.stride != nil {
			require.Equal(t, c.stride, v.Stride[:v.Rank])
			require.Zero(t, v.Bytes)
		} else {
			require.True(t, Contiguous(v))
			require.Equal(t, Numel(v)*int64(c.t.Size()), v.Bytes)
		}
	}
	require.Equal(t, status.Invalid, status.CodeOf(CheckView(&backends.View{Type: isa.F32, Rank: -1})))
}
