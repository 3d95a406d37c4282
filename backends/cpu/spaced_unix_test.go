//go:build unix

package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// brink makes memory that ends where a page begins that nobody may touch, or, with
// before, begins where such a page ends.
func brink(t *testing.T, before bool) func(n int) []byte {
	return func(n int) []byte {
		page := os.Getpagesize()
		whole := (n + page - 1) / page * page
		m, err := syscall.Mmap(-1, 0, whole+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Munmap(m) })
		barred, at := m[whole:], whole-n
		if before {
			barred, at = m[:page], page
		}
		require.NoError(t, syscall.Mprotect(barred, syscall.PROT_NONE))
		return m[at : at+n]
	}
}

// Elements that lie apart by the same step are loaded and stored as the oracle does, by
// groups of all lengths, also where a slot ends with the last one, or before; and
// nothing beside a slot is touched.
func TestSpacedElements(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	has := engines(t, 1)
	number := 0
	for _, ty := range []isa.Type{isa.F32, isa.I32, isa.F64, isa.U64, isa.I16, isa.U8, isa.BF16} {
		size := int64(ty.Size())
		odd := 2*size + 1
		if ty.Float() { // a NaN's bits would be compared by parts
			odd = 6 * size
		}
		for _, step := range []int64{2 * size, 3 * size, 4 * size, 5 * size, 7 * size, 8 * size, 9 * size, 33 * size, odd} {
			if number++; brief.Skips(number, 5) {
				continue
			}
			v := verify(t, fmt.Sprintf(`program p
slot x %[1]v
slot y %[1]v
  sreg lane, global_lane
  mul.u64 lane, lane, %[2]d
  cvt.i64.u64 at, lane
  ldg.%[1]v a, x[at]
  ldg.%[1]v b, x[at + %[3]d]
  add.%[1]v c, a, b
  stg.%[1]v c, y[at]
  stg.%[1]v a, y[at + %[3]d]
  exit
`, ty, step, size))
			oracle, tested := newReady(t, interp.New(), v), map[jit.Level]*ready{}
			for l, b := range has {
				tested[l] = newReady(t, b, v)
			}
			for _, n := range []int64{1, 7, 16, 64, 100, 256, 300, 512} {
				for _, spare := range []int64{0, -size, -3 * step, 5} {
					contents := make([][]byte, 2)
					for i := range contents {
						contents[i] = make([]byte, max(0, (n-1)*step+2*size+spare))
						fill(r, contents[i])
					}
					want := oracle.run(t, new(host).block, linear(n, 256), contents, nil, nil)
					for l, m := range tested {
						got := m.run(t, brink(t, n%3 == 0), linear(n, 256), contents, nil, nil)
						what := fmt.Sprintf("%v, %v, step %d, %d lanes, %d more bytes", ty, l, step, n, spare)
						if want.err != nil { // what other lanes did is left open
							require.Error(t, got.err, what)
						} else {
							require.NoError(t, same(v, got, want), what)
						}
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

// sides are programs that store to places of rows that lie side by side, of what they load from others:
// %[1]v is the type, %[2]d its size and %[3]d a row's. What is written as a product is one.
var sides = map[string]string{
	"in order":                 "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"backwards":                "stg.%[1]v a, y[at + 3*%[2]d]\n stg.%[1]v b, y[at + 2*%[2]d]\n stg.%[1]v c, y[at + %[2]d]\n stg.%[1]v d, y[at]",
	"each made before it":      "add.%[1]v e, a, b\n stg.%[1]v e, y[at + 2*%[2]d]\n add.%[1]v e, c, b\n stg.%[1]v e, y[at]\n add.%[1]v e, e, d\n stg.%[1]v e, y[at + 3*%[2]d]\n add.%[1]v e, e, a\n stg.%[1]v e, y[at + %[2]d]",
	"one place twice":          "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n stg.%[1]v c, y[at + %[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"one of them of all lanes": "add.%[1]v a, a, b\n add.%[1]v a, a, c\n add.%[1]v a, a, d\n stg.%[1]v a, y[at + 4*%[2]d]\n stg.%[1]v b, y[at + 5*%[2]d]\n stg.%[1]v k, y[0]\n stg.%[1]v c, y[at + 6*%[2]d]",
	"of two slots":             "stg.%[1]v a, y[at]\n stg.%[1]v b, z[at + %[2]d]\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, z[at + 3*%[2]d]",
	"from two rows on":         "add.%[1]v a, a, b\n add.%[1]v a, a, c\n add.%[1]v a, a, d\n sreg all, n\n mul.u64 all, all, %[3]d\n cvt.i64.u64 of, all\n add.i64 of, of, at\n ldg.%[1]v e, y[of]\n add.%[1]v a, a, e\n stg.%[1]v a, y[at]\n stg.%[1]v b, y[of + %[2]d]\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[of + 3*%[2]d]",
	"of rows with a gap":       "add.i64 of, at, at\n stg.%[1]v a, y[of]\n stg.%[1]v b, y[of + %[2]d]\n stg.%[1]v c, y[of + 2*%[2]d]\n stg.%[1]v d, y[of + 3*%[2]d]",
	"some alike in all":        "stg.%[1]v a, y[at]\n stg.%[1]v k, y[at + %[2]d]\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v 7, y[at + 3*%[2]d]",
	"loaded again from as far": "add.%[1]v a, a, b\n add.%[1]v a, a, c\n add.%[1]v a, a, d\n sreg all, n\n shr.u64 all, all, 40\n or.u64 all, all, 2*%[2]d\n cvt.i64.u64 of, all\n sub.i64 of, at, of\n ldg.%[1]v e, x[of + 2*%[2]d]\n add.%[1]v b, b, e\n stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n ldg.%[1]v c, y[of + 2*%[2]d]\n add.%[1]v c, c, d\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"loaded again between":     "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n ldg.%[1]v c, y[at]\n add.%[1]v c, c, d\n stg.%[1]v c, y[at + 2*%[2]d]\n ldg.%[1]v d, y[at + %[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"loaded again elsewhere":   "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n ldg.%[1]v c, y[at + 2*%[2]d]\n add.%[1]v c, c, d\n stg.%[1]v c, y[at + 2*%[2]d]\n ldg.%[1]v d, y[at + 3*%[2]d]\n add.%[1]v d, d, c\n stg.%[1]v d, y[at + 3*%[2]d]",
	"loaded again by index":    "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n set.eq.u64 p, lane, 0\n bra first, p\n bra other\nfirst:\n ldg.%[1]v c, y[index]\nother:\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"of some lanes":            "set.gt.%[1]v p, a, b\n bra over, p\n stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]\nover:",
	"a branch between":         "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n set.gt.%[1]v p, a, b\n bra over, p\n add.%[1]v c, c, d\nover:\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"a table between":          "stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n ldc.%[1]v e, t[n]\n stg.%[1]v e, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]",
	"in rounds":                "loop 3, round\n stg.%[1]v a, y[at]\n stg.%[1]v b, y[at + %[2]d]\n stg.%[1]v c, y[at + 2*%[2]d]\n stg.%[1]v d, y[at + 3*%[2]d]\n add.%[1]v a, a, d\n add.%[1]v c, c, a\nround:",
	"rows of three, of two":    "add.%[1]v a, a, b\n add.%[1]v a, a, c\n add.%[1]v a, a, d\n mul.u64 f, lane, 3*%[2]d\n cvt.i64.u64 of, f\n stg.%[1]v a, y[of]\n stg.%[1]v b, y[of + %[2]d]\n stg.%[1]v c, y[of + 2*%[2]d]\n mul.u64 f, lane, 2*%[2]d\n cvt.i64.u64 of, f\n stg.%[1]v d, z[of + %[2]d]\n stg.%[1]v a, z[of]",
	"from before the slot on":  "sub.i64 of, at, %[3]d\n add.%[1]v a, a, b\n add.%[1]v a, a, c\n add.%[1]v a, a, d\n stg.%[1]v a, y[of]\n stg.%[1]v b, y[of + %[2]d]\n stg.%[1]v c, y[of + 2*%[2]d]\n stg.%[1]v d, y[of + 3*%[2]d]",
}

// Elements of rows that lanes store side by side go where each by itself would.
func TestSidesAreStored(t *testing.T) {
	r := rand.New(rand.NewPCG(67, 68))
	has := engines(t, 1)
	times, number := regexp.MustCompile(`(\d+)\*(\d+)`), 0
	for name, body := range sides {
		for _, ty := range []isa.Type{isa.I32, isa.F64, isa.U16} {
			if number++; brief.Skips(number, 4) {
				continue
			}
			size := ty.Size()
			text := fmt.Sprintf("program p\nslot x %[1]v\nslot y %[1]v\nslot z %[1]v\nparam k %[1]v\ndata t %[1]v { 3, 1, 4, 1, 5, 9, 2, 6 }\n sreg lane, global_lane\n and.u64 n, lane, 7\n mul.u64 from, lane, %[3]d\n cvt.i64.u64 at, from\n ldp.%[1]v k, k\n ldg.%[1]v a, x[at]\n ldg.%[1]v b, x[at + %[2]d]\n ldg.%[1]v c, x[at + 2*%[2]d]\n ldg.%[1]v d, x[at + 3*%[2]d]\n "+body+"\n exit\n", ty, size, 4*size)
			text = times.ReplaceAllStringFunc(text, func(s string) string {
				m := times.FindStringSubmatch(s)
				return fmt.Sprint(int(m[1][0]-'0') * int(m[2][0]-'0'))
			})
			v := verify(t, text)
			for _, n := range []int64{5, 256, 600} {
				contents := [][]byte{make([]byte, 4*int(n)*size), make([]byte, 8*int(n)*size), make([]byte, 8*int(n)*size)}
				for _, c := range contents {
					fill(r, c)
				}
				params := []uint64{ty.Mask() & 0x4008_4021_0000_4021}
				want := run(t, interp.New(), v, linear(n, 256), contents, nil, params)
				for l, b := range has {
					got := runIn(t, brink(t, false), b, v, linear(n, 256), contents, nil, params)
					require.NoError(t, same(v, got, want), "%s, %v, %d lanes: %s", name, l, n, text)
				}
			}
		}
	}
}

// Elements of launches of all lengths are loaded and stored where a slot begins or ends
// with the memory that may be touched, those of several widths side by side.
func TestElementsAtTheEndOfMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 48))
	has := engines(t, 1)
	for _, types := range [][2]isa.Type{{isa.U8, isa.U8}, {isa.I16, isa.I32}, {isa.BF16, isa.F16}, {isa.F32, isa.F32}, {isa.I32, isa.F64}, {isa.U64, isa.U32}, {isa.U8, isa.F64}, {isa.I64, isa.F16}} {
		v := verify(t, fmt.Sprintf(`program p
slot x %[1]v
slot y %[2]v
slot a %[1]v
slot b %[2]v
  ldg.%[1]v x, x[index]
  ldg.%[2]v y, y[index]
  add.%[1]v u, x, x
  add.%[2]v w, y, y
  stg.%[1]v u, a[index]
  set.lt.%[1]v p, x, u
  sel.%[2]v y, p, y, w
  stg.%[2]v y, b[index]
  exit
`, types[0], types[1]))
		oracle := newReady(t, interp.New(), v)
		for l, b := range has {
			m := newReady(t, b, v)
			for n := int64(1); n <= 70; n += 1 + n/20 {
				contents := randomContents(r, v, n)
				want := oracle.run(t, new(host).block, linear(n, 256), contents, nil, nil)
				for _, before := range []bool{false, true} {
					got := m.run(t, brink(t, before), linear(n, 256), contents, nil, nil)
					require.NoError(t, same(v, got, want), "%v, %v, %d lanes", types, l, n)
				}
			}
			m.k.Release()
		}
		oracle.k.Release()
	}
}
