package core

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// filled is the memory of an operation's operand: elements 0 … n−1, or the other way
// round, of values that each operation can work with.
func filled(o *kernels.Operand, t isa.Type, n int64, backwards bool) []byte {
	size := int64(t.Size())
	data := hostBytes(max(1, n*size))
	for i := range n {
		at := i
		if backwards {
			at = n - 1 - i
		}
		cell := data[at*size:][:size]
		switch t {
		case isa.F32: // within 0 … 1, as losses want
			binary.LittleEndian.PutUint32(cell, math.Float32bits(float32(i*7%11+1)/16))
		case isa.I64: // within 0 … 2, the rows and classes; "ends" are behind "starts"
			v := i % 3
			if o.Name == "ends" {
				v++
			}
			binary.LittleEndian.PutUint64(cell, uint64(v))
		default:
			cell[0] = byte(i % 2)
		}
	}
	return data
}

// TestOpsBackwards gives every operation arrays whose strides are negative, all and,
// if there is time, one of them at a time: the results are those of the same elements in a row.
func TestOpsBackwards(t *testing.T) {
	sizes := map[string]int64{"n": 7, "m": 3, "k": 4, "rows": 3, "cols": 5}
	onEach(t, func(t *testing.T, ex *Executor) {
		for _, op := range kernels.All {
			var layouts []kernels.Layout
			var dims []int64
			if op.Elementwise {
				for _, o := range op.Operands {
					typ := map[kernels.Kind]isa.Type{kernels.Index: isa.I64, kernels.Mask: isa.U8}[o.Kind]
					if typ == isa.NoType {
						typ = isa.F32
					}
					layouts = append(layouts, kernels.Packed(typ, 3, 5))
				}
			} else {
				given := make([]int64, len(op.Dims))
				for i, name := range op.Dims {
					given[i] = sizes[name]
				}
				l, axes, err := op.Layouts(isa.F32, given)
				require.NoError(t, err, op.Name)
				if layouts = l; op.Axes {
					dims = []int64{(1<<axes - 1) << (len(l[0].Shape) - axes)}
				}
			}
			scalars := slices.Repeat([]Scalar{Float(1)}, len(op.Scalars))
			// run returns what is in the operands that are written, in order.
			run := func(backwards func(i int) bool) (made [][]byte) {
				var whole, views []*Buffer
				for i, l := range layouts {
					n := l.Elements()
					b, err := ex.Allocate(n, l.Type, true)
					require.NoError(t, err)
					defer b.Free()
					data := filled(&op.Operands[i], l.Type, n, backwards(i))
					require.NoError(t, wait(b.Write(addressOf(data), 0, n*int64(l.Type.Size()))))
					runtime.KeepAlive(data)
					stride, first := slices.Clone(l.Stride), int64(0)
					if backwards(i) {
						first = n - 1
						for k := range stride {
							stride[k] = -stride[k]
						}
					}
					v, err := b.View(first, l.Shape, stride)
					require.NoError(t, err)
					defer v.Free()
					whole, views = append(whole, b), append(views, v)
				}
				require.NoError(t, wait(ex.Op(op.Name, views, scalars, dims)), op.Name)
				for i, b := range whole {
					if !op.Operands[i].Writes {
						continue
					}
					size := layouts[i].Type.Size()
					data := hostBytes(b.Len() * int64(size))
					require.NoError(t, wait(b.Read(addressOf(data), 0, int64(len(data)))))
					cells := slices.Collect(slices.Chunk(data, size))
					if backwards(i) {
						slices.Reverse(cells)
					}
					made = append(made, slices.Concat(cells...))
				}
				return made
			}
			want := run(func(int) bool { return false })
			for i, o := range op.Operands[:brief.Or(len(op.Operands), 0)] {
				require.Equal(t, want, run(func(k int) bool { return k == i }), "%s with %s backwards", op.Name, o.Name)
			}
			require.Equal(t, want, run(func(int) bool { return true }), "%s with all backwards", op.Name)
		}
	})
}
