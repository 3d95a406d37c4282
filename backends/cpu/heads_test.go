package cpu_test

import (
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// heads are programs in which the lanes of a block share numbers, some of which may
// fault: these are computed by block, in order with what is made of them, and loaded by
// block where nothing writes there. first is the number of the block's first lane.
var heads = map[string]string{
	"a sum with a quotient of the launch's": `
program p
slot a u32
slot c u32
  sreg x, block_dim.x
  sreg y, grid_dim.x
  div.u32 q, x, y
  add.u32 q, q, 3
  sreg g, global_lane
  mul.u64 at, g, 4
  ldg.u32 v, a[at]
  add.u32 v, v, q
  stg.u32 v, c[at]
  exit`,
	"what a loop makes of it": `
program p
slot a u32
slot c u32
  sreg x, block_dim.x
  sreg y, grid_dim.x
  div.u32 q, x, y
  loop 3, done
  add.u32 q, q, x
done:
  add.u32 q, q, 3
  sreg g, global_lane
  mul.u64 at, g, 4
  ldg.u32 v, a[at]
  add.u32 v, v, q
  stg.u32 v, c[at]
  exit`,
	"addresses that change places": `
program p
slot a u32
slot c u32
  sreg g, global_lane
  mul.u64 at, g, 4
  add.u64 x, at, 8
  add.u64 y, at, 4
  mov.u32 v, 0
  loop 5, done
  ldg.u32 w, a[at]
  mul.u32 v, v, 3
  add.u32 v, v, w
  mov.u64 t, at
  mov.u64 at, x
  mov.u64 x, y
  mov.u64 y, t
done:
  ldg.u32 w, a[x]
  add.u32 v, v, w
  mul.u64 at, g, 4
  stg.u32 v, c[at]
  exit`,
	"a load that is the launch's": `
program p
slot a u32
slot b i32
slot c u32
  ldg.i32 q, b[4]
  add.i32 r, q, 3
  cvt.i64.i32 w, q
  cvt.u32.i64 w, w
  sreg g, global_lane
  mul.u64 at, g, 4
  ldg.u32 v, a[at]
  cvt.u32.i32 r, r
  add.u32 v, v, r
  xor.u32 v, v, w
  stg.u32 v, c[at]
  exit`,
	"a row's number": `
program p
slot rows u32
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  ldg.u32 row, rows[of]
  and.u32 row, row, 7
  cvt.u64.u32 from, row
  mul.u64 from, from, 4
  mul.u64 at, g, 4
  ldg.u32 v, a[from]
  ldg.u32 w, a[at]
  add.u32 v, v, w
  stg.u32 v, c[at]
  exit`,
	"extrema of a row's number with a sign": `
program p
slot rows i32
slot a i64
slot c i64
` + first + `
  mul.u64 of, first, 4
  ldg.i32 n, rows[of]
  min.i32 least, n, -5
  cvt.i64.i32 least, least
  cvt.i64.i32 n, n
  max.i64 most, n, -7
  mul.u64 at, g, 8
  ldg.i64 v, a[at]
  add.i64 v, v, least
  xor.i64 v, v, most
  stg.i64 v, c[at]
  exit`,
	"a row's number that strays, after another": `
program p
slot a u32
slot b u32
slot c u32
` + first + `
  mul.u64 at, g, 4
  ldg.u32 x, a[at + 64]
  mul.u64 of, first, 16
  ldg.u32 v, b[of - 32]
  add.u32 v, v, x
  ldg.u32 w, b[of]
  add.u32 v, v, w
  stg.u32 v, c[index]
  exit`,
	"stores between": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  mul.u64 at, g, 4
  ldg.u32 x, a[of]
  bar_sync 0
  add.u32 y, x, 7
  stg.u32 y, a[at]
  bar_sync 0
  ldg.u32 y, a[of]
  mul.u32 x, x, y
  stg.u32 x, c[at]
  exit`,
	"stores by index between": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  ldg.u32 x, a[of]
  bar_sync 0
  add.u32 y, x, 7
  stg.u32 y, a[index]
  bar_sync 0
  ldg.u32 y, a[of]
  mul.u32 x, x, y
  stg.u32 x, c[index]
  exit`,
	"what the first lane has stored": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  stg.u32 7, a[index]
  ldg.u32 x, a[of]
  add.u32 x, x, 2
  stg.u32 x, c[index]
  exit`,
	"atomics between": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  mul.u64 at, g, 4
  ldg.u32 x, a[of]
  bar_sync 0
  atom_add.u32 y, a[of], 5
  bar_sync 0
  ldg.u32 y, a[of]
  mul.u32 x, x, y
  stg.u32 x, c[at]
  exit`,
	"rounds of loads": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  mul.u64 at, g, 4
  ldg.u32 n, a[of]
  and.u32 n, n, 7
  mov.u32 s, n
  loop n, done
  ldg.u32 x, a[of]
  add.u32 s, s, x
  and.u32 x, x, 12
  cvt.u64.u32 x, x
  add.u64 of, of, x
done:
  stg.u32 s, c[at]
  exit`,
	"rounds whose last store the next one loads": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 of, first, 4
  mul.u64 at, g, 4
  mov.u32 s, 1
  loop 3, done
  ldg.u32 x, a[at]
  add.u32 s, s, x
  stg.u32 s, a[at]
done:
  stg.u32 s, c[at]
  exit`,
	"some lanes load it": `
program p
slot a u32
slot b u32
slot c u32
` + first + `
  mul.u64 of, first, 64
  mul.u64 at, g, 4
  ldg.u32 x, a[at]
  and.u32 t, x, 3
  set.eq.u32 p, t, 0
  mov.u32 v, 9
  bra other, p
  ldg.u32 v, b[of - 4]
  add.u32 v, v, 1
other:
  add.u32 v, v, x
  stg.u32 v, c[at]
  exit`,
	"some lanes are gone before": `
program p
slot a u32
slot b u32
slot c u32
` + first + `
  mul.u64 of, first, 64
  mul.u64 at, g, 4
  ldg.u32 x, a[at]
  and.u32 t, x, 1
  set.eq.u32 p, t, 0
  bra out, p
  ldg.u32 v, b[of - 4]
  add.u32 v, v, x
  stg.u32 v, c[at]
out:
  exit`,
	"rounds of loads beside the lanes' places": `
program p
slot a u32
slot c u32
` + first + `
  mul.u64 at, g, 4
  mov.u32 s, 0
  cvt.i64.u64 of, at
  loop 3, done
  ldg.u32 x, a[of + 8]
  ldg.u32 y, a[of - 4]
  mad.u32 s, s, 3, x
  xor.u32 s, s, y
  add.i64 of, of, 64
done:
  stg.u32 s, c[at]
  exit`,
	"quotients by what a segment before has made for its block": `
program p
slot a u32
slot f f32
slot c u32
slot d f32
  sreg b, block.x
  ldg.u32 x, a[index]
  ldg.f32 v, f[index]
  block_reduce_max.u32 t, x
  xor.u32 t, t, b
  cvt.f32.u32 u, t
  add.u32 y, x, t
  block_reduce_add.u32 y, y
  div.u32 z, x, t
  xor.u32 z, z, y
  div.f32 v, v, u
  stg.u32 z, c[index]
  stg.f32 v, d[index]
  exit`,
	"what the first lane has alone": `
program p
slot a u32
slot c u32
slot d u32
` + first + `
  sreg q, lane.x
  set.eq.u32 p, q, 0
  mul.u64 at, g, 4
  ldg.u32 v, a[at]
  sel.u32 w, p, v, 5
  stg.u32 w, c[at]
  bra out, !p
  stg.u32 q, d[at]
out:
  exit`,
}

const first = `
  sreg g, global_lane
  sreg x, lane.x
  sreg y, lane.y
  sreg z, lane.z
  sreg dx, block_dim.x
  sreg dy, block_dim.y
  cvt.u64.u32 x, x
  cvt.u64.u32 y, y
  cvt.u64.u32 z, z
  cvt.u64.u32 dx, dx
  cvt.u64.u32 dy, dy
  mul.u64 z, z, dy
  add.u64 y, y, z
  mul.u64 y, y, dx
  sub.u64 first, g, x
  sub.u64 first, first, y`

func TestHeads(t *testing.T) {
	brief.Alone(t)
	compare(t, 2, heads)
}
