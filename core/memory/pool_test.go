package memory

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/status"
)

// host is an allocator of the host's memory.
func host(t *testing.T) Allocator {
	d := hostmem.Device{Backend: t.Name()}
	return Allocator{Alloc: d.Alloc, Free: d.Free}
}

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
	p := NewPool(host(t), 0)
	var blocks []*Memory
	for i := range 2000 {
		b, err := p.take(request{size: classSize(int64(1 + i*i%70000))})
		require.NoError(t, err)
		if b.mem.Addr%minBlock != 0 || b.mem.Bytes < int64(1+i*i%70000) {
			t.Fatalf("block %+v", b)
		}
		blocks = append(blocks, b)
		if i%3 == 0 {
			p.give(blocks[0])
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
	s := p.Stats()
	if rest := s.Reserved - s.InUse - s.Cached; rest != p.slab.Bytes || s.Peak < s.InUse || s.Reused == 0 {
		t.Errorf("%+v, and %d bytes are left of the slab", s, p.slab.Bytes)
	}
	for _, b := range blocks {
		p.give(b)
	}
	if s := p.Stats(); s.InUse != 0 {
		t.Errorf("%d bytes in use after everything was given back", s.InUse)
	}
}

// TestStatistics after each step: the peak stays, and all blocks are counted.
func TestStatistics(t *testing.T) {
	p := NewPool(host(t), 0)
	const size = largeBlock
	step := func(want Stats) {
		t.Helper()
		require.Equal(t, want, p.Stats())
	}
	take := func() *Memory {
		m, _, err := p.Take(nil, size, nil)
		require.NoError(t, err)
		return m
	}
	step(Stats{})
	a, b := take(), take()
	step(Stats{InUse: 2 * size, Reserved: 2 * size, Peak: 2 * size, Allocations: 2})
	a.Release()
	step(Stats{InUse: size, Cached: size, Reserved: 2 * size, Peak: 2 * size, Allocations: 2})
	b.Release()
	a = take()
	step(Stats{InUse: size, Cached: size, Reserved: 2 * size, Peak: 2 * size, Allocations: 3, Reused: 1})
	require.EqualValues(t, size, p.Trim())
	step(Stats{InUse: size, Reserved: size, Peak: 2 * size, Allocations: 3, Reused: 1})
	require.NoError(t, p.SetLimit(size))
	require.Error(t, p.SetLimit(size-1))
	step(Stats{InUse: size, Reserved: size, Peak: 2 * size, Limit: size, Allocations: 3, Reused: 1})
	a.Release()
}

// stubborn is a device's memory that is only counted, and not always taken back.
type stubborn struct {
	next, bytes int64
	refuse      bool
	busy        bool // a call would wait
}

func (d *stubborn) Alloc(bytes int64) (backends.Memory, error) {
	d.next += bytes
	d.bytes += bytes
	return backends.Memory{Addr: uintptr(1<<40 + d.next - bytes), Bytes: bytes}, nil
}

func (d *stubborn) Free(m backends.Memory) error {
	if d.busy {
		panic("the device is asked, and would wait")
	}
	if d.refuse {
		return errors.New("refused")
	}
	d.bytes -= m.Bytes
	return nil
}

// TestTheCacheIsBounded has sizes that never come again, and a device that does
// not take memory back.
func TestTheCacheIsBounded(t *testing.T) {
	d := &stubborn{}
	p := NewPool(Allocator{Alloc: d.Alloc, Free: d.Free}, 0)
	check := func() {
		t.Helper()
		cached := int64(0)
		for at, list := range p.cache {
			for i := range list {
				if placeOf(list[i].size) != at {
					t.Fatalf("a block of %d bytes is in place %d", list[i].size, at)
				}
				cached += list[i].size
			}
		}
		if p.stats.Cached != cached || p.stats.Reserved != d.bytes {
			t.Fatalf("%+v; the lists hold %d bytes, the device has given %d", p.stats, cached, d.bytes)
		}
	}
	for n := int64(1 << 20); n < 1<<30; n = n * 17 / 16 {
		b, err := p.take(request{size: classSize(n)})
		require.NoError(t, err)
		if p.stats.Cached > max(cacheFloor, p.stats.Peak) {
			t.Fatalf("%s are cached, and no more than %s were in use", status.Size(p.stats.Cached), status.Size(p.stats.Peak))
		}
		d.busy = true // who frees does not wait for the device
		p.give(b)
		d.busy = false
		check()
	}
	// The newest stay: they are what comes again.
	last, err := p.take(request{size: classSize(p.stats.Peak)})
	require.NoError(t, err)
	if last.fresh {
		t.Error("the block used last was given back first")
	}
	p.give(last)
	d.refuse = true
	held := p.stats.Cached
	if held == 0 || p.Trim() != 0 || p.stats.Cached != held {
		t.Errorf("blocks that the device does not take back are lost: %+v", p.stats)
	}
	check()
	for range 3 {
		b, err := p.take(request{size: 3 << 30})
		require.NoError(t, err)
		p.give(b)
		check()
	}
	d.refuse = false
	p.Trim()
	check()
	if p.stats.Cached != 0 || d.bytes != 0 {
		t.Errorf("%+v after trim; the device has given %d bytes", p.stats, d.bytes)
	}
}

// TestSlabsThatComeAtOnce has two goroutines find the slab used up at the same
// time: only what the device gave as such goes back to it.
func TestSlabsThatComeAtOnce(t *testing.T) {
	given := map[backends.Memory]bool{}
	d := &stubborn{}
	nested := false
	var p *Pool
	p = NewPool(Allocator{
		Alloc: func(bytes int64) (backends.Memory, error) {
			if !nested { // as another goroutine would, between two locks
				nested = true
				_, err := p.take(request{size: 64})
				require.NoError(t, err)
			}
			m, err := d.Alloc(bytes)
			given[m] = true
			return m, err
		},
		Free: func(m backends.Memory) error {
			require.True(t, given[m], "%+v is not the device's own", m)
			return nil
		},
	}, 0)
	_, err := p.take(request{size: 64})
	require.NoError(t, err)
	p.Trim()
	s := p.Stats()
	require.Equal(t, s.Reserved, s.InUse+s.Cached+p.slab.Bytes)
}

// TestLimitsBelowASlab takes small blocks within limits that leave no slab.
func TestLimitsBelowASlab(t *testing.T) {
	p := NewPool(host(t), 1<<10)
	var seen []uintptr
	for range 16 {
		m, _, err := p.Take(nil, 50, nil)
		require.NoError(t, err)
		require.NotContains(t, seen, m.Addr)
		seen = append(seen, m.Addr)
	}
	_, _, err := p.Take(nil, 50, nil)
	require.ErrorContains(t, err, "would exceed the device's limit of 1 KiB")
}

// TestPlacesOfClasses demands a place of its own of every size class.
func TestPlacesOfClasses(t *testing.T) {
	last := -1
	for bytes := int64(1); bytes <= MaxBytes; {
		size := classSize(bytes)
		at := placeOf(size)
		if at <= last || at >= classes {
			t.Fatalf("the class of %d bytes has place %d after %d, of %d", size, at, last, classes)
		}
		last, bytes = at, size+1
	}
}

// TestBoundsOfSizes asks for the most that may be asked for, and sets limits at
// what is in use: bounds are told from what exceeds them.
func TestBoundsOfSizes(t *testing.T) {
	d := &stubborn{}
	p := NewPool(Allocator{Alloc: d.Alloc, Free: d.Free}, 0)
	var a Account
	m, _, err := p.Take(nil, MaxBytes, &a)
	require.NoError(t, err)
	_, _, err = p.Take(nil, MaxBytes+1, &a)
	require.ErrorContains(t, err, "64 PiB is more than any device has")
	require.Equal(t, status.OutOfMemory, status.CodeOf(err))
	require.EqualValues(t, MaxBytes, a.used)
	require.EqualValues(t, MaxBytes, p.Stats().InUse)

	for limit, message := range map[int64]string{
		-1: "set_memory_limit: limit is -1 bytes; expected 0 (none) or more", 0: "", 1: "set_memory_limit: limit of 1 bytes is below the 64 PiB in use",
		MaxBytes - 1: "below the 64 PiB in use", MaxBytes: "", MaxBytes + 1: "",
	} {
		before := p.Stats().Limit
		if err := p.SetLimit(limit); message != "" {
			require.ErrorContains(t, err, message)
			require.Equal(t, before, p.Stats().Limit)
		} else {
			require.NoError(t, err, limit)
			require.Equal(t, limit, p.Stats().Limit)
		}
	}
	require.NoError(t, p.SetLimit(MaxBytes+64))
	_, _, err = p.Take(nil, 64, nil)
	require.NoError(t, err, "to the limit")
	_, _, err = p.Take(nil, 64, nil)
	require.ErrorContains(t, err, "64 bytes more would exceed the device's limit")

	p.SetQuota(&a, MaxBytes+128)
	require.NoError(t, p.SetLimit(0))
	_, _, err = p.Take(nil, 128, &a)
	require.NoError(t, err, "to the quota")
	_, _, err = p.Take(nil, 1, &a)
	require.ErrorContains(t, err, "1 bytes more would exceed the executor's quota")
	m.Release()
	require.EqualValues(t, 128, a.used)
}

// TestTheOldestGoesFirst has blocks of many sizes come back in any order: what is
// more than the pool may cache goes back to the device in that order.
func TestTheOldestGoesFirst(t *testing.T) {
	d := &stubborn{}
	var freed []uintptr
	p := NewPool(Allocator{Alloc: d.Alloc, Free: func(m backends.Memory) error {
		freed = append(freed, m.Addr)
		return d.Free(m)
	}}, 0)
	var want []uintptr
	for _, mb := range []int64{200, 90, 170, 110, 230, 60, 140} { // each used while no other is
		m, err := p.take(request{size: classSize(mb << 20)})
		require.NoError(t, err)
		want = append(want, m.Addr)
		p.give(m)
	}
	m, err := p.take(request{size: 2 << 20}) // asks the device, which the rest goes back before
	require.NoError(t, err)
	p.give(m)
	require.NotEmpty(t, freed)
	require.Equal(t, want[:len(freed)], freed)
	require.LessOrEqual(t, p.Stats().Cached, int64(cacheFloor))
}

// TestMemoryThatCameBackMeanwhile has a device find no room, while another
// goroutine gives some back before it says so.
func TestMemoryThatCameBackMeanwhile(t *testing.T) {
	d := &stubborn{}
	var p *Pool
	full, ever := false, false
	p = NewPool(Allocator{Free: d.Free, Alloc: func(bytes int64) (backends.Memory, error) {
		if ever {
			return backends.Memory{}, backends.ErrOutOfMemory
		}
		if full {
			full = false
			require.EqualValues(t, 2<<20, p.trim(0))
			return backends.Memory{}, backends.ErrOutOfMemory
		}
		return d.Alloc(bytes)
	}}, 0)
	m, _, err := p.Take(nil, 2<<20, nil)
	require.NoError(t, err)
	m.Release()
	full = true
	asked := d.next
	given, err := p.ask(3<<20, time.Now())
	require.NoError(t, err)
	require.EqualValues(t, 1<<40+asked, given.Addr)

	ever = true
	for _, bytes := range []int64{1, 2 << 20} {
		_, _, err = p.Take(nil, bytes, nil)
		require.ErrorContains(t, err, "the device has no "+status.Size(classSize(bytes))+" left beside the 3 MiB taken")
	}
}

// slow is a stream whose work passes when it was looked at some times.
type slow struct {
	noting
	looks int
}

func (s *slow) Passed() backends.Ticket {
	s.looks++
	return backends.Ticket(s.looks / 8)
}

// TestMemoryThatWorkLetsGo has the host ask for memory that there is only when work
// on cached blocks, of the same or another class, has passed.
func TestMemoryThatWorkLetsGo(t *testing.T) {
	for _, bytes := range []int64{2 << 20, 3 << 20} {
		p := NewPool(host(t), 3<<20)
		l := &Line{Stream: &slow{}}
		m, _, err := p.Take(l, 2<<20, nil)
		require.NoError(t, err)
		m.After(l, 1, true)
		m.Release()
		_, _, err = p.Take(nil, bytes, nil)
		require.NoError(t, err)
	}
}
