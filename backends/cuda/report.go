package cuda

import (
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
)

// report is what one launch under way has beside its arguments: memory of the
// host that the device sees, for its record and the flag that cancels it, and
// memory of the device for its residues. It serves one launch after another.
type report struct {
	host   *reportMemory
	at     driver.Pointer // of host, as the device sees it
	device driver.Pointer // residues
	event  driver.Event
}

// reportMemory is a report's memory on the host.
type reportMemory struct {
	record  ptx.Record
	cancel  uint32
	_       uint32
	residue [isa.NumClasses]uint64
}

const (
	cancelAt     = unsafe.Offsetof(reportMemory{}.cancel)
	residueBytes = 8 * isa.NumClasses
)

func (s *stream) newReport() (*report, error) {
	r := &report{}
	api := s.device.api
	var host unsafe.Pointer
	err := s.device.do(
		call{"cuMemHostAlloc", func() driver.Result {
			return api.MemHostAlloc(&host, uint64(unsafe.Sizeof(reportMemory{})), driver.HostPortable|driver.HostMapped)
		}},
		call{"cuMemHostGetDevicePointer", func() driver.Result { return api.HostPointer(&r.at, host, 0) }},
		call{"cuMemAlloc", func() driver.Result { return api.MemAlloc(&r.device, residueBytes) }},
		call{"cuEventCreate", func() driver.Result { return api.EventCreate(&r.event, driver.EventNoTiming) }},
	)
	r.host = (*reportMemory)(host)
	if err != nil {
		_ = s.freeReport(r) // the first error is the one to tell
		return nil, classified(err)
	}
	*r.host = reportMemory{}
	return r, nil
}

func (s *stream) freeReport(r *report) error {
	api := s.device.api
	var calls []call
	if r.event != 0 {
		calls = append(calls, call{"cuEventDestroy", func() driver.Result { return api.EventDestroy(r.event) }})
	}
	if r.device != 0 {
		calls = append(calls, call{"cuMemFree", func() driver.Result { return api.MemFree(r.device) }})
	}
	if r.host != nil {
		calls = append(calls, call{"cuMemFreeHost", func() driver.Result { return api.MemFreeHost(unsafe.Pointer(r.host)) }})
	}
	return s.device.do(calls...)
}

// stop asks the launch's lanes to end.
func (r *report) stop() { atomic.StoreUint32(&r.host.cancel, 1) }
