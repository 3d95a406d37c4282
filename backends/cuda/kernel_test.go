package cuda

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// A lane does several elements where that is right and worth it, and one else.
func TestChoiceOfVariant(t *testing.T) {
	const n = 1 << 22
	base := func() *backends.Launch {
		l := &backends.Launch{Rank: 2, Shape: [isa.MaxRank]int64{n / 64, 64}, N: n, Grid: [3]uint32{n / 256, 1, 1}, Block: [3]uint32{256, 1, 1}}
		for i := range uintptr(3) {
			l.Slots = append(l.Slots, backends.View{Addr: (i + 1) << 32, Type: isa.F32, Rank: 2, Shape: l.Shape, Stride: [isa.MaxRank]int64{64, 1}})
		}
		return l
	}
	const gather = "slot a f32\nslot b u32\nslot c f32\n ldg.u32 k, b[index]\n cvt.i64.u32 k, k\n ldg.f32 x, a[k]\n stg.f32 x, c[index]\n exit"
	loop := "slot a f32\nslot b u32\nslot c f32\n ldg.f32 x, a[index]\n ldg.u32 k, b[index]\n loop k, done\n add.f32 x, x, x\ndone:\n stg.f32 x, c[index]\n exit"
	for name, c := range map[string]struct {
		text   string
		change func(l *backends.Launch)
		vector int
		single uint64
	}{
		"contiguous":               {fakeAdd, nil, 4, 0},
		"a single element":         {fakeAdd, func(l *backends.Launch) { l.Slots[1].Stride = [isa.MaxRank]int64{} }, 4, 2},
		"in place":                 {fakeAdd, func(l *backends.Launch) { l.Slots[2].Addr = l.Slots[0].Addr }, 4, 0},
		"a gather":                 {gather, nil, 4, 0},
		"a loop":                   {loop, nil, 4, 0},
		"halves":                   {"slot a f16\nslot b bf16\nslot c bf16\n ldg.f16 x, a[index]\n cvt.bf16.f16 y, x\n stg.bf16 y, c[index]\n exit", nil, 8, 0},
		"doubles":                  {"slot a f64\nslot b u8\nslot c f64\n ldg.f64 x, a[index]\n stg.f64 x, c[index]\n exit", nil, 2, 0},
		"at a multiple of 4":       {fakeAdd, func(l *backends.Launch) { l.Slots[1].Addr += 4 }, 0, 0},
		"strided":                  {fakeAdd, func(l *backends.Launch) { l.Slots[0].Stride = [isa.MaxRank]int64{128, 2} }, 0, 0},
		"rows with gaps":           {fakeAdd, func(l *backends.Launch) { l.Slots[0].Stride[0] = 65 }, 0, 0},
		"backward":                 {fakeAdd, func(l *backends.Launch) { l.Slots[0].Stride = [isa.MaxRank]int64{-64, -1} }, 0, 0},
		"one element written":      {fakeAdd, func(l *backends.Launch) { l.Slots[2].Stride = [isa.MaxRank]int64{} }, 0, 0},
		"small":                    {fakeAdd, func(l *backends.Launch) { l.N = 100_000 }, 0, 0},
		"fuel where it is charged": {loop, func(l *backends.Launch) { l.Fuel = 5 }, 0, 0},
		"fuel where it is not":     {fakeAdd, func(l *backends.Launch) { l.Fuel = 5 }, 4, 0},
		"blocks matter": {"slot a f32\nslot b f32\nslot c f32\n ldg.f32 x, a[index]\n sreg k, lane.x\n cvt.f32.u32 y, k\n add.f32 x, x, y\n stg.f32 x, c[index]\n exit",
			nil, 0, 0},
		"a loop without a count": {"slot a f32\nslot b f32\nslot c f32\n ldg.f32 x, a[index]\nagain:\n mul.f32 x, x, x\n set.gt.f32 p, x, 1.0\n bra again, p\n stg.f32 x, c[index]\n exit",
			nil, 4, 0},
		"atomics": {"slot a u32\nslot b f32\nslot c u32\n ldg.u32 x, a[index]\n atom_add.u32 y, c[0], x\n exit", nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, c.text, 0)
			k := r.k.(*kernel)
			l := base()
			for i, typ := range k.types {
				l.Slots[i].Type = typ
			}
			if c.change != nil {
				c.change(l)
			}
			var space ptx.Space
			k.program.Layout.Fuse(l, &space)
			o := k.options(l, &space)
			require.Equal(t, c.vector, o.Vector)
			require.Equal(t, c.single, o.Single)
			if o.Vector > 0 {
				require.Equal(t, ptx.VectorLanes, o.Lanes)
			}
			r.close(t)
		})
	}
}

// What long launches of neighbours and of collectives read, writing something, lasts in the
// cache, but for what blocks at the end take back: as much as it holds.
func TestWhatLongLaunchesReadLasts(t *testing.T) {
	const blocks = 1 << 12
	const sums = "slot a f32\nslot b f32\nslot c f32\nblock 256\n ldg.f32 x, a[index]\n ldg.f32 y, b[index]\n add.f32 x, x, y\n block_scan_add.f32 x, x\n stg.f32 x, c[index]\n exit"
	for name, c := range map[string]struct {
		text   string
		change func(r *fakeRig)
		lasts  bool
	}{
		"a map":           {fakeAdd, func(*fakeRig) {}, true},
		"collectives":     {sums, func(*fakeRig) {}, true},
		"few bytes":       {fakeAdd, func(r *fakeRig) { r.l.Slots[1].Bytes -= 3 }, false},
		"hardly written":  {fakeAdd, func(r *fakeRig) { r.l.Slots[2].Bytes /= 4 }, false},
		"hardly read":     {fakeAdd, func(r *fakeRig) { r.l.Slots[0].Bytes, r.l.Slots[1].Bytes, r.l.Slots[2].Bytes = 1<<20, 1<<20, 1<<32 }, false},
		"strided":         {fakeAdd, func(r *fakeRig) { r.l.Slots[0].Stride[0] = 2 }, false},
		"an older device": {fakeAdd, func(r *fakeRig) { r.d.compute = 89 }, false},
		"blocks meet":     {sums, func(r *fakeRig) { r.k.(*kernel).meeting = kernels.Meeting{Blocks: 2} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t, c.text, 3)
			r.blocks(blocks)
			for i := range r.l.Slots {
				r.l.Slots[i].Bytes = (8*dependentBytes + 2) / 3
			}
			c.change(r)
			k := r.k.(*kernel)
			var space ptx.Space
			k.program.Layout.Fuse(&r.l, &space)
			o := k.options(&r.l, &space)
			require.Equal(t, c.lasts, o.Lasts)
			text, _, err := k.text(form{Options: o})
			require.NoError(t, err)
			require.Equal(t, c.lasts, strings.Contains(text, "evict_last"))
			if name == "a map" {
				r.d.cacheBytes = 48 << 20
				_, err := r.s.Launch(k, &r.l)
				require.NoError(t, err)
				require.Positive(t, r.s.tail(k, &r.l))
				require.Equal(t, r.s.tail(k, &r.l), binary.LittleEndian.Uint32(r.s.block[100:]))
			}
			r.close(t)
		})
	}
	r := newFakeRig(t, fakeAdd, 3)
	r.blocks(blocks)
	s, k := r.s, r.k.(*kernel)
	r.l.Slots[0].Bytes, r.l.Slots[1].Bytes, r.l.Slots[2].Bytes = 1<<29, 1<<28, 1<<40
	for _, c := range []struct {
		cache int32
		grids []grid
		tail  uint32
	}{
		{3 << 26, []grid{{size: [3]uint32{1 << 12, 1, 1}}}, 1<<12 - 1 - 1<<12/12}, // of 3·2²⁸ bytes that are read
		{0, []grid{{size: [3]uint32{1 << 12, 1, 1}}}, 1<<12 - 1},
		{math.MaxInt32, []grid{{size: [3]uint32{20, 1, 1}}}, 2},
		{math.MaxInt32, []grid{{size: [3]uint32{1, 1, 1}}}, 0},
		{3 << 26, []grid{{size: [3]uint32{1 << 12, 2, 1}}}, math.MaxUint32},
		{3 << 26, []grid{{size: [3]uint32{1 << 12, 1, 1}}, {size: [3]uint32{5, 1, 1}}}, math.MaxUint32},
	} {
		r.d.cacheBytes, s.grids = c.cache, c.grids
		require.Equal(t, c.tail, s.tail(k, &r.l), "%+v", c)
	}
	r.close(t)
}

// What a launch needs is made before it, and not where the caller only tries.
func TestSpecialize(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.d.eager = true
	k := r.k.(backends.Specializer)
	l := r.l
	l.Slots = append([]backends.View(nil), l.Slots...)
	for _, change := range []func(){
		func() {}, // vectors
		func() { l.Slots[1].Addr += 4; l.N, l.Shape[0] = 1000, 1000 }, // none
		func() { l.Rank, l.Shape[0], l.Shape[1] = 2, 20, 50; l.Slots[0].Stride = [isa.MaxRank]int64{51, 1} },
	} {
		change()
		made := r.calls["module"]
		require.ErrorIs(t, k.Specialize(&l, true), backends.ErrPending)
		require.Equal(t, made, r.calls["module"])
		require.NoError(t, k.Specialize(&l, false))
		require.Equal(t, made+1, r.calls["module"])
		require.NoError(t, k.Specialize(&l, true))
		made = r.calls["module"]
		_, err := r.s.Launch(r.k, &l)
		require.NoError(t, err)
		require.Equal(t, made, r.calls["module"], "a launch compiled")
	}
	r.close(t)
}

// Products of every layout are launched as tiles, of a shape that suits their size.
func TestProductsAreTiles(t *testing.T) {
	f := newFake()
	b := &Backend{load: func() (*driver.API, error) { return f.api, nil }}
	opened, err := b.Open(0)
	require.NoError(t, err)
	d := opened.(*device)
	defer func() { require.NoError(t, d.Close()) }()
	for _, typ := range []isa.Type{isa.F32, isa.F64} {
		for _, m := range [][]int64{{1024, 1024, 1024}, {2048, 2048, 2048}, {8192, 8192, 8192}, {100, 100, 100}, {4096, 4096, 64}, {64, 4096, 4096}, {999, 1001, 1003}} {
			for flags := range int64(4) {
				dims := append(m[:3:3], flags&1, flags>>1)
				plan, err := d.Plan(kernels.Gemm, typ, dims)
				require.NoError(t, err)
				if plan == nil {
					plan, err = kernels.Gemm.Plan(typ, dims)
					require.NoError(t, err)
				}
				step := plan.Steps[0]
				fn, _, err := ir.Canonical(step.Program)
				require.NoError(t, err)
				k, err := d.Compile(&backends.Unit{Source: step.Program, IR: fn, Hash: fn.Hash()}, backends.Variant{Proved: flags > 1})
				require.NoError(t, err)
				l := &backends.Launch{Grid: step.Grid, Block: step.Block, Rank: 1, N: 1, Shape: [isa.MaxRank]int64{step.Shape[0]}}
				l.N = uint64(step.Shape[0])
				for _, p := range step.Params {
					l.Params = append(l.Params, p.Value)
				}
				for i, s := range step.Slots {
					l.Slots = append(l.Slots, backends.View{Addr: uintptr(i+1) << 40, Bytes: s.Shape[0] * int64(s.Type.Size()), Type: s.Type})
				}
				got := k.(*kernel).form(l, new(ptx.Space))
				require.True(t, got.product.Is(), "%v %v", typ, dims)
				require.Equal(t, m[2] > kernels.ProductChunk && len(plan.Steps) == 1, got.product.Totals, "%v %v", typ, dims)
				l.Fuel = 7
				require.False(t, k.(*kernel).form(l, new(ptx.Space)).product.Is())
				k.Release()
			}
		}
	}
}
