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
	return s.named(place) + fmt.Sprintf(" is %d; expected 0 to %d", x, s.places.Count-1)
}

// named is element i, counted in row-major order, of the operand with the places.
func (s *step) named(i int64) string {
	shape := s.places.Shape
	text := make([]string, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		text[k] = fmt.Sprint(i % shape[k])
		i /= shape[k]
	}
	if len(text) == 0 {
		return s.places.Name
	}
	return s.places.Name + "[" + strings.Join(text, ", ") + "]"
}

func elements(shape []int64) int64 {
	l := kernels.Packed(isa.I64, shape...)
	return l.Elements()
}
