package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa/ir"
)

// TestWhatBranchesLeave has values that a branch leaves in their registers, which what
// all lanes have alike must not take: it is written to lanes that are elsewhere as well.
func TestWhatBranchesLeave(t *testing.T) {
	const begin = "program p\nslot a u32\nslot c u32\nparam n u32\n  ldg.u32 x, a[index]\n  set.lt.u32 p, x, 0x80000000\n  ldp.u32 k, n\n  mov.u32 s, 7\n"
	const end = "  stg.u32 s, c[index]\n  exit\n"
	for name, text := range map[string]string{
		"the same in lanes": begin + "  loop k, done\n  mul.u32 s, s, s\n  add.u32 s, s, 3\ndone:\n  set.eq.u32 q, k, 77\n  bra over, p\n  bra over, q\n  mul.u32 s, s, 9\nover:\n" + end,
		"what a block's groups have one register for": begin + `  sreg lane, lane.x
  mov.u32 i, 1
  loop k, done
  add.u32 next, i, 3
  mov.u32 y, i
  bra over, p
  mul.u32 y, x, 3
over:
  add.u32 s, s, y
  mov.u32 i, next
done:
  block_reduce_add.u32 y, s
  xor.u32 s, s, y
` + end,
		// A branch yet where choices are not made of them.
		"two ways that do nothing": begin + `  mov.u32 t, x
  loop k, done
  mad.u32 s, s, 3, x
  mad.u32 t, t, 5, s
done:
  bra other, p
  mov.u32 y, s
  bra over
other:
  mov.u32 y, t
over:
  mul.u32 s, y, 9
` + end,
	} {
		t.Run(name, func(t *testing.T) {
			v := verify(t, text)
			contents := randomContents(rand.New(rand.NewPCG(35, 36)), v, 200)
			want := run(t, interp.New(), v, linear(200, 64), contents, nil, []uint64{3})
			for _, l := range levels {
				t.Run(l.String(), func(t *testing.T) {
					for _, off := range []string{"none", "simplify"} {
						m := newReady(t, on(t, l, 1), v, ir.Without(off))
						got := m.run(t, new(host).block, linear(200, 64), contents, nil, []uint64{3})
						m.k.Release()
						require.NoError(t, same(v, got, want), "without %s", off)
					}
				})
			}
		})
	}
}
