package jit

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// What is entered runs with results that begin anywhere, though it was made of a launch whose results begin with a
// line: stores past the caches would fault there.
func TestEnteredAnywhere(t *testing.T) {
	const n = streamBytes/8 + 100 // of f32, read and written
	programs := map[string]string{
		"one result":  "program p\nslot x f32\nslot y f32\nldg.f32 v, x[index]\nadd.f32 v, v, 1.0\nstg.f32 v, y[index]\nexit",
		"two results": "program p\nslot x f32\nslot y f32\nslot z f32\nldg.f32 v, x[index]\nadd.f32 v, v, 1.0\nstg.f32 v, y[index]\nadd.f32 v, v, 1.0\nstg.f32 v, z[index]\nexit",
	}
	room := make([]float32, 2*n+128)
	at := func(i, off int) uintptr { // of the array before the last, or the last
		a := uintptr(unsafe.Pointer(&room[0]))
		return (a+63)&^63 + uintptr(4*(i*((n+31)&^15)+off))
	}
	for _, level := range []Level{AVX2, AVX512} {
		if Available(level) != nil {
			continue
		}
		for what, text := range programs {
			f := canonical(t, text)
			k, err := Compile(nil, f, level, nil)
			require.NoError(t, err)
			for _, first := range []int{0, 4} { // the launch that the code is made of
				l := &backends.Launch{Rank: 1, N: n, Grid: [3]uint32{n, 1, 1}, Block: [3]uint32{1, 1, 1}}
				l.Shape[0] = n
				for i := range f.Slots {
					w := backends.View{Type: isa.F32, Rank: 1, Shape: l.Shape, Addr: uintptr(i+1)<<40 + uintptr(4*first), Bytes: 4 * n}
					w.Stride[0] = 1
					l.Slots = append(l.Slots, w)
				}
				parts := k.Direct(l, math.Inf(1))
				require.Len(t, parts, 1, "%s, %v", what, level)
				d := parts[0]
				for _, off := range []int{0, 1, 4, 15} {
					frame := make([]byte, len(d.Frame)+64)
					args := unsafe.Add(unsafe.Pointer(&frame[0]), -uintptr(unsafe.Pointer(&frame[0]))%64)
					copy(unsafe.Slice((*byte)(args), len(d.Frame)), d.Frame)
					for _, a := range d.Addresses { // two results are the same array, of which the second's elements last
						of := min(int(a.Of), 1)
						*(*uint64)(unsafe.Add(args, a.At)) = uint64(at(of, of*off)) + uint64(a.Offset)
					}
					clear(room)
					enter(d.Code, uintptr(args))
					y := unsafe.Slice((*float32)(unsafe.Pointer(&room[(at(1, off)-uintptr(unsafe.Pointer(&room[0])))/4])), n)
					for i := range y {
						if y[i] != float32(len(f.Slots)-1) {
							t.Fatalf("%s, %v, %d elements behind a line: element %d is %v", what, level, off, i, y[i])
						}
					}
				}
			}
			k.Release()
		}
	}
}
