package cuda_test

import (
	"flag"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cuda"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/isa"
)

// What compute-sanitizer looks at; gpu_suite.py runs it so. TestOnce is the
// subset of conformance that reaches every lowering rule, TestPlanted errors that
// its tools must find.

func TestOnce(t *testing.T) {
	device(t)
	conformance.Once(t, func() backends.Backend { return cuda.NewPlain() })
}

var planted = flag.Bool("planted", false, "make the errors that sanitizers are to find; without a sanitizer they may go unseen")

// crossed is a program whose lanes read what those of another warp have written
// to shared memory, with or without a barrier between the two.
func crossed(barrier string) *run {
	return &run{grid: flat(2), block: flat(256), shape: []int64{512}, text: `
program crossed
slot a u32
slot c u32
shared 1024
  ldg.u32 v, a[index]
  sreg l, lane.x
  shl.u32 l, l, 2
  sts.u32 v, shared[l]
` + barrier + `
  xor.u32 l, l, 512
  lds.u32 w, shared[l]
  stg.u32 w, c[index]
  exit`, slots: []slotData{{bytes: numbers(512, false)}, {bytes: make([]byte, 4*512)}}}
}

// Each of these is run in a process of its own by the tool that its name says.
func TestPlanted(t *testing.T) {
	device(t)
	if !*planted {
		t.Skip("only with -planted, under compute-sanitizer")
	}
	t.Run("racecheck", func(t *testing.T) { // what it gives is anybody's guess
		crossed("").on(t, cuda.NewPlain())
	})
	t.Run("clean", func(t *testing.T) { // racecheck has nothing to say of it
		want := crossed("  bar_sync 0").on(t, cuda.NewPlain())
		for i, b := range want.slots[1][:512] {
			require.Equal(t, numbers(512, false)[512+i], b)
		}
	})
	t.Run("memcheck", func(t *testing.T) { // a launch that is said to be proved and isn't, within the driver's own granule
		r := &run{proved: true, grid: flat(1), block: flat(32), shape: []int64{32}, text: `
slot a u32
slot c u32
  sreg g, global_lane
  shl.u64 o, g, 2
  ldg.u32 x, a[o + 128]
  stg.u32 x, c[index]
  exit`, slots: []slotData{{bytes: numbers(33, false)}, {bytes: make([]byte, 4*32)}}}
		r.on(t, cuda.NewPlain())
	})
	api, err := driver.Load()
	require.NoError(t, err)
	t.Run("initcheck", func(t *testing.T) { // memory that nobody has written: ours is cleared
		_, s, k := opened(t, "slot a u32\nslot c u32\n ldg.u32 x, a[index]\n add.u32 x, x, 1\n stg.u32 x, c[index]\n exit")
		entered(t, api)
		var p driver.Pointer
		require.Zero(t, api.MemAlloc(&p, 8192))
		defer func() { require.Zero(t, api.MemFree(p)) }()
		l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{1024}, N: 1024, Grid: flat(4), Block: flat(256)}
		for i := range 2 {
			l.Slots = append(l.Slots, backends.View{Addr: uintptr(p) + uintptr(4096*i), Type: isa.U32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
		}
		require.NoError(t, settle(t, s)(s.Launch(k, l)))
	})
	t.Run("synccheck", func(t *testing.T) { // which no program of Atlas may have
		entered(t, api)
		text := append([]byte(unmasked), 0)
		var m driver.Module
		require.Zero(t, api.ModuleLoad(&m, &text[0], 0, nil, nil))
		defer func() { require.Zero(t, api.ModuleUnload(m)) }()
		var f driver.Func
		name := []byte("unmasked\x00")
		require.Zero(t, api.ModuleFunction(&f, m, &name[0]))
		var s driver.Stream
		require.Zero(t, api.StreamCreate(&s, driver.StreamNonBlocking))
		defer func() { require.Zero(t, api.StreamDestroy(s)) }()
		var none unsafe.Pointer
		require.Zero(t, api.Launch(f, 1, 1, 1, 32, 1, 1, 0, s, &none, nil))
		api.StreamSync(s) // which may fail: the tool ends the kernel
	})
}

// unmasked has half a warp wait for lanes of which it is none itself. Barriers of a block
// that some lanes pass by are what synccheck is for, but its 2025.3 has nothing to say of
// them on compute capability 9.0, not even of CUDA C++'s __syncthreads.
const unmasked = `.version 6.3
.target sm_75
.address_size 64
.visible .entry unmasked()
{
	.reg .pred %p;
	.reg .b32 %r;
	mov.u32 %r, %tid.x;
	setp.lt.u32 %p, %r, 16;
	@%p bra done;
	bar.warp.sync 0xff;
done:
	ret;
}
`
