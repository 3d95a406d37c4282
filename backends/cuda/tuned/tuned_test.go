package tuned_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// rig runs plans on the CPU.
type rig struct {
	testing.TB
	d        backends.Device
	s        backends.Stream
	compiled map[*isa.Verified]compiled
}

type compiled struct {
	f *ir.Func
	k backends.Kernel
}

func newRig(t testing.TB) *rig {
	d, err := cpu.New(0).Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	r := &rig{t, d, s, map[*isa.Verified]compiled{}}
	t.Cleanup(func() {
		for _, c := range r.compiled {
			c.k.Release()
		}
		require.NoError(t, s.Close())
		require.NoError(t, d.Close())
	})
	return r
}

// compile compiles a program once.
func (r *rig) compile(v *isa.Verified) compiled {
	r.Helper()
	c, ok := r.compiled[v]
	if !ok {
		f, _, err := ir.Canonical(v)
		require.NoError(r, err)
		k, err := r.d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
		require.NoError(r, err)
		c = compiled{f, k}
		r.compiled[v] = c
	}
	return c
}

// guard is bytes around an array, which nobody may write.
const guard = 64

// run runs a plan of an operation with an input and an output, and returns the
// output. proved demands that no access of it needs a check.
func (r *rig) run(p *kernels.Plan, input []byte, outBytes int64, proved, inPlace bool) []byte {
	r.Helper()
	operands := [][]byte{append([]byte(nil), input...), make([]byte, outBytes)}
	if inPlace {
		operands[1] = operands[0]
	}
	r.runAll(p, operands, proved)
	return operands[1]
}

// runAll runs a plan of an operation on operands, of which two may be the same.
func (r *rig) runAll(p *kernels.Plan, operands [][]byte, proved bool) {
	r.Helper()
	alloc := func(n int64) backends.Memory {
		m, err := r.d.Alloc(n + 2*guard)
		require.NoError(r, err)
		r.Cleanup(func() { require.NoError(r, r.d.Free(m)) })
		b := hostmem.Bytes(m.Addr, m.Bytes)
		for i := range b {
			b[i] = 0xa5
		}
		return m
	}
	scratch, memory := alloc(p.Workspace), make([]backends.Memory, len(operands))
	for i, b := range operands {
		if i > 0 && len(b) > 0 && len(operands[0]) > 0 && &b[0] == &operands[0][0] {
			memory[i] = memory[0]
			continue
		}
		memory[i] = alloc(int64(len(b)))
		copy(hostmem.Bytes(memory[i].Addr+guard, int64(len(b))), b)
	}
	for _, s := range p.Steps {
		l := &backends.Launch{Grid: s.Grid, Block: s.Block, Rank: len(s.Shape), N: 1}
		copy(l.Shape[:], s.Shape)
		for _, n := range s.Shape {
			l.N *= uint64(n)
		}
		if l.Block[0] == 0 {
			l.Block, l.Grid = [3]uint32{256, 1, 1}, [3]uint32{uint32((l.N + 255) / 256), 1, 1}
		}
		proof := analysis.Launch{N: l.N, Grid: l.Grid, Block: l.Block}
		for _, x := range s.Params {
			l.Params = append(l.Params, x.Value)
		}
		for _, b := range s.Slots {
			v := backends.View{Type: b.Type, Rank: 1, Stride: [isa.MaxRank]int64{1}}
			switch {
			case b.Operand == kernels.Workspace:
				v.Addr, v.Bytes = scratch.Addr+guard+uintptr(b.Offset), p.Workspace-b.Offset
				if len(b.Shape) == 1 {
					v.Bytes = b.Shape[0] * int64(b.Type.Size())
				}
			default:
				v.Addr, v.Bytes = memory[b.Operand].Addr+guard, int64(len(operands[b.Operand]))
			}
			v.Shape[0] = v.Bytes / int64(b.Type.Size())
			if b.Shape != nil {
				v.Rank = len(b.Shape)
				copy(v.Shape[:], b.Shape)
				copy(v.Stride[:], b.Stride)
			}
			l.Slots = append(l.Slots, v)
			proof.SlotBytes = append(proof.SlotBytes, v.Bytes)
		}
		c := r.compile(s.Program)
		if proved {
			proof.Params = l.Params
			var found analysis.Proof
			analysis.New(c.f).Prove(&proof, &found)
			require.True(r, found.All(), "not proved: %s", isa.Disassemble(s.Program.Program))
		}
		times := 1
		if n := s.Meeting.Blocks; n > 0 { // see there
			require.Zero(r, int(l.Grid[0])%n)
			times = 3
		}
		for range times {
			_, err := r.s.Launch(c.k, l)
			require.NoError(r, err)
		}
	}
	for _, m := range append(memory, scratch) {
		b := hostmem.Bytes(m.Addr, m.Bytes)
		for i := range guard {
			require.Equal(r, byte(0xa5), b[i])
			require.Equal(r, byte(0xa5), b[len(b)-1-i])
		}
	}
	for i, b := range operands {
		copy(b, hostmem.Bytes(memory[i].Addr+guard, int64(len(b))))
	}
}

// elements are n random ones; of floats some rows have a NaN or infinities, and
// one has nothing but −inf or −0.
func elements(t isa.Type, rows, cols int64) []byte {
	random := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	b := make([]byte, 0, rows*cols*int64(t.Size()))
	var scales [64]float64
	for i := range scales {
		scales[i] = math.Exp(float64(i) / 16)
	}
	for i := range rows * cols {
		cell := random.Uint64() & t.Mask()
		if t.Float() {
			v := random.NormFloat64() * scales[cell%64]
			if row := i / cols % 8; rows > 1 {
				switch {
				case row == 1 && i%cols == cols/2:
					v = math.NaN()
				case row == 2 && i%cols == cols-1:
					v = math.Inf(1)
				case row == 3:
					v = math.Inf(-1)
				case row == 4:
					v = math.Copysign(0, -1)
				}
			}
			if t == isa.F32 && v == v { // mostly, and faster
				cell = uint64(math.Float32bits(float32(v)))
			} else {
				cell = isa.Convert(t, isa.F64, math.Float64bits(v))
			}
		}
		var bytes [8]byte
		binary.LittleEndian.PutUint64(bytes[:], cell)
		b = append(b, bytes[:t.Size()]...)
	}
	return b
}

// oneNaN makes all NaNs the same, as which they count.
func oneNaN(b []byte, t isa.Type) []byte {
	if !t.Float() {
		return b
	}
	infinity, sign := isa.Convert(t, isa.F64, math.Float64bits(math.Inf(1))), uint64(1)<<(t.Bits()-1)
	for at := 0; at < len(b); at += t.Size() {
		var cell [8]byte
		copy(cell[:], b[at:at+t.Size()])
		if binary.LittleEndian.Uint64(cell[:])&^sign > infinity {
			binary.LittleEndian.PutUint64(cell[:], isa.CanonicalNaN(t))
			copy(b[at:], cell[:t.Size()])
		}
	}
	return b
}

// What is planned here has the library's bits, on rows of all kinds of lengths:
// of one block and several, of one chunk and many, even and odd.
func TestPlansHaveTheLibrarysBits(t *testing.T) {
	brief.Alone(t)
	r := newRig(t)
	for _, op := range []*kernels.Op{kernels.Softmax, kernels.ReduceSum, kernels.ReduceMin, kernels.ReduceMax} {
		for k, typ := range op.Types.List() {
			sizes := [][]int64{{1, 1}, {5, 3}, {9, 31}, {9, 32}, {7, 100}, {8, 256}, {256, 64}, {9, 256}, {128, 256}, {200, 257}, {3, 1000}, {2, 1025}, {5, 8192}, {3, 8193}, {2, 16384}, {9, 20000}, {3, 32768}, {16, 32768}, {16, 25600}, {17, 8448}, {7, 40960}, {2, 90000}}
			if k%3 > 0 && typ != isa.F32 && typ != isa.BF16 { // each type some
				sizes = append(sizes[k%3:][:7], sizes[12+k%3:]...)
			}
			sizes = append(sizes, []int64{5, 65536}, []int64{6, 33 * 8192}, []int64{521, 32}, []int64{513, 7}, []int64{512, 1}) // rows are many for one processor
			for i, d := range sizes {
				if d[0]*d[1] > 100_000 && (i+k)%3 > 0 && op != kernels.Softmax && typ != isa.F32 && typ != isa.BF16 {
					continue // each type some, and each size some types
				}
				if brief.On() && (typ.Size() > 4 || d[0]*d[1] > 2_500 || (i+k)%3 > 0) {
					continue
				}
				var input, want []byte
				var before []*kernels.Plan // those that had them
				for _, device := range []tuned.Device{{Processors: 1}, {Processors: 2}, {Processors: 132}, {Processors: 1, Meet: 8}, {Processors: 132, Meet: 8}, {Processors: 132, Meet: 2}} {
					chunks, whole := (d[1]+kernels.ChunkElements-1)/kernels.ChunkElements, d[1]%kernels.ChunkElements == 0
					if (device.Processors == 2) != (d[0] == 6) {
						continue // whose rows are just so many
					}
					if device.Meet > 0 && (chunks == 1 || op != kernels.Softmax && !whole || op == kernels.Softmax && chunks == 2) {
						continue // as on the other
					}
					t.Run(fmt.Sprintf("%s %v %v on %v", op.Name, typ, d, device), func(t *testing.T) {
						r.TB = t
						plan, err := tuned.Plan(op, typ, d, device)
						require.NoError(t, err)
						require.NotNil(t, plan)
						out := d[0] * int64(typ.Size())
						if op == kernels.Softmax {
							out *= d[1]
						}
						if want == nil {
							library, err := op.Plan(typ, d)
							require.NoError(t, err)
							input = elements(typ, d[0], d[1])
							want = oneNaN(r.run(library, input, out, false, false), typ)
						}
						// Where chunks are uneven each lane's own end decides, which no proof sees in all of them.
						proved := len(plan.Steps) == 1 || whole
						meets := plan.Steps[0].Meeting.Blocks > 0
						each := map[bool]int64{true: 1, false: 2}[typ == isa.F64] // chunks of a block
						if op == kernels.Softmax {
							require.Equal(t, meets, device.Meet > 0 && chunks <= each*device.Meet)
						} else if device.Meet > 0 && chunks <= device.Meet { // where rows are many, a block may do a short one
							require.Len(t, plan.Steps, 1)
						}
						proved = proved && (!meets || whole)
						if slices.ContainsFunc(before, func(p *kernels.Plan) bool { return reflect.DeepEqual(p, plan) }) {
							return // has them
						}
						before = append(before, plan)
						for _, inPlace := range []bool{false, true}[:1+min(1, out/int64(len(input)))] {
							if inPlace && meets { // see kernels.Meeting
								continue
							}
							got := oneNaN(r.run(plan, input, out, proved, inPlace && op == kernels.Softmax), typ)
							for i := range want {
								if got[i] != want[i] {
									t.Fatalf("in place %v: differs from byte %d on", inPlace, i)
								}
							}
						}
					})
				}
			}
		}
	}
}

// Chunks of a row that blocks share are combined in the written order: of other ones, what
// is small beside two that cancel would be lost.
func TestSharedRowsAreSummedInOrder(t *testing.T) {
	r := newRig(t)
	for typ, big := range map[isa.Type]float64{isa.F32: 1 << 30, isa.BF16: 1 << 30, isa.F16: 1 << 15} {
		const rows, chunks = 5, 8
		input := make([]byte, rows*chunks*kernels.ChunkElements*typ.Size())
		for row := range rows {
			for c, v := range []float64{big, 1. / 1024, 1. / 1024, 1. / 1024, -big, 1. / 1024, 1. / 1024, 1. / 1024} {
				var b [8]byte
				binary.LittleEndian.PutUint64(b[:], isa.Convert(typ, isa.F64, math.Float64bits(v)))
				copy(input[(row*chunks+c)*kernels.ChunkElements*typ.Size():], b[:typ.Size()])
			}
		}
		d := []int64{rows, chunks * kernels.ChunkElements}
		plan, err := tuned.Plan(kernels.ReduceSum, typ, d, tuned.Device{Processors: 1, Meet: 8})
		require.NoError(t, err)
		require.Equal(t, map[bool]uint32{true: 4, false: 8}[typ.Size() == 2]*rows, plan.Steps[0].Grid[0])
		library, err := kernels.ReduceSum.Plan(typ, d)
		require.NoError(t, err)
		out := int64(rows * typ.Size())
		require.Equal(t, r.run(library, input, out, false, false), r.run(plan, input, out, true, false), "%v", typ)
	}
}

// Many rows of up to four chunks are reduced in one step, and longer ones of whole chunks where
// enough blocks meet, or, of still more, where all
// rows are at work at once, a block each. Elements of two bytes are loaded by pairs, as many bytes
// by a block as of wider ones, where rows are not short.
func TestShapesOfReductions(t *testing.T) {
	for _, c := range []struct {
		meet, most int64 // how many blocks can meet, surely and at most
		t          isa.Type
		rows, cols int64
		steps      int
		lanes      uint32 // of the first step, which have
		loads      int    // so many each
		blocks     uint32
	}{
		{0, 0, isa.F32, 1 << 12, 1 << 15, 1, 128, 256, 1 << 12}, {0, 0, isa.F32, 2111, 1 << 15, 2, 128, 64, 4 * 2111},
		{0, 0, isa.F32, 1 << 12, 1<<15 - 1, 2, 256, 32, 1 << 14}, {0, 0, isa.F32, 1, 1 << 15, 2, 128, 64, 4}, {0, 0, isa.BF16, 1 << 12, 1 << 15, 1, 128, 256, 1 << 12},
		{0, 0, isa.F32, 1 << 12, 1<<14 + 256, 1, 128, 130, 1 << 12}, {0, 0, isa.I8, 1 << 12, 1 << 15, 1, 64, 512, 1 << 12}, {0, 0, isa.F32, 1 << 12, 1<<15 + 256, 2, 256, 32, 5 << 12},
		{0, 0, isa.BF16, 1 << 18, 1024, 1, 32, 2 * 32, 1 << 17}, {0, 0, isa.BF16, 1 << 20, 256, 1, 32, 8 * 8, 1 << 17}, {0, 0, isa.BF16, 3 << 18, 256, 1, 32, 8 * 8, 3 << 15},
		{0, 0, isa.BF16, 1<<20 + 4, 256, 1, 32, 4 * 8, 1<<18 + 1}, {0, 0, isa.BF16, 1 << 22, 64, 1, 32, 16 * 2, 1 << 18},
		{0, 0, isa.BF16, 1 << 16, 4096, 1, 128, 32, 1 << 16}, {0, 0, isa.BF16, 1 << 14, 16384, 1, 128, 128, 1 << 14}, {0, 0, isa.BF16, 1 << 18, 1023, 1, 32, 32, 1 << 18},
		{8, 8, isa.F32, 1 << 12, 1 << 15, 1, 128, 64, 4 << 12}, {8, 8, isa.F32, 1, 1 << 15, 1, 128, 64, 4}, {2, 2, isa.F32, 1 << 12, 1 << 15, 1, 128, 256, 1 << 12},
		{8, 8, isa.F32, 1 << 12, 1 << 14, 1, 128, 128, 1 << 12}, {8, 8, isa.F32, 3, 5 << 13, 1, 128, 64, 15}, {8, 8, isa.F32, 1 << 12, 1<<15 + 256, 2, 256, 32, 5 << 12},
		{8, 8, isa.BF16, 1 << 12, 1 << 15, 1, 128, 256, 1 << 12}, {8, 8, isa.BF16, 1 << 12, 1 << 16, 1, 128, 128, 4 << 12}, {8, 8, isa.BF16, 1, 1 << 16, 1, 128, 64, 8},
		{8, 16, isa.BF16, 512, 1 << 18, 1, 128, 128, 16 * 512}, {8, 8, isa.BF16, 512, 1 << 18, 2, 128, 64, 32 * 512}, {8, 16, isa.F32, 512, 1 << 18, 1, 256, 32, 512},
		{8, 16, isa.F32, 528, 1 << 18, 1, 256, 32, 528}, {8, 16, isa.F32, 529, 1 << 18, 2, 128, 64, 32 * 529}, {8, 16, isa.F32, 198, 1 << 18, 1, 256, 32, 198}, {8, 16, isa.F32, 197, 1 << 18, 2, 128, 64, 32 * 197},
		{8, 16, isa.F32, 512, 1<<18 + 256, 2, 256, 32, 33 * 512}, {8, 16, isa.F32, 512, 1 << 21, 1, 256, 32, 512}, {8, 16, isa.F32, 512, 1<<21 + 8192, 2, 128, 64, 257 * 512}, {8, 16, isa.F64, 512, 1 << 18, 2, 128, 64, 32 * 512},
		{8, 8, isa.BF16, 1 << 12, 6 << 13, 1, 128, 64, 6 << 12},
	} {
		plan, err := tuned.Plan(kernels.ReduceSum, c.t, []int64{c.rows, c.cols}, tuned.Device{Processors: 132, Meet: c.meet, Most: func() int64 { return c.most }})
		require.NoError(t, err)
		require.Len(t, plan.Steps, c.steps, "%v", c)
		s, loads := plan.Steps[0], 0
		for _, i := range s.Program.Program.Insts {
			if i.Op == isa.LDG && i.Args[1].Slot == 0 {
				loads++
			}
		}
		require.Equal(t, c.lanes, s.Block[0], "%v", c)
		require.Equal(t, c.loads, loads, "%v", c)
		require.Equal(t, c.blocks, s.Grid[0], "%v", c)
	}
}

// What is not planned here, or not rightly asked for, is the library's.
func TestPlanLeavesTheRest(t *testing.T) {
	for _, c := range []struct {
		op   *kernels.Op
		t    isa.Type
		dims []int64
	}{
		{kernels.VectorAdd, isa.F32, nil}, {kernels.Gemm, isa.F32, []int64{1, 1, 1, 0, 0}}, {kernels.Softmax, isa.I32, []int64{2, 2}},
		{kernels.Softmax, isa.F32, []int64{2}}, {kernels.ReduceSum, isa.F32, []int64{0, 5}}, {kernels.ReduceSum, isa.F32, []int64{5, 0}},
		{kernels.ReduceMin, isa.F32, []int64{-1, 5}}, {kernels.ReduceMax, isa.F32, []int64{1 << 31, 1 << 31}}, {kernels.Softmax, isa.F32, []int64{1, 1 << 30}},
	} {
		plan, err := tuned.Plan(c.op, c.t, c.dims, tuned.Device{Processors: 132, Meet: 8})
		require.NoError(t, err)
		require.Nil(t, plan, "%s %v", c.op.Name, c.dims)
	}
}

// What does not lie side by side is the library's: plans here take elements by their number.
func TestPlanShapesLeavesWhatIsApart(t *testing.T) {
	d := tuned.Device{Processors: 132, Meet: 8}
	packed := kernels.Packed(isa.F32, 4, 20000)
	apart := packed
	apart.Stride = []int64{20001, 1}
	for _, l := range [][]kernels.Layout{{packed, apart}, {apart, packed}, {packed, kernels.Packed(isa.F32, 4, 19999)}} {
		plan, err := tuned.PlanShapes(kernels.Cumsum, l, 1, d)
		require.NoError(t, err)
		require.Nil(t, plan, "%v", l)
	}
	columns := kernels.Layout{Type: isa.F32, Shape: []int64{64, 1000}, Stride: []int64{1, 64}}
	for stride, ours := range map[int64]bool{1: true, 2: false} {
		out := kernels.Layout{Type: isa.F32, Shape: []int64{64}, Stride: []int64{stride}}
		plan, err := tuned.PlanShapes(kernels.ReduceSum, []kernels.Layout{columns, out}, 1, d)
		require.NoError(t, err)
		require.Equal(t, ours, plan != nil)
	}
}

// Products of matrix units have k in parts of a chunk where the result is small, whose sums are
// added up by groups, and else in parts of such a group: k alone decides the order.
func TestPartsOfUnitsAreChunksOrGroupsOfThem(t *testing.T) {
	part := func(m, n, k int64) int64 {
		l := []kernels.Layout{kernels.Packed(isa.BF16, m, k), kernels.Packed(isa.BF16, k, n), kernels.Packed(isa.BF16, m, n)}
		p, err := tuned.PlanShapes(kernels.Gemm, l, 0, tuned.Device{Processors: 132, Units: true})
		require.NoError(t, err)
		for i, param := range p.Steps[0].Program.Program.Params {
			if param.Name == "part" {
				return int64(p.Steps[0].Params[i].Value)
			}
		}
		return k // whole
	}
	const group = tuned.UnitChunk * kernels.ProductChunk
	for _, k := range []int64{600_000, group, group + 1, 3_000_000} {
		require.EqualValues(t, tuned.UnitChunk, part(1, 1024, k))
		require.Equal(t, min(k, group), part(1024, 1024, k))
	}
}
