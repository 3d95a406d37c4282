package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// pinned is memory that the device of ex reaches, as others may have it pinned.
func pinned(t *testing.T, ex *Executor, bytes int64) (uintptr, []byte) {
	t.Helper()
	m, err := ex.device.dev.AllocHost(bytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ex.device.dev.FreeHost(m)) })
	return m.Addr, hostmem.Bytes(m.Addr, bytes)
}

// TestPinnedMemoryIsCopiedInPlace has copies of one piece and of several, which take
// none of our own memory on the way.
func TestPinnedMemoryIsCopiedInPlace(t *testing.T) {
	for _, n := range []int64{directBytes, 3*copyPiece + 7} {
		d := asyncDevice(t, asynctest.Options{Delay: 20 * time.Microsecond})
		ex := executorOn(t, d)
		from, in := pinned(t, ex, n+64)
		to, out := pinned(t, ex, n)
		for i := range 1001 {
			in[i] = byte(i * 7 / 3)
		}
		for done := 1001; done < len(in); done *= 2 {
			copy(in[done:], in[:done])
		}
		b, err := ex.Allocate(n, isa.U8, false)
		require.NoError(t, err)
		before := d.host.Stats().Reserved
		require.NoError(t, wait(b.Write(from+64, 0, n)))
		require.NoError(t, wait(b.Read(to, 0, n)))
		require.Equal(t, before, d.host.Stats().Reserved, "copies went through memory of ours")
		require.True(t, string(in[64:]) == string(out))
		// Memory that is not pinned to its end goes the other way.
		require.False(t, d.pinned(from, n+65))
		require.False(t, d.pinned(from, directBytes-1))
	}
}

// TestPinnedMemoryIsLeftAlone: who gives up a copy behind work without end has his
// memory for himself.
func TestPinnedMemoryIsLeftAlone(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{}))
	to, out := pinned(t, ex, directBytes)
	b, err := ex.Allocate(directBytes, isa.U8, true)
	require.NoError(t, err)
	require.NoError(t, wait(ex.Synchronize()))
	endlessLaunch(t, ex)
	for i := range out {
		out[i] = 7
	}
	within(t, "copies", func() {
		ev, err := b.Read(to, 0, directBytes)
		pending(t, "read", ev, err)
		ev, err = b.Write(to, 0, directBytes)
		pending(t, "write", ev, err)
	})
	ex.Cancel()
	_ = wait(ex.Synchronize())
	for _, x := range out {
		require.EqualValues(t, 7, x)
	}
}
