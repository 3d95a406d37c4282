package backends_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

func view(t isa.Type, shape, stride []int64) *backends.View {
	v := &backends.View{Type: t, Rank: len(shape)}
	copy(v.Shape[:], shape)
	copy(v.Stride[:], stride)
	return v
}

// places returns how many bytes each element of v, row-major, lies from the
// lowest of them, and how many they reach over.
func places(v *backends.View) (at []int64, reach int64) {
	at = []int64{0}
	for d := range v.Rank {
		var next []int64
		for _, a := range at {
			for i := range v.Shape[d] {
				next = append(next, a+i*v.Stride[d]*int64(v.Type.Size()))
			}
		}
		at = next
	}
	if len(at) == 0 {
		return nil, 0
	}
	low := slices.Min(at)
	for i := range at {
		at[i] -= low
	}
	return at, slices.Max(at) + int64(v.Type.Size())
}

// FlatOf finds the one step of a view's elements where there is one, and says so
// where there is none: every view of up to three axes of few sizes and strides.
func TestFlatOf(t *testing.T) {
	const size = 2
	found := 0
	check := func(v *backends.View) {
		at, reach := places(v)
		f, ok := backends.FlatOf(v)
		even := true
		for i := range at {
			even = even && (len(at) < 2 || at[1] != at[0] && at[i]-at[0] == int64(i)*(at[1]-at[0]))
		}
		if even != ok {
			t.Fatalf("%v %v: one step %v, found %v", v.Shape, v.Stride, even, ok)
		}
		if !ok {
			return
		}
		found++
		if f.Step == 0 || f.Count != int64(len(at)) || f.Reach(size) != reach || f.Limit < f.Count {
			t.Fatalf("%v %v: %+v", v.Shape, v.Stride, f)
		}
		for i, a := range at {
			if f.At(int64(i), isa.I16) != a {
				t.Fatalf("%v %v: %+v, element %d is at byte %d", v.Shape, v.Stride, f, i, a)
			}
		}
		// What is beyond the view is beyond its memory, up to the limit.
		for _, i := range []int64{-f.Limit, -1, f.Count, f.Limit} {
			if off := f.At(i, isa.I16); off >= 0 && off <= reach-size {
				t.Fatalf("%v %v: %+v, element %d is at byte %d of %d", v.Shape, v.Stride, f, i, off, reach)
			}
		}
	}
	var try func(v backends.View)
	try = func(v backends.View) {
		if check(&v); v.Rank == 3 {
			return
		}
		v.Rank++
		for _, n := range []int64{1, 2, 3} {
			for _, s := range []int64{-6, -3, -1, 0, 1, 2, 6} {
				v.Shape[v.Rank-1], v.Stride[v.Rank-1] = n, s
				try(v)
			}
		}
	}
	try(backends.View{Type: isa.I16})
	check(view(isa.I16, []int64{0}, []int64{-2}))
	check(view(isa.I16, []int64{3, 0, 2}, []int64{5, 7, 1}))
	require.Greater(t, found, 1000)
}

// Elements may lie so far apart that a number of 32 bits times the step wraps.
func TestFlatOfAHugeStep(t *testing.T) {
	f, ok := backends.FlatOf(view(isa.F64, []int64{2}, []int64{1 << 50}))
	require.True(t, ok)
	require.Equal(t, backends.Flat{Step: 1 << 50, Count: 2, Limit: 1 << 8}, f)
	f, ok = backends.FlatOf(view(isa.F64, []int64{2}, []int64{-1 << 50}))
	require.True(t, ok)
	require.Equal(t, backends.Flat{First: 1 << 50, Step: -1 << 50, Count: 2, Limit: 1 << 8}, f)
}

func TestGive(t *testing.T) {
	all := []ir.Given{}
	for d := range isa.MaxRank {
		all = append(all, ir.Given{Kind: ir.GivenSize, Of: d})
	}
	for d := range isa.MaxRank {
		all = append(all, ir.Given{Kind: ir.GivenInner, Of: d})
	}
	all = append(all, ir.Given{Kind: ir.GivenRows}, ir.Given{Kind: ir.GivenColumns}, ir.Given{Kind: ir.GivenFirst, Of: 1},
		ir.Given{Kind: ir.GivenStep, Of: 1}, ir.Given{Kind: ir.GivenLimit, Of: 1})
	f := &ir.Func{Given: all}
	flats := []backends.Flat{{}, {First: 36, Step: -12, Count: 4, Limit: 1000}}
	for _, c := range []struct {
		sizes []int64
		want  []uint64 // sizes, inner products, rows, columns
	}{
		{[]int64{7}, []uint64{7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7}},
		{[]int64{3, 5}, []uint64{3, 5, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1, 3, 5}},
		{[]int64{2, 3, 4}, []uint64{2, 3, 4, 1, 1, 1, 1, 1, 12, 4, 1, 1, 1, 1, 1, 1, 3, 4}},
		{[]int64{}, []uint64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		l := &backends.Launch{Params: []uint64{11}, Sizes: c.sizes, Flats: flats, Rank: 1, Shape: [isa.MaxRank]int64{99}}
		l.Give(f)
		require.Equal(t, append(append([]uint64{11}, c.want...), 36, ^uint64(11), 1000), l.Params, "%v", c.sizes)
	}
	l := &backends.Launch{Rank: 2, Shape: [isa.MaxRank]int64{3, 5}} // without sizes of its own
	l.Give(&ir.Func{Given: []ir.Given{{Kind: ir.GivenRows}, {Kind: ir.GivenSize, Of: 1}}})
	require.Equal(t, []uint64{3, 5}, l.Params)
}
