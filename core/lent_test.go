package core

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// settling is a device that settles as is told to it.
type settling struct {
	backends.Device
	results chan error
}

func (s *settling) Settle() error { return <-s.results }

// TestLentMemorySettles: memory of a device that others had comes back once all is
// done that they may have queued on it, and not before, or when the device is lost.
func TestLentMemorySettles(t *testing.T) {
	for _, last := range []error{nil, backends.ErrLost} {
		b := asynctest.New(asynctest.Options{})
		dev, err := b.Open(0)
		require.NoError(t, err)
		s := &settling{dev, make(chan error)}
		d, err := newDevice("async", b, s)
		require.NoError(t, err)
		ex := executorOn(t, d)
		x, err := ex.Allocate(1000, isa.F32, true)
		require.NoError(t, err)
		l, err := x.Lease()
		require.NoError(t, err)
		x.Free()
		l.Release()
		s.results <- errors.New("somebody captures")
		time.Sleep(5 * time.Millisecond)
		require.Positive(t, l.mem.Users(), "others may still use it")
		s.results <- last
		require.Eventually(t, func() bool { return l.mem.Users() == 0 }, time.Minute, time.Millisecond)
	}
}
