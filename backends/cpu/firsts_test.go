package cpu_test

import (
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// firstLanes are programs in which a block's first lanes take a branch, more of them in each block, and what some
// lanes store to one place. left is how many they are.
var firstLanes = map[string]string{
	"loads before the slot's begin, and behind its end": left + `
  sub.u64 at, at, 40
  cvt.i64.u64 at, at
  mov.u32 s, 7
  set.ge.u32 p, q, left
  bra over, p
  ldg.u32 v, a[at]
  ldg.u32 w, a[at + 100]
  xor.u32 v, v, w
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"a place that is found behind a load that strays": left + `
  sub.u64 at, at, 40
  cvt.i64.u64 at, at
  mov.u32 s, 7
  set.ge.u32 p, q, left
  bra over, p
  ldg.u32 v, a[at]
  mul.u64 to, b64, 8
  mad.u64 to, g, 4, to
  cvt.i64.u64 to, to
  ldg.u32 w, a[to]
  xor.u32 v, v, w
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"more lanes than a number with a sign is": left + `
  cvt.i64.u64 at, at
  cvt.u64.u32 q64, q
  add.u64 lim, b64, 0xfffffffffffffff0
  mov.u32 s, 7
  set.ge.u64 p, q64, lim
  bra over, p
  ldg.u32 v, a[at + 400]
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"so many lanes that the bytes of their elements are none": left + `
  cvt.i64.u64 at, at
  cvt.u64.u32 q64, q
  add.u64 lim, b64, 0x4000000000000000
  mov.u32 s, 7
  set.ge.u64 p, q64, lim
  bra over, p
  ldg.u32 v, a[at + 400]
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"a sum and another value go on": left + `
  cvt.i64.u64 at, at
  mul.u32 s, q, 3
  mov.u32 t, s
  set.lt.u32 p, q, left
  bra some, p
  bra over
some:
  ldg.u32 v, a[at]
  add.u32 t, s, v
over:
  add.u32 s, s, t
  block_reduce_max.u32 s, s
  add.u32 s, s, t
  stg.u32 s, c[index]
  exit`,
	"what some lanes store to one place": left + `
  ldg.u32 v, a[index]
  block_reduce_add.u32 s, v
  stg.u32 v, c[index]
  set.lt.u32 p, q, 3
  bra end, p
  mul.u64 to, b64, 4000
  stg.u32 s, d[to]
end:
  exit`,
	"what no lane stores": left + `
  ldg.u32 v, a[index]
  block_reduce_add.u32 s, v
  stg.u32 v, c[index]
  set.lt.u32 p, q, 2000
  bra end, p
  mul.u64 to, b64, 4
  stg.u32 s, d[to]
end:
  exit`,
	"loads behind the slot's end": left + `
  cvt.i64.u64 at, at
  mov.u32 s, 7
  set.ge.u32 p, q, left
  bra over, p
  ldg.u32 v, a[at + 440]
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"the first lane behind them, too": left + `
  cvt.i64.u64 at, at
  mov.u32 s, 7
  set.gt.u32 p, q, left
  bra over, p
  ldg.u32 v, a[at]
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"all lanes or none, by numbers whose steps cancel": left + `
  cvt.i64.u64 at, at
  shl.u32 x, q, 1
  add.u32 x, x, b
  sub.u32 x, x, q
  sub.u32 x, x, q
  mov.u32 s, 7
  set.le.u32 p, x, 2
  bra over, p
  ldg.u32 v, a[at]
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"others do something else": left + `
  cvt.i64.u64 at, at
  mov.u32 s, 7
  set.ge.u32 p, q, left
  bra others, p
  ldg.u32 v, a[at]
  add.u32 s, s, v
  bra over
others:
  mul.u32 s, q, 5
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
	"all lanes or none, by numbers below 0": left + `
  cvt.i64.u64 at, at
  cvt.i32.u32 d, b
  sub.i32 d, d, 2
  mov.u32 s, 7
  set.lt.i32 p, d, 0
  bra over, p
  ldg.u32 v, a[at]
  add.u32 s, s, v
over:
  block_reduce_add.u32 s, s
  stg.u32 s, c[index]
  exit`,
}

const left = `
program p
slot a u32
slot c u32
slot d u32
  sreg g, global_lane
  sreg q, lane.x
  sreg b, block.x
  cvt.u64.u32 b64, b
  mul.u32 left, b, 37
  add.u32 left, left, 21
  and.u32 left, left, 255
  mul.u64 at, g, 4`

func TestFirstLanes(t *testing.T) {
	brief.Alone(t)
	compare(t, 2, firstLanes)
}
