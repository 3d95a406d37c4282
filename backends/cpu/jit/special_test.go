package jit_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// What chains of choices give for special arguments, and for those beside them, is what
// they say: where there is one instruction for a chain, and where there is none, since it
// compares with other numbers, or a choice of it is used elsewhere.
func TestSpecialArguments(t *testing.T) {
	if err := jit.Available(jit.AVX512); err != nil {
		t.Skip(err)
	}
	chains := []string{
		"set.lt.T c, x, inf\nsel.T z, c, z, x\nset.lt.T c, x, 0\nsel.T z, c, nan, z\nset.eq.T c, x, 0\nsel.T z, c, -inf, z",
		"set.eq.T c, x, inf\nsel.T z, c, 1, z\nset.eq.T c, x, -inf\nsel.T z, c, -1, z\nset.ne.T c, x, x\nsel.T z, c, x, z",
		"set.gt.T c, 0, x\nsel.T z, c, 0.5, z\nset.ge.T c, x, inf\nsel.T z, c, x, z\nset.ne.T c, 0, x\nsel.T z, c, z, -0.0",
		"set.le.T c, x, 0\nsel.T z, c, x, z\nset.ne.T c, x, inf\nsel.T z, c, z, 0",
		"set.lt.T c, x, 0\nsel.T z, c, 3, z\nset.eq.T c, x, inf\nsel.T z, c, 1, z",
		"set.lt.T c, x, 1\nsel.T z, c, 1, z\nset.eq.T c, x, inf\nsel.T z, c, 1, z",
		"set.lt.T c, x, 0\nsel.T z, c, nan, z\nset.eq.T c, x, inf\nsel.T z, c, 3, z\nset.eq.T c, x, 0\nsel.T z, c, 1, z\nset.eq.T c, x, -inf\nsel.T z, c, 0, z",
		"set.lt.T c, x, 0\nsel.T w, c, 1, z\nset.eq.T c, x, inf\nsel.T z, c, -1, w\nadd.T z, z, w",
	}
	tiny := map[isa.Type]float64{isa.F32: math.SmallestNonzeroFloat32, isa.F64: math.SmallestNonzeroFloat64}
	most := map[isa.Type]float64{isa.F32: math.MaxFloat32, isa.F64: math.MaxFloat64}
	pool := workers.New(1)
	defer pool.Close()
	for i, chain := range chains {
		for _, ty := range []isa.Type{isa.F32, isa.F64} {
			t.Run(fmt.Sprint(i, ty), func(t *testing.T) {
				var x []float64
				for _, v := range []float64{0, tiny[ty], 0.5, 1, 2, most[ty], math.Inf(1), math.NaN()} {
					x = append(x, v, -v)
				}
				results := map[jit.Level][]uint64{}
				for _, l := range []jit.Level{jit.AVX2, jit.AVX512, jit.AVX512 | jit.Few} {
					results[l] = chosen(t, chain, ty, l, x, pool)
				}
				require.Equal(t, results[jit.AVX2], results[jit.AVX512])
				require.Equal(t, results[jit.AVX2], results[jit.AVX512|jit.Few])
			})
		}
	}
}

// chosen runs a chain on arguments of which other results would be 7 more, and gives the
// results' bits, of all NaNs the same.
func chosen(t *testing.T, chain string, ty isa.Type, l jit.Level, x []float64, pool *workers.Pool) (bits []uint64) {
	text := "program p\nslot a T\nslot b T\nldg.T x, a[index]\nadd.T z, x, 7\n" + chain + "\nstg.T z, b[index]\nexit\n"
	k := kernel(t, strings.ReplaceAll(strings.ReplaceAll(text, ".T ", "."+ty.String()+" "), " T\n", " "+ty.String()+"\n"), l)
	y := make([]float64, len(x))
	if ty == isa.F64 {
		require.NoError(t, k.Run(launch(len(x), nil, flat(t, ty, x), flat(t, ty, y)), pool))
	} else {
		from, to := make([]float32, len(x)), make([]float32, len(x))
		for i := range x {
			from[i] = float32(x[i])
		}
		require.NoError(t, k.Run(launch(len(x), nil, flat(t, ty, from), flat(t, ty, to)), pool))
		for i := range y {
			y[i] = float64(to[i])
		}
	}
	for _, v := range y {
		if math.IsNaN(v) {
			v = math.NaN()
		}
		bits = append(bits, math.Float64bits(v))
	}
	return bits
}
