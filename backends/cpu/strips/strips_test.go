package strips

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestNoAllocation launches again and again, small and large, without and
// with divergence, fuel, faults left out.
func TestNoAllocation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector's own don't count
	divergent := canonical(t, `
program d
slot a f32
slot b f32
slot c f32
  ldg.f32 x, a[index]
  cvt.u32.f32 n, x
  and.u32 n, n, 3
  loop n, end
  exp.f32 y, x
  set.lt.f32 p, y, 0x1p+0
  bra end, p
  add.f32 x, x, y
end:
  stg.f32 x, c[index]
  exit`)
	for name, f := range map[string]*ir.Func{"add": addTree(), "divergent": divergent} {
		for _, n := range []int{1, 1024, 200000} {
			k := mustCompile(t, f)
			kept = nil
			l := flat(n, 256)
			for range 3 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(i % 10)
				}
				l.Slots = append(l.Slots, view(isa.F32, x))
			}
			l.Fuel = 1000
			pool := workers.New(2)
			run := func() {
				if err := k.Run(l, pool); err != nil {
					t.Fatal(err)
				}
			}
			for range 10 {
				run()
			}
			// With workers the number of frames in use varies at first.
			allowed := 0.0
			if n > 100000 {
				allowed = 0.5
			}
			if a := testing.AllocsPerRun(brief.Or(50, 10), run); a > allowed {
				t.Errorf("%s of %d: %v allocations a launch", name, n, a)
			}
			pool.Close()
			k.Release()
		}
	}
}

// inPlace runs a tree on n elements. Slots 0, 1 and 2 are bound to one view, a,
// slot 3 to another, which it returns with a. Both start as 0, 1, 2 …
func inPlace(t *testing.T, tr *tree) (a, c []float32) {
	t.Helper()
	const n = 3000
	a, c = make([]float32, n), make([]float32, n)
	for i := range a {
		a[i], c[i] = float32(i), float32(i)
	}
	k := mustCompile(t, tr.f)
	require.NoError(t, k.Run(flat(n, 64, view(isa.F32, a), view(isa.F32, a), view(isa.F32, a), view(isa.F32, c)), alone))
	return a, c
}

// An out slot bound to the view of an in slot: values loaded before the store
// keep what they were, in whatever order they are computed with and stored.
func TestInPlace(t *testing.T) {
	types := []isa.Type{isa.F32, isa.F32, isa.F32, isa.F32}
	for name, c := range map[string]struct {
		build func(tr *tree)
		a, c  func(v float32) float32
	}{
		"stored at the end": {func(tr *tree) {
			x := tr.load(0)
			y := tr.bin(isa.ADD, x, x)
			z := tr.bin(isa.MUL, x, y)
			tr.store(1, y)
			tr.store(3, z)
		}, func(v float32) float32 { return 2 * v }, func(v float32) float32 { return v * (2 * v) }},
		"used after the store": {func(tr *tree) {
			x := tr.load(0)
			y := tr.bin(isa.ADD, x, x)
			tr.store(1, y)
			tr.store(3, tr.bin(isa.MUL, x, y))
		}, func(v float32) float32 { return 2 * v }, func(v float32) float32 { return v * (2 * v) }},
		"stored itself after the store": {func(tr *tree) {
			x := tr.load(0)
			tr.store(1, tr.bin(isa.ADD, x, x))
			tr.store(3, x)
		}, func(v float32) float32 { return 2 * v }, func(v float32) float32 { return v }},
		"loaded after the computation": {func(tr *tree) {
			x := tr.load(0)
			y := tr.bin(isa.ADD, x, x) // could be computed in slot 1's memory
			w := tr.load(2)
			tr.store(1, y)
			tr.store(3, tr.bin(isa.MUL, w, x))
		}, func(v float32) float32 { return 2 * v }, func(v float32) float32 { return v * v }},
		"one slot alone": {func(tr *tree) {
			x := tr.load(3)
			y := tr.bin(isa.ADD, x, x)
			w := tr.load(3)
			tr.store(3, y)
			tr.store(1, tr.bin(isa.MUL, w, x))
		}, func(v float32) float32 { return v * v }, func(v float32) float32 { return 2 * v }},
		"two stores": {func(tr *tree) {
			x := tr.load(0)
			tr.store(1, tr.bin(isa.ADD, x, x))
			y := tr.bin(isa.MUL, x, x)
			tr.store(1, y)
			tr.store(3, x)
		}, func(v float32) float32 { return v * v }, func(v float32) float32 { return v }},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(types...)
			c.build(tr)
			a, out := inPlace(t, tr)
			for i := range a {
				v := float32(i)
				require.Equal(t, c.a(v), a[i], "element %d in place", i)
				require.Equal(t, c.c(v), out[i], "element %d beside", i)
			}
		})
	}
}

// endless is a loop that no lane leaves.
const endless = `
program endless
slot c u32
again:
  stg.u32 1, c[index]
  bra again
  exit`

func TestCancel(t *testing.T) {
	k := mustCompile(t, canonical(t, endless))
	for _, n := range []int{1, 5000000} {
		kept = nil
		l := flat(n, 1, view(isa.U32, make([]uint32, n)))
		l.Record = new(backends.Record)
		time.AfterFunc(5*time.Millisecond, l.Record.Stop)
		if err := k.Run(l, workers.New(2)); !errors.Is(err, backends.ErrCancelled) {
			t.Errorf("%d lanes: %v", n, err)
		}
	}
}

func TestFuel(t *testing.T) {
	k := mustCompile(t, canonical(t, endless))
	l := flat(100, 32, view(isa.U32, make([]uint32, 100)))
	l.Fuel = 50
	var pf *backends.ProgramFault
	if err := k.Run(l, alone); !errors.As(err, &pf) || pf.Kind != isa.FaultFuel {
		t.Errorf("outcome %v", err)
	}
}

// TestWindow compares the check of addresses with exact sums at the ends of
// all ranges.
func TestWindow(t *testing.T) {
	ends := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -17, -8, -1, 0, 1, 4, 8, 100, 1 << 62, math.MaxInt64 - 8, math.MaxInt64 - 1, math.MaxInt64}
	for _, bytes := range []int64{0, 1, 4, 8, 100, 1 << 62, math.MaxInt64} {
		for _, offset := range ends {
			for _, size := range []int{1, 4, 8} {
				lo, hi := window(offset, bytes, size)
				for _, v := range ends {
					sum, carry := v+offset, (v >= 0) == (offset >= 0) && (v+offset >= 0) != (v >= 0)
					want := !carry && sum >= 0 && sum <= bytes-int64(size)
					if got := v >= lo && v <= hi; got != want {
						t.Errorf("%d + %d, %d of %d bytes: %v", v, offset, size, bytes, got)
					}
				}
			}
		}
	}
}

// TestPlaces sees that registers that are needed at the same time, or one in
// a loop and another before it, have places of their own.
func TestPlaces(t *testing.T) {
	c := &compiler{k: &Kernel{}, infos: []regInfo{
		{size: 4, start: 0, end: 10}, {size: 4, start: 1, end: 4}, {size: 8, start: 2, end: 3}, {size: 4, start: 0, end: 9, lasting: true},
		{size: 4, start: 5, end: 6}, {size: 4, start: 7, end: 7}, {size: 4, start: 8, end: 8, foreign: true}, {size: 4, start: 9, end: 9},
		{size: 4, start: 10, end: 10, foreign: true}, {size: 4, start: 11, end: 12},
	}}
	c.allocate()
	var all, numbers []int32
	for _, r := range c.infos {
		all, numbers = append(all, c.k.regs[r.number].place), append(numbers, r.number)
	}
	if c.k.laneBytes != 4+4+8+4 || all[4] != all[1] || all[9] == all[3] || slices.Index(all, all[0]) != 0 {
		t.Errorf("places %v, %d bytes", all, c.k.laneBytes)
	}
	// Two in turn have numbers of their own, and so have those that may hold memory of slots.
	require.Equal(t, all[1], all[8])
	require.Equal(t, numbers[1], numbers[5])
	require.Equal(t, numbers[1], numbers[7])
	require.Equal(t, numbers[6], numbers[8])
	require.Len(t, c.k.foreign, 1)
	require.Equal(t, numbers[6], c.k.foreign[0])
	require.NotEqual(t, numbers[1], numbers[4])
	require.NotEqual(t, numbers[1], numbers[6])
	require.NotEqual(t, numbers[4], numbers[6])
}

// Constants that no register lasts for take room for as long as they are needed.
func TestConstantsTakeLittleRoom(t *testing.T) {
	var b strings.Builder
	b.WriteString("program p\nslot x u32\nldg.u32 v, x[index]\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "mul.u32 v, v, %d\nxor.u32 v, v, %d\n", 4*i+3, 4*i+5)
	}
	k := mustCompile(t, canonical(t, b.String()+"stg.u32 v, x[index]\nexit"))
	require.LessOrEqual(t, k.laneBytes, 4*(maxLasting+8))
}

// A large program is mostly steps, as it is mostly nodes and instructions.
func TestStepsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(step{}), uintptr(64))
	require.LessOrEqual(t, unsafe.Sizeof(regInfo{}), uintptr(16))
}
