package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// stray says which number of an operation's places is none, if a launch ended with a
// stray access for that; else nothing. The host sees the launch's memory.
func (s *step) stray(err error, l *backends.Launch) string {
	var f *backends.ProgramFault
	if s.places == nil || !errors.As(err, &f) || f.Kind != isa.FaultAccess || f.Lane >= l.N {
		return ""
	}
	v, lane := &l.Slots[s.places.Slot], int64(f.Lane)
	place := lane / (int64(l.N) / elements(s.places.Shape))
	at := place // of what is addressed by bytes, which has no gaps
	if s.program.Verified.Slots[s.places.Slot].Indexed {
		at = 0
		for k := l.Rank - 1; k >= 0; k-- {
			at += lane % l.Shape[k] * v.Stride[k]
			lane /= l.Shape[k]
		}
	}
	x := int64(binary.NativeEndian.Uint64(hostmem.Bytes(v.Addr+uintptr(8*at), 8)))
	if 0 <= x && x < s.places.Count {
		return ""
	}
	return named(s.places.Name, s.places.Shape, place) + fmt.Sprintf(" is %d; expected 0 to %d", x, s.places.Count-1)
}

// divided says which operand of an operation is 0, and where, if a launch ended with
// an integer division by that; else nothing.
func (s *step) divided(err error, l *backends.Launch) string {
	var f *backends.ProgramFault
	if s.divisor == "" || !errors.As(err, &f) || f.Kind != isa.FaultDivide || f.Lane >= l.N {
		return ""
	}
	text := fmt.Sprintf("%v: %s is 0", f.Kind, s.divisor)
	if len(l.Sizes) > 0 {
		text += " at element " + named("", l.Sizes, int64(f.Lane)) + " of the shape " + ShapeText(l.Sizes)
	}
	return text
}

// named is element i, counted in row-major order, of an operand of some shape.
func named(operand string, shape []int64, i int64) string {
	text := make([]string, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		text[k] = fmt.Sprint(i % shape[k])
		i /= shape[k]
	}
	if len(text) == 0 {
		return operand
	}
	return operand + "[" + strings.Join(text, ", ") + "]"
}

func elements(shape []int64) int64 {
	l := kernels.Packed(isa.I64, shape...)
	return l.Elements()
}
