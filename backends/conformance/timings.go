package conformance

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

const increment = `
program increment
slot z u32
  ldg.u32 x, z[index]
  add.u32 x, x, 1
  stg.u32 x, z[index]
  exit
`

// clockStep is how coarse the clock of a device may be.
const clockStep = time.Microsecond

// timings is work on a stream whose times are asked for.
type timings struct {
	*testing.T
	*rig
	stream backends.Timer
	kernel backends.Kernel
	launch backends.Launch
	bytes  int64
	count  uint32 // launches so far
}

// runTimings has work timed that a device does by itself. One that works while it is
// called is timed by who calls it.
func runTimings(t *testing.T, b backends.Backend) {
	r := newRig(t, b)
	defer r.close()
	if !r.info.Asynchronous {
		return
	}
	v := assemble(t, increment)
	k, err := r.kernel(v)
	require.NoError(t, err)
	const n = 4096
	m, err := r.device.Alloc(2 * 4 * n)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.device.Free(m)) }()
	view := backends.View{Addr: m.Addr, Bytes: 4 * n, Type: isa.U32, Rank: 1}
	view.Shape[0], view.Stride[0] = n, 1
	l := backends.Launch{Slots: []backends.View{view}, Grid: [3]uint32{n / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 1, N: n}
	l.Shape[0] = n
	l.Record, _ = r.record()
	if n := k.Workspace(&l); n > 0 {
		w, err := r.device.Alloc(n)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.device.Free(w)) }()
		l.Workspace = w.Addr
	}
	x := &timings{T: t, rig: r, kernel: k, launch: l, bytes: 4 * n}
	for _, order := range []struct {
		name   string
		change func([]backends.Timing)
	}{
		{"asked in the order of the work", func([]backends.Timing) {}},
		{"asked the other way round", slices.Reverse[[]backends.Timing]},
	} {
		t.Run(order.name, func(t *testing.T) {
			x.T = t
			x.on(func() { x.inOrder(order.change) })
		})
	}
	t.Run("what is not timed", func(t *testing.T) {
		x.T = t
		x.on(x.untimed)
	})
	staged, err := r.stage(4)
	require.NoError(t, err)
	require.NoError(t, r.settle(r.stream.Copy(r.staging.Addr, m.Addr, 4)))
	require.Equal(t, x.count, binary.NativeEndian.Uint32(staged), "launches that were queued, timed or not")
}

// on gives f a stream of its own.
func (x *timings) on(f func()) {
	s, err := x.device.NewStream()
	require.NoError(x, err)
	own := x.rig.stream
	defer func() {
		x.rig.stream = own
		require.NoError(x, s.Close())
	}()
	timer, ok := s.(backends.Timer)
	require.True(x, ok, "an asynchronous device's streams tell times")
	x.rig.stream, x.stream = s, timer
	f()
}

func (x *timings) add() (backends.Ticket, error) {
	x.count++
	return x.rig.stream.Launch(x.kernel, &x.launch)
}

// inOrder times work of each kind, with other work in between, and asks for the times
// once all has passed.
func (x *timings) inOrder(change func([]backends.Timing)) {
	s, addr := x.rig.stream, x.launch.Slots[0].Addr
	c := s.(backends.Capturer)
	require.NoError(x, c.BeginCapture())
	_, err := x.add()
	require.NoError(x, err)
	g, err := c.EndCapture()
	require.NoError(x, err)
	defer g.Release()
	x.count-- // recorded
	replay := func() (backends.Ticket, error) {
		x.count++
		return g.Replay(s)
	}
	second := addr + uintptr(x.bytes)
	fill := func() (backends.Ticket, error) { return s.Fill(second, 7, 4, x.bytes/4) }
	dup := func() (backends.Ticket, error) { return s.Copy(second+uintptr(x.bytes/2), second, x.bytes/2) }
	start := time.Now()
	var asked []backends.Timing
	var last backends.Ticket
	runs := []func() (backends.Ticket, error){fill, x.add, dup, replay, x.add}
	for _, run := range runs {
		asked = append(asked, x.stream.Time())
		_, err := run()
		require.NoError(x, err)
		last, err = fill() // not timed
		require.NoError(x, err)
	}
	require.NoError(x, x.settle(last, nil))
	wall := time.Since(start)
	spans := map[backends.Timing][2]time.Duration{}
	ask := slices.Clone(asked)
	change(ask)
	for _, timing := range ask {
		began, ended, err := timing.Span()
		require.NoError(x, err)
		spans[timing] = [2]time.Duration{began, ended}
		timing.Release()
	}
	for i, timing := range asked {
		began, ended := spans[timing][0], spans[timing][1]
		require.GreaterOrEqual(x, ended, began, "work %d ended before it began", i)
		if i == 1 || i >= 3 {
			require.Greater(x, ended, began, "launch %d took no time", i)
		}
		if i > 0 {
			require.GreaterOrEqual(x, began+clockStep, spans[asked[i-1]][1], "work %d began before %d had ended", i, i-1)
		}
	}
	total := spans[asked[len(asked)-1]][1] - spans[asked[0]][0]
	require.LessOrEqual(x, total, wall+clockStep, "it took longer than the host saw")
}

// untimed asks for the times of what is refused, captured, or never queued.
func (x *timings) untimed() {
	s, addr := x.rig.stream, x.launch.Slots[0].Addr
	no := func(timing backends.Timing, why string) {
		x.Helper()
		_, _, err := timing.Span()
		require.Error(x, err, why)
		timing.Release()
	}
	no(x.stream.Time(), "no work")
	require.NoError(x, x.settle(x.add())) // not timed either

	refused := x.stream.Time()
	_, err := s.Fill(addr, 0, 3, 1)
	require.Error(x, err)
	no(refused, "refused work")

	c := s.(backends.Capturer)
	require.NoError(x, c.BeginCapture())
	captured := x.stream.Time()
	_, err = x.add() // which counts when it is replayed
	require.NoError(x, err)
	g, err := c.EndCapture()
	require.NoError(x, err)
	defer g.Release()
	no(captured, "captured work")
	require.NoError(x, x.settle(g.Replay(s)))

	// Let go of before the work, or before it has passed; then others are right all the same.
	x.stream.Time().Release()
	require.NoError(x, x.settle(x.add()))
	for range 50 {
		timing := x.stream.Time()
		_, err = x.add()
		require.NoError(x, err)
		timing.Release()
	}
	kept := x.stream.Time()
	require.NoError(x, x.settle(x.add()))
	began, ended, err := kept.Span()
	require.NoError(x, err)
	require.Greater(x, ended, began)
	require.Less(x, ended-began, time.Minute)
	kept.Release()
}
