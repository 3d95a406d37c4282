package cpu_test

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
)

// entering is the backend whose launches are entered by their callers where they can
// be, as core's callers do it.
type entering struct {
	*cpu.Backend
	entered *atomic.Int64
}

type enteringDevice struct {
	backends.Device
	of entering
}

type enteringStream struct {
	backends.Stream
	of entering
}

func (b entering) Open(i int) (backends.Device, error) {
	d, err := b.Backend.Open(i)
	return enteringDevice{d, b}, err
}

func (d enteringDevice) NewStream() (backends.Stream, error) {
	s, err := d.Device.NewStream()
	return enteringStream{s, d.of}, err
}

func (s enteringStream) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	if enter(k, l) {
		s.of.entered.Add(1)
		return 0, nil
	}
	return s.Stream.Launch(k, l)
}

// enter runs a launch, if it can be entered, by the code of one that was the same but for
// its addresses, and how these are aligned, and the parameters that have a place. It runs it twice, on the same memory: the second time the
// frame is as the first left it.
func enter(k backends.Kernel, l *backends.Launch) bool {
	other := *l
	other.Params = append([]uint64(nil), l.Params...)
	other.Slots = append([]backends.View(nil), l.Slots...)
	places := map[uintptr]uintptr{} // which begin with pages, as what the launch has need not
	for i := range other.Slots {
		a := &other.Slots[i].Addr
		if places[*a] == 0 {
			places[*a] = uintptr(len(places)+1) << 40
		}
		*a = places[*a]
	}
	find := func() []backends.Direct {
		parts, _ := k.(backends.Entered).Direct(&other, nil)
		return parts
	}
	parts := find()
	if parts == nil {
		return false
	}
	for _, p := range parts[0].Params {
		other.Params[p.Of] = 0
	}
	if parts = find(); parts == nil {
		return false
	}
	before := make([][]byte, len(l.Slots))
	for i := range l.Slots {
		before[i] = append([]byte(nil), bytesOf(&l.Slots[i])...)
	}
	restore := func() {
		for i := range l.Slots {
			copy(bytesOf(&l.Slots[i]), before[i])
		}
	}
	frames := make([]unsafe.Pointer, len(parts))
	for i := range parts {
		memory := make([]byte, len(parts[i].Frame)+backends.FrameAlign)
		at := unsafe.Pointer(unsafe.SliceData(memory))
		frames[i] = unsafe.Add(at, -uintptr(at)%backends.FrameAlign)
		copy(unsafe.Slice((*byte)(frames[i]), len(parts[i].Frame)), parts[i].Frame)
	}
	defer fpenv.Leave(fpenv.Enter())
	for range 2 {
		restore()
		for i := range parts {
			if enterPart(&parts[i], frames[i], l) {
				restore() // it is to be made again
				return false
			}
		}
	}
	return true
}

// enterPart enters a part of a launch, and reports whether it faults.
func enterPart(d *backends.Direct, frame unsafe.Pointer, l *backends.Launch) bool {
	cell := func(i int) *uint64 { return (*uint64)(unsafe.Add(frame, i)) }
	for _, p := range d.Addresses {
		of := uint64(uintptr(frame))
		if p.Of != backends.OwnFrame {
			of = uint64(l.Slots[p.Of].Addr)
		}
		*cell(p.At) = of + uint64(p.Offset)
	}
	for _, p := range d.Params {
		x := l.Params[p.Of]
		if by := 64 - p.Type.Bits(); p.Type.Signed() {
			x = uint64(int64(x) << by >> by)
		} else if p.Single {
			x = isa.Convert(isa.F32, p.Type, x)
		}
		*cell(p.At) = x
	}
	for _, w := range d.Words {
		*cell(w.At) = w.Value
	}
	purego.SyscallN(d.Code, uintptr(frame))
	return d.Fault >= 0 && *(*uint32)(unsafe.Add(frame, d.Fault)) != 0
}

func bytesOf(v *backends.View) []byte {
	lo, hi := int64(0), int64(v.Type.Size())
	for i := range v.Rank {
		if v.Shape[i] == 0 {
			return nil
		}
		reach := (v.Shape[i] - 1) * v.Stride[i] * int64(v.Type.Size())
		lo, hi = lo+min(reach, 0), hi+max(reach, 0)
	}
	if v.Bytes > hi {
		hi = v.Bytes
	}
	addr := v.Addr + uintptr(lo)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), hi-lo)
}

// TestEnteredLaunches: what their callers enter leaves the same bits as what goes by
// the stream, whatever addresses and parameters it was made with.
func TestEnteredLaunches(t *testing.T) {
	for _, l := range wholeLevels()[1:] {
		t.Run(l.String(), func(t *testing.T) {
			var entered atomic.Int64
			conformance.Run(t, func() backends.Backend { return entering{on(t, l, 2), &entered} })
			require.Greater(t, entered.Load(), int64(100))
		})
	}
}
