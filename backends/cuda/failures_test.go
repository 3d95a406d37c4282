package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// What fails half way leaves nothing of the driver's behind.
func TestFailuresLeaveNothing(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	d := r.d
	left := func() [2]int { return [2]int{len(r.memory), len(r.queues)} }
	had := left()
	set, alloc, end := r.api.Set8, r.api.MemAlloc, r.api.CaptureEnd

	r.api.Set8 = func(driver.Pointer, uint8, uint64, driver.Stream) driver.Result { return invalidValue }
	_, err := d.Alloc(64)
	require.ErrorContains(t, err, "cuMemsetD8Async")
	require.Equal(t, had, left(), "memory that could not be cleared")
	r.api.Set8 = set

	r.api.MemAlloc = func(*driver.Pointer, uint64) driver.Result { return driver.OutOfMemory }
	_, err = d.NewStream()
	require.ErrorIs(t, err, backends.ErrOutOfMemory)
	require.Equal(t, had, left(), "a stream without notes")
	r.api.MemAlloc = alloc

	require.NoError(t, r.s.BeginCapture())
	r.api.CaptureEnd = func(s driver.Stream, g *driver.Graph) driver.Result {
		end(s, g)
		delete(r.graphs, driver.Exec(*g))
		return invalidValue
	}
	_, err = r.s.EndCapture()
	require.ErrorContains(t, err, "cuStreamEndCapture")
	require.Equal(t, had, left(), "a capture that cannot be used")
	r.api.CaptureEnd = end
	r.close(t)

	f, retained := newFake(), 0
	f.api.PrimaryRetain = func(c *driver.Context, _ driver.Device) driver.Result { retained++; *c = fakeContext; return 0 }
	f.api.PrimaryRelease = func(driver.Device) driver.Result { retained--; return 0 }
	f.api.StreamCreate = func(*driver.Stream, uint32) driver.Result { return driver.OutOfMemory }
	_, err = (&Backend{load: func() (*driver.API, error) { return f.api, nil }}).Open(0)
	require.ErrorContains(t, err, "cuStreamCreate")
	require.Zero(t, retained, "a device that is not opened")
}

// A launch after which the thread's context cannot be taken back has been queued: who is told
// that it failed is told when it is over.
func TestFailuresToLeaveSettle(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	r.launch(t)
	pop, sync := r.api.CtxPop, r.calls["sync"]
	r.api.CtxPop = func(c *driver.Context) driver.Result { pop(c); r.api.CtxPop = pop; return invalidValue }
	_, err := r.s.Launch(r.k, &r.l)
	require.ErrorContains(t, err, "cuCtxPopCurrent")
	require.Equal(t, sync+1, r.calls["sync"])
	r.close(t)
}

// What a capture records uses the graph's notes, which last as long as it, and are freed once:
// the driver may have given their memory to somebody else by then.
func TestNotesOfAGraph(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	record := func() uintptr { return uintptr(binary.LittleEndian.Uint64(r.s.block)) }
	r.launch(t)
	require.Equal(t, uintptr(unsafe.Pointer(&r.s.notes.host.record)), record())
	require.NoError(t, r.s.BeginCapture())
	_, err := r.s.Launch(r.k, &r.l)
	require.NoError(t, err)
	require.Equal(t, uintptr(unsafe.Pointer(&r.s.graph.notes.host.record)), record())
	g, err := r.s.EndCapture()
	require.NoError(t, err)
	g.Release()
	free, host, exec := r.calls["free"], r.calls["host free"], r.calls["exec destroy"]
	g.Release()
	require.Equal(t, []int{free, host, exec}, []int{r.calls["free"], r.calls["host free"], r.calls["exec destroy"]})
	r.close(t)
}

// The legacy default stream, which would wait for one that somebody captures, is neither lost nor
// queued to meanwhile.
func TestAnotherStreamIsCaptured(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	w, err := r.d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	r.held = true
	ticket, err := w.Launch(r.k, &r.l)
	require.NoError(t, err)
	w.Passed() // has the ticket written
	asked := r.api.StreamIsCapturing
	r.api.StreamIsCapturing = func(driver.Stream, *int32) driver.Result { return driver.CaptureImplicit }
	require.Equal(t, backends.ErrPending, w.Wait(ticket, 2*time.Millisecond))
	require.False(t, r.d.lost.Load())
	_, err = w.Copy(r.l.Slots[0].Addr, r.l.Slots[1].Addr, 64)
	require.ErrorIs(t, err, backends.ErrCaptured)
	_, err = w.Launch(r.k, &r.l)
	require.ErrorIs(t, err, backends.ErrCaptured)
	r.api.StreamIsCapturing, r.held = asked, false
	r.run()
	require.NoError(t, w.Wait(ticket, time.Second))
	require.NoError(t, w.Close())
	r.close(t)
}

// The word of a guest whose graph does not take it is the driver's, which sets it at some time.
func TestAWordThatTheDriverHas(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	w, err := r.d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	s := w.(*stream)
	r.foreign[s.handle] = true
	r.api.GraphRetain = func(driver.Graph, driver.UserObject, uint32, uint32) driver.Result { return invalidValue }
	r.api.UserObjectRelease = func(driver.UserObject, uint32) driver.Result { return 0 } // later
	_, err = s.Join()
	require.ErrorContains(t, err, "cuGraphRetainUserObject")
	require.Len(t, r.objects, 1)
	for o, word := range r.objects {
		require.False(t, (*driver.Word)(word).Gone(), "the word was freed")
		r.end(o)
		require.True(t, (*driver.Word)(word).Gone())
	}
	r.foreign[s.handle] = false
	require.NoError(t, w.Close())
	r.close(t)
}

// A program whose launch block an old driver does not take is refused in words.
func TestManySlotsOfAnOldDriver(t *testing.T) {
	text, sum := "", ""
	for i := range 60 {
		text += fmt.Sprintf("slot s%d u32\n", i)
		sum += fmt.Sprintf(" ldg.u32 x, s%d[index]\n add.u32 v, v, x\n", i)
	}
	v, err := isa.Assemble("test", text+" mov.u32 v, 1\n"+sum+" stg.u32 v, s0[index]\n exit")
	require.NoError(t, err)
	ok, err := isa.Verify(v)
	require.NoError(t, err)
	fn, _, err := ir.Canonical(ok)
	require.NoError(t, err)
	for version, takes := range map[int]bool{12000: false, 12010: true} {
		r := newFakeRig(t, fakeAdd, 3)
		r.api.Version = version
		k, err := r.d.Compile(&backends.Unit{Source: ok, IR: fn, Hash: fn.Hash()}, backends.Variant{})
		if takes {
			require.NoError(t, err)
			k.Release()
		} else {
			var unsupported *backends.Unsupported
			require.ErrorAs(t, err, &unsupported)
		}
		r.close(t)
	}
}

// Notes of a closed stream whose word the device has still to write are no other stream's.
func TestNotesThatAreStillToBeWritten(t *testing.T) {
	r := newFakeRig(t, fakeAdd, 3)
	before, err := r.d.NewStream()
	require.NoError(t, err)
	had := before.(*stream).notes
	require.NoError(t, before.Close())
	had.told = had.host.tickets.Passed + 1
	other, err := r.d.NewStream()
	require.NoError(t, err)
	require.NotSame(t, had, other.(*stream).notes)
	had.host.tickets.Passed++
	again, err := r.d.NewStream()
	require.NoError(t, err)
	require.Same(t, had, again.(*stream).notes)
	require.NoError(t, errors.Join(other.Close(), again.Close()))
	r.close(t)
}
