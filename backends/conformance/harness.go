package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// guard is what memory around and between a view's elements is filled with.
const guard = 0xa5

// guardBytes is how far guards reach on both sides of an array.
const guardBytes = 256

// rig is a device under test and what it takes to run programs on it.
type rig struct {
	t       testing.TB
	info    backends.Info
	device  backends.Device
	stream  backends.Stream
	kernels map[*isa.Verified]backends.Kernel
	skipped map[string]bool
	fuel    uint64 // for the launches of random programs
}

// newRig opens device 0 of b. The caller closes it.
func newRig(t testing.TB, b backends.Backend) *rig {
	t.Helper()
	infos, err := b.Devices()
	if err != nil || len(infos) == 0 {
		t.Fatalf("%s has no device: %v", b.Name(), err)
	}
	d, err := b.Open(0)
	if err != nil {
		t.Fatalf("%s: %v", b.Name(), err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatalf("%s: %v", b.Name(), err)
	}
	return &rig{t: t, info: d.Info(), device: d, stream: s, kernels: map[*isa.Verified]backends.Kernel{}, skipped: map[string]bool{}}
}

func (r *rig) close() {
	for _, k := range r.kernels {
		k.Release()
	}
	if err := errors.Join(r.stream.Close(), r.device.Close()); err != nil {
		r.t.Errorf("closing: %v", err)
	}
}

// unit brings v into canonical form with some passes off.
func unit(v *isa.Verified, opts ...ir.Option) (*backends.Unit, error) {
	f, _, err := ir.Canonical(v, opts...)
	if err != nil {
		return nil, err
	}
	return &backends.Unit{Source: v, IR: f, Hash: f.Hash()}, nil
}

// kernel compiles v once. A nil kernel without error means that the backend
// does not support it; the test says so in its log.
func (r *rig) kernel(v *isa.Verified) (backends.Kernel, error) {
	if k, ok := r.kernels[v]; ok {
		return k, nil
	}
	u, err := unit(v)
	if err != nil {
		return nil, err
	}
	k, err := r.device.Compile(u)
	var no *backends.Unsupported
	if errors.As(err, &no) {
		if !r.skipped[no.Error()] {
			r.t.Logf("unsupported: %v", no)
			r.skipped[no.Error()] = true
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.kernels[v] = k
	return k, nil
}

// array is device memory with guards around it.
type array struct {
	mem  backends.Memory
	at   int64 // byte offset of the array in mem
	host []byte
}

// newArray makes an array of n bytes that starts shift bytes after an aligned
// place. Its host copy is filled with the guard pattern; upload copies it over.
func (r *rig) newArray(n, shift int64) (*array, error) {
	total := 2*guardBytes + n + shift
	mem, err := r.device.Alloc(total)
	if err != nil {
		return nil, err
	}
	a := &array{mem: mem, at: guardBytes + shift, host: make([]byte, total)}
	for i := range a.host {
		a.host[i] = guard
	}
	return a, nil
}

func (a *array) addr() uintptr { return a.mem.Addr + uintptr(a.at) }

// put and get access element i (from the array's start) of the host copy.
func (a *array) put(t isa.Type, i int64, cell uint64) {
	p := a.host[a.at+i*int64(t.Size()):]
	for b := range t.Size() {
		p[b] = byte(cell >> (8 * b))
	}
}

func (a *array) get(t isa.Type, i int64) (cell uint64) {
	p := a.host[a.at+i*int64(t.Size()):]
	for b := range t.Size() {
		cell |= uint64(p[b]) << (8 * b)
	}
	return cell
}

func (r *rig) upload(a *array) error {
	return r.copy(a.mem.Addr, hostAddr(a.host), int64(len(a.host)), false, true)
}

func (r *rig) download(a *array) error {
	return r.copy(hostAddr(a.host), a.mem.Addr, int64(len(a.host)), true, false)
}

func (r *rig) copy(dst, src uintptr, n int64, dstHost, srcHost bool) error {
	return settle(r.stream.Copy(dst, src, n, dstHost, srcHost))
}

func hostAddr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// settle waits for the outcome of queued work.
func settle(e backends.Event, err error) error {
	for e != nil {
		if err = e.Wait(time.Second); !errors.Is(err, backends.ErrPending) {
			break
		}
	}
	return err
}

// same compares two cells of type t: all NaNs count as one, and floats may be
// up to ulp representable values apart.
func same(t isa.Type, a, b, ulp uint64) bool {
	if a == b {
		return true
	}
	if !t.Float() {
		return false
	}
	if isNaN(t, a) || isNaN(t, b) {
		return isNaN(t, a) && isNaN(t, b)
	}
	x, y := ordered(t, a), ordered(t, b)
	return ulp > 0 && max(x, y)-min(x, y) <= int64(ulp)
}

func isNaN(t isa.Type, cell uint64) bool {
	exponent := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
	return cell&exponent == exponent && cell&(1<<t.MantissaBits()-1) != 0
}

// ordered maps a float's cell to an integer so that neighbours differ by one.
func ordered(t isa.Type, cell uint64) int64 {
	sign := uint64(1) << (t.Bits() - 1)
	if cell&sign != 0 {
		return -int64(cell &^ sign)
	}
	return int64(cell)
}

// cellText shows a cell in a failure.
func cellText(t isa.Type, cell uint64) string { return fmt.Sprintf("%0*x", 2*t.Size(), cell) }
