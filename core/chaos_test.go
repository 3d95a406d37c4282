package core

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// TestManyAtOnce has goroutines use a few executors of a device, and many streams
// of others, in all ways at once, trim its memory and cancel each other's work:
// what is not cancelled is right, nothing stays in use, memory that is there is
// never refused, and the device finds no breach of its contract.
func TestManyAtOnce(t *testing.T) {
	var told atomic.Pointer[string]
	b := asynctest.New(asynctest.Options{Delay: 30 * time.Microsecond, Memory: 64 << 20, Workspace: 100, Specialize: true,
		Report: func(s string) { told.CompareAndSwap(nil, &s) }})
	d := openAsync(t, b, 0)
	used := d.pool.Stats().InUse
	p := assemble(t, double)
	var natives [3 * maxForeign / 2]uintptr
	for i := range natives {
		theirs := b.NewForeign(0)
		t.Cleanup(theirs.Close)
		natives[i] = theirs.Native()
	}
	var compared atomic.Int32 // rounds in which nobody cancelled
	within(t, "many at once", func() {
		for seed := range uint64(2) {
			executors := []*Executor{executorOn(t, d), executorOn(t, d), executorOn(t, d)}
			var group sync.WaitGroup
			var begun, ended atomic.Int32 // cancels
			cancel := func(c func()) {
				begun.Add(1)
				c()
				ended.Add(1)
			}
			for g := range uint64(6) {
				group.Go(func() {
					r := rand.New(rand.NewPCG(seed, g))
					for range 60 {
						ex, other := executors[r.IntN(3)], executors[r.IntN(3)]
						over, before := ended.Load(), begun.Load()
						n := int64(1 + r.IntN(5000))
						if r.IntN(10) == 0 { // a block of its own; all at once are a quarter of the memory
							n = 1<<18 + int64(r.IntN(1<<16))
						}
						x, err := ex.Allocate(n, isa.F32, r.IntN(2) == 0)
						if err != nil {
							t.Error(err)
							return
						}
						y, err := other.Allocate(n, isa.F32, true)
						if err != nil {
							t.Error(err)
							return
						}
						one := func(ev *Event, err error) {
							if r.IntN(20) == 0 && ev != nil {
								cancel(ev.Cancel)
							}
							if err := wait(ev, err); err != nil && CodeOf(err) != Cancelled {
								t.Error(err)
							}
						}
						one(x.Fill(Float(2)))
						one(other.Launch(p, &LaunchArgs{Slots: []*Buffer{x, y}, Shape: []int64{0}}))
						one(other.Call(&Call{Program: p, Operands: []Operand{{Buffer: x}, {Buffer: y}}, Stream: natives[r.IntN(len(natives))],
							Fuel: uint64(r.IntN(2)) * 1000}))
						if r.IntN(15) == 0 {
							d.Trim()
						}
						if r.IntN(15) == 0 {
							cancel(ex.Cancel)
						}
						one(ex.Op("reduce_sum", []*Buffer{y, x}, nil, []int64{1, n}))
						data := hostBytes(4)
						err = wait(x.Read(addressOf(data), 0, 4))
						if begun.Load() == over && over == before && err == nil {
							compared.Add(1)
							if got := first32(data); got != float32(4*n) {
								t.Errorf("the sum of %d fours is %v", n, got)
							}
						}
						x.Free()
						y.Free()
					}
				})
			}
			group.Wait()
			for _, ex := range executors {
				_ = ex.Close()
			}
		}
	})
	require.GreaterOrEqual(t, compared.Load(), int32(100), "of 720 rounds")
	require.Equal(t, used, d.pool.Stats().InUse)
	if s := told.Load(); s != nil {
		t.Error(*s)
	}
}

func first32(data []byte) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(data))
}
