package jit_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

func kernel(t testing.TB, text string, l jit.Level) *jit.Kernel {
	t.Helper()
	if err := jit.Available(l); err != nil {
		t.Skipf("%v", err)
	}
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	k, err := jit.Compile(nil, f, l, func() (jit.Program, error) {
		t.Error("the launch was declined")
		return nil, os.ErrInvalid
	})
	require.NoError(t, err)
	t.Cleanup(k.Release)
	return k
}

// flat is a view of x, which stays where it is until the test ends: a View has but a
// number, so x would else be the collector's, or move with the stack it lies on.
func flat[T any](t testing.TB, typ isa.Type, x []T) backends.View {
	t.Cleanup(func() { runtime.KeepAlive(x) })
	w := backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(x))), Type: typ, Rank: 1, Bytes: int64(len(x) * typ.Size())}
	w.Shape[0], w.Stride[0] = int64(len(x)), 1
	return w
}

func launch(n int, params []uint64, slots ...backends.View) *backends.Launch {
	l := &backends.Launch{Slots: slots, Params: params, Grid: [3]uint32{uint32(n+255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 1,
		N: uint64(n), Record: new(backends.Record)}
	l.Shape[0] = int64(n)
	return l
}

// rounds multiplies and adds n times, in a loop whose length only the launch
// knows: a call of it may take long.
const rounds = `
program rounds
slot x f32
slot y f32
param n u32
  ldg.f32 v, x[index]
  ldp.u32 k, n
  loop k, end
  fma.f32 v, v, 0x1.8p-1, 0x1p-1
end:
  stg.f32 v, y[index]
  exit`

const square = `
program square
slot x f32
slot y f32
  ldg.f32 v, x[index]
  mul.f32 v, v, v
  stg.f32 v, y[index]
  exit`

// A launch of many short loops in a row, none of which looks whether it is
// cancelled, ends soon after it is.
func TestCancelBetweenShortLoops(t *testing.T) {
	var text strings.Builder
	text.WriteString("program p\nslot x f32\nslot y f32\n  ldg.f32 v, x[index]\n")
	for i := range 60 {
		fmt.Fprintf(&text, "  loop 500, e%d\n", i)
		text.WriteString(strings.Repeat("  fma.f32 v, v, 0.5, 1.0\n", 5))
		fmt.Fprintf(&text, "e%d:\n", i)
	}
	text.WriteString("  stg.f32 v, y[index]\n  exit")
	k := kernel(t, text.String(), jit.Detect())
	pool := workers.New(1)
	defer pool.Close()
	x, y := make([]float32, 1<<16), make([]uint32, 1<<16)
	l := launch(len(x), nil, flat(t, isa.F32, x), flat(t, isa.F32, y))
	done := make(chan error)
	go func() { done <- k.Run(l, pool) }()
	for atomic.LoadUint32(&y[0]) == 0 {
		runtime.Gosched()
	}
	l.Record.Stop()
	require.ErrorIs(t, <-done, backends.ErrCancelled)
	require.Zero(t, y[len(y)-1])
}

// A load by bytes is stray from the first byte beyond the slot on.
func TestBytesAtTheEnd(t *testing.T) {
	pool := workers.New(1)
	defer pool.Close()
	for typ, size := range map[isa.Type]int{isa.U8: 1, isa.I16: 2, isa.F32: 4, isa.U64: 8} {
		k := kernel(t, fmt.Sprintf(`
program bytes
slot x %[1]v
slot y %[1]v
  sreg g, global_lane
  ldg.%[1]v v, x[g]
  stg.%[1]v v, y[index]
  exit`, typ), jit.Detect())
		for reach := range 40 {
			const n = 32
			x, y := bytes.Repeat([]byte{1}, 64), make([]byte, 8*n)
			a, b := flat(t, isa.U8, x), flat(t, isa.U8, y)
			a.Type, b.Type, b.Shape[0], a.Bytes = typ, typ, n, int64(reach)
			var f *backends.ProgramFault
			faulted := errors.As(k.Run(launch(n, nil, a, b), pool), &f)
			inside := min(max(reach-size+1, 0), n) // lanes
			require.Equal(t, inside < n, faulted, "%v of %d bytes", typ, reach)
			require.Equal(t, inside*size, bytes.Count(y, []byte{1}), "%v of %d bytes", typ, reach)
			if faulted {
				require.EqualValues(t, inside, f.Lane, "%v of %d bytes", typ, reach)
			}
		}
	}
}

// pause999 is the 99.9th percentile of how long the collector stopped the
// program, in seconds, since the histogram before.
func pause999(before, after *metrics.Float64Histogram) float64 {
	total := uint64(0)
	counts := make([]uint64, len(after.Counts))
	for i := range counts {
		counts[i] = after.Counts[i] - before.Counts[i]
		total += counts[i]
	}
	seen := uint64(0)
	for i, c := range counts {
		if seen += c; float64(seen) >= 0.999*float64(total) {
			return after.Buckets[i]
		}
	}
	return 0
}

func pauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: append([]uint64(nil), h.Counts...), Buckets: h.Buckets}
}

// TestStress launches short and long work from eight threads while the
// collector runs all the time, stacks move, and the profiler's signals and
// those that preempt land in machine code. HOLOGRAM_STRESS_SECONDS makes it
// longer.
func TestStress(t *testing.T) {
	seconds := 2.0
	if brief.On() {
		seconds = 0.5
	}
	if s := os.Getenv("HOLOGRAM_STRESS_SECONDS"); s != "" {
		d, err := time.ParseDuration(s + "s")
		require.NoError(t, err)
		seconds = d.Seconds()
	}
	short, long := kernel(t, square, jit.Detect()), kernel(t, rounds, jit.Detect())
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	require.NoError(t, pprof.StartCPUProfile(new(bytes.Buffer)))
	defer pprof.StopCPUProfile()
	before := pauses()
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	pool := workers.New(4)
	defer pool.Close()
	var g sync.WaitGroup
	var launches [8]int
	for w := range launches {
		g.Add(1)
		go func() {
			defer g.Done()
			n := []int{1, 100, 5000, 300000}[w%4]
			x, y := make([]float32, n), make([]float32, n)
			from, to := flat(t, isa.F32, x), flat(t, isa.F32, y)
			for i := range x {
				x[i] = float32(i % 1000)
			}
			for time.Now().Before(end) {
				deep(w * 50) // so that the stack grows and moves
				if w < 4 {
					require.NoError(t, short.Run(launch(n, nil, from, to), pool))
				} else {
					k := uint64(1) << (w + 7)
					require.NoError(t, long.Run(launch(n, []uint64{k}, from, to), pool))
				}
				for i, v := range y {
					if w < 4 && v != x[i]*x[i] || w >= 4 && math.Abs(float64(v)-2) > 1e-6 {
						t.Errorf("lane %d is %v of %v", i, v, x[i])
						return
					}
				}
				launches[w]++
			}
		}()
	}
	g.Add(1)
	go func() {
		defer g.Done()
		for time.Now().Before(end) {
			runtime.GC()
			garbage = make([]byte, 1<<20)
		}
	}()
	g.Wait()
	after := pauses()
	t.Logf("launches %v; the collector's pauses: 99.9%% within %.2f ms", launches, 1e3*pause999(before, after))
	runtime.KeepAlive(garbage)
}

var garbage []byte

//go:noinline
func deep(n int) int {
	var room [64]int
	if n > 0 {
		room[n%64] = deep(n - 1)
	}
	return room[(n+1)%64]
}
