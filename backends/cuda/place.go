package cuda

import (
	"runtime"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// asked is what Locate asks for, in the order of the values' places in located.
var asked = [...]driver.PointerAttribute{
	driver.PointerMemoryType, driver.PointerOrdinal, driver.PointerRangeStart, driver.PointerRangeSize,
}

// located is what the driver says of an address, which leaves as 0 what it does not know.
type located struct {
	kind, ordinal uint32
	start, size   uint64
	values        [len(asked)]unsafe.Pointer
}

// Locate asks the driver where memory lies. What it does not know is the host's, and
// not locked. All is asked at once: that form of the question is no error of such memory,
// which tools that watch the driver's calls would tell.
func (d *device) Locate(addr uintptr) backends.Place {
	var place backends.Place
	if addr == 0 {
		return place
	}
	// The driver writes to all of these, so they lie in one allocation, off the stack.
	at := new(located)
	at.values = [...]unsafe.Pointer{
		unsafe.Pointer(&at.kind), unsafe.Pointer(&at.ordinal), unsafe.Pointer(&at.start), unsafe.Pointer(&at.size),
	}
	_ = d.within(func() error {
		if d.api.PointerAttributes(uint32(len(asked)), &asked[0], &at.values[0], driver.Pointer(addr)) != driver.Success {
			return nil
		}
		switch at.kind {
		case driver.MemoryTypeHost:
			place.Kind = backends.Locked
		case driver.MemoryTypeDevice:
			place.Kind, place.Device = backends.OnDevice, int32(at.ordinal)
		default:
			return nil
		}
		if at.size > 0 {
			place.Bytes = int64(at.start + at.size - uint64(addr))
		}
		return nil
	})
	runtime.KeepAlive(at)
	return place
}

// Native is the stream's number for others.
func (s *stream) Native() uintptr { return uintptr(s.handle) }

// FreeBytes is how much memory the driver has left; 0: it does not say.
func (d *device) FreeBytes() int64 {
	at := new(struct{ free, total uint64 })
	if d.do(call{"cuMemGetInfo", func() driver.Result { return d.api.MemInfo(&at.free, &at.total) }}) != nil {
		return 0
	}
	return int64(at.free)
}
