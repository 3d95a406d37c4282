//go:build unix

package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// columnScans are programs that scan columns side by side, as lines of which each is for all columns: a word
// that ends with N is of the column of that number, with R of that so far from the last,
// with E behind the last. X is add for one of them, and max for the others; lines that begin
// with ? are that one's, with ! the others', with < all but the last one's.
var columnScans = map[string]string{
	"in order":                  "ldg.T zN, x[at + oN]|block_scan_add.T zN, zN|stg.T zN, y[at + oN]",
	"backwards":                 "ldg.T zR, x[at + oR]|block_scan_add.T zN, zN|stg.T zR, y[at + oR]",
	"in place":                  "ldg.T zN, y[at + oN]|block_scan_max.T zN, zN|stg.T zN, y[at + oN]",
	"sums in place":             "ldg.T zN, y[at + oN]|block_scan_add.T zN, zN|stg.T zN, y[at + oN]",
	"into others' places":       "ldg.T zN, x[at + oN]|block_scan_add.T zN, zN|stg.T zN, y[at + oR]",
	"with loads beside them":    "ldg.T zR, w[at + oN]|ldg.T zN, x[at + oN]|block_scan_min.T zN, zN|stg.T zN, y[at + oN]",
	"of what is doubled":        "ldg.T zN, x[at + oN]|add.T zN, zN, zN|block_scan_add.T zN, zN|stg.T zN, y[at + oN]",
	"stored with others beside": "ldg.T zN, x[at + oN]|block_scan_min.T zN, zN|stg.T zN, y[at + oN]|stg.T zN, w[at + oE]",
	"stored twice":              "ldg.T zN, x[at + oN]|block_scan_add.T zN, zN|stg.T zN, y[at + oN]|stg.T zN, w[at + oN]",
	"the first one alone":       "ldg.T zN, x[at + oN]|block_scan_max.T uN, z0|stg.T uN, y[at + oN]",
	"one by itself":             "ldg.T zN, x[at + oN]|block_scan_X.T zN, zN|stg.T zN, y[at + oN]",
	"one of another slot":       "!ldg.T zN, x[at + oN]|?ldg.T zN, w[at + oN]|block_scan_add.T zN, zN|stg.T zN, y[at + oN]",
	"one to another slot":       "ldg.T zN, x[at + oN]|block_scan_add.T zN, zN|!stg.T zN, y[at + oN]|?stg.T zN, w[at + oN]",
	"scanned backwards":         "ldg.T zN, x[at + oN]|block_scan_add.T zR, zR|stg.T zN, y[at + oN]",
	"all but the last":          "<ldg.T zN, x[at + oN]|<block_scan_add.T zN, zN|<stg.T zN, y[at + oN]",
	"loads used behind":         "ldg.T zN, x[at + oN]|block_scan_add.T uN, zN|stg.T uN, y[at + oN]|bar_sync 0|stg.T zN, w[at + oN]",
	"used behind a barrier":     "ldg.T zN, x[at + oN]|block_scan_add.T uN, zN|stg.T uN, y[at + oN]|bar_sync 0|min.T uN, uN, zN|stg.T uN, w[at + oN]",
	"places behind a barrier":   "ldg.T zN, x[at + oN]|block_scan_add.T uN, zN|stg.T uN, y[at + oN]|bar_sync 0|mul.u64 u, lane, SIZE|cvt.i64.u64 later, u|ldg.T zN, x[later + oN]|stg.T zN, w[later + oN]",
	"others' behind a barrier":  "ldg.T zN, x[at + oN]|block_scan_add.T uN, zN|stg.T uN, y[at + oN]|bar_sync 0|ldg.T uN, y[back + oN]|stg.T uN, w[at + oN]",
}

// columnScan is such a program, of which the first lane's row begins at an element.
func columnScan(lines string, ty isa.Type, block, cols, first int64) string {
	size := int64(ty.Size())
	var b strings.Builder
	fmt.Fprintf(&b, "program p\nslot x T\nslot y T\nslot w T\nblock %d\n sreg lane, global_lane\n sreg q, lane.x\n cvt.u64.u32 q, q\n mul.u64 u, lane, %d\n cvt.i64.u64 at, u\n mul.u64 u, q, %d\n cvt.i64.u64 of, u\n sub.i64 back, at, of\n add.i64 back, back, %d\n",
		block, cols*size, 2*cols*size, (block-1)*cols*size)
	for line := range strings.SplitSeq(lines, "|") {
		for j := range cols {
			its, odd := line, j == cols/2
			if only, ok := strings.CutPrefix(line, "?"); ok && odd {
				its = only
			} else if only, other := strings.CutPrefix(line, "!"); other && !odd {
				its = only
			} else if only, but := strings.CutPrefix(line, "<"); but && j < cols-1 {
				its = only
			} else if ok || other || but {
				continue
			}
			if line != "bar_sync 0" || j == 0 {
				column := func(j int64) (offset, number string) { return fmt.Sprint((first + j) * size), fmt.Sprint(j) }
				oN, n := column(j)
				oR, r := column(cols - 1 - j)
				oE, _ := column(cols)
				op := "scan_max"
				if odd {
					op = "scan_add"
				}
				fmt.Fprintln(&b, strings.NewReplacer("oN", oN, "oR", oR, "oE", oE, "scan_X", op, "SIZE", fmt.Sprint(size), "zN", "z"+n, "zR", "z"+r, "uN", "u"+n).Replace(" "+its))
			}
		}
	}
	return strings.NewReplacer(".T", "."+ty.String(), " T\n", " "+ty.String()+"\n").Replace(b.String() + " exit\n")
}

// Columns that are scanned side by side become what each by itself would, also where a slot ends with the
// last row, or before, and nothing beside one is touched.
func TestColumnsAreScanned(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	has := engines(t, 1)
	number := 0
	for name, lines := range columnScans {
		for _, ty := range []isa.Type{isa.F32, isa.F64, isa.U64, isa.I16} {
			for _, cols := range []int64{2, 3, 4, 5, 7, 8} {
				if number++; brief.Skips(number, 10) {
					continue
				}
				block, first, size := [...]int64{256, 64, 16}[r.IntN(3)], [...]int64{0, -2, 3}[r.IntN(3)], int64(ty.Size())
				n := 2*block - [...]int64{0, 0, 3}[r.IntN(3)]
				text := columnScan(lines, ty, block, cols, first)
				v := verify(t, text)
				oracle, tested := newReady(t, interp.New(), v), map[jit.Level]*ready{}
				for l, b := range has {
					tested[l] = newReady(t, b, v)
				}
				for _, short := range []int64{-1, 0, 1, 2} { // elements that a slot has too few
					contents := make([][]byte, 3)
					for i := range contents {
						all := n*cols + max(first+1, 0)
						if i == number%3 {
							all = n*cols + first - short
						}
						contents[i] = make([]byte, all*size)
						for k := range all { // of which sums are exact, and lie in any order
							bits := isa.Convert(ty, isa.I64, uint64(r.IntN(7)-2))
							for byteOf := range size {
								contents[i][k*size+byteOf] = byte(bits >> (8 * byteOf))
							}
						}
					}
					if i := (number + 1) % 3; short == 0 && cols == 4 && ty == isa.F32 && strings.Contains(lines, "bar_sync") { // a launch that asks for pages
						contents[i] = append(contents[i], make([]byte, 17<<20)...)
					}
					l := linear(n, block)
					want := oracle.run(t, new(host).block, l, contents, nil, nil)
					for level, m := range tested {
						got := m.run(t, brink(t, r.IntN(2) == 0), l, contents, nil, nil)
						what := fmt.Sprintf("%s, %v, %d columns, %d lanes of %d, from %d, %d too few, %v: %s", name, ty, cols, n, block, first, short, level, text)
						if want.err != nil {
							var fault *backends.ProgramFault
							require.ErrorAs(t, got.err, &fault, what)
						} else {
							require.NoError(t, same(v, got, want), what)
						}
					}
				}
				oracle.k.Release()
				for _, m := range tested {
					m.k.Release()
				}
			}
		}
	}
}
