package jit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// Results of one and two bytes go past the caches as others do, with AVX-512 wherever in a line they begin, and
// pages are asked for there: of packed elements, of those that are made narrow, and of ends of any length.
func TestNarrowPastCaches(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	pool := workers.New(1)
	defer pool.Close()
	const most = streamBytes + 777
	in := make([]byte, most+64)
	for i := range in {
		in[i] = byte(r.Uint32())
	}
	for _, c := range []struct {
		from, to isa.Type
		body     string
	}{
		{isa.I8, isa.I8, "max.i8 z, x, 3"}, {isa.U16, isa.U16, "add.u16 z, x, 7"},
		{isa.I32, isa.U8, "set.lt.i32 p, x, 5\n  sel.u8 z, p, 1, 0"}, {isa.F32, isa.F16, "cvt.f16.f32 z, x"}, {isa.F32, isa.BF16, "cvt.bf16.f32 z, x"},
		{isa.U64, isa.U8, "cvt.u8.u64 z, x"}, {isa.U64, isa.U16, "cvt.u16.u64 z, x"},
	} {
		text := fmt.Sprintf("program p\nslot a %v\nslot b %v\n  ldg.%[1]v x, a[index]\n  %[3]s\n  stg.%[2]v z, b[index]\n  exit\n", c.from, c.to, c.body)
		n := most / c.from.Size()
		var made [][]byte
		for _, level := range []Level{AVX2, AVX512} {
			if Available(level) != nil {
				continue
			}
			for _, v := range []struct{ lanes, at int }{{n, 0}, {1 << 16, 0}, {n, 6}, {n, 7}} { // as one launch, and as many, and from a place within a line on, and within an element
				lanes, size := v.lanes, c.to.Size()
				if v.at%2 > 0 && size == 1 {
					continue
				}
				k, err := Compile(nil, canonical(t, text), level, nil)
				require.NoError(t, err)
				t.Cleanup(k.Release)
				room := make([]byte, (n+1)*c.to.Size()+128)
				line := room[-uintptr(unsafe.Pointer(unsafe.SliceData(room)))&63:]
				out := line[v.at:]
				for g := 0; g < n; g += lanes {
					here := min(lanes, n-g)
					view := func(b []byte, ty isa.Type) backends.View {
						v := backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(b[g*ty.Size():]))), Type: ty, Rank: 1, Bytes: int64(here * ty.Size())}
						v.Shape[0], v.Stride[0] = int64(here), 1
						return v
					}
					l := &backends.Launch{Slots: []backends.View{view(in, c.from), view(out, c.to)}, N: uint64(here),
						Grid: [3]uint32{uint32(here+255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 1, Record: new(backends.Record)}
					l.Shape[0] = int64(here)
					require.NoError(t, k.Run(l, pool))
				}
				past := slices.ContainsFunc(*k.variants.Load(), func(v *variant) bool { return v.shape.stream && v.shape.pages == (level == AVX512) })
				require.Equal(t, lanes == n && (v.at == 0 || level == AVX512 && v.at%size == 0), past, "%s", text)
				require.Equal(t, make([]byte, v.at), line[:v.at])
				made = append(made, out[:n*c.to.Size()+32])
			}
		}
		runtime.KeepAlive(in)
		for _, other := range made[min(1, len(made)):] {
			require.True(t, slices.Equal(made[0], other), "%s", text)
		}
	}
}
