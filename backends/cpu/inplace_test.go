package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
)

// TestWhatBranchesLeave has values that a branch leaves in their registers, which what
// all lanes have alike must not take: it is written to lanes that are elsewhere as well.
func TestWhatBranchesLeave(t *testing.T) {
	const begin = "program p\nslot a u32\nslot c u32\nparam n u32\n  ldg.u32 x, a[index]\n  set.lt.u32 p, x, 0x80000000\n  ldp.u32 k, n\n  mov.u32 s, 7\n"
	const end = "  stg.u32 s, c[index]\n  exit\n"
	for name, text := range map[string]string{
		"the same in lanes": begin + "  loop k, done\n  mul.u32 s, s, s\n  add.u32 s, s, 3\ndone:\n  set.eq.u32 q, k, 77\n  bra over, p\n  bra over, q\n  mul.u32 s, s, 9\nover:\n" + end,
	} {
		t.Run(name, func(t *testing.T) {
			v := verify(t, text)
			contents := randomContents(rand.New(rand.NewPCG(35, 36)), v, 100)
			want := run(t, interp.New(), v, linear(100, 32), contents, nil, []uint64{3})
			for _, l := range levels {
				t.Run(l.String(), func(t *testing.T) {
					if err := same(v, run(t, on(t, l, 1), v, linear(100, 32), contents, nil, []uint64{3}), want); err != nil {
						t.Fatal(err)
					}
				})
			}
		})
	}
}
