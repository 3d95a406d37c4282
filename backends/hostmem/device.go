package hostmem

import (
	"fmt"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// Device is what all devices have in common whose memory is the host's and
// that work while they are called; they embed it.
type Device struct {
	// Backend is its name, for errors.
	Backend string
}

// Alloc is backends.Device.Alloc.
func (d *Device) Alloc(bytes int64) (backends.Memory, error) {
	addr, err := Alloc(bytes)
	if err != nil {
		return backends.Memory{}, fmt.Errorf("%s: %w", d.Backend, err)
	}
	return backends.Memory{Addr: addr, Bytes: bytes}, nil
}

// Free is backends.Device.Free.
func (d *Device) Free(m backends.Memory) error { return Free(m.Addr, m.Bytes) }

// AllocHost is Alloc.
func (d *Device) AllocHost(bytes int64) (backends.Memory, error) { return d.Alloc(bytes) }

// FreeHost is Free.
func (d *Device) FreeHost(m backends.Memory) error { return d.Free(m) }

// WrapStream refuses: such a device has no queue that others could own.
func (d *Device) WrapStream(uintptr) (backends.Stream, error) {
	return nil, &backends.Unsupported{Backend: d.Backend, What: "work on a stream of others", Why: "its work is done while it is called"}
}

// Close does nothing.
func (d *Device) Close() error { return nil }

// Stream is the part of such a device's streams that moves memory, and its
// tickets, which are all 0: what is asked for is done when the call returns.
// Streams embed it and add Launch.
type Stream struct {
	Backend string
}

// Copy is backends.Stream.Copy.
func (s *Stream) Copy(dst, src uintptr, bytes int64) (backends.Ticket, error) {
	if bytes < 0 {
		return 0, fmt.Errorf("%s: copy of %d bytes", s.Backend, bytes)
	}
	copy(Bytes(dst, bytes), Bytes(src, bytes))
	return 0, nil
}

// Fill is backends.Stream.Fill.
func (s *Stream) Fill(dst uintptr, cell uint64, size int, count int64) (backends.Ticket, error) {
	if count < 0 || size != 1 && size != 2 && size != 4 && size != 8 {
		return 0, fmt.Errorf("%s: fill of %d elements of %d bytes", s.Backend, count, size)
	}
	if count == 0 {
		return 0, nil
	}
	to := Bytes(dst, count*int64(size))
	if cell<<(64-8*size) == 0 {
		clear(to)
		return 0, nil
	}
	for i := range size {
		to[i] = byte(cell >> (8 * i))
	}
	for done := size; done < len(to); done *= 2 {
		copy(to[done:], to[:done])
	}
	return 0, nil
}

// Await does nothing: the other's work is done.
func (s *Stream) Await(backends.Stream, backends.Ticket) error { return nil }

// Passed is backends.Stream.Passed.
func (s *Stream) Passed() backends.Ticket { return 0 }

// Wait returns at once.
func (s *Stream) Wait(backends.Ticket, time.Duration) error { return nil }

// Close does nothing.
func (s *Stream) Close() error { return nil }
