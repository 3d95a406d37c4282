package gemm

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hologram-project/hologram/backends/cpu/workers"
)

// TestPackedOnce: of threads that need chunks of a block at once one packs each piece, all of them
// are packed, and who needs a chunk goes on when it is.
func TestPackedOnce(t *testing.T) {
	const chunks, deep = 3, 100
	for _, pieces := range []int64{1, 2, 4, 100} {
		b := packed{shape: shape{deep: deep}, chunks: make([]packing, chunks)}
		b.cut(pieces)
		if n := int64(b.pieces); n > pieces || n*b.pieceDeep < deep || (n-1)*b.pieceDeep >= deep {
			t.Fatalf("cut in %d there are %d pieces of %d", pieces, n, b.pieceDeep)
		}
		var packings, ready [chunks][deep]atomic.Int32
		var early atomic.Int32
		var threads sync.WaitGroup
		for i := range 5 {
			threads.Go(func() {
				for pc := int64(i % 2); pc < chunks; pc++ {
					b.need(pc, func(pc, from, steps int64) {
						for k := from; k < min(from+steps, deep); k++ {
							packings[pc][k].Add(1)
						}
						time.Sleep(5 * time.Millisecond)
						for k := from; k < min(from+steps, deep); k++ {
							ready[pc][k].Store(1)
						}
					})
					for k := range ready[pc] {
						early.Add(1 - ready[pc][k].Load())
					}
				}
			})
		}
		threads.Wait()
		for pc := range packings {
			for k := range packings[pc] {
				if n := packings[pc][k].Load(); n != 1 {
					t.Errorf("in %d pieces step %d of chunk %d was packed %d times", pieces, k, pc, n)
				}
			}
		}
		if n := early.Load(); n > 0 {
			t.Errorf("in %d pieces %d were not waited for", pieces, n)
		}
	}
}

// TestSharedAnew: what a launch shares is not packed yet, though the launch before it left the same chunks packed: one
// that was taken for begun would never be packed, and all would wait for it.
func TestSharedAnew(t *testing.T) {
	const m, n, k = 4096, 1024, 2 * chunk
	p := product{lib: narrow(), t: f32, in: element{size: 4}, out: element{size: 4}, m: m, n: n, k: k,
		ars: 4 * k, acs: 4, brs: 4 * n, bcs: 4, crs: 4 * n, ccs: 4}
	l := &launch{}
	for i := range 2 {
		l.first = p
		if !l.share(4, 64) || len(l.packed) == 0 {
			t.Fatal("nothing is shared")
		}
		for j := range l.packed {
			for pc := range l.packed[j].chunks {
				c := &l.packed[j].chunks[pc]
				if begun, done := c.begun.Load(), c.done.Load(); begun != 0 || done != 0 {
					t.Fatalf("launch %d: of chunk %d of block %d %d pieces are begun, %d packed", i, pc, j, begun, done)
				}
				l.packed[j].need(int64(pc), func(int64, int64, int64) {})
			}
		}
		l.giveBack()
	}
}

// TestScaling: whether a product is scaled, or reads C, is told by the bits that its numbers have: those above are not looked at.
func TestScaling(t *testing.T) {
	const above = 0xdeadbeef << 32
	for _, c := range []struct {
		t             number
		size          int // of the numbers that are summed
		alpha, beta   uint64
		scaled, reads bool
	}{
		{f32, 4, 0x3f800000, 0, false, false},
		{f32, 4, above | 0x3f800000, above | 1<<31, false, false}, // -0
		{f32, 4, 1, above | 0x3f800000, true, true},
		{f64, 8, 0x3ff0 << 48, 1 << 63, false, false},
		{f64, 8, 0x3f800000, 0x3ff0 << 48, true, true},
		{i32, 4, 1, 0, false, false},
		{i32, 4, above | 1, above, false, false},
		{i32, 4, above, above | 1, true, true},
		{i32, 4, 1 << 31, 1 << 31, true, true},
		{i32, 2, above | 1, above, false, false},
		{i32, 2, 0xffff_0001, 0x7fff_0000, false, false},
		{i32, 2, 1 << 15, 1 << 15, true, true},
		{i32, 1, 0xffff_ff01, 0x7fff_ff00, false, false},
		{i32, 1, 1 << 7, 1 << 7, true, true},
		{i64, 8, above | 1, above, true, true},
		{i64, 8, 2, 0, true, false},
	} {
		p := product{t: c.t, scaled: true, reads: !c.reads}
		p.scale(c.alpha, c.beta, 64-8*c.size)
		if p.scaled != c.scaled || p.reads != c.reads {
			t.Errorf("%v of %d bytes, alpha %#x, beta %#x: scaled %v, reads %v", c.t, c.size, c.alpha, c.beta, p.scaled, p.reads)
		}
	}
}

// TestDeepTiles: an L1 holds eight rows of deep products of f64, and of f32 all that registers do; integers, which take as
// long as they are multiplied, have the tallest tiles, and so have f64 that are not deep, or of too few rows, or on narrow vectors.
func TestDeepTiles(t *testing.T) {
	for _, c := range []struct {
		lib           *library
		t             number
		m, n, k, rows int64
	}{
		{wide(), f32, 14 * 13, 512, 512, 14},
		{wide(), i32, 14 * 13, 512, 512, 13},
		{wide(), i64, 14 * 13, 512, 512, 13},
		{wide(), f64, 14 * 13, 512, 512, deepRows},
		{wide(), f64, 14 * 16, 256, 256, deepRows},
		{wide(), f64, 14 * 16, 256, 220, deepRows},
		{wide(), f64, 14 * 16, 256, 219, 14},
		{wide(), f64, 56, 256, 512, deepRows},
		{wide(), f64, 42, 256, 512, 14},
		{wide(), f64, 14 * 16, 3 * 8, 512, deepRows},
		{wide(), f64, 14 * 16, 4 * 8, 512, 14},
		{wide(), f64, 14 * 16, 5 * 8, 512, deepRows},
		{narrow(), f64, 12 * 7 * 4, 256, 512, int64(narrow().m.tallest(f64, 2))},
	} {
		size := c.t.size()
		p := product{lib: c.lib, t: c.t, in: element{size: size}, out: element{size: size}, m: c.m, n: c.n, k: c.k, ars: c.k * size, acs: size}
		if got := p.rowsOfTile(c.m, ceil(c.n, int64(c.lib.m.lanes(c.t)))); got != c.rows {
			t.Errorf("%v, %d × %d × %d: tiles have %d rows; expected %d", c.t, c.m, c.n, c.k, got, c.rows)
		}
	}
}

// TestHoldersKeepLittle: many launches at once that share all they may leave no more memory
// behind than is meant to be kept, and who needs much finds what is as large.
func TestHoldersKeepLittle(t *testing.T) {
	Trim()
	defer Trim()
	var at []*worker
	for i := range len(holders.free) + 2 {
		bytes := int64(maxShared)
		if i == 0 {
			bytes = 1 << 12
		}
		w := takeHolder(bytes)
		if w.room(roomB, bytes); w.err != nil {
			t.Fatal(w.err)
		}
		at = append(at, w)
	}
	for _, w := range at {
		giveHolder(w)
	}
	kept := int64(0)
	for _, w := range holders.free {
		if w != nil {
			kept += w.rooms[roomB].Bytes
		}
	}
	if kept < maxShared || kept > keptShared {
		t.Errorf("%d bytes are kept", kept)
	}
	for _, bytes := range []int64{maxShared, 1 << 10} {
		w := takeHolder(bytes)
		if w.rooms[roomB].Bytes < bytes {
			t.Errorf("there are %d bytes for %d", w.rooms[roomB].Bytes, bytes)
		}
		giveHolder(w)
	}
}

// TestTrim: what is kept for launches to come is given back, and is not found again.
func TestTrim(t *testing.T) {
	Trim()
	holder, w := takeHolder(1<<20), takeWorker(workers.Seat{}, nil)
	holder.room(roomB, 1<<20)
	w.room(roomA, 1<<16)
	if n := Trim(); n != 0 {
		t.Errorf("%d bytes that are in use were given back", n)
	}
	giveHolder(holder)
	giveWorker(workers.Seat{}, w)
	if n := Trim(); n < 1<<20+1<<16 || n > 1<<21 {
		t.Errorf("%d bytes were given back", n)
	}
	if n := Trim(); n != 0 {
		t.Errorf("then %d more", n)
	}
	if w := takeHolder(1); w.rooms[roomB].Bytes != 0 {
		t.Error("a holder is still there")
	}
}
