package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

func TestOutOfMemory(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Memory: 64 << 20, Delay: 50 * time.Microsecond})
	ex := executorOn(t, d)
	// Memory of launches in flight and of freed buffers is found again when it is needed.
	for range 5 {
		b, err := ex.Allocate(10<<18, isa.F32, true)
		require.NoError(t, err)
		require.NoError(t, wait(b.Fill(Float(1))))
		b.Free()
		b, err = ex.Allocate(7<<18, isa.F32, false)
		require.NoError(t, err)
		require.NoError(t, wait(b.Fill(Float(1))))
		b.Free()
	}
	_, err := ex.Allocate(17<<20, isa.F32, true)
	wants(t, err, OutOfMemory, "allocate: ")
	// What fails once is asked for again, after work that is done has let go of its memory.
	again := executorOn(t, asyncDevice(t, asynctest.Options{FailAlloc: 1}))
	b, err := again.Allocate(10, isa.F32, true)
	require.NoError(t, err)
	if used := again.Used(); used != 64 {
		t.Errorf("%d bytes on the account of one small block", used)
	}
	b.Free()
	require.NoError(t, again.SetQuota(1<<20))
	_, err = again.Allocate(1<<20, isa.F32, true)
	wants(t, err, OutOfMemory, "quota of 1 MiB")
	if again.Used() != 0 {
		t.Errorf("%d bytes on the account of an allocation that failed", again.Used())
	}
}

// Allocating without waiting gives what Allocate gives, or nothing has happened.
func TestTryAllocate(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		busy := func(n int64, zeroed bool) bool {
			before := ex.Used()
			b, err := ex.TryAllocate(n, isa.F32, zeroed)
			if CodeOf(err) == Busy {
				require.Nil(t, b)
				require.Equal(t, before, ex.Used())
				return true
			}
			require.NoError(t, err)
			require.NoError(t, wait(b.Fill(Float(1))))
			b.Free()
			return false
		}
		// A block that was used before is at hand, and zeroed again.
		used, err := ex.Allocate(1024, isa.F32, true)
		require.NoError(t, err)
		require.NoError(t, wait(used.Fill(Float(7))))
		used.Free()
		b, err := ex.TryAllocate(1024, isa.F32, true)
		if ex.Device().Info.Asynchronous {
			require.Equal(t, Busy, CodeOf(err))
			return
		}
		require.NoError(t, err)
		require.Equal(t, make([]float32, 1024), values(t, b))
		b.Free()
		require.False(t, busy(1024, true))
		// What the device must be asked for, or takes long to zero.
		require.True(t, busy(1<<40, false))
		large, err := ex.Allocate(1<<20, isa.F32, false)
		require.NoError(t, err)
		large.Free()
		require.False(t, busy(1<<20, false))
		require.True(t, busy(1<<20, true))
		_, err = ex.TryAllocate(0, isa.F32, true)
		wants(t, err, Invalid, "allocate: size is 0")
		require.NoError(t, ex.SetQuota(1<<10))
		_, err = ex.TryAllocate(1024, isa.F32, true)
		wants(t, err, OutOfMemory, "quota of 1 KiB")
	})
}
