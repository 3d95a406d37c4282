package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// matrix is a matrix of random numbers in memory, seen through a layout, with
// guards around.
type matrix struct {
	l      kernels.Layout
	memory []byte
	at     int64
}

func (m *matrix) first() []byte { return m.memory[m.at:] }

func (m *matrix) clone(h *host) *matrix {
	c := &matrix{l: m.l, memory: h.block(len(m.memory)), at: m.at}
	copy(c.memory, m.memory)
	return c
}

// randomMatrix makes one of a stack of batch matrices; how chooses the layout.
func randomMatrix(r *rand.Rand, h *host, t isa.Type, batch []int64, rows, cols int64, how int, special bool) *matrix {
	shape := append(append([]int64(nil), batch...), rows, cols)
	n := len(shape)
	var l kernels.Layout
	switch how {
	case 0:
		l = kernels.Packed(t, shape...)
	case 1:
		shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
		l = kernels.Packed(t, shape...)
		l.Shape[n-1], l.Shape[n-2] = l.Shape[n-2], l.Shape[n-1]
		l.Stride[n-1], l.Stride[n-2] = l.Stride[n-2], l.Stride[n-1]
	case 2: // rows farther apart
		wide := append([]int64(nil), shape...)
		wide[n-1] += 1 + r.Int64N(40)
		l = kernels.Packed(t, wide...)
		l.Shape = shape
	case 3: // nothing lies side by side
		wide := append([]int64(nil), shape...)
		wide[n-1] = 3*wide[n-1] + 1
		l = kernels.Packed(t, wide...)
		l.Shape = shape
		l.Stride[n-1] = 3
	case 4: // matrices farther apart
		wide := append([]int64(nil), shape...)
		wide[n-2] += 1 + r.Int64N(3)
		l = kernels.Packed(t, wide...)
		l.Shape = shape
	case 5: // and transposed
		wide := append([]int64(nil), shape...)
		wide[n-1], wide[n-2] = shape[n-2], shape[n-1]+1+r.Int64N(3)
		l = kernels.Packed(t, wide...)
		l.Shape = shape
		l.Stride[n-1], l.Stride[n-2] = l.Stride[n-2], l.Stride[n-1]
	case 6: // rows so many pages apart
		page := 4096 / int64(t.Size())
		wide := append([]int64(nil), shape...)
		wide[n-1] = (wide[n-1] + page) / page * page
		l = kernels.Packed(t, wide...)
		l.Shape = shape
	case 7: // transposed, of every other element
		wide := append([]int64(nil), shape...)
		wide[n-1], wide[n-2] = 2*shape[n-2], shape[n-1]
		l = kernels.Packed(t, wide...)
		l.Shape = shape
		l.Stride[n-1], l.Stride[n-2] = l.Stride[n-2], 2
	}
	last := int64(1)
	for i, d := range shape {
		last += max(0, d-1) * l.Stride[i]
	}
	size := int64(t.Size())
	m := &matrix{l: l, at: size * (1 + r.Int64N(17))}
	m.memory = h.block(int(m.at + last*size + 200))
	if !t.Float() {
		fill(r, m.memory)
	} else {
		fill(r, m.memory[:m.at])
		fill(r, m.memory[m.at+last*size:])
		for i := int64(0); i < last; i++ {
			x := r.NormFloat64()
			if special && r.IntN(40) == 0 {
				x = []float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN(), 1e-40, 3e38}[r.IntN(6)]
			}
			putFloat(m.memory[m.at+i*size:], t, x)
		}
	}
	return m
}

func putFloat(b []byte, t isa.Type, x float64) {
	bits := uint64(0)
	switch t {
	case isa.F64:
		bits = math.Float64bits(x)
	case isa.F32:
		bits = uint64(math.Float32bits(float32(x)))
	case isa.BF16:
		bits = uint64(math.Float32bits(float32(x)) >> 16)
	case isa.F16:
		bits = 0x3C00 | uint64(math.Float64bits(x)>>40&0x83FF)
		if x < 0 {
			bits |= 0x8000
		}
		if x != x || math.IsInf(x, 0) || x == 0 {
			bits = map[bool]uint64{true: 0, false: 0x7C00}[x == 0]
		}
	}
	var cell [8]byte
	binary.LittleEndian.PutUint64(cell[:], bits)
	copy(b, cell[:t.Size()])
}

func scalarCell(t isa.Type, x float64) uint64 {
	switch acc := kernels.Accumulator(t); acc {
	case isa.F64:
		return math.Float64bits(x)
	case isa.F32:
		return uint64(math.Float32bits(float32(x)))
	}
	return uint64(int64(x)) & (1<<(8*t.Size()-1)<<1 - 1)
}

// sameElements compares memory, in which NaNs are alike.
func sameElements(t isa.Type, got, want *matrix) error {
	size := t.Size()
	for i := range want.memory {
		if got.memory[i] == want.memory[i] {
			continue
		}
		e := (int64(i) - want.at) / int64(size)
		at := want.at + e*int64(size)
		if e >= 0 && int(at)+size <= len(want.memory) {
			x, y := cellAt(t, got.memory[at:]), cellAt(t, want.memory[at:])
			if nan(t, x) && nan(t, y) {
				continue
			}
			return fmt.Errorf("element %d: %#x is not %#x", e, x, y)
		}
		return fmt.Errorf("byte %d beside the array", i)
	}
	return nil
}
