package asynctest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// TestPlanHasTheLibrarysBits runs softmax by the device's plan and by the
// library's, in place too.
func TestPlanHasTheLibrarysBits(t *testing.T) {
	r := newRig(t, Options{Plans: true}, double)
	random := rand.New(rand.NewPCG(1, 2))
	for _, typ := range kernels.Softmax.Types.List() {
		for _, dims := range [][]int64{{1, 1}, {3, 5}, {2, 255}, {2, 256}, {1, 257}, {5, 1000}, {2, 8192}} {
			t.Run(fmt.Sprintf("%v %v", typ, dims), func(t *testing.T) {
				own, err := r.d.(backends.Planner).Plan(kernels.Softmax, typ, dims)
				require.NoError(t, err)
				require.Len(t, own.Steps, 2)
				input := make([]byte, dims[0]*dims[1]*int64(typ.Size()))
				for i := range dims[0] * dims[1] {
					putFloat(input, i, typ, random.NormFloat64()*4)
				}
				if dims[0] > 1 { // rows of its own kind
					putFloat(input, 0, typ, math.NaN())
					putFloat(input, dims[1]+1, typ, math.Inf(-1))
				}
				library, err := kernels.Softmax.Plan(typ, dims)
				require.NoError(t, err)
				want := oneNaN(r.runPlan(library, input, false), typ)
				require.Equal(t, want, oneNaN(r.runPlan(own, input, false), typ))
				require.Equal(t, want, oneNaN(r.runPlan(own, input, true), typ), "in place")
				require.NotEqual(t, input, want)
			})
		}
	}
	require.Equal(t, 4*7, r.b.Counts().Plans)
}

func TestPlanLeavesTheRest(t *testing.T) {
	r := newRig(t, Options{Plans: true, MaxGrid: [3]uint32{100, 0, 0}}, double)
	p := r.d.(backends.Planner)
	for _, c := range []struct {
		op   *kernels.Op
		dims []int64
	}{{kernels.Softmax, []int64{2, 8193}}, {kernels.Softmax, []int64{0, 5}}, {kernels.Softmax, []int64{5, 0}},
		{kernels.Softmax, []int64{101, 5}}, {kernels.ReduceSum, []int64{2, 5}}, {kernels.VectorAdd, nil}} {
		plan, err := p.Plan(c.op, isa.F32, c.dims)
		require.NoError(t, err)
		require.Nil(t, plan, "%s %v", c.op.Name, c.dims)
	}
	_, err := p.Plan(kernels.Softmax, isa.I32, []int64{2, 2})
	require.ErrorContains(t, err, "not supported")
	_, err = p.Plan(kernels.Softmax, isa.F32, []int64{2})
	require.Error(t, err)
	plain := newRig(t, Options{}, double)
	plan, err := plain.d.(backends.Planner).Plan(kernels.Softmax, isa.F32, []int64{2, 2})
	require.NoError(t, err)
	require.Nil(t, plan)
}

// putFloat rounds v to element i of type t, as conversion instructions do.
// oneNaN makes all NaNs the same, as which they count.
func oneNaN(data []byte, t isa.Type) []byte {
	size := t.Size()
	for i := range len(data) / size {
		cell := uint64(0)
		for k := range size {
			cell |= uint64(data[i*size+k]) << (8 * k)
		}
		if math.IsNaN(math.Float64frombits(isa.Convert(isa.F64, t, cell))) {
			putFloat(data, int64(i), t, math.NaN())
		}
	}
	return data
}

func putFloat(to []byte, i int64, t isa.Type, v float64) {
	var cell uint64
	switch t {
	case isa.F64:
		cell = math.Float64bits(v)
	case isa.F32:
		cell = uint64(math.Float32bits(float32(v)))
	case isa.BF16:
		cell = uint64(math.Float32bits(float32(v)) >> 16)
	case isa.F16: // of normal numbers, rounded down; infinities and NaN
		b := math.Float32bits(float32(v))
		switch sign := uint64(b>>16) & 0x8000; {
		case math.IsNaN(v):
			cell = 0x7e00
		case math.IsInf(v, 0):
			cell = sign | 0x7c00
		case math.Abs(v) < 1e-4:
			cell = sign
		default:
			cell = sign | uint64((b&0x7fffffff)-112<<23)>>13
		}
	}
	for k := range t.Size() {
		to[i*int64(t.Size())+int64(k)] = byte(cell >> (8 * k))
	}
}

// runPlan runs a plan of an operation with an input and an output of the same
// size, and returns the output.
func (r *rig) runPlan(p *kernels.Plan, input []byte, inPlace bool) []byte {
	r.Helper()
	size := int64(len(input))
	host, err := r.d.AllocHost(size)
	require.NoError(r, err)
	operands := []backends.Memory{r.alloc(size), r.alloc(size)}
	if inPlace {
		require.NoError(r, r.d.Free(operands[1]))
		operands[1] = operands[0]
	}
	scratch := r.alloc(p.Workspace)
	copy(hostmem.Bytes(host.Addr, size), input)
	r.must(r.s.Copy(operands[0].Addr, host.Addr, size))
	var compiled []backends.Kernel
	for _, step := range p.Steps {
		l := planLaunch(&step, operands, scratch)
		f, _, err := ir.Canonical(step.Program)
		require.NoError(r, err)
		k, err := r.d.Compile(&backends.Unit{Source: step.Program, IR: f}, backends.Variant{})
		require.NoError(r, err)
		compiled = append(compiled, k)
		l.Record = r.record()
		require.NoError(r, r.finish(r.s, r.must(r.s.Launch(k, l))))
		require.NoError(r, l.Record.Outcome())
		require.NoError(r, r.d.FreeHost(backends.Memory{Addr: addressOf(l.Record), Bytes: recordBytes}))
	}
	require.NoError(r, r.finish(r.s, r.must(r.s.Copy(host.Addr, operands[1].Addr, size))))
	output := append([]byte(nil), hostmem.Bytes(host.Addr, size)...)
	for _, k := range compiled {
		k.Release()
	}
	require.NoError(r, r.d.FreeHost(host))
	require.NoError(r, r.d.Free(scratch))
	require.NoError(r, r.d.Free(operands[0]))
	if !inPlace {
		require.NoError(r, r.d.Free(operands[1]))
	}
	return output
}

const recordBytes = int64(unsafe.Sizeof(backends.Record{}))

func addressOf(r *backends.Record) uintptr { return uintptr(unsafe.Pointer(r)) }

// planLaunch binds a step, as core does.
func planLaunch(s *kernels.Step, operands []backends.Memory, scratch backends.Memory) *backends.Launch {
	l := &backends.Launch{Grid: s.Grid, Block: s.Block, Rank: len(s.Shape), N: 1}
	copy(l.Shape[:], s.Shape)
	for _, k := range s.Shape {
		l.N *= uint64(k)
	}
	if l.Block[0] == 0 {
		l.Block = [3]uint32{256, 1, 1}
		l.Grid = [3]uint32{uint32((l.N + 255) / 256), 1, 1}
	}
	for _, p := range s.Params {
		l.Params = append(l.Params, p.Value)
	}
	for _, b := range s.Slots {
		m := scratch
		if b.Operand >= 0 {
			m = operands[b.Operand]
		}
		v := backends.View{Addr: m.Addr + uintptr(b.Offset), Type: b.Type}
		if b.Shape == nil {
			v.Rank, v.Bytes, v.Shape[0], v.Stride[0] = 1, m.Bytes, m.Bytes/int64(b.Type.Size()), 1
		} else {
			v.Rank = len(b.Shape)
			copy(v.Shape[:], b.Shape)
			copy(v.Stride[:], b.Stride)
			if v.Rank == 1 && v.Stride[0] == 1 {
				v.Bytes = b.Shape[0] * int64(b.Type.Size())
			}
		}
		l.Slots = append(l.Slots, v)
	}
	return l
}
