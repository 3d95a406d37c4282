package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// How programs of users tell which row and column of the result a lane has, i and j of u64.
const byIndexSpace = "sreg i, row\nsreg j, column\n"
const byDivision = "sreg g, global_lane\nldp.u64 w, n\ndiv.u64 i, g, w\nrem.u64 j, g, w\n"
const byLanes = "sreg g, block.x\nsreg d32, block_dim.x\nsreg x, lane.x\nmad.u32 g, g, d32, x\nldp.u64 w, n\ncvt.u32.u64 w32, w\ndiv.u32 i, g, w32\nmul.u32 x, i, w32\nsub.u32 j, g, x\ncvt.u64.u32 i, i\ncvt.u64.u32 j, j\n"
const byBlocks = `sreg x, lane.x
sreg y, lane.y
sreg bx, block.x
sreg by, block.y
sreg dx, block_dim.x
sreg dy, block_dim.y
mad.u32 j, bx, dx, x
mad.u32 i, by, dy, y
cvt.u64.u32 i, i
cvt.u64.u32 j, j
ldp.u64 h, m
ldp.u64 w, n
set.ge.u64 p, i, h
bra end, p
set.ge.u64 p, j, w
bra end, p
`

// The loops: offsets in bytes that grow, or are made anew in each round, or places of flat elements.
const (
	growing = `ldp.u64 ar, a_row
ldp.u64 ac, a_col
ldp.u64 br, b_row
ldp.u64 bc, b_col
mul.u64 oa, i, ar
mul.u64 ob, j, bc
mov.T acc, 0
loop k, done
  ldg.T u, a[oa]
  ldg.T v, b[ob]
  fma.T acc, u, v, acc
  add.u64 oa, oa, ac
  add.u64 ob, ob, br
done:
`
	anew = `ldp.u64 ar, a_row
ldp.u64 ac, a_col
ldp.u64 br, b_row
ldp.u64 bc, b_col
mov.u64 q, 0
mov.T acc, 0
loop k, done
  mul.u64 oa, q, ac
  mad.u64 oa, i, ar, oa
  ldg.T u, a[oa]
  mul.u64 ob, q, br
  mad.u64 ob, j, bc, ob
  ldg.T v, b[ob]
  fma.T acc, v, u, acc
  add.u64 q, q, 1
done:
`
	flat = `ldp.u64 ar, a_row
ldp.u64 ac, a_col
ldp.u64 br, b_row
ldp.u64 bc, b_col
div.u64 ar, ar, SIZE
div.u64 ac, ac, SIZE
div.u64 br, br, SIZE
div.u64 bc, bc, SIZE
mul.u64 oa, i, ar
mul.u64 ob, j, bc
mov.T acc, 0
loop k, done
  ldg.T u, a[flat oa]
  ldg.T v, b[flat ob]
  fma.T acc, u, v, acc
  add.u64 oa, oa, ac
  add.u64 ob, ob, br
done:
`
)

// What follows.
const (
	stored  = "mul.u64 o, i, w\nadd.u64 o, o, j\nmul.u64 o, o, SIZE\nstg.T acc, c[o]\n"
	indexed = "stg.T acc, c[index]\n"
	relu    = "mul.u64 o, j, SIZE\nldg.T z, d[o]\nadd.T acc, acc, z\nmax.T acc, acc, 0\n"
	scaled  = "ldg.T z, d[0]\nmul.T acc, acc, z\n"
	twice   = "add.T z, acc, acc\nstg.T z, d[index]\n"
	behind  = "ldp.u64 h, m\ncvt.u64.u32 o, k\nmul.u64 o, o, h\nadd.u64 o, o, o\nadd.u64 o, o, g\nmul.u64 o, o, SIZE\nstg.T acc, a[o+16]\n" // A, however far apart its elements are
	gelu    = "mul.T z, acc, 0.5\nerf.T y, acc\nfma.T acc, z, y, z\n"
)

func contractionText(t isa.Type, parts ...string) string {
	text := "program p\nslot a T\nslot b T\nslot c T\nslot d T\nparam m u64\nparam n u64\nparam k u32\nparam a_row u64\nparam a_col u64\nparam b_row u64\nparam b_col u64\nldp.u32 k, k\n" +
		strings.Join(parts, "") + "end:\nexit\n"
	text = strings.ReplaceAll(text, "T ", t.String()+" ")
	text = strings.ReplaceAll(text, ".T.", "."+t.String()+".")
	text = strings.ReplaceAll(text, "T\n", t.String()+"\n")
	return strings.ReplaceAll(text, "SIZE", fmt.Sprint(t.Size()))
}

// floats are random numbers, few of which are special.
func floats(r *rand.Rand, t isa.Type, n int64, special bool) []byte {
	b := make([]byte, n*int64(t.Size()))
	for i := range n {
		x := r.Float64()*2 - 1
		if special && r.IntN(20) == 0 {
			x = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-40, -3e-39, 5e-324}[r.IntN(8)]
		}
		if t == isa.F32 {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(x)))
		} else {
			binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(x))
		}
	}
	return b
}

// TestContractions: users' products are what the loop says, to the bit, and gemm makes them where it is said to.
func TestContractions(t *testing.T) {
	brief.Alone(t)
	type sizes struct{ m, n, k int64 }
	all := []sizes{{3, 100, 513}, {100, 3, 512}, {17, 17, 511}, {64, 64, 64}, {17, 100, 1300}, {1, 300, 700}, {100, 1, 1300}, {65, 33, 17}}
	small := []sizes{{17, 17, 0}, {17, 17, 1}, {3, 3, 40}, {1, 1, 513}}
	for _, c := range []struct {
		name     string
		parts    []string
		taken    bool
		blocks   bool
		oneSpace bool
	}{
		{"by the index space, growing", []string{byIndexSpace, growing, indexed}, true, false, false},
		{"by the index space, flat", []string{byIndexSpace, flat, indexed}, true, false, false},
		{"by division, growing, bias and relu", []string{byDivision, growing, relu, indexed}, true, false, true},
		{"by lanes, anew, scaled", []string{byLanes, anew, scaled, stored}, true, false, true},
		{"by division, two outputs", []string{byDivision, anew, twice, stored}, true, false, true},
		{"by division, gelu", []string{byDivision, growing, gelu, indexed}, true, false, true},
		{"by blocks, growing, relu", []string{byBlocks, growing, relu, stored}, true, true, true},
		{"by blocks, anew, gelu", []string{byBlocks, anew, gelu, stored}, true, true, true},
		{"by blocks, flat", []string{byBlocks, flat, stored}, true, true, true},
		{"not from zero", []string{byDivision, strings.Replace(growing, "acc, 0", "acc, 1", 1), indexed}, false, false, true},
		{"from minus zero", []string{byDivision, strings.Replace(growing, "acc, 0", "acc, -0.0", 1), indexed}, false, false, true},
		{"into a factor", []string{byDivision, growing, "stg.T acc, c[index]\n" + behind}, false, false, true},
		{"by row and column both", []string{byDivision, strings.Replace(growing, "mul.u64 ob, j, bc", "mul.u64 ob, g, bc", 1), indexed}, false, false, true},
		{"more than the sum", []string{byDivision, growing, "cvt.T.u64 z, oa\nadd.T acc, acc, z\n", indexed}, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for _, ty := range []isa.Type{isa.F32, isa.F64} {
				v := verify(t, contractionText(ty, c.parts...))
				for i, s := range append(append([]sizes(nil), all...), small...) {
					for how := range 4 {
						if brief.On() && how != i%4 {
							continue
						}
						size := int64(ty.Size())
						aRow, aCol, bRow, bCol := s.k*size, size, s.n*size, size
						if how&1 != 0 {
							aRow, aCol = size, s.m*size
						}
						if how&2 != 0 {
							bRow, bCol = size, s.k*size
						}
						apart := int64(1)
						if how == 3 {
							aRow, aCol, apart = 2*aRow, 2*aCol, 2
						}
						contents := [][]byte{floats(r, ty, apart*s.m*s.k+1, how == 1), floats(r, ty, s.k*s.n+1, how == 2), floats(r, ty, s.m*s.n, false), floats(r, ty, max(s.m*s.n, s.n), false)}
						if c.name == "into a factor" {
							contents[0] = floats(r, ty, 2*s.m*s.k+4+s.m*s.n, false)
						}
						if c.name == "by row and column both" {
							contents[1] = floats(r, ty, s.k*s.n*s.m+s.m*s.n*s.k+1, false)
						}
						sh := linear(s.m*s.n, 64)
						if !c.oneSpace {
							sh.dims = []int64{s.m, s.n}
						}
						if c.blocks {
							sh = shape{grid: [3]uint32{uint32(s.n+15) / 16, uint32(s.m+3) / 4, 1}, block: [3]uint32{16, 4, 1}}
							sh.dims = []int64{int64(sh.grid[0]) * int64(sh.grid[1]) * 64}
						}
						params := []uint64{uint64(s.m), uint64(s.n), uint64(s.k), uint64(aRow), uint64(aCol), uint64(bRow), uint64(bCol)}
						judge := backends.Backend(interp.New())
						if s.m*s.n*s.k > 1<<17 { // for which it takes too long
							var err error
							judge, err = cpu.NewFor(1, jit.None)
							require.NoError(t, err)
						}
						want := run(t, judge, v, sh, contents, nil, params)
						require.NoError(t, want.err)
						for _, b := range []*cpu.Backend{machine(t, 1), machine(t, 2)} {
							m := newReady(t, b, v)
							got := m.run(t, new(host).block, sh, contents, nil, params)
							require.NoError(t, same(v, got, want), "%v %v %d", ty, s, how)
							taken := c.taken && i < len(all)
							if strings.HasSuffix(c.name, "both") { // in one row there is but one
								taken = s.m == 1 && i < len(all)
							}
							require.Equal(t, taken, cpu.Contracted(m.k) > 0, "%v %v %d", ty, s, how)
							m.k.Release()
						}
					}
				}
			}
		})
	}
}

// TestWhatIsSaidOfContractions: who asks is told whether gemm has a program's loop, and if not, why.
func TestWhatIsSaidOfContractions(t *testing.T) {
	machine(t, 1)
	for _, c := range []struct {
		name string
		t    isa.Type
		text []string
		want string // "" if there is nothing to say
	}{
		{"taken", isa.F32, []string{byDivision, growing, relu, indexed}, `s0 · s1 of f32, added up by a loop, by gemm where a launch's lanes make up a matrix`},
		{"by blocks", isa.F64, []string{byBlocks, anew, stored}, `s0 · s1 of f64, added up by a loop, by gemm where a launch's lanes make up a matrix`},
		{"from a load of C", isa.F32, []string{byDivision, strings.Replace(growing, "mov.T acc, 0", "ldg.T acc, c[index]", 1), indexed}, "not by gemm: the sum does not begin with +0.0"},
		{"into a factor", isa.F32, []string{byDivision, growing, indexed, behind}, "not by gemm: a factor is of another type, or may be written"},
		{"more to load", isa.F32, []string{byDivision, strings.Replace(growing, "fma.T acc, u", "ldg.T z, d[oa]\nfma.T ac2, z, v, ac2\nfma.T acc, u", 1), "add.T acc, acc, ac2\n", indexed}, "not by gemm: more than the sum is used of what the loop leaves"},
		{"of 16 bits", isa.F16, []string{byDivision, growing, indexed}, "not by gemm: gemm has no chains of f16, but of f32 and f64"},
		{"a place that is loaded", isa.F32, []string{byDivision, "ldg.T z, d[0]\ncvt.u64.T i, z\n", growing, indexed}, "not by gemm: what a factor's place is made of is not known before the launch"},
		{"two in one", isa.F32, []string{byDivision, strings.Replace(strings.Replace(growing, "loop k, done", "loop 2, out\nloop k, done", 1), "done:\n", "done:\nout:\n", 1), indexed}, "not by gemm: no loop outside of others does nothing but add up products of what it loads, unconverted"},
		{"no products of loads", isa.F32, []string{byDivision, "mov.T acc, 0\nloop k, done\nfma.T acc, acc, 0.5, 1\ndone:\n", indexed}, ""},
		{"no loop", isa.F32, []string{byDivision, "ldg.T acc, a[index]\n", indexed}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := contractionText(c.t, c.text...)
			for _, zero := range []string{"acc", "ac2"} {
				text = strings.Replace(text, "ldp.u32 k, k\n", fmt.Sprintf("ldp.u32 k, k\nmov.%v %s, 0\n", c.t, zero), 1)
			}
			f, _, err := ir.Canonical(verify(t, text))
			require.NoError(t, err)
			said, err := cpu.Explain(nil, f)
			require.NoError(t, err)
			_, line, found := strings.Cut(said, "\n  contraction: ")
			require.Equal(t, c.want != "", found, said)
			require.Equal(t, c.want, line)
		})
	}
}

// machine is the backend with machine code, which needs the machine to run it.
func machine(t testing.TB, threads int) *cpu.Backend {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("AVX2 is missing here, without which gemm has no products: %v", err)
	}
	b, err := cpu.NewFor(threads, jit.Detect())
	require.NoError(t, err)
	return b
}
