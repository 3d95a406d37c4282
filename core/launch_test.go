package core

import (
	"errors"
	"runtime"
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

const double = "program double\nslot a f32\nslot c f32\nldg.f32 x, a[index]\nadd.f32 x, x, x\nstg.f32 x, c[index]\nexit"

func TestLaunch(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, double)
		a, c := floats(t, ex, 1, 2, 3, 4, 5, 6), floats(t, ex, 0, 0, 0, 0, 0, 0)
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, c}})))
		if got := values(t, c); !slices.Equal(got, []float32{2, 4, 6, 8, 10, 12}) {
			t.Errorf("got %v", got)
		}
		transposed, err := a.View(0, []int64{3, 2}, []int64{1, 3})
		require.NoError(t, err)
		matrix, err := c.View(0, []int64{3, 2}, nil)
		require.NoError(t, err)
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{transposed, matrix}})))
		if got := values(t, c); !slices.Equal(got, []float32{2, 8, 4, 10, 6, 12}) {
			t.Errorf("transposed: got %v", got)
		}
	})
}

func TestRefusedLaunchesChangeNothing(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, double)
		other := executorOn(t, asyncDevice(t, asynctest.Options{}))
		a, c, foreign := floats(t, ex, 1, 2), floats(t, ex, 7, 7), floats(t, other, 1, 2)
		freed := floats(t, ex, 1, 2)
		freed.Free()
		part, err := a.View(0, []int64{1}, nil)
		require.NoError(t, err)
		repeated, err := c.View(0, []int64{2, 2}, []int64{0, 1})
		require.NoError(t, err)
		ints, err := ex.Allocate(2, isa.I32, true)
		require.NoError(t, err)
		for _, x := range []struct {
			slots []*Buffer
			code  Code
			text  string
		}{
			{nil, Invalid, "0 slots given; the program has 2: a, c"},
			{[]*Buffer{a, nil}, Invalid, `launch "double": slot c (f32) is not bound`},
			{[]*Buffer{freed, c}, BadHandle, "slot a: the buffer is freed"},
			{[]*Buffer{foreign, c}, Invalid, "the buffer is on async"},
			{[]*Buffer{ints, c}, BadType, "slot a: dtype is i32; expected f32"},
			{[]*Buffer{a, repeated}, Invalid, "share memory"},
			{[]*Buffer{a, part}, Invalid, "slot c"},
		} {
			_, err := ex.Launch(p, &LaunchArgs{Slots: x.slots})
			wants(t, err, x.code, x.text)
		}
		if got := values(t, c); !slices.Equal(got, []float32{7, 7}) {
			t.Errorf("refused launches wrote %v", got)
		}
		if n := a.mem.Users(); n != 2 { // a and the view of it
			t.Errorf("%d users of the memory are left", n)
		}
	})
}

func TestOutputsOfTheSharedView(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, double)
		a := floats(t, ex, 1, 2, 3, 4)
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, a}})))
		head, err := a.View(0, []int64{3}, nil)
		require.NoError(t, err)
		tail, err := a.View(1, []int64{3}, nil)
		require.NoError(t, err)
		_, err = ex.Launch(p, &LaunchArgs{Slots: []*Buffer{head, tail}})
		wants(t, err, Invalid, "slot c overlaps a in memory: only the identical array")
		if got := values(t, a); !slices.Equal(got, []float32{2, 4, 6, 8}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestRawMemoryOverlapsAllItsBytes binds a raw slot, of type u8, to elements of
// four bytes, and writes what views of them see.
func TestRawMemoryOverlapsAllItsBytes(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program raw\nslot a u8\nslot c f32\nsreg i, global_lane\nldg.u8 x, a[i]\ncvt.f32.u8 y, x\nstg.f32 y, c[index]\nexit")
		all := floats(t, ex, make([]float32, 100)...)
		for _, x := range []struct {
			raw, out int64 // elements from here on …
			n        int64 // … this many
			overlaps bool
		}{{0, 50, 50, false}, {50, 0, 50, false}, {0, 49, 50, true}, {0, 13, 50, true}, {13, 0, 50, true}, {0, 0, 50, true}, {0, 99, 1, false}} {
			raw, err := all.View(x.raw, []int64{x.n}, nil)
			require.NoError(t, err)
			out, err := all.View(x.out, []int64{x.n}, nil)
			require.NoError(t, err)
			err = wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{raw, out}}))
			if x.overlaps {
				wants(t, err, Invalid, "slot c overlaps a in memory")
			} else {
				require.NoError(t, err)
			}
		}
		square, err := all.View(0, []int64{2, 5}, nil)
		require.NoError(t, err)
		out := floats(t, ex, 7)
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{square, out}})))
		strided, err := all.View(0, []int64{5}, []int64{2})
		require.NoError(t, err)
		_, err = ex.Launch(p, &LaunchArgs{Slots: []*Buffer{strided, out}})
		wants(t, err, Invalid, "addressed by bytes, which demands a contiguous array")
	})
}

func TestFaultsNameTheInstruction(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program stray\nslot c f32\n  mov.u32 i, 0\n  stg.f32 1.0, c[4000] ; outside\n  stg.f32 2.0, c[i]\n  exit")
		c := floats(t, ex, 0)
		err := wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{1}}))
		if err == nil {
			err = wait(ex.Synchronize())
		}
		wants(t, err, Faulted, `launch "stray": stray access in lane 0 at line 4 (stg.f32 1.0, c[4000] ; outside)`)
		var e *Error
		if !errors.As(err, &e) || e.Fault == nil || e.Fault.Inst != 1 || e.Fault.Line != 4 {
			t.Errorf("fault is %+v", e.Fault)
		}
		require.NoError(t, wait(ex.Synchronize()))
		if got := values(t, c); got[0] != 2 {
			t.Errorf("what the launch wrote is lost: %v", got)
		}
	})
}

const forever = "program forever\nslot c u32\nagain:\nldg.u32 x, c[0]\nset.eq.u32 p, x, 0\nbra again, p\nexit"

func TestCancelling(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, forever)
		c, err := ex.Allocate(4, isa.U32, true)
		require.NoError(t, err)
		ev, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{4}})
		require.NoError(t, err)
		if ev == nil { // queued: its end is what Synchronize waits for
			ev, err = ex.Synchronize()
			require.NoError(t, err)
		}
		if err := ev.Wait(20 * time.Millisecond); !errors.Is(err, backends.ErrPending) {
			t.Fatalf("an endless launch ended: %v", err)
		}
		// What comes after it waits, and is not cancelled with it.
		ev.Cancel()
		wants(t, wait(ev, nil), Cancelled, "cancelled")
		ex.Cancel() // the launch, where only the wait for it was cancelled
		_ = wait(ex.Synchronize())
		require.NoError(t, wait(c.Fill(Int(5))))
		require.NoError(t, wait(ex.Synchronize()))
	})
}

// TestALaunchBeginsWithNothing ends a launch in each way that there is, and then
// launches the same program on the same memory: neither what the first summed up nor
// how it ended is the second's.
func TestALaunchBeginsWithNothing(t *testing.T) {
	const text = `program ends
slot how u32
ldg.u32 h, how[0]
mov.u8 k, 3
mov.u64 v, 7
res_accum k, v
set.ne.u32 p, h, 1
bra inside, p
stg.u32 1, how[4000]
inside:
again:
ldg.u32 h, how[0]
set.eq.u32 p, h, 2
bra again, p
exit`
	ends := []struct {
		name string
		how  int64
		fuel uint64
		code Code
	}{{"fault", 1, 0, Faulted}, {"fuel", 2, 1000, Faulted}, {"cancelled", 2, 0, Cancelled}}
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, text)
		how, err := ex.Allocate(1, isa.U32, true)
		require.NoError(t, err)
		var residue [isa.NumClasses]uint64
		for _, end := range ends {
			require.NoError(t, wait(how.Fill(Int(end.how))))
			ev, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{how}, Shape: []int64{4}, Fuel: end.fuel, Residue: &residue})
			if end.code == Cancelled {
				require.NoError(t, err)
				require.ErrorIs(t, ev.Wait(5*time.Millisecond), backends.ErrPending)
				ex.Cancel()
			}
			require.Equal(t, end.code, CodeOf(wait(ev, err)), end.name)
			require.NoError(t, wait(how.Fill(Int(0))))
			ev, err = ex.Launch(p, &LaunchArgs{Slots: []*Buffer{how}, Shape: []int64{4}, Fuel: end.fuel, Residue: &residue})
			require.NoError(t, wait(ev, err), end.name)
			require.Equal(t, [isa.NumClasses]uint64{3: 28}, residue, end.name)
		}
	})
}

func TestACancelledLaunchRunsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program until\nslot c u32\nagain:\nldg.u32 x, c[0]\nset.eq.u32 p, x, 0\nbra again, p\nexit")
		c, err := ex.Allocate(1, isa.U32, true)
		require.NoError(t, err)
		launch := func() (*Event, error) {
			ev, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{4}})
			if ev != nil || err != nil {
				return ev, err
			}
			return ex.Synchronize()
		}
		for range 3 {
			require.NoError(t, wait(c.Fill(Int(0))))
			ev, err := launch()
			require.NoError(t, err)
			require.ErrorIs(t, ev.Wait(5*time.Millisecond), backends.ErrPending)
			ex.Cancel()
			_ = wait(ev, nil)
			require.NoError(t, wait(c.Fill(Int(1))))
			require.NoError(t, wait(launch()), "it ends by itself, and was not cancelled again")
			require.NoError(t, wait(ex.Synchronize()))
		}
	})
}

func TestWorkIsInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		slow := assemble(t, "program slow\nslot c f32\nparam k u32\nldp.u32 n, k\nldg.f32 x, c[index]\nloop n, end\nmul.f32 x, x, 1.0\nend:\nadd.f32 x, x, 1.0\nstg.f32 x, c[index]\nexit")
		c := floats(t, ex, make([]float32, 64)...)
		var last *Event
		for range 10 {
			ev, err := ex.Launch(slow, &LaunchArgs{Slots: []*Buffer{c}, Params: []Scalar{Int(50000)}})
			require.NoError(t, err)
			if ev != nil {
				last = ev
			}
			if ev, err = c.ex.Op("scalar_mul", []*Buffer{c, c}, []Scalar{Float(2)}, nil); ev != nil {
				last = ev
			}
			require.NoError(t, err)
		}
		if last != nil {
			require.NoError(t, wait(last, nil))
		}
		if got := values(t, c)[63]; got != 2046 {
			t.Errorf("got %v, expected 2046", got)
		}
	})
}

func TestDeferredErrorsNameTheirLaunch(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 100 * time.Microsecond, FailLaunch: 2})
	ex := executorOn(t, d)
	a, c := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	require.NoError(t, wait(ex.Op("vector_neg", []*Buffer{a, c}, nil, nil)))
	require.NoError(t, wait(ex.Op("vector_abs", []*Buffer{a, c}, nil, nil))) // this one fails, later
	require.NoError(t, wait(ex.Op("vector_neg", []*Buffer{a, c}, nil, nil)))
	err := wait(ex.Synchronize())
	wants(t, err, Internal, "vector_abs")
	if !errors.Is(err, asynctest.ErrInjected) {
		t.Errorf("the cause of %v is lost", err)
	}
	require.NoError(t, wait(ex.Synchronize()))
	// Of several that fail all are reported.
	stray := assemble(t, "program stray\nslot c f32\nstg.f32 1.0, c[4000]\nexit")
	for range 3 {
		require.NoError(t, wait(ex.Launch(stray, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{1}})))
	}
	require.NoError(t, wait(ex.Op("vector_neg", []*Buffer{a, c}, nil, nil)))
	err = wait(ex.Synchronize())
	wants(t, err, Faulted, "stray")
	require.Equal(t, 3, strings.Count(err.Error(), "launch \"stray\": "))
	require.NoError(t, wait(ex.Synchronize()))
	failing := executorOn(t, asyncDevice(t, asynctest.Options{FailCopy: 1}))
	b, err := failing.Allocate(4, isa.F32, false)
	require.NoError(t, err)
	data := hostBytes(16)
	require.NoError(t, wait(b.Write(addressOf(data), 0, 16)))
	wants(t, wait(failing.Synchronize()), Internal, "copy of 16 bytes")
	require.NoError(t, wait(b.Write(addressOf(data), 0, 16)))
	require.NoError(t, wait(failing.Synchronize()))
	runtime.KeepAlive(data)
}

func TestStreamsWaitForEachOther(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 300 * time.Microsecond})
	first, second := executorOn(t, d), executorOn(t, d)
	a, c := floats(t, first, 1, 2), floats(t, second, 0, 0)
	for range 20 {
		require.NoError(t, wait(first.Op("scalar_add", []*Buffer{a, a}, []Scalar{Float(1)}, nil)))
		require.NoError(t, wait(second.Op("copy", []*Buffer{a, c}, nil, nil)))
	}
	if got := values(t, c); !slices.Equal(got, []float32{21, 22}) {
		t.Errorf("got %v", got)
	}
}

func TestFreedMemoryIsNotReusedWhileWorkIsQueuedOnIt(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 2 * time.Millisecond})
	first, second := executorOn(t, d), executorOn(t, d)
	out := floats(t, first, make([]float32, 100)...)
	for i := range 10 {
		b := floats(t, first, make([]float32, 100)...)
		require.NoError(t, wait(b.Fill(Float(float64(i)))))
		require.NoError(t, wait(first.Op("copy", []*Buffer{b, out}, nil, nil)))
		b.Free()
		again := floats(t, second, make([]float32, 100)...)
		require.NoError(t, wait(again.Fill(Float(-1))))
		if got := values(t, out); got[0] != float32(i) || got[99] != float32(i) {
			t.Fatalf("got %v, expected %d", got[0], i)
		}
		again.Free()
	}
}

func TestManyGoroutines(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, double)
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				for i := range 40 {
					a, c := floats(t, ex, float32(g), float32(i)), floats(t, ex, 0, 0)
					require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, c}})))
					require.NoError(t, wait(ex.Op("vector_add", []*Buffer{a, c, c}, nil, nil)))
					if got := values(t, c); !slices.Equal(got, []float32{3 * float32(g), 3 * float32(i)}) {
						t.Errorf("got %v", got)
					}
					a.Free()
					c.Free()
				}
			})
		}
		group.Wait()
	})
}

func TestCloseWaits(t *testing.T) {
	for name, d := range testDevices(t) {
		ex, err := d.NewExecutor()
		require.NoError(t, err)
		c := floats(t, ex, 1, 2, 3)
		lease, err := c.Lease()
		require.NoError(t, err)
		require.NoError(t, wait(c.Fill(Float(2))))
		require.NoError(t, ex.Close())
		require.NoError(t, ex.Close())
		if !c.Freed() {
			t.Errorf("%s: a buffer outlives its executor", name)
		}
		_, err = ex.Allocate(1, isa.F32, true)
		wants(t, err, BadHandle, "executor is freed")
		_, err = c.Fill(Float(1))
		wants(t, err, BadHandle, "freed")
		if ex.Used() == 0 {
			t.Errorf("%s: leased memory is given back", name)
		}
		lease.Release()
		if ex.Used() != 0 {
			t.Errorf("%s: %d bytes are kept", name, ex.Used())
		}
	}
}

func TestAPanicInABackendIsAnError(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		ev, err := ex.stream.Submit(panics{}, queue.How{Long: true})
		require.NoError(t, err)
		wants(t, wait(ev, nil), Internal, "panic: oh")
		require.NoError(t, wait(ex.Synchronize()))
	})
}

type panics struct{}

func (panics) Run(*queue.Target) (backends.Ticket, error) { panic("oh") }
func (panics) Outcome(err error) error                    { return err }
func (panics) Cancel() bool                               { return false }
func (panics) Release()                                   {}

// instant is a device that works by itself, as far as anybody can see: all has
// passed when it is looked at. It allocates nothing, as real ones don't.
type instant struct{ backends.Device }

func (d instant) Info() backends.Info {
	info := d.Device.Info()
	info.Asynchronous = true
	return info
}

func (d instant) NewStream() (backends.Stream, error) {
	s, err := d.Device.NewStream()
	return &instantStream{Stream: s}, err
}

type instantStream struct {
	backends.Stream
	last atomic.Uint64
}

func (s *instantStream) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	_, err := s.Stream.Launch(k, l)
	return backends.Ticket(s.last.Add(1)), err
}

func (s *instantStream) Copy(dst, src uintptr, bytes int64) (backends.Ticket, error) {
	_, err := s.Stream.Copy(dst, src, bytes)
	return backends.Ticket(s.last.Add(1)), err
}

func (s *instantStream) Passed() backends.Ticket { return backends.Ticket(s.last.Load()) }

// TestCallsAllocateNothing repeats a call of every operation, in sizes of one
// step and of several, and a launch: on a device that works while called, and on
// one that works by itself.
func TestCallsAllocateNothing(t *testing.T) {
	if instrumented {
		t.Skip("needs a build without -race and -tags lockorder: both allocate")
	}
	host := testDevices(t)["cpu"]
	itself, err := newDevice("instant", nil, instant{host.dev})
	require.NoError(t, err)
	for name, d := range map[string]*Device{"cpu": host, "asynchronous": itself} {
		t.Run(name, func(t *testing.T) { callsAllocateNothing(t, executorOn(t, d)) })
	}
}

func callsAllocateNothing(t *testing.T, ex *Executor) {
	sizes := map[string][][]int64{
		"nll": {{20, 100}}, "nll_gradient": {{20, 100}}, "cross_entropy": {{20, 100}}, "cross_entropy_gradient": {{20, 100}}, "embedding": {{20, 100}},
		"log_sum_exp": {{2, 100}, {2, 5000}}, "log_softmax": {{2, 100}, {2, 5000}}, "log_softmax_gradient": {{2, 100}, {2, 5000}}, "softmax_gradient": {{2, 100}, {2, 5000}},
		"layer_norm": {{2, 100}, {2, 5000}}, "layer_norm_gradient": {{2, 100}, {2, 5000}}, "layer_norm_input_gradient": {{2, 100}, {2, 5000}}, "layer_norm_parameter_gradients": {{2, 100}, {2, 5000}},
		"rms_norm": {{2, 100}, {2, 5000}}, "rms_norm_gradient": {{2, 100}, {2, 5000}},
		"softmax": {{2, 100}, {2, 5000}, {1, 20000}}, "gemm": {{4, 5, 6, 0, 0}, {30, 20, 10, 1, 1}, {4, 5, 2000, 0, 0}}, "matvec": {{20, 30, 0}},
		"reduce_sum": {{1, 1}, {2, 10000}}, "reduce_min": {{1, 1}, {2, 10000}}, "reduce_max": {{1, 1}, {2, 10000}},
		"reduce_prod": {{1, 1}, {2, 10000}}, "cumsum": {{2, 100}, {2, 5000}},
		"argmin": {{1, 1}, {2, 10000}}, "argmax": {{1, 1}, {2, 10000}},
		"mse_loss": {{10}, {20000}}, "cross_entropy_loss": {{10}, {20000}}, "binary_cross_entropy_loss": {{10}, {20000}},
	}
	settle := func() { // what has passed is kept for the next call
		for !ex.stream.Idle() {
			runtime.Gosched()
		}
	}
	count := func(name string, c *Call) {
		t.Helper()
		n := testing.AllocsPerRun(50, func() {
			if _, err := ex.Call(c); err != nil {
				t.Fatal(name, err)
			}
			settle()
		})
		require.Zero(t, n, "%s %v", name, c.Dims)
	}
	for _, op := range Ops() {
		if op == kernels.EmbeddingGradient {
			continue // how long it takes stands in memory, so a goroutine does it
		}
		dims := sizes[op.Name]
		if op.Elementwise {
			dims = [][]int64{nil, {7}}
		}
		require.NotEmpty(t, dims, op.Name)
		for _, d := range dims {
			c := &Call{Op: op, Dims: d}
			for _, o := range op.Operands {
				typ := isa.F32
				switch o.Kind {
				case kernels.Index:
					typ = isa.I64
				case kernels.Mask:
					typ = isa.U8
				}
				b, err := ex.Allocate(20000, typ, true)
				require.NoError(t, err)
				defer b.Free()
				c.Operands = append(c.Operands, Operand{Buffer: b})
			}
			for range op.Scalars {
				c.Scalars = append(c.Scalars, Float(1))
			}
			count(op.Name, c)
		}
	}
	a, c := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	count("launch", &Call{Program: assemble(t, double), Operands: []Operand{{Buffer: a}, {Buffer: c}}})

	// Memory of others: while the call lasts, or until a deleter is told.
	info := &ex.device.Info
	of := func(b *Buffer) Operand {
		return Operand{View: b.Layout(), DeviceType: info.DLPackType, DeviceID: info.DLPackID}
	}
	borrowed := &Call{Op: kernels.VectorAdd, Operands: []Operand{of(a), of(a), of(c)}}
	if !info.Asynchronous { // else the call waits for the end of the work, which takes an event
		count("borrowed", borrowed)
	}
	borrowed.Deleter = func() {}
	n := testing.AllocsPerRun(50, func() {
		if err := wait(ex.Call(borrowed)); err != nil {
			t.Fatal(err)
		}
		settle()
	})
	require.LessOrEqual(t, n, 7., "an owner, its function, and for each operand what it is and who reads it")
}
