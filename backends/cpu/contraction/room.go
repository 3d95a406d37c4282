package contraction

import (
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// rooms are kept for products to come, but no more than mostKept bytes.
var rooms struct {
	mu   sync.Mutex
	free []backends.Memory
	kept int64
}

const mostKept = 256 << 20

// takeRoom returns memory of at least so many bytes.
func takeRoom(bytes int64) (backends.Memory, error) {
	rooms.mu.Lock()
	best := -1
	for i, m := range rooms.free {
		if m.Bytes >= bytes && (best < 0 || m.Bytes < rooms.free[best].Bytes) {
			best = i
		}
	}
	if best >= 0 {
		m := rooms.free[best]
		last := len(rooms.free) - 1
		rooms.free[best] = rooms.free[last]
		rooms.free = rooms.free[:last]
		rooms.kept -= m.Bytes
		rooms.mu.Unlock()
		return m, nil
	}
	rooms.mu.Unlock()
	addr, err := hostmem.Alloc(bytes)
	return backends.Memory{Addr: addr, Bytes: bytes}, err
}

// giveRoom keeps memory, or frees it.
func giveRoom(m backends.Memory) {
	rooms.mu.Lock()
	if rooms.kept+m.Bytes <= mostKept {
		rooms.free, rooms.kept = append(rooms.free, m), rooms.kept+m.Bytes
		rooms.mu.Unlock()
		return
	}
	rooms.mu.Unlock()
	_ = hostmem.Free(m.Addr, m.Bytes)
}

// Trim gives back the memory that is kept for launches to come, and returns its size in bytes.
func Trim() (bytes int64) {
	rooms.mu.Lock()
	free := rooms.free
	rooms.free, rooms.kept = nil, 0
	rooms.mu.Unlock()
	for _, m := range free {
		bytes += m.Bytes
		_ = hostmem.Free(m.Addr, m.Bytes)
	}
	return bytes
}
