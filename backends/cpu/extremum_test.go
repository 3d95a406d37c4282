package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
)

// Extremes of special numbers and constants, on either side, and of each other: a NaN is one, and −0 < +0.
func TestExtremesOfSpecialNumbers(t *testing.T) {
	has := engines(t, 1)
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-20, -0x1p-20}
	for _, typ := range []isa.Type{isa.F16, isa.BF16, isa.F32, isa.F64} {
		size, n := typ.Size(), int64(len(special)*len(special))
		x, y := make([]byte, n*int64(size)), make([]byte, n*int64(size))
		for i, a := range special {
			for j, b := range special {
				at := (i*len(special) + j) * size
				copy(x[at:at+size], binary.LittleEndian.AppendUint64(nil, isa.Convert(typ, isa.F64, math.Float64bits(a))))
				copy(y[at:at+size], binary.LittleEndian.AppendUint64(nil, isa.Convert(typ, isa.F64, math.Float64bits(b))))
			}
		}
		for _, op := range []string{"min", "max"} {
			for _, args := range []string{"x, y", "x, 0.0", "0.0, x", "x, -0.0", "-0.0, x", "x, 1.0", "-1.0, x", "x, inf", "-inf, x", "x, nan", "nan, x"} {
				v := verify(t, fmt.Sprintf("program p\nslot a %[1]v\nslot b %[1]v\nslot c %[1]v\n  ldg.%[1]v x, a[index]\n  ldg.%[1]v y, b[index]\n  %[2]s.%[1]v z, %[3]s\n  stg.%[1]v z, c[index]\n  exit\n", typ, op, args))
				contents := [][]byte{x, y, make([]byte, len(x))}
				want := run(t, interp.New(), v, linear(n, 256), contents, nil, nil)
				for l, b := range has {
					require.NoError(t, same(v, run(t, b, v, linear(n, 256), contents, nil, nil), want), "%v: %s.%v %s", l, op, typ, args)
				}
			}
		}
	}
}
