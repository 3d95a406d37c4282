package jit

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// The library's element-wise programs on narrow integers are packed: a group fills a
// vector with what memory holds of it. Masks are bytes beside what was compared.
func TestLibraryIsPacked(t *testing.T) {
	wide, narrow := targetOf(AVX512), targetOf(AVX2)
	for _, c := range []struct {
		op           *kernels.Op
		t            isa.Type
		in512, in256 int
	}{
		{kernels.VectorAdd, isa.I8, 64, 32}, {kernels.VectorMul, isa.U8, 64, 32}, {kernels.VectorMad, isa.I16, 32, 16},
		{kernels.VectorAbs, isa.I8, 64, 32}, {kernels.VectorClip, isa.U16, 32, 16}, {kernels.ScalarAdd, isa.I8, 64, 32},
		{kernels.Fill, isa.I8, 64, 32}, {kernels.Copy, isa.BF16, 32, 16}, {kernels.VectorAbs, isa.BF16, 32, 16},
		{kernels.VectorNeg, isa.F16, 32, 16}, {kernels.Fill, isa.F16, 32, 16}, {kernels.Fill, isa.BF16, 32, 16}, {kernels.Where, isa.BF16, 32, 8}, {kernels.Where, isa.I8, 64, 32},
		{kernels.VectorEqual, isa.I8, 64, 32}, {kernels.VectorLess, isa.I16, 32, 8}, {kernels.VectorLess, isa.F32, 16, 8},
		{kernels.VectorLess, isa.F64, 8, 4}, {kernels.VectorAdd, isa.BF16, 16, 8}, {kernels.VectorAdd, isa.I32, 16, 8},
	} {
		v, err := c.op.Program(c.t)
		require.NoError(t, err)
		fn, _, err := ir.Canonical(v)
		require.NoError(t, err)
		p, err := prepare(nil, fn)
		require.NoError(t, err)
		require.Equal(t, [2]int{c.in512, c.in256}, [2]int{p.groupLanes(wide, shape{}), p.groupLanes(narrow, shape{})}, "%s %v", c.op.Name, c.t)
	}
}

// So are the CPU's own plans that run by blocks: whatever of theirs goes over all
// elements has narrow integers alone in vectors.
func TestPlansArePacked(t *testing.T) {
	columns := kernels.Layout{Shape: []int64{300, 700}, Stride: []int64{1, 300}}
	for _, c := range []struct {
		op           *kernels.Op
		t            isa.Type
		in512, in256 int
	}{
		{kernels.ReduceSum, isa.I8, 64, 32}, {kernels.ReduceMax, isa.U8, 64, 32}, {kernels.ReduceMin, isa.I16, 32, 16}, {kernels.ReduceProd, isa.U16, 32, 16},
		{kernels.Argmax, isa.I8, 64, 32}, {kernels.Argmin, isa.U16, 32, 16}, {kernels.ReduceSum, isa.I32, 16, 8}, {kernels.Argmax, isa.F32, 16, 8},
	} {
		var plans []*kernels.Plan
		for _, cols := range []int64{100, 5000, 100_000} {
			p, err := tuned.Plan(c.op, c.t, []int64{1, cols}, 2)
			require.NoError(t, err)
			plans = append(plans, p)
		}
		if c.op != kernels.Argmax && c.op != kernels.Argmin {
			columns.Type = c.t
			p, err := tuned.PlanShapes(c.op, []kernels.Layout{columns, kernels.Packed(c.t, 300)}, 1, 2)
			require.NoError(t, err)
			plans = append(plans, p)
		}
		for _, plan := range plans {
			fn, _, err := ir.Canonical(plan.Steps[0].Program)
			require.NoError(t, err)
			p, err := prepare(nil, fn)
			require.NoError(t, err)
			s := shape{block: 1}
			require.Equal(t, [2]int{c.in512, c.in256}, [2]int{p.groupLanes(targetOf(AVX512), s), p.groupLanes(targetOf(AVX2), s)}, "%s %v: %s", c.op.Name, c.t, plan.Steps[0].Program.Program.Name)
		}
	}
}

// Sums that are kept in a wider type, and so are not joined in place, are machine code too.
func TestCumulativeSumsAreMachineCode(t *testing.T) {
	for _, ty := range []isa.Type{isa.F32, isa.BF16, isa.F16, isa.I8, isa.I64} {
		plan, err := tuned.Plan(kernels.Cumsum, ty, []int64{3, 100_000}, 1)
		require.NoError(t, err)
		for _, s := range plan.Steps {
			fn, _, err := ir.Canonical(s.Program)
			require.NoError(t, err)
			_, err = prepare(nil, fn)
			require.NoError(t, err, "%v: %s", ty, s.Program.Program.Name)
		}
	}
}

// What a logarithm gives for special arguments is chosen at once.
func TestLibraryChoosesAtOnce(t *testing.T) {
	for _, ty := range []isa.Type{isa.F32, isa.F64} {
		v, err := kernels.VectorLog.Program(ty)
		require.NoError(t, err)
		fn, _, err := ir.Canonical(v)
		require.NoError(t, err)
		p, err := prepare(nil, fn)
		require.NoError(t, err)
		require.Len(t, p.specials, 3, "%v", ty)
	}
}

// An argument that is a constant is compared with others too, so that which of both is the
// argument can't be told: with passes off nothing folds it before.
func TestConstantArgumentsAreChosenAsWritten(t *testing.T) {
	asm, err := isa.Assemble("log", "program p\nslot b f32\nlog.f32 z, inf\nstg.f32 z, b[index]\nexit\n")
	require.NoError(t, err)
	v, err := isa.Verify(asm)
	require.NoError(t, err)
	fn, _, err := ir.Canonical(v, ir.Without("tail", "fold", "number", "commute"))
	require.NoError(t, err)
	p, err := prepare(nil, fn)
	require.NoError(t, err)
	for _, s := range p.specials {
		require.Nil(t, s)
	}
}

// What stores will come to is fetched where the processor does not do it, and only there.
func TestStoresAreFetchedOnce(t *testing.T) {
	v, err := kernels.VectorAbs.Program(isa.F32)
	require.NoError(t, err)
	fn, _, err := ir.Canonical(v)
	require.NoError(t, err)
	p, err := prepare(nil, fn)
	require.NoError(t, err)
	for _, byItself := range []bool{false, true} {
		m := targetOf(AVX512)
		m.fetches = byItself
		code, _, err := p.generate(nil, m, shape{})
		require.NoError(t, err)
		require.Equal(t, !byItself, bytes.Contains(code, []byte{0x0f, 0x18}))
	}
}

// Products of all bytes by constants, by parameters, and by what is computed of them, on either side, are those of numbers modulo 256.
func TestBytesByConstants(t *testing.T) {
	pool := workers.New(1)
	defer pool.Close()
	const n = 4*256 + 5
	in := make([]byte, n)
	for i := range in {
		in[i] = byte(i)
	}
	for _, level := range []Level{AVX2, AVX512} {
		if Available(level) != nil {
			continue
		}
		for _, by := range []int{0, 1, 3, 127, 128, 200, 255} {
			for _, product := range []string{fmt.Sprintf("mul.u8 z, x, %d", by), fmt.Sprintf("mov.u8 c, %d\n  mul.u8 z, c, x", by),
				"mul.u8 z, x, f", "mul.u8 z, f, x", "mul.u8 c, f, 1\n  mul.u8 z, c, x"} {
				k, err := Compile(nil, canonical(t, "program p\nslot a u8\nslot b u8\nparam f u8\n  ldp.u8 f, f\n  ldg.u8 x, a[index]\n  "+product+"\n  stg.u8 z, b[index]\n  exit\n"), level, nil)
				require.NoError(t, err)
				out := make([]byte, n)
				view := func(b []byte) (v backends.View) {
					v = backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(b))), Type: isa.U8, Rank: 1, Bytes: n}
					v.Shape[0], v.Stride[0] = n, 1
					return v
				}
				l := &backends.Launch{Slots: []backends.View{view(in), view(out)}, N: n, Grid: [3]uint32{(n + 255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 1, Record: new(backends.Record), Params: []uint64{uint64(by)}}
				l.Shape[0] = n
				require.NoError(t, k.Run(l, pool))
				runtime.KeepAlive(in)
				for i, x := range in {
					require.Equal(t, x*byte(by), out[i], "%v %s: of %d", level, product, x)
				}
				k.Release()
			}
		}
	}
}
