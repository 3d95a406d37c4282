package cpu_test

// programs are compared with the interpreter, each in several launches, as those of
// flow_test.go are. The slots of element programs hold random bytes.
var programs = map[string]string{
	"tables' elements that are not there": `
program p
slot a i32
slot c i32
data t i32 { 3, 4, 5 }
  ldg.i32 x, a[index]
  ldc.i32 y, t[x]
  stg.i32 y, c[index]
  exit`,
	"and by more bits": `
program p
slot a i64
slot c i32
data t i32 { 3, 4, 5 }
  ldg.i64 x, a[index]
  shr.i64 x, x, 1
  ldc.i32 y, t[x]
  stg.i32 y, c[index]
  exit`,
	"division": `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  and.i32 y, x, 3
  set.ne.i32 p, y, 0
  bra safe, p
  bra out
safe:
  div.i32 x, 1000, y
  rem.i32 y, x, y
  add.i32 x, x, y
out:
  stg.i32 x, c[index]
  exit`,
	"division by zero": `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  and.i32 y, x, 3
  rem.i32 z, x, y
  stg.i32 z, c[index]
  exit`,
	"stray": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 x, x, 0xfff
  shl.u32 x, x, 2
  ldg.u32 y, a[x - 8]
  set.lt.u32 p, x, 64
  bra out, p
  stg.u32 y, c[index]
out:
  exit`,
	"lanes and blocks": `
program p
slot c u32
  sreg x, lane.x
  sreg y, lane.y
  sreg z, lane.z
  mad.u32 x, y, 100, x
  mad.u32 x, z, 10000, x
  sreg y, block.x
  mad.u32 x, y, 1000000, x
  sreg y, block.y
  mad.u32 x, y, 10000000, x
  sreg y, block.z
  mad.u32 x, y, 100000000, x
  sreg y, block_dim.y
  add.u32 x, x, y
  sreg y, grid_dim.x
  add.u32 x, x, y
  sreg g, global_lane
  sreg n, n
  mul.u64 g, g, n
  cvt.u32.u64 y, g
  add.u32 x, x, y
  stg.u32 x, c[index]
  exit`,
	"byte addresses": `
program p
slot a u32
slot c u32
  sreg g, global_lane
  sreg n, n
  div.u64 row, g, 7
  rem.u64 col, g, 7
  mul.u64 o, row, 28
  shl.u64 k, col, 2
  add.u64 o, o, k
  ldg.u32 x, a[o]
  sub.u64 b, n, g
  shl.u64 b, b, 2
  ldg.u32 y, a[b - 4]
  sub.u32 x, x, y
  stg.u32 x, c[b - 4]
  exit`,
	"mixed types": `
program p
slot a f32
slot b f16
slot c bf16
slot d f64
slot o f32
  ldg.f32 x, a[index]
  ldg.f16 y, b[index]
  ldg.bf16 z, c[index]
  ldg.f64 w, d[index]
  cvt.f32.f16 u, y
  fma.f32 x, x, u, x
  cvt.f16.f32 v, x
  fma.f16 v, v, y, 0x1.8p+0
  cvt.f32.f16 u, v
  add.f32 x, x, u
  cvt.bf16.f64 q, w
  mul.bf16 z, z, q
  cvt.f32.bf16 u, z
  min.f32 x, x, u
  cvt.i16.f32 i, x
  cvt.f32.i16 u, i
  max.f32 x, x, u
  sqrt.f32 u, x
  set.lt.f32 p, x, 0x1p+0
  sel.f32 x, p, u, x
  stg.f32 x, o[index]
  exit`,
	"atlas": `
program p
slot a u8
slot c u64
  ldg.u8 x, a[index]
  cls_get k
  nbr_count m, k
  mirror i, k
  and.u8 t, x, 63
  bound_map b, t, m, x
  unity_test p, 2.0
  phase_adv 300
  phase_get h
  bra out, p
  phase_adv 5
  cvt.u64.u16 h2, h
  add.u64 b, b, h2
out:
  cvt.u64.u8 v, x
  res_accum t, v
  nbr_get n, t, 3
  cvt.u64.u8 w, n
  add.u64 b, b, w
  cvt.u64.u8 w, i
  add.u64 b, b, w
  stg.u64 b, c[index]
  exit`,
	"pools": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  pool_alloc h, 64
  pool_alloc g, 8
  and.u32 o, x, 15
  cvt.u64.u32 o, o
  shl.u64 o, o, 2
  pool_store.u32 x, h, o
  pool_store.u32 7, g, 4
  and.u32 b, x, 1
  set.eq.u32 p, b, 1
  sel.u64 k, p, h, g
  pool_load.u32 y, k, 4
  pool_free g
  add.u32 y, y, x
  stg.u32 y, c[index]
  exit`,
	"indirect": `
program p
slot a u32
slot b u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 h, x, 1
  sreg l, global_lane
  shl.u64 o, l, 2
  ldg.u32 y, @h[o]
  stg.u32 y, c[index]
  exit`,
	"indirect stores": `
program p
slot a u32
slot b u32
slot c u32
  sreg l, global_lane
  cvt.u32.u64 g, l
  and.u32 h, g, 1
  add.u32 h, h, 1
  shl.u64 o, l, 2
  stg.u32 g, @h[o]
  and.u32 h, g, 31
  set.eq.u32 p, h, 9
  bra out, !p
  ldg.u32 g, @h[o]
out:
  exit`,
	"index arithmetic": `
program p
slot c i64
  sreg x, lane.x
  sreg y, lane.y
  sreg b, block.x
  sreg d, block_dim.x
  mad.u32 j, b, d, x
  cvt.i32.u32 k, j
  sub.i32 k, k, 20
  min.i32 m, k, 5
  max.i32 n, k, -3
  shl.i32 s, k, 3
  shr.i32 s, s, 2
  cvt.i8.i32 e, k
  cvt.i16.i32 f, s
  cvt.i64.i8 o, e
  cvt.i64.i16 q, f
  add.i64 o, o, q
  and.u32 j, j, 15
  mul.u32 j, j, 0x20000001
  cvt.i64.u32 q, j
  add.i64 o, o, q
  cvt.i64.i32 q, m
  shl.i64 q, q, 40
  sub.i64 o, o, q
  cvt.i64.i32 q, n
  add.i64 o, o, q
  set.le.i32 p, k, 100
  cvt.i64.u32 q, y
  bra out, p
  add.i64 o, o, q
out:
  stg.i64 o, c[index]
  exit`,
	"atomics": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 o, x, 12
  and.u32 y, x, 0xff
  atom_add.u32 old, c[o], y
  atom_max.u32 old, c[o + 16], x
  atom_xor.u32 old, c[o + 32], x
  exit`,
	"phi": `
program p
slot c u32
  sreg l, lane.x
  ldg.u32 x, phi(3, 2, 1)
  stg.u32 x, c[index]
  exit`,
	"predicates": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  set.gt.u32 p, x, 0x80000000
  and.u32 y, x, 1
  set.eq.u32 q, y, 1
  and.pred r, p, !q
  xor.pred s, p, q
  or.pred r, r, s
  not.pred r, r
  sel.u32 y, r, x, y
  sel.u32 y, !s, y, 17
  stg.u32 y, c[index]
  exit`,
	"transcendental": `
program p
slot a f32
slot c f32
  ldg.f32 x, a[index]
  exp.f32 y, x
  sin.f32 z, x
  add.f32 y, y, z
  stg.f32 y, c[index]
  exit`,
}
