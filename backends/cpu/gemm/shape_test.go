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

// TestDeepTiles: an L1 holds eight rows of deep products of f64, and of f32 all that registers do; integers, which take as
// long as they are multiplied, have the tallest tiles.
func TestDeepTiles(t *testing.T) {
	for typ, rows := range map[number]int64{f32: 14, f64: deepRows, i32: 13, i64: 13} {
		size := typ.size()
		p := product{lib: wide(), t: typ, in: element{size: size}, out: element{size: size}, m: 14 * 13, n: 512, k: 512, ars: 512 * size, acs: size}
		if got := p.shape(p.m, p.n).rows; got != rows {
			t.Errorf("%v: tiles have %d rows; expected %d", typ, got, rows)
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
