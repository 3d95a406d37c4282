package cpu_test

// flows are programs whose lanes part, loop and meet, and are compared as those of
// programs_test.go are.
var flows = map[string]string{
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
	"a count and a condition of a branch that all take, where lanes are away": `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  set.gt.i32 p, x, 0
  bra out, !p
  sreg n, n
  cvt.u32.u64 k, n
  and.u32 t, k, 1
  set.eq.u32 q, t, 0
  bra even, q
  shr.u32 m, k, 5
  and.u32 m, m, 3
  add.u32 m, m, 1
  bra both
even:
  shr.u32 m, k, 4
  and.u32 m, m, 1
  add.u32 m, m, 2
both:
  mov.i32 y, 7
  set.eq.u32 q, m, 0
  bra none, q
  loop m, done
  add.i32 y, y, x
done:
  mul.i32 y, y, 3
none:
  stg.i32 y, c[index]
out:
  exit`,
	"and of one that is left early": `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  set.gt.i32 p, x, 0
  bra out, !p
  sreg n, n
  cvt.u32.u64 k, n
  mov.u32 m, 0
  loop 4, last
  add.u32 m, m, 3
  and.u32 t, k, m
  set.eq.u32 q, t, 0
  bra found, q
last:
  add.u32 m, m, 1
found:
  mov.i32 y, 7
  set.eq.u32 q, m, 0
  bra none, q
  loop m, done
  add.i32 y, y, x
done:
  mul.i32 y, y, 3
none:
  stg.i32 y, c[index]
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
	"predicates of lanes that part": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 n, x, 7
  set.eq.u32 q, n, 3
  mov.u32 s, x
  loop n, done
  mul.u32 s, s, 0x10dcd
  add.u32 s, s, 7
  set.gt.u32 q, s, 0x80000000
done:
  set.lt.u32 p, x, 0x60000000
  bra low, p
  mov.u32 t, s
  loop 3, high
  mul.u32 t, t, x
  add.u32 t, t, 1
high:
  set.lt.u32 r, t, 0x40000000
  bra both
low:
  shr.u32 t, s, 3
  set.gt.u32 r, t, x
both:
  sel.u32 y, q, 1, 2
  sel.u32 z, r, 16, 32
  add.u32 y, y, z
  stg.u32 y, c[index]
  exit`,
	"numbers of two widths in lanes that part": `
program p
slot a i64
slot b i32
slot c i32
slot d f64
data few i32 { 3, 1, 4, 1, 5, 9, 2, 6 }
data many i32 { 2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9, 0, 4, 5, 2, 3, 5, 3 }
  ldg.i64 w, a[index]
  ldg.i32 y, b[index]
  and.i64 n, w, 7
  set.gt.i64 p, w, 0
  bra low, p
  set.lt.i32 q, y, 0
  bra out, q
  ldc.i32 z, few[n]
  mul.i32 y, y, z
  stg.i32 y, c[index]
  bra low
low:
  cvt.u32.i64 m, n
  loop m, done
  ldc.i32 z, many[n]
  mad.i32 y, y, z, 5
  add.i64 n, n, 1
done:
  stg.i32 y, b[index]
  cvt.f64.i32 f, y
  stg.f64 f, d[index]
out:
  exit`,
	"rounds of which memory alone knows": `
program p
slot a u32
slot c u32
  ldg.u32 x, a[index]
  and.u32 n, x, 15
  sreg g, global_lane
  shl.u64 o, g, 2
  stg.u32 0, c[o]
again:
  ldg.u32 y, c[o]
  add.u32 y, y, 1
  stg.u32 y, c[o]
  set.ge.u32 p, y, n
  bra out, p
  bra again
out:
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
	"block, whole groups gone where more lanes go": `
program p
slot a u32
slot out u32
  sreg lane, lane.x
  ldg.u32 v0, a[index]
  block_scan_add.u32 z, v0
  and.u32 t, lane, 16
  set.eq.u32 p, t, 0
  bra l1, p
  bra l2, p
  exit
l1:
l2:
  block_reduce_add.u32 y, v0
  and.u32 t, v0, 8
  set.eq.u32 p, t, 0
  bra l3, p
  bra l4, p
  exit
l3:
l4:
  block_scan_add.u32 w, v0
  add.u32 w, w, y
  add.u32 w, w, z
  stg.u32 w, out[index]
  exit`,
	"block, values that are needed behind a sum": `
program p
slot a u32
slot b u32
slot out u32
  ldg.u32 x, a[index]
  ldg.u32 y, b[index]
  mul.u32 z, x, y
  xor.u32 v, x, 77
  block_reduce_add.u32 s, z
  block_scan_max.u32 m, v
  add.u32 s, s, m
  mad.u32 s, z, s, v
  stg.u32 s, out[index]
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
}
