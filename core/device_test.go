package core

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
)

// slowToTell is a backend of threads, and its device, which takes its time to tell
// how many there are.
type slowToTell struct {
	backends.Device
	n atomic.Int32
}

func (d *slowToTell) SetThreads(n int) { d.n.Store(int32(n)) }

func (d *slowToTell) Info() backends.Info {
	info := d.Device.Info()
	info.Threads = int(d.n.Load())
	time.Sleep(time.Duration(20-2*info.Threads) * time.Millisecond) // so that who asks first knows last
	return info
}

// TestChoosingThreadsAtOnce has several goroutines choose the number of threads:
// calls are prepared for as many as there are in the end.
func TestChoosingThreadsAtOnce(t *testing.T) {
	dev, err := interp.New().Open(0)
	require.NoError(t, err)
	slow := &slowToTell{Device: dev}
	d, err := newDevice("slow", interp.New(), slow)
	require.NoError(t, err)
	d.workers = slow
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			time.Sleep(time.Duration(n) * time.Millisecond)
			d.setThreads(n + 1)
		})
	}
	group.Wait()
	require.Equal(t, slow.n.Load(), d.call.Threads.Load())
}
