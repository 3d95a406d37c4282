package core

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestFreeingForeignMemoryWhileWorkUsesIt frees memory that others own while an
// endless launch uses it, from its own executor and from another one.
func TestFreeingForeignMemoryWhileWorkUsesIt(t *testing.T) {
	for name, d := range testDevices(t) {
		for _, c := range []struct {
			name           string
			deleter, other bool
		}{{"deleter", true, false}, {"none", false, false}, {"none, by another executor", false, true}} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				ex := executorOn(t, d)
				user := ex
				if c.other {
					user = executorOn(t, d)
				}
				p := assemble(t, forever)
				base, err := ex.Allocate(4, isa.U32, true)
				require.NoError(t, err)
				words(t, base) // zeroed by now, whoever uses it
				var deleted atomic.Int32
				deleter := func() { deleted.Add(1) }
				if !c.deleter {
					deleter = nil
				}
				b, err := ex.Wrap(base.Layout().Addr, isa.U32, []int64{4}, nil, false, deleter)
				require.NoError(t, err)
				ev, err := user.Launch(p, &LaunchArgs{Slots: []*Buffer{b}, Shape: []int64{4}})
				require.NoError(t, err)
				if ev == nil {
					ev, err = user.Synchronize()
					require.NoError(t, err)
				}
				freed := make(chan struct{})
				go func() {
					b.Free()
					close(freed)
				}()
				select {
				case <-freed:
					if !c.deleter {
						t.Error("Free returned, and the launch still uses the memory")
					}
				case <-time.After(30 * time.Millisecond):
					if c.deleter {
						t.Error("Free waits although a deleter can tell the end")
					}
				}
				if deleted.Load() != 0 {
					t.Error("deleted while a launch uses the memory")
				}
				ev.Cancel()
				user.Cancel() // the launch itself, where the device has queued it
				wants(t, wait(ev, nil), Cancelled, "cancelled")
				_ = wait(user.Synchronize())
				<-freed
				if c.deleter && deleted.Load() != 1 {
					t.Errorf("deleted %d times", deleted.Load())
				}
				_, err = user.Launch(p, &LaunchArgs{Slots: []*Buffer{b}, Shape: []int64{4}})
				wants(t, err, BadHandle, "slot c: the buffer is freed")
			})
		}
	}
}

// TestAViewThatComesTooLate makes a view of memory of others while its executor
// closes: the owner is still told.
func TestAViewThatComesTooLate(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	base := floats(t, executorOn(t, ex.device), 1, 2)
	told := 0
	b, err := ex.Wrap(base.addr, isa.F32, []int64{2}, nil, false, func() { told++ })
	require.NoError(t, err)
	ex.mu.Lock()
	ex.closed = true // what Close sets before it frees the buffers
	ex.mu.Unlock()
	_, err = b.View(0, nil, nil)
	wants(t, err, BadHandle, "executor is freed")
	_, err = ex.Wrap(base.addr, isa.F32, []int64{2}, nil, false, func() { t.Error("Wrap failed, and its deleter is called") })
	wants(t, err, BadHandle, "executor is freed")
	ex.mu.Lock()
	ex.closed = false
	ex.mu.Unlock()
	b.Free()
	require.Equal(t, 1, told)
}

// TestArraysOfTheHost are taken in place, as Wrap takes them, by a device that
// sees the host's memory, whatever it calls its own.
func TestArraysOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		options asynctest.Options
		takes   bool
	}{
		"visible": {asynctest.Options{HostVisible: true, DLPackType: 8, Delay: time.Millisecond}, true},
		"not":     {asynctest.Options{DLPackType: 8}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Report = func(s string) { t.Error(s) }
			ex := executorOn(t, asyncDevice(t, c.options))
			x := floats(t, ex, 1, 2)
			m, err := executorOn(t, testDevices(t)["cpu"]).Allocate(2, isa.F32, true)
			require.NoError(t, err)
			operand := Operand{View: m.Layout(), DeviceType: dlpackCPU}
			call := &Call{Op: kernels.ScalarAdd, Operands: []Operand{{Buffer: x}, operand}, Scalars: []Scalar{Float(1)}}
			err = wait(ex.Call(call))
			_, wrapped := ex.Wrap(m.Layout().Addr, isa.F32, []int64{2}, nil, false, nil)
			if !c.takes {
				wants(t, err, Unavailable, "scalar_add: c: the array is on DLPack device (1, 0), which is not memory that async works on")
				require.Error(t, wrapped)
				return
			}
			require.NoError(t, err)
			require.NoError(t, wrapped)
			require.Equal(t, []float32{2, 3}, values(t, m))
			call.Operands[1].DeviceType = 2
			wants(t, wait(ex.Call(call)), Unavailable, "DLPack device (2, 0)")
		})
	}
}

// TestADeleterThatClears frees all in the deleter of memory of others, as clear_all
// does it: the work that lets go of the memory is not waited for, by what it calls.
// (Where the device works while called Close waits for the goroutine that calls.)
func TestADeleterThatClears(t *testing.T) {
	for name, d := range testDevices(t) {
		if !d.Info.Asynchronous {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ex, owner := executorOn(t, d), executorOn(t, d)
			base, err := owner.Allocate(4, isa.U32, true)
			require.NoError(t, err)
			words(t, base) // zeroed by now, whoever uses it
			p := assemble(t, strings.Replace(forever, "again:", "mov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nagain:", 1))
			called, cleared := make(chan *Event, 1), make(chan struct{})
			var residue [NumClasses]uint64
			ev, err := ex.Call(&Call{
				Program: p, Residue: &residue, Dims: []int64{4},
				Operands: []Operand{{View: base.Layout(), DeviceType: d.Info.DLPackType, DeviceID: d.Info.DLPackID}},
				Deleter: func() {
					ev := <-called
					ev.Cancel()
					_ = ex.Close()
					ev.Leave()
					close(cleared)
				},
			})
			require.NoError(t, err)
			called <- ev
			time.Sleep(20 * time.Millisecond) // it is under way
			ev.Cancel()
			go func() { _ = ev.Wait(10 * time.Second) }()
			select {
			case <-cleared:
			case <-time.After(10 * time.Second):
				t.Fatal("the deleter waits for the work that has called it")
			}
			require.Error(t, ev.Wait(10*time.Second))
		})
	}
}
