package core

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/isa"
)

// used leaves memory in the pool that was written to, of the size of some elements.
func used(t *testing.T, ex *Executor, n int) {
	t.Helper()
	x := floats(t, ex, make([]float32, n)...)
	require.NoError(t, wait(x.Fill(Float(9))))
	require.NoError(t, wait(ex.Synchronize()))
	x.Free()
}

// TestZeroingBehindAnEndlessLaunch allocates memory that an endless launch uses:
// it is zeroed behind that, and other executors' memory is not.
func TestZeroingBehindAnEndlessLaunch(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	a, b := executorOn(t, d), executorOn(t, d)
	c, _ := endlessLaunch(t, a)
	mine := floats(t, b, 9, 9, 9, 9)
	at := c.Layout().Addr
	c.Free()
	again, err := a.Allocate(4, isa.U32, true)
	require.NoError(t, err)
	require.Equal(t, at, again.Layout().Addr)
	mine.Free()
	within(t, "another executor's zeroing", func() {
		x, err := b.Allocate(4, isa.F32, true)
		require.NoError(t, err)
		require.Equal(t, []float32{0, 0, 0, 0}, values(t, x))
	})
	a.Cancel()
	require.NoError(t, wait(a.Synchronize()))
	require.Equal(t, []uint32{0, 0, 0, 0}, words(t, again))
}

// TestZeroingOfAStreamThatIsFull allocates more zeroed memory than a stream takes
// works while nothing of it is done. All is zero, for others at once, and what is
// freed meanwhile is nobody's to zero any more.
func TestZeroingOfAStreamThatIsFull(t *testing.T) {
	var told atomic.Pointer[string]
	d := asyncDevice(t, asynctest.Options{Report: func(s string) { told.Store(&s) }})
	a, b := executorOn(t, d), executorOn(t, d)
	const n = 300
	var old []*Buffer
	for range n {
		old = append(old, floats(t, a, 9, 9))
	}
	require.NoError(t, wait(a.Synchronize()))
	for _, x := range old {
		x.Free()
	}
	c, _ := endlessLaunch(t, a)
	var zeroed []*Buffer
	within(t, "zeroing", func() {
		for range n {
			x, err := a.Allocate(2, isa.F32, true)
			require.NoError(t, err)
			zeroed = append(zeroed, x)
		}
		last := zeroed[n-1]
		require.Equal(t, []float32{0, 0}, valuesBy(t, b, last))
		last.Free()
		zeroed = zeroed[:n-1]
		used := floats(t, b, 7, 7)
		defer func() { require.Equal(t, []float32{7, 7}, values(t, used)) }()
		a.Cancel()
		require.NoError(t, wait(a.Synchronize()))
	})
	for _, x := range zeroed {
		require.Equal(t, []float32{0, 0}, values(t, x))
		x.Free()
	}
	c.Free()
	require.Zero(t, a.Used())
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

// valuesBy reads a buffer of f32 by another executor's stream.
func valuesBy(t *testing.T, ex *Executor, b *Buffer) []float32 {
	t.Helper()
	out := floats(t, ex, make([]float32, b.Len())...)
	require.NoError(t, wait(ex.Op("copy", []*Buffer{b, out}, nil, nil)))
	return values(t, out)
}

// TestZeroingThatIsNotQueuedYet allocates while the executor's stream is at long
// work, as a copy of much is: nobody waits for its end.
func TestZeroingThatIsNotQueuedYet(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{}))
	used(t, ex, 2)
	held := make(chan struct{})
	_, err := ex.stream.Submit(&waiting{held}, queue.How{Long: true})
	require.NoError(t, err)
	within(t, "zeroing", func() {
		x, err := ex.Allocate(2, isa.F32, true)
		require.NoError(t, err)
		close(held)
		require.Equal(t, []float32{0, 0}, values(t, x))
	})
}

// TestZeroingWhileCapturing allocates zeroed memory, of which there is used some,
// while its stream captures: the zeroing is no part of what is replayed.
func TestZeroingWhileCapturing(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{Delay: 20 * time.Microsecond}))
	x := floats(t, ex, 3, 4)
	used(t, ex, 2)
	require.NoError(t, ex.BeginCapture())
	y, err := ex.Allocate(2, isa.F32, true)
	require.NoError(t, err)
	require.NoError(t, wait(ex.Op("vector_add", []*Buffer{x, y, y}, nil, nil)))
	g, err := ex.EndCapture()
	require.NoError(t, err)
	require.Equal(t, []float32{0, 0}, values(t, y))
	for range 2 {
		require.NoError(t, wait(ex.Replay(g)))
	}
	require.Equal(t, []float32{6, 8}, values(t, y))
	g.Release()
}

// TestZeroingThatFails tells of it the executor whose memory it was, by the next
// call that waits, and nobody else.
func TestZeroingThatFails(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{FailFill: 1})
	a, b := executorOn(t, d), executorOn(t, d)
	x := floats(t, a, 3, 3) // fresh memory is zero
	require.NoError(t, wait(a.Synchronize()))
	x.Free()
	y, err := a.Allocate(2, isa.F32, true)
	require.NoError(t, err)
	require.Equal(t, []float32{3, 3}, valuesBy(t, b, y))
	require.NoError(t, wait(b.Synchronize()))
	wants(t, wait(a.Synchronize()), Internal, "zeroing of 8 bytes")
	require.NoError(t, wait(a.Synchronize()))
}
