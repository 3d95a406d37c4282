package gemm

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestPiecesAreCancelled stops a product whose B is packed a piece of its columns at a time, as soon
// as an element of the first piece is there: the last piece is not begun, the memory of what is
// packed is given back, and what comes next is right.
func TestPiecesAreCancelled(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("no product is done by machine code: %v", err)
	}
	defer Trim() // of 160 MB
	const k = chunk
	const m, n = 64, maxShared/(4*k) + 4096
	rows := kernels.Packed(isa.F32, k, n)
	rows.Stride[0] = 0 // one that lies in the caches
	p := launchOf(t, []kernels.Layout{kernels.Packed(isa.F32, m, k), rows, kernels.Packed(isa.F32, m, n)}, NoUnits, 0)
	for i := range p.before {
		p.before[i] = 0xee // a number that no sum is
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // who looks has one of Go's processors, when both threads are at work
	pool := workers.New(2)
	defer pool.Close()
	require.NoError(t, p.run(pool, nil))
	want := bytes.Clone(p.result)
	r, ok := p.k.prepare(&p.l)
	require.True(t, ok)
	r.divide(2, 1)
	require.Positive(t, r.later, "B is packed at once")
	first := r.first.n
	r.giveBack()

	cell := func(i int64) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&p.result[4*i]))) }
	midway := false
	for try := 0; try < 20 && !midway; try++ { // unless who looks comes late, on a machine that is busy
		var record backends.Record
		stop := make(chan struct{})
		looks := make(chan struct{})
		copy(p.result, p.before)
		go func() {
			defer close(looks)
			for ; cell(0) == 0xeeeeeeee; time.Sleep(20 * time.Microsecond) {
				select {
				case <-stop:
					return
				default:
				}
			}
			record.Stop()
		}()
		p.l.Record = &record
		err := p.k.Run(&p.l, pool)
		close(stop)
		<-looks
		if err == nil {
			continue
		}
		require.ErrorIs(t, err, backends.ErrCancelled)
		midway = cell(n-1) == 0xeeeeeeee && cell(first) == 0xeeeeeeee
		require.Nil(t, p.k.spare.Load().holder)
	}
	require.True(t, midway, "no launch was cancelled before its last piece")
	require.NoError(t, p.run(pool, nil))
	require.True(t, bytes.Equal(want, p.result))
}
