package core

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// aliasSizes are sizes of operations, by how many they have: short rows and long ones, a few
// and many, whatever plans these have.
var aliasSizes = map[int][][]int64{
	1: {{1}, {70}, {9000}},
	2: {{1, 1}, {3, 5}, {40, 64}, {2, 300}, {5, 4096}, {2, 9000}, {300, 3}},
	3: {{5, 7, 0}, {64, 64, 1}, {70, 300, 0}},
	5: {{1, 1, 1, 0, 0}, {7, 7, 7, 0, 0}, {7, 7, 7, 1, 1}, {64, 64, 64, 0, 0}, {80, 80, 80, 0, 1}},
}

// Embeddings, whose sizes are those of arrays, are Python's tests'.
//
// An output that is the array of an input, or of another output, is refused, and then
// nothing is changed; else the results are those of arrays apart.
func TestOutputsThatAreInputs(t *testing.T) {
	device, err := DeviceFor("cpu")
	require.NoError(t, err)
	ex := executorOn(t, device)
	taken := map[string]int{}
	for _, op := range kernels.All {
		sizes := aliasSizes[len(op.Dims)]
		if op.Elementwise {
			sizes = aliasSizes[1]
		}
		for k, typ := range op.Types.List() {
			for i, dims := range sizes {
				if !brief.Skips(i+k, 3) || typ == isa.F32 {
					aliases(t, ex, op, typ, dims, taken)
				}
			}
		}
	}
	require.Greater(t, taken["in place"], 100)
	require.Greater(t, taken["refused"], 100)
}

// aliases calls an operation with each two of its operands one array, of which one at least
// is written, and with two arrays that have the same.
func aliases(t *testing.T, ex *Executor, op *kernels.Op, typ isa.Type, dims []int64, taken map[string]int) {
	counts, types := make([]int64, len(op.Operands)), make([]isa.Type, len(op.Operands))
	if op.Elementwise {
		for i := range counts {
			counts[i] = dims[0]
		}
	} else {
		var err error
		counts, err = op.Extent(typ, dims)
		require.NoError(t, err, "%s %v", op.Name, dims)
	}
	for i, o := range op.Operands {
		if types[i] = typ; o.Kind == kernels.Index {
			types[i] = isa.I64
		} else if o.Kind == kernels.Mask {
			types[i] = isa.U8
		}
	}
	most := int64(3)
	for _, n := range dims {
		most = max(1, min(most, n))
	}
	content := func(i int) []byte { // small numbers
		size := int64(types[i].Size())
		data := hostBytes(max(1, counts[i]) * size)
		for e := range counts[i] {
			x := (e*7 + int64(i)) % most
			if op.Operands[i].Kind != kernels.Index { // no divisor is 0
				x++
			}
			cell := isa.Convert(types[i], isa.I64, uint64(x))
			for b := range size {
				data[e*size+b] = byte(cell >> (8 * b))
			}
		}
		return data
	}
	run := func(w, o int, shared bool) (results [][]byte, err error) {
		buffers := make([]*Buffer, len(types))
		for i := range types {
			if i == w && shared {
				buffers[i] = buffers[o]
				continue
			}
			b, err := ex.Allocate(max(1, counts[i]), types[i], true)
			require.NoError(t, err)
			defer b.Free()
			data := content(map[bool]int{true: o, false: i}[i == w])
			require.NoError(t, wait(b.Write(addressOf(data), 0, int64(len(data)))))
			runtime.KeepAlive(data)
			buffers[i] = b
		}
		scalars := make([]Scalar, len(op.Scalars))
		for i := range scalars {
			scalars[i] = Float(1)
		}
		err = wait(ex.Op(op.Name, buffers, scalars, dims))
		for i, b := range buffers {
			data := hostBytes(max(1, counts[i]) * int64(types[i].Size()))
			require.NoError(t, wait(b.Read(addressOf(data), 0, int64(len(data)))))
			results = append(results, data)
		}
		return results, err
	}
	for w := range types {
		for o := range w {
			if !op.Operands[w].Writes && !op.Operands[o].Writes || types[w] != types[o] || counts[w] != counts[o] || counts[w] == 0 {
				continue
			}
			what := fmt.Sprintf("%s of %v, %v: %s is %s", op.Name, typ, dims, op.Operands[w].Name, op.Operands[o].Name)
			got, err := run(w, o, true)
			if err != nil {
				require.Equal(t, Invalid, CodeOf(err), "%s: %v", what, err)
				require.Equal(t, content(o), got[o], "%s was refused, and has changed something", what)
				taken["refused"]++
				continue
			}
			require.False(t, op.Operands[w].Writes && op.Operands[o].Writes, "%s: two outputs", what)
			want, err := run(w, o, false)
			require.NoError(t, err, what)
			for i := range types {
				if op.Operands[i].Writes {
					require.Equal(t, want[i], got[i], "%s: %s", what, op.Operands[i].Name)
				}
			}
			taken["in place"]++
		}
	}
}
