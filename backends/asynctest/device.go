package asynctest

import (
	"errors"
	"fmt"
	"math"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
)

// device is an opened device. The backend's lock guards what changes.
type device struct {
	backend *Backend
	number  int
	pool    *workers.Pool

	blocks    registry
	bytes     [2]int64             // allocated, by owner
	allocs    [2]int               // calls so far, by owner
	importing int                  // calls so far
	calls     [numKinds]int        // so far
	works     int                  // queued so far
	pending   map[int]bool         // the numbers of those not done
	streams   map[*stream]struct{} // open
	imports   []imported
	outside   *block // all memory of the host's, where it may be imported
	made      int    // streams so far
	lost      bool
	closed    bool
}

func newDevice(b *Backend, i int) *device {
	d := &device{backend: b, number: i, pool: workers.New(1), streams: map[*stream]struct{}{}, pending: map[int]bool{}}
	if b.options.HostVisible {
		d.outside = &block{owner: ofOthers, bytes: math.MaxInt64}
	}
	return d
}

func (d *device) Info() backends.Info { return d.backend.info(d.number) }

// usable says why the device cannot do what is asked for. The caller holds
// the lock.
func (d *device) usable(what string) error {
	switch {
	case d.closed:
		return fmt.Errorf("asynctest: %s: the device is closed", what)
	case d.lost:
		return fmt.Errorf("asynctest: %s: %w", what, backends.ErrLost)
	}
	return nil
}

func (d *device) Alloc(bytes int64) (backends.Memory, error) {
	o := &d.backend.options
	return d.alloc("Alloc", ofDevice, bytes, o.Memory, o.FailAlloc)
}

func (d *device) AllocHost(bytes int64) (backends.Memory, error) {
	o := &d.backend.options
	return d.alloc("AllocHost", ofHost, bytes, o.HostMemory, o.FailAllocHost)
}

func (d *device) alloc(what string, of owner, bytes, limit int64, fail int) (backends.Memory, error) {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	b.counts.Allocs++
	d.stall(b.options.Stall)
	if err := d.usable(what); err != nil {
		return backends.Memory{}, err
	}
	d.allocs[of]++
	if d.allocs[of] == fail {
		b.counts.Injected++
		return backends.Memory{}, fmt.Errorf("%s of %d bytes: %w: %w", what, bytes, ErrInjected, backends.ErrOutOfMemory)
	}
	if limit > 0 && bytes > limit-d.bytes[of] {
		return backends.Memory{}, fmt.Errorf("asynctest: %s of %d bytes: %d of %d are in use: %w", what, bytes, d.bytes[of], limit, backends.ErrOutOfMemory)
	}
	k, err := b.newBlock(of, bytes)
	if err != nil {
		return backends.Memory{}, err
	}
	d.bytes[of] += bytes
	d.blocks.add(k)
	*b.alive(of)++
	return backends.Memory{Addr: k.addr, Bytes: bytes}, nil
}

// alive counts the blocks of an owner.
func (b *Backend) alive(of owner) *int {
	if of == ofHost {
		return &b.counts.HostBlocks
	}
	return &b.counts.Blocks
}

// stall waits until the device has done all that is queued by now, where Options
// ask for it. What others queue meanwhile, maybe without end, is not waited for.
func (d *device) stall(asked bool) {
	last := d.works
	behind := func() bool {
		for number := range d.pending {
			if number <= last {
				return true
			}
		}
		return false
	}
	for asked && behind() {
		d.backend.idle.Wait()
	}
}

func (d *device) Free(m backends.Memory) error     { return d.free("Free", ofDevice, m) }
func (d *device) FreeHost(m backends.Memory) error { return d.free("FreeHost", ofHost, m) }

func (d *device) free(what string, of owner, m backends.Memory) error {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	b.counts.Frees++
	d.stall(b.options.Stall)
	if err := d.usable(what); err != nil {
		return err
	}
	k := d.blocks.named(m, of)
	if k == nil {
		return fmt.Errorf("asynctest: %s: %d bytes at %#x were not allocated here", what, m.Bytes, m.Addr)
	}
	if err := b.unused(what, k); err != nil {
		return err
	}
	d.blocks.take(m, of)
	d.bytes[of] -= k.bytes
	*b.alive(of)--
	return b.discard(k)
}

// find returns the block in which n bytes at addr lie: the device's own, those
// of AllocHost, or those of others that were imported.
func (d *device) find(addr uintptr, n int64) (*block, error) {
	if b := d.blocks.find(addr, n); b != nil {
		return b, nil
	}
	if d.backend.options.Unified || d.imported(addr, n) {
		if b := d.ofOthers(addr, n); b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x are in no memory that the device reaches", n, addr)
}

func (d *device) NewStream() (backends.Stream, error) {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	if err := d.usable("new stream"); err != nil {
		return nil, err
	}
	return d.newStream(newQueue(b), false), nil
}

func (d *device) WrapStream(native uintptr) (backends.Stream, error) {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	if err := d.usable("wrap a stream"); err != nil {
		return nil, err
	}
	var q *queue
	if f := b.foreign[native]; f != nil && f.device == d.number {
		q = f.queue
	}
	for s := range d.streams {
		if s.native == native && !s.wrapped {
			q = s.queue
		}
	}
	if q == nil {
		return nil, fmt.Errorf("asynctest: wrap a stream: device %d has none numbered %#x", d.number, native)
	}
	s := d.newStream(q, true)
	s.native = native
	return s, nil
}

// Locate tells where memory lies: the host's is locked that AllocHost gave.
func (d *device) Locate(addr uintptr) backends.Place {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	k := d.blocks.find(addr, 1)
	if k == nil && !b.options.HostVisible {
		k = d.ofOthers(addr, 1)
	}
	if k == nil {
		return backends.Place{}
	}
	place := backends.Place{Kind: backends.OnDevice, Device: int32(d.number), Bytes: int64(k.addr) + k.bytes - int64(addr)}
	if k.owner == ofHost {
		place.Kind, place.Device = backends.Locked, 0
	}
	return place
}

// FreeBytes is what Alloc would give; 0: there is no limit.
func (d *device) FreeBytes() int64 {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	if b.options.Memory == 0 {
		return 0
	}
	return b.options.Memory - d.bytes[ofDevice]
}

// Close frees what is still allocated.
func (d *device) Close() error {
	b := d.backend
	b.mu.Lock()
	defer b.unlock()
	switch {
	case d.closed:
		return errors.New("asynctest: the device is closed already")
	case len(d.streams) > 0:
		return fmt.Errorf("asynctest: close the device: %d of its streams are open", len(d.streams))
	}
	d.closed = true
	d.pool.Close()
	var err error
	for _, k := range d.blocks {
		*b.alive(k.owner)--
		err = errors.Join(err, b.discard(k))
	}
	d.blocks, d.bytes = nil, [2]int64{}
	b.counts.Devices--
	return errors.Join(err, b.empty())
}
