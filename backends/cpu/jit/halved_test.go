package jit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// What does little but move memory has short vectors; what computes, or has elements of
// several sizes, has not.
func TestWhatMovesMemory(t *testing.T) {
	for _, c := range []struct {
		op    *kernels.Op
		t     isa.Type
		moves bool
	}{
		{kernels.VectorAdd, isa.F32, true}, {kernels.VectorAdd, isa.I8, true}, {kernels.Copy, isa.F64, true}, {kernels.Copy, isa.BF16, true},
		{kernels.VectorMad, isa.F32, true}, {kernels.Fill, isa.I16, false}, {kernels.VectorMul, isa.I8, true}, {kernels.VectorSqrt, isa.F32, false}, {kernels.VectorDiv, isa.I32, false}, {kernels.VectorDiv, isa.F32, true}, {kernels.VectorMul, isa.I16, true}, {kernels.VectorAdd, isa.BF16, false}, {kernels.Tanh, isa.F32, false},
		{kernels.Where, isa.F32, false}, {kernels.VectorEqual, isa.F32, false},
	} {
		v, err := c.op.Program(c.t)
		require.NoError(t, err)
		fn, _, err := ir.Canonical(v)
		require.NoError(t, err)
		p, err := prepare(nil, fn)
		require.NoError(t, err)
		require.Equal(t, c.moves, p.moves, "%s of %v", c.op.Name, c.t)
	}
}

// Short vectors have the bits of long ones, of launches beyond the nearest cache, which alone
// have them: with slots that stand for one element, parameters, and ends of any length.
func TestShortVectors(t *testing.T) {
	if err := Available(AVX512); err != nil {
		t.Skipf("AVX-512 is missing: %v", err)
	}
	r := rand.New(rand.NewPCG(17, 18))
	pool := workers.New(1)
	defer pool.Close()
	for _, ty := range []isa.Type{isa.F32, isa.F64, isa.I8, isa.U16, isa.I32, isa.U64, isa.BF16} {
		bodies := []string{"add.%[1]v z, x, y", "max.%[1]v z, x, y\nmul.%[1]v z, z, k", "set.lt.%[1]v p, x, k\nsel.%[1]v z, p, x, y"}
		if ty == isa.BF16 {
			bodies = []string{"neg.%[1]v z, x\nabs.%[1]v y, y\nstg.%[1]v k, c[index]"}
		}
		for _, body := range bodies {
			k := kernelOf(t, fmt.Sprintf("program p\nslot a %[1]v\nslot b %[1]v\nslot c %[1]v\nparam k %[1]v\nldg.%[1]v x, a[index]\nldg.%[1]v y, b[index]\nldp.%[1]v k, k\n"+body+"\nstg.%[1]v z, c[index]\nexit\n", ty))
			for _, n := range []int{nearBytes, nearBytes + 1, nearBytes + 63, nearBytes + 777} {
				for _, one := range []bool{false, true} {
					view := func(b []byte, step int64) backends.View {
						v := backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(b))), Type: ty, Rank: 1, Bytes: int64(len(b))}
						v.Shape[0], v.Stride[0] = int64(n), step
						return v
					}
					in := [2][]byte{make([]byte, n*ty.Size()), make([]byte, n*ty.Size())}
					for i := range in {
						for j := range in[i] {
							in[i][j] = byte(r.Uint32())
						}
					}
					step := int64(1)
					if one {
						step = 0
					}
					var made [2][]byte
					for i, short := range []bool{false, true} {
						made[i] = make([]byte, n*ty.Size()+64) // and what is behind stays
						k.t.halves = short
						l := &backends.Launch{Slots: []backends.View{view(in[0], 1), view(in[1], step), view(made[i], 1)}, Params: []uint64{5}, N: uint64(n),
							Grid: [3]uint32{uint32(n+255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 1, Record: new(backends.Record)}
						l.Shape[0] = int64(n)
						require.NoError(t, k.Run(l, pool))
					}
					runtime.KeepAlive(in)
					require.Equal(t, made[0], made[1], "%v of %v, %d elements", body, ty, n)
				}
			}
			shorts := 0
			for _, v := range *k.variants.Load() {
				if v.shape.halved {
					shorts++
				}
			}
			require.Positive(t, shorts, "%v of %v", body, ty)
		}
	}
}
