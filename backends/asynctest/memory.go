package asynctest

import (
	"errors"
	"fmt"
	"sort"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// away is added to the host's addresses. The sum is an address that neither
// x86-64 nor arm64 lets a program touch, so that whoever takes device memory
// for the host's learns it at once.
const away = 1 << 50

// owner says whose memory a block is.
type owner uint8

const (
	ofDevice owner = iota // Alloc's
	ofHost                // AllocHost's
	ofOthers              // NewForeignMemory's
)

// block is memory that works may use. The backend's lock guards it.
type block struct {
	owner   owner
	addr    uintptr // as the device and its users call it
	host    uintptr // where it really is
	bytes   int64
	history []access // by works that the host does not know to have passed
	pins    []pin    // by captured work
}

// pin is bytes of a block that a graph uses.
type pin struct {
	graph  *graph
	lo, hi int64
}

// at is the real place of a device's address.
func (b *block) at(addr uintptr) uintptr { return addr - b.addr + b.host }

func (b *block) String() string {
	return fmt.Sprintf("the %d bytes at %#x", b.bytes, b.addr)
}

// registry is a set of blocks, in order of address.
type registry []*block

func (r registry) search(addr uintptr) int {
	return sort.Search(len(r), func(i int) bool { return r[i].addr > addr })
}

// find returns the block in which n bytes at addr lie, or nil.
func (r registry) find(addr uintptr, n int64) *block {
	i := r.search(addr)
	if i == 0 {
		return nil
	}
	b := r[i-1]
	if at := addr - b.addr; at > uintptr(b.bytes) || uintptr(n) > uintptr(b.bytes)-at {
		return nil
	}
	return b
}

// touches reports whether a block has some of n bytes at addr.
func (r registry) touches(addr uintptr, n int64) bool {
	i := r.search(addr + uintptr(n))
	return i > 0 && addr < r[i-1].addr+uintptr(r[i-1].bytes)
}

func (r *registry) add(b *block) {
	i := r.search(b.addr)
	*r = append(*r, nil)
	copy((*r)[i+1:], (*r)[i:])
	(*r)[i] = b
}

// take removes the block that starts at m and returns it; nil if there is none
// like it.
func (r *registry) take(m backends.Memory, of owner) *block {
	b := r.named(m, of)
	if b != nil {
		i := r.search(b.addr)
		*r = append((*r)[:i-1], (*r)[i:]...)
	}
	return b
}

// named returns the block that m names, or nil.
func (r registry) named(m backends.Memory, of owner) *block {
	if i := r.search(m.Addr); i > 0 {
		if b := r[i-1]; b.addr == m.Addr && b.bytes == m.Bytes && b.owner == of {
			return b
		}
	}
	return nil
}

// newBlock allocates a block; it is not in a registry yet.
func (b *Backend) newBlock(of owner, bytes int64) (*block, error) {
	host, err := hostmem.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("asynctest: %w", err)
	}
	k := &block{owner: of, addr: host, host: host, bytes: bytes}
	if of != ofHost && !b.options.HostVisible {
		k.addr += away
	}
	return k, nil
}

// What freed memory is overwritten with, and how much of it is kept for a while
// to see whether somebody writes to it. Larger blocks go back at once.
const (
	poison         = 0xdb
	maxQuarantine  = 4 << 20
	maxQuarantined = 1 << 18 // of a block
)

// quarantine is freed memory in order of its freeing.
type quarantine struct {
	blocks []*block
	bytes  int64
}

// discard poisons a block that is in no registry any more. The caller holds
// the lock.
func (b *Backend) discard(k *block) error {
	if k.bytes > maxQuarantined {
		return hostmem.Free(k.host, k.bytes)
	}
	mem := hostmem.Bytes(k.host, k.bytes)
	for i := range mem {
		mem[i] = poison
	}
	q := &b.quarantine
	q.blocks, q.bytes = append(q.blocks, k), q.bytes+k.bytes
	var err error
	for q.bytes > maxQuarantine {
		err = errors.Join(err, b.releaseOldest())
	}
	return err
}

// releaseOldest gives the oldest block in quarantine back to the system.
func (b *Backend) releaseOldest() error {
	q := &b.quarantine
	k := q.blocks[0]
	q.blocks, q.bytes = q.blocks[1:], q.bytes-k.bytes
	for i, x := range hostmem.Bytes(k.host, k.bytes) {
		if x != poison {
			_ = b.breach("byte %d of %v was written after they were freed", i, k)
			break
		}
	}
	return hostmem.Free(k.host, k.bytes)
}

// empty releases all that is in quarantine.
func (b *Backend) empty() error {
	var err error
	for len(b.quarantine.blocks) > 0 {
		err = errors.Join(err, b.releaseOldest())
	}
	return err
}
