package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
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

// stretches are programs of a block whose lanes meet, which read z and x and write z and y: %[1]v is their
// type, %[2]d its size, %[3]d some elements from 4096 on, %[5]d from 0.
var stretches = map[string]string{
	"others' elements are stored":                    "ldg.%[1]v v, z[at + 4096]\n block_scan_add.%[1]v v, v\n stg.%[1]v v, z[at + %[3]d]",
	"others' elements of the index":                  "ldg.%[1]v v, z[index]\n block_scan_add.%[1]v v, v\n stg.%[1]v v, z[at + %[5]d]",
	"loaded twice, others' elements are stored":      "ldg.%[1]v v, z[at + %[3]d]\n ldg.%[1]v w, z[at + 4096]\n add.%[1]v v, v, w\n block_scan_max.%[1]v v, v\n stg.%[1]v v, z[at + 4096]",
	"stored by the lane that is as far from the end": "ldg.%[1]v v, z[at + 4096]\n block_scan_add.%[1]v v, v\n stg.%[1]v v, z[back + 4096]",
	"loaded by the lane that is as far from the end": "ldg.%[1]v v, z[back + 4096]\n block_scan_add.%[1]v v, v\n stg.%[1]v v, z[at + 4096]",
	"stored before":                      "ldg.%[1]v v, x[at]\n stg.%[1]v v, z[at]\n block_scan_add.%[1]v u, v\n ldg.%[1]v w, z[at + %[5]d]\n add.%[1]v w, w, u\n stg.%[1]v w, y[at]",
	"loaded as soon as it is stored":     "cvt.%[1]v.u32 v, q\n block_scan_add.%[1]v v, v\n stg.%[1]v v, z[back]\n ldg.%[1]v w, z[back]\n add.%[1]v w, w, v\n stg.%[1]v w, y[at]",
	"made before, used behind a barrier": "ldg.%[1]v v, x[at]\n add.%[1]v w, v, v\n block_scan_add.%[1]v u, v\n stg.%[1]v u, y[at]\n bar_sync 0\n ldg.%[1]v u, y[back]\n add.%[1]v u, u, w\n stg.%[1]v u, z[at]",
	"stored from another place on":       "sreg n, n\n cvt.i64.u64 of, n\n add.i64 of, at, of\n ldg.%[1]v v, z[at]\n block_scan_add.%[1]v v, v\n stg.%[1]v v, z[of]",
	"a reduction behind":                 "ldg.%[1]v v, x[at]\n block_scan_add.%[1]v u, v\n stg.%[1]v u, y[at]\n block_reduce_max.%[1]v m, v\n stg.%[1]v m, z[at]",
	"used behind a barrier":              "ldg.%[1]v v, x[at]\n block_scan_add.%[1]v u, v\n stg.%[1]v u, z[at]\n bar_sync 0\n sub.%[1]v u, u, v\n stg.%[1]v u, y[at]",
	"used behind another meeting":        "ldg.%[1]v v, x[at]\n add.%[1]v w, v, v\n block_scan_min.%[1]v u, v\n block_scan_max.%[1]v v, v\n bar_sync 0\n add.%[1]v u, u, w\n sub.%[1]v u, u, v\n stg.%[1]v u, y[at]",
	"used behind the next but one":       "ldg.%[1]v v, x[at]\n block_scan_add.%[1]v u, v\n block_reduce_max.%[1]v m, u\n sub.%[1]v w, u, m\n block_scan_max.%[1]v w, w\n block_reduce_min.%[1]v n, w\n add.%[1]v w, w, u\n sub.%[1]v w, w, n\n stg.%[1]v w, y[at]",
	"where some have left":               "and.u32 b, q, 3\n set.gt.u32 p, b, 0\n ldg.%[1]v v, x[at]\n block_scan_min.%[1]v w, v\n bra l1, p\n bra l2, p\n exit\nl1:\nl2:\n block_scan_add.%[1]v u, v\n block_scan_max.%[1]v v, u\n stg.%[1]v v, y[at]",
	"behind a branch":                    "ldg.%[1]v v, x[at]\n set.gt.u32 p, q, 99\n bra over, p\n add.%[1]v v, v, v\nover:\n block_scan_add.%[1]v v, v\n stg.%[1]v v, y[at]",
	"a branch between":                   "ldg.%[1]v v, x[at]\n block_scan_add.%[1]v u, v\n set.gt.u32 p, q, 99\n bra over, p\n add.%[1]v u, u, v\nover:\n block_scan_max.%[1]v u, u\n stg.%[1]v u, y[at]",
	"four at once":                       "ldg.%[1]v v, x[at]\n block_scan_add.%[1]v u, v\n block_scan_min.%[1]v w, v\n block_scan_add.%[1]v w, w\n block_scan_max.%[1]v v, v\n add.%[1]v v, v, w\n add.%[1]v v, v, u\n stg.%[1]v v, y[at]",
}

// Stretches of scans, in which groups may go from their loads to their stores one after the other, have what
// lanes have that meet at each: what comes later sees all that came before, and nothing of what comes after.
func TestStretchesOfScans(t *testing.T) {
	has := engines(t, 1)
	number := 0
	for name, body := range stretches {
		r := rand.New(rand.NewPCG(65, 66))
		for _, typ := range []isa.Type{isa.I32, isa.F16, isa.BF16, isa.I16, isa.F64, isa.U8} {
			for _, far := range []int{0, 1, -1, 17, 100, -64} {
				if number++; brief.Skips(number, 5) || far != 0 && !strings.Contains(body, "%[3]d") && !strings.Contains(body, "%[5]d") {
					continue
				}
				size := typ.Size()
				text := fmt.Sprintf("program p\nslot z %[1]v\nslot x %[1]v\nslot y %[1]v\nblock 256\n sreg q, lane.x\n cvt.u64.u32 u, q\n mul.u64 u, u, %[2]d\n cvt.i64.u64 at, u\n sub.i64 back, %[4]d, at\n"+body+"\n exit\n",
					typ, size, 4096+far*size, 255*size, max(far, 0)*size)
				v := verify(t, text)
				contents := [][]byte{make([]byte, 4096+512*size), make([]byte, 256*size), make([]byte, 256*size)}
				for _, c := range contents {
					for i := 0; i < len(c); i += size { // whose sums are exact, but have too many bits for 16
						copy(c[i:i+size], binary.LittleEndian.AppendUint64(nil, isa.Convert(typ, isa.I64, uint64(r.IntN(31)))))
					}
				}
				want := run(t, interp.New(), v, linear(256, 256), contents, nil, nil)
				for l, b := range has {
					require.NoError(t, same(v, run(t, b, v, linear(256, 256), contents, nil, nil), want), "%s, %v: %s", name, l, text)
				}
			}
		}
	}
}
