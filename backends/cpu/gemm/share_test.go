package gemm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// TestSharesAreOfTheResult: what threads share are the result's columns, no others, in blocks that
// have room for what is packed, also where B is too large to be packed at once.
func TestSharesAreOfTheResult(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	declined, shared, banded, apart := 0, 0, 0, 0
	for i := range 20000 {
		lib, typ := []*library{narrow(), wide()}[r.IntN(2)], []number{f32, f64, i32, i64}[r.IntN(4)]
		size := typ.size()
		in := element{size: size}
		if typ == i32 && r.IntN(2) == 0 {
			in = element{2, wideI16}
		}
		dim := func() int64 { return 1 + r.Int64N(1<<(1+r.IntN(12))) }
		m, n, k := dim(), dim(), dim()
		if r.IntN(3) == 0 { // few, of which tiles have fewer vectors if they write them by columns
			n, k = 15+r.Int64N(4), chunk+k
		}
		if r.IntN(4) == 0 {
			k = min(1<<18, (maxShared/size/n+1)*(1+r.Int64N(3)))
			if !typ.float() { // no bound of k
				k = (maxShared/size/n + 1) * (1 + r.Int64N(3))
			}
		}
		out := element{size: size}
		p := product{lib: lib, t: typ, in: in, out: out, m: m, n: n, k: k, crs: n * size, ccs: size}
		p.ars, p.acs, p.brs, p.bcs = k*in.size, in.size, n*in.size, in.size
		if r.IntN(2) == 0 {
			p.ars, p.acs = in.size, m*in.size
		}
		if r.IntN(2) == 0 {
			p.brs, p.bcs = in.size, k*in.size
		}
		p = p.orient()
		if !p.packsB(p.m) || p.takesRows(p.m) || p.packsRows(p.m) || p.k*p.n*size > 4*maxShared {
			continue
		}
		l := &launch{}
		threads := 2 + r.Int64N(1<<(1+r.IntN(6)))
		want := 2 + r.Int64N(200)
		for _, p.reads = range []bool{false, true, false} { // as the launches of a program do one after the other
			l.first = p
			done := int64(0)
			for again := true; again; again = l.advance() {
				q := &l.first
				if !l.share(threads, want) {
					if q.n != p.n-done || l.later != 0 {
						t.Fatalf("product %d, %v: %d × %d × %d: %d columns are left, %d later, %d done", i, typ, p.m, p.n, p.k, q.n, l.later, done)
					}
					done += q.n
					declined++
					continue
				}
				if l.holder != nil && l.holder.rooms[roomB].Bytes > 2*maxShared+maxShared/4 { // with what keeps tiles apart
					t.Fatalf("product %d, %v: %d × %d × %d: %d bytes are shared", i, typ, p.m, p.n, p.k, l.holder.rooms[roomB].Bytes)
				}
				if q.n < 1 || l.later < 0 || q.n+l.later+done != p.n {
					t.Fatalf("product %d, %v: %d × %d × %d by %d threads: %d columns now, %d later, %d done", i, typ, p.m, p.n, p.k, threads, q.n, l.later, done)
				}
				done += q.n
				if l.down*l.high < q.m || (l.down-1)*l.high >= q.m || l.across*l.wide < q.n || (l.across-1)*l.wide >= q.n {
					t.Fatalf("product %d, %v: %d × %d × %d: %d × %d tasks of %d × %d", i, typ, p.m, p.n, p.k, l.down, l.across, l.high, l.wide)
				}
				h := l.packed[0].shape
				for _, b := range l.packed {
					if (b.at == 0) != (l.holder == nil) || b.shape != h {
						t.Fatalf("product %d, %v: %d × %d × %d: a block at %#x, %+v", i, typ, p.m, p.n, p.k, b.at, b.shape)
					}
				}
				if l.bands < 1 || l.bands > l.down || l.bands > threads || l.holder != nil && l.bands > 1 {
					t.Fatalf("product %d, %v: %d × %d × %d by %d threads: %d bands of %d tasks", i, typ, p.m, p.n, p.k, threads, l.bands, l.down)
				}
				switch {
				case l.holder != nil:
					shared++
				case l.bands == threads:
					banded++
				default:
					apart++
				}
				if len(l.packed) != int(l.across) || !h.held || min(l.wide, q.n) > h.perBlock || h.bBlock < ceil(min(l.wide, q.n), h.across)*h.bTile || h.rows > int64(q.lib.m.tallest(q.t, int(h.width))) {
					t.Fatalf("product %d, %v: %d × %d × %d: tasks of %d columns, %+v", i, typ, p.m, p.n, p.k, l.wide, h)
				}
			}
		}
	}
	if shared == 0 || banded == 0 || apart == 0 {
		t.Errorf("%d products share what is packed, of %d threads have a band of rows each, of %d they have not", shared, banded, apart)
	}
	if declined > 2000 {
		t.Errorf("%d products were not shared", declined)
	}
}

// TestCutsAreOfTheProduct: a launch that follows one of another product, which differs by one size, one stride or the
// threads, is cut as it is if it comes first: by what was found for the other, blocks could be larger than their room.
func TestCutsAreOfTheProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	type launched struct {
		product
		threads int64
	}
	cutOf := func(l *launch, x *launched) (found cut) {
		if l.first = x.product; l.share(x.threads, 64) && l.holder == nil {
			found = cut{l.wide, l.high, l.bands}
		}
		l.giveBack()
		return found
	}
	changes := map[string]func(x *launched){
		"rows":                   func(x *launched) { x.m = 1 + r.Int64N(2000) },
		"columns":                func(x *launched) { x.n = 1 + r.Int64N(2000) },
		"steps":                  func(x *launched) { x.k = 1 + r.Int64N(2000) },
		"where A's rows are":     func(x *launched) { x.ars = 4096 },
		"where B's columns are":  func(x *launched) { x.brs, x.bcs = 4, 4*x.k },
		"where the result's are": func(x *launched) { x.crs, x.ccs = 4, 4*x.m },
		"threads":                func(x *launched) { x.threads = 2 + r.Int64N(30) },
	}
	for what, change := range changes {
		others := 0
		for range 300 {
			lib := []*library{narrow(), wide()}[r.IntN(2)]
			m, n, k := 1+r.Int64N(600), 1+r.Int64N(600), 1+r.Int64N(600)
			x := launched{product{lib: lib, t: f32, in: element{size: 4}, out: element{size: 4}, m: m, n: n, k: k,
				ars: 4 * k, acs: 4, brs: 4 * n, bcs: 4, crs: 4 * n, ccs: 4}, 2 + r.Int64N(7)}
			l := &launch{}
			before := cutOf(l, &x)
			change(&x)
			want := cutOf(&launch{}, &x)
			if got := cutOf(l, &x); got != want {
				t.Fatalf("other %s: %d × %d × %d by %d threads is cut as %+v, to be %+v", what, x.m, x.n, x.k, x.threads, got, want)
			}
			if want != before {
				others++
			}
		}
		if others == 0 {
			t.Errorf("other %s are cut alike", what)
		}
	}
}

// TestColumnsForLater: of a B that is too large to be packed at once the columns that come later are B's and the result's,
// though neither lie side by side.
func TestColumnsForLater(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("AVX2 is missing here, without which gemm has no products: %v", err)
	}
	defer Trim() // of 160 MB
	const n, k = 20, chunk
	const m = maxShared/(4*k) + 4096
	layouts := matrices(isa.F32, m, n, k)             // done as the transposed product, whose B is A
	layouts[0].Stride[0], layouts[0].Stride[1] = 2, 0 // of which all columns are one, in the caches
	p := launchOf(t, layouts, NoUnits, 0)
	one, two := workers.New(1), workers.New(2)
	defer one.Close()
	defer two.Close()
	require.NoError(t, p.run(one, nil))
	want := bytes.Clone(p.result)
	r, ok := p.k.prepare(&p.l)
	require.True(t, ok)
	r.divide(2, 1)
	require.Positive(t, r.later, "B is packed at once")
	require.NotEqual(t, r.first.t.size(), r.first.ccs)
	require.NotEqual(t, r.first.t.size(), r.first.bcs)
	r.giveBack()
	require.NoError(t, p.run(two, nil))
	require.True(t, bytes.Equal(want, p.result))
}

// TestBands: tasks are all places of a matrix, once each, and a stretch of them for each thread is a band of
// its rows, or nearly so where rows of tasks do not divide by bands.
func TestBands(t *testing.T) {
	for down := int64(1); down <= 20; down++ {
		for across := int64(1); across <= 7; across++ {
			for bands := int64(1); bands <= 6; bands++ {
				r := &launch{down: down, across: across, bands: bands}
				seen := make([]bool, down*across)
				others := make([]int64, bands)
				for i := range down * across {
					d, j := r.place(i)
					if d < 0 || d >= down || j < 0 || j >= across || seen[d*across+j] {
						t.Fatalf("%d × %d tasks in %d bands: task %d is at %d, %d", down, across, bands, i, d, j)
					}
					seen[d*across+j] = true
					band := i * bands / (down * across)
					if d < down*band/bands || d >= down*(band+1)/bands {
						others[band]++
					}
				}
				for band, n := range others {
					if n > across || n > 0 && down%bands == 0 {
						t.Errorf("%d × %d tasks in %d bands: thread %d has %d of others' rows", down, across, bands, band, n)
					}
				}
			}
		}
	}
}
