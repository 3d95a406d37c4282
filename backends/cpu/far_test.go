package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
)

// A lane loads what it has just stored, also backwards, or so far apart that elements are loaded
// one by one, for several groups at once; straight, and behind what makes lanes meet.
func TestWhatWasJustStored(t *testing.T) {
	const lanes = 256
	r := rand.New(rand.NewPCG(61, 62))
	has := engines(t, 1)
	for _, size := range []int{2, 4, 8} {
		typ := fmt.Sprintf("i%d", 8*size)
		for _, step := range []int{-size, -2 * size, size, 8 * size, 516, 1024} {
			at := fmt.Sprintf("mul.u64 at, q, %d", step)
			if step < 0 {
				at = fmt.Sprintf("sub.u64 at, %d, q\n  mul.u64 at, at, %d", lanes-1, -step)
			}
			for _, meet := range []string{"", "block_scan_add.%[1]v v, v", "block_reduce_add.%[1]v u, v\n  add.%[1]v v, v, u"} {
				text := fmt.Sprintf("program p\nslot x %[1]v\nslot z %[1]v\nslot y %[1]v\nblock %d\n  sreg q, lane.x\n  cvt.u64.u32 q, q\n  mul.u64 near, q, %d\n  %s\n  ldg.%[1]v v, x[near]\n  "+meet+
					"\n  stg.%[1]v v, z[at]\n  ldg.%[1]v w, z[at]\n  add.%[1]v w, w, 1\n  stg.%[1]v w, z[at]\n  ldg.%[1]v w, z[at]\n  stg.%[1]v w, y[near]\n  exit\n", typ, lanes, size, at)
				v := verify(t, text)
				contents := [][]byte{make([]byte, lanes*size), make([]byte, lanes*1024), make([]byte, lanes*size)}
				for _, c := range contents {
					fill(r, c)
				}
				want := run(t, interp.New(), v, linear(lanes, lanes), contents, nil, nil)
				for l, b := range has {
					require.NoError(t, same(v, run(t, b, v, linear(lanes, lanes), contents, nil, nil), want), "%v: %s", l, text)
				}
			}
		}
	}
}
