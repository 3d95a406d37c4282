package gemm

import (
	"math/rand/v2"
	"testing"
)

// TestSharesAreOfTheResult: what threads share are the result's columns, no others, in blocks that
// have room for what is packed, also where B is too large to be packed at once.
func TestSharesAreOfTheResult(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	declined, alone, banded := 0, 0, 0
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
				if l.holder == nil { // each packs its own
					if len(l.packed) > 0 {
						t.Fatalf("product %d, %v: %d × %d × %d: %d blocks are packed, and none is shared", i, typ, p.m, p.n, p.k, len(l.packed))
					}
					alone++
					continue
				}
				if n := l.bands; n != 1 && (n != threads || l.packed[0].pieces < 2 && q.k > pieceUnit) {
					t.Fatalf("product %d, %v: %d × %d × %d by %d threads: %d bands of %d tasks, blocks in %d pieces", i, typ, p.m, p.n, p.k, threads, n, l.down, l.packed[0].pieces)
				} else if n > 1 {
					banded++
				}
				h := l.packed[0].shape
				if min(l.wide, q.n) > h.perBlock || h.bBlock < ceil(min(l.wide, q.n), h.across)*h.bTile || h.rows > int64(q.lib.m.tallest(q.t, int(h.width))) {
					t.Fatalf("product %d, %v: %d × %d × %d: tasks of %d columns, %+v", i, typ, p.m, p.n, p.k, l.wide, h)
				}
			}
		}
	}
	if alone == 0 {
		t.Error("of no product each task packs its own")
	}
	if banded == 0 {
		t.Error("of no product threads have a band of rows each")
	}
	if declined > 2000 {
		t.Errorf("%d products were not shared", declined)
	}
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

// TestBordersCost: two threads have a band of rows each where B is small for the rows of the result, however long
// these are, and otherwise columns of their own; and so more threads, and where the result lies by columns.
func TestBordersCost(t *testing.T) {
	for _, c := range []struct {
		t       number
		m, n, k int64
		bands   bool // of two threads
	}{
		{f32, 1235, 856, 49, true},
		{f32, 712, 599, 142, true},
		{f32, 784, 512, 256, true},
		{f32, 2000, 20, 9000, true},
		{f64, 390, 140, 350, false},
		{f32, 390, 140, 350, true},
		{f32, 256, 256, 800, false},
		{f32, 300, 3000, 64, false},
		{f32, 1024, 1024, 1024, false},
	} {
		size := c.t.size()
		p := product{t: c.t, out: element{size: size}, m: c.m, n: c.n, k: c.k, crs: c.n * size, ccs: size}
		if got := p.bordersCost(2); got != c.bands {
			t.Errorf("%v %d × %d × %d: %v", c.t, c.m, c.n, c.k, got)
		}
		p.crs, p.ccs = size, c.m*size
		if p.bordersCost(2) || p.bordersCost(16) {
			t.Errorf("%v %d × %d × %d: bands where C lies by columns", c.t, c.m, c.n, c.k)
		}
		p.crs, p.ccs = c.n*size, size
		if p.bordersCost(3) || p.bordersCost(16) {
			t.Errorf("%v %d × %d × %d: bands of many threads", c.t, c.m, c.n, c.k)
		}
	}
}
