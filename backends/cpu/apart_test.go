package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
)

// apart are programs whose numbers of 64 bits are the launch's, of parameters k of f64 and
// n of i64, beside lanes that have less.
var apart = map[string]string{
	"arithmetic": `
  ldp.f64 d, k
  mul.f64 e, d, 0.5
  add.f64 e, e, d
  cvt.f32.f64 e, e
  mul.f32 x, x, e`,
	"a function": `
  ldp.f64 d, k
  exp.f64 e, d
  log.f64 e, e
  neg.f64 e, e
  cvt.f32.f64 e, e
  add.f32 x, x, e`,
	"a function that chooses by what is special": `
  ldp.f64 d, k
  pow.f64 e, d, d
  sqrt.f64 e, e
  cvt.f32.f64 e, e
  max.f32 x, x, e`,
	"choices": `
  ldp.f64 d, k
  ldp.i64 n, n
  set.gt.i64 p, n, 2
  set.lt.f64 q, d, 0.5
  xor.pred r, p, q
  sel.f64 d, r, d, 0.25
  cvt.f32.f64 e, d
  sel.f32 x, p, x, e
  set.lt.f32 s, x, 0.5
  and.pred s, s, r
  not.pred p, p
  sel.f32 x, s, e, x
  sel.f32 x, p, x, 3`,
	"the opposite of a comparison, which NaNs keep from being another": `
  ldp.f64 d, k
  set.lt.f64 p, d, 0.5
  not.pred p, p
  set.lt.f32 s, x, 0.5
  and.pred s, s, p
  sel.f32 x, s, x, 3`,
	"what lanes divide by": `
  ldp.f64 d, k
  ldp.i64 n, n
  abs.i64 m, n
  add.i64 m, m, 3
  cvt.i32.i64 m, m
  cvt.i32.f32 y, x
  div.i32 y, y, m
  cvt.f32.i32 y, y
  add.f64 d, d, 4
  cvt.f32.f64 e, d
  div.f32 x, y, e`,
	"a quotient": `
  ldp.f64 d, k
  ldp.i64 n, n
  div.f64 d, 1, d
  div.i64 n, n, 7
  cvt.f64.i64 m, n
  div.f64 d, m, d
  cvt.f32.f64 e, d
  add.f32 x, x, e`,
	"narrow numbers of them": `
  ldp.i64 n, n
  mul.i64 n, n, n
  cvt.i8.i64 a, n
  cvt.u16.i64 b, n
  cvt.f32.i8 a, a
  cvt.f32.u16 b, b
  add.f32 x, x, a
  sub.f32 x, x, b`,
	"halves of them": `
  ldp.f64 d, k
  cvt.bf16.f64 a, d
  cvt.f16.f64 b, d
  cvt.f32.bf16 a, a
  cvt.f32.f16 b, b
  add.f32 x, x, a
  sub.f32 x, x, b`,
	"their bits": `
  ldp.f64 d, k
  bitcast.u64.f64 b, d
  shr.u64 b, b, 32
  cvt.u32.u64 b, b
  bitcast.u32.f32 y, x
  xor.u32 y, y, b
  bitcast.f32.u32 x, y`,
	"rounds": `
  ldp.i64 n, n
  max.i64 n, n, 0
  min.i64 m, n, 5
  cvt.u32.i64 m, m
  set.gt.i64 p, n, 5
  mov.i32 c, 0
  loop m, next
  mul.f32 y, x, x
  set.gt.f32 q, y, 2
  bra leave, q
  add.f32 x, x, 0.25
  add.i32 c, c, 1
next:
  bra leave, !p
  mov.f32 x, 7
leave:
  cvt.f32.i32 c, c
  add.f32 x, x, c`,
	"within a branch": `
  ldp.i64 n, n
  set.lt.f32 q, x, 0
  bra other, q
  add.i64 m, n, 1
  set.gt.i64 p, m, 3
  bra other, p
  cvt.f32.i64 m, m
  mul.f32 x, x, m
other:
  mul.f32 x, x, 0.5`,
	"a fault of the launch's": `
  ldp.i64 n, n
  set.lt.f32 q, x, 0
  bra other, q
  sub.i64 m, n, 3
  div.i64 m, 100, m
  cvt.f32.i64 m, m
  add.f32 x, x, m
other:
  mul.f32 x, x, 0.5`,
	"a fault behind it": `
  ldp.i64 n, n
  set.lt.f32 q, x, 0
  bra other, q
  sub.i64 m, n, 3
  cvt.i32.i64 m, m
  div.i32 m, 100, m
  cvt.f32.i32 m, m
  add.f32 x, x, m
other:
  mul.f32 x, x, 0.5`,
	"more of it in lanes": `
  ldp.f64 d, k
  mul.f64 d, d, 3
  cvt.f64.f32 y, x
  add.f64 y, y, d
  cvt.f32.f64 x, y`,
	"a loop that carries it": `
  ldp.f64 d, k
  loop 3, next
  mul.f64 d, d, 0.5
next:
  cvt.f32.f64 d, d
  add.f32 x, x, d`,
	"stored": `
  ldp.i64 n, n
  add.i64 m, n, 5
  stg.i64 m, e[index]
  cvt.f32.i64 m, m
  add.f32 x, x, m`,
}

// TestNumbersApart compares them with the interpreter, in whole groups and ends of all lengths.
func TestNumbersApart(t *testing.T) {
	has := engines(t, 1)
	for name, text := range apart {
		v := verify(t, "program p\nslot a f32\nslot c f32\nslot e i64\nparam k f64\nparam n i64\nldg.f32 x, a[index]"+text+"\nstg.f32 x, c[index]\nexit\n")
		r := rand.New(rand.NewPCG(11, 12))
		for _, params := range [][]uint64{
			{math.Float64bits(0.375), 4}, {math.Float64bits(-2.5), 3}, {math.Float64bits(1e300), 1 << 40}, {0, 0},
			{math.Float64bits(math.NaN()), math.MaxUint64 - 6}, {math.Float64bits(math.Inf(1)), 1<<63 - 1},
		} {
			for _, n := range []int64{1, 15, 16, 33, 300} {
				contents := randomContents(r, v, n)
				want := run(t, interp.New(), v, linear(n, 64), contents, nil, params)
				for l, b := range has {
					if err := same(v, run(t, b, v, linear(n, 64), contents, nil, params), want); err != nil {
						t.Errorf("%s, %v, %d lanes, %x: %v", name, l, n, params, err)
					}
				}
			}
		}
	}
}
