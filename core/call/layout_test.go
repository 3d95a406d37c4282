package call

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// places lists the byte offsets of a view's elements, in row-major order.
func places(v *backends.View) []int64 {
	list := []int64{int64(v.Addr)}
	for i, d := range v.Shape[:v.Rank] {
		var next []int64
		for _, p := range list {
			for k := range d {
				next = append(next, p+k*v.Stride[i]*int64(v.Type.Size()))
			}
		}
		list = next
	}
	return list
}

func randomView(r *rand.Rand) backends.View {
	v := backends.View{Addr: uintptr(10000 + 4*r.IntN(12)), Type: isa.F32, Rank: r.IntN(4)}
	for i := range v.Rank {
		v.Shape[i], v.Stride[i] = int64(r.IntN(4)), int64(r.IntN(13)-6)
		if r.IntN(8) > 0 && v.Shape[i] == 0 {
			v.Shape[i] = 1
		}
	}
	if r.IntN(3) == 0 {
		Pack(&v)
		v.Bytes = 0
	}
	return v
}

func TestLayoutsAgainstEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		v := randomView(r)
		at := places(&v)
		if n := Numel(&v); n != int64(len(at)) {
			t.Fatalf("%+v: %d elements, expected %d", v, n, len(at))
		}
		lo, hi, ok := Extent(&v)
		if len(at) == 0 {
			if lo != hi {
				t.Fatalf("%+v: empty, extent [%d, %d)", v, lo, hi)
			}
		} else if base := int64(v.Addr); !ok || base+lo != slices.Min(at) || base+hi != slices.Max(at)+4 {
			t.Fatalf("%+v: extent [%d, %d), expected [%d, %d)", v, lo, hi, slices.Min(at)-base, slices.Max(at)+4-base)
		}
		contiguous := true
		for i, p := range at {
			contiguous = contiguous && p == at[0]+4*int64(i)
		}
		if Contiguous(&v) != contiguous {
			t.Fatalf("%+v: contiguous %v, expected %v", v, !contiguous, contiguous)
		}
		unique := slices.Clone(at)
		slices.Sort(unique)
		if shares := len(slices.Compact(unique)) < len(at); shares && !selfOverlaps(&v) {
			t.Fatalf("%+v: elements share memory, which was not seen", v)
		}
		w := randomView(r)
		shared := false
		for _, p := range places(&w) {
			shared = shared || slices.Contains(at, p)
		}
		if shared && !overlap(&v, &w) {
			t.Fatalf("%+v and %+v share memory, which was not seen", v, w)
		}
	}
}

// TestWhatAViewHolds looks at random views of random views: one that is said to
// be held sees elements of the other alone. Pieces that are cut out are held.
func TestWhatAViewHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	held := 0
	for range 200000 {
		whole, v := randomView(r), randomView(r)
		at, inside := places(&whole), true
		for _, p := range places(&v) {
			inside = inside && slices.Contains(at, p)
		}
		if found := Holds(&whole, &v); found && !inside {
			t.Fatalf("%+v is said to hold %+v", whole, v)
		} else if found && Numel(&v) > 1 {
			held++
		}
	}
	if held < 100 {
		t.Errorf("only %d were held", held)
	}
	for range 20000 {
		whole := backends.View{Addr: 10000, Type: isa.F32, Rank: 3, Shape: [8]int64{5, 6, 7}, Stride: [8]int64{200, 24, 2}}
		for i := range 3 { // some axes backwards
			if r.IntN(3) == 0 {
				whole.Addr += uintptr(4 * (whole.Shape[i] - 1) * whole.Stride[i])
				whole.Stride[i] = -whole.Stride[i]
			}
		}
		v := backends.View{Addr: whole.Addr, Type: isa.F32, Rank: 3}
		for k, i := range r.Perm(3) { // transposed
			first, step := r.Int64N(whole.Shape[i]), 1+r.Int64N(3)
			v.Shape[k], v.Stride[k] = 1+(whole.Shape[i]-first-1)/step, step*whole.Stride[i]
			v.Addr += uintptr(4 * first * whole.Stride[i])
			if r.IntN(3) == 0 {
				v.Addr += uintptr(4 * (v.Shape[k] - 1) * v.Stride[k])
				v.Stride[k] = -v.Stride[k]
			}
		}
		if !Holds(&whole, &v) {
			t.Fatalf("%+v is said not to hold %+v", whole, v)
		}
	}
	// Whatever elements share memory, all of them are there in another order.
	for range 20000 {
		whole := randomView(r)
		v := whole
		for k, i := range r.Perm(whole.Rank) {
			v.Shape[k], v.Stride[k] = whole.Shape[i], whole.Stride[i]
		}
		if !Holds(&whole, &v) {
			t.Fatalf("%+v is said not to hold %+v", whole, v)
		}
	}
	// The diagonals of a matrix.
	whole := backends.View{Addr: 1000, Type: isa.F32, Rank: 2, Shape: [8]int64{4, 4}, Stride: [8]int64{12, 1}}
	for _, stride := range []int64{13, 11} {
		v := backends.View{Addr: 1000, Type: isa.F32, Rank: 1, Shape: [8]int64{4}, Stride: [8]int64{stride}}
		if stride == 11 {
			v.Addr += 3 * 4
		}
		if !Holds(&whole, &v) {
			t.Errorf("a diagonal of stride %d is said not to be held", stride)
		}
	}
}

// TestBlocksOfAMatrix cuts pairs of blocks out of a matrix, some with steps and
// some transposed: what shares an element is always seen, and what shares none
// mostly.
func TestBlocksOfAMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cut := func() backends.View {
		v := backends.View{Type: isa.F32, Rank: 2}
		for i, stride := range []int64{12, 1} {
			first, step := r.Int64N(12), 1+r.Int64N(3)
			v.Shape[i], v.Stride[i] = 1+r.Int64N((12-first+step-1)/step), stride*step
			v.Addr += uintptr(4 * first * stride)
			if r.IntN(4) == 0 {
				v.Addr += uintptr(4 * (v.Shape[i] - 1) * v.Stride[i])
				v.Stride[i] = -v.Stride[i]
			}
		}
		v.Addr += 1000
		return v
	}
	disjoint, seen := 0, 0
	for range 20000 {
		v, w := cut(), cut()
		at, shared := places(&v), false
		for _, p := range places(&w) {
			shared = shared || slices.Contains(at, p)
		}
		switch found := overlap(&v, &w); {
		case shared && !found:
			t.Fatalf("%+v and %+v share memory, which was not seen", v, w)
		case !shared:
			disjoint++
			if !found {
				seen++
			}
		}
	}
	if seen < disjoint*8/10 {
		t.Errorf("of %d disjoint pairs %d were seen to be", disjoint, seen)
	}
}

func TestOverlapTellsInterleavedViewsApart(t *testing.T) {
	even := backends.View{Addr: 1000, Type: isa.F32, Rank: 1, Shape: [8]int64{10}, Stride: [8]int64{2}}
	odd := even
	odd.Addr += 4
	if overlap(&even, &odd) {
		t.Error("even and odd elements are said to overlap")
	}
	odd.Addr++ // half-way between
	if !overlap(&even, &odd) {
		t.Error("misaligned views are said not to overlap")
	}
	left := backends.View{Addr: 1000, Type: isa.F32, Rank: 2, Shape: [8]int64{4, 2}, Stride: [8]int64{4, 1}}
	right := left
	right.Addr += 8
	if overlap(&left, &right) || overlap(&right, &left) {
		t.Error("the halves of a matrix's columns are said to overlap")
	}
	if right.Addr -= 4; !overlap(&left, &right) {
		t.Error("columns that meet are said not to overlap")
	}
	rows := backends.View{Addr: 1000, Type: isa.F32, Rank: 2, Shape: [8]int64{5, 3}, Stride: [8]int64{8, 1}}
	if selfOverlaps(&rows) {
		t.Error("a block of columns is said to overlap itself")
	}
}

func TestExtentOverflow(t *testing.T) {
	for _, v := range []backends.View{
		{Type: isa.F64, Rank: 1, Shape: [8]int64{1 << 40}, Stride: [8]int64{1 << 40}},
		{Type: isa.F64, Rank: 1, Shape: [8]int64{2}, Stride: [8]int64{math.MinInt64}},
		{Type: isa.F64, Rank: 2, Shape: [8]int64{1 << 30, 1 << 30}, Stride: [8]int64{1 << 30, 1 << 29}},
	} {
		if _, _, ok := Extent(&v); ok {
			t.Errorf("extent of %+v did not overflow", v)
		}
	}
}

func TestCollapseKeepsTheOrderOfElements(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	merged := 0
	for range 20000 {
		views := []backends.View{randomView(r), randomView(r)}
		rank := views[0].Rank
		shape := views[0].Shape
		views[1].Rank, views[1].Shape = rank, shape
		if r.IntN(2) == 0 { // as after broadcasting
			for i := range rank {
				if r.IntN(2) == 0 {
					views[1].Stride[i] = 0
				}
			}
		}
		before := [2][]int64{places(&views[0]), places(&views[1])}
		if len(before[0]) == 0 {
			continue
		}
		out := collapse(views, &shape, rank)
		if out < rank {
			merged++
		}
		for i := range views {
			if views[i].Rank != out || views[i].Shape != shape || !slices.Equal(places(&views[i]), before[i]) {
				t.Fatalf("collapsed to %+v, whose elements are %v, expected %v", views[i], places(&views[i]), before[i])
			}
		}
	}
	if merged < 1000 {
		t.Errorf("only %d index spaces were collapsed", merged)
	}
}

func TestBroadcast(t *testing.T) {
	for _, c := range []struct {
		from, to []int64
		ok       bool
	}{
		{[]int64{3}, []int64{2, 3}, true}, {[]int64{2, 1}, []int64{2, 3}, true}, {nil, []int64{4}, true},
		{[]int64{2}, []int64{2, 3}, false}, {[]int64{2, 3}, []int64{3}, false}, {[]int64{0}, []int64{1}, false},
	} {
		v := backends.View{Type: isa.F32, Rank: len(c.from)}
		copy(v.Shape[:], c.from)
		Pack(&v)
		if broadcastTo(&v, c.to) != c.ok {
			t.Errorf("broadcast of %v to %v is not %v", c.from, c.to, c.ok)
		}
	}
	for _, c := range []struct{ a, b, out []int64 }{
		{[]int64{3, 1}, []int64{4}, []int64{3, 4}}, {nil, []int64{2}, []int64{2}}, {[]int64{1}, []int64{0}, []int64{0}},
		{[]int64{2}, []int64{3}, nil},
	} {
		var shape [isa.MaxRank]int64
		copy(shape[:], c.a)
		rank := mergeShapes(&shape, len(c.a), c.b)
		if c.out == nil && rank >= 0 || c.out != nil && (rank != len(c.out) || !slices.Equal(shape[:rank], c.out)) {
			t.Errorf("%v with %v gives %v (rank %d), expected %v", c.a, c.b, shape, rank, c.out)
		}
	}
}

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		ShapeText([]int64{3, 4}): "(3, 4)", ShapeText([]int64{5}): "(5,)", ShapeText(nil): "()",
		status.Size(5): "5 bytes", status.Size(1536): "1.5 KiB", status.Size(1 << 40): "1 TiB",
	} {
		if got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}
