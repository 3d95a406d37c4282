package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	isamath "github.com/hologram-project/hologram/isa/math"
)

// What masks are made of, -inf and numbers far below all others, takes an exponential no
// longer than others do: nothing on its way is nearly subnormal, as products are for which
// processors take ten times as long.
func TestMasksAreNotNearlySubnormal(t *testing.T) {
	oracle := interp.New()
	for _, op := range []isa.Op{isa.EXP, isa.EXP2, isa.SIGMOID} {
		for _, ty := range []isa.Type{isa.F32, isa.F64, isa.BF16} {
			e, ok := isamath.Expansion(op, ty)
			require.True(t, ok)
			computed := ty
			if ty == isa.BF16 {
				computed = isa.F32
			}
			lines := strings.Split(isa.Disassemble(e.Program), "\n")
			var x []byte
			for _, v := range []float64{math.Inf(-1), -1e30, -1e5} {
				cell := isa.Convert(ty, isa.F64, math.Float64bits(v))
				x = append(x, binary.LittleEndian.AppendUint64(nil, cell)[:ty.Size()]...)
			}
			looked := 0
			for i, line := range lines {
				var d string
				if n, _ := fmt.Sscanf(line, "  mul."+computed.String()+" %s", &d); n == 0 {
					continue
				}
				looked++
				text := strings.Join(lines[:i+1], "\n") + fmt.Sprintf("\n  stg.%v %s out[index]\n  exit\n", computed, d)
				text = strings.Replace(text, "slot out "+ty.String(), "slot out "+computed.String(), 1)
				got := run(t, oracle, verify(t, text), linear(3, 256), [][]byte{x, make([]byte, 3*computed.Size())}, nil, nil)
				for k := range 3 {
					cell := binary.LittleEndian.Uint64(append(got.slots[1][k*computed.Size():(k+1)*computed.Size():(k+1)*computed.Size()], make([]byte, 8)...))
					v := math.Abs(math.Float64frombits(isa.Convert(isa.F64, computed, cell)))
					least := map[isa.Type]float64{isa.F32: 0x1p-126, isa.F64: 0x1p-1022}[computed]
					require.True(t, v == 0 || v >= least, "%v.%v, number %d: %s is %g", op, ty, k, line, v)
				}
			}
			require.NotZero(t, looked)
		}
	}
}
