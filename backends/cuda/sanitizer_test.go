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
	t.Run("synccheck", func(t *testing.T) { // a barrier that some lanes pass by, which no program of Atlas may have
		entered(t, api)
		text := append([]byte(divergent), 0)
		var m driver.Module
		require.Zero(t, api.ModuleLoad(&m, &text[0], 0, nil, nil))
		defer func() { require.Zero(t, api.ModuleUnload(m)) }()
		var f driver.Func
		name := []byte("divergent\x00")
		require.Zero(t, api.ModuleFunction(&f, m, &name[0]))
		var s driver.Stream
		require.Zero(t, api.StreamCreate(&s, driver.StreamNonBlocking))
		defer func() { require.Zero(t, api.StreamDestroy(s)) }()
		var none unsafe.Pointer
		require.Zero(t, api.Launch(f, 1, 1, 1, 64, 1, 1, 0, s, &none, nil))
		api.StreamSync(s) // which may fail: the tool ends the kernel
	})
}

// divergent has 48 of a block's lanes wait at a barrier, while the others, who pass it
// by, are there: they wait until one of their warp goes to it, and some time more. Those
// who have left are not missed.
const divergent = `.version 6.3
.target sm_75
.address_size 64
.visible .entry divergent()
{
	.reg .pred %p;
	.reg .b32 %r;
	.reg .b64 %start, %now;
	.shared .b32 going;
	mov.u32 %r, %tid.x;
	setp.lt.u32 %p, %r, 32;
	@%p bra meet;
	setp.ge.u32 %p, %r, 48;
	@%p bra pass;
	st.volatile.shared.u32 [going], 1;
meet:
	bar.sync 0;
	ret;
pass:
	ld.volatile.shared.u32 %r, [going];
	setp.ne.u32 %p, %r, 1;
	@%p bra pass;
	mov.u64 %start, %clock64;
again:
	ld.volatile.shared.u32 %r, [going];
	mov.u64 %now, %clock64;
	sub.s64 %now, %now, %start;
	setp.lt.s64 %p, %now, 1000000;
	@%p bra again;
	ret;
}
`
