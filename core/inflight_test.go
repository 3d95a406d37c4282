package core

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestNoLanesOrderNothing launches over no lanes on memory that another stream
// still writes to: who uses it next waits for the writer as before.
func TestNoLanesOrderNothing(t *testing.T) {
	var told atomic.Pointer[string]
	d := asyncDevice(t, asynctest.Options{Delay: 20 * time.Millisecond, Report: func(s string) { told.Store(&s) }})
	first, second, third := executorOn(t, d), executorOn(t, d), executorOn(t, d)
	a, c := floats(t, first, 1, 2), floats(t, first, 0, 0)
	x, out := floats(t, second, 0, 0), floats(t, third, 0, 0)
	p := assemble(t, double)
	require.NoError(t, wait(first.Launch(p, &LaunchArgs{Slots: []*Buffer{a, c}})))
	require.NoError(t, wait(second.Launch(p, &LaunchArgs{Slots: []*Buffer{x, c}, Shape: []int64{0}})))
	require.NoError(t, wait(third.Op("copy", []*Buffer{c, out}, nil, nil)))
	require.Equal(t, []float32{2, 4}, values(t, out))
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

// TestPlansWithoutSteps has operations of no elements, which have nothing to do.
func TestPlansWithoutSteps(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x := floats(t, ex, 1, 2)
		y := floats(t, ex, 3, 4)
		for range 2 {
			require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{x, y}, nil, []int64{0, 5})))
			require.NoError(t, wait(ex.Op("softmax", []*Buffer{x, y}, nil, []int64{0, 5})))
			require.NoError(t, wait(ex.Op("softmax", []*Buffer{x, y}, nil, []int64{5, 0})))
		}
		require.NoError(t, wait(ex.Synchronize()))
		require.Equal(t, []float32{3, 4}, values(t, y))
	})
}

// refusing is a stream that refuses launches from a number on.
type refusing struct {
	backends.Stream
	from, count int
	refuse      func() // may be nil
}

var errRefused = errors.New("refused")

func (s *refusing) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	if s.count++; s.count >= s.from {
		if s.refuse != nil {
			done := make(chan struct{})
			go func() { // another thread, as far as locks are concerned
				defer close(done)
				s.refuse()
			}()
			<-done
		}
		return 0, errRefused
	}
	return s.Stream.Launch(k, l)
}

// refuseOn lets an executor's stream refuse launches, so far none.
func refuseOn(ex *Executor) *refusing {
	line := ex.stream.Target().Line
	s := &refusing{Stream: line.Stream, from: math.MaxInt}
	line.Stream = s
	return s
}

// TestARefusedStep lets the device refuse a later step of an operation: the
// earlier ones are under way, and what they use stays until they are done.
func TestARefusedStep(t *testing.T) {
	var told atomic.Pointer[string]
	b := asynctest.New(asynctest.Options{Delay: 20 * time.Millisecond, DLPackType: 2, Report: func(s string) { told.Store(&s) }})
	d := openAsync(t, b, 0)
	ex := executorOn(t, d)
	const n = 1 << 20
	memory, err := b.NewForeignMemory(0, 4*n)
	require.NoError(t, err)
	stream := refuseOn(ex)
	out := floats(t, ex, 5)
	stream.from = 2
	var deleted atomic.Bool
	x, err := ex.Wrap(memory.Addr, isa.F32, []int64{n}, nil, false, func() { deleted.Store(true) })
	require.NoError(t, err)
	_, err = ex.Op("reduce_sum", []*Buffer{x, out}, nil, []int64{1, n})
	require.ErrorIs(t, err, errRefused)
	wants(t, err, Internal, "reduce_sum: refused")
	require.Equal(t, 2, stream.count)
	x.Free()
	require.False(t, deleted.Load(), "the first step uses the memory")
	require.NoError(t, wait(ex.Synchronize()), "the error is told twice")
	require.Eventually(t, deleted.Load, time.Second, time.Millisecond)
	stream.from = 100
	x, err = ex.Wrap(memory.Addr, isa.F32, []int64{n}, nil, false, func() {})
	require.NoError(t, err)
	require.NoError(t, wait(ex.Op("reduce_sum", []*Buffer{x, out}, nil, []int64{1, n})))
	require.Equal(t, []float32{0}, values(t, out))
	x.Free()
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

// TestDeletersOfRefusedCalls frees memory while the device refuses a call that
// uses it; its deleter uses the executor.
func TestDeletersOfRefusedCalls(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	ex := executorOn(t, openAsync(t, b, 0))
	memory, err := b.NewForeignMemory(0, 64)
	require.NoError(t, err)
	stream := refuseOn(ex)
	c := floats(t, ex, 0, 0)
	told := false
	x, err := ex.Wrap(memory.Addr, isa.F32, []int64{2}, nil, false, func() {
		_, _ = c.Fill(Float(1))
		told = true
	})
	require.NoError(t, err)
	stream.from, stream.refuse = 1, x.Free
	within(t, "a deleter", func() {
		_, err := ex.Op("copy", []*Buffer{x, c}, nil, nil)
		require.ErrorIs(t, err, errRefused)
	})
	require.True(t, told)
}

// TestACancelledCopyOfForeignMemory cancels a copy in pieces while the device
// does one: what is foreign stays until that is done.
func TestACancelledCopyOfForeignMemory(t *testing.T) {
	var told atomic.Pointer[string]
	b := asynctest.New(asynctest.Options{Delay: 100 * time.Millisecond, Report: func(s string) { told.Store(&s) }})
	ex := executorOn(t, openAsync(t, b, 0))
	memory, err := b.NewForeignMemory(0, copyPiece+64)
	require.NoError(t, err)
	var deleted atomic.Bool
	x, err := ex.Wrap(memory.Addr, isa.U8, []int64{copyPiece + 64}, nil, false, func() { deleted.Store(true) })
	require.NoError(t, err)
	data := hostBytes(copyPiece + 64)
	ev, err := x.Read(addressOf(data), 0, copyPiece+64)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return b.Counts().Copies >= 1 }, 5*time.Second, time.Millisecond)
	ev.Cancel()
	wants(t, wait(ev, nil), Cancelled, "cancelled after 0 bytes")
	x.Free()
	require.False(t, deleted.Load(), "the device still reads the memory")
	require.Eventually(t, deleted.Load, 5*time.Second, time.Millisecond)
	require.NoError(t, wait(ex.Synchronize()))
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

// TestCopiesThatEndEarlyKeepNoMemory: what the device's copies go by way of is free again
// when a copy was cancelled or has failed, at whichever of its pieces.
func TestCopiesThatEndEarlyKeepNoMemory(t *testing.T) {
	for name, c := range map[string]struct {
		o      asynctest.Options
		bytes  int64
		cancel func(b *asynctest.Backend, ev *Event)
	}{
		"cancelled at once": {asynctest.Options{Delay: 20 * time.Millisecond}, 100, func(_ *asynctest.Backend, ev *Event) { ev.Cancel() }},
		"cancelled in the first piece": {asynctest.Options{Delay: 50 * time.Millisecond}, copyPiece, func(b *asynctest.Backend, ev *Event) {
			for b.Counts().Copies == 0 {
				time.Sleep(time.Millisecond)
			}
			ev.Cancel()
		}},
		"cancelled later": {asynctest.Options{Delay: 5 * time.Millisecond}, copyPiece, func(b *asynctest.Backend, ev *Event) {
			for b.Counts().Copies < stageCount+2 {
				time.Sleep(time.Millisecond)
			}
			ev.Cancel()
		}},
		"failed":       {asynctest.Options{FailCopy: 1}, copyPiece, nil},
		"failed later": {asynctest.Options{FailCopy: 3}, copyPiece, nil},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to the host: %v", name, toHost), func(t *testing.T) {
				b := asynctest.New(c.o)
				ex := executorOn(t, openAsync(t, b, 0))
				x, err := ex.Allocate(c.bytes, isa.U8, false)
				require.NoError(t, err)
				defer x.Free()
				host := ex.device.host
				before := host.Stats().InUse
				data := hostBytes(c.bytes)
				ev, err := x.Transfer(&Transfer{Host: addressOf(data), Bytes: c.bytes, ToHost: toHost, Later: true})
				if ev != nil && c.cancel != nil {
					c.cancel(b, ev)
				}
				err = wait(ev, err)
				if toHost || c.cancel == nil { // else the copy may have been over
					require.Error(t, err)
				}
				_ = wait(ex.Synchronize())
				require.Eventually(t, func() bool { return host.Stats().InUse == before }, 5*time.Second, time.Millisecond,
					"%d bytes in use before, %d after", before, host.Stats().InUse)
				runtime.KeepAlive(data)
			})
		}
	}
}

// TestTryDoesNotAskForMemory tries calls on a device whose allocations wait for
// all its work, which has no end: what is not at hand is not asked for.
func TestTryDoesNotAskForMemory(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Stall: true, Workspace: 2 << 20})
	ex, other := executorOn(t, d), executorOn(t, d)
	x := floats(t, ex, 1, 2)
	p := assemble(t, "program phi\nslot c f32\nldg.u8 x, phi(0, 0, 0)\nldg.f32 y, c[index]\nstg.f32 y, c[index]\nexit")
	fill, _ := kernels.Lookup("fill")
	require.NoError(t, wait(x.Fill(Float(3)))) // so that it is prepared
	require.NoError(t, wait(ex.Synchronize()))
	_, _ = endlessLaunch(t, other) // which takes the workspace
	within(t, "a call that only tries", func() {
		_, err := ex.Call(&Call{Program: p, Operands: []Operand{{Buffer: x}, {Unbound: true}}, Try: true})
		wants(t, err, Busy, "would have to wait")
		told := false
		_, err = ex.Call(&Call{Op: fill, Operands: []Operand{{Buffer: x}}, Scalars: []Scalar{Float(1)}, Try: true, Deleter: func() { told = true }})
		wants(t, err, Busy, "would have to wait")
		require.False(t, told)
	})
	other.Cancel()
	require.NoError(t, wait(other.Synchronize()))
	require.NoError(t, wait(ex.Call(&Call{Op: fill, Operands: []Operand{{Buffer: x}}, Scalars: []Scalar{Float(1)}, Try: true})))
	require.Equal(t, []float32{1, 1}, values(t, x))
}

// stopping is a stream that stops in a launch until it may go on.
type stopping struct {
	backends.Stream
	inside, goOn chan struct{}
}

func (s *stopping) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	s.inside <- struct{}{}
	<-s.goOn
	return s.Stream.Launch(k, l)
}

func (s *stopping) Await(other backends.Stream, t backends.Ticket) error {
	if len(s.inside) > 0 {
		return errors.New("two calls queue on a stream at a time")
	}
	return s.Stream.Await(other, t)
}

// TestAllocatingWhileALaunchIsQueued allocates memory that another stream still
// uses while a launch is being queued: the stream waits for it in its turn, and
// then its owner's work, and who knows of its owner's stream alone, come after.
func TestAllocatingWhileALaunchIsQueued(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{HostVisible: true, Delay: 30 * time.Millisecond, Memory: 48 << 20})
	ex, other := executorOn(t, d), executorOn(t, d)
	x := floats(t, ex, 1, 2)
	require.NoError(t, wait(x.Fill(Float(1))))
	require.NoError(t, wait(ex.Synchronize()))
	big, err := other.Allocate(30<<20, isa.U8, false)
	require.NoError(t, err)
	require.NoError(t, wait(big.Fill(Int(1))))
	big.Free()
	line := ex.stream.Target().Line
	s := &stopping{line.Stream, make(chan struct{}, 1), make(chan struct{})}
	line.Stream = s
	launched := make(chan error, 1)
	go func() { launched <- wait(x.Fill(Float(2))) }()
	require.Eventually(t, func() bool { return len(s.inside) == 1 }, 5*time.Second, time.Millisecond)
	go func() {
		time.Sleep(5 * time.Millisecond)
		<-s.inside
		close(s.goOn)
	}()
	mine, err := ex.Allocate(30<<20, isa.U8, false)
	require.NoError(t, err)
	require.NoError(t, <-launched)
	require.NoError(t, wait(ex.Synchronize()))
	data := hostmem.Bytes(mine.Layout().Addr, 30<<20)
	clear(data)
	time.Sleep(50 * time.Millisecond)
	require.Zero(t, data[len(data)-1], "the memory's earlier owner still writes to it")
	line.Stream = s.Stream
}

// TestZeroedMemoryIsTheHosts allocates zeroed memory and waits for its stream
// alone: then the host may write to it.
func TestZeroedMemoryIsTheHosts(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{HostVisible: true, Delay: 30 * time.Millisecond})
	ex := executorOn(t, d)
	x, err := ex.Allocate(64, isa.U8, false)
	require.NoError(t, err)
	x.Free()
	x, err = ex.Allocate(64, isa.U8, true)
	require.NoError(t, err)
	require.NoError(t, wait(ex.Synchronize()))
	data := hostmem.Bytes(x.Layout().Addr, 64)
	data[0] = 1
	time.Sleep(50 * time.Millisecond)
	require.EqualValues(t, 1, data[0], "it is zeroed later")
}

// TestTryDoesNotCompile calls on a device that makes code by how operands are
// aligned, and for fuel: a call that only tries has none made.
func TestTryDoesNotCompile(t *testing.T) {
	b := asynctest.New(asynctest.Options{Specialize: true, Workspace: 100})
	ex := executorOn(t, openAsync(t, b, 0))
	x := floats(t, ex, 1, 2, 3, 4)
	odd, err := x.View(1, []int64{2}, nil)
	require.NoError(t, err)
	even, err := x.View(0, []int64{2}, nil)
	require.NoError(t, err)
	p := assemble(t, "program again\nslot c f32\nldg.f32 x, c[index]\nadd.f32 x, x, x\nstg.f32 x, c[index]\nexit")
	for i, c := range []struct {
		b    *Buffer
		fuel uint64
	}{{even, 0}, {odd, 0}, {even, 9}, {odd, 9}} {
		call := &Call{Program: p, Operands: []Operand{{Buffer: c.b}}, Fuel: c.fuel, Try: true}
		_, err := ex.Call(call)
		wants(t, err, Busy, "would have to wait")
		require.Equal(t, i, b.Counts().Specials)
		call.Try = false
		require.NoError(t, wait(ex.Call(call)))
		require.Equal(t, i+1, b.Counts().Specials)
		call.Try = true
		require.NoError(t, wait(ex.Call(call)))
	}
	require.Equal(t, []float32{16, 512, 48, 4}, values(t, x))
}

// waiting is work that waits for a channel.
type waiting struct{ c chan struct{} }

func (w *waiting) Run(t *queue.Target) (backends.Ticket, error) {
	<-w.c
	return t.Last, nil
}
func (*waiting) Outcome(err error) error { return err }
func (*waiting) Cancel() bool            { return false }
func (*waiting) Release()                {}

// TestALaunchThatPanics has the device panic after it has queued a launch, or a
// step of several: what they use stays until that is done.
func TestALaunchThatPanics(t *testing.T) {
	for step := 1; step <= 2; step++ {
		for _, long := range []bool{false, true} {
			var told atomic.Pointer[string]
			b := asynctest.New(asynctest.Options{Delay: 30 * time.Millisecond, DLPackType: 2, PanicLaunch: step, Report: func(s string) { told.Store(&s) }})
			d := openAsync(t, b, 0)
			ex, other := executorOn(t, d), executorOn(t, d)
			const n = 1 << 20
			memory, err := b.NewForeignMemory(0, 4*n)
			require.NoError(t, err)
			out, err := ex.Allocate(n, isa.F32, false)
			require.NoError(t, err)
			var deleted atomic.Bool
			x, err := ex.Wrap(memory.Addr, isa.F32, []int64{n}, nil, false, func() { deleted.Store(true) })
			require.NoError(t, err)
			held := make(chan struct{})
			if long { // so that the stream's goroutine queues
				_, err = ex.stream.Submit(&waiting{held}, queue.How{Long: true})
				require.NoError(t, err)
			}
			ev, err := ex.Op("reduce_sum", []*Buffer{x, out}, nil, []int64{1, n})
			close(held)
			wants(t, wait(ev, err), Internal, "panic: "+asynctest.ErrInjected.Error())
			x.Free()
			at := out.Layout().Addr
			out.Free()
			require.False(t, deleted.Load(), "the device uses the memory")
			y, err := other.Allocate(n, isa.F32, false)
			require.NoError(t, err)
			require.NotEqual(t, at, y.Layout().Addr, "the device uses the memory")
			require.NoError(t, wait(ex.Synchronize()), "the error is told twice")
			require.Eventually(t, deleted.Load, time.Second, time.Millisecond)
			require.NoError(t, wait(y.Fill(Float(1))))
			require.NoError(t, ex.Close())
			if s := told.Load(); s != nil {
				t.Error(*s)
			}
		}
	}
}

// TestCopiesLeaveNothing copies to and from a device: the host's memory that it
// goes through is free again.
func TestCopiesLeaveNothing(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	ex, other := executorOn(t, d), executorOn(t, asyncDevice(t, asynctest.Options{}))
	x, y := floats(t, ex, 1, 2), floats(t, other, 0, 0)
	used := []int64{d.host.Stats().InUse, other.device.host.Stats().InUse}
	for range 5 {
		require.Equal(t, []float32{1, 2}, values(t, x))
		require.NoError(t, wait(y.CopyFrom(x)))
		require.NoError(t, wait(other.Synchronize()))
		data := hostBytes(8)
		require.NoError(t, wait(y.Write(addressOf(data), 0, 8)))
		require.NoError(t, wait(other.Synchronize()))
	}
	require.Equal(t, used, []int64{d.host.Stats().InUse, other.device.host.Stats().InUse})
}

// TestCallersWhoGiveUp: who gives up while his memory is touched is gone when it
// is left alone, and it is not touched again.
func TestCallersWhoGiveUp(t *testing.T) {
	var c caller
	require.True(t, c.take())
	require.False(t, c.take())
	require.True(t, c.leave(), "nobody gave up")
	require.True(t, c.take())
	require.False(t, c.Cancel(), "his memory is being touched")
	require.False(t, c.leave())
	require.False(t, c.take())
	require.False(t, c.Cancel(), "he gave up before")
	c = caller{}
	var other caller
	require.True(t, other.Cancel())
	require.False(t, other.take())
}

// TestTheFirstElementOfABufferThatIsFreed keeps the memory for as long as the call
// is to tell of it.
func TestTheFirstElementOfABufferThatIsFreed(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{HostVisible: true}))
	x := floats(t, ex, 1, 2, 3)
	for range 200 {
		out := floats(t, ex, 0, 0, 0)
		var first uint64
		ev, err := ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{{Buffer: x}, {Buffer: out}}, First: &first})
		require.NoError(t, err)
		out.Free()
		for range 4 { // one of them would have its place
			other, err := ex.Allocate(3, isa.F32, false)
			require.NoError(t, err)
			_, err = ex.Call(&Call{Op: kernels.Fill, Operands: []Operand{{Buffer: other}}, Scalars: []Scalar{Float(7)}})
			require.NoError(t, err)
			defer other.Free()
		}
		require.NoError(t, wait(ev, nil))
		require.Equal(t, float32(1), math.Float32frombits(uint32(first)))
	}
}
