package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
)

// What all lanes have met for may be computed with in the stretches of a scan, before it and behind.
func TestScansOfWhatIsShared(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	has := engines(t, 1)
	for _, text := range []string{
		// before the scan
		"  ldg.i32 v, x[at]\n  block_reduce_max.i32 m, v\n  add.i32 m, m, m\n  ldg.i32 w, x[at]\n  sub.i32 w, w, m\n  block_scan_add.i32 w, w\n  stg.i32 w, y[at]",
		// behind it, where group 0 has come to something already
		"  ldg.i32 v, x[at]\n  block_reduce_max.i32 m, v\n  ldg.i32 w, x[at]\n  block_scan_add.i32 w, w\n  mul.i32 m, m, 3\n  mul.i32 n, m, m\n  sub.i32 w, w, n\n  add.i32 w, w, v\n  stg.i32 w, y[at]",
		// between two, divided by
		"  ldg.i32 v, x[at]\n  block_reduce_max.i32 m, v\n  ldg.i32 w, x[at]\n  block_scan_add.i32 u, w\n  mul.i32 m, m, 3\n  or.i32 m, m, 1\n  div.i32 u, u, m\n  block_scan_max.i32 u, u\n  rem.i32 w, w, m\n  add.i32 w, w, u\n  stg.i32 w, y[at]",
	} {
		v := verify(t, "program p\nslot x i32\nslot y i32\nblock 256\n  sreg lane, global_lane\n  mul.u64 at, lane, 4\n"+text+"\n  exit\n")
		contents := [][]byte{make([]byte, 1024*4), make([]byte, 1024*4)}
		fill(r, contents[0])
		want := run(t, interp.New(), v, linear(1024, 256), contents, nil, nil)
		for l, b := range has {
			require.NoError(t, same(v, run(t, b, v, linear(1024, 256), contents, nil, nil), want), "%v: %s", l, text)
		}
	}
}
