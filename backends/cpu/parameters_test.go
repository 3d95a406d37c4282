package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// TestProductsOfOthersParameters launches the library's program with numbers that
// no plan gives: nothing outside the slots is touched, and what is computed is
// what the program says.
func TestProductsOfOthersParameters(t *testing.T) {
	brief.Alone(t)
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		r := rand.New(rand.NewPCG(7, 8))
		engine, oracle := on(t, b.level, 1), on(t, jit.None, 1)
		for range brief.Or(300, 150) {
			batch := []int64(nil)
			if r.IntN(2) == 0 {
				batch = []int64{1 + r.Int64N(3)}
			}
			m, n, k := 1+r.Int64N(20), 1+r.Int64N(40), 1+r.Int64N(20)
			if r.IntN(4) < 1+len(batch) {
				k = 520 + r.Int64N(600)
			}
			shape := func(x ...int64) kernels.Layout {
				return kernels.Packed(isa.F32, append(append([]int64(nil), batch...), x...)...)
			}
			plan, err := kernels.Gemm.PlanShapes([]kernels.Layout{shape(m, k), shape(k, n), shape(m, n)}, -1)
			require.NoError(t, err)
			st := plan.Steps[0]
			b.kernel(st.Program)
			var params []uint64
			for _, x := range st.Params {
				if x.Scalar {
					x.Value = uint64(math.Float32bits(1))
				}
				params = append(params, x.Value)
			}
			first := slices.IndexFunc(st.Program.Program.Params, func(p isa.Param) bool { return p.Name == "batch" })
			further := first >= 0 && r.IntN(2) == 0 // matrices that only some of the slots have
			if further {
				params[first] = r.Uint64N(3)
			}
			var contents [][]byte
			for i := range st.Slots {
				bytes := st.Slots[i].Shape[0] * 4
				if further {
					bytes *= 1 + r.Int64N(3)
				}
				if r.IntN(4) == 0 {
					bytes = max(4, bytes-4*r.Int64N(bytes/4+1))
				}
				c := make([]byte, bytes)
				for at := 0; at+4 <= len(c); at += 4 {
					putFloat(c[at:], isa.F32, float64(r.IntN(9)))
				}
				contents = append(contents, c)
			}
			for range r.IntN(3) {
				i := r.IntN(len(params))
				params[i] = []uint64{0, 1, params[i] + 1, params[i] - 1, params[i] * 2, params[i] / 2, 1 << 31, 1 << 45, 1 << 63, uint64(r.IntN(64))}[r.IntN(10)]
				if typ := st.Program.Program.Params[i].Type; typ == isa.U32 {
					params[i] = uint64(uint32(params[i]))
				}
				if name := st.Program.Program.Params[i].Name; name == "k" || name == "part" || name == "parts" {
					params[i] %= 3000 // a loop's rounds
				}
			}
			sh := spaceOf(st)
			if r.IntN(6) == 0 { // less than it takes, or more
				sh.fuel = 1 + r.Uint64N(24)
			}
			if r.IntN(4) == 0 { // the last lanes of the grid do not run
				sh.dims = []int64{1 + r.Int64N(sh.n())}
			}
			want := run(t, oracle, st.Program, sh, contents, nil, params)
			got := run(t, engine, st.Program, sh, contents, nil, params)
			require.NoError(t, same(st.Program, got, want), "%d×%d×%d batch %v params %v", m, n, k, batch, params)
		}
	})
}

// TestStacksThatEndBefore launches products of the second and third matrices of stacks, of
// which one has no third: that is a fault, whatever lies behind the slot.
func TestStacksThatEndBefore(t *testing.T) {
	eachWidth(t, 1, func(t *testing.T, _, b *bench) {
		engine, oracle := on(t, b.level, 1), on(t, jit.None, 1)
		stack := func(m, n int64) kernels.Layout { return kernels.Packed(isa.F32, 2, m, n) }
		plan, err := kernels.Gemm.PlanShapes([]kernels.Layout{stack(9, 7), stack(7, 20), stack(9, 20)}, -1)
		require.NoError(t, err)
		st := plan.Steps[0]
		b.kernel(st.Program)
		for short := range 4 { // the last time all are there
			var params []uint64
			for i, x := range st.Params {
				switch {
				case x.Scalar:
					x.Value = uint64(math.Float32bits(1))
				case st.Program.Program.Params[i].Name == "batch":
					x.Value = 1
				}
				params = append(params, x.Value)
			}
			var contents [][]byte
			for i := range st.Slots {
				bytes := 2 * st.Slots[i].Shape[0]
				if i == short {
					bytes *= 2
				} else {
					bytes *= 3
				}
				contents = append(contents, make([]byte, bytes))
			}
			want := run(t, oracle, st.Program, spaceOf(st), contents, nil, params)
			require.Equal(t, short < 3, want.err != nil)
			got := run(t, engine, st.Program, spaceOf(st), contents, nil, params)
			require.NoError(t, same(st.Program, got, want), "slot %d", short)
		}
	})
}

// Parameters of 16-bit floats have the oracle's bits where what is beside them has their size,
// and where it has not: only with masks of a bit are they packed there.
func TestParametersOfHalves(t *testing.T) {
	for _, ty := range []isa.Type{isa.F16, isa.BF16} {
		for _, other := range []isa.Type{isa.I8, isa.U16, isa.I32, isa.F64} {
			v := verify(t, fmt.Sprintf("program p\nslot a %v\nslot b %v\nslot c %[1]v\nslot d %[2]v\nparam k %[1]v\n  ldg.%[1]v x, a[index]\n  ldp.%[1]v k, k\n  ldg.%[2]v y, b[index]\n  set.lt.%[2]v p, y, 5\n"+
				"  neg.%[1]v x, x\n  sel.%[1]v x, p, k, x\n  add.%[2]v y, y, y\n  stg.%[1]v x, c[index]\n  stg.%[2]v y, d[index]\n  exit\n", ty, other))
			contents := randomContents(rand.New(rand.NewPCG(41, 42)), v, 100)
			want := run(t, interp.New(), v, linear(100, 32), contents, nil, []uint64{0x3e12})
			for _, l := range levels {
				require.NoError(t, same(v, run(t, on(t, l, 1), v, linear(100, 32), contents, nil, []uint64{0x3e12}), want), "%v beside %v, %v", ty, other, l)
			}
		}
	}
}
