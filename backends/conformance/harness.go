package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
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
	units   map[*isa.Verified]*backends.Unit // of kernels
	skipped map[string]bool
	fuel    uint64                      // for the launches of random programs
	notes   backends.Memory             // of AllocHost: a launch's Record, and behind it its phase
	staging backends.Memory             // of AllocHost: what is copied passes through it
	spare   map[int64][]backends.Memory // that arrays had, by its size
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
	r := &rig{t: t, info: d.Info(), device: d, stream: s, kernels: map[*isa.Verified]backends.Kernel{}, units: map[*isa.Verified]*backends.Unit{}, skipped: map[string]bool{}, spare: map[int64][]backends.Memory{}}
	if r.notes, err = d.AllocHost(int64(unsafe.Sizeof(backends.Record{})) + 8); err != nil {
		t.Fatalf("%s: %v", b.Name(), err)
	}
	return r
}

func (r *rig) close() {
	for _, k := range r.kernels {
		k.Release()
	}
	err := r.device.FreeHost(r.notes)
	for _, list := range r.spare {
		for _, m := range list {
			err = errors.Join(err, r.device.Free(m))
		}
	}
	if r.staging.Bytes > 0 {
		err = errors.Join(err, r.device.FreeHost(r.staging))
	}
	if err = errors.Join(err, r.stream.Close(), r.device.Close()); err != nil {
		r.t.Errorf("closing: %v", err)
	}
}

// unit brings v into canonical form with some passes off, and tells which
// instructions its sites are.
func unit(v *isa.Verified, opts ...ir.Option) (*backends.Unit, ir.Srcs, error) {
	f, srcs, err := ir.Canonical(v, opts...)
	if err != nil {
		return nil, nil, err
	}
	return &backends.Unit{Source: v, IR: f, Hash: f.Hash()}, srcs, nil
}

// kernel compiles v once. A nil kernel without error means that the backend
// does not support it; the test says so in its log.
func (r *rig) kernel(v *isa.Verified) (backends.Kernel, error) {
	if k, ok := r.kernels[v]; ok {
		return k, nil
	}
	u, _, err := unit(v)
	if err != nil {
		return nil, err
	}
	k, err := r.device.Compile(u, backends.Variant{})
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
	r.kernels[v], r.units[v] = k, u
	return k, nil
}

// array is device memory with guards around it.
type array struct {
	mem  backends.Memory
	at   int64 // byte offset of the array in mem
	host []byte
}

// take returns memory for an array: a device's own may wait for all its work, and
// for that of other processes, so what arrays had before is used again. give has it back.
func (r *rig) take(n int64) (backends.Memory, error) {
	const step = 256
	n = (n + step - 1) / step * step
	if list := r.spare[n]; len(list) > 0 {
		r.spare[n] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	return r.device.Alloc(n)
}

func (r *rig) give(m backends.Memory) { r.spare[m.Bytes] = append(r.spare[m.Bytes], m) }

// newArray makes an array of n bytes that starts shift bytes after an aligned
// place. Its host copy is filled with the guard pattern; upload copies it over.
func (r *rig) newArray(n, shift int64) (*array, error) {
	total := 2*guardBytes + n + shift
	mem, err := r.take(total)
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
	staged, err := r.stage(int64(len(a.host)))
	if err != nil {
		return err
	}
	copy(staged, a.host)
	return r.settle(r.stream.Copy(a.mem.Addr, r.staging.Addr, int64(len(staged))))
}

func (r *rig) download(a *array) error {
	staged, err := r.stage(int64(len(a.host)))
	if err != nil {
		return err
	}
	err = r.settle(r.stream.Copy(r.staging.Addr, a.mem.Addr, int64(len(staged))))
	copy(a.host, staged)
	return err
}

// stage returns n bytes that copies pass through.
func (r *rig) stage(n int64) ([]byte, error) {
	if r.staging.Bytes < n {
		if r.staging.Bytes > 0 {
			if err := r.device.FreeHost(r.staging); err != nil {
				return nil, err
			}
		}
		var err error
		if r.staging, err = r.device.AllocHost(2 * n); err != nil {
			return nil, err
		}
	}
	return hostmem.Bytes(r.staging.Addr, n), nil
}

// record returns a cleared record and phase for one launch.
func (r *rig) record() (*backends.Record, *uint32) {
	rec := (*backends.Record)(hostmem.Pointer(r.notes.Addr))
	*rec = backends.Record{}
	phase := (*uint32)(hostmem.Pointer(r.notes.Addr + unsafe.Sizeof(*rec)))
	*phase = 0
	return rec, phase
}

// launch runs a launch to its end and returns its outcome.
func (r *rig) launch(k backends.Kernel, l *backends.Launch) error {
	if l.Record == nil {
		l.Record, _ = r.record()
	}
	if n := k.Workspace(l); n > 0 {
		m, err := r.device.Alloc(n)
		if err != nil {
			return err
		}
		defer func() { _ = r.device.Free(m) }()
		l.Workspace = m.Addr
	}
	if err := r.settle(r.stream.Launch(k, l)); err != nil {
		return err
	}
	return l.Record.Outcome()
}

// settle waits until queued work is done.
func (r *rig) settle(t backends.Ticket, err error) error {
	for err == nil {
		if err = r.stream.Wait(t, time.Second); err == nil {
			return nil
		}
		if errors.Is(err, backends.ErrPending) {
			err = nil
		}
	}
	return err
}

// same compares two cells of type t: all NaNs count as one, and floats of one
// sign may be up to ulp representable values apart. Signs agree whatever the
// bound, that of a zero too: 1/x tells.
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
	sign := uint64(1) << (t.Bits() - 1)
	x, y := a&^sign, b&^sign // in order, as floats are of one sign
	return (a^b)&sign == 0 && max(x, y)-min(x, y) <= ulp
}

func isNaN(t isa.Type, cell uint64) bool {
	exponent := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
	return cell&exponent == exponent && cell&(1<<t.MantissaBits()-1) != 0
}

// cellText shows a cell in a failure.
func cellText(t isa.Type, cell uint64) string { return fmt.Sprintf("%0*x", 2*t.Size(), cell) }
