package asynctest

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

const double = `
program double
slot a u32
slot c u32
  ldg.u32 x, a[index]
  add.u32 x, x, x
  stg.u32 x, c[index]
  exit`

const endless = `
program endless
slot a u32
slot c u32
again:
  stg.u32 1, c[index]
  bra again
  exit`

const n = 100

// rig is a device with a program compiled and memory for its two slots.
type rig struct {
	d backends.Device
	s backends.Stream
	k backends.Kernel
	m [2]backends.Memory
	l backends.Launch
}

func newRig(t *testing.T, o Options, text string) *rig {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := isa.Verify(p)
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := ir.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{}
	if r.d, err = New(o).Open(0); err != nil {
		t.Fatal(err)
	}
	if r.k, err = r.d.Compile(&backends.Unit{Source: v, IR: f}); err != nil {
		t.Fatal(err)
	}
	if r.s, err = r.d.NewStream(); err != nil {
		t.Fatal(err)
	}
	r.l = backends.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{n, 1, 1}, Rank: 1, N: n}
	r.l.Shape[0] = n
	for i := range r.m {
		if r.m[i], err = r.d.Alloc(4 * n); err != nil {
			t.Fatal(err)
		}
		w := backends.View{Addr: r.m[i].Addr, Bytes: 4 * n, Type: isa.U32, Rank: 1}
		w.Shape[0], w.Stride[0] = n, 1
		r.l.Slots = append(r.l.Slots, w)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.s.Close(), r.d.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// finish waits for an event.
func finish(t *testing.T, e backends.Event, err error) error {
	t.Helper()
	if err != nil {
		return err
	}
	if e == nil {
		t.Fatal("no event")
	}
	if err = e.Wait(20 * time.Second); errors.Is(err, backends.ErrPending) {
		t.Fatal("it takes for ever")
	}
	return err
}

func TestLaterInOrder(t *testing.T) {
	r := newRig(t, Options{Delay: 20 * time.Millisecond}, double)
	host, _ := hostmem.Alloc(8 * n)
	defer hostmem.Free(host, 8*n)
	in, out := unsafe.Slice((*uint32)(hostmem.Pointer(host)), n), unsafe.Slice((*uint32)(hostmem.Pointer(host+4*n)), n)
	for i := range in {
		in[i] = uint32(i)
	}
	e1, err1 := r.s.Copy(r.m[0].Addr, host, 4*n, false, true)
	e2, err2 := r.s.Launch(r.k, &r.l)
	e3, err3 := r.s.Copy(host+4*n, r.m[1].Addr, 4*n, true, false)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if err := e3.Wait(0); !errors.Is(err, backends.ErrPending) {
		t.Errorf("the last copy is done at once: %v", err)
	}
	if err := e3.Wait(time.Microsecond); !errors.Is(err, backends.ErrPending) {
		t.Errorf("the last copy is done after a microsecond: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := r.s.Synchronize(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Synchronize returned %v", err)
	}
	if err := r.d.Free(r.m[0]); err == nil {
		t.Error("memory was freed that queued work uses")
	}
	if err := r.s.Synchronize(context.Background()); err != nil {
		t.Error(err)
	}
	for _, e := range []backends.Event{e1, e2, e3} {
		if err := e.Wait(0); err != nil {
			t.Error(err)
		}
	}
	for i, x := range out {
		if x != uint32(2*i) {
			t.Fatalf("element %d is %d", i, x)
		}
	}
	if err := r.d.Free(r.m[0]); err != nil {
		t.Error(err)
	}
	if err := r.d.Free(r.m[0]); err == nil {
		t.Error("memory was freed twice")
	}
}

// TestMemoryIsAway touches device memory from the host.
func TestMemoryIsAway(t *testing.T) {
	r := newRig(t, Options{}, double)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("the host can read device memory")
		}
	}()
	sink = *(*byte)(hostmem.Pointer(r.m[0].Addr))
}

var sink byte

func TestInjected(t *testing.T) {
	r := newRig(t, Options{FailLaunch: 2, FailCopy: 1, FailAlloc: 3}, double)
	for i, want := range []error{nil, ErrInjected, nil} {
		e, err := r.s.Launch(r.k, &r.l)
		if err = finish(t, e, err); !errors.Is(err, want) {
			t.Errorf("launch %d: %v", i+1, err)
		}
	}
	for i, want := range []error{ErrInjected, nil} {
		e, err := r.s.Copy(r.m[1].Addr, r.m[0].Addr, 4*n, false, false)
		if err = finish(t, e, err); !errors.Is(err, want) {
			t.Errorf("copy %d: %v", i+1, err)
		}
	}
	if _, err := r.d.Alloc(1); !errors.Is(err, backends.ErrOutOfMemory) || !errors.Is(err, ErrInjected) {
		t.Errorf("allocation 3: %v", err)
	}
	if _, err := r.d.Alloc(1); err != nil {
		t.Errorf("allocation 4: %v", err)
	}
}

func TestMemoryLimit(t *testing.T) {
	r := newRig(t, Options{Memory: 1000}, double)
	if _, err := r.d.Alloc(300); !errors.Is(err, backends.ErrOutOfMemory) {
		t.Errorf("300 bytes of 200: %v", err)
	}
	m, err := r.d.Alloc(200)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.d.Alloc(1); !errors.Is(err, backends.ErrOutOfMemory) {
		t.Errorf("1 byte of 0: %v", err)
	}
	if err := r.d.Free(m); err != nil {
		t.Error(err)
	}
	if _, err := r.d.Alloc(200); err != nil {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	// One is cancelled while it waits, one while it runs.
	for _, delay := range []time.Duration{time.Hour, 0} {
		r := newRig(t, Options{Delay: delay}, endless)
		r.l.Cancel = new(atomic.Bool)
		e, err := r.s.Launch(r.k, &r.l)
		time.Sleep(5 * time.Millisecond)
		r.l.Cancel.Store(true)
		if err = finish(t, e, err); !errors.Is(err, backends.ErrCancelled) {
			t.Errorf("delay %v: %v", delay, err)
		}
	}
}

// TestForeignAddresses passes host memory for the device's, and the reverse.
func TestForeignAddresses(t *testing.T) {
	r := newRig(t, Options{}, double)
	host, _ := hostmem.Alloc(4 * n)
	defer hostmem.Free(host, 4*n)
	if _, err := r.s.Copy(host, r.m[0].Addr, 4*n, false, false); err == nil {
		t.Error("copied to host memory as if it were the device's")
	}
	if _, err := r.s.Copy(r.m[0].Addr+4, r.m[1].Addr, 4*n, false, false); err == nil {
		t.Error("copied beyond a block's end")
	}
	r.l.Slots[1].Addr = host
	if _, err := r.s.Launch(r.k, &r.l); err == nil {
		t.Error("launched on host memory")
	}
	r.l.Slots[1] = r.l.Slots[0]
	r.l.Slots[1].Stride[0] = 2
	if _, err := r.s.Launch(r.k, &r.l); err == nil {
		t.Error("launched on a view that reaches outside")
	}
}

func TestClosed(t *testing.T) {
	d, err := New(Options{}).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err == nil {
		t.Error("closed twice")
	}
	if _, err := s.Copy(0, 0, 0, true, true); err == nil {
		t.Error("copied on a closed stream")
	}
	if _, err := New(Options{}).Open(1); err == nil {
		t.Error("opened device 1")
	}
}
