package core

import (
	"runtime"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/status"
)

// Copies between a device that works by itself and memory of the host's that may move
// go by way of memory that does not: the device copies one piece while the host copies
// the next, or the last. A piece of 8 MiB takes the device some 150 µs by its bus, and one
// thread of the host's several times that, by estimate: nothing of it was measured.
const (
	stagePiece = 8 << 20
	stageCount = 4 // pieces of a copy that are under way at a time
)

// copyThreads bounds those that copy a piece, and copyShare is the least that one of
// them does: to wake it takes what copying half of that does.
const (
	copyThreads = 8
	copyShare   = 512 << 10
)

// directFloor is from how many bytes on it is asked whether the host's memory is locked:
// a smaller copy takes less than to ask, and than to wait for the device.
const directFloor = 256 << 10

// copyHost copies bytes from one place of the host's memory to another.
func copyHost(dst, src uintptr, bytes int64) {
	parts := min(bytes/copyShare, copyThreads, int64(runtime.GOMAXPROCS(0)))
	if parts < 2 {
		copy(hostmem.Bytes(dst, bytes), hostmem.Bytes(src, bytes))
		return
	}
	share := (bytes/parts + 4095) &^ 4095
	var wait sync.WaitGroup
	for at := share; at < bytes; at += share {
		wait.Add(1)
		go func() {
			n := min(share, bytes-at)
			copy(hostmem.Bytes(dst+uintptr(at), n), hostmem.Bytes(src+uintptr(at), n))
			wait.Done()
		}()
	}
	n := min(share, bytes)
	copy(hostmem.Bytes(dst, n), hostmem.Bytes(src, n))
	wait.Wait()
}

// locked reports whether the device, which works by itself, copies to and from the host's
// memory in place.
func (d *Device) locked(addr uintptr, bytes int64) bool {
	l, ok := d.dev.(backends.Locator)
	if !ok || !d.Info.Asynchronous {
		return false
	}
	p := l.Locate(addr)
	return p.Kind == backends.Locked && p.Bytes >= bytes
}

// Locate tells where memory lies that others have.
func (ex *Executor) Locate(addr uintptr) backends.Place {
	if l, ok := ex.device.dev.(backends.Locator); ok {
		return l.Locate(addr)
	}
	return backends.Place{}
}

// HostMemory is memory of the host's that does not move, so that copies take it in
// place. It is not zeroed, and lasts until its lease is released.
func (ex *Executor) HostMemory(bytes int64) (*Lease, error) {
	if bytes < 0 {
		return nil, Errorf(Invalid, "host memory: %d bytes", bytes)
	}
	m, _, err := ex.device.host.Take(nil, max(1, bytes), nil)
	if err != nil {
		return nil, ex.device.loss.Tell(status.Within("host memory", err))
	}
	return &Lease{mem: m}, nil
}

// staged is a piece that the device copies, or has.
type staged struct {
	memory *memory.Memory
	at, n  int64 // of the copy
	ticket backends.Ticket
}
