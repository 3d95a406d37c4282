package analysis_test

import (
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
	"github.com/stretchr/testify/require"
)

// TestReports shows what people are shown, word for word.
func TestReports(t *testing.T) {
	for _, c := range []struct {
		op   *kernels.Op
		dims []int64
		step int
		want string
	}{
		{kernels.Gemm, []int64{40, 50, 60, 0, 0}, 0, `product with an epilogue
  access 0: ldg.f32 s1[lane.x·p6 + p5·round0 + block_dim.x·p6·%21], site 3, in loop 0, p6 from lane to lane, unless it wraps
  access 1: ldg.f32 s0[lane.y·p3 + p4·round0 + block_dim.y·p3·%17], site 4, in loop 0, 0 from lane to lane, unless it wraps
  access 2: ldg.f32 s2[4·lane.x + 4·lane.y·p1 + 4·block_dim.x·%21 + 4·block_dim.y·p1·%17], site 5, 4 from lane to lane, unless it wraps
  access 3: stg.f32 s2[4·lane.x + 4·lane.y·p1 + 4·block_dim.x·%21 + 4·block_dim.y·p1·%17], site 6, 4 from lane to lane, unless it wraps
  loop 0: p2 rounds, of 8 instructions
    %29 = lane.y·p3 + block_dim.y·p3·%17 + round·(p4)
    %31 = lane.x·p6 + block_dim.x·p6·%21 + round·(p5)
  loop 0 accumulates by fma.f32 the products of accesses 0 and 1
`},
		{kernels.Softmax, []int64{3, 1000}, 1, `reduction
  access 0: ldg.f32 s0[4·lane.x + 32768·%13 + 1024·round0 + 4·p0·%20], site 3, in loop 0, 4 from lane to lane, always
  access 1: ldg.f32 s1[4·%20], site 4, in loop 0, the same for a block, always
  access 2: ldg.f32 s0[4·lane.x + 32768·%13 + 1024·%18 + 4·p0·%20], site 5, 4 from lane to lane, always
  access 3: ldg.f32 s1[4·%20], site 6, the same for a block, always
  access 4: stg.f32 s2[4·block.x], site 7, the same for a block, always
  loop 0: %18 rounds, at most 32, of 33 instructions
    %28 = 4·lane.x + 32768·%13 + 4·p0·%20 + round·(1024)
  loop 0 accumulates by add.f32, then block_reduce_add.f32
`},
		{kernels.Softmax, []int64{3, 1000}, 2, `map
  reads s0[index]
  reads s1[index]
  reads s2[index]
  writes s3[index]
`},
	} {
		plan, err := c.op.Plan(isa.F32, c.dims)
		require.NoError(t, err)
		s := &plan.Steps[c.step]
		a := analyse(t, s.Program)
		require.Equal(t, c.want, a.String())
	}
}

func TestReportInWords(t *testing.T) {
	a := analyseText(t, `program p
slot b f32
slot h u32
shared 64
sreg x, lane.x
sreg g, global_lane
mul.u64 o, g, 4
stg.f32 1, b[o+8]
ldg.u32 i, h[index]
shl.u32 s, i, 2
atom_add.u32 o, shared[s], 1
loop i, e
  loop 3, f
    sub.u32 x, x, 2
  f:
e:
stg.u32 x, h[index]
exit`)
	require.Equal(t, `other: ATOM_ADD uses shared memory
  reads s1[index]
  writes s1[index]
  access 1: atom_add.u32 shared[4·%9], site 0, unless it wraps
  access 2: stg.f32 s0[4·global_lane + 8], site 1, 4 from lane to lane, unless it wraps
  loop 0: %9 rounds, of 8 instructions
  loop 1 in loop 0: 3 rounds, at most 3, of 2 instructions
    %17 = %16 + round·(−2)
`, a.String(), "%v", a.Func)
}
