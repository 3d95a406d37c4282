package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// TestFirstUsesBesideABusyExecutor uses operations for the first time while another
// executor of the device is never idle, and code that is loaded waits for what is
// queued.
func TestFirstUsesBesideABusyExecutor(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Delay: 50 * time.Microsecond, Specialize: true, LoadStalls: true})
	ex, err := d.NewExecutor()
	require.NoError(t, err)
	busy, err := d.NewExecutor()
	require.NoError(t, err)
	x := floats(t, ex, 0, 0)
	stop, failed := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			y, err := busy.Allocate(4, isa.F32, true)
			if err == nil {
				_, err = busy.Op("vector_add", []*Buffer{y, y, y}, nil, nil)
				y.Free()
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	within(t, "a first use", func() {
		for _, op := range []string{"vector_exp", "tanh", "vector_neg"} {
			require.NoError(t, wait(ex.Op(op, []*Buffer{x, x}, nil, nil)), op)
		}
	})
	require.InDeltaSlice(t, []float32{-0.7615942, -0.7615942}, values(t, x), 1e-6)
	close(stop)
	require.NoError(t, <-failed)
}
