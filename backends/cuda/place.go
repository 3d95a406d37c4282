package cuda

import (
	"runtime"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// Locate asks the driver where memory lies. What it does not know is the host's, and
// not locked.
func (d *device) Locate(addr uintptr) backends.Place {
	// The driver writes to all of these, so they lie in one allocation, off the stack.
	at := new(struct {
		kind, ordinal uint32
		start, size   uint64
	})
	var place backends.Place
	_ = d.within(func() error {
		ask := func(attribute driver.PointerAttribute, to unsafe.Pointer) bool {
			return d.api.PointerAttribute(to, attribute, driver.Pointer(addr)) == driver.Success
		}
		if addr == 0 || !ask(driver.PointerMemoryType, unsafe.Pointer(&at.kind)) {
			return nil
		}
		if ask(driver.PointerRangeStart, unsafe.Pointer(&at.start)) && ask(driver.PointerRangeSize, unsafe.Pointer(&at.size)) {
			place.Bytes = int64(at.start + at.size - uint64(addr))
		}
		switch at.kind {
		case driver.MemoryTypeHost:
			place.Kind = backends.Locked
		case driver.MemoryTypeDevice:
			if ask(driver.PointerOrdinal, unsafe.Pointer(&at.ordinal)) {
				place.Kind, place.Device = backends.OnDevice, int32(at.ordinal)
			}
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
