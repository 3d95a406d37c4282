//go:build unix

package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"os"
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
