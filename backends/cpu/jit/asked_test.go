package jit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Comparisons of a float's bits, to which something is added, say what they do of integers, whether they
// ask for kinds of floats or for others beside these, and on either side of each kind's first.
func TestWhatIsAskedOfBits(t *testing.T) {
	if err := jit.Available(jit.AVX512); err != nil {
		t.Skipf("AVX-512 is missing, by which alone kinds of floats are asked for: %v", err)
	}
	pool := workers.New(1)
	defer pool.Close()
	askBits(t, isa.F32, isa.U32, 23, pool, func(x uint64) uint32 { return uint32(x) })
	askBits(t, isa.F64, isa.U64, 52, pool, func(x uint64) uint64 { return x })
}

func askBits[T uint32 | uint64](t *testing.T, float, bits isa.Type, mantissa int, pool *workers.Pool, of func(uint64) T) {
	sign := uint64(1) << (float.Size()*8 - 1)
	inf, mask := sign-1<<mantissa, sign-1+sign
	var edges []uint64
	for _, first := range []uint64{0, 1, 1 << mantissa, inf, inf + 1} {
		edges = append(edges, first, sign+first)
	}
	var x []T
	for _, e := range edges {
		for d := range uint64(4) {
			x = append(x, of((e+d-2)&mask))
		}
		x = append(x, of(e+1<<(mantissa-2)), of(e^1<<(mantissa-3)))
	}
	compare := []struct {
		name  string
		holds func(a, b T) bool
	}{
		{"lt", func(a, b T) bool { return a < b }}, {"le", func(a, b T) bool { return a <= b }}, {"gt", func(a, b T) bool { return a > b }},
		{"ge", func(a, b T) bool { return a >= b }}, {"eq", func(a, b T) bool { return a == b }}, {"ne", func(a, b T) bool { return a != b }},
	}
	levels := []jit.Level{jit.AVX512, jit.AVX512 | jit.Few, jit.AVX2}
	r := rand.New(rand.NewPCG(1, 2))
	ask := func(from, to uint64, c int, turned bool, l jit.Level) {
		more, bound := of(-from&mask), of((to-from)&mask)
		a, b := "s", fmt.Sprint(bound)
		if turned {
			a, b = b, a
		}
		text := fmt.Sprintf("program p\nslot a %v\nslot b u32\nldg.%[1]v v, a[index]\nbitcast.%v.%[1]v s, v\nadd.%[2]v s, s, %d\nset.%[4]s.%[2]v c, %[5]s, %[6]s\nsel.u32 z, c, 1, 0\nstg.u32 z, b[index]\nexit\n",
			float, bits, uint64(more), compare[c].name, a, b)
		y := make([]uint32, len(x))
		require.NoError(t, kernel(t, text, l).Run(launch(len(x), nil, flat(t, float, x), flat(t, isa.U32, y)), pool))
		for i := range x {
			want := compare[c].holds(x[i]+more, bound)
			if turned {
				want = compare[c].holds(bound, x[i]+more)
			}
			require.Equal(t, want, y[i] == 1, "%v of %#x\n%s", l, x[i], text)
		}
	}
	for _, from := range edges {
		for _, to := range edges {
			for _, beside := range []uint64{0, 1, mask} {
				for c := range compare {
					if r.IntN(brief.Or(1, 4)) == 0 {
						ask(from, to+beside, c, r.IntN(2) == 0, levels[r.IntN(len(levels))])
						ask(from+beside, to, c, r.IntN(2) == 0, levels[r.IntN(len(levels))])
					}
				}
			}
		}
	}
}
