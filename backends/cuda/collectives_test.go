package cuda_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// Collectives of blocks that are whole, by warps, give what those of any do: of
// every type, of blocks of one warp and several, one after another and in loops, many
// scans at once and some of others' results among them.
func TestCollectivesOfWholeBlocks(t *testing.T) {
	device(t)
	scans := func(typ isa.Type, op string, n int) string {
		var of, scan, again, join strings.Builder
		for k := range n {
			fmt.Fprintf(&of, "  add.%v s%d, x, %s\n", typ, k, map[bool]string{true: "z", false: "y"}[k%3 == 0])
			fmt.Fprintf(&of, "  sub.%v s%d, s%[2]d, s%d\n", typ, k, max(k-1, 0))
			fmt.Fprintf(&scan, "  block_scan_%s.%v s%d, s%[3]d\n", op, typ, k)
			if to := &again; k%7 == 5 { // of results: among 19 they stand before the last scans, which then are a run of their own
				if n == 19 {
					to = &scan
				}
				fmt.Fprintf(to, "  block_scan_%s.%v s%d, s%[3]d\n", op, typ, k)
			}
			fmt.Fprintf(&join, "  sub.%v z, s%d, z\n", typ, k)
		}
		return of.String() + scan.String() + again.String() + join.String()
	}
	text := func(typ isa.Type, op string, n int) string {
		return fmt.Sprintf(`
program whole
slot a %[1]v
slot c %[1]v
  ldg.%[1]v x, a[index]
  block_reduce_%[2]s.%[1]v y, x
  sub.%[1]v z, x, y
  loop 3, done
  block_reduce_%[2]s.%[1]v z, z
  add.%[1]v z, z, x
done:
  block_reduce_max.%[1]v y, z
  add.%[1]v z, z, y
  block_scan_%[2]s.%[1]v y, z
  block_reduce_min.%[1]v z, y
  loop 2, again
  block_scan_max.%[1]v y, y
  block_reduce_add.%[1]v x, y
  sub.%[1]v y, x, y
again:
  add.%[1]v z, z, y
%[3]s  stg.%[1]v z, c[index]
  exit`, typ, op, scans(typ, op, n))
	}
	for _, typ := range isa.SetNumeric.List() {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			for k, c := range []struct{ block, scans int }{
				{1, 19}, {2, 19}, {3, 19}, {19, 19}, {31, 19}, {32, 19}, {64, 12}, {64, 32}, {96, 24}, {96, 19}, {128, 16}, {256, 16},
				{256, 19}, {256, 32}, {256, 40}, {256, 60}, {512, 32}, {992, 19}, {1024, 19}, {1024, 64},
			} {
				block := c.block
				n := 3 * block
				data := numbers(2*n, false)[:n*typ.Size()]
				if typ == isa.F32 {
					data = numbers(n, true)
				}
				op := []string{"add", "min", "max", "mul"}[k%4]
				for _, op := range []string{op, "add"} {
					r := &run{text: text(typ, op, c.scans), grid: flat(3), block: flat(block), shape: []int64{int64(n)},
						slots: []slotData{{bytes: data}, {bytes: make([]byte, len(data))}}}
					r.compare(t)
				}
			}
		})
	}
}

// Lanes that end before a collective, whichever they are, by a branch or for
// want of fuel, count as the identity; those that are left do all the work.
func TestCollectivesWithoutSomeLanes(t *testing.T) {
	device(t)
	for _, block := range []int{1, 2, 31, 33, 64, 100, 256, 1000, 1024} {
		for _, gone := range []string{"set.eq.u32 p, l, 0", "set.ge.u32 p, l, 5", "set.lt.u32 p, l, 40", "set.ne.u32 p, l, 17",
			"and.u32 m, l, 3\n set.eq.u32 p, m, 1"} {
			for _, what := range []string{"reduce_add.f32", "scan_add.f32", "scan_mul.f32", "reduce_min.f32", "scan_max.f32"} {
				n := 2*block - block/3
				r := &run{grid: flat(2), block: flat(block), shape: []int64{int64(n)}, text: `
slot x f32
slot out f32
  ldg.f32 v, x[index]
  block_` + what + ` w, v
  stg.f32 w, out[index]
  sreg l, lane.x
  ` + gone + `
  bra gone, p
  block_` + what + ` v, v
  add.f32 w, v, w
  block_` + what + ` v, w
  stg.f32 v, out[index]
gone:
  exit`,
					slots: []slotData{{bytes: numbers(n, true)}, {bytes: numbers(n, true)}}}
				r.compare(t)
			}
		}
	}
}

func TestFuelEndsLanesBeforeCollectives(t *testing.T) {
	device(t)
	for _, fuel := range []uint64{0, 1, 7, 40, 1000} {
		r := &run{grid: flat(2), block: flat(100), shape: []int64{180}, fuel: fuel, text: `
slot x u32
slot out u32
  ldg.u32 v, x[index]
  sreg l, lane.x
  mov.u32 sum, 0
  loop l, done
  mul.u32 sum, sum, 3
  add.u32 sum, sum, v
done:
  block_scan_add.u32 sum, sum
  stg.u32 sum, out[index]
again:
  sub.u32 l, l, 2
  set.lt.u32 p, l, 1000
  bra again, p
  block_reduce_add.u32 v, l
  add.u32 sum, sum, v
  stg.u32 sum, out[index]
  exit`, slots: []slotData{{bytes: numbers(180, false)}, {bytes: numbers(180, false)}}}
		got := r.compare(t)
		var f *backends.ProgramFault
		if fuel > 0 && fuel < 1000 {
			require.ErrorAs(t, got.err, &f)
			require.Equal(t, isa.FaultFuel, f.Kind)
		}
	}
}
