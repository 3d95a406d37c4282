package gemm

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
)

// TestPiecesArePackedInPlace: pieces of a chunk lie where packing all of it puts them, in whole
// tiles and what is left of one, along rows and along columns. Products of such sizes that
// threads come together on are too seldom to show it.
func TestPiecesArePackedInPlace(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("no product is done by machine code: %v", err)
	}
	libraries := map[string]*library{"narrow": narrow()}
	if err := jit.Available(jit.AVX512); err != nil {
		t.Run("wide", func(t *testing.T) { t.Skip(err) })
	} else {
		libraries["wide"] = wide()
	}
	const k, first, deep = 150, 32, 100
	for name, lib := range libraries {
		for _, typ := range []number{f32, f64} {
			for _, n := range []int64{3, 16, 64, 67, 130} {
				for _, columns := range []bool{false, true} {
					size := typ.size()
					b := make([]byte, k*n*size)
					for i := range b {
						b[i] = byte(i*31 + i>>8*7 + 1)
					}
					p := product{lib: lib, t: typ, in: element{size: size}, out: element{size: size}, m: 64, n: n, k: k,
						b: uintptr(unsafe.Pointer(&b[0])), ars: k * size, acs: size, brs: n * size, bcs: size, crs: n * size, ccs: size}
					if columns {
						p.brs, p.bcs = size, k*size
					}
					h := p.shape(p.m, p.n)
					w := takeWorker(workers.Seat{}, nil)
					w.p = &p
					packed := func(piece int64) []byte {
						dst := make([]uint64, ceil(n, h.across)*h.bTile/8+64)
						out := unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 8*len(dst))
						for from := int64(0); from < deep; from += piece {
							w.packB(uintptr(unsafe.Pointer(&dst[0])), &h, first, from, min(piece, deep-from), 0, n)
						}
						return out
					}
					want := packed(deep)
					if w.err != nil {
						t.Fatal(w.err)
					}
					if bytes.Equal(want, make([]byte, len(want))) {
						t.Fatal("nothing is packed")
					}
					for _, piece := range []int64{pieceUnit, 3 * pieceUnit} {
						if !bytes.Equal(packed(piece), want) {
							t.Errorf("%s, type %d, %d columns, along them %v: pieces of %d lie elsewhere", name, typ, n, columns, piece)
						}
					}
					giveWorker(workers.Seat{}, w)
					runtime.KeepAlive(b)
				}
			}
		}
	}
}

// TestSquaresAreOfTheMachinesVectors: only where vectors have 64 bytes is a square made of those. A machine that
// has them runs the other code as well, of one that does not have them each product would be the last.
func TestSquaresAreOfTheMachinesVectors(t *testing.T) {
	const side, apart = 40, 40 * 8
	for _, m := range []machine{{false, 32}, {true, 32}, {true, 64}} {
		level := jit.AVX2
		if m.evex {
			level = jit.AVX512
		}
		if err := jit.Available(level); err != nil {
			continue
		}
		for _, typ := range []number{f32, f64} {
			src, dst := make([]byte, side*apart), make([]byte, side*apart)
			w := takeWorker(workers.Seat{}, nil)
			w.p = &product{lib: newLibrary(m), t: typ}
			if !w.squares(uintptr(unsafe.Pointer(&dst[0])), apart, uintptr(unsafe.Pointer(&src[0])), apart, side, side) || w.err != nil {
				t.Fatalf("%+v, type %d: no squares: %v", m, typ, w.err)
			}
			for cols := range maxCols + 1 {
				made := w.p.lib.made[transposes][typ].Load()[0][cols][0].Load() != nil
				if want := cols == 1 && m.bytes < 64 || cols == 2 && m.bytes == 64; made != want {
					t.Errorf("%+v, type %d: squares of %d vectors of 32 bytes: %v, to be %v", m, typ, cols, made, want)
				}
			}
			w.p = nil
			giveWorker(workers.Seat{}, w)
			runtime.KeepAlive(src)
			runtime.KeepAlive(dst)
		}
	}
}
