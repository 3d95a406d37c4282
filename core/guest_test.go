package core

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// guest is an executor whose calls go to a stream of others, with memory of theirs.
type guest struct {
	testing.TB
	b      *asynctest.Backend
	ex     *Executor
	theirs *asynctest.Foreign
	freed  atomic.Int32 // calls whose memory the owner may have back
}

func newGuest(t *testing.T, o asynctest.Options) *guest {
	o.DLPackType = 2
	b := asynctest.New(o)
	g := &guest{TB: t, b: b, theirs: b.NewForeign(0)}
	t.Cleanup(g.theirs.Close)
	g.ex = executorOn(t, openAsync(t, b, 0))
	return g
}

// floats is memory of others, as an operand.
func (g *guest) floats(n int64) Operand {
	m, err := g.b.NewForeignMemory(0, 4*n)
	require.NoError(g, err)
	v := backends.View{Addr: m.Addr, Type: isa.F32, Rank: 1}
	v.Shape[0], v.Stride[0] = n, 1
	return Operand{View: v, DeviceType: 2}
}

func (g *guest) call(c Call) error {
	c.Stream, c.Deleter = g.theirs.Native(), func() { g.freed.Add(1) }
	return wait(g.ex.Call(&c))
}

func (g *guest) op(op *Operation, scalars []Scalar, operands ...Operand) error {
	return g.call(Call{Op: op, Operands: operands, Scalars: scalars})
}

// values reads memory of others.
func (g *guest) values(x Operand) []float32 {
	out := floats(g.TB.(*testing.T), g.ex, make([]float32, x.View.Shape[0])...)
	defer out.Free()
	require.NoError(g, g.op(kernels.Copy, nil, x, Operand{Buffer: out}))
	return values(g.TB.(*testing.T), out)
}

func lookUp(t *testing.T, name string) *Operation {
	op, ok := kernels.Lookup(name)
	require.True(t, ok)
	return op
}

// TestAGuestOfACapture calls for a stream that its owner captures: the work is his
// graph's, runs at each replay, and keeps its workspace until the graph is gone,
// whatever becomes of the executor.
func TestAGuestOfACapture(t *testing.T) {
	g := newGuest(t, asynctest.Options{Delay: 100 * time.Microsecond, Workspace: 1 << 20})
	x, y := g.floats(3), g.floats(3)
	softmax, add := lookUp(t, "softmax"), lookUp(t, "scalar_add")
	step := func() {
		require.NoError(t, g.op(softmax, nil, x, y))
		require.NoError(t, g.op(add, []Scalar{Float(1)}, x, x))
		require.NoError(t, g.op(add, []Scalar{Float(1)}, y, y))
	}
	set := func() { require.NoError(t, g.op(kernels.Fill, []Scalar{Float(5)}, x)) }
	set()
	step()
	g.theirs.Synchronize()
	require.NoError(t, wait(g.ex.Synchronize()))
	require.Equal(t, []float32{6, 6, 6}, g.values(x))
	set()
	require.NoError(t, wait(g.ex.Synchronize()))
	idle, freed := g.ex.device.MemoryStats().InUse, g.freed.Load()
	graph := g.theirs.BeginCapture()
	step()
	require.Equal(t, freed+3, g.freed.Load(), "memory of others is held after the call")
	g.theirs.EndCapture()
	require.Greater(t, g.ex.device.MemoryStats().InUse, idle+2<<20, "workspaces are not held")
	require.Equal(t, []float32{5, 5, 5}, g.values(x))
	for i := range 3 {
		<-graph.Replay(g.theirs)
		step() // takes no memory of the graph's
		g.theirs.Synchronize()
		require.Equal(t, float32(5+2*(i+1)), g.values(x)[0])
	}
	require.NoError(t, wait(g.ex.Synchronize()))
	other := executorOn(t, g.ex.device)
	last := graph.Replay(g.theirs)
	require.NoError(t, g.ex.Close())
	<-last
	<-graph.Replay(g.theirs)
	graph.Destroy()
	require.NoError(t, wait(other.Synchronize()))
	require.LessOrEqual(t, other.device.MemoryStats().InUse, idle)
}

// TestTheWorkspaceOfAGuest is none that earlier work on the stream still uses: the
// graph may be replayed on another, which does not wait for that.
func TestTheWorkspaceOfAGuest(t *testing.T) {
	g := newGuest(t, asynctest.Options{Workspace: 1 << 20, Report: func(s string) { t.Error(s) }})
	another := g.b.NewForeign(0)
	t.Cleanup(another.Close)
	x, y := g.floats(3), g.floats(3)
	add := lookUp(t, "scalar_add")
	call := func(o Operand) { require.NoError(t, g.op(add, []Scalar{Float(1)}, o, o)) }
	call(y)
	g.theirs.Synchronize()
	require.NoError(t, wait(g.ex.Synchronize()))
	goOn := make(chan struct{})
	g.theirs.Do(0, func() { <-goOn })
	call(x)
	graph := g.theirs.BeginCapture()
	call(y)
	g.theirs.EndCapture()
	<-graph.Replay(another)
	close(goOn)
	g.theirs.Synchronize()
	require.NoError(t, wait(g.ex.Synchronize()))
	graph.Destroy()
}

// TestFaultsInTheGraphsOfOthers: what a replay did wrong is told at the next
// synchronization, once.
func TestFaultsInTheGraphsOfOthers(t *testing.T) {
	g := newGuest(t, asynctest.Options{Delay: 100 * time.Microsecond})
	x := g.floats(4)
	stray := assemble(t, "program stray\nslot c f32\nparam at u64\nldp.u64 at, at\nstg.f32 1.0, c[at]\nexit")
	store := func(at int64) error {
		return g.call(Call{Program: stray, Operands: []Operand{x}, Scalars: []Scalar{Int(at)}, Dims: []int64{1}})
	}
	require.NoError(t, store(0))
	require.NoError(t, wait(g.ex.Synchronize()))
	graph := g.theirs.BeginCapture()
	require.NoError(t, store(4000))
	g.theirs.EndCapture()
	require.NoError(t, wait(g.ex.Synchronize()))
	for range 2 {
		<-graph.Replay(g.theirs)
		g.theirs.Synchronize()
		wants(t, wait(g.ex.Synchronize()), Faulted, "stray")
		require.NoError(t, wait(g.ex.Synchronize()))
	}
	<-graph.Replay(g.theirs)
	g.theirs.Synchronize()
	graph.Destroy() // the last one's is told too
	wants(t, wait(executorOn(t, g.ex.device).Synchronize()), Faulted, "stray")
	require.NoError(t, wait(g.ex.Synchronize()))
}

// TestWhatNoGuestMayDo is refused while the owner captures, and nothing is recorded.
func TestWhatNoGuestMayDo(t *testing.T) {
	g := newGuest(t, asynctest.Options{Specialize: true})
	x, mine, add := g.floats(4), floats(t, g.ex, 1, 2, 3, 4), lookUp(t, "scalar_add")
	even := g.floats(3)
	require.NoError(t, g.op(add, []Scalar{Float(1)}, even, even))
	phase := assemble(t, "program phase\nslot c u16\nphase_get p\nstg.u16 p, c[index]\nexit")
	sums := assemble(t, "program sums\nslot c f32\nldg.f32 x, c[index]\nmov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nexit")
	words := x
	words.View.Type = isa.U16
	calls := map[string]Call{
		"buffer":     {Op: kernels.Copy, Operands: []Operand{{Buffer: mine}, x}},
		"phase":      {Program: phase, Operands: []Operand{words}},
		"phase or r": {Program: sums, Operands: []Operand{x}},
	}
	for _, c := range calls {
		require.NoError(t, g.call(c))
	}
	require.NoError(t, wait(g.ex.Synchronize()))
	graph := g.theirs.BeginCapture()
	for text, c := range calls {
		wants(t, g.call(c), Unavailable, text)
	}
	wants(t, g.op(lookUp(t, "vector_relu"), nil, x, x), Unavailable, "call it once before the capture")
	// So is a call that is prepared, but not for arrays that lie like these.
	specials := g.b.Counts().Specials
	odd := x
	odd.View.Addr += 4
	odd.View.Shape[0] = 3
	wants(t, g.op(add, []Scalar{Float(1)}, odd, odd), Unavailable, "call it once before the capture")
	require.Equal(t, specials, g.b.Counts().Specials, "code is made while the owner captures")
	// Who waits for the outcome cannot have it.
	_, err := g.ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{x, x}, Stream: g.theirs.Native()})
	require.Error(t, err)
	g.theirs.EndCapture()
	launches := g.b.Counts().Launches
	<-graph.Replay(g.theirs)
	g.theirs.Synchronize()
	graph.Destroy()
	require.Equal(t, launches, g.b.Counts().Launches)
	require.NoError(t, g.op(lookUp(t, "vector_relu"), nil, x, x))
	require.NoError(t, wait(g.ex.Synchronize()))
	runtime.KeepAlive(mine)
}

// TestCallsWithMemoryOfOthersLeaveNothing: what calls hold until they have passed is
// garbage then, but for what the simulated device notes of tickets.
func TestCallsWithMemoryOfOthersLeaveNothing(t *testing.T) {
	g := newGuest(t, asynctest.Options{})
	x, y, add := g.floats(16), g.floats(16), lookUp(t, "vector_add")
	live := func(calls int) uint64 {
		for range calls {
			require.NoError(t, g.op(add, nil, x, x, y))
		}
		require.NoError(t, wait(g.ex.Synchronize()))
		runtime.GC()
		runtime.GC() // what pools hold lives through one
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	before := live(1000)
	const calls = 4000 // beside which what else the process does is little
	require.Less(t, int64(live(calls)-before), int64(200*calls), "bytes of %d calls", calls)
}
