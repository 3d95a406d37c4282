package core

import (
	"testing"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

func TestClassSizes(t *testing.T) {
	for n := int64(1); n < 1<<40; n = n*9/8 + 1 {
		for _, bytes := range []int64{n, n + 1, n - 1} {
			size := classSize(bytes)
			if size < bytes || size%minBlock != 0 || classSize(size) != size {
				t.Fatalf("class of %d bytes is %d", bytes, size)
			}
			if bytes >= 8*minBlock && float64(size) > 1.126*float64(bytes) {
				t.Fatalf("class of %d bytes is %d: more than an eighth is unused", bytes, size)
			}
		}
	}
}

func TestPoolAccounting(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	var blocks []block
	for i := range 2000 {
		b, err := d.pool.take(int64(1 + i*i%70000))
		must(t, err)
		if b.mem.Addr%minBlock != 0 || b.mem.Bytes < int64(1+i*i%70000) {
			t.Fatalf("block %+v", b)
		}
		blocks = append(blocks, b)
		if i%3 == 0 {
			d.pool.give(blocks[0])
			blocks = blocks[1:]
		}
	}
	seen := map[uintptr]bool{}
	for _, b := range blocks {
		for at := b.mem.Addr; at < b.mem.Addr+uintptr(b.size); at += minBlock {
			if seen[at] {
				t.Fatalf("0x%x was given out twice", at)
			}
			seen[at] = true
		}
	}
	s := d.MemoryStats()
	if rest := s.Reserved - s.InUse - s.Cached; rest != d.pool.slab.Bytes || s.Peak < s.InUse || s.Reused == 0 {
		t.Errorf("%+v, and %d bytes are left of the slab", s, d.pool.slab.Bytes)
	}
	for _, b := range blocks {
		d.pool.give(b)
	}
	if s := d.MemoryStats(); s.InUse != 0 {
		t.Errorf("%d bytes in use after everything was given back", s.InUse)
	}
}

// stubborn is a device's memory that is only counted, and not always taken back.
type stubborn struct {
	backends.Device
	next, bytes int64
	refuse      bool
}

func (d *stubborn) Alloc(bytes int64) (backends.Memory, error) {
	d.next += bytes
	d.bytes += bytes
	return backends.Memory{Addr: uintptr(1<<40 + d.next - bytes), Bytes: bytes}, nil
}

func (d *stubborn) Free(m backends.Memory) error {
	if d.refuse {
		return asynctest.ErrInjected
	}
	d.bytes -= m.Bytes
	return nil
}

// TestTheCacheIsBounded has sizes that never come again, and a device that does
// not take memory back.
func TestTheCacheIsBounded(t *testing.T) {
	d := &stubborn{}
	p := &pool{device: d, free: map[int64][]block{}}
	check := func() {
		t.Helper()
		cached := int64(0)
		for size, list := range p.free {
			cached += size * int64(len(list))
		}
		if p.stats.Cached != cached || p.stats.Reserved != d.bytes {
			t.Fatalf("%+v; the lists hold %d bytes, the device has given %d", p.stats, cached, d.bytes)
		}
	}
	for n := int64(1 << 20); n < 1<<30; n = n * 17 / 16 {
		b, err := p.take(n)
		must(t, err)
		p.give(b)
		check()
		if p.stats.Cached > max(cacheFloor, p.stats.Peak) {
			t.Fatalf("%s are cached, and no more than %s were in use", sizeText(p.stats.Cached), sizeText(p.stats.Peak))
		}
	}
	// The newest stay: they are what comes again.
	last, err := p.take(p.stats.Peak)
	must(t, err)
	if last.fresh {
		t.Error("the block used last was given back first")
	}
	p.give(last)
	d.refuse = true
	held := p.stats.Cached
	if held == 0 || p.trim() != 0 || p.stats.Cached != held {
		t.Errorf("blocks that the device does not take back are lost: %+v", p.stats)
	}
	check()
	for range 3 {
		b, err := p.take(3 << 30)
		must(t, err)
		p.give(b)
		check()
	}
	d.refuse = false
	p.trim()
	check()
	if p.stats.Cached != 0 || d.bytes != 0 {
		t.Errorf("%+v after trim; the device has given %d bytes", p.stats, d.bytes)
	}
}

func TestOutOfMemory(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{Memory: 64 << 20, Delay: 50 * time.Microsecond})
	ex := executorOn(t, d)
	// Memory of launches in flight and of freed buffers is found again when it is needed.
	for range 5 {
		b, err := ex.Allocate(10<<18, isa.F32, true)
		must(t, err)
		must(t, wait(b.Fill(Float(1))))
		b.Free()
		b, err = ex.Allocate(7<<18, isa.F32, false)
		must(t, err)
		must(t, wait(b.Fill(Float(1))))
		b.Free()
	}
	_, err := ex.Allocate(17<<20, isa.F32, true)
	wants(t, err, OutOfMemory, "allocate: ")
	// What fails once is asked for again, after work that is done has let go of its memory.
	again := executorOn(t, asyncDevice(t, asynctest.Options{FailAlloc: 1}))
	b, err := again.Allocate(10, isa.F32, true)
	must(t, err)
	if used := again.Used(); used != minBlock {
		t.Errorf("%d bytes on the account of one small block", used)
	}
	b.Free()
	must(t, again.SetQuota(1<<20))
	_, err = again.Allocate(1<<20, isa.F32, true)
	wants(t, err, OutOfMemory, "quota of 1 MiB")
	if again.Used() != 0 {
		t.Errorf("%d bytes on the account of an allocation that failed", again.Used())
	}
}
