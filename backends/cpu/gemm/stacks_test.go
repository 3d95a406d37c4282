package gemm

import (
	"testing"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit"
)

// What dotStack stores and loads lies in the room it asked for, whatever number of dots there
// are: vectors are stored whole, also those of fewer.
func TestDotsHaveRoom(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil { // then no code is made at all
		t.Skipf("AVX2 is missing: %v", err)
	}
	for _, lib := range []*library{narrow(), wide()} {
		for _, typ := range []number{f32, f64} {
			for _, apart := range []int64{192, 1024} { // of which the latter takes one group at a time
				for n := int64(1); n <= 70; n++ {
					size := typ.size()
					s := &sequenceOf{}
					w := &worker{written: s}
					p := &product{lib: lib, t: typ, in: element{size: size}, out: element{size: size}, m: 1, n: 1, k: 150 / size,
						acs: size, brs: size, bcs: size, ccs: size, ars: size, crs: size, aNext: apart, bNext: apart}
					w.p = p
					if !p.dotsOfStack() {
						t.Fatal("these are not done so")
					}
					w.dotStack(p, n)
					if w.err != nil {
						t.Fatal(w.err)
					}
					room := w.rooms[roomSum]
					within := func(at uintptr, step uintptr, bytes uintptr, tiles int64) {
						t.Helper()
						if last := at + step*uintptr(tiles-1) + bytes; at < room.Addr || last > room.Addr+uintptr(room.Bytes) {
							t.Fatalf("%d dots of type %d: bytes %d … %d of %d", n, typ, at-room.Addr, last-room.Addr, room.Bytes)
						}
					}
					done := int64(0)
					for i := range s.calls {
						c := &s.calls[i]
						if a := (*args)(unsafe.Pointer(&c.args[0])); a.flags&flagBegin == 0 { // else it goes on from a sum
							done += int64(a.dNext) / size * a.tiles
							within(a.d, a.dNext, (a.dNext+31)&^31, a.tiles) // as many vectors as it says
						} else {
							within(a.t, a.dNext, uintptr(size), a.tiles)
						}
					}
					if done != n {
						t.Fatalf("%d dots were done of %d", done, n)
					}
				}
			}
		}
	}
}
