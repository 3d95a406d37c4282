package cpu_test

// programs are compared with the interpreter, each in several launches. The
// slots of element programs hold random bytes.
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
	"if both sides": `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  set.lt.i32 p, x, 0
  bra neg, p
  add.i32 y, x, 7
  mul.i32 y, y, x
  bra out
neg:
  sub.i32 y, 3, x
out:
  stg.i32 y, c[index]
  exit`,
	"a count from a table, where lanes are away": `
program p
slot a i32
slot c i32
data t u32 { 3, 4, 5 }
  ldg.i32 x, a[index]
  set.gt.i32 p, x, 0
  bra out, !p
  mov.u32 i, 0
  loop 2, found
  add.u32 i, i, 1
found:
  ldc.u32 n, t[i]
  mov.i32 y, 7
  loop n, done
  add.i32 y, y, x
done:
  stg.i32 y, c[index]
out:
  exit`,
	"a condition on a byte load, where lanes are away": `
program p
slot a i32
slot c i32
  ldg.i32 v, a[0]
  or.i32 v, v, 1
  set.eq.i32 q, v, 0
  bra zero, q
  ldg.i32 x, a[index]
  set.gt.i32 p, x, 0
  bra out, !p
  ldg.i32 w, a[4]
  and.i32 w, w, 7
  or.i32 w, w, 2
  mov.i32 y, 7
  cvt.u32.i32 n, w
  loop n, done
  add.i32 y, y, x
done:
  stg.i32 y, c[index]
  exit
zero:
  stg.i32 5, c[index]
out:
  exit`,
	"two loops that start at one place, a dead instruction between": `
program p
slot a u32
slot c u32
  mov.u32 j, 0
  mov.u32 o, 0
outer:
  mov.u32 z, 5
top:
  add.u32 j, j, 1
  set.lt.u32 p, j, r252
  bra top, p
  ldg.u32 x, a[index]
  add.u32 x, x, j
  block_reduce_add.u32 x, x
  stg.u32 x, c[index]
  add.u32 o, o, 1
  set.lt.u32 q, o, 3
  bra outer, q
  exit`,
	"two loops that start at one place, a jump between": `
program p
slot a u32
slot c u32
  mov.u32 j, 0
  mov.u32 o, 0
outer:
  bra top
top:
  add.u32 j, j, 1
  set.lt.u32 p, j, r252
  bra top, p
  ldg.u32 x, a[index]
  add.u32 x, x, j
  block_reduce_add.u32 x, x
  stg.u32 x, c[index]
  add.u32 o, o, 1
  set.lt.u32 q, o, 3
  bra outer, q
  exit`,
	"exit early": `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  and.i32 y, x, 3
  set.eq.i32 p, y, 0
  bra some, !p
  exit
some:
  set.eq.i32 p, y, 1
  bra more, p
  stg.i32 y, c[index]
more:
  stg.i32 x, c[index]
  exit`,
	"a loop in a loop that leaves both in its first round": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 n, x, 3
  shr.u32 m, x, 5
  and.u32 m, m, 3
  mov.u32 y, 7
  loop n, outer
  add.u32 y, y, 1
  loop m, inner
  mul.u32 y, y, 5
  bra out
inner:
  add.u32 y, y, 100
outer:
  add.u32 y, y, x
out:
  stg.u32 y, c[index]
  exit`,
	"and one that leaves to two places, with a loop behind": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 n, x, 3
  mov.u32 y, 7
  loop n, outer
  add.u32 y, y, 1
  loop 3, inner
  and.u32 k, x, 8
  set.eq.u32 p, k, 0
  bra first, p
  bra second
inner:
outer:
  add.u32 y, y, x
first:
  loop n, third
  mul.u32 y, y, 3
third:
second:
  stg.u32 y, c[index]
  exit`,
	"loop of differing counts": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 n, x, 15
  mov.u32 s, 1
  mov.u32 k, x
  loop n, done
  mul.u32 s, s, 3
  add.u32 s, s, k
  add.u32 k, k, 5
done:
  stg.u32 s, c[index]
  exit`,
	"swap in a loop": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  mov.u32 y, 1
  and.u32 n, x, 7
  loop n, done
  mov.u32 t, x
  mov.u32 x, y
  mov.u32 y, t
done:
  sub.u32 s, x, y
  stg.u32 s, c[index]
  exit`,
	"break and continue": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  mov.u32 s, 0
  mov.u32 k, x
  loop 20, next
  and.u32 b, k, 31
  set.eq.u32 p, b, 9
  bra out, p
  shr.u32 k, k, 1
  and.u32 b, k, 1
  set.eq.u32 p, b, 1
  bra next, p
  add.u32 s, s, k
next:
  add.u32 s, s, 1000000
out:
  stg.u32 s, c[index]
  exit`,
	"while": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 x, x, 1023
  mov.u32 s, 0
again:
  set.le.u32 p, x, 1
  bra done, p
  add.u32 s, s, 1
  and.u32 b, x, 1
  set.eq.u32 q, b, 1
  bra odd, q
  shr.u32 x, x, 1
  bra again
odd:
  mul.u32 x, x, 3
  add.u32 x, x, 1
  bra again
done:
  stg.u32 s, c[index]
  exit`,
	"nested loops with exits": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  mov.u32 s, 0
  and.u32 n, x, 7
  loop n, outer
  shr.u32 m, x, 4
  and.u32 m, m, 7
  loop m, inner
  add.u32 s, s, x
  and.u32 b, s, 63
  set.eq.u32 p, b, 5
  bra gone, p
  set.eq.u32 p, b, 6
  bra outer, p
  set.eq.u32 p, b, 7
  bra end, p
inner:
  add.u32 s, s, 1
outer:
  stg.u32 s, c[index]
  exit
end:
  mov.u32 s, 4242
  stg.u32 s, c[index]
gone:
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
	"block": `
program p
slot a f32
slot c f32
shared 4096
  ldg.f32 x, a[index]
  sreg l, lane.x
  shl.u32 o, l, 2
  sts.f32 x, shared[o]
  bar_sync 0
  sreg n, block_dim.x
  sub.u32 m, n, l
  shl.u32 m, m, 2
  lds.f32 y, shared[m - 4]
  block_reduce_add.f32 s, x
  block_scan_max.f32 k, y
  add.f32 y, y, s
  add.f32 y, y, k
  stg.f32 y, c[index]
  exit`,
	"block, some lanes gone": `
program p
slot a f16
slot c f16
  ldg.f16 x, a[index]
  sreg l, lane.x
  and.u32 b, l, 3
  set.eq.u32 p, b, 2
  bra on, !p
  exit
on:
  block_reduce_add.f16 s, x
  block_scan_add.f16 k, x
  block_reduce_min.f16 m, x
  add.f16 s, s, k
  add.f16 s, s, m
  stg.f16 s, c[index]
  exit`,
	"barrier in a loop": `
program p
slot a u32
slot c u32
shared 4096
  ldg.u32 x, a[index]
  sreg l, lane.x
  shl.u32 o, l, 2
  sreg n, block_dim.x
  add.u32 k, l, 1
  rem.u32 k, k, n
  shl.u32 k, k, 2
  loop 5, end
  sts.u32 x, shared[o]
  bar_sync 0
  lds.u32 y, shared[k]
  mad.u32 x, x, 3, y
  bar_sync 0
end:
  stg.u32 x, c[index]
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
