package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// within fails unless f returns in time, on a machine that does much else too.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// openAsync opens device number i of a simulated backend.
func openAsync(t *testing.T, b *asynctest.Backend, i int) *Device {
	t.Helper()
	dev, err := b.Open(i)
	require.NoError(t, err)
	d, err := newDevice("async", b, dev)
	require.NoError(t, err)
	return d
}

// TestTraceBehindAnEndlessLaunch traces on a device that is host-visible and
// works by itself, as Metal's do, while it has work without end.
func TestTraceBehindAnEndlessLaunch(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{HostVisible: true})
	ex, err := d.NewExecutor()
	require.NoError(t, err)
	c, _ := endlessLaunch(t, ex)
	within(t, "trace", func() {
		ev, err := ex.Trace((&LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{4}}).call(assemble(t, forever)), 0, func(string) {})
		pending(t, "trace", ev, err)
		ev, err = ex.Phase(new(int32))
		pending(t, "phase", ev, err)
	})
	within(t, "close", func() { wants(t, ex.close(0), Cancelled, "cancelled before its end") })
}

// TestABusyExecutorStarvesNobody reads what another executor writes to over and over.
func TestABusyExecutorStarvesNobody(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 200 * time.Microsecond})
	busy, other := executorOn(t, d), executorOn(t, d)
	x, y, out := floats(t, busy, 0, 0), floats(t, busy, 0, 0), floats(t, other, 0, 0)
	var queued atomic.Int32
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		for !stop.Load() {
			if err := wait(busy.Op("scalar_add", []*Buffer{y, x}, []Scalar{Float(1)}, nil)); err != nil {
				ended <- err
				return
			}
			queued.Add(1)
		}
		ended <- wait(busy.Synchronize())
	}()
	require.Eventually(t, func() bool { return queued.Load() > 10 }, 5*time.Second, time.Millisecond)
	within(t, "the read", func() {
		require.NoError(t, wait(other.Op("copy", []*Buffer{x, out}, nil, nil)))
		require.Equal(t, []float32{1, 1}, values(t, out))
	})
	stop.Store(true)
	require.NoError(t, <-ended)
}

// TestMemoryOfAnIdleExecutor lets an executor finish work on freed memory, and
// never looks at it again: others get the memory.
func TestMemoryOfAnIdleExecutor(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Memory: 64 << 20})
	a, b := executorOn(t, d), executorOn(t, d)
	big, err := b.Allocate(10<<20, isa.F32, false)
	require.NoError(t, err)
	require.NoError(t, wait(big.Fill(Float(1))))
	big.Free()
	again, err := a.Allocate(10<<20, isa.F32, false)
	require.NoError(t, err)
	require.NoError(t, wait(again.Fill(Float(2))))
	require.NoError(t, wait(a.Synchronize()))
}

// TestDeletersUseTheirExecutor has deleters queue work, many times, since what
// they could block is open for a moment only.
func TestDeletersUseTheirExecutor(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 3 * time.Microsecond})
	d := openAsync(t, b, 0)
	ex := executorOn(t, d)
	c, e := floats(t, ex, 0, 0), floats(t, ex, 0, 0)
	memory, err := b.NewForeignMemory(0, 64)
	require.NoError(t, err)
	var told atomic.Int32
	const times = 3000
	within(t, "an executor whose deleters use it", func() {
		for range times {
			b, err := ex.Wrap(memory.Addr, isa.F32, []int64{2}, nil, false, func() {
				_, _ = ex.Op("copy", []*Buffer{c, e}, nil, nil)
				told.Add(1)
			})
			require.NoError(t, err)
			ev, err := ex.Op("copy", []*Buffer{b, c}, nil, nil)
			b.Free()
			require.NoError(t, wait(ev, err))
		}
		require.NoError(t, wait(ex.Synchronize()))
		for told.Load() < times {
			time.Sleep(time.Millisecond)
		}
	})
	require.EqualValues(t, times, told.Load())
}

// TestBlocksAreFreeInStreamOrder frees what work that has not begun uses: the
// same stream gets the memory at once, and so does another, which waits on the
// device. The simulated device reports work that nothing orders.
func TestBlocksAreFreeInStreamOrder(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 500 * time.Microsecond, Memory: 48 << 20})
	first, second := executorOn(t, d), executorOn(t, d)
	out := floats(t, second, 0)
	for i := range 20 {
		ex := []*Executor{first, second, first}[i%3]
		b, err := ex.Allocate(10<<20, isa.F32, false)
		require.NoError(t, err)
		require.NoError(t, wait(b.Fill(Float(float64(i)))))
		part, err := b.View(5, []int64{1}, nil)
		require.NoError(t, err)
		require.NoError(t, wait(second.Op("copy", []*Buffer{part, out}, nil, nil)))
		part.Free()
		b.Free()
		if i%5 == 4 {
			require.Equal(t, []float32{float32(i)}, values(t, out))
		}
	}
}

// TestResidueLaunchesHaveTheirOwnOutcome launches for residues behind a launch
// that fails: its error is not theirs.
func TestResidueLaunchesHaveTheirOwnOutcome(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 100 * time.Microsecond})
	ex := executorOn(t, d)
	c := floats(t, ex, 0)
	stray := assemble(t, "program stray\nslot c f32\nstg.f32 1.0, c[4000]\nexit")
	sums := assemble(t, "program sums\nslot c f32\nldg.f32 x, c[index]\nmov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nexit")
	require.NoError(t, wait(ex.Launch(stray, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{1}})))
	var residue [isa.NumClasses]uint64
	for range 3 { // each sum begins with nothing
		require.NoError(t, wait(ex.Launch(sums, &LaunchArgs{Slots: []*Buffer{c}, Residue: &residue})))
		require.EqualValues(t, 7, residue[3])
	}
	wants(t, wait(ex.Synchronize()), Faulted, "stray")
}

// TestCancellingOneCall cancels a wait, and a launch for residues: what was queued
// before and after goes on, and nobody else hears of it.
func TestCancellingOneCall(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 40 * time.Millisecond})
	ex := executorOn(t, d)
	x, y, z := floats(t, ex, 0), floats(t, ex, 0), floats(t, ex, 0)
	c, err := ex.Allocate(4, isa.U32, true)
	require.NoError(t, err)
	sums := assemble(t, "program sums\nslot c u32\nagain:\nldg.u32 x, c[0]\nset.eq.u32 p, x, 0\nmov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nbra again, p\nexit")
	require.NoError(t, wait(x.Fill(Float(1))))
	ev, err := ex.Synchronize()
	pending(t, "synchronize", ev, err) // and cancels it
	require.NoError(t, wait(y.Fill(Float(2))))
	var residue [isa.NumClasses]uint64
	launch, err := ex.Launch(sums, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{4}, Residue: &residue})
	require.NoError(t, err)
	require.NoError(t, wait(z.Fill(Float(3))))
	after, err := ex.Synchronize()
	require.NoError(t, err)
	require.ErrorIs(t, launch.Wait(150*time.Millisecond), backends.ErrPending)
	require.ErrorIs(t, after.Wait(0), backends.ErrPending)
	launch.Cancel()
	wants(t, wait(launch, nil), Cancelled, `launch "sums"`)
	require.NoError(t, wait(after, nil))
	require.Equal(t, []float32{1, 2, 3}, append(append(values(t, x), values(t, y)...), values(t, z)...))
	require.NoError(t, wait(ex.Synchronize()))
}

// TestCancellingAllWork cancels an executor's work: who waits for what is before
// is told when that has ended, and not that it was cancelled.
func TestCancellingAllWork(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		_, _ = endlessLaunch(t, ex)
		ev, err := ex.Synchronize()
		require.NoError(t, err)
		require.ErrorIs(t, ev.Wait(20*time.Millisecond), backends.ErrPending)
		ex.Cancel()
		require.NoError(t, wait(ev, nil), "who only waits is not cancelled")
		require.NoError(t, wait(ex.Synchronize()))
	})
}

// TestForeignStreams works on a stream of others, between their own work on it.
func TestForeignStreams(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 100 * time.Microsecond, DLPackType: 2})
	d := openAsync(t, b, 0)
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, d)
	memory, err := b.NewForeignMemory(0, 64)
	require.NoError(t, err)
	view := backends.View{Addr: memory.Addr, Type: isa.F32, Rank: 1}
	view.Shape[0], view.Stride[0] = 4, 1
	out := floats(t, ex, 0, 0, 0, 0)
	var told atomic.Int32
	operand := Operand{View: view, DeviceType: 2}
	for i := range 10 {
		require.NoError(t, wait(ex.Call(&Call{Op: kernels.Fill, Operands: []Operand{operand}, Scalars: []Scalar{Float(float64(i))},
			Stream: theirs.Native(), Deleter: func() { told.Add(1) }})))
		require.NoError(t, wait(ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{operand, {Buffer: out}},
			Stream: theirs.Native(), Deleter: func() { told.Add(1) }})))
		// Of memory of ours the executor's own stream waits for theirs.
		require.Equal(t, []float32{float32(i), float32(i), float32(i), float32(i)}, values(t, out))
	}
	require.NoError(t, wait(ex.Synchronize()))
	require.EqualValues(t, 20, told.Load())
	operand.DeviceID = 1
	_, err = ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{operand, {Buffer: out}}, Stream: theirs.Native(), Deleter: func() { told.Add(1) }})
	wants(t, err, Unavailable, "copy: src: the array is on DLPack device (2, 1)")
	require.EqualValues(t, 21, told.Load())
	operand.DeviceID = 0
	_, err = ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{operand, {Buffer: out}}, Stream: 12345})
	require.Error(t, err)
	// Without a deleter the call waits for its end.
	ev, err := ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{operand, {Buffer: out}}, Stream: theirs.Native()})
	require.NoError(t, err)
	require.NotNil(t, ev)
	require.NoError(t, wait(ev, nil))
	_, err = ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{operand, {Buffer: out}}, Try: true})
	wants(t, err, Busy, "wait")
}

// TestMemoryInAStreamsOrder works on memory of others that its owner uses in the order
// of the stream: nobody waits and nobody is told.
func TestMemoryInAStreamsOrder(t *testing.T) {
	for _, unified := range []bool{false, true} { // else the device is told of memory of others
		b := asynctest.New(asynctest.Options{Delay: time.Millisecond, DLPackType: 2, Unified: unified})
		d := openAsync(t, b, 0)
		require.Equal(t, !unified, d.imports())
		theirs := b.NewForeign(0)
		t.Cleanup(theirs.Close)
		memory, err := b.NewForeignMemory(0, 64)
		require.NoError(t, err)
		view := backends.View{Addr: memory.Addr, Type: isa.F32, Rank: 1}
		view.Shape[0], view.Stride[0] = 4, 1
		operand := Operand{View: view, DeviceType: 2}
		ex := executorOn(t, d)
		out := floats(t, ex, 0, 0, 0, 0)
		call := func(c Call) error {
			c.Ordered = true
			ev, err := ex.Call(&c)
			require.Nil(t, ev, "it waits")
			return err
		}
		for i := range 10 {
			require.NoError(t, call(Call{Op: kernels.Fill, Operands: []Operand{operand}, Scalars: []Scalar{Float(float64(i))}, Stream: theirs.Native()}))
			require.NoError(t, call(Call{Op: kernels.Copy, Operands: []Operand{operand, {Buffer: out}}, Stream: theirs.Native()}))
			require.Equal(t, []float32{float32(i), float32(i), float32(i), float32(i)}, values(t, out))
		}
		for _, c := range []Call{{}, {Stream: theirs.Native(), Deleter: func() {}}} {
			c.Op, c.Operands = kernels.Copy, []Operand{operand, {Buffer: out}}
			wants(t, call(c), Invalid, "copy: memory of others is in the order of a stream, which must be given")
		}
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.Close())
	}
}

// TestSeveralDevices has two devices of one backend, whose memory and kernels
// are their own.
func TestSeveralDevices(t *testing.T) {
	b := asynctest.New(asynctest.Options{Devices: 2})
	one, two := executorOn(t, openAsync(t, b, 0)), executorOn(t, openAsync(t, b, 1))
	x, y := floats(t, one, 1, 2), floats(t, two, 0, 0)
	_, err := two.Op("copy", []*Buffer{x, y}, nil, nil)
	wants(t, err, Invalid, "the buffer is on async")
	require.NoError(t, wait(y.CopyFrom(x)))
	p := assemble(t, double)
	for _, pair := range []struct {
		ex *Executor
		b  *Buffer
	}{{one, x}, {two, y}} {
		require.NoError(t, wait(pair.ex.Launch(p, &LaunchArgs{Slots: []*Buffer{pair.b, pair.b}})))
		require.Equal(t, []float32{2, 4}, values(t, pair.b))
	}
}

// TestDevicePlans gives operations the device's own plans and workspaces.
func TestDevicePlans(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Plans: true, Workspace: 1000, Delay: 20 * time.Microsecond})
	ex, host := executorOn(t, d), executorOn(t, testDevices(t)["cpu"])
	in := make([]float32, 300)
	for i := range in {
		in[i] = float32(math.Sin(float64(i)))
	}
	x, y := floats(t, ex, in...), floats(t, ex, in...)
	hx, hy := floats(t, host, in...), floats(t, host, in...)
	for range 3 {
		require.NoError(t, wait(ex.Op("softmax", []*Buffer{x, y}, nil, []int64{3, 100})))
		require.NoError(t, wait(ex.Op("softmax", []*Buffer{y, y}, nil, []int64{3, 100})))
		require.NoError(t, wait(host.Op("softmax", []*Buffer{hx, hy}, nil, []int64{3, 100})))
		require.NoError(t, wait(host.Op("softmax", []*Buffer{hy, hy}, nil, []int64{3, 100})))
		require.Equal(t, values(t, hy), values(t, y))
	}
	require.NoError(t, wait(ex.Synchronize()))
}

// TestGridLimits refuses launches beyond what the device takes.
func TestGridLimits(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{MaxGrid: [3]uint32{4, 4, 4}}))
	c := floats(t, ex, make([]float32, 2000)...)
	wants(t, wait(c.Fill(Float(1))), Invalid, "grid (8, 1, 1); asynctest takes at most (4, 4, 4)")
	part, err := c.View(0, []int64{1000}, nil)
	require.NoError(t, err)
	require.NoError(t, wait(part.Fill(Float(1))))
}

// TestALostDevice goes on until the device is lost, and then says so for ever.
func TestALostDevice(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{Lose: 5, Delay: 50 * time.Microsecond}))
	c, err := ex.Allocate(4, isa.F32, true)
	require.NoError(t, err)
	for range 10 {
		if _, err = c.Fill(Float(1)); err != nil {
			break
		}
	}
	if err == nil {
		err = wait(ex.Synchronize())
	}
	require.ErrorIs(t, err, backends.ErrLost)
	wants(t, err, Lost, "fill: ")
	// Every executor on the device says so, and what was done when it happened.
	_, err = ex.device.NewExecutor()
	wants(t, err, Lost, "only a new process can use it again; what failed first, or was the first not known to be done: fill: ")
	_, marked := ex.Record(0)
	for _, err := range []error{wait(c.Fill(Float(1))), wait(ex.Op("vector_add", []*Buffer{c, c, c}, nil, nil)), marked} {
		wants(t, err, Lost, "fill: ")
	}
	within(t, "close", func() { _ = ex.Close() })
}

// TestCapture replays launches, of which some fault, on other values.
func TestCapture(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x, y, out := floats(t, ex, 1, 2, 3), floats(t, ex, 0, 0, 0), floats(t, ex, 0, 0, 0)
		run := func() {
			require.NoError(t, wait(ex.Op("scalar_mul", []*Buffer{x, y}, []Scalar{Float(2)}, nil)))
			require.NoError(t, wait(ex.Op("softmax", []*Buffer{y, y}, nil, []int64{1, 3})))
			require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{y, out}, nil, []int64{1, 3})))
		}
		run() // kernels are compiled, and this is what replays must give
		require.NoError(t, wait(ex.Synchronize()))
		want := values(t, out)[0]
		require.NoError(t, wait(out.Fill(Float(0))))
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.BeginCapture())
		wants(t, ex.BeginCapture(), Invalid, "captures already")
		run()
		_, err := ex.Phase(new(int32))
		wants(t, err, Invalid, "captures cannot wait")
		g, err := ex.EndCapture()
		require.NoError(t, err)
		require.Equal(t, []float32{0, 0, 0}, values(t, out), "a capture ran")
		y.Free() // the graph keeps it
		for range 5 {
			require.NoError(t, wait(out.Fill(Float(0))))
			require.NoError(t, wait(ex.Replay(g)))
			require.Equal(t, want, values(t, out)[0])
		}
		g.Release()
		_, err = ex.Replay(g)
		wants(t, err, BadHandle, "the graph is freed")
		_, err = ex.EndCapture()
		wants(t, err, Invalid, "does not capture")

		// Faults are read after a replay.
		index, err := ex.Allocate(1, isa.U32, true)
		require.NoError(t, err)
		p := assemble(t, "program at\nslot i u32\nslot c f32\nldg.u32 k, i[index]\ncvt.u64.u32 k, k\nstg.f32 1.0, c[k]\nexit")
		launch := &LaunchArgs{Slots: []*Buffer{index, out}, Shape: []int64{1}}
		require.NoError(t, wait(ex.Launch(p, launch)))
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.BeginCapture())
		require.NoError(t, wait(ex.Launch(p, launch)))
		g, err = ex.EndCapture()
		require.NoError(t, err)
		for _, stray := range []bool{false, true, false} {
			data := hostBytes(4)
			if stray {
				binary.LittleEndian.PutUint32(data, 4000)
			}
			require.NoError(t, wait(index.Write(addressOf(data), 0, 4)))
			err := wait(ex.Replay(g))
			if stray {
				wants(t, err, Faulted, "stray access")
			} else {
				require.NoError(t, err)
			}
		}
		g.Release()
		require.NoError(t, wait(ex.Synchronize()))
	})
}

// TestInjectedFaults lets each kind of call fail at each of its first ordinals. An
// allocation that fails is made again, once what is cached was given back, so
// nobody hears of it; other errors surface once. Nothing hangs, leaks or is lost.
func TestInjectedFaults(t *testing.T) {
	for name, kind := range map[string]struct {
		options func(n int) asynctest.Options
		retried bool
		least   int // how many calls of the kind there are
	}{
		"alloc":      {func(n int) asynctest.Options { return asynctest.Options{FailAlloc: n} }, true, 1},
		"alloc host": {func(n int) asynctest.Options { return asynctest.Options{FailAllocHost: n} }, true, 1},
		"launch":     {func(n int) asynctest.Options { return asynctest.Options{FailLaunch: n} }, false, 6},
		"copy":       {func(n int) asynctest.Options { return asynctest.Options{FailCopy: n} }, false, 6},
		"fill":       {func(n int) asynctest.Options { return asynctest.Options{FailFill: n} }, false, 3},
	} {
		injected := 0
		for n := 1; n <= 6; n++ {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				b := asynctest.New(kind.options(n))
				d := openAsync(t, b, 0)
				ex, err := d.NewExecutor()
				require.NoError(t, err)
				seen := 0
				note := func(err error) {
					if err != nil {
						seen++
						require.ErrorIs(t, err, asynctest.ErrInjected)
					}
				}
				within(t, name, func() {
					data := hostBytes(16)
					for range 4 {
						b, err := ex.Allocate(4, isa.F32, true)
						require.NoError(t, err)
						note(wait(b.Write(addressOf(data), 0, 16)))
						note(wait(ex.Op("vector_abs", []*Buffer{b, b}, nil, nil)))
						note(wait(ex.Op("softmax", []*Buffer{b, b}, nil, []int64{1, 4})))
						note(wait(b.Read(addressOf(data), 0, 16)))
						b.Free()
					}
					note(wait(ex.Synchronize()))
					note(ex.Close())
				})
				require.Zero(t, ex.Used())
				injected += b.Counts().Injected
				if kind.retried {
					require.Zero(t, seen)
				} else {
					require.Equal(t, b.Counts().Injected, seen)
				}
			})
		}
		require.GreaterOrEqual(t, injected, kind.least, name)
	}
}

// TestACancelledSynchronize waits for two streams, and gives up: what fails later
// is told to who waits then.
func TestACancelledSynchronize(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 40 * time.Millisecond})
	d := openAsync(t, b, 0)
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, d)
	c := floats(t, ex, 0)
	stray := assemble(t, "program stray\nslot c f32\nstg.f32 1.0, c[4000]\nexit")
	launch := &Call{Program: stray, Operands: []Operand{{Buffer: c}}, Dims: []int64{1}, Stream: theirs.Native()}
	require.NoError(t, wait(ex.Call(launch)))
	ev, err := ex.Synchronize()
	pending(t, "synchronize", ev, err) // and cancels it
	time.Sleep(100 * time.Millisecond)
	wants(t, wait(ex.Synchronize()), Faulted, "stray")
	require.NoError(t, wait(ex.Synchronize()))
}

// TestEverNewForeignStreams calls on ever new streams of others, as a program does
// that makes one for each request: few are remembered, and nothing of those that
// are forgotten is lost, neither their order nor their errors.
func TestEverNewForeignStreams(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 100 * time.Microsecond})
	d := openAsync(t, b, 0)
	ex := executorOn(t, d)
	x, y := floats(t, ex, 0), floats(t, ex, 0)
	stray := assemble(t, "program stray\nslot c f32\nstg.f32 1.0, c[4000]\nexit")
	const streams = 4 * maxForeign
	for i := range streams {
		theirs := b.NewForeign(0)
		require.NoError(t, wait(ex.Call(&Call{Program: stray, Operands: []Operand{{Buffer: x}}, Dims: []int64{1}, Stream: theirs.Native()})))
		require.NoError(t, wait(ex.Call(&Call{Op: kernels.ScalarAdd, Operands: []Operand{{Buffer: y}, {Buffer: y}}, Scalars: []Scalar{Float(1)},
			Stream: theirs.Native()})))
		if i%10 == 9 {
			time.Sleep(20 * time.Millisecond) // so that the last have ended
		}
	}
	require.Less(t, b.Counts().Streams, 2*maxForeign)
	err := wait(ex.Synchronize())
	wants(t, err, Faulted, "stray")
	told := strings.Count(err.Error(), "stray:") + strings.Count(err.Error(), "stray\":")
	_, more, _ := strings.Cut(err.Error(), "and ")
	beyond := 0
	_, _ = fmt.Sscanf(more, "%d more errors", &beyond)
	require.Equal(t, streams, told+beyond, err)
	require.NoError(t, wait(ex.Synchronize()))
	require.Equal(t, []float32{streams}, values(t, y))
}

// TestReadingWhatAForeignStreamWrote reads what a launch on a stream of others
// should have written: that it failed is told by the read.
func TestReadingWhatAForeignStreamWrote(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 5 * time.Millisecond})
	d := openAsync(t, b, 0)
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, d)
	x := floats(t, ex, 0)
	stray := assemble(t, "program stray\nslot c f32\nstg.f32 1.0, c[4000]\nexit")
	require.NoError(t, wait(ex.Call(&Call{Program: stray, Operands: []Operand{{Buffer: x}}, Dims: []int64{1}, Stream: theirs.Native()})))
	data := hostBytes(4)
	wants(t, wait(x.Read(addressOf(data), 0, 4)), Faulted, "stray")
	require.NoError(t, wait(ex.Synchronize()))
}

// TestWritingWhatAForeignStreamReads copies from the host to what a launch on a busy
// stream of others is still to read: it reads what was there when it was queued.
func TestWritingWhatAForeignStreamReads(t *testing.T) {
	for name, bytes := range map[string]int64{"few": 4, "many": 2 * stagePiece} {
		t.Run(name, func(t *testing.T) {
			b := asynctest.New(asynctest.Options{Delay: 5 * time.Millisecond})
			d := openAsync(t, b, 0)
			theirs := b.NewForeign(0)
			t.Cleanup(theirs.Close)
			ex := executorOn(t, d)
			x, err := ex.Allocate(bytes/4, isa.F32, true)
			require.NoError(t, err)
			first, y := floats(t, ex, 1), floats(t, ex, 2)
			copies := func(from, to *Buffer) {
				require.NoError(t, wait(ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{{Buffer: from}, {Buffer: to}}, Dims: []int64{1}, Stream: theirs.Native()})))
			}
			for range 20 {
				copies(first, y)
			}
			copies(x, y)
			data := hostBytes(bytes)
			binary.LittleEndian.PutUint32(data, math.Float32bits(3))
			require.NoError(t, wait(x.Write(addressOf(data), 0, bytes)))
			require.Equal(t, []float32{0}, values(t, y))
		})
	}
}

// watched is a queue whose being forgotten is told.
type watched struct {
	queue.Stream
	idle, closing func() // may be nil
}

func (s *watched) Idle() bool {
	idle := s.Stream.Idle()
	if s.idle != nil {
		s.idle()
	}
	return idle
}

func (s *watched) Close(d time.Duration) error {
	if s.closing != nil {
		s.closing()
	}
	return s.Stream.Close(d)
}

// forgetting makes an executor that knows as many streams of others as it
// remembers, and returns the one that it will forget first, with its number.
// Another call of more makes it do so.
func forgetting(t *testing.T) (ex *Executor, first *watched, native uintptr, more func()) {
	b := asynctest.New(asynctest.Options{Delay: 5 * time.Millisecond})
	d := openAsync(t, b, 0)
	var natives []uintptr
	for range maxForeign + 1 {
		f := b.NewForeign(0)
		t.Cleanup(f.Close)
		natives = append(natives, f.Native())
	}
	ex = executorOn(t, d)
	call := func(native uintptr) *foreignStream {
		s, err := ex.on(native, false)
		if err != nil {
			t.Error(err)
			return nil
		}
		ex.done(s)
		return s
	}
	s := call(natives[0])
	first = &watched{Stream: s.Stream}
	s.Stream = first
	for _, n := range natives[1:maxForeign] {
		call(n)
	}
	return ex, first, natives[0], func() { call(natives[maxForeign]) }
}

// TestStreamsInUseAreNotForgotten: those go that are unused longest, however long ago
// they were first used.
func TestStreamsInUseAreNotForgotten(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	d := openAsync(t, b, 0)
	natives := make([]uintptr, 2*maxForeign)
	for i := range natives {
		f := b.NewForeign(0)
		t.Cleanup(f.Close)
		natives[i] = f.Native()
	}
	ex := executorOn(t, d)
	for i := range natives {
		for _, n := range []uintptr{natives[0], natives[i]} {
			s, err := ex.on(n, false)
			require.NoError(t, err)
			ex.done(s)
		}
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	require.ElementsMatch(t, append(natives[maxForeign+1:], natives[0]), slices.Collect(maps.Keys(ex.foreign)))
}

// TestACallWhileItsStreamIsForgotten calls on a stream of others that was found
// idle just before: it stays, and the call comes to its end.
func TestACallWhileItsStreamIsForgotten(t *testing.T) {
	ex, first, native, more := forgetting(t)
	y := floats(t, ex, 1)
	first.idle = func() {
		first.idle = nil
		require.NoError(t, wait(ex.Call(&Call{Op: kernels.ScalarAdd, Operands: []Operand{{Buffer: y}, {Buffer: y}}, Scalars: []Scalar{Float(1)}, Stream: native})))
	}
	more()
	require.Nil(t, first.idle, "the stream was not looked at")
	require.NoError(t, wait(ex.Synchronize()))
	require.Equal(t, []float32{2}, values(t, y))
}

// TestClosingWaitsForWhatIsForgotten closes an executor that is about to forget
// a stream of others: both have ended then.
func TestClosingWaitsForWhatIsForgotten(t *testing.T) {
	ex, first, _, more := forgetting(t)
	inside, goOn, forgotten := make(chan struct{}), make(chan struct{}), make(chan struct{})
	first.closing = func() {
		close(inside)
		<-goOn
	}
	go func() {
		more()
		close(forgotten)
	}()
	<-inside
	closed := make(chan error)
	go func() { closed <- ex.Close() }()
	select {
	case <-closed:
		t.Error("the executor is closed, and a stream of it is not")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	<-forgotten
	if !t.Failed() {
		require.NoError(t, <-closed)
	}
}

// late is a stream that takes its time to tell what became of work.
type late struct {
	backends.Stream
	pause time.Duration
}

func (s *late) Wait(t backends.Ticket, d time.Duration) error {
	err := s.Stream.Wait(t, d)
	if !errors.Is(err, backends.ErrPending) {
		time.Sleep(s.pause)
	}
	return err
}

func (s *late) Await(other backends.Stream, t backends.Ticket) error {
	if l, ok := other.(*late); ok {
		other = l.Stream
	}
	return s.Stream.Await(other, t)
}

// TestReadingWhileOthersLook reads what a launch on a stream of others should
// have written, while another goroutine is about to learn that it failed.
func TestReadingWhileOthersLook(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 5 * time.Millisecond})
	d := openAsync(t, b, 0)
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex := executorOn(t, d)
	own := ex.stream.Target().Line
	own.Stream = &late{own.Stream, 0}
	x := floats(t, ex, 0)
	s, err := ex.on(theirs.Native(), false)
	require.NoError(t, err)
	line := s.Target().Line
	line.Stream = &late{line.Stream, 30 * time.Millisecond}
	ex.done(s)
	stray := assemble(t, "program stray\nslot c f32\nstg.f32 1.0, c[4000]\nexit")
	for range 3 {
		require.NoError(t, wait(ex.Call(&Call{Program: stray, Operands: []Operand{{Buffer: x}}, Dims: []int64{1}, Stream: theirs.Native()})))
		data := hostBytes(4)
		wants(t, wait(x.Read(addressOf(data), 0, 4)), Faulted, "stray")
	}
}

// TestForgettingWhileOthersCall calls on many streams of others from several
// goroutines, while others synchronize, cancel and close.
func TestForgettingWhileOthersCall(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	d := openAsync(t, b, 0)
	var natives [2 * maxForeign]uintptr
	for i := range natives {
		theirs := b.NewForeign(0)
		t.Cleanup(theirs.Close)
		natives[i] = theirs.Native()
	}
	ex := executorOn(t, d)
	x, y := floats(t, ex, 0), floats(t, ex, 0)
	var group sync.WaitGroup
	call := func(i int) error {
		return wait(ex.Call(&Call{Op: kernels.ScalarAdd, Operands: []Operand{{Buffer: x}, {Buffer: y}}, Scalars: []Scalar{Float(1)},
			Stream: natives[i%len(natives)]}))
	}
	for g := range 4 {
		group.Go(func() {
			for i := range 500 {
				if err := call(i * (g + 1)); err != nil {
					t.Error(err)
				}
				if i%50 == 0 {
					if err := wait(ex.Synchronize()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, wait(ex.Synchronize()))
	for g := range 2 {
		group.Go(func() {
			for i := range 500 {
				if err := call(i * (g + 1)); err != nil {
					wants(t, err, BadHandle, "freed")
				}
			}
		})
	}
	require.NoError(t, ex.Close())
	group.Wait()
}

// TestOnePhaseForAllStreams launches what advances the phase on the executor's own
// stream and on those of others, by turns, captured too, and traces it.
func TestOnePhaseForAllStreams(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 2 * time.Millisecond, HostVisible: true})
	d := openAsync(t, b, 0)
	one, two := b.NewForeign(0), b.NewForeign(0)
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	ex := executorOn(t, d)
	x := floats(t, ex, 0)
	p := assemble(t, "program advance\nslot c f32\nphase_get k\ncvt.f32.u16 x, k\nphase_adv 3\nstg.f32 x, c[index]\nexit")
	want := int32(0)
	launch := func(stream uintptr) {
		out := floats(t, ex, 0)
		require.NoError(t, wait(ex.Call(&Call{Program: p, Operands: []Operand{{Buffer: out}}, Stream: stream})))
		require.Equal(t, []float32{float32(want)}, values(t, out))
		want += 3
	}
	for range 3 {
		launch(one.Native())
		launch(0)
		launch(two.Native())
		require.Equal(t, want, phase(t, ex))
	}
	require.NoError(t, wait(ex.Synchronize()))
	require.NoError(t, ex.BeginCapture())
	require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{x}})))
	g, err := ex.EndCapture()
	require.NoError(t, err)
	launch(one.Native())
	require.NoError(t, wait(ex.Replay(g)))
	want += 3
	launch(two.Native())
	g.Release()
	for range 2 {
		require.NoError(t, wait(ex.Trace((&LaunchArgs{Slots: []*Buffer{x}}).call(p), 0, func(string) {})))
		want += 3
		launch(one.Native())
	}
	require.Equal(t, want, phase(t, ex))
	require.NoError(t, wait(ex.Synchronize()))
}
