package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// convertible are cells of a type: the ends of all integers' ranges and what lies
// beside them, as far as the type has them, and of floats what is no number.
func convertible(t isa.Type) (cells []byte) {
	put := func(c uint64) { cells = binary.LittleEndian.AppendUint64(cells, c)[:len(cells)+t.Size()] }
	for bits := range 65 {
		for _, beside := range []float64{-1, 0, 0.5, 1} {
			for _, sign := range []float64{1, -1} {
				put(isa.Convert(t, isa.F64, math.Float64bits(sign*(math.Ldexp(1, bits)+beside))))
			}
		}
		put((1<<bits - 1) & t.Mask())
		put(^uint64(0) << bits & t.Mask())
	}
	if t.Float() {
		for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1)} {
			put(isa.Convert(t, isa.F64, math.Float64bits(x)))
		}
	}
	return cells
}

// TestConversionsAreOfTheirType converts every type to every other, and goes on
// with what comes of it: a register may hold more bits than a type has, of which
// stores tell nothing, and conversions, shifts and comparisons do.
func TestConversionsAreOfTheirType(t *testing.T) {
	brief.Alone(t)
	oracle := interp.New()
	for from := isa.I8; from <= isa.F64; from++ {
		var slots, body strings.Builder
		out := func(ty isa.Type, name string) {
			fmt.Fprintf(&slots, "slot %s %v\n", name, ty)
			fmt.Fprintf(&body, "  stg.%v r, %s[index]\n", ty, name)
		}
		for to := isa.I8; to <= isa.F64; to++ {
			if to == from {
				continue
			}
			fmt.Fprintf(&body, "  cvt.%v.%v y, x\n", to, from)
			for _, wide := range []isa.Type{isa.I64, isa.F64} {
				if to == wide {
					fmt.Fprintf(&body, "  mov.%v r, y\n", wide)
				} else {
					fmt.Fprintf(&body, "  cvt.%v.%v r, y\n", wide, to)
				}
				out(wide, fmt.Sprintf("%v_%v", to, wide))
			}
			if to.Integer() {
				fmt.Fprintf(&body, "  shr.%v r, y, 1\n", to)
				out(to, fmt.Sprintf("%v_half", to))
				fmt.Fprintf(&body, "  set.gt.%v p, y, 100\n  sel.u8 r, p, 1, 0\n", to)
				out(isa.U8, fmt.Sprintf("%v_more", to))
			}
		}
		v := verify(t, fmt.Sprintf("program p\nslot x %v\n%s  ldg.%[1]v x, x[index]\n%[3]s  exit\n", from, slots.String(), body.String()))
		x := convertible(from)
		n := int64(len(x) / from.Size())
		contents := [][]byte{x}
		for _, s := range v.Program.Slots[1:] {
			contents = append(contents, make([]byte, n*int64(s.Type.Size())))
		}
		want := run(t, oracle, v, linear(n, 256), contents, nil, nil)
		for _, l := range levels {
			got := run(t, on(t, l, 1), v, linear(n, 256), contents, nil, nil)
			if err := same(v, got, want); err != nil {
				t.Errorf("from %v, %v: %v", from, l, err)
			}
		}
	}
}
