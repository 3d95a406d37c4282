package jit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A branch's result takes the place of what it leaves as it was, if nothing needs that
// later on, or in the next round.
func TestResultsInPlace(t *testing.T) {
	const sum = "program p\nslot a f32\nslot c f32\n  ldg.f32 x, a[index]\n  set.lt.f32 p, x, 1.0\n  mov.u32 n, 3\n  mov.f32 s, 0.0\n"
	const loop = sum + "  loop n, done\n  add.f32 s, s, x\ndone:\n"
	const end = "  stg.f32 s, c[index]\n  exit\n"
	for _, c := range []struct {
		name, text string
		placed     int
	}{
		{"left as it is", loop + "  bra over, p\n  add.f32 s, s, x\nover:\n" + end, 1},
		{"branches within", loop + "  bra over, p\n  add.f32 s, s, x\n  set.lt.f32 q, x, 0.5\n  bra over, q\n  mul.f32 s, s, x\nover:\n" + end, 1},
		{"one after the other", loop + "  bra over, p\n  add.f32 s, s, x\nover:\n  set.lt.f32 q, x, 0.5\n  bra last, q\n  mul.f32 s, s, x\nlast:\n" + end, 2},
		{"needed afterwards", loop + "  mov.f32 t, s\n  bra over, p\n  add.f32 s, s, x\nover:\n  add.f32 s, s, t\n" + end, 0},
		{"two of one", loop + "  mov.f32 t, s\n  bra over, p\n  add.f32 s, s, x\n  mul.f32 t, t, x\nover:\n  sub.f32 s, s, t\n" + end, 1},
		{"handed on by a loop", sum + "  loop n, done\n  bra over, p\n  add.f32 s, s, x\nover:\n  mul.f32 s, s, x\ndone:\n" + end, 1},
		{"made before a loop", loop + "  mov.f32 y, 1.0\n  loop n, last\n  mov.f32 t, s\n  bra over, p\n  add.f32 t, t, x\nover:\n  mul.f32 y, y, t\nlast:\n  mov.f32 s, y\n" + end, 0},
		{"needed by what negates it later on", loop + "  neg.f32 y, s\n  fma.f32 t, y, x, 1.0\n  stg.f32 t, c[index]\n  bra over, p\n  add.f32 s, s, x\nover:\n  fma.f32 s, y, s, t\n" + end, 0},
		{"the argument of choices that are one later on", loop + "  set.eq.f32 p, s, 0.0\n  set.eq.f32 q, s, inf\n  or.pred p, p, q\n  mov.f32 t, s\n  bra over, p\n  mul.f32 t, t, x\n  add.f32 t, t, x\nover:\n  set.eq.f32 p, s, 0.0\n  sel.f32 t, p, 1.0, t\n  sel.f32 s, q, 0.5, t\n" + end, 0},
		{"a predicate", sum + "  set.lt.f32 q, x, 3.0\n  loop n, done\n  xor.pred q, q, p\n  add.f32 s, s, x\ndone:\n  bra over, p\n  set.lt.f32 q, s, 2.0\nover:\n  sel.f32 s, q, s, x\n" + end, 0},
		{"what an instruction computes", sum + "  mul.f32 s, x, x\n  bra over, p\n  add.f32 s, s, x\nover:\n" + end, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := canonical(t, c.text)
			p, err := prepare(nil, f)
			require.NoError(t, err)
			placed := 0
			for _, f := range p.formers {
				for _, ok := range f.placed {
					if ok {
						placed++
					}
				}
			}
			require.Equal(t, c.placed, placed, c.text)
		})
	}
}
