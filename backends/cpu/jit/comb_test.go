package jit

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
)

// What combs of vectors of either length take by their tables, on whatever machine: each element from its place, and from
// nowhere but between the lowest and the highest, or a vector from there.
func TestCombsTables(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("AVX2, or memory for machine code, is missing here: %v", err)
	}
	r := rand.New(rand.NewPCG(15, 16))
	for _, vector := range []int64{16, 64} {
		c, made, most, codes := &comber{}, 0, 0, map[int]*mem.Code{}
		for range 20000 {
			k := combKey{vector: vector, size: 1 << r.IntN(4)}
			k.stride, k.around = k.size*(r.Int64N(13)-6), k.size*(r.Int64N(41)-20)
			if r.IntN(4) == 0 {
				k.stride, k.around = r.Int64N(201)-100, r.Int64N(401)-200
			}
			n, per := vector/k.size, vector/k.size
			if n > 1 && r.IntN(2) == 0 {
				k.inner = 1 + r.Int64N(n-1)
				n, per = n/k.inner*k.inner, k.inner
			}
			if c.make(k); c.code == nil {
				continue
			}
			made++
			memory := make([]byte, max(c.span, vector)) // from the lowest on
			for i := range memory {
				memory[i] = byte(r.Uint32())
			}
			count := 0 // of vectors
			for have := int64(0); have < n; count++ {
				require.Less(t, count, mostCombed, "%+v", k)
				have = 0
				for lane := range n {
					for i := range count + 1 {
						if c.call.masks[i]>>(lane*k.size)&1 != 0 {
							have++
							break
						}
					}
				}
			}
			most = max(most, count)
			if other := codes[count]; other != nil && other != c.code {
				t.Fatalf("%+v: of %d vectors there is code twice", k, count)
			}
			codes[count] = c.code
			got := make([]byte, vector)
			for i := range count {
				from := memory[c.call.at[i]:][:vector]
				for b, x := range c.call.index[i][:vector] {
					switch {
					case vector == 64: // VPERMB, of all but the first with a mask
						if i == 0 || c.call.masks[i]>>b&1 != 0 {
							got[b] = from[x&63]
						}
					case x&0x80 == 0: // PSHUFB
						got[b] |= from[x&15]
					}
				}
			}
			for lane := range n {
				at := lane/per*k.around + lane%per*k.stride - c.low
				if k.inner == 0 {
					at = lane*k.stride - c.low
				}
				if !bytes.Equal(memory[at:][:k.size], got[lane*k.size:][:k.size]) {
					t.Fatalf("%+v: element %d of %d is %x, to be %x", k, lane, n, got[lane*k.size:][:k.size], memory[at:][:k.size])
				}
			}
		}
		require.Greater(t, made, 1000)
		require.Greater(t, most, 3)
		for count, code := range codes {
			if i := 1 - int(vector/64); combCodes.made[i][count] == code {
				t.Errorf("%d vectors of both lengths have the same code", count)
			}
		}
	}
}

// Vectors of 64 bytes are for machines that permute their bytes, which not all with AVX-512 do.
func TestCombsOfMachines(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("AVX2, or memory for machine code, is missing here: %v", err)
	}
	defer func(was bool) { permutesBytes = was }(permutesBytes)
	var memory [1024]byte
	w := view{size: 4, rank: 1, base: uintptr(unsafe.Pointer(&memory))}
	w.shape[0], w.stride[0] = 64, 8
	for _, m := range []struct {
		level    Level
		permutes bool
		vector   int64
	}{{AVX2, false, 16}, {AVX2, true, 16}, {AVX512, false, 16}, {AVX512, true, 64}} {
		permutesBytes = m.permutes
		c := (&comber{}).combFor(targetOf(m.level), &w)
		require.NotNil(t, c)
		require.Equal(t, m.vector, c.vector, "%v, %v", m.level, m.permutes)
	}
}
