package core

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// enterer is what C is to an executor: it makes calls that were published by itself.
type enterer struct {
	t      *testing.T
	b      *asynctest.Backend
	d      *Device
	ex     *Executor
	theirs *asynctest.Foreign
	at     backends.Memory // of theirs
	word   uint32
	ended  atomic.Int32
}

func newEnterer(t *testing.T, o asynctest.Options) *enterer {
	t.Helper()
	o.DLPackType, o.Unified, o.Enters, o.Variants.Proved = 2, true, true, true
	x := &enterer{t: t, b: asynctest.New(o), word: GateShut}
	x.d = openAsync(t, x.b, 0)
	x.theirs = x.b.NewForeign(0)
	t.Cleanup(x.theirs.Close)
	var err error
	x.at, err = x.b.NewForeignMemory(0, 4<<20)
	require.NoError(t, err)
	x.ex = executorOn(t, x.d)
	return x
}

// array is one of theirs.
func (x *enterer) array(from, n int64) Operand {
	v := backends.View{Addr: x.at.Addr + uintptr(from), Type: isa.F32, Rank: 1}
	v.Shape[0], v.Stride[0] = n, 1
	return Operand{View: v, DeviceType: 2}
}

func (x *enterer) op(name string, scalars []Scalar, operands ...Operand) *Call {
	return &Call{Op: opNamed(x.t, name), Operands: operands, Scalars: scalars, Stream: x.theirs.Native(), Ordered: true}
}

// publish makes a call, and returns it as code.
func (x *enterer) publish(c *Call) *Direct {
	x.t.Helper()
	ev, err := x.ex.Call(c)
	require.NoError(x.t, err)
	require.Nil(x.t, ev)
	require.True(x.t, x.ex.Gate(c.Stream, &x.word))
	var d *Direct
	x.ex.Direct(c, func(made *Direct) Retire {
		require.NotEmpty(x.t, made.Steps)
		d = made
		return func() func() { x.ended.Add(1); return nil }
	})
	return d
}

// enter makes a call of the operands' addresses and numbers. It reports whether it was
// queued: the gate may be shut.
func (x *enterer) enter(d *Direct, operands []Operand, params ...uint64) bool {
	return x.enterIf(func() bool { return true }, d, operands, params...)
}

// enterIf is enter, if may says so once the turn is taken.
func (x *enterer) enterIf(may func() bool, d *Direct, operands []Operand, params ...uint64) bool {
	if !atomic.CompareAndSwapUint32(&x.word, GateOpen, GateTaken) {
		return false
	}
	defer func() {
		if !atomic.CompareAndSwapUint32(&x.word, GateTaken, GateOpen) {
			atomic.StoreUint32(&x.word, GateShut)
		}
	}()
	if !may() {
		return false
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		frame := append([]byte(nil), s.Frame...)
		for _, b := range s.Bases {
			base := uint64(d.Space)
			if b.Of >= 0 {
				base = uint64(operands[b.Of].View.Addr)
			}
			binary.NativeEndian.PutUint64(frame[b.At:], base+uint64(b.Offset))
		}
		for _, p := range s.Params {
			binary.NativeEndian.PutUint64(frame[p.At:], params[p.Scalar])
		}
		purego.SyscallN(s.Code, uintptr(unsafe.Pointer(unsafe.SliceData(frame))))
		if binary.NativeEndian.Uint32(frame[s.Fault:]) != 0 {
			return false
		}
	}
	return true
}

// values are those of an array of theirs.
func (x *enterer) values(o Operand) []float32 {
	x.t.Helper()
	out := floats(x.t, x.ex, make([]float32, o.View.Shape[0])...)
	ev, err := x.ex.Call(x.op("copy", nil, o, Operand{Buffer: out}))
	require.NoError(x.t, wait(ev, err))
	return values(x.t, out)
}

// TestCallsThatAreEntered come between others in the stream's order, with their own
// addresses, whoever queues before and behind them.
func TestCallsThatAreEntered(t *testing.T) {
	for _, visible := range []bool{false, true} {
		callsThatAreEntered(newEnterer(t, asynctest.Options{Delay: 200 * time.Microsecond, HostVisible: visible}))
	}
}

func callsThatAreEntered(x *enterer) {
	t := x.t
	a, b, c := x.array(0, 4), x.array(64, 4), x.array(128, 4)
	fill := func(o Operand, v float64) {
		ev, err := x.ex.Call(x.op("fill", []Scalar{Float(v)}, o))
		require.NoError(t, wait(ev, err))
	}
	fill(a, 1)
	fill(b, 2)
	fill(c, 0)
	d := x.publish(x.op("vector_add", nil, a, b, c))
	require.NotNil(t, d)
	for range 5 {
		require.True(t, x.enter(d, []Operand{a, b, a})) // by 2 each
		require.True(t, x.enter(d, []Operand{a, b, a}))
		ev, err := x.ex.Call(x.op("vector_add", nil, a, b, a))
		require.NoError(t, wait(ev, err))
	}
	require.True(t, x.enter(d, []Operand{a, a, c}))
	require.Equal(t, []float32{62, 62, 62, 62}, x.values(c))
	scale := x.publish(x.op("scalar_mul", []Scalar{Float(3)}, c, b))
	require.True(t, x.enter(scale, []Operand{b, a}, 0x40a00000)) // by 5, of 3·62
	require.Equal(t, []float32{930, 930, 930, 930}, x.values(a))
}

// TestWhoWaitsWaitsForWhatWasEntered: a synchronisation, an executor's end, and the end of
// the kernels that were entered.
func TestWhoWaitsWaitsForWhatWasEntered(t *testing.T) {
	const delay = 20 * time.Millisecond
	for name, waits := range map[string]func(x *enterer){
		"synchronize": func(x *enterer) { require.NoError(t, wait(x.ex.Synchronize())) },
		"close":       func(x *enterer) { require.NoError(t, x.ex.Close()) },
	} {
		x := newEnterer(t, asynctest.Options{Delay: delay})
		a := x.array(0, 4)
		d := x.publish(x.op("vector_add", nil, a, a, a))
		require.NoError(t, wait(x.ex.Synchronize()))
		began := time.Now()
		for range 3 {
			require.True(t, x.enter(d, []Operand{a, a, a}))
		}
		waits(x)
		require.GreaterOrEqual(t, time.Since(began), 3*delay, name)
		if name == "close" {
			require.False(t, x.enter(d, []Operand{a, a, a}))
		}
	}
}

// TestKernelsThatWereEnteredEndLater, when their prepared call ends: the simulated device
// reports one that is released while it has work to do.
func TestKernelsThatWereEnteredEndLater(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Delay: 3 * time.Millisecond})
	a := x.array(0, 4)
	program := assemble(t, "program twice\nslot a f32\nldg.f32 v, a[index]\nadd.f32 v, v, v\nstg.f32 v, a[index]\nexit")
	d := x.publish(&Call{Program: program, Operands: []Operand{a}, Stream: x.theirs.Native(), Ordered: true})
	require.NotNil(t, d)
	require.NoError(t, wait(x.ex.Synchronize()))
	before := x.b.Counts().Kernels
	for range 5 {
		require.True(t, x.enter(d, []Operand{a}))
	}
	program.Close()
	x.d.kernels.Clear()
	require.EqualValues(t, 1, x.ended.Load())
	require.Zero(t, x.b.Counts().Entries)
	require.Equal(t, before, x.b.Counts().Kernels, "its launches are under way")
	require.NoError(t, wait(x.ex.Synchronize()))
	require.Eventually(t, func() bool { return x.b.Counts().Kernels < before }, time.Second, time.Millisecond)
}

// TestWhatIsRefusedIsLeftToTheStream: nothing is done of it, as while much is under way.
func TestWhatIsRefusedIsLeftToTheStream(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Queue: 8})
	a := x.array(0, 4)
	d := x.publish(x.op("fill", []Scalar{Float(2)}, a))
	free := make(chan struct{})
	x.theirs.Do(0, func() { <-free })
	for range 6 {
		x.theirs.Do(0, func() {})
	}
	require.False(t, x.enter(d, []Operand{a}, 0))
	close(free)
	require.Equal(t, []float32{2, 2, 2, 2}, x.values(a))
}

// TestWorkspacesOfWhatIsEntered are there as long as it is.
func TestWorkspacesOfWhatIsEntered(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Delay: 300 * time.Microsecond})
	in, out := x.array(0, 500_000), x.array(3<<20, 1)
	ev, err := x.ex.Call(x.op("fill", []Scalar{Float(1)}, in))
	require.NoError(t, wait(ev, err))
	c := x.op("reduce_sum", nil, in, out)
	var d *Direct
	require.Eventually(t, func() bool { d = x.publish(c); return d != nil }, time.Second, time.Millisecond) // a block may be busy
	require.NoError(t, wait(x.ex.Synchronize()))
	require.NotZero(t, d.Space)
	require.Greater(t, len(d.Steps), 1)
	other, err := x.d.NewExecutor() // takes what memory there is
	require.NoError(t, err)
	defer other.Close()
	for range 5 {
		require.True(t, x.enter(d, []Operand{in, out}))
		floats(t, other, make([]float32, 64)...)
	}
	for range 5 {
		require.True(t, x.enter(d, []Operand{in, out}))
	}
	d.Forget()
	d.Forget()
	require.Zero(t, x.b.Counts().Entries)
	for range 10 {
		b, err := other.Allocate(d.Workspace/4, isa.F32, false)
		require.NoError(t, err)
		require.NoError(t, wait(other.Op("fill", []*Buffer{b}, []Scalar{Float(7)}, nil)))
	}
	require.Equal(t, []float32{500_000}, x.values(out))
}

// TestWhatIsNotEntered on a device that works by itself: what somebody has to be told of,
// is not in a stream's order, or on one of others without memory of theirs; and what the
// host reads then.
func TestWhatIsNotEntered(t *testing.T) {
	x := newEnterer(t, asynctest.Options{HostVisible: true})
	a := x.array(0, 4)
	require.NotNil(t, x.publish(x.op("vector_add", nil, a, a, a)))
	ours := Operand{Buffer: floats(t, x.ex, 1, 2, 3, 4)}
	wrapped, err := x.ex.Wrap(a.View.Addr, isa.F32, []int64{4}, nil, false, func() {})
	require.NoError(t, err)
	theirs := Operand{Buffer: wrapped}
	for name, c := range map[string]*Call{
		"wrapped memory":       x.op("vector_add", nil, a, theirs, a),
		"wrapped memory alone": {Op: kernels.Copy, Operands: []Operand{theirs, theirs}},
		"a stream of others":   {Op: kernels.Copy, Operands: []Operand{ours, ours}, Stream: x.theirs.Native()},
		"an element":           x.op("vector_add", nil, a, a, a),
		"no order":             {Op: kernels.Copy, Operands: []Operand{a, a}, Stream: x.theirs.Native()},
		"phase":                {Program: assemble(t, "program p\nslot a f32\nphase_adv 1\nstg.f32 1.0, a[index]\nexit"), Operands: []Operand{a}, Stream: x.theirs.Native(), Ordered: true},
	} {
		if name == "an element" {
			c.First = new(uint64)
		}
		x.ex.Direct(c, func(d *Direct) Retire {
			require.Empty(t, d.Steps, name)
			return nil
		})
	}
	require.False(t, x.ex.Gate(x.b.NewForeign(0).Native(), new(uint32)), "there was no call on it")
	ex := executorOn(t, asyncDevice(t, asynctest.Options{}))
	require.False(t, ex.Gate(0, new(uint32)))
}

// testLoan is memory's, for an enterer's calls.
type testLoan struct{ ended atomic.Bool }

func (l *testLoan) End() { l.ended.Store(true) }

// lend has a buffer lent for calls on the executor's own stream.
func (x *enterer) lend(b *Buffer) *testLoan {
	loan, never := x.ex.Lend(0, b, func() Loan { return new(testLoan) })
	require.False(x.t, never)
	l, _ := loan.(*testLoan)
	return l
}

// TestBuffersThatAreLent are used on the executor's stream without being noted there,
// until others come to them: these wait for all that was entered. The simulated device
// reports works that nothing orders.
func TestBuffersThatAreLent(t *testing.T) {
	for name, others := range map[string]func(x *enterer, other *Executor, b *Buffer){
		"a call on another stream": func(x *enterer, other *Executor, b *Buffer) {
			require.NoError(t, wait(other.Op("copy", []*Buffer{b, floats(t, other, 0, 0, 0, 0)}, nil, nil)))
		},
		"a stream of others": func(x *enterer, _ *Executor, b *Buffer) {
			ev, err := x.ex.Call(x.op("copy", nil, Operand{Buffer: b}, x.array(0, 4)))
			require.NoError(t, wait(ev, err))
		},
		"its end": func(x *enterer, other *Executor, b *Buffer) {
			b.Free()
			for range 20 {
				taken, err := other.Allocate(4, isa.F32, false)
				require.NoError(t, err)
				require.NoError(t, wait(other.Op("fill", []*Buffer{taken}, []Scalar{Float(7)}, nil)))
			}
		},
	} {
		x := newEnterer(t, asynctest.Options{Delay: 2 * time.Millisecond})
		a, b := floats(t, x.ex, 1, 2, 3, 4), floats(t, x.ex, 0, 0, 0, 0)
		operands := []Operand{{Buffer: a}, {Buffer: b}, {Buffer: b}}
		d := x.publish(&Call{Op: opNamed(t, "vector_add"), Operands: operands})
		require.NoError(t, wait(x.ex.Synchronize()))
		la, lb := x.lend(a), x.lend(b)
		require.NotNil(t, la)
		require.NotNil(t, lb)
		require.Same(t, lb, x.lend(b), "lent to the stream already")
		at := func(b *Buffer) Operand { return Operand{View: backends.View{Addr: b.addr}} }
		for range 5 {
			require.True(t, x.enter(d, []Operand{at(a), at(b), at(b)}))
			require.NoError(t, wait(x.ex.Op("vector_add", []*Buffer{a, b, b}, nil, nil)))
			require.True(t, x.enter(d, []Operand{at(a), at(b), at(b)}))
		}
		require.False(t, la.ended.Load() || lb.ended.Load(), name)
		other, err := x.d.NewExecutor()
		require.NoError(t, err)
		others(x, other, b)
		require.True(t, lb.ended.Load(), name)
		require.False(t, la.ended.Load(), name)
		if name != "its end" {
			require.Equal(t, []float32{16, 32, 48, 64}, values(t, b), name)
			require.Eventually(t, func() bool { return x.lend(b) != nil }, time.Second, time.Millisecond)
		}
		require.NoError(t, other.Close())
		require.NoError(t, x.ex.Close())
	}
}

// TestBuffersThatAreLentToAStreamOfOthers are used there, and the executor's own stream has
// to take them back as any other.
func TestBuffersThatAreLentToAStreamOfOthers(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Delay: 2 * time.Millisecond})
	a, b := x.array(0, 4), Operand{Buffer: floats(t, x.ex, 0, 0, 0, 0)}
	ev, err := x.ex.Call(x.op("fill", []Scalar{Float(1)}, a))
	require.NoError(t, wait(ev, err))
	d := x.publish(x.op("vector_add", nil, a, b, b))
	require.NoError(t, wait(x.ex.Synchronize()))
	lend := func() *testLoan {
		loan, never := x.ex.Lend(x.theirs.Native(), b.Buffer, func() Loan { return new(testLoan) })
		require.False(t, never)
		l, _ := loan.(*testLoan)
		return l
	}
	at := Operand{View: backends.View{Addr: b.Buffer.addr}}
	for i := range 3 {
		require.NoError(t, wait(x.ex.Synchronize()))
		loan := lend()
		require.NotNil(t, loan)
		require.True(t, x.enter(d, []Operand{a, at, at}))
		ev, err := x.ex.Call(x.op("vector_add", nil, a, b, b))
		require.NoError(t, wait(ev, err))
		require.True(t, x.enter(d, []Operand{a, at, at}))
		require.False(t, loan.ended.Load())
		out := floats(t, x.ex, 0, 0, 0, 0)
		require.NoError(t, wait(x.ex.Op("copy", []*Buffer{b.Buffer, out}, nil, nil)))
		require.True(t, loan.ended.Load())
		n := float32(4 + 3*i)
		require.Equal(t, []float32{n, n, n, n}, values(t, out))
	}
}

// turnLoan is memory's as C has it: who enters looks at it in the turn of its stream.
type turnLoan struct {
	x     *enterer
	ended atomic.Bool
}

func (l *turnLoan) End() {
	l.ended.Store(true)
	for turn := GateTaken; turn == GateTaken || turn == GateWanted; turn = int(atomic.LoadUint32(&l.x.word)) {
		runtime.Gosched()
	}
}

// TestBuffersAreTakenBackMeanwhile, by another stream, while calls are entered: no work
// on them is lost or comes between. The simulated device reports what nothing orders.
func TestBuffersAreTakenBackMeanwhile(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Delay: 20 * time.Microsecond})
	one, b := floats(t, x.ex, 1, 1, 1, 1), floats(t, x.ex, 0, 0, 0, 0)
	d := x.publish(&Call{Op: opNamed(t, "vector_add"), Operands: []Operand{{Buffer: one}, {Buffer: b}, {Buffer: b}}})
	other, err := x.d.NewExecutor()
	require.NoError(t, err)
	defer other.Close()
	ones := floats(t, other, 1, 1, 1, 1)
	const times = 300
	var theirs sync.WaitGroup
	theirs.Add(1)
	go func() {
		defer theirs.Done()
		for range times {
			assert.NoError(t, wait(other.Op("vector_add", []*Buffer{ones, b, b}, nil, nil)))
		}
	}()
	at := func(b *Buffer) Operand { return Operand{View: backends.View{Addr: b.addr}} }
	begin := func() Loan { return &turnLoan{x: x} }
	entered := 0
	for range times {
		la, _ := x.ex.Lend(0, one, begin)
		lb, _ := x.ex.Lend(0, b, begin)
		lent := func() bool {
			a, _ := la.(*turnLoan)
			b, _ := lb.(*turnLoan)
			return a != nil && b != nil && !a.ended.Load() && !b.ended.Load()
		}
		if x.enterIf(lent, d, []Operand{at(one), at(b), at(b)}) {
			entered++
		} else {
			require.NoError(t, wait(x.ex.Op("vector_add", []*Buffer{one, b, b}, nil, nil)))
		}
	}
	theirs.Wait()
	n := float32(1 + 2*times) // with that which published
	require.Equal(t, []float32{n, n, n, n}, values(t, b))
	require.NotZero(t, entered)
}

// TestWhatIsNotLent is memory of others, of another device, or that others still work on.
func TestWhatIsNotLent(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Delay: 20 * time.Millisecond})
	begin := func() Loan { return new(testLoan) }
	scratch := floats(t, x.ex, 1)
	require.NoError(t, wait(x.ex.Op("copy", []*Buffer{scratch, floats(t, x.ex, 0)}, nil, nil)))
	require.NotNil(t, x.lend(scratch), "the stream can have memory")
	wrapped, err := x.ex.Wrap(x.at.Addr, isa.F32, []int64{4}, nil, false, func() {})
	require.NoError(t, err)
	loan, never := x.ex.Lend(0, wrapped, begin)
	require.Nil(t, loan)
	require.True(t, never)
	elsewhere := newEnterer(t, asynctest.Options{})
	theirs := floats(t, elsewhere.ex, 1)
	require.NoError(t, wait(elsewhere.ex.Synchronize()))
	loan, never = x.ex.Lend(0, theirs, begin)
	require.Nil(t, loan)
	require.False(t, never)
	b := floats(t, x.ex, 1, 2)
	loan, _ = x.ex.Lend(x.theirs.Native(), b, begin)
	require.Nil(t, loan, "there was no call on it")
	other, err := x.d.NewExecutor()
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Op("fill", []*Buffer{b}, []Scalar{Float(1)}, nil)
	require.NoError(t, err)
	require.Nil(t, x.lend(b), "others work on it")
	require.NoError(t, wait(other.Synchronize()))
	require.NotNil(t, x.lend(b))
	b.Free()
	require.Nil(t, x.lend(b), "it is freed")
}

// TestACaptureFindsWhatWasEntered before it began.
func TestACaptureFindsWhatWasEntered(t *testing.T) {
	x := newEnterer(t, asynctest.Options{Delay: 5 * time.Millisecond})
	b := Operand{Buffer: floats(t, x.ex, 1, 2)}
	d := x.publish(&Call{Op: opNamed(t, "vector_add"), Operands: []Operand{b, b, b}})
	require.NoError(t, wait(x.ex.Synchronize()))
	require.NotNil(t, x.lend(b.Buffer))
	require.True(t, x.enter(d, []Operand{{View: backends.View{Addr: b.Buffer.addr}}, {View: backends.View{Addr: b.Buffer.addr}}, {View: backends.View{Addr: b.Buffer.addr}}}))
	require.ErrorContains(t, x.ex.BeginCapture(), "at work")
	require.NoError(t, wait(x.ex.Synchronize()))
	require.NoError(t, x.ex.BeginCapture())
	require.False(t, x.enter(d, []Operand{b, b, b}), "the gate is open while the stream captures")
	g, err := x.ex.EndCapture()
	require.NoError(t, err)
	g.Release()
}

// TestAStreamWithAGateStays, however many others come.
func TestAStreamWithAGateStays(t *testing.T) {
	x := newEnterer(t, asynctest.Options{})
	a := x.array(0, 4)
	d := x.publish(x.op("vector_add", nil, a, a, a))
	for i := range int64(2 * maxForeign) {
		other := x.b.NewForeign(0)
		defer other.Close()
		c := x.op("copy", nil, x.array(256, 1), x.array(512+64*i, 1))
		c.Stream = other.Native()
		ev, err := x.ex.Call(c)
		require.NoError(t, wait(ev, err))
	}
	require.NoError(t, wait(x.ex.Synchronize()))
	require.True(t, x.enter(d, []Operand{a, a, a}))
	require.NoError(t, x.ex.Close())
}
