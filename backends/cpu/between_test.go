package cpu_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Rows that whole blocks read between barriers are checked before the loop over a block's groups.
// To the last element of a slot, and from its first, nothing strays; one further the last lane of
// the launch does, or the first, in whichever segment that is, and what is beside the slot is
// nobody's. In much memory a segment asks for what the next one reads. What a load's place is made of may have to wait for a load before it, which is the same in a block.
func TestRowsBetweenBarriers(t *testing.T) {
	brief.Alone(t)
	const blocks, far = 3, 1 << 25 // elements of an offset beyond all
	tested := engines(t, 1)
	for _, ty := range []isa.Type{isa.U32, isa.F64, isa.U8, isa.I16} {
		for _, c := range []struct{ block, more int64 }{{64, 40}, {256, 40}, {1024, 40}, {1024, 17 << 20 / int64(ty.Size())}} {
			block, more := c.block, c.more // elements of the slot after those of the lanes
			n, much := blocks*block, more > 1<<20
			var a []byte
			for i, d := range [][2]int64{
				{0, 0}, {more, more}, {more + 1, 0}, {0, -1}, {more, 0}, {0, more}, {0, more + 1}, {-1, 0}, {3, -1}, {more + 1, more + 1},
				{more + 32, 0}, {0, more + block}, {-33, more}, {more, -block}, {-1, more + 1}, {more + 1, -1}, {2 * n, 0}, {0, -2 * n},
			} {
				if much && i >= 4 {
					break
				}
				v := verify(t, fmt.Sprintf(`
program p
slot a %[1]v
slot c %[1]v
slot none u64
block %[2]d
%[3]s
  mul.u64 at, g, %[4]d
  cvt.i64.u64 of, at
  mov.%[1]v s, 7
  bar_sync 0
  ldg.%[1]v x, a[of + %[5]d]
  ldg.%[1]v y, a[of + %[6]d]
  add.%[1]v s, s, x
  mul.%[1]v s, s, y
  bar_sync 0
  add.i64 of, of, %[7]d
  ldg.%[1]v x, a[of - %[8]d]
  sub.%[1]v s, s, x
  mul.u64 late, first, 8
  ldg.u64 late, none[late]
  add.u64 late, late, at
  ldg.%[1]v x, a[late + %[4]d]
  add.%[1]v s, s, x
  stg.%[1]v s, c[at]
  exit`, ty, block, first, ty.Size(), d[0]*int64(ty.Size()), more/2*int64(ty.Size()), int64(far*ty.Size()), (far-d[1])*int64(ty.Size())))
				if a == nil {
					a = randomContents(rand.New(rand.NewPCG(31, uint64(n))), v, n+more)[0]
				}
				contents := [][]byte{a, a[:n*int64(ty.Size())], make([]byte, 8*n)}
				want := run(t, interp.New(), v, linear(n, block), contents, nil, nil)
				var fault *backends.ProgramFault
				switch errors.As(want.err, &fault); {
				case min(d[0], d[1]) < 0:
					require.Zero(t, fault.Lane)
				case max(d[0], d[1]) > more:
					require.Equal(t, uint64(max(n+more-max(d[0], d[1]), 0)), fault.Lane)
				default:
					require.NoError(t, want.err)
				}
				for l, b := range tested {
					require.NoError(t, same(v, run(t, b, v, linear(n, block), contents, nil, nil), want), "%v, blocks of %d %v, %d and %d elements on", l, block, ty, d[0], d[1])
				}
			}
		}
	}
}
