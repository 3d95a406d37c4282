package cpu_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// compiled is a kernel of a program.
func compiled(t *testing.T, b *cpu.Backend, text string) backends.Entered {
	t.Helper()
	v := verify(t, text)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	d, err := b.Open(0)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
	require.NoError(t, err)
	t.Cleanup(k.Release)
	return k.(backends.Entered)
}

// launchOf is a launch on slots of f32 of a shape, whose rows lie gap elements apart. They
// are nowhere: what is asked looks at no memory.
func launchOf(slots int, gap int64, params []uint64, dims ...int64) *backends.Launch {
	l := &backends.Launch{Params: params, Block: [3]uint32{256, 1, 1}, Rank: len(dims), N: 1}
	copy(l.Shape[:], dims)
	for _, d := range dims {
		l.N *= uint64(d)
	}
	l.Grid = [3]uint32{uint32(l.N+255) / 256, 1, 1}
	for i := range slots {
		v := backends.View{Addr: uintptr(i+1) << 24, Type: isa.F32, Rank: l.Rank, Shape: l.Shape}
		for k, n := l.Rank-1, int64(1); k >= 0; k-- {
			v.Stride[k] = n
			n = n*dims[k] + gap
		}
		l.Slots = append(l.Slots, v)
	}
	return l
}

// enteredOf is a launch as code; nil: there never is any.
func enteredOf(t *testing.T, k backends.Entered, l *backends.Launch) []backends.Direct {
	t.Helper()
	parts, never := k.Direct(l, nil)
	require.Equal(t, parts == nil, never)
	return parts
}

const sum = "program sum\nslot x f32\nslot y f32\nslot z f32\n  ldg.f32 x, x[index]\n  ldg.f32 y, y[index]\n  add.f32 x, x, y\n  stg.f32 x, z[index]\n  exit\n"

// What is entered takes 50 ms, or less where threads would share it, and says how long it
// takes, as the kernel does of what lies near: who enters it may hold locks meanwhile.
func TestWhatIsEnteredIsShort(t *testing.T) {
	for threads, most := range map[int]float64{1: 50e6, 2: workers.Alone(2), 16: workers.Alone(16)} {
		b := on(t, jit.AVX2, threads)
		k := compiled(t, b, sum)
		for n := int64(1000); n < 300_000_000; n += n / 8 {
			l := launchOf(3, 0, nil, n)
			cost := k.Cost(l)
			require.Greater(t, cost, float64(n)*0.1)
			if 12*n > 2<<20 { // what lies farther away takes five times as long
				cost += 12 * float64(n) * (0.05 - 0.01)
			}
			parts := enteredOf(t, k, l)
			require.Equal(t, cost <= most, len(parts) == 1, "%d threads, %d elements, %v ns", threads, n, cost)
			if parts != nil {
				require.InEpsilon(t, cost, parts[0].Nanoseconds, 1e-6)
			}
		}
		infos, err := b.Devices()
		require.NoError(t, err)
		require.Equal(t, []float64{100e3, 50e6}, []float64{infos[0].Enters.Nanoseconds, infos[0].Enters.Most()})
		for _, rows := range []int64{1, 2, 64, 65} {
			parts := enteredOf(t, k, launchOf(3, 3, nil, rows, 20))
			require.Len(t, parts, map[bool]int{true: int(rows)}[rows <= 64])
			took := 0.0
			for i := range parts {
				took += parts[i].Nanoseconds
			}
			if parts != nil {
				require.InEpsilon(t, k.Cost(launchOf(3, 0, nil, rows*20)), took, 1e-6)
			}
		}
		require.Nil(t, enteredOf(t, k, launchOf(3, 0, nil, 0)))
	}
}

// How long a launch takes may depend on its parameters: then the code says so.
func TestWhatParametersBound(t *testing.T) {
	b := on(t, jit.AVX2, 1)
	loop := compiled(t, b, "program p\nslot x f32\nparam n u32\n  ldg.f32 v, x[index]\n  ldp.u32 k, n\n  loop k, end\n  add.f32 v, v, v\nend:\n  stg.f32 v, x[index]\n  exit\n")
	few, many := launchOf(1, 0, []uint64{3}, 100), launchOf(1, 0, []uint64{1 << 30}, 100)
	require.Less(t, loop.Cost(few), 1e3)
	require.Greater(t, loop.Cost(many), 1e9)
	require.Nil(t, enteredOf(t, loop, many))
	require.False(t, enteredOf(t, loop, few)[0].Bounded)
	require.True(t, enteredOf(t, compiled(t, b, sum), launchOf(3, 0, nil, 100))[0].Bounded)
	branch := compiled(t, b, "program p\nslot x f32\n  ldg.f32 v, x[index]\n  set.lt.f32 c0, v, 0\n  bra end, c0\n  sqrt.f32 v, v\nend:\n  stg.f32 v, x[index]\n  exit\n")
	fueled := launchOf(1, 0, nil, 100)
	require.True(t, enteredOf(t, branch, fueled)[0].Bounded)
	fueled.Fuel = 1
	require.NotNil(t, enteredOf(t, branch, fueled), "what has no loops needs no fuel")
	few.Fuel = 100
	require.Nil(t, enteredOf(t, loop, few))
	few.Fuel = 0
	endless := compiled(t, b, "program p\nslot x f32\n  ldg.f32 v, x[index]\nagain:\n  add.f32 v, v, v\n  bra again\n")
	require.Equal(t, true, endless.Cost(launchOf(1, 0, nil, 1)) > 1e300)
	require.Nil(t, enteredOf(t, endless, launchOf(1, 0, nil, 1)))
}

// What strips run is never entered, nor does the device say so.
func TestStripsAreNotEntered(t *testing.T) {
	b := on(t, jit.None, 1)
	require.Nil(t, enteredOf(t, compiled(t, b, sum), launchOf(3, 0, nil, 10)))
	for _, l := range levels[:2] {
		infos, err := on(t, l, 1).Devices()
		require.NoError(t, err)
		require.Equal(t, []bool{l != jit.None, l != jit.None}, []bool{infos[0].Enters != nil, infos[0].FewLanes})
	}
}

// stepOf is the only step of a product's plan, and its launch.
func stepOf(t *testing.T, b *bench, layouts ...kernels.Layout) (backends.Entered, *backends.Launch) {
	t.Helper()
	plan, err := kernels.Gemm.Whole(layouts)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 1)
	st := &plan.Steps[0]
	l := &backends.Launch{Grid: st.Grid, Block: st.Block, Rank: len(st.Shape), N: 1}
	copy(l.Shape[:], st.Shape)
	for _, d := range st.Shape {
		l.N *= uint64(d)
	}
	for i := range st.Slots {
		bind := &st.Slots[i]
		l.Slots = append(l.Slots, backends.View{Addr: uintptr(i+1) << 24, Type: bind.Type, Rank: 1, Bytes: bind.Shape[0] * int64(bind.Type.Size())})
	}
	for _, x := range st.Params {
		if x.Scalar {
			x.Value = 0
		}
		l.Params = append(l.Params, x.Value)
	}
	return b.kernel(st.Program).(backends.Entered), l
}

// Products that are entered take 50 ms, in 256 calls, which is less, or what threads would not
// share; each place is of a slot or of the frame.
func TestEnteredProductsAreShort(t *testing.T) {
	for _, threads := range []int{1, 2} {
		eachWidth(t, threads, func(t *testing.T, _, b *bench) {
			limit := min(50e6, workers.Alone(threads))
			square := func(n int64) []backends.Direct {
				x := kernels.Packed(isa.F32, n, n)
				k, l := stepOf(t, b, x, x, x)
				return enteredOf(t, k, l)
			}
			last, over := 0.0, false
			for n := int64(8); n <= 640; n += 8 {
				parts := square(n)
				if parts == nil { // too long, or too many calls, which larger ones may not be
					require.Greater(t, last, min(limit/2, 100e3))
					over = true
					continue
				}
				require.True(t, parts[0].Bounded)
				require.Greater(t, parts[0].Nanoseconds, last)
				last = parts[0].Nanoseconds
				require.LessOrEqual(t, last, limit)
			}
			require.True(t, over, "some are too long")
			if threads > 1 {
				return
			}
			// Stacks of matrices, whose calls are of many of them, or, of longer sums, two of each.
			for size, entered := range map[[2]int64]bool{{1, 1}: true, {256, 1}: true, {2000, 1}: true, {60_000, 1}: true, {128, 513}: true, {129, 513}: false} {
				k, l := stepOf(t, b, kernels.Packed(isa.F32, size[0], 1, size[1]), kernels.Packed(isa.F32, size[0], size[1], 1), kernels.Packed(isa.F32, size[0], 1, 1))
				require.Equal(t, entered, enteredOf(t, k, l) != nil, size)
			}
			// Of nothing, with rows anywhere.
			empty := kernels.Layout{Type: isa.F32, Shape: []int64{40, 0}, Stride: []int64{1 << 42, 1}}
			k, l := stepOf(t, b, empty, kernels.Packed(isa.F32, 0, 20), kernels.Packed(isa.F32, 40, 20))
			for _, d := range enteredOf(t, k, l) {
				for _, p := range d.Addresses {
					require.Less(t, int(p.Of), len(l.Slots))
				}
			}
		})
	}
}

// A frame is used again after a fault: what was noted of it is forgotten.
func TestFramesForgetFaults(t *testing.T) {
	const n = 64
	for _, l := range levels[1:] {
		for name, meet := range forgetful {
			t.Run(fmt.Sprintf("%v/%s", l, name), func(t *testing.T) {
				k := compiled(t, on(t, l, 1), forgetfulProgram(meet))
				var h host
				in, out := h.block(4*n), h.block(4*n)
				at := launchOf(2, 0, []uint64{1<<32 - 4, 2}, n)
				at.Block, at.Grid = [3]uint32{64, 1, 1}, [3]uint32{1, 1, 1}
				for i, m := range [][]byte{in, out} {
					at.Slots[i].Type, at.Slots[i].Addr, at.Slots[i].Bytes = isa.U32, addr(m), int64(len(m))
				}
				parts := enteredOf(t, k, at)
				require.Len(t, parts, 1)
				d := &parts[0]
				memory := h.block(len(d.Frame) + backends.FrameAlign)
				frame := unsafe.Pointer(unsafe.SliceData(memory))
				frame = unsafe.Add(frame, -uintptr(frame)%backends.FrameAlign)
				copy(unsafe.Slice((*byte)(frame), len(d.Frame)), d.Frame)
				for _, lane := range []int{20, 3, 40, -1, 63, -1} {
					clear(in)
					if lane >= 0 {
						binary.LittleEndian.PutUint32(in[4*lane:], 1<<20)
					}
					require.Equal(t, lane >= 0, enterPart(d, frame, at), "lane %d strays", lane)
				}
			})
		}
	}
}
